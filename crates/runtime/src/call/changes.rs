//! Changes of a call's commands: settled when the last process that can make one has ended.

use std::{sync::Arc, time::Duration};

use kit::Fault;
use store::{Store, changes::Landed};
use tokio::time::timeout;

use crate::session_state::SessionState;

/// How long a call waits for its processes before it answers. Those of a direct command have ended by then.
const SOON: Duration = Duration::from_millis(100);

/// Notes the state in which a call's commands left their files, and adds those files to the changes of the call. If
/// processes of it go on, that is done when they end.
pub(super) async fn settle(session: &Arc<SessionState>, call: &str, landed: &Arc<Landed>) {
    let (store, id) = (session.store().clone(), call.to_owned());
    let tracked = session.runtime().tracks().call(call);
    if timeout(SOON, tracked.settled()).await.is_err() {
        tokio::spawn(async move {
            tracked.settled().await;
            let done = tokio::task::spawn_blocking(move || store.tracked().settle(&id, false)).await;
            if let Ok(Err(fault)) = done {
                tracing::warn!("what a command left is not known: {fault}");
            }
        });
        return;
    }
    // Most calls start no command, or one that changes nothing.
    if !session.runtime().tracks().folder_of(call).exists() {
        return;
    }
    let landed = landed.clone();
    let done = tokio::task::spawn_blocking(move || show(&store, &id, &landed)).await;
    if let Ok(Err(fault)) = done {
        tracing::warn!(call, "what a command left is not known: {fault}");
    }
}

fn show(store: &Store, call: &str, landed: &Landed) -> Result<(), Fault> {
    let tracked = store.tracked();
    // A change that was put back as too much does not count.
    if tracked.settle(call, false)?.is_some() && !tracked.is_undone(call)? {
        landed.extend(tracked.versions(call)?);
    }
    Ok(())
}
