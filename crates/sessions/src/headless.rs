//! The loop of a session that no terminal runs: it owns the agent and takes operations one after the other.

use std::sync::Arc;

use agent::{Agent, Driver};
use serde_json::Value;

use crate::{
    command_outputs::CommandOutputs,
    doing::Doer,
    opener::{Opened, Opener},
    owner::{Began, Owner, Pending},
    records::Records,
};

/// The session that a loop runs.
struct Running {
    owner: Owner,
    agent: Agent,
    driver: Driver,
    opener: Arc<dyn Opener>,
    records: Option<Arc<dyn Records>>,
    outputs: CommandOutputs,
}

/// Runs a session until it is closed, or another process owns it.
pub(crate) async fn run(
    owner: Owner,
    opened: Opened,
    opener: Arc<dyn Opener>,
    records: Option<Arc<dyn Records>>,
) {
    let Opened { agent, driver, notes } = opened;
    notes.into_iter().for_each(|text| owner.log().add(agent::Event::Note { text }));
    let mut running = Running { owner, agent, driver, opener, records, outputs: CommandOutputs::default() };
    let closed = loop {
        let pending = tokio::select! {
            biased;
            pending = running.owner.next() => Some(pending),
            () = running.driver.woken(running.agent.session()) => None,
        };
        if running.owner.is_lost() {
            break None;
        }
        let closed = match pending {
            Some(pending) => running.take(pending).await,
            None => {
                running.wake().await;
                None
            }
        };
        if let Err(fault) = running.opener.keep(&running.agent) {
            tracing::warn!(%fault, "how the conversation stands is not kept");
        }
        running.owner.describe(&running.agent);
        running.owner.rest();
        if closed.is_some() {
            break closed;
        }
    };
    let Running { owner, agent, .. } = running;
    agent.session().end().await;
    let by = closed.as_ref().map_or("another process", Pending::by).to_owned();
    if let Err(fault) = owner.close(&by).await {
        tracing::warn!(%fault, "the end of the session is not in its log");
    }
    if let Some(closed) = closed {
        closed.finish(Ok(Value::Null)).await;
    }
    // Its lease goes last.
    drop(agent);
}

impl Running {
    /// Does an operation. Gives it back where it is to close the session.
    async fn take(&mut self, pending: Pending) -> Option<Pending> {
        let Self { owner, agent, driver, opener, records, outputs } = self;
        let (opener, records) = (&**opener, records.as_deref());
        Doer { owner, agent, driver, opener, records, outputs }.take(pending).await
    }

    /// A turn that a message of the inbox or the end of a job begins.
    async fn wake(&mut self) {
        let by = Driver::cause(self.agent.session()).to_owned();
        let turn = self.owner.begin_turn(&self.agent, Began { by, ..Began::default() });
        let cancel = turn.cancel().clone();
        let result = self.driver.wake(&mut self.agent, &cancel).await;
        turn.end(&result);
    }
}
