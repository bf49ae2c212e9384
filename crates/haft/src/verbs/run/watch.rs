//! Output of `haft run`: lines for a person, lines of JSON for a program, or the view of the chat.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Instant,
};

use agent::{Event, Observer};
use kit::{Fault, services::Question};
use parking_lot::Mutex;
use runtime::Verdict;
use serde_json::Value;
use sessions::{Event as SessionEvent, Job};

use super::json::{Denials, Denied, Rate};
use crate::{
    ask::{self, AboutCall},
    print::{self, line_of_json},
    session_service::{
        Reply, Viewer,
        terminals::{approve_in_lines, ask_in_lines, settled_in_lines},
    },
    terminal::{
        abbreviate,
        chat::{Passes, seen::Seen},
        plain::{Out, Plain},
        row::Style,
    },
};

/// Maximum length of the line about a message of another person, in letters.
const ASKS: usize = 200;

/// Passes events on, and records the denied calls.
pub(super) struct Watch {
    to: To,
    denials: Mutex<Denials>,
    /// The task is done: what happens now was asked for by others.
    is_of_others: AtomicBool,
}

/// The destination of events.
pub(super) enum To {
    Lines(Plain),
    Json(Out, Mutex<Rate>),
    View(Passes),
}

impl Watch {
    pub(super) fn new(to: To) -> Self {
        Self { to, denials: Mutex::default(), is_of_others: AtomicBool::new(false) }
    }

    /// Writes a line that is not one of the agent's events, if a program reads the output.
    pub(super) fn line(&self, value: &Value) {
        if let To::Json(out, _) = &self.to {
            out.write(&(line_of_json(value) + "\n"));
        }
    }

    /// The task is done: from now on, the output is about what others asked for. Standard output has nothing of it.
    pub(super) fn leaves_to_others(&self) {
        self.is_of_others.store(true, Ordering::Relaxed);
        if let To::Lines(plain) = &self.to {
            plain.only_calls();
        }
    }

    fn is_of_others(&self) -> bool {
        self.is_of_others.load(Ordering::Relaxed)
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

impl Viewer for Watch {
    fn job(&self, job: Job) {
        if let To::View(passes) = &self.to {
            passes.job(job);
        }
    }

    fn text(&self, text: &str) {
        match &self.to {
            To::View(passes) => passes.text(text),
            // Standard output has only the answer.
            To::Lines(_) | To::Json(..) => ask::show_here(text),
        }
    }

    fn approve(&self, call: AboutCall) -> Reply<Verdict> {
        match &self.to {
            To::View(passes) => passes.approve(call),
            To::Lines(_) | To::Json(..) => approve_in_lines(call),
        }
    }

    fn ask(&self, question: Question) -> Reply<Option<String>> {
        match &self.to {
            To::View(passes) => Viewer::ask(passes, question),
            To::Lines(_) | To::Json(..) => ask_in_lines(question),
        }
    }

    fn settled(&self, how: &str) {
        match &self.to {
            To::View(passes) => passes.settled(how),
            To::Lines(_) | To::Json(..) => settled_in_lines(self, how),
        }
    }

    fn fails(&self, fault: &Fault) {
        match &self.to {
            To::View(passes) => passes.fails(fault),
            To::Lines(_) | To::Json(..) => print::fault(fault),
        }
    }

    fn other(&self, event: SessionEvent) {
        let (by, asks) = match event {
            _ if !self.is_of_others() => return,
            SessionEvent::TurnBegan { by, text, .. } => (by, text),
            SessionEvent::Command { by, command, .. } => (by, format!("!{command}")),
            _ => return,
        };
        match &self.to {
            To::View(passes) => {
                let text = format!("> {}  ({by})", asks.trim_end().replace('\n', "\n  "));
                passes.see(Seen::Line(text, Style::BOLD));
            }
            To::Lines(_) | To::Json(..) => {
                print::err(&format!("haft: {by} asks: {}", abbreviate::line(&asks, ASKS)));
            }
        }
    }
}

impl Observer for Watch {
    fn observe(&self, event: Event) {
        if !self.is_of_others() {
            self.denials.lock().observe(&event);
        }
        match &self.to {
            To::Lines(plain) => plain.observe(event),
            To::Json(..) if self.is_of_others() => {}
            To::Json(out, rate) => {
                if rate.lock().lets(&event, Instant::now()) {
                    out.write(&(line_of_json(&event) + "\n"));
                }
            }
            To::View(passes) => passes.observe(event),
        }
    }
}
