//! Control of a group from other processes: rows with idempotency keys, which the process that runs the group takes up.

use std::{sync::Weak, time::Duration};

use kit::{
    Fault, Kind,
    services::{GroupAct, LifeChange},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sessions::Sessions;
use store::{Noted, Store};
use tokio::time::{Instant, sleep, timeout};

use super::{Inner, blocking, event, lease_name};

/// The first pause before the result of a request is looked for; each is twice as long as the one before.
const RESULT: Duration = Duration::from_millis(2);

/// The longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// How often requests are looked for that nobody could announce: the sockets of sessions can't be reached.
const UNANNOUNCED: Duration = Duration::from_secs(2);

/// How long the process that runs the group may take for one.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A request of another process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "operation", rename_all = "snake_case")]
pub enum Request {
    /// Holds the turns of a member, or of all.
    GroupPause {
        /// The member.
        member: Option<String>,
    },
    /// Lets a member, or all, go on; one that is stopped starts again.
    GroupResume {
        /// The member.
        member: Option<String>,
    },
    /// Stops a member, or the whole group.
    GroupStop {
        /// The member.
        member: Option<String>,
        /// Whether it is killed.
        kill: bool,
    },
}

/// Asks the process that runs a group for something, and wakes it by the socket of a member's session. The same key twice is
/// done once, with one result.
///
/// # Errors
/// [`Kind::Unavailable`] when nobody runs the group or it does not answer, and those of the request.
pub async fn request(
    store: &Store,
    sessions: &Sessions,
    group: &str,
    key: &str,
    by: &str,
    request: &Request,
) -> Result<Value, Fault> {
    let name = lease_name(group);
    if let Ok(lease) = store.transcripts().hold(&name) {
        drop(lease);
        return Err(Fault::new(Kind::Unavailable, format!("no process runs the group `{group}`"))
            .next(format!("`haft group run --resume {group}` goes on with it.")));
    }
    let noted = store.operations().note(&name, key, by, json!(request)).await?;
    if noted == Noted::Taken {
        return Err(Fault::bad_args(format!("the key `{key}` belongs to another request")));
    }
    announce(store, sessions, group).await?;
    let until = Instant::now() + TIMEOUT;
    let mut pause = RESULT;
    loop {
        let (operations, session, of) = (store.operations(), name.clone(), key.to_owned());
        let found = blocking(move || operations.get(&session, &of)).await?;
        if let Some(result) = found.and_then(|it| it.result) {
            let result: Value = serde_json::from_str(&result).unwrap_or_default();
            return match result.get("fault").and_then(Value::as_str) {
                Some(fault) => Err(Fault::new(Kind::Failed, fault)),
                None => Ok(result.get("ok").cloned().unwrap_or_default()),
            };
        }
        if Instant::now() >= until {
            let what = format!("the process that runs the group `{group}` does not answer");
            return Err(Fault::new(Kind::Timeout, what));
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Wakes the process that runs a group: all its sessions have one socket.
async fn announce(store: &Store, sessions: &Sessions, group: &str) -> Result<(), Fault> {
    let (groups, name) = (store.groups(), group.to_owned());
    let members = blocking(move || groups.shape(&name)).await?.members;
    if let Some(member) = members.iter().find(|it| it.running) {
        sessions.tell_of_message(&member.session, &lease_name(group)).await;
    }
    Ok(())
}

/// Takes requests up, as long as the group is there.
pub(super) async fn take_up(inner: Weak<Inner>) {
    let mut after = 0;
    let Some(mut announced) = inner.upgrade().map(|it| it.store.inbox().arrivals(&lease_name(&it.name)))
    else {
        return;
    };
    loop {
        drop(timeout(UNANNOUNCED, announced.changed()).await);
        announced.borrow_and_update();
        let Some(inner) = inner.upgrade() else { return };
        let (operations, name) = (inner.store.operations(), lease_name(&inner.name));
        let Ok(open) = blocking(move || operations.open(after)).await else { continue };
        for row in open {
            after = after.max(row.id);
            if row.session != name {
                continue;
            }
            // One that an earlier process began is done again: each of them may be.
            if row.begun.is_none() && inner.store.operations().begin(&name, &row.key, 1).await.is_err() {
                continue;
            }
            let result = match serde_json::from_str::<Request>(&row.body) {
                Ok(request) => inner.take(request, &row.by).await,
                Err(error) => Err(Fault::bad_args(format!("this haft does not know the request: {error}"))),
            };
            let result = match result {
                Ok(value) => json!({"ok": value}),
                Err(fault) => json!({"fault": fault.as_text()}),
            };
            if let Err(fault) = inner.store.operations().finish(&name, &row.key, result).await {
                tracing::warn!(%fault, "a request to the group has no result");
            }
        }
    }
}

impl Inner {
    async fn take(self: &std::sync::Arc<Self>, request: Request, by: &str) -> Result<Value, Fault> {
        self.note(vec![event("requested", None, json!({"request": request, "by": by}))]).await?;
        let life = |member: String, change| GroupAct::Life { member, change };
        match request {
            Request::GroupPause { member: Some(member) } => {
                self.act(None, life(member, LifeChange::Pause)).await
            }
            Request::GroupPause { member: None } => {
                let mut paused = Vec::new();
                for id in self.ids(|it| it.running && !it.standing.paused) {
                    self.act(None, life(id.clone(), LifeChange::Pause)).await?;
                    paused.push(id);
                }
                Ok(json!({"paused": paused}))
            }
            Request::GroupResume { member } => {
                let ids = match member {
                    Some(member) => vec![self.resolve(None, &member)?],
                    None => self.ids(|it| it.standing.paused || !it.running || it.is_down),
                };
                for id in &ids {
                    let (running, paused) = {
                        let state = self.state.lock();
                        let live = state.live.get(id);
                        live.map_or((true, false), |it| (it.running && !it.is_down, it.standing.paused))
                    };
                    if paused {
                        self.act(None, life(id.clone(), LifeChange::Resume)).await?;
                    }
                    if !running {
                        self.act(None, life(id.clone(), LifeChange::Start)).await?;
                    }
                }
                Ok(json!({"resumed": ids}))
            }
            Request::GroupStop { member: Some(member), kill } => {
                let change = if kill { LifeChange::Kill } else { LifeChange::Stop };
                self.act(None, life(member, change)).await
            }
            Request::GroupStop { member: None, .. } => {
                self.state.lock().is_stopped = true;
                self.touch();
                Ok(json!({"stopped": self.name}))
            }
        }
    }

    fn ids(&self, is_it: impl Fn(&super::state::Live) -> bool) -> Vec<String> {
        self.state.lock().live.iter().filter(|it| is_it(it.1)).map(|it| it.0.clone()).collect()
    }
}
