//! `interact`: types to a program in a terminal, and shows its screen.

use std::{sync::Arc, time::Duration};

use grep_matcher::Matcher as _;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use kit::{
    prelude::*,
    procs::{Ending, Exit, Process, Screen, Stdin, Streams, keys},
    services::Live,
};
use serde_json::Value;
use tokio::time::{Instant, sleep_until};

use super::{answer, start::CommandLine};

/// The default size of a terminal.
const ROWS: u16 = 24;
const COLS: u16 = 80;

/// Time for which a screen must be unchanged before it is shown, and time that it may stay as it was at first.
const QUIET: Duration = Duration::from_millis(300);
const FIRST: Duration = Duration::from_secs(3);

/// Default time to wait for a screen, without and with a pattern.
const WAIT: Duration = Duration::from_secs(10);
const WAIT_UNTIL: Duration = Duration::from_secs(30);
const LONGEST: Duration = Duration::from_secs(600);

/// Time for a program to end by itself when it is stopped.
const GRACE: Duration = Duration::from_millis(100);

/// Bytes that are drawn at once.
const PIECE: usize = 64 << 10;

/// Extra time that the runtime allows beyond that.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Run a program that wants a terminal (a REPL, an editor, an installer that asks) and see its screen as text. Type with
/// `continue_job`: `input` is a plain line, {text} or {keys: ["ls", "Enter", "C-c"]} as in tmux; both objects also take
/// until, wait_ms.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Interact {
    /// Command that starts it.
    command: String,
    /// Default: 24.
    #[serde(default)]
    rows: Option<u64>,
    /// Default: 80.
    #[serde(default)]
    cols: Option<u64>,
    /// Regex to wait for on the screen. Default: until it stops changing.
    #[serde(default)]
    until: Option<String>,
    /// Maximum wait. Default: 30000.
    #[serde(default)]
    wait_ms: Option<u64>,
}

/// The input that `continue_job` brings.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    #[serde(default)]
    keys: Vec<String>,
    #[serde(default)]
    text: String,
    #[serde(default)]
    until: Option<String>,
    #[serde(default)]
    wait_ms: Option<u64>,
}

impl Tool for Interact {
    const NAME: &str = "interact";
    const MODE: Mode = Mode::Stateful;
    const AT_MOST: Kinds = Kinds::RUN.with(Kinds::EXCLUSIVE);

    fn touches(&self) -> Touches {
        Touches::run(&self.command).and(Touch::Exclusive)
    }

    fn time_limit(&self) -> Option<Duration> {
        Some(limit(self.until.as_deref(), self.wait_ms) + LAST_WORDS)
    }

    fn title(&self) -> String {
        super::title(&self.command)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let mut goal = Goal::new(self.until.as_deref(), self.wait_ms)?;
        let (rows, cols) = Screen::size(size(self.rows, ROWS), size(self.cols, COLS));
        let process = CommandLine {
            command: &self.command,
            dir: "",
            stdin: Stdin::Pipe,
            streams: Streams::Terminal { rows, cols },
            env: &[("TERM", "xterm-256color")],
            shell: None,
        }
        .start(cx)
        .await?;
        let mut program = OnScreen { process: Arc::new(process), screen: Screen::new(rows, cols), drawn: 0 };
        cx.caller().show(Live {
            output: Some(program.process.output().clone()),
            process: Some(program.process.clone()),
            ..Live::default()
        });
        goal.still = FIRST;
        loop {
            let seen = tokio::select! {
                biased;
                () = cx.cancelled() => return Err(program.stopped(cx).await),
                seen = program.watch(&goal) => seen,
            };
            let shown = match seen {
                Seen::Ended(exit) => return Ok(program.over(exit, cx)),
                other => program.shown(&other, cx),
            };
            let input = tokio::select! {
                biased;
                input = cx.yield_output(Output::text(shown)) => match input {
                    Ok(input) => input,
                    Err(fault) => return Err(Fault { kind: fault.kind, ..program.stopped(cx).await }),
                },
                // Its screen is drawn even if nobody watches, and its end is the end of the job.
                exit = program.idle() => return Ok(program.over(exit, cx)),
            };
            goal = match program.take(input).await {
                Ok(goal) => goal,
                // Wrong input must not end the program.
                Err(fault) => Goal { complaint: Some(fault.as_text()), ..Goal::default() },
            };
        }
    }
}

fn size(asked: Option<u64>, usual: u16) -> u16 {
    asked.map_or(usual, |it| u16::try_from(it).unwrap_or(u16::MAX))
}

/// Returns the time limit of waiting for the screen.
fn limit(until: Option<&str>, wait_ms: Option<u64>) -> Duration {
    let usual = if until.is_some() { WAIT_UNTIL } else { WAIT };
    wait_ms.map_or(usual, Duration::from_millis).min(LONGEST)
}

/// The condition to wait for.
struct Goal {
    until: Option<RegexMatcher>,
    wait: Duration,
    /// Time that the screen may stay as it was.
    still: Duration,
    /// Bytes that had been written when something was typed: earlier text is not an answer to it.
    typed_at: Option<u64>,
    /// The error in the input.
    complaint: Option<String>,
}

impl Default for Goal {
    fn default() -> Self {
        Self { until: None, wait: WAIT, still: QUIET, typed_at: None, complaint: None }
    }
}

impl Goal {
    fn new(until: Option<&str>, wait_ms: Option<u64>) -> Result<Self, Fault> {
        let build = |pattern: &str| {
            RegexMatcherBuilder::new().multi_line(true).build(pattern).map_err(|error| {
                Fault::bad_args(format!("`until` is not a regular expression: {error}"))
                    .next("Rust's syntax; escape `(`, `[`, `$`, `.` that are meant as they are.")
            })
        };
        let wait = limit(until, wait_ms);
        Ok(Self { until: until.map(build).transpose()?, wait, ..Self::default() })
    }
}

/// The reason why a screen is shown.
enum Seen {
    /// The condition is met, or the screen is unchanged.
    Met,
    /// The time is up.
    Late,
    /// The input was wrong.
    Refused(String),
    /// The program has ended.
    Ended(Exit),
}

/// A program in a terminal, and its screen.
struct OnScreen {
    process: Arc<Process>,
    screen: Screen,
    /// Bytes of the recording that were drawn.
    drawn: u64,
}

impl OnScreen {
    /// Draws new output, and answers terminal queries of the program.
    async fn draw(&mut self) {
        let output = self.process.output().clone();
        loop {
            let (at, bytes) = output.raw(self.drawn, PIECE);
            if bytes.is_empty() {
                return;
            }
            self.drawn = at + bytes.len() as u64;
            let answers = self.screen.draw(&bytes);
            if !answers.is_empty() {
                let _ = self.process.write(&answers).await;
            }
        }
    }

    /// Waits for the condition.
    async fn watch(&mut self, goal: &Goal) -> Seen {
        if let Some(complaint) = &goal.complaint {
            self.draw().await;
            return Seen::Refused(complaint.clone());
        }
        let end = Instant::now() + goal.wait;
        let mut still = Instant::now() + goal.still;
        let output = self.process.output().clone();
        loop {
            self.draw().await;
            let is_new = goal.typed_at.is_none_or(|it| self.drawn > it);
            if is_new && self.shows(goal) {
                return Seen::Met;
            }
            let quiet = if goal.until.is_some() { end } else { still.min(end) };
            let process = self.process.clone();
            tokio::select! {
                biased;
                more = output.grown(self.drawn) => {
                    still = Instant::now() + QUIET;
                    if !more {
                        return Seen::Ended(process.exited().await);
                    }
                }
                exit = process.finished(GRACE) => {
                    self.draw().await;
                    return Seen::Ended(exit);
                }
                () = sleep_until(quiet) => {
                    let met = if goal.until.is_some() { self.shows(goal) } else { quiet < end };
                    return if met { Seen::Met } else { Seen::Late };
                }
            }
        }
    }

    /// Returns whether the screen matches the condition.
    fn shows(&self, goal: &Goal) -> bool {
        let Some(until) = &goal.until else { return false };
        let shows = |text: String| until.is_match(text.as_bytes()).unwrap_or(false);
        shows(self.screen.text()) || shows(self.screen.before_cursor())
    }

    /// Draws until the program has ended.
    async fn idle(&mut self) -> Exit {
        let output = self.process.output().clone();
        let process = self.process.clone();
        loop {
            self.draw().await;
            tokio::select! {
                biased;
                true = output.grown(self.drawn) => {}
                exit = process.finished(GRACE) => {
                    self.draw().await;
                    return exit;
                }
            }
        }
    }

    /// Types the input.
    async fn take(&mut self, input: Value) -> Result<Goal, Fault> {
        let input = match input {
            Value::String(text) => {
                Input { keys: vec!["Enter".to_owned()], text, until: None, wait_ms: None }
            }
            Value::Null => Input::default(),
            other => serde_json::from_value(other).map_err(|error| {
                Fault::bad_args(format!("the input was not typed: {error}"))
                    .next("It looks like {\"keys\": [\"ls\", \"Enter\"], \"until\": \"\\\\$ $\"} or {\"text\": \"as it is\"}.")
            })?,
        };
        let mut goal = Goal::new(input.until.as_deref(), input.wait_ms)?;
        let cursor = self.screen.cursor_keys();
        let mut typed = input.text.into_bytes();
        for key in &input.keys {
            typed.extend(keys::typed(key, cursor));
        }
        if !typed.is_empty() {
            goal.typed_at = Some(self.process.output().total());
            self.process.write(&typed).await?;
        }
        Ok(goal)
    }

    /// Returns the screen's text with secrets masked: a terminal wraps lines, so a later search would miss a
    /// wrapped secret.
    fn text(&self, cx: &Cx) -> String {
        self.screen.text_hiding(&|text| cx.services().mask.find(text))
    }

    fn shown(&self, seen: &Seen, cx: &Cx) -> String {
        let mut notes = Vec::new();
        if self.screen.is_full()
            && let Some((row, col)) = self.screen.cursor()
        {
            notes.push(format!("[cursor: row {row}, column {col}]"));
        }
        match seen {
            Seen::Late => notes.push("[the time is up and what was waited for is not there]".to_owned()),
            Seen::Refused(complaint) => notes.push(format!("[{complaint}]")),
            Seen::Met | Seen::Ended(_) => {}
        }
        let text = self.text(cx);
        let text = if text.trim().is_empty() { "(an empty screen)" } else { &text };
        answer::with(text, &notes)
    }

    fn over(&self, exit: Exit, cx: &Cx) -> Output {
        let mut notes = vec![match exit {
            Exit::Code(0) => "[it has ended]".to_owned(),
            other => answer::ended(other),
        }];
        let text = self.text(cx);
        notes.extend(cx.denials(exit, &text));
        Output { exit: Some(exit.code()), ..Output::text(answer::with(&text, &notes)) }
    }

    async fn stopped(&mut self, cx: &Cx) -> Fault {
        self.draw().await;
        self.process.end(Ending::within(GRACE)).await;
        let seen = Output::text(answer::with(&self.text(cx), &[]));
        Fault::new(Kind::Cancelled, "the program was ended").seen(seen)
    }
}
