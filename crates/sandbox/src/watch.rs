//! Control files that commands made or changed: found after each command, and set aside.
//!
//! A file that exists when the sandbox is made is mounted read-only. A mount can't cover a missing file, and
//! files that a package manager keeps replacing are not covered. So haft checks all folders after every
//! command (`control_files/index.rs`). A new or changed control file is renamed to `NAME.haft-set-aside`,
//! under which no program runs it, and its earlier content is restored. Of a new repository only the parts
//! that would run are set aside: its hooks, and an unusual configuration.
//!
//! A change counts as a command's if its time (ctime, which no program can set) lies in a period in which
//! commands ran. Earlier changes are the person's.

mod content;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use kit::{
    deliberate_faults::is_broken,
    procs::Life,
    tool_writes::{self, State, state},
};

use self::content::{Content, aside, held, leaves, put_back};
use super::{
    code::code_in,
    handle::Folder,
    layout::{Access, Mount, What},
};
use crate::control_files::{
    configured::{Configured, submodules, worktrees_of_submodules},
    depth,
    index::Index,
    repository::{self, harmful, is_git_folder},
};

/// A file that makes git take its configuration from another folder.
const COMMON: &str = "commondir";

/// The folder of a workspace's own tools.
const TOOLS: &str = ".haft/tools";

/// The configuration of a workspace.
const CONFIGURATION: &str = "haft.toml";

/// Resolution of file times.
const COARSE: Duration = Duration::from_millis(20);

/// Maximum size of all contents that are kept.
const KEPT: usize = 32 << 20;

/// The state that is checked after every command.
#[derive(Debug, Default)]
pub struct Watch {
    roots: Vec<PathBuf>,
    index: Index,
    configured: Configured,
    /// A folder of tools in which code is read-only.
    tools: Option<PathBuf>,
    /// The files in it that are declared as code.
    code: BTreeSet<PathBuf>,
    /// Paths that mounts cover.
    covered: BTreeSet<PathBuf>,
    /// Git folders with read-only parts.
    folders: BTreeSet<PathBuf>,
    /// The git folders among them that had no `commondir`.
    alone: Vec<PathBuf>,
    /// Uncovered files, as they were at the last check.
    known: BTreeMap<PathBuf, FileState>,
    kept: usize,
    window: Window,
    found: Found,
}

/// The period in which commands ran since the last check.
#[derive(Debug, Default)]
struct Window {
    began: Option<Duration>,
    /// Number of commands that are being started.
    starting: usize,
    running: Vec<Life>,
    looked: Option<Instant>,
}

/// The state of a file or symlink with the name of a control file.
#[derive(Debug, Clone)]
struct FileState {
    state: State,
    held: Content,
}

/// The results to report.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// New files that stay, because a person allowed them or they are code of a tool.
    pub appeared: Vec<PathBuf>,
    /// Files that were set aside, each with its new name.
    pub aside: Vec<(PathBuf, PathBuf)>,
    /// Files that could not be set aside, each with the reason.
    pub stuck: Vec<(PathBuf, String)>,
    /// Files that were removed.
    pub taken: Vec<PathBuf>,
}

/// The facts at the start of a sandbox.
pub struct Begun {
    /// The writable roots.
    pub roots: Vec<PathBuf>,
    /// A folder of tools in which code is read-only.
    pub tools: Option<PathBuf>,
    /// Git folders with read-only parts.
    pub folders: BTreeSet<PathBuf>,
    /// The index of control files.
    pub index: Index,
    pub configured: Configured,
}

impl Window {
    fn is_open(&mut self) -> bool {
        // Only until one is found that runs: a command does not check each of ten thousand jobs.
        while self.running.last().is_some_and(Life::is_over) {
            self.running.pop();
        }
        self.starting > 0 || !self.running.is_empty()
    }
}

impl Watch {
    /// Records the present state. Unreported results of an earlier watch are kept.
    pub fn begin(&mut self, begun: Begun, mounts: &[Mount]) {
        let Begun { roots, tools, folders, index, configured } = begun;
        let is_first = self.roots.is_empty();
        let mut found = std::mem::take(&mut self.found);
        let (alone, strange): (Vec<_>, Vec<_>) =
            folders.iter().cloned().partition(|it| fs::symlink_metadata(it.join(COMMON)).is_err());
        if is_first {
            // Only the folder of a worktree has one, and no objects.
            let strange = strange.into_iter().filter(|it| is_git_folder(it));
            found.appeared.extend(strange.map(|it| it.join(COMMON)));
        }
        let is_covered = |mount: &&Mount| {
            matches!(mount.what, What::Bind { access: Access::Read, .. } | What::Hidden { .. })
        };
        let covered = mounts.iter().filter(is_covered).map(|it| it.at.clone()).collect();
        let window = std::mem::take(&mut self.window);
        *self = Self {
            roots,
            index,
            configured,
            tools,
            covered,
            folders,
            alone,
            found,
            window,
            ..Self::default()
        };
        self.code = self.code_now();
        let places = self.places();
        let leaves: Vec<PathBuf> = places.iter().flat_map(|it| leaves(it)).collect();
        for path in leaves {
            self.learn(&path);
        }
    }

    /// Records that a command is being started: from now on changes may be its own.
    pub fn command_begins(&mut self) {
        self.window.began.get_or_insert_with(now);
        self.window.starting += 1;
    }

    /// Records that it runs, with this life, or that it did not start.
    pub fn command_began(&mut self, life: Option<Life>) {
        self.window.starting = self.window.starting.saturating_sub(1);
        self.window.running.extend(life);
    }

    /// Returns whether commands have run since the last check, and none runs now.
    pub fn is_over(&mut self) -> bool {
        self.window.began.is_some() && !self.window.is_open()
    }

    /// Returns the time since the last check.
    pub fn looked_ago(&self) -> Option<Duration> {
        self.window.looked.map(|it| it.elapsed())
    }

    /// Returns whether commands have run since the last check.
    pub fn is_due(&self) -> bool {
        self.window.began.is_some()
    }

    /// Removes files that git itself never makes, if they exist now.
    pub fn take_away(&mut self) {
        let taken = take_away(&self.alone);
        self.found.taken.extend(taken);
    }

    /// Checks for changes, and sets aside files that commands may not make; `allows` returns whether a person
    /// allowed one.
    pub fn look(&mut self, allows: &dyn Fn(&Path) -> bool) {
        self.take_away();
        // Before the check: a command that ends during it still counts as running.
        let (is_open, now) = (self.window.is_open(), now());
        let since = match self.window.began {
            // No command ran, so no change is a command's.
            None => Duration::MAX,
            // A clock that was set back is not evidence.
            Some(began) if now < began => Duration::ZERO,
            Some(began) => began.saturating_sub(COARSE),
        };
        // Files that a running command makes are checked the next time.
        self.window.began = is_open.then_some(now);
        self.window.looked = Some(Instant::now());
        if is_broken("set-aside") {
            return;
        }
        let code = self.code_now();
        self.found.appeared.extend(code.difference(&self.code).cloned());
        self.code = code;
        for place in self.places() {
            self.look_at(&place, since, allows);
        }
        self.known.retain(|path, _| fs::symlink_metadata(path).is_ok());
    }

    /// Returns the results, each once.
    pub fn found(&mut self) -> Found {
        std::mem::take(&mut self.found)
    }

    fn look_at(&mut self, place: &Path, since: Duration, allows: &dyn Fn(&Path) -> bool) {
        // Attestation decides about tools that a model wrote (`attestation.rs`), and they keep their data
        // beside them.
        let tools: Vec<PathBuf> = self.roots.iter().map(|it| it.join(TOOLS)).collect();
        let is_tool_s = |path: &PathBuf| tools.iter().any(|it| path.starts_with(it));
        let has_tools = tools.iter().any(|it| it.starts_with(place));
        let now: Vec<PathBuf> = leaves(place).into_iter().filter(|it| !is_tool_s(it)).collect();
        let changed: Vec<PathBuf> = now.iter().filter(|it| !self.is_as_known(it)).cloned().collect();
        let (theirs, ours): (Vec<_>, Vec<_>) =
            changed.into_iter().partition(|path| !self.is_of_a_command(path, place, since));
        theirs.iter().for_each(|path| self.learn(path));
        if ours.is_empty() {
            return;
        }
        // haft ignores its own configuration until a person trusts its content (`config/trust.rs`).
        let is_haft_s = self.roots.iter().any(|it| it.join(CONFIGURATION) == place);
        if is_haft_s || allows(place) {
            ours.iter().for_each(|path| self.learn(path));
            self.found.appeared.push(place.to_owned());
            return;
        }
        // All of it is new: it is set aside as a whole.
        if !has_tools && now.iter().all(|it| ours.contains(it) && !self.known.contains_key(it)) {
            return self.set_aside(place);
        }
        for path in ours {
            self.set_aside(&path);
        }
    }

    fn is_as_known(&mut self, path: &Path) -> bool {
        let Some(state) = state(path) else { return true };
        let Some(mark) = self.known.get_mut(path) else { return false };
        if mark.state == state {
            return true;
        }
        let same = mark.held != Content::Other && held(path).is_some_and(|it| it == mark.held);
        if same {
            mark.state = state;
        }
        same
    }

    /// Returns whether a command may have made this: it was changed or moved here while commands ran.
    fn is_of_a_command(&self, path: &Path, place: &Path, since: Duration) -> bool {
        let Some(now) = state(path) else { return false };
        if tool_writes::is_ours(path, now) {
            return false;
        }
        let is_recent = |(_, _, seconds, nanoseconds): State| {
            Duration::new(seconds.try_into().unwrap_or_default(), nanoseconds.try_into().unwrap_or_default())
                >= since
        };
        if is_recent(now) {
            return true;
        }
        // A file that was moved here in a folder keeps its own time; the folder does not. Only the folders
        // that make it a control file count.
        let in_root = |it: &&Path| !self.roots.iter().any(|root| root == it);
        let around = place.ancestors().take(depth(place).unwrap_or(usize::MAX)).take_while(in_root);
        let was_elsewhere = || self.known.values().any(|it| (it.state.0, it.state.1) == (now.0, now.1));
        !self.known.contains_key(path) && (around.filter_map(state).any(is_recent) || was_elsewhere())
    }

    fn set_aside(&mut self, path: &Path) {
        match aside(path) {
            Ok(new) => {
                if let Some(mark) = self.known.remove(path) {
                    put_back(path, &mark.held);
                    self.learn(path);
                }
                self.found.aside.push((path.to_owned(), new));
            }
            // It no longer exists.
            Err(_) if fs::symlink_metadata(path).is_err() => {}
            Err(error) => self.found.stuck.push((path.to_owned(), error.to_string())),
        }
    }

    fn learn(&mut self, path: &Path) {
        let Some(state) = state(path) else { return };
        let mut held = held(path).unwrap_or(Content::Other);
        if let Content::File(bytes, _) = &held {
            if self.kept + bytes.len() > KEPT {
                held = Content::Other;
            } else {
                self.kept += bytes.len();
            }
        }
        self.known.insert(path.to_owned(), FileState { state, held });
    }

    /// Returns all uncovered files that decide what other programs run.
    fn places(&self) -> Vec<PathBuf> {
        let (mut places, mut repositories) = (Vec::new(), Vec::new());
        for root in &self.roots {
            let scan = self.index.scan(root);
            places.extend(scan.control.into_iter().map(|it| it.path));
            repositories.push(root.join(".git"));
            repositories.extend(scan.repositories);
            repositories.extend(worktrees_of_submodules(root).iter().map(|it| it.join(".git")));
        }
        if !self.roots.is_empty() {
            places.extend(self.configured.paths_by(repositories.iter()));
        }
        let mut folders = BTreeSet::new();
        for git in repositories {
            let Ok(about) = fs::symlink_metadata(&git) else { continue };
            if about.is_dir() {
                folders.insert(git);
            } else if self.leads_elsewhere(&git) {
                places.push(git);
            }
        }
        for folder in folders.clone().iter().chain(&self.folders) {
            folders.extend(submodules(&folder.join("modules")));
        }
        for folder in folders.iter().filter(|it| !self.folders.contains(*it)) {
            places.extend(harmful(folder));
        }
        for folder in &self.folders {
            places
                .extend(["hooks", "config", "config.worktree", "info/attributes"].map(|it| folder.join(it)));
        }
        places.retain(|path| {
            !repository::is_set_aside(path)
                && fs::symlink_metadata(path).is_ok()
                && !path.ancestors().any(|it| self.covered.contains(it))
        });
        places.sort();
        places.dedup();
        places
    }

    /// Returns whether a `.git` file or symlink leads to a folder that is not watched.
    fn leads_elsewhere(&self, git: &Path) -> bool {
        let Some(folder) = repository::folder_of(git) else { return true };
        let of_known = folder.ancestors().any(|it| self.folders.contains(it));
        let in_a_root = self.roots.iter().any(|root| folder.starts_with(root));
        fs::symlink_metadata(git).is_ok_and(|it| it.is_symlink()) || !(of_known || in_a_root)
    }

    fn code_now(&self) -> BTreeSet<PathBuf> {
        self.tools.iter().flat_map(|it| code_in(it, &[]).fixed).collect()
    }
}

/// Removes this file from git folders that had none; returns the removed ones.
pub(super) fn take_away(folders: &[PathBuf]) -> Vec<PathBuf> {
    let mut taken = Vec::new();
    for path in folders {
        // A symlink in its place leads to an unrelated folder, and is not followed.
        let Ok(folder) = Folder::open(path) else { continue };
        if folder.look(COMMON).is_some() && folder.remove(COMMON).is_ok() {
            taken.push(path.join(COMMON));
        }
    }
    taken
}

/// Returns the git folders, of these, without such a file.
pub fn without_common(folders: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
    folders.iter().filter(|it| fs::symlink_metadata(it.join(COMMON)).is_err()).cloned().collect()
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests;
