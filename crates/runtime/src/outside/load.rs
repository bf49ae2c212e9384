//! How do tools that are files get loaded, and loaded again?

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use futures_util::{StreamExt, future::join_all, stream};
use kit::{
    AnyTool, Fault, Kind, Origin, Spec,
    services::{NotLoaded, Reloaded},
};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::{
    Described, Folder, OWN, Section, ToolFiles, Version, Whose,
    cache::{Cache, Failed},
    describe,
    executable::{self, ExecutableTool},
    folders::{self, Found, Held, Sort},
    host, own_files,
    python::PythonTool,
    set::{Loaded, Remarks, Serving, Shows, Tried},
    uv::{self, Asker},
    written::{Marks, Written},
};
use crate::{
    Approver, Registry,
    ground::{Ground, Own},
};

/// For a name that no tool has, the folders are looked at once in this time.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// So many programs are asked at once.
const AT_ONCE: usize = 4;

/// The tools that are files: what is loaded of them, and how that is brought up to date.
pub struct Outside {
    files: ToolFiles,
    workspace: PathBuf,
    /// Where what is known of files is kept.
    state: PathBuf,
    registry: Arc<Registry>,
    ground: OnceLock<Ground>,
    written: Written,
    now: ArcSwap<Loaded>,
    /// One load at a time.
    turn: tokio::sync::Mutex<Turn>,
    /// How many loads were asked for.
    wanted: AtomicU64,
    /// When the folders were looked at last.
    looked: Mutex<Option<Instant>>,
    changes: watch::Sender<u64>,
}

/// What the last load came to, and which of those who asked it answers.
#[derive(Default)]
struct Turn {
    answers: u64,
    report: Reloaded,
}

/// Which files are asked what they are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ask {
    /// Those of which nothing is known.
    Unknown,
    /// And those that failed, and might work by now.
    Due,
    /// All of them.
    All,
}

/// What was found in the folders.
#[derive(Default)]
struct Survey {
    files: Vec<Looked>,
    folders: Vec<Remarks>,
    caches: Vec<Option<Cache>>,
    aside: usize,
}

/// A file, before it was asked.
enum Looked {
    Known(Arc<Tried>),
    Unknown(Unknown),
}

/// A file of which nobody knows yet what it says.
struct Unknown {
    found: Found,
    folder: usize,
    version: Arc<Version>,
    prior: Option<Arc<Tried>>,
}

/// Which files are asked together.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asking {
    /// The Python files of this folder, by one process.
    Python(usize),
    /// The others, each by itself.
    Programs,
}

impl Asking {
    fn of(unknown: &Unknown) -> Self {
        match unknown.found.sort {
            Sort::Python => Self::Python(unknown.folder),
            Sort::Manifest | Sort::Program => Self::Programs,
        }
    }
}

type Answers = Vec<Result<Vec<Described>, String>>;

impl Outside {
    /// Loads what is known at once; what is not is asked by [`settled`](Self::settled).
    pub(crate) fn new(files: ToolFiles, workspace: PathBuf, state: &Path, registry: Arc<Registry>) -> Self {
        let state = state.join("tools");
        let outside = Self {
            files,
            workspace,
            written: Written::beneath(&state),
            state,
            registry,
            ground: OnceLock::new(),
            now: ArcSwap::default(),
            turn: tokio::sync::Mutex::default(),
            wanted: AtomicU64::new(0),
            looked: Mutex::new(None),
            changes: watch::Sender::new(0),
        };
        let survey = outside.survey(&Loaded::default(), Ask::Unknown);
        if !survey.files.is_empty() || !survey.folders.is_empty() {
            outside.conclude(&Loaded::default(), survey, None);
        }
        outside
    }

    /// Files are asked what they are on this ground.
    pub(crate) fn stands_on(&self, ground: Ground) {
        // It is told so once, when the runtime is made.
        let _ = self.ground.set(ground);
    }

    /// Who is asked when packages of a tool come from hosts that nobody granted.
    pub fn asks(&self, approver: Arc<dyn Approver>) {
        if let Some(ground) = self.ground.get() {
            ground.asks(Asker::new(approver));
        }
    }

    fn ground(&self) -> Result<&Ground, Fault> {
        self.ground.get().ok_or_else(|| Fault::bug("tools that are files stand on no ground"))
    }

    /// Waits until every file is loaded, or known to be broken.
    pub async fn settled(self: &Arc<Self>) {
        if self.is_pending() {
            self.reload(false).await;
        }
    }

    /// The same, and asks those that were broken once more, where they might work by now.
    pub async fn refreshed(self: &Arc<Self>) {
        let now = self.now.load_full();
        if now.is_pending || !now.failed.is_empty() {
            self.reload(false).await;
        }
    }

    /// Are there files that were not asked yet?
    pub fn is_pending(&self) -> bool {
        self.now.load().is_pending
    }

    /// So many files of the workspace are left aside until a person trusts it.
    pub fn aside(&self) -> usize {
        self.now.load().aside
    }

    /// A number that changes with the tools.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// The folders, and the workspace.
    pub(super) fn places(&self) -> (&[Folder], &Path) {
        (&self.files.folders, &self.workspace)
    }

    pub(crate) fn loaded(&self) -> Arc<Loaded> {
        self.now.load_full()
    }

    /// Looks at the folders again; with `fresh` every file is asked again, whatever is known of it. One load at a
    /// time: those who ask during one share the next.
    pub async fn reload(self: &Arc<Self>, fresh: bool) -> Reloaded {
        let ticket = self.wanted.fetch_add(1, Ordering::AcqRel) + 1;
        let mut turn = self.turn.lock().await;
        if !fresh && turn.answers >= ticket {
            return turn.report.clone();
        }
        let answers = self.wanted.load(Ordering::Acquire);
        let report = self.load(fresh).await;
        *turn = Turn { answers, report: report.clone() };
        report
    }

    async fn load(self: &Arc<Self>, fresh: bool) -> Reloaded {
        let before = self.now.load_full();
        let ask = if fresh { Ask::All } else { Ask::Due };
        let looking = {
            let (this, before) = (self.clone(), before.clone());
            tokio::task::spawn_blocking(move || this.survey(&before, ask)).await
        };
        let Ok(survey) = looking else { return before.since(&before) };
        let answers = self.ask(&survey).await;
        let this = self.clone();
        let concluded = {
            let before = before.clone();
            tokio::task::spawn_blocking(move || this.conclude(&before, survey, Some(answers))).await
        };
        concluded.unwrap_or_else(|_| before.since(&before))
    }

    /// Must the folders be looked at before this tool is called? A stat, for a tool that is a file.
    pub(crate) fn wants_a_look(&self, name: &str) -> bool {
        let snapshot = self.registry.snapshot();
        let Some(tool) = snapshot.get(name) else { return self.may_look_again() };
        if tool.spec().origin == Origin::Program {
            return false;
        }
        let now = self.now.load();
        now.tools.get(name).is_none_or(|made| !made.file.stamp.holds(&made.file.path))
    }

    fn may_look_again(&self) -> bool {
        !self.files.folders.is_empty()
            && (self.is_pending() || self.looked.lock().is_none_or(|it| it.elapsed() >= LOOK_AGAIN))
    }

    /// A file of the workspace's own tools was put back just now: the next call looks at the folders again.
    pub(crate) fn put_back(&self) {
        *self.looked.lock() = None;
    }

    /// Why there is no tool of this name, where it is a file's.
    pub(crate) fn why_missing(&self, name: &str) -> Option<String> {
        let now = self.now.load();
        let of_this_name = |it: &&crate::Failure| {
            Path::new(&it.tool)
                .file_name()
                .is_some_and(|file| file.to_string_lossy().split('.').next() == Some(name))
        };
        if let Some(failure) = now.failed.iter().find(of_this_name) {
            return Some(format!("{} could not be loaded: {}", failure.tool, failure.why.trim_end()));
        }
        let path = now.gone.get(name)?;
        let shown = path.strip_prefix(&self.workspace).unwrap_or(path).display();
        Some(format!("it was in {shown}, which has it no more"))
    }

    /// Tries code that is meant to be the workspace's own tool `name`, as
    /// [`Tools::check`](kit::services::Tools::check) promises.
    pub(crate) async fn check(&self, name: &str, code: &str) -> Result<Spec, Fault> {
        let draft = self.draft(name, code);
        let described = describe::check(self.ground()?, &draft, name).await?;
        Ok(PythonTool::new(draft, described, Section::default()).spec().clone())
    }

    /// Code as the version of the workspace's own tool `name` that it would be. Whoever makes one is about to write
    /// it: this very text is known from now on as one that a model wrote, so that it never passes for a person's.
    pub(crate) fn draft(&self, name: &str, code: &str) -> Arc<Version> {
        let folder = self.workspace.join(OWN);
        let path = folder.join(format!("{name}.py"));
        let hash = blake3::hash(code.as_bytes());
        // What a person wrote stays a person's, also if a model thinks of the same.
        let is_there = self.now.load().by_path.get(&path).is_some_and(|it| it.hash == Some(hash));
        if !is_there && let Err(error) = self.written.note(&path, &hash) {
            tracing::warn!("that a model wrote `{name}` is not kept: {error}");
        }
        Arc::new(Version {
            path,
            folder,
            whose: Whose::Workspace,
            by_model: true,
            source: code.as_bytes().into(),
            hash,
        })
    }

    /// The workspace's own tool `name` was written by a model just now, or is gone: takes note of that, and loads it.
    pub(crate) async fn rewritten(self: &Arc<Self>, name: &str) -> Result<(), Fault> {
        own_files(name)?;
        let path = self.workspace.join(OWN).join(format!("{name}.py"));
        let report = self.reload(false).await;
        let now = self.now.load();
        let Some(file) = now.by_path.get(&path) else { return Ok(()) };
        let shown = path.strip_prefix(&self.workspace).unwrap_or(&path).display().to_string();
        let Some(failed) = report.failed.iter().find(|it| it.file == shown) else { return Ok(()) };
        let older = if file.failed.is_some() && file.serves.is_some() {
            "; its last good version goes on"
        } else {
            ""
        };
        Err(Fault::new(
            Kind::Failed,
            format!("`{name}` is written, and could not be loaded{older}: {}", failed.why),
        ))
    }

    /// The files that could not be loaded, each with its whole traceback.
    pub fn failed(&self) -> Vec<NotLoaded> {
        self.now.load().failed().collect()
    }

    /// What the file of this tool says of it at length.
    pub fn manual(&self, name: &str) -> Option<String> {
        self.now.load().tools.get(name)?.manual.clone()
    }

    /// Looks at all files, and takes what is known of them.
    fn survey(&self, before: &Loaded, ask: Ask) -> Survey {
        if ask != Ask::Unknown {
            *self.looked.lock() = Some(Instant::now());
        }
        let mut survey = Survey::default();
        let mut marks: Option<Marks> = None;
        for (index, folder) in self.files.folders.iter().enumerate() {
            let listing = folders::read(folder, &self.workspace);
            survey.folders.push(Remarks {
                path: folder.path.clone(),
                enabled: listing.enabled,
                troubles: listing.troubles,
            });
            let mut of_folder = OfFolder { outside: self, index, folder, cache: None, fingerprint: None };
            for found in listing.files {
                let marks = marks.get_or_insert_with(|| self.written.marks());
                let by_model = found.held.as_ref().is_ok_and(|it| marks.has(&found.path, &it.hash));
                if folder.whose == Whose::Untrusted && !by_model {
                    survey.aside += 1;
                    continue;
                }
                let prior = before.by_path.get(&found.path).cloned();
                survey.files.push(of_folder.look(found, by_model, prior, ask, marks));
            }
            survey.caches.push(of_folder.cache);
        }
        survey
    }

    /// A text that changes when a file of this folder that failed might work.
    fn fingerprint(&self, folder: &Folder) -> String {
        let packages = self.ground.get().map(uv::fingerprint).unwrap_or_default();
        format!("{} {packages}", folders::fingerprint(folder, &self.workspace))
    }

    /// Asks the files that nobody knows.
    async fn ask(&self, survey: &Survey) -> Answers {
        let unknown = || {
            survey.files.iter().filter_map(|it| match it {
                Looked::Unknown(unknown) => Some(unknown),
                Looked::Known(_) => None,
            })
        };
        let ground = match self.ground() {
            Ok(ground) => ground,
            Err(fault) => return unknown().map(|_| Err(fault.what.clone())).collect(),
        };
        let mut of_folders: Vec<Vec<Arc<Version>>> = vec![Vec::new(); self.files.folders.len()];
        let mut programs = Vec::new();
        for it in unknown() {
            match Asking::of(it) {
                Asking::Python(index) => {
                    of_folders.get_mut(index).into_iter().for_each(|files| files.push(it.version.clone()))
                }
                Asking::Programs => programs.push(it.version.clone()),
            }
        }
        let asking_python = of_folders.into_iter().map(|files| async move {
            let Some(first) = files.first() else { return Vec::new() };
            // What a file imports may lie beside it; the workspace is there anyway.
            let own = match first.whose {
                Whose::Person => Own { folder: first.folder.clone(), ..Own::default() },
                Whose::Workspace | Whose::Untrusted => Own::default(),
            };
            describe::describe(&ground.of_tool(own), &files).await
        });
        let asking_python: Vec<_> = asking_python.collect();
        let asking_programs = stream::iter(programs)
            .map(|version| async move { executable::describe(ground, &version).await })
            .buffered(AT_ONCE)
            .collect::<Vec<_>>();
        let (python, programs) = tokio::join!(join_all(asking_python), asking_programs);
        let mut python: Vec<_> = python.into_iter().map(Vec::into_iter).collect();
        let mut programs = programs.into_iter();
        let answer = |it: &Unknown| {
            let answer = match Asking::of(it) {
                Asking::Python(index) => python.get_mut(index).and_then(Iterator::next),
                Asking::Programs => programs.next(),
            };
            answer.unwrap_or_else(|| Err("it was asked, and nothing came back".to_owned()))
        };
        unknown().map(answer).collect()
    }

    /// Puts together what is known now, and puts it in the place of what was there. Without answers, what is not
    /// known stays so.
    fn conclude(&self, before: &Loaded, mut survey: Survey, answers: Option<Answers>) -> Reloaded {
        let is_asked = answers.is_some();
        let mut answers = answers.into_iter().flatten();
        let marks = self.written.marks();
        let mut files = Vec::with_capacity(survey.files.len());
        for looked in survey.files {
            files.push(match looked {
                Looked::Known(tried) => tried,
                Looked::Unknown(unknown) if is_asked => {
                    let answer = answers.next().unwrap_or_else(|| Err("it was not asked".to_owned()));
                    let cache = survey.caches.get_mut(unknown.folder).and_then(Option::as_mut);
                    Arc::new(self.answered(unknown, answer, cache, &marks))
                }
                Looked::Unknown(unknown) => Arc::new(unknown.pending()),
            });
        }
        survey.caches.into_iter().flatten().for_each(Cache::save);
        let shows = Shows { workspace: &self.workspace, only_enabled: self.files.only_enabled };
        let (mut now, tools) = Loaded::of(files, survey.folders, survey.aside, &self.registry, shows);
        let report = now.since(before);
        now.gone.clone_from(&before.gone);
        for (name, made) in before.tools.iter().filter(|(name, _)| !now.tools.contains_key(*name)) {
            now.gone.insert(name.clone(), made.file.path.clone());
        }
        now.gone.retain(|name, _| !now.tools.contains_key(name));
        let is_other = !report.changed.is_empty() || !report.gone.is_empty();
        let failed = now.failed.clone();
        let is_shown = is_other || failed != before.failed;
        self.now.store(Arc::new(now));
        if is_shown {
            self.registry.swap(tools, failed);
        }
        if is_other {
            self.changes.send_modify(|number| *number += 1);
        }
        report
    }

    fn answered(
        &self,
        unknown: Unknown,
        answer: Result<Vec<Described>, String>,
        cache: Option<&mut Cache>,
        marks: &Marks,
    ) -> Tried {
        let Unknown { found, folder: index, version, prior } = unknown;
        let folder = self.files.folders.get(index);
        let among = folder.filter(|_| answer.is_err()).map(|it| self.fingerprint(it)).unwrap_or_default();
        let said = answer.map_err(|why| Failed::now(why, &among));
        let mut older = None;
        if let Some(cache) = cache {
            let file = name_in(&version.folder, &found.path);
            // A program runs from where it lies, so an older one is of no use.
            let source = (found.sort != Sort::Program).then_some(&*version.source);
            cache.learn(&file, &version.hash, &said, source);
            if let (Err(_), Some(folder)) = (&said, folder) {
                older = self.older(folder, &found, prior.as_deref(), Some(cache), marks);
            }
        }
        let (serves, failed) = match said {
            Ok(described) => {
                (Some(self.serving(found.sort, version.clone(), described, prior.as_deref())), None)
            }
            Err(failed) => (older, Some(failed)),
        };
        Tried {
            path: found.path,
            folder: index,
            sort: found.sort,
            stamp: found.stamp,
            hash: Some(version.hash),
            by_model: version.by_model,
            serves,
            failed,
            is_unknown: false,
        }
    }

    /// What goes on while a file is broken: what served before, or, where this process knows of none, what served
    /// an earlier one.
    fn older(
        &self,
        folder: &Folder,
        found: &Found,
        prior: Option<&Tried>,
        cache: Option<&Cache>,
        marks: &Marks,
    ) -> Option<Arc<Serving>> {
        if found.sort == Sort::Program {
            return None;
        }
        if let Some(serves) = prior.and_then(|it| it.serves.clone()) {
            return Some(serves);
        }
        let may = |hash: &blake3::Hash| folder.whose != Whose::Untrusted || marks.has(&found.path, hash);
        let (source, hash, described) = cache?.last_good(&name_in(&folder.path, &found.path), may)?;
        let by_model = marks.has(&found.path, &hash);
        let version = version(folder, &found.path, Held { source, hash }, by_model);
        Some(self.serving(found.sort, Arc::new(version), described, None))
    }

    /// The tools of a version. What is the same as before stays the very same, with the processes it has.
    fn serving(
        &self,
        sort: Sort,
        version: Arc<Version>,
        described: Vec<Described>,
        prior: Option<&Tried>,
    ) -> Arc<Serving> {
        if let Some(serves) = prior.and_then(|it| it.serves.as_ref()) {
            let is_same = serves.version.hash == version.hash
                && serves.version.by_model == version.by_model
                && serves.tools.iter().map(|it| &it.0).eq(&described);
            if is_same {
                return serves.clone();
            }
        }
        let sections = match version.whose {
            _ if version.by_model => None,
            Whose::Person => Some(&self.files.sections),
            Whose::Workspace => Some(&self.files.workspace_sections),
            Whose::Untrusted => None,
        };
        let tool = |it: Described| -> (Described, Arc<dyn AnyTool>) {
            let section = sections.and_then(|sections| sections.get(&it.name)).cloned().unwrap_or_default();
            let tool: Arc<dyn AnyTool> = match sort {
                Sort::Python => Arc::new(PythonTool::new(version.clone(), it.clone(), section)),
                Sort::Manifest | Sort::Program => {
                    Arc::new(ExecutableTool::new(version.clone(), it.clone(), section))
                }
            };
            (it, tool)
        };
        let tools = described.into_iter().map(tool).collect();
        Arc::new(Serving { version, tools })
    }
}

/// One folder while it is looked at.
struct OfFolder<'a> {
    outside: &'a Outside,
    index: usize,
    folder: &'a Folder,
    /// Read when the first file is not the one that was there before.
    cache: Option<Cache>,
    fingerprint: Option<String>,
}

impl OfFolder<'_> {
    fn look(
        &mut self,
        found: Found,
        by_model: bool,
        prior: Option<Arc<Tried>>,
        ask: Ask,
        marks: &Marks,
    ) -> Looked {
        let held = match &found.held {
            Ok(held) => Held { source: held.source.clone(), hash: held.hash },
            Err(why) => {
                let failed = Failed::now(why.clone(), "");
                self.cache();
                let serves =
                    self.outside.older(self.folder, &found, prior.as_deref(), self.cache.as_ref(), marks);
                return self.known(found, None, by_model, serves, Some(failed));
            }
        };
        if let Some(prior) = &prior
            && ask != Ask::All
            && !prior.is_unknown
            && prior.hash == Some(held.hash)
            && prior.by_model == by_model
            && prior.sort == found.sort
            && !prior.failed.as_ref().is_some_and(|it| it.is_due(self.fingerprint()))
        {
            return self.known(found, Some(held.hash), by_model, prior.serves.clone(), prior.failed.clone());
        }
        let (outside, hash) = (self.outside, held.hash);
        let file = name_in(&self.folder.path, &found.path);
        let version = Arc::new(version(self.folder, &found.path, held, by_model));
        let said = if ask == Ask::All { None } else { self.cache().get(&file, &hash) };
        match said {
            Some(Ok(described)) => {
                let serves = outside.serving(found.sort, version, described, prior.as_deref());
                self.known(found, Some(hash), by_model, Some(serves), None)
            }
            Some(Err(failed)) if ask == Ask::Unknown || !failed.is_due(self.fingerprint()) => {
                let serves = outside.older(self.folder, &found, prior.as_deref(), self.cache.as_ref(), marks);
                self.known(found, Some(hash), by_model, serves, Some(failed))
            }
            Some(Err(_)) | None => {
                // It is needed to write down what this file will say.
                self.cache();
                Looked::Unknown(Unknown { found, folder: self.index, version, prior })
            }
        }
    }

    fn known(
        &self,
        found: Found,
        hash: Option<blake3::Hash>,
        by_model: bool,
        serves: Option<Arc<Serving>>,
        failed: Option<Failed>,
    ) -> Looked {
        Looked::Known(Arc::new(Tried {
            path: found.path,
            folder: self.index,
            sort: found.sort,
            stamp: found.stamp,
            hash,
            by_model,
            serves,
            failed,
            is_unknown: false,
        }))
    }

    fn cache(&mut self) -> &mut Cache {
        let (state, folder) = (&self.outside.state, &self.folder.path);
        self.cache.get_or_insert_with(|| Cache::read(state, folder, &asked_by()))
    }

    fn fingerprint(&mut self) -> &str {
        let (outside, folder) = (self.outside, self.folder);
        self.fingerprint.get_or_insert_with(|| outside.fingerprint(folder))
    }
}

impl Unknown {
    /// What served before goes on until it was asked.
    fn pending(self) -> Tried {
        Tried {
            path: self.found.path,
            folder: self.folder,
            sort: self.found.sort,
            stamp: self.found.stamp,
            hash: Some(self.version.hash),
            by_model: self.version.by_model,
            serves: self.prior.and_then(|it| it.serves.clone()),
            failed: None,
            is_unknown: true,
        }
    }
}

fn version(folder: &Folder, path: &Path, held: Held, by_model: bool) -> Version {
    Version {
        path: path.to_owned(),
        folder: folder.path.clone(),
        whose: folder.whose,
        by_model,
        source: held.source,
        hash: held.hash,
    }
}

fn name_in(folder: &Path, path: &Path) -> String {
    path.strip_prefix(folder).unwrap_or(path).display().to_string()
}

/// Stands for who asks files what they are: what another haft learned is learned anew.
fn asked_by() -> String {
    format!("{} {}", env!("CARGO_PKG_VERSION"), host::version())
}
