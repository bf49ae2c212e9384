//! Resolved configuration of tool folders, which may change while haft runs.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::SystemTime,
};

use arc_swap::ArcSwap;

use super::ToolFiles;

/// The current configuration, and its source.
pub(super) struct FolderConfig {
    now: ArcSwap<ToolFiles>,
    by: OnceLock<By>,
}

/// The source of the configuration.
struct By {
    /// The files that contain it.
    files: Vec<PathBuf>,
    ask: Box<dyn Fn() -> Option<ToolFiles> + Send + Sync>,
}

impl FolderConfig {
    pub(super) fn new(files: ToolFiles) -> Self {
        Self { now: ArcSwap::from_pointee(files), by: OnceLock::new() }
    }

    /// Sets the source: `ask` returns the configuration, and these files contain it.
    pub(super) fn follow(
        &self,
        files: Vec<PathBuf>,
        ask: impl Fn() -> Option<ToolFiles> + Send + Sync + 'static,
    ) {
        // The first call of this wins.
        let _ = self.by.set(By { files, ask: Box::new(ask) });
    }

    /// Returns the configuration as last resolved.
    pub(super) fn now(&self) -> Arc<ToolFiles> {
        self.now.load_full()
    }

    /// Resolves the configuration again. It stays as it was while it can't be resolved, such as during a
    /// write to the file.
    pub(super) fn again(&self) -> Arc<ToolFiles> {
        let now = self.now();
        match self.by.get().and_then(|by| (by.ask)()) {
            Some(other) if other != *now => {
                let other = Arc::new(other);
                self.now.store(other.clone());
                other
            }
            _ => now,
        }
    }

    /// Returns the tool folders, and the files with their configuration.
    pub(super) fn places(&self) -> Vec<PathBuf> {
        let now = self.now();
        let files = self.by.get().into_iter().flat_map(|by| &by.files);
        now.folders.iter().map(|it| &it.path).chain(files).cloned().collect()
    }

    /// Returns the modification time of each place.
    pub(super) fn times(&self) -> Vec<Option<SystemTime>> {
        let time = |path: &Path| path.metadata().and_then(|it| it.modified()).ok();
        self.places().iter().map(|path| time(path)).collect()
    }
}
