//! A handle on a session: the same wherever the session runs.

use std::{sync::Arc, time::Duration};

use kit::Fault;
use serde_json::Value;
use tokio::time::{Instant, sleep};
use tokio_util::task::AbortOnDropHandle;

use super::{Reached, Sessions, blocking, follow};
use crate::{
    client,
    event::Row,
    fault::Outcome,
    hub::Attendance,
    operation::Operation,
    owner::{State, note},
    watcher::{Feed, Watcher},
};

/// How often a result is looked for that comes as a row.
const LOOK: Duration = Duration::from_millis(50);

/// How often it is looked again who owns the session meanwhile.
const AGAIN: Duration = Duration::from_secs(1);

/// Checks whether an operation may be done, before a handle does it.
pub type Guard = Arc<dyn Fn(&Operation) -> Result<(), Fault> + Send + Sync>;

/// A front end's access to a session. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    sessions: Sessions,
    feed: Arc<Feed>,
    who: Arc<str>,
    guard: Option<Guard>,
}

/// Somebody attends a session as long as this is held, whoever runs it.
pub struct Attending {
    _here: Option<Attendance>,
    _there: AbortOnDropHandle<()>,
}

impl Handle {
    pub(super) fn new(sessions: Sessions, feed: Arc<Feed>, who: &str) -> Self {
        Self { sessions, feed, who: who.into(), guard: None }
    }

    /// Returns a handle that does only what the guard lets it do.
    #[must_use]
    pub fn guarded(self, guard: Guard) -> Self {
        Self { guard: Some(guard), ..self }
    }

    /// Checks whether this handle may do an operation.
    ///
    /// # Errors
    /// Those of its guard.
    pub fn check(&self, operation: &Operation) -> Result<(), Fault> {
        self.guard.as_ref().map_or(Ok(()), |it| it(operation))
    }

    /// The session's name.
    pub fn session(&self) -> &str {
        self.feed.session()
    }

    /// Returns all rows of the session.
    ///
    /// # Errors
    /// When they can't be read.
    pub async fn export(&self) -> Result<Vec<Row>, Fault> {
        self.sessions.export(self.session()).await
    }

    /// A watcher that has all rows up to `after`; 0 for all there are. It goes on when another process takes the session over.
    pub fn watch(&self, after: u64) -> Watcher {
        self.feed.watch(after)
    }

    /// Does an operation under an idempotency key, and gives its result. Asked for again under the same key, also by another
    /// process, it is done once. Where the owner dies meanwhile, this process takes the session over, and the operation up.
    /// Dropping the future does not take the operation back. What an owner was asked for before it was suspended is done once it
    /// goes on.
    ///
    /// # Errors
    /// Those of the operation; [`Kind::BadArgs`](kit::Kind::BadArgs) when the key is another operation's; and when nobody can
    /// run the session, or its owner is suspended.
    pub async fn act(&self, key: &str, operation: Operation) -> Result<Value, Fault> {
        self.check(&operation)?;
        let (sessions, session) = (&self.sessions, self.session());
        loop {
            let reached = match sessions.reach(session, Some(&self.who)).await {
                Ok(reached) => reached,
                Err(fault) => {
                    // A suspended owner stops its turn once it goes on: the request waits for it as a row.
                    if matches!(operation, Operation::Cancel { .. }) && self.suspended().await?.is_some() {
                        note(&sessions.inner.store, session, key, &self.who, &operation).await?;
                    }
                    return Err(fault);
                }
            };
            match reached {
                Reached::Here => {
                    let Some(core) = sessions.inner.owned.get(session) else { continue };
                    if let Ok(result) = core.act(key, &self.who, operation.clone()).await {
                        return result;
                    }
                }
                Reached::There(socket) => {
                    let whose = (key, &*self.who);
                    let folder = sessions.folder();
                    let asking = client::act(&folder, &socket, session, whose, &operation);
                    let done = tokio::select! {
                        done = asking => done,
                        fault = sessions.until_suspended(session) => return Err(fault),
                    };
                    if let Ok(result) = done {
                        return result;
                    }
                }
                Reached::ByRows => {
                    if let Some(result) = self.by_row(key, &operation).await? {
                        return result;
                    }
                }
            }
            // The owner went: who is next is found out in a moment.
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Has an operation done, and gives its result where it has one already. Once this returns, the operation is on the disk: it
    /// is done also if this process is killed, by whoever owns the session next. Its end is in the session's rows.
    ///
    /// # Errors
    /// When nobody can run the session, the key is another operation's, or the operation can't be written; and those of an
    /// operation that was done before.
    pub async fn post(&self, key: &str, operation: Operation) -> Result<Option<Value>, Fault> {
        self.check(&operation)?;
        self.sessions.reach(self.session(), Some(&self.who)).await?;
        let store = &self.sessions.inner.store;
        if let Some(result) = note(store, self.session(), key, &self.who, &operation).await? {
            return result.map(Some);
        }
        let (this, key) = (self.clone(), key.to_owned());
        tokio::spawn(async move {
            if let Err(fault) = this.act(&key, operation).await {
                // Quoted: a prompt may have escape codes in it.
                tracing::info!(fault = ?fault.as_text(), session = this.session(), "an operation failed");
            }
        });
        Ok(None)
    }

    /// How the session stands.
    ///
    /// # Errors
    /// When nobody runs it, or its owner can't be reached.
    pub async fn state(&self) -> Result<State, Fault> {
        let session = self.session();
        if let Some(state) = self.sessions.state_of(session).await? {
            return Ok(state);
        }
        if let Some(fault) = self.suspended().await? {
            return Err(fault);
        }
        let what = format!("the process that runs the session `{session}` can't be reached");
        Err(Fault::new(kit::Kind::Unavailable, what))
    }

    /// Returns the error of asking the session's owner, if it is suspended.
    async fn suspended(&self) -> Result<Option<Fault>, Fault> {
        let session = self.session();
        let Some(owner) = self.sessions.owner_of(session).await? else { return Ok(None) };
        Ok(self.sessions.suspended(session, &owner).await)
    }

    /// Somebody at this handle can be asked, until what this gives is dropped.
    pub fn attend(&self) -> Attending {
        let core = self.sessions.inner.owned.get(self.session());
        let here = core.map(|it| it.hub().attend());
        let claims = self.feed.claims.subscribe();
        let following = follow::follow(Arc::downgrade(&self.feed), self.sessions.folder(), claims, true);
        Attending { _here: here, _there: AbortOnDropHandle::new(tokio::spawn(following)) }
    }

    /// Asks by a row, which the owner takes up. Nothing, when it is time to look again who owns the session.
    async fn by_row(&self, key: &str, operation: &Operation) -> Result<Option<Result<Value, Fault>>, Fault> {
        let (store, session) = (&self.sessions.inner.store, self.session().to_owned());
        if let Some(result) = note(store, &session, key, &self.who, operation).await? {
            return Ok(Some(result));
        }
        let until = Instant::now() + AGAIN;
        while Instant::now() < until {
            sleep(LOOK).await;
            let (store, session, key) = (store.clone(), session.clone(), key.to_owned());
            let found = blocking(move || store.operations().get(&session, &key)).await?;
            if let Some(result) = found.and_then(|it| it.result) {
                let outcome: Outcome = serde_json::from_str(&result)
                    .map_err(|error| Fault::bug(format!("the result can't be read: {error}")))?;
                return Ok(Some(outcome.into_result()));
            }
        }
        Ok(None)
    }
}
