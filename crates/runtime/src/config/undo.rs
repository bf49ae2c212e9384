//! `[undo]`: deletions that a person is asked about.

use serde_json::json;

use super::keys::{Fallback::*, declare::section, merging::*};

section! {
    /// `[undo]`: what commands delete. A workspace's file may only lower these limits.
    #[derive(Copy, Default, Eq)]
    #[serde(default)]
    pub struct UndoSection, merged by_key {
        /// When a person is asked about what a command deleted. haft puts the files back and asks, with the
        /// list; if nobody is there, the call is denied. Files that git ignores, or has in its history, don't
        /// count. A workspace may only lower these.
        "[undo]" {
            /// The most files that a command may delete or empty unasked.
            ask_files: Option<u64> {
                range: 0..=1 << 40,
                example: "50",
                default: Value(|| json!(AskLimits::default().files)),
                workspace: Lowers,
                merge: lower(AskLimits::default().files),
            }
            /// The largest part of the workspace's files that a command may delete or empty unasked, in percent,
            /// if that is more than ten files.
            ask_percent: Option<u64> {
                unit: "percent",
                range: 0..=100,
                example: "20",
                default: Value(|| json!(AskLimits::default().percent)),
                workspace: Lowers,
                merge: lower(AskLimits::default().percent),
            }
        }
    }
}

/// The limits above which a person is asked about what a command deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AskLimits {
    /// The number of files.
    pub files: u64,
    /// The part of all files in the workspace, in percent, if that is more than ten files.
    pub percent: u64,
}

impl Default for AskLimits {
    fn default() -> Self {
        Self { files: 50, percent: 20 }
    }
}

impl UndoSection {
    /// Returns the limits of what a command deletes unasked.
    pub fn ask(self) -> AskLimits {
        let usual = AskLimits::default();
        AskLimits {
            files: self.ask_files.unwrap_or(usual.files),
            percent: self.ask_percent.unwrap_or(usual.percent),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn workspace_lowers_the_limits_of_deletions_and_never_raises_them() {
        let config = |ask_files, ask_percent| Config {
            undo: UndoSection { ask_files, ask_percent },
            ..Config::default()
        };
        let merged = |mine, theirs: Config| Config::with_workspace(mine, theirs, true).0.undo.ask();
        let theirs = || config(Some(1000), Some(5));
        assert_eq!(merged(config(None, None), theirs()), AskLimits { files: 50, percent: 5 });
        assert_eq!(merged(config(Some(2000), Some(1)), theirs()), AskLimits { files: 1000, percent: 1 });
        assert_eq!(UndoSection::default().ask(), AskLimits { files: 50, percent: 20 });
    }
}
