//! Resolved configuration of tool folders.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::SystemTime,
};

use arc_swap::ArcSwap;

use super::ToolFiles;

/// What a person decided, which may become another while haft runs.
pub(super) struct FolderConfig {
    now: ArcSwap<ToolFiles>,
    by: OnceLock<By>,
}

/// Who knows.
struct By {
    /// The files that say it.
    files: Vec<PathBuf>,
    ask: Box<dyn Fn() -> Option<ToolFiles> + Send + Sync>,
}

impl FolderConfig {
    pub(super) fn new(files: ToolFiles) -> Self {
        Self { now: ArcSwap::from_pointee(files), by: OnceLock::new() }
    }

    /// From now on this is asked for it, and these files say it.
    pub(super) fn follow(
        &self,
        files: Vec<PathBuf>,
        ask: impl Fn() -> Option<ToolFiles> + Send + Sync + 'static,
    ) {
        // There is one, who is named once.
        let _ = self.by.set(By { files, ask: Box::new(ask) });
    }

    /// What was decided when it was asked last.
    pub(super) fn now(&self) -> Arc<ToolFiles> {
        self.now.load_full()
    }

    /// The same after asking again. Where nobody knows, such as while a file is being written, it stays as it was.
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

    /// The folders, and the files that say which they are.
    pub(super) fn places(&self) -> Vec<PathBuf> {
        let now = self.now();
        let files = self.by.get().into_iter().flat_map(|by| &by.files);
        now.folders.iter().map(|it| &it.path).chain(files).cloned().collect()
    }

    /// When each of those was changed last.
    pub(super) fn times(&self) -> Vec<Option<SystemTime>> {
        let time = |path: &Path| path.metadata().and_then(|it| it.modified()).ok();
        self.places().iter().map(|path| time(path)).collect()
    }
}
