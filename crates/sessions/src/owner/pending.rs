//! Operations that were taken up: begun once, and given one result.

use std::sync::Arc;

use kit::{Fault, Kind};
use runtime::SandboxMode;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::Core;
use crate::{
    event::Event,
    fault::{Failure, Outcome},
    operation::Operation,
    records::records,
};

/// An operation that the loop of the session is to do, in its order. Dropped without a [`finish`](Self::finish) it is left for
/// whoever owns the session next.
pub struct Pending {
    pub(super) core: Arc<Core>,
    pub(super) key: String,
    pub(super) by: String,
    pub(super) operation: Operation,
    pub(super) life: Life,
    /// The plan in its row, once it was begun.
    pub(super) plan: Option<Value>,
    pub(super) result: watch::Sender<Option<Outcome>>,
}

/// The owner went before there was a result: under the same key it can be asked for again.
#[derive(Debug)]
pub(crate) struct GivenUp;

/// How far an operation came in the lives of earlier owners.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    /// It is new.
    New,
    /// It was begun, and the log has nothing of it.
    Begun,
    /// It was begun, and the log has its beginning alone.
    Logged,
}

impl Pending {
    /// Returns the operation.
    pub fn operation(&self) -> &Operation {
        &self.operation
    }

    /// Its idempotency key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the actor that requested it.
    pub fn by(&self) -> &str {
        &self.by
    }

    /// Returns whether an owner that died began it, so that the log has its beginning.
    pub fn is_resumed(&self) -> bool {
        self.life == Life::Logged
    }

    /// Returns whether it was cancelled while it waited.
    pub fn is_cancelled(&self) -> bool {
        self.core.cancelled.lock().contains(&self.key)
    }

    /// Returns whether an owner that died began it: it may be done.
    pub fn was_begun(&self) -> bool {
        self.life != Life::New
    }

    /// Returns what its row says that it does, once it was begun.
    pub fn plan(&self) -> Option<&Value> {
        self.plan.as_ref()
    }

    /// Does the same as [`begin`](Self::begin), and notes with it what the operation is about to do, for the owner that may
    /// have to go on with it. Where an owner that died noted that, its plan stands.
    ///
    /// # Errors
    /// When that can't be written.
    pub async fn begin_with(&mut self, plan: Option<Value>) -> Result<bool, Fault> {
        let (Life::New, Some(plan)) = (self.life, plan) else { return self.begin().await };
        self.plan = Some(plan.clone());
        let (core, session) = (&self.core, self.core.feed.session());
        core.store.operations().begin_with(session, &self.key, core.epoch, plan).await
    }

    /// Notes that it begins now. Nothing is to be done where this gives false: it has a result, or another owner began it.
    ///
    /// # Errors
    /// When that can't be written.
    pub async fn begin(&self) -> Result<bool, Fault> {
        if self.life != Life::New {
            return Ok(true);
        }
        self.core.store.operations().begin(self.core.feed.session(), &self.key, self.core.epoch).await
    }

    /// Gives it its result, once that is on the disk.
    pub async fn finish(self, result: Result<Value, Fault>) {
        let outcome = Outcome::of(&result);
        let (core, session) = (&self.core, self.core.feed.session());
        if let Err(fault) = core.store.operations().finish(session, &self.key, json!(outcome)).await {
            tracing::warn!(%fault, "the result of an operation is not kept");
        }
        self.told(outcome);
    }

    /// Somebody else began it: its result is what they wrote down.
    pub async fn already_done(self) {
        let found = self.core.store.operations().get(self.core.feed.session(), &self.key);
        let known = found.ok().flatten().and_then(|it| it.result);
        let outcome = known.and_then(|it| serde_json::from_str(&it).ok()).unwrap_or_else(|| {
            Outcome::Fault(Failure::from(&Fault::new(Kind::Unavailable, "another process does this")))
        });
        self.told(outcome);
    }

    fn told(&self, outcome: Outcome) {
        self.core.results.lock().remove(&self.key);
        self.core.cancelled.lock().remove(&self.key);
        self.result.send_replace(Some(outcome));
    }

    /// Does what needs no agent.
    pub(super) async fn at_once(self) {
        match self.begin().await {
            Ok(true) => {}
            Ok(false) => return self.already_done().await,
            Err(fault) => return self.finish(Err(fault)).await,
        }
        let (hub, by) = (&self.core.hub, &self.by);
        let result = match &self.operation {
            Operation::Approve { id, hash, decision, words } => hub
                .decide(id, hash, *decision, words.clone(), by)
                .map(|()| json!({"decision": decision, "by": by})),
            Operation::Answer { id, text } => hub.reply(id, text.clone(), by).map(|()| json!({"by": by})),
            Operation::Cancel { prompt } => Ok(json!({"cancelled": self.core.cancel(prompt.as_deref())})),
            Operation::Rename { title } => self.keep(Event::Renamed { title: title.clone() }).await,
            Operation::Archive { archived } => self.keep(Event::Archived { archived: *archived }).await,
            Operation::Sandbox { mode } => self.choose_sandbox(*mode),
            other => Err(Fault::bug(format!("{other:?} needs the agent"))),
        };
        self.finish(result).await;
    }

    fn choose_sandbox(&self, mode: SandboxMode) -> Result<Value, Fault> {
        let ended =
            || Fault::new(Kind::Unavailable, "the session has ended").next("Ask again: it is opened anew.");
        let session = self.core.session.get().ok_or_else(ended)?;
        session.choose_sandbox(mode)?;
        let sandbox = session.sandbox();
        self.core.log.add(Event::SandboxChosen { sandbox, by: self.by.clone() });
        Ok(json!({"sandbox": sandbox}))
    }

    /// Keeps a title or an archiving, and adds its event.
    pub(crate) async fn keep(&self, event: Event) -> Result<Value, Fault> {
        let records = records(self.core.records.as_ref())?.clone();
        let (session, kept) = (self.core.feed.session().to_owned(), event.clone());
        let keeping = tokio::task::spawn_blocking(move || match &kept {
            Event::Renamed { title } => records.rename(&session, title),
            Event::Archived { archived } => records.archive(&session, *archived),
            _ => Ok(()),
        });
        keeping.await.map_err(|error| Fault::bug(format!("a title was not kept: {error}")))??;
        self.core.log.add(event);
        Ok(Value::Null)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.core.results.lock().remove(&self.key);
    }
}
