//! `terminal` as navi-1 has it: one command at a time, or named terminals that stay open.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use kit::{
    prelude::*,
    procs::{Ending, Process, Stdin, Streams},
};
use tokio::{
    sync::Mutex,
    time::{Instant, sleep},
};

use crate::shell::{CommandLine, DRAIN, Once, answer};

const TIMEOUT: u64 = 20;
const LONGEST: u64 = 300;

/// Extra time that the runtime allows beyond that.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Terminals of one session.
const MOST: usize = 10;

/// Maximum bytes that are shown: the beginning and the end. The whole is kept, and a line between them names
/// its handle.
const SHOWN: usize = 5000;

const GRACE: Duration = Duration::from_millis(500);

/// Time to wait for output after typing.
const ANSWER: Duration = Duration::from_millis(500);

/// Run shell commands. `run` runs one and gives its output. `open` starts one in a named terminal: it is waited for,
/// unless it is to go on in the `background`; then `status` shows its output, `send_input` types into it and `close` ends it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Terminal {
    /// The action. Default: run.
    #[serde(default)]
    action: Action,
    /// Command for `run` and `open`.
    #[serde(default)]
    command: String,
    /// Terminal for `open`, `close`, `status` and `send_input`.
    #[serde(default)]
    terminal_name: String,
    /// Purpose of the terminal, for `open`.
    #[serde(default)]
    description: String,
    /// Let the command of `open` go on.
    #[serde(default)]
    background: bool,
    /// Text for `send_input`; a line break is added.
    #[serde(default)]
    input: String,
    /// Seconds a command may take; at most 300. Default: 20.
    #[serde(default)]
    timeout: Option<u64>,
}

/// The action.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Action {
    #[default]
    Run,
    Open,
    Close,
    List,
    Status,
    SendInput,
}

/// The terminals of a session, by name.
#[derive(Default)]
struct Terminals {
    open: Mutex<BTreeMap<String, Open>>,
}

#[derive(Clone)]
struct Open {
    process: Arc<Process>,
    command: String,
    description: String,
    since: Instant,
}

impl Tool for Terminal {
    const NAME: &str = "terminal";
    const STANDS_FOR: &'static [StandsFor] = &[StandsFor::tool("shell").naming(&[("input", "")])];
    const AT_MOST: Kinds = Kinds::RUN.with(Kinds::SESSION).with(Kinds::EXCLUSIVE);

    fn touches(&self) -> Touches {
        match self.action {
            Action::Run | Action::Open => Touches::run(&self.command).and(Touch::Exclusive),
            // Typed text may be a command to the program that reads it.
            Action::SendInput => Touches::run(&self.input).and(Touch::Session("terminals".to_owned())),
            Action::Close => Touches::session("terminals"),
            Action::List | Action::Status => Touches::none(),
        }
    }

    fn time_limit(&self) -> Option<Duration> {
        Some(self.time() + LAST_WORDS)
    }

    fn title(&self) -> String {
        crate::shell::title(&self.command)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let terminals = cx.shelf().get::<Terminals>();
        match self.action {
            Action::Run => self.once(cx).await,
            Action::Open => self.open(&terminals, cx).await,
            Action::List => Ok(terminals.list().await),
            Action::Status => {
                Ok(Output::text(terminals.find(&self.terminal_name).await?.status(&self.terminal_name)))
            }
            Action::SendInput => {
                let open = terminals.find(&self.terminal_name).await?;
                let before = open.process.output().total();
                open.process.write(format!("{}\n", self.input).as_bytes()).await?;
                // Its answer, if it comes soon.
                tokio::select! {
                    () = sleep(ANSWER) => {}
                    _ = open.process.exited() => {}
                }
                Ok(Output::text(some(&open.process.output().since(before, SHOWN).text)))
            }
            Action::Close => {
                let open = terminals.find(&self.terminal_name).await?;
                open.process.end(Ending::within(GRACE)).await;
                terminals.open.lock().await.remove(&self.terminal_name);
                Ok(Output::text(format!("Terminal '{}' closed.", self.terminal_name)))
            }
        }
    }
}

impl Terminal {
    fn time(&self) -> Duration {
        Duration::from_secs(self.timeout.unwrap_or(TIMEOUT).clamp(1, LONGEST))
    }

    fn check(&self) -> Result<(), Fault> {
        if self.command.trim().is_empty() { Err(Fault::bad_args("Empty command.")) } else { Ok(()) }
    }

    async fn once(&self, cx: &Cx) -> Result<Output, Fault> {
        self.check()?;
        let line = CommandLine::new(&self.command, "", Stdin::Null, Streams::Apart);
        let once = Once::run(&line, self.time(), cx).await?;
        let errors = once.errors(SHOWN / 2);
        let output = once.output(SHOWN.saturating_sub(errors.len()));
        let mut parts: Vec<String> = Vec::new();
        if !output.trim_end().is_empty() {
            parts.push(output.trim_end_matches('\n').to_owned());
        }
        if !errors.trim_end().is_empty() {
            parts.push(format!("[stderr]\n{}", errors.trim_end_matches('\n')));
        }
        let mut text = if parts.is_empty() { "(no output)".to_owned() } else { parts.join("\n") };
        let Some(exit) = once.exit else {
            let what = format!("Command timed out after {}s", self.time().as_secs());
            return Err(Fault::new(Kind::Timeout, what).seen(Output::text(text)));
        };
        if !exit.is_success() {
            text.push_str(&format!("\nExit code {}", exit.code()));
        }
        for line in once.notes(cx) {
            text.push('\n');
            text.push_str(&line);
        }
        Ok(Output { exit: Some(exit.code()), ..Output::text(text) })
    }

    async fn open(&self, terminals: &Terminals, cx: &Cx) -> Result<Output, Fault> {
        self.check()?;
        if self.terminal_name.is_empty() {
            return Err(Fault::bad_args("missing field `terminal_name`"));
        }
        let name = &self.terminal_name;
        let process = {
            let mut open = terminals.open.lock().await;
            if open.get(name).is_some_and(|it| it.process.exit().is_none()) {
                return Err(Fault::bad_args(format!("Terminal '{name}' is open already."))
                    .next("Close it, or choose another name."));
            }
            if open.values().filter(|it| it.process.exit().is_none()).count() >= MOST {
                return Err(Fault::new(
                    Kind::TooBig,
                    format!("{MOST} terminals are open, which is the most."),
                )
                .next("Close one; `list` shows them."));
            }
            let line = CommandLine::new(&self.command, "", Stdin::Pipe, Streams::Together);
            let process = Arc::new(line.start(cx).await?);
            open.retain(|_, it| it.process.exit().is_none());
            let new = Open {
                process: process.clone(),
                command: self.command.clone(),
                description: self.description.clone(),
                since: Instant::now(),
            };
            open.insert(name.clone(), new);
            process
        };
        if self.background {
            return Ok(Output::text(format!(
                "Terminal '{name}' opened in the background (pid {}).",
                process.pid()
            )));
        }
        let exit = tokio::select! {
            biased;
            () = cx.cancelled() => None,
            exit = process.finished(DRAIN) => Some(exit),
            () = cx.caller().passed(self.time()) => None,
        };
        let text = some(&process.output().since(0, SHOWN).text);
        let Some(exit) = exit else {
            if cx.check().is_err() {
                process.end(Ending::NOW).await;
                return Err(Fault::new(Kind::Cancelled, "the command was stopped").seen(Output::text(text)));
            }
            return Ok(Output::text(format!(
                "{text}\nTerminal '{name}' is still running after {}s; it stays open.",
                self.time().as_secs()
            )));
        };
        terminals.open.lock().await.remove(name);
        let code = if exit.is_success() { String::new() } else { format!("\nExit code {}", exit.code()) };
        Ok(Output { exit: Some(exit.code()), ..Output::text(format!("{text}{code}")) })
    }
}

impl Terminals {
    async fn find(&self, name: &str) -> Result<Open, Fault> {
        let open = self.open.lock().await;
        open.get(name).cloned().ok_or_else(|| {
            let names: Vec<&str> = open.keys().map(String::as_str).collect();
            let next = if names.is_empty() {
                "None is open.".to_owned()
            } else {
                format!("Open are: {}.", names.join(", "))
            };
            Fault::not_found(format!("Terminal '{name}' not found.")).next(next)
        })
    }

    async fn list(&self) -> Output {
        let open = self.open.lock().await;
        let lines: Vec<String> = open.iter().map(|(name, it)| it.line(name)).collect();
        Output::text(if lines.is_empty() { "No open terminals.".to_owned() } else { lines.join("\n") })
    }
}

impl Open {
    fn line(&self, name: &str) -> String {
        let state = match self.process.exit() {
            Some(exit) => format!("exited ({})", exit.code()),
            None => format!("running, {}s", self.since.elapsed().as_secs()),
        };
        let about =
            if self.description.is_empty() { String::new() } else { format!(" - {}", self.description) };
        format!("{name}: {} [{state}]{about}", self.command.lines().next().unwrap_or_default())
    }

    fn status(&self, name: &str) -> String {
        format!("{}\n{}", self.line(name), some(&self.process.output().since(0, SHOWN).text))
    }
}

fn some(text: &str) -> String {
    answer::with(text, &[])
}

#[cfg(test)]
mod tests {
    use kit::testing::TestWorkspace;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_empty_command_gets_the_original_s_error() {
        assert_eq!(
            TestWorkspace::empty().says::<Terminal>(&json!({"action": "run"})),
            "bad_args: Empty command."
        );
    }

    #[test]
    fn a_missing_terminal_is_named_with_the_existing_ones() {
        let said =
            TestWorkspace::empty().says::<Terminal>(&json!({"action": "status", "terminal_name": "x"}));
        assert_eq!(said, "not_found: Terminal 'x' not found.\nNone is open.");
    }
}
