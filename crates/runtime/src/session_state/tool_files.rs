//! Tool files as the model of a session knows them: reports each change once.

use std::sync::Arc;

use arc_swap::ArcSwap;
use kit::services::Reloaded;

use crate::plugins::Loaded;

/// The tool files that the model knows.
pub(super) struct KnownToolFiles(ArcSwap<Loaded>);

impl KnownToolFiles {
    /// Records that the model knows the present tool files.
    pub(super) fn new(now: Arc<Loaded>) -> Self {
        Self(ArcSwap::new(now))
    }

    /// Returns the note on changed tools for the next answer, if a shown tool has changed.
    pub(super) fn note(&self, now: &Arc<Loaded>, is_shown: impl Fn(&str) -> bool) -> Option<Option<String>> {
        let known = self.0.load();
        // A load reports what it changed once it is over.
        if Arc::ptr_eq(&known, now) || now.is_pending() && !known.is_pending() {
            return None;
        }
        Some(now.change_note(&known, is_shown))
    }

    /// Returns this report with the changes since the model's last notification, and marks them as known.
    pub(super) fn since_last_report(&self, report: Reloaded, now: Arc<Loaded>) -> Reloaded {
        let known = self.0.load_full();
        let since = now.since(&known);
        self.knows(now);
        Reloaded { loaded: since.loaded, changed: since.changed, gone: since.gone, ..report }
    }

    /// Records that the model knows the tool files of this moment: it was notified, or made the change
    /// itself.
    pub(super) fn knows(&self, as_of: Arc<Loaded>) {
        self.0.store(as_of);
    }
}
