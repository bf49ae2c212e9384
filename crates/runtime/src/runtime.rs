//! Runtime of a workspace: its folders, store, tools and rules, which all sessions share.
//!
//! It is created once, from [`Settings`]. The modules below get the parts that they need; none names the
//! runtime.

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use kit::{
    AnyTool, Fault, Preferences,
    files::{OtherNames, RootSpec, Roots},
    net::Connector,
    redact::Secrets,
    services::{Undo, Vault},
};
use parking_lot::{Condvar, Mutex};
use policy::Policy;
use sandbox::{
    control_files::{configured::Configured, index::Index},
    places,
    tracker::Logs,
};
use store::{
    Store,
    changes::{self, Change, Versions},
    journal::CallRecord,
    shares,
    spill::Spills,
    undo::{self, Restore},
};

use crate::{
    NetworkConfig, Registry,
    catalog::{self, SharedCatalogs},
    deadline,
    execution::{Commands, Execution, Resources},
    hooks::Hooks,
    plugins::{self, Plugins, ToolFiles},
    provenance::Provenance,
    put_back::{self, UndoFiles, Workspace},
    schedule::Schedule,
    stored_changes, vault,
};

/// The settings of a runtime.
pub struct Settings {
    /// The workspace's folder.
    pub workspace: PathBuf,
    /// Further folders that calls may reach.
    pub roots: Vec<RootSpec>,
    /// The state folder, outside the workspace.
    pub state: PathBuf,
    /// The folder of the user's configuration. No call reaches it, nor the state.
    pub config: PathBuf,
    /// The rules for calls.
    pub policy: Policy,
    /// Whether haft reads files that have names outside the roots.
    pub other_names: OtherNames,
    /// The only tools that are shown; all, if there is no list.
    pub allowed: Option<Vec<String>>,
    /// The time limit of a call.
    pub deadline: Duration,
    /// The values to redact.
    pub secrets: Secrets,
    /// How commands are started.
    pub commands: Commands,
    /// The tool folders.
    pub tool_files: ToolFiles,
    /// The network services of tools that reach beyond the workspace.
    pub network: NetworkConfig,
}

/// Maintenance tasks that run when the store is pruned.
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
    catalogs: SharedCatalogs,
    deadline: Duration,
    secrets: Arc<Secrets>,
    spills: Spills,
    tracks: Logs,
    commands: Commands,
    /// haft's own folders.
    hidden: [PathBuf; 2],
    recovery: Recovery,
    appeared: Provenance,
    connector: Arc<Connector>,
    vault: Arc<vault::Vault>,
    preferences: Arc<Preferences>,
    hooks: OnceLock<Arc<Hooks>>,
}

/// Whether the recovery after dead processes is finished.
#[derive(Default)]
struct Recovery {
    over: Mutex<bool>,
    changed: Condvar,
}

impl Runtime {
    /// Opens a runtime with these tools. Returns at once: the store is opened at first use.
    ///
    /// # Errors
    /// When the workspace or another root can't be opened.
    pub fn open(settings: Settings, tools: Vec<Arc<dyn AnyTool>>) -> Result<Self, Fault> {
        let mut specs = vec![RootSpec { path: settings.workspace, read_only: false }];
        specs.extend(settings.roots);
        let own = [settings.state.clone(), settings.config.clone()];
        let variables = settings.commands.variables.clone();
        // Credential files of the person's programs let any reader act as that person.
        let credentials = move || places::credentials(&variables);
        let roots = Roots::open(&specs, settings.other_names)?.hiding(&own, credentials);
        let index = Index::default();
        let paths = roots.list().map(|it| it.0.to_owned()).collect();
        let configured = Configured::new(paths, &settings.commands.variables, index.clone());
        let secrets = Arc::new(settings.secrets);
        let store = Store::with_upkeep(&settings.state, roots.workspace(), secrets.clone(), UPKEEP);
        let spills = store.spills().bounded(settings.commands.kept_outputs);
        let tracks = Logs::new(store.tracked_folder(), settings.commands.kept_for_undo);
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
        appeared.on_ended(move || {
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
                catalogs: SharedCatalogs::default(),
                deadline: settings.deadline.min(deadline::LONGEST),
                secrets,
                spills,
                tracks,
                commands: settings.commands,
                hidden: own,
                recovery: Recovery::default(),
                appeared,
                connector: settings.network.connector,
                vault: Arc::new(settings.network.vault),
                preferences: Arc::new(Preferences {
                    workspace: workspace_of_calls,
                    ..settings.network.preferences
                }),
                hooks: OnceLock::new(),
            }),
        };
        runtime.plugins().stands_on(Execution::contained(&runtime.resources(), "tools"));
        runtime.recover();
        Ok(runtime)
    }

    /// Records a result for every call that a dead process left open, and removes its temporary files. Runs
    /// in the background: nothing waits for it.
    fn recover(&self) {
        let runtime = self.clone();
        let swept = std::thread::Builder::new().name("haft-recover".to_owned()).spawn(move || {
            // Done here, while the store is opened, it delays no start and no first call.
            runtime.roots().look_up_hidden();
            let files = UndoFiles::of(runtime.undo_workspace(), runtime.policy());
            match runtime.store().journal().recover(&|path| files.read(path)) {
                Ok(interrupted) => {
                    for call in interrupted {
                        let ours = |bytes: &[u8]| call.knows(bytes);
                        for path in call.paths() {
                            runtime.roots().sweep(&path.to_string_lossy(), &ours);
                        }
                    }
                }
                Err(fault) => tracing::warn!("calls of dead processes could not be looked up: {fault}"),
            }
            runtime.recover_commands(&files);
            runtime.inner.recovery.end();
        });
        if let Err(error) = swept {
            tracing::warn!("no thread could be started to recover: {error}");
            self.inner.recovery.end();
        }
    }

    /// Settles commands whose haft was killed, and goes on with undos that were.
    fn recover_commands(&self, files: &UndoFiles) {
        let tracked = self.store().tracked();
        let done = tracked.recover().and_then(|undos| {
            undos.iter().try_for_each(|undo| tracked.resume(undo, &|path| files.may_put_back(path)).map(drop))
        });
        if let Err(fault) = done {
            tracing::warn!("changes of commands of dead processes could not be looked up: {fault}");
        }
    }

    /// Waits until the recovery after dead processes is finished: their open calls have results, and their
    /// temporary files are gone. Returns false if that takes longer than `within`.
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

    /// Returns the folders that calls may reach.
    pub fn roots(&self) -> &Roots {
        &self.inner.roots
    }

    /// Returns the store of this workspace.
    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    /// Returns the tool registry.
    pub fn registry(&self) -> &Registry {
        &self.inner.registry
    }

    /// Returns the tool files.
    pub fn plugins(&self) -> &Arc<Plugins> {
        &self.inner.plugins
    }

    /// Waits until every tool file is loaded or has failed. Returns at once if all are cached.
    pub async fn load_tools(&self) {
        self.plugins().settled().await;
    }

    /// Returns the rules for calls.
    pub fn policy(&self) -> Policy {
        self.inner.policy.clone()
    }

    /// Returns the service that undoes the changes of `scope`, on behalf of a call of `session`.
    pub fn undo(&self, session: &str, call: &str, scope: undo::Scope) -> Arc<dyn Undo> {
        let history = self.store().history(session, call);
        put_back::undo(self.undo_workspace(), history, scope, Vec::new(), self.policy(), None)
    }

    /// Returns the files that an earlier call changed, as far as their contents are still stored. Blocks.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn changed_by(&self, call: &CallRecord) -> Result<Vec<Versions>, Fault> {
        let files = UndoFiles::of(self.undo_workspace(), self.policy());
        stored_changes::changed_by(self.store(), &files, call)
    }

    /// Returns the workspace for an undo.
    pub(crate) fn undo_workspace(&self) -> Workspace {
        let Inner { roots, store, plugins, .. } = &*self.inner;
        Workspace { roots: roots.clone(), store: store.clone(), plugins: plugins.clone() }
    }

    /// Sets the hooks of all sessions, before the first one is opened. The first ones stay.
    pub fn set_hooks(&self, hooks: Hooks) {
        self.inner.policy.configured.also(hooks.files(self.roots().workspace()));
        let _ = self.inner.hooks.set(Arc::new(hooks));
    }

    /// Returns the hooks; none, if there are none.
    pub fn hooks(&self) -> Option<&Arc<Hooks>> {
        self.inner.hooks.get().filter(|it| !it.is_empty())
    }

    /// Returns the data that the processes of all sessions share.
    pub(crate) fn resources(&self) -> Resources<'_> {
        let inner = &*self.inner;
        Resources {
            commands: &inner.commands,
            policy: &inner.policy,
            roots: &inner.roots,
            hidden: &inner.hidden,
            spills: &inner.spills,
            secrets: &inner.secrets,
            grants: inner.store.grants(),
            tracks: &inner.tracks,
            provenance: &inner.appeared,
            index: &inner.index,
        }
    }

    /// Returns how these files changed, for a person: limited, and with the secrets redacted that this
    /// process knows. Blocks during the comparison.
    pub fn changes(&self, files: &[Versions], limits: changes::DiffLimits) -> Vec<Change> {
        changes::changes(files, self.roots().workspace(), &self.inner.secrets, limits)
    }

    /// Redacts the secrets that this process knows.
    pub fn masked<'a>(&self, text: &'a str) -> std::borrow::Cow<'a, str> {
        self.inner.secrets.mask(text)
    }

    pub(crate) fn schedule(&self) -> &Schedule {
        &self.inner.schedule
    }

    /// Returns those of `more`, and of the configured list of tools, that no tool has now: each with a
    /// suggestion if a tool's name is similar.
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

    pub(crate) fn catalogs(&self) -> &SharedCatalogs {
        &self.inner.catalogs
    }

    pub(crate) fn connector(&self) -> Arc<Connector> {
        self.inner.connector.clone()
    }

    /// Returns the names of the secrets in the vault that have a value.
    pub fn secret_names(&self) -> Vec<String> {
        self.inner.vault.values().map(|(name, _)| name).collect()
    }

    /// Returns the named secrets.
    pub fn vault(&self) -> Arc<dyn Vault> {
        self.inner.vault.clone()
    }

    pub(crate) fn preferences(&self) -> Arc<Preferences> {
        self.inner.preferences.clone()
    }

    pub(crate) fn secrets(&self) -> &Arc<Secrets> {
        &self.inner.secrets
    }

    /// Returns the logs of what commands change.
    pub fn tracks(&self) -> &Logs {
        &self.inner.tracks
    }

    /// Returns the spill files of outputs that were too long.
    pub fn spills(&self) -> &Spills {
        &self.inner.spills
    }

    pub(crate) fn commands(&self) -> &Commands {
        &self.inner.commands
    }

    /// Returns the folder of the user's configuration.
    pub fn config(&self) -> &std::path::Path {
        let [_, config] = &self.inner.hidden;
        config
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
