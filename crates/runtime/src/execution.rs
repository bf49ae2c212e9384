//! Execution: where a session's processes run, and with which limits.

mod asker;
mod commands;
mod keeper;
mod of_plugin;
mod read_only_lock;
mod report;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use kit::{
    Fault, Kind, Touch, Touches,
    effect::Effect,
    files::Roots,
    net::Reach,
    procs::{Exit, Keeper, Limit, Procs, Program, SpillFile, Spilling, Starting},
    redact::Secrets,
    services::Mask,
};
use parking_lot::Mutex;
use policy::{Approve, Policy};
use sandbox::{
    SandboxMode,
    control_files::{configured::Configured, index::Index},
    environment,
    pass::Pass,
    ports::SandboxPorts,
    proxy::{Granted, Hosts},
};
use store::{Grants, spill::Spills};

pub(crate) use asker::Asker;
pub use commands::Commands;
pub use of_plugin::Own;
use read_only_lock::ReadOnlyLock;
use report::SandboxReport;

use crate::provenance::Provenance;

/// Where, below the state folder, what tools need of others is kept.
pub(crate) const ENVIRONMENTS: &str = "tools/environments";

/// What the processes of all sessions of a workspace have in common.
pub(crate) struct Resources<'a> {
    pub(crate) commands: &'a Commands,
    pub(crate) policy: &'a Policy,
    pub(crate) roots: &'a Roots,
    /// Folders of haft's own, the state folder first.
    pub(crate) hidden: &'a [PathBuf],
    pub(crate) spills: &'a Spills,
    pub(crate) secrets: &'a Arc<Secrets>,
    pub(crate) grants: Grants,
    pub(crate) provenance: &'a Provenance,
    /// Where control files are found.
    pub(crate) index: &'a Index,
}

/// The ground of one session: its keeper, started at first use and kept to its end. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Execution {
    inner: Arc<Inner>,
}

struct Inner {
    commands: Commands,
    /// What the person allows; see [`sandbox`](Execution::sandbox) for what holds now.
    sandbox: SandboxMode,
    /// Whether the session may change nothing for now. Its tools' grounds share it.
    held: Arc<ReadOnlyLock>,
    /// And whether each may be written, where it may change something.
    roots: Vec<(PathBuf, bool)>,
    hidden: Vec<PathBuf>,
    /// The name of the session.
    session: String,
    spill: PathBuf,
    spilling: Arc<dyn Spilling>,
    hosts: Hosts,
    /// What its own processes serve.
    ports: Arc<SandboxPorts>,
    approve: Approve,
    /// Who is asked about hosts that packages come from, where somebody is.
    asker: Arc<OnceLock<Asker>>,
    /// The hosts that haft.toml allows.
    allowed: Arc<[String]>,
    grants: Grants,
    /// For one tool that is a file.
    own: Option<Own>,
    /// Tells its folder for temporary files from that of others.
    number: u64,
    confined: tokio::sync::Mutex<Option<Living>>,
    unconfined: tokio::sync::Mutex<Option<Living>>,
    seen: Mutex<SandboxReport>,
    /// Of the runtime.
    appeared: Provenance,
    /// Of the runtime: where control files are found, and those that git's configuration names.
    index: Index,
    configured: Configured,
}

/// A keeper, and the variables its commands have.
#[derive(Clone)]
struct Living {
    keeper: Keeper,
    env: Arc<Vec<(String, String)>>,
    limits: Arc<Vec<Limit>>,
    /// Where the proxy is, inside.
    proxy: Option<u16>,
    /// It was made while nothing could be changed.
    read_only: bool,
}

/// Where the processes of one call run.
struct OfCall {
    execution: Execution,
    place: Place,
    /// For as long as the call.
    _hosts: Vec<Granted>,
    /// What its commands show the proxy, where hosts were granted to this call alone.
    pass: Option<Pass>,
    /// The tool that is called, if it is a file.
    tool: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    None,
    Sandbox,
    Unconfined,
}

impl Execution {
    /// The ground of a session of this name.
    pub(crate) fn new(workspace: &Resources<'_>, session: &str) -> Self {
        Self::with(workspace, session, workspace.policy.sandbox)
    }

    /// The same for what nobody is asked about: it is in the sandbox whatever the session's commands are.
    pub(crate) fn contained(workspace: &Resources<'_>, session: &str) -> Self {
        let sandbox = match workspace.policy.sandbox {
            SandboxMode::Full => SandboxMode::Workspace,
            sandbox => sandbox,
        };
        Self::with(workspace, session, sandbox)
    }

    fn with(workspace: &Resources<'_>, session: &str, sandbox: SandboxMode) -> Self {
        let held = Arc::<ReadOnlyLock>::default();
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
            own: None,
            number: 0,
            confined: tokio::sync::Mutex::default(),
            unconfined: tokio::sync::Mutex::default(),
            seen: Mutex::default(),
            appeared: workspace.provenance.clone(),
            index: workspace.index.clone(),
            configured: workspace.policy.configured.clone(),
        };
        let execution = Self { inner: Arc::new(inner) };
        held.holds(&execution);
        execution
    }

    /// What a call that touches these starts its processes with. They have been decided on: what is among
    /// them is allowed, and so are the hosts that were granted before.
    pub(crate) fn of_call(&self, touches: &Touches, granted: &[String]) -> Procs {
        self.procs(None, touches, granted, &[])
    }

    /// The same where nobody was asked about some of the hosts: those are reached at public addresses alone.
    pub(crate) fn of_session_call(&self, touches: &Touches, granted: &[String], unasked: &[&str]) -> Procs {
        self.procs(None, touches, granted, unasked)
    }

    /// The same for a call of a tool that is a file, by its name.
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
                // All that runs in the sandbox of a tool is that tool.
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
                | Touch::Exclusive => {}
            }
        }
        if place == Place::Sandbox && self.sandbox() == SandboxMode::Full {
            place = Place::Unconfined;
        }
        if place == Place::Sandbox {
            self.look_whether_closed();
        }
        Procs::new(Arc::new(OfCall { execution: self.clone(), place, _hosts: hosts, pass, tool }))
    }

    /// The workspace.
    pub(crate) fn workspace(&self) -> &Path {
        self.inner.roots.first().map_or(Path::new("/"), |(path, _)| path)
    }

    /// Where state is kept.
    pub(crate) fn state(&self) -> Option<&Path> {
        self.inner.hidden.first().map(PathBuf::as_path)
    }

    /// haft's own environment.
    pub(crate) fn variables(&self) -> &[(String, String)] {
        &self.inner.commands.variables
    }

    /// The value of one of its variables.
    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        self.variables().iter().find(|(it, _)| it == name).map(|it| it.1.as_str())
    }

    /// May commands change what this path leads to, or what it goes through?
    pub(crate) fn may_change(&self, path: &Path) -> bool {
        // The interpreter of a virtual environment is a link to one that lies elsewhere, and runs what lies beside it.
        self.inner.roots.iter().any(|(root, _)| path.starts_with(root)) || self.is_in_a_root(path)
    }

    /// Where what runs on it looks programs up.
    pub(crate) fn search_path(&self) -> Option<String> {
        let variables = environment::environment(&self.inner.commands.variables, &[]);
        variables.into_iter().find(|(name, _)| name == "PATH").map(|(_, path)| path)
    }

    /// What becomes of what a person has to be asked about.
    pub(crate) fn approve(&self) -> Approve {
        self.inner.approve
    }

    /// What persons allowed in this workspace.
    pub(crate) fn grants(&self) -> &Grants {
        &self.inner.grants
    }

    /// The hosts that a person allows to whatever runs in this workspace.
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

    /// The variables of every program in the sandbox.
    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        environment::environment(&self.inner.commands.variables, &self.inner.commands.env)
    }

    /// Does this lie where commands may have put it?
    pub(crate) fn is_in_a_root(&self, path: &Path) -> bool {
        let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        self.inner.roots.iter().any(|(root, _)| real.starts_with(root))
    }

    /// What processes serve that were started here.
    pub(crate) fn ports(&self) -> &Arc<SandboxPorts> {
        &self.inner.ports
    }

    /// Has programs that ask no proxy reach the ports of this machine's loopback that are granted now.
    pub(crate) async fn forward_loopback(&self) {
        self.inner.ports.forward(&self.inner.hosts).await;
    }

    /// The hosts that commands may reach.
    pub(crate) fn hosts(&self) -> &Hosts {
        &self.inner.hosts
    }
}

impl Inner {
    /// No session has a name like this.
    fn scratch(&self) -> PathBuf {
        let name = self.spill.file_name().unwrap_or_default().to_string_lossy();
        let number = if self.own.is_some() { format!("-{}", self.number) } else { String::new() };
        self.spill.with_file_name(format!("=tmp-{}{number}-{name}", std::process::id()))
    }

    /// Does this lie in haft's own folders, but for what was made for tools?
    fn is_haft_s(&self, path: &Path) -> bool {
        let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let own = self.hidden.iter().filter_map(|it| it.canonicalize().ok());
        let mut own = own.filter(|it| real.starts_with(it));
        own.any(|it| !real.starts_with(it.join(ENVIRONMENTS)))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Its end takes the commands with it; the keeper looks once more when they are gone.
        *self.confined.get_mut() = None;
        let mut seen = self.seen.lock();
        if seen.watch.is_due() {
            self.look(&mut seen.watch);
        }
        seen.watch.take_away();
        drop(seen);
        // There mostly is none.
        let _ = std::fs::remove_dir_all(self.scratch());
    }
}

impl kit::procs::Spawner for OfCall {
    fn start(&self, program: Program) -> Starting<'_> {
        Box::pin(self.execution.start(self.place, self.pass.as_ref(), program))
    }

    fn denials(&self, exit: Exit, output: &str) -> Vec<String> {
        match self.place {
            Place::Sandbox => self.execution.denials(exit, output, self.tool.as_deref()),
            Place::None | Place::Unconfined => Vec::new(),
        }
    }

    fn spilling(&self) -> Option<Arc<dyn Spilling>> {
        Some(self.execution.inner.spilling.clone())
    }
}

/// A pass that nobody guesses.
fn new_pass() -> String {
    let mut bytes = [0; 16];
    // Without randomness there is a pass all the same: the grant is then as wide as the session.
    let _ = getrandom::fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The spills of one session.
struct OfSession {
    spills: Spills,
    session: String,
    secrets: Arc<Secrets>,
}

impl Spilling for OfSession {
    fn open(&self) -> Result<SpillFile, Fault> {
        let (handle, file) = self.spills.create(&self.session)?;
        let room = self.spills.room(&self.session, &handle);
        Ok(SpillFile { handle, file, room: Some(room) })
    }

    fn mask(&self) -> Option<Arc<dyn Mask>> {
        Some(self.secrets.clone())
    }
}

/// What is said when the session has put its processes away.
pub(crate) fn session_ended() -> Fault {
    Fault::new(Kind::Cancelled, "the session has ended, so the tool was not called")
}
