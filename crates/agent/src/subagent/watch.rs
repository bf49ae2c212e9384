//! Observer of a subagent: passes on its events, and counts the tokens it uses.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::{
    event::{Event, Observer},
    model::Usage,
};

/// An observer that passes on a subagent's events and counts its tokens.
pub(super) struct Watch {
    above: Arc<dyn Observer>,
    agent: String,
    now: Mutex<Now>,
}

/// The progress of a subagent.
#[derive(Debug, Clone, Default)]
pub(super) struct Now {
    pub(super) usage: Usage,
    pub(super) cost: Option<f64>,
    pub(super) steps: usize,
    /// The text of the unfinished answer.
    writing: String,
    /// The text of the last answer.
    said: String,
}

impl Watch {
    pub(super) fn new(above: Arc<dyn Observer>, agent: &str) -> Self {
        Self { above, agent: agent.to_owned(), now: Mutex::default() }
    }

    pub(super) fn now(&self) -> Now {
        self.now.lock().clone()
    }

    fn note(&self, event: &Event) {
        let mut now = self.now.lock();
        match event {
            Event::Asked { .. } => {
                let written = std::mem::take(&mut now.writing);
                if !written.trim().is_empty() {
                    now.said = written;
                }
            }
            Event::Again { .. } => now.writing.clear(),
            Event::Text { text } => now.writing.push_str(text),
            Event::Used { usage, cost } => {
                now.steps += 1;
                count(&mut now, *usage, *cost);
            }
            Event::Under { inner, .. } => {
                let mut inner = &**inner;
                while let Event::Under { inner: deeper, .. } = inner {
                    inner = deeper;
                }
                if let Event::Used { usage, cost } = inner {
                    count(&mut now, *usage, *cost);
                }
            }
            _ => {}
        }
    }
}

fn count(now: &mut Now, usage: Usage, cost: Option<f64>) {
    now.usage += usage;
    now.cost = match (now.cost, cost) {
        (Some(one), Some(other)) => Some(one + other),
        (one, other) => one.or(other),
    };
}

impl Now {
    /// Returns the tokens of requests and answers together.
    pub(super) fn tokens(&self) -> u64 {
        self.usage.all()
    }

    /// Returns the subagent's last text.
    pub(super) fn text(&self) -> &str {
        if self.writing.trim().is_empty() { &self.said } else { &self.writing }
    }
}

impl Observer for Watch {
    fn observe(&self, event: Event) {
        self.note(&event);
        self.above.observe(Event::Under { agent: self.agent.clone(), inner: Box::new(event) });
    }
}
