//! Loading and hot reload of tool files.

mod answers;
mod manuals;
mod queue;
mod survey;

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use arc_swap::ArcSwap;
use kit::{
    AnyTool, Fault, Kind, Origin, Spec,
    services::{NotLoaded, Reloaded},
};
use parking_lot::Mutex;
use tokio::{
    sync::{mpsc, watch},
    time::sleep_until,
};

use super::{
    Attestation, OWN, Source, ToolFiles, Version,
    attestation::{self, Grant},
    declaration::Declaration,
    describe,
    folder_config::FolderConfig,
    folders::Sort,
    own_files,
    provenance_records::{Author, ProvenanceRecords},
    python::PythonTool,
    set::{Loaded, Tried, stem},
};
use crate::mcp_client::{Servers, Start};
use crate::{
    Approver, Registry,
    execution::{Asker, Execution},
    provenance::{Provenance, Whose},
};
use answers::{Answer, Loading};
use queue::Wanted;
pub(crate) use queue::{Queue, Share};
use survey::Ask;

/// For unknown names haft checks the folders at most once in this time.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Time between two steps of a load, in which its tools appear as they are described. The first one appears at
/// once. A step takes at most a fifth of the time.
const STEP: Duration = Duration::from_millis(100);
const SHARE: u32 = 4;

/// Time after which a load that goes on stores what it knows.
const STORE: Duration = Duration::from_secs(2);

/// Age of a change below which another change may have the same timestamp.
const FRESH: Duration = Duration::from_millis(50);

/// The tool files: the loaded tools, and their reload.
pub struct Plugins {
    decided: FolderConfig,
    workspace: PathBuf,
    /// The folder of the caches.
    state: PathBuf,
    registry: Arc<Registry>,
    servers: Arc<Servers>,
    execution: OnceLock<Execution>,
    written: ProvenanceRecords,
    appeared: Provenance,
    now: ArcSwap<Loaded>,
    /// Held during a load.
    turn: tokio::sync::Mutex<Turn>,
    /// The number of requested loads.
    requested: AtomicU64,
    /// The tools that calls wait for.
    wanted: Arc<Wanted>,
    /// The last check of the folders.
    looked: Mutex<Option<Look>>,
    changes: watch::Sender<u64>,
}

/// The time of a check, and the folders' modification times then.
struct Look {
    at: Instant,
    times: Vec<Option<SystemTime>>,
    /// Whether a folder had changed so recently that another change may have the same timestamp.
    is_fresh: bool,
}

impl Look {
    fn now(times: Vec<Option<SystemTime>>) -> Self {
        let now = SystemTime::now();
        let is_fresh = |time: &SystemTime| now.duration_since(*time).map_or(true, |age| age < FRESH);
        Self { at: Instant::now(), is_fresh: times.iter().flatten().any(is_fresh), times }
    }
}

/// Returns whether this file has a tool of this name that will replace a built-in one once a person attests
/// it.
fn waits_to_replace(file: &Tried, name: &str, decided: &ToolFiles) -> bool {
    let sections = decided.folders.get(file.folder).and_then(|it| decided.granted(it.whose));
    sections.and_then(|it| it.get(name)).is_some_and(|it| it.replaces_built_in)
        && file.serves.iter().flat_map(|it| &it.tools).any(|(it, _)| it.name() == name)
}

/// The result of the last load, and the last request that it answers.
#[derive(Default)]
struct Turn {
    answers: u64,
    report: Reloaded,
}

impl Plugins {
    /// Loads cached tools at once; [`settled`](Self::settled) loads the others.
    pub(crate) fn new(
        files: ToolFiles,
        workspace: PathBuf,
        state: &Path,
        registry: Arc<Registry>,
        appeared: Provenance,
    ) -> Self {
        let changes = watch::Sender::new(0);
        let servers = Arc::new(Servers::new(state, workspace.clone(), registry.clone(), changes.clone()));
        servers.decide(&files.servers);
        let state = state.join("tools");
        let mut written = ProvenanceRecords::beneath(&state);
        // Without any grants there is nothing to attest.
        if files.vouched_now && !(files.sections.is_empty() && files.workspace_sections.is_empty()) {
            written = written.with(&attestation::all_code(&files.folders, &workspace));
        } else if !files.attested.is_empty() {
            written = written.with_marks(&files.attested);
        }
        let outside = Self {
            decided: FolderConfig::new(files),
            workspace,
            written,
            state,
            registry,
            servers,
            execution: OnceLock::new(),
            appeared,
            now: ArcSwap::default(),
            turn: tokio::sync::Mutex::default(),
            requested: AtomicU64::new(0),
            wanted: Arc::default(),
            looked: Mutex::new(None),
            changes,
        };
        let survey = outside.survey(&Loaded::default(), Ask::Unknown);
        if !survey.files.is_empty() || !survey.folders.is_empty() {
            let mut loading = Loading::new(survey);
            loading.save();
            outside.publish(&Loaded::default(), &loading, None);
        }
        outside
    }

    /// Sets the execution environment in which haft describes files.
    pub(crate) fn stands_on(&self, execution: Execution) {
        // The runtime sets it once, at the start.
        let _ = self.execution.set(execution);
    }

    /// Sets who is asked when packages of a tool need hosts that nobody granted.
    pub fn asks(&self, approver: Arc<dyn Approver>) {
        if let Some(execution) = self.execution.get() {
            execution.asks(Asker::new(approver));
        }
    }

    /// Returns the code that a person attests until this process ends, for a process that is started for it later.
    pub fn attested_now(&self) -> Vec<String> {
        self.written.of_this_run()
    }

    fn execution(&self) -> Result<&Execution, Fault> {
        self.execution.get().ok_or_else(|| Fault::bug("tools that are files stand on no ground"))
    }

    /// Waits until every file is loaded or has failed.
    pub async fn settled(self: &Arc<Self>) {
        if self.is_pending() {
            self.reload(false).await;
        }
        self.servers.settled().await;
    }

    /// Returns the MCP servers.
    pub fn servers(&self) -> &Arc<Servers> {
        &self.servers
    }

    /// Fetches the tools of unknown MCP servers from now on, without a call.
    pub fn ask_servers(&self, variables: &[(String, String)]) {
        let Some(execution) = self.execution.get().cloned() else { return };
        let variables = Arc::new(variables.to_vec());
        self.servers.ask_by_itself(Start {
            execution,
            workspace: self.workspace.clone(),
            variables,
            session: None,
        });
    }

    /// Like [`settled`](Self::settled), and loads failed files again that may work by now.
    pub async fn refreshed(self: &Arc<Self>) {
        let now = self.now.load_full();
        if now.is_pending || !now.failed.is_empty() {
            self.reload(false).await;
        }
    }

    /// Returns whether there are files that were not described yet.
    pub fn is_pending(&self) -> bool {
        self.now.load().is_pending
    }

    /// Returns the number of workspace files that are ignored until a person trusts the workspace.
    pub fn aside(&self) -> usize {
        self.now.load().aside
    }

    /// Returns the tools that every profile has: those that the `enabled.json` of their folder names.
    pub fn enabled(&self) -> Vec<String> {
        let now = self.now.load();
        if now.decided.enables { now.enabled().cloned().collect() } else { Vec::new() }
    }

    /// Returns the tools of tool files by name, each with the hash of its file's content.
    pub fn hashes(&self) -> Vec<(String, String)> {
        let now = self.now.load();
        let hashes = now.tools.iter().filter_map(|(name, it)| Some((name.clone(), it.file.hash?)));
        hashes.map(|(name, hash)| (name, hash.to_hex().to_string())).collect()
    }

    /// Returns the tools whose `[tool.NAME]` does not apply, one line each.
    pub fn lapsed(&self) -> Vec<String> {
        self.now.load().lapsed().map(|(_, line)| line.clone()).collect()
    }

    /// Returns the line for this tool.
    pub fn lapsed_of(&self, name: &str) -> Option<String> {
        self.now.load().lapsed().find(|(tool, _)| tool == name).map(|(_, line)| line.clone())
    }

    /// Records that a person attests this tool as it is loaded, and the code beside it.
    ///
    /// # Errors
    /// When no tool file has this name, or the attestation can't be stored.
    pub fn vouch(&self, name: &str) -> Result<Attestation, Fault> {
        let (now, decided) = (self.now.load(), self.decided.now());
        let waiting = || now.files.iter().find(|it| waits_to_replace(it, name, &decided)).cloned();
        let Some(file) = now.tools.get(name).map(|it| it.file.clone()).or_else(waiting) else {
            let why = self.why_missing(name, str::trim_end).map(|it| format!(": {it}")).unwrap_or_default();
            let what = format!("there is no tool `{name}` that is a file{why}");
            let fault = Fault::not_found(what);
            return Err(match now.aside {
                0 => fault.next("`haft tools` shows the tools."),
                _ => fault.next("This workspace's tools are ignored until you run `haft trust`."),
            });
        };
        let unavailable =
            |why: String| Fault::new(Kind::Unavailable, format!("`{name}` can't be vouched for: {why}"));
        if let Some(failed) = &file.failed {
            return Err(unavailable(format!("its file could not be loaded: {}", failed.why.trim_end())));
        }
        let (Some(folder), Some(hash)) = (decided.folders.get(file.folder), file.hash) else {
            return Err(unavailable("it can't be read".to_owned()));
        };
        let mut files =
            attestation::code_of(folder, &self.workspace, &file.path, file.sort).map_err(unavailable)?;
        files.retain(|it| it.0 != file.path);
        files.insert(0, (file.path.clone(), hash));
        self.written.vouch(&files).map_err(|error| unavailable(error.to_string()))?;
        let shown = |path: &PathBuf| path.strip_prefix(&self.workspace).unwrap_or(path).display().to_string();
        let section = decided.granted(folder.whose).and_then(|it| it.get(name)).cloned();
        Ok(Attestation { files: files.iter().map(|it| shown(&it.0)).collect(), section })
    }

    /// Returns a counter that changes with the tools.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Sets `ask` as the source of the configuration, called at each check of the folders. haft watches
    /// `files`, which contain what a person decides meanwhile, such as by `haft trust`. On `None` the
    /// configuration stays.
    pub fn follow(&self, files: Vec<PathBuf>, ask: impl Fn() -> Option<ToolFiles> + Send + Sync + 'static) {
        self.decided.follow(files, ask);
    }

    pub(super) fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// Returns the paths to watch.
    pub(super) fn places(&self) -> Vec<PathBuf> {
        self.decided.places().into_iter().chain(self.servers.place()).collect()
    }

    pub(crate) fn loaded(&self) -> Arc<Loaded> {
        self.now.load_full()
    }

    /// Checks the folders and reloads until every file is described; with `fresh` haft describes all again,
    /// whatever is cached. There is one load at a time: callers that arrive during one share the next. The load
    /// goes on if the caller stops waiting.
    pub async fn reload(self: &Arc<Self>, fresh: bool) -> Reloaded {
        let this = self.clone();
        let loading = tokio::spawn(async move {
            let before = this.now.load_full();
            let mut report = this.load_once(fresh).await;
            let mut parts = 1;
            while this.is_pending() {
                this.load_once(false).await;
                parts += 1;
            }
            if parts > 1 {
                report = this.now.load().since(&before);
            }
            report
        });
        let loaded = loading.await;
        loaded.unwrap_or_else(|_| {
            let now = self.now.load();
            now.since(&now)
        })
    }

    /// Checks the folders, and waits until this tool is loaded or no file has it. Its file is described before
    /// all others.
    pub(crate) async fn look_for(self: &Arc<Self>, name: &str) {
        let _waiting = self.wanted.wait(name);
        let mut changes = self.changes.subscribe();
        let reload = self.reload(false);
        tokio::pin!(reload);
        loop {
            tokio::select! {
                biased;
                _ = &mut reload => return,
                changed = changes.changed() => {
                    if changed.is_ok() && self.registry.snapshot().get(name).is_some() && !self.wants_a_look(name) {
                        return;
                    }
                }
            }
        }
    }

    /// Loads once, or shares a load that begins after this call.
    async fn load_once(self: &Arc<Self>, fresh: bool) -> Reloaded {
        let ticket = self.requested.fetch_add(1, Ordering::AcqRel) + 1;
        let mut turn = self.turn.lock().await;
        if !fresh && turn.answers >= ticket {
            return turn.report.clone();
        }
        let answers = self.requested.load(Ordering::Acquire);
        let report = self.load(fresh).await;
        *turn = Turn { answers, report: report.clone() };
        report
    }

    /// Loads what is new or has changed. Tools appear as they are described. It ends early if a call waits for
    /// a file that was not there when it began: then there are files left to describe.
    async fn load(self: &Arc<Self>, fresh: bool) -> Reloaded {
        let before = self.now.load_full();
        let ask = if fresh { Ask::All } else { Ask::Due };
        let waiting = self.wanted.names();
        let surveying = {
            let (this, before) = (self.clone(), before.clone());
            tokio::task::spawn_blocking(move || {
                let mut survey = this.survey(&before, ask);
                let look = survey.look.take();
                (Loading::new(survey), look)
            })
            .await
        };
        let Ok((loading, look)) = surveying else { return before.since(&before) };
        let queue = Queue::new(self.wanted.clone(), waiting, loading.paths(), !fresh);
        let (tell, answers) = mpsc::unbounded_channel();
        let asking = self.ask(loading.to_describe(), &queue, tell.clone());
        let asking = async {
            asking.await;
            // Until then there may be answers to come.
            drop(tell);
            std::future::pending::<()>().await;
        };
        let concluded = tokio::select! {
            concluded = self.conclude(&before, loading, look, answers, &queue) => concluded,
            () = asking => None,
        };
        concluded.unwrap_or_else(|| before.since(&before))
    }

    /// Takes the answers as they come, and shows the tools step by step.
    async fn conclude(
        self: &Arc<Self>,
        before: &Arc<Loaded>,
        mut loading: Loading,
        look: Option<Look>,
        mut answers: mpsc::UnboundedReceiver<Answer>,
        queue: &Queue,
    ) -> Option<Reloaded> {
        let (mut next, mut stored) = (Instant::now(), Instant::now());
        let mut look = look;
        loop {
            let mut some = Vec::new();
            let is_open = loop {
                tokio::select! {
                    biased;
                    answer = answers.recv() => match answer {
                        Some(answer) => some.push(answer),
                        None => {
                            let left = loading.left(&some).into_iter();
                            some.extend(left.map(|it| (it, Err("it was not asked".to_owned()))));
                            break false;
                        }
                    },
                    () = queue.stopped() => break false,
                    () = sleep_until(next.into()), if !some.is_empty() => break true,
                }
            };
            let (this, before) = (self.clone(), before.clone());
            let is_due = stored.elapsed() > STORE;
            // A load that ended early has not seen all: the next call looks again.
            let (began, last) = (Instant::now(), if is_open { None } else { look.take() });
            let step = move || {
                this.take(&mut loading, some);
                if !is_open || is_due {
                    loading.save();
                }
                let is_over = loading.is_over();
                let now = this.publish(&before, &loading, last.filter(|_| is_over));
                (loading, (!is_open).then(|| now.since(&before)))
            };
            let (back, report) = tokio::task::spawn_blocking(step).await.ok()?;
            if report.is_some() {
                return report;
            }
            loading = back;
            if is_due {
                stored = Instant::now();
            }
            next = Instant::now() + STEP.max(began.elapsed() * SHARE);
        }
    }

    /// Returns whether the folders must be checked before this tool is called. For a tool file this is one
    /// `stat`.
    pub(crate) fn wants_a_look(&self, name: &str) -> bool {
        let snapshot = self.registry.snapshot();
        let Some(tool) = snapshot.get(name) else { return self.may_look_again() };
        if matches!(tool.origin(), Origin::Program | Origin::Server(_)) {
            return false;
        }
        let now = self.now.load();
        // A section that did not apply may apply by now.
        now.tools.get(name).is_none_or(|made| {
            made.file.is_unknown
                || !made.file.is_current()
                || made.file.serves.as_ref().is_some_and(|it| !it.lapsed.is_empty())
        })
    }

    /// Returns whether a call of an unknown name checks the folders: at most once in [`LOOK_AGAIN`], unless
    /// something may have changed.
    fn may_look_again(&self) -> bool {
        let now = self.now.load();
        if self.decided.places().is_empty() {
            return false;
        }
        let is_recent = match &*self.looked.lock() {
            Some(look) => {
                !look.is_fresh && look.at.elapsed() < LOOK_AGAIN && look.times == self.decided.times()
            }
            None => false,
        };
        // A file that failed may have been read half written.
        let is_fixed = |it: &Arc<Tried>| it.failed.is_some() && !it.stamp.holds(&it.path);
        now.is_pending || !is_recent || now.files.iter().any(is_fixed)
    }

    /// Records that an undo changed a file of the workspace's own tools: the next call checks the folders.
    pub(crate) fn put_back(&self) {
        *self.looked.lock() = None;
    }

    /// Explains why there is no tool of this name, if a file should have it; `told` shortens the reason.
    pub(crate) fn why_missing(&self, name: &str, told: fn(&str) -> &str) -> Option<String> {
        let now = self.now.load();
        let of_this_name = |it: &&crate::Failure| stem(Path::new(&it.tool)) == Some(name);
        if let Some(failure) = now.failed.iter().find(of_this_name) {
            return Some(format!("{} could not be loaded: {}", failure.tool, told(&failure.why)));
        }
        let path = now.gone.get(name)?;
        let shown = path.strip_prefix(&self.workspace).unwrap_or(path).display();
        Some(format!("it was in {shown}, which has it no more"))
    }

    /// Checks code for the workspace's own tool `name`, as specified by
    /// [`Tools::check`](kit::services::Tools::check).
    pub(crate) async fn check(&self, name: &str, code: &str) -> Result<Spec, Fault> {
        let draft = self.draft(name, code);
        let described = describe::check(self.execution()?, &draft, name).await?;
        let declaration = Arc::new(Declaration::new(described));
        Ok(PythonTool::new(draft, declaration, Grant::default()).spec().clone())
    }

    /// Returns code as the version that the workspace's own tool `name` would have. The caller is about to
    /// write it: haft records this text as written by a model, so that it never counts as a person's.
    pub(crate) fn draft(&self, name: &str, code: &str) -> Arc<Version> {
        let folder = self.workspace.join(OWN);
        let path = folder.join(format!("{name}.py"));
        let hash = blake3::hash(code.as_bytes());
        // A person's file stays theirs, also if a model produces the same text.
        let is_there = self.now.load().by_path.get(&path).is_some_and(|it| it.hash == Some(hash));
        if !is_there && let Err(error) = self.written.note(&path, &hash, Author::Model) {
            tracing::warn!("that a model wrote `{name}` is not kept: {error}");
        }
        Arc::new(Version {
            path,
            folder,
            whose: Whose::Workspace,
            by_model: true,
            source: Arc::new(Source::held(code.as_bytes().into(), hash)),
            hash,
        })
    }

    /// Records that a model has written or removed the workspace's own tool `name`, and loads it.
    pub(crate) async fn rewritten(self: &Arc<Self>, name: &str) -> Result<(), Fault> {
        own_files(name)?;
        let path = self.workspace.join(OWN).join(format!("{name}.py"));
        self.look_for(name).await;
        let now = self.now.load();
        let Some(file) = now.by_path.get(&path) else { return Ok(()) };
        let shown = path.strip_prefix(&self.workspace).unwrap_or(&path).display().to_string();
        let Some(failed) = now.failed().find(|it| it.file == shown) else { return Ok(()) };
        let older = if file.failed.is_some() && file.serves.is_some() {
            "; its last good version stays in use"
        } else {
            ""
        };
        Err(Fault::new(
            Kind::Failed,
            format!("`{name}` is written, and could not be loaded{older}: {}", failed.why),
        ))
    }

    /// Returns whether a manifest failed to load: the program that it lacks may lie outside the watched
    /// folders.
    pub(super) fn waits_for_a_program(&self) -> bool {
        self.now.load().files.iter().any(|it| it.sort == Sort::Manifest && it.failed.is_some())
    }

    /// Returns the files that could not be loaded, each with its whole traceback.
    pub fn failed(&self) -> Vec<NotLoaded> {
        self.now.load().failed().collect()
    }
}
