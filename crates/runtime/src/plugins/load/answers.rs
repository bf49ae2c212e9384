//! A load under way: describes files, and builds the tools from their declarations, as they come.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use futures_util::future::join_all;
use kit::AnyTool;
use tokio::sync::mpsc;

use super::{
    super::{
        Described, Folder, Section, Version, Whose,
        attestation::{Grant, Sections},
        cache::{Cache, Failed},
        declaration::Declaration,
        describe,
        executable::{self, ExecutableTool},
        folders::{FileContent, Found, Sort},
        provenance_records::Provenances,
        python::PythonTool,
        set::{Loaded, Serving, Shows, Tried},
    },
    Look, Plugins,
    queue::Queue,
    survey::{AttestedCode, Looked, Survey, Unknown, name_in, version},
};
use crate::execution::{Execution, Own};

/// Limit of programs that are described at the same time.
const AT_ONCE: usize = 4;

/// The tools of a file, or the reason why it has none, with the number of the file.
pub(super) type Answer = (usize, Result<Vec<Described>, String>);

/// A load under way: what is known of each file so far.
pub(super) struct Loading {
    /// The files, of which some are not described yet.
    files: Vec<Arc<Tried>>,
    /// Those, by their place among the files.
    unknown: BTreeMap<usize, Unknown>,
    survey: Survey,
}

impl Loading {
    /// Begins with what the survey found.
    pub(super) fn new(mut survey: Survey) -> Self {
        let mut unknown = BTreeMap::new();
        let mut files = Vec::with_capacity(survey.files.len());
        for (at, looked) in std::mem::take(&mut survey.files).into_iter().enumerate() {
            files.push(match looked {
                Looked::Known(tried) => tried,
                Looked::Unknown(it) => {
                    let pending = Arc::new(it.pending());
                    unknown.insert(at, it);
                    pending
                }
            });
        }
        Self { files, unknown, survey }
    }

    /// Returns the files to describe, each with its number.
    pub(super) fn to_describe(&self) -> Vec<ToDescribe> {
        let one = |(at, it): (&usize, &Unknown)| ToDescribe {
            number: *at,
            sort: it.found.sort,
            folder: it.folder,
            version: it.version.clone(),
        };
        self.unknown.iter().map(one).collect()
    }

    /// Returns the paths of all files.
    pub(super) fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.files.iter().map(|it| &it.path)
    }

    /// Returns the places of the files that have no answer, these included.
    pub(super) fn left(&self, answers: &[Answer]) -> Vec<usize> {
        let is_open = |at: &&usize| !answers.iter().any(|it| it.0 == **at);
        self.unknown.keys().filter(is_open).copied().collect()
    }

    /// Returns whether every file is described.
    pub(super) fn is_over(&self) -> bool {
        self.unknown.is_empty()
    }

    /// Stores what is known of the files.
    pub(super) fn save(&mut self) {
        self.survey.caches.iter_mut().flatten().for_each(Cache::save);
    }
}

/// A file to describe.
pub(super) struct ToDescribe {
    number: usize,
    sort: Sort,
    folder: usize,
    version: Arc<Version>,
}

impl Plugins {
    /// Describes these files, and sends each answer as soon as there is one.
    pub(super) async fn ask(
        &self,
        those: Vec<ToDescribe>,
        queue: &Queue,
        answers: mpsc::UnboundedSender<Answer>,
    ) {
        // The receiver is gone if nobody wants the answers any more.
        let tell = |number: usize, answer| drop(answers.send((number, answer)));
        let execution = match self.execution() {
            Ok(execution) => execution,
            Err(fault) => return those.iter().for_each(|it| tell(it.number, Err(fault.what.clone()))),
        };
        let mut of_folders: BTreeMap<usize, Vec<ToDescribe>> = BTreeMap::new();
        let mut programs = Vec::new();
        for it in those {
            match it.sort {
                Sort::Python => of_folders.entry(it.folder).or_default().push(it),
                Sort::Manifest | Sort::Program => programs.push(it),
            }
        }
        let asking_python = of_folders.into_values().map(|those| ask_python(execution, those, queue, &tell));
        let share = queue.share(programs.iter().map(|it| it.version.path.clone()).enumerate());
        let asking_programs = (0..AT_ONCE).map(|_| async {
            while let Some(it) = share.next().and_then(|at| programs.get(at)) {
                tell(it.number, executable::describe(execution, &it.version).await);
            }
        });
        tokio::join!(join_all(asking_python), join_all(asking_programs));
    }

    /// Takes these answers.
    pub(super) fn take(&self, loading: &mut Loading, answers: Vec<Answer>) {
        let marks = self.written.marks();
        for (at, answer) in answers {
            let Some(unknown) = loading.unknown.remove(&at) else { continue };
            let survey = &mut loading.survey;
            let cache = survey.caches.get_mut(unknown.folder).and_then(Option::as_mut);
            let none = Err(String::new());
            let beside = survey.besides.get(unknown.folder).unwrap_or(&none);
            let tried = Arc::new(self.answered(unknown, answer, cache, beside, &marks));
            if let Some(file) = loading.files.get_mut(at) {
                *file = tried;
            }
        }
    }

    /// Builds the tools from what is known, replaces the loaded set and returns it. Files that are not described yet
    /// stay as they were before.
    pub(super) fn publish(&self, before: &Loaded, loading: &Loading, look: Option<Look>) -> Arc<Loaded> {
        let survey = &loading.survey;
        let shows = Shows { workspace: &self.workspace };
        let (mut now, tools) =
            Loaded::of(loading.files.clone(), survey.folders.clone(), survey.aside, &self.registry, shows);
        now.decided = survey.decided.clone();
        now.gone.clone_from(&before.gone);
        for (name, made) in before.tools.iter().filter(|(name, _)| !now.tools.contains_key(*name)) {
            now.gone.insert(name.clone(), made.file.path.clone());
        }
        now.gone.retain(|name, _| !now.tools.contains_key(name));
        self.servers.decide(&now.decided.servers);
        // An earlier part of the same load may be shown already.
        let shown = self.now.load_full();
        let is_other = now.differs(&shown);
        let failed = now.failed.clone();
        let replaced = now.decided.replaced();
        let is_shown = is_other || failed != shown.failed || replaced != shown.decided.replaced();
        let now = Arc::new(now);
        self.now.store(now.clone());
        if is_shown {
            self.registry.swap(tools, failed, replaced);
        }
        // Not earlier: calls of a tool that is being loaded wait for it.
        if look.is_some() {
            *self.looked.lock() = look;
        }
        if is_other {
            self.changes.send_modify(|number| *number += 1);
        }
        now
    }

    fn answered(
        &self,
        unknown: Unknown,
        answer: Result<Vec<Described>, String>,
        cache: Option<&mut Cache>,
        beside: &AttestedCode,
        marks: &Provenances,
    ) -> Tried {
        let Unknown { found, folder: index, version, prior } = unknown;
        let decided = self.decided.now();
        let folder = decided.folders.get(index);
        let among = folder.filter(|_| answer.is_err()).map(|it| self.fingerprint(it)).unwrap_or_default();
        let said = match answer {
            Ok(tools) => Ok(tools.into_iter().map(|it| Arc::new(Declaration::new(it))).collect()),
            Err(why) => Err(Failed::now(why, &among)),
        };
        let sections = self.sections_of(&decided, folder, beside, marks);
        let mut older = None;
        if let Some(cache) = cache {
            let file = name_in(&version.folder, &found.path);
            // A program runs from its folder, so an older version is of no use.
            let source = (found.sort != Sort::Program).then(|| version.source.text().ok()).flatten();
            cache.learn(&file, &version.hash, &said, source.as_deref());
            cache.has_stamp(&file, &version.hash, &found.stamp);
            if let (Err(_), Some(folder)) = (&said, folder) {
                older = self.older(folder, &found, prior.as_deref(), Some(cache), &sections);
            }
        }
        let (serves, failed) = match said {
            Ok(described) => (
                Some(self.serving(found.sort, version.clone(), described, prior.as_deref(), &sections)),
                None,
            ),
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

    /// Returns the version that serves while a file is broken: the one before, or, if this process has none,
    /// the last good one from the cache.
    pub(super) fn older(
        &self,
        folder: &Folder,
        found: &Found,
        prior: Option<&Tried>,
        cache: Option<&Cache>,
        sections: &Sections<'_>,
    ) -> Option<Arc<Serving>> {
        if found.sort == Sort::Program {
            return None;
        }
        if let Some(serves) = prior.and_then(|it| it.serves.clone()) {
            return Some(serves);
        }
        let marks = sections.marks;
        let may = |hash: &blake3::Hash| folder.whose != Whose::Untrusted || marks.has(&found.path, hash);
        let (source, hash, described) = cache?.last_good(&name_in(&folder.path, &found.path), may)?;
        let by_model = marks.has(&found.path, &hash);
        let version = version(folder, &found.path, FileContent::new(source, hash), by_model);
        Some(self.serving(found.sort, Arc::new(version), described, None, sections))
    }

    /// Returns the tools of a version. An unchanged version keeps its tools and their processes.
    pub(super) fn serving(
        &self,
        sort: Sort,
        version: Arc<Version>,
        described: Vec<Arc<Declaration>>,
        prior: Option<&Tried>,
        sections: &Sections<'_>,
    ) -> Arc<Serving> {
        let grants: Vec<Grant> =
            described.iter().map(|it| sections.grant(&version, sort, it.name())).collect();
        let standing = standing(&grants);
        if let Some(serves) = prior.and_then(|it| it.serves.as_ref()) {
            let is_same = serves.version.hash == version.hash
                && serves.version.by_model == version.by_model
                && serves.standing == standing
                && serves.tools.iter().map(|it| &it.0).eq(&described);
            if is_same {
                return serves.clone();
            }
        }
        let (mut granted, mut lapsed, mut tools) = (Vec::new(), Vec::new(), Vec::new());
        let mut replacing = Vec::new();
        for (it, grant) in described.into_iter().zip(grants) {
            if let Some(line) = &grant.lapsed {
                lapsed.push((it.name().to_owned(), line.clone()));
            } else if grant.section.is_grant() {
                granted.push(it.name().to_owned());
                if grant.section.replaces_built_in {
                    replacing.push(it.name().to_owned());
                }
            }
            let tool: Arc<dyn AnyTool> = match sort {
                Sort::Python => Arc::new(PythonTool::new(version.clone(), it.clone(), grant)),
                Sort::Manifest | Sort::Program => {
                    Arc::new(ExecutableTool::new(version.clone(), it.described().clone(), grant))
                }
            };
            tools.push((it, tool));
        }
        Arc::new(Serving { version, tools, lapsed, granted, replacing, standing })
    }
}

/// Returns a text that identifies the grants; empty, if there are none.
pub(super) fn standing(grants: &[Grant]) -> String {
    let is_bare = |it: &&Grant| it.section == Section::default() && it.lapsed.is_none();
    if grants.iter().all(|it| is_bare(&it)) { String::new() } else { format!("{grants:?}") }
}

/// Describes the Python files of one folder.
async fn ask_python(
    execution: &Execution,
    those: Vec<ToDescribe>,
    queue: &Queue,
    tell: &(dyn Fn(usize, Result<Vec<Described>, String>) + Sync),
) {
    let Some(first) = those.first() else { return };
    // A file may import from its folder; the workspace is visible anyway.
    let own = match first.version.whose {
        Whose::Person => Own { folder: first.version.folder.clone(), ..Own::default() },
        Whose::Workspace | Whose::Untrusted => Own::default(),
    };
    let files: Vec<Arc<Version>> = those.iter().map(|it| it.version.clone()).collect();
    let tell = |at: usize, answer| {
        if let Some(it) = those.get(at) {
            tell(it.number, answer);
        }
    };
    describe::describe(&execution.of_tool(own), &files, queue, &tell).await;
}
