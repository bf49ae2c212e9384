//! Rows of a session as the page shows them: texts with their Markdown, changes as hunks.
//!
//! A text comes in pieces. A renderer knows the pieces before, so that each row says which blocks of the text are new. The text
//! is named by the number of its first piece, which is the same for all who watch.

use std::collections::HashMap;

use kit::Fault;
use serde_json::{Value, json};
use sessions::{Event, Row, Sessions};

use crate::{diffs, markdown};

/// How far back the beginning of a text is looked for at first, in rows.
const BACK: u64 = 256;

/// Makes JSON of rows, in order.
#[derive(Default)]
pub(crate) struct Renderer {
    /// The texts that may still grow, by agent.
    growing: HashMap<String, Growing>,
}

/// A text that may still grow.
#[derive(Default)]
struct Growing {
    is_reasoning: bool,
    /// The number of its first piece.
    item: u64,
    text: String,
    /// The number of each piece, and where it ends in the text.
    pieces: Vec<(u64, usize)>,
    /// The Markdown that the watcher has; none, where it has not seen the text yet.
    shown: Option<Shown>,
    /// The first row that was seen of its agent was a piece of it: it may have begun before.
    may_be_older: bool,
}

impl Growing {
    fn lags(&self) -> bool {
        !self.is_reasoning && self.shown.as_ref().is_some_and(|it| it.length < self.text.len())
    }
}

/// The Markdown of a text that a watcher has.
#[derive(Default)]
struct Shown {
    blocks: Vec<Value>,
    /// How many of the blocks more text leaves as they are, and where the others begin in the text.
    settled: usize,
    from: usize,
    /// The length of the text that they show.
    length: usize,
}

impl Shown {
    /// Shows more of a text that only grew. Returns the change, if it is time for one: each piece of a long block would render
    /// and send all of the block again, so it waits until there is some more. [`Renderer::rest`] has what is left in the end.
    fn more(&mut self, text: &str) -> Option<Value> {
        let tail = text.len().saturating_sub(self.from);
        (text.len().saturating_sub(self.length) >= tail / 64).then(|| self.all(text))
    }

    /// Shows all of a text that only grew. Returns the change.
    fn all(&mut self, text: &str) -> Value {
        let tail = text.get(self.from..).unwrap_or_default();
        let (blocks, last) = markdown::blocks_and_last(tail);
        let earlier = self.blocks.get(self.settled..).unwrap_or_default();
        let keep = self.settled + same(earlier, &blocks);
        let change = json!({"keep": keep, "blocks": blocks.get(keep - self.settled..).unwrap_or_default()});
        self.blocks.truncate(self.settled);
        self.blocks.extend(blocks);
        self.settled += last.number;
        self.from += last.at;
        self.length = text.len();
        change
    }
}

impl Renderer {
    /// A renderer for a watcher that has all rows up to `after`.
    pub(crate) async fn resume(sessions: &Sessions, session: &str, after: u64) -> Result<Self, Fault> {
        let mut back = BACK;
        loop {
            let from = after.saturating_sub(back);
            let mut renderer = Self::default();
            let mut seen = from;
            'pages: while seen < after {
                let rows = sessions.rows(session, seen).await?;
                if rows.is_empty() {
                    break;
                }
                for row in rows {
                    if row.seq > after {
                        break 'pages;
                    }
                    seen = row.seq;
                    renderer.skip(&row);
                }
            }
            if from == 0 || !renderer.growing.values().any(|it| it.may_be_older) {
                return Ok(renderer);
            }
            back = back.saturating_mul(8);
        }
    }

    /// Takes a row that the watcher has.
    fn skip(&mut self, row: &Row) {
        let (agent, text) = (agent_of(row), text_of(row));
        let is_first = !self.growing.contains_key(&agent);
        match text {
            Some((is_reasoning, text)) => {
                let growing = self.grow(&agent, row, is_reasoning, text);
                growing.may_be_older |= is_first;
            }
            None if is_piece(row) => {}
            None => self.end(agent),
        }
    }

    /// The texts of this agent end here.
    fn end(&mut self, agent: String) {
        // It stays known that there was something before.
        self.growing.insert(agent, Growing::default());
    }

    fn grow(&mut self, agent: &str, row: &Row, is_reasoning: bool, text: &str) -> &mut Growing {
        let growing = self.growing.entry(agent.to_owned()).or_default();
        if growing.is_reasoning != is_reasoning || growing.pieces.is_empty() {
            *growing = Growing { is_reasoning, item: row.first, ..Growing::default() };
        }
        growing.pieces.truncate(growing.pieces.partition_point(|it| it.0 < row.first));
        growing.text.truncate(growing.pieces.last().map_or(0, |it| it.1));
        if growing.pieces.is_empty() {
            growing.item = row.first;
        }
        growing.text.push_str(text);
        growing.pieces.push((row.seq, growing.text.len()));
        growing
    }

    /// Returns whether the watcher lacks the Markdown of the end of a text.
    pub(crate) fn has_rest(&self) -> bool {
        self.growing.values().any(Growing::lags)
    }

    /// Returns the Markdown that the watcher lacks: for each text its agent, its number and the change.
    pub(crate) fn rest(&mut self) -> Vec<Value> {
        let lagging = self.growing.iter_mut().filter(|it| it.1.lags());
        lagging
            .filter_map(|(agent, it)| {
                let md = it.shown.as_mut()?.all(&it.text);
                Some(json!({"agent": agent, "item": it.item, "md": md}))
            })
            .collect()
    }

    /// Adds the Markdown that rows lack to the last row of each text.
    pub(crate) fn finish(&mut self, rows: &mut [Value]) {
        for rest in self.rest() {
            let of_text = |it: &&mut Value| it.get("item") == rest.get("item");
            if let Some(fields) = rows.iter_mut().rfind(of_text).and_then(Value::as_object_mut) {
                fields.insert("md".to_owned(), rest.get("md").cloned().unwrap_or_default());
            }
        }
    }

    /// Returns a row as JSON.
    pub(crate) fn row(&mut self, row: &Row) -> Value {
        let agent = agent_of(row);
        let mut value = json!({"seq": row.seq, "at": row.at_ms});
        let Some(fields) = value.as_object_mut() else { return value };
        if let Some(from) = row.from() {
            fields.insert("from".to_owned(), from.into());
        }
        if !agent.is_empty() {
            fields.insert("agent".to_owned(), agent.clone().into());
        }
        match text_of(row) {
            Some((is_reasoning, text)) => {
                let growing = self.grow(&agent, row, is_reasoning, text);
                let before = growing.shown.take();
                let whole = before.is_none() || row.from().is_some();
                fields.insert("item".to_owned(), growing.item.into());
                if whole {
                    fields.insert("whole".to_owned(), true.into());
                }
                let kind = if is_reasoning { "reasoning" } else { "text" };
                let text = if whole { growing.text.as_str() } else { text };
                fields.insert("event".to_owned(), json!({"event": kind, "text": text}));
                let mut shown = before.unwrap_or_default();
                if whole {
                    // The text did not only grow: what the watcher has of it is compared from the beginning.
                    shown = Shown { blocks: shown.blocks, ..Shown::default() };
                }
                if !is_reasoning && let Some(change) = shown.more(&growing.text) {
                    fields.insert("md".to_owned(), change);
                }
                growing.shown = Some(shown);
            }
            None => {
                if !is_piece(row) {
                    self.end(agent);
                }
                fields.insert("event".to_owned(), event(&row.event));
            }
        }
        value
    }
}

/// Returns how many blocks at the beginning are the same.
fn same(before: &[Value], after: &[Value]) -> usize {
    before.iter().zip(after).take_while(|(a, b)| a == b).count()
}

/// The path of the agent that the row is about; empty for the session's own.
fn agent_of(row: &Row) -> String {
    row.event.of_agent().map(|it| it.0).unwrap_or_default()
}

/// Returns whether the row is a piece of the model's reasoning, and its text, if it is a piece of a text.
fn text_of(row: &Row) -> Option<(bool, &str)> {
    match row.event.of_agent()?.1 {
        agent::Event::Text { text } => Some((false, text)),
        agent::Event::Reasoning { text } => Some((true, text)),
        _ => None,
    }
}

/// Returns whether the row only says how far something has come, in the midst of a text.
fn is_piece(row: &Row) -> bool {
    let event = row.event.of_agent().map(|it| it.1);
    matches!(event, Some(agent::Event::Writing { .. } | agent::Event::Progress { .. }))
}

/// Returns an event as JSON, with its texts and changes as the page shows them.
fn event(event: &Event) -> Value {
    let mut value = match event.of_agent() {
        Some((_, inner)) => json!(inner),
        None => json!(event),
    };
    let Some(fields) = value.as_object_mut() else { return json!({"event": "unknown"}) };
    let changes = match event.of_agent().map(|it| it.1) {
        Some(agent::Event::Answered { changes, .. }) => changes.as_slice(),
        _ => match event {
            Event::ApprovalOpened(it) => it.changes.as_slice(),
            _ => &[],
        },
    };
    if !changes.is_empty() {
        fields.insert("changes".to_owned(), changes.iter().map(diffs::change).collect());
    }
    match event {
        Event::Told { text } => drop(fields.insert("md".to_owned(), markdown::blocks(text).into())),
        Event::TurnBegan { text, .. } if !text.is_empty() => {
            fields.insert("md_text".to_owned(), markdown::blocks(text).into());
        }
        _ => {}
    }
    value
}

/// Returns an approval as the page shows it.
pub(crate) fn approval(approval: &sessions::Approval) -> Value {
    let mut value = json!(approval);
    if let (Some(fields), false) = (value.as_object_mut(), approval.changes.is_empty()) {
        fields.insert("changes".to_owned(), approval.changes.iter().map(diffs::change).collect());
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(seq: u64, first: u64, event: agent::Event) -> Row {
        Row { seq, first, at_ms: 0, event: Event::Agent(event) }
    }

    fn text(text: &str) -> agent::Event {
        agent::Event::Text { text: text.to_owned() }
    }

    #[test]
    fn a_row_of_a_text_has_only_the_blocks_that_changed() {
        let mut renderer = Renderer::default();
        let first = renderer.row(&row(1, 1, text("one\n\ntw")));
        assert_eq!(
            first.get("md"),
            Some(&json!({"keep": 0, "blocks": [
            {"t": "p", "c": ["one"]}, {"t": "p", "c": ["tw"]}]}))
        );
        let writing = agent::Event::Writing { index: 0, call: String::new(), tool: "x".to_owned(), bytes: 1 };
        renderer.row(&row(2, 2, writing));
        let second = renderer.row(&row(3, 3, text("o")));
        assert_eq!(second.get("md"), Some(&json!({"keep": 1, "blocks": [{"t": "p", "c": ["two"]}]})));
        assert_eq!((second.get("item"), second.get("whole")), (Some(&json!(1)), None));
        // The row that takes the place of both.
        let third = renderer.row(&row(4, 1, text("one\n\ntwo!")));
        assert_eq!((third.get("item"), third.get("whole")), (Some(&json!(1)), Some(&json!(true))));
        assert_eq!(third.pointer("/event/text"), Some(&json!("one\n\ntwo!")));
        renderer.row(&row(5, 5, agent::Event::Asked { step: 2 }));
        let other = renderer.row(&row(6, 6, text("next")));
        assert_eq!((other.get("item"), other.pointer("/md/keep")), (Some(&json!(6)), Some(&json!(0))));
    }

    #[test]
    fn a_watcher_that_comes_back_gets_the_whole_of_a_text_that_goes_on() {
        let mut renderer = Renderer::default();
        renderer.skip(&row(7, 7, text("a ")));
        let more = renderer.row(&row(8, 8, text("*b*")));
        assert_eq!((more.get("item"), more.get("whole")), (Some(&json!(7)), Some(&json!(true))));
        assert_eq!(more.pointer("/event/text"), Some(&json!("a *b*")));
        assert_eq!(more.pointer("/md/keep"), Some(&json!(0)));
    }

    #[test]
    fn text_that_grows_by_pieces_has_the_blocks_of_the_whole() {
        const PARTS: [&str; 22] = [
            "word",
            " ",
            "\n",
            "\n\n",
            "- item",
            "  - inner",
            "1. first",
            "> quote",
            "```rust\n",
            "```\n",
            "# Head",
            "---\n",
            "===\n",
            "| a | b |\n",
            "|---|---|\n",
            "**bold**",
            "`code`",
            "    indented\n",
            "<div>\n",
            "* * *\n",
            "&amp;",
            "-",
        ];
        let mut random = 7_u64;
        for _ in 0..2_000 {
            let (mut text, mut shown) = (String::new(), Shown::default());
            for _ in 0..24 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let part =
                    usize::try_from(random >> 33).ok().and_then(|it| PARTS.get(it % PARTS.len())).copied();
                text.push_str(part.unwrap_or_default());
                if shown.more(&text).is_some() {
                    assert_eq!(shown.blocks, markdown::blocks(&text), "{text:?}");
                }
            }
        }
    }

    #[test]
    fn a_long_block_is_not_sent_again_with_each_piece() {
        let mut renderer = Renderer::default();
        let mut sent = 0;
        renderer.row(&row(1, 1, text("```\n")));
        for at in 2..4_000 {
            let row = renderer.row(&row(at, at, text("let a = 1;\n")));
            sent += row.get("md").map_or(0, |it| it.to_string().len());
        }
        assert!(sent < 80 * 11 * 4_000, "{sent} bytes for a block of {} bytes", 11 * 4_000);
        let mut rows = [renderer.row(&row(4_000, 4_000, text("last();")))];
        assert!(renderer.has_rest() && rows[0].get("md").is_none());
        renderer.finish(&mut rows);
        assert!(!renderer.has_rest());
        let code = rows[0].pointer("/md/blocks/0/s").and_then(Value::as_str).unwrap_or_default();
        assert!(code.ends_with("let a = 1;\nlast();"), "{}", code.len());
    }
}
