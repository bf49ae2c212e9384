//! Results of `haft run --tasks`: a row per task, for a person and as JSON.

use std::time::Duration;

use serde_json::{Value, json};

use super::{super::on::with_landed, landings::Landing};
use crate::{
    remote::{Landed, SessionResult},
    terminal::abbreviate,
    verbs::workers,
};

/// Maximum length of an answer in the table, in letters.
const ANSWER: usize = 60;

/// How a task ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    Done,
    /// A limit was reached, or the provider refused to go on.
    Stopped,
    Failed,
    Interrupted,
    Cancelled,
}

/// The result of one task.
pub(super) struct Row {
    pub(super) number: usize,
    pub(super) id: String,
    pub(super) how: How,
    pub(super) result: Option<SessionResult>,
    pub(super) error: Option<String>,
    pub(super) landed: Vec<Landed>,
    /// The number of files that it changed, where they did not land now.
    pub(super) changed: usize,
    /// The last time that they landed, where they did not land now.
    pub(super) landed_before: Option<Landing>,
    pub(super) retries: u32,
    pub(super) attempt: u32,
    /// It had ended before this command began.
    pub(super) is_old: bool,
}

impl How {
    /// Returns how the session of this result ended.
    pub(super) fn of_result(result: &Value) -> Self {
        match result.get("ended").and_then(|it| it.get("ended")).and_then(Value::as_str) {
            Some("done") => Self::Done,
            Some("limit" | "refused" | "cancelled") => Self::Stopped,
            _ => Self::Failed,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
            Self::Cancelled => "cancelled",
        }
    }
}

impl Row {
    /// Returns one line about the result.
    pub(super) fn line(&self) -> String {
        let before = if self.is_old { " (before)" } else { "" };
        let on =
            self.result.as_ref().map_or_else(String::new, |it| format!(" on {}, {}", it.worker, took(it.ms)));
        let why = self.why().map_or_else(String::new, |it| format!(": {it}"));
        format!("{}: {}{before}{on}{why}", self.id, self.how.name())
    }

    /// Returns the number of files that were refused.
    pub(super) fn refused(&self) -> usize {
        self.landed.iter().filter(|it| it.refused.is_some()).count()
    }

    fn why(&self) -> Option<String> {
        let of_result = || {
            let error = self.result.as_ref()?.ended.get("error")?;
            error.get("what").and_then(Value::as_str).map(str::to_owned)
        };
        let why = self.error.clone().or_else(of_result)?;
        Some(abbreviate::line(&why, 160))
    }

    fn field(&self, name: &str) -> Option<&Value> {
        self.result.as_ref()?.ended.get(name)
    }

    /// Returns the whole result.
    pub(super) fn as_json(&self) -> Value {
        let mut all = json!({"event": "task", "task": self.number, "id": self.id, "how": self.how.name()});
        let ended = match &self.result {
            Some(result) => with_landed(result, &self.landed, self.retries),
            None => json!({"error": self.error.as_ref().map(|it| json!({"what": it}))}),
        };
        if let (Value::Object(all), Value::Object(mut ended)) = (&mut all, ended) {
            ended.remove("event");
            all.extend(ended);
            all.insert("attempt".to_owned(), json!(self.attempt));
            all.insert("before".to_owned(), json!(self.is_old));
            if self.landed.is_empty() {
                all.insert("changed".to_owned(), json!(self.changed));
                let before = self.landed_before.as_ref();
                let before = before
                    .map(|it| json!({"landed": it.landed, "refused": it.refused, "undone": it.is_undone}));
                all.insert("landed_before".to_owned(), json!(before));
            }
        }
        all
    }
}

/// Returns the table of results.
pub(super) fn table(rows: &[Row]) -> String {
    let head = ["task", "result", "steps", "cost", "time", "files", "worker", "answer"].map(str::to_owned);
    let of_row = |it: &Row| {
        let text = it.field("text").and_then(Value::as_str).unwrap_or_default();
        let answer = it.why().unwrap_or_else(|| text.to_owned());
        let (landed, refused) = match &it.landed_before {
            Some(before) => (before.landed, before.refused),
            None => (it.landed.len() - it.refused(), it.refused()),
        };
        let is_undone = it.landed_before.as_ref().is_some_and(|it| it.is_undone);
        let files = match (landed, refused) {
            (landed, _) if is_undone && landed > 0 => format!("{landed} undone"),
            (0, 0) if it.changed > 0 => format!("{} not landed", it.changed),
            (0, 0) => String::new(),
            (landed, 0) => format!("{landed} landed"),
            (landed, refused) => format!("{landed} landed, {refused} refused"),
        };
        let number =
            |name: &str| it.field(name).and_then(Value::as_u64).map_or_else(String::new, |it| it.to_string());
        let cost =
            it.field("cost").and_then(Value::as_f64).map_or_else(String::new, |it| format!("${it:.4}"));
        let (time, worker) =
            it.result.as_ref().map_or_else(Default::default, |it| (took(it.ms), it.worker.clone()));
        [
            abbreviate::line(&it.id, 40),
            it.how.name().to_owned(),
            number("steps"),
            cost,
            time,
            files,
            worker,
            abbreviate::line(&answer, ANSWER),
        ]
    };
    let rows: Vec<_> = std::iter::once(head).chain(rows.iter().map(of_row)).collect();
    workers::table(&rows)
}

/// Returns the last line of JSON.
pub(super) fn summary(rows: &[Row], all: usize, took: Duration) -> Value {
    let count = |how: How| rows.iter().filter(|it| it.how == how).count();
    json!({
        "event": "ended",
        "tasks": all,
        "done": count(How::Done),
        "stopped": count(How::Stopped),
        "failed": count(How::Failed),
        "interrupted": count(How::Interrupted),
        "cancelled": count(How::Cancelled),
        "seconds": took.as_secs_f64(),
    })
}

fn took(ms: u64) -> String {
    format!("{:.1} s", Duration::from_millis(ms).as_secs_f64())
}
