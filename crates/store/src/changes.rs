//! File changes of a call, as unified diffs that a person can review.
//!
//! Secrets are masked, other encodings are decoded, and the length is bounded. A diff needs both contents: if
//! one of them is not stored, [`Change::note`] says so and [`Change::diff`] is empty.

mod landed;
mod unified;

use std::path::{Path, PathBuf};

use kit::{
    escape::visible,
    redact::Secrets,
    text::{Content, Text},
};
use serde::{Deserialize, Serialize};

pub use landed::Landed;

use unified::{Budget, Lines, unified};

/// Maximum size of contents that are compared line by line, in bytes.
const LARGEST: usize = 64 << 20;

/// The change of one file by a call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The file: relative to the workspace where it lies inside, otherwise absolute.
    pub path: String,
    /// Whether the file was created, changed or deleted.
    pub kind: ChangeKind,
    /// Lines added.
    pub added: usize,
    /// Lines removed.
    pub removed: usize,
    /// A unified diff with three lines of context, `--- a/PATH` and `+++ b/PATH` first. Empty if there is
    /// nothing to show line by line. One that was cut ends with a line `… N more lines`.
    pub diff: String,
    /// Number of lines of the diff that were left out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: usize,
    /// Facts that the diff does not show: `binary, 10 bytes -> 12 bytes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The kind of a change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// The file did not exist before.
    Created,
    /// The content changed.
    #[default]
    Changed,
    /// The file no longer exists.
    Deleted,
}

/// The size limit of all diffs of one call together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiffLimits {
    /// In lines.
    pub lines: usize,
    /// In bytes.
    pub bytes: usize,
    /// The longest line, in characters; a longer one is cut around its change.
    pub columns: usize,
}

impl DiffLimits {
    /// No limit.
    pub const NONE: Self = Self { lines: usize::MAX, bytes: usize::MAX, columns: usize::MAX };
    /// For a person's review before a change is made, which has to show everything that a person can read.
    pub const REVIEW: Self = Self { lines: 5_000, bytes: 512 << 10, columns: 2_000 };
}

impl Default for DiffLimits {
    /// For an event: 400 lines, 32 KiB.
    fn default() -> Self {
        Self { lines: 400, bytes: 32 << 10, columns: 500 }
    }
}

/// A file before and after a change. Cheap to clone: contents are shared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Versions {
    /// The file's absolute path.
    pub path: PathBuf,
    /// Its content before.
    pub before: Version,
    /// Its content after.
    pub after: Version,
}

/// The content of a file at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Version {
    /// The file does not exist.
    Absent,
    /// These bytes.
    Known(Content),
    /// This many bytes, which are not available for a comparison.
    Long(u64),
    /// Unknown, for this reason.
    Unknown(String),
}

impl Version {
    /// Returns the content, or `Absent` for `None`.
    pub fn of(content: Option<&Content>) -> Self {
        content.map_or(Self::Absent, |it| Self::Known(it.clone()))
    }

    fn bytes(&self) -> usize {
        if let Self::Known(content) = self { content.len() } else { 0 }
    }

    fn size(&self) -> Option<u64> {
        match self {
            Self::Known(content) => Some(content.len() as u64),
            Self::Long(bytes) => Some(*bytes),
            Self::Absent | Self::Unknown(_) => None,
        }
    }

    fn text(&self) -> Side {
        match self {
            Self::Absent => Side::Absent,
            Self::Known(content) if content.len() <= LARGEST => {
                Text::share(content.clone()).map_or(Side::Binary, Side::Text)
            }
            Self::Known(_) | Self::Long(_) => Side::Large,
            Self::Unknown(why) => Side::Unknown(why.clone()),
        }
    }
}

/// The comparable part of a version.
enum Side {
    Absent,
    Text(Text),
    Binary,
    Large,
    Unknown(String),
}

/// Returns the changes of these files, in order. Unchanged files are left out.
///
/// This reads and compares whole contents: call it from a thread that may block.
pub fn changes(files: &[Versions], workspace: &Path, secrets: &Secrets, limits: DiffLimits) -> Vec<Change> {
    let mut budget = Budget::new(limits);
    let is_change = |it: &&Versions| it.before != it.after || matches!(it.before, Version::Unknown(_));
    files.iter().filter(is_change).map(|it| change(it, workspace, secrets, &mut budget)).collect()
}

fn change(file: &Versions, workspace: &Path, secrets: &Secrets, budget: &mut Budget) -> Change {
    let path = file.path.strip_prefix(workspace).unwrap_or(&file.path).display().to_string();
    let path = secrets.mask(&path).into_owned();
    let kind = match (&file.before, &file.after) {
        (Version::Absent, _) => ChangeKind::Created,
        (_, Version::Absent) => ChangeKind::Deleted,
        _ => ChangeKind::Changed,
    };
    let change = Change { path, kind, ..Change::default() };
    match (file.before.text(), file.after.text()) {
        (Side::Unknown(why), _) | (_, Side::Unknown(why)) => Change { note: Some(why), ..change },
        (Side::Binary, _) | (_, Side::Binary) => Change { note: Some(sizes("binary", file)), ..change },
        (Side::Large, _) | (_, Side::Large) => {
            Change { note: Some(sizes("too large to compare", file)), ..change }
        }
        (Side::Absent, Side::Absent) => change,
        (before, after) => of_texts(change, text(&before), text(&after), secrets, budget),
    }
}

fn text(side: &Side) -> Option<&Text> {
    if let Side::Text(text) = side { Some(text) } else { None }
}

fn of_texts(
    change: Change,
    before: Option<&Text>,
    after: Option<&Text>,
    secrets: &Secrets,
    budget: &mut Budget,
) -> Change {
    let (old, new) = (before.map(Text::decoded), after.map(Text::decoded));
    let (old, new) = (old.as_deref().unwrap_or_default(), new.as_deref().unwrap_or_default());
    let unified = unified(&Lines::new(old, secrets), &Lines::new(new, secrets), budget);
    let mut notes: Vec<String> = Vec::new();
    if let (Some(before), Some(after)) = (before, after) {
        if before.encoding() != after.encoding() {
            notes.push(format!("encoding: {} -> {}", before.encoding().name(), after.encoding().name()));
        } else if before.has_bom() != after.has_bom() {
            notes.push(format!("byte order mark {}", if after.has_bom() { "added" } else { "removed" }));
        } else if unified.text.is_empty() && unified.more == 0 {
            notes.push("only bytes that are not valid text differ".to_owned());
        }
    } else if unified.text.is_empty() && unified.more == 0 {
        notes.push("empty file".to_owned());
    }
    if unified.has_cut_lines {
        notes.push("long lines are cut".to_owned());
    }
    let mut diff = String::new();
    if !unified.text.is_empty() || unified.more > 0 {
        let name = |side: Option<&Text>, mark: &str| match side {
            None => "/dev/null".to_owned(),
            Some(_) => format!("{mark}/{}", in_one_line(&change.path)),
        };
        diff = format!("--- {}\n+++ {}\n{}", name(before, "a"), name(after, "b"), unified.text);
        if unified.more > 0 {
            diff.push_str(&format!("{}\n", more(unified.more)));
        }
    }
    let note = (!notes.is_empty()).then(|| notes.join("; "));
    Change { added: unified.added, removed: unified.removed, diff, more: unified.more, note, ..change }
}

/// Returns the line that stands for omitted lines.
fn more(lines: usize) -> String {
    format!("… {lines} more {}", if lines == 1 { "line" } else { "lines" })
}

/// Returns the sizes before and after, with the reason why no lines are shown.
fn sizes(why: &str, file: &Versions) -> String {
    match (file.before.size(), file.after.size()) {
        (Some(before), Some(after)) => format!("{why}, {before} bytes -> {after} bytes"),
        (Some(one), None) | (None, Some(one)) => format!("{why}, {one} bytes"),
        (None, None) => why.to_owned(),
    }
}

/// Escapes a path, so that it can't break the lines of a diff.
fn in_one_line(path: &str) -> String {
    visible(path).0.replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t")
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}
