//! One session of an editor: a handle on a session of the service, wherever its agent runs, and the updates that follow it.

use std::{
    collections::HashSet,
    path::Path,
    sync::{Arc, OnceLock},
    time::Duration,
};

use agent::model::Usage;
use kit::{Fault, Kind};
use parking_lot::Mutex;
use runtime::{Runtime, Session, Unattended};
use sandbox::SandboxMode;
use serve::acp::{
    Editor, error_of,
    v1::{ContentBlock, Error, SessionId, SessionUpdate, StopReason},
};
use sessions::{Attending, Handle, Operation, Row, Watcher};
use store::Store;
use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    Backend, auth,
    buffers::InEditor,
    commands,
    config_options::width,
    hosted::Hosted,
    opener::{EditorAgents, Here, OfWorkspace, Shared},
    opening::{Opening, SavedSettings},
    person::AtEditor,
    prompt::EXPORT,
    replay,
    updates::{Telling, Updates},
};
use crate::{agent_factory::AgentFactory, print, session_service::Service, verbs};

/// How long the updates of a turn may take to be sent before its answer.
const UPDATES: Duration = Duration::from_secs(2);

/// How long a session may take to close, and how often a turn is stopped meanwhile.
const CLOSES: Duration = Duration::from_secs(4);
const AGAIN: Duration = Duration::from_millis(100);

/// How often it is looked whether a closed session is free.
const LOOK: Duration = Duration::from_millis(5);

/// An open session.
pub(super) struct AcpSession {
    pub(super) id: SessionId,
    pub(super) opening: Opening,
    pub(super) shared: Arc<Shared>,
    pub(super) handle: Handle,
    /// The model, the profile and the process of an agent that runs elsewhere.
    pub(super) there: Mutex<There>,
    /// The editor's person can be asked by a session that runs elsewhere.
    attending: Mutex<Option<Attending>>,
    /// The session for the catalog of tools, where none runs here.
    viewer: OnceLock<Session>,
    /// The rows until the session was opened; taken when it is introduced.
    past: Mutex<Option<(Watcher, Vec<Row>)>>,
    updates: Mutex<Option<Updates>>,
    live: Mutex<Option<AbortOnDropHandle<()>>>,
    /// The number of the last row whose updates were sent.
    sent: watch::Sender<u64>,
    /// Held from the arrival of a prompt until its operation is on the disk: prompts keep their order.
    pub(super) arriving: tokio::sync::Mutex<()>,
    /// The keys of prompts that this editor has sent.
    pub(super) own: Arc<Mutex<HashSet<String>>>,
    /// Notes for the person, shown once.
    notes: Mutex<Vec<String>>,
    /// The sandbox that the configuration allows.
    pub(super) widest: SandboxMode,
    pub(super) closed: CancellationToken,
}

/// A session that was opened.
struct Attached {
    shared: Arc<Shared>,
    id: SessionId,
    handle: Handle,
    widest: SandboxMode,
}

/// The agent of a session that another process runs.
#[derive(Debug, Clone, Default)]
pub(super) struct There {
    pub(super) model: String,
    pub(super) profile: Option<String>,
    pub(super) pid: u32,
    pub(super) by: String,
}

impl AcpSession {
    /// Opens the session of this name, or a new one: runs it here if nobody runs it.
    pub(super) async fn open(
        backend: &Backend,
        mut opening: Opening,
        name: Option<&SessionId>,
        kept: SavedSettings,
    ) -> Result<Arc<Self>, Error> {
        let Attached { shared, id, handle, widest } = match &backend.hosted {
            Some(hosted) => Self::attach(backend, hosted, &opening, name).await?,
            None => Self::begin(backend, &mut opening, name, kept).await?,
        };
        let past = past(&handle).await.map_err(|fault| error_of(&fault))?;
        let session = Arc::new(Self {
            id,
            opening,
            shared,
            handle,
            there: Mutex::default(),
            attending: Mutex::default(),
            viewer: OnceLock::new(),
            past: Mutex::new(Some(past)),
            updates: Mutex::default(),
            live: Mutex::default(),
            sent: watch::Sender::new(0),
            arriving: tokio::sync::Mutex::default(),
            own: Arc::default(),
            notes: Mutex::default(),
            widest,
            closed: CancellationToken::new(),
        });
        session.look_who_runs_it().await;
        Ok(session)
    }

    /// Attaches to a session of a server.
    async fn attach(
        backend: &Backend,
        hosted: &Arc<Hosted>,
        opening: &Opening,
        name: Option<&SessionId>,
    ) -> Result<Attached, Error> {
        let workspace = hosted.workspace(&opening.cwd).map_err(|fault| error_of(&fault))?;
        let id = name.cloned().unwrap_or_else(|| SessionId::from(workspace.sessions.new_name()));
        let handle = workspace.attach(&id, &hosted.who).await.map_err(|fault| auth::error(&fault))?;
        let (factory, editor) = (workspace.factory.clone(), backend.editor.clone());
        let widest = factory.opened.runtime.policy().sandbox;
        let shared = Shared::new(factory, Some(hosted.clone()), editor, SavedSettings::default());
        Ok(Attached { shared: Arc::new(shared), id, handle, widest })
    }

    /// Opens a session of this process.
    async fn begin(
        backend: &Backend,
        opening: &mut Opening,
        name: Option<&SessionId>,
        mut kept: SavedSettings,
    ) -> Result<Attached, Error> {
        let editor: &Editor = &backend.editor;
        let widest = backend.widest(&backend.options_of(opening));
        opening.sandbox = opening.sandbox.filter(|it| width((*it).into()) <= width(widest));
        let options = backend.options_of(opening);
        let mut agent = backend.agent.clone();
        if name.is_some_and(|it| backend.has_model(&opening.cwd, it)) {
            // A resumed conversation keeps its model, profile and mode, and the editor's later settings.
            (agent.model, agent.profile, agent.plan) = (None, None, false);
        }
        let asks = Arc::new(OfWorkspace::default());
        let factory = agent.open(&options, &backend.place, asks.clone()).await;
        let factory = factory.map_err(|fault| auth::error(&fault))?;
        let runtime = factory.opened.runtime.clone();
        kept.dirs.clone_from(&opening.dirs);
        let shared = Arc::new(Shared::new(Arc::new(factory), None, editor.clone(), kept));
        asks.belongs_to(&shared);
        let agents = Arc::new(EditorAgents(shared.clone()));
        let sessions = Service::with_opener(&runtime, "acp", Some(agents)).sessions;
        let id = name.cloned().unwrap_or_else(|| SessionId::from(sessions.new_name()));
        if let Some(buffers) = InEditor::of(editor, &id) {
            runtime.roots().follow_editor(Arc::new(buffers));
        }
        let who = editor.name().unwrap_or_else(|| "editor".to_owned());
        let handle = sessions.open(Some(&id.0), &who).await.map_err(|fault| auth::error(&fault))?;
        shared.kept.lock().save(runtime.store(), &id).map_err(|fault| error_of(&fault))?;
        Ok(Attached { shared, id, handle, widest })
    }

    /// Returns whether the session is a server's.
    pub(super) fn is_hosted(&self) -> bool {
        self.shared.hosted.is_some()
    }

    /// Returns whether whoever is connected may decide approvals.
    fn decides(&self) -> bool {
        self.shared.hosted.as_ref().is_none_or(|it| it.decides)
    }

    /// Reads where the agent runs, and collects the notes on it.
    async fn look_who_runs_it(&self) {
        // Those on a server's configuration are its owner's.
        let of_configuration = !self.is_hosted();
        let mut notes =
            if of_configuration { self.factory().opened.aside.clone() } else { self.opening.notes.clone() };
        match self.here() {
            Some(here) => {
                notes.extend(here.notes.clone());
                notes.extend(self.opening.notes.clone());
            }
            None => {
                if self.decides() {
                    *self.attending.lock() = Some(self.handle.attend());
                }
                if let Ok(state) = self.handle.state().await {
                    let (pid, by) = (state.pid, state.by);
                    if !self.is_hosted() || pid != std::process::id() {
                        notes.push(format!(
                            "process {pid} ({by}) runs this session: its sandbox, roots and MCP servers count, and it reads \
                             files from the disk, not what is unsaved here"
                        ));
                    }
                    *self.there.lock() = There { model: state.model, profile: state.profile, pid, by };
                }
            }
        }
        *self.notes.lock() = notes;
    }

    /// Returns the update with the commands that are available now.
    pub(super) fn commands(&self) -> SessionUpdate {
        let mut available = commands::available(&self.factory().opened, self.here().is_some());
        if self.is_hosted() {
            available.available_commands.retain(|it| it.name != EXPORT.trim_start_matches('/'));
        }
        SessionUpdate::AvailableCommandsUpdate(available)
    }

    pub(super) fn cwd(&self) -> &Path {
        &self.opening.cwd
    }

    pub(super) fn factory(&self) -> &AgentFactory {
        &self.shared.factory
    }

    pub(super) fn runtime(&self) -> &Runtime {
        &self.shared.factory.opened.runtime
    }

    pub(super) fn store(&self) -> Store {
        self.runtime().store().clone()
    }

    /// Returns the agent, if it runs in this process.
    pub(super) fn here(&self) -> Option<Arc<Here>> {
        self.shared.here()
    }

    /// Returns the error of opening this session once more, if a turn goes on in it here: that would stop it.
    pub(super) async fn works(&self) -> Option<Fault> {
        self.here()?;
        self.handle.state().await.ok()?.turn?;
        let what = format!("a turn goes on in the session `{}`, which is open on this connection", self.id);
        Some(Fault::new(Kind::Unavailable, what).next("Wait for its end, or stop it with `session/cancel`."))
    }

    /// Returns the error of deleting this session, if another process runs it. Blocks.
    pub(super) fn runs_elsewhere(&self) -> Option<Fault> {
        if self.here().is_some() {
            return None;
        }
        self.store().transcripts().hold(&self.id.0).err()
    }

    /// Returns a new idempotency key.
    pub(super) fn new_key(&self) -> String {
        self.runtime().store().call_id().replacen("c_", "acp_", 1)
    }

    /// Returns the session whose tools the editor is shown.
    pub(super) fn view(&self) -> Session {
        let here = self.here().and_then(|it| it.session());
        let viewer = || self.runtime().session(None, "acp", Arc::new(Unattended));
        here.unwrap_or_else(|| self.viewer.get_or_init(viewer).clone())
    }

    /// Returns the tokens in the context, and the size of the model's window. For an agent elsewhere, those of the newest answer.
    pub(super) fn context_used(&self, newest: Usage) -> (u64, u64) {
        if let Some(here) = self.here() {
            let used = here.steering.context_used();
            return (used.tokens, used.window);
        }
        let model = self.there.lock().model.clone();
        let window = self.factory().model(&model).map_or(0, |it| it.abilities().window);
        (newest.all(), window)
    }

    /// Another model or profile answers, in a session that runs elsewhere.
    pub(super) fn is_configured(&self, model: Option<&str>, profile: Option<&str>) {
        let mut there = self.there.lock();
        model.iter().for_each(|it| (*it).clone_into(&mut there.model));
        profile.iter().for_each(|it| there.profile = Some((*it).to_owned()).filter(|it| it != "none"));
    }

    /// The editor can't ask its person: what nobody else can answer fails.
    pub(super) fn leave_questions(&self) {
        drop(self.attending.lock().take());
        if let Some(here) = self.here() {
            here.leave();
        }
    }

    /// Saves the editor's settings.
    pub(super) fn keep(&self) {
        let kept = self.shared.kept.lock().clone();
        if let Err(fault) = kept.save(self.runtime().store(), &self.id) {
            tracing::warn!("what the editor set is not kept: {fault}");
        }
    }

    /// Sends the updates of the whole conversation again.
    pub(super) async fn replay(self: &Arc<Self>) -> Result<(), Fault> {
        let Some((watcher, rows)) = self.past.lock().take() else { return Ok(()) };
        let mut updates = self.updates_of(Telling::Again);
        replay::send(self, &mut updates, &rows).await?;
        *self.updates.lock() = Some(updates);
        *self.past.lock() = Some((watcher, Vec::new()));
        Ok(())
    }

    fn updates_of(self: &Arc<Self>, telling: Telling) -> Updates {
        let (editor, session) = (self.shared.editor.clone(), self.id.clone());
        let person = AtEditor { editor, session, handle: self.handle.clone(), decides: self.decides() };
        Updates::new(self, person, self.own.clone(), telling)
    }

    /// Sends the client its first updates, once it knows the session, and then all that happens.
    pub(super) fn introduce(self: &Arc<Self>) -> impl Future<Output = ()> + Send + 'static + use<> {
        let this = self.clone();
        async move {
            let Some((watcher, rows)) = this.past.lock().take() else { return };
            let known = this.updates.lock().take();
            let mut updates = match known {
                Some(updates) => updates,
                None => {
                    let mut updates = this.updates_of(Telling::Silently);
                    for row in &rows {
                        updates.row(row).await;
                    }
                    updates
                }
            };
            updates.go_live();
            let notes = std::mem::take(&mut *this.notes.lock());
            for note in notes {
                if !this.is_hosted() {
                    print::err(&format!("haft: {note}"));
                }
                updates.note(note).await;
            }
            updates.send(this.commands()).await;
            this.sent.send_replace(watcher.after());
            let task = tokio::spawn(follow(updates, watcher, this.sent.clone()));
            let task = AbortOnDropHandle::new(task);
            if !this.closed.is_cancelled() {
                *this.live.lock() = Some(task);
            }
        }
    }

    /// Runs a turn with the prompt that the person sent; returns how it ended.
    pub(super) async fn prompt(
        self: &Arc<Self>,
        blocks: Vec<ContentBlock>,
        cancel: &CancellationToken,
    ) -> Result<StopReason, Error> {
        let stop = self.closed.child_token();
        let passing = async {
            cancel.cancelled().await;
            stop.cancel();
            std::future::pending::<()>().await;
        };
        let taking = self.take_turn(blocks, &stop);
        let ended = tokio::select! {
            biased;
            ended = taking => ended,
            () = passing => Ok(StopReason::Cancelled),
        };
        // All updates are sent before the answer.
        self.flush().await;
        ended
    }

    /// Stops the turn that goes on, whoever began it.
    pub(super) async fn cancel(&self) {
        if let Err(fault) = self.handle.act(&self.new_key(), Operation::Cancel { prompt: None }).await {
            tracing::warn!(%fault, "a turn was not cancelled");
        }
    }

    /// Waits until the updates of all rows until now are sent.
    pub(super) async fn flush(&self) {
        let Ok(state) = self.handle.state().await else { return };
        let mut sent = self.sent.subscribe();
        let all = sent.wait_for(|it| *it >= state.head);
        if tokio::time::timeout(UPDATES, all).await.is_err() {
            tracing::warn!("the updates of a turn were not sent in time");
        }
    }

    /// Ends the session on this connection. If the agent runs here, stops its turn, and releases the session for other
    /// processes.
    pub(super) async fn close(&self) {
        self.closed.cancel();
        if self.here().is_some() {
            let closing = async { self.handle.act(&self.new_key(), Operation::Close).await };
            let stopping = async {
                loop {
                    self.cancel().await;
                    tokio::time::sleep(AGAIN).await;
                }
            };
            let closed = async {
                tokio::select! {
                    closed = closing => closed,
                    () = stopping => Ok(serde_json::Value::Null),
                }
            };
            match tokio::time::timeout(CLOSES, closed).await {
                Ok(Ok(_)) => self.is_free().await,
                Ok(Err(fault)) => tracing::warn!(%fault, "the session was not closed"),
                Err(_) => tracing::warn!("the session did not close in time"),
            }
        }
        // Takes back what the editor was asked.
        drop(self.live.lock().take());
        drop(self.attending.lock().take());
        self.shared.forget();
        if self.is_hosted() {
            return;
        }
        let runtime = self.runtime().clone();
        let _ = tokio::task::spawn_blocking(move || verbs::close(&runtime)).await;
    }

    /// Waits until the agent is gone, with its lease.
    async fn is_free(&self) {
        let until = tokio::time::Instant::now() + CLOSES;
        while self.store().transcripts().hold(&self.id.0).is_err() && tokio::time::Instant::now() < until {
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// Returns all rows until now, and a watcher of those after them.
async fn past(handle: &Handle) -> Result<(Watcher, Vec<Row>), Fault> {
    let (mut watcher, mut rows) = (handle.watch(0), Vec::new());
    while let Some(row) = watcher.try_next().await? {
        rows.push(row);
    }
    Ok((watcher, rows))
}

/// Sends the updates of a session as it goes on.
async fn follow(mut updates: Updates, mut watcher: Watcher, sent: watch::Sender<u64>) {
    loop {
        match watcher.next().await {
            Ok(row) => {
                updates.row(&row).await;
                sent.send_replace(row.seq);
            }
            Err(fault) => {
                tracing::warn!(%fault, "the events of the session can't be read");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

/// Runs a function that blocks, in a thread of its own.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(Fault::bug(format!("work beside the session broke off: {error}"))))
}
