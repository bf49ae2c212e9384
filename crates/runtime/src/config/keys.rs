//! Keys of haft.toml, one declaration each (`section!` in `declare`): its type, text, default, and merge.
//!
//! The declarations generate the structs that serde reads, the merge of two layers, `haft config`, the reference
//! and its page in the documentation.

pub(super) mod declare;
pub(super) mod merging;
pub(super) mod types;

use std::{collections::BTreeMap, fmt::Write as _, ops::RangeInclusive};

use serde_json::Value;

use super::{Config, Tables};
use merging::{Gate, Upper};
pub use types::Type;

/// A table of haft.toml with its keys; the top-level one has no name.
#[derive(Debug)]
pub struct Section {
    /// The header in a file: `[net]`, `[[command]]`; `[secret.github]`, where a person chooses the second
    /// name.
    pub header: &'static str,
    /// The description of the section.
    pub doc: &'static str,
    /// Whether its keys are merged one by one; otherwise the section is merged as a whole.
    pub by_key: bool,
    /// Its keys.
    pub keys: &'static [Key],
}

/// A key of haft.toml.
#[derive(Debug)]
pub struct Key {
    /// Its name in its section.
    pub name: &'static str,
    /// Its description, with limits.
    pub doc: &'static str,
    /// The type of its value.
    pub kind: Type,
    /// The unit of a number.
    pub unit: Option<&'static str>,
    /// The smallest and the largest number; numbers beyond are clamped.
    pub range: Option<RangeInclusive<u64>>,
    /// The command-line option that sets it.
    pub option: Option<&'static str>,
    /// An example of its value, as TOML.
    pub example: &'static str,
    /// The default, where no file sets it.
    pub default: Fallback,
    /// The effect of a workspace's value before the workspace is trusted.
    pub workspace: Workspace,
}

/// The default of a key.
#[derive(Debug, Clone, Copy)]
pub enum Fallback {
    /// A value.
    Value(fn() -> Value),
    /// Text for a default that is not one value, such as `none`.
    Words(&'static str),
    /// None: the section needs the key.
    Required,
}

/// The effect of a workspace's value before a person trusts the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workspace {
    /// It counts, as no value of this key grants anything.
    Counts,
    /// It counts if it grants no more than the user's own value.
    Narrows,
    /// It is a number that counts if it is lower than the user's own, or than the default.
    Lowers,
    /// It does not count.
    NeedsTrust,
    /// It never counts.
    OwnFile,
}

/// A struct for a section, made by [`section!`](declare).
pub(super) trait Declared {
    /// Returns its sections in the order in which they are shown, and those inside.
    fn sections() -> Vec<&'static Section>;

    /// Returns its name, as a person reads it.
    fn label() -> String {
        label(Self::sections().first().map_or("", |it| it.header))
    }
}

/// A value with numbers that have ranges.
pub(super) trait Bounded {
    /// Clamps the numbers.
    fn bound(&mut self);
}

impl<T: Bounded> Bounded for BTreeMap<String, T> {
    fn bound(&mut self) {
        self.values_mut().for_each(T::bound);
    }
}

impl<T: Bounded> Bounded for Vec<T> {
    fn bound(&mut self) {
        self.iter_mut().for_each(T::bound);
    }
}

impl<T: Bounded> Bounded for Tables<T> {
    fn bound(&mut self) {
        self.user.bound();
        self.workspace.bound();
    }
}

/// Returns all sections, in the order in which they are shown.
pub fn sections() -> Vec<&'static Section> {
    Config::sections()
}

/// The sections that can occur several times, each with a name that a person chooses.
pub const NAMED: [&str; 4] = ["mcp", "models", "secret", "tool"];

/// Merges a layer into those below it, key by key. Returns the result, and a line for each ignored value.
pub(super) fn merge(mut mine: Config, theirs: Config, from: Upper) -> (Config, Vec<String>) {
    let mut gate = Gate::new(from);
    Config::merge(&mut mine, theirs, &mut gate);
    (mine, gate.ignored)
}

pub(super) fn clamp(number: &mut Option<u64>, range: RangeInclusive<u64>) {
    *number = number.map(|it| it.clamp(*range.start(), *range.end()));
}

/// Returns the name of a key whose field is a keyword: `match` for `r#match`.
pub(super) const fn plain(field: &'static str) -> &'static str {
    match field.as_bytes() {
        [b'r', b'#', ..] => field.split_at(2).1,
        _ => field,
    }
}

fn tables(header: &'static str) -> impl Iterator<Item = &'static str> {
    header.trim_matches(['[', ']']).split('.').filter(|it| !it.is_empty())
}

fn label(header: &'static str) -> String {
    match tables(header).next() {
        Some(named) if NAMED.contains(&named) => format!("`[{named}.NAME]`"),
        _ => format!("`{header}`"),
    }
}

pub(super) fn label_of(header: &str, key: &str) -> String {
    match header {
        "" => format!("`{key}`"),
        header => format!("`{key}` of `{header}`"),
    }
}

impl Section {
    /// Returns the names of its tables: none for the top, `["models", "local"]`.
    pub fn path(&self) -> Vec<&'static str> {
        tables(self.header).collect()
    }
}

impl Key {
    /// Describes its type, with unit and range.
    pub fn kind(&self) -> String {
        let unit = self.unit.map(|it| format!("{it}, ")).unwrap_or_default();
        let range = self.range.as_ref().map(|it| format!(", {} to {}", it.start(), it.end()));
        format!("{unit}{}{}", self.kind, range.unwrap_or_default())
    }

    /// Returns its description, with the trust that it needs in a workspace's file.
    pub fn about(&self) -> String {
        match self.workspace {
            Workspace::NeedsTrust => format!("{} {NEEDS_TRUST}", self.doc),
            Workspace::OwnFile => format!("{} {ONLY_OWN}", self.doc),
            Workspace::Counts | Workspace::Narrows | Workspace::Lowers => self.doc.to_owned(),
        }
    }

    /// Returns a line that sets it to the example.
    pub fn setting(&self) -> String {
        format!("{} = {}", self.name, self.example)
    }
}

impl Fallback {
    /// Returns the default as text; none, if the key is required.
    pub fn text(&self) -> Option<String> {
        match self {
            Self::Value(value) => toml::Value::try_from(value()).ok().map(|it| it.to_string()),
            Self::Words(words) => Some((*words).to_owned()),
            Self::Required => None,
        }
    }
}

/// Marks a key that an untrusted workspace's file can't set.
const NEEDS_TRUST: &str = "(needs trust)";

/// Marks a key that counts only in the user's own file.
const ONLY_OWN: &str = "(only in your own file)";

/// The text before the first key of the reference.
const HEAD: &str = include_str!("keys/head.txt");

/// The longest line of the reference, in characters, without `# `.
const WIDTH: usize = 78;

/// The column of defaults.
const COLUMN: usize = 46;

/// Returns the reference: every key as a comment, with description, example and default.
pub fn reference() -> String {
    let mut text = HEAD.to_owned();
    for section in sections() {
        if !section.header.is_empty() {
            let _ = write!(text, "\n{}# {}\n", comment(section.doc), section.header);
        }
        for key in section.keys {
            let _ = write!(text, "\n{}{}", comment(&key.about()), comment(&format!("Type: {}.", key.kind())));
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

/// Formats text as comments of at most 80 characters a line.
fn comment(prose: &str) -> String {
    let mut lines = vec![String::new()];
    // The marks stay in one piece.
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
