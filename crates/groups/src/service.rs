//! The service of one group: runs its members as sessions of this process, or in processes of their own, and carries their
//! outputs to each other.
//!
//! Everything that a member did is in the log of its session; what follows from a row of that log (messages by output wires,
//! reports, failures, use of the budget) is written in one transaction with the number of the row. So a process that is
//! killed at any point loses nothing of it and does nothing twice.

mod budget;
mod changes;
pub mod control;
mod exchanges;
mod life;
mod member_logs;
mod opening;
mod process;
mod state;

use std::{
    path::PathBuf,
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::future::join_all;
use kit::{
    Fault, Kind,
    services::{GroupAct, Groups, Soon},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use sessions::{Row, Sessions};
use store::{
    SessionLease, Store,
    groups::{GroupRecord, NewGroupEvent, Shape, Used},
};
use tokio::sync::{mpsc, watch};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    graph::{Topology, hex12},
    recipe::{Limits, Recipe, document::Places},
};
use budget::Budget;
pub(crate) use budget::Counter;
pub use budget::Meter;
pub use opening::{Maker, NewAgent};
pub(crate) use state::LiveAgent;
use state::State;

/// Interval at which the group is checked where nothing notifies of a change.
const LOOK: Duration = Duration::from_millis(250);

/// A group that this process runs. Cheap to clone; its members end with the last clone, or at [`close`](Self::close).
#[derive(Clone)]
pub struct Service {
    inner: Arc<Inner>,
}

/// Something that happened in the group, for whoever shows it.
#[derive(Debug, Clone)]
pub enum Seen {
    /// A row of a member's log.
    Row {
        /// The name of the member.
        member: String,
        /// Its session.
        session: String,
        /// The row.
        row: Arc<Row>,
    },
    /// An event of the group.
    Event {
        /// The name of the member that it is about.
        member: Option<String>,
        /// The event.
        event: NewGroupEvent,
    },
}

pub(crate) struct Inner {
    name: String,
    store: Store,
    sessions: Sessions,
    maker: Arc<dyn Maker>,
    places: Places,
    workspace: PathBuf,
    state: Mutex<State>,
    /// Held while the graph is changed.
    changing: tokio::sync::Mutex<()>,
    budget: Budget,
    /// Changes with everything that happens.
    changed: watch::Sender<u64>,
    shown: Mutex<Option<mpsc::UnboundedSender<Seen>>>,
    tasks: Mutex<Vec<AbortOnDropHandle<()>>>,
    _lease: SessionLease,
}

/// The parts of a service.
pub struct Parts {
    /// The store of the workspace.
    pub store: Store,
    /// Makes the agents.
    pub maker: Arc<dyn Maker>,
    /// The folders whose files configs may name.
    pub places: Places,
    /// The workspace.
    pub workspace: PathBuf,
    /// The front end of this process: `group`.
    pub by: String,
}

/// The outcome of [`Service::settled`].
#[derive(Debug, Clone, PartialEq)]
pub enum Settled {
    /// Nobody works and nothing waits.
    Quiet,
    /// A limit of the whole group was reached.
    Budget(String),
    /// All members that could go on are paused.
    Paused,
    /// It was stopped.
    Stopped,
    /// Nobody works and nothing waits, as the processes of these members ended, and no other member could be notified.
    Down(Vec<String>),
}

/// Returns the graphs of a group from its rows.
///
/// # Errors
/// When the rows don't fit together.
pub fn stored(shape: Shape) -> Result<Topology, Fault> {
    Ok(State::read(0, shape)?.topology)
}

/// Returns the name of the lease of a group, which is also where its control rows are.
pub(crate) fn lease_name(group: &str) -> String {
    format!("group {group}")
}

impl Service {
    /// Begins a group by a recipe. Nobody runs yet: see [`start`](Self::start).
    ///
    /// # Errors
    /// When names collide, or the store can't be written.
    pub async fn begin(parts: Parts, recipe: &Recipe, file: &str, limits: Limits) -> Result<Self, Fault> {
        let name = format!("{}-{}", slug(&recipe.name), hex12().get(..4).unwrap_or_default());
        let lease = parts.store.transcripts().hold(&lease_name(&name))?;
        let (topology, members) = recipe.graph().map_err(|error| Fault::bad_args(error.to_string()))?;
        let state = State::new(&name, topology, members);
        let limits = recipe.limits.clone().with(&limits);
        let record = GroupRecord {
            name: name.clone(),
            file: file.to_owned(),
            recipe: json!(recipe),
            limits: json!(limits),
            state: "running".to_owned(),
            generation: 1,
            created_ms: store::now_ms(),
            used: Used::default(),
        };
        let events =
            state.topology.names.keys().map(|id| event("creature_added", Some(id), json!({}))).collect();
        if parts.store.groups().add(record, state.shape(), events).await?.is_none() {
            return Err(Fault::bug(format!("there is a group `{name}` already")));
        }
        Ok(Self::of(parts, name, state, (limits, Used::default()), lease))
    }

    /// Goes on with a group whose process ended. Nobody runs yet: see [`start`](Self::start).
    ///
    /// # Errors
    /// [`Kind::NotFound`] when there is no such group, [`Kind::Unavailable`] when another process runs it.
    pub async fn resume(parts: Parts, name: &str, limits: Limits) -> Result<Self, Fault> {
        let (store, wanted) = (parts.store.clone(), name.to_owned());
        let found = blocking(move || {
            let record = store.groups().get(&wanted)?;
            let shape = store.groups().shape(&wanted)?;
            Ok(record.map(|it| (it, shape)))
        });
        let (record, shape) = found.await?.ok_or_else(|| {
            Fault::not_found(format!("this workspace has no group `{name}`"))
                .next("`haft group list` shows all.")
        })?;
        let lease = parts.store.transcripts().hold(&lease_name(name)).map_err(|_| {
            Fault::new(Kind::Unavailable, format!("another process runs the group `{name}`"))
                .next(format!("`haft group send {name} AGENT TEXT` reaches it."))
        })?;
        let before: Limits = serde_json::from_value(record.limits.clone()).unwrap_or_default();
        let limits = before.with(&limits);
        parts.store.groups().set_limits(name, &json!(limits)).await?;
        let state = State::read(record.generation, shape)?;
        let mut state = state;
        // Their turns were cut by the end of the group.
        if matches!(record.state.as_str(), "paused" | "stopped") {
            let store = parts.store.clone();
            state = blocking(move || state.with_cut_turns(&store)).await?;
        }
        Ok(Self::of(parts, name.to_owned(), state, (limits, record.used), lease))
    }

    fn of(
        parts: Parts,
        name: String,
        state: State,
        (limits, used): (Limits, Used),
        lease: SessionLease,
    ) -> Self {
        let Parts { store, maker, places, workspace, by } = parts;
        let inner = Arc::new_cyclic(|weak: &Weak<Inner>| Inner {
            sessions: Sessions::new(store.clone(), &by, Some(Arc::new(opening::Members(weak.clone())))),
            name,
            store,
            maker,
            places,
            workspace,
            state: Mutex::new(state),
            changing: tokio::sync::Mutex::default(),
            budget: Budget::new(limits, used),
            changed: watch::Sender::new(0),
            shown: Mutex::default(),
            tasks: Mutex::default(),
            _lease: lease,
        });
        Self { inner }
    }

    /// Returns the name of the group.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Returns the graphs of the group as they are now.
    pub fn topology(&self) -> Topology {
        self.inner.state.lock().topology.clone()
    }

    /// Returns the limits of the group and what it used, those of this process first.
    pub fn used(&self) -> (Limits, Used) {
        self.inner.budget.state()
    }

    /// Returns what happens from now on. Only the last caller gets it.
    pub fn watch(&self) -> mpsc::UnboundedReceiver<Seen> {
        let (sender, receiver) = mpsc::unbounded_channel();
        *self.inner.shown.lock() = Some(sender);
        receiver
    }

    /// Starts all members that are to run. One that can't be started is in state `error`, and its parent gets a message.
    ///
    /// # Errors
    /// When nobody can be started.
    pub async fn start(&self) -> Result<(), Fault> {
        let inner = &self.inner;
        {
            let mut tasks = inner.tasks.lock();
            tasks.push(AbortOnDropHandle::new(tokio::spawn(control::take_up(Arc::downgrade(inner)))));
            tasks.push(AbortOnDropHandle::new(tokio::spawn(budget::watch_over(Arc::downgrade(inner)))));
        }
        inner.store.groups().set_state(&inner.name, "running", vec![state_event("running", None)]).await?;
        let ids = inner.state.lock().to_run();
        let (mut fault, mut count) = (None, 0);
        for id in ids {
            match inner.start(&id).await {
                Ok(()) => {
                    count += 1;
                    inner.go_on(&id).await;
                }
                Err(error) => {
                    inner.failed(&id, &error.as_text()).await?;
                    fault.get_or_insert(error);
                }
            }
        }
        match (count, fault) {
            (0, Some(fault)) => Err(fault),
            _ => Ok(()),
        }
    }

    /// Resolves once it was asked to stop.
    pub async fn is_stopped(&self) {
        let mut changed = self.inner.changed.subscribe();
        while !self.inner.state.lock().is_stopped {
            if changed.changed().await.is_err() {
                return;
            }
        }
    }

    /// Gives a member a message of the person. The same key twice is one message.
    ///
    /// # Errors
    /// When there is no such member, or the message can't be stored.
    pub async fn say(&self, member: Option<&str>, text: &str, key: &str) -> Result<String, Fault> {
        self.inner.say(member, text, key).await
    }

    /// Does this in the name of the person.
    ///
    /// # Errors
    /// Those of the action.
    pub async fn act(&self, act: GroupAct) -> Result<Value, Fault> {
        self.inner.act(None, act).await
    }

    /// Waits until nobody works and nothing waits, or a limit is reached, or the group is stopped. With `after_change` it
    /// first waits for something to happen, or a moment.
    ///
    /// # Errors
    /// When the store can't be read.
    pub async fn settled(&self, after_change: bool) -> Result<Settled, Fault> {
        let inner = &self.inner;
        let mut changed = inner.changed.subscribe();
        if after_change {
            drop(tokio::time::timeout(LOOK, changed.changed()).await);
        }
        loop {
            changed.borrow_and_update();
            if let Some(limit) = inner.budget.exhausted() {
                return Ok(Settled::Budget(limit));
            }
            if inner.state.lock().is_stopped {
                return Ok(Settled::Stopped);
            }
            if inner.is_quiet().await? {
                let state = inner.state.lock();
                let down = state.unreported.iter().map(|it| state.topology.name(it).to_owned());
                return Ok(match down.collect::<Vec<_>>() {
                    _ if state.waiting_paused(&inner.store)? => Settled::Paused,
                    down if down.is_empty() => Settled::Quiet,
                    down => Settled::Down(down),
                });
            }
            tokio::select! {
                _ = changed.changed() => {}
                // Jobs, and messages of other processes, notify nobody here.
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }

    /// Ends all members; their sessions stay, and the group can be resumed. `state` is what it is in from now on.
    ///
    /// # Errors
    /// When the store can't be written.
    pub async fn close(&self, state: &str) -> Result<(), Fault> {
        let inner = &self.inner;
        let ids: Vec<String> = inner.state.lock().live.keys().cloned().collect();
        join_all(ids.iter().map(|id| inner.end(id))).await;
        inner.tasks.lock().clear();
        inner.store.groups().set_state(&inner.name, state, vec![state_event(state, None)]).await?;
        inner.store.flush().await
    }
}

impl Inner {
    /// Wakes whoever waits for a change.
    fn touch(&self) {
        self.changed.send_modify(|it| *it += 1);
    }

    fn show(&self, seen: Seen) {
        let mut shown = self.shown.lock();
        if shown.as_ref().is_some_and(|it| it.send(seen).is_err()) {
            *shown = None;
        }
    }

    /// Shows events that are on the disk.
    fn announce(&self, events: &[NewGroupEvent]) {
        for event in events {
            let member = event.member.as_deref().map(|id| self.state.lock().topology.name(id).to_owned());
            self.show(Seen::Event { member, event: event.clone() });
        }
        self.touch();
    }

    /// Writes events, and shows them.
    async fn note(&self, events: Vec<NewGroupEvent>) -> Result<(), Fault> {
        self.store.groups().note(&self.name, events.clone()).await?;
        self.announce(&events);
        Ok(())
    }
}

/// The group of one member, for its tools.
pub(crate) struct GroupOf {
    pub(crate) inner: Weak<Inner>,
    pub(crate) id: String,
}

impl Groups for GroupOf {
    fn act(&self, act: GroupAct) -> Soon<'_, Result<Value, Fault>> {
        Box::pin(async move {
            let ended = || Fault::new(Kind::Unavailable, "the group has ended");
            let inner = self.inner.upgrade().ok_or_else(ended)?;
            if !inner.state.lock().topology.is_privileged(&self.id) {
                return Err(Fault::denied("this tool is only callable by privileged creatures"));
            }
            inner.act(Some(&self.id), act).await
        })
    }
}

/// Returns an event about a member.
pub(crate) fn event(kind: &str, member: Option<&str>, body: Value) -> NewGroupEvent {
    NewGroupEvent { kind: kind.to_owned(), member: member.map(str::to_owned), graph: None, body }
}

fn state_event(state: &str, why: Option<&str>) -> NewGroupEvent {
    event("group_state", None, json!({"state": state, "why": why}))
}

/// Returns a name without what a file name can't have.
fn slug(name: &str) -> String {
    let slug: String = name
        .chars()
        .map(|it| if it.is_ascii_alphanumeric() || "-_".contains(it) { it } else { '-' })
        .take(32)
        .collect();
    if slug.is_empty() { "group".to_owned() } else { slug }
}

/// Does what blocks.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Fault::bug(format!("work of the group was not done: {error}")))?
}
