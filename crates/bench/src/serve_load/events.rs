//! Streams of server-sent events of `haft serve`.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Outcome, http::Incoming};

/// One event.
#[derive(Debug, Clone)]
pub(super) enum Sent {
    /// A row of the session's log.
    Row(Row),
    /// A named event: `ready`, `beat`, `md`.
    Named,
}

/// A row of a session's log.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) seq: u64,
    pub(super) whole: Value,
}

impl Row {
    pub(super) fn of(whole: Value) -> Outcome<Self> {
        let seq = whole.get("seq").and_then(Value::as_u64).ok_or_else(|| format!("no number in {whole}"))?;
        Ok(Self { seq, whole })
    }

    /// Returns a field of the event.
    pub(super) fn get(&self, field: &str) -> Option<&Value> {
        self.whole.get("event")?.get(field)
    }

    /// Returns a text of the event; empty where it has none of this name.
    pub(super) fn text(&self, field: &str) -> &str {
        self.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns the kind of the event.
    pub(super) fn kind(&self) -> &str {
        self.text("event")
    }
}

/// Cuts bytes that come in any pieces into events. What is left of an event that was not whole is dropped with it.
#[derive(Default)]
pub(super) struct Parser {
    bytes: Vec<u8>,
}

impl Parser {
    /// Takes more bytes, and returns the events that are whole.
    pub(super) fn take(&mut self, more: &[u8]) -> Outcome<Vec<Sent>> {
        self.bytes.extend_from_slice(more);
        let mut all = Vec::new();
        let mut from = 0;
        while let Some(at) = self.bytes.get(from..).and_then(|it| it.windows(2).position(|it| it == b"\n\n"))
        {
            let text = self.bytes.get(from..from + at).unwrap_or_default();
            all.extend(event(std::str::from_utf8(text)?)?);
            from += at + 2;
        }
        self.bytes.drain(..from);
        Ok(all)
    }
}

fn event(text: &str) -> Outcome<Option<Sent>> {
    let (mut id, mut data) = (None, None);
    for line in text.lines() {
        match line.split_once(": ") {
            Some(("id", it)) => id = Some(it),
            Some(("data", it)) => data = Some(it),
            _ => {}
        }
    }
    match (id, data) {
        (Some(id), Some(data)) => {
            let row = Row::of(serde_json::from_str(data)?)?;
            if id.parse() != Ok(row.seq) {
                Err(format!("{id} is not the number of {data}").into())
            } else {
                Ok(Some(Sent::Row(row)))
            }
        }
        (None, Some(_)) => Ok(Some(Sent::Named)),
        _ => Ok(None),
    }
}

/// A stream that is followed.
pub(super) struct Stream {
    incoming: Incoming,
    parser: Parser,
    ready: std::collections::VecDeque<Sent>,
}

impl Stream {
    pub(super) fn new(incoming: Incoming) -> Self {
        Self { incoming, parser: Parser::default(), ready: Default::default() }
    }

    /// Returns the next event; none where the stream ended or broke.
    pub(super) async fn next(&mut self) -> Outcome<Option<Sent>> {
        loop {
            if let Some(sent) = self.ready.pop_front() {
                return Ok(Some(sent));
            }
            let Ok(Some(piece)) = self.incoming.next().await else { return Ok(None) };
            self.ready.extend(self.parser.take(&piece)?);
        }
    }

    /// Returns the next row; none where the stream ended or broke.
    pub(super) async fn row(&mut self) -> Outcome<Option<Row>> {
        loop {
            match self.next().await? {
                Some(Sent::Row(row)) => return Ok(Some(row)),
                Some(Sent::Named) => {}
                None => return Ok(None),
            }
        }
    }
}

/// A session as a watcher has it: its texts, the kinds of its other rows, and rows that came twice or out of order.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) last: u64,
    texts: BTreeMap<u64, String>,
    kinds: Vec<String>,
    pub(super) repeated: usize,
}

impl Seen {
    pub(super) fn add(&mut self, row: &Row) {
        if row.seq <= self.last {
            self.repeated += 1;
            return;
        }
        self.last = row.seq;
        let kind = row.kind();
        if !matches!(kind, "text" | "reasoning") {
            // The newest of these stands for those before it: a watcher that comes later gets that one alone.
            if !matches!(kind, "writing" | "progress") {
                self.kinds.push(kind.to_owned());
            }
            return;
        }
        let item = row.whole.get("item").and_then(Value::as_u64).unwrap_or(row.seq);
        let known = self.texts.entry(item).or_default();
        if row.whole.get("whole") == Some(&Value::Bool(true)) {
            known.clear();
        }
        known.push_str(row.text("text"));
    }

    /// Returns how many bytes of text there are.
    pub(super) fn bytes(&self) -> usize {
        self.texts.values().map(String::len).sum()
    }

    /// Returns how many rows are of this kind.
    pub(super) fn count(&self, kind: &str) -> usize {
        self.kinds.iter().filter(|it| *it == kind).count()
    }

    /// Compares with the transcript; returns what differs.
    pub(super) fn differs(&self, transcript: &Self) -> Option<String> {
        if self.texts != transcript.texts {
            let first = self.texts.iter().zip(&transcript.texts).find(|it| it.0 != it.1);
            return Some(format!(
                "texts differ: {first:?}, {} of {}",
                self.texts.len(),
                transcript.texts.len()
            ));
        }
        (self.kinds != transcript.kinds)
            .then(|| format!("rows differ: {:?}, not {:?}", self.kinds, transcript.kinds))
    }
}
