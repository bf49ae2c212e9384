//! Calls on the screen: running, waiting, asking and ended ones, in the order in which the model made them.
//!
//! Calls of one answer run in parallel and end in any order. An ended call stays in the live area while an earlier one of the
//! same agent runs, so that the permanent rows are in the model's order.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use super::{
    abbreviate,
    row::{Row, Style, harmless},
    view::Drawn,
};

/// Maximum number of running calls that are shown.
const SHOWN: usize = 6;

/// Below this many columns the reason of a failure takes two rows.
const NARROW: usize = 60;

/// Maximum number of ended calls that wait for earlier ones.
const HELD: usize = 8;

/// The calls that are not all over.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    all: Vec<Call>,
    /// The last line of text from each subagent.
    below: BTreeMap<String, String>,
}

#[derive(Debug)]
struct Call {
    id: String,
    title: String,
    /// The agents above, outermost first.
    above: Vec<String>,
    since: Instant,
    /// The last progress line of the call.
    line: String,
    stage: Stage,
}

/// The stage of a call.
#[derive(Debug, PartialEq)]
pub(crate) enum Stage {
    Runs,
    /// It waits for another call, or for something else.
    Waits(String),
    /// A person is asked whether it may run.
    Asks,
    /// It is over, and leaves these permanent rows.
    Ended(Vec<Drawn>),
}

/// The state of a running call that the session reports.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    /// The last line that it wrote.
    pub(crate) line: Option<String>,
    /// The thing that it waits for.
    pub(crate) waits: Option<String>,
    /// A person is asked about it.
    pub(crate) asks: bool,
}

impl Calls {
    /// Adds a call that begins.
    pub(crate) fn begin(&mut self, id: &str, title: String, above: &[&str], now: Instant) {
        let above = above.iter().map(|it| (*it).to_owned()).collect();
        let (id, line) = (id.to_owned(), String::new());
        self.all.push(Call { id, title, above, since: now, line, stage: Stage::Runs });
    }

    /// Records the progress line of a call.
    pub(crate) fn progress(&mut self, id: &str, line: String) {
        if let Some(it) = self.all.iter_mut().find(|it| it.id == id) {
            it.line = line;
        }
    }

    /// Subtracts the time that a question took from the run time of a call.
    pub(crate) fn asked(&mut self, id: &str, took: Duration) {
        if let Some(it) = self.all.iter_mut().find(|it| it.id == id) {
            it.since += took;
        }
    }

    /// Records the last line of text from a subagent.
    pub(crate) fn said_below(&mut self, agent: String, line: String) {
        self.below.insert(agent, line);
    }

    /// Returns the title of a call that is not over. For a call of a subagent it includes the agent's name, as the agent's
    /// heading goes when the agent ends.
    pub(crate) fn title(&self, id: &str) -> Option<String> {
        let call = self.all.iter().find(|it| it.id == id)?;
        Some(match call.above.last() {
            Some(agent) => format!("{agent}: {}", call.title),
            None => call.title.clone(),
        })
    }

    /// Ends a call; returns the rows that are permanent now, in order.
    pub(crate) fn end(&mut self, id: &str, stays: Vec<Drawn>) -> Vec<Drawn> {
        match self.all.iter_mut().find(|it| it.id == id) {
            Some(it) => it.stage = Stage::Ended(stays),
            None => return stays,
        }
        self.in_order()
    }

    /// Takes the rows of the ended calls that no running call of the same agent precedes, and of the oldest beyond `HELD`.
    fn in_order(&mut self) -> Vec<Drawn> {
        let held = self.all.iter().filter(|it| it.is_over()).count();
        let mut over = held.saturating_sub(HELD);
        let mut running: Vec<Vec<String>> = Vec::new();
        let mut drawn = Vec::new();
        let mut left = Vec::new();
        for call in std::mem::take(&mut self.all) {
            let waits = running.contains(&call.above) && over == 0;
            match call.stage {
                Stage::Ended(stays) if !waits => {
                    over = over.saturating_sub(1);
                    drawn.extend(stays);
                }
                _ => {
                    if !call.is_over() {
                        running.push(call.above.clone());
                    }
                    left.push(call);
                }
            }
        }
        self.all = left;
        if self.all.is_empty() {
            self.below.clear();
        }
        drawn
    }

    /// Ends all calls; returns their permanent rows.
    pub(crate) fn take(&mut self) -> Vec<Drawn> {
        self.below.clear();
        let ended = std::mem::take(&mut self.all).into_iter().filter_map(|it| match it.stage {
            Stage::Ended(stays) => Some(stays),
            _ => None,
        });
        ended.flatten().collect()
    }

    /// Returns the id and the title of the newest call that is not over.
    pub(crate) fn newest(&self) -> Option<(&str, &str)> {
        let call = self.all.iter().rev().find(|it| !it.is_over())?;
        Some((&call.id, &call.title))
    }

    /// Returns how many of the agent's own calls run, and how many wait.
    pub(crate) fn standing(&self) -> (usize, usize) {
        let own = || self.all.iter().filter(|it| it.above.is_empty());
        let running = own().filter(|it| it.stage == Stage::Runs).count();
        let waiting = own().filter(|it| matches!(it.stage, Stage::Waits(_) | Stage::Asks)).count();
        (running, waiting)
    }

    /// Updates each running call with the state that `seen` returns. The time of a call that waited starts when it runs.
    pub(crate) fn look(&mut self, now: Instant, seen: impl Fn(&str) -> Seen) {
        for call in self.all.iter_mut().filter(|it| !it.is_over()) {
            let Seen { line, waits, asks } = seen(&call.id);
            if let Some(line) = line {
                call.line = line;
            }
            let stage = match waits {
                _ if asks => Stage::Asks,
                Some(what) => Stage::Waits(what),
                None => Stage::Runs,
            };
            if stage == Stage::Runs && call.stage != Stage::Runs {
                call.since = now;
            }
            call.stage = stage;
        }
    }

    /// Returns the live calls in rows of `columns` columns.
    pub(crate) fn rows(&self, now: Instant, columns: usize) -> Vec<Row> {
        let mut rows = Vec::new();
        let own: Vec<&Call> = self.all.iter().filter(|it| it.above.is_empty()).collect();
        Self::some(&own, now, columns, &mut rows);
        if self.all.is_empty() {
            return rows;
        }
        let mut agents: Vec<String> = self.below.keys().cloned().collect();
        let names = self.all.iter().filter(|it| !it.above.is_empty()).map(|it| it.above.join("/"));
        agents.extend(names);
        agents.sort_unstable();
        agents.dedup();
        for agent in agents {
            let said = self.below.get(&agent).map_or("", String::as_str);
            rows.push(Row::new(harmless(format!("  {agent}: {said}").trim_end()), Style::DIM).cut(columns));
            let its: Vec<&Call> = self.all.iter().filter(|it| it.above.join("/") == agent).collect();
            Self::some(&its, now, columns, &mut rows);
        }
        rows
    }

    fn some(calls: &[&Call], now: Instant, columns: usize, rows: &mut Vec<Row>) {
        // Running calls are shown before those that wait for them to end.
        let left_out = calls.len().saturating_sub(SHOWN);
        let running = calls.iter().filter(|it| !it.is_over()).count();
        let mut over = SHOWN.saturating_sub(running);
        let mut shown = 0;
        for call in calls {
            if call.is_over() {
                if over == 0 {
                    continue;
                }
                over -= 1;
            }
            if shown < SHOWN {
                call.rows(now, columns, rows);
                shown += 1;
            }
        }
        if left_out > 0 {
            rows.push(Row::new(format!("  and {left_out} more"), Style::DIM).cut(columns));
        }
    }
}

impl Call {
    fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Ended(_))
    }

    fn rows(&self, now: Instant, columns: usize, rows: &mut Vec<Row>) {
        let indent = "  ".repeat(2 * self.above.len());
        let took = || abbreviate::took(now.saturating_duration_since(self.since));
        let (sign, style, said) = match &self.stage {
            Stage::Ended(stays) => {
                return rows.extend(stays.iter().filter_map(|it| match it {
                    Drawn::Row(row) => Some(row.clone()),
                    Drawn::Picture(_) => None,
                }));
            }
            Stage::Runs => ("•", Style::ASKS, took()),
            Stage::Asks => ("?", Style::ASKS, "waits for your answer".to_owned()),
            Stage::Waits(what) => ("◦", Style::DIM, format!("waits for `{what}`")),
        };
        rows.push(titled(&format!("{indent}{sign} "), style, &self.title, &format!("  {said}"), columns));
        if !self.line.is_empty() {
            rows.push(Row::new(harmless(&format!("{indent}    {}", self.line)), Style::DIM).cut(columns));
        }
    }
}

/// Returns the rows of an ended call.
pub(crate) fn ended(
    depth: usize,
    title: &str,
    how: &str,
    took: &str,
    telling: &str,
    columns: usize,
) -> Vec<Row> {
    let indent = "  ".repeat(depth);
    let (sign, style) = match how {
        // It is over only for the model.
        "ok" if agent::is_in_background(telling) => ("•", Style::ASKS),
        "ok" => ("✓", Style::GOOD),
        _ => ("✗", Style::BAD),
    };
    let said = if how == "ok" { took.to_owned() } else { format!("{how}, {took}") };
    let mut rows = vec![titled(&format!("{indent}{sign} "), style, title, &format!("  {said}"), columns)];
    if !telling.is_empty() {
        let row = Row::new(harmless(&format!("{indent}    {telling}")), Style::DIM);
        match how {
            "ok" => rows.push(row.cut(columns)),
            _ if columns >= NARROW => rows.push(row.cut(columns)),
            // The reason of a failure is worth more than a row.
            _ => rows.extend(in_two(&row, columns, indent.len() + 4)),
        }
    }
    rows
}

/// Returns a row on at most two lines.
fn in_two(row: &Row, columns: usize, indent: usize) -> Vec<Row> {
    let mut lines = row.wrapped(columns, indent);
    if lines.len() > 2 {
        lines.truncate(2);
        let last = lines.pop().map(|it| it.cut(columns.saturating_sub(1)).with("…", Style::DIM));
        lines.extend(last);
    }
    lines
}

/// Returns a title between a sign and its result. The result stays visible whatever the length of the title.
fn titled(sign: &str, style: Style, title: &str, said: &str, columns: usize) -> Row {
    let said = Row::new(harmless(said), Style::DIM).cut((columns / 2).max(16));
    let room = columns.saturating_sub(said.width()).max(8);
    let title = harmless(title);
    // The name of the tool stands out.
    let (tool, rest) = title.split_at(title.find(' ').unwrap_or(title.len()));
    let row = Row::new(sign, style).with(tool, Style::BOLD).with(rest, Style::PLAIN).cut(room);
    row.and(said).cut(columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stays(text: &str) -> Vec<Drawn> {
        vec![Drawn::Row(Row::new(text, Style::PLAIN))]
    }

    fn text(drawn: &[Drawn]) -> Vec<String> {
        let row = |it: &Drawn| if let Drawn::Row(row) = it { row.text() } else { "picture".to_owned() };
        drawn.iter().map(row).collect()
    }

    #[test]
    fn calls_stay_in_the_order_in_which_they_were_made() {
        let now = Instant::now();
        let mut calls = Calls::default();
        for id in ["a", "b", "c"] {
            calls.begin(id, format!("shell {id}"), &[], now);
        }
        calls.begin("x", "grep x".to_owned(), &["explore_1"], now);
        assert_eq!(text(&calls.end("c", stays("c is over"))), [""; 0]);
        assert_eq!(text(&calls.end("x", stays("x is over"))), ["x is over"], "it has an order of its own");
        assert_eq!(text(&calls.end("a", stays("a is over"))), ["a is over"]);
        let live: Vec<String> = calls.rows(now, 40).iter().map(Row::text).collect();
        assert_eq!(live, ["• shell b  0.0 s", "c is over"]);
        assert_eq!(text(&calls.end("b", stays("b is over"))), ["b is over", "c is over"]);
        assert!(calls.newest().is_none() && calls.rows(now, 40).is_empty());
    }

    #[test]
    fn a_call_that_waits_says_for_what_and_its_time_begins_when_it_runs() {
        let began = Instant::now();
        let mut calls = Calls::default();
        calls.begin("a", "shell make test".to_owned(), &[], began);
        calls.begin("b", "shell curl example.org".to_owned(), &[], began);
        let second = |it: u64| began + Duration::from_secs(it);
        let seen = |calls: &Calls, at: u64| -> Vec<String> {
            calls.rows(second(at), 60).iter().map(Row::text).collect()
        };
        calls.look(second(1), |id| match id {
            "a" => Seen { waits: Some("edit a.py".to_owned()), ..Seen::default() },
            _ => Seen { asks: true, ..Seen::default() },
        });
        assert_eq!(
            seen(&calls, 2),
            ["◦ shell make test  waits for `edit a.py`", "? shell curl example.org  waits for your answer"]
        );
        assert_eq!(calls.standing(), (0, 2));
        calls.look(second(5), |_| Seen { line: Some("compiling".to_owned()), ..Seen::default() });
        assert_eq!(seen(&calls, 7).first().map(String::as_str), Some("• shell make test  2.0 s"));
        assert_eq!(seen(&calls, 7).get(1).map(String::as_str), Some("    compiling"));
        assert_eq!(calls.standing(), (2, 0));
    }

    #[test]
    fn the_reason_of_a_failure_takes_two_rows_on_a_narrow_terminal() {
        let rows = |columns, why: &str| -> Vec<String> {
            ended(0, "edit a", "error", "0.0 s", why, columns).iter().skip(1).map(Row::text).collect()
        };
        let why = "`old` is not in the file; line 1 is the nearest";
        assert_eq!(rows(40, why), ["    `old` is not in the file; line 1 is", "    the nearest"]);
        assert_eq!(rows(60, why).len(), 1);
        let long = rows(30, &why.repeat(3));
        assert!(long.len() == 2 && long.last().is_some_and(|it| it.ends_with('…')), "{long:?}");
        assert!(long.iter().all(|it| it.chars().count() <= 30), "{long:?}");
    }

    #[test]
    fn many_calls_are_counted_and_agents_below_have_their_own_place() {
        let now = Instant::now();
        let mut calls = Calls::default();
        for at in 0..9 {
            calls.begin(&format!("c{at}"), format!("read {at}"), &[], now);
        }
        calls.begin("x", "grep x".to_owned(), &["explore_1"], now);
        calls.begin("y", "grep y".to_owned(), &["explore_2"], now);
        calls.said_below("explore_1".to_owned(), "looking".to_owned());
        let rows: Vec<String> = calls.rows(now, 40).iter().map(Row::text).collect();
        assert_eq!(rows.get(SHOWN).map(String::as_str), Some("  and 3 more"));
        let below = ["  explore_1: looking", "    • grep x  0.0 s", "  explore_2:", "    • grep y  0.0 s"];
        assert_eq!(rows.get(SHOWN + 1..), Some(below.map(str::to_owned).as_slice()));
        assert_eq!(calls.title("x").as_deref(), Some("explore_1: grep x"));
        assert_eq!(calls.title("c1").as_deref(), Some("read 1"));
    }
}
