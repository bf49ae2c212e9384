//! Terminals that show a session: one that is drawn on, and one that only prints lines.

use agent::{Event, Observer};
use kit::{Fault, services::Question};
use runtime::Verdict;
use sessions::Job;
use tokio::sync::oneshot;

use super::viewer::{Reply, Viewer};
use crate::{
    ask::{self, AboutCall},
    print,
    terminal::{
        asking::Asked,
        chat::{Passes, seen::Seen},
        plain::Plain,
        row::Style,
    },
};

impl Viewer for Passes {
    fn job(&self, job: Job) {
        self.see(Seen::Job(job));
    }

    fn text(&self, text: &str) {
        self.see(Seen::Text(text.to_owned()));
    }

    fn approve(&self, call: AboutCall) -> Reply<Verdict> {
        let (reply, answer) = oneshot::channel();
        self.see(Seen::Asks(Box::new(Asked::May(call, reply))));
        Box::pin(async move { answer.await.ok() })
    }

    fn ask(&self, question: Question) -> Reply<Option<String>> {
        let (reply, answer) = oneshot::channel();
        self.see(Seen::Asks(Box::new(Asked::Wants(question, reply))));
        Box::pin(async move { answer.await.ok() })
    }

    fn settled(&self, how: &str) {
        self.see(Seen::Settled(how.to_owned()));
    }

    fn fails(&self, fault: &Fault) {
        self.see(Seen::Line(fault.as_text(), Style::BAD));
    }
}

/// Asks about a call at a terminal that only prints.
pub(crate) fn approve_in_lines(call: AboutCall) -> Reply<Verdict> {
    Box::pin(ask::approve_here(call))
}

/// Asks a question at a terminal that only prints.
pub(crate) fn ask_in_lines(question: Question) -> Reply<Option<String>> {
    Box::pin(ask::ask_here(question))
}

/// Shows who settled a question elsewhere, as a line among the events.
pub(crate) fn settled_in_lines(viewer: &dyn Observer, how: &str) {
    viewer.observe(Event::Note { text: format!("settled elsewhere: {how}") });
}

/// A chat line by line: texts stand among the lines.
impl Viewer for Plain {
    // The model gets the result, and its answer tells of it.
    fn job(&self, _: Job) {}

    fn text(&self, text: &str) {
        self.show(text);
    }

    fn approve(&self, call: AboutCall) -> Reply<Verdict> {
        approve_in_lines(call)
    }

    fn ask(&self, question: Question) -> Reply<Option<String>> {
        ask_in_lines(question)
    }

    fn settled(&self, how: &str) {
        settled_in_lines(self, how);
    }

    fn fails(&self, fault: &Fault) {
        print::fault(fault);
    }
}
