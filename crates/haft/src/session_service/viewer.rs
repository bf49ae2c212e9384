//! A terminal's view of a session: shows the rows of the session's log, asks its questions, and reports the answers.
//!
//! A terminal that runs a session and one that is attached to it read the same rows in the same way. They differ in where
//! their answers go.

use std::{collections::HashMap, future::Future, pin::Pin, sync::Arc, time::Duration};

use agent::Observer;
use kit::{Fault, Kind, effect::Scope, services::Question};
use parking_lot::Mutex;
use runtime::Verdict;
use sessions::{
    Approval, Asked, Attendance, Decision, Event, Handle, Hub, Job, Log, Operation, Owner, Row, Watcher,
};
use tokio::{sync::watch, time::sleep};
use tokio_util::task::AbortOnDropHandle;

use super::pieces::Pieces;
use crate::ask::AboutCall;

/// How long it takes until rows that could not be read are read again.
const AGAIN: Duration = Duration::from_secs(1);

/// Maximum time that a terminal waits until it has shown all rows of a log.
const LAGS: Duration = Duration::from_secs(10);

/// The answer of a person; `None` if their terminal is gone.
pub(crate) type Reply<T> = Pin<Box<dyn Future<Output = Option<T>> + Send>>;

/// A terminal that shows a session.
pub(crate) trait Viewer: Observer {
    /// Shows that a background job ended, or that it waits for input.
    fn job(&self, job: Job);

    /// Shows a text that needs no answer.
    fn text(&self, text: &str);

    /// Asks whether a call may run. Dropping the future withdraws the question.
    fn approve(&self, call: AboutCall) -> Reply<Verdict>;

    /// Asks the person. The answer is `None` if they don't want to answer. Dropping the future withdraws the question.
    fn ask(&self, question: Question) -> Reply<Option<String>>;

    /// Shows who settled an open question elsewhere, and how.
    fn settled(&self, how: &str);

    /// Shows why an answer did not count.
    fn fails(&self, fault: &Fault);

    /// Shows any other row. A terminal that runs the session shows what these report as it does it.
    fn other(&self, event: Event) {
        drop(event);
    }
}

/// The destination of a terminal's answers.
pub(crate) enum Answers {
    /// This process runs the session. `attends` is held as long as the terminal can be used.
    Here { hub: Arc<Hub>, attends: Mutex<Option<Attendance>> },
    /// Another process may run it.
    There(Handle),
    /// There is nobody to ask.
    Nowhere,
}

/// A terminal that follows the log of a session until this is dropped.
pub(crate) struct View {
    log: Option<Arc<Log>>,
    /// The number of the last row that was shown.
    reached: watch::Receiver<u64>,
    _follows: AbortOnDropHandle<()>,
}

impl View {
    /// Shows the session that this process runs, from where it was claimed.
    pub(crate) fn of_owner(
        owner: &Owner,
        viewer: &Arc<dyn Viewer>,
        who: &str,
        attends: Option<Attendance>,
    ) -> Self {
        let answers = match attends {
            Some(attends) => Answers::Here { hub: owner.hub().clone(), attends: Mutex::new(Some(attends)) },
            None => Answers::Nowhere,
        };
        let view = Self::follow(owner.watch(owner.claimed_at()), viewer.clone(), answers, who);
        Self { log: Some(owner.log().clone()), ..view }
    }

    /// Shows the rows of a watcher. `who` is the name of this terminal.
    pub(crate) fn follow(watcher: Watcher, viewer: Arc<dyn Viewer>, answers: Answers, who: &str) -> Self {
        let (reached, shown) = watch::channel(0);
        let feed = Feed {
            viewer,
            answers: Arc::new(answers),
            who: who.to_owned(),
            asked: HashMap::new(),
            pieces: Pieces::default(),
        };
        let follows = AbortOnDropHandle::new(tokio::spawn(feed.run(watcher, reached)));
        Self { log: None, reached: shown, _follows: follows }
    }

    /// Does some work, and shows what it added to the log.
    pub(crate) async fn after<T>(&self, work: impl Future<Output = T>) -> T {
        let done = work.await;
        self.caught_up().await;
        done
    }

    /// Waits until the terminal has shown all that was added to the log so far.
    pub(crate) async fn caught_up(&self) {
        let Some(log) = &self.log else { return };
        if let Err(fault) = log.flush().await {
            tracing::warn!(%fault, "events are not shown, as they can't be written");
        }
        self.shown(log.head()).await;
    }

    /// Waits until the terminal has shown the row of this number.
    pub(crate) async fn shown(&self, seq: u64) {
        let mut reached = self.reached.clone();
        if tokio::time::timeout(LAGS, reached.wait_for(|it| *it >= seq)).await.is_err() {
            tracing::warn!("the terminal did not show all events in time");
        }
    }
}

struct Feed {
    viewer: Arc<dyn Viewer>,
    answers: Arc<Answers>,
    /// The name of this terminal.
    who: String,
    /// The open questions at this terminal, by id. Dropping the handle withdraws a question.
    asked: HashMap<String, AbortOnDropHandle<()>>,
    pieces: Pieces,
}

impl Feed {
    async fn run(mut self, mut watcher: Watcher, reached: watch::Sender<u64>) {
        loop {
            match watcher.next().await {
                Ok(row) => {
                    let seq = row.seq;
                    self.take(row);
                    reached.send_replace(seq);
                }
                Err(fault) => {
                    self.viewer.fails(&fault);
                    sleep(AGAIN).await;
                }
            }
        }
    }

    fn take(&mut self, row: Row) {
        let Some(row) = self.pieces.new_of(row) else { return };
        match row.event {
            Event::Agent(event) => self.viewer.observe(event),
            Event::JobEnded(job) | Event::JobWaits(job) => self.viewer.job(job),
            Event::Told { text } => self.viewer.text(&text),
            Event::SandboxChosen { sandbox, by } => {
                self.viewer.text(&format!("{by} switched the sandbox to {}", sandbox.name()));
            }
            Event::ApprovalOpened(approval) => self.approve(approval),
            Event::ApprovalClosed { id, decision, by, words } => {
                let how = decided(decision, by.as_deref(), words.as_deref());
                self.settled(&id, by.as_deref(), &how);
            }
            Event::QuestionOpened(asked) => self.ask(asked),
            Event::QuestionClosed { id, answer, by } => {
                let answer = answer.map_or_else(|| "no answer".to_owned(), |it| format!("answered: {it}"));
                let how = format!("{}: {answer}", by.as_deref().unwrap_or("nobody"));
                self.settled(&id, by.as_deref(), &how);
            }
            other => {
                if matches!(other, Event::TurnEnded(_)) {
                    self.pieces.forget();
                }
                self.viewer.other(other);
            }
        }
    }

    /// Withdraws a settled question; if another person settled it, shows how.
    fn settled(&mut self, id: &str, by: Option<&str>, how: &str) {
        let Some(asked) = self.asked.remove(id) else { return };
        if by.is_some_and(|it| it != self.who) {
            // Shown before the question is withdrawn, as the reason for it.
            self.viewer.settled(how);
        }
        drop(asked);
    }

    fn approve(&mut self, approval: Approval) {
        if matches!(*self.answers, Answers::Nowhere) {
            return;
        }
        let (id, hash) = (approval.id.clone(), approval.hash.clone());
        let asking = self.viewer.approve(AboutCall::from(approval));
        self.asks(id.clone(), asking, move |verdict| {
            let (decision, words) = match verdict {
                Verdict::Yes(Scope::Once) => (Decision::Once, None),
                Verdict::Yes(Scope::Session) => (Decision::Session, None),
                Verdict::Yes(Scope::Project) => (Decision::Project, None),
                Verdict::Instead(words) => (Decision::No, Some(words)),
                Verdict::No => (Decision::No, None),
                Verdict::NobodyThere | Verdict::NobodyDecided { .. } => return None,
            };
            Some(Operation::Approve { id, hash, decision, words })
        });
    }

    fn ask(&mut self, asked: Asked) {
        if matches!(*self.answers, Answers::Nowhere) {
            return;
        }
        let Asked { id, text, options, seconds } = asked;
        let question = Question { text, options, within: seconds.map(Duration::from_secs) };
        let asking = self.viewer.ask(question);
        self.asks(id.clone(), asking, move |text| Some(Operation::Answer { id, text }));
    }

    /// Waits for the person's answer, and reports it as the operation that `of` makes of it.
    fn asks<T: Send + 'static>(
        &mut self,
        id: String,
        asking: Reply<T>,
        of: impl FnOnce(T) -> Option<Operation> + Send + 'static,
    ) {
        let (answers, viewer, who) = (self.answers.clone(), self.viewer.clone(), self.who.clone());
        let key = format!("{who}-{id}");
        let waits = tokio::spawn(async move {
            let Some(operation) = asking.await.and_then(of) else { return answers.are_gone() };
            // A separate task: closing the question does not cancel an answer that was given here.
            tokio::spawn(async move {
                match answers.send(&key, operation, &who).await {
                    Ok(()) => {}
                    // Another person was first: the log shows who.
                    Err(fault) if fault.kind == Kind::Stale => {}
                    Err(fault) => viewer.fails(&fault),
                }
            });
        });
        self.asked.insert(id, AbortOnDropHandle::new(waits));
    }
}

impl Answers {
    async fn send(&self, key: &str, operation: Operation, who: &str) -> Result<(), Fault> {
        match (self, operation) {
            (Self::There(handle), operation) => handle.act(key, operation).await.map(drop),
            (Self::Here { hub, .. }, Operation::Approve { id, hash, decision, words }) => {
                hub.decide(&id, &hash, decision, words, who)
            }
            (Self::Here { hub, .. }, Operation::Answer { id, text }) => hub.reply(&id, text, who),
            (Self::Here { .. } | Self::Nowhere, other) => {
                Err(Fault::bug(format!("{other:?} is not the answer of a person")))
            }
        }
    }

    /// The terminal is gone: only other people who attend can still answer.
    fn are_gone(&self) {
        if let Self::Here { attends, .. } = self {
            attends.lock().take();
        }
    }
}

/// Returns the text about how an approval was settled.
fn decided(decision: Decision, by: Option<&str>, words: Option<&str>) -> String {
    let by = by.unwrap_or("nobody");
    match decision {
        Decision::Once => format!("{by} allowed it once"),
        Decision::Session => format!("{by} allowed it for this session"),
        Decision::Project => format!("{by} allowed it for this project"),
        Decision::No => format!("{by} refused it{}", words.map_or_else(String::new, |it| format!(": {it}"))),
        Decision::Expired => "the call no longer waits".to_owned(),
        Decision::Nobody => "nobody attended".to_owned(),
    }
}
