//! The terminal of an attached person: shows what happens around the turns of the session.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use agent::Observer;
use kit::{Fault, services::Question};
use runtime::Verdict;
use sessions::{Event, Job, TurnEnd};

use super::super::report;
use crate::{
    ask::AboutCall,
    session_service::{Reply, Viewer},
    terminal::{
        chat::{Passes, seen::Seen},
        row::Style,
    },
};

/// A front end that shows what happens around the turns of a session.
pub(super) trait Screen: Viewer {
    /// Shows something that happened.
    fn see(&self, seen: Seen);

    /// Shows the answer of a command.
    fn answer(&self, text: String);
}

impl Screen for Passes {
    fn see(&self, seen: Seen) {
        Self::see(self, seen);
    }

    fn answer(&self, text: String) {
        self.see(Seen::Line(text, Style::DIM));
    }
}

/// A terminal that shows the session of another process.
pub(super) struct Shown {
    screen: Arc<dyn Screen>,
    /// The name of this terminal.
    who: String,
    /// The person here runs a command, whose call has not ended.
    runs: AtomicBool,
}

impl Shown {
    pub(super) fn new(screen: &Arc<dyn Screen>, who: &str) -> Self {
        Self { screen: screen.clone(), who: who.to_owned(), runs: AtomicBool::new(false) }
    }
}

impl Observer for Shown {
    fn observe(&self, event: agent::Event) {
        let is_end = matches!(event, agent::Event::Answered { .. });
        if is_end && self.runs.swap(false, Ordering::Relaxed) {
            return self.screen.see(Seen::Whole(event));
        }
        self.screen.observe(event);
    }
}

impl Viewer for Shown {
    fn job(&self, job: Job) {
        self.screen.job(job);
    }

    fn text(&self, text: &str) {
        self.screen.text(text);
    }

    fn approve(&self, call: AboutCall) -> Reply<Verdict> {
        self.screen.approve(call)
    }

    fn ask(&self, question: Question) -> Reply<Option<String>> {
        self.screen.ask(question)
    }

    fn settled(&self, how: &str) {
        self.screen.settled(how);
    }

    fn fails(&self, fault: &Fault) {
        self.screen.fails(fault);
    }

    fn other(&self, event: Event) {
        match event {
            Event::TurnBegan { by, text, .. } => {
                self.screen.see(Seen::Began((by != self.who).then_some((text, by))));
            }
            Event::Command { by, .. } if by == self.who => self.runs.store(true, Ordering::Relaxed),
            Event::Command { by, command, .. } => {
                self.screen.see(Seen::Line(format!("> !{command}  ({by})"), Style::BOLD));
            }
            Event::TurnEnded(end) => self.screen.see(Seen::Ended(how(&end))),
            event => self.line(&event),
        }
    }
}

impl Shown {
    /// Shows a line about an event, if it has one.
    fn line(&self, event: &Event) {
        let text = match event {
            Event::Opened { pid, .. } if *pid == std::process::id() => {
                "this process runs this session now".to_owned()
            }
            Event::Opened { pid, by, .. } => format!("process {pid} ({by}) runs this session now"),
            Event::Closed { by } => {
                format!("{by} closed this session; what you say next is done by this process")
            }
            Event::Configured { model, profile } => {
                let model = model.as_ref().map(|it| format!("model {it}"));
                let profile = profile.as_ref().map(|it| format!("profile {it}"));
                let all: Vec<String> = model.into_iter().chain(profile).collect();
                format!("from now on: {}", all.join(", "))
            }
            Event::SandboxChosen { sandbox, by } => {
                format!("{by} switched the sandbox to {}", sandbox.name())
            }
            Event::Compacted { before, after, cost, .. } => report::compacted(*before, *after, *cost),
            Event::Renamed { title } => format!("renamed: {title}"),
            Event::Archived { archived: true } => "archived".to_owned(),
            Event::Archived { archived: false } => "no longer archived".to_owned(),
            Event::Rewound { said, .. } => format!("went back to before: {}", agent::title(said)),
            Event::Forked { into, .. } => format!("forked: {into}"),
            Event::Undone { text, .. } => text.clone(),
            _ => return,
        };
        self.screen.see(Seen::Line(text, Style::DIM));
    }
}

/// Returns the text that says how a turn ended, or `None` for a normal end.
fn how(end: &TurnEnd) -> Option<String> {
    match end.ended.as_str() {
        "done" => None,
        "cancelled" => Some("Stopped. What next?".to_owned()),
        "limit" => Some("Step limit reached; type anything to continue.".to_owned()),
        "refused" => Some("The provider refused to go on.".to_owned()),
        "interrupted" => Some("Its process ended in the middle of this turn.".to_owned()),
        _ => Some(end.error.as_ref().map_or_else(|| "The turn failed.".to_owned(), |it| it.what.clone())),
    }
}
