//! State of a session: what its calls share, one type for each concern.
//!
//! [`Session`](crate::Session) is the caller's handle; calls themselves hold the state, which does not keep
//! the session from ending.

mod hooks;
mod manuals;
mod outputs;
mod person;
mod reach;
mod refused;
mod saved;
mod seen_files;
mod shown_tools;
mod tool_files;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, LazyLock, OnceLock},
    time::Duration,
};

use kit::{
    Address, Fault, Origin, Output, Spec,
    decoders::Decoders,
    effect::Effect,
    files::Roots,
    net::{HostPattern, SessionPorts as _},
    redact::Secrets,
    seen::Views,
    services::{Agents, Groups, NoAgent, NoGroup, Reloaded, Review, Shelf, Undo},
};
use parking_lot::Mutex;
use policy::{Decision, Policy, Rule, Want, Web, grants::SessionGrants};
use sandbox::SandboxMode;
use store::{Store, history::CallHistory, shares::SessionFiles, spill::folder_of, undo::Scope};

use crate::{
    Catalog, Runtime,
    approval_time::AskedTime,
    approve::Approver,
    execution::{ChosenSandbox, Execution},
    jobs::{Jobs, PersistedJobs},
    mcp_client::{Connections, FindSession, SessionAccess, SessionTools, Start},
    messages::MessagesOf,
    notes::NotesOf,
    plugins::{
        self, Loaded,
        uv::{self, Environments, Provided},
    },
    put_back,
    schedule::Schedule,
};
pub use hooks::HookWord;
use hooks::SessionHooks;
use manuals::ShownManuals;
use outputs::SpilledOutputs;
use person::Person;
pub(crate) use reach::CallHosts;
use reach::Reach;
use refused::LastRefused;
use saved::Saved;
use seen_files::SeenFiles;
pub use shown_tools::Limits;
use shown_tools::ShownTools;
use tool_files::KnownToolFiles;

/// The state of one session.
pub(crate) struct SessionState {
    runtime: Runtime,
    name: String,
    /// Whether it has a name, and so can be continued.
    named: bool,
    /// The front end that opened it.
    front_end: String,
    person: Person,
    /// The tools that it shows.
    tools: ShownTools,
    tool_files: KnownToolFiles,
    /// The agent that it belongs to, once there is one.
    agents: OnceLock<Arc<dyn Agents>>,
    groups: OnceLock<Arc<dyn Groups>>,
    seen: SeenFiles,
    manuals: ShownManuals,
    outputs: SpilledOutputs,
    refused: LastRefused,
    execution: Execution,
    jobs: Arc<Jobs>,
    shelf: Arc<Shelf>,
    hooks: SessionHooks,
    /// Notes for the next answer about what processes did between calls.
    between: Mutex<Vec<String>>,
    notes: Arc<NotesOf>,
    messages: Arc<MessagesOf>,
}

/// The group of a session that belongs to none.
static NO_GROUP: LazyLock<Arc<dyn Groups>> = LazyLock::new(|| Arc::new(NoGroup));

/// The agents of a session without one.
static NO_AGENT: LazyLock<Arc<dyn Agents>> = LazyLock::new(|| Arc::new(NoAgent));

impl SessionState {
    /// Opens a session of this runtime; with a name, it continues that session.
    pub(crate) fn open(
        runtime: &Runtime,
        name: Option<&str>,
        front_end: &str,
        approver: Arc<dyn Approver>,
    ) -> Arc<Self> {
        let named = name.is_some();
        let name = name.map_or_else(|| runtime.store().call_id().replacen("c_", "s_", 1), str::to_owned);
        let person = Person {
            approver,
            agent: None,
            grants: SessionGrants::new(runtime.store().clone(), &name, named, front_end),
            asking: Arc::default(),
            asked: Arc::default(),
            addresses: Arc::default(),
            files: Arc::new(SessionFiles::new(folder_of(&runtime.store().files_folder(), &name))),
            decoders: runtime.commands().decoders(),
            sandbox: Arc::default(),
            refusals: Arc::default(),
        };
        Self::of(runtime, name, named, front_end, person)
    }

    /// Opens the state of a session for an agent that this one's agent starts. It asks the same person, under
    /// the agent's name. It has the grants of this session, and lists no more tools.
    pub(crate) fn below(&self, agent: &str) -> Arc<Self> {
        let name = format!("{}/{agent}", self.name);
        let below = Self::of(&self.runtime, name, self.named, &self.front_end, self.person.below(agent));
        below.limit(Limits::clone(&self.limits()));
        below.tools.list_as(&self.tools);
        below.outputs.work_like(&self.outputs);
        below
    }

    fn of(runtime: &Runtime, name: String, named: bool, front_end: &str, person: Person) -> Arc<Self> {
        // The time of use is for lists of sessions; no call depends on it.
        let _ = runtime.store().sessions().used(&*name, front_end);
        let state = Arc::new(Self {
            tools: ShownTools::new(runtime.clone()),
            tool_files: KnownToolFiles::new(runtime.plugins().loaded()),
            execution: Execution::new(&runtime.resources(), &name).narrowed_by(&person.sandbox),
            outputs: SpilledOutputs::new(runtime.spills().clone(), &name, runtime.roots().clone()),
            notes: Arc::new(NotesOf::new(runtime.store().clone(), &name)),
            messages: Arc::new(MessagesOf::new(runtime.store().clone(), &name, person.agent.as_deref())),
            runtime: runtime.clone(),
            name,
            named,
            front_end: front_end.to_owned(),
            person,
            agents: OnceLock::new(),
            groups: OnceLock::new(),
            seen: SeenFiles::default(),
            manuals: ShownManuals::default(),
            refused: LastRefused::default(),
            jobs: Arc::default(),
            shelf: Arc::default(),
            hooks: SessionHooks::default(),
            between: Mutex::default(),
        });
        if named {
            state.keep_jobs(state.name());
        }
        state.fill_shelf();
        state
    }

    /// Puts on the shelf what tool files and servers need of the session, without keeping it from ending.
    fn fill_shelf(self: &Arc<Self>) {
        let state = Arc::downgrade(self);
        let packages: plugins::Packages = Box::new(move |file, source| {
            let state = state.upgrade();
            Box::pin(async move {
                match state {
                    Some(state) => state.provided(&file, &source).await,
                    None => Ok(None),
                }
            })
        });
        self.shelf.put(Arc::new(plugins::Hosts::new(self.execution.clone(), self.name(), packages)));
        let state = Arc::downgrade(self);
        self.shelf.put(Arc::new(plugins::Recall::new(move |file| {
            if let Some(state) = state.upgrade() {
                state.recall(file);
            }
        })));
        let state = Arc::downgrade(self);
        let session: FindSession =
            Arc::new(move || state.upgrade().map(|state| state as Arc<dyn SessionAccess>));
        let with = Start {
            execution: self.execution.clone(),
            workspace: self.runtime.roots().workspace().to_owned(),
            variables: Arc::new(self.runtime.commands().variables.clone()),
            session: Some(session),
        };
        self.shelf.put(Arc::new(Connections::new(with, self.runtime.plugins().servers().clone())));
    }

    /// Persists its jobs under this owner. The first owner stays.
    pub(crate) fn keep_jobs(&self, owner: &str) {
        let runtime = &self.runtime;
        let kept = PersistedJobs::new(runtime.store(), runtime.spills(), self.secrets(), owner, self.name());
        self.jobs.keep(kept);
    }

    /// Returns its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns its runtime.
    pub(crate) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Returns the tools that it shows.
    pub(crate) fn tools(&self) -> &ShownTools {
        &self.tools
    }

    /// Returns the tools that this session shows now.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        self.tools.catalog()
    }

    /// Returns the limits of the session, beyond those of its runtime.
    pub(crate) fn limits(&self) -> Arc<Limits> {
        self.tools.limits()
    }

    /// Limits the session from the next call on. If that makes it read-only, or ends that, its commands and
    /// those of its tools are killed.
    pub(crate) fn limit(&self, limits: Limits) {
        let read_only = limits.read_only;
        self.tools.limit(limits);
        self.execution.hold(read_only);
    }

    /// Returns the sandbox that a person chose.
    pub(crate) fn chosen_sandbox(&self) -> &ChosenSandbox {
        &self.person.sandbox
    }

    /// Sets the agent that the session belongs to. The first one stays.
    pub(crate) fn belongs_to(&self, agent: Arc<dyn Agents>) {
        let _ = self.agents.set(agent);
    }

    /// Sets the group that its agent belongs to. The first one stays.
    pub(crate) fn joins(&self, group: Arc<dyn Groups>) {
        let _ = self.groups.set(group);
    }

    /// Returns the group that its agent belongs to.
    pub(crate) fn groups(&self) -> Arc<dyn Groups> {
        self.groups.get().cloned().unwrap_or_else(|| NO_GROUP.clone())
    }

    /// Returns the service that starts agents for the session and requests answers of its model.
    pub(crate) fn agents(&self) -> Arc<dyn Agents> {
        self.agents.get().cloned().unwrap_or_else(|| NO_AGENT.clone())
    }

    /// Connects to the server that may have this tool, if its tools are unknown.
    pub(crate) async fn look_for_server_of(&self, tool: &str) {
        if let Some(connections) = self.find_connections() {
            connections.look_for(tool, |want| self.allows(want)).await;
        }
    }

    /// Returns the permission that a call needs to use this server.
    pub(crate) fn question_of_server(&self, name: &str) -> Option<Want> {
        self.find_connections()?.question(name)
    }

    /// Returns the note on changed tools for the next answer, and the state to pass to
    /// [`knows_tools`](Self::knows_tools) after it.
    pub(crate) fn tool_changes(&self) -> Option<(Option<String>, Arc<Loaded>)> {
        let now = self.runtime.plugins().loaded();
        let (allowed, limits) = (self.runtime.allowed(), self.limits());
        let is_on =
            |list: Option<&[String]>, name: &str| list.is_none_or(|it| it.iter().any(|it| it == name));
        let is_shown = |name: &str| is_on(allowed, name) && is_on(limits.tools.as_deref(), name);
        let note = self.tool_files.note(&now, is_shown)?;
        Some((note, now))
    }

    /// Returns this report with the changes since the model's last notification, and marks them as known.
    pub(crate) fn since_last_report(&self, report: Reloaded) -> Reloaded {
        self.tool_files.since_last_report(report, self.runtime.plugins().loaded())
    }

    /// Records that the model knows the tool files of this moment: it was notified, or made the change
    /// itself.
    pub(crate) fn knows_tools(&self, as_of: Arc<Loaded>) {
        self.tool_files.knows(as_of);
    }

    /// Adds a note for the next answer about what a process did between calls.
    pub(crate) fn note_between_calls(&self, note: String) {
        self.between.lock().push(note);
    }

    /// Takes the notes about what processes did between calls.
    pub(crate) fn take_notes_between_calls(&self) -> Vec<String> {
        std::mem::take(&mut *self.between.lock())
    }

    /// Returns what its hooks said and did.
    pub(crate) fn hooks(&self) -> &SessionHooks {
        &self.hooks
    }

    /// Returns its saved state, if it has a name.
    fn saved(&self) -> Option<Saved<'_>> {
        self.named.then(|| Saved::new(self.store().sessions(), &self.name))
    }

    /// Saves the state of a named session, so that another process can continue it.
    ///
    /// # Errors
    /// When the store can't be written.
    pub(crate) fn keep(&self) -> Result<(), Fault> {
        let Some(saved) = self.saved() else { return Ok(()) };
        if self.person.agent.is_none() {
            self.person.recall_addresses(self.store());
            if let Some((key, kept)) = self.person.addresses.keep() {
                saved.put(key, kept)?;
            }
        }
        self.seen.keep(&saved, self.secrets())
    }

    /// Restores what a named session saw of a file in another process, before the first call on it.
    pub(crate) fn recall(&self, file: &Path) {
        if let Some(saved) = self.saved() {
            self.seen.recall(&saved, file);
        }
    }

    /// Returns whether the session was shown the manual of this tool.
    pub(crate) fn has_read_manual(&self, tool: &str) -> bool {
        self.manuals.has(tool, self.saved().as_ref())
    }

    /// Records that the session was shown the manual of this tool.
    pub(crate) fn explained(&self, tool: &str) {
        self.manuals.add(tool, self.saved().as_ref());
    }

    /// Records a message of the person: the addresses in it are requested without a question.
    pub(crate) fn add_person_words(&self, words: &str) {
        self.person.add_words(words);
    }

    /// Records a web result of a call with this request.
    pub(crate) fn read_on_the_web(&self, output: &Output, asked: &str) {
        self.person.addresses.read(output, asked);
    }

    /// Returns whether the model took this address unchanged from outside.
    pub(crate) fn knows(&self, address: &Address) -> bool {
        self.person.knows(address, self.store())
    }

    /// Returns the note for the first answer that reads the open web, if composed addresses are requested
    /// without a question and nobody configured that.
    pub(crate) fn open_web_note(&self, wants: &[Want], policy: &Policy) -> Option<String> {
        if self.runtime.policy().web.is_some() {
            return None;
        }
        self.person.open_web_note(wants, policy, self.store())
    }

    /// Returns the service that undoes changes of this session, on behalf of the call of `history`. That call
    /// has locked the paths of `held` against other processes.
    pub(crate) fn undo(
        &self,
        history: CallHistory,
        held: Vec<PathBuf>,
        policy: Policy,
        review: Option<Arc<dyn Review>>,
    ) -> Arc<dyn Undo> {
        let scope = Scope::Session(self.name().to_owned());
        put_back::undo(self.runtime.undo_workspace(), history, scope, held, policy, review)
    }

    /// Stores a text that is too long to show; returns the handle to read it.
    pub(crate) fn spill(&self, bytes: &[u8]) -> Result<String, Fault> {
        self.outputs.keep(bytes)
    }

    /// Returns the folders that its tools may reach: those of the runtime, and its own spilled outputs.
    pub(crate) fn roots(&self) -> Roots {
        self.outputs.roots()
    }

    /// Has relative paths and commands begin at a folder of the workspace.
    pub(crate) fn work_in(&self, folder: &str) -> Result<(), Fault> {
        self.outputs.work_in(folder)
    }

    /// Adds the schema to the fault if the model makes the same mistake for the second time.
    pub(crate) fn with_schema_at_second_time(&self, fault: Fault, spec: &Spec, arguments: &str) -> Fault {
        self.refused.refuse(fault, spec, arguments)
    }

    /// Returns the decoders of this session and its agents: their workers decode for no other session.
    pub(crate) fn decoders(&self) -> &Decoders {
        &self.person.decoders
    }

    /// Returns the reach of calls with this openness of the web.
    pub(crate) fn reach(&self, web: Web) -> Reach<'_> {
        Reach {
            execution: &self.execution,
            grants: self.grants(),
            policy: Policy { web: Some(web), ..self.policy() },
            connector: self.runtime.connector(),
        }
    }

    /// Returns whether a process of this session listens at this `host:port` of loopback.
    pub(crate) fn listens(&self, host: &str) -> bool {
        let pattern = HostPattern::parse(host);
        pattern.loopback_port().is_some_and(|(host, port)| self.execution.ports().listens(host, port))
    }

    /// Returns the environment with the packages that a tool's source declares; nothing if it needs none.
    pub(crate) async fn provided(&self, file: &Path, source: &[u8]) -> Result<Option<Provided>, Fault> {
        let environments = Environments::of(&self.execution);
        let granted = || {
            let allowed = self.runtime.policy().hosts;
            self.grants().hosts().into_iter().chain(allowed.iter().cloned()).collect()
        };
        uv::provide(&self.execution, &environments, file, source, granted).await
    }

    /// Returns its execution environment.
    pub(crate) fn execution(&self) -> &Execution {
        &self.execution
    }

    pub(crate) fn jobs(&self) -> &Arc<Jobs> {
        &self.jobs
    }

    pub(crate) fn shelf(&self) -> &Arc<Shelf> {
        &self.shelf
    }

    pub(crate) fn views(&self) -> &Arc<Views> {
        self.seen.views()
    }

    pub(crate) fn approver(&self) -> &dyn Approver {
        &*self.person.approver
    }

    /// Waits until no other call asks the person of this session: they read one question at a time.
    pub(crate) async fn turn_to_ask(&self) -> tokio::sync::OwnedMutexGuard<()> {
        self.person.asking.clone().lock_owned().await
    }

    /// Returns the time that the person of this session was asked.
    pub(crate) fn asked(&self) -> &Arc<AskedTime> {
        &self.person.asked
    }

    /// Returns the name of the agent that the session belongs to, if another agent started it:
    /// `explore_1f3a`.
    pub(crate) fn agent(&self) -> Option<&str> {
        self.person.agent.as_deref()
    }

    /// Returns the grants of the session.
    pub(crate) fn grants(&self) -> &SessionGrants {
        &self.person.grants
    }

    /// Notes what a turn that nobody attends wanted, and was not granted.
    pub(crate) fn was_refused(&self, tool: &str, rule: &Rule) {
        if self.grants().is_unattended() && !rule.is_deny() {
            self.person.refusals.lock().push(format!("{tool}: {rule}"));
        }
    }

    /// Begins or ends a turn that nobody attends: see [`Session::unattended`](crate::Session::unattended).
    pub(crate) fn unattended(&self, granted: Option<Vec<Effect>>) -> Vec<String> {
        self.grants().set_unattended(granted);
        std::mem::take(&mut *self.person.refusals.lock())
    }

    /// Returns its notes.
    pub(crate) fn notes(&self) -> &Arc<NotesOf> {
        &self.notes
    }

    /// Returns the messages that its agent sends and gets.
    pub(crate) fn messages(&self) -> &Arc<MessagesOf> {
        &self.messages
    }

    /// Returns the files that it shared with its person.
    pub(crate) fn files(&self) -> &Arc<SessionFiles> {
        &self.person.files
    }

    /// Decides on a call that wants these things, by the present rules and grants.
    pub(crate) fn decide(&self, wants: &[Want]) -> (Decision, String) {
        self.grants().decide(&self.policy(), wants)
    }

    pub(crate) fn store(&self) -> &Store {
        self.runtime.store()
    }

    pub(crate) fn schedule(&self) -> &Schedule {
        self.runtime.schedule()
    }

    pub(crate) fn policy(&self) -> Policy {
        let policy = self.runtime.policy();
        let most = if self.limits().read_only { SandboxMode::ReadOnly } else { self.person.sandbox.mode() };
        let sandbox = policy.sandbox.min(most);
        Policy { sandbox, ..policy }
    }

    /// Returns the policy for the client's call of this id, with the default openness of the web if nobody
    /// configured it.
    pub(crate) fn policy_of(&self, call: &str) -> Policy {
        let policy = self.policy();
        let web = policy.web.unwrap_or_else(|| {
            // What begins a turn may come from anywhere, so an address that the model composes needs a grant.
            let can_ask =
                self.grants().is_unattended() || policy.approve.asks() && self.approver().is_attended(call);
            if can_ask { Web::Known } else { Web::Public }
        });
        Policy { web: Some(web), ..policy }
    }

    pub(crate) fn secrets(&self) -> &Arc<Secrets> {
        self.runtime.secrets()
    }

    pub(crate) fn deadline(&self) -> Duration {
        self.runtime.deadline()
    }
}

impl SessionAccess for SessionState {
    fn tools_of(&self, server: &str) -> Vec<Spec> {
        let catalog = self.catalog();
        let of_server = |spec: &&Spec| matches!(&spec.origin, Origin::Server(name) if name == server);
        catalog.specs().filter(of_server).cloned().collect()
    }

    fn allows(&self, want: Want) -> bool {
        self.decide(&[want]).0 == Decision::Allow
    }

    fn has_tools_of_its_own(&self, tools: SessionTools) {
        self.tools.has_tools_of_its_own(tools);
    }

    fn find_connections(&self) -> Option<Arc<Connections>> {
        self.shelf.find()
    }

    fn agents(&self) -> Arc<dyn Agents> {
        Self::agents(self)
    }

    fn roots(&self) -> Roots {
        Self::roots(self)
    }
}
