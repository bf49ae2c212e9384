//! `[undo]`: what is kept of the files that commands change, and deletions that a person is asked about.

use sandbox::tracker::Bounds;
use serde_json::json;

use super::keys::{Fallback::*, declare::section, merging::*};

section! {
    /// `[undo]`: what commands change and delete. A workspace's file may only lower the limits of deletions.
    #[derive(Default, Eq)]
    #[serde(default)]
    pub struct UndoSection, merged by_key {
        /// Copies of the files that commands change, and the number of deleted files above which a person is asked.
        /// haft puts the files back and asks, with the list; if nobody is there, the call is denied.
        /// Files that git ignores, or has in its history, don't count. A workspace may only lower `ask_files`
        /// and `ask_percent`.
        "[undo]" {
            /// The largest file of which haft keeps a copy before a command writes to it, in MiB. Of larger ones
            /// `haft undo` says that it can't put them back. Removed files are kept whatever their size, by a hard
            /// link where the state folder is on the same file system.
            file_mib: Option<u64> {
                unit: "MiB",
                range: 0..=1 << 24,
                example: "1024",
                default: Value(|| json!(Bounds::default().file >> 20)),
                workspace: OwnFile,
                merge: own_file,
            }
            /// Limit of the copies for one call together, in MiB.
            call_mib: Option<u64> {
                unit: "MiB",
                range: 0..=1 << 24,
                example: "4096",
                default: Value(|| json!(Bounds::default().call >> 20)),
                workspace: OwnFile,
                merge: own_file,
            }
            /// Whether haft also copies files below build results and caches that git ignores, such as
            /// `target` and `node_modules`, before a command writes to them.
            ignored: bool {
                example: "true",
                default: Words("false"),
                workspace: OwnFile,
                merge: own_file,
            }
            /// Files that a command may overwrite unasked though no copy of them can be kept, as patterns of
            /// `.gitignore`: a database, a disk image. Before any other such file is written to, haft stops the
            /// command and asks; if nobody is there, the write fails.
            overwrite: Vec<String> {
                example: r#"["*.img", "/var/db"]"#,
                default: Words("none"),
                workspace: OwnFile,
                merge: own_file,
            }
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
    /// Returns what is kept of the files that commands change.
    pub fn kept(&self) -> Bounds {
        let usual = Bounds::default();
        Bounds {
            file: self.file_mib.map_or(usual.file, |it| it << 20),
            call: self.call_mib.map_or(usual.call, |it| it << 20),
            ignored: self.ignored,
        }
    }

    /// Returns the limits of what a command deletes unasked.
    pub fn ask(&self) -> AskLimits {
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
            undo: UndoSection { ask_files, ask_percent, ..UndoSection::default() },
            ..Config::default()
        };
        let merged = |mine, theirs: Config| Config::with_workspace(mine, theirs, true).0.undo.ask();
        let theirs = || config(Some(1000), Some(5));
        assert_eq!(merged(config(None, None), theirs()), AskLimits { files: 50, percent: 5 });
        assert_eq!(merged(config(Some(2000), Some(1)), theirs()), AskLimits { files: 1000, percent: 1 });
        assert_eq!(UndoSection::default().ask(), AskLimits { files: 50, percent: 20 });
    }
    #[test]
    fn what_is_kept_counts_in_a_persons_own_file_alone() {
        let config = |file_mib| Config {
            undo: UndoSection { file_mib, ignored: true, ..UndoSection::default() },
            ..Config::default()
        };
        let (merged, _) = Config::with_workspace(config(Some(3)), config(Some(0)), true);
        assert_eq!(merged.undo.kept(), Bounds { file: 3 << 20, ignored: true, ..Bounds::default() });
    }
}
