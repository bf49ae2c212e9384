//! The set of tools that all files make, and how it differs from the one before.

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
    Contribution, Described, ToolFiles, Version,
    cache::Failed,
    folders::{Sort, Stamp},
};
use crate::registry::{Failure, NAME_RULE, Registry, is_name};

/// More names than these are only counted in a note.
const NAMED: usize = 6;

/// A note says at most so many bytes of why a file is broken.
const WHY: usize = 160;

/// One file, as it was last looked at.
pub(super) struct Tried {
    pub(super) path: PathBuf,
    /// Which of the folders it lies in.
    pub(super) folder: usize,
    pub(super) sort: Sort,
    pub(super) stamp: Stamp,
    /// Of what it holds; none where that could not be had.
    pub(super) hash: Option<blake3::Hash>,
    pub(super) by_model: bool,
    /// What there is of it to call.
    pub(super) serves: Option<Arc<Serving>>,
    /// Why that is not what the file holds.
    pub(super) failed: Option<Failed>,
    /// It was not asked yet.
    pub(super) is_unknown: bool,
}

/// A version of a file that works.
pub(super) struct Serving {
    pub(super) version: Arc<Version>,
    pub(super) tools: Vec<(Described, Arc<dyn AnyTool>)>,
    /// The tools of it whose sections do not count, each with the line that says so.
    pub(super) lapsed: Vec<(String, String)>,
    /// The tools of it whose sections count.
    pub(super) granted: Vec<String>,
    /// Those of them that take the place of a built-in tool.
    pub(super) replacing: Vec<String>,
    /// By which one sees that what it was granted is the same.
    pub(super) standing: String,
}

/// What is said of a folder.
#[derive(Default)]
pub(super) struct Remarks {
    pub(super) path: PathBuf,
    pub(super) enabled: Option<Result<Vec<String>, String>>,
    pub(super) troubles: Vec<String>,
}

/// The files and the tools they make, at one moment.
#[derive(Default)]
pub(crate) struct Loaded {
    /// Where they were looked for.
    pub(super) decided: Arc<ToolFiles>,
    pub(super) files: Vec<Arc<Tried>>,
    pub(super) by_path: HashMap<PathBuf, Arc<Tried>>,
    pub(super) folders: Vec<Remarks>,
    /// The tools, by their names.
    pub(super) tools: BTreeMap<String, Made>,
    pub(super) failed: Vec<Failure>,
    notes: Vec<String>,
    /// Tools that were there once, and their files.
    pub(super) gone: BTreeMap<String, PathBuf>,
    /// So many files are left aside until the workspace is trusted.
    pub(super) aside: usize,
    /// There are files that were not asked yet.
    pub(super) is_pending: bool,
}

/// A tool that is shown.
pub(super) struct Made {
    pub(super) file: Arc<Tried>,
    pub(super) tool: Arc<dyn AnyTool>,
    pub(super) manual: Option<String>,
    /// Its file says that it is called only once that was read.
    pub(super) manual_first: bool,
    /// What it adds to the system prompt.
    pub(super) contribution: Option<Contribution>,
}

/// The names that can't be had any more.
struct Names<'a> {
    built_in: HashSet<&'a str>,
    /// Each with its file.
    taken: HashSet<&'a str>,
    /// Each with the file that has it, unless something is granted to it.
    owners: HashMap<&'a str, &'a Tried>,
    /// Those to which something is granted that counts, each with its file: what a person vouched for takes them.
    granted: HashMap<&'a str, &'a Path>,
    /// Those that a person gives to a file instead of a built-in tool, each with that file.
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
    /// Puts together what the files make. A name is taken by built-in tools first, unless a person gives it to a file;
    /// then by the first file.
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

    /// Adds the tools of a file; gives those that are shown.
    fn add<'a>(
        &mut self,
        file: &'a Arc<Tried>,
        names: &mut Names<'a>,
        shows: Shows<'_>,
    ) -> Vec<Arc<dyn AnyTool>> {
        let shown = shows.path(&file.path);
        let fail = |why: String, older_serves| Failure { tool: shown.clone(), why, older_serves };
        self.failed.extend(file.failed.iter().map(|it| fail(it.why.clone(), file.serves.is_some())));
        self.notes.extend(file.serves.iter().flat_map(|it| &it.lapsed).map(|it| it.1.clone()));
        let mut tools = Vec::new();
        for (described, tool) in file.serves.iter().flat_map(|it| &it.tools) {
            let name = described.name.as_str();
            if let Some(why) = names.why_not(name, &file.path, shows) {
                self.failed.push(fail(why, false));
                continue;
            }
            names.taken.insert(name);
            self.notes.extend(described.notes.iter().map(|note| format!("{shown}: {note}")));
            let made = Made {
                file: file.clone(),
                tool: tool.clone(),
                manual: described.manual.clone(),
                manual_first: described.manual_first,
                contribution: described.contribution.clone(),
            };
            self.tools.insert(name.to_owned(), made);
            tools.push(tool.clone());
        }
        tools
    }

    /// Adds what is to be said of a folder as a whole.
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

    /// The tools that the list of their own folder names.
    pub(super) fn enabled(&self) -> impl Iterator<Item = &String> {
        let names = |made: &Made| self.folders.get(made.file.folder)?.enabled.as_ref()?.as_ref().ok();
        let is_named = move |(name, made): &(&String, &Made)| names(made).is_some_and(|it| it.contains(name));
        self.tools.iter().filter(is_named).map(|(name, _)| name)
    }

    /// What became of the tools since.
    pub(crate) fn since(&self, before: &Self) -> Reloaded {
        let is_other = |name: &&String| match (self.tools.get(*name), before.tools.get(*name)) {
            (Some(now), Some(then)) => !Arc::ptr_eq(&now.tool, &then.tool),
            _ => true,
        };
        Reloaded {
            loaded: self.order().map(str::to_owned).collect(),
            changed: self.order().filter(|name| is_other(&&(*name).to_owned())).map(str::to_owned).collect(),
            gone: before.tools.keys().filter(|name| !self.tools.contains_key(*name)).cloned().collect(),
            failed: self.failed().collect(),
            aside: self.aside,
            notes: self.notes.clone(),
        }
    }

    /// The tools whose sections do not count, each with the line that says so.
    pub(super) fn lapsed(&self) -> impl Iterator<Item = &(String, String)> {
        self.files.iter().flat_map(|it| &it.serves).flat_map(|it| &it.lapsed)
    }

    /// What could not be loaded.
    pub(super) fn failed(&self) -> impl Iterator<Item = NotLoaded> {
        self.failed.iter().map(|it| NotLoaded {
            file: it.tool.clone(),
            why: it.why.clone(),
            older_serves: it.older_serves,
        })
    }

    /// The names of the tools in the order of their files.
    fn order(&self) -> impl Iterator<Item = &str> {
        let names = self
            .files
            .iter()
            .flat_map(|file| file.serves.iter().flat_map(|it| &it.tools).map(move |it| (file, it)));
        names.filter_map(|(file, (described, _))| {
            let made = self.tools.get(&described.name)?;
            Arc::ptr_eq(&made.file, file).then_some(described.name.as_str())
        })
    }

    /// One line for a model that knew the tools as they were then; none if they are the same to it.
    pub(crate) fn news(&self, then: &Self, is_shown: impl Fn(&str) -> bool) -> Option<String> {
        // What was still being loaded then is no news now.
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

/// Which file has each name: of the first folder that has it the file that is called as the tool, else its first file.
fn owners(files: &[Arc<Tried>]) -> HashMap<&str, &Tried> {
    let mut owners: HashMap<&str, &Tried> = HashMap::new();
    for file in files {
        for (described, _) in file.serves.iter().flat_map(|it| &it.tools) {
            let name = described.name.as_str();
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

/// The name that a file has as a tool: without its endings; that of its folder, if it is a `tool.toml` there.
pub(super) fn stem(path: &Path) -> Option<&str> {
    let file = path.file_name()?.to_str()?;
    if file == "tool.toml" {
        return path.parent()?.file_name()?.to_str();
    }
    file.split('.').next()
}

/// How things are shown.
#[derive(Clone, Copy)]
pub(super) struct Shows<'a> {
    pub(super) workspace: &'a Path,
}

impl Shows<'_> {
    fn path(self, path: &Path) -> String {
        path.strip_prefix(self.workspace).unwrap_or(path).display().to_string()
    }
}

/// The one line of a traceback that says what is wrong: its last; of another text the first.
pub fn gist(why: &str) -> &str {
    let mut lines = why.lines().filter(|line| !line.trim().is_empty());
    let is_traceback =
        why.contains("Traceback (most recent call last)") || why.trim_start().starts_with("File \"");
    let line = if is_traceback { lines.rfind(|line| !line.starts_with([' ', '\t'])) } else { lines.next() };
    line.unwrap_or(why).trim()
}
