//! State of a session: what its calls share, one type for each concern.
//!
//! [`Session`](crate::Session) is the handle of whoever calls; calls themselves hold the state, which does not keep the
//! session from ending.

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
    sync::{Arc, OnceLock},
    time::Duration,
};

use kit::{
    Address, Fault, Origin, Output, Spec,
    decoders::Decoders,
    files::Roots,
    net::{HostPattern, SessionPorts as _},
    redact::Secrets,
    seen::Views,
    services::{Agents, NoAgent, Reloaded, Review, Shelf, Undo},
};
use policy::{Decision, Policy, Want, Web, grants::SessionGrants};
use sandbox::SandboxMode;
use store::{Store, history::CallHistory, shares::SessionFiles, spill::folder_of, undo::Scope};

use crate::{
    Catalog, Runtime,
    approval_time::AskedTime,
    approve::Approver,
    execution::Execution,
    jobs::{Jobs, PersistedJobs},
    mcp_client::{Connections, FindSession, OwnTools, SessionAccess, Start},
    plugins::{
        self, Loaded,
        uv::{self, Environments, Provided},
    },
    put_back,
    schedule::Schedule,
};
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
    /// A named session goes on where it was left.
    named: bool,
    /// The door it was opened through.
    door: String,
    person: Person,
    /// Which tools it shows.
    tools: ShownTools,
    tool_files: KnownToolFiles,
    /// The agent it belongs to, from when there is one.
    agents: OnceLock<Arc<dyn Agents>>,
    seen: SeenFiles,
    manuals: ShownManuals,
    outputs: SpilledOutputs,
    refused: LastRefused,
    execution: Execution,
    jobs: Arc<Jobs>,
    shelf: Arc<Shelf>,
}

impl SessionState {
    /// That of a session of this runtime; with a name, it goes on where that session was left.
    pub(crate) fn open(
        runtime: &Runtime,
        name: Option<&str>,
        door: &str,
        approver: Arc<dyn Approver>,
    ) -> Arc<Self> {
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

    /// That of a session for an agent that this one's agent starts. It asks the same person, under this name; what that
    /// person allowed the session, it is allowed too, and it lists no more tools.
    pub(crate) fn below(&self, agent: &str) -> Arc<Self> {
        let name = format!("{}/{agent}", self.name);
        let below = Self::of(&self.runtime, name, self.named, &self.door, self.person.below(agent));
        below.limit(Limits::clone(&self.limits()));
        below.tools.list_as(&self.tools);
        below
    }

    fn of(runtime: &Runtime, name: String, named: bool, door: &str, person: Person) -> Arc<Self> {
        // That the session was used is told to whoever lists sessions; a call does not depend on it.
        let _ = runtime.store().sessions().used(&*name, door);
        let state = Arc::new(Self {
            tools: ShownTools::new(runtime.clone()),
            tool_files: KnownToolFiles::new(runtime.plugins().loaded()),
            execution: Execution::new(&runtime.resources(), &name),
            outputs: SpilledOutputs::new(runtime.spills().clone(), &name, runtime.roots().clone()),
            runtime: runtime.clone(),
            name,
            named,
            door: door.to_owned(),
            person,
            agents: OnceLock::new(),
            seen: SeenFiles::default(),
            manuals: ShownManuals::default(),
            refused: LastRefused::default(),
            jobs: Arc::default(),
            shelf: Arc::default(),
        });
        if named {
            state.keep_jobs(state.name());
        }
        state.fill_shelf();
        state
    }

    /// Puts on the shelf what tool files and servers need of the session. It must not keep the session.
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

    /// Writes its jobs down among those of this owner. The first owner stays.
    pub(crate) fn keep_jobs(&self, owner: &str) {
        let runtime = &self.runtime;
        let kept = PersistedJobs::new(runtime.store(), runtime.spills(), self.secrets(), owner, self.name());
        self.jobs.keep(kept);
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The runtime it belongs to.
    pub(crate) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Which tools it shows.
    pub(crate) fn tools(&self) -> &ShownTools {
        &self.tools
    }

    /// The tools this session shows, as they are now.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        self.tools.catalog()
    }

    /// How much less than its runtime allows the session may do.
    pub(crate) fn limits(&self) -> Arc<Limits> {
        self.tools.limits()
    }

    /// From the next call on the session may do no more than this.
    /// Where that makes it read-only, or no longer so, its commands and those of its tools end.
    pub(crate) fn limit(&self, limits: Limits) {
        let read_only = limits.read_only;
        self.tools.limit(limits);
        self.execution.hold(read_only);
    }

    /// Says to which agent the session belongs. The first one stays.
    pub(crate) fn belongs_to(&self, agent: Arc<dyn Agents>) {
        let _ = self.agents.set(agent);
    }

    /// Who starts agents for the session, and asks its model.
    pub(crate) fn agents(&self) -> Arc<dyn Agents> {
        self.agents.get().cloned().unwrap_or_else(|| Arc::new(NoAgent))
    }

    /// Asks the server that may have this tool, where nobody knows its tools yet.
    pub(crate) async fn look_for_server_of(&self, tool: &str) {
        if let Some(connections) = self.find_connections() {
            connections.look_for(tool, |want| self.allows(want)).await;
        }
    }

    /// What a call that uses this server has to be asked about.
    pub(crate) fn question_of_server(&self, name: &str) -> Option<Want> {
        self.find_connections()?.question(name)
    }

    /// What the next answer is to say of tools that changed, and what to [tell](Self::knows_tools) of once it did.
    pub(crate) fn tool_news(&self) -> Option<(Option<String>, Arc<Loaded>)> {
        let now = self.runtime.plugins().loaded();
        let (allowed, limits) = (self.runtime.allowed(), self.limits());
        let is_on =
            |list: Option<&[String]>, name: &str| list.is_none_or(|it| it.iter().any(|it| it == name));
        let is_shown = |name: &str| is_on(allowed, name) && is_on(limits.tools.as_deref(), name);
        let news = self.tool_files.news(&now, is_shown)?;
        Some((news, now))
    }

    /// This report with what is different from what the model was last told, which it is told by it.
    pub(crate) fn tools_told(&self, report: Reloaded) -> Reloaded {
        self.tool_files.told(report, self.runtime.plugins().loaded())
    }

    /// The model knows the tools that are files as they were then: it was told, or asked for the change itself.
    pub(crate) fn knows_tools(&self, as_of: Arc<Loaded>) {
        self.tool_files.knows(as_of);
    }

    /// What the store keeps of it, where it has a name.
    fn saved(&self) -> Option<Saved<'_>> {
        self.named.then(|| Saved::new(self.store().sessions(), &self.name))
    }

    /// Keeps what a named session has seen, so that it can go on in another process.
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

    /// Takes up what a named session saw of a file in another process, before the first call on it.
    pub(crate) fn recall(&self, file: &Path) {
        if let Some(saved) = self.saved() {
            self.seen.recall(&saved, file);
        }
    }

    /// Was the session shown the manual of this tool?
    pub(crate) fn has_read_manual(&self, tool: &str) -> bool {
        self.manuals.has(tool, self.saved().as_ref())
    }

    /// The session was shown the manual of this tool.
    pub(crate) fn explained(&self, tool: &str) {
        self.manuals.add(tool, self.saved().as_ref());
    }

    /// The person of this session said this: the addresses in it are requested without a question.
    pub(crate) fn said_by_person(&self, words: &str) {
        self.person.said(words);
    }

    /// This was read on the web by a call that asked for this.
    pub(crate) fn read_on_the_web(&self, output: &Output, asked: &str) {
        self.person.addresses.read(output, asked);
    }

    /// Did a model take this address from elsewhere, unchanged?
    pub(crate) fn knows(&self, address: &Address) -> bool {
        self.person.knows(address, self.store())
    }

    /// What the first answer of a conversation says that looks at the web where composed addresses are requested unasked,
    /// and nobody decided that.
    pub(crate) fn told_of_open_web(&self, wants: &[Want], policy: &Policy) -> Option<String> {
        if self.runtime.policy().web.is_some() {
            return None;
        }
        self.person.told_of_open_web(wants, policy, self.store())
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
        put_back::undo(self.runtime.undo_workspace(), history, scope, held, policy, review)
    }

    /// Keeps a text that is too long to show; gives the handle it can be read by.
    pub(crate) fn spill(&self, bytes: &[u8]) -> Result<String, Fault> {
        self.outputs.keep(bytes)
    }

    /// What its tools may reach: the folders of the runtime, and its own spilled outputs.
    pub(crate) fn roots(&self) -> Roots {
        self.outputs.roots().clone()
    }

    /// A model that makes the same mistake twice has not understood: it is given the schema.
    pub(crate) fn with_schema_at_second_time(&self, fault: Fault, spec: &Spec, arguments: &str) -> Fault {
        self.refused.refuse(fault, spec, arguments)
    }

    /// Where the foreign bytes of this session and of its agents are decoded: by workers that decode no other session's.
    pub(crate) fn decoders(&self) -> &Decoders {
        &self.person.decoders
    }

    /// What a call reaches where the web is as open as this.
    pub(crate) fn reach(&self, web: Web) -> Reach<'_> {
        Reach {
            execution: &self.execution,
            grants: self.grants(),
            policy: Policy { web: Some(web), ..self.policy() },
            line: self.runtime.line(),
        }
    }

    /// Does a process of this session listen at this `host:port` of loopback?
    pub(crate) fn listens(&self, host: &str) -> bool {
        let pattern = HostPattern::parse(host);
        pattern.loopback_port().is_some_and(|(host, port)| self.execution.ports().listens(host, port))
    }

    /// What provides the packages which this source of a tool says it needs; nothing where it needs none.
    pub(crate) async fn provided(&self, file: &Path, source: &[u8]) -> Result<Option<Provided>, Fault> {
        let environments = Environments::of(&self.execution);
        let granted = || {
            let allowed = self.runtime.policy().hosts;
            self.grants().hosts().into_iter().chain(allowed.iter().cloned()).collect()
        };
        uv::provide(&self.execution, &environments, file, source, granted).await
    }

    /// Where its processes run.
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

    /// Waits until nobody else asks the person of this session: they read one question at a time.
    pub(crate) async fn turn_to_ask(&self) -> tokio::sync::OwnedMutexGuard<()> {
        self.person.asking.clone().lock_owned().await
    }

    /// How long the person of this session was asked until now.
    pub(crate) fn asked(&self) -> &Arc<AskedTime> {
        &self.person.asked
    }

    /// The agent whose session it is, where another one started it: `explore_1f3a`.
    pub(crate) fn agent(&self) -> Option<&str> {
        self.person.agent.as_deref()
    }

    /// What a person allowed it.
    pub(crate) fn grants(&self) -> &SessionGrants {
        &self.person.grants
    }

    /// The files that it gave to its person.
    pub(crate) fn files(&self) -> &SessionFiles {
        &self.person.files
    }

    /// Decides about a call that wants these things, by what is allowed now.
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

    fn has_tools_of_its_own(&self, tools: OwnTools) {
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
