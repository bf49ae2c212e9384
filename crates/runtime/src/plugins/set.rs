//! The set of tools that all files make, and its difference from the one before.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt::Write,
    path::{Path, PathBuf},
    sync::Arc,
};

use kit::{
    AnyTool,
    services::{NotLoaded, Reloaded},
};

use super::{
    ToolFiles, Version,
    cache::Failed,
    declaration::Declaration,
    folders::{FileContent, Sort, Stamp},
    source,
};
use crate::registry::{Failure, NAME_RULE, Registry, is_name};

/// Limit of names in a note; it only counts further ones.
const NAMED: usize = 6;

/// Bytes of an error in a note.
const WHY: usize = 160;

/// One file, as last loaded.
pub(super) struct Tried {
    pub(super) path: PathBuf,
    /// The index of its folder.
    pub(super) folder: usize,
    pub(super) sort: Sort,
    pub(super) stamp: Stamp,
    /// The hash of its content; none if the file could not be read.
    pub(super) hash: Option<blake3::Hash>,
    pub(super) by_model: bool,
    /// The version that serves calls.
    pub(super) serves: Option<Arc<Serving>>,
    /// The failure of its present content.
    pub(super) failed: Option<Failed>,
    /// Whether it was not described yet.
    pub(super) is_unknown: bool,
}

impl Tried {
    /// Returns whether the file is as it was loaded. For nearly all files this is one `stat`; one that was written
    /// just before it was loaded is read again, and it alone.
    pub(super) fn is_current(&self) -> bool {
        match self.hash {
            Some(hash) if self.sort == Sort::Python && !self.stamp.is_settled() => {
                self.stamp.is_of(&self.path) && source::has(&self.path, &hash)
            }
            _ => self.stamp.holds(&self.path),
        }
    }
}

/// A working version of a file.
pub(super) struct Serving {
    pub(super) version: Arc<Version>,
    pub(super) tools: Vec<(Arc<Declaration>, Arc<dyn AnyTool>)>,
    /// Its tools whose sections do not apply, each with a line that explains it.
    pub(super) lapsed: Vec<(String, String)>,
    /// Its tools whose sections apply.
    pub(super) granted: Vec<String>,
    /// Those of them that replace a built-in tool.
    pub(super) replacing: Vec<String>,
    /// A text that identifies its grants.
    pub(super) standing: String,
}

/// Notes on a folder.
#[derive(Default, Clone)]
pub(super) struct Remarks {
    pub(super) path: PathBuf,
    pub(super) enabled: Option<Result<Vec<String>, String>>,
    pub(super) troubles: Vec<String>,
}

/// The files and their tools, at one moment.
#[derive(Default)]
pub(crate) struct Loaded {
    /// The configuration of the folders.
    pub(super) decided: Arc<ToolFiles>,
    pub(super) files: Vec<Arc<Tried>>,
    pub(super) by_path: HashMap<PathBuf, Arc<Tried>>,
    pub(super) folders: Vec<Remarks>,
    /// The tools, by name.
    pub(super) tools: BTreeMap<String, Made>,
    pub(super) failed: Vec<Failure>,
    notes: Vec<String>,
    /// Tools that existed earlier, and their files.
    pub(super) gone: BTreeMap<String, PathBuf>,
    /// The number of files that are ignored until the workspace is trusted.
    pub(super) aside: usize,
    /// Whether there are files that were not described yet.
    pub(super) is_pending: bool,
}

/// A tool that is shown.
pub(super) struct Made {
    pub(super) file: Arc<Tried>,
    pub(super) tool: Arc<dyn AnyTool>,
    pub(super) declaration: Arc<Declaration>,
}

/// The names that are taken.
struct Names<'a> {
    built_in: HashSet<&'a str>,
    /// Names of tools that are already in the set, each with its file.
    taken: HashSet<&'a str>,
    /// The owner of each name, unless the name has grants.
    owners: HashMap<&'a str, &'a Tried>,
    /// Names with grants that apply, each with its file: an attested file takes the name.
    granted: HashMap<&'a str, &'a Path>,
    /// Names that a person lets a file take from a built-in tool, each with that file.
    replacing: HashMap<&'a str, &'a Path>,
}

impl Names<'_> {
    fn why_not(&self, name: &str, file: &Path, shows: Shows<'_>) -> Option<String> {
        if !is_name(name) {
            return Some(format!("`{name}` can't be the name of a tool: {NAME_RULE}"));
        }
        if self.built_in.contains(name) && self.replacing.get(name).is_none_or(|it| *it != file) {
            return Some(format!(
                "`{name}` is the name of a built-in tool; give it another name, or replace that tool by it: \
                 `replaces_built_in = true` under `[tool.{name}]` in haft.toml, then `haft trust {name}`"
            ));
        }
        if let Some(first) = self.granted.get(name) {
            let why = |first| {
                format!("`{name}` is a tool of {first} already, which a person vouches for; that one is kept")
            };
            return (*first != file).then(|| why(shows.path(first)));
        }
        let owner = self.owners.get(name).filter(|it| it.path != file)?;
        let by_name = owner.path.parent() == file.parent() && stem(&owner.path) == Some(name);
        let why = if by_name { "the file of that name is kept" } else { "the first one is kept" };
        Some(format!("`{name}` is a tool of {} already; {why}", shows.path(&owner.path)))
    }
}

impl Loaded {
    /// Builds the set of tools. Built-in tools take a name first, unless a person lets a file replace one;
    /// then the first file does.
    pub(super) fn of(
        files: Vec<Arc<Tried>>,
        folders: Vec<Remarks>,
        aside: usize,
        registry: &Registry,
        shows: Shows<'_>,
    ) -> (Self, Vec<Arc<dyn AnyTool>>) {
        let is_pending = files.iter().any(|it| it.is_unknown);
        let by_path = files.iter().map(|it| (it.path.clone(), it.clone())).collect();
        let mut loaded = Self { by_path, aside, is_pending, ..Self::default() };
        let mut names = Names {
            built_in: registry.own_names().collect(),
            taken: HashSet::new(),
            owners: owners(&files),
            granted: HashMap::new(),
            replacing: HashMap::new(),
        };
        for file in &files {
            for name in file.serves.iter().flat_map(|it| &it.replacing) {
                names.replacing.entry(name).or_insert(&file.path);
            }
            for name in file.serves.iter().flat_map(|it| &it.granted) {
                names.granted.entry(name).or_insert(&file.path);
            }
        }
        let mut tools = Vec::new();
        for file in &files {
            tools.extend(loaded.add(file, &mut names, shows));
        }
        for folder in &folders {
            loaded.remark(folder, &names, shows);
        }
        drop(names);
        (loaded.files, loaded.folders) = (files, folders);
        (loaded, tools)
    }

    /// Returns the content of this file, if it has not changed since it was loaded.
    pub(super) fn content(&self, path: &Path, stamp: &Stamp) -> Option<FileContent> {
        let tried = self.by_path.get(path).filter(|it| it.stamp == *stamp && !it.is_unknown)?;
        let version = &tried.serves.as_ref().filter(|it| Some(it.version.hash) == tried.hash)?.version;
        Some(FileContent { source: version.source.clone(), hash: version.hash })
    }

    /// Returns whether there are files that were not described yet.
    pub(crate) fn is_pending(&self) -> bool {
        self.is_pending
    }

    /// Adds the tools of a file; returns those that are shown.
    fn add<'a>(
        &mut self,
        file: &'a Arc<Tried>,
        names: &mut Names<'a>,
        shows: Shows<'_>,
    ) -> Vec<Arc<dyn AnyTool>> {
        let shown = || shows.path(&file.path);
        let fail = |why: String, older_serves| Failure { tool: shown(), why, older_serves };
        self.failed.extend(file.failed.iter().map(|it| fail(it.why.clone(), file.serves.is_some())));
        self.notes.extend(file.serves.iter().flat_map(|it| &it.lapsed).map(|it| it.1.clone()));
        let mut tools = Vec::new();
        for (declaration, tool) in file.serves.iter().flat_map(|it| &it.tools) {
            let name = declaration.name();
            if let Some(why) = names.why_not(name, &file.path, shows) {
                self.failed.push(fail(why, false));
                continue;
            }
            names.taken.insert(name);
            self.notes.extend(declaration.notes().iter().map(|note| format!("{}: {note}", shown())));
            let (file, tool, declaration) = (file.clone(), tool.clone(), declaration.clone());
            let made = Made { file, tool, declaration };
            tools.push(made.tool.clone());
            self.tools.insert(name.to_owned(), made);
        }
        tools
    }

    /// Adds the notes on a folder as a whole.
    fn remark(&mut self, folder: &Remarks, names: &Names<'_>, shows: Shows<'_>) {
        let shown = shows.path(&folder.path);
        let fail = |why: &String| Failure { tool: shown.clone(), why: why.clone(), older_serves: false };
        self.failed.extend(folder.troubles.iter().map(fail));
        match &folder.enabled {
            Some(Err(why)) => self.failed.push(Failure {
                tool: shows.path(&folder.path.join(super::ENABLED)),
                why: format!("{why}; it is taken as if it were not there"),
                older_serves: false,
            }),
            Some(Ok(enabled)) if !self.is_pending => {
                let unknown = enabled.iter().filter(|name| !names.taken.contains(name.as_str()));
                let note =
                    |name| format!("{shown}/{} names `{name}`, and there is no such tool", super::ENABLED);
                self.notes.extend(unknown.map(note));
            }
            Some(Ok(_)) | None => {}
        }
    }

    /// Returns the tools that the `enabled.json` of their folder names.
    pub(super) fn enabled(&self) -> impl Iterator<Item = &String> {
        let names = |made: &Made| self.folders.get(made.file.folder)?.enabled.as_ref()?.as_ref().ok();
        let is_named = move |(name, made): &(&String, &Made)| names(made).is_some_and(|it| it.contains(name));
        self.tools.iter().filter(is_named).map(|(name, _)| name)
    }

    /// Returns whether a tool is new, another one, or gone since `before`.
    pub(super) fn differs(&self, before: &Self) -> bool {
        let is_same = |(one, other): ((&String, &Made), (&String, &Made))| {
            one.0 == other.0 && Arc::ptr_eq(&one.1.tool, &other.1.tool)
        };
        self.tools.len() != before.tools.len() || !self.tools.iter().zip(&before.tools).all(is_same)
    }

    /// Returns how the tools differ from those before.
    pub(crate) fn since(&self, before: &Self) -> Reloaded {
        let is_other = |name: &&str| match (self.tools.get(*name), before.tools.get(*name)) {
            (Some(now), Some(then)) => !Arc::ptr_eq(&now.tool, &then.tool),
            _ => true,
        };
        Reloaded {
            loaded: self.order().map(str::to_owned).collect(),
            changed: self.order().filter(is_other).map(str::to_owned).collect(),
            gone: before.tools.keys().filter(|name| !self.tools.contains_key(*name)).cloned().collect(),
            failed: self.failed().collect(),
            aside: self.aside,
            notes: self.notes.clone(),
        }
    }

    /// Returns the tools whose sections do not apply, each with its line.
    pub(super) fn lapsed(&self) -> impl Iterator<Item = &(String, String)> {
        self.files.iter().flat_map(|it| &it.serves).flat_map(|it| &it.lapsed)
    }

    /// Returns the files that could not be loaded.
    pub(super) fn failed(&self) -> impl Iterator<Item = NotLoaded> {
        self.failed.iter().map(Failure::not_loaded)
    }

    /// Returns the names of the tools, in the order of their files.
    fn order(&self) -> impl Iterator<Item = &str> {
        let names = self
            .files
            .iter()
            .flat_map(|file| file.serves.iter().flat_map(|it| &it.tools).map(move |it| (file, it)));
        names.filter_map(|(file, (declaration, _))| {
            let made = self.tools.get(declaration.name())?;
            Arc::ptr_eq(&made.file, file).then_some(declaration.name())
        })
    }

    /// Returns one line on the changes for a model that knew the tools as in `then`; none if there is no
    /// change for it.
    pub(crate) fn change_note(&self, then: &Self, is_shown: impl Fn(&str) -> bool) -> Option<String> {
        // The load was not finished then, so the model did not know the tools yet.
        if then.is_pending {
            return None;
        }
        let mut marks = Vec::new();
        for name in self.tools.keys().filter(|name| !then.tools.contains_key(*name)) {
            marks.push(('+', name));
        }
        for (name, now) in &self.tools {
            if then.tools.get(name).is_some_and(|then| !Arc::ptr_eq(&then.tool, &now.tool)) {
                marks.push(('~', name));
            }
        }
        for name in then.tools.keys().filter(|name| !self.tools.contains_key(*name)) {
            marks.push(('-', name));
        }
        marks.retain(|(_, name)| is_shown(name));
        let mut parts = Vec::new();
        if !marks.is_empty() {
            let more = marks.len().saturating_sub(NAMED);
            let named: Vec<String> =
                marks.iter().take(NAMED).map(|(sign, name)| format!("{sign}{name}")).collect();
            let mut part = format!("tools changed: {}", named.join(", "));
            if more > 0 {
                let _ = write!(part, " and {more} more");
            }
            parts.push(part);
        }
        let broken: Vec<&Failure> = self.failed.iter().filter(|it| !then.failed.contains(it)).collect();
        for failure in broken.iter().take(NAMED) {
            let why = gist(&failure.why);
            let why = why.get(..why.floor_char_boundary(WHY)).unwrap_or_default();
            let older = if failure.older_serves { " (its last good version stays in use)" } else { "" };
            parts.push(format!("{} is broken{older}: {why}", failure.tool));
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

/// Returns the owner of each name: in the first folder that has it, the file with the tool's name, or else
/// the first file.
fn owners(files: &[Arc<Tried>]) -> HashMap<&str, &Tried> {
    let mut owners: HashMap<&str, &Tried> = HashMap::new();
    for file in files {
        for (declaration, _) in file.serves.iter().flat_map(|it| &it.tools) {
            let name = declaration.name();
            let owner = owners.entry(name).or_insert(file);
            let is_better = owner.folder == file.folder
                && stem(&owner.path) != Some(name)
                && stem(&file.path) == Some(name);
            if is_better {
                *owner = file;
            }
        }
    }
    owners
}

/// Returns the name that a file has as a tool: its name without extensions; for a `tool.toml`, the name of
/// its folder.
pub(super) fn stem(path: &Path) -> Option<&str> {
    let file = path.file_name()?.to_str()?;
    if file == "tool.toml" {
        return path.parent()?.file_name()?.to_str();
    }
    file.split('.').next()
}

/// How paths and names are shown.
#[derive(Clone, Copy)]
pub(super) struct Shows<'a> {
    pub(super) workspace: &'a Path,
}

impl Shows<'_> {
    fn path(self, path: &Path) -> String {
        path.strip_prefix(self.workspace).unwrap_or(path).display().to_string()
    }
}

/// Returns the line of an error that says most: the last line of a traceback, the first of any other text.
pub fn gist(why: &str) -> &str {
    let mut lines = why.lines().filter(|line| !line.trim().is_empty());
    let is_traceback =
        why.contains("Traceback (most recent call last)") || why.trim_start().starts_with("File \"");
    let line = if is_traceback { lines.rfind(|line| !line.starts_with([' ', '\t'])) } else { lines.next() };
    line.unwrap_or(why).trim()
}
