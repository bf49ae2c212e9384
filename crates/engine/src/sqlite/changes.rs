//! Notifications of changes that other processes make.
//!
//! Each process touches the file `engine.bell` after it has written, and inotify wakes the others; only then do they ask SQLite
//! whether anything changed. A process that died between its commit and the bell, or a system without inotify, is covered by
//! a slow poll.

use std::{fs::File, path::Path, sync::Arc, time::Duration};

use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::{
    sync::{Notify, watch},
    task::JoinHandle,
    time::sleep,
};

/// The pause between two polls where inotify rings, and where it does not.
const WITH_BELL: Duration = Duration::from_secs(1);
const WITHOUT_BELL: Duration = Duration::from_millis(40);

pub(super) struct Changes {
    sender: Arc<watch::Sender<u64>>,
    waited_for: Arc<Notify>,
    connection: Arc<Mutex<Connection>>,
    bell: Arc<File>,
    poll: Mutex<Option<JoinHandle<()>>>,
}

impl Changes {
    /// # Errors
    /// When the bell can't be created.
    pub(super) fn new(connection: Connection, bell: &Path) -> std::io::Result<Self> {
        let bell = File::options().create(true).append(true).open(bell)?;
        Ok(Self {
            sender: Arc::new(watch::channel(0).0),
            waited_for: Arc::default(),
            connection: Arc::new(Mutex::new(connection)),
            bell: Arc::new(bell),
            poll: Mutex::default(),
        })
    }

    /// Notifies all who wait, in this process and in others.
    pub(super) fn notify(&self) {
        self.sender.send_modify(|it| *it = it.wrapping_add(1));
        // The poll of the others is there for a disk on which it fails.
        let _ = self.bell.set_modified(std::time::SystemTime::now());
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        let receiver = self.sender.subscribe();
        let mut poll = self.poll.lock();
        if poll.as_ref().is_none_or(JoinHandle::is_finished) {
            let parts =
                (Arc::clone(&self.sender), Arc::clone(&self.waited_for), Arc::clone(&self.connection));
            *poll = Some(tokio::spawn(run(parts.0, parts.1, parts.2, Arc::clone(&self.bell))));
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

async fn run(
    sender: Arc<watch::Sender<u64>>,
    waited_for: Arc<Notify>,
    connection: Arc<Mutex<Connection>>,
    bell: Arc<File>,
) {
    let bell = Bell::of(&bell);
    let pause = if bell.is_some() { WITH_BELL } else { WITHOUT_BELL };
    let mut known = None;
    loop {
        if sender.receiver_count() == 0 {
            waited_for.notified().await;
        }
        let version = connection.lock().pragma_query_value(None, "data_version", |row| row.get::<_, i64>(0));
        match version {
            Ok(version) if known != Some(version) => {
                known = Some(version);
                sender.send_modify(|it| *it = it.wrapping_add(1));
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "the engine's database could not be polled"),
        }
        match &bell {
            Some(bell) => {
                // A bell that fails rings no more: the poll goes on.
                let _ = tokio::time::timeout(pause, bell.rings()).await;
            }
            None => sleep(pause).await,
        }
    }
}

#[cfg(target_os = "linux")]
struct Bell(tokio::net::unix::pipe::Receiver);

#[cfg(target_os = "linux")]
impl Bell {
    fn of(file: &File) -> Option<Self> {
        use std::os::fd::AsRawFd as _;

        use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
        let queue = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
        add_watch(
            &queue,
            format!("/proc/self/fd/{}", file.as_raw_fd()),
            WatchFlags::ATTRIB | WatchFlags::MODIFY,
        )
        .ok()?;
        tokio::net::unix::pipe::Receiver::from_owned_fd_unchecked(queue).ok().map(Self)
    }

    /// Waits until the bell rings, and takes all its rings out of the queue.
    async fn rings(&self) {
        let mut events = [0; 4096];
        if self.0.readable().await.is_err() {
            return std::future::pending().await;
        }
        while self.0.try_read(&mut events).is_ok_and(|it| it > 0) {}
    }
}

#[cfg(not(target_os = "linux"))]
enum Bell {}

#[cfg(not(target_os = "linux"))]
impl Bell {
    fn of(_: &File) -> Option<Self> {
        None
    }

    async fn rings(&self) {
        match *self {}
    }
}
