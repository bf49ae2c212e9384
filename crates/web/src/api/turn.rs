//! One turn, for clients that send words and want the text of the answer.

use std::sync::Arc;

use kit::{Fault, Kind};
use serde_json::Value;
use sessions::{Event, Handle, Operation, Prompt, Row, TurnEnd, Watcher};
use tokio::task::JoinHandle;

use crate::{call::Call, problem::Problem, workspaces::Workspace};

/// A turn that goes on. Dropped before its end, it is stopped: its client has no other way to stop it.
pub(super) struct Turn {
    handle: Handle,
    watcher: Watcher,
    pub(super) key: String,
    doing: Option<JoinHandle<Result<Value, Fault>>>,
    has_begun: bool,
    is_over: bool,
    /// The pieces of the text that comes now, and how many bytes of it were given.
    pieces: Vec<(u64, String)>,
    given: usize,
    /// Texts came before.
    is_later: bool,
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
        let handle = workspace.attach(session, &call.who.name).await?;
        let (store, name) = (workspace.runtime.store().clone(), session.to_owned());
        let head = crate::workspaces::blocking(move || store.events().head(&name)).await?;
        let watcher = handle.watch(head);
        let key = call.key()?;
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
        })
    }

    /// Returns the next part.
    pub(super) async fn next(&mut self) -> Result<Piece, Fault> {
        loop {
            let row = match &mut self.doing {
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
        self.pieces.retain(|it| it.0 < row.first);
        self.pieces.push((row.seq, text.to_owned()));
        let whole: String = self.pieces.iter().map(|it| it.1.as_str()).collect();
        let more = whole.get(self.given..).unwrap_or_default().to_owned();
        self.given = whole.len().max(self.given);
        if more.is_empty() {
            return None;
        }
        let gap = if is_first && self.is_later { "\n\n" } else { "" };
        Some(Piece::Text(format!("{gap}{more}")))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.is_over {
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
            Some(Fault::new(Kind::Cancelled, format!("the turn was not finished: {}", end.ended)))
        }
        _ => None,
    }
}
