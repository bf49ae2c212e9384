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
    services::{Agents, Groups, Shelf, Soon, Transcript},
};
use sandbox::{SandboxMode, proxy::Hosts};
use serde_json::Value;
use store::shares::SessionFiles;
use tokio::sync::{mpsc::UnboundedReceiver, watch};
use tokio_util::sync::CancellationToken;

use crate::{
    Answer, Call, Catalog, Limits, Listing, Runtime,
    approve::Approver,
    call,
    config::HookEvent,
    execution::Own,
    jobs::{AgentInbox, Event, Jobs, OwedJob},
    mcp_client::SessionAccess as _,
    session_state::{HookWord, SessionState},
};

/// Time that the end of a session waits for its jobs.
const LAST_JOBS: Duration = Duration::from_secs(2);

/// The state of one conversation. Cheap to clone. It ends with its last clone, or at [`end`](Self::end): this
/// stops its jobs and drops what its tools kept.
#[derive(Clone)]
pub struct Session {
    state: Arc<SessionState>,
    /// The hold of every handle that can still make calls; a running call has none.
    _held: Option<Arc<Hold>>,
}

/// A reference to a session that does not keep it from ending.
#[derive(Clone)]
pub struct WeakSession {
    state: Weak<SessionState>,
}

impl WeakSession {
    /// Returns the session, if it still exists; it may end while the result is in use.
    pub fn get(&self) -> Option<Session> {
        self.state.upgrade().map(|state| Session { state, _held: None })
    }
}

/// Ends the session when the last handle is dropped.
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
    /// Opens a session. With a name it continues that session; `front_end` names the front end.
    pub fn session(&self, name: Option<&str>, front_end: &str, approver: Arc<dyn Approver>) -> Session {
        Session::of(SessionState::open(self, name, front_end, approver))
    }
}

/// The key under which a session saves the sandbox that a person chose.
const CHOSEN_SANDBOX: &str = "sandbox";

/// Returns the fault for a sandbox that is wider than the configured one.
pub fn too_wide(mode: SandboxMode, widest: SandboxMode) -> Fault {
    let (mode, widest) = (mode.name(), widest.name());
    let what = format!(
        "the sandbox `{mode}` is wider than `{widest}`, the widest that the configuration allows here"
    );
    Fault::denied(what).next(format!(
        "The person who runs haft can allow it: `haft --sandbox {mode}`, or `sandbox = \"{mode}\"` in their haft.toml."
    ))
}

/// Returns the sandbox that a person chose for the session of this name. Blocks.
///
/// # Errors
/// When the store can't be read.
pub fn chosen_sandbox(runtime: &Runtime, session: &str) -> Result<Option<SandboxMode>, Fault> {
    let saved = runtime.store().sessions().get(session, CHOSEN_SANDBOX)?;
    Ok(saved.and_then(|it| SandboxMode::named(std::str::from_utf8(&it).ok()?)))
}

/// Has another session begin in the sandbox that a person chose for this one. Blocks.
///
/// # Errors
/// When the store can't be read or written.
pub fn pass_sandbox_on(runtime: &Runtime, from: &str, to: &str) -> Result<(), Fault> {
    chosen_sandbox(runtime, from)?.map_or(Ok(()), |mode| save_chosen(runtime, to, mode))
}

fn save_chosen(runtime: &Runtime, session: &str, mode: SandboxMode) -> Result<(), Fault> {
    runtime.store().sessions().put(session, CHOSEN_SANDBOX, mode.name().as_bytes().to_vec())
}

impl Session {
    fn of(state: Arc<SessionState>) -> Self {
        let hold = Hold { jobs: state.jobs().clone(), shelf: state.shelf().clone() };
        Self { state, _held: Some(Arc::new(hold)) }
    }

    /// Opens a session for an agent that this session's agent starts. It asks the same person, under the
    /// agent's name. It has the grants of this session, and is read-only if this one is.
    #[must_use]
    pub fn below(&self, agent: &str) -> Self {
        Self::of(self.state.below(agent))
    }

    /// Persists its jobs under this owner, whose other sessions can read them, also after this one has ended
    /// or its process was killed. A named session owns its jobs itself; the first owner stays.
    pub fn keep_jobs(&self, owner: &str) {
        self.state.keep_jobs(owner);
    }

    pub(crate) fn state(&self) -> &Arc<SessionState> {
        &self.state
    }

    /// Returns the name of the session.
    pub fn name(&self) -> &str {
        self.state.name()
    }

    /// Returns a reference that does not keep the session from ending.
    pub fn weak(&self) -> WeakSession {
        WeakSession { state: Arc::downgrade(&self.state) }
    }

    /// Sets the agent that the session belongs to. The first one stays.
    pub fn belongs_to(&self, agent: Arc<dyn Agents>) {
        self.state.belongs_to(agent);
    }

    /// Sets the group that the session's agent belongs to. The first one stays.
    pub fn joins(&self, group: Arc<dyn Groups>) {
        self.state.joins(group);
    }

    /// Has the session's tools work in a folder of the workspace: relative paths and commands begin there. A path that exists only
    /// below the workspace is still found there. The first folder stays.
    ///
    /// # Errors
    /// When it is not a folder of the workspace.
    pub fn works_in(&self, folder: &str) -> Result<(), Fault> {
        self.state.work_in(folder)
    }

    /// Returns whether [`Self::notifications`] has something to report.
    pub fn has_notifications(&self) -> bool {
        self.state.jobs().has_notifications()
    }

    /// Returns the notifications for the model: jobs that have ended or wait for input, each with its result
    /// or the end of it. Returns each once.
    pub fn notifications(&self) -> Vec<String> {
        let notifications = self.state.jobs().take_notifications();
        Jobs::results(&notifications, self.catalog().has("read_job")).collect()
    }

    /// Posts the ends of jobs to the inbox of this session, whose agent is shown each before its next step. Until then they are in
    /// [`Self::notifications`] or in the notes of answers.
    pub fn tell_agent_of_jobs(&self) {
        let state = Arc::downgrade(&self.state);
        let reads = move || state.upgrade().is_some_and(|it| it.catalog().has("read_job"));
        let inbox = AgentInbox::new(self.state.store(), self.name(), Box::new(reads));
        self.state.jobs().tell_agent(inbox);
    }

    /// Records that the agent is shown the message of this key about a job. Returns false for one that was taken back, as the model
    /// has read of the job meanwhile: it must not be shown.
    pub fn shows_job(&self, key: &str) -> bool {
        self.state.jobs().shows(key)
    }

    /// Posts a message to the session's inbox about each of its jobs that ran when an earlier process was killed, once. Blocks.
    ///
    /// # Errors
    /// When the store can't be read or written.
    pub fn report_lost_jobs(&self) -> Result<(), Fault> {
        self.state.jobs().report_lost()
    }

    /// Returns the running jobs whose results the model expects: those of calls with
    /// `run_in_background`.
    pub async fn owed_jobs(&self) -> Vec<OwedJob> {
        self.state.jobs().owed().await
    }

    /// Returns whether such a job has ended and the model was not notified.
    pub fn owes_notifications(&self) -> bool {
        self.state.jobs().owes_notifications()
    }

    /// Stores bytes as long as the session's outputs are stored; returns the handle to read them.
    ///
    /// # Errors
    /// When they can't be written.
    pub fn keep_output(&self, bytes: &[u8]) -> Result<String, Fault> {
        self.state.spill(bytes)
    }

    /// Returns the files that it shared with its person.
    pub fn files(&self) -> &SessionFiles {
        self.state.files()
    }

    /// Returns the runtime of the session.
    pub fn runtime(&self) -> &Runtime {
        self.state.runtime()
    }

    /// Runs one call, from start to finish. Calls may run at the same time; those that touch the same things
    /// wait for each other, in the order in which their futures were first polled. Dropping the future stops
    /// the call.
    pub fn call(&self, call: Call) -> Soon<'_, Answer> {
        // Boxed as a trait object: otherwise it is compiled in the crate of the caller, with its level of optimization.
        Box::pin(call::run(&self.state, call, None))
    }

    /// Returns whether there is a tool of this name; checks the tool folders first, if needed.
    pub async fn find(&self, name: &str) -> bool {
        let outside = self.runtime().plugins();
        if !self.catalog().has(name) && outside.wants_a_look(name) {
            outside.look_for(name).await;
        }
        if !self.catalog().has(name) {
            self.state.look_for_server_of(name).await;
        }
        self.catalog().has(name)
    }

    /// Returns the tools that this session shows now. The result does not change afterwards.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.state.catalog()
    }

    /// Renders a text with the names of the tools that this session shows, where it refers to haft's own: see
    /// [`kit::references`].
    pub fn named<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.state.tools().named(text)
    }

    /// Explains in one line why there is no tool of this name: an error in its file, or a similar name. None,
    /// if nothing is known.
    pub fn why_missing(&self, name: &str) -> Option<String> {
        call::why_missing(&self.state, name)
    }

    /// Limits the session from the next call on. If that makes it read-only, or ends that, its commands and
    /// those of its tools are killed.
    pub fn limit(&self, limits: Limits) {
        self.state.limit(limits);
    }

    /// Returns the limits of the session, beyond those of its runtime.
    pub fn limits(&self) -> Arc<Limits> {
        self.state.limits()
    }

    /// Returns the sandbox in effect: the configured one, or a narrower one that a person chose or a profile needs.
    pub fn sandbox(&self) -> SandboxMode {
        self.state.policy().sandbox
    }

    /// Narrows the sandbox of the session and of the agents that it starts, or widens it again up to the configured one. Commands
    /// that run in another are killed. It is saved for [`restore_sandbox`](Self::restore_sandbox).
    ///
    /// # Errors
    /// [`Kind::Denied`](kit::Kind::Denied) for a sandbox wider than the configured one.
    pub fn choose_sandbox(&self, mode: SandboxMode) -> Result<(), Fault> {
        let widest = self.runtime().policy().sandbox;
        if mode > widest {
            return Err(too_wide(mode, widest));
        }
        // Saved first: after a crash it is not wider than the answer.
        save_chosen(self.runtime(), self.name(), mode)?;
        self.narrow_to(mode);
        self.state.note_between_calls(format!(
            "a person switched the sandbox of this session to `{}`",
            mode.name()
        ));
        Ok(())
    }

    /// Restores the sandbox that was [chosen](Self::choose_sandbox) in another process. Blocks.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn restore_sandbox(&self) -> Result<(), Fault> {
        if let Some(mode) = chosen_sandbox(self.runtime(), self.name())? {
            self.narrow_to(mode);
        }
        Ok(())
    }

    /// Sets the widest mode. The configured one does not count as a choice: the configuration may change.
    fn narrow_to(&self, mode: SandboxMode) {
        let widest = self.runtime().policy().sandbox;
        self.state.chosen_sandbox().choose(if mode < widest { mode } else { SandboxMode::Full });
    }

    /// Sets whether the session's agent is in plan mode: some tools exist only then.
    pub fn plan(&self, plans: bool) {
        self.state.tools().plan(plans);
    }

    /// Adds tools by which the session's agent reaches others: of those that are only for such agents, it has these, and those
    /// that its list of tools names.
    pub fn sends_by(&self, tools: &[&str]) {
        self.state.tools().sends_by(tools);
    }

    /// Limits the size of tool lists from now on, for this session and those opened below it later.
    pub fn list_within(&self, listing: Listing) {
        self.state.tools().list_within(listing);
    }

    /// Sets the tools that the provider of the session's model runs; others of [`kit::Origin::Provider`] are
    /// absent. Returns whether that is a change.
    pub fn provider_runs<'a>(&self, tools: impl IntoIterator<Item = &'a str>) -> bool {
        self.state.tools().provider_runs(tools)
    }

    /// Creates a unique id for [`Call::id`].
    pub fn new_call_id(&self) -> String {
        self.state.store().call_id()
    }

    /// Moves the running call of this id to the background: it answers now, and continues as the job whose id
    /// this returns.
    ///
    /// # Errors
    /// [`Kind::NotFound`](kit::Kind::NotFound) when no such call is running.
    pub fn promote(&self, call: &str) -> Result<String, Fault> {
        self.state.jobs().promote(call)
    }

    /// Returns the id of the job that the call of this id has become, once it has answered.
    pub fn job_of(&self, call: &str) -> Option<String> {
        self.state.jobs().of_call(call)
    }

    /// Returns the output of the running call of this id so far, for a front end.
    pub fn written(&self, call: &str) -> Option<Arc<dyn Transcript>> {
        self.state.jobs().written(call)
    }

    /// Returns the title of the call that holds a lock which the call of this id needs; nothing, if it waits
    /// for no lock.
    pub fn waits_for(&self, call: &str) -> Option<String> {
        self.state.schedule().ahead_of(call).map(|it| it.title)
    }

    /// Returns the events of this session's jobs from now on, for a front end: each end, and each wait for
    /// input, once.
    pub fn events(&self) -> UnboundedReceiver<Event> {
        self.state.jobs().events()
    }

    /// Returns the session's jobs, for a front end.
    pub fn job_table(&self) -> Arc<dyn kit::services::Jobs> {
        self.state.jobs().clone()
    }

    /// Returns whether a job of the session runs.
    pub fn has_running_jobs(&self) -> bool {
        self.state.jobs().are_running()
    }

    /// Returns a counter that changes whenever a job of this session begins, waits for input or is over.
    pub fn job_changes(&self) -> watch::Receiver<u64> {
        self.state.jobs().changes()
    }

    /// Stops the session's jobs, waits briefly until they are over, and drops what its tools kept. A job that
    /// starts after that is stopped.
    pub async fn end(&self) {
        call::hooks::end(&self.state).await;
        self.state.jobs().end_all(LAST_JOBS).await;
        if let Some(connections) = self.state.find_connections() {
            connections.end_all().await;
        }
        self.state.shelf().clear();
    }

    /// Returns whether a hook runs at this event.
    pub fn has_hooks(&self, event: HookEvent) -> bool {
        self.state.runtime().hooks().is_some_and(|it| it.list().iter().any(|it| it.event == event))
    }

    /// Runs the hooks of an event that is not about a call. `subject` is what their expression is compared
    /// with; `fields` are added to what they read.
    pub async fn run_hooks(
        &self,
        event: HookEvent,
        subject: &str,
        fields: Value,
        cancel: &CancellationToken,
    ) -> HookWord {
        call::hooks::at(&self.state, event, subject, fields, cancel).await
    }

    /// Runs the hooks of a call of this tool without the call, for a person who tries them.
    pub async fn try_hooks(
        &self,
        event: HookEvent,
        tool: &str,
        arguments: Value,
        cancel: &CancellationToken,
    ) -> HookWord {
        call::hooks::try_out(&self.state, event, tool, arguments, cancel).await
    }

    /// Returns what hooks have to say to the person. Returns each line once.
    pub fn hook_notes(&self) -> Vec<String> {
        self.state.hooks().take_notes()
    }

    /// Returns the reason why a hook of a call wants the agent to stop. Returns it once.
    pub fn hook_halt(&self) -> Option<String> {
        self.state.hooks().take_halt()
    }

    /// Saves the state of a named session, so that another process can continue it.
    ///
    /// # Errors
    /// When the store can't be written.
    pub fn keep(&self) -> Result<(), Fault> {
        self.state.keep()
    }

    /// Records a message of the person: the addresses in it are requested without a question. It has no
    /// effect for an agent that another one started, which has no person of its own.
    pub fn add_person_words(&self, words: &str) {
        self.state.add_person_words(words);
    }

    /// Begins a turn that nobody attends, with the only grants that count in it: nobody is asked, and what is not granted is
    /// denied in every approval mode, also to the agents that this one starts. `None` ends it. Returns what was denied since
    /// the call before, one line each.
    ///
    /// # Errors
    /// [`Kind::BadArgs`](kit::Kind::BadArgs) for a text that is not a grant; then nothing changes.
    pub fn unattended(&self, granted: Option<&[String]>) -> Result<Vec<String>, Fault> {
        let parse =
            |all: &[String]| all.iter().map(|it| policy::grants::parse(it)).collect::<Result<Vec<_>, _>>();
        Ok(self.state.unattended(granted.map(parse).transpose()?))
    }

    /// Returns whether a turn runs that nobody attends.
    pub fn is_unattended(&self) -> bool {
        self.state.grants().is_unattended()
    }

    /// Returns the decoders of this session and its agents: their workers decode for no other session.
    pub fn decoders(&self) -> &Decoders {
        self.state.decoders()
    }

    /// Returns the process starter of a tool file: with its own keeper and sandbox, which end when the result
    /// is dropped. What it touches has been decided already.
    pub fn procs_of_tool(&self, own: Own, touches: &Touches) -> Procs {
        self.state.execution().of_tool(own).of_call(touches, &[])
    }

    /// Returns the Python with the packages that a tool's source declares; nothing if it needs none. Installs
    /// missing packages, from hosts that were granted to this session.
    ///
    /// # Errors
    /// [`Kind::BadArgs`](kit::Kind::BadArgs) when the declaration is invalid,
    /// [`Kind::Unavailable`](kit::Kind::Unavailable) when there is no `uv`,
    /// [`Kind::Denied`](kit::Kind::Denied) when a needed host is not granted,
    /// [`Kind::Failed`](kit::Kind::Failed) when the packages can't be installed.
    pub async fn packages(&self, file: &str, source: &[u8]) -> Result<Option<PathBuf>, Fault> {
        Ok(self.state.provided(Path::new(file), source).await?.map(|it| it.python))
    }

    /// Returns the hosts that this session's commands may reach.
    pub fn hosts(&self) -> &Hosts {
        self.state.execution().hosts()
    }

    /// Returns the ids of the jobs that are not over: they end with the session.
    pub fn running_jobs(&self) -> Vec<String> {
        use kit::services::Jobs;
        self.state.jobs().list().into_iter().filter(|job| !job.state.is_over()).map(|job| job.id).collect()
    }

    /// Waits until no other call asks the person of this session: they read one question at a time.
    pub async fn turn_to_ask(&self) -> tokio::sync::OwnedMutexGuard<()> {
        self.state.turn_to_ask().await
    }

    /// Returns the name of the agent that the session belongs to, if another agent started it:
    /// `explore_1f3a`.
    pub fn agent(&self) -> Option<&str> {
        self.state.agent()
    }
}
