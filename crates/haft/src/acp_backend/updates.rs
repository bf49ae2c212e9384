//! Updates of a session: its rows, live or read again, as the editor gets them.
//!
//! Live updates and a replay come from the same rows, so the messages are the same byte for byte.

mod calls;
mod questions;

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Weak},
};

use agent::{Event as Done, Shown, model::Usage};
use parking_lot::Mutex;
use runtime::Runtime;
use serve::acp::{
    Editor,
    v1::{
        ContentBlock, ContentChunk, Cost, MessageId, Notice, NoticeSeverity, SessionId, SessionInfoUpdate,
        SessionUpdate, TextContent, ToolCallContent, UsageUpdate,
    },
};
use sessions::{Event, Row, TurnEnd};

use self::{calls::Calls, questions::Open};
use super::{
    person::AtEditor,
    session::AcpSession,
    texts::{New, Texts},
    tool_calls,
    workspaces::iso,
};
use crate::terminal::abbreviate;

/// How rows are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Telling {
    /// As they happen.
    Live,
    /// Again: without notices, which are about a moment that has passed.
    Again,
    /// Not at all: the editor has them already, or does not want them.
    Silently,
}

/// The state of the updates that were sent until now.
pub(super) struct Updates {
    editor: Editor,
    id: SessionId,
    runtime: Runtime,
    owner: Weak<AcpSession>,
    person: AtEditor,
    telling: Telling,
    /// The keys of prompts that this editor has sent: it shows their words itself.
    own: Arc<Mutex<HashSet<String>>>,
    texts: Texts,
    calls: Calls,
    open: Open,
    /// The changes of calls, where they were read beforehand.
    pub(super) changes: HashMap<String, Vec<ToolCallContent>>,
    cost: f64,
    unpriced: bool,
    /// The usage of the newest answer.
    newest: Option<Usage>,
    mode: Option<String>,
    titled: bool,
}

impl Updates {
    pub(super) fn new(
        owner: &Arc<AcpSession>,
        person: AtEditor,
        own: Arc<Mutex<HashSet<String>>>,
        telling: Telling,
    ) -> Self {
        Self {
            editor: person.editor.clone(),
            id: owner.id.clone(),
            runtime: owner.runtime().clone(),
            owner: Arc::downgrade(owner),
            person,
            telling,
            own,
            texts: Texts::default(),
            calls: Calls::default(),
            open: Open::default(),
            changes: HashMap::new(),
            cost: 0.0,
            unpriced: false,
            newest: None,
            mode: None,
            titled: false,
        }
    }

    /// Sends rows as they happen from now on, and asks the open approvals and questions.
    pub(super) fn go_live(&mut self) {
        if self.telling == Telling::Silently {
            self.calls.forget_sub_agents();
        }
        self.telling = Telling::Live;
        self.changes = HashMap::new();
        self.open.ask(&self.person, &self.owner);
    }

    pub(super) async fn send(&self, update: SessionUpdate) {
        if self.telling != Telling::Silently {
            self.editor.update(&self.id, update).await;
        }
    }

    /// Takes the next row.
    pub(super) async fn row(&mut self, row: &Row) {
        if let Some((path, event)) = row.event.of_agent() {
            return self.of_agent(row, &path, event).await;
        }
        self.texts.end("");
        match &row.event {
            Event::TurnBegan { key, text, attached, .. } => {
                let is_own = key.as_ref().is_some_and(|it| self.own.lock().remove(it));
                self.mode = self.owner.upgrade().map(|it| it.mode());
                if !is_own || self.telling == Telling::Again {
                    self.person_says(&format!("user-{}", row.seq), text, attached).await;
                }
                self.title(text, row.at_ms).await;
            }
            Event::TurnEnded(end) => self.turn_ended(end).await,
            Event::ApprovalOpened(approval) => {
                self.open.approval(approval.clone());
                self.ask_if_live();
            }
            Event::QuestionOpened(asked) => {
                let call = self.calls.asking();
                self.open.question(asked.clone(), call);
                self.ask_if_live();
            }
            Event::ApprovalClosed { id, decision, by, .. } => {
                // An expired one is taken back too.
                let was_asked = self.open.close(id);
                if let Some(by) = by.as_ref().filter(|_| was_asked) {
                    let how = format!("{decision:?}").to_lowercase();
                    self.note(format!("{by} decided: {how}")).await;
                }
            }
            Event::QuestionClosed { id, by, .. } => {
                let was_asked = self.open.close(id);
                if let Some(by) = by.as_ref().filter(|_| was_asked) {
                    self.note(format!("{by} answered the question")).await;
                }
            }
            Event::Told { text } => self.model_says(&format!("told-{}", row.seq), text).await,
            Event::Configured { model, profile } => {
                // Earlier rows are older than what the process that runs it said.
                if self.telling == Telling::Live
                    && let Some(owner) = self.owner.upgrade()
                {
                    owner.is_configured(model.as_deref(), profile.as_deref());
                    self.tell_mode(&owner).await;
                }
            }
            Event::SandboxChosen { sandbox, by } => {
                self.note(format!("{by} switched the sandbox to {}", sandbox.name())).await;
            }
            Event::Renamed { title } => {
                self.titled = true;
                let info = SessionInfoUpdate::new().title(title.clone()).updated_at(iso(row.at_ms));
                self.live(SessionUpdate::SessionInfoUpdate(info)).await;
            }
            Event::Opened { pid, by, .. } => {
                // What an earlier process had under way, nobody ends.
                self.end_calls("its process ended before it had a result", true).await;
                if let Some(owner) = self.owner.upgrade() {
                    self.live(owner.commands()).await;
                }
                if *pid != std::process::id() {
                    self.note(format!("process {pid} ({by}) runs this session")).await;
                }
            }
            Event::Rewound { said, .. } => {
                self.note(format!("went back to before: {}", agent::title(said))).await;
            }
            Event::Undone { text, .. } => self.note(text.clone()).await,
            Event::Command { by, command, .. } => self.note(format!("{by} runs: {command}")).await,
            Event::Compacted { before, after, .. } => {
                self.note(format!("compacted: {before} tokens became {after}")).await;
            }
            Event::Forked { into, .. } => self.note(format!("forked into {into}")).await,
            Event::JobEnded(_)
            | Event::MessageArrived { .. }
            | Event::JobWaits(_)
            | Event::Archived { .. }
            | Event::Closed { .. }
            | Event::Agent(_)
            | Event::Unknown(_) => {}
        }
    }

    /// Takes a row that is not told, as it was taken back: only its cost counts.
    pub(super) fn pass(&mut self, row: &Row) {
        if let Some((_, Done::Used { cost, .. })) = row.event.of_agent() {
            self.cost += cost.unwrap_or(0.0);
            self.unpriced |= cost.is_none();
        }
    }

    async fn of_agent(&mut self, row: &Row, path: &str, event: &Done) {
        match event {
            Done::Text { text } => {
                if let Some(new) = self.texts.add(path, false, row, text) {
                    self.text(path, new).await;
                }
                return;
            }
            Done::Reasoning { text } => {
                // What a sub-agent thinks is not shown.
                if let Some(new) = self.texts.add(path, true, row, text)
                    && path.is_empty()
                {
                    let chunk = chunk(new.text).message_id(message(&format!("thought-{}", new.first)));
                    self.send(SessionUpdate::AgentThoughtChunk(chunk)).await;
                }
                return;
            }
            Done::Writing { call, tool, .. } => return self.writes(path, call, tool).await,
            Done::Progress { call, line } => return self.progress(call, line).await,
            _ => self.texts.end(path),
        }
        self.sub_agent_goes_on(path).await;
        match event {
            Done::Called { call, tool, arguments } => self.called(path, call, tool, arguments).await,
            Done::Answered { .. } => self.answered(path, event).await,
            Done::Picture { picture, .. } => self.picture(picture).await,
            Done::Used { usage, cost } => {
                self.unmade(path).await;
                self.cost += cost.unwrap_or(0.0);
                self.unpriced |= cost.is_none();
                if path.is_empty() {
                    self.newest = Some(*usage);
                }
                if self.telling == Telling::Live {
                    self.usage().await;
                }
            }
            Done::Again { why, seconds } => {
                self.unmade(path).await;
                self.note(format!("{why}; asking the model again in {seconds} s")).await;
            }
            Done::Note { text } => self.note(text.clone()).await,
            // The end of a job was shown when it ended.
            Done::MessageShown { source, .. } if source == "job" => {}
            Done::MessageShown { from, channel, text, .. } => {
                self.note(abbreviate::message(from, channel.as_deref(), text)).await;
            }
            Done::Waits { jobs, seconds } => self.note(abbreviate::waits(jobs, *seconds)).await,
            Done::Asked { .. }
            | Done::Text { .. }
            | Done::Reasoning { .. }
            | Done::Writing { .. }
            | Done::Progress { .. }
            | Done::Under { .. } => {}
        }
    }

    async fn text(&mut self, path: &str, new: New<'_>) {
        if path.is_empty() {
            let chunk = chunk(new.text).message_id(message(&format!("message-{}", new.first)));
            return self.send(SessionUpdate::AgentMessageChunk(chunk)).await;
        }
        self.sub_agent_says(path, new.text, new.begins).await;
    }

    /// Sends the words of a person as a message of the user.
    pub(super) async fn person_says(&self, id: &str, text: &str, attached: &[String]) {
        let attached: String = attached.iter().map(|it| format!("\n[{it}]")).collect();
        let text = format!("{text}{attached}");
        if !text.is_empty() {
            let chunk = chunk(&text).message_id(message(id));
            self.send(SessionUpdate::UserMessageChunk(chunk)).await;
        }
    }

    /// Sends a whole message of the agent.
    pub(super) async fn model_says(&self, id: &str, text: &str) {
        self.send(SessionUpdate::AgentMessageChunk(chunk(text).message_id(message(id)))).await;
    }

    async fn turn_ended(&mut self, end: &TurnEnd) {
        let is_interrupted = end.ended == "interrupted";
        let why = if is_interrupted { "its process ended before it had a result" } else { "it was stopped" };
        self.end_calls(why, is_interrupted).await;
        self.end_sub_agents("").await;
        if is_interrupted {
            self.note("the turn was interrupted: its process ended".to_owned()).await;
        }
    }

    /// Gives the session its title after the first words of a person.
    async fn title(&mut self, words: &str, at_ms: u64) {
        let title = agent::title(words);
        if title.is_empty() || std::mem::replace(&mut self.titled, true) {
            return;
        }
        let info = SessionInfoUpdate::new().title(title).updated_at(iso(at_ms));
        self.live(SessionUpdate::SessionInfoUpdate(info)).await;
    }

    fn ask_if_live(&mut self) {
        if self.telling == Telling::Live {
            self.open.ask(&self.person, &self.owner);
        }
    }

    async fn live(&self, update: SessionUpdate) {
        if self.telling == Telling::Live {
            self.send(update).await;
        }
    }

    async fn tell_mode(&mut self, owner: &Arc<AcpSession>) {
        self.mode = Some(owner.mode());
        for update in owner.options_as_updates() {
            self.live(update).await;
        }
    }

    /// A call may have changed the profile.
    async fn look_at_mode(&mut self) {
        let Some(owner) = self.owner.upgrade() else { return };
        if self.mode.as_ref().is_some_and(|it| *it != owner.mode()) {
            self.tell_mode(&owner).await;
        }
    }

    async fn picture(&self, picture: &Shown) {
        if let Some(image) = tool_calls::picture(&self.runtime, &self.id, picture).await {
            self.send(SessionUpdate::AgentMessageChunk(ContentChunk::new(image))).await;
        }
    }

    /// Sends how much of the context is used, and the cost.
    pub(super) async fn usage(&self) {
        let (Some(owner), Some(newest)) = (self.owner.upgrade(), self.newest) else { return };
        let (used, size) = owner.context_used(newest);
        let cost = (!self.unpriced).then(|| Cost::new(self.cost, "USD"));
        self.send(SessionUpdate::UsageUpdate(UsageUpdate::new(used, size).cost(cost))).await;
    }

    /// Sends a note as a notice if the client shows those, else as a thought, which is not part of an answer.
    pub(super) async fn note(&self, text: String) {
        self.live(if self.editor.shows_notices() {
            SessionUpdate::Notice(Notice::new(NoticeSeverity::Info, text))
        } else {
            SessionUpdate::AgentThoughtChunk(chunk(&format!("haft: {text}\n")))
        })
        .await;
    }
}

fn chunk(text: &str) -> ContentChunk {
    ContentChunk::new(ContentBlock::Text(TextContent::new(text)))
}

fn message(id: &str) -> MessageId {
    MessageId::from(id.to_owned())
}
