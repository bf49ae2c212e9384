//! Changes of triggers in other processes: a file of the workspace's state folder changes with each.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    time::Duration,
};

use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use parking_lot::Mutex;
use store::TRIGGERS_CHANGED;
use tokio::sync::watch;

/// Time until the engine looks by itself, where the system watches no files.
const LOOK: Duration = Duration::from_secs(5);

/// The watchers of this process: one for each workspace, however many sessions it runs.
static WATCHERS: Mutex<Option<HashMap<PathBuf, Weak<Shared>>>> = Mutex::new(None);

struct Shared {
    changes: watch::Sender<u64>,
    watcher: Mutex<Option<RecommendedWatcher>>,
}

/// Waits for changes of other processes.
pub(super) struct Elsewhere {
    shared: Arc<Shared>,
    changes: watch::Receiver<u64>,
    is_watched: bool,
}

impl Elsewhere {
    /// Watches the state folder of a workspace.
    pub(super) fn watch(folder: &Path) -> Self {
        let mut watchers = WATCHERS.lock();
        let watchers = watchers.get_or_insert_default();
        let known = watchers.get(folder).and_then(Weak::upgrade);
        let shared = known.unwrap_or_else(|| {
            watchers.retain(|_, it| it.strong_count() > 0);
            let shared = Shared::new(folder);
            watchers.insert(folder.to_owned(), Arc::downgrade(&shared));
            shared
        });
        let is_watched = shared.watcher.lock().is_some();
        Self { changes: shared.changes.subscribe(), shared, is_watched }
    }

    /// Marks the changes until now as seen.
    pub(super) fn seen(&mut self) {
        self.changes.borrow_and_update();
    }

    /// Resolves after a change.
    pub(super) async fn changed(&mut self) {
        if !self.is_watched {
            return tokio::time::sleep(LOOK).await;
        }
        // The sender lives in `shared`.
        let _ = &self.shared;
        if self.changes.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Shared {
    fn new(folder: &Path) -> Arc<Self> {
        let shared = Arc::new(Self { changes: watch::Sender::new(0), watcher: Mutex::new(None) });
        let watched = Arc::downgrade(&shared);
        let file = folder.join(TRIGGERS_CHANGED);
        let watcher = std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::OpenOptions::new().create(true).append(true).open(&file))
            .map_err(notify::Error::io)
            .and_then(|_| {
                notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
                    let is_change = event.is_ok_and(|it| it.kind.is_modify() || it.kind.is_create());
                    if let Some(shared) = watched.upgrade().filter(|_| is_change) {
                        shared.changes.send_modify(|it| *it += 1);
                    }
                })
            })
            .and_then(|mut watcher| {
                watcher.watch(&file, RecursiveMode::NonRecursive)?;
                Ok(watcher)
            });
        match watcher {
            Ok(watcher) => *shared.watcher.lock() = Some(watcher),
            Err(error) => tracing::warn!(%error, "changed triggers of other processes are noticed every 5 s"),
        }
        shared
    }
}
