//! `haft new-tool`: a starter tool and its test, from a template.

use std::{
    fs, io,
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, ValueEnum};
use kit::{
    Fault, Kind,
    model_tools::{ENABLED, OWN, own_files},
};

use crate::{Options, Place, print};

#[derive(Args)]
pub struct NewTool {
    /// Name of the tool: letters, digits and `_`
    name: String,
    /// Language
    #[arg(long, value_enum, default_value_t = Lang::Python)]
    lang: Lang,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Lang {
    /// A Python file
    Python,
    /// A shell script
    Sh,
    /// A Cargo project, which you build
    Rust,
}

/// The placeholder for the tool's name in a template.
const PLACE: &str = "TOOL_NAME";

impl NewTool {
    /// # Errors
    /// When the name is not valid for a tool, or is taken, or the files can't be written.
    pub fn run(&self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        let workspace = options.workspace()?;
        // `word-count` is what people call files; a model calls `word_count`.
        let name = self.name.replace('-', "_");
        own_files(&name)?;
        free(&workspace, &place.config, &name)?;
        let folder = workspace.join(OWN);
        for link in [workspace.join(".haft"), folder.clone()] {
            if link.is_symlink() {
                return Err(Fault::denied(format!("`{}` is a symlink; nothing was written", link.display()))
                    .next("haft follows no symlinks to a workspace's tools: make it a folder."));
            }
        }
        let mut said = Vec::new();
        if name != self.name {
            said.push(format!("named `{name}`: a tool's name can't have a `-`"));
        }
        for (path, text, mode) in self.lang.files(&name) {
            let path = format!("{OWN}/{path}");
            write(&workspace.join(&path), &text, mode).map_err(|error| failed(&path, error))?;
            said.push(format!("wrote {path}"));
        }
        if let Some(line) = enable(&folder.join(ENABLED), &name)? {
            said.push(line);
        }
        let dir = options.dir.as_ref().map(|dir| format!(" --dir {}", quoted(dir))).unwrap_or_default();
        let trusted = options.trusts_tools(place, &workspace);
        if !trusted {
            said.push(format!("A workspace's own tools run after you trust it: haft{dir} trust"));
        }
        let test = self.lang.test(&name);
        let (build, test) = match &options.dir {
            None => (self.lang.build(&name), test),
            Some(_) => (
                self.lang.build(&name).map(|it| format!("cd {} && {it}", quoted(&workspace))),
                format!("cd {} && {test}", quoted(&workspace)),
            ),
        };
        said.extend(build.map(|build| format!("build: {build}")));
        said.push(format!("call:  haft{dir} call {name} '{{\"text\": \"one two three\"}}'"));
        said.push(format!("test:  {test}"));
        print::out(&said.join("\n"));
        Ok(ExitCode::SUCCESS)
    }
}

impl Lang {
    /// Returns its files below the folder of tools, each with its mode.
    fn files(self, name: &str) -> Vec<(String, String, u32)> {
        let files: &[(&str, &str, u32)] = match self {
            Self::Python => &[
                ("TOOL_NAME.py", include_str!("new_tool/tool.py"), 0o666),
                ("_test_TOOL_NAME.py", include_str!("new_tool/test.py"), 0o666),
            ],
            Self::Sh => &[
                ("TOOL_NAME.sh", include_str!("new_tool/tool.sh"), 0o777),
                ("_test_TOOL_NAME.sh", include_str!("new_tool/test.sh"), 0o777),
            ],
            Self::Rust => &[
                ("TOOL_NAME/Cargo.toml", include_str!("new_tool/Cargo.toml.txt"), 0o666),
                ("TOOL_NAME/src/main.rs", include_str!("new_tool/main.rs.txt"), 0o666),
                ("TOOL_NAME/tool.toml", include_str!("new_tool/tool.toml.txt"), 0o666),
                ("TOOL_NAME/.gitignore", "/target\n", 0o666),
            ],
        };
        let named = |text: &str| text.replace(PLACE, name);
        files.iter().map(|(path, text, mode)| (named(path), named(text), *mode)).collect()
    }

    fn build(self, name: &str) -> Option<String> {
        matches!(self, Self::Rust)
            .then(|| format!("cargo build --release --manifest-path {OWN}/{name}/Cargo.toml"))
    }

    fn test(self, name: &str) -> String {
        match self {
            Self::Python => format!("python3 {OWN}/_test_{name}.py"),
            Self::Sh => format!("sh {OWN}/_test_{name}.sh"),
            Self::Rust => format!("cargo test --manifest-path {OWN}/{name}/Cargo.toml"),
        }
    }
}

/// Checks that no tool has this name: neither a built-in one nor one of the person or the workspace.
fn free(workspace: &Path, config: &Path, name: &str) -> Result<(), Fault> {
    let next = "Choose another name.";
    if tools::toolsets().filter_map(tools::toolset).flatten().any(|tool| tool.spec().name == name) {
        return Err(Fault::bad_args(format!("`{name}` is a built-in tool; nothing was written")).next(next));
    }
    for folder in [config.join("tools"), workspace.join(OWN)] {
        let there = |path: &PathBuf| path.symlink_metadata().is_ok();
        let files = ["{}.py", "{}.sh", "{}", "{}.tool.toml", "_test_{}.py", "_test_{}.sh"];
        if let Some(path) = files.iter().map(|it| folder.join(it.replace("{}", name))).find(there) {
            return Err(
                Fault::bad_args(format!("`{}` exists; nothing was written", path.display())).next(next)
            );
        }
    }
    Ok(())
}

/// Writes a file that does not exist, and the folders on its way.
fn write(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(text.as_bytes())
}

/// Adds the new tool to the list of enabled tools, if there is one.
fn enable(list: &Path, name: &str) -> Result<Option<String>, Fault> {
    let shown = format!("{OWN}/{ENABLED}");
    let text = match fs::read_to_string(list) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(&shown, error)),
    };
    let Some(new) = tools::with_enabled(&text, name) else {
        return Ok(Some(format!("{shown} is not a list of names and was not changed")));
    };
    fs::write(list, new).map_err(|error| failed(&shown, error))?;
    Ok(Some(format!("added to {shown}")))
}

fn failed(path: &str, error: io::Error) -> Fault {
    Fault::new(Kind::Unavailable, format!("can't write `{path}`: {error}")).caused_by(error)
}

/// Returns a path as a word of a shell.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |it: char| it.is_alphanumeric() || "/._-+".contains(it);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}
