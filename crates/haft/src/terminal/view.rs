//! What does a person see of an agent, line by line, and what of it is still in motion?

use std::{
    collections::{BTreeMap, HashMap},
    time::{Duration, Instant},
};

use agent::{Event, Message, Shown};

use super::{
    diff,
    markdown::Markdown,
    row::{Row, Style},
    short,
};

/// So many letters of a call are kept; what is shown is cut to the line.
const TITLE: usize = 300;

/// So many calls are shown while they run.
const CALLS: usize = 6;

/// Something that stays on the screen.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Drawn {
    Row(Row),
    Picture(Shown),
}

/// An agent as it is seen.
#[derive(Debug, Default)]
pub(crate) struct View {
    text: Markdown,
    thought: Markdown,
    last: Last,
    running: Vec<Running>,
    /// The call that is being written, and how many bytes of it there are.
    writing: Option<(String, usize)>,
    /// What each agent below said last.
    below: BTreeMap<String, String>,
    /// Since when there has been nothing to see.
    quiet: Option<Instant>,
    /// Why it waits.
    waits: Option<String>,
}

/// What was drawn last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Last {
    #[default]
    Nothing,
    Text,
    Thought,
    Call,
}

#[derive(Debug)]
struct Running {
    call: String,
    title: String,
    depth: usize,
    since: Instant,
    line: String,
}

impl View {
    /// Takes an event; gives what stays of it.
    pub(crate) fn hear(&mut self, event: &Event, now: Instant, columns: usize) -> Vec<Drawn> {
        let mut drawn = Vec::new();
        self.take(event, &[], now, columns, &mut drawn);
        drawn
    }

    /// The turn is over: gives what was still in motion.
    pub(crate) fn end(&mut self, columns: usize) -> Vec<Drawn> {
        let mut drawn = Vec::new();
        self.end_text(columns, &mut drawn);
        *self = Self::default();
        drawn
    }

    /// What is in motion, in lines of so many columns. `written` knows the last line that a call wrote.
    pub(crate) fn live(&self, now: Instant, columns: usize, written: &HashMap<String, String>) -> Vec<Row> {
        let mut rows = Vec::new();
        rows.extend(self.thought.rest(columns).into_iter().map(Row::dimmed));
        rows.extend(self.text.rest(columns));
        for it in self.running.iter().take(CALLS) {
            let indent = "  ".repeat(it.depth);
            let took = short::took(now.duration_since(it.since));
            rows.push(titled(&format!("{indent}• "), Style::ASKS, &it.title, &format!("  {took}"), columns));
            let line = written.get(&it.call).unwrap_or(&it.line);
            if !line.is_empty() {
                rows.push(Row::new(format!("{indent}    {line}"), Style::DIM).cut(columns));
            }
        }
        if self.running.len() > CALLS {
            rows.push(Row::new(format!("  and {} more", self.running.len() - CALLS), Style::DIM));
        }
        if !self.running.is_empty() {
            let below =
                self.below.iter().map(|(agent, line)| Row::new(format!("  {agent}: {line}"), Style::DIM));
            rows.extend(below.map(|it| it.cut(columns)));
        }
        if let Some((tool, bytes)) = &self.writing {
            let size = short::count(*bytes as u64);
            rows.push(Row::new(format!("writing {tool}, {size} bytes"), Style::DIM).cut(columns));
        } else if let Some(why) = &self.waits {
            rows.push(Row::new(why.clone(), Style::DIM).cut(columns));
        } else if let Some(since) = self.quiet
            && self.running.is_empty()
        {
            let took = short::took(now.duration_since(since));
            rows.push(
                Row::new(format!("waiting for the model, {took} (Esc stops)"), Style::DIM).cut(columns),
            );
        }
        rows
    }

    /// A person was asked about a call for so long, which is no part of the time that it runs.
    pub(crate) fn asked(&mut self, call: &str, took: Duration) {
        if let Some(it) = self.running.iter_mut().find(|it| it.call == call) {
            it.since += took;
        }
    }

    /// The calls that run.
    pub(crate) fn calls(&self) -> impl Iterator<Item = &str> {
        self.running.iter().take(CALLS).map(|it| it.call.as_str())
    }

    fn take(&mut self, event: &Event, above: &[&str], now: Instant, columns: usize, drawn: &mut Vec<Drawn>) {
        let depth = above.len();
        match event {
            Event::Under { agent, inner } => {
                let above = [above, &[agent.as_str()]].concat();
                self.take(inner, &above, now, columns, drawn);
            }
            Event::Text { text } | Event::Reasoning { text } if depth > 0 => {
                if let Some(line) = text.lines().rfind(|it| !it.trim().is_empty()) {
                    self.below.insert(above.join("/"), short::line(line.trim(), TITLE));
                }
            }
            Event::Asked { .. } | Event::Used { .. } if depth > 0 => {}
            Event::Asked { .. } => {
                self.quiet = Some(now);
                self.waits = None;
            }
            Event::Text { text } => self.say(text, Last::Text, columns, drawn),
            Event::Reasoning { text } => self.say(text, Last::Thought, columns, drawn),
            Event::Writing { tool, bytes, .. } => {
                self.quiet = None;
                self.writing = Some((tool.clone(), *bytes));
            }
            Event::Called { call, tool, arguments } => {
                self.end_text(columns, drawn);
                self.writing = None;
                self.quiet = None;
                let title = format!("{tool} {}", short::arguments(arguments, TITLE)).trim_end().to_owned();
                self.running.push(Running {
                    call: call.clone(),
                    title,
                    depth,
                    since: now,
                    line: String::new(),
                });
            }
            Event::Progress { call, line } => {
                if let Some(it) = self.running.iter_mut().find(|it| it.call == *call) {
                    it.line = short::line(line, TITLE);
                }
            }
            Event::Answered { call, tool, ok, exit, ms, text, pictures, changes, .. } => {
                self.end_text(columns, drawn);
                let at = self.running.iter().position(|it| it.call == *call);
                let title = at.map_or_else(|| tool.clone(), |at| self.running.remove(at).title);
                if self.running.is_empty() {
                    self.below.clear();
                }
                self.begin(Last::Call, drawn);
                let how = short::how(*ok, *exit);
                // The diff says what was done to the files.
                let is_shown = *ok && !changes.is_empty();
                let telling = if is_shown { String::new() } else { short::telling(text, &how, TITLE) };
                drawn.extend(
                    ended(depth, &title, &how, &short::ms(*ms), &telling, columns)
                        .into_iter()
                        .map(Drawn::Row),
                );
                let indent = 2 * depth + 4;
                let hint = format!("haft log --diff --call {call} shows all");
                let diffs = diff::rows(changes, indent, columns, diff::SHOWN, &hint);
                drawn.extend(diffs.into_iter().map(Drawn::Row));
                drawn.extend(pictures.iter().cloned().map(Drawn::Picture));
            }
            Event::Picture { picture, .. } => {
                self.end_text(columns, drawn);
                drawn.push(Drawn::Picture(picture.clone()));
            }
            Event::Again { why, seconds } => {
                self.end_text(columns, drawn);
                self.writing = None;
                self.note(&format!("{why}; again in {seconds:.1} s"), depth, columns, drawn);
                self.waits = Some("waiting to ask again (Esc stops)".to_owned());
            }
            Event::Note { text } => self.note(text, depth, columns, drawn),
            Event::Used { .. } => {
                self.end_text(columns, drawn);
                self.quiet = None;
                self.writing = None;
            }
        }
    }

    fn say(&mut self, text: &str, what: Last, columns: usize, drawn: &mut Vec<Drawn>) {
        self.quiet = None;
        self.waits = None;
        // What a model begins with is often a line break.
        let text = if self.last == what { text } else { text.trim_start_matches('\n') };
        if text.is_empty() {
            return;
        }
        if self.last != what {
            self.end_text(columns, drawn);
            self.begin(what, drawn);
        }
        if what == Last::Thought {
            let rows = self.thought.push(text, columns);
            drawn.extend(rows.into_iter().map(Row::dimmed).map(Drawn::Row));
        } else {
            drawn.extend(self.text.push(text, columns).into_iter().map(Drawn::Row));
        }
    }

    /// What comes is of this kind: other kinds stand apart.
    fn begin(&mut self, what: Last, drawn: &mut Vec<Drawn>) {
        if self.last != what && self.last != Last::Nothing {
            drawn.push(Drawn::Row(Row::default()));
        }
        self.last = what;
    }

    fn end_text(&mut self, columns: usize, drawn: &mut Vec<Drawn>) {
        drawn.extend(self.thought.end(columns).into_iter().map(Row::dimmed).map(Drawn::Row));
        drawn.extend(self.text.end(columns).into_iter().map(Drawn::Row));
    }

    fn note(&mut self, text: &str, depth: usize, columns: usize, drawn: &mut Vec<Drawn>) {
        self.end_text(columns, drawn);
        self.begin(Last::Call, drawn);
        let row = Row::new(format!("{}! {text}", "  ".repeat(depth)), Style::ASKS);
        drawn.extend(row.wrapped(columns, 2).into_iter().map(Drawn::Row));
    }
}

/// A call that is over.
fn ended(depth: usize, title: &str, how: &str, took: &str, telling: &str, columns: usize) -> Vec<Row> {
    let indent = "  ".repeat(depth);
    let (sign, style) = if how == "ok" { ("✓", Style::GOOD) } else { ("✗", Style::BAD) };
    let said = if how == "ok" { took.to_owned() } else { format!("{how}, {took}") };
    let mut rows = vec![titled(&format!("{indent}{sign} "), style, title, &format!("  {said}"), columns)];
    if !telling.is_empty() {
        rows.push(Row::new(format!("{indent}    {telling}"), Style::DIM).cut(columns));
    }
    rows
}

/// A title between a sign and what is said of it, which is seen whatever the title is.
fn titled(sign: &str, style: Style, title: &str, said: &str, columns: usize) -> Row {
    let said = Row::new(said, Style::DIM);
    let room = columns.saturating_sub(said.width()).max(8);
    let row = Row::new(sign, style).with(super::row::harmless(title), Style::PLAIN).cut(room);
    row.and(said).cut(columns)
}

/// What was said in an earlier process, as it is seen again.
pub(crate) fn said_before(message: &Message, columns: usize) -> Vec<Row> {
    match message {
        Message::Person { text, attached } => {
            let mut rows = Row::new(format!("> {}", text.replace('\n', "\n  ")), Style::BOLD).lines(columns);
            rows.extend(attached.iter().map(|it| Row::new(format!("  [{it}]"), Style::DIM).cut(columns)));
            rows
        }
        Message::Model { text } => {
            let mut markdown = Markdown::default();
            let mut rows = markdown.push(text, columns);
            rows.extend(markdown.end(columns));
            rows
        }
        Message::Tool { tool, title, ok, exit, line, ms, .. } => {
            let arguments = serde_json::from_str(title).unwrap_or_else(|_| title.clone().into());
            let title = format!("{tool} {}", short::arguments(&arguments, TITLE));
            ended(0, title.trim_end(), &short::how(*ok, *exit), &short::ms(*ms), line, columns)
        }
        Message::Note { text } => Row::new(format!("! {text}"), Style::ASKS).lines(columns),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use agent::model::Usage;
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    fn text(text: &str) -> Event {
        Event::Text { text: text.to_owned() }
    }

    fn called(call: &str, tool: &str, arguments: serde_json::Value) -> Event {
        Event::Called { call: call.to_owned(), tool: tool.to_owned(), arguments }
    }

    fn answered(call: &str, ok: bool, said: &str) -> Event {
        Event::Answered {
            call: call.to_owned(),
            tool: "shell".to_owned(),
            ok,
            fault: None,
            exit: None,
            ms: 1200.0,
            text: said.to_owned(),
            pictures: Vec::new(),
            changes: Vec::new(),
        }
    }

    fn under(inner: Event) -> Event {
        Event::Under { agent: "explore_1".to_owned(), inner: Box::new(inner) }
    }

    fn shown(rows: &[Row]) -> String {
        rows.iter().map(|it| it.text() + "\n").collect()
    }

    fn events() -> Vec<Event> {
        vec![
            Event::Asked { step: 1 },
            Event::Reasoning { text: "hm, the tests".to_owned() },
            text("I run the **tests**.\n\nAnd "),
            called("c1", "shell", json!({"command": "python3 -m unittest discover --verbose"})),
            text("look"),
            called("c2", "subagent", json!({"prompt": "find it"})),
            under(called("c3", "grep", json!({"pattern": "x\u{1b}[2J"}))),
            under(text("looking\ninto it")),
            answered("c1", false, "FAILED (failures=1)"),
        ]
    }

    #[test]
    fn what_happened_stays_and_what_runs_is_in_motion() {
        for (columns, stays, moves) in [
            (
                60,
                expect![[r#"
                    hm, the tests

                    I run the tests.

                    And
                    look

                    ✗ shell python3 -m unittest discover --verbose  error, 1.2 s
                        FAILED (failures=1)
                "#]],
                expect![[r#"
                    • subagent find it  3.0 s
                        last line
                      • grep x\u{1b}[2J  3.0 s
                      explore_1: into it
                "#]],
            ),
            (
                20,
                expect![[r#"
                    hm, the tests

                    I run the tests.

                    And
                    look

                    ✗ shell…  error, 1.…
                        FAILED (failure…
                "#]],
                expect![[r#"
                    • subagent f…  3.0 s
                        last line
                      • grep x\u…  3.0 s
                      explore_1: into it
                "#]],
            ),
        ] {
            let began = Instant::now();
            let mut view = View::default();
            let mut rows = Vec::new();
            for event in events() {
                for drawn in view.hear(&event, began, columns) {
                    let Drawn::Row(row) = drawn else { unreachable!() };
                    rows.push(row);
                }
            }
            stays.assert_eq(&shown(&rows));
            let written = HashMap::from([("c2".to_owned(), "last line".to_owned())]);
            let live = view.live(began + Duration::from_secs(3), columns, &written);
            moves.assert_eq(&shown(&live));
            assert!(live.iter().chain(&rows).all(|it| it.width() <= columns));
        }
    }

    #[test]
    fn a_call_that_is_written_and_a_model_that_is_waited_for_are_seen() {
        let now = Instant::now();
        let mut view = View::default();
        view.hear(&Event::Asked { step: 1 }, now, 60);
        let live = |view: &View| shown(&view.live(now + Duration::from_secs(2), 60, &HashMap::new()));
        assert_eq!(live(&view), "waiting for the model, 2.0 s (Esc stops)\n");
        view.hear(&Event::Writing { index: 0, tool: "write".to_owned(), bytes: 12_345 }, now, 60);
        assert_eq!(live(&view), "writing write, 12,345 bytes\n");
        view.hear(&Event::Used { usage: Usage::default(), cost: None }, now, 60);
        assert_eq!(live(&view), "");
    }

    #[test]
    fn what_was_said_before_is_seen_again() {
        let message: Message = serde_json::from_value(
            json!({"who": "tool", "tool": "read", "title": "{\"path\":\"a.py\"}", "ok": true, "line": "1:ab|x", "ms": 3.0}),
        )
        .unwrap();
        assert_eq!(shown(&said_before(&message, 40)), "✓ read a.py  0.0 s\n    1:ab|x\n");
        let person = Message::Person { text: "do\nit".to_owned(), attached: Vec::new() };
        assert_eq!(shown(&said_before(&person, 40)), "> do\n  it\n");
    }
}
