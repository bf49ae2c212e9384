//! `shell`: runs one command, however long it takes.

use std::{sync::Arc, time::Duration};

use kit::{
    deliberate_faults::is_broken,
    prelude::*,
    procs::{Ending, Exit, Left, Process, Stdin, Streams},
    references::call,
    services::Live,
};
use serde_json::json;
use tokio::time::Instant;

use super::{
    DRAIN,
    answer::{self, SHOWN},
    start::CommandLine,
};

/// Default and maximum time to wait for the command, in milliseconds.
const WAIT: u64 = 30_000;
const LONGEST: u64 = 3_600_000;

/// Time for a command to end by itself when it is stopped.
const GRACE: Duration = Duration::from_millis(100);

/// Extra time that the runtime allows beyond `wait_ms`.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Run a command in a bash of its own. If it takes longer than `wait_ms`, or leaves processes running, it continues as a job: the answer has its id, output so far and ports. Commands sent together run at once; join dependent ones with `&&`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Shell {
    /// One line or many.
    command: String,
    /// Its folder. Default: the workspace.
    #[serde(default)]
    dir: String,
    /// Time to wait; 0: none. Default: 30000.
    #[serde(default)]
    wait_ms: Option<u64>,
    /// Keep its input open[?, for `tool:shell_status`?].
    #[serde(default)]
    input: bool,
    /// Hosts it needs: `example.org`.
    #[serde(default)]
    net: Vec<String>,
    /// Outside the sandbox; a person is asked.
    #[serde(default)]
    unconfined: bool,
    /// List its changes, keep none.
    #[serde(default)]
    preview: bool,
}

impl Tool for Shell {
    const NAME: &str = "shell";
    const AT_MOST: Kinds = Kinds::READ.with(Kinds::RUN).with(Kinds::NET).with(Kinds::EXCLUSIVE);

    fn touches(&self) -> Touches {
        let mut touches =
            Touches::run(&self.command).and(Touch::Read(self.dir.clone())).and(Touch::Exclusive);
        for host in &self.net {
            touches = touches.and(Touch::Net(host.clone()));
        }
        if self.unconfined { touches.and(Touch::Unconfined) } else { touches }
    }

    fn time_limit(&self) -> Option<Duration> {
        Some(self.wait() + LAST_WORDS)
    }

    fn title(&self) -> String {
        super::title(&self.command)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        if self.preview {
            self.can_preview()?;
            return super::preview::run(&self.command, &self.dir, self.wait(), cx).await;
        }
        let stdin = if self.input { Stdin::Pipe } else { Stdin::Null };
        let line = CommandLine::new(&self.command, &self.dir, stdin, Streams::Together);
        let process = Arc::new(line.start(cx).await?);
        process.lend_when_quiet();
        let running = Running { process, began: Instant::now(), input: self.input };
        running.show(cx);
        running.run(self.wait(), cx).await
    }
}

impl Shell {
    fn wait(&self) -> Duration {
        Duration::from_millis(
            self.wait_ms.unwrap_or(if is_broken("short-wait") { 500 } else { WAIT }).min(LONGEST),
        )
    }

    /// Refuses arguments whose effects a preview can't take back.
    fn can_preview(&self) -> Result<(), Fault> {
        let refused = |what: &str, next: &str| Err(Fault::bad_args(what).next(next));
        match self {
            Self { unconfined: true, .. } => refused(
                "a preview runs in the sandbox, so `unconfined` can't be previewed",
                "Leave out `unconfined`, or `preview`.",
            ),
            Self { net, .. } if !net.is_empty() => refused(
                "a preview has no network, as what a command sends can't be taken back; nothing was run",
                "Leave out `net`, or `preview`.",
            ),
            Self { input: true, .. } => {
                refused("a preview has no input: it ends with its answer", "Leave out `input`, or `preview`.")
            }
            Self { wait_ms: Some(0), .. } => refused(
                "a preview does not go on in the background",
                "Give it a `wait_ms` in which it can end.",
            ),
            _ => Ok(()),
        }
    }
}

/// A command in flight.
struct Running {
    process: Arc<Process>,
    began: Instant,
    /// Whether its input was kept open.
    input: bool,
}

impl Running {
    fn show(&self, cx: &Cx) {
        cx.caller().show(Live {
            output: Some(self.process.output().clone()),
            process: Some(self.process.clone()),
            ..Live::default()
        });
    }

    async fn run(&self, wait: Duration, cx: &Cx) -> Result<Output, Fault> {
        let exit = tokio::select! {
            biased;
            () = cx.cancelled() => return Err(self.stopped().await),
            exit = self.process.finished(DRAIN) => exit,
            () = cx.caller().passed(wait) => {
                cx.caller().go_on(self.so_far(cx).await);
                tokio::select! {
                    biased;
                    () = cx.cancelled() => return Err(self.stopped().await),
                    exit = self.process.finished(DRAIN) => exit,
                }
            }
        };
        let left = self.process.left().await;
        if left.processes.is_empty() {
            return Ok(answer::of_exit(cx, self.process.output(), 0, exit));
        }
        cx.caller().go_on(self.with_left(&left, exit, cx));
        tokio::select! {
            biased;
            () = cx.cancelled() => Err(self.stopped().await),
            () = super::gone(&self.process) => Ok(answer::of_exit(cx, self.process.output(), 0, exit)),
        }
    }

    /// Stops it, and returns a fault with its output.
    async fn stopped(&self) -> Fault {
        let ended = self.process.end(Ending::within(GRACE)).await;
        let took = answer::time(self.began.elapsed());
        let what = match ended {
            0 | 1 => "[stopped]".to_owned(),
            ended => format!("[stopped, {ended} processes in all]"),
        };
        let text = self.process.output().since(0, SHOWN).text;
        Fault::new(Kind::Cancelled, format!("stopped after {took}"))
            .seen(Output::text(answer::with(&text, &[what])))
    }

    /// Formats the answer for a command that goes on.
    async fn so_far(&self, cx: &Cx) -> Output {
        let left = self.process.left().await;
        let job = cx.caller().job();
        let took = answer::time(self.began.elapsed());
        let ports = match answer::ports(&left) {
            Some(ports) => format!("listening on {ports}"),
            None => "no open port".to_owned(),
        };
        let pid = self.process.pid();
        let text = self.process.output().since(0, SHOWN).text;
        let mut notes =
            vec![format!("[still running after {took}: {job} (pid {pid}, {ports})]"), answer::next(cx, &job)];
        if self.input {
            let write = call("shell_status", &json!({"action": "input", "job": job, "text": "…"}));
            notes.push(cx.named(&format!("[to write to it: {write}]")));
        }
        notes.extend(answer::asked(&self.process.output().tail(4096).text).map(|it| cx.named(&it)));
        Output::text(answer::with(&text, &notes))
    }

    /// Formats the answer for a command that has ended, with the processes it left running.
    fn with_left(&self, left: &Left, exit: Exit, cx: &Cx) -> Output {
        let mut output = answer::of_exit(cx, self.process.output(), 0, exit);
        let job = cx.caller().job();
        let ports = answer::ports(left).map(|it| format!(", listening on {it}")).unwrap_or_default();
        let note = cx.named(&format!(
            "[still running as {job}: {}{ports}; until `tool:stop_task` or the end of the session]",
            answer::left(left)
        ));
        output.parts = Output::text(answer::with(&output.as_text(), &[note])).parts;
        output
    }
}
