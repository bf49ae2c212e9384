//! A session: one conversation's handle on a runtime.

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    time::Duration,
};

use kit::{
    Fault, Touches,
    decoders::Decoders,
    procs::Procs,
    services::{Agents, Shelf, Transcript},
};
use sandbox::proxy::Hosts;
use store::shares::SessionFiles;
use tokio::sync::{broadcast, watch};

use crate::{
    Answer, Call, Catalog, Limits, Listing, Runtime,
    approve::Approver,
    call,
    execution::Own,
    jobs::{Event, Jobs, OwedJob},
    mcp_client::SessionAccess as _,
    session_state::SessionState,
};

/// How long the end of a session waits for its jobs.
const LAST_JOBS: Duration = Duration::from_secs(2);

/// One conversation's memory. Cheap to clone. It ends with its last clone, or when it is
/// told to [`end`](Self::end): then its jobs are stopped, and what its tools kept is dropped.
#[derive(Clone)]
pub struct Session {
    state: Arc<SessionState>,
    /// Whoever may still call has this; a call that runs does not.
    _held: Option<Arc<Hold>>,
}

/// A session that this does not keep from ending.
#[derive(Clone)]
pub struct WeakSession {
    state: Weak<SessionState>,
}

impl WeakSession {
    /// The session, if it is still there; it may end while this is held.
    pub fn get(&self) -> Option<Session> {
        self.state.upgrade().map(|state| Session { state, _held: None })
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

impl Runtime {
    /// A session. With a name it goes on where that session was left; `door` is how the
    /// person came in.
    pub fn session(&self, name: Option<&str>, door: &str, approver: Arc<dyn Approver>) -> Session {
        Session::of(SessionState::open(self, name, door, approver))
    }
}

impl Session {
    fn of(state: Arc<SessionState>) -> Self {
        let hold = Hold { jobs: state.jobs().clone(), shelf: state.shelf().clone() };
        Self { state, _held: Some(Arc::new(hold)) }
    }

    /// A session of its own, for an agent that this one's agent starts. It asks the same person, under this name; what
    /// that person allowed the session, it is allowed too, and it may change nothing where this one may not.
    #[must_use]
    pub fn below(&self, agent: &str) -> Self {
        Self::of(self.state.below(agent))
    }

    /// Writes its jobs down among those of this owner, whose other sessions can then read them, also when this one is over
    /// or its process was killed. The jobs of a named session are its own; the first owner stays.
    pub fn keep_jobs(&self, owner: &str) {
        self.state.keep_jobs(owner);
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.state.name()
    }

    /// The same session, held by who must not keep it from ending.
    pub fn weak(&self) -> WeakSession {
        WeakSession { state: Arc::downgrade(&self.state) }
    }

    /// Says to which agent the session belongs. The first one stays.
    pub fn belongs_to(&self, agent: Arc<dyn Agents>) {
        self.state.belongs_to(agent);
    }

    /// Is there something that [`news`](Self::news) would tell?
    pub fn has_news(&self) -> bool {
        self.state.jobs().has_news()
    }

    /// What the model does not know yet of jobs that have ended or wait for input, each with its result or the end of it.
    /// Told once.
    pub fn news(&self) -> Vec<String> {
        let news = self.state.jobs().take_news();
        Jobs::results(&news, self.catalog().has("read_job")).collect()
    }

    /// The jobs whose results were promised to the model, and that still work: calls with `run_in_background`.
    pub async fn owed_jobs(&self) -> Vec<OwedJob> {
        self.state.jobs().owed().await
    }

    /// Has such a job ended, and the model was not told?
    pub fn owes_news(&self) -> bool {
        self.state.jobs().owes_news()
    }

    /// Keeps bytes for as long as outputs of the session are kept; gives the handle they can be read by.
    ///
    /// # Errors
    /// When they can't be written.
    pub fn keep_output(&self, bytes: &[u8]) -> Result<String, Fault> {
        self.state.spill(bytes)
    }

    /// The files that it gave to its person.
    pub fn files(&self) -> &SessionFiles {
        self.state.files()
    }

    /// The runtime it belongs to.
    pub fn runtime(&self) -> &Runtime {
        self.state.runtime()
    }

    /// Runs one call, start to finish. Calls may run at the same time: they wait
    /// for each other where they touch the same things, in the order in which this
    /// was first polled. Dropping the future stops the call.
    pub async fn call(&self, call: Call) -> Answer {
        call::run(&self.state, call, None).await
    }

    /// Is there a tool of this name, once it was looked for where tools are files?
    pub async fn find(&self, name: &str) -> bool {
        let outside = self.runtime().plugins();
        if !self.catalog().has(name) && outside.wants_a_look(name) {
            outside.reload(false).await;
        }
        if !self.catalog().has(name) {
            self.state.look_for_server_of(name).await;
        }
        self.catalog().has(name)
    }

    /// The tools this session shows, as they are now. Who holds what this gave keeps those of that moment.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.state.catalog()
    }

    /// The text with the names of the tools that this session shows, where it refers to haft's own: see
    /// [`kit::references`].
    pub fn named<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.state.tools().named(text)
    }

    /// Why there is no tool of this name, in one line: what is wrong with its file, or which was meant. None, if
    /// nothing is known of it.
    pub fn why_missing(&self, name: &str) -> Option<String> {
        call::why_missing(&self.state, name)
    }

    /// From the next call on the session may do no more than this.
    /// Where that makes it read-only, or no longer so, its commands and those of its tools end.
    pub fn limit(&self, limits: Limits) {
        self.state.limit(limits);
    }

    /// How much less than its runtime allows the session may do.
    pub fn limits(&self) -> Arc<Limits> {
        self.state.limits()
    }

    /// Says whether the session's agent is in plan mode: some tools are there only then.
    pub fn plan(&self, plans: bool) {
        self.state.tools().plan(plans);
    }

    /// From now on a list of the session's tools, and of those below it that are opened later, may cost this much.
    pub fn list_within(&self, listing: Listing) {
        self.state.tools().list_within(listing);
    }

    /// The provider of the session's model runs these tools, and no others of [`kit::Origin::Provider`]. Says whether
    /// that is new.
    pub fn provider_runs<'a>(&self, tools: impl IntoIterator<Item = &'a str>) -> bool {
        self.state.tools().provider_runs(tools)
    }

    /// An id for [`Call::id`], which nothing else has.
    pub fn new_call_id(&self) -> String {
        self.state.store().call_id()
    }

    /// Moves a running call, which was begun with this id, to the background: it answers now, and
    /// goes on as the job whose id this gives.
    ///
    /// # Errors
    /// [`Kind::NotFound`](kit::Kind::NotFound) when no such call is under way.
    pub fn promote(&self, call: &str) -> Result<String, Fault> {
        self.state.jobs().promote(call)
    }

    /// The id of the job that a call has become which was begun with this id, once it has answered.
    pub fn job_of(&self, call: &str) -> Option<String> {
        self.state.jobs().of_call(call)
    }

    /// What a running call, which was begun with this id, has written until now, for a host to show.
    pub fn written(&self, call: &str) -> Option<Arc<dyn Transcript>> {
        self.state.jobs().written(call)
    }

    /// What a call, which was begun with this id, waits for: the title of the call that holds a lock which it needs. Nothing,
    /// when it waits for no lock.
    pub fn waits_for(&self, call: &str) -> Option<String> {
        self.state.schedule().ahead_of(call).map(|it| it.title)
    }

    /// What happens to this session's jobs from now on, for a host to show: each end, and each wait
    /// for input, once.
    pub fn events(&self) -> broadcast::Receiver<Event> {
        self.state.jobs().events()
    }

    /// The session's jobs, for a host.
    pub fn job_table(&self) -> Arc<dyn kit::services::Jobs> {
        self.state.jobs().clone()
    }

    /// A number that changes whenever a job of this session begins, waits for input or is over.
    pub fn job_changes(&self) -> watch::Receiver<u64> {
        self.state.jobs().changes()
    }

    /// Stops the session's jobs, waits a moment until they are over, and drops what its tools kept.
    /// What is called after that is not a job for long.
    pub async fn end(&self) {
        self.state.jobs().end_all(LAST_JOBS).await;
        if let Some(connections) = self.state.find_connections() {
            connections.end_all().await;
        }
        self.state.shelf().clear();
    }

    /// Keeps what a named session has seen, so that it can go on in another process.
    ///
    /// # Errors
    /// When the store can't be written.
    pub fn keep(&self) -> Result<(), Fault> {
        self.state.keep()
    }

    /// The person of this session said this: the addresses in it are requested without a question. An agent that another
    /// one started has no person of its own, so there it changes nothing.
    pub fn said_by_person(&self, words: &str) {
        self.state.said_by_person(words);
    }

    /// Where the foreign bytes of this session and of its agents are decoded: by workers that decode no other session's.
    pub fn decoders(&self) -> &Decoders {
        self.state.decoders()
    }

    /// What a tool that is a file starts its processes with: a keeper and a sandbox of its own, which end with what
    /// this gives. What it touches has been decided on.
    pub fn procs_of_tool(&self, own: Own, touches: &Touches) -> Procs {
        self.state.execution().of_tool(own).of_call(touches, &[])
    }

    /// The Python that has the packages which this source of a tool says it needs; nothing where it needs none. They are
    /// fetched if they are not there, from those hosts that were granted to this session.
    ///
    /// # Errors
    /// [`Kind::BadArgs`](kit::Kind::BadArgs) when it says so wrongly, [`Kind::Unavailable`](kit::Kind::Unavailable) when
    /// there is no `uv`, [`Kind::Denied`](kit::Kind::Denied) when it takes hosts that nobody granted,
    /// [`Kind::Failed`](kit::Kind::Failed) when they can't be had.
    pub async fn packages(&self, file: &str, source: &[u8]) -> Result<Option<PathBuf>, Fault> {
        Ok(self.state.provided(Path::new(file), source).await?.map(|it| it.python))
    }

    /// The hosts that this session's commands may reach.
    pub fn hosts(&self) -> &Hosts {
        self.state.execution().hosts()
    }

    /// The ids of the jobs that are not over: they end with the session.
    pub fn running_jobs(&self) -> Vec<String> {
        use kit::services::Jobs;
        self.state.jobs().list().into_iter().filter(|job| !job.state.is_over()).map(|job| job.id).collect()
    }

    /// Waits until nobody else asks the person of this session: they read one question at a time.
    pub async fn turn_to_ask(&self) -> tokio::sync::OwnedMutexGuard<()> {
        self.state.turn_to_ask().await
    }

    /// The agent whose session it is, where another one started it: `explore_1f3a`.
    pub fn agent(&self) -> Option<&str> {
        self.state.agent()
    }
}
