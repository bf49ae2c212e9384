//! Following a session that another process owns: by its socket, or by looking at the disk.

use std::{
    path::PathBuf,
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::{sync::watch, time::sleep};

use crate::{client, watcher::Feed};

/// The interval between reads of the disk while no owner can be reached.
const LOOK: Duration = Duration::from_millis(100);

/// Keeps the feed's head up to date while this process does not own the session. It ends with the feed.
pub(super) async fn follow(
    feed: Weak<Feed>,
    folder: PathBuf,
    mut claims: watch::Receiver<u64>,
    attends: bool,
) {
    loop {
        claims.borrow_and_update();
        // Held for a moment only: the feed goes when nobody watches.
        let Some(this) = feed.upgrade() else { return };
        if this.has_log() {
            drop(this);
            if claims.changed().await.is_err() {
                return;
            }
            continue;
        }
        let (owner, session, head) = look(&this).await;
        drop(this);
        if let Some((socket, own)) = owner
            && socket != own
        {
            tokio::select! {
                _ = client::follow(&folder, &socket, &session, &head, attends) => {}
                _ = claims.changed() => continue,
            }
        }
        tokio::select! {
            () = sleep(LOOK) => {}
            _ = claims.changed() => {}
        }
    }
}

/// Returns the sockets of the session's owner and of this process, the session, and its head, raised to that on the disk.
async fn look(feed: &Arc<Feed>) -> (Option<(String, String)>, String, watch::Sender<u64>) {
    let (store, session, head) = (feed.store().clone(), feed.session().to_owned(), feed.head().clone());
    let name = session.clone();
    let found = tokio::task::spawn_blocking(move || {
        let owner = store.owners().get(&name).ok().flatten();
        let socket = owner.and_then(|it| it.socket).map(|it| (it, store.instance().to_owned()));
        (socket, store.events().head(&name).ok())
    });
    let (socket, known) = found.await.unwrap_or_default();
    known.iter().for_each(|it| feed.reached(*it));
    (socket, session, head)
}
