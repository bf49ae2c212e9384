//! Keys of haft.toml, one declaration each: from it come the merge of two files, `haft config` and the reference.
//!
//! The types of the keys are those of the fields of [`Config`]. A key whose merge is missing leaves the workspace's value
//! behind, which a debug build reports and a test fails on.

mod agents;
mod commands;
mod general;
mod merging;
mod plugins;
mod reach;

use std::fmt::Write as _;

use serde_json::Value;

use super::Config;

/// A table of haft.toml with its keys; the first one has no name and stands at the top.
#[derive(Debug)]
pub struct Section {
    /// As a file has it: `[net]`, `[[command]]`; `[secret.github]`, where a person chooses the second name.
    pub header: &'static str,
    /// What the section does.
    pub doc: &'static str,
    /// How the workspace's section is merged as a whole, where its keys are not merged one by one.
    merge: Option<Merge>,
    /// Its keys.
    pub keys: &'static [Key],
}

/// A key of haft.toml.
#[derive(Debug)]
pub struct Key {
    /// Its name in its section.
    pub name: &'static str,
    /// What it does, with units and limits.
    pub doc: &'static str,
    /// An example of its value, as TOML.
    pub example: &'static str,
    /// What holds where no file sets it.
    pub default: Fallback,
    /// What a workspace's value can do before it is trusted.
    pub workspace: Workspace,
    merge: Option<Merge>,
}

/// What holds where no file sets a key.
#[derive(Debug, Clone, Copy)]
pub enum Fallback {
    /// A value.
    Value(fn() -> Value),
    /// Words for what is not one value, such as `none`.
    Words(&'static str),
    /// Nothing: the section needs the key.
    Required,
}

/// What a workspace's value can do before a person trusts the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workspace {
    /// It counts, as no value of this key allows anything.
    Counts,
    /// It counts where it allows no more than the user's own value.
    Narrows,
    /// It is a number that counts where it is lower than the user's own, or than the default.
    Lowers,
    /// It does not count.
    NeedsTrust,
    /// It never counts.
    OwnFile,
}

/// Takes a key's value out of the workspace's configuration, and into the user's where it may.
type Merge = fn(&mut Config, &mut Config, &mut Gate);

/// Whether the workspace is trusted, and what was ignored since it is not.
#[derive(Debug, Default)]
pub(super) struct Gate {
    trusted: bool,
    /// The key or the value that is merged, as a person reads it.
    label: String,
    ignored: Vec<String>,
}

/// All sections, in the order in which they are shown.
pub static SECTIONS: &[&Section] = &[
    &general::TOP,
    &commands::COMMANDS,
    &commands::COMMAND,
    &reach::NET,
    &reach::SECRET,
    &reach::SEARCH,
    &reach::SSH,
    &reach::PROGRAMS,
    &plugins::TOOL,
    &plugins::MCP,
    &plugins::MCP_REMOTE,
    &plugins::MCP_OAUTH,
    &agents::AGENT,
    &agents::CHAT,
    &general::LIMITS,
    &agents::SUBAGENT,
    &agents::MODELS,
    &agents::MODELS_DIALECT,
];

/// The sections of which there are several, each with a name that a person chooses.
pub const NAMED: [&str; 4] = ["mcp", "models", "secret", "tool"];

/// Merges the workspace's configuration into the user's, key by key. Returns what holds, and a line for each value that is
/// ignored.
pub(super) fn merge(mut mine: Config, mut theirs: Config, trusted: bool) -> (Config, Vec<String>) {
    let mut gate = Gate { trusted, ..Gate::default() };
    for section in SECTIONS {
        if let Some(merge) = section.merge {
            gate.label = section.label();
            merge(&mut mine, &mut theirs, &mut gate);
        }
        for key in section.keys {
            if let Some(merge) = key.merge {
                gate.label = section.label_of(key);
                merge(&mut mine, &mut theirs, &mut gate);
            }
        }
    }
    debug_assert_eq!(theirs, Config::default(), "a key of the workspace is not merged");
    (mine, gate.ignored)
}

impl Gate {
    /// Whether a value counts that allows more than the user does; notes that it is ignored, if not.
    fn trusts(&mut self) -> bool {
        if !self.trusted {
            let line =
                format!("{} in the workspace's haft.toml is ignored until you run `haft trust`", self.label);
            self.ignored.push(line);
        }
        self.trusted
    }

    /// Notes that a value counts in the user's own file alone.
    fn own_file(&mut self) {
        let line = format!("{} in the workspace's haft.toml is ignored: it counts in your own", self.label);
        self.ignored.push(line);
    }
}

impl Section {
    /// The names of its tables: none for the top, `["models", "local"]`.
    pub fn path(&self) -> Vec<&'static str> {
        self.header.trim_matches(['[', ']']).split('.').filter(|it| !it.is_empty()).collect()
    }

    fn label(&self) -> String {
        match self.path().as_slice() {
            [named, ..] if NAMED.contains(named) => format!("`[{named}.NAME]`"),
            _ => format!("`{}`", self.header),
        }
    }

    fn label_of(&self, key: &Key) -> String {
        match self.header {
            "" => format!("`{}`", key.name),
            header => format!("`{}` of `{header}`", key.name),
        }
    }
}

impl Key {
    /// What it does, with what it needs in a workspace's file.
    pub fn about(&self) -> String {
        match self.workspace {
            Workspace::NeedsTrust => format!("{} {NEEDS_TRUST}", self.doc),
            Workspace::OwnFile => format!("{} {ONLY_OWN}", self.doc),
            Workspace::Counts | Workspace::Narrows | Workspace::Lowers => self.doc.to_owned(),
        }
    }

    /// A line of a file that sets it to the example.
    pub fn setting(&self) -> String {
        format!("{} = {}", self.name, self.example)
    }
}

impl Fallback {
    /// The default as a reader sees it; none, where the key is required.
    pub fn text(&self) -> Option<String> {
        match self {
            Self::Value(value) => toml::Value::try_from(value()).ok().map(|it| it.to_string()),
            Self::Words(words) => Some((*words).to_owned()),
            Self::Required => None,
        }
    }
}

/// What marks a key that a workspace's file can't set before it is trusted.
const NEEDS_TRUST: &str = "(needs trust)";

/// What marks a key that counts only in the user's own file.
const ONLY_OWN: &str = "(only in your own file)";

/// What stands before the first key of the reference.
const HEAD: &str = include_str!("keys/head.txt");

/// The longest line of the reference, in characters, without `# `.
const WIDTH: usize = 78;

/// The column of defaults.
const COLUMN: usize = 46;

/// The reference: every key as a comment, with what it does, an example and its default.
pub fn reference() -> String {
    let mut text = HEAD.to_owned();
    for section in SECTIONS {
        if !section.header.is_empty() {
            let _ = write!(text, "\n{}# {}\n", comment(section.doc), section.header);
        }
        for key in section.keys {
            if !key.doc.is_empty() {
                let _ = write!(text, "\n{}", comment(&key.about()));
            }
            let setting = format!("# {}", key.setting());
            let line = match key.default.text().map(|it| format!("# default: {it}")) {
                None => setting,
                Some(default) if setting.len() < COLUMN && COLUMN + default.chars().count() <= WIDTH + 2 => {
                    format!("{setting:COLUMN$}{default}")
                }
                Some(default) => format!("{setting}  {default}"),
            };
            let _ = writeln!(text, "{line}");
        }
    }
    text
}

/// Prose as comments of at most 80 characters a line.
fn comment(prose: &str) -> String {
    let mut lines = vec![String::new()];
    // What is marked stays in one piece.
    for word in prose
        .replace(NEEDS_TRUST, "(needs\u{a0}trust)")
        .replace(ONLY_OWN, "(only\u{a0}in\u{a0}your\u{a0}own\u{a0}file)")
        .split(' ')
    {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.iter().map(|line| format!("# {}\n", line.replace('\u{a0}', " "))).collect()
}

#[cfg(test)]
mod tests;
