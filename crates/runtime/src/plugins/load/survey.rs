//! Survey of tool folders: finds the files, and looks each up in the cache.

use std::{
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    super::{
        Folder, Section, ToolFiles, Version, Whose,
        attestation::{Attested, Grant, Sections},
        cache::{Cache, Failed},
        executable,
        folders::{self, FileContent, Found, Sort, Stamp},
        host,
        provenance_records::{Author, Provenances},
        set::{Loaded, Remarks, Serving, Tried},
        uv,
    },
    Look, Plugins,
    answers::standing,
};

/// Selects the files to describe.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ask {
    /// Files that are not cached.
    Unknown,
    /// Those, and files that failed and may work by now.
    Due,
    /// All files.
    All,
}

/// The files found in the folders.
#[derive(Default)]
pub(super) struct Survey {
    pub(super) decided: Arc<ToolFiles>,
    /// The check of the folders, which is recorded once the load is over.
    pub(super) look: Option<Look>,
    pub(super) files: Vec<Looked>,
    pub(super) folders: Vec<Remarks>,
    pub(super) caches: Vec<Option<Cache>>,
    pub(super) aside: usize,
    /// The code of each folder that is not a tool.
    pub(super) besides: Vec<AttestedCode>,
}

/// The attested code of a folder, or the reason why there is none.
pub(super) type AttestedCode = Result<Arc<Attested>, String>;

/// A file before it is described.
pub(super) enum Looked {
    Known(Arc<Tried>),
    Unknown(Unknown),
}

/// A file that is not cached.
pub(super) struct Unknown {
    pub(super) found: Found,
    pub(super) folder: usize,
    pub(super) version: Arc<Version>,
    pub(super) prior: Option<Arc<Tried>>,
}

impl Plugins {
    /// Finds all files, and takes cached results.
    pub(super) fn survey(&self, before: &Loaded, ask: Ask) -> Survey {
        let files = self.decided.again();
        let look = (ask != Ask::Unknown).then(|| Look::now(self.decided.times()));
        let mut survey = Survey { decided: files.clone(), look, ..Survey::default() };
        let mut marks: Option<Provenances> = None;
        let mut made = Vec::new();
        for (index, folder) in files.folders.iter().enumerate() {
            let mut cache = None;
            let listing = folders::read(folder, &self.workspace, &mut |path, stamp| {
                if ask == Ask::All {
                    return None;
                }
                before.content(path, stamp).or_else(|| {
                    let cache = cache.get_or_insert_with(|| self.cache_of(folder));
                    cache.content(&name_in(&folder.path, path), path, stamp)
                })
            });
            survey.folders.push(Remarks {
                path: folder.path.clone(),
                enabled: listing.enabled,
                troubles: listing.troubles,
            });
            // If the configuration of the folder has changed, nothing is reused.
            let is_as_before = before.decided.folders.contains(folder)
                && before.decided.granted(folder.whose) == files.granted(folder.whose);
            let beside = self.beside(&files, folder, &mut marks);
            let mut of_folder =
                OfFolder { outside: self, files: &files, index, folder, cache, fingerprint: None, beside };
            for found in listing.files {
                let marks = marks.get_or_insert_with(|| self.written.marks());
                let by_model = self.is_by_model(&found, marks, &mut made);
                if folder.whose == Whose::Untrusted && !by_model {
                    survey.aside += 1;
                    continue;
                }
                let prior = before.by_path.get(&found.path).filter(|_| is_as_before).cloned();
                survey.files.push(of_folder.look(found, by_model, prior, ask, marks));
            }
            survey.caches.push(of_folder.cache);
            survey.besides.push(of_folder.beside);
        }
        self.note_made(&made);
        survey
    }

    fn cache_of(&self, folder: &Folder) -> Cache {
        Cache::read(&self.state, &folder.path, &asked_by())
    }

    /// Records that a tool may have made these versions of files: the record outlasts the knowledge of when the
    /// folder was writable.
    fn note_made(&self, made: &[(PathBuf, blake3::Hash)]) {
        if let Err(error) = self.written.made(made) {
            tracing::warn!("that a tool may have made {} files is not kept: {error}", made.len());
        }
    }

    /// Reads the code of this folder, if a tool in it has grants.
    fn beside(&self, files: &ToolFiles, folder: &Folder, marks: &mut Option<Provenances>) -> AttestedCode {
        let grants = files.granted(folder.whose).into_iter().flat_map(|it| it.values());
        if !grants.into_iter().any(Section::is_grant) {
            return Err(String::new());
        }
        let marks = marks.get_or_insert_with(|| self.written.marks());
        Attested::read(folder, &self.workspace, marks).map(Arc::new)
    }

    pub(super) fn sections_of<'a>(
        &'a self,
        files: &'a ToolFiles,
        folder: Option<&'a Folder>,
        beside: &'a AttestedCode,
        marks: &'a Provenances,
    ) -> Sections<'a> {
        Sections {
            of: folder.and_then(|it| files.granted(it.whose)),
            beside,
            marks,
            written: &self.written,
            folder,
            workspace: &self.workspace,
        }
    }

    /// Returns whether a model wrote the file, or a tool may have made it, without an attestation by a
    /// person. Adds a file without a record to `made`.
    fn is_by_model(
        &self,
        found: &Found,
        marks: &Provenances,
        made: &mut Vec<(PathBuf, blake3::Hash)>,
    ) -> bool {
        let Ok(held) = &found.held else { return false };
        if let Some(author) = marks.author(&found.path, &held.hash) {
            return author == Author::Model;
        }
        if !self.appeared.may_be_made_inside(&found.path) {
            return false;
        }
        made.push((found.path.clone(), held.hash));
        true
    }

    /// Records which files a tool may have made, also if nobody loads them.
    pub(crate) fn note_appeared(&self) {
        let (marks, now) = (self.written.marks(), self.now.load_full());
        let mut made = Vec::new();
        for folder in &self.decided.now().folders {
            let mut known = |path: &Path, stamp: &Stamp| now.content(path, stamp);
            for found in folders::read(folder, &self.workspace, &mut known).files {
                self.is_by_model(&found, &marks, &mut made);
            }
        }
        self.note_made(&made);
    }

    /// Returns a text that changes when a failed file of this folder may work.
    pub(super) fn fingerprint(&self, folder: &Folder) -> String {
        let packages = self.execution.get().map(uv::fingerprint).unwrap_or_default();
        format!("{} {packages}", folders::fingerprint(folder, &self.workspace))
    }
}

/// One folder during the survey.
struct OfFolder<'a> {
    outside: &'a Plugins,
    files: &'a ToolFiles,
    index: usize,
    folder: &'a Folder,
    /// Read at the first file that has changed.
    cache: Option<Cache>,
    fingerprint: Option<String>,
    beside: AttestedCode,
}

impl OfFolder<'_> {
    fn look(
        &mut self,
        found: Found,
        by_model: bool,
        prior: Option<Arc<Tried>>,
        ask: Ask,
        marks: &Provenances,
    ) -> Looked {
        let held = match &found.held {
            Ok(held) => held.clone(),
            Err(why) => {
                let failed = Failed::now(why.clone(), "");
                self.cache();
                let serves = self.outside.older(
                    self.folder,
                    &found,
                    prior.as_deref(),
                    self.cache.as_ref(),
                    &self.sections(marks),
                );
                return self.known(found, None, by_model, serves, Some(failed));
            }
        };
        // The program that a manifest starts lies elsewhere, and may change without the manifest.
        if found.sort == Sort::Manifest {
            let hash = held.hash;
            let held = held.clone();
            if let Err(why) = executable::is_startable(&version(self.folder, &found.path, held, by_model)) {
                return self.known(found, Some(hash), by_model, None, Some(Failed::now(why, "")));
            }
        }
        if let Some(prior) = &prior
            && ask != Ask::All
            && !prior.is_unknown
            && prior.hash == Some(held.hash)
            && prior.by_model == by_model
            && prior.sort == found.sort
            && prior.serves.as_ref().is_none_or(|it| self.stands(it, found.sort, marks))
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
                let stamp = found.stamp;
                self.cache().has_stamp(&file, &hash, &stamp);
                let serves =
                    outside.serving(found.sort, version, described, prior.as_deref(), &self.sections(marks));
                self.known(found, Some(hash), by_model, Some(serves), None)
            }
            Some(Err(failed)) if ask == Ask::Unknown || !failed.is_due(self.fingerprint()) => {
                let serves = outside.older(
                    self.folder,
                    &found,
                    prior.as_deref(),
                    self.cache.as_ref(),
                    &self.sections(marks),
                );
                self.known(found, Some(hash), by_model, serves, Some(failed))
            }
            Some(Err(_)) | None => {
                // The cache is needed to store the result.
                self.cache();
                Looked::Unknown(Unknown { found, folder: self.index, version, prior })
            }
        }
    }

    fn sections<'a>(&'a self, marks: &'a Provenances) -> Sections<'a> {
        self.outside.sections_of(self.files, Some(self.folder), &self.beside, marks)
    }

    /// Returns whether the grants of these tools are unchanged.
    fn stands(&self, serves: &Serving, sort: Sort, marks: &Provenances) -> bool {
        let sections = self.sections(marks);
        let grants: Vec<Grant> =
            serves.tools.iter().map(|(it, _)| sections.grant(&serves.version, sort, it.name())).collect();
        standing(&grants) == serves.standing
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
        self.cache.get_or_insert_with(|| self.outside.cache_of(self.folder))
    }

    fn fingerprint(&mut self) -> &str {
        let (outside, folder) = (self.outside, self.folder);
        self.fingerprint.get_or_insert_with(|| outside.fingerprint(folder))
    }
}

impl Unknown {
    /// Returns the file with what served before, until it is described.
    pub(super) fn pending(&self) -> Tried {
        Tried {
            path: self.found.path.clone(),
            folder: self.folder,
            sort: self.found.sort,
            stamp: self.found.stamp,
            hash: Some(self.version.hash),
            by_model: self.version.by_model,
            serves: self.prior.as_ref().and_then(|it| it.serves.clone()),
            failed: None,
            is_unknown: true,
        }
    }
}

pub(super) fn version(folder: &Folder, path: &Path, held: FileContent, by_model: bool) -> Version {
    Version {
        path: path.to_owned(),
        folder: folder.path.clone(),
        whose: folder.whose,
        by_model,
        source: held.source,
        hash: held.hash,
    }
}

pub(super) fn name_in(folder: &Path, path: &Path) -> String {
    // Nearly all lie directly in the folder, and paths are compared part by part, which takes longer.
    let [bytes, of_folder] = [path, folder].map(|it| it.as_os_str().as_bytes());
    let below = bytes.strip_prefix(of_folder).and_then(|it| it.strip_prefix(b"/"));
    if let Some(Ok(name)) = below.map(str::from_utf8) {
        return name.to_owned();
    }
    path.strip_prefix(folder).unwrap_or(path).display().to_string()
}

/// Version of the rules for descriptions.
const RULES: u32 = 4;

/// Returns the version under which results are cached: another haft describes the files again.
fn asked_by() -> String {
    format!("{} {} {RULES}", env!("CARGO_PKG_VERSION"), host::version())
}
