//! Views of files too large to keep: hashes of the lines that were shown.

use std::{collections::BTreeMap, ops::Range};

use serde::{Deserialize, Serialize};

use super::Rows;
use crate::anchor;

/// The state of a large file: device, inode, size and time of change in nanoseconds, or whatever else the
/// program that opens files trusts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity(pub [u64; 4]);

/// The lines shown of one state of a large file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Window {
    pub(crate) identity: Identity,
    pub(super) total: Option<usize>,
    /// As in [`Version`](super::Version): rows that a read showed while this is the newest view.
    #[serde(default)]
    pub(crate) read: Rows,
    lines: BTreeMap<usize, Line>,
}

/// A line's hashes, by which it is recognized.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Line {
    hash: u8,
    digest: u64,
}

impl Window {
    pub(super) fn new(identity: Identity) -> Self {
        Self { identity, total: None, read: Rows::new(), lines: BTreeMap::new() }
    }

    pub(super) fn show(&mut self, row: usize, line: &str) {
        self.lines.insert(row, Line::of(line));
    }

    pub(super) fn forget(&mut self, rows: &Range<usize>) {
        self.lines.retain(|row, _| !rows.contains(row));
        self.read.remove(rows.clone());
    }

    pub(super) fn shown(&self) -> usize {
        self.lines.len()
    }

    /// Returns whether this row was shown with this hash.
    pub(crate) fn claims(&self, row: usize, hash: u8) -> bool {
        self.lines.get(&row).is_some_and(|line| line.hash == hash)
    }

    /// Returns whether this row was shown with this text.
    pub(crate) fn showed(&self, row: usize, line: &str) -> bool {
        self.lines.get(&row) == Some(&Line::of(line))
    }
}

impl Line {
    fn of(line: &str) -> Self {
        let [a, b, c, d, e, f, g, h, ..] = *blake3::hash(line.as_bytes()).as_bytes();
        Self { hash: anchor::hash(line), digest: u64::from_le_bytes([a, b, c, d, e, f, g, h]) }
    }
}
