//! The owner of a session: the one process that runs it, takes up what others ask for and writes its log.

mod arrivals;
mod pending;
mod recovery;
mod turn;

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
};

use agent::{Agent, Asker, Crew, Observer};
use kit::{Fault, Kind};
use parking_lot::Mutex;
use runtime::{Approver, SandboxMode, WeakSession};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use store::{Noted, Store};
use tokio::sync::{mpsc, watch};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{
    event::{Approval, Asked, Event, Job},
    fault::Outcome,
    hub::{Attendance, Hub},
    log::Log,
    operation::Operation,
    records::Records,
    unfinished::Unfinished,
    watcher::{Feed, Watcher},
};

pub use pending::Pending;
pub(crate) use pending::{GivenUp, Life};
pub(crate) use recovery::parse;
pub use turn::{Began, Turn, Work};

/// So many operations may wait for a turn to end.
const WAITING: usize = 64;

/// The longest idempotency key, in bytes.
const LONGEST_KEY: usize = 128;

/// The sessions that this process owns.
#[derive(Default)]
pub(crate) struct Owned(Mutex<HashMap<String, Weak<Core>>>);

/// A session before it is claimed: provides the observer, the approver and the asker of its agent.
pub struct Prepared {
    feed: Arc<Feed>,
    log: Arc<Log>,
    hub: Arc<Hub>,
    owned: Arc<Owned>,
    socket: Option<String>,
    by: String,
    records: Option<Arc<dyn Records>>,
}

/// A session that this process owns, for the loop that runs its agent. Close it before the agent is dropped.
pub struct Owner {
    core: Arc<Core>,
    inbox: mpsc::UnboundedReceiver<Pending>,
    owned: Arc<Owned>,
    claimed_at: u64,
    _jobs: AbortOnDropHandle<()>,
    arrivals: Option<AbortOnDropHandle<()>>,
}

/// The part of an owner that others reach.
pub(crate) struct Core {
    feed: Arc<Feed>,
    store: Store,
    log: Arc<Log>,
    hub: Arc<Hub>,
    epoch: u64,
    by: String,
    records: Option<Arc<dyn Records>>,
    inbox: mpsc::UnboundedSender<Pending>,
    waiting: AtomicUsize,
    running: Mutex<Option<Running>>,
    /// Operations that were taken up, by their keys, and how their results come.
    results: Mutex<HashMap<String, watch::Receiver<Option<Outcome>>>>,
    /// Prompts that were cancelled before they began.
    cancelled: Mutex<HashSet<String>>,
    answers: Mutex<(String, Option<String>)>,
    /// The session of the agent.
    session: WeakSession,
}

#[derive(Clone)]
struct Running {
    key: Option<String>,
    by: String,
    text: String,
    cancel: CancellationToken,
}

/// How a session stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// The session.
    pub session: String,
    /// The number of its newest row.
    pub head: u64,
    /// How often it was claimed.
    pub epoch: u64,
    /// The process that runs it.
    pub pid: u32,
    /// The front end of that process: `chat`, `run`, `acp`.
    pub by: String,
    /// The turn that goes on.
    pub turn: Option<RunningTurn>,
    /// How many operations wait for it.
    pub waiting: usize,
    /// The model that answers.
    pub model: String,
    /// The profile.
    pub profile: Option<String>,
    /// The sandbox in effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxMode>,
    /// Approvals that wait for a decision.
    pub approvals: Vec<Approval>,
    /// Questions that wait for an answer.
    pub questions: Vec<Asked>,
}

/// A turn that goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningTurn {
    /// The key of its prompt, where it is an operation.
    pub key: Option<String>,
    /// The initiator of the turn.
    pub by: String,
    /// The person's words.
    pub text: String,
}

impl Owned {
    pub(crate) fn get(&self, session: &str) -> Option<Arc<Core>> {
        self.0.lock().get(session).and_then(Weak::upgrade)
    }

    pub(crate) fn all(&self) -> Vec<Arc<Core>> {
        self.0.lock().values().filter_map(Weak::upgrade).collect()
    }
}

impl Prepared {
    pub(crate) fn new(
        feed: &Arc<Feed>,
        owned: &Arc<Owned>,
        socket: Option<String>,
        by: &str,
        records: Option<Arc<dyn Records>>,
    ) -> Self {
        let log = Log::new(feed.store(), feed.session(), feed.head().clone());
        let hub = Hub::new(&log);
        Self { feed: feed.clone(), log, hub, owned: owned.clone(), socket, by: by.to_owned(), records }
    }

    /// The session's name.
    pub fn session(&self) -> &str {
        self.feed.session()
    }

    /// Observes what the agent does: its log.
    pub fn observer(&self) -> Arc<dyn Observer> {
        self.log.clone()
    }

    /// The log: events of the session that are not the agent's are added there.
    pub fn log(&self) -> &Arc<Log> {
        &self.log
    }

    /// Asks about calls, also those of sub-agents.
    pub fn approver(&self) -> Arc<dyn Approver> {
        self.hub.clone()
    }

    /// Asks for the model, also for those of sub-agents.
    pub fn asker(&self) -> Arc<dyn Asker> {
        self.hub.clone()
    }

    /// Puts the session's questions to those who attend.
    pub fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// Claims the session for this process, as its agent is open here and holds the session's lease. What an owner that died
    /// left open is settled: approvals and questions expire, a turn ends as interrupted, prompts that nobody began begin.
    ///
    /// # Errors
    /// When the store can't be read or written.
    pub async fn own(self, agent: &mut Agent) -> Result<Owner, Fault> {
        let store = self.feed.store().clone();
        let name = self.feed.session().to_owned();
        let epoch = store.owners().claim(&name, self.socket.as_deref()).await?;
        let mut found = {
            let (store, name) = (store.clone(), name.clone());
            tokio::task::spawn_blocking(move || recovery::read(&store.events(), &name))
                .await
                .map_err(|error| Fault::bug(format!("the events were not read: {error}")))??
        };
        self.hub.claimed(epoch);
        self.log.claimed(epoch, found.head, std::mem::take(&mut found.compaction));
        self.feed.is_local(self.log.shared());
        let (inbox, receiver) = mpsc::unbounded_channel();
        let core = Arc::new(Core {
            feed: self.feed,
            store,
            log: self.log,
            hub: self.hub,
            epoch,
            by: self.by,
            records: self.records,
            inbox,
            waiting: AtomicUsize::new(0),
            running: Mutex::default(),
            results: Mutex::default(),
            cancelled: Mutex::default(),
            answers: Mutex::default(),
            session: agent.session().weak(),
        });
        let jobs = tokio::spawn(tell_of_jobs(agent.session().events(), Arc::downgrade(&core.log)));
        let mut owner = Owner {
            core,
            inbox: receiver,
            owned: self.owned,
            claimed_at: found.head,
            _jobs: AbortOnDropHandle::new(jobs),
            arrivals: None,
        };
        owner.describe(agent);
        let messages = agent.transcript().message_count();
        keep_unfinished(agent, std::mem::take(&mut found.unfinished)).await?;
        owner.core.settle(&found, messages).await?;
        // Last: from this row on the next owner looks for what is left open.
        let (pid, by) = (std::process::id(), owner.core.by.clone());
        owner.core.log.add(Event::Opened { epoch, pid, by });
        owner.core.log.flush().await?;
        let (store, log) = (owner.core.store.clone(), Arc::downgrade(&owner.core.log));
        let arrivals = tokio::spawn(arrivals::tell_of_arrivals(store, name.clone(), log));
        owner.arrivals = Some(AbortOnDropHandle::new(arrivals));
        owner.owned.0.lock().insert(name, Arc::downgrade(&owner.core));
        Ok(owner)
    }
}

/// Keeps what the last owner left in its log alone: a text for the person, outputs of commands for the model. Done again, as
/// the process that did it was killed, it changes nothing.
async fn keep_unfinished(agent: &mut Agent, unfinished: Unfinished) -> Result<(), Fault> {
    if unfinished.is_empty() {
        return Ok(());
    }
    let (runtime, name) = (agent.session().runtime().clone(), agent.session().name().to_owned());
    let left = tokio::task::spawn_blocking(move || {
        let untold = unfinished.untold(&agent::lines(&runtime, &name)?);
        Ok::<_, Fault>((untold, unfinished.outputs(runtime.store())?))
    });
    let (untold, outputs) =
        left.await.map_err(|error| Fault::bug(format!("the log was not read: {error}")))??;
    if let Some((text, _)) = untold {
        agent.tell_cut_off(text);
    }
    outputs.into_iter().for_each(|it| agent.give_next(it));
    Ok(())
}

impl Owner {
    /// The session's name.
    pub fn session(&self) -> &str {
        self.core.feed.session()
    }

    /// The fencing token: how often the session was claimed.
    pub fn epoch(&self) -> u64 {
        self.core.epoch
    }

    /// The number of the last row before this process claimed the session.
    pub fn claimed_at(&self) -> u64 {
        self.claimed_at
    }

    /// The log.
    pub fn log(&self) -> &Arc<Log> {
        &self.core.log
    }

    /// Returns the hub, which puts questions to those who attend.
    pub fn hub(&self) -> &Arc<Hub> {
        &self.core.hub
    }

    /// A watcher that has all rows up to `after`.
    pub fn watch(&self, after: u64) -> Watcher {
        self.core.feed.watch(after)
    }

    /// The next operation for the loop. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Pending {
        match self.inbox.recv().await {
            Some(pending) => {
                self.core.waiting.fetch_sub(1, Ordering::Relaxed);
                pending
            }
            // The sender is in the core, which is here.
            None => std::future::pending().await,
        }
    }

    /// The next operation for the loop, if one waits.
    pub fn try_next(&mut self) -> Option<Pending> {
        let pending = self.inbox.try_recv().ok()?;
        self.core.waiting.fetch_sub(1, Ordering::Relaxed);
        Some(pending)
    }

    /// Stops the turn or the work that goes on.
    pub fn cancel(&self) {
        self.core.cancel(None);
    }

    /// Begins a turn, which watchers can cancel, and logs it unless it is resumed.
    pub fn begin_turn(&self, agent: &Agent, began: Began) -> Turn {
        let Began { key, by, text, attached, is_resumed } = began;
        let cancel = self.core.begin_running(key.clone(), by.clone(), text.clone());
        if !is_resumed {
            let messages = agent.transcript().message_count();
            self.core.log.add(Event::TurnBegan { key: key.clone(), by, text, attached, messages });
        }
        Turn { core: self.core.clone(), key, cancel, is_over: false }
    }

    /// Begins work that is not a turn, which watchers can cancel. Dropped, it has ended.
    pub fn begin_work(&self, pending: &Pending, text: &str) -> Work {
        let (key, by, text) = (Some(pending.key().to_owned()), pending.by().to_owned(), text.to_owned());
        let cancel = self.core.begin_running(key, by, text);
        Work { core: self.core.clone(), cancel }
    }

    /// Records the model and profile that answer, for [`State`].
    pub fn describe(&self, agent: &Agent) {
        let profile = agent.crew().and_then(Crew::profile);
        *self.core.answers.lock() = (agent.model().name().to_owned(), profile);
    }

    /// How the session stands.
    pub fn state(&self) -> State {
        self.core.state()
    }

    /// Somebody at this process attends.
    pub fn attend(&self) -> Attendance {
        self.core.hub.attend()
    }

    /// Nothing happens for now: frees memory.
    pub fn rest(&self) {
        self.core.log.rest();
    }

    /// Did another process claim the session? Then nothing that happens here counts.
    pub fn is_lost(&self) -> bool {
        self.core.log.is_over()
    }

    /// Gives the session up: the next that attaches owns it. What waits is left to that one.
    ///
    /// # Errors
    /// When the last events can't be written.
    pub async fn close(self, by: &str) -> Result<(), Fault> {
        self.core.hub.end();
        self.core.log.add(Event::Closed { by: by.to_owned() });
        self.core.log.flush().await
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let name = self.core.feed.session();
        let mut owned = self.owned.0.lock();
        if owned.get(name).is_some_and(|it| std::ptr::eq(it.as_ptr(), Arc::as_ptr(&self.core))) {
            owned.remove(name);
        }
        drop(owned);
        self.core.hub.end();
        self.core.log.end_texts();
        // After the events that are queued.
        if let Err(fault) = self.core.store.owners().release(name, self.core.epoch) {
            tracing::warn!(%fault, "the session was not given up");
        }
        self.core.feed.is_gone();
    }
}

impl Core {
    pub(crate) fn session(&self) -> &str {
        self.feed.session()
    }

    pub(crate) fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    pub(crate) fn log(&self) -> &Arc<Log> {
        &self.log
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    pub(crate) fn feed(&self) -> &Arc<Feed> {
        &self.feed
    }

    /// Does an operation once, whoever asks for it how often under this key.
    pub(crate) async fn act(
        self: &Arc<Self>,
        key: &str,
        by: &str,
        operation: Operation,
    ) -> Result<Result<Value, Fault>, GivenUp> {
        match note(&self.store, self.session(), key, by, &operation).await {
            // What can't be written down, as on a full disk, can still be stopped.
            Err(fault) if fault.kind == Kind::Unavailable => match operation {
                Operation::Cancel { prompt } => Ok(Ok(json!({"cancelled": self.cancel(prompt.as_deref())}))),
                _ => Ok(Err(fault)),
            },
            Err(fault) => Ok(Err(fault)),
            Ok(Some(result)) => Ok(result),
            Ok(None) => {
                let mut result = self.start(key, by, operation, Life::New);
                let outcome = result.wait_for(Option::is_some).await.ok().and_then(|it| it.clone());
                Ok(outcome.ok_or(GivenUp)?.into_result())
            }
        }
    }

    /// Takes an operation up that was noted, unless that was done before.
    pub(crate) fn start(
        self: &Arc<Self>,
        key: &str,
        by: &str,
        operation: Operation,
        life: Life,
    ) -> watch::Receiver<Option<Outcome>> {
        self.start_planned(key, by, operation, life, None)
    }

    /// Does the same; `plan` is what its row says that it does.
    fn start_planned(
        self: &Arc<Self>,
        key: &str,
        by: &str,
        operation: Operation,
        life: Life,
        plan: Option<Value>,
    ) -> watch::Receiver<Option<Outcome>> {
        let mut results = self.results.lock();
        if let Some(known) = results.get(key) {
            return known.clone();
        }
        let (result, receiver) = watch::channel(None);
        results.insert(key.to_owned(), receiver.clone());
        drop(results);
        let (key, by) = (key.to_owned(), by.to_owned());
        let is_running = self.running.lock().is_some();
        let is_immediate = operation.is_immediate() || is_running && operation.needs_no_agent();
        let pending = Pending { core: self.clone(), key, by, operation, life, plan, result };
        if is_immediate {
            tokio::spawn(pending.at_once());
        } else if self.waiting.fetch_add(1, Ordering::Relaxed) >= WAITING {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            let fault =
                Fault::new(Kind::TooBig, format!("{WAITING} operations wait in this session already"))
                    .next("Wait until the turn is over, or cancel it; then ask again under a new key.");
            tokio::spawn(pending.finish(Err(fault)));
        } else {
            // Where the owner is gone it is dropped, and left to the next one.
            let _ = self.inbox.send(pending);
        }
        receiver
    }

    /// Begins a turn or work. It is cancelled at once if that was asked for after its prompt was taken up.
    fn begin_running(&self, key: Option<String>, by: String, text: String) -> CancellationToken {
        let cancel = CancellationToken::new();
        *self.running.lock() = Some(Running { key: key.clone(), by, text, cancel: cancel.clone() });
        if key.is_some_and(|it| self.cancelled.lock().contains(&it)) {
            cancel.cancel();
        }
        cancel
    }

    fn cancel(&self, prompt: Option<&str>) -> bool {
        // First of all: a turn that begins meanwhile looks there.
        let waits = prompt.is_some_and(|key| {
            let results = self.results.lock();
            let waits = results.get(key).is_some_and(|it| it.borrow().is_none());
            if waits {
                self.cancelled.lock().insert(key.to_owned());
            }
            waits
        });
        let running = self.running.lock().clone();
        if let Some(running) = running.filter(|it| prompt.is_none() || it.key.as_deref() == prompt) {
            let was_running = !running.cancel.is_cancelled();
            running.cancel.cancel();
            return was_running;
        }
        waits
    }

    pub(crate) fn state(&self) -> State {
        let turn = self.running.lock().clone();
        let (model, profile) = self.answers.lock().clone();
        State {
            session: self.session().to_owned(),
            head: *self.feed.head().borrow(),
            epoch: self.epoch,
            pid: std::process::id(),
            by: self.by.clone(),
            turn: turn.map(|it| RunningTurn { key: it.key, by: it.by, text: it.text }),
            waiting: self.waiting.load(Ordering::Relaxed),
            model,
            profile,
            sandbox: self.session.get().map(|it| it.sandbox()),
            approvals: self.hub.open_approvals(),
            questions: self.hub.open_questions(),
        }
    }
}

/// Notes an operation. Gives its result, where it has one.
///
/// # Errors
/// [`Kind::BadArgs`] when the key is another operation's, or is none; and when it can't be written.
pub(crate) async fn note(
    store: &Store,
    session: &str,
    key: &str,
    by: &str,
    operation: &Operation,
) -> Result<Option<Result<Value, Fault>>, Fault> {
    if key.is_empty() || key.len() > LONGEST_KEY {
        let what = format!("the idempotency key has {} bytes; it has 1 to {LONGEST_KEY}", key.len());
        return Err(Fault::bad_args(what).next("Make up a new random key for each operation."));
    }
    match store.operations().note(session, key, by, json!(operation)).await? {
        Noted::New => Ok(None),
        Noted::Known(known) => Ok(known.result.map(|it| {
            let outcome: Outcome = serde_json::from_str(&it)
                .map_err(|error| Fault::bug(format!("the result of `{key}` can't be read: {error}")))?;
            outcome.into_result()
        })),
        Noted::Taken => Err(Fault::bad_args(format!("the key `{key}` belongs to another operation"))
            .next("Make up a new random key for each operation.")),
    }
}

/// Tells watchers of background jobs that end or wait.
async fn tell_of_jobs(mut events: tokio::sync::mpsc::UnboundedReceiver<runtime::Event>, log: Weak<Log>) {
    while let Some(event) = events.recv().await {
        let Some(log) = log.upgrade() else { return };
        let is_over = !event.state.starts_with("waiting");
        let job = Job {
            job: event.job,
            tool: event.tool,
            title: event.title,
            state: event.state.to_owned(),
            exit: event.exit,
            tail: event.tail,
            ms: u64::try_from(event.took.as_millis()).unwrap_or(u64::MAX),
        };
        log.add(if is_over { Event::JobEnded(job) } else { Event::JobWaits(job) });
    }
}
