//! `bash` as KohakuTerrarium has it: a command in a shell of its own, with a time limit.

use std::time::Duration;

use kit::{
    prelude::*,
    procs::{Stdin, Streams},
};

use crate::shell::{CommandLine, Once, SHOWN};

const DEFAULT: f64 = 60.0;

/// The maximum time, which 0 means.
const LONGEST: f64 = 3590.0;

/// Extra time that the runtime allows beyond that.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Supported shells.
const SHELLS: &[&str] = &["bash", "sh", "zsh", "dash", "fish"];

/// Execute a shell command and return its output. Each command has a shell of its own.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
// The fields have defaults so that a missing one gets that toolset's own message.
#[schemars(extend("required" = ["command"]))]
pub(crate) struct Bash {
    /// Shell command to execute.
    #[serde(default)]
    command: String,
    /// Shell to run it in: bash (default), sh, zsh, dash, fish.
    #[serde(default, alias = "type")]
    shell: Option<String>,
    /// Seconds it may take; 0 for as long as the runtime allows. Default: 60.
    #[serde(default)]
    timeout: Option<f64>,
}

impl Tool for Bash {
    const NAME: &str = "bash";
    const STANDS_FOR: &'static [StandsFor] = &[StandsFor::tool("shell")];
    const AT_MOST: Kinds = Kinds::RUN.with(Kinds::EXCLUSIVE);

    fn touches(&self) -> Touches {
        Touches::run(&self.command).and(Touch::Exclusive)
    }

    fn time_limit(&self) -> Option<Duration> {
        let seconds = self.seconds().unwrap_or(DEFAULT);
        Some(Duration::from_secs_f64(seconds) + LAST_WORDS)
    }

    fn title(&self) -> String {
        crate::shell::title(&self.command)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        if self.command.trim().is_empty() {
            return Err(Fault::bad_args("No command provided"));
        }
        let shell = self.shell.as_deref().unwrap_or("bash");
        if !SHELLS.contains(&shell) {
            return Err(Fault::bad_args(format!(
                "Unknown shell type: {shell}. Available: {}",
                SHELLS.join(", ")
            )));
        }
        let seconds = self.seconds()?;
        let mut line = CommandLine::new(&self.command, "", Stdin::Null, Streams::Together);
        line.shell = self.shell.as_deref();
        let once = Once::run(&line, Duration::from_secs_f64(seconds), cx).await.map_err(|fault| {
            if fault.kind != Kind::NotFound || self.shell.is_none() {
                return fault;
            }
            let what = format!("Shell '{shell}' ({shell}) not found. Available shells: bash, sh");
            Fault { what, ..fault }
        })?;
        let mut text = once.output(SHOWN).trim_end_matches('\n').to_owned();
        let mut say = |what: &str| {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(what);
        };
        let Some(exit) = once.exit else {
            let seen = if text.is_empty() { None } else { Some(Output::text(text)) };
            let fault = Fault::new(Kind::Timeout, format!("Command timed out after {seconds}s"));
            return Err(match seen {
                Some(seen) => fault.seen(seen),
                None => fault,
            });
        };
        if !exit.is_success() {
            say(&format!("Command exited with code {}", exit.code()));
        }
        once.notes(cx).iter().for_each(|it| say(it));
        Ok(Output { exit: Some(exit.code()), ..Output::text(text) })
    }
}

impl Bash {
    fn seconds(&self) -> Result<f64, Fault> {
        match self.timeout.unwrap_or(DEFAULT) {
            seconds if !seconds.is_finite() => Err(Fault::bad_args("timeout must be finite")),
            seconds if seconds < 0.0 => Err(Fault::bad_args(format!("timeout must be >= 0, got {seconds}"))),
            0.0 => Ok(LONGEST),
            seconds => Ok(seconds.min(LONGEST)),
        }
    }
}

#[cfg(test)]
mod tests {
    use kit::testing::TestWorkspace;
    use serde_json::json;

    use super::*;

    #[test]
    fn errors_have_the_original_s_text() {
        let test_ws = TestWorkspace::empty();
        assert_eq!(test_ws.says::<Bash>(&json!({})), "bad_args: No command provided");
        assert_eq!(
            test_ws.says::<Bash>(&json!({"command": "ls", "shell": "csh"})),
            "bad_args: Unknown shell type: csh. Available: bash, sh, zsh, dash, fish"
        );
        assert_eq!(
            test_ws.says::<Bash>(&json!({"command": "ls", "timeout": -2})),
            "bad_args: timeout must be >= 0, got -2"
        );
    }
}
