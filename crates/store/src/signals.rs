//! Signals within one process: wakes whoever waits for a row, after the commit.
//!
//! All stores of one workspace in this process share them. They do not cross processes.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use parking_lot::Mutex;
use tokio::sync::watch;

type Signals = HashMap<(PathBuf, String), watch::Sender<u64>>;

static SIGNALS: Mutex<Option<Signals>> = Mutex::new(None);

/// Returns a counter that changes with each [`fire`] of this name in the workspace's folder.
pub(super) fn subscribe(folder: &Path, name: &str) -> watch::Receiver<u64> {
    let mut signals = SIGNALS.lock();
    let signals = signals.get_or_insert_default();
    let key = (folder.to_owned(), name.to_owned());
    if let Some(sender) = signals.get(&key) {
        return sender.subscribe();
    }
    signals.retain(|_, it| it.receiver_count() > 0);
    signals.entry(key).or_insert_with(|| watch::Sender::new(0)).subscribe()
}

/// Wakes those who wait for this name.
pub(super) fn fire(folder: &Path, name: &str) {
    let signals = SIGNALS.lock();
    let Some(sender) = signals.as_ref().and_then(|it| it.get(&(folder.to_owned(), name.to_owned()))) else {
        return;
    };
    sender.send_modify(|it| *it += 1);
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_those_who_wait_for_the_name_in_that_folder_are_woken() {
        let (here, there) = (Path::new("/nowhere/here"), Path::new("/nowhere/there"));
        let (mut one, other) = (subscribe(here, "a"), subscribe(there, "a"));
        fire(here, "a");
        fire(here, "nobody waits for it");
        one.changed().await.unwrap();
        assert!(!other.has_changed().unwrap());
        assert!(!subscribe(here, "b").has_changed().unwrap());
    }
}
