//! `bash` as HyperAgents has it: one argument, and a persistent shell.

use std::time::Duration;

use kit::prelude::*;

use crate::shell;

/// Run commands in a bash shell. Its state is kept from one call to the next. What is written to stderr comes after the
/// output, under a line `Error:`; a command that takes longer than 120 seconds is stopped.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Bash {
    /// The bash command to run.
    command: String,
}

impl Bash {
    fn inner(&self) -> shell::Bash {
        shell::Bash::errors_apart(self.command.clone())
    }
}

impl Tool for Bash {
    const NAME: &str = "bash";
    const AT_MOST: Kinds = <shell::Bash as Tool>::AT_MOST;

    fn touches(&self) -> Touches {
        self.inner().touches()
    }

    fn time_limit(&self) -> Option<Duration> {
        self.inner().time_limit()
    }

    fn title(&self) -> String {
        self.inner().title()
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        self.inner().run(cx).await
    }
}
