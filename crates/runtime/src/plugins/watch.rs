//! File watching of tool folders: reloads tools when their files change.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwap;
use kit::services::NotLoaded;
use notify::{
    Config, Event, EventKind, EventKindMask, RecommendedWatcher, RecursiveMode, Watcher,
    event::{AccessKind, AccessMode},
};
use tokio::{
    sync::Notify,
    task::{JoinHandle, spawn_blocking},
    time::{Instant, timeout, timeout_at},
};

use super::Plugins;

/// Quiet time after which a group of changes is over: an editor makes several in a row.
const QUIET: Duration = Duration::from_millis(30);

/// Time after which haft handles changes at the latest.
const LATEST: Duration = Duration::from_millis(300);

/// Polling interval, used if the system does not report changes, or while a missing program may appear
/// outside the watched folders.
const ROUND: Duration = Duration::from_secs(2);

/// Limit of watched subfolders in a tool folder.
const BELOW: usize = 64;

/// Reloads tools whenever their files change, until it is dropped.
pub struct Watching(JoinHandle<()>);

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Plugins {
    /// Loads pending tools, then reloads on every change; calls `tell` for each file that can't be loaded,
    /// once as long as the reason stays the same.
    pub fn watch(self: &Arc<Self>, tell: impl Fn(&NotLoaded) + Send + 'static) -> Watching {
        let outside = self.clone();
        Watching(tokio::spawn(async move {
            let changed = Arc::new(Notify::new());
            let Some(mut eyes) = Eyes::new(&changed).look(outside.places()).await else { return };
            outside.refreshed().await;
            let mut told = Vec::new();
            loop {
                let failed = outside.failed();
                failed.iter().filter(|it| !told.contains(*it)).for_each(&tell);
                told = failed;
                let is_seen = eyes.are_open() && !outside.waits_for_a_program();
                if timeout(if is_seen { Duration::MAX } else { ROUND }, changed.notified()).await.is_ok() {
                    let latest = Instant::now() + LATEST;
                    while timeout(QUIET, timeout_at(latest, changed.notified()))
                        .await
                        .is_ok_and(|it| it.is_ok())
                    {}
                }
                // Watches are set before reading: a change in between is handled twice rather than never.
                let Some(set) = eyes.look(outside.places()).await else { return };
                outside.reload(false).await;
                // The configured folders may have changed.
                let Some(set) = set.look(outside.places()).await else { return };
                eyes = set;
            }
        }))
    }
}

/// The watched paths.
struct Eyes {
    /// The tool folders, and the files with their configuration.
    places: Arc<ArcSwap<Vec<PathBuf>>>,
    watcher: Option<RecommendedWatcher>,
    /// The paths watched now, each with its inode: a recreated folder needs a new watch.
    watched: BTreeMap<PathBuf, u64>,
    /// Whether a path could not be watched, as the system has no more watches.
    missed: bool,
}

impl Eyes {
    fn new(changed: &Arc<Notify>) -> Self {
        let places = Arc::<ArcSwap<Vec<PathBuf>>>::default();
        let (of, changed) = (places.clone(), changed.clone());
        let on_event = move |event: notify::Result<Event>| {
            // An error may mean that changes were lost.
            if event.map_or(true, |event| is_change(&event, &of.load())) {
                changed.notify_one();
            }
        };
        // A file is read once its writer has closed it. Reads, also those of haft's own calls in a workspace without a
        // tool folder, must not wake a thread.
        let kinds = EventKindMask::CORE.difference(EventKindMask::MODIFY_DATA) | EventKindMask::ACCESS_CLOSE;
        let watcher = RecommendedWatcher::new(on_event, Config::default().with_event_kinds(kinds))
            .map_err(|error| tracing::warn!("tools are not watched, but looked at now and then: {error}"))
            .ok();
        Self { places, watcher, watched: BTreeMap::new(), missed: false }
    }

    fn are_open(&self) -> bool {
        self.watcher.is_some() && !self.missed
    }

    /// Sets the watches for the present paths, beside the rest: each waits for the watcher's own thread. `None` if the
    /// process ends.
    async fn look(mut self, places: Vec<PathBuf>) -> Option<Self> {
        let set = spawn_blocking(move || {
            self.set(places);
            self
        });
        set.await.ok()
    }

    /// Sets the watches. For a file, and for a folder that does not exist, haft watches the nearest existing folder above
    /// it.
    fn set(&mut self, places: Vec<PathBuf>) {
        let places = Arc::new(places);
        self.places.store(places.clone());
        let Some(watcher) = &mut self.watcher else { return };
        let mut wanted = BTreeMap::new();
        for folder in &*places {
            let there = folder.ancestors().find_map(|it| Some((it, inode(it)?)));
            let Some((path, number)) = there else { continue };
            wanted.insert(path.to_owned(), number);
            if path == folder {
                wanted.extend(below(folder));
            }
        }
        for path in
            self.watched.iter().filter(|(path, number)| wanted.get(*path) != Some(number)).map(|it| it.0)
        {
            // The path may be gone already, and its watch with it.
            let _ = watcher.unwatch(path);
        }
        let watched = std::mem::take(&mut self.watched);
        self.missed = false;
        for (path, number) in wanted {
            if watched.get(&path) != Some(&number)
                && let Err(error) = watcher.watch(&path, RecursiveMode::NonRecursive)
            {
                tracing::warn!(
                    "`{}` is looked at now and then, as it is not watched: {error}",
                    path.display()
                );
                self.missed = true;
                continue;
            }
            self.watched.insert(path, number);
        }
    }
}

fn inode(folder: &Path) -> Option<u64> {
    fs::metadata(folder).ok().filter(fs::Metadata::is_dir).map(|it| it.ino())
}

/// Returns the folders directly below: each may be a tool.
fn below(folder: &Path) -> impl Iterator<Item = (PathBuf, u64)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(|it| {
            !it.file_name().as_encoded_bytes().starts_with(b"_") && it.file_type().is_ok_and(|it| it.is_dir())
        })
        .filter_map(|it| Some((it.path(), inode(&it.path())?)))
        .take(BELOW)
}

/// Returns whether a tool may have changed. Reads don't count: haft itself reads.
fn is_change(event: &Event, places: &[PathBuf]) -> bool {
    let by_kind = match event.kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
        EventKind::Access(_) => false,
        EventKind::Any
        | EventKind::Create(_)
        | EventKind::Modify(_)
        | EventKind::Remove(_)
        | EventKind::Other => true,
    };
    let concerns = |path: &PathBuf| {
        places.iter().any(|folder| match path.strip_prefix(folder) {
            Ok(below) => !below.starts_with("__pycache__"),
            Err(_) => folder.starts_with(path),
        })
    };
    by_kind && (event.need_rescan() || event.paths.is_empty() || event.paths.iter().any(concerns))
}
