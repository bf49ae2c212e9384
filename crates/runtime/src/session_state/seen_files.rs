//! Seen files of a session: the views of its model, stored if the session has a name.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use kit::{Fault, redact::Secrets, seen::Views};
use parking_lot::Mutex;

use super::saved::Saved;

/// Returns the key under which the view of a file is stored.
fn view_key(file: &Path) -> String {
    format!("view {}", file.display())
}

/// The files that a session has seen.
#[derive(Default)]
pub(super) struct SeenFiles {
    views: Arc<Views>,
    /// The files whose stored views were read.
    recalled: Mutex<HashSet<PathBuf>>,
}

impl SeenFiles {
    pub(super) fn views(&self) -> &Arc<Views> {
        &self.views
    }

    /// Stores the views, redacted.
    ///
    /// # Errors
    /// When the store can't be written.
    pub(super) fn keep(&self, saved: &Saved<'_>, secrets: &Secrets) -> Result<(), Fault> {
        for (file, kept) in self.views.keep() {
            let kept = kept.without(secrets);
            // A file whose view is not stored has to be read again; nothing else fails.
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

    /// Restores what the session saw of a file in another process, before the first call on it. Reads only
    /// that file's view: a session may have seen very many.
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
