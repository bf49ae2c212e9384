//! Streams: pieces of a text that come many times a second, put together to at most one row per 30 ms.

use std::time::Duration;

use agent::Event as Done;
use kit::redact::Secrets;
use tokio::time::Instant;

use crate::event::Event;

/// A stream has at most one row in this time, but for what is left of it when something else happens.
const GAP: Duration = Duration::from_millis(30);

/// The kind of a stream's pieces.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// Of the answer.
    Text,
    /// Of what the model thinks.
    Reasoning,
    /// How far this call is written; the newest counts.
    Writing(String),
    /// How far this call has come; the newest counts.
    Progress(String),
}

impl Kind {
    /// Returns the kind of stream that the event is a piece of, if it is one.
    pub(crate) fn of(event: &Done) -> Option<Self> {
        match event {
            Done::Text { .. } => Some(Self::Text),
            Done::Reasoning { .. } => Some(Self::Reasoning),
            Done::Writing { call, .. } => Some(Self::Writing(call.clone())),
            Done::Progress { call, .. } => Some(Self::Progress(call.clone())),
            _ => None,
        }
    }

    /// Returns whether its pieces are text, which has a place in the order of items.
    pub(crate) fn is_text(&self) -> bool {
        matches!(self, Self::Text | Self::Reasoning)
    }
}

/// The texts of a piece, where it has one.
pub(crate) fn text_of(event: &Done) -> Option<&str> {
    match event {
        Done::Text { text } | Done::Reasoning { text } => Some(text),
        _ => None,
    }
}

/// An event of the agent at the end of this path.
pub(crate) fn under(path: &str, event: Done) -> Event {
    let names = path.rsplit('/').filter(|it| !it.is_empty());
    Event::Agent(
        names.fold(event, |inner, agent| Done::Under { agent: agent.to_owned(), inner: Box::new(inner) }),
    )
}

/// The pieces of one kind of one agent that are not rows yet.
struct Stream {
    path: String,
    kind: Kind,
    text: String,
    newest: Option<Done>,
    last: Option<Instant>,
    /// Pieces wait for their time.
    waits: bool,
}

/// All streams of a session.
#[derive(Default)]
pub(crate) struct Streams {
    all: Vec<Stream>,
}

impl Streams {
    /// Takes a piece. What is due goes to `rows`.
    pub(crate) fn add(
        &mut self,
        path: &str,
        kind: Kind,
        piece: Done,
        secrets: &Secrets,
        rows: &mut Vec<Event>,
    ) {
        if kind.is_text() {
            self.finish(rows, |it| it.path == path && it.kind.is_text() && it.kind != kind);
        }
        let known = self.all.iter().position(|it| it.path == path && it.kind == kind);
        if known.is_none() && matches!(kind, Kind::Writing(_)) {
            // Its first row is due at once, and stands behind the texts before the call.
            self.finish(rows, |it| it.path == path && it.kind.is_text());
        }
        let at = known.unwrap_or_else(|| {
            let (path, kind) = (path.to_owned(), kind);
            self.all.push(Stream { path, kind, text: String::new(), newest: None, last: None, waits: false });
            self.all.len() - 1
        });
        let Some(stream) = self.all.get_mut(at) else { return };
        match text_of(&piece) {
            Some(text) => stream.text.push_str(text),
            None => stream.newest = Some(piece),
        }
        let now = Instant::now();
        if stream.last.is_none_or(|last| now.duration_since(last) >= GAP) {
            stream.emit(now, Some(secrets), rows);
        } else {
            stream.waits = true;
        }
    }

    /// Gives what is left of this agent's texts, as something else happens there.
    pub(crate) fn end_texts(&mut self, path: &str, rows: &mut Vec<Event>) {
        self.finish(rows, |it| it.path == path);
    }

    /// Gives what is left of all.
    pub(crate) fn end_all(&mut self, rows: &mut Vec<Event>) {
        self.finish(rows, |_| true);
        self.all.clear();
    }

    /// Gives what is due by now.
    pub(crate) fn tick(&mut self, secrets: &Secrets, rows: &mut Vec<Event>) {
        let now = Instant::now();
        for stream in self.all.iter_mut().filter(|it| it.is_due(now)) {
            stream.emit(now, Some(secrets), rows);
        }
    }

    /// When something will be due next.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.all.iter().filter(|it| it.waits).filter_map(|it| it.last.map(|last| last + GAP)).min()
    }

    fn finish(&mut self, rows: &mut Vec<Event>, which: impl Fn(&Stream) -> bool) {
        let now = Instant::now();
        for stream in self.all.iter_mut().filter(|it| which(it)) {
            stream.emit(now, None, rows);
        }
    }
}

impl Stream {
    fn is_due(&self, now: Instant) -> bool {
        self.waits && self.last.is_none_or(|last| now >= last + GAP)
    }

    /// Makes a row of what there is. While more may come, what may be the beginning of one of these secrets is kept back.
    fn emit(&mut self, now: Instant, secrets: Option<&Secrets>, rows: &mut Vec<Event>) {
        self.waits = false;
        let event = match self.kind {
            Kind::Text | Kind::Reasoning => {
                let kept = secrets.map_or(0, |it| it.unfinished(&self.text));
                let rest = self.text.split_off(self.text.len().saturating_sub(kept));
                let text = std::mem::replace(&mut self.text, rest);
                if text.is_empty() {
                    return;
                }
                if self.kind == Kind::Text { Done::Text { text } } else { Done::Reasoning { text } }
            }
            Kind::Writing(_) | Kind::Progress(_) => match self.newest.take() {
                Some(event) => event,
                None => return,
            },
        };
        self.last = Some(now);
        rows.push(under(&self.path, event));
    }
}
