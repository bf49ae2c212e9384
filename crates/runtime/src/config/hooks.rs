//! `[[hook]]`: commands and tools that run around calls, prompts and sessions.

use std::path::{Path, PathBuf};

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use kit::Fault;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    LONGEST,
    keys::{Fallback::*, declare::section, types::named},
    parse_path,
};

section! {
    /// `[[hook]]`: a command or a tool that haft runs at an event.
    #[derive(Eq)]
    pub struct HookSection, merged whole {
        /// A command or a tool that haft runs at an event. It reads JSON on standard input, with the field
        /// names of Claude Code's hooks, and may refuse a call, change its arguments or add context. In a
        /// workspace's file it needs trust. `haft hooks` lists the hooks in effect; docs/hooks.md explains
        /// them.
        "[[hook]]" {
            /// When it runs. Claude Code's names: before_tool is PreToolUse, after_tool is PostToolUse,
            /// prompt_submit is UserPromptSubmit; the others differ in spelling only.
            event: HookEvent {
                example: r#""before_tool""#,
                default: Required,
                workspace: NeedsTrust,
            }
            /// Regular expression for the whole name of the tool, by haft's name or Claude Code's; for
            /// session_start the source: startup or resume; for pre_compact: auto or manual.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            r#match: Option<String> {
                example: r#""edit|write""#,
                default: Words("all"),
                workspace: NeedsTrust,
            }
            /// Command line for `sh`. Exit code 0 goes on, 2 refuses with stderr as the reason, another one is
            /// a failure.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            command: Option<String> {
                example: r#""python3 ~/hooks/check.py""#,
                default: Words("none"),
                workspace: NeedsTrust,
            }
            /// Name of a tool that is called with the same JSON, in place of a command.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            tool: Option<String> {
                example: r#""guard""#,
                default: Words("none"),
                workspace: NeedsTrust,
            }
            /// Time limit.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            seconds: Option<u64> {
                unit: "seconds",
                range: 1..=LONGEST,
                example: "10",
                default: Words("60; 10 for session_end"),
                workspace: NeedsTrust,
            }
            /// Whether a command may change the workspace. Otherwise it is read-only for it.
            #[serde(default, skip_serializing_if = "std::ops::Not::not")]
            write: bool {
                example: "true",
                default: Words("false"),
                workspace: NeedsTrust,
            }
            /// The effect when it fails or takes too long: "continue" (with a note) or "deny".
            #[serde(default)]
            on_failure: OnFailure {
                example: r#""deny""#,
                default: Words("\"continue\""),
                workspace: NeedsTrust,
            }
        }
    }
}

/// The events at which hooks run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookEvent {
    /// Before a call is decided.
    BeforeTool,
    /// After a call has succeeded.
    AfterTool,
    /// After a call has failed.
    ToolFailed,
    /// A person's message, before the model gets it.
    PromptSubmit,
    /// The first turn of an agent's session.
    SessionStart,
    /// The end of an agent's session.
    SessionEnd,
    /// The model has nothing more to call.
    Stop,
    /// The same, for an agent that another one started.
    SubagentStop,
    /// A call waits for the person's approval.
    Notification,
    /// A conversation is about to be summarized.
    PreCompact,
}

/// The effect of a hook that fails.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// haft goes on.
    #[default]
    Continue,
    /// haft refuses, as if the hook had.
    Deny,
}

named!(OneOf: HookEvent, OnFailure);

impl HookEvent {
    /// All events, in the order of a session.
    pub const ALL: [Self; 10] = [
        Self::SessionStart,
        Self::PromptSubmit,
        Self::BeforeTool,
        Self::AfterTool,
        Self::ToolFailed,
        Self::Notification,
        Self::PreCompact,
        Self::Stop,
        Self::SubagentStop,
        Self::SessionEnd,
    ];

    /// Returns its name in haft.toml.
    pub fn name(self) -> &'static str {
        match self {
            Self::BeforeTool => "before_tool",
            Self::AfterTool => "after_tool",
            Self::ToolFailed => "tool_failed",
            Self::PromptSubmit => "prompt_submit",
            Self::SessionStart => "session_start",
            Self::SessionEnd => "session_end",
            Self::Stop => "stop",
            Self::SubagentStop => "subagent_stop",
            Self::Notification => "notification",
            Self::PreCompact => "pre_compact",
        }
    }

    /// Returns Claude Code's name of it.
    pub fn claude_name(self) -> &'static str {
        match self {
            Self::BeforeTool => "PreToolUse",
            Self::AfterTool => "PostToolUse",
            Self::ToolFailed => "PostToolUseFailure",
            Self::PromptSubmit => "UserPromptSubmit",
            Self::SessionStart => "SessionStart",
            Self::SessionEnd => "SessionEnd",
            Self::Stop => "Stop",
            Self::SubagentStop => "SubagentStop",
            Self::Notification => "Notification",
            Self::PreCompact => "PreCompact",
        }
    }

    /// Returns the event of either name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name || it.claude_name() == name)
    }

    /// Returns whether it is about a call.
    pub fn is_of_call(self) -> bool {
        matches!(self, Self::BeforeTool | Self::AfterTool | Self::ToolFailed)
    }
}

impl HookSection {
    /// Checks that its expression is valid.
    pub(super) fn check(&self) -> Result<(), Fault> {
        whole_name(self.r#match.as_deref().unwrap_or_default()).map(drop)
    }
}

/// Parses an expression for a whole name; nothing stands for every name.
///
/// # Errors
/// When it is not a regular expression.
pub(crate) fn whole_name(pattern: &str) -> Result<Option<RegexMatcher>, Fault> {
    if pattern.is_empty() || pattern == "*" {
        return Ok(None);
    }
    let parsed = RegexMatcherBuilder::new().build(&format!("^(?:{pattern})$"));
    parsed.map(Some).map_err(|error| {
        Fault::bad_args(format!("`match = {pattern:?}` of `[[hook]]` is not a regular expression: {error}"))
    })
}

/// Returns the files in the workspace that a command line names, whether they exist or not: a person's trust
/// covers their content, and no tool changes them without approval.
///
/// A word counts if it names a place in the workspace, alone or after `$CLAUDE_PROJECT_DIR`.
pub(crate) fn files_named(command: &str, workspace: &Path, home: &Path) -> Vec<PathBuf> {
    let expanded = command
        .replace("${CLAUDE_PROJECT_DIR}", "$CLAUDE_PROJECT_DIR")
        .replace("\"$CLAUDE_PROJECT_DIR\"", "$CLAUDE_PROJECT_DIR")
        .replace("$CLAUDE_PROJECT_DIR", &workspace.display().to_string());
    words(&expanded)
        .map(|word| parse_path(&workspace.join(parse_path(Path::new(word), home)), home))
        .filter(|path| path.starts_with(workspace) && path != workspace)
        .filter(|path| path.is_file() || path.is_symlink())
        .collect()
}

/// Returns the files outside the workspace, below the home folder, that a command line names.
pub(crate) fn files_of_home(command: &str, workspace: &Path, home: &Path) -> Vec<PathBuf> {
    let home_text = home.display().to_string();
    let expanded = command.replace("${HOME}", &home_text).replace("$HOME", &home_text);
    words(&expanded)
        .map(|word| parse_path(Path::new(word), home))
        .filter(|path| path.starts_with(home) && !path.starts_with(workspace) && path.is_file())
        .collect()
}

fn words(command: &str) -> impl Iterator<Item = &str> {
    let parts = command.split(|it: char| it.is_whitespace() || "\"'`;|&()<>=,{}".contains(it));
    parts.filter(|it| !it.is_empty() && !it.starts_with('-'))
}

/// Returns every text under the key `command`, at any depth: the command lines in a settings file.
pub(crate) fn commands_in(settings: &Value) -> Vec<String> {
    match settings {
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(name, value)| match value {
                Value::String(text) if name == "command" => vec![text.clone()],
                value => commands_in(value),
            })
            .collect(),
        Value::Array(values) => values.iter().flat_map(commands_in).collect(),
        _ => Vec::new(),
    }
}
