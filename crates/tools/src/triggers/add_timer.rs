//! `add_timer`: begins a turn every so many seconds.

use kit::prelude::*;
use serde::Serialize;

use super::{MAKES, Missed, add, touches};

/// Begin a turn of yours every `interval` seconds. After a restart it goes on, and does not fire at once.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AddTimer {
    /// Seconds between two fires, above 0.
    interval: f64,
    /// Message that begins the turn.
    prompt: String,
    /// Also fire now.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    immediate: bool,
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

impl Tool for AddTimer {
    const NAME: &str = "add_timer";
    const AT_MOST: Kinds = MAKES;

    fn touches(&self) -> Touches {
        touches(Self::NAME, self)
    }

    fn title(&self) -> String {
        format!("every {} s", self.interval)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        add(Self::NAME, &self, cx).await
    }
}
