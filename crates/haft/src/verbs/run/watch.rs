//! Output of `haft run`: lines for a person, lines of JSON for a program, or the view of the chat.

use std::time::Instant;

use agent::{Event, Observer};
use parking_lot::Mutex;
use serde_json::Value;

use super::json::{Denials, Denied, Rate};
use crate::{
    print::line_of_json,
    terminal::{
        chat::Passes,
        plain::{Out, Plain},
    },
};

/// Passes events on, and records the denied calls.
pub(super) struct Watch {
    to: To,
    denials: Mutex<Denials>,
}

/// The destination of events.
pub(super) enum To {
    Lines(Plain),
    Json(Out, Mutex<Rate>),
    View(Passes),
}

impl Watch {
    pub(super) fn new(to: To) -> Self {
        Self { to, denials: Mutex::default() }
    }

    /// Writes a line that is not one of the agent's events, if a program reads the output.
    pub(super) fn line(&self, value: &Value) {
        if let To::Json(out, _) = &self.to {
            out.write(&(line_of_json(value) + "\n"));
        }
    }

    /// Ends the output.
    pub(super) fn end(&self) {
        if let To::Lines(plain) = &self.to {
            plain.end();
        }
    }

    /// Returns whether events go to a program as JSON.
    pub(super) fn is_json(&self) -> bool {
        matches!(self.to, To::Json(..))
    }

    /// Returns whether events go to the view of a terminal.
    pub(super) fn is_drawn(&self) -> bool {
        matches!(self.to, To::View(_))
    }

    /// Returns the calls that were denied so far.
    pub(super) fn denied(&self) -> Vec<Denied> {
        self.denials.lock().all().to_vec()
    }
}

impl Observer for Watch {
    fn hear(&self, event: Event) {
        self.denials.lock().hear(&event);
        match &self.to {
            To::Lines(plain) => plain.hear(event),
            To::Json(out, rate) => {
                if rate.lock().lets(&event, Instant::now()) {
                    out.write(&(line_of_json(&event) + "\n"));
                }
            }
            To::View(passes) => passes.hear(event),
        }
    }
}
