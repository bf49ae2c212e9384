//! `shell` as nav has it: a command that moves to the background when it takes long.

use std::{sync::Arc, time::Duration};

use kit::{
    prelude::*,
    procs::{Ending, Exit, Process, Stdin, Streams},
    services::Live,
};

use super::started::Started;
use crate::shell::{CommandLine, DRAIN, SHOWN, answer};

const WAIT: u64 = 30_000;
const LONGEST: u64 = 3_590_000;
const GRACE: Duration = Duration::from_millis(100);

/// Extra time that the runtime allows beyond `wait_ms`.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Run a shell command in the project. One that does not finish within wait_ms goes on in the background;
/// look after it with shell_status.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Shell {
    /// Shell command to run.
    command: String,
    /// Milliseconds to wait before it goes to the background; 0: at once. Default: 30000.
    #[serde(default, alias = "timeout")]
    wait_ms: Option<u64>,
}

impl Tool for Shell {
    const NAME: &str = "shell";
    const AT_MOST: Kinds = Kinds::RUN.with(Kinds::EXCLUSIVE);

    fn touches(&self) -> Touches {
        Touches::run(&self.command).and(Touch::Exclusive)
    }

    fn time_limit(&self) -> Option<Duration> {
        Some(self.wait() + LAST_WORDS)
    }

    fn title(&self) -> String {
        crate::shell::title(&self.command)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let line = CommandLine::new(&self.command, "", Stdin::Null, Streams::Together);
        let process = Arc::new(line.start(cx).await?);
        cx.caller().show(Live {
            output: Some(process.output().clone()),
            process: Some(process.clone()),
            ..Live::default()
        });
        let wait = self.wait();
        tokio::select! {
            biased;
            () = cx.cancelled() => return Err(stopped(&process).await),
            exit = process.finished(DRAIN) => return finished(&process, exit, cx).await,
            () = cx.caller().passed(wait) => go_on(&process, backgrounded(&process, wait), cx),
        }
        tokio::select! {
            biased;
            () = cx.cancelled() => Err(stopped(&process).await),
            exit = process.finished(DRAIN) => finished(&process, exit, cx).await,
        }
    }
}

impl Shell {
    fn wait(&self) -> Duration {
        Duration::from_millis(self.wait_ms.unwrap_or(WAIT).min(LONGEST))
    }
}

/// Answers now; the command goes on as a job that shell_status finds.
fn go_on(process: &Process, answer: Output, cx: &Cx) {
    cx.shelf().get::<Started>().note(process.pid(), &cx.caller().job());
    cx.caller().go_on(answer);
}

/// Returns its output; processes it left running go on as a job.
async fn finished(process: &Process, exit: Exit, cx: &Cx) -> Result<Output, Fault> {
    let output = Output { exit: Some(exit.code()), ..Output::text(text(process, exit, cx)) };
    if process.left().await.processes.is_empty() {
        return Ok(output);
    }
    go_on(process, output.clone(), cx);
    tokio::select! {
        biased;
        () = cx.cancelled() => Err(stopped(process).await),
        () = crate::shell::gone(process) => Ok(output),
    }
}

fn text(process: &Process, exit: Exit, cx: &Cx) -> String {
    let mut text = shown(process);
    if !exit.is_success() {
        text.push_str(&format!("\nexit code: {}", exit.code()));
    }
    for line in cx.denials(exit, &process.output().tail(4096).text) {
        text.push('\n');
        text.push_str(&line);
    }
    text
}

fn backgrounded(process: &Process, wait: Duration) -> Output {
    let pid = process.pid();
    Output::text(format!(
        "Process backgrounded (pid: {pid}). Still running after {}ms.\nOutput so far:\n{}\nUse shell_status with pid {pid} to look after it.",
        wait.as_millis(),
        shown(process)
    ))
}

async fn stopped(process: &Process) -> Fault {
    process.end(Ending::within(GRACE)).await;
    Fault::new(Kind::Cancelled, "the command was stopped").seen(Output::text(shown(process)))
}

fn shown(process: &Process) -> String {
    answer::with(&process.output().since(0, SHOWN).text, &[])
}
