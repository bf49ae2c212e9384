//! Execution: the sandbox and the limits with which a session's processes run.

mod asker;
mod chosen_sandbox;
mod commands;
mod keeper;
mod of_plugin;
mod of_preview;
mod report;
mod sandbox_lock;

use std::{
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use kit::{
    Fault, Kind, Touch, Touches,
    effect::Effect,
    files::Roots,
    net::Reach,
    procs::{Exit, Keeper, Limit, Procs, Program, SpillFile, Spilling, Starting, preview::Preview},
    redact::Secrets,
    services::Redact,
};
use parking_lot::Mutex;
use policy::{Approve, Policy};
use sandbox::{
    SandboxMode,
    control_files::{configured::Configured, index::Index},
    environment,
    limits::Limits,
    pass::Pass,
    ports::SandboxPorts,
    proxy::{Granted, Hosts},
    tracker::{Logs, Opener, Tracker},
};
use store::{Grants, spill::Spills};

pub(crate) use asker::Asker;
pub(crate) use chosen_sandbox::ChosenSandbox;
pub use commands::Commands;
pub use of_plugin::Own;
use report::SandboxReport;
use sandbox_lock::SandboxLock;

use crate::provenance::Provenance;

/// The folder of Python environments, below the state folder: tools may read it.
pub(crate) const ENVIRONMENTS: &str = "tools/environments";

/// The data that the processes of all sessions of a workspace share.
pub(crate) struct Resources<'a> {
    pub(crate) commands: &'a Commands,
    pub(crate) policy: &'a Policy,
    pub(crate) roots: &'a Roots,
    /// haft's own folders, the state folder first.
    pub(crate) hidden: &'a [PathBuf],
    pub(crate) spills: &'a Spills,
    pub(crate) secrets: &'a Arc<Secrets>,
    pub(crate) grants: Grants,
    pub(crate) tracks: &'a Logs,
    pub(crate) provenance: &'a Provenance,
    /// Finds control files.
    pub(crate) index: &'a Index,
}

/// The execution environment of one session. It starts its keeper at first use, which ends with it. Cheap to
/// clone.
#[derive(Clone)]
pub(crate) struct Execution {
    inner: Arc<Inner>,
    /// The call for which it starts processes, if it is for one.
    call: Option<Arc<str>>,
}

struct Inner {
    commands: Commands,
    /// The configured mode; [`sandbox`](Execution::sandbox) returns the one in effect.
    sandbox: SandboxMode,
    /// How far the sandbox is narrowed for now. Its tools' execution environments share it.
    held: Arc<SandboxLock>,
    /// The roots, each with whether it may be written if anything may.
    roots: Vec<(PathBuf, bool)>,
    hidden: Vec<PathBuf>,
    /// The name of the session.
    session: String,
    spill: PathBuf,
    spilling: Arc<dyn Spilling>,
    hosts: Hosts,
    /// The ports on which its processes listen.
    ports: Arc<SandboxPorts>,
    approve: Approve,
    /// Asks about package hosts, if somebody can be asked.
    asker: Arc<OnceLock<Asker>>,
    /// The hosts that haft.toml allows.
    allowed: Arc<[String]>,
    grants: Grants,
    /// The logs of what its commands change.
    tracks: Logs,
    /// Opens calls for what lasting processes change while they work for none.
    opener: Arc<OnceLock<Opener>>,
    /// Whether a tracker could not be started.
    is_untracked: AtomicBool,
    /// The tool file that this is for.
    own: Option<Own>,
    /// Whether changes to the roots are kept nowhere.
    preview: bool,
    /// Distinguishes its folder for temporary files from others.
    number: u64,
    confined: tokio::sync::Mutex<Option<Living>>,
    unconfined: tokio::sync::Mutex<Option<Living>>,
    seen: Mutex<SandboxReport>,
    /// The runtime's provenance records.
    appeared: Provenance,
    /// The runtime's index of control files, including those that git's configuration names.
    index: Index,
    configured: Configured,
}

/// A keeper, and the variables of its commands.
#[derive(Clone)]
struct Living {
    keeper: Keeper,
    env: Arc<Vec<(String, String)>>,
    limits: Arc<Vec<Limit>>,
    /// The port of the proxy in the sandbox.
    proxy: Option<u16>,
    /// Tracks what its commands change, or why nothing does.
    tracker: Result<Option<Tracker>, String>,
    /// Whether it was started read-only.
    read_only: bool,
    /// The changes to the overlays of a preview.
    uppers: Option<Arc<OwnedFd>>,
}

/// The execution environment of one call.
struct OfCall {
    execution: Execution,
    place: Place,
    /// The grants, which end with the call.
    _hosts: Vec<Granted>,
    /// The credential for the proxy, if hosts were granted to this call only.
    pass: Option<Pass>,
    /// The name of the called tool, if it is a file.
    tool: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    None,
    Sandbox,
    Unconfined,
}

impl Execution {
    /// Creates the execution environment of a session of this name.
    pub(crate) fn new(workspace: &Resources<'_>, session: &str) -> Self {
        Self::with(workspace, session, workspace.policy.sandbox)
    }

    /// Creates one for processes that nobody is asked about: they are always in the sandbox.
    pub(crate) fn contained(workspace: &Resources<'_>, session: &str) -> Self {
        let sandbox = match workspace.policy.sandbox {
            SandboxMode::Full => SandboxMode::Workspace,
            sandbox => sandbox,
        };
        Self::with(workspace, session, sandbox)
    }

    fn with(workspace: &Resources<'_>, session: &str, sandbox: SandboxMode) -> Self {
        let held = Arc::<SandboxLock>::default();
        let of_root = |(path, read_only): (&Path, bool)| {
            (path.to_owned(), !read_only && sandbox != SandboxMode::ReadOnly)
        };
        let spills = workspace.spills.clone();
        let ports = Arc::<SandboxPorts>::default();
        let hosts = Hosts::default().and_session_ports(ports.clone());
        workspace.policy.hosts.iter().for_each(|host| hosts.grant_lasting(host));
        let inner = Inner {
            commands: workspace.commands.clone(),
            sandbox,
            held: held.clone(),
            roots: workspace.roots.list().map(of_root).collect(),
            hidden: workspace.hidden.to_vec(),
            session: session.to_owned(),
            spill: spills.folder_of(session),
            spilling: Arc::new(OfSession {
                spills,
                session: session.to_owned(),
                secrets: workspace.secrets.clone(),
            }),
            hosts,
            ports,
            approve: workspace.policy.approve,
            asker: Arc::default(),
            allowed: workspace.policy.hosts.clone(),
            grants: workspace.grants.clone(),
            tracks: workspace.tracks.clone(),
            opener: Arc::default(),
            is_untracked: AtomicBool::new(false),
            own: None,
            preview: false,
            number: 0,
            confined: tokio::sync::Mutex::default(),
            unconfined: tokio::sync::Mutex::default(),
            seen: Mutex::default(),
            appeared: workspace.provenance.clone(),
            index: workspace.index.clone(),
            configured: workspace.policy.configured.clone(),
        };
        let execution = Self { inner: Arc::new(inner), call: None };
        held.holds(&execution);
        execution
    }

    /// Returns the process starter of a call with these touches. They are decided already: they are allowed,
    /// and so are the hosts that were granted before.
    pub(crate) fn of_call(&self, touches: &Touches, granted: &[String]) -> Procs {
        self.procs(None, touches, granted, &[])
    }

    /// Returns the process starter of a call where nobody was asked about `unasked`: it reaches those hosts
    /// at public addresses only.
    pub(crate) fn of_session_call(&self, touches: &Touches, granted: &[String], unasked: &[&str]) -> Procs {
        self.procs(None, touches, granted, unasked)
    }

    /// Returns the process starter of a call of a tool file, by its name.
    pub(crate) fn of_call_to(&self, tool: &str, touches: &Touches, granted: &[String]) -> Procs {
        self.procs(Some(tool.to_owned()), touches, granted, &[])
    }

    fn procs(&self, tool: Option<String>, touches: &Touches, granted: &[String], unasked: &[&str]) -> Procs {
        let (mut place, mut pass) = (Place::None, None::<Pass>);
        let mut hosts: Vec<_> = granted.iter().map(|host| self.inner.hosts.grant(host)).collect();
        for touch in touches.iter() {
            match touch {
                Touch::Run(_) if place == Place::None => place = Place::Sandbox,
                Touch::Unconfined => place = Place::Unconfined,
                // In a tool's sandbox all processes belong to that tool.
                Touch::Net(host) if self.inner.own.is_some() => hosts.push(self.inner.hosts.grant(host)),
                Touch::Net(host) => {
                    let most = if unasked.contains(&host.as_str()) { Reach::Public } else { Reach::Anywhere };
                    let pass = pass.get_or_insert_with(|| Pass::new(new_pass()));
                    hosts.push(self.inner.hosts.grant_to(host, most, pass));
                }
                Touch::Run(_)
                | Touch::Read(_)
                | Touch::Write(_)
                | Touch::WriteTree { .. }
                | Touch::Web(_)
                | Touch::Server { .. }
                | Touch::Session(_)
                | Touch::Tool(_)
                | Touch::Trigger(_)
                | Touch::Exclusive => {}
            }
        }
        if self.now(place) == Place::Sandbox {
            self.look_whether_closed();
        }
        Procs::new(Arc::new(OfCall { execution: self.clone(), place, _hosts: hosts, pass, tool }))
    }

    /// Returns where a process that belongs there starts at this time: a person may have narrowed the sandbox.
    fn now(&self, place: Place) -> Place {
        if place == Place::Sandbox && self.sandbox() == SandboxMode::Full { Place::Unconfined } else { place }
    }

    /// Returns whether it is known what the commands of a call with these touches change.
    pub(crate) fn tracks(&self, touches: &Touches) -> bool {
        let is_inside =
            self.sandbox() != SandboxMode::Full && touches.iter().all(|it| *it != Touch::Unconfined);
        is_inside && Tracker::IS_AVAILABLE && !self.inner.is_untracked.load(Ordering::Relaxed)
    }

    /// Returns this execution environment for processes of this call.
    pub(crate) fn working_for(&self, call: Option<&str>) -> Self {
        Self { inner: self.inner.clone(), call: call.map(Arc::from) }
    }

    /// Sets what opens calls for changes of lasting processes that work for none. The first one stays.
    pub(crate) fn opens_calls(&self, opener: impl FnOnce() -> Opener) {
        self.inner.opener.get_or_init(opener);
    }

    /// Returns the workspace.
    pub(crate) fn workspace(&self) -> &Path {
        self.inner.roots.first().map_or(Path::new("/"), |(path, _)| path)
    }

    /// Returns the state folder.
    pub(crate) fn state(&self) -> Option<&Path> {
        self.inner.hidden.first().map(PathBuf::as_path)
    }

    /// Returns haft's own environment.
    pub(crate) fn variables(&self) -> &[(String, String)] {
        &self.inner.commands.variables
    }

    /// Returns the value of one of haft's variables.
    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        self.variables().iter().find(|(it, _)| it == name).map(|it| it.1.as_str())
    }

    /// Returns whether commands can change this path's target, or a symlink on the way.
    pub(crate) fn may_change(&self, path: &Path) -> bool {
        // The interpreter of a virtual environment is a symlink to another, and runs the files beside it.
        self.inner.roots.iter().any(|(root, _)| path.starts_with(root)) || self.is_in_a_root(path)
    }

    /// Returns the `PATH` of processes that run here.
    pub(crate) fn search_path(&self) -> Option<String> {
        let variables = environment::environment(&self.inner.commands.variables, &[]);
        variables.into_iter().find(|(name, _)| name == "PATH").map(|(_, path)| path)
    }

    /// Returns how approval is handled.
    pub(crate) fn approve(&self) -> Approve {
        self.inner.approve
    }

    /// Returns the grants of this workspace.
    pub(crate) fn grants(&self) -> &Grants {
        &self.inner.grants
    }

    /// Returns the hosts that a person allows for all that runs in this workspace.
    pub(crate) fn lasting_hosts(&self) -> Vec<String> {
        let granted = self.inner.grants.in_force("").unwrap_or_else(|fault| {
            tracing::warn!("the grants of this workspace can't be read: {fault}");
            Vec::new()
        });
        let host = |effect: &str| match policy::grants::parse(effect) {
            Ok(Effect::Net(host)) => Some(host),
            _ => None,
        };
        let granted = granted.iter().filter_map(|it| host(&it.effect));
        granted.chain(self.inner.allowed.iter().cloned()).collect()
    }

    /// Returns the variables of every program in the sandbox.
    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        environment::environment(&self.inner.commands.variables, &self.inner.commands.env)
    }

    /// Returns whether this path is in a root, where commands may have created it.
    pub(crate) fn is_in_a_root(&self, path: &Path) -> bool {
        let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        self.inner.roots.iter().any(|(root, _)| real.starts_with(root))
    }

    /// Returns the ports on which its processes listen.
    pub(crate) fn ports(&self) -> &Arc<SandboxPorts> {
        &self.inner.ports
    }

    /// Forwards granted loopback ports of this machine, for programs that don't use the proxy.
    pub(crate) async fn forward_loopback(&self) {
        self.inner.ports.forward(&self.inner.hosts).await;
    }

    /// Returns the limits of commands and jobs.
    pub(crate) fn limits(&self) -> Limits {
        self.inner.commands.limits
    }

    /// Returns the hosts that commands may reach.
    pub(crate) fn hosts(&self) -> &Hosts {
        &self.inner.hosts
    }
}

impl Inner {
    /// Returns the folder for temporary files. No session has such a name.
    fn scratch(&self) -> PathBuf {
        let name = self.spill.file_name().unwrap_or_default().to_string_lossy();
        let number =
            if self.own.is_some() || self.preview { format!("-{}", self.number) } else { String::new() };
        self.spill.with_file_name(format!("=tmp-{}{number}-{name}", std::process::id()))
    }

    /// Returns whether this is in haft's own folders, except the environments of tools.
    fn is_haft_s(&self, path: &Path) -> bool {
        let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let own = self.hidden.iter().filter_map(|it| it.canonicalize().ok());
        let mut own = own.filter(|it| real.starts_with(it));
        own.any(|it| !real.starts_with(it.join(ENVIRONMENTS)))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Dropping it ends the commands; the keeper checks once more after that.
        *self.confined.get_mut() = None;
        let mut seen = self.seen.lock();
        if seen.watch.is_due() {
            self.look(&mut seen.watch);
        }
        seen.watch.take_away();
        drop(seen);
        // Mostly the folder does not exist.
        let _ = std::fs::remove_dir_all(self.scratch());
    }
}

impl kit::procs::Spawner for OfCall {
    fn start(&self, program: Program) -> Starting<'_> {
        Box::pin(self.execution.start(self.place, self.pass.as_ref(), program))
    }

    fn denials(&self, exit: Exit, output: &str) -> Vec<String> {
        match self.execution.now(self.place) {
            Place::Sandbox => self.execution.denials(exit, output, self.tool.as_deref()),
            Place::None | Place::Unconfined => Vec::new(),
        }
    }

    fn spilling(&self) -> Option<Arc<dyn Spilling>> {
        Some(self.execution.inner.spilling.clone())
    }

    fn call(&self) -> Option<&str> {
        self.execution.call.as_deref()
    }

    fn preview(&self) -> Result<Preview, Fault> {
        of_preview::of_call(self)
    }
}

/// Creates a random credential for the proxy.
fn new_pass() -> String {
    let mut bytes = [0; 16];
    // Without randomness the credential is predictable: the grant is then as wide as the session.
    let _ = getrandom::fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The spills of one session, with its name.
struct OfSession {
    spills: Spills,
    session: String,
    secrets: Arc<Secrets>,
}

impl Spilling for OfSession {
    fn open(&self) -> Result<SpillFile, Fault> {
        let (handle, file) = self.spills.create(&self.session)?;
        let space = self.spills.space(&self.session, &handle);
        Ok(SpillFile { handle, file, space: Some(space) })
    }

    fn mask(&self) -> Option<Arc<dyn Redact>> {
        Some(self.secrets.clone())
    }
}

/// Returns the fault for a call after the session has ended.
pub(crate) fn session_ended() -> Fault {
    Fault::new(Kind::Cancelled, "the session has ended, so the tool was not called")
}
