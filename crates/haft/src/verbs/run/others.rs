//! Operations that attached people asked for while `haft run` worked on its task: done before it ends.
//!
//! The process that runs the session holds its jobs and its agent, so it does what was asked of it. Its output and its exit
//! code stay those of the task.

use agent::{Agent, Driver};
use kit::Fault;
use serde_json::Value;
use sessions::{CommandOutputs, Doer, Opener, Owner, Records};
use tokio_util::sync::CancellationToken;

/// The session of a run, after its task.
pub(super) struct Others<'a> {
    pub(super) owner: &'a mut Owner,
    pub(super) agent: &'a mut Agent,
    pub(super) driver: &'a mut Driver,
    pub(super) opener: &'a dyn Opener,
    pub(super) records: &'a dyn Records,
}

impl Others<'_> {
    /// Does the operations that wait, and those that come meanwhile. What is left when `cancel` is triggered, or the session is
    /// closed, is for its next owner.
    ///
    /// # Errors
    /// When the state of the conversation can't be saved.
    pub(super) async fn work(self, cancel: &CancellationToken) -> Result<(), Fault> {
        let Self { owner, agent, driver, opener, records } = self;
        let mut outputs = CommandOutputs::default();
        // The form of the answer is that of the task.
        agent.set_format(None);
        while !cancel.is_cancelled()
            && let Some(pending) = owner.try_next()
        {
            let closed = {
                let (session, outputs) = (&*owner, &mut outputs);
                let mut doer =
                    Doer { owner: session, agent, driver, opener, records: Some(records), outputs };
                let work = doer.take(pending);
                tokio::pin!(work);
                tokio::select! {
                    biased;
                    closed = &mut work => closed,
                    () = cancel.cancelled() => {
                        session.cancel();
                        work.await
                    }
                }
            };
            opener.keep(agent)?;
            owner.describe(agent);
            if let Some(closed) = closed {
                closed.finish(Ok(Value::Null)).await;
                break;
            }
        }
        Ok(())
    }
}
