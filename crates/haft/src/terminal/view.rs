//! The view of an agent: its events as permanent rows, and as rows of the live area.

mod before;
mod thought;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use agent::{Change, Event, Shown};
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
pub(crate) use before::{rows_before, said_before};
use thought::Thought;

/// Maximum stored length of the title of a call, in letters; on the screen it is cut to the line.
const TITLE: usize = 300;

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

    /// Shows summaries again.
    pub(crate) fn shows_summaries(&mut self) {
        self.whole = false;
    }

    /// Applies an event; returns the output that is permanent.
    pub(crate) fn observe(&mut self, event: &Event, now: Instant, look: Look) -> Vec<Drawn> {
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
            self.life.observe(event, now);
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
                // The diff shows the changes of the files, but not what a command printed; and the person knows
                // their own answer.
                let is_shown = !changes.is_empty() && exit.is_none() && tool != "python";
                let is_said = self.whole || is_shown || tool == "ask_user";
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
            // The end of a job was shown when it ended.
            Event::MessageShown { source, .. } if source == "job" => {}
            Event::MessageShown { from, channel, text, .. } => {
                self.note(&abbreviate::message(from, channel.as_deref(), text), depth, look, drawn);
            }
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

#[cfg(test)]
mod tests;
