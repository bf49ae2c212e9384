//! A session: the state of one conversation.

mod call_limits;

use std::{
    collections::{HashSet, hash_map::DefaultHasher},
    hash::{Hash, Hasher},
    path::{Path, PathBuf},
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use arc_swap::ArcSwap;
use call_limits::Showing;
use kit::{
    Address, Fault, Kinds, Output, Spec, Touches,
    decoders::Decoders,
    files::Roots,
    net::{Allowed, HostPattern, Net, Reach, SessionPorts, host_of, says_private, split_port, with_port},
    procs::Procs,
    redact::Secrets,
    seen::Views,
    services::{Agents, NoAgent, Reloaded, Review, Shelf, Transcript, Undo},
};
use parking_lot::Mutex;
use policy::{Decision, Policy, Want, Web, grants::SessionGrants};
use sandbox::{SandboxMode, proxy::Hosts};
use store::{Store, history::CallHistory, shares::SessionFiles, spill::folder_of, undo::Scope};
use tokio::sync::{broadcast, watch};

use crate::{
    Answer, Call, Runtime,
    addresses::Addresses,
    approval_time::AskedTime,
    approve::Approver,
    call::{self, Plan},
    execution::{Execution, Own},
    jobs::{Event, Jobs, OwedJob, PersistedJobs},
    plugins::{
        self, Loaded,
        uv::{self, Environments, Provided},
    },
    put_back,
    schedule::Schedule,
};

pub use call_limits::Limits;

/// Under which key the view of a file is kept.
fn view_key(file: &Path) -> String {
    format!("view {}", file.display())
}

/// What a conversation is told once where nobody decided how open the web is, and nobody can be asked.
const OPEN_WEB: &str = "nobody can be asked here, so addresses that the model composes are requested unasked; `web = \"known\"` in \
                        `[net]` of haft.toml refuses them";

/// How long the end of a session waits for its jobs.
const LAST_JOBS: Duration = Duration::from_secs(2);

/// One conversation's memory. Cheap to clone. It ends with its last clone, or when it is
/// told to [`end`](Self::end): then its jobs are stopped, and what its tools kept is dropped.
#[derive(Clone)]
pub struct Session {
    inner: Arc<Inner>,
    /// Whoever may still call has this; a call that runs does not.
    _held: Option<Arc<Hold>>,
}

/// A session that this does not keep from ending.
#[derive(Clone)]
pub struct WeakSession {
    inner: Weak<Inner>,
}

impl WeakSession {
    /// The session, if it is still there; it may end while this is held.
    pub fn get(&self) -> Option<Session> {
        self.inner.upgrade().map(|inner| Session { inner, _held: None })
    }
}

/// Ends the session when nobody can call any more.
struct Hold {
    jobs: Arc<Jobs>,
    shelf: Arc<Shelf>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.jobs.close();
        self.shelf.clear();
    }
}

/// Who is asked for a session, and what they said before.
struct Person {
    approver: Arc<dyn Approver>,
    agent: Option<String>,
    grants: SessionGrants,
    asking: Arc<tokio::sync::Mutex<()>>,
    asked: Arc<AskedTime>,
    addresses: Arc<Addresses>,
    files: SessionFiles,
    decoders: Decoders,
}

struct Inner {
    runtime: Runtime,
    name: String,
    /// A named session goes on where it was left.
    named: bool,
    /// Which tools it shows.
    showing: Showing,
    /// The agent it belongs to, from when there is one.
    agents: OnceLock<Arc<dyn Agents>>,
    views: Arc<Views>,
    /// The files whose kept views were looked up.
    recalled: Mutex<HashSet<PathBuf>>,
    approver: Arc<dyn Approver>,
    /// The agent whose session it is, where another one started it.
    agent: Option<String>,
    /// The door it was opened through.
    door: String,
    /// What a person allowed it, and the agents that it starts.
    grants: SessionGrants,
    /// Whose turn it is to ask the person. Agents that one of them started ask the same person.
    asking: Arc<tokio::sync::Mutex<()>>,
    /// How long they were asked.
    asked: Arc<AskedTime>,
    /// What they named, and what was read on the web. Agents that one of them started read for it.
    addresses: Arc<Addresses>,
    /// What was given to the person. The agents that it started give in its name.
    files: SessionFiles,
    /// The roots with this session's spilled outputs, once there are any.
    with_shelf: OnceLock<Roots>,
    /// The tools whose manual it was shown.
    manuals: Mutex<HashSet<String>>,
    /// The last call that was refused for its arguments.
    last_refused: Mutex<Option<u64>>,
    execution: Execution,
    jobs: Arc<Jobs>,
    shelf: Arc<Shelf>,
    decoders: Decoders,
    /// The tools that are files, as the model knows them.
    known: ArcSwap<Loaded>,
}

impl Session {
    pub(crate) fn open(
        runtime: Runtime,
        name: Option<&str>,
        door: &str,
        approver: Arc<dyn Approver>,
    ) -> Self {
        let named = name.is_some();
        let name = name.map_or_else(|| runtime.store().call_id().replacen("c_", "s_", 1), str::to_owned);
        let person = Person {
            approver,
            agent: None,
            grants: SessionGrants::new(runtime.store().clone(), &name, named, door),
            asking: Arc::default(),
            asked: Arc::default(),
            addresses: Arc::default(),
            files: SessionFiles::new(folder_of(&runtime.store().files_folder(), &name)),
            decoders: runtime.commands().decoders(),
        };
        Self::of(runtime, name, named, door, person)
    }

    /// A session of its own, for an agent that this one's agent starts. It asks the same person, under this name; what
    /// that person allowed the session, it is allowed too, and it may change nothing where this one may not.
    #[must_use]
    pub fn below(&self, agent: &str) -> Self {
        let this = &*self.inner;
        let under = match &this.agent {
            Some(above) => format!("{above}/{agent}"),
            None => agent.to_owned(),
        };
        let person = Person {
            approver: this.approver.clone(),
            agent: Some(under),
            grants: this.grants.clone(),
            asking: this.asking.clone(),
            asked: this.asked.clone(),
            addresses: this.addresses.clone(),
            files: this.files.clone(),
            decoders: this.decoders.clone(),
        };
        let below =
            Self::of(this.runtime.clone(), format!("{}/{agent}", this.name), this.named, &this.door, person);
        below.limit(Limits::clone(&self.limits()));
        below.list_as(self);
        below
    }

    fn of(runtime: Runtime, name: String, named: bool, door: &str, person: Person) -> Self {
        let Person { approver, agent, grants, asking, asked, addresses, files, decoders } = person;
        let sessions = runtime.store().sessions();
        // That the session was used is told to whoever lists sessions; a call does not depend on it.
        let _ = sessions.used(&*name, door);
        let showing = Showing::new(&runtime);
        let execution = Execution::new(&runtime, &name);
        let (jobs, shelf) = (Arc::<Jobs>::default(), Arc::<Shelf>::default());
        let known = ArcSwap::new(runtime.plugins().loaded());
        let hold = Hold { jobs: jobs.clone(), shelf: shelf.clone() };
        let session = Self {
            _held: Some(Arc::new(hold)),
            inner: Arc::new(Inner {
                runtime,
                name,
                named,
                showing,
                agents: OnceLock::new(),
                views: Arc::default(),
                recalled: Mutex::default(),
                approver,
                agent,
                door: door.to_owned(),
                grants,
                asking,
                asked,
                addresses,
                files,
                with_shelf: OnceLock::new(),
                manuals: Mutex::default(),
                last_refused: Mutex::new(None),
                execution,
                jobs,
                shelf,
                decoders,
                known,
            }),
        };
        session.open_shelf();
        if session.inner.named {
            session.keep_jobs(session.name());
        }
        let variables = session.inner.runtime.commands().variables.clone();
        let workspace = session.inner.runtime.roots().workspace();
        let environments = Environments::of(&session.inner.runtime);
        let inner = Arc::downgrade(&session.inner);
        let packages: plugins::Packages = Box::new(move |file, source| {
            // It lies on the shelf, so it must not keep the session.
            let session = inner.upgrade().map(|inner| Self { inner, _held: None });
            Box::pin(async move {
                match session {
                    Some(session) => session.provided(&file, &source).await,
                    None => Ok(None),
                }
            })
        });
        let execution = session.inner.execution.clone();
        let hosts =
            plugins::Hosts::new(execution, workspace, session.name(), variables, environments, packages);
        session.inner.shelf.put(Arc::new(hosts));
        let inner = Arc::downgrade(&session.inner);
        session.inner.shelf.put(Arc::new(plugins::Recall::new(move |file| {
            if let Some(inner) = inner.upgrade() {
                Self { inner, _held: None }.recall(file);
            }
        })));
        session.inner.shelf.put(Arc::new(plugins::connections(
            &session.inner.runtime,
            session.inner.execution.clone(),
            session.weak(),
        )));
        session
    }

    /// Writes its jobs down among those of this owner, whose other sessions can then read them, also when this one is over
    /// or its process was killed. The jobs of a named session are its own; the first owner stays.
    pub fn keep_jobs(&self, owner: &str) {
        let runtime = &self.inner.runtime;
        let kept = PersistedJobs::new(runtime.store(), runtime.spills(), self.secrets(), owner, self.name());
        self.inner.jobs.keep(kept);
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The same session, held by who must not keep it from ending.
    pub fn weak(&self) -> WeakSession {
        WeakSession { inner: Arc::downgrade(&self.inner) }
    }

    /// Says to which agent the session belongs. The first one stays.
    pub fn belongs_to(&self, agent: Arc<dyn Agents>) {
        let _ = self.inner.agents.set(agent);
    }

    pub(crate) fn agents(&self) -> Arc<dyn Agents> {
        self.inner.agents.get().cloned().unwrap_or_else(|| Arc::new(NoAgent))
    }

    /// Is there something that [`news`](Self::news) would tell?
    pub fn has_news(&self) -> bool {
        self.inner.jobs.has_news()
    }

    /// What the model does not know yet of jobs that have ended or wait for input, each with its result or the end of it.
    /// Told once.
    pub fn news(&self) -> Vec<String> {
        let news = self.inner.jobs.take_news();
        Jobs::results(&news, self.catalog().has("read_job")).collect()
    }

    /// The jobs whose results were promised to the model, and that still work: calls with `run_in_background`.
    pub async fn owed_jobs(&self) -> Vec<OwedJob> {
        self.inner.jobs.owed().await
    }

    /// Has such a job ended, and the model was not told?
    pub fn owes_news(&self) -> bool {
        self.inner.jobs.owes_news()
    }

    /// Keeps bytes for as long as outputs of the session are kept; gives the handle they can be read by.
    ///
    /// # Errors
    /// When they can't be written.
    pub fn keep_output(&self, bytes: &[u8]) -> Result<String, Fault> {
        self.spill(bytes)
    }

    /// The files that it gave to its person.
    pub fn files(&self) -> &SessionFiles {
        &self.inner.files
    }

    /// The runtime it belongs to.
    pub fn runtime(&self) -> &Runtime {
        &self.inner.runtime
    }

    /// Runs one call, start to finish. Calls may run at the same time: they wait
    /// for each other where they touch the same things, in the order in which this
    /// was first polled. Dropping the future stops the call.
    pub async fn call(&self, call: Call) -> Answer {
        call::run(self, call, None).await
    }

    /// Is there a tool of this name, once it was looked for where tools are files?
    pub async fn find(&self, name: &str) -> bool {
        let outside = self.runtime().plugins();
        if !self.catalog().has(name) && outside.wants_a_look(name) {
            outside.reload(false).await;
        }
        if !self.catalog().has(name) {
            self.look_for_server_of(name).await;
        }
        self.catalog().has(name)
    }

    /// What the next answer is to say of tools that changed, and what to [tell](Self::knows_tools) of once it did.
    pub(crate) fn tool_news(&self) -> Option<(Option<String>, Arc<Loaded>)> {
        let now = self.runtime().plugins().loaded();
        let known = self.inner.known.load();
        if Arc::ptr_eq(&known, &now) {
            return None;
        }
        let (allowed, limits) = (self.runtime().allowed(), self.limits());
        let is_on =
            |list: Option<&[String]>, name: &str| list.is_none_or(|it| it.iter().any(|it| it == name));
        let news = now.news(&known, |name| is_on(allowed, name) && is_on(limits.tools.as_deref(), name));
        Some((news, now))
    }

    /// This report with what is different from what the model was last told, which it is told by it.
    pub(crate) fn tools_told(&self, report: Reloaded) -> Reloaded {
        let now = self.runtime().plugins().loaded();
        let known = self.inner.known.load_full();
        let since = now.since(&known);
        self.knows_tools(now);
        Reloaded { loaded: since.loaded, changed: since.changed, gone: since.gone, ..report }
    }

    /// The model knows the tools that are files as they were then: it was told, or asked for the change itself.
    pub(crate) fn knows_tools(&self, as_of: Arc<Loaded>) {
        self.inner.known.store(as_of);
    }

    /// An id for [`Call::id`], which nothing else has.
    pub fn new_call_id(&self) -> String {
        self.store().call_id()
    }

    /// Moves a running call, which was begun with this id, to the background: it answers now, and
    /// goes on as the job whose id this gives.
    ///
    /// # Errors
    /// [`Kind::NotFound`](kit::Kind::NotFound) when no such call is under way.
    pub fn promote(&self, call: &str) -> Result<String, Fault> {
        self.inner.jobs.promote(call)
    }

    /// The id of the job that a call has become which was begun with this id, once it has answered.
    pub fn job_of(&self, call: &str) -> Option<String> {
        self.inner.jobs.of_call(call)
    }

    /// What a running call, which was begun with this id, has written until now, for a host to show.
    pub fn written(&self, call: &str) -> Option<Arc<dyn Transcript>> {
        self.inner.jobs.written(call)
    }

    /// What a call, which was begun with this id, waits for: the title of the call that holds a lock which it needs. Nothing,
    /// when it waits for no lock.
    pub fn waits_for(&self, call: &str) -> Option<String> {
        self.schedule().ahead_of(call).map(|it| it.title)
    }

    /// What happens to this session's jobs from now on, for a host to show: each end, and each wait
    /// for input, once.
    pub fn events(&self) -> broadcast::Receiver<Event> {
        self.inner.jobs.events()
    }

    /// The session's jobs, for a host.
    pub fn job_table(&self) -> Arc<dyn kit::services::Jobs> {
        self.inner.jobs.clone()
    }

    /// A number that changes whenever a job of this session begins, waits for input or is over.
    pub fn job_changes(&self) -> watch::Receiver<u64> {
        self.inner.jobs.changes()
    }

    /// Stops the session's jobs, waits a moment until they are over, and drops what its tools kept.
    /// What is called after that is not a job for long.
    pub async fn end(&self) {
        self.inner.jobs.end_all(LAST_JOBS).await;
        self.end_servers().await;
        self.inner.shelf.clear();
    }

    /// The same session, for work that must not keep it from ending.
    pub(crate) fn unheld(&self) -> Self {
        Self { inner: self.inner.clone(), _held: None }
    }

    /// A named session goes on where it was left.
    pub(crate) fn is_named(&self) -> bool {
        self.inner.named
    }

    /// Keeps what a named session has seen, so that it can go on in another process.
    ///
    /// # Errors
    /// When the store can't be written.
    pub fn keep(&self) -> Result<(), Fault> {
        if !self.inner.named {
            return Ok(());
        }
        let sessions = self.store().sessions();
        if self.inner.agent.is_none() {
            self.recall_addresses();
            if let Some((key, kept)) = self.inner.addresses.keep() {
                sessions.put(self.name(), key, kept)?;
            }
        }
        for (file, kept) in self.inner.views.keep() {
            let kept = kept.without(&**self.secrets());
            // What is not kept has to be read again; nothing worse.
            if kept.is_empty() {
                sessions.remove(self.name(), view_key(&file))?;
                continue;
            }
            let kept = serde_json::to_vec(&kept)
                .map_err(|error| Fault::bug(format!("a view can't be written: {error}")))?;
            sessions.put(self.name(), view_key(&file), kept)?;
        }
        Ok(())
    }

    /// Takes up what a named session saw of a file in another process, before the first
    /// call on it. Only that file's view is read: a session may have seen a great many.
    pub(crate) fn recall(&self, file: &Path) {
        if !self.inner.named
            || !self.inner.recalled.lock().insert(file.to_owned())
            || self.inner.views.knows(file)
        {
            return;
        }
        let kept = self.store().sessions().get(self.name(), &view_key(file));
        match kept.map(|kept| kept.map(|kept| serde_json::from_slice(&kept))) {
            Ok(Some(Ok(kept))) => self.inner.views.restore(file, kept),
            Ok(None) => {}
            Ok(Some(Err(error))) => {
                tracing::warn!("what was seen of {} can't be read: {error}", file.display());
            }
            Err(fault) => tracing::warn!("what was seen of {} can't be read: {fault}", file.display()),
        }
    }

    /// The person of this session said this: the addresses in it are requested without a question. An agent that another
    /// one started has no person of its own, so there it changes nothing.
    pub fn said_by_person(&self, words: &str) {
        if self.inner.agent.is_none() {
            self.inner.addresses.said(words);
        }
    }

    /// This was read on the web by a call that asked for this.
    pub(crate) fn read_on_the_web(&self, output: &Output, asked: &str) {
        self.inner.addresses.read(output, asked);
    }

    /// Did a model take this address from elsewhere, unchanged?
    pub(crate) fn knows(&self, address: &Address) -> bool {
        match address {
            Address::Composed => false,
            Address::Configured => true,
            Address::Plain(url) => {
                self.inner.addresses.has(url) || {
                    self.recall_addresses();
                    self.inner.addresses.has(url)
                }
            }
        }
    }

    fn recall_addresses(&self) {
        let (name, named) = self.grants().session();
        if named {
            self.inner.addresses.recall(self.store(), name);
        }
    }

    /// What the first answer of a conversation says that looks at the web where composed addresses are requested unasked,
    /// and nobody decided that.
    pub(crate) fn told_of_open_web(&self, wants: &[Want], policy: &Policy) -> Option<String> {
        let composed =
            |it: &Want| matches!(it, Want::Web { host, known: false } if !says_private(split_port(host).0));
        if !wants.iter().any(composed)
            || policy.web != Some(Web::Public)
            || self.inner.runtime.policy().web.is_some()
        {
            return None;
        }
        self.recall_addresses();
        self.inner.addresses.tell_once().then(|| OPEN_WEB.to_owned())
    }

    /// Undoes changes of this session, on behalf of the call of `history`, which keeps other processes off
    /// the paths of `held`.
    pub(crate) fn undo(
        &self,
        history: CallHistory,
        held: Vec<PathBuf>,
        policy: Policy,
        review: Option<Arc<dyn Review>>,
    ) -> Arc<dyn Undo> {
        let scope = Scope::Session(self.name().to_owned());
        put_back::undo(&self.inner.runtime, history, scope, held, policy, review)
    }

    /// Keeps a text that is too long to show; gives the handle it can be read by.
    pub(crate) fn spill(&self, bytes: &[u8]) -> Result<String, Fault> {
        let handle = self.inner.runtime.spills().keep(self.name(), bytes)?;
        self.open_shelf();
        Ok(handle)
    }

    fn open_shelf(&self) {
        if self.inner.with_shelf.get().is_none()
            && let Some(shelf) = self.inner.runtime.spills().folder(self.name())
            && let Ok(roots) = self.inner.runtime.roots().with_shelf(&shelf)
        {
            // Another call may have been quicker; its roots are as good.
            let _ = self.inner.with_shelf.set(roots);
        }
    }

    pub(crate) fn roots(&self) -> Roots {
        // A command may have begun to spill meanwhile.
        self.open_shelf();
        self.inner.with_shelf.get().unwrap_or_else(|| self.inner.runtime.roots()).clone()
    }

    /// A model that makes the same mistake twice has not understood: it is given the schema.
    pub(crate) fn with_schema_at_second_time(&self, fault: Fault, spec: &Spec, arguments: &str) -> Fault {
        let mut hasher = DefaultHasher::new();
        (&spec.name, arguments).hash(&mut hasher);
        let this = hasher.finish();
        let last = self.inner.last_refused.lock().replace(this);
        if last != Some(this) {
            return fault;
        }
        let next = fault.next.as_deref().map(|next| format!("{next}\n")).unwrap_or_default();
        let schema = format!(
            "{next}The same arguments were refused before. The schema of `{}`: {}",
            spec.name, spec.schema
        );
        fault.next(schema)
    }

    /// Where the foreign bytes of this session and of its agents are decoded: by workers that decode no other session's.
    pub fn decoders(&self) -> &Decoders {
        &self.inner.decoders
    }

    /// What the processes of a call are started with.
    pub(crate) fn procs(&self, plan: &Plan) -> Procs {
        let touches = plan.prepared.touches();
        let execution = &self.inner.execution;
        // What starts nothing need not know which hosts a person granted.
        if !touches.kinds().covers(Kinds::RUN) {
            return execution.of_call(&touches, &[]);
        }
        let mut granted = self.grants().hosts();
        let policy = self.policy_by(plan.web);
        let asked_about = |want: &Want| plan.was_asked_about(want, &policy);
        if !plan.looks() {
            // What nobody was asked about opens no door behind which only this machine is.
            let unasked = plan.hosts.iter().filter(|it| !asked_about(it));
            let unasked: Vec<&str> = unasked.filter_map(Want::host).collect();
            return execution.of_session_call(&touches, &granted, &unasked);
        }
        granted.extend(self.grants().hosts_to_look_at());
        granted.extend(policy.hosts.iter().cloned());
        // What is shown is not chosen by whoever looks: it runs apart, and reaches what the call itself may look at. Of private
        // hosts that is the one that was asked for: what others are allowed, a page has no business with.
        let mut public: Vec<String> = granted.clone();
        if plan.opens_web() {
            public.push("*".to_owned());
        }
        let asked = plan.hosts.iter().filter(|it| asked_about(it)).filter_map(Want::host);
        let mut origins: Vec<String> = Vec::new();
        for host in asked {
            let is_private = says_private(split_port(host).0);
            if is_private { &mut origins } else { &mut public }.push(host.to_owned());
        }
        if let Address::Plain(url) = &plan.address
            && !plan.has_session_ports()
            && let Ok((host, port)) = host_of(url)
        {
            let allows = |it: &String| {
                let pattern = HostPattern::parse(it);
                pattern.reach() == Reach::Anywhere && pattern.fits(&host, port)
            };
            if granted.iter().any(allows) {
                origins.push(with_port(&host, port));
            }
        }
        execution.of_browser(&origins, &public, plan.has_session_ports()).of_call(&touches, &[])
    }

    /// How a call reaches the network: what the configuration and grants name, what it was approved for, and what is
    /// open to all that only look.
    pub(crate) fn net(&self, plan: &Plan) -> Net {
        if plan.hosts.is_empty() {
            return Net::new(self.runtime().line(), Allowed::default());
        }
        let policy = self.policy_by(plan.web);
        // Where a request is redirected counts with the address that was asked for.
        let open = if plan.opens_web() { Allowed::default().and_web() } else { Allowed::default() };
        let mut granted = self.grants().hosts();
        if plan.looks() {
            granted.extend(self.grants().hosts_to_look_at());
        }
        let allowed = policy.hosts.iter().chain(&granted).fold(open, |it, host| it.and(host));
        let of_call = |it: Allowed, want: &Want| match want {
            Want::Web { host, .. } if plan.web == Web::Known && !says_private(split_port(host).0) => {
                it.and_public(host)
            }
            // What nobody was asked about opens no door behind which only this machine is.
            Want::Net(host) | Want::Web { host, .. } if plan.was_asked_about(want, &policy) => it.and(host),
            Want::Net(host) => it.and_public(host),
            // To look is open or asked about; it is no leave to speak.
            _ => it,
        };
        let net = Net::new(self.runtime().line(), plan.hosts.iter().fold(allowed, of_call));
        if plan.has_session_ports() {
            net.and_session_ports(self.inner.execution.ports().clone())
        } else {
            net
        }
    }

    /// Has the commands that run now reach the ports of this machine's loopback that are granted now: a bash that goes on
    /// starts nothing by which they would be noticed.
    pub(crate) async fn forward_loopback(&self) {
        self.inner.execution.forward_loopback().await;
    }

    /// Does a process of this session listen at this `host:port` of loopback?
    pub(crate) fn listens(&self, host: &str) -> bool {
        let pattern = HostPattern::parse(host);
        pattern.loopback_port().is_some_and(|(host, port)| self.inner.execution.ports().listens(host, port))
    }

    /// What a tool that is a file starts its processes with: a keeper and a sandbox of its own, which end with what
    /// this gives. What it touches has been decided on.
    pub fn procs_of_tool(&self, own: Own, touches: &Touches) -> Procs {
        self.inner.execution.of_tool(own).of_call(touches, &[])
    }

    /// The Python that has the packages which this source of a tool says it needs; nothing where it needs none. They are
    /// fetched if they are not there, from those hosts that were granted to this session.
    ///
    /// # Errors
    /// [`Kind::BadArgs`](kit::Kind::BadArgs) when it says so wrongly, [`Kind::Unavailable`](kit::Kind::Unavailable) when
    /// there is no `uv`, [`Kind::Denied`](kit::Kind::Denied) when it takes hosts that nobody granted,
    /// [`Kind::Failed`](kit::Kind::Failed) when they can't be had.
    pub async fn packages(&self, file: &str, source: &[u8]) -> Result<Option<PathBuf>, Fault> {
        Ok(self.provided(Path::new(file), source).await?.map(|it| it.python))
    }

    async fn provided(&self, file: &Path, source: &[u8]) -> Result<Option<Provided>, Fault> {
        let environments = Environments::of(&self.inner.runtime);
        let granted = || {
            let allowed = self.inner.runtime.policy().hosts;
            self.grants().hosts().into_iter().chain(allowed.iter().cloned()).collect()
        };
        uv::provide(&self.inner.execution, &environments, file, source, granted).await
    }

    /// The hosts that this session's commands may reach.
    pub fn hosts(&self) -> &Hosts {
        self.inner.execution.hosts()
    }

    /// The ids of the jobs that are not over: they end with the session.
    pub fn running_jobs(&self) -> Vec<String> {
        use kit::services::Jobs;
        self.inner.jobs.list().into_iter().filter(|job| !job.state.is_over()).map(|job| job.id).collect()
    }

    pub(crate) fn jobs(&self) -> &Arc<Jobs> {
        &self.inner.jobs
    }

    pub(crate) fn shelf(&self) -> &Arc<Shelf> {
        &self.inner.shelf
    }

    pub(crate) fn views(&self) -> &Arc<Views> {
        &self.inner.views
    }

    pub(crate) fn manuals(&self) -> &Mutex<HashSet<String>> {
        &self.inner.manuals
    }

    pub(crate) fn approver(&self) -> &dyn Approver {
        &*self.inner.approver
    }

    /// Waits until nobody else asks the person of this session: they read one question at a time.
    pub async fn turn_to_ask(&self) -> tokio::sync::OwnedMutexGuard<()> {
        self.inner.asking.clone().lock_owned().await
    }

    /// How long the person of this session was asked until now.
    pub(crate) fn asked(&self) -> &Arc<AskedTime> {
        &self.inner.asked
    }

    /// The agent whose session it is, where another one started it: `explore_1f3a`.
    pub fn agent(&self) -> Option<&str> {
        self.inner.agent.as_deref()
    }

    /// What a person allowed it.
    pub(crate) fn grants(&self) -> &SessionGrants {
        &self.inner.grants
    }

    /// Decides about a call that wants these things, by what is allowed now.
    pub(crate) fn decide(&self, wants: &[Want]) -> (Decision, String) {
        self.grants().decide(&self.policy(), wants)
    }

    pub(crate) fn store(&self) -> &Store {
        self.inner.runtime.store()
    }

    pub(crate) fn schedule(&self) -> &Schedule {
        self.inner.runtime.schedule()
    }

    pub(crate) fn policy(&self) -> Policy {
        let policy = self.inner.runtime.policy();
        let sandbox = if self.limits().read_only { SandboxMode::ReadOnly } else { policy.sandbox };
        Policy { sandbox, ..policy }
    }

    /// The policy for a call of this id at the door, with what holds where nobody decided how open the web is.
    pub(crate) fn policy_of(&self, call: &str) -> Policy {
        let policy = self.policy();
        let web = policy.web.unwrap_or_else(|| {
            let can_ask = policy.approve.asks() && self.approver().is_attended(call);
            if can_ask { Web::Known } else { Web::Public }
        });
        Policy { web: Some(web), ..policy }
    }

    fn policy_by(&self, web: Web) -> Policy {
        Policy { web: Some(web), ..self.policy() }
    }

    pub(crate) fn secrets(&self) -> &Arc<Secrets> {
        self.inner.runtime.secrets()
    }

    pub(crate) fn deadline(&self) -> Duration {
        self.inner.runtime.deadline()
    }
}
