//! Updates of a session: the agent's events, sent to the editor in order, without blocking the agent.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use agent::{Event, Observer, Shown};
use parking_lot::Mutex;
use serve::acp::{
    Editor,
    v1::{
        ContentBlock, ContentChunk, Cost, MessageId, Notice, NoticeSeverity, SessionId, SessionUpdate,
        TextContent, ToolCallUpdate, UsageUpdate,
    },
};
use tokio::sync::{mpsc, oneshot};

use super::{session::AcpSession, tool_calls};
use crate::terminal::{abbreviate, checklist};

/// At most so many events are sent in one batch; consecutive chunks of text become one update.
const TOGETHER: usize = 256;

/// At most so many lines of a call's progress are shown.
const LINES: usize = 40;

/// The tools with which a model asks the person.
const ASKS: [&str; 2] = ["ask_user", "ask"];

/// Observes the agent and queues its events.
pub(super) struct Watcher {
    shared: Arc<Shared>,
    to: mpsc::UnboundedSender<Queued>,
    /// The call with which the model asks the person now.
    asking: Mutex<Option<String>>,
    messages: AtomicU64,
}

struct Shared {
    editor: Editor,
    id: OnceLock<SessionId>,
    owner: OnceLock<Weak<AcpSession>>,
}

enum Queued {
    Event(Event),
    Update(Box<SessionUpdate>),
    Note(String),
    Flush(oneshot::Sender<()>),
}

impl Observer for Watcher {
    fn hear(&self, event: Event) {
        match &event {
            Event::Called { call, tool, .. } if ASKS.contains(&tool.as_str()) => {
                *self.asking.lock() = Some(call.clone());
            }
            Event::Answered { call, .. } => {
                let mut asking = self.asking.lock();
                if asking.as_ref() == Some(call) {
                    *asking = None;
                }
            }
            _ => {}
        }
        // The connection may have ended; then nobody is notified.
        let _ = self.to.send(Queued::Event(event));
    }
}

impl Watcher {
    pub(super) fn start(editor: Editor) -> Self {
        let (to, from) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared { editor, id: OnceLock::new(), owner: OnceLock::new() });
        tokio::spawn(deliver(shared.clone(), from));
        Self { shared, to, asking: Mutex::default(), messages: AtomicU64::new(0) }
    }

    pub(super) fn is_of(&self, id: &SessionId) {
        let _ = self.shared.id.set(id.clone());
    }

    pub(super) fn belongs_to(&self, owner: Weak<AcpSession>) {
        let _ = self.shared.owner.set(owner);
    }

    /// Returns the session id, once it is known.
    pub(super) fn id(&self) -> Option<SessionId> {
        self.shared.id.get().cloned()
    }

    pub(super) fn owner(&self) -> Option<Arc<AcpSession>> {
        self.shared.owner.get().and_then(Weak::upgrade)
    }

    /// Returns the call with which the model asks the person.
    pub(super) fn asking(&self) -> Option<String> {
        self.asking.lock().clone()
    }

    /// Returns the id of a message that is not the model's.
    pub(super) fn own_message(&self) -> MessageId {
        let number = self.messages.fetch_add(1, Ordering::Relaxed);
        MessageId::from(format!("haft-{number}"))
    }

    /// Queues an update after all earlier events, and waits until it is sent.
    pub(super) async fn tell(&self, update: SessionUpdate) {
        let _ = self.to.send(Queued::Update(Box::new(update)));
        self.flush().await;
    }

    /// Queues a note, only if the client shows notices: elsewhere it would look like a thought of the model before any
    /// turn.
    pub(super) fn notice(&self, text: String) {
        if self.shared.editor.shows_notices() {
            self.note(text);
        }
    }

    /// Queues a note for the person.
    pub(super) fn note(&self, text: String) {
        let _ = self.to.send(Queued::Note(text));
    }

    /// Waits until all queued events are sent.
    pub(super) async fn flush(&self) {
        let (done, over) = oneshot::channel();
        let _ = self.to.send(Queued::Flush(done));
        let _ = over.await;
    }
}

async fn deliver(shared: Arc<Shared>, mut from: mpsc::UnboundedReceiver<Queued>) {
    let mut telling = Telling::new(shared);
    while let Some(first) = from.recv().await {
        let mut next = Some(first);
        let mut left = TOGETHER;
        while let Some(queued) = next {
            telling.take(queued).await;
            left -= 1;
            next = if left > 0 { from.try_recv().ok() } else { None };
        }
        telling.end_batch().await;
    }
}

/// The state of the updates that were sent until now.
struct Telling {
    shared: Arc<Shared>,
    step: usize,
    /// Text that is not sent yet, and whether it is a thought.
    text: Option<(bool, String)>,
    /// The lines of progress of each call that runs.
    calls: HashMap<String, VecDeque<String>>,
    /// Calls with progress since the last update.
    progressed: HashSet<String>,
    cost: f64,
    unpriced: bool,
    mode: Option<String>,
}

impl Telling {
    fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            step: 0,
            text: None,
            calls: HashMap::new(),
            progressed: HashSet::new(),
            cost: 0.0,
            unpriced: false,
            mode: None,
        }
    }

    async fn send(&self, update: SessionUpdate) {
        if let Some(id) = self.shared.id.get() {
            self.shared.editor.update(id, update).await;
        }
    }

    async fn take(&mut self, queued: Queued) {
        match queued {
            Queued::Event(Event::Text { text }) => self.push(false, &text).await,
            Queued::Event(Event::Reasoning { text }) => self.push(true, &text).await,
            Queued::Event(event) => {
                self.end_text().await;
                self.event(event, None).await;
            }
            Queued::Update(update) => {
                self.end_batch().await;
                self.send(*update).await;
            }
            Queued::Note(text) => {
                self.end_text().await;
                self.note(text).await;
            }
            Queued::Flush(done) => {
                self.end_batch().await;
                // The receiver may be gone.
                let _ = done.send(());
            }
        }
    }

    async fn push(&mut self, thought: bool, text: &str) {
        match &mut self.text {
            Some((kind, all)) if *kind == thought => all.push_str(text),
            _ => {
                self.end_text().await;
                self.text = Some((thought, text.to_owned()));
            }
        }
    }

    async fn end_text(&mut self) {
        let Some((thought, text)) = self.text.take() else { return };
        let kind = if thought { "thought" } else { "message" };
        let id = MessageId::from(format!("{kind}-{}", self.step));
        let chunk = ContentChunk::new(ContentBlock::Text(TextContent::new(text))).message_id(id);
        self.send(if thought {
            SessionUpdate::AgentThoughtChunk(chunk)
        } else {
            SessionUpdate::AgentMessageChunk(chunk)
        })
        .await;
    }

    async fn end_batch(&mut self) {
        self.end_text().await;
        for call in std::mem::take(&mut self.progressed) {
            let Some(lines) = self.calls.get(&call) else { continue };
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            let update = tool_calls::progress(&call, &lines.join("\n"));
            self.send(SessionUpdate::ToolCallUpdate(update)).await;
        }
    }

    async fn event(&mut self, event: Event, agent: Option<&str>) {
        let owner = self.shared.owner.get().and_then(Weak::upgrade);
        match event {
            Event::Under { agent: name, inner } => {
                let path = agent.map_or_else(|| name.clone(), |above| format!("{above}/{name}"));
                // The answer of the call that started a sub-agent contains what it wrote.
                if !matches!(*inner, Event::Text { .. } | Event::Reasoning { .. } | Event::Asked { .. }) {
                    Box::pin(self.event(*inner, Some(&path))).await;
                }
            }
            Event::Asked { step } => {
                self.step = step;
                self.mode = self.mode.take().or_else(|| owner.map(|it| it.mode().to_string()));
            }
            Event::Called { call, tool, arguments } => {
                let Some(owner) = owner else { return };
                self.calls.insert(call.clone(), VecDeque::new());
                let begun = tool_calls::begun(&owner.session, &call, &tool, &arguments, agent);
                self.send(SessionUpdate::ToolCall(begun)).await;
            }
            Event::Progress { call, line } => {
                let Some(lines) = self.calls.get_mut(&call) else { return };
                lines.push_back(line);
                if lines.len() > LINES {
                    lines.pop_front();
                }
                self.progressed.insert(call);
            }
            Event::Answered { .. } => {
                let Some(owner) = owner else { return };
                self.answered(event, &owner).await;
            }
            Event::Picture { picture, .. } => {
                if let Some(owner) = owner {
                    self.picture(&picture, &owner).await;
                }
            }
            Event::Used { cost, .. } => {
                self.cost += cost.unwrap_or(0.0);
                self.unpriced |= cost.is_none();
                if let Some(owner) = owner {
                    self.usage(&owner).await;
                }
            }
            Event::Again { why, seconds } => {
                self.note(format!("{why}; asking the model again in {seconds} s")).await;
            }
            Event::Note { text } => self.note(text).await,
            Event::Waits { jobs, seconds } => self.note(abbreviate::waits(&jobs, seconds)).await,
            Event::Writing { .. } | Event::Text { .. } | Event::Reasoning { .. } => {}
        }
    }

    async fn answered(&mut self, event: Event, owner: &Arc<AcpSession>) {
        let Event::Answered { call, tool, ok, fault, exit, text, pictures, changes, links, .. } = event
        else {
            return;
        };
        self.calls.remove(&call);
        self.progressed.remove(&call);
        let ended = tool_calls::Ended { call, tool, ok, fault, exit, text, pictures, links };
        let diffs = if changes.is_empty() { Vec::new() } else { tool_calls::diffs(owner, &ended.call).await };
        let update: ToolCallUpdate = tool_calls::ended(&owner.session, &ended, diffs).await;
        self.send(SessionUpdate::ToolCallUpdate(update)).await;
        if ended.ok && checklist::is_list(&ended.tool) {
            self.send(SessionUpdate::Plan(tool_calls::plan(&ended.text))).await;
        }
        let mode = owner.mode().to_string();
        if self.mode.as_ref().is_some_and(|it| *it != mode) {
            let update = serve::acp::v1::CurrentModeUpdate::new(mode.clone());
            self.send(SessionUpdate::CurrentModeUpdate(update)).await;
            let options = serve::acp::v1::ConfigOptionUpdate::new(owner.config_options());
            self.send(SessionUpdate::ConfigOptionUpdate(options)).await;
        }
        self.mode = Some(mode);
    }

    async fn picture(&self, picture: &Shown, owner: &Arc<AcpSession>) {
        if let Some(image) = tool_calls::picture(&owner.session, picture).await {
            self.send(SessionUpdate::AgentMessageChunk(ContentChunk::new(image))).await;
        }
    }

    async fn usage(&self, owner: &AcpSession) {
        let used = owner.steering.context_used();
        let cost = (!self.unpriced).then(|| Cost::new(self.cost, "USD"));
        let update = UsageUpdate::new(used.tokens, used.window).cost(cost);
        self.send(SessionUpdate::UsageUpdate(update)).await;
    }

    /// Sends a note as a notice if the client shows those, else as a thought, which is not part of an answer.
    async fn note(&self, text: String) {
        self.send(if self.shared.editor.shows_notices() {
            SessionUpdate::Notice(Notice::new(NoticeSeverity::Info, text))
        } else {
            let content = ContentBlock::Text(TextContent::new(format!("haft: {text}\n")));
            SessionUpdate::AgentThoughtChunk(ContentChunk::new(content))
        })
        .await;
    }
}
