//! Tool files as the model of a session knows them: tells it of a change once.

use std::sync::Arc;

use arc_swap::ArcSwap;
use kit::services::Reloaded;

use crate::plugins::Loaded;

/// The tools that are files, as the model knows them.
pub(super) struct KnownToolFiles(ArcSwap<Loaded>);

impl KnownToolFiles {
    /// The model knows them as they are now.
    pub(super) fn new(now: Arc<Loaded>) -> Self {
        Self(ArcSwap::new(now))
    }

    /// What the next answer is to say of tools that changed, of those that are shown, where anything did.
    pub(super) fn news(&self, now: &Arc<Loaded>, is_shown: impl Fn(&str) -> bool) -> Option<Option<String>> {
        let known = self.0.load();
        if Arc::ptr_eq(&known, now) {
            return None;
        }
        Some(now.news(&known, is_shown))
    }

    /// This report with what is different from what the model was last told, which it is told by it.
    pub(super) fn told(&self, report: Reloaded, now: Arc<Loaded>) -> Reloaded {
        let known = self.0.load_full();
        let since = now.since(&known);
        self.knows(now);
        Reloaded { loaded: since.loaded, changed: since.changed, gone: since.gone, ..report }
    }

    /// The model knows them as they were then: it was told, or asked for the change itself.
    pub(super) fn knows(&self, as_of: Arc<Loaded>) {
        self.0.store(as_of);
    }
}
