//! Events of `haft run --json`: one line each, `writing` at a bounded rate, and what was denied.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use agent::Event;
use kit::Kind;
use serde::Serialize;
use serde_json::Value;

/// Interval of `writing` events for a call that the model is writing; one is also sent whenever the call has doubled in
/// length.
const WRITING: Duration = Duration::from_millis(500);

/// The rate limit of events for a program.
#[derive(Default)]
pub(super) struct Rate {
    /// The calls that models are writing, by agent and by index in its answer: the time of the last event, and the length
    /// then.
    writing: HashMap<(String, usize), (Instant, usize)>,
}

impl Rate {
    /// Returns whether this event is sent.
    pub(super) fn lets(&mut self, event: &Event, now: Instant) -> bool {
        self.lets_under(event, "", now)
    }

    fn lets_under(&mut self, event: &Event, agent: &str, now: Instant) -> bool {
        match event {
            Event::Under { agent: below, inner } => self.lets_under(inner, &format!("{agent}/{below}"), now),
            Event::Writing { index, bytes, .. } => {
                let key = (agent.to_owned(), *index);
                let is_due = self.writing.get(&key).is_none_or(|(told, before)| {
                    *bytes >= before.saturating_mul(2) || now.duration_since(*told) >= WRITING
                });
                if is_due {
                    self.writing.insert(key, (now, *bytes));
                }
                is_due
            }
            // A new answer numbers its calls from the start.
            Event::Asked { .. } | Event::Used { .. } | Event::Again { .. } => {
                self.writing.retain(|(whose, _), _| whose != agent);
                true
            }
            _ => true,
        }
    }
}

/// The calls that were denied: by a rule, by a person, or because there was nobody to ask.
#[derive(Default)]
pub(super) struct Denials {
    /// The calls that run.
    called: HashMap<String, (String, Value)>,
    denied: Vec<Denied>,
}

/// A call that was denied.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Denied {
    /// The tool.
    pub(super) tool: String,
    /// The arguments of the call.
    pub(super) arguments: Value,
    /// Why it was denied.
    pub(super) why: String,
    /// The agent that called it, where the run's own agent started that one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) agent: Option<String>,
}

impl Denials {
    pub(super) fn observe(&mut self, event: &Event) {
        self.observe_under(event, None);
    }

    fn observe_under(&mut self, event: &Event, agent: Option<&str>) {
        match event {
            Event::Under { agent: below, inner } => {
                let name = agent.map_or_else(|| below.clone(), |above| format!("{above}/{below}"));
                self.observe_under(inner, Some(&name));
            }
            Event::Called { call, tool, arguments } => {
                self.called.insert(call.clone(), (tool.clone(), arguments.clone()));
            }
            Event::Answered { call, fault, text, .. } => {
                let Some((tool, arguments)) = self.called.remove(call) else { return };
                if *fault == Some(Kind::Denied) {
                    let (why, agent) = (text.clone(), agent.map(str::to_owned));
                    self.denied.push(Denied { tool, arguments, why, agent });
                }
            }
            _ => {}
        }
    }

    /// Returns all denied calls, in order.
    pub(super) fn all(&self) -> &[Denied] {
        &self.denied
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn writing(index: usize, bytes: usize) -> Event {
        Event::Writing { index, call: format!("c_{index}"), tool: "write".to_owned(), bytes }
    }

    #[test]
    fn a_call_that_is_written_is_told_twice_a_second_or_when_it_has_doubled() {
        let (mut rate, began) = (Rate::default(), Instant::now());
        // 12 bytes every 10 ms for two seconds.
        let told = (0..200).filter(|at| {
            let now = began + Duration::from_millis(10 * at);
            rate.lets(&writing(0, 12 * *at as usize), now)
        });
        let told = told.count();
        assert!((8..=14).contains(&told), "{told} of 200");
        assert!(!rate.lets(&writing(0, 2_401), began + Duration::from_secs(2)));
        assert!(rate.lets(&writing(1, 12), began + Duration::from_secs(2)), "each call counts for itself");
        let below = Event::Under { agent: "explore_1".to_owned(), inner: Box::new(writing(0, 12)) };
        assert!(rate.lets(&below, began) && !rate.lets(&below, began), "and each agent");
        assert!(rate.lets(&Event::Asked { step: 2 }, began) && rate.lets(&writing(0, 0), began));
    }

    #[test]
    fn a_denied_call_is_listed_with_its_arguments_and_others_are_not() {
        let mut denials = Denials::default();
        let mut call = |call: &str, fault: Option<Kind>, below: bool| {
            let called = Event::Called {
                call: call.to_owned(),
                tool: "shell".to_owned(),
                arguments: json!({"command": call}),
            };
            let answered = Event::Answered {
                call: call.to_owned(),
                tool: "shell".to_owned(),
                ok: fault.is_none(),
                fault,
                exit: None,
                ms: 1.0,
                text: format!("about {call}"),
                pictures: Vec::new(),
                changes: Vec::new(),
                links: Vec::new(),
            };
            for event in [called, answered] {
                let under = |inner| Event::Under { agent: "explore_1".to_owned(), inner: Box::new(inner) };
                denials.observe(&if below { under(event) } else { event });
            }
        };
        call("c_1", None, false);
        call("c_2", Some(Kind::Denied), false);
        call("c_3", Some(Kind::Timeout), false);
        call("c_4", Some(Kind::Denied), true);
        assert_eq!(
            json!(denials.all()),
            json!([
                {"tool": "shell", "arguments": {"command": "c_2"}, "why": "about c_2"},
                {"tool": "shell", "arguments": {"command": "c_4"}, "why": "about c_4", "agent": "explore_1"},
            ])
        );
    }
}
