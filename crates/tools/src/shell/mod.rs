//! Tools that run commands.

pub(crate) mod answer;
mod bash;
mod interact;
mod lasting;
mod once;
mod part;
mod preview;
#[expect(clippy::module_inception, reason = "the tool has the family's name")]
mod shell;
mod shell_status;
mod start;

use std::{sync::Arc, time::Duration};

use kit::{AnyTool, erase, procs::Process};
use tokio::time::sleep;

pub(crate) use answer::SHOWN;
pub(crate) use bash::Bash;
pub(crate) use once::Once;
pub(crate) use start::CommandLine;

/// Time to wait for the last output, if another process still holds the pipe.
pub(crate) const DRAIN: Duration = Duration::from_millis(100);

/// Returns a command's title for people: its first line.
pub(crate) fn title(command: &str) -> String {
    command.lines().next().unwrap_or_default().to_owned()
}

/// Interval at which background processes of a command are checked.
const LOOK: Duration = Duration::from_millis(500);

/// Waits until nothing is left of a command's tree.
pub(crate) async fn gone(process: &Process) {
    while !process.left().await.processes.is_empty() {
        sleep(LOOK).await;
    }
}

/// The tools of this family.
pub(crate) fn all() -> Vec<Arc<dyn AnyTool>> {
    vec![
        erase::<bash::Bash>(),
        erase::<shell::Shell>(),
        erase::<shell_status::ShellStatus>(),
        erase::<interact::Interact>(),
    ]
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_family_costs_a_model_little() {
        let bytes: usize = super::all().iter().map(|tool| tool.spec().bytes()).sum();
        assert!(bytes < 2_700, "{bytes} bytes");
    }
}
