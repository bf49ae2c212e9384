//! Seen files of a session: the views of its model, kept in the store where the session has a name.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use kit::{Fault, redact::Secrets, seen::Views};
use parking_lot::Mutex;

use super::saved::Saved;

/// Under which key the view of a file is kept.
fn view_key(file: &Path) -> String {
    format!("view {}", file.display())
}

/// What a session has seen of files.
#[derive(Default)]
pub(super) struct SeenFiles {
    views: Arc<Views>,
    /// The files whose kept views were looked up.
    recalled: Mutex<HashSet<PathBuf>>,
}

impl SeenFiles {
    pub(super) fn views(&self) -> &Arc<Views> {
        &self.views
    }

    /// Keeps the views, without the secrets in them.
    ///
    /// # Errors
    /// When the store can't be written.
    pub(super) fn keep(&self, saved: &Saved<'_>, secrets: &Secrets) -> Result<(), Fault> {
        for (file, kept) in self.views.keep() {
            let kept = kept.without(secrets);
            // What is not kept has to be read again; nothing worse.
            if kept.is_empty() {
                saved.remove(&view_key(&file))?;
                continue;
            }
            let kept = serde_json::to_vec(&kept)
                .map_err(|error| Fault::bug(format!("a view can't be written: {error}")))?;
            saved.put(&view_key(&file), kept)?;
        }
        Ok(())
    }

    /// Takes up what the session saw of a file in another process, before the first call on it. Only that file's view is
    /// read: a session may have seen a great many.
    pub(super) fn recall(&self, saved: &Saved<'_>, file: &Path) {
        if !self.recalled.lock().insert(file.to_owned()) || self.views.knows(file) {
            return;
        }
        let kept = saved.get(&view_key(file));
        match kept.map(|kept| kept.map(|kept| serde_json::from_slice(&kept))) {
            Ok(Some(Ok(kept))) => self.views.restore(file, kept),
            Ok(None) => {}
            Ok(Some(Err(error))) => {
                tracing::warn!("what was seen of {} can't be read: {error}", file.display());
            }
            Err(fault) => tracing::warn!("what was seen of {} can't be read: {fault}", file.display()),
        }
    }
}
