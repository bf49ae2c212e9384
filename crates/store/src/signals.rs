//! Signals within one process: wakes whoever waits for a row, after the commit.
//!
//! All stores of one workspace in this process share them. They do not cross processes.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};

type Signals = HashMap<(PathBuf, String), watch::Sender<u64>>;

static SIGNALS: Mutex<Option<Signals>> = Mutex::new(None);

/// Receivers of the names of all signals of a folder.
static LISTENERS: Mutex<Vec<(PathBuf, mpsc::UnboundedSender<String>)>> = Mutex::new(Vec::new());

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

/// Returns the names of all signals in the workspace's folder from now on, for a process that passes them on to another one.
pub(super) fn listen(folder: &Path) -> mpsc::UnboundedReceiver<String> {
    let (sender, names) = mpsc::unbounded_channel();
    LISTENERS.lock().push((folder.to_owned(), sender));
    names
}

/// Wakes those who wait for this name.
pub(super) fn fire(folder: &Path, name: &str) {
    LISTENERS.lock().retain(|(of, sender)| of != folder || sender.send(name.to_owned()).is_ok());
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

    #[tokio::test]
    async fn who_listens_to_a_folder_gets_the_names_of_all_its_signals() {
        let (here, there) = (Path::new("/nowhere/heard"), Path::new("/nowhere/not heard"));
        let mut names = listen(here);
        fire(here, "a");
        fire(there, "b");
        fire(here, "c");
        assert_eq!((names.recv().await.unwrap(), names.recv().await.unwrap()), ("a".into(), "c".into()));
        drop(names);
        fire(here, "d");
        assert!(LISTENERS.lock().iter().all(|it| it.0 != here));
    }
}
