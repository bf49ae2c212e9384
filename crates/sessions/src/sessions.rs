//! The sessions of a workspace: opened here, attached to wherever they run, listed and kept.

mod follow;
mod handle;
mod suspended;

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{
        Arc, Weak,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use agent::Conversation;
use kit::{Fault, Kind};
use parking_lot::Mutex;
use store::{Archived, OwnerRecord, Store, corpse, is_lease_taken};
use tokio::time::{Instant, sleep};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    client,
    event::{Event, Row},
    headless,
    log::{Log, page},
    opener::Opener,
    operation::Operation,
    owner::{Life, Owned, Prepared, State, parse},
    records::{self, Records},
    server, socket,
    watcher::{Feed, Watcher},
};
pub use handle::{Attending, Guard, Handle};

/// How often operations are looked for that came as rows.
const LOOK: Duration = Duration::from_millis(250);

/// How long a process that has just opened a session may take until it can be reached.
const OPENING: Duration = Duration::from_secs(5);

/// An owner that is alive and could not be reached for so long is asked by rows.
const REACHABLE: Duration = Duration::from_millis(200);

/// The sessions of one workspace, as this process reaches them. Cheap to clone. Functions must be called within a tokio runtime.
#[derive(Clone)]
pub struct Sessions {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    /// The front end of this process: `chat`, `run`, `acp`.
    by: String,
    opener: Option<Arc<dyn Opener>>,
    records: Option<Arc<dyn Records>>,
    owned: Arc<Owned>,
    feeds: Mutex<HashMap<String, Weak<Feed>>>,
    /// The name of the socket and its server, once a session was to be owned; none, where it can't be made.
    serving: Mutex<Option<Serving>>,
    /// Held while a session is taken over here.
    opening: tokio::sync::Mutex<()>,
}

struct Serving {
    socket: Option<String>,
    _tasks: Vec<AbortOnDropHandle<()>>,
}

impl Sessions {
    /// The sessions of the store's workspace, for a program called `by`: `chat`, `run`, `acp`. Without an `opener` it can run only what it
    /// [prepares](Self::prepare) itself.
    pub fn new(store: Store, by: &str, opener: Option<Arc<dyn Opener>>) -> Self {
        Self::with_records(store, by, opener, None)
    }

    /// The same, with what keeps titles, archives and forks.
    pub fn with_records(
        store: Store,
        by: &str,
        opener: Option<Arc<dyn Opener>>,
        records: Option<Arc<dyn Records>>,
    ) -> Self {
        let inner = Inner {
            store,
            by: by.to_owned(),
            opener,
            records,
            owned: Arc::default(),
            feeds: Mutex::default(),
            serving: Mutex::default(),
            opening: tokio::sync::Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// A name for a new session.
    pub fn new_name(&self) -> String {
        self.inner.store.call_id().replacen("c_", "s_", 1)
    }

    /// A session that this process is to run by a loop of its own. Once its agent is open, it is [claimed](Prepared::own).
    pub fn prepare(&self, session: &str) -> Prepared {
        let (socket, feed) = (self.serve(), self.feed(session));
        self.follow(&feed);
        Prepared::new(&feed, &self.inner.owned, socket, &self.inner.by, self.inner.records.clone())
    }

    /// Opens a session, new or not: attaches to it where it runs, and runs it here where it does not. `who` is named in what
    /// is done by this handle: `terminal`, `Zed`.
    ///
    /// # Errors
    /// When there is no agent to be had, or the store can't be read or written.
    pub async fn open(&self, session: Option<&str>, who: &str) -> Result<Handle, Fault> {
        let new;
        let session = match session {
            Some(session) => session,
            None => {
                new = self.new_name();
                &new
            }
        };
        self.reach(session, Some(who)).await?;
        Ok(self.handle(session, who))
    }

    /// Attaches to a session that there is: where it runs, or by running it here where nobody does.
    ///
    /// # Errors
    /// [`Kind::NotFound`] when there is none of that name, and those of [`open`](Self::open).
    pub async fn attach(&self, session: &str, who: &str) -> Result<Handle, Fault> {
        if !self.exists(session).await? {
            let fault = Fault::not_found(format!("this workspace has no session `{session}`"));
            return Err(fault.next("`haft sessions` lists them."));
        }
        self.open(Some(session), who).await
    }

    /// A watcher of a session, whether anybody runs it or not: it has all rows up to `after`.
    pub fn watch(&self, session: &str, after: u64) -> Watcher {
        let feed = self.feed(session);
        self.follow(&feed);
        feed.watch(after)
    }

    /// Somebody called `who` can be asked in this session, whoever runs it, until what this gives is dropped.
    pub fn attend(&self, session: &str, who: &str) -> Attending {
        self.handle(session, who).attend()
    }

    /// Returns whether this process runs the session.
    pub fn runs_here(&self, session: &str) -> bool {
        self.inner.owned.get(session).is_some()
    }

    /// How a session stands; nothing, where no process that can be reached runs it.
    ///
    /// # Errors
    /// When the store can't be read.
    pub async fn state_of(&self, session: &str) -> Result<Option<State>, Fault> {
        if let Some(core) = self.inner.owned.get(session) {
            return Ok(Some(core.state()));
        }
        let Some(owner) = self.owner_of(session).await? else { return Ok(None) };
        let is_suspended = self.suspended(session, &owner).await.is_some();
        let Some(socket) = owner.socket.filter(|_| !is_suspended) else { return Ok(None) };
        Ok(client::state(&self.folder(), &socket, session).await.ok())
    }

    /// The rows of a session after this number, as many as fit in one page; none, where there are no more.
    ///
    /// # Errors
    /// When they can't be read.
    pub async fn rows(&self, session: &str, after: u64) -> Result<Vec<Row>, Fault> {
        let (events, session) = (self.inner.store.events(), session.to_owned());
        blocking(move || page(&events, &session, after)?.iter().map(Row::read).collect()).await
    }

    /// Takes up what a process that died left to do: every session that an operation waits for runs here from now on, unless it
    /// runs elsewhere. Gives their names.
    ///
    /// # Errors
    /// When the store can't be read.
    pub async fn take_up(&self) -> Result<Vec<String>, Fault> {
        let store = self.inner.store.clone();
        let open = blocking(move || store.operations().open(0)).await?;
        let mut sessions: Vec<String> = Vec::new();
        for row in open {
            // The table has requests to groups too.
            if parse(&row).is_ok() && !sessions.contains(&row.session) {
                sessions.push(row.session);
            }
        }
        for session in &sessions {
            if let Err(fault) = self.reach(session, None).await {
                tracing::warn!(%fault, session, "a session with open operations is not run");
            }
        }
        Ok(sessions)
    }

    /// All rows of a session.
    ///
    /// # Errors
    /// When they can't be read.
    pub async fn export(&self, session: &str) -> Result<Vec<Row>, Fault> {
        let (events, session) = (self.inner.store.events(), session.to_owned());
        blocking(move || {
            let (mut rows, mut after) = (Vec::new(), 0);
            loop {
                let stored = page(&events, &session, after)?;
                let Some(last) = stored.last() else { return Ok(rows) };
                after = last.seq;
                for row in &stored {
                    rows.push(Row::read(row)?);
                }
            }
        })
        .await
    }

    /// The conversations of the workspace, the one used last first. Blocks.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn list(&self, limit: usize) -> Result<Vec<Conversation>, Fault> {
        Ok(self
            .inner
            .store
            .conversations()
            .list(Archived::Hidden, limit)?
            .into_iter()
            .map(Conversation::from)
            .collect())
    }

    /// Returns the conversations that match `query`, best first. Blocks.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn search(&self, query: &str, limit: usize) -> Result<Vec<Conversation>, Fault> {
        Ok(self
            .inner
            .store
            .conversations()
            .find(query, Archived::Hidden, limit)?
            .into_iter()
            .map(Conversation::from)
            .collect())
    }

    /// Gives a session a title, whether it runs or not. It is not begun for that.
    ///
    /// # Errors
    /// Those of [`Handle::act`].
    pub async fn rename(&self, session: &str, title: &str) -> Result<(), Fault> {
        let title = title.to_owned();
        let operation = Operation::Rename { title: title.clone() };
        self.change(session, operation, Event::Renamed { title: title.clone() }, move |it, session| {
            it.rename(session, &title)
        })
        .await
    }

    /// Archives a session, or takes it back from there, whether it runs or not.
    ///
    /// # Errors
    /// Those of [`Handle::act`].
    pub async fn archive(&self, session: &str, archived: bool) -> Result<(), Fault> {
        let operation = Operation::Archive { archived };
        self.change(session, operation, Event::Archived { archived }, move |it, session| {
            it.archive(session, archived)
        })
        .await
    }

    /// Makes a session that goes on from this one, `without` so many of its newest turns. Gives its name.
    ///
    /// # Errors
    /// Those of [`Handle::act`].
    pub async fn fork(&self, session: &str, without: usize) -> Result<String, Fault> {
        let records = records::records(self.inner.records.as_ref())?.clone();
        let (name, into) = (session.to_owned(), self.new_name());
        let to = into.clone();
        blocking(move || records.fork(&name, without, &to)).await?;
        // The log of a session that runs is its owner's: who forks from outside leaves it as it is.
        Ok(into)
    }

    /// Deletes a session that nobody runs, with its events.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] when it runs somewhere, and when the store can't be written.
    pub async fn delete(&self, session: &str) -> Result<(), Fault> {
        let _lease = self.inner.store.transcripts().hold(session)?;
        if let Some(records) = self.inner.records.clone() {
            let session = session.to_owned();
            blocking(move || records.delete(&session)).await?;
        }
        self.inner.store.events().delete(session).await
    }

    /// Tells the process that runs the session of a message in its inbox, or in that of an agent below it. It looks for itself
    /// every 250 ms, so one that can't be reached gets the message later.
    pub async fn tell_of_message(&self, session: &str, recipient: &str) {
        self.inner.store.inbox().notify(recipient);
        if self.inner.owned.get(session).is_some() {
            return;
        }
        let Ok(Some(owner)) = self.owner_of(session).await else { return };
        if let Some(socket) = owner.socket {
            // An owner that died or speaks an older protocol does not answer.
            let _ = client::tell_of_message(&self.folder(), &socket, session, recipient).await;
        }
    }

    fn handle(&self, session: &str, who: &str) -> Handle {
        let feed = self.feed(session);
        self.follow(&feed);
        Handle::new(self.clone(), feed, who)
    }

    /// The one feed of a session in this process.
    fn feed(&self, session: &str) -> Arc<Feed> {
        let mut feeds = self.inner.feeds.lock();
        if let Some(feed) = feeds.get(session).and_then(Weak::upgrade) {
            return feed;
        }
        feeds.retain(|_, it| it.strong_count() > 0);
        let feed = Feed::new(&self.inner.store, session);
        feeds.insert(session.to_owned(), Arc::downgrade(&feed));
        feed
    }

    /// Has the feed know of what other processes write.
    fn follow(&self, feed: &Arc<Feed>) {
        feed.follow(|| {
            let task = follow::follow(Arc::downgrade(feed), self.folder(), feed.claims.subscribe(), false);
            AbortOnDropHandle::new(tokio::spawn(task))
        });
    }

    fn folder(&self) -> PathBuf {
        socket::folder(&self.inner.store)
    }

    /// Serves the sessions of this process on a socket from now on. Gives its name.
    fn serve(&self) -> Option<String> {
        let mut serving = self.inner.serving.lock();
        if let Some(serving) = &*serving {
            return serving.socket.clone();
        }
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("{}.{}", self.inner.store.instance(), COUNT.fetch_add(1, Ordering::Relaxed));
        let mut tasks = Vec::new();
        let listening = match socket::listen(&self.inner.store, &name) {
            Ok(listening) => {
                tasks.push(server::serve(listening, self.inner.owned.clone()));
                Some(name)
            }
            Err(fault) => {
                tracing::warn!(%fault, "other processes act on sessions of this one by rows only");
                None
            }
        };
        tasks.push(AbortOnDropHandle::new(tokio::spawn(look_for_rows(Arc::downgrade(&self.inner)))));
        *serving = Some(Serving { socket: listening.clone(), _tasks: tasks });
        listening
    }

    async fn exists(&self, session: &str) -> Result<bool, Fault> {
        let (store, session) = (self.inner.store.clone(), session.to_owned());
        blocking(move || {
            Ok(store.events().head(&session)? > 0
                || store.sessions().list()?.iter().any(|it| it.id == session))
        })
        .await
    }

    async fn owner_of(&self, session: &str) -> Result<Option<OwnerRecord>, Fault> {
        let (store, session) = (self.inner.store.clone(), session.to_owned());
        blocking(move || store.owners().get(&session)).await
    }

    /// Returns whether the process that claimed a session last is alive.
    async fn is_alive(&self, owner: &OwnerRecord) -> Result<bool, Fault> {
        let Some(instance) = owner.instance.clone() else { return Ok(false) };
        let folder = self.inner.store.live_folder();
        blocking(move || Ok(corpse(&folder, &instance).is_none())).await
    }

    /// Makes sure that somebody runs the session: whoever does already, or this process, if it opens one more for `who`.
    async fn reach(&self, session: &str, who: Option<&str>) -> Result<Reached, Fault> {
        let (rows_from, until) = (Instant::now() + REACHABLE, Instant::now() + OPENING);
        loop {
            if self.inner.owned.get(session).is_some() {
                return Ok(Reached::Here);
            }
            let owner = self.owner_of(session).await?;
            if let Some(owner) = &owner
                && let Some(fault) = self.suspended(session, owner).await
            {
                return Err(fault);
            }
            if let Some(name) = owner.as_ref().and_then(|it| it.socket.as_deref())
                && client::state(&self.folder(), name, session).await.is_ok()
            {
                return Ok(Reached::There(name.to_owned()));
            }
            if let (Some(opener), Some(who)) = (&self.inner.opener, who) {
                opener.admit(session, who).await?;
            }
            match self.take_over(session).await {
                Ok(()) => return Ok(Reached::Here),
                Err(Failed::Fault(fault)) => return Err(fault),
                // It is being opened or closed, or its process has no socket.
                Err(Failed::Held(fault)) => {
                    let now = Instant::now();
                    let is_alive = match &owner {
                        Some(owner) if now >= rows_from => self.is_alive(owner).await?,
                        _ => false,
                    };
                    if is_alive {
                        return Ok(Reached::ByRows);
                    }
                    if now >= until {
                        return Err(fault);
                    }
                    sleep(Duration::from_millis(20)).await;
                }
            }
        }
    }

    /// Runs a session here that nobody runs.
    async fn take_over(&self, session: &str) -> Result<(), Failed> {
        let _one = self.inner.opening.lock().await;
        if self.inner.owned.get(session).is_some() {
            return Ok(());
        }
        // Checks the lease first, so that a held lease is not reported as a failure of the agent.
        self.is_free(session).await?;
        let opener = self.inner.opener.clone().ok_or_else(|| {
            Failed::Fault(Fault::new(Kind::Unavailable, format!("no process runs the session `{session}`")))
        })?;
        let prepared = self.prepare(session);
        // There is nobody at this process: whoever attaches decides.
        prepared.hub().set_waits(true);
        let opened = {
            let opener = opener.clone();
            blocking(move || opener.open(&prepared).map(|opened| (prepared, opened))).await
        };
        let (prepared, mut opened) = match opened {
            Ok(opened) => opened,
            // Another process was faster.
            Err(fault) if is_lease_taken(&fault) => return Err(Failed::Held(fault)),
            Err(fault) => return Err(Failed::Fault(fault)),
        };
        let owner = prepared.own(&mut opened.agent).await.map_err(Failed::Fault)?;
        tokio::spawn(headless::run(owner, opened, opener, self.inner.records.clone()));
        Ok(())
    }

    /// Fails with [`Failed::Held`] while a process has the lease of this session.
    async fn is_free(&self, session: &str) -> Result<(), Failed> {
        let (store, name) = (self.inner.store.clone(), session.to_owned());
        let free = blocking(move || Ok(store.transcripts().hold(&name).map(drop))).await;
        free.map_err(Failed::Fault)?.map_err(Failed::Held)
    }

    /// Changes what is kept of a session: by its owner, or here where there is none.
    async fn change(
        &self,
        session: &str,
        operation: Operation,
        event: Event,
        change: impl FnOnce(&dyn Records, &str) -> Result<(), Fault> + Send + 'static,
    ) -> Result<(), Fault> {
        let Ok(lease) = self.inner.store.transcripts().hold(session) else {
            let key = self.inner.store.call_id();
            return self.handle(session, &self.inner.by).act(&key, operation).await.map(drop);
        };
        let records = records::records(self.inner.records.as_ref())?.clone();
        let name = session.to_owned();
        blocking(move || change(&*records, &name)).await?;
        let feed = self.feed(session);
        let epoch = self.inner.store.owners().claim(session, None).await?;
        let log = Log::new(&self.inner.store, session, feed.head().clone());
        let (events, name) = (self.inner.store.events(), session.to_owned());
        let head = blocking(move || events.head(&name)).await?;
        log.claimed(epoch, head, Default::default());
        log.add(event);
        log.flush().await?;
        self.inner.store.owners().release(session, epoch)?;
        self.inner.store.flush().await?;
        drop(lease);
        Ok(())
    }
}

/// How a session is reached.
enum Reached {
    Here,
    /// By the socket of this name.
    There(String),
    /// Its owner has no socket.
    ByRows,
}

/// Why a session was not taken over.
enum Failed {
    /// Somebody holds its lease.
    Held(Fault),
    Fault(Fault),
}

/// Does what blocks.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Fault::bug(format!("work of the session service was not done: {error}")))?
}

/// Takes operations up that came as rows, for the sessions of this process.
async fn look_for_rows(inner: Weak<Inner>) {
    loop {
        sleep(LOOK).await;
        let Some(inner) = inner.upgrade() else { return };
        if inner.owned.all().is_empty() {
            continue;
        }
        let store = inner.store.clone();
        let Ok(open) = blocking(move || store.operations().open(0)).await else { continue };
        for row in open.iter().filter(|it| it.begun.is_none()) {
            if let (Some(core), Ok(operation)) = (inner.owned.get(&row.session), parse(row)) {
                drop(core.start(&row.key, &row.by, operation, Life::New));
            }
        }
    }
}
