//! Notifications to holders that somebody else changed their record: a cancellation, or a takeover.
//!
//! They are messages of core NATS, which stores none. One that is lost comes late: a holder also loads its record now and then.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use async_nats::{Client, Subscriber};
use futures_util::StreamExt as _;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::{Follower, unreachable};
use crate::Result;

const SUBJECT: &str = "haft.notice";

/// The notifications that this process received.
pub(super) struct Notices {
    state: Arc<State>,
    _follower: Follower,
}

struct State {
    /// The records that notifications named, and when the last one came.
    named: Mutex<HashMap<String, Instant>>,
    changes: watch::Sender<u64>,
    /// How long a notification is of interest.
    lasts: Duration,
}

/// Notifies the holder of this record.
pub(super) async fn notify(client: &Client, id: &str) -> Result<()> {
    client.publish(format!("{SUBJECT}.{id}"), "".into()).await.map_err(unreachable)?;
    // The process may end now.
    client.flush().await.map_err(unreachable)
}

async fn subscribe(client: &Client) -> Result<Subscriber> {
    let subscriber = client.subscribe(format!("{SUBJECT}.*")).await.map_err(unreachable)?;
    client.flush().await.map_err(unreachable)?;
    Ok(subscriber)
}

impl Notices {
    pub(super) async fn start(client: &Client, lease: Duration) -> Result<Self> {
        let state =
            Arc::new(State { named: Mutex::default(), changes: watch::channel(0).0, lasts: lease * 2 });
        // Its notifications count from now on.
        let mut first = Some(subscribe(client).await?);
        let (followed, client) = (Arc::clone(&state), client.clone());
        let follower = Follower::start("notifications", move || {
            follow(Arc::clone(&followed), client.clone(), first.take())
        });
        Ok(Self { state, _follower: follower })
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.state.changes.subscribe()
    }

    /// Returns whether a notification named this record not long ago.
    pub(super) fn has(&self, id: &str) -> bool {
        self.state.named.lock().contains_key(id)
    }
}

async fn follow(state: Arc<State>, client: Client, subscriber: Option<Subscriber>) -> Result<()> {
    let mut notices = match subscriber {
        Some(subscriber) => subscriber,
        None => subscribe(&client).await?,
    };
    while let Some(notice) = notices.next().await {
        if let Some(id) = notice.subject.rsplit('.').next() {
            let mut named = state.named.lock();
            named.retain(|_, since| since.elapsed() < state.lasts);
            named.insert(id.to_owned(), Instant::now());
        }
        state.changes.send_modify(|it| *it = it.wrapping_add(1));
    }
    Ok(())
}
