//! One session of an editor: the agent of a conversation, and the settings that the editor may change while it works.

use std::{path::Path, sync::Arc};

use agent::{Agent, Crew, Driver, Steering, history};
use kit::Fault;
use parking_lot::Mutex;
use runtime::Session;
use sandbox::SandboxMode;
use serve::acp::{
    Editor,
    v1::{
        ContentBlock, ContentChunk, CurrentModeUpdate, Error, SessionId, SessionInfoUpdate, SessionUpdate,
        StopReason, TextContent,
    },
};
use store::Store;
use tokio_util::sync::CancellationToken;

use super::{
    Backend, auth,
    buffers::InEditor,
    commands,
    config_options::width,
    opening::{Opening, SavedSettings},
    person::AtEditor,
    replay, tool_calls,
    watcher::Watcher,
    workspaces::iso,
};
use crate::{agent_factory::AgentFactory, print, verbs};

/// An open session.
pub(super) struct AcpSession {
    pub(super) id: SessionId,
    pub(super) opening: Opening,
    pub(super) factory: AgentFactory,
    pub(super) session: Session,
    pub(super) crew: Option<Crew>,
    pub(super) steering: Steering,
    pub(super) watcher: Arc<Watcher>,
    /// Settings that are saved for the next time that the session is opened.
    pub(super) kept: Mutex<SavedSettings>,
    /// Notes for the person, shown once.
    notes: Mutex<Vec<String>>,
    titled: Mutex<bool>,
    /// The sandbox that the configuration allows.
    pub(super) widest: SandboxMode,
    pub(super) closed: CancellationToken,
    /// The agent and its driver, locked by the turn that runs; `None` once the session is closed.
    pub(super) turn: tokio::sync::Mutex<Option<Turning>>,
}

/// The agent and the driver of its turns.
pub(super) struct Turning {
    pub(super) agent: Agent,
    pub(super) driver: Driver,
}

impl AcpSession {
    /// Opens the session of this name, or a new one.
    pub(super) async fn open(
        backend: &Backend,
        mut opening: Opening,
        name: Option<&SessionId>,
        mut kept: SavedSettings,
    ) -> Result<Arc<Self>, Error> {
        let editor: &Editor = &backend.editor;
        let watcher = Arc::new(Watcher::start(editor.clone()));
        let person = Arc::new(AtEditor::new(editor.clone(), watcher.clone()));
        let widest = backend.widest(&backend.options_of(&opening));
        opening.sandbox = opening.sandbox.filter(|it| width((*it).into()) <= width(widest));
        let options = backend.options_of(&opening);
        let mut agent = backend.agent.clone();
        if name.is_some_and(|it| backend.has_model(&opening.cwd, it)) {
            // A resumed conversation keeps its model, profile and mode, and the editor's later settings.
            (agent.model, agent.profile, agent.plan) = (None, None, false);
        }
        let factory = agent.open(&options, &backend.place, person.clone()).await;
        let factory = factory.map_err(|fault| auth::error(&fault))?;
        let session = factory.session(name.map(|it| &*it.0), "acp", person.clone());
        let id = SessionId::from(session.name().to_owned());
        watcher.is_of(&id);
        if let Some(buffers) = InEditor::of(editor, &id) {
            factory.opened.runtime.roots().follow_editor(Arc::new(buffers));
        }
        let opened = factory.agent(session.clone(), watcher.clone(), person);
        let (agent, lines) = opened.map_err(|fault| auth::error(&fault))?;
        kept.dirs.clone_from(&opening.dirs);
        let runtime = &factory.opened.runtime;
        if let Err(fault) = kept.save(runtime.store(), &id) {
            return Err(serve::acp::error_of(&fault));
        }
        let notes = [factory.opened.aside.clone(), lines, opening.notes.clone()].concat();
        let titled = Mutex::new(!agent.turns().is_empty());
        let driver = factory.driver(false);
        let session = Arc::new(Self {
            id,
            session,
            crew: agent.crew().cloned(),
            steering: agent.steering(),
            opening,
            factory,
            watcher,
            kept: Mutex::new(kept),
            notes: Mutex::new(notes),
            titled,
            widest,
            closed: CancellationToken::new(),
            turn: tokio::sync::Mutex::new(Some(Turning { agent, driver })),
        });
        session.watcher.belongs_to(Arc::downgrade(&session));
        session.restore_effort();
        Ok(session)
    }

    pub(super) fn cwd(&self) -> &Path {
        &self.opening.cwd
    }

    pub(super) fn store(&self) -> Store {
        self.factory.opened.runtime.store().clone()
    }

    /// Saves the editor's settings.
    pub(super) fn keep(&self) {
        let kept = self.kept.lock().clone();
        if let Err(fault) = kept.save(self.factory.opened.runtime.store(), &self.id) {
            tracing::warn!("what the editor set is not kept: {fault}");
        }
    }

    /// Sends an update, after all earlier ones.
    pub(super) async fn tell(&self, update: SessionUpdate) {
        self.watcher.tell(update).await;
    }

    /// Sends the client its first updates, once it knows the session.
    pub(super) fn introduce(self: &Arc<Self>) -> impl Future<Output = ()> + Send + 'static + use<> {
        let this = self.clone();
        async move {
            for note in std::mem::take(&mut *this.notes.lock()) {
                print::err(&format!("haft: {note}"));
                this.watcher.notice(note);
            }
            this.tell(SessionUpdate::AvailableCommandsUpdate(commands::available(&this.factory.opened)))
                .await;
        }
    }

    /// Sends the updates of the whole conversation again.
    pub(super) async fn replay(&self) -> Result<(), Fault> {
        let told = {
            let (store, id) = (self.store(), self.id.clone());
            blocking(move || history(&store.transcripts(), &id.0)).await?
        };
        let changes = {
            let (runtime, id) = (self.factory.opened.runtime.clone(), self.id.clone());
            blocking(move || tool_calls::changes_of(&runtime, &id)).await?
        };
        replay::send(self, told, changes).await;
        let title = self.title();
        if let Some(title) = title {
            self.tell(SessionUpdate::SessionInfoUpdate(SessionInfoUpdate::new().title(title))).await;
        }
        Ok(())
    }

    fn title(&self) -> Option<String> {
        let turn = self.turn.try_lock().ok()?;
        turn.as_ref()?.agent.turns().first().map(|it| agent::title(it)).filter(|it| !it.is_empty())
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
        self.watcher.flush().await;
        ended
    }

    /// Gives the conversation its title after its first prompt.
    pub(super) async fn name_it(&self, words: &str) {
        if std::mem::replace(&mut *self.titled.lock(), true) {
            return;
        }
        let title = agent::title(words);
        if !title.is_empty() {
            let now = jiff::Timestamp::now().as_millisecond().cast_unsigned();
            let info = SessionInfoUpdate::new().title(title).updated_at(iso(now));
            self.tell(SessionUpdate::SessionInfoUpdate(info)).await;
        }
    }

    /// Sends a message that is not the model's.
    pub(super) async fn say(&self, text: &str) {
        let chunk = ContentChunk::new(ContentBlock::Text(TextContent::new(text)));
        self.tell(SessionUpdate::AgentMessageChunk(chunk.message_id(self.watcher.own_message()))).await;
    }

    pub(super) async fn tell_mode(&self) {
        self.tell(SessionUpdate::CurrentModeUpdate(CurrentModeUpdate::new(self.mode()))).await;
    }

    /// Stops the turn that runs, saves the conversation, and releases it for other processes.
    pub(super) async fn close(&self) {
        self.closed.cancel();
        let turning = self.turn.lock().await.take();
        self.watcher.flush().await;
        self.session.end().await;
        if let Err(fault) = self.session.keep() {
            tracing::warn!("the session's state was not saved: {fault}");
        }
        if let Some(Turning { agent, .. }) = turning
            && let Err(fault) = self.factory.keep(&agent)
        {
            tracing::warn!("how the conversation stands was not saved: {fault}");
        }
        let runtime = self.factory.opened.runtime.clone();
        let _ = tokio::task::spawn_blocking(move || verbs::close(&runtime)).await;
    }
}

/// Runs a function that blocks, in a thread of its own.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(Fault::bug(format!("work beside the session broke off: {error}"))))
}
