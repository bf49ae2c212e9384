//! Manuals that a session was shown: stored if the session has a name.

use std::collections::HashSet;

use parking_lot::Mutex;

use super::saved::Saved;

/// Returns the key under which a shown manual is stored.
fn key(tool: &str) -> String {
    format!("manual {tool}")
}

/// The tools whose manuals a session was shown.
#[derive(Default)]
pub(super) struct ShownManuals(Mutex<HashSet<String>>);

impl ShownManuals {
    /// Returns whether the session was shown the manual of this tool, here or in another process.
    pub(super) fn has(&self, tool: &str, saved: Option<&Saved<'_>>) -> bool {
        if self.0.lock().contains(tool) {
            return true;
        }
        let Some(saved) = saved else { return false };
        let read = matches!(saved.get(&key(tool)), Ok(Some(_)));
        if read {
            self.0.lock().insert(tool.to_owned());
        }
        read
    }

    /// Records that the session was shown the manual of this tool.
    pub(super) fn add(&self, tool: &str, saved: Option<&Saved<'_>>) {
        let is_new = self.0.lock().insert(tool.to_owned());
        if is_new
            && let Some(saved) = saved
            && let Err(fault) = saved.put(&key(tool), Vec::new())
        {
            tracing::warn!("that the manual of {tool} was read is not kept: {fault}");
        }
    }
}
