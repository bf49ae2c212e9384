//! Watched files: changes of files that fit a glob, in the folders of a workspace that are not ignored.
//!
//! Only folders that can hold such a file are watched, and no symlink is followed, so nothing outside of the workspace is. Changes
//! come together once nothing has changed for the debounce time.

mod ignored;

use std::{
    collections::{BTreeSet, HashSet},
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use globset::GlobSet;
use ignore::WalkBuilder;
use kit::{Fault, Kind, services::Soon};
use notify::{
    Config, Event, EventKind, EventKindMask, RecommendedWatcher, RecursiveMode, Watcher as _,
    event::{AccessKind, AccessMode},
};
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

use crate::{Spec, What};
use ignored::is_ignored;

/// Maximum number of watched folders: the system has few watches for all programs.
const MOST_FOLDERS: usize = 8_192;

/// Number of files that a message names.
const SHOWN: usize = 50;

/// Debounce times after which changes come although more follow.
const PATIENCE: u32 = 20;

/// Changed files, relative to the workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// The files.
    pub files: BTreeSet<PathBuf>,
    /// Whether the system lost events, so others may have changed too.
    pub lost: bool,
}

impl Changes {
    /// Adds later changes.
    pub fn add(&mut self, more: Self) {
        self.files.extend(more.files);
        self.lost |= more.lost;
    }

    fn is_empty(&self) -> bool {
        self.files.is_empty() && !self.lost
    }
}

impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Changed files:")?;
        for file in self.files.iter().take(SHOWN) {
            write!(f, "\n- {}", kit::escape::visible(&file.to_string_lossy()).0)?;
        }
        if self.files.len() > SHOWN {
            write!(f, "\n- and {} more", self.files.len() - SHOWN)?;
        }
        if self.lost {
            write!(f, "\n- the system lost events, so others may have changed too")?;
        }
        Ok(())
    }
}

/// A source of changes of files.
pub trait FileChanges: Send {
    /// Returns the next changes, which belong together; none, if there will be no more.
    fn next(&mut self) -> Soon<'_, Option<Changes>>;
}

/// The watched files of a workspace.
pub struct WatchedFiles {
    root: PathBuf,
    globs: GlobSet,
    /// The folders that all files of each glob are below.
    bases: Vec<PathBuf>,
    debounce: Duration,
    watcher: RecommendedWatcher,
    watched: HashSet<PathBuf>,
    raw: Arc<Raw>,
}

/// Changes as the system reports them.
#[derive(Default)]
struct Raw {
    paths: Mutex<(BTreeSet<PathBuf>, bool)>,
    came: Notify,
}

impl WatchedFiles {
    /// Begins to watch the files of a specification in this workspace. Blocks.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] when the system has no watches left, [`Kind::TooBig`] when there are too many folders.
    pub fn new(workspace: &Path, spec: &Spec) -> Result<Self, Fault> {
        let What::WatchFiles { glob, debounce_ms } = &spec.what else {
            return Err(Fault::bug("this trigger watches no files"));
        };
        let root = workspace.canonicalize().unwrap_or_else(|_| workspace.to_owned());
        let raw = Arc::<Raw>::default();
        let heard = raw.clone();
        let on_event = move |event: notify::Result<Event>| {
            let mut paths = heard.paths.lock();
            match event {
                Ok(event) if event.need_rescan() => paths.1 = true,
                Ok(event) if is_change(event.kind) => paths.0.extend(event.paths),
                Ok(_) => return,
                // An error may mean that changes were lost.
                Err(_) => paths.1 = true,
            }
            drop(paths);
            heard.came.notify_one();
        };
        // Reads must not wake a thread.
        let kinds = EventKindMask::CORE | EventKindMask::ACCESS_CLOSE;
        let watcher = RecommendedWatcher::new(on_event, Config::default().with_event_kinds(kinds))
            .map_err(|error| unwatched(&root, &error))?;
        let mut files = Self {
            bases: glob.iter().map(|it| base_of(it)).collect(),
            globs: spec.globs()?,
            debounce: Duration::from_millis(*debounce_ms),
            root,
            watcher,
            watched: HashSet::new(),
            raw,
        };
        files.watch(&files.root.clone())?;
        Ok(files)
    }

    /// Watches a folder and those below it. Returns the files in them.
    fn watch(&mut self, folder: &Path) -> Result<Vec<PathBuf>, Fault> {
        let mut found = Vec::new();
        let (root, bases) = (self.root.clone(), self.bases.clone());
        let walk = WalkBuilder::new(folder)
            .hidden(false)
            .follow_links(false)
            .require_git(false)
            .git_global(false)
            .filter_entry(move |entry| {
                let is_folder = entry.file_type().is_some_and(|it| it.is_dir());
                let below = entry.path().strip_prefix(&root).unwrap_or(entry.path());
                let leads_there =
                    || bases.iter().any(|base| base.starts_with(below) || below.starts_with(base));
                entry.file_name() != ".git" && (!is_folder || leads_there())
            })
            .build();
        for entry in walk.flatten() {
            if !entry.file_type().is_some_and(|it| it.is_dir()) {
                found.push(entry.into_path());
                continue;
            }
            if self.watched.len() >= MOST_FOLDERS {
                let what =
                    format!("more than {MOST_FOLDERS} folders of `{}` would be watched", self.root.display());
                return Err(Fault::new(Kind::TooBig, what)
                    .next("Begin `glob` with a folder: `src/**/*.rs`; or list folders in `.gitignore`."));
            }
            match self.watcher.watch(entry.path(), RecursiveMode::NonRecursive) {
                Ok(()) => {
                    self.watched.insert(entry.into_path());
                }
                // It is gone already.
                Err(_) if !entry.path().exists() => {}
                Err(error) => return Err(unwatched(entry.path(), &error)),
            }
        }
        Ok(found)
    }

    /// Takes what was reported until now, and watches new folders.
    fn taken(&mut self) -> Changes {
        let (paths, lost) = std::mem::take(&mut *self.raw.paths.lock());
        let mut changes = Changes { files: BTreeSet::new(), lost };
        for path in paths {
            let is_folder = path.symlink_metadata().is_ok_and(|it| it.is_dir());
            if !is_folder {
                // A folder that is made again needs a new watch.
                self.watched.remove(&path);
                changes.files.extend(self.wanted(&path));
                continue;
            }
            if self.watched.contains(&path) || is_ignored(&self.root, &path, true) {
                continue;
            }
            match self.watch(&path) {
                // They were made before the folder was watched.
                Ok(files) => changes.files.extend(files.iter().filter_map(|it| self.wanted(it))),
                Err(fault) => {
                    tracing::warn!(%fault, "a new folder is not watched");
                    changes.lost = true;
                }
            }
        }
        changes
    }

    /// Returns the path in the workspace, if it is one of the watched files.
    fn wanted(&self, path: &Path) -> Option<PathBuf> {
        let below = path.strip_prefix(&self.root).ok()?;
        (self.globs.is_match(below) && !is_ignored(&self.root, path, false)).then(|| below.to_owned())
    }
}

impl FileChanges for WatchedFiles {
    fn next(&mut self) -> Soon<'_, Option<Changes>> {
        Box::pin(async move {
            let mut changes = Changes::default();
            let mut latest = None;
            loop {
                let raw = self.raw.clone();
                let quiet = Instant::now() + self.debounce;
                let until = latest.map_or(quiet, |it: Instant| it.min(quiet));
                tokio::select! {
                    biased;
                    () = raw.came.notified() => {
                        changes.add(self.taken());
                        if !changes.is_empty() {
                            latest.get_or_insert(Instant::now() + self.debounce * PATIENCE);
                        }
                        if latest.is_none_or(|it| Instant::now() < it) {
                            continue;
                        }
                    }
                    () = sleep_until(until), if latest.is_some() => {}
                }
                return Some(changes);
            }
        })
    }
}

/// Returns whether an event may be a change. Reads are none.
fn is_change(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
        EventKind::Access(_) => false,
        EventKind::Any
        | EventKind::Create(_)
        | EventKind::Modify(_)
        | EventKind::Remove(_)
        | EventKind::Other => true,
    }
}

/// Returns the folder that all files of a glob are below.
fn base_of(glob: &str) -> PathBuf {
    let plain = glob.split('/').take_while(|it| !it.contains(['*', '?', '[', '{', '\\']));
    let base: PathBuf = plain.collect();
    // The last part of a glob without a pattern is a file.
    if base.as_os_str().len() == glob.len() {
        base.parent().map(Path::to_owned).unwrap_or_default()
    } else {
        base
    }
}

fn unwatched(path: &Path, error: &notify::Error) -> Fault {
    Fault::new(Kind::Unavailable, format!("`{}` can't be watched: {error}", path.display()))
        .next("The system's limits are `fs.inotify.max_user_watches` and `fs.inotify.max_user_instances`.")
}

#[cfg(test)]
mod tests;
