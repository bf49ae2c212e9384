//! Watchers of a session: a cursor into its rows, and a wake-up when there are more.
//!
//! A watcher has no buffer: it reads committed rows when it wants them. So one that is slow costs nothing and slows nobody,
//! and one that reconnects goes on after the number that it had.

use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
};

use kit::Fault;
use parking_lot::Mutex;
use store::{EventRow, Store};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::{
    event::Row,
    log::{Shared, is_full, page},
};

/// Where the watchers of one session learn how far its log is, whoever runs it.
pub(crate) struct Feed {
    store: Store,
    session: Arc<str>,
    head: watch::Sender<u64>,
    /// The log, while this process owns the session.
    local: Mutex<Weak<Shared>>,
    /// Changes when the session is claimed here.
    pub(crate) claims: watch::Sender<u64>,
    /// The task that keeps the head up to date while another process owns the session.
    follows: Mutex<Option<AbortOnDropHandle<()>>>,
}

/// A watcher of a session.
pub struct Watcher {
    feed: Arc<Feed>,
    head: watch::Receiver<u64>,
    after: u64,
    page: VecDeque<EventRow>,
    /// All that there was on the disk was read: from now on the head says when to look again.
    has_looked: bool,
}

impl Feed {
    pub(crate) fn new(store: &Store, session: &str) -> Arc<Self> {
        Arc::new(Self {
            store: store.clone(),
            session: session.into(),
            head: watch::Sender::new(0),
            local: Mutex::default(),
            claims: watch::Sender::new(0),
            follows: Mutex::default(),
        })
    }

    pub(crate) fn session(&self) -> &str {
        &self.session
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// The sender of the head, for the log of an owner.
    pub(crate) fn head(&self) -> &watch::Sender<u64> {
        &self.head
    }

    /// This log is the session's from now on.
    pub(crate) fn is_local(&self, log: &Arc<Shared>) {
        *self.local.lock() = Arc::downgrade(log);
        self.claims.send_modify(|it| *it += 1);
    }

    /// This process no longer owns the session.
    pub(crate) fn is_gone(&self) {
        *self.local.lock() = Weak::new();
        self.claims.send_modify(|it| *it += 1);
    }

    /// Returns whether this process owns the session.
    pub(crate) fn has_log(&self) -> bool {
        self.local.lock().strong_count() > 0
    }

    /// Has this task follow the session while others own it. The first one stays.
    pub(crate) fn follow(&self, task: impl FnOnce() -> AbortOnDropHandle<()>) {
        self.follows.lock().get_or_insert_with(task);
    }

    /// Raises the head to this number, if it is higher.
    pub(crate) fn reached(&self, head: u64) {
        reached(&self.head, head);
    }

    /// A watcher that has all rows up to `after`.
    pub(crate) fn watch(self: &Arc<Self>, after: u64) -> Watcher {
        let head = self.head.subscribe();
        Watcher { feed: self.clone(), head, after, page: VecDeque::new(), has_looked: false }
    }
}

/// Raises a head to this number and wakes its watchers, if it is higher.
pub(crate) fn reached(head: &watch::Sender<u64>, now: u64) {
    head.send_if_modified(|it| {
        let is_more = now > *it;
        *it = now.max(*it);
        is_more
    });
}

impl Watcher {
    /// The number of the last row that was given; the `after` of whoever goes on from here.
    pub fn after(&self) -> u64 {
        self.after
    }

    /// The session.
    pub fn session(&self) -> &str {
        self.feed.session()
    }

    /// The next row, once there is one. Dropping the future loses nothing.
    ///
    /// # Errors
    /// When the rows can't be read. Asked again it tries again.
    pub async fn next(&mut self) -> Result<Row, Fault> {
        loop {
            if let Some(row) = self.ready()? {
                return Ok(row);
            }
            if self.read().await? == 0 {
                // The feed has the sender, so there is always another change to wait for.
                drop(self.head.changed().await);
            }
        }
    }

    /// The next row, where there is one by now.
    ///
    /// # Errors
    /// Those of [`next`](Self::next).
    pub async fn try_next(&mut self) -> Result<Option<Row>, Fault> {
        if self.page.is_empty() {
            self.read().await?;
        }
        self.ready()
    }

    fn ready(&mut self) -> Result<Option<Row>, Fault> {
        let Some(stored) = self.page.pop_front() else { return Ok(None) };
        self.after = stored.seq;
        Row::read(&stored).map(Some)
    }

    /// Reads the next page. Gives how many rows there are.
    async fn read(&mut self) -> Result<usize, Fault> {
        // Seen before it is read: what is committed meanwhile wakes this watcher again.
        let head = *self.head.borrow_and_update();
        if self.has_looked && head <= self.after {
            return Ok(0);
        }
        let local = self.feed.local.lock().upgrade();
        let newest = local.and_then(|it| it.newest(self.after));
        let rows = match newest {
            Some(rows) => rows,
            None => {
                let (events, session, after) =
                    (self.feed.store.events(), self.feed.session.clone(), self.after);
                // Whoever runs the agent must not wait for the disk.
                tokio::task::spawn_blocking(move || page(&events, &session, after))
                    .await
                    .map_err(|error| Fault::bug(format!("the events were not read: {error}")))??
            }
        };
        // Of a full page nobody knows whether it was the last.
        self.has_looked = !is_full(&rows);
        if let Some(last) = rows.last() {
            self.feed.reached(last.seq);
        }
        self.page = rows.into();
        Ok(self.page.len())
    }
}
