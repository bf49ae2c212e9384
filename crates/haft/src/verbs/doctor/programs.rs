//! Optional programs: which of them are on this machine, what each is for, and how to install it.

use std::path::PathBuf;

use runtime::config::ProgramsSection;
use serde_json::{Value, json};

use crate::Place;

/// A program that haft can do without.
struct Optional {
    name: &'static str,
    /// The names of its executable.
    names: &'static [&'static str],
    purpose: &'static str,
    install: &'static str,
}

const OPTIONAL: [Optional; 8] = [
    Optional {
        name: "bash",
        names: &["bash"],
        purpose: "lasting shell sessions; commands alone run with sh",
        install: "apt install bash",
    },
    Optional {
        name: "python3",
        names: &["python3", "python"],
        purpose: "the `python` tool, and your own tools in Python",
        install: "apt install python3",
    },
    Optional {
        name: "uv",
        names: &["uv"],
        purpose: "packages that your Python tools declare",
        install: "pip install uv, or https://docs.astral.sh/uv",
    },
    Optional { name: "git", names: &["git"], purpose: "git commands of a model", install: "apt install git" },
    Optional {
        name: "npx",
        names: &["npx"],
        purpose: "MCP servers that are npm packages",
        install: "apt install npm",
    },
    Optional {
        name: "chromium",
        names: &["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"],
        purpose: "web pages that need JavaScript (`web_fetch` with `render`)",
        install: "apt install chromium",
    },
    Optional {
        name: "openscad",
        names: &["openscad"],
        purpose: "3D models (`model_3d`, `render_3d`)",
        install: "apt install openscad",
    },
    Optional {
        name: "bwrap",
        names: &["bwrap"],
        purpose: "the sandbox, where the kernel denies namespaces to haft",
        install: "apt install bubblewrap",
    },
];

/// An optional program, with the result of the search.
pub(super) struct Program {
    optional: &'static Optional,
    found: Option<PathBuf>,
    /// The path that haft.toml names, where there is no program.
    wrong: Option<PathBuf>,
}

/// Looks for the optional programs: where haft.toml names them, else on the PATH.
pub(super) fn programs(place: &Place, configured: &ProgramsSection) -> Vec<Program> {
    let home = place.home();
    OPTIONAL
        .iter()
        .map(|optional| {
            let named = match optional.name {
                "chromium" => configured.chromium.as_deref(),
                "openscad" => configured.openscad.as_deref(),
                _ => None,
            };
            let named = named.map(|it| runtime::config::parse_path(it, &home));
            match named {
                Some(path) if path.is_file() => Program { optional, found: Some(path), wrong: None },
                Some(path) => Program { optional, found: None, wrong: Some(path) },
                None => Program { optional, found: place.on_path(optional.names), wrong: None },
            }
        })
        .collect()
}

impl Program {
    /// Returns the program and its purpose, and below that the remedy if it is missing.
    pub(super) fn as_text(&self) -> String {
        let Optional { name, purpose, install, .. } = self.optional;
        let (state, next) = match (&self.found, &self.wrong) {
            (Some(_), _) => ("found", None),
            (None, None) => ("missing", Some(format!("to install it: {install}"))),
            (None, Some(path)) => {
                ("missing", Some(format!("haft.toml names {}, where there is none", path.display())))
            }
        };
        let mut text = format!("{name:<9} {state:<8} {purpose}\n");
        next.into_iter().for_each(|it| text.push_str(&format!("{:18} {it}\n", "")));
        text
    }

    pub(super) fn as_json(&self) -> Value {
        let Optional { name, purpose, install, .. } = self.optional;
        json!({"name": name, "path": self.found, "purpose": purpose, "install": install})
    }
}
