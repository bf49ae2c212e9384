//! Event feed of an attached terminal: shows the rows of the session's log, and its questions until somebody settles them.

use std::{collections::HashMap, sync::Arc};

use agent::Observer;
use kit::{effect::Scope, services::Question};
use runtime::Verdict;
use sessions::{Approval, Asked as Wants, Decision, Event, Handle, Operation, Row, TurnEnd, Watcher};
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;

use super::told;
use crate::{
    ask::AboutCall,
    terminal::{
        asking::Asked,
        chat::{Passes, seen::Seen},
        row::Style,
    },
};

/// Shows the rows of a watcher until the returned handle is dropped.
pub(super) fn follow(
    watcher: Watcher,
    handle: &Handle,
    who: &str,
    passes: &Arc<Passes>,
) -> AbortOnDropHandle<()> {
    let feed = Feed {
        handle: handle.clone(),
        who: who.to_owned(),
        passes: passes.clone(),
        asked: HashMap::new(),
        texts: Texts::default(),
    };
    AbortOnDropHandle::new(tokio::spawn(feed.run(watcher)))
}

struct Feed {
    handle: Handle,
    /// The name of this terminal.
    who: String,
    passes: Arc<Passes>,
    /// The open questions at this terminal, by id. Dropping the handle withdraws a question.
    asked: HashMap<String, AbortOnDropHandle<()>>,
    texts: Texts,
}

impl Feed {
    async fn run(mut self, mut watcher: Watcher) {
        loop {
            match watcher.next().await {
                Ok(row) => self.take(row),
                Err(fault) => {
                    self.line(&told(&fault), Style::BAD);
                    return;
                }
            }
        }
    }

    fn take(&mut self, row: Row) {
        let Some(row) = self.texts.new_of(row) else { return };
        match row.event {
            Event::Agent(event) => self.passes.hear(event),
            Event::TurnBegan { by, text, .. } => {
                self.passes.see(Seen::Began((by != self.who).then_some((text, by))));
            }
            Event::TurnEnded(end) => {
                self.texts = Texts::default();
                self.passes.see(Seen::Ended(how(&end)));
            }
            Event::ApprovalOpened(approval) => self.asks(approval),
            Event::ApprovalClosed { id, decision, by, words } => {
                let by = by.unwrap_or_else(|| "nobody".to_owned());
                let words = words.map_or_else(String::new, |it| format!(": {it}"));
                self.settled(
                    &id,
                    &by,
                    &match decision {
                        Decision::Once => format!("{by} allowed it once"),
                        Decision::Session => format!("{by} allowed it for this session"),
                        Decision::Project => format!("{by} allowed it for this project"),
                        Decision::No => format!("{by} refused it{words}"),
                        Decision::Expired => "the call no longer waits".to_owned(),
                        Decision::Nobody => "nobody attended".to_owned(),
                    },
                );
            }
            Event::QuestionOpened(asked) => self.wants(asked),
            Event::QuestionClosed { id, answer, by } => {
                let by = by.unwrap_or_else(|| "nobody".to_owned());
                let answer = answer.map_or_else(|| "no answer".to_owned(), |it| format!("answered: {it}"));
                self.settled(&id, &by, &format!("{by}: {answer}"));
            }
            Event::Told { text } => self.line(&text, Style::PLAIN),
            Event::JobEnded(job) | Event::JobWaits(job) => self.passes.see(Seen::Job(job)),
            Event::Opened { pid, by, .. } => {
                let who = if pid == std::process::id() {
                    "this process".to_owned()
                } else {
                    format!("process {pid} ({by})")
                };
                self.line(&format!("{who} runs this session now"), Style::DIM);
            }
            Event::Closed { by } => {
                self.line(
                    &format!("{by} closed this session; what you say next is done by this process"),
                    Style::DIM,
                );
            }
            Event::Configured { model, profile } => {
                let model = model.map(|it| format!("model {it}"));
                let all: Vec<String> =
                    model.into_iter().chain(profile.map(|it| format!("profile {it}"))).collect();
                self.line(&format!("from now on: {}", all.join(", ")), Style::DIM);
            }
            Event::Renamed { title } => self.line(&format!("renamed: {title}"), Style::DIM),
            Event::Archived { archived } => {
                self.line(if archived { "archived" } else { "no longer archived" }, Style::DIM);
            }
            Event::Rewound { said, .. } => {
                self.line(&format!("went back to before: {}", agent::title(&said)), Style::DIM);
            }
            Event::Forked { into } => self.line(&format!("forked: {into}"), Style::DIM),
            Event::Undone { text, .. } => self.line(&text, Style::DIM),
            Event::Unknown(_) => {}
        }
    }

    fn line(&self, text: &str, style: Style) {
        self.passes.see(Seen::Line(text.to_owned(), style));
    }

    /// Withdraws a settled question; if somebody else settled it, shows the person how.
    fn settled(&mut self, id: &str, by: &str, how: &str) {
        if self.asked.remove(id).is_some() && by != self.who {
            self.passes.see(Seen::Settled(how.to_owned()));
        }
    }

    fn asks(&mut self, approval: Approval) {
        let (reply, answer) = oneshot::channel();
        let (id, hash) = (approval.id.clone(), approval.hash.clone());
        let about = AboutCall::from(approval);
        let (handle, passes, key) = (self.handle.clone(), self.passes.clone(), format!("{}-{id}", self.who));
        let waits = tokio::spawn({
            let id = id.clone();
            async move {
                let Ok(verdict) = answer.await else { return };
                let (decision, words) = match verdict {
                    Verdict::Yes(Scope::Once) => (Decision::Once, None),
                    Verdict::Yes(Scope::Session) => (Decision::Session, None),
                    Verdict::Yes(Scope::Project) => (Decision::Project, None),
                    Verdict::Instead(words) => (Decision::No, Some(words)),
                    Verdict::No | Verdict::NobodyThere => (Decision::No, None),
                };
                // A separate task: closing the question does not cancel a decision that was made here.
                tokio::spawn(async move {
                    let operation = Operation::Approve { id, hash, decision, words };
                    if let Err(fault) = handle.act(&key, operation).await {
                        passes.see(Seen::Line(told(&fault), Style::BAD));
                    }
                });
            }
        });
        self.asked.insert(id, AbortOnDropHandle::new(waits));
        self.passes.see(Seen::Asks(Box::new(Asked::May(about, reply))));
    }

    fn wants(&mut self, asked: Wants) {
        let (reply, answer) = oneshot::channel();
        let Wants { id, text, options, seconds } = asked;
        let question = Question { text, options, within: seconds.map(std::time::Duration::from_secs) };
        let (handle, passes, key) = (self.handle.clone(), self.passes.clone(), format!("{}-{id}", self.who));
        let waits = tokio::spawn({
            let id = id.clone();
            async move {
                let Ok(text) = answer.await else { return };
                tokio::spawn(async move {
                    if let Err(fault) = handle.act(&key, Operation::Answer { id, text }).await {
                        passes.see(Seen::Line(told(&fault), Style::BAD));
                    }
                });
            }
        });
        self.asked.insert(id, AbortOnDropHandle::new(waits));
        self.passes.see(Seen::Asks(Box::new(Asked::Wants(question, reply))));
    }
}

/// Returns the text that says how a turn ended, or `None` for a normal end.
fn how(end: &TurnEnd) -> Option<String> {
    match end.ended.as_str() {
        "done" => None,
        "cancelled" => Some("Stopped. What next?".to_owned()),
        "limit" => Some("Step limit reached; type anything to continue.".to_owned()),
        "refused" => Some("The provider refused to go on.".to_owned()),
        "interrupted" => Some("Its process ended in the middle of this turn.".to_owned()),
        _ => Some(end.error.as_ref().map_or_else(|| "The turn failed.".to_owned(), |it| it.what.clone())),
    }
}

/// The texts that were shown, by agent: when a row replaces its pieces, only the text beyond them is new.
#[derive(Default)]
struct Texts {
    /// The number and the length of each piece.
    said: HashMap<(String, bool), Vec<(u64, usize)>>,
}

impl Texts {
    /// Returns the row without the text that was already shown, or `None` if nothing is left.
    fn new_of(&mut self, mut row: Row) -> Option<Row> {
        let Some((path, event)) = row.event.of_agent() else { return Some(row) };
        let (text, is_thought) = match event {
            agent::Event::Text { text } => (text.clone(), false),
            agent::Event::Reasoning { text } => (text.clone(), true),
            // Other rows pass unchanged.
            _ => return Some(row),
        };
        let pieces = self.said.entry((path, is_thought)).or_default();
        let first = row.from().unwrap_or(row.seq);
        let shown: usize = pieces.iter().filter(|it| it.0 >= first).map(|it| it.1).sum();
        pieces.retain(|it| it.0 < first);
        pieces.push((row.seq, text.len()));
        let rest = text.get(shown..).unwrap_or_default();
        if rest.is_empty() {
            return None;
        }
        if shown > 0 {
            let rest = rest.to_owned();
            set_text(&mut row.event, rest);
        }
        Some(row)
    }
}

fn set_text(event: &mut Event, rest: String) {
    let Event::Agent(mut inner) = std::mem::replace(event, Event::Unknown(serde_json::Value::Null)) else {
        return;
    };
    let mut at = &mut inner;
    while let agent::Event::Under { inner, .. } = at {
        at = inner;
    }
    if let agent::Event::Text { text } | agent::Event::Reasoning { text } = at {
        *text = rest;
    }
    *event = Event::Agent(inner);
}
