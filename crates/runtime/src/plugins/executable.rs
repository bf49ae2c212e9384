//! Calls of an executable tool: starts it, passes the arguments, reads its answer.

mod answer;
mod spec;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use kit::{
    AnyTool, Cx, Fault, Kind, Output, Part, Prepared, Running, Spec, Touches,
    procs::{Ending, Exit, Process, Procs, Program, Recording, Stdin, Streams, left_running, signal_name},
    quote::quote,
    spans,
};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;
use tracing::Instrument as _;

use super::{
    Described, Hosts, Version, attestation::Grant, call_rules::CallRules, failure, manifest::Manifest,
};
use crate::{
    execution::{Execution, session_ended},
    result_parts,
};
pub(crate) use spec::{describe, is_startable};

/// Time that haft waits for the last output if another process holds the pipe open.
const DRAIN: Duration = Duration::from_millis(100);
/// Time that processes have to end after the program, before they count as left running.
const SETTLE: Duration = Duration::from_millis(50);
/// Time limit for the bytes that remain in a pipe that nobody holds open.
const LAST_BYTES: Duration = Duration::from_secs(5);
/// Time that a stopped program has to end.
const GRACE: Duration = Duration::from_millis(50);
/// Limit of output that haft parses, in bytes; a longer output is text.
const PARSED: u64 = 32 << 20;
/// Bytes shown of a longer output, or of a failure.
const SHOWN: usize = 32 << 10;
/// Limit of a program's input, in bytes: haft holds in memory what the program has not read yet.
const LARGEST: usize = 1 << 20;
/// Limit of programs per session whose sandboxes stay.
const KEPT: usize = 16;

/// A tool that is a program.
pub(crate) struct ExecutableTool {
    called: Arc<Called>,
}

/// The data that all calls of it share.
struct Called {
    terms: CallRules,
    /// The program and its arguments, or the reason why the manifest is invalid.
    argv: Result<Vec<String>, String>,
}

impl ExecutableTool {
    /// Creates the tool of a program's spec, with its grants.
    pub(crate) fn new(version: Arc<Version>, described: Arc<Described>, grant: Grant) -> Self {
        let argv = if is_manifest(&version.path) {
            let folder = version.path.parent().unwrap_or(&version.folder);
            let text = version.source.text().map_err(|fault| fault.what);
            text.and_then(|it| Manifest::parse(&it)).map(|it| it.argv(folder))
        } else {
            Ok(vec![version.path.display().to_string()])
        };
        Self { called: Arc::new(Called { terms: CallRules::new(version, described, grant), argv }) }
    }
}

impl AnyTool for ExecutableTool {
    fn spec(&self) -> &Spec {
        &self.called.terms.spec
    }

    fn prepare(&self, arguments: Value) -> Result<Box<dyn Prepared>, Fault> {
        let called = &self.called;
        let argv = called.argv.as_ref().map_err(|why| Fault::new(Kind::Failed, why.clone()))?;
        let command: Vec<String> = argv.iter().map(|it| quote(it)).collect();
        let touches = called.terms.touches(&command.join(" "), &arguments)?;
        let input = arguments.to_string().into_bytes();
        if input.len() > LARGEST {
            return Err(Fault::new(
                Kind::TooBig,
                format!("the arguments have {} bytes, and a program is given at most {LARGEST}", input.len()),
            )
            .next("Write what is long into a file, and give its path."));
        }
        Ok(Box::new(OneCall { called: called.clone(), argv: argv.clone(), touches, input }))
    }
}

/// A call with valid arguments.
struct OneCall {
    called: Arc<Called>,
    argv: Vec<String>,
    touches: Touches,
    input: Vec<u8>,
}

impl Prepared for OneCall {
    fn touches(&self) -> Touches {
        self.touches.clone()
    }

    fn time_limit(&self) -> Option<Duration> {
        self.called.terms.time_limit()
    }

    fn run(self: Box<Self>, cx: Cx) -> Running {
        Box::pin(async move {
            self.done(&cx).await.map_err(|fault| failure::lapsed(fault, self.called.terms.lapsed.as_deref()))
        })
    }
}

impl OneCall {
    async fn done(&self, cx: &Cx) -> Result<Output, Fault> {
        let name = &self.called.terms.described.name;
        if let Some(guard) = self.called.terms.guard.clone()
            && let Ok(Some(why)) = tokio::task::spawn_blocking(move || guard.lapsed()).await
        {
            let what =
                format!("`{name}` was not started: what was granted to it is not for what lies there now");
            return Err(Fault::new(Kind::Failed, what).next(why));
        }
        let execution = self.execution(cx)?.working_for(cx.procs().call());
        let procs = execution.of_call_to(name, &self.touches, &self.called.terms.served.section.net);
        let span = spans::PluginProcess::begin(Some(&self.called.terms.served.version.path), None);
        let process = self.start(cx, &procs).instrument(span.span()).await?;
        if let Err(fault) = process.write(&self.input).await
            && fault.kind != Kind::Unavailable
        {
            return Err(fault);
        }
        // A program that ignores its input, or has ended already, may be right.
        process.close_input();
        let ended = tokio::select! {
            biased;
            () = cx.cancelled() => Err(Kind::Cancelled),
            exit = process.finished(DRAIN) => Ok(exit),
            () = self.called.terms.too_long(cx) => Err(Kind::Timeout),
        };
        // On a busy machine the members of a pipeline end a moment after the program that waited for them.
        if ended.is_ok() && !process.left().await.processes.is_empty() {
            tokio::time::sleep(SETTLE).await;
        }
        let grace = if ended.is_ok() { Duration::ZERO } else { GRACE };
        let left = process.end(Ending::within(grace)).await;
        if ended.is_ok() {
            // No process holds the pipes any more: the rest of the output arrives, and then its end.
            process.finished(LAST_BYTES).await;
        }
        match ended {
            Ok(exit) if exit.is_success() => {
                let mut output = worked(name, &process, left).await?;
                output.parts.extend(execution.made().iter().map(|it| result_parts::note(&cx.named(it))));
                Ok(output)
            }
            Ok(exit) => Err(failed(name, &process, exit, &procs)),
            Err(Kind::Timeout) => {
                let seconds = self.called.terms.time_limit().unwrap_or_default().as_secs_f64();
                let what = format!("`{name}` did not end within its {seconds} s, so it was ended");
                Err(with_seen(Fault::new(Kind::Timeout, what), &process, None))
            }
            Err(kind) => Err(with_seen(
                Fault::new(kind, format!("`{name}` was stopped before it was done")),
                &process,
                None,
            )),
        }
    }

    /// Returns the execution environment of this version, which stays from call to call.
    fn execution(&self, cx: &Cx) -> Result<Execution, Fault> {
        let Some(hosts) = cx.shelf().find::<Hosts>() else { return Err(session_ended()) };
        let served = &self.called.terms.served;
        let make = || hosts.ground_of(&served.version, &served.section, self.called.code());
        Ok(cx.shelf().get::<Grounds>().of(served.key, make))
    }

    async fn start(&self, cx: &Cx, procs: &Procs) -> Result<Process, Fault> {
        let called = &*self.called;
        let workspace = cx.files().roots().workspace();
        let variable = |name: &str, value: String| (name.to_owned(), value);
        let program = Program {
            argv: self.argv.clone(),
            cwd: workspace.to_owned(),
            env: vec![
                variable("HAFT_TOOL", called.terms.described.name.clone()),
                variable("HAFT_WORKSPACE", workspace.display().to_string()),
                variable("HAFT_TOOLS_DIR", called.terms.served.version.folder.display().to_string()),
            ],
            stdin: Stdin::Pipe,
            streams: Streams::Apart,
            files: Vec::new(),
        };
        procs.start(program).await.map_err(|fault| match fault.kind {
            // Other arguments would not help if the kernel can't run or find the program.
            Kind::BadArgs => Fault::new(Kind::Failed, spec::not_a_program(Path::new(&self.argv.concat()))),
            Kind::NotFound | Kind::Denied => Fault { kind: Kind::Failed, ..fault },
            _ => fault,
        })
    }
}

impl Called {
    /// Returns the files in its folder that it must not change: itself, and what a manifest starts.
    fn code(&self) -> Vec<PathBuf> {
        let version = &self.terms.served.version;
        let own = self.argv.iter().flatten().map(PathBuf::from);
        let own = own.filter(|it| it.starts_with(&version.folder) && *it != version.path);
        [version.path.clone()].into_iter().chain(own).collect()
    }
}

/// The execution environments of the programs that the session called last.
#[derive(Default)]
struct Grounds {
    by_key: Mutex<HashMap<blake3::Hash, (Execution, Instant)>>,
}

impl Grounds {
    fn of(&self, key: blake3::Hash, make: impl FnOnce() -> Execution) -> Execution {
        let mut by_key = self.by_key.lock();
        if !by_key.contains_key(&key) && by_key.len() >= KEPT {
            // A running call holds its execution environment itself.
            let oldest = by_key.iter().min_by_key(|(_, (_, used))| *used).map(|(key, _)| *key);
            oldest.map(|it| by_key.remove(&it));
        }
        let (execution, used) = by_key.entry(key).or_insert_with(|| (make(), Instant::now()));
        *used = Instant::now();
        execution.clone()
    }
}

async fn worked(name: &str, process: &Process, left: usize) -> Result<Output, Fault> {
    let recording = process.output().clone();
    let read = tokio::task::spawn_blocking(move || whole(&recording)).await;
    let mut output = answer::answer(name, read.unwrap_or_default())?;
    output.parts.extend(left_running(left).map(|text| Part::Text { text }));
    Ok(output)
}

/// Returns all output, or the head and tail of output that is too long.
fn whole(recording: &Recording) -> String {
    match recording.whole(PARSED) {
        Some(bytes) if bytes.trim_ascii_start().starts_with(b"{") => {
            String::from_utf8_lossy(&bytes).into_owned()
        }
        // Text is shown without terminal colours and other escape sequences.
        _ => recording.since(0, SHOWN).text,
    }
}

fn failed(name: &str, process: &Process, exit: Exit, procs: &Procs) -> Fault {
    let mut what = format!("`{name}` {}", exit_words(exit));
    let said =
        process.output().whole(SHOWN as u64).and_then(|it| answer::error_in(&String::from_utf8_lossy(&it)));
    if let Some(error) = said {
        what = format!("{what}: {error}");
    }
    let errors = process.errors().unwrap_or_else(|| process.output());
    let denials = procs.denials(exit, &errors.tail(4096).text);
    let fault = with_seen(Fault::new(Kind::Failed, what), process, Some(exit));
    if denials.is_empty() { fault } else { fault.next(denials.join("\n")) }
}

/// Adds to the fault what the program wrote: its stdout, then its stderr.
fn with_seen(fault: Fault, process: &Process, exit: Option<Exit>) -> Fault {
    let errors = process.errors().map(|it| it.since(0, SHOWN).text).unwrap_or_default();
    let texts = [process.output().since(0, SHOWN).text, errors];
    let parts: Vec<Part> = texts
        .into_iter()
        .filter(|it| !it.trim().is_empty())
        .map(|it| Part::Text { text: answer::plain(it) })
        .collect();
    if parts.is_empty() {
        return fault;
    }
    fault.seen(Output { parts, exit: exit.map(Exit::code), ..Output::default() })
}

fn exit_words(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("ended with exit code {code}"),
        Exit::Signal(signal) => format!("was ended by {}", signal_name(signal)),
        Exit::Lost => "ended, and nobody knows how".to_owned(),
    }
}

fn is_manifest(path: &Path) -> bool {
    path.extension().is_some_and(|it| it == "toml")
}
