//! SSH connection pool: one connection per route, ended when it is idle.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};

use kit::{Cx, Fault, Kind};
use parking_lot::Mutex;
use russh::{Channel, client::Msg};
use tokio::time::{sleep, timeout};

use super::{
    client::{Connection, Use, words},
    destination::Route,
};

/// Time after which an unused connection is ended.
const IDLE: Duration = Duration::from_secs(300);

/// Time limit for opening a channel, after which the connection counts as lost.
const TO_OPEN: Duration = Duration::from_secs(10);

/// The connections of a session, by route. They end with it.
#[derive(Default)]
pub(super) struct Pool {
    kept: Mutex<HashMap<Route, Slot>>,
}

/// One connection, which is perhaps being made: other calls wait for it.
type Slot = Arc<tokio::sync::Mutex<Option<Arc<Connection>>>>;

/// A channel, and its connection.
pub(super) struct Open {
    pub(super) channel: Channel<Msg>,
    pub(super) connection: Arc<Connection>,
    pub(super) held: Use,
    /// Notes about the connection.
    pub(super) notes: Vec<String>,
}

impl Pool {
    /// Opens a channel on the existing connection, or on a new one. No command was sent before.
    pub(super) async fn channel(cx: &Cx, route: &Route) -> Result<Open, Fault> {
        let pool = cx.shelf().get::<Self>();
        let slot = pool.kept.lock().entry(route.clone()).or_default().clone();
        let mut kept = slot.lock().await;
        let mut others_use_it = false;
        if let Some(connection) = kept.clone().filter(|it| !it.is_closed()) {
            let held = connection.hold();
            match timeout(TO_OPEN, connection.channel()).await {
                Ok(Ok(channel)) => return Ok(Open { channel, connection, held, notes: Vec::new() }),
                // It works, but accepts no more channels: this call gets a connection of its own.
                Ok(Err(russh::Error::ChannelOpenFailure(_))) => others_use_it = true,
                Ok(Err(_)) | Err(_) => {}
            }
        }
        if !others_use_it {
            *kept = None;
        }
        let (connection, notes) = Connection::open(cx, route).await?;
        let connection = Arc::new(connection);
        let held = connection.hold();
        let channel = match timeout(TO_OPEN, connection.channel()).await {
            Ok(Ok(channel)) => channel,
            Ok(Err(error)) => {
                let what =
                    format!("{} lets us in, and opens no channel: {}", connection.place, words(&error));
                return Err(Fault::new(Kind::Unavailable, what));
            }
            Err(_) => {
                let what = format!(
                    "{} lets us in, and opens no channel within {} s",
                    connection.place,
                    TO_OPEN.as_secs()
                );
                return Err(Fault::new(Kind::Timeout, what));
            }
        };
        if !others_use_it {
            *kept = Some(connection.clone());
            tokio::spawn(end_when_idle(Arc::downgrade(&slot), Arc::downgrade(&connection)));
        }
        Ok(Open { channel, connection, held, notes })
    }
}

/// Ends a connection once it is idle or lost.
async fn end_when_idle(
    slot: Weak<tokio::sync::Mutex<Option<Arc<Connection>>>>,
    connection: Weak<Connection>,
) {
    let mut wait = IDLE;
    loop {
        sleep(wait).await;
        let (Some(slot), Some(connection)) = (slot.upgrade(), connection.upgrade()) else { return };
        // No call can begin to use it while this lock is held.
        let mut kept = slot.lock().await;
        match connection.idle() {
            Some(idle) if idle >= IDLE || connection.is_closed() => {
                if kept.as_ref().is_some_and(|it| Arc::ptr_eq(it, &connection)) {
                    *kept = None;
                }
                connection.end().await;
                return;
            }
            Some(idle) => wait = IDLE.saturating_sub(idle),
            None => wait = IDLE,
        }
    }
}
