//! One turn, for clients that send words and want the text of the answer.

use std::{collections::VecDeque, pin::pin, sync::Arc, time::Duration};

use bytes::Bytes;
use kit::{Fault, Kind};
use serde_json::{Value, json};
use sessions::{Event, Handle, Operation, Prompt, Row, TurnEnd, Watcher};
use tokio::{sync::mpsc, task::JoinHandle, time::timeout};

use crate::{call::Call, problem::Problem, workspaces::Workspace};

/// A turn that goes on. Dropped before its end, it is stopped, unless its request had an idempotency key: without one its client
/// has no other way to stop it, and with one the client asks again.
pub(super) struct Turn {
    handle: Handle,
    watcher: Watcher,
    pub(super) key: String,
    doing: Option<JoinHandle<Result<Value, Fault>>>,
    /// The number of the row with which it began.
    began: Option<u64>,
    is_over: bool,
    /// The pieces of the text that comes now, each with where it ends, and how many bytes of the text were given.
    pieces: Vec<(u64, usize)>,
    given: usize,
    /// The answer of the model that goes on has no text yet.
    is_new_answer: bool,
    /// The address of the page, for calls and questions that wait for somebody.
    page: String,
    /// The rows of a turn that is over, if an earlier request began it.
    kept: Option<VecDeque<Row>>,
    /// An earlier request began it, which is answered too.
    pub(super) is_again: bool,
    /// It goes on without its client, who asks again under the same key.
    goes_on: bool,
}

/// A part of a turn's answer.
pub(super) enum Piece {
    /// More text.
    Text(String, Begins),
    /// A line for the person: something waits for somebody.
    Waits(String),
    /// The text of the model's last answer is discarded, and comes again.
    Again,
    /// Its end.
    End(Box<TurnEnd>),
}

/// Tells whether a piece of text begins a text, or an answer of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Begins {
    /// Nothing.
    Nothing,
    /// Another text of the same answer of the model.
    Text,
    /// Another answer of the model.
    Answer,
}

/// The texts of a turn, an empty line between them.
#[derive(Default)]
pub(super) struct Texts {
    all: String,
    /// The text before the model's last answer, in bytes.
    before: usize,
}

impl Texts {
    /// Adds a piece. Returns it with the line breaks that it needs before it.
    pub(super) fn add(&mut self, piece: &str, begins: Begins) -> String {
        let from = self.all.len();
        if begins == Begins::Answer {
            self.before = from;
        }
        if begins != Begins::Nothing && from > 0 {
            let breaks = from - self.all.trim_end_matches('\n').len();
            self.all.push_str("\n\n".get(breaks..).unwrap_or_default());
        }
        self.all.push_str(piece);
        self.all.get(from..).unwrap_or_default().to_owned()
    }

    /// Discards the text of the model's last answer.
    pub(super) fn discard(&mut self) {
        self.all.truncate(self.before);
    }

    pub(super) fn all(&self) -> &str {
        &self.all
    }
}

/// Sends `: waiting` while nothing comes for so long, as proxies end connections that are silent.
pub(super) async fn next(
    turn: &mut Turn,
    sender: &mpsc::Sender<Bytes>,
    silence: Duration,
) -> Result<Piece, Fault> {
    let mut next = pin!(turn.next());
    loop {
        match timeout(silence, &mut next).await {
            Ok(piece) => return piece,
            // A client that has gone is noticed by the sender of pieces.
            Err(_) => drop(sender.send(Bytes::from_static(b": waiting\n\n")).await),
        }
    }
}

/// Returns the error of an answer that the end of the server cuts off.
pub(super) fn server_ends() -> Fault {
    Fault::new(Kind::Unavailable, "haft ends, and the answer is not complete")
        .next("Send the request again once haft runs.")
}

impl Turn {
    /// Begins a turn in this session.
    pub(super) async fn begin(
        call: &Call,
        workspace: &Arc<Workspace>,
        session: &str,
        prompt: Prompt,
    ) -> Result<Self, Problem> {
        let handle = workspace.attach(session, &call.who).await?;
        let (store, name) = (workspace.runtime.store().clone(), session.to_owned());
        let head = crate::workspaces::blocking(move || store.events().head(&name)).await?;
        let watcher = handle.watch(head);
        let key = call.key()?;
        // On the disk before anything else: a request that comes again meanwhile finds it.
        if handle.post(&key, Operation::Prompt(prompt.clone())).await?.is_some() {
            return Err(Problem::bad(format!("the `Idempotency-Key` `{key}` belongs to another request"))
                .next("Make up a new random key for each request."));
        }
        let (acting, its_key) = (handle.clone(), key.clone());
        let doing = tokio::spawn(async move { acting.act(&its_key, Operation::Prompt(prompt)).await });
        Ok(Self {
            handle,
            watcher,
            key,
            doing: Some(doing),
            began: None,
            is_over: false,
            pieces: Vec::new(),
            given: 0,
            is_new_answer: true,
            page: call.server.page(),
            kept: None,
            is_again: false,
            goes_on: call.given_key()?.is_some(),
        })
    }

    /// Returns the turn of an earlier request of the same person with the same idempotency key, from its beginning. It had one of
    /// these prompts.
    pub(super) async fn earlier(
        call: &Call,
        workspace: &Arc<Workspace>,
        prompts: &[Prompt],
    ) -> Result<Option<Self>, Problem> {
        let Some(key) = call.given_key()?.map(str::to_owned) else { return Ok(None) };
        let (operations, of, by) =
            (workspace.runtime.store().operations(), key.clone(), call.who.name.clone());
        let bodies: Vec<Value> = prompts.iter().map(|it| json!(Operation::Prompt(it.clone()))).collect();
        let found = crate::workspaces::blocking(move || operations.by_requester(&of, &by, bodies)).await?;
        let Some((found, is_same)) = found else { return Ok(None) };
        if !is_same {
            return Err(Problem::bad(format!("the `Idempotency-Key` `{key}` belongs to another request"))
                .next("Make up a new random key for each request."));
        }
        let handle = workspace.attach(&found.session, &call.who).await?;
        let kept = match found.result {
            None => None,
            Some(_) => Some(workspace.sessions.export(&found.session).await?.into()),
        };
        let watcher = handle.watch(0);
        Ok(Some(Self {
            handle,
            watcher,
            key,
            doing: None,
            began: None,
            is_over: false,
            pieces: Vec::new(),
            given: 0,
            is_new_answer: true,
            page: call.server.page(),
            kept,
            is_again: true,
            goes_on: true,
        }))
    }

    /// Returns the name of its session.
    pub(super) fn session(&self) -> &str {
        self.handle.session()
    }

    /// Returns the number of the row with which it began, if it has begun.
    pub(super) fn began(&self) -> Option<u64> {
        self.began
    }

    /// Returns whether it goes on without its client.
    pub(super) fn goes_on(&self) -> bool {
        self.goes_on
    }

    /// Returns the next part.
    pub(super) async fn next(&mut self) -> Result<Piece, Fault> {
        loop {
            let row = match &mut self.doing {
                None if self.kept.is_some() => {
                    let row = self.kept.as_mut().and_then(VecDeque::pop_front);
                    row.ok_or_else(|| {
                        self.is_over = true;
                        let what =
                            format!("the request `{}` was made before, and its answer is not kept", self.key);
                        Fault::new(Kind::Unavailable, what).next("Send it with another `Idempotency-Key`.")
                    })?
                }
                Some(doing) => tokio::select! {
                    biased;
                    row = self.watcher.next() => row?,
                    done = doing => {
                        self.doing = None;
                        let done = done.map_err(|error| Fault::bug(format!("a turn was not run: {error}")))?;
                        if let Err(fault) = done {
                            self.is_over = true;
                            return Err(fault);
                        }
                        continue;
                    }
                },
                None => self.watcher.next().await?,
            };
            if let Some(piece) = self.took(&row) {
                return Ok(piece);
            }
        }
    }

    fn took(&mut self, row: &Row) -> Option<Piece> {
        match &row.event {
            Event::TurnBegan { key, .. } => {
                self.began = Some(row.seq).filter(|_| key.as_ref() == Some(&self.key));
                None
            }
            Event::TurnEnded(end) if end.key.as_ref() == Some(&self.key) => {
                self.is_over = true;
                Some(Piece::End(Box::new(end.clone())))
            }
            _ if self.began.is_none() => None,
            Event::ApprovalOpened(approval) => {
                let page = &self.page;
                Some(Piece::Waits(format!("the call `{}` waits for a decision: {page}", approval.tool)))
            }
            Event::QuestionOpened(_) => {
                Some(Piece::Waits(format!("a question waits for an answer: {}", self.page)))
            }
            event => match event.of_agent() {
                Some((path, _)) if !path.is_empty() => None,
                Some((_, agent::Event::Text { text })) => self.text(row, text),
                Some((_, agent::Event::Writing { .. } | agent::Event::Progress { .. })) => None,
                Some((_, agent::Event::Again { .. })) => {
                    self.ends_text();
                    let had_text = !std::mem::replace(&mut self.is_new_answer, true);
                    had_text.then_some(Piece::Again)
                }
                Some((_, agent::Event::Asked { .. })) => {
                    self.ends_text();
                    self.is_new_answer = true;
                    None
                }
                _ => {
                    self.ends_text();
                    None
                }
            },
        }
    }

    fn ends_text(&mut self) {
        self.pieces.clear();
        self.given = 0;
    }

    /// Takes a piece of the text, or a row that takes the place of some.
    fn text(&mut self, row: &Row, text: &str) -> Option<Piece> {
        let is_first = self.pieces.is_empty();
        self.pieces.truncate(self.pieces.partition_point(|it| it.0 < row.first));
        let starts = self.pieces.last().map_or(0, |it| it.1);
        let ends = starts + text.len();
        self.pieces.push((row.seq, ends));
        let more = text.get(self.given.saturating_sub(starts)..).unwrap_or_default();
        self.given = ends.max(self.given);
        if more.is_empty() {
            return None;
        }
        let begins = match std::mem::take(&mut self.is_new_answer) {
            true => Begins::Answer,
            false if is_first => Begins::Text,
            false => Begins::Nothing,
        };
        Some(Piece::Text(more.to_owned(), begins))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.is_over || self.goes_on {
            return;
        }
        let (handle, key) = (self.handle.clone(), self.key.clone());
        tokio::spawn(async move {
            let cancel = Operation::Cancel { prompt: Some(key.clone()) };
            if let Err(fault) = handle.act(&format!("{key}.cancel"), cancel).await {
                tracing::info!(%fault, "a turn whose client left was not stopped");
            }
        });
    }
}

/// Returns the fault of a turn that did not end well.
pub(super) fn failure(end: &TurnEnd) -> Option<Fault> {
    match (&end.error, end.ended.as_str()) {
        (Some(error), _) => {
            let fault = Fault::from(error.clone());
            let next = error.breach.as_deref().and_then(without_help).filter(|_| fault.next.is_none());
            Some(match next {
                Some(next) => fault.next(next),
                None => fault,
            })
        }
        (None, "interrupted") => Some(server_ends()),
        (None, "error" | "cancelled") => {
            let fault = Fault::new(Kind::Cancelled, format!("the turn was not finished: {}", end.ended));
            Some(fault.next("Send it again, under another `Idempotency-Key` if it had one."))
        }
        _ => None,
    }
}

/// Returns the next step after a failure of the model that names none, where sending it again does not help.
pub(super) fn without_help(breach: &str) -> Option<&'static str> {
    Some(match breach {
        "auth" => {
            "The provider's key that haft has is missing or wrong: `haft login PROVIDER` keeps another one."
        }
        "too_long" => "Begin a new conversation, or send less.",
        "refused" => "Choose another model; standard error of `haft serve` may say more.",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_one_empty_line_between_them_and_a_discarded_answer_leaves_none() {
        let mut texts = Texts::default();
        assert_eq!(texts.add("One.\n\n", Begins::Answer), "One.\n\n");
        assert_eq!(texts.add("Tw", Begins::Answer), "Tw");
        assert_eq!(texts.add("o", Begins::Nothing), "o");
        assert_eq!(texts.add("more", Begins::Text), "\n\nmore");
        texts.discard();
        assert_eq!(texts.all(), "One.\n\n");
        assert_eq!(texts.add("Three.", Begins::Answer), "Three.");
        assert_eq!(texts.add("Four.", Begins::Answer), "\n\nFour.");
    }
}
