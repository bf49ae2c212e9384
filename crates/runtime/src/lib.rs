//! Whether, when and where a call happens.

mod addresses;
mod answer_schema;
mod approval_time;
mod approve;
mod call;
mod catalog;
mod deadline;
mod execution;
mod file_locks;
mod jobs;
mod network_config;
mod notes;
mod options;
mod put_back;
mod registry;
mod repair;
mod session;
mod stored_changes;

pub mod config;
pub mod mcp_client;
pub mod plugins;
pub mod schedule;
pub mod truncate;
pub mod vault;

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use kit::{
    AnyTool, Fault, Preferences,
    files::{OtherNames, RootSpec, Roots},
    net::Line,
    redact::Secrets,
    services::{Undo, Vault},
};
use policy::Policy;
use sandbox::{
    control_files::{configured::Configured, index::Index},
    places,
};
use store::{
    Store,
    changes::{self, Change, Versions},
    shares,
    spill::Spills,
};

pub use answer_schema::AnswerSchema;
pub use approve::{Approver, Request, Unattended, Verdict};
pub use call::{Answer, Call};
pub use catalog::{Catalog, Listing};
pub use deadline::DEADLINE;
pub use execution::{Commands, Own};
pub use jobs::{Event, OwedJob, is_of_a_job};
pub use network_config::NetworkConfig;
pub use registry::{Failure, Registry, Snapshot};
pub use repair::Arguments;
pub use session::{Limits, Session, WeakSession};

use execution::Execution;
use parking_lot::{Condvar, Mutex};
use plugins::{Plugins, ToolFiles, provenance::Provenance};
use schedule::Schedule;
use store::undo::{self, Restore};

/// What a runtime is made with.
pub struct Settings {
    /// The workspace's folder.
    pub workspace: PathBuf,
    /// More folders that may be reached.
    pub roots: Vec<RootSpec>,
    /// Where state is kept, outside the workspace.
    pub state: PathBuf,
    /// Where the user's configuration is kept. Like the state, no call reaches it.
    pub config: PathBuf,
    /// What may run.
    pub policy: Policy,
    /// Whether files are read that have names outside the roots.
    pub other_names: OtherNames,
    /// The only tools that are shown; all, if this is not given.
    pub allowed: Option<Vec<String>>,
    /// After how long a call is stopped.
    pub deadline: Duration,
    /// Values that are shown to nobody.
    pub secrets: Secrets,
    /// What commands are started with.
    pub commands: Commands,
    /// Where tools that are files are looked for.
    pub tool_files: ToolFiles,
    /// What tools have that reach beyond the workspace.
    pub network: NetworkConfig,
}

/// What is pruned with the store.
const UPKEEP: &[store::Upkeep] =
    &[|kept, late| plugins::uv::prune(kept.state, late), |kept, _| shares::sweep(kept.files)];

/// One tool runtime on one workspace. Cheap to clone.
#[derive(Clone)]
pub struct Runtime {
    inner: Arc<Inner>,
}

struct Inner {
    roots: Roots,
    store: Store,
    registry: Arc<Registry>,
    plugins: Arc<Plugins>,
    schedule: Schedule,
    policy: Policy,
    index: Index,
    allowed: Option<Vec<String>>,
    deadline: Duration,
    secrets: Arc<Secrets>,
    spills: Spills,
    commands: Commands,
    /// Folders of haft's own.
    hidden: [PathBuf; 2],
    recovery: Recovery,
    appeared: Provenance,
    line: Arc<Line>,
    vault: Arc<vault::Vault>,
    preferences: Arc<Preferences>,
}

/// Whether what dead processes left has been seen to.
#[derive(Default)]
struct Recovery {
    over: Mutex<bool>,
    changed: Condvar,
}

impl Runtime {
    /// A runtime with these tools. Returns at once: the store is opened when it is first used.
    ///
    /// # Errors
    /// When the workspace or another root can't be opened.
    pub fn open(settings: Settings, tools: Vec<Arc<dyn AnyTool>>) -> Result<Self, Fault> {
        let mut specs = vec![RootSpec { path: settings.workspace, read_only: false }];
        specs.extend(settings.roots);
        let own = [settings.state.clone(), settings.config.clone()];
        let roots = Roots::open(&specs, settings.other_names)?.hiding(&own);
        // What a person's programs keep there lets one act as that person, by whatever tool it is read.
        let roots = roots.withholding(&places::credentials(&settings.commands.variables));
        let index = Index::default();
        let paths = roots.list().map(|it| it.0.to_owned()).collect();
        let configured = Configured::new(paths, &settings.commands.variables, index.clone());
        let secrets = Arc::new(settings.secrets);
        let store = Store::with_upkeep(&settings.state, roots.workspace(), secrets.clone(), UPKEEP);
        let spills = store.spills().bounded(settings.commands.kept_outputs);
        let workspace = roots.workspace().to_owned();
        let workspace_of_calls = workspace.clone();
        let registry = Arc::new(Registry::new(tools));
        let appeared = Provenance::default();
        let plugins = Arc::new(Plugins::new(
            settings.tool_files,
            workspace.clone(),
            &settings.state,
            registry.clone(),
            appeared.clone(),
        ));
        let keeping = Arc::downgrade(&plugins);
        appeared.tell(move || {
            if let Some(plugins) = keeping.upgrade() {
                plugins.note_appeared();
            }
        });
        let runtime = Self {
            inner: Arc::new(Inner {
                roots,
                store,
                registry,
                plugins,
                schedule: Schedule::default(),
                policy: Policy { workspace: workspace.into(), configured, ..settings.policy },
                index,
                allowed: settings.allowed,
                deadline: settings.deadline.min(deadline::LONGEST),
                secrets,
                spills,
                commands: settings.commands,
                hidden: own,
                recovery: Recovery::default(),
                appeared,
                line: settings.network.line,
                vault: Arc::new(settings.network.vault),
                preferences: Arc::new(Preferences {
                    workspace: workspace_of_calls,
                    ..settings.network.preferences
                }),
            }),
        };
        runtime.plugins().stands_on(Execution::contained(&runtime, "tools"));
        runtime.recover();
        Ok(runtime)
    }

    /// A session. With a name it goes on where that session was left; `door` is how the
    /// person came in.
    pub fn session(&self, name: Option<&str>, door: &str, approver: Arc<dyn Approver>) -> Session {
        Session::open(self.clone(), name, door, approver)
    }

    /// Gives every call that a dead process left open its result, and removes the
    /// temporary files it left. Beside everything else: nothing waits for it.
    fn recover(&self) {
        let runtime = self.clone();
        let swept = std::thread::Builder::new().name("haft-recover".to_owned()).spawn(move || {
            let (policy, held, landed) = (runtime.policy(), Vec::new(), Arc::default());
            let allowed = Mutex::default();
            let hands = put_back::UndoFiles { runtime, held, policy, landed, review: None, allowed };
            match hands.runtime.store().journal().recover(&|path| hands.read(path)) {
                Ok(interrupted) => {
                    for call in interrupted {
                        let ours = |bytes: &[u8]| call.knows(bytes);
                        for path in call.paths() {
                            hands.runtime.roots().sweep(&path.to_string_lossy(), &ours);
                        }
                    }
                }
                Err(fault) => tracing::warn!("calls of dead processes could not be looked up: {fault}"),
            }
            hands.runtime.inner.recovery.end();
        });
        if let Err(error) = swept {
            tracing::warn!("no thread could be started to recover: {error}");
            self.inner.recovery.end();
        }
    }

    /// Waits until what dead processes left has been seen to: their open calls have their
    /// results, their temporary files are gone. False when that was not so `within` this time.
    pub fn wait_recovered(&self, within: Duration) -> bool {
        let until = Instant::now() + within;
        let mut over = self.inner.recovery.over.lock();
        while !*over {
            if self.inner.recovery.changed.wait_until(&mut over, until).timed_out() {
                return *over;
            }
        }
        true
    }

    /// The folders that may be reached.
    pub fn roots(&self) -> &Roots {
        &self.inner.roots
    }

    /// What is kept of this workspace.
    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    /// Which tools exist.
    pub fn registry(&self) -> &Registry {
        &self.inner.registry
    }

    /// The tools that are files.
    pub fn plugins(&self) -> &Arc<Plugins> {
        &self.inner.plugins
    }

    /// Waits until every tool file is loaded, or known to be broken. At once, where all of them were known.
    pub async fn load_tools(&self) {
        self.plugins().settled().await;
    }

    /// What may run.
    pub fn policy(&self) -> Policy {
        self.inner.policy.clone()
    }

    /// What puts back the changes of `scope`, on behalf of a call of `session`.
    pub fn undo(&self, session: &str, call: &str, scope: undo::Scope) -> Arc<dyn Undo> {
        let history = self.store().history(session, call);
        put_back::undo(self, history, scope, Vec::new(), self.policy(), None)
    }

    /// How these files changed, as a person may see it: bounded, and without the secrets that this process knows.
    /// Blocks while it compares.
    pub fn changes(&self, files: &[Versions], bound: changes::Bound) -> Vec<Change> {
        changes::changes(files, self.roots().workspace(), &self.inner.secrets, bound)
    }

    /// The text without the secrets that this process knows.
    pub fn masked<'a>(&self, text: &'a str) -> std::borrow::Cow<'a, str> {
        self.inner.secrets.mask(text)
    }

    pub(crate) fn schedule(&self) -> &Schedule {
        &self.inner.schedule
    }

    /// Those of these names, and of the list of tools that there may be, that no tool has now: each with the question
    /// whether another was meant, where one is like it.
    pub fn unknown_tools(&self, more: &[String]) -> [Vec<(String, String)>; 2] {
        let snapshot = self.registry().snapshot();
        let of = |names: &[String]| {
            catalog::unknown(&snapshot, names).map(|(name, near)| (name.to_owned(), near)).collect()
        };
        [of(self.allowed().unwrap_or_default()), of(more)]
    }

    pub(crate) fn allowed(&self) -> Option<&[String]> {
        self.inner.allowed.as_deref()
    }

    pub(crate) fn line(&self) -> Arc<Line> {
        self.inner.line.clone()
    }

    pub(crate) fn vault(&self) -> Arc<dyn Vault> {
        self.inner.vault.clone()
    }

    pub(crate) fn preferences(&self) -> Arc<Preferences> {
        self.inner.preferences.clone()
    }

    pub(crate) fn secrets(&self) -> &Arc<Secrets> {
        &self.inner.secrets
    }

    /// The outputs that were too long to show.
    pub fn spills(&self) -> &Spills {
        &self.inner.spills
    }

    pub(crate) fn commands(&self) -> &Commands {
        &self.inner.commands
    }

    /// Which files in folders of tools may have been made by a tool.
    pub(crate) fn appeared(&self) -> &Provenance {
        &self.inner.appeared
    }

    /// Where state is kept.
    pub(crate) fn state(&self) -> &std::path::Path {
        let [state, _] = &self.inner.hidden;
        state
    }

    /// Where the user's configuration is kept.
    pub fn config(&self) -> &std::path::Path {
        let [_, config] = &self.inner.hidden;
        config
    }

    /// Where control files are found.
    pub(crate) fn index(&self) -> &Index {
        &self.inner.index
    }

    pub(crate) fn hidden(&self) -> &[PathBuf] {
        &self.inner.hidden
    }

    pub(crate) fn deadline(&self) -> Duration {
        self.inner.deadline
    }
}

impl Recovery {
    fn end(&self) {
        *self.over.lock() = true;
        self.changed.notify_all();
    }
}
