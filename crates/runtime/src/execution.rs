//! Execution: where a session's processes run, and with which limits.

mod of_plugin;
mod read_only_lock;
mod report;

use std::{
    net::TcpListener,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, OnceLock},
    time::Instant,
};

use kit::{
    Fault, Kind, Touch, Touches,
    decoders::Decoders,
    effect::Effect,
    net::Reach,
    procs::{Base, Exit, Keeper, Limit, Procs, Program, SpillFile, Spilling, Starting},
    redact::Secrets,
    services::Mask,
    spans,
};
use parking_lot::Mutex;
use policy::Approve;
use sandbox::{
    Confined, KEEPER, Part, Plan, Report, SandboxMode, Trouble, bubblewrap,
    closed::Closed,
    control_files::{configured::Configured, index::Index},
    environment,
    layout::{self, Wanted},
    limits::Limits,
    pass::Pass,
    ports::SandboxPorts,
    proxy::{self, Granted, Hosts},
    watch::{self, Begun},
};
use serde_json::json;
use store::{Grants, spill::Spills};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::UnixStream,
};

pub use of_plugin::Own;
use read_only_lock::ReadOnlyLock;
use report::{SandboxReport, changed};

use crate::{
    Runtime,
    config::LimitsSection,
    plugins::{
        compiled::Compiled,
        provenance::Provenance,
        uv::{Asker, Environments},
    },
};

/// What commands are started with.
#[derive(Debug, Clone)]
pub struct Commands {
    /// Our own binary, which is started as the keeper with [`KEEPER`] as its first argument; the program that
    /// runs, if this is not given. It has to call [`keep`](sandbox::keep) then.
    pub keeper: Option<PathBuf>,
    /// Whether foreign bytes are decoded in this process, without isolation: for tests, whose program is not a worker.
    pub decodes_here: bool,
    /// haft's own environment.
    pub variables: Vec<(String, String)>,
    /// The names of variables that commands get besides the short list.
    pub env: Vec<String>,
    /// The parts of the sandbox that a person agreed to do without, where the machine does not have them.
    pub accept_weaker: Vec<String>,
    /// Whether commands may make sockets that are named by a path.
    pub unix_sockets: bool,
    /// What commands may use of the machine.
    pub limits: Limits,
    /// How many bytes of outputs a session keeps that were too long to show.
    pub kept_outputs: u64,
}

impl Default for Commands {
    fn default() -> Self {
        Self {
            keeper: None,
            decodes_here: false,
            variables: Vec::new(),
            env: Vec::new(),
            accept_weaker: Vec::new(),
            unix_sockets: false,
            limits: Limits::default(),
            kept_outputs: LimitsSection::default().outputs(),
        }
    }
}

impl Commands {
    /// The program that is started as keeper and as decoder.
    fn program(&self) -> PathBuf {
        // What the link leads to may be deleted or replaced by an update; the link still is this very program.
        self.keeper.clone().unwrap_or_else(|| PathBuf::from("/proc/self/exe"))
    }

    /// Where foreign bytes are decoded.
    pub(crate) fn decoders(&self) -> Decoders {
        if self.decodes_here { Decoders::here() } else { Decoders::apart(&self.program()) }
    }
}

/// Where, below the state folder, what tools need of others is kept.
pub(crate) const ENVIRONMENTS: &str = "tools/environments";

/// The ground of one session: its keeper, started at first use and kept to its end. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Execution {
    inner: Arc<Inner>,
}

struct Inner {
    commands: Commands,
    /// What the person allows; see [`sandbox`](Ground::sandbox) for what holds now.
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
    pub(crate) fn new(runtime: &Runtime, session: &str) -> Self {
        Self::with(runtime, session, runtime.policy().sandbox)
    }

    /// The same for what nobody is asked about: it is in the sandbox whatever the session's commands are.
    pub(crate) fn contained(runtime: &Runtime, session: &str) -> Self {
        let sandbox = runtime.policy().sandbox;
        Self::with(
            runtime,
            session,
            if sandbox == SandboxMode::Full { SandboxMode::Workspace } else { sandbox },
        )
    }

    fn with(runtime: &Runtime, session: &str, sandbox: SandboxMode) -> Self {
        let held = Arc::<ReadOnlyLock>::default();
        let of_root = |(path, read_only): (&Path, bool)| {
            (path.to_owned(), !read_only && sandbox != SandboxMode::ReadOnly)
        };
        let spills = runtime.spills().clone();
        let ports = Arc::<SandboxPorts>::default();
        let hosts = Hosts::default().and_session_ports(ports.clone());
        runtime.policy().hosts.iter().for_each(|host| hosts.grant_lasting(host));
        let inner = Inner {
            commands: runtime.commands().clone(),
            sandbox,
            held: held.clone(),
            roots: runtime.roots().list().map(of_root).collect(),
            hidden: runtime.hidden().to_vec(),
            session: session.to_owned(),
            spill: spills.folder_of(session),
            spilling: Arc::new(OfSession {
                spills,
                session: session.to_owned(),
                secrets: runtime.secrets().clone(),
            }),
            hosts,
            ports,
            approve: runtime.policy().approve,
            asker: Arc::default(),
            allowed: runtime.policy().hosts,
            grants: runtime.store().grants(),
            own: None,
            number: 0,
            confined: tokio::sync::Mutex::default(),
            unconfined: tokio::sync::Mutex::default(),
            seen: Mutex::default(),
            appeared: runtime.appeared().clone(),
            index: runtime.index().clone(),
            configured: runtime.policy().configured,
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

    /// The environments with the packages of tools.
    pub(crate) fn environments(&self) -> Environments {
        let state = self.inner.hidden.first().map_or(Path::new("/"), PathBuf::as_path);
        Environments::new(state, &self.inner.commands.variables)
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

    /// Who is asked about the hosts that packages come from.
    pub(crate) fn asker(&self) -> Option<&Asker> {
        self.inner.asker.get()
    }

    /// From now on this person is asked about them.
    pub(crate) fn asks(&self, asker: Asker) {
        // There is one at a terminal.
        let _ = self.inner.asker.set(asker);
    }

    /// What persons allowed in this workspace.
    pub(crate) fn grants(&self) -> &Grants {
        &self.inner.grants
    }

    /// Where the code of the host script is kept for this interpreter. What lies where commands may change it, may give
    /// another code tomorrow.
    pub(crate) fn compiled(&self, interpreter: &str) -> Compiled {
        let inner = &*self.inner;
        // That of a virtual environment is a link to one that lies elsewhere, and runs what lies beside it.
        let may_change =
            |it: &Path| inner.roots.iter().any(|(root, _)| it.starts_with(root)) || self.is_in_a_root(it);
        let state = inner.hidden.first().filter(|_| !may_change(Path::new(interpreter)));
        // A name means what it means on this path.
        let path = inner.commands.variables.iter().find(|(name, _)| name == "PATH").map(|it| it.1.as_str());
        let name = blake3::hash(format!("{interpreter}\0{}", path.unwrap_or_default()).as_bytes()).to_hex();
        Compiled::at(state.map(|state| state.join("tools/compiled").join(name.as_str())))
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

    async fn start(
        &self,
        place: Place,
        pass: Option<&Pass>,
        mut program: Program,
    ) -> Result<kit::procs::Process, Fault> {
        let living = match place {
            Place::None => {
                return Err(Fault::denied("this call did not declare that it starts a command"));
            }
            Place::Sandbox => self.inside().await?,
            Place::Unconfined => self.outside().await?,
        };
        if place == Place::Sandbox {
            self.forward_loopback().await;
        }
        let read_only = living.read_only;
        if let (Some(pass), Some(port)) = (pass, living.proxy) {
            program.env.extend(environment::proxy_variables(port, Some(pass.word())));
        }
        let base = Base { env: &living.env, limits: &living.limits, spilling: Some(&self.inner.spilling) };
        let starting = (place == Place::Sandbox).then(|| self.command_begins());
        let coming = pass.map(Pass::coming);
        let process = living.keeper.start(program, base).await?;
        if let Some(coming) = coming {
            coming.is(process.supervisor());
        }
        let process = if let Some(starting) = starting { starting.began(process) } else { process };
        // What was allowed before nothing could be changed any more, must not begin after it.
        if self.is_read_only() && !read_only {
            return Err(read_only_lock::held_now());
        }
        Ok(process)
    }

    /// The keeper in the sandbox. One that died is replaced, so what ran in it is gone, but not the session.
    async fn inside(&self) -> Result<Living, Fault> {
        let mut kept = self.inner.confined.lock().await;
        let read_only = self.is_read_only();
        if let Some(living) = self.still_closed(&mut kept) {
            return Ok(living);
        }
        let began = Instant::now();
        let plan = self.plan(read_only)?;
        let mut tried = self.try_with(&plan).await?;
        if matches!(&tried, Err(trouble) if trouble.part == Part::Namespaces) && self.bubblewrap().is_some() {
            // Whoever is refused by a kernel that makes exceptions may be no exception, but bubblewrap be one.
            let plan = Plan { confined: Confined::Wrapped, ..plan.clone() };
            let wrapped = match self.try_with(&plan).await {
                Ok(Ok(living)) => Ok(living),
                Ok(Err(trouble)) => Err(trouble.to_string()),
                Err(fault) => Err(fault.what),
            };
            tried = match (wrapped, tried) {
                (Ok(living), _) | (Err(_), Ok(living)) => Ok(living),
                (Err(why), Err(trouble)) => {
                    Err(Trouble { error: format!("{}; with bubblewrap: {why}", trouble.error), ..trouble })
                }
            };
        }
        let living = match tried {
            Ok(living) => living,
            Err(trouble) if trouble.part == Part::Namespaces && self.accepts(trouble.part) => {
                let plan = Plan {
                    confined: Confined::ByRules,
                    scratch: vec![self.scratch().map_err(|error| unavailable_folder(&error))?],
                    mounts: self.without_own_folder(plan.mounts),
                    ..plan
                };
                self.try_with(&plan).await?.map_err(|trouble| unavailable(&trouble))?
            }
            Err(trouble) => return Err(unavailable(&trouble)),
        };
        let living = Living { read_only, ..living };
        spans::sandbox_started(began.elapsed());
        *kept = Some(living.clone());
        Ok(living)
    }

    async fn outside(&self) -> Result<Living, Fault> {
        if self.is_read_only() {
            return Err(read_only_lock::held_now());
        }
        let mut kept = self.inner.unconfined.lock().await;
        if let Some(living) = kept.as_ref().filter(|it| !it.keeper.is_gone()) {
            return Ok(living.clone());
        }
        let living = self.try_with(&Plan::default()).await?.map_err(|trouble| unavailable(&trouble))?;
        *kept = Some(living.clone());
        Ok(living)
    }

    fn plan(&self, read_only: bool) -> Result<Plan, Fault> {
        let inner = &*self.inner;
        if let Some(path) =
            inner.own.iter().flat_map(|own| own.read.iter().chain(&own.write)).find(|it| inner.is_haft_s(it))
        {
            let path = path.display();
            return Err(Fault::new(
                Kind::Unavailable,
                format!("{path} is haft's own, and no tool is given it"),
            )
            .next("Take it out of the tool's section in haft.toml.".to_owned()));
        }
        // What is to be seen has to be there before.
        let spill = store::create_folder(&inner.spill).is_ok().then(|| inner.spill.clone());
        // Work of haft's own has no tool, and no business with what the session's commands wrote.
        let spill = spill.filter(|_| inner.own.as_ref().is_none_or(|own| !own.folder.as_os_str().is_empty()));
        let sandbox = if read_only { SandboxMode::ReadOnly } else { inner.sandbox };
        let wanted = Wanted {
            sandbox,
            roots: inner.roots.iter().map(|(path, writable)| (path.clone(), !writable)).collect(),
            variables: inner.commands.variables.clone(),
            hidden: inner.hidden.clone(),
            spill,
            tools: inner.own.as_ref().map(|it| (it.folder.clone(), it.code.clone())),
            index: inner.index.clone(),
            configured: inner.configured.clone(),
            names: inner.own.iter().flat_map(Own::paths).cloned().collect(),
        };
        let mut seen = inner.seen.lock();
        // What is there when the sandbox is made would be taken for the person's own.
        if seen.watch.is_due() {
            inner.look(&mut seen.watch);
        }
        seen.watch.take_away();
        let layout = layout::layout(&wanted)?;
        seen.closed = Closed::by(&layout.mounts);
        let alone = watch::without_common(&layout.guarded);
        let open = sandbox != SandboxMode::ReadOnly;
        let roots = inner.roots.iter().filter(|it| it.1 && open).map(|it| it.0.clone()).collect();
        seen.open =
            layout.tools.as_ref().map(|(folder, code)| inner.appeared.open(folder.clone(), code.clone()));
        let tools = layout.tools.map(|it| it.0);
        seen.changed = tools.as_deref().and_then(changed);
        let begun = Begun {
            roots,
            tools,
            folders: layout.guarded,
            index: inner.index.clone(),
            configured: inner.configured.clone(),
        };
        seen.watch.begin(begun, &layout.mounts);
        Ok(Plan {
            confined: Confined::Apart,
            mounts: layout.mounts,
            alone,
            scratch: Vec::new(),
            limits: inner.commands.limits,
            unix_sockets: inner.commands.unix_sockets || inner.own.as_ref().is_some_and(|it| it.unix_sockets),
            accept_weaker: inner.commands.accept_weaker.clone(),
        })
    }

    /// A folder for temporary files, where commands can have no private `/tmp`.
    fn scratch(&self) -> std::io::Result<PathBuf> {
        let folder = self.inner.scratch();
        store::create_folder(&folder)?;
        folder.canonicalize()
    }

    fn bubblewrap(&self) -> Option<PathBuf> {
        let path = self.inner.commands.variables.iter().find(|(name, _)| name == "PATH");
        let found = bubblewrap::find(path.map(|(_, value)| value.as_str())?)?.canonicalize().ok()?;
        // What lies in a root may have been put there by a command.
        (!self.is_in_a_root(&found)).then_some(found)
    }

    /// What starts a keeper of this plan.
    fn command(&self, plan: &Plan) -> Result<Command, Fault> {
        let program = self.inner.commands.program();
        let mut command = match self.bubblewrap().filter(|_| plan.confined == Confined::Wrapped) {
            None => Command::new(program),
            Some(wrapper) => {
                let arguments = program
                    .canonicalize()
                    .and_then(|program| bubblewrap::arguments(&plan.mounts, &program, &self.scratch()?));
                let arguments = arguments.map_err(|error: std::io::Error| {
                    Fault::new(Kind::Unavailable, format!("bubblewrap can't be started: {error}"))
                })?;
                let mut command = Command::new(wrapper);
                command.args(arguments);
                command
            }
        };
        command.arg(KEEPER);
        Ok(command)
    }

    fn accepts(&self, part: Part) -> bool {
        self.inner.commands.accept_weaker.iter().any(|it| it == part.name())
    }

    /// A keeper of this plan, or why there can be none.
    async fn try_with(&self, plan: &Plan) -> Result<Result<Living, Trouble>, Fault> {
        let command = self.command(plan)?;
        let plan_bytes = serde_json::to_vec(plan).map_err(|error| {
            Fault::new(Kind::Unavailable, format!("the sandbox can't be described: {error}")).caused_by(error)
        })?;
        let (keeper, report, files) = Keeper::spawn(command, &plan_bytes).await?;
        let report: Report = serde_json::from_slice(&report)
            .map_err(|error| Fault::bug(format!("the keeper's report can't be read: {error}")))?;
        if let Some(trouble) = report.trouble {
            return Ok(Err(trouble));
        }
        let mut env = self.environment();
        if let Some(scratch) = plan.scratch.first() {
            env.retain(|(name, _)| name != "TMPDIR");
            env.push(("TMPDIR".to_owned(), scratch.to_string_lossy().into_owned()));
        }
        if plan.confined != Confined::Not {
            let mut seen = self.inner.seen.lock();
            seen.mounts.clone_from(&plan.mounts);
        }
        if let Some(own) = &self.inner.own {
            env.retain(|(name, _)| !own.env.iter().any(|(it, _)| it == name));
            env.extend(own.env.iter().cloned());
        }
        if let Some(port) = report.proxy {
            env.extend(environment::proxy_variables(port, None));
            self.inner.ports.are_of(&keeper, port);
            self.serve(files);
        }
        let limits = if plan.confined == Confined::Not { Vec::new() } else { plan.limits.of_each() };
        Ok(Ok(Living {
            keeper,
            env: Arc::new(env),
            limits: Arc::new(limits),
            proxy: report.proxy,
            read_only: false,
        }))
    }

    /// Serves what a sandbox asks of us.
    fn serve(&self, files: Vec<OwnedFd>) {
        let mut files = files.into_iter();
        if let Some(listener) = files.next() {
            tokio::spawn(proxy::serve(TcpListener::from(listener), self.inner.hosts.clone()));
        }
        let Some(ended) = files.next() else { return };
        let execution = Arc::downgrade(&self.inner);
        let ended = std::os::unix::net::UnixStream::from(ended);
        // A task and no thread: whoever ends the runtime must not wait for the sandbox's end.
        let Ok(ended) = ended.set_nonblocking(true).and_then(|()| UnixStream::from_std(ended)) else {
            return;
        };
        tokio::spawn(async move {
            let mut lines = BufReader::new(ended).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let (Some(execution), Ok(one)) = (execution.upgrade(), serde_json::from_str(&line)) else {
                    return;
                };
                execution.seen.lock().ended.push(one);
            }
        });
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

fn unavailable_folder(error: &std::io::Error) -> Fault {
    Fault::new(Kind::Unavailable, format!("no folder for temporary files could be made: {error}"))
}

fn unavailable(trouble: &Trouble) -> Fault {
    let name = trouble.part.name();
    Fault::new(Kind::Unavailable, format!("the sandbox can't be built, so nothing was started: {trouble}")).next(format!(
        "A person can accept a weaker sandbox with `--accept-weaker {name}`, or `accept_weaker = {}` in their own haft.toml: {}",
        json!([name]),
        trouble.part.without(),
    ))
}
