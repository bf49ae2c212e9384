//! Notifications of changes that other processes make: a cheap poll of SQLite's `data_version`, only while somebody waits.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::{
    sync::{Notify, watch},
    task::JoinHandle,
    time::{Instant, sleep},
};

/// The pause between two polls while things change, and when nothing has changed for [`ACTIVE`].
const BUSY_PAUSE: Duration = Duration::from_millis(5);
const IDLE_PAUSE: Duration = Duration::from_millis(40);
const ACTIVE: Duration = Duration::from_secs(1);

pub(super) struct Changes {
    sender: Arc<watch::Sender<u64>>,
    waited_for: Arc<Notify>,
    connection: Arc<Mutex<Connection>>,
    poll: Mutex<Option<JoinHandle<()>>>,
}

impl Changes {
    pub(super) fn new(connection: Connection) -> Self {
        Self {
            sender: Arc::new(watch::channel(0).0),
            waited_for: Arc::default(),
            connection: Arc::new(Mutex::new(connection)),
            poll: Mutex::default(),
        }
    }

    /// Notifies all who wait in this process.
    pub(super) fn notify(&self) {
        self.sender.send_modify(|it| *it = it.wrapping_add(1));
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        let receiver = self.sender.subscribe();
        let mut poll = self.poll.lock();
        if poll.as_ref().is_none_or(JoinHandle::is_finished) {
            let parts =
                (Arc::clone(&self.sender), Arc::clone(&self.waited_for), Arc::clone(&self.connection));
            *poll = Some(tokio::spawn(run(parts.0, parts.1, parts.2)));
        }
        self.waited_for.notify_one();
        receiver
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        if let Some(poll) = self.poll.lock().take() {
            poll.abort();
        }
    }
}

async fn run(sender: Arc<watch::Sender<u64>>, waited_for: Arc<Notify>, connection: Arc<Mutex<Connection>>) {
    let mut known = None;
    let mut changed = Instant::now();
    loop {
        if sender.receiver_count() == 0 {
            waited_for.notified().await;
        }
        let version = connection.lock().pragma_query_value(None, "data_version", |row| row.get::<_, i64>(0));
        match version {
            Ok(version) if known != Some(version) => {
                known = Some(version);
                changed = Instant::now();
                sender.send_modify(|it| *it = it.wrapping_add(1));
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "the engine's database could not be polled"),
        }
        sleep(if changed.elapsed() < ACTIVE { BUSY_PAUSE } else { IDLE_PAUSE }).await;
    }
}
