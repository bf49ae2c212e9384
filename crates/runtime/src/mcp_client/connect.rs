//! Connection setup: starts or reaches a configured server and negotiates the protocol revision.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::Duration,
};

use kit::{
    Fault, Kind,
    escape::visible,
    procs::{Ending, Exit, Process, Procs, Program, Stdin, Streams},
};
use rmcp::{
    RoleClient,
    model::ProtocolVersion,
    service::{ClientInitializeError, ClientLifecycleMode, ClientServiceExt, RunningService},
};
use serde::{Deserialize, Serialize};
use tokio::{task::JoinHandle, time::timeout};

use super::{
    Server,
    handler::Handler,
    http,
    oauth::Logins,
    start::Tasks,
    variables::expanded,
    wire::{StrayOutput, Wire, pipes},
};

/// Default time limit of a start: a first start may have to fetch the server.
const START: Duration = Duration::from_secs(60);
/// Time that a server has to end once its input is closed, and then once it gets the signal to end.
const LEAVE: Duration = Duration::from_secs(1);
const OBEY: Duration = Duration::from_secs(1);
/// Time that a server has to end after it closed its output, so that the fault can name its exit.
const EXIT: Duration = Duration::from_millis(500);
/// Bytes of its stderr that a fault shows.
const SHOWN: usize = 2 << 10;

/// The request with which a connection begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Lifecycle {
    /// With `initialize`: revisions up to 2025-11-25.
    Legacy,
    /// With `server/discover`: from 2026-07-28 on.
    Modern,
}

/// The parameters of a connection.
pub(super) struct Wanted<'a> {
    /// The server.
    pub(super) server: &'a Server,
    /// The lifecycle that worked the last time.
    pub(super) lifecycle: Option<Lifecycle>,
    /// Starts its process.
    pub(super) procs: &'a Procs,
    /// The workspace.
    pub(super) workspace: &'a Path,
    /// haft's own environment.
    pub(super) variables: &'a [(String, String)],
    /// The stored credentials; none, where haft signs in nowhere.
    pub(super) logins: Option<&'a Logins>,
    /// Answers the server's requests.
    pub(super) handler: Handler,
}

/// A connected server.
pub(super) struct Live {
    /// The connection.
    pub(super) service: RunningService<RoleClient, Handler>,
    /// Its process, where haft started one.
    pub(super) running: Option<Running>,
    /// The lifecycle with which it began.
    pub(super) lifecycle: Lifecycle,
    /// The background tasks that end with it.
    tasks: OnceLock<Tasks>,
}

/// The process of a server. Dropping this ends it, with all that it started.
pub(super) struct Running {
    process: Arc<Process>,
    stray: Arc<StrayOutput>,
    procs: Procs,
}

impl Wanted<'_> {
    /// Replaces the variables that the text names with their values in haft's environment.
    ///
    /// # Errors
    /// When one of them is not set.
    pub(super) fn expanded(&self, text: &str) -> Result<String, Fault> {
        expanded(text, self.variables).map_err(|why| self.unset(&why))
    }

    /// Returns the time limit of the start.
    pub(super) fn start_timeout(&self) -> Duration {
        self.server.section.start_seconds.map_or(START, Duration::from_secs)
    }

    fn unset(&self, why: &str) -> Fault {
        let Server { name, file, .. } = self.server;
        Fault::new(Kind::Unavailable, format!("the server `{name}` was not started: {why} ({file})"))
            .next("A person can set it where haft is started.")
    }
}

/// Starts a server, or connects to it, and negotiates the protocol revision.
///
/// # Errors
/// [`Kind::Unavailable`] when that fails, with the end of its stderr; [`Kind::Timeout`] when it takes too
/// long.
pub(super) async fn connect(wanted: Wanted<'_>) -> Result<Live, Fault> {
    if let Some(url) = &wanted.server.section.url {
        let url = wanted.expanded(url)?;
        let service = http::connect(&wanted, &url).await?;
        let lifecycle = began(&service);
        return Ok(Live { service, running: None, lifecycle, tasks: OnceLock::new() });
    }
    let first = match wanted.lifecycle {
        Some(Lifecycle::Legacy) => ClientLifecycleMode::Initialize,
        Some(Lifecycle::Modern) | None => auto(),
    };
    match start(&wanted, first).await {
        Ok(live) => Ok(live),
        // The server may have been replaced by one with the other lifecycle, or may end at an unknown
        // request.
        Err(failed) if failed.may_be_lifecycle => {
            let second = match wanted.lifecycle {
                Some(Lifecycle::Legacy) => auto(),
                Some(Lifecycle::Modern) | None if failed.was_slow => {
                    ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }
                }
                Some(Lifecycle::Modern) | None => ClientLifecycleMode::Initialize,
            };
            // The first fault is the one that a person can act on.
            start(&wanted, second).await.map_err(|_| failed.fault)
        }
        Err(failed) => Err(failed.fault),
    }
}

fn auto() -> ClientLifecycleMode {
    ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
    }
}

fn began(service: &RunningService<RoleClient, Handler>) -> Lifecycle {
    match service.peer_info() {
        Some(it) if !it.protocol_version.has_initialize() => Lifecycle::Modern,
        _ => Lifecycle::Legacy,
    }
}

/// The failure of a start.
struct Failed {
    fault: Fault,
    /// Whether the other lifecycle may work.
    may_be_lifecycle: bool,
    /// It did not answer `server/discover` in time.
    was_slow: bool,
}

impl From<Fault> for Failed {
    fn from(fault: Fault) -> Self {
        Self { fault, may_be_lifecycle: false, was_slow: false }
    }
}

async fn start(wanted: &Wanted<'_>, lifecycle: ClientLifecycleMode) -> Result<Live, Failed> {
    let name = &wanted.server.name;
    let section = &wanted.server.section;
    let command = wanted.expanded(section.command.as_deref().unwrap_or_default())?;
    let args = section.args.iter().map(|it| wanted.expanded(it));
    let argv = [Ok(command)].into_iter().chain(args).collect::<Result<Vec<_>, _>>()?;
    let env = section.env.given(wanted.variables).map_err(|why| wanted.unset(&why))?;
    let (ours, theirs) = pipes()?;
    let program = Program {
        argv,
        cwd: section.cwd.as_ref().map_or_else(|| wanted.workspace.to_owned(), |it| wanted.workspace.join(it)),
        env,
        stdin: Stdin::Null,
        streams: Streams::Given,
        files: theirs,
    };
    let (named, cwd) = (program.argv.first().cloned().unwrap_or_default(), program.cwd.clone());
    let process = wanted.procs.start(program).await.map_err(|fault| {
        if fault.kind == Kind::NotFound && cwd.is_dir() {
            return not_seen(name, &named, found(&named, &cwd, wanted.variables).as_deref());
        }
        let what = format!("the server `{name}` can't be started: {}", fault.what);
        Fault { kind: Kind::Unavailable, what, ..fault }
    })?;
    let stray = Arc::<StrayOutput>::default();
    let wire = Wire::new(ours, stray.clone());
    let running = Running { process: Arc::new(process), stray, procs: wanted.procs.clone() };
    let serving = wanted.handler.clone().serve_with_lifecycle(wire, lifecycle);
    let began_in_time = timeout(wanted.start_timeout(), serving).await;
    match began_in_time {
        Ok(Ok(service)) => {
            let lifecycle = began(&service);
            Ok(Live { service, running: Some(running), lifecycle, tasks: OnceLock::new() })
        }
        Ok(Err(error)) => {
            let exit = timeout(EXIT, running.process.exited()).await.ok();
            let what = match exit {
                Some(exit) => format!("the server `{name}` {} while it was started", exit_words(exit)),
                None => format!("the server `{name}` did not begin as MCP has it: {}", message_of(&error)),
            };
            let was_slow = running.stray.was_slow();
            let fault = running.with_seen(Fault::new(Kind::Unavailable, what), exit);
            running.end().await;
            // A program that can't be executed exits with 126 or 127; a second try would fail in the same
            // way.
            let may_be_lifecycle = !matches!(exit, Some(Exit::Code(126 | 127)));
            Err(Failed { fault, may_be_lifecycle, was_slow })
        }
        Err(_) => {
            let seconds = wanted.start_timeout().as_secs();
            let what = format!("the server `{name}` did not answer within {seconds} s, so it was ended");
            let fault = running.with_seen(Fault::new(Kind::Timeout, what), None);
            running.end().await;
            Err(fault.into())
        }
    }
}

/// Returns the path of the program on this machine, also if the sandbox does not show it.
fn found(named: &str, cwd: &Path, variables: &[(String, String)]) -> Option<PathBuf> {
    if named.contains('/') {
        return Some(cwd.join(named)).filter(|it| it.is_file());
    }
    let path = variables.iter().find(|(it, _)| it == "PATH").map(|(_, value)| value.as_str())?;
    std::env::split_paths(path).map(|it| it.join(named)).find(|it| it.is_file())
}

/// Returns the fault for a program that the server's sandbox does not contain.
fn not_seen(name: &str, named: &str, found: Option<&Path>) -> Fault {
    let Some(found) = found else {
        let what = format!("the server `{name}` can't be started: there is no program `{named}`");
        return Fault::new(Kind::Unavailable, what)
            .next("A person can install it, or give its whole path in `command`.");
    };
    let what = format!(
        "the server `{name}` can't be started: {} is there, or a link to it, and the sandbox of the server does not see it",
        found.display()
    );
    // A symlink may lead elsewhere, and a program needs the files beside it.
    let whole = found.canonicalize().unwrap_or_else(|_| found.to_owned());
    let mut folders: Vec<&Path> = [found, &whole].into_iter().filter_map(Path::parent).collect();
    folders.dedup();
    let folders: Vec<String> = folders.iter().map(|it| format!("{:?}", it.display().to_string())).collect();
    Fault::new(Kind::Unavailable, what).next(format!(
        "A person can show it, and what it needs: `read = [{}]` of `[mcp.{name}]` in haft.toml.",
        folders.join(", ")
    ))
}

/// Returns the message of a protocol error, without its wrapping.
fn message_of(error: &ClientInitializeError) -> String {
    let text = match error {
        ClientInitializeError::JsonRpcError(error) => error.message.to_string(),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => return message_of(fallback),
        other => other.to_string(),
    };
    visible(&text).0.chars().take(300).collect()
}

impl Live {
    /// Returns whether the connection has ended.
    pub(super) fn is_over(&self) -> bool {
        self.service.is_closed()
            || self.service.is_transport_closed()
            || self.running.as_ref().is_some_and(|it| it.process.exit().is_some())
    }

    /// Returns its process, where haft started one.
    pub(super) fn process(&self) -> Option<&Process> {
        self.running.as_ref().map(|it| &*it.process)
    }

    /// Ties these tasks to the connection: they end with it.
    pub(super) fn keeps(&self, watching: JoinHandle<()>, listening: Option<JoinHandle<()>>) {
        // Each connection sets its tasks once.
        let _ = self.tasks.set(Tasks::new(watching, listening));
    }

    /// Closes the connection and ends its process: closes the input, then sends a signal, then kills.
    pub(super) async fn end(&self) {
        // This closes the server's input.
        self.service.cancellation_token().cancel();
        if let Some(running) = &self.running {
            let _ = timeout(LEAVE, running.process.exited()).await;
            running.end().await;
        }
    }

    /// Adds to the fault how the process ended, if it did, and the end of its stderr.
    pub(super) async fn with_seen(&self, fault: Fault) -> Fault {
        match &self.running {
            Some(running) => running.with_seen(fault, running.process.exit()),
            None => fault,
        }
    }

    /// Resolves when the process has ended; never, if there is none.
    pub(super) async fn exited(&self) -> Exit {
        match &self.running {
            Some(running) => running.process.exited().await,
            None => std::future::pending().await,
        }
    }

    /// Waits up to [`EXIT`] for the process to end, and returns its exit.
    pub(super) async fn ended(&self) -> Option<Exit> {
        timeout(EXIT, self.running.as_ref()?.process.exited()).await.ok()
    }

    /// Returns one line about output that is not a message.
    pub(super) fn noise(&self) -> Option<String> {
        self.running.as_ref()?.stray.noise()
    }
}

impl Running {
    async fn end(&self) {
        self.process.end(Ending::within(OBEY)).await;
    }

    /// Adds the end of the server's stderr to the fault, and what the sandbox may have denied.
    pub(super) fn with_seen(&self, fault: Fault, exit: Option<Exit>) -> Fault {
        let errors = self.process.output();
        errors.catch_up();
        let mut lines = Vec::new();
        let tail = errors.tail(SHOWN).text;
        if !tail.trim().is_empty() {
            lines.push(format!("its errors end with:\n{}", tail.trim_end()));
        }
        lines.extend(self.stray.noise());
        let denials = exit.map(|exit| self.procs.denials(exit, &errors.tail(4096).text)).unwrap_or_default();
        let fault = match lines.is_empty() {
            true => fault,
            false => fault.seen(kit::Output::text(lines.join("\n"))),
        };
        if denials.is_empty() { fault } else { fault.next(denials.join("\n")) }
    }
}

/// Describes how a process ended.
pub(super) fn exit_words(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("ended with exit code {code}"),
        Exit::Signal(signal) => format!("was ended by {}", kit::procs::signal_name(signal)),
        Exit::Lost => "ended, and nobody knows how".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn program_outside_the_sandbox_differs_from_a_missing_one() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("server"), "").unwrap();
        let variables = [("PATH".to_owned(), folder.path().display().to_string())];
        for named in ["server", "./server"] {
            let found = found(named, folder.path(), &variables);
            let fault = not_seen("s", named, found.as_deref()).as_text();
            assert!(fault.contains("does not see it") && fault.contains("`read = [\"/"), "{fault}");
        }
        let fault = not_seen("s", "nope", found("nope", folder.path(), &variables).as_deref()).as_text();
        assert!(fault.contains("no program `nope`"), "{fault}");
        assert!(!fault.contains(&*folder.path().to_string_lossy()), "{fault}");
    }
}
