//! Activity indicator: one animated line that shows what haft waits for, for how long, and how to stop it.
//!
//! It is shown during all work: before the first token, while text streams, when a stream stalls, while calls run or wait,
//! and before a retry.

use std::time::{Duration, Instant};

use agent::Event;

use super::{
    abbreviate,
    row::{Row, Style, Tint, harmless},
};

/// The frames of the spinner.
const SPINS: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/// How long each frame is shown, in milliseconds.
const SPIN: u128 = 100;

/// A stream has stalled after this time without a byte.
const STALLED: Duration = Duration::from_secs(5);

/// After this time without a first token, the line also shows the time limit.
const LONG: Duration = Duration::from_secs(20);

/// Approximate number of bytes per token.
const RATE: u64 = 4;

/// The current work, and when it started.
#[derive(Debug, Default)]
pub(crate) struct Life {
    now: Option<Now>,
    /// The number of answer tokens counted in this turn.
    counted: u64,
    /// The request is given up after this time without a byte.
    limit: Option<Duration>,
}

#[derive(Debug)]
struct Now {
    what: What,
    /// The start of the time that the line shows.
    since: Instant,
    /// When the last event arrived.
    heard: Instant,
    /// The bytes received of this answer, without the call that is being written.
    bytes: usize,
    began: Instant,
}

#[derive(Debug, PartialEq)]
enum What {
    /// Work of unknown kind: disk access, or a command that the person ran.
    Works,
    /// The request was sent and the model has not answered yet.
    Asked,
    Thinks,
    Writes,
    /// The model writes a call of this tool, with so many bytes so far.
    WritesCall(String, usize),
    /// Calls are running.
    Calls,
    /// haft sends the request again at this time.
    Retries(Instant),
}

/// The number of calls in each state.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CallCounts {
    pub(crate) running: usize,
    pub(crate) waiting: usize,
}

impl Life {
    /// Starts the indicator. `limit`: a request is given up after this time without a byte.
    pub(crate) fn begin(&mut self, now: Instant, limit: Option<Duration>) {
        let works = Now { what: What::Works, since: now, heard: now, bytes: 0, began: now };
        *self = Self { now: Some(works), counted: 0, limit };
    }

    /// Applies an event of the agent itself.
    pub(crate) fn observe(&mut self, event: &Event, at: Instant) {
        let Some(now) = &mut self.now else { return };
        match event {
            Event::Asked { .. } => {
                now.bytes = 0;
                now.turn(What::Asked, at);
                now.since = at;
            }
            Event::Text { text } => {
                now.bytes += text.len();
                now.turn(What::Writes, at);
            }
            Event::Reasoning { text } => {
                now.bytes += text.len();
                now.turn(What::Thinks, at);
            }
            Event::Writing { tool, bytes, .. } => now.turn(What::WritesCall(tool.clone(), *bytes), at),
            Event::Called { arguments, .. } => {
                now.bytes += arguments.to_string().len();
                now.turn(What::Calls, at);
                now.since = at;
            }
            Event::Again { seconds, .. } => {
                let wait = Duration::try_from_secs_f32(*seconds).unwrap_or_default();
                now.bytes = 0;
                now.turn(What::Retries(at + wait), at);
                now.since = at;
            }
            Event::Used { usage, .. } => {
                self.counted = self.counted.saturating_add(usage.output);
                now.bytes = 0;
                now.turn(What::Works, at);
                now.since = at;
            }
            _ => {}
        }
    }

    /// Returns the line in `columns` columns, or `None` while nothing is in progress.
    pub(crate) fn row(&self, at: Instant, calls: CallCounts, columns: usize) -> Option<Row> {
        let now = self.now.as_ref()?;
        let silent = at.saturating_duration_since(now.heard);
        let took = at.saturating_duration_since(now.since);
        let is_stream = matches!(now.what, What::Thinks | What::Writes | What::WritesCall(..));
        let is_stalled = is_stream && silent >= STALLED;
        let what = match &now.what {
            _ if is_stalled => format!("no answer for {}", abbreviate::clock(silent)),
            What::Works | What::Calls if calls.running + calls.waiting > 0 => calls.told(),
            What::Works => "working".to_owned(),
            What::Asked | What::Calls => "waiting for the model".to_owned(),
            What::Thinks => "thinking".to_owned(),
            What::Writes => "writing".to_owned(),
            What::WritesCall(tool, bytes) => format!("writing a call: {tool}, {}", abbreviate::size(*bytes)),
            What::Retries(until) => match until.checked_duration_since(at) {
                Some(left) if !left.is_zero() => format!("retrying in {} s", left.as_secs() + 1),
                _ => "retrying".to_owned(),
            },
        };
        let waits = is_stalled || now.what == What::Asked && took >= LONG;
        let limit = self.limit.filter(|_| waits).map(|it| format!("gives up after {} s", it.as_secs()));
        let time = (!is_stalled && !matches!(now.what, What::Retries(_))).then(|| abbreviate::clock(took));
        let tokens = self.tokens(now).map(|it| format!("~{} tokens", abbreviate::tokens(it)));
        let spin = spin(at.saturating_duration_since(now.began));
        let style = if is_stalled { Style::ASKS } else { Style::DIM };
        let first =
            Row::new(format!("{spin} "), if is_stalled { style } else { Style::tinted(Tint::Number) });
        // Parts that don't fit are left out, the least important first.
        let stop = Some("Esc to stop".to_owned());
        let all: [&[&Option<String>]; 4] =
            [&[&time, &tokens, &limit, &stop], &[&time, &limit, &stop], &[&time, &stop], &[&time]];
        let line = |parts: &[&Option<String>]| {
            let more = parts.iter().filter_map(|it| it.as_deref());
            let text: Vec<&str> = std::iter::once(what.as_str()).chain(more).collect();
            first.clone().with(harmless(&text.join(" · ")), style)
        };
        let fitting = all.iter().map(|it| line(it)).find(|it| it.width() <= columns);
        Some(fitting.unwrap_or_else(|| line(&[]).cut(columns)))
    }

    /// Returns the approximate number of answer tokens in this turn so far, or `None` if there are none.
    fn tokens(&self, now: &Now) -> Option<u64> {
        let call = if let What::WritesCall(_, bytes) = now.what { bytes } else { 0 };
        let tokens = self.counted + (now.bytes + call) as u64 / RATE;
        (tokens > 0).then_some(tokens)
    }
}

/// Returns the line that is shown while a question waits for its answer, `since` then.
pub(crate) fn asked(at: Instant, since: Instant, columns: usize) -> Row {
    let took = at.saturating_duration_since(since);
    let spin = spin(took);
    Row::new(format!("{spin} waiting for your answer · {}", abbreviate::clock(took)), Style::DIM).cut(columns)
}

/// Returns the frame of the spinner after this time.
fn spin(took: Duration) -> &'static str {
    let frame = took.as_millis() / SPIN;
    SPINS.get((frame % SPINS.len() as u128) as usize).copied().unwrap_or("*")
}

impl Now {
    fn turn(&mut self, what: What, at: Instant) {
        self.what = what;
        self.heard = at;
    }
}

impl CallCounts {
    fn told(self) -> String {
        let calls = |count: usize| if count == 1 { "1 call".to_owned() } else { format!("{count} calls") };
        match (self.running, self.waiting) {
            (running, 0) => format!("running {}", calls(running)),
            (0, waiting) => format!("{} waiting", calls(waiting)),
            (running, waiting) => format!("running {}, {waiting} waiting", calls(running)),
        }
    }
}

#[cfg(test)]
mod tests {
    use agent::model::Usage;
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    #[test]
    fn whatever_is_waited_for_there_is_a_line_that_moves_and_says_so() {
        let began = Instant::now();
        let text = |text: &str| Event::Text { text: text.to_owned() };
        let usage = Usage { output: 1200, ..Usage::default() };
        let called =
            Event::Called { call: "c".into(), tool: "shell".into(), arguments: json!({"command": "make"}) };
        let again = Event::Again { why: "busy".to_owned(), seconds: 3.0 };
        let steps: [(&str, Option<Event>, u64, CallCounts); 12] = [
            ("begins", None, 0, CallCounts::default()),
            ("asked", Some(Event::Asked { step: 1 }), 2, CallCounts::default()),
            ("long", None, 30, CallCounts::default()),
            ("thinks", Some(Event::Reasoning { text: "x".repeat(400) }), 1, CallCounts::default()),
            ("writes", Some(text(&"x".repeat(400))), 0, CallCounts::default()),
            ("stalls", None, 12, CallCounts::default()),
            (
                "a call",
                Some(Event::Writing { index: 0, call: "c_1".into(), tool: "write".into(), bytes: 12_345 }),
                0,
                CallCounts::default(),
            ),
            ("calls", Some(called), 3, CallCounts { running: 2, waiting: 0 }),
            ("one waits", None, 3, CallCounts { running: 1, waiting: 1 }),
            ("used", Some(Event::Used { usage, cost: None }), 0, CallCounts::default()),
            ("retry", Some(again), 1, CallCounts::default()),
            ("now", None, 3, CallCounts::default()),
        ];
        let mut life = Life::default();
        assert!(life.row(began, CallCounts::default(), 80).is_none());
        life.begin(began, Some(Duration::from_secs(300)));
        let mut at = began;
        let mut seen = String::new();
        let mut spins = std::collections::BTreeSet::new();
        for (name, event, seconds, calls) in steps {
            if let Some(event) = event {
                life.observe(&event, at);
            }
            at += Duration::from_secs(seconds) + Duration::from_millis(100);
            let row = life.row(at, calls, 80).unwrap_or_default().text();
            spins.extend(row.chars().next());
            for columns in [10, 24, 40] {
                assert!(
                    life.row(at, calls, columns).is_some_and(|it| it.width() <= columns),
                    "{name} {columns}"
                );
            }
            let rest: String = row.chars().skip(2).collect();
            seen.push_str(&format!("{name}: {rest}\n"));
        }
        assert!(spins.len() > 5, "it moves: {spins:?}");
        expect![[r#"
            begins: working · 0 s · Esc to stop
            asked: waiting for the model · 2 s · Esc to stop
            long: waiting for the model · 32 s · gives up after 300 s · Esc to stop
            thinks: thinking · 33 s · ~100 tokens · Esc to stop
            writes: writing · 33 s · ~200 tokens · Esc to stop
            stalls: no answer for 12 s · ~200 tokens · gives up after 300 s · Esc to stop
            a call: writing a call: write, 12.3 kB · 45 s · ~3.3k tokens · Esc to stop
            calls: running 2 calls · 3 s · ~204 tokens · Esc to stop
            one waits: running 1 call, 1 waiting · 6 s · ~204 tokens · Esc to stop
            used: working · 0 s · ~1.2k tokens · Esc to stop
            retry: retrying in 2 s · ~1.2k tokens · Esc to stop
            now: retrying · ~1.2k tokens · Esc to stop
        "#]]
        .assert_eq(&seen);
        assert_eq!(
            life.row(at, CallCounts::default(), 24).map(|it| it.text().chars().skip(2).collect()),
            Some("retrying · Esc to stop".to_owned())
        );
    }
}
