//! The fold of a session's rows: what a watcher knows of a session once it has read them.
//!
//! It is the same for all watchers that read up to the same row, whether they read the pieces of a text or the row that
//! took their place.

use std::collections::BTreeMap;

use agent::Event as Done;

use crate::{
    event::{Approval, Asked, Event, Row, TurnEnd},
    streams::{Kind, text_of},
};

/// The state of a session, folded from its rows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Fold {
    /// The highest number that was folded.
    pub head: u64,
    /// The title that it was given.
    pub title: Option<String>,
    /// Whether it is archived.
    pub archived: bool,
    /// The model and the profile that were chosen.
    pub configured: (Option<String>, Option<String>),
    /// Whether a process runs it.
    pub is_open: bool,
    /// The turn that goes on.
    pub turn: Option<Turn>,
    /// Approvals that wait for a decision.
    pub approvals: Vec<Approval>,
    /// Questions that wait for an answer.
    pub questions: Vec<Asked>,
    /// The items and progress of each agent, by path: the session's own agent has the empty path.
    pub agents: BTreeMap<String, Agent>,
}

/// A turn that goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// The idempotency key of its prompt.
    pub key: Option<String>,
    /// The initiator of the turn.
    pub by: String,
    /// How many messages the transcript had before.
    pub messages: u64,
}

/// The items and progress of one agent.
#[derive(Debug, Clone, Default)]
pub struct Agent {
    /// In order.
    pub items: Vec<Item>,
    /// How many bytes of the call that it writes there are.
    pub writing: Option<(usize, usize)>,
    /// How far calls have come that run, by their ids.
    pub progress: BTreeMap<String, String>,
    /// The last item, where it is a text that may still grow.
    growing: Option<Growing>,
}

/// A text that may still grow, by the rows that say it.
#[derive(Debug, Clone)]
struct Growing {
    kind: Kind,
    item: usize,
    pieces: Vec<(u64, String)>,
}

impl PartialEq for Agent {
    fn eq(&self, other: &Self) -> bool {
        // By which rows it came is not part of what is known.
        (&self.items, self.writing, &self.progress) == (&other.items, other.writing, &other.progress)
    }
}

/// A text of the model, or an event.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// The model said this.
    Text(String),
    /// The model thought this.
    Reasoning(String),
    /// A row that stands for itself.
    Event(Box<Event>),
}

impl Fold {
    /// The fold of no row.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next row.
    pub fn add(&mut self, row: &Row) {
        self.head = self.head.max(row.seq);
        if let Some((path, done)) = row.event.of_agent() {
            return self.agents.entry(path).or_default().add(row, done);
        }
        match &row.event {
            Event::Opened { .. } => self.is_open = true,
            Event::Closed { .. } => self.is_open = false,
            Event::TurnBegan { key, by, messages, .. } => {
                self.turn = Some(Turn { key: key.clone(), by: by.clone(), messages: *messages });
            }
            Event::TurnEnded(_) => {
                self.turn = None;
                self.agents.values_mut().for_each(Agent::rest);
            }
            Event::ApprovalOpened(it) => self.approvals.push(it.clone()),
            Event::ApprovalClosed { id, .. } => self.approvals.retain(|it| it.id != *id),
            Event::QuestionOpened(it) => self.questions.push(it.clone()),
            Event::QuestionClosed { id, .. } => self.questions.retain(|it| it.id != *id),
            Event::Renamed { title } => self.title = Some(title.clone()),
            Event::Archived { archived } => self.archived = *archived,
            Event::Configured { model, profile } => {
                let (known_model, known_profile) = &mut self.configured;
                model.iter().for_each(|it| *known_model = Some(it.clone()));
                profile.iter().for_each(|it| *known_profile = Some(it.clone()));
            }
            Event::Told { .. }
            | Event::SandboxChosen { .. }
            | Event::MessageArrived { .. }
            | Event::JobEnded(_)
            | Event::JobWaits(_)
            | Event::Command { .. }
            | Event::Compacted { .. }
            | Event::Rewound { .. }
            | Event::Forked { .. }
            | Event::Undone { .. }
            | Event::Agent(_)
            | Event::Unknown(_) => {}
        }
        self.agents.entry(String::new()).or_default().stand(&row.event);
    }

    /// How the turns ended that did, by the keys of their prompts.
    pub fn ended(&self) -> impl Iterator<Item = (&str, &TurnEnd)> {
        let own = self.agents.get("").into_iter().flat_map(|it| &it.items);
        own.filter_map(|it| match it {
            Item::Event(event) => match &**event {
                Event::TurnEnded(end) => end.key.as_deref().map(|key| (key, end)),
                _ => None,
            },
            Item::Text(_) | Item::Reasoning(_) => None,
        })
    }
}

impl Agent {
    fn add(&mut self, row: &Row, done: &Done) {
        match Kind::of(done) {
            Some(kind) if kind.is_text() => self.text(row, kind, done),
            Some(_) => self.newest(done),
            None => {
                match done {
                    Done::Answered { call, .. } => drop(self.progress.remove(call)),
                    Done::Used { .. } | Done::Again { .. } => self.writing = None,
                    _ => {}
                }
                self.stand(&row.event);
            }
        }
    }

    fn newest(&mut self, done: &Done) {
        match done {
            Done::Writing { index, bytes, .. } => self.writing = Some((*index, *bytes)),
            Done::Progress { call, line } => drop(self.progress.insert(call.clone(), line.clone())),
            _ => {}
        }
    }

    fn stand(&mut self, event: &Event) {
        self.growing = None;
        self.items.push(Item::Event(Box::new(event.clone())));
    }

    fn rest(&mut self) {
        self.writing = None;
        self.progress.clear();
    }

    fn text(&mut self, row: &Row, kind: Kind, done: &Done) {
        let text = text_of(done).unwrap_or_default().to_owned();
        let mut growing = match self.growing.take().filter(|it| it.kind == kind) {
            Some(growing) => growing,
            None => Growing { kind, item: self.items.len(), pieces: Vec::new() },
        };
        // A row that takes the place of others says all that they said.
        growing.pieces.retain(|it| it.0 < row.first);
        growing.pieces.push((row.seq, text));
        let whole: String = growing.pieces.iter().map(|it| it.1.as_str()).collect();
        self.items.truncate(growing.item);
        self.items.push(if growing.kind == Kind::Text { Item::Text(whole) } else { Item::Reasoning(whole) });
        self.growing = Some(growing);
    }
}
