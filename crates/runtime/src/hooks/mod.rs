//! Hooks: commands and tools of the configuration that run around calls, prompts and sessions.
//!
//! A hook may refuse a call, change its arguments, and add context for the model. Changed arguments are parsed
//! and decided like any others, so a hook can't widen what a call may do. What a hook says is bounded and
//! redacted, and reaches the model as data with the hook's name.

mod claude;
mod command;
mod outcome;
mod settings;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use grep_matcher::Matcher as _;
use grep_regex::RegexMatcher;
use kit::Fault;

pub(crate) use claude::{Names, arguments_of, restored};
pub(crate) use command::{HookExecutions, run};
pub(crate) use outcome::{Outcome, RunResult, combined};
pub use settings::{InSettings, in_settings};

use crate::config::{HookEvent, HookSection, OnFailure, files_named, files_of_home, whole_name};

/// Time limit of a hook.
const SECONDS: u64 = 60;

/// The same at the end of a session, which a person waits for.
const SECONDS_AT_END: u64 = 10;

/// A hook in effect.
#[derive(Debug, Clone)]
pub struct Hook {
    /// The event at which it runs.
    pub event: HookEvent,
    /// The expression for the names of tools; empty for all.
    pub pattern: String,
    /// Its command or tool.
    pub does: Does,
    /// Its time limit.
    pub within: Duration,
    /// Whether its command may change the workspace.
    pub write: bool,
    /// The effect when it fails.
    pub on_failure: OnFailure,
    /// The owner of its configuration.
    pub whose: Whose,
    /// The file that has it, as a person reads it.
    pub file: String,
    /// Whether it sees tools and arguments by Claude Code's names.
    pub claude_names: bool,
    /// Whether its `allow` counts as the person's yes.
    pub may_allow: bool,
    /// Folders outside the workspace that its command reads.
    pub read: Vec<PathBuf>,
    matcher: Option<RegexMatcher>,
}

/// The command or tool of a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Does {
    /// A command line for `sh`.
    Command(String),
    /// A tool of this name.
    Tool(String),
}

/// The owner of a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// The person's own.
    Person,
    /// That of a workspace that the person trusts.
    Workspace,
}

/// The place where a hook was found.
#[derive(Debug, Clone, Copy)]
pub struct Found<'a> {
    /// The owner of the configuration.
    pub whose: Whose,
    /// The file, as a person reads it.
    pub file: &'a str,
    /// The workspace.
    pub workspace: &'a Path,
    /// The home folder.
    pub home: &'a Path,
    /// Whether it sees tools and arguments by Claude Code's names.
    pub claude_names: bool,
}

impl Hook {
    /// Makes a hook from its section.
    ///
    /// # Errors
    /// When it has neither command nor tool, or its expression is not valid.
    pub fn new(section: HookSection, found: Found<'_>) -> Result<Self, Fault> {
        let HookSection { event, r#match, command, tool, seconds, write, on_failure } = section;
        let pattern = r#match.unwrap_or_default();
        let does = match (command, tool) {
            (Some(command), None) => Does::Command(command),
            (None, Some(tool)) => Does::Tool(tool),
            _ => {
                let what = format!(
                    "a `[[hook]]` for {} needs either `command` or `tool`, and does not run",
                    event.name()
                );
                return Err(Fault::bad_args(what));
            }
        };
        let (mut may_allow, mut read) = (false, Vec::new());
        if let (Does::Command(command), Whose::Person) = (&does, found.whose) {
            // A file of the workspace may come from anywhere, and so may its answer.
            may_allow = files_named(command, found.workspace, found.home).is_empty();
            let scripts = files_of_home(command, found.workspace, found.home);
            read = scripts.into_iter().map(|file| beside(&file, found.home)).collect();
        }
        let otherwise = if event == HookEvent::SessionEnd { SECONDS_AT_END } else { SECONDS };
        Ok(Self {
            event,
            matcher: whole_name(&pattern)?,
            pattern,
            does,
            within: Duration::from_secs(seconds.unwrap_or(otherwise)),
            write,
            on_failure,
            whose: found.whose,
            file: found.file.to_owned(),
            claude_names: found.claude_names,
            may_allow,
            read,
        })
    }

    /// Returns its name in messages: the last part of its command, or its tool.
    pub fn name(&self) -> String {
        let text = match &self.does {
            Does::Command(command) => command.lines().next().unwrap_or_default().trim(),
            Does::Tool(tool) => tool,
        };
        match text.char_indices().nth(60) {
            Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
            None => text.to_owned(),
        }
    }

    fn is_for(&self, names: &[&str]) -> bool {
        // As in Claude Code, these events have nothing to compare with.
        let is_plain =
            matches!(self.event, HookEvent::PromptSubmit | HookEvent::Stop | HookEvent::SubagentStop);
        let Some(matcher) = self.matcher.as_ref().filter(|_| !is_plain) else { return true };
        names.iter().any(|name| matcher.is_match(name.as_bytes()).unwrap_or(false))
    }
}

/// Returns the folder of a script, whose other files it may need; only the script itself, where the folder is
/// the home folder or Claude Code's, which holds credentials.
fn beside(file: &Path, home: &Path) -> PathBuf {
    match file.parent() {
        Some(folder) if folder != home && folder != home.join(".claude") => folder.to_owned(),
        _ => file.to_owned(),
    }
}

/// The hooks of a runtime.
#[derive(Debug, Default)]
pub struct Hooks {
    list: Vec<Hook>,
}

impl Hooks {
    /// Creates the hooks, in the order in which their words are joined.
    pub fn new(list: Vec<Hook>) -> Self {
        Self { list }
    }

    /// Returns all hooks.
    pub fn list(&self) -> &[Hook] {
        &self.list
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the hooks of an event that match one of these names.
    pub fn of(&self, event: HookEvent, names: &[&str]) -> Vec<&Hook> {
        self.list.iter().filter(|it| it.event == event && it.is_for(names)).collect()
    }

    /// Returns whether this tool is itself a hook: then none runs around it.
    pub(crate) fn is_tool(&self, name: &str) -> bool {
        self.list.iter().any(|it| matches!(&it.does, Does::Tool(tool) if tool == name))
    }

    /// Returns the files of the workspace that hooks run: no tool changes them without approval.
    pub(crate) fn files(&self, workspace: &Path) -> Vec<PathBuf> {
        let commands = self.list.iter().filter_map(|it| match &it.does {
            Does::Command(command) => Some(command),
            Does::Tool(_) => None,
        });
        commands.flat_map(|it| files_named(it, workspace, Path::new("/"))).collect()
    }
}
