//! Loading: describes files, and builds the tools from their declarations.

use std::sync::Arc;

use futures_util::{StreamExt, future::join_all, stream};
use kit::{AnyTool, services::Reloaded};

use super::{
    super::{
        Described, Folder, Section, Version, Whose,
        attestation::{Grant, Sections},
        cache::{Cache, Failed},
        describe,
        executable::{self, ExecutableTool},
        folders::{FileContent, Found, Sort},
        provenance_records::Provenances,
        python::PythonTool,
        set::{Loaded, Serving, Shows, Tried},
    },
    Plugins,
    survey::{AttestedCode, Looked, Survey, Unknown, name_in, version},
};
use crate::execution::{Execution, Own};

/// Limit of programs that are described at the same time.
const AT_ONCE: usize = 4;

/// A group of files that are described together.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asking {
    /// The Python files of this folder, in one process.
    Python(usize),
    /// The programs, each by itself.
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

pub(super) type Answers = Vec<Result<Vec<Described>, String>>;

impl Plugins {
    /// Describes the files that are not cached.
    pub(super) async fn ask(&self, survey: &Survey) -> Answers {
        let unknown = || {
            survey.files.iter().filter_map(|it| match it {
                Looked::Unknown(unknown) => Some(unknown),
                Looked::Known(_) => None,
            })
        };
        let execution = match self.execution() {
            Ok(execution) => execution,
            Err(fault) => return unknown().map(|_| Err(fault.what.clone())).collect(),
        };
        let mut of_folders: Vec<Vec<Arc<Version>>> = vec![Vec::new(); survey.folders.len()];
        let mut programs = Vec::new();
        for it in unknown() {
            match Asking::of(it) {
                Asking::Python(index) => {
                    if let Some(files) = of_folders.get_mut(index) {
                        files.push(it.version.clone());
                    }
                }
                Asking::Programs => programs.push(it.version.clone()),
            }
        }
        let asking_python: Vec<_> =
            of_folders.into_iter().map(|files| ask_python(execution, files)).collect();
        let asking_programs = stream::iter(programs)
            .map(|version| async move { executable::describe(execution, &version).await })
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

    /// Builds the tools from what is known and replaces the loaded set. Without answers, unknown files stay
    /// unknown.
    pub(super) fn conclude(&self, before: &Loaded, mut survey: Survey, answers: Option<Answers>) -> Reloaded {
        let is_asked = answers.is_some();
        let look = survey.look.take();
        let mut answers = answers.into_iter().flatten();
        let marks = self.written.marks();
        let mut files = Vec::with_capacity(survey.files.len());
        for looked in survey.files {
            files.push(match looked {
                Looked::Known(tried) => tried,
                Looked::Unknown(unknown) if is_asked => {
                    let answer = answers.next().unwrap_or_else(|| Err("it was not asked".to_owned()));
                    let cache = survey.caches.get_mut(unknown.folder).and_then(Option::as_mut);
                    let none = Err(String::new());
                    let beside = survey.besides.get(unknown.folder).unwrap_or(&none);
                    Arc::new(self.answered(unknown, answer, cache, beside, &marks))
                }
                Looked::Unknown(unknown) => Arc::new(unknown.pending()),
            });
        }
        survey.caches.into_iter().flatten().for_each(Cache::save);
        let shows = Shows { workspace: &self.workspace };
        let (mut now, tools) = Loaded::of(files, survey.folders, survey.aside, &self.registry, shows);
        now.decided = survey.decided;
        let report = now.since(before);
        now.gone.clone_from(&before.gone);
        for (name, made) in before.tools.iter().filter(|(name, _)| !now.tools.contains_key(*name)) {
            now.gone.insert(name.clone(), made.file.path.clone());
        }
        now.gone.retain(|name, _| !now.tools.contains_key(name));
        self.servers.decide(&now.decided.servers);
        let is_other = !report.changed.is_empty() || !report.gone.is_empty();
        let failed = now.failed.clone();
        let replaced = now.decided.replaced();
        let is_shown = is_other || failed != before.failed || replaced != before.decided.replaced();
        self.now.store(Arc::new(now));
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
        report
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
        let said = answer.map_err(|why| Failed::now(why, &among));
        let sections = self.sections_of(&decided, folder, beside, marks);
        let mut older = None;
        if let Some(cache) = cache {
            let file = name_in(&version.folder, &found.path);
            // A program runs from its folder, so an older version is of no use.
            let source = (found.sort != Sort::Program).then_some(&*version.source);
            cache.learn(&file, &version.hash, &said, source);
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
        let version = version(folder, &found.path, FileContent { source, hash }, by_model);
        Some(self.serving(found.sort, Arc::new(version), described, None, sections))
    }

    /// Returns the tools of a version. An unchanged version keeps its tools and their processes.
    pub(super) fn serving(
        &self,
        sort: Sort,
        version: Arc<Version>,
        described: Vec<Described>,
        prior: Option<&Tried>,
        sections: &Sections<'_>,
    ) -> Arc<Serving> {
        let grants: Vec<Grant> = described.iter().map(|it| sections.grant(&version, sort, it)).collect();
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
                lapsed.push((it.name.clone(), line.clone()));
            } else if grant.section.is_grant() {
                granted.push(it.name.clone());
                if grant.section.replaces_built_in {
                    replacing.push(it.name.clone());
                }
            }
            let tool: Arc<dyn AnyTool> = match sort {
                Sort::Python => Arc::new(PythonTool::new(version.clone(), it.clone(), grant)),
                Sort::Manifest | Sort::Program => {
                    Arc::new(ExecutableTool::new(version.clone(), it.clone(), grant))
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
async fn ask_python(execution: &Execution, files: Vec<Arc<Version>>) -> Vec<Result<Vec<Described>, String>> {
    let Some(first) = files.first() else { return Vec::new() };
    // A file may import from its folder; the workspace is visible anyway.
    let own = match first.whose {
        Whose::Person => Own { folder: first.folder.clone(), ..Own::default() },
        Whose::Workspace | Whose::Untrusted => Own::default(),
    };
    describe::describe(&execution.of_tool(own), &files).await
}
