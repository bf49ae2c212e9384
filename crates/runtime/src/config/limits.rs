//! `[limits]`: how much of the machine commands and their kept outputs may use.

use serde::{Deserialize, Serialize};

use sandbox::limits::Limits;

const MIB: u64 = 1 << 20;

/// What is said about limits. A workspace's file may only lower them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitsSection {
    /// Processes of one command, with all that it starts.
    pub processes: Option<u64>,
    /// Memory of all commands of a session together, in MiB.
    pub memory_mib: Option<u64>,
    /// Kept outputs of a session together, in MiB.
    pub outputs_mib: Option<u64>,
}

impl LimitsSection {
    /// The kept outputs of a session where nothing is said, in MiB.
    pub const OUTPUTS: u64 = 4096;

    /// Bounds the numbers.
    pub(super) fn settled(self) -> Self {
        Self {
            // The whole sandbox has a larger bound, which haft's own processes in it need a part of.
            processes: self.processes.map(|it| it.clamp(2, Limits::default().processes / 2)),
            memory_mib: self.memory_mib.map(|it| it.clamp(64, 1 << 24)),
            outputs_mib: self.outputs_mib.map(|it| it.clamp(1, 1 << 24)),
        }
    }

    /// The limits of commands.
    pub fn of_commands(self) -> Limits {
        let usual = Limits::default();
        Limits {
            tree: self.processes.unwrap_or(usual.tree),
            memory: self.memory_mib.map_or(usual.memory, |it| it * MIB),
            ..usual
        }
    }

    /// How many bytes of outputs a session keeps.
    pub fn outputs(self) -> u64 {
        self.outputs_mib.unwrap_or(Self::OUTPUTS) * MIB
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn workspace_lowers_limits_and_never_raises_them() {
        let mine = LimitsSection { processes: Some(500), ..LimitsSection::default() };
        let theirs =
            LimitsSection { processes: Some(1000), memory_mib: Some(100), outputs_mib: Some(1 << 20) };
        let config = |limits| Config { limits, ..Config::default() };
        let both = config(mine).with_workspace(config(theirs), false).0.limits;
        assert_eq!((both.of_commands().tree, both.of_commands().memory), (500, 100 * MIB));
        assert_eq!(both.outputs(), 4 << 30);
        assert_eq!(LimitsSection { processes: Some(0), ..mine }.settled().of_commands().tree, 2);
        assert_eq!(LimitsSection::default().of_commands(), Limits::default());
    }
}
