//! `add_schedule`: begins a turn at times by the clock.

use kit::prelude::*;
use serde::Serialize;

use super::{MAKES, Missed, add, touches};

/// Begin a turn of yours at times by the clock. Give exactly one of `every_minutes`, `daily_at`, `hourly_at`, `cron`, `once`.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AddSchedule {
    /// Message that begins the turn.
    prompt: String,
    /// 1 to 1440, counted from midnight.
    #[serde(skip_serializing_if = "Option::is_none")]
    every_minutes: Option<i64>,
    /// Each day at `HH:MM`.
    #[serde(skip_serializing_if = "Option::is_none")]
    daily_at: Option<String>,
    /// Each hour at this minute, 0 to 59.
    #[serde(skip_serializing_if = "Option::is_none")]
    hourly_at: Option<i64>,
    /// Cron expression: minute hour day month weekday.
    #[serde(skip_serializing_if = "Option::is_none")]
    cron: Option<String>,
    /// One time: `2026-12-01T09:00`.
    #[serde(skip_serializing_if = "Option::is_none")]
    once: Option<String>,
    /// IANA time zone; default: the machine's.
    #[serde(skip_serializing_if = "Option::is_none")]
    zone: Option<String>,
    /// Its id; default: a new one.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// Grants of its turns: `run cargo test`, `net HOST`, `write PATH`. Nobody is asked then; anything else that needs approval fails.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    grants: Vec<String>,
    /// Maximum fires a day.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_per_day: Option<u64>,
    /// Fires that were due while haft did not run: `skip` them, fire `once` for all, or `ask` the person.
    #[serde(skip_serializing_if = "Option::is_none")]
    missed: Option<Missed>,
}

impl Tool for AddSchedule {
    const NAME: &str = "add_schedule";
    const AT_MOST: Kinds = MAKES;

    fn touches(&self) -> Touches {
        touches(Self::NAME, self)
    }

    fn title(&self) -> String {
        let of_day = self.daily_at.iter().chain(&self.cron).chain(&self.once).next().cloned();
        of_day.or_else(|| self.every_minutes.or(self.hourly_at).map(|it| it.to_string())).unwrap_or_default()
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        add(Self::NAME, &self, cx).await
    }
}
