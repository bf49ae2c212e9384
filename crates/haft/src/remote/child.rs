//! The process of a session or call on a worker: `haft run` or `haft call`, which dies with its worker and whose output is read
//! as lines of JSON.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::Duration,
};

use clap::Args;
use kit::{Fault, Kind};
use runtime::config::Config;
use rustix::process::{Pid, Signal, getppid, kill_process, kill_process_group, setsid};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child as Process, ChildStderr, ChildStdout, Command},
    task::JoinHandle,
    time::{Instant, timeout, timeout_at},
};

use crate::Options;

/// Time in which events are collected before they are sent on.
const COLLECT: Duration = Duration::from_millis(30);

/// Size of the collected events, in bytes, at which they are sent on at once.
const ENOUGH: usize = 64 << 10;

/// Time that a session has to end its commands by itself when it is stopped. Then its processes are killed.
const GRACE: Duration = Duration::from_millis(100);

/// Bytes of the end of standard error that are kept.
const LAST: usize = 4 << 10;

/// Hidden options by which a worker starts `haft run` and `haft call`.
#[derive(Debug, Default, Args)]
pub(crate) struct OfWorker {
    /// Process of the worker
    #[arg(long = "of-worker", hide = true, value_name = "PID", requires = "limits")]
    worker: Option<i32>,
    /// File with the limits of the sender
    #[arg(long = "sender-limits", hide = true, value_name = "FILE", requires = "worker")]
    limits: Option<PathBuf>,
}

impl OfWorker {
    /// Returns whether a worker started this process.
    pub(crate) fn is_given(&self) -> bool {
        self.worker.is_some()
    }

    /// Binds this process to the worker that started it, and narrows its options by the sender's limits. Returns `None` in a
    /// process that no worker started.
    ///
    /// # Errors
    /// When the worker is gone, or the limits can't be read.
    pub(crate) fn narrow(&self, options: &Options) -> Result<Option<Options>, Fault> {
        let (Some(worker), Some(limits)) = (self.worker, &self.limits) else { return Ok(None) };
        let alone = |why: String| Fault::new(Kind::Unavailable, format!("not started by a worker: {why}"));
        // A group of its own, which the worker can kill as a whole, and no terminal.
        setsid().map_err(|error| alone(error.to_string()))?;
        #[cfg(target_os = "linux")]
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
            .map_err(|error| alone(error.to_string()))?;
        if getppid().map(Pid::as_raw_nonzero).map(std::num::NonZero::get) != Some(worker) {
            return Err(alone("its worker has ended".to_owned()));
        }
        let read = fs::read_to_string(limits).map_err(|error| alone(error.to_string()))?;
        let narrowed_by: Config = serde_json::from_str(&read)
            .map_err(|error| alone(format!("the limits can't be read: {error}")))?;
        Ok(Some(Options { narrowed_by: Some(Arc::new(narrowed_by)), ..options.clone() }))
    }
}

/// The folders and options of a session's process.
pub(super) struct Start<'a> {
    /// The workspace.
    pub(super) workspace: &'a Path,
    /// The file with the sender's limits.
    pub(super) limits: &'a Path,
    /// The command: `run` or `call`.
    pub(super) command: &'static str,
    /// The options of `haft` and of the command.
    pub(super) options: &'a [String],
    /// The arguments behind them.
    pub(super) arguments: &'a [&'a str],
    /// Its standard input.
    pub(super) input: &'a str,
}

/// A running session.
pub(super) struct Child {
    process: Process,
    lines: Lines<BufReader<ChildStdout>>,
    errors: JoinHandle<String>,
    /// Its output has ended.
    ended: bool,
}

/// The end of a session's process.
pub(super) struct End {
    /// Its exit code; none if a signal ended it.
    pub(super) code: Option<i32>,
    /// The end of its standard error.
    pub(super) errors: String,
}

impl Child {
    /// Starts the process.
    ///
    /// # Errors
    /// When it can't be started.
    pub(super) fn start(start: &Start<'_>) -> io::Result<Self> {
        // Also where another version has taken the place of this program.
        let mut command = Command::new("/proc/self/exe");
        command.arg("--dir").arg(start.workspace).args([start.command, "--json"]);
        command.arg(format!("--of-worker={}", std::process::id())).arg("--sender-limits").arg(start.limits);
        command.args(start.options).arg("--").args(start.arguments);
        command.current_dir(start.workspace).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn()?;
        let missing = || io::Error::other("a standard stream of the process is missing");
        let mut stdin = process.stdin.take().ok_or_else(missing)?;
        let stdout = process.stdout.take().ok_or_else(missing)?;
        let stderr = process.stderr.take().ok_or_else(missing)?;
        let input = start.input.to_owned();
        tokio::spawn(async move {
            // A process that ended early reads nothing; its standard error explains it.
            let _ = stdin.write_all(input.as_bytes()).await;
        });
        let lines = BufReader::new(stdout).lines();
        Ok(Self { process, lines, errors: tokio::spawn(last_of(stderr)), ended: false })
    }

    /// Returns the next events, once there are some; none at the end.
    pub(super) async fn events(&mut self) -> Vec<Value> {
        let mut events = Vec::new();
        if self.ended {
            return events;
        }
        let Some(first) = self.line().await else { return events };
        let until = Instant::now() + COLLECT;
        let mut bytes = first.len();
        events.extend(serde_json::from_str(&first));
        while bytes < ENOUGH {
            match timeout_at(until, self.line()).await {
                Ok(Some(line)) => {
                    bytes += line.len();
                    events.extend(serde_json::from_str(&line));
                }
                Ok(None) | Err(_) => break,
            }
        }
        events
    }

    /// Returns the next line. Dropping the future loses nothing.
    async fn line(&mut self) -> Option<String> {
        let line = self.lines.next_line().await.ok().flatten();
        self.ended |= line.is_none();
        line
    }

    /// Waits for the end of the process.
    ///
    /// # Errors
    /// When the system can't say how it ended.
    pub(super) async fn end(mut self) -> io::Result<End> {
        let code = self.process.wait().await?.code();
        let errors = timeout(GRACE, self.errors).await;
        Ok(End { code, errors: errors.ok().and_then(Result::ok).unwrap_or_default() })
    }

    /// Stops the session: it may end its commands within [`GRACE`]; then all its processes are killed.
    pub(super) async fn stop(mut self) {
        let id = self.process.id().and_then(|it| i32::try_from(it).ok()).and_then(Pid::from_raw);
        if let Some(id) = id {
            let _ = kill_process(id, Signal::TERM);
            if timeout(GRACE, self.process.wait()).await.is_err() {
                // The supervisors of its commands notice that its sockets are closed, and kill their trees.
                let _ = kill_process_group(id, Signal::KILL);
                let _ = self.process.kill().await;
            }
        }
    }
}

/// Reads a stream to its end, and returns the last part of it.
async fn last_of(mut stream: ChildStderr) -> String {
    let (mut kept, mut chunk) = (Vec::new(), [0; 4096]);
    while let Ok(count) = stream.read(&mut chunk).await {
        if count == 0 {
            break;
        }
        kept.extend_from_slice(chunk.get(..count).unwrap_or_default());
        let too_many = kept.len().saturating_sub(LAST);
        kept.drain(..too_many);
    }
    String::from_utf8_lossy(&kept).into_owned()
}
