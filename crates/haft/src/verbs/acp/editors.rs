//! `haft acp install`: adds haft to the configuration of an editor that speaks the Agent Client Protocol, or removes it.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, ValueEnum};
use kit::Fault;
use serde_json::{Value, json};

use crate::{
    Options, Place,
    agent_factory::AgentOptions,
    print,
    verbs::mcp::install::{Entry, Format, NAME, stays_within, this_program},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Editor {
    Zed,
    Jetbrains,
    Vscode,
    Neovim,
    Emacs,
}

#[derive(Args)]
pub(super) struct Install {
    /// Editor
    #[arg(value_enum)]
    editor: Editor,
    /// Write to the workspace's configuration of this editor, for everybody who works on it [default: to your own]
    #[arg(long)]
    project: bool,
    /// Remove haft from the editor's configuration
    #[arg(long)]
    remove: bool,
    /// Replace another agent named haft
    #[arg(long)]
    force: bool,
    /// Print the change as a diff, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the entry to add by hand, and write nothing
    #[arg(long, conflicts_with_all = ["remove", "dry_run"])]
    print: bool,
}

impl Install {
    /// # Errors
    /// When the editor can't be configured that way, or its configuration can't be read, edited or written.
    pub(super) fn run(
        &self,
        options: &Options,
        agent: &AgentOptions,
        place: &Place,
    ) -> Result<ExitCode, Fault> {
        if options.trust {
            return Err(Fault::bad_args("`--trust` is for one run, and an installed agent runs many times")
                .next("Leave it out, and run `haft trust` in each workspace that you trust."));
        }
        let workspace = options.workspace()?;
        // Other people have the program at another path.
        let command = if self.project { NAME.to_owned() } else { this_program(place)? };
        let mut arguments = options.as_arguments();
        if let (Some(_), false) = (&options.dir, self.project) {
            arguments.extend(["--dir".to_owned(), workspace.display().to_string()]);
        }
        arguments.push("acp".to_owned());
        arguments.extend(agent.as_arguments());
        let Some(key) = self.editor.key() else {
            if self.project || self.remove || self.force || self.dry_run {
                let what = format!(
                    "the configuration of {} is a program, which haft doesn't change",
                    self.editor.title()
                );
                return Err(
                    Fault::bad_args(what).next("Leave the options out: the lines to add are printed.")
                );
            }
            print::out(&self.editor.lines(&command, &arguments)?);
            return Ok(ExitCode::SUCCESS);
        };
        let entry = self.editor.entry(&command, &arguments);
        let path = self.editor.file(self.project.then_some(&*workspace), place)?;
        if self.print {
            print::err(&format!("haft: for {}", path.display()));
            let block = serde_json::to_string_pretty(&json!({key: {NAME: entry}}));
            print::out(&block.map_err(|error| Fault::bug(format!("the entry can't be written: {error}")))?);
            return Ok(ExitCode::SUCCESS);
        }
        if self.project {
            stays_within(&workspace, &path)?;
        }
        let of_editor =
            Entry { format: Format::Json, key, remove: self.remove, force: self.force, is_ours: &is_ours };
        let next = || {
            if self.remove {
                "Sessions that are open go on.".to_owned()
            } else {
                self.editor.next().to_owned()
            }
        };
        of_editor.settle(&path, &entry, self.dry_run, place, next)?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Editor {
    fn title(self) -> &'static str {
        match self {
            Self::Zed => "Zed",
            Self::Jetbrains => "JetBrains IDEs",
            Self::Vscode => "VS Code",
            Self::Neovim => "Neovim",
            Self::Emacs => "Emacs",
        }
    }

    /// Returns the key that holds the agents, or `None` if the editor's configuration is a program.
    fn key(self) -> Option<&'static str> {
        match self {
            Self::Zed | Self::Jetbrains => Some("agent_servers"),
            Self::Vscode => Some("acp.agents"),
            Self::Neovim | Self::Emacs => None,
        }
    }

    fn entry(self, command: &str, arguments: &[String]) -> Value {
        match self {
            Self::Zed => json!({"type": "custom", "command": command, "args": arguments, "env": {}}),
            _ => json!({"command": command, "args": arguments, "env": {}}),
        }
    }

    /// Returns the configuration file that the editor reads.
    fn file(self, project: Option<&Path>, place: &Place) -> Result<PathBuf, Fault> {
        let home = place.home();
        let settings =
            || place.variable("XDG_CONFIG_HOME").map_or_else(|| home.join(".config"), PathBuf::from);
        Ok(match (self, project) {
            (Self::Vscode, Some(folder)) => folder.join(".vscode/settings.json"),
            (other, Some(_)) => {
                let what = format!("{} reads agents from your own settings only", other.title());
                return Err(Fault::bad_args(what).next("Leave `--project` out."));
            }
            (Self::Zed, None) => settings().join("zed/settings.json"),
            (Self::Jetbrains, None) => home.join(".jetbrains/acp.json"),
            (_, None) => {
                let application = if cfg!(target_os = "macos") {
                    home.join("Library/Application Support")
                } else {
                    settings()
                };
                application.join("Code/User/settings.json")
            }
        })
    }

    /// Returns the next step for the person.
    fn next(self) -> &'static str {
        match self {
            Self::Zed => "In Zed's agent panel choose `haft` in the menu of the `+` button.",
            Self::Jetbrains => "In the AI Chat choose `haft` among the agents.",
            _ => {
                "Install the extension `formulahendry.acp-client`, then run `ACP: Connect to Agent` and choose `haft`."
            }
        }
    }

    /// Returns the lines to add to a configuration that is a program.
    fn lines(self, command: &str, arguments: &[String]) -> Result<String, Fault> {
        let whole: Vec<&str> = std::iter::once(command).chain(arguments.iter().map(String::as_str)).collect();
        let quoted = |words: &[&str]| words.iter().map(|it| quoted(it)).collect::<Result<Vec<_>, _>>();
        Ok(match self {
            Self::Neovim => format!(
                "-- init.lua, with the plugin olimorris/codecompanion.nvim\n\
                 require(\"codecompanion\").setup({{\n\
                 \x20 adapters = {{ acp = {{\n\
                 \x20   haft = function()\n\
                 \x20     return require(\"codecompanion.adapters\").extend(\"gemini_cli\", {{\n\
                 \x20       name = \"haft\", formatted_name = \"haft\",\n\
                 \x20       commands = {{ default = {{ {} }} }},\n\
                 \x20       defaults = {{ auth_method = \"api-key\" }},\n\
                 \x20     }})\n\
                 \x20   end,\n\
                 \x20 }} }},\n\
                 \x20 interactions = {{ chat = {{ adapter = \"haft\" }} }},\n\
                 }})",
                quoted(&whole)?.join(", ")
            ),
            _ => format!(
                ";; init.el, with the package agent-shell\n\
                 (add-to-list 'agent-shell-agent-configs\n\
                 \x20 (agent-shell-make-agent-config\n\
                 \x20  :identifier 'haft :mode-line-name \"haft\" :buffer-name \"haft\"\n\
                 \x20  :shell-prompt \"haft> \" :shell-prompt-regexp \"haft> \"\n\
                 \x20  :client-maker (lambda (buffer)\n\
                 \x20    (acp-make-client :command {} :command-params '({})\n\
                 \x20                     :context-buffer buffer))))",
                quoted(&[command])?.join(""),
                quoted(whole.get(1..).unwrap_or_default())?.join(" ")
            ),
        })
    }
}

/// Returns a word as a string literal that is valid in Lua and in Lisp.
fn quoted(word: &str) -> Result<String, Fault> {
    if word.contains(char::is_control) {
        return Err(Fault::bad_args(format!("the argument {word:?} has a control character")));
    }
    Ok(format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\"")))
}

/// Returns whether this entry of an editor starts haft as an agent, perhaps with other options.
fn is_ours(there: &Value, entry: &Value) -> bool {
    let command = there.get("command").and_then(Value::as_str).unwrap_or_default();
    let is_haft = Path::new(command).file_name().is_some_and(|it| it == NAME)
        || entry.get("command").and_then(Value::as_str) == Some(command);
    let mut words = there.get("args").and_then(Value::as_array).into_iter().flatten();
    is_haft && words.any(|it| it == "acp")
}
