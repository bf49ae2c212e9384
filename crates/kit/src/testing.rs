//! Workspaces for tests, each made from one string, and the programs that tests need.

pub mod needs;
mod wired;

use std::{
    collections::BTreeMap,
    fs,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::{
    AnyTool, Cx, Fault, Files, Kind, Output, Preferences, Services, Spec, Tool, Touch, Touches,
    decoders::Decoders,
    erase,
    files::{Access, Grant, OtherNames, RootSpec, Roots},
    model_tools::{OWN, own_files},
    net::{Allowed, Connector, Net, System},
    procs::{Exit, Procs, Program, Slice, Spawner, Starting},
    seen::Views,
    services::{
        Agents, Called, Caller, Change, Confirm, Fact, FoundMessage, Groups, History, Job, Jobs, Listed,
        Live, Messages, NoAgent, NoGroup, NoMessages, NoServers, NoShares, NoTriggers, NobodyConfirms, Notes,
        Progress, Redact, Reloaded, Servers, Shares, Shelf, Soon, Tools, Transcript, Triggers, Undo, Until,
        Vault, Waited, Which,
    },
    text::{Content, Digest},
};

pub use wired::Wired;

/// A temporary workspace, which is deleted when this is dropped.
pub struct TestWorkspace {
    _dir: Option<tempfile::TempDir>,
    path: PathBuf,
    roots: Roots,
    views: Arc<Views>,
    shelf: Arc<Shelf>,
    /// The jobs that tools see: none, unless a test replaces them.
    pub jobs: Arc<dyn Jobs>,
    /// The tools that tools see: none, unless a test replaces them.
    pub tools: Arc<dyn Tools>,
    /// The agent that tools see: none, unless a test replaces it.
    pub agents: Arc<dyn Agents>,
    /// The group.
    pub groups: Arc<dyn Groups>,
    /// The messages that tools send: not available, unless a test replaces them.
    pub messages: Arc<dyn Messages>,
    /// The MCP servers that tools see.
    pub servers: Arc<dyn Servers>,
    /// Notes: in memory, unless a test replaces them.
    pub notes: Arc<dyn Notes>,
    /// Shared files: not available, unless a test replaces them.
    pub shares: Arc<dyn Shares>,
    /// The triggers.
    pub triggers: Arc<dyn Triggers>,
    /// The connector of tools, with its name lookup.
    pub connector: Arc<Connector>,
    /// The hosts that tools may contact besides those that their touches name: none, unless a test adds some.
    pub allowed: Allowed,
    /// The named secrets: none, unless a test replaces them.
    pub vault: Arc<dyn Vault>,
    /// The person's configuration.
    pub preferences: Arc<Preferences>,
    /// Approval during a call: refused, unless a test replaces it.
    pub confirm: Arc<dyn Confirm>,
    /// Cancels everything that runs here.
    pub cancel: CancellationToken,
}

impl TestWorkspace {
    /// Creates a workspace with these files: each begins with a line `//- path`.
    ///
    /// # Panics
    /// When the disk returns an error.
    #[expect(clippy::expect_used, reason = "a test that has no workspace has failed")]
    pub fn new(fixture: &str) -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().canonicalize().expect("its path");
        for file in fixture.split("//- ").skip(1) {
            let (name, content) = file.split_once('\n').unwrap_or((file, ""));
            let at = path.join(name.trim());
            fs::create_dir_all(at.parent().unwrap_or(&path)).expect("a folder");
            fs::write(at, content).expect("a file");
        }
        Self { _dir: Some(dir), ..Self::at(&path) }
    }

    /// Opens an existing folder, which is not deleted.
    ///
    /// # Panics
    /// When it can't be opened.
    #[expect(clippy::expect_used, reason = "a test that has no workspace has failed")]
    pub fn at(path: &Path) -> Self {
        let path = path.canonicalize().expect("its path");
        let spec = RootSpec { path: path.clone(), read_only: false };
        let roots = Roots::open(&[spec], OtherNames::Refuse).expect("roots");
        let views = Arc::new(Views::default());
        Self {
            _dir: None,
            path,
            roots,
            views,
            shelf: Arc::default(),
            jobs: Arc::new(Nothing),
            tools: Arc::new(Nothing),
            agents: Arc::new(NoAgent),
            groups: Arc::new(NoGroup),
            messages: Arc::new(NoMessages),
            servers: Arc::new(NoServers),
            notes: Arc::new(InMemory::default()),
            shares: Arc::new(NoShares),
            triggers: Arc::new(NoTriggers),
            connector: Arc::new(Connector::new(Arc::new(System), None)),
            allowed: Allowed::default(),
            vault: Arc::new(Nothing),
            preferences: Arc::default(),
            confirm: Arc::new(NobodyConfirms),
            cancel: CancellationToken::new(),
        }
    }

    /// Creates an empty workspace.
    pub fn empty() -> Self {
        Self::new("")
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the content of a file.
    ///
    /// # Panics
    /// When it does not exist.
    #[expect(clippy::expect_used, reason = "a test that misses its file has failed")]
    pub fn bytes(&self, path: &str) -> Vec<u8> {
        fs::read(self.path.join(path)).expect("the file")
    }

    /// Returns a handle that may do anything in the workspace.
    pub fn cx(&self) -> Cx {
        self.cx_for(&Touches::read(""))
    }

    /// Returns a handle with the grants for these touches. A touch outside gets no grant.
    pub fn cx_for(&self, touches: &Touches) -> Cx {
        let grants: Vec<Grant> = touches
            .iter()
            .flat_map(|touch| match touch {
                Touch::Read(path) => vec![(path.clone(), Access::Read)],
                Touch::Write(path) => vec![(path.clone(), Access::Write)],
                Touch::Tool(name) => {
                    let files = own_files(name).into_iter().flatten().map(|path| (path, Access::Write));
                    files.chain([(OWN.to_owned(), Access::Read)]).collect()
                }
                Touch::Run(_)
                | Touch::Unconfined
                | Touch::Net(_)
                | Touch::Web(_)
                | Touch::Server { .. }
                | Touch::Session(_)
                | Touch::WriteTree { .. }
                | Touch::Trigger(_)
                | Touch::Exclusive => Vec::new(),
            })
            .filter_map(|(path, access)| Some(Grant { location: self.roots.locate(&path).ok()?, access }))
            .collect();
        let trees = touches.iter().filter_map(|touch| match touch {
            Touch::WriteTree { path, like } => self.roots.tree_places(path, like.as_deref()).ok(),
            _ => None,
        });
        let below = trees.flatten().map(|location| Grant { location, access: Access::Write });
        let grants = grants.into_iter().chain(below).collect();
        let files = Files::new(self.roots.clone(), grants, Arc::new(Nothing));
        let allowed = touches.iter().fold(self.allowed.clone(), |allowed, touch| match touch {
            Touch::Net(host) => allowed.and(host),
            Touch::Web(_) => allowed.and_web(),
            _ => allowed,
        });
        let services = Services {
            procs: Procs::new(Arc::new(Nothing)),
            decoders: Decoders::here(),
            net: Net::new(self.connector.clone(), allowed),
            vault: self.vault.clone(),
            preferences: self.preferences.clone(),
            confirm: self.confirm.clone(),
            caller: Arc::new(Nothing),
            jobs: self.jobs.clone(),
            tools: self.tools.clone(),
            agents: self.agents.clone(),
            groups: self.groups.clone(),
            messages: self.messages.clone(),
            servers: self.servers.clone(),
            notes: self.notes.clone(),
            shares: self.shares.clone(),
            triggers: self.triggers.clone(),
            shelf: self.shelf.clone(),
            history: Arc::new(Nothing),
            undo: Arc::new(Nothing),
            progress: Arc::new(Nothing),
            mask: Arc::new(Nothing),
        };
        Cx::new(files, self.views.clone(), services, self.cancel.clone())
    }

    /// Calls a tool with these arguments; returns what the model would read.
    pub fn call<T: Tool>(&self, arguments: &Value) -> Result<Output, Fault> {
        self.call_any(&*erase::<T>(), arguments)
    }

    /// Like [`call`](Self::call), for a tool of any type.
    ///
    /// # Errors
    /// Those of the tool.
    ///
    /// # Panics
    /// When no runtime can be started.
    #[expect(clippy::expect_used, reason = "a test that can't run has failed")]
    pub fn call_any(&self, tool: &dyn AnyTool, arguments: &Value) -> Result<Output, Fault> {
        let call = tool.prepare(arguments.clone())?;
        let cx = self.cx_for(&call.touches());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let result = runtime.block_on(call.run(cx));
        // A cancelled tool may still hold a thread; the test need not wait for it.
        runtime.shutdown_background();
        result
    }

    /// Returns what the model would read: the output's text, or the fault's with its kind before it.
    pub fn says<T: Tool>(&self, arguments: &Value) -> String {
        match self.call::<T>(arguments) {
            Ok(output) => output.as_text(),
            Err(fault) => format!("{}: {}", fault.kind, fault.as_text()),
        }
    }
}

/// Services without any effect.
struct Nothing;

impl Vault for Nothing {
    fn reveal(&self, name: &str, _: &str, _: u16) -> Result<String, Fault> {
        Err(Fault::not_found(format!("there is no secret `{name}`")))
    }
}

/// Notes of a session in memory, without facts.
#[derive(Default)]
struct InMemory(Mutex<BTreeMap<String, String>>);

impl Notes for InMemory {
    fn get(&self, key: &str) -> Result<Option<String>, Fault> {
        Ok(self.0.lock().get(key).cloned())
    }

    fn change(&self, key: &str, change: Change) -> Result<Option<String>, Fault> {
        let mut kept = self.0.lock();
        let after = change(kept.get(key).cloned())?;
        match &after {
            Some(text) => drop(kept.insert(key.to_owned(), text.clone())),
            None => drop(kept.remove(key)),
        }
        Ok(after)
    }

    fn keys(&self, prefix: &str) -> Result<Vec<String>, Fault> {
        Ok(self.0.lock().keys().filter(|it| it.starts_with(prefix)).cloned().collect())
    }

    fn remember(&self, _: &str, _: &[String]) -> Result<u64, Fault> {
        Err(Fault::new(Kind::Unavailable, "there is no memory here"))
    }

    fn recall(&self, _: &str, _: usize) -> Result<Vec<Fact>, Fault> {
        Ok(Vec::new())
    }

    fn forget(&self, number: u64) -> Result<Fact, Fault> {
        Err(Fault::not_found(format!("there is no fact {number}")))
    }

    fn find_messages(&self, _: &str, _: usize) -> Result<Vec<FoundMessage>, Fault> {
        Ok(Vec::new())
    }
}

impl History for Nothing {
    fn keep(&self, _: &Path, _: Option<&Content>, _: Option<&Content>) -> Result<(), Fault> {
        Ok(())
    }

    fn keep_long(&self, _: &Path, _: Option<&Content>, _: Digest) -> Result<(), Fault> {
        Ok(())
    }
}

impl Undo for Nothing {
    fn undo(&self, _: Which) -> Result<Output, Fault> {
        Err(Fault::new(Kind::NotFound, "there is nothing to undo"))
    }

    fn list(&self, _: usize) -> Result<Output, Fault> {
        Ok(Output::text("no changes"))
    }
}

impl Progress for Nothing {
    fn report(&self, _: f64, _: Option<f64>, _: &str) {}
}

impl Redact for Nothing {
    fn find(&self, _: &str) -> Vec<Range<usize>> {
        Vec::new()
    }
}

impl Spawner for Nothing {
    fn start(&self, _: Program) -> Starting<'_> {
        Box::pin(std::future::ready(Err(Fault::new(Kind::Unavailable, "this room starts no processes"))))
    }

    fn denials(&self, _: Exit, _: &str) -> Vec<String> {
        Vec::new()
    }
}

impl Caller for Nothing {
    fn job(&self) -> String {
        "job_1".to_owned()
    }

    fn show(&self, _: Live) {}

    fn go_on(&self, _: Output) {}

    fn hand_over(&self, _: Output) -> Soon<'_, Result<Value, Fault>> {
        Box::pin(std::future::ready(Err(Fault::new(Kind::Cancelled, "this room continues no jobs"))))
    }
}

impl Jobs for Nothing {
    fn list(&self) -> Vec<Job> {
        Vec::new()
    }

    fn get(&self, id: &str) -> Result<Job, Fault> {
        Err(Fault::not_found(format!("there is no job `{id}`")))
    }

    fn wait<'a>(&'a self, id: &'a str, _: Until, _: Duration) -> Soon<'a, Result<Waited, Fault>> {
        Box::pin(async move { self.get(id).map(|job| Waited { job, met: false, line: None }) })
    }

    fn stop<'a>(&'a self, id: &'a str) -> Soon<'a, Result<Job, Fault>> {
        Box::pin(async move { self.get(id) })
    }

    fn go_on<'a>(&'a self, id: &'a str, _: Value, _: Duration) -> Soon<'a, Result<Output, Fault>> {
        Box::pin(async move { self.get(id).map(|_| Output::text("")) })
    }
}

impl Tools for Nothing {
    fn list(&self) -> Listed {
        Listed::default()
    }

    fn manual(&self, _: &str) -> Option<String> {
        None
    }

    fn explained(&self, _: &str) {}

    fn reload(&self) -> Soon<'_, Reloaded> {
        Box::pin(std::future::ready(Reloaded::default()))
    }

    fn check<'a>(&'a self, _: &'a str, _: &'a str) -> Soon<'a, Result<Spec, Fault>> {
        Box::pin(std::future::ready(Err(Fault::new(Kind::Unavailable, "this room has no Python"))))
    }

    fn rewritten<'a>(&'a self, _: &'a str) -> Soon<'a, Result<(), Fault>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn call<'a>(&'a self, name: &'a str, _: Value) -> Soon<'a, Called> {
        let result = Err(Fault::not_found(format!("there is no tool `{name}`")));
        Box::pin(std::future::ready(Called {
            result,
            notes: Vec::new(),
            printed: None,
            took: Duration::ZERO,
        }))
    }
}

/// The output of a job, written by a test.
#[derive(Default)]
pub struct TestTranscript {
    state: Mutex<Script>,
    changed: Notify,
}

#[derive(Default)]
struct Script {
    text: String,
    is_over: bool,
}

impl TestTranscript {
    /// Appends this.
    pub fn write(&self, text: &str) {
        self.state.lock().text.push_str(text);
        self.changed.notify_waiters();
    }

    /// Ends the output.
    pub fn close(&self) {
        self.state.lock().is_over = true;
        self.changed.notify_waiters();
    }
}

impl Transcript for TestTranscript {
    fn total(&self) -> u64 {
        self.state.lock().text.len() as u64
    }

    fn tail(&self, bytes: usize) -> Slice {
        self.read(self.total().saturating_sub(bytes as u64), bytes)
    }

    fn read(&self, from: u64, bytes: usize) -> Slice {
        let state = self.state.lock();
        let text = &state.text;
        let start = text.floor_char_boundary(usize::try_from(from).unwrap_or(usize::MAX).min(text.len()));
        let end = text.floor_char_boundary(start.saturating_add(bytes).min(text.len()));
        let piece = text.get(start..end).unwrap_or_default().to_owned();
        Slice { text: piece, bytes: start as u64..end as u64, total: text.len() as u64, handle: None }
    }

    fn grown(&self, seen: u64) -> Soon<'_, bool> {
        Box::pin(async move {
            loop {
                let changed = self.changed.notified();
                {
                    let state = self.state.lock();
                    let grown = state.text.len() as u64 > seen;
                    if grown || state.is_over {
                        return grown;
                    }
                }
                changed.await;
            }
        })
    }
}
