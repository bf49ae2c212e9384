//! One turn, for clients that send words and want the text of the answer.

use std::{collections::VecDeque, sync::Arc};

use kit::{Fault, Kind};
use serde_json::{Value, json};
use sessions::{Event, Handle, Operation, Prompt, Row, TurnEnd, Watcher};
use tokio::task::JoinHandle;

use crate::{call::Call, problem::Problem, workspaces::Workspace};

/// A turn that goes on. Dropped before its end, it is stopped, unless its request had an idempotency key: without one its client
/// has no other way to stop it, and with one the client asks again.
pub(super) struct Turn {
    handle: Handle,
    watcher: Watcher,
    pub(super) key: String,
    doing: Option<JoinHandle<Result<Value, Fault>>>,
    has_begun: bool,
    is_over: bool,
    /// The pieces of the text that comes now, each with where it ends, and how many bytes of the text were given.
    pieces: Vec<(u64, usize)>,
    given: usize,
    /// Texts came before.
    is_later: bool,
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
    Text(String),
    /// Its end.
    End(Box<TurnEnd>),
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
        let (has_begun, is_over) = (false, false);
        Ok(Self {
            handle,
            watcher,
            key,
            doing: Some(doing),
            has_begun,
            is_over,
            pieces: Vec::new(),
            given: 0,
            is_later: false,
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
            has_begun: false,
            is_over: false,
            pieces: Vec::new(),
            given: 0,
            is_later: false,
            kept,
            is_again: true,
            goes_on: true,
        }))
    }

    /// Returns the name of its session.
    pub(super) fn session(&self) -> &str {
        self.handle.session()
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
                self.has_begun = key.as_ref() == Some(&self.key);
                None
            }
            Event::TurnEnded(end) if end.key.as_ref() == Some(&self.key) => {
                self.is_over = true;
                Some(Piece::End(Box::new(end.clone())))
            }
            event if self.has_begun => match event.of_agent() {
                Some((path, agent::Event::Text { text })) if path.is_empty() => self.text(row, text),
                Some((path, agent::Event::Writing { .. } | agent::Event::Progress { .. }))
                    if path.is_empty() =>
                {
                    None
                }
                Some((path, _)) if !path.is_empty() => None,
                _ => {
                    self.is_later |= !self.pieces.is_empty();
                    self.pieces.clear();
                    self.given = 0;
                    None
                }
            },
            _ => None,
        }
    }

    /// Takes a piece of the text, or a row that takes the place of some.
    fn text(&mut self, row: &Row, text: &str) -> Option<Piece> {
        let is_first = self.pieces.is_empty();
        self.pieces.truncate(self.pieces.partition_point(|it| it.0 < row.first));
        let begins = self.pieces.last().map_or(0, |it| it.1);
        let ends = begins + text.len();
        self.pieces.push((row.seq, ends));
        let more = text.get(self.given.saturating_sub(begins)..).unwrap_or_default();
        self.given = ends.max(self.given);
        if more.is_empty() {
            return None;
        }
        let gap = if is_first && self.is_later { "\n\n" } else { "" };
        Some(Piece::Text(format!("{gap}{more}")))
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
        (Some(error), _) => Some(error.clone().into()),
        (None, "error" | "interrupted" | "cancelled") => {
            let fault = Fault::new(Kind::Cancelled, format!("the turn was not finished: {}", end.ended));
            Some(fault.next("Send it again, under another `Idempotency-Key` if it had one."))
        }
        _ => None,
    }
}
