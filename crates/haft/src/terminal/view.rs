//! The view of an agent: its events as permanent rows, and as rows of the live area.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use agent::{Change, Event, Message, Shown};
use kit::Kind;
use runtime::truncate::kept_handle;

use super::{
    abbreviate,
    activity::{CallCounts, Life},
    calls::{Calls, Seen, ended},
    checklist::{self, Task},
    diff,
    markdown::Markdown,
    row::{Row, Style, harmless},
};

pub(crate) use super::markdown::Look;

/// Maximum stored length of the title of a call, in letters; on the screen it is cut to the line.
const TITLE: usize = 300;

/// A thought of more rows is folded into one when it is over.
const FOLDED: usize = 3;

/// Maximum number of rows of a thought in progress.
const THOUGHT: usize = 3;

/// A row or a picture that stays on the screen.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Drawn {
    Row(Row),
    Picture(Shown),
}

/// The visible state of an agent.
#[derive(Debug, Default)]
pub(crate) struct View {
    text: Markdown,
    thought: Thought,
    last: Last,
    calls: Calls,
    life: Life,
    tasks: Vec<Task>,
    /// The plan was drawn just now, so it is not repeated in the live area.
    planned: bool,
    /// Whole answers are shown, so no summary follows.
    whole: bool,
    /// The changes that a question about a call showed.
    showed: BTreeMap<String, Vec<Change>>,
}

/// The kind of the last output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Last {
    #[default]
    Nothing,
    /// Input of the person.
    Person,
    Text,
    Thought,
    Call,
}

/// A thought of the model in progress.
#[derive(Debug, Default)]
struct Thought {
    text: String,
    began: Option<Instant>,
    last: Option<Instant>,
}

impl View {
    /// Begins a turn, or a command that the person ran. `limit`: a request is given up after this time without a byte.
    pub(crate) fn begin(&mut self, now: Instant, limit: Option<Duration>) {
        self.life.begin(now, limit);
        self.last = Last::Person;
    }

    /// Shows the whole answer of the next call, without a summary.
    pub(crate) fn shows_whole(&mut self) {
        self.whole = true;
    }

    /// Applies an event; returns the output that is permanent.
    pub(crate) fn hear(&mut self, event: &Event, now: Instant, look: Look) -> Vec<Drawn> {
        let mut drawn = Vec::new();
        self.take(event, &[], now, look, &mut drawn);
        drawn
    }

    /// Ends the turn: returns the rest of the live area as permanent output. Keeps the plan for the next turn.
    pub(crate) fn end(&mut self, look: Look) -> Vec<Drawn> {
        let mut drawn = Vec::new();
        self.end_text(look, &mut drawn);
        drawn.extend(self.calls.take());
        *self = Self { tasks: std::mem::take(&mut self.tasks), ..Self::default() };
        drawn
    }

    /// Switches to another conversation.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }

    /// Returns the live area, with the activity indicator as its last row.
    pub(crate) fn live(&self, now: Instant, look: Look) -> Vec<Row> {
        let columns = look.columns;
        let mut rows = self.thought.live(look);
        rows.extend(self.text.rest(look));
        let calls = self.calls.rows(now, columns);
        if !(calls.is_empty() || rows.is_empty()) {
            rows.push(Row::default());
        }
        rows.extend(calls);
        // Input of the person stands apart.
        if self.last == Last::Person {
            rows.insert(0, Row::default());
        }
        let Some(life) = self.life(now, columns) else { return rows };
        if rows.last().is_some_and(|it| *it != Row::default()) {
            rows.push(Row::default());
        }
        if !self.planned {
            rows.extend(checklist::live(&self.tasks, columns));
        }
        rows.push(life);
        rows
    }

    /// Excludes the time of a question from the run time of a call.
    pub(crate) fn asked(&mut self, call: &str, took: Duration) {
        self.calls.asked(call, took);
    }

    /// Records changes that a question showed, so that they are not shown again once they are applied.
    pub(crate) fn showed(&mut self, call: String, changes: Vec<Change>) {
        self.showed.insert(call, changes);
    }

    /// Returns the activity indicator, while work is in progress.
    pub(crate) fn life(&self, now: Instant, columns: usize) -> Option<Row> {
        let (running, waiting) = self.calls.standing();
        self.life.row(now, CallCounts { running, waiting }, columns)
    }

    /// Returns the id and the title of the newest call that is not over.
    pub(crate) fn newest_call(&self) -> Option<(&str, &str)> {
        self.calls.newest()
    }

    /// Updates each running call with the state that `seen` returns.
    pub(crate) fn look_at_calls(&mut self, now: Instant, seen: impl Fn(&str) -> Seen) {
        self.calls.look(now, seen);
    }

    fn take(&mut self, event: &Event, above: &[&str], now: Instant, look: Look, drawn: &mut Vec<Drawn>) {
        let depth = above.len();
        if depth == 0 {
            self.life.hear(event, now);
            self.planned &= matches!(event, Event::Asked { .. } | Event::Writing { .. } | Event::Used { .. });
        }
        match event {
            Event::Under { agent, inner } => {
                let above = [above, &[agent.as_str()]].concat();
                self.take(inner, &above, now, look, drawn);
            }
            Event::Text { text } | Event::Reasoning { text } if depth > 0 => {
                if let Some(line) = text.lines().rfind(|it| !it.trim().is_empty()) {
                    self.calls.said_below(above.join("/"), abbreviate::line(line.trim(), TITLE));
                }
            }
            Event::Asked { .. } | Event::Writing { .. } => {}
            Event::Used { .. } if depth > 0 => {}
            Event::Text { text } => self.say(text, Last::Text, now, look, drawn),
            Event::Reasoning { text } => self.say(text, Last::Thought, now, look, drawn),
            Event::Called { call, tool, arguments } => {
                if depth == 0 {
                    self.end_text(look, drawn);
                }
                self.calls.begin(call, title(tool, arguments), above, now);
            }
            Event::Progress { call, line } => self.calls.progress(call, abbreviate::line(line, TITLE)),
            Event::Answered { call, tool, ok, fault, exit, ms, text, pictures, changes, links } => {
                let how = abbreviate::how(*ok, *exit, *fault);
                let title = self.calls.title(call).unwrap_or_else(|| tool.clone());
                // The diff shows the changes of the files, and the person knows their own answer.
                let is_said = self.whole || !changes.is_empty() || tool == "ask_user";
                let text = if *ok && is_said { "" } else { text.as_str() };
                let telling = match *fault {
                    Some(Kind::Denied) => refused(text).unwrap_or_else(|| summed_up(text, *ok, false)),
                    // `how` already shows that it was stopped, but not the output until then.
                    Some(Kind::Cancelled) => {
                        summed_up(text.split_once('\n').map_or("", |it| it.1), true, false)
                    }
                    _ => summed_up(text, *ok, exit.is_some()),
                };
                let mut stays = match how == "ok" && checklist::is_list(tool) {
                    true => self.plan(depth, tool, text, &abbreviate::ms(*ms), look),
                    false => {
                        drawn_of(ended(depth, &title, &how, &abbreviate::ms(*ms), &telling, look.columns))
                    }
                };
                let indent = 2 * depth + 4;
                let was_shown = self.showed.remove(call).is_some_and(|it| is_same(&it, changes));
                let diffs = match was_shown {
                    true => diff::headers(changes, indent, look.columns),
                    false => diff::rows(changes, indent, look.columns, diff::SHOWN, "Ctrl-O shows all"),
                };
                stays.extend(drawn_of(diffs));
                // An address is useful only as a whole, so it is wrapped and not cut.
                let pad = " ".repeat(indent);
                let links = links.iter().map(|it| Row::new(format!("{pad}{it}"), Style::default()));
                stays.extend(drawn_of(links.flat_map(|it| it.wrapped(look.columns, indent)).collect()));
                stays.extend(pictures.iter().cloned().map(Drawn::Picture));
                let stays = self.calls.end(call, stays);
                if !stays.is_empty() {
                    self.end_text(look, drawn);
                    self.begin_kind(Last::Call, drawn);
                    drawn.extend(stays);
                }
            }
            Event::Picture { picture, .. } => {
                self.end_text(look, drawn);
                drawn.push(Drawn::Picture(picture.clone()));
            }
            Event::Again { why, .. } => {
                self.end_text(look, drawn);
                self.note(why, depth, look, drawn);
            }
            Event::Note { text } => self.note(text, depth, look, drawn),
            Event::Waits { jobs, seconds } => {
                self.note(&abbreviate::waits(jobs, *seconds), depth, look, drawn);
            }
            Event::Used { .. } => self.end_text(look, drawn),
        }
    }

    /// Returns the permanent output of an answer that is a plan: the tasks that changed.
    fn plan(&mut self, depth: usize, tool: &str, text: &str, took: &str, look: Look) -> Vec<Drawn> {
        let tasks = checklist::read(text);
        let title = format!("{tool} {}", checklist::summary(&tasks));
        let mut rows = ended(depth, &title, "ok", took, "", look.columns);
        let room = look.columns.saturating_sub(4);
        let changed = checklist::rows(checklist::changed(&self.tasks, &tasks), room);
        rows.extend(changed.into_iter().map(|it| Row::new("    ", Style::PLAIN).and(it)));
        if depth == 0 {
            self.planned = tasks != self.tasks;
            self.tasks = tasks;
        }
        drawn_of(rows)
    }

    fn say(&mut self, text: &str, what: Last, now: Instant, look: Look, drawn: &mut Vec<Drawn>) {
        // A model often begins with a line break.
        let text = if self.last == what { text } else { text.trim_start_matches('\n') };
        if text.is_empty() {
            return;
        }
        if self.last != what {
            self.end_text(look, drawn);
            self.begin_kind(what, drawn);
        }
        if what == Last::Thought {
            self.thought.push(text, now);
        } else {
            drawn.extend(self.text.push(text, look).into_iter().map(Drawn::Row));
        }
    }

    /// Begins output of this kind: an empty row separates it from another kind.
    fn begin_kind(&mut self, what: Last, drawn: &mut Vec<Drawn>) {
        if self.last != what && self.last != Last::Nothing {
            drawn.push(Drawn::Row(Row::default()));
        }
        self.last = what;
    }

    fn end_text(&mut self, look: Look, drawn: &mut Vec<Drawn>) {
        drawn.extend(self.thought.end(look).into_iter().map(Drawn::Row));
        drawn.extend(self.text.end(look).into_iter().map(Drawn::Row));
    }

    fn note(&mut self, text: &str, depth: usize, look: Look, drawn: &mut Vec<Drawn>) {
        self.end_text(look, drawn);
        self.begin_kind(Last::Call, drawn);
        let row = Row::new(format!("{}! {}", "  ".repeat(depth), harmless(text)), Style::ASKS);
        drawn.extend(row.wrapped(look.columns, 2).into_iter().map(Drawn::Row));
    }
}

impl Thought {
    fn push(&mut self, text: &str, now: Instant) {
        self.began.get_or_insert(now);
        self.last = Some(now);
        self.text.push_str(text);
    }

    fn rows(&self, look: Look) -> Vec<Row> {
        let style = Style { dim: true, italic: true, ..Style::PLAIN };
        let text = self.text.trim_end();
        if text.is_empty() { Vec::new() } else { Row::new(text, style).lines(look.columns) }
    }

    /// Returns the last rows of the thought.
    fn live(&self, look: Look) -> Vec<Row> {
        let rows = self.rows(look);
        let first = rows.len().saturating_sub(THOUGHT);
        rows.into_iter().skip(first).collect()
    }

    /// Ends the thought: returns a short one whole, and one line for a long one.
    fn end(&mut self, look: Look) -> Vec<Row> {
        let rows = self.rows(look);
        let took = self.began.zip(self.last).map(|(began, last)| last.saturating_duration_since(began));
        *self = Self::default();
        if rows.len() <= FOLDED {
            return rows;
        }
        let took = took.map_or_else(String::new, |it| format!(" for {}", abbreviate::clock(it)));
        let whole = Row::new(format!("thought{took}, {} lines (Ctrl-O shows them)", rows.len()), Style::DIM);
        if whole.width() <= look.columns {
            return vec![whole];
        }
        vec![Row::new(format!("thought{took} (Ctrl-O shows it)"), Style::DIM).cut(look.columns)]
    }
}

/// Returns the person's words if they refused the call: the rest of the fault repeats the question.
fn refused(text: &str) -> Option<String> {
    let (_, words) = text.lines().next()?.split_once("; the person said no")?;
    Some(format!("you said no{}", abbreviate::line(words, TITLE)))
}

/// Returns whether these changes were applied as shown. The diffs are not compared, as they are truncated differently.
fn is_same(showed: &[Change], landed: &[Change]) -> bool {
    let alike = |(one, other): (&Change, &Change)| {
        (&one.path, one.kind, one.added, one.removed) == (&other.path, other.kind, other.added, other.removed)
    };
    showed.len() == landed.len() && showed.iter().zip(landed).all(alike)
}

/// Returns the most informative line of an answer; for a command also its number of lines.
fn summed_up(text: &str, ok: bool, is_command: bool) -> String {
    let telling = abbreviate::summary(text, ok, TITLE);
    let lines = text.trim_end().lines().filter(|it| !agent::is_frame(it)).count();
    match is_command && !telling.is_empty() {
        true if kept_handle(text).is_some() => format!("{telling}  (Ctrl-O shows all)"),
        true if lines > 1 => format!("{telling}  ({lines} lines)"),
        _ => telling,
    }
}

fn drawn_of(rows: Vec<Row>) -> Vec<Drawn> {
    rows.into_iter().map(Drawn::Row).collect()
}

/// Returns a call in one line. For a plan, it is only the tool: the answer shows the tasks.
pub(crate) fn title(tool: &str, arguments: &serde_json::Value) -> String {
    if checklist::is_list(tool) {
        return tool.to_owned();
    }
    format!("{tool} {}", abbreviate::arguments(arguments, TITLE)).trim_end().to_owned()
}

/// Returns the messages of an earlier process as rows, with an empty row after them.
pub(crate) fn rows_before(said: &[Message], look: Look) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut tools = false;
    for message in said {
        let is_tool = matches!(message, Message::Tool { .. });
        // Calls stand together.
        if !(rows.is_empty() || tools && is_tool) {
            rows.push(Row::default());
        }
        tools = is_tool;
        rows.extend(said_before(message, look));
    }
    rows.push(Row::default());
    rows
}

/// Returns the rows of one message.
pub(crate) fn said_before(message: &Message, look: Look) -> Vec<Row> {
    match message {
        Message::Person { text, attached } => {
            let mut rows =
                Row::new(format!("> {}", text.replace('\n', "\n  ")), Style::BOLD).lines(look.columns);
            rows.extend(
                attached.iter().map(|it| Row::new(format!("  [{it}]"), Style::DIM).cut(look.columns)),
            );
            rows
        }
        Message::Model { text } => {
            let mut markdown = Markdown::default();
            let mut rows = markdown.push(text, look);
            rows.extend(markdown.end(look));
            rows
        }
        Message::Tool { tool, title: arguments, ok, exit, line, ms, .. } => {
            let arguments = serde_json::from_str(arguments).unwrap_or_else(|_| arguments.clone().into());
            let how = abbreviate::how_of_line(*ok, *exit, line);
            let telling = abbreviate::summary(line, *ok, TITLE);
            ended(0, &title(tool, &arguments), &how, &abbreviate::ms(*ms), &telling, look.columns)
        }
        Message::Note { text } => Row::new(format!("! {text}"), Style::ASKS).lines(look.columns),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

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
            links: Vec::new(),
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

    fn look(columns: usize) -> Look {
        Look { columns, plain: false }
    }

    fn rows_of(drawn: Vec<Drawn>) -> Vec<Row> {
        drawn.into_iter().filter_map(|it| if let Drawn::Row(row) = it { Some(row) } else { None }).collect()
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
                  explore_1: into it
                    • grep x\u{1b}[2J  3.0 s

                ⠋ running 1 call · 3 s · ~28 tokens · Esc to stop
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
                        FAILED
                        (failures=1)
                "#]],
                expect![[r#"
                • subagent f…  3.0 s
                    last line
                  explore_1: into it
                    • grep x…  3.0 s

                ⠋ running 1 call
            "#]],
            ),
        ] {
            let began = Instant::now();
            let mut view = View::default();
            view.begin(began, None);
            let mut rows = Vec::new();
            for event in events() {
                rows.extend(rows_of(view.hear(&event, began, look(columns))));
            }
            stays.assert_eq(&shown(&rows));
            view.look_at_calls(began, |id| match id {
                "c2" => Seen { line: Some("last line".to_owned()), ..Seen::default() },
                _ => Seen::default(),
            });
            let live = view.live(began + Duration::from_secs(3), look(columns));
            moves.assert_eq(&shown(&live));
            assert!(live.iter().chain(&rows).all(|it| it.width() <= columns));
        }
    }

    fn stays_of(view: &mut View, event: &Event) -> String {
        shown(&rows_of(view.hear(event, Instant::now(), look(60))))
    }

    fn ends(call: &str, tool: &str, said: &str, of: impl FnOnce(&mut Event)) -> Event {
        let mut event = answered(call, true, said);
        if let Event::Answered { tool: name, .. } = &mut event {
            *name = tool.to_owned();
        }
        of(&mut event);
        event
    }

    #[test]
    fn lines_of_a_command_are_counted_without_those_that_frame_them() {
        let command = |said: &str| {
            stays_of(
                &mut View::default(),
                &ends("c", "shell", said, |it| {
                    if let Event::Answered { exit, .. } = it {
                        *exit = Some(3);
                    }
                }),
            )
        };
        assert_eq!(command("a\n[exit 3]"), "✗ shell  exit 3, 1.2 s\n    a\n");
        assert_eq!(command("a\nb\n[waited 1.0 s]\n[exit 3]"), "✗ shell  exit 3, 1.2 s\n    b  (2 lines)\n");
    }

    #[test]
    fn a_stopped_call_shows_what_it_wrote_by_then() {
        let stopped = |said: &str| {
            stays_of(
                &mut View::default(),
                &ends("c", "shell", said, |it| {
                    if let Event::Answered { ok, fault, .. } = it {
                        (*ok, *fault) = (false, Some(Kind::Cancelled));
                    }
                }),
            )
        };
        assert_eq!(
            stopped("`shell` was stopped after 2.0 s\nbegun\n[stopped]"),
            "✗ shell  stopped, 1.2 s\n    begun\n"
        );
        assert_eq!(stopped("`write` was stopped after 0.0 s"), "✗ shell  stopped, 1.2 s\n");
    }

    #[test]
    fn a_diff_that_a_question_showed_is_not_shown_again() {
        let diff = "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+y\n".to_owned();
        let change = Change { path: "a".to_owned(), added: 1, removed: 1, diff, ..Change::default() };
        let edited = ends("c", "edit", "Updated a", |it| {
            if let Event::Answered { changes, .. } = it {
                changes.push(change.clone());
            }
        });
        let mut view = View::default();
        view.showed("c".to_owned(), vec![change.clone()]);
        assert_eq!(stays_of(&mut view, &edited), "✓ edit  1.2 s\n    a (+1 -1)\n");
        // The applied changes differ from those that were shown.
        let mut view = View::default();
        view.showed("c".to_owned(), vec![Change { added: 7, ..change }]);
        assert!(stays_of(&mut view, &edited).contains("1 + y"));
    }

    #[test]
    fn the_answer_of_the_person_is_not_repeated() {
        let answered = ends("c", "ask_user", "main", |_| ());
        assert_eq!(stays_of(&mut View::default(), &answered), "✓ ask_user  1.2 s\n");
    }

    #[test]
    fn a_plan_is_a_checklist_that_follows_what_is_done() {
        let now = Instant::now();
        let mut view = View::default();
        view.begin(now, None);
        let todo = |view: &mut View, list: &str| {
            let id = list.to_owned();
            view.hear(
                &called(&id, "todo", json!({"action": "set", "tasks": ["read", "write"]})),
                now,
                look(40),
            );
            let mut answer = answered(&id, true, list);
            if let Event::Answered { tool, .. } = &mut answer {
                *tool = "todo".to_owned();
            }
            let stays = rows_of(view.hear(&answer, now, look(40)));
            shown(&stays) + "and below\n" + &shown(&view.live(now, look(40)))
        };
        expect![[r#"

            ✓ todo 0 of 2 done  1.2 s
                ☐ read
                ☐ write
            and below
            ⠋ waiting for the model · 0 s
        "#]]
        .assert_eq(&todo(&mut view, "1. [pending] read\n2. [pending] write\n0 of 2 done"));
        expect![[r#"
            ✓ todo 1 of 2 done  1.2 s
                ☑ read
                ▶ write
            and below
            ⠋ waiting for the model · 0 s
        "#]]
        .assert_eq(&todo(&mut view, "1. [done] read\n2. [in_progress] write\n1 of 2 done"));
        expect![[r#"
            ✓ todo 2 of 2 done  1.2 s
                ☑ write
            and below
            ⠋ waiting for the model · 0 s
        "#]]
        .assert_eq(&todo(&mut view, "1. [done] read\n2. [done] write\n2 of 2 done"));
        let mut view =
            View { tasks: checklist::read("1. [done] read\n2. [pending] write"), ..View::default() };
        view.begin(now, None);
        view.hear(&called("c", "shell", json!({"command": "make"})), now, look(40));
        expect![[r#"

            • shell make  0.0 s

            Tasks: 1 of 2 done
              ☑ read
              ☐ write
            ⠋ running 1 call · 0 s · Esc to stop
        "#]]
        .assert_eq(&shown(&view.live(now, look(40))));
    }

    #[test]
    fn a_long_thought_is_folded_once_it_is_over() {
        let now = Instant::now();
        let mut view = View::default();
        let lines: Vec<String> = (1..=9).map(|it| format!("thought {it}")).collect();
        let thought = Event::Reasoning { text: lines.join("\n") };
        assert!(view.hear(&thought, now, look(60)).is_empty());
        assert_eq!(shown(&view.live(now, look(60))), "thought 7\nthought 8\nthought 9\n");
        let end = Event::Reasoning { text: "\nand so".to_owned() };
        view.hear(&end, now + Duration::from_secs(12), look(60));
        let rows = rows_of(view.hear(&text("Hello\n\n"), now, look(60)));
        assert_eq!(shown(&rows), "thought for 12 s, 10 lines (Ctrl-O shows them)\n\n");
    }

    #[test]
    fn what_was_said_before_is_seen_again() {
        let message: Message = serde_json::from_value(
            json!({"who": "tool", "tool": "read", "title": "{\"path\":\"a.py\"}", "ok": true, "line": "3 lines", "ms": 3.0}),
        )
        .unwrap();
        assert_eq!(shown(&said_before(&message, look(40))), "✓ read a.py  0.0 s\n    3 lines\n");
        let person = Message::Person { text: "do\nit".to_owned(), attached: Vec::new() };
        assert_eq!(shown(&said_before(&person, look(40))), "> do\n  it\n");
    }
}
