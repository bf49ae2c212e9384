//! Changes of a call's commands: settled when the last process that can make one has ended.

use std::{sync::Arc, time::Duration};

use kit::Fault;
use store::{Store, changes::Landed};
use tokio::time::timeout;

use crate::session_state::SessionState;

/// Time that a call waits for its last processes before it answers. Those of a direct command have ended by then.
const SOON: Duration = Duration::from_millis(100);

/// The same, where it is checked what the command deleted.
const CHECKED: Duration = Duration::from_millis(500);

/// The end of a call that changed something through its processes.
pub(super) struct End {
    session: Arc<SessionState>,
    call: String,
    /// Whether a process still lives that may change something.
    goes_on: bool,
    /// Whether the state in which the call left its files is noted already.
    pub(super) is_settled: bool,
}

/// The wait for the last processes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    /// None: what they change from now on belongs to another call.
    Not,
    Soon,
    /// For a call that is checked.
    Checked,
}

/// Waits for the last processes of a call, but not for long: what it leaves in the background is not waited for.
/// Returns `None` if there is nothing to settle.
pub(super) async fn end(session: &Arc<SessionState>, call: &str, wait: Wait) -> Option<End> {
    let tracks = session.runtime().tracks();
    let tracked = tracks.take_begun(call)?;
    let goes_on = match wait {
        Wait::Not => false,
        Wait::Soon => timeout(SOON, tracked.settled()).await.is_err(),
        Wait::Checked => timeout(CHECKED, tracked.settled()).await.is_err(),
    };
    // Most commands change nothing.
    (goes_on || tracks.folder_of(call).exists()).then(|| End {
        session: session.clone(),
        call: call.to_owned(),
        goes_on,
        is_settled: false,
    })
}

impl End {
    /// Notes the state in which the commands left their files, unless that is done, and adds those files to the
    /// changes of the call. If processes of it go on, the state is noted when they end.
    pub(super) async fn show(self, landed: &Arc<Landed>) {
        let Self { session, call, goes_on, is_settled } = self;
        let store = session.store().clone();
        if goes_on {
            let tracked = session.runtime().tracks().call(&call);
            tokio::spawn(async move {
                tracked.settled().await;
                let done = tokio::task::spawn_blocking(move || store.tracked().settle(&call, false)).await;
                if let Ok(Err(fault)) = done {
                    tracing::warn!("the state in which a command left its files is not known: {fault}");
                }
            });
            return;
        }
        let landed = landed.clone();
        let done = tokio::task::spawn_blocking(move || show(&store, &call, is_settled, &landed)).await;
        if let Ok(Err(fault)) = done {
            tracing::warn!("the state in which a command left its files is not known: {fault}");
        }
    }
}

fn show(store: &Store, call: &str, is_settled: bool, landed: &Landed) -> Result<(), Fault> {
    let tracked = store.tracked();
    // A change that was put back as too much does not count.
    if (is_settled || tracked.settle(call, false)?.is_some()) && !tracked.is_undone(call)? {
        landed.extend(tracked.versions(call)?);
    }
    Ok(())
}
