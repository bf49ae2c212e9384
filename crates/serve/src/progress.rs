//! How does a client hear how far a call has come?

use std::time::Duration;

use kit::services::Progress;
use rmcp::{
    RoleServer,
    model::{ProgressNotificationParam, ProgressToken},
    service::Peer,
};
use tokio::{sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;

/// Not more often than this.
const PACE: Duration = Duration::from_millis(100);

/// Where a call reports its steps. Only the last one is kept.
pub(crate) struct Steps(watch::Sender<Option<Step>>);

#[derive(Clone)]
pub(crate) struct Step {
    done: f64,
    total: Option<f64>,
    message: String,
}

impl Steps {
    pub(crate) fn new() -> (Self, watch::Receiver<Option<Step>>) {
        let (sender, receiver) = watch::channel(None);
        (Self(sender), receiver)
    }
}

impl Progress for Steps {
    fn report(&self, done: f64, total: Option<f64>, message: &str) {
        self.0.send_replace(Some(Step { done, total, message: message.to_owned() }));
    }
}

/// Tells the client of each step that is further than the one before, at a bearable
/// pace, until the call is `over`. When this returns, nothing more is on its way.
pub(crate) async fn tell(
    mut steps: watch::Receiver<Option<Step>>,
    peer: &Peer<RoleServer>,
    token: ProgressToken,
    over: &CancellationToken,
) {
    let mut told = f64::NEG_INFINITY;
    loop {
        tokio::select! {
            biased;
            more = steps.changed() => if more.is_err() { return },
            () = over.cancelled() => return,
        }
        let step = steps.borrow_and_update().clone();
        // Not a number, or infinite, is nothing that JSON can say.
        if let Some(step) = step.filter(|step| step.done > told && step.done.is_finite()) {
            told = step.done;
            if peer.notify_progress(param(token.clone(), step)).await.is_err() {
                return;
            }
        }
        tokio::select! {
            () = sleep(PACE) => {}
            () = over.cancelled() => {}
        }
    }
}

fn param(token: ProgressToken, step: Step) -> ProgressNotificationParam {
    let mut param = ProgressNotificationParam::new(token, step.done);
    param.total = step.total.filter(|total| total.is_finite());
    param.message = Some(step.message).filter(|message| !message.is_empty());
    param
}
