//! `[limits]`: limits of commands and of their kept outputs.

use sandbox::limits::Limits;
use serde_json::json;

use super::keys::{Fallback::*, declare::section, merging::*};

const MIB: u64 = 1 << 20;

section! {
    /// `[limits]`: limits of commands. A workspace's file may only lower them.
    #[derive(Copy, Default, Eq)]
    #[serde(default)]
    pub struct LimitsSection, merged by_key {
        /// Limits of commands. A workspace may only lower them.
        "[limits]" {
            /// Processes of one command, with all that it starts, 2 to 2048. haft ends a command that has
            /// more, such as a fork bomb; other commands go on.
            processes: Option<u64> {
                range: 2..=2048,
                example: "256",
                default: Value(|| json!(Limits::default().tree)),
                workspace: Lowers,
                merge: lower(Limits::default().tree),
            }
            /// Background jobs of one session at once, 1 to 100000. haft refuses further ones until one has
            /// ended.
            jobs: Option<u64> {
                range: 1..=100_000,
                example: "10000",
                default: Value(|| json!(Limits::default().jobs)),
                workspace: Lowers,
                merge: lower(Limits::default().jobs),
            }
            /// Memory of all commands of a session together, in MiB. haft ends the largest process of a
            /// session that uses more.
            memory_mib: Option<u64> {
                unit: "MiB",
                range: 64..=1 << 24,
                example: "2048",
                default: Words("half of the machine's memory, 256 to 2048"),
                workspace: Lowers,
                merge: lower(Limits::default().memory >> 20),
            }
            /// Outputs of a session that were too long to show, together, in MiB. The oldest are
            /// removed for new ones.
            outputs_mib: Option<u64> {
                unit: "MiB",
                range: 1..=1 << 24,
                example: "4096",
                default: Value(|| json!(LimitsSection::OUTPUTS)),
                workspace: Lowers,
                merge: lower(Self::OUTPUTS),
            }
        }
    }
}

impl LimitsSection {
    /// The default limit of a session's kept outputs, in MiB.
    pub const OUTPUTS: u64 = 4096;

    /// Returns the limits of commands.
    pub fn of_commands(self) -> Limits {
        let usual = Limits::default();
        Limits {
            tree: self.processes.unwrap_or(usual.tree),
            memory: self.memory_mib.map_or(usual.memory, |it| it * MIB),
            jobs: self.jobs.unwrap_or(usual.jobs),
            processes: Limits::processes_for(self.jobs.unwrap_or(usual.jobs)),
            ..usual
        }
    }

    /// Returns the limit of a session's kept outputs, in bytes.
    pub fn outputs(self) -> u64 {
        self.outputs_mib.unwrap_or(Self::OUTPUTS) * MIB
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, keys::Bounded};

    #[test]
    fn workspace_lowers_limits_and_never_raises_them() {
        let mine = LimitsSection { processes: Some(500), ..LimitsSection::default() };
        let theirs = LimitsSection {
            processes: Some(1000),
            jobs: Some(7),
            memory_mib: Some(100),
            outputs_mib: Some(1 << 20),
        };
        let config = |limits| Config { limits, ..Config::default() };
        let both = config(mine).with_workspace(config(theirs), false).0.limits;
        assert_eq!((both.of_commands().tree, both.of_commands().memory), (500, 100 * MIB));
        assert_eq!((both.of_commands().jobs, both.of_commands().processes), (7, 4096 + 14));
        assert_eq!(both.outputs(), 4 << 30);
        let bounded = |processes| {
            let mut limits = LimitsSection { processes: Some(processes), ..mine };
            limits.bound();
            limits.of_commands().tree
        };
        assert_eq!((bounded(0), bounded(u64::MAX)), (2, 2048));
        assert_eq!(LimitsSection::default().of_commands(), Limits::default());
    }
}
