//! Connecting: from a configured server to one that answers.

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
    wire::{Heard, Wire, pipes},
};

/// How long a start may take, where nobody says otherwise: a first one may have to fetch the server.
const START: Duration = Duration::from_secs(60);
/// How long a server may take to end by itself once its input has ended, and then once it is asked to.
const LEAVE: Duration = Duration::from_secs(1);
const OBEY: Duration = Duration::from_secs(1);
/// How long one that has closed its output may take to end, so that it is said how.
const EXIT: Duration = Duration::from_millis(500);
/// So much of its errors is shown.
const SHOWN: usize = 2 << 10;

/// How a server begins to speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Lifecycle {
    /// With `initialize`: revisions up to 2025-11-25.
    Legacy,
    /// With `server/discover`: from 2026-07-28 on.
    Modern,
}

/// What a connection is made with.
pub(super) struct Wanted<'a> {
    /// Which server.
    pub(super) server: &'a Server,
    /// How it was found to begin the last time.
    pub(super) lifecycle: Option<Lifecycle>,
    /// What its process is started with.
    pub(super) procs: &'a Procs,
    /// The workspace.
    pub(super) workspace: &'a Path,
    /// haft's own environment.
    pub(super) variables: &'a [(String, String)],
    /// What haft was given to sign in with; none, where it signs in nowhere.
    pub(super) logins: Option<&'a Logins>,
    /// What answers the server.
    pub(super) handler: Handler,
}

/// A server that answers.
pub(super) struct Live {
    /// The connection.
    pub(super) service: RunningService<RoleClient, Handler>,
    /// Its process, where it has one of ours.
    pub(super) running: Option<Running>,
    /// How it began.
    pub(super) lifecycle: Lifecycle,
    /// What goes on beside it.
    tasks: OnceLock<Tasks>,
}

/// The process of a server. It ends, with all it started, when this is dropped.
pub(super) struct Running {
    process: Arc<Process>,
    heard: Arc<Heard>,
    procs: Procs,
}

impl Wanted<'_> {
    /// The text with the variables it names, as of haft's own environment.
    ///
    /// # Errors
    /// When one of them is not set.
    pub(super) fn expanded(&self, text: &str) -> Result<String, Fault> {
        expanded(text, self.variables).map_err(|why| self.unset(&why))
    }

    /// How long the start may take.
    pub(super) fn patience(&self) -> Duration {
        self.server.section.start_seconds.map_or(START, Duration::from_secs)
    }

    fn unset(&self, why: &str) -> Fault {
        let Server { name, file, .. } = self.server;
        Fault::new(Kind::Unavailable, format!("the server `{name}` was not started: {why} ({file})"))
            .next("A person can set it where haft is started.")
    }
}

/// Starts a server, or reaches it, and agrees with it on how to speak.
///
/// # Errors
/// [`Kind::Unavailable`] when that does not work, with what it wrote until then; [`Kind::Timeout`] when it takes too long.
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
        // It may have been replaced by one that begins in another way, or have given up on what it does not know.
        Err(failed) if failed.may_be_lifecycle => {
            let second = match wanted.lifecycle {
                Some(Lifecycle::Legacy) => auto(),
                Some(Lifecycle::Modern) | None if failed.was_slow => {
                    ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }
                }
                Some(Lifecycle::Modern) | None => ClientLifecycleMode::Initialize,
            };
            // What was said first is what a person can do something about.
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

/// Why a start failed.
struct Failed {
    fault: Fault,
    /// It was there, and did not like how it was greeted.
    may_be_lifecycle: bool,
    /// It did not answer the first greeting in time.
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
    let heard = Arc::<Heard>::default();
    let wire = Wire::new(ours, heard.clone());
    let running = Running { process: Arc::new(process), heard, procs: wanted.procs.clone() };
    let serving = wanted.handler.clone().serve_with_lifecycle(wire, lifecycle);
    let began_in_time = timeout(wanted.patience(), serving).await;
    match began_in_time {
        Ok(Ok(service)) => {
            let lifecycle = began(&service);
            Ok(Live { service, running: Some(running), lifecycle, tasks: OnceLock::new() })
        }
        Ok(Err(error)) => {
            let exit = timeout(EXIT, running.process.exited()).await.ok();
            let what = match exit {
                Some(exit) => format!("the server `{name}` {} while it was started", exit_words(exit)),
                None => format!("the server `{name}` did not begin as MCP has it: {}", said(&error)),
            };
            let was_slow = running.heard.was_slow();
            let fault = running.with_seen(Fault::new(Kind::Unavailable, what), exit);
            running.end().await;
            // One that can't be run at all says so by its exit; a second try would say the same.
            let may_be_lifecycle = !matches!(exit, Some(Exit::Code(126 | 127)));
            Err(Failed { fault, may_be_lifecycle, was_slow })
        }
        Err(_) => {
            let seconds = wanted.patience().as_secs();
            let what = format!("the server `{name}` did not answer within {seconds} s, so it was ended");
            let fault = running.with_seen(Fault::new(Kind::Timeout, what), None);
            running.end().await;
            Err(fault.into())
        }
    }
}

/// Where the program is on this machine, whatever the sandbox sees of it.
fn found(named: &str, cwd: &Path, variables: &[(String, String)]) -> Option<PathBuf> {
    if named.contains('/') {
        return Some(cwd.join(named)).filter(|it| it.is_file());
    }
    let path = variables.iter().find(|(it, _)| it == "PATH").map(|(_, value)| value.as_str())?;
    std::env::split_paths(path).map(|it| it.join(named)).find(|it| it.is_file())
}

/// The fault for a program that the sandbox of its server does not have. Where else programs lie is not told.
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
    // What a link leads to may lie elsewhere, and a program needs what lies beside it.
    let whole = found.canonicalize().unwrap_or_else(|_| found.to_owned());
    let mut folders: Vec<&Path> = [found, &whole].into_iter().filter_map(Path::parent).collect();
    folders.dedup();
    let folders: Vec<String> = folders.iter().map(|it| format!("{:?}", it.display().to_string())).collect();
    Fault::new(Kind::Unavailable, what).next(format!(
        "A person can show it, and what it needs: `read = [{}]` of `[mcp.{name}]` in haft.toml.",
        folders.join(", ")
    ))
}

/// What an error of the protocol says, without what it was said in.
fn said(error: &ClientInitializeError) -> String {
    let text = match error {
        ClientInitializeError::JsonRpcError(error) => error.message.to_string(),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => return said(fallback),
        other => other.to_string(),
    };
    visible(&text).0.chars().take(300).collect()
}

impl Live {
    /// Has the connection ended?
    pub(super) fn is_over(&self) -> bool {
        self.service.is_closed()
            || self.service.is_transport_closed()
            || self.running.as_ref().is_some_and(|it| it.process.exit().is_some())
    }

    /// These go on as long as the connection lives.
    pub(super) fn keeps(&self, watching: JoinHandle<()>, listening: Option<JoinHandle<()>>) {
        // There is one set of them, made when it begins.
        let _ = self.tasks.set(Tasks::new(watching, listening));
    }

    /// Ends the connection in order, and its process: its input ends, it is asked, it is killed.
    pub(super) async fn end(&self) {
        // By this its input ends.
        self.service.cancellation_token().cancel();
        if let Some(running) = &self.running {
            let _ = timeout(LEAVE, running.process.exited()).await;
            running.end().await;
        }
    }

    /// The fault with how its process ended, if it did, and with what it wrote last.
    pub(super) async fn with_seen(&self, fault: Fault) -> Fault {
        match &self.running {
            Some(running) => running.with_seen(fault, running.process.exit()),
            None => fault,
        }
    }

    /// Resolves when its process has ended; never, if it has none.
    pub(super) async fn exited(&self) -> Exit {
        match &self.running {
            Some(running) => running.process.exited().await,
            None => std::future::pending().await,
        }
    }

    /// How its process ended, where it has one and that is soon.
    pub(super) async fn ended(&self) -> Option<Exit> {
        timeout(EXIT, self.running.as_ref()?.process.exited()).await.ok()
    }

    /// What it wrote that is not a message, in a line.
    pub(super) fn noise(&self) -> Option<String> {
        self.running.as_ref()?.heard.noise()
    }
}

impl Running {
    async fn end(&self) {
        self.process.end(Ending::within(OBEY)).await;
    }

    /// The fault with what the server wrote last, and what the sandbox may have to do with it.
    pub(super) fn with_seen(&self, fault: Fault, exit: Option<Exit>) -> Fault {
        let errors = self.process.output();
        errors.catch_up();
        let mut lines = Vec::new();
        let tail = errors.tail(SHOWN).text;
        if !tail.trim().is_empty() {
            lines.push(format!("its errors end with:\n{}", tail.trim_end()));
        }
        lines.extend(self.heard.noise());
        let denials = exit.map(|exit| self.procs.denials(exit, &errors.tail(4096).text)).unwrap_or_default();
        let fault = match lines.is_empty() {
            true => fault,
            false => fault.seen(kit::Output::text(lines.join("\n"))),
        };
        if denials.is_empty() { fault } else { fault.next(denials.join("\n")) }
    }
}

/// How a process ended, in words.
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
    fn a_program_that_the_sandbox_does_not_see_is_told_from_one_that_is_not_there() {
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
