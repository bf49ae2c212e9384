//! Agent events: notifies observers of every step of an agent.

use std::time::Duration;

use kit::Kind;
use runtime::OwedJob;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::changes::Change;

use crate::model::Usage;

/// Receives the events of an agent as they happen. Must not block: calls and the model's answer wait meanwhile.
pub trait Observer: Send + Sync {
    /// Receives one event.
    fn observe(&self, event: Event);
}

/// An observer that ignores all events.
pub struct Silent;

impl Observer for Silent {
    fn observe(&self, _: Event) {}
}

/// An event of an agent. As JSON it is one object, whose `event` names its kind; a field that is unknown is
/// omitted or null. Names of events and fields are stable; new ones may be added.
///
/// `docs/run-json.md` has an example of each. An answer of the model is `asked`, then `text`, `reasoning`, `writing`, `called`, `progress`, `answered` and `picture`
/// as they come, then `used`. Each `called` has one `answered` with the same `call` before `used`, or none at all where
/// the process died.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// haft sends the model a request.
    Asked {
        /// The number of the answer in the conversation, counted from 1.
        step: usize,
    },
    /// More of the model's text.
    Text {
        /// The new part.
        text: String,
    },
    /// More of the model's reasoning.
    Reasoning {
        /// The new part.
        text: String,
    },
    /// The model writes a call.
    Writing {
        /// The number of the call in this answer.
        index: usize,
        /// The id that the call has in the journal once it begins. Empty in events of older versions.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        call: String,
        /// The tool.
        tool: String,
        /// The bytes of its arguments so far.
        bytes: usize,
    },
    /// A call has begun.
    Called {
        /// Its id in the journal.
        call: String,
        /// The tool.
        tool: String,
        /// The arguments as the model wrote them; a string, where they are not JSON.
        arguments: Value,
    },
    /// The progress of a running call.
    Progress {
        /// Its id in the journal.
        call: String,
        /// A line for a person.
        line: String,
    },
    /// A call has ended.
    Answered {
        /// Its id in the journal.
        call: String,
        /// The tool.
        tool: String,
        /// Whether the call succeeded.
        ok: bool,
        /// The kind of its fault, where it failed: `denied`, `bad_args`, `timeout`, ….
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fault: Option<Kind>,
        /// The exit code, where a command ran.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit: Option<i32>,
        /// Duration in milliseconds.
        ms: f64,
        /// The output. The model may get less of it, where it has read the same before.
        text: String,
        /// The pictures in the output.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pictures: Vec<Shown>,
        /// The files that it changed, as diffs: at most 400 lines and 32 KiB for each call.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changes: Vec<Change>,
        /// The links that it gives the person, each as `name: address`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        links: Vec<String>,
    },
    /// The provider's own tool made a picture.
    Picture {
        /// The tool.
        tool: String,
        /// The picture.
        picture: Shown,
    },
    /// The answer so far is discarded, and haft repeats the request.
    Again {
        /// The reason.
        why: String,
        /// The seconds until then.
        seconds: f32,
    },
    /// A notice for the person.
    Note {
        /// One line.
        text: String,
    },
    /// The next request shows the model a message from its inbox.
    MessageShown {
        /// Its id.
        message: String,
        /// Its origin: `person`, `job`, `trigger`, `channel`, `direct`, `output` or `webhook`.
        source: String,
        /// The name of its sender.
        from: String,
        /// The channel, where it came by one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        channel: Option<String>,
        /// Its first line.
        text: String,
    },
    /// The turn has ended, and haft waits for results that were promised to the model.
    Waits {
        /// The jobs that it waits for.
        jobs: Vec<OwedJob>,
        /// The time limit, in seconds.
        seconds: u64,
    },
    /// An answer of the model is complete; also one that summarized the conversation, which has no `asked`.
    Used {
        /// The tokens used.
        #[serde(flatten)]
        usage: Usage,
        /// The cost in dollars, where it is known.
        cost: Option<f64>,
    },
    /// An event of an agent that this one started.
    Under {
        /// The name of that agent, such as `explore_1f3a`.
        agent: String,
        /// Its event.
        inner: Box<Self>,
    },
}

/// A stored picture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Shown {
    /// Its handle, such as `out_12`.
    pub handle: String,
    /// Its media type.
    pub mime: String,
    /// Its size in bytes.
    pub bytes: usize,
}

/// Converts a duration to milliseconds, as events have them.
pub(crate) fn ms(took: Duration) -> f64 {
    (took.as_secs_f64() * 1e6).round() / 1e3
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::collections::{BTreeMap, BTreeSet};

    use serde_json::json;

    use super::*;

    /// Returns one event of each kind, with every field.
    fn events() -> Vec<Event> {
        let text = || "x".to_owned();
        let picture = || Shown { handle: text(), mime: text(), bytes: 1 };
        vec![
            Event::Asked { step: 1 },
            Event::Text { text: text() },
            Event::Reasoning { text: text() },
            Event::Writing { index: 0, call: text(), tool: text(), bytes: 1 },
            Event::Called { call: text(), tool: text(), arguments: json!({}) },
            Event::Progress { call: text(), line: text() },
            Event::Answered {
                call: text(),
                tool: text(),
                ok: false,
                fault: Some(Kind::Denied),
                exit: Some(1),
                ms: 1.0,
                text: text(),
                pictures: vec![picture()],
                changes: vec![Change::default()],
                links: vec![text()],
            },
            Event::Picture { tool: text(), picture: picture() },
            Event::Again { why: text(), seconds: 1.0 },
            Event::Note { text: text() },
            Event::MessageShown {
                message: text(),
                source: text(),
                from: text(),
                channel: Some(text()),
                text: text(),
            },
            Event::Waits { jobs: vec![OwedJob { id: text(), name: text() }], seconds: 1 },
            Event::Used { usage: Usage::default(), cost: Some(1.0) },
            Event::Under { agent: text(), inner: Box::new(Event::Asked { step: 1 }) },
        ]
    }

    /// Returns the fields of each of these events, by its name.
    fn fields(events: impl Iterator<Item = Value>) -> BTreeMap<String, BTreeSet<String>> {
        let mut fields: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for event in events {
            let name = event.get("event").and_then(Value::as_str).unwrap().to_owned();
            fields.entry(name).or_default().extend(event.as_object().unwrap().keys().cloned());
        }
        fields
    }

    #[test]
    fn events_are_read_as_they_were_written() {
        for event in events() {
            let json = serde_json::to_string(&event).unwrap();
            assert_eq!(serde_json::from_str::<Event>(&json).unwrap(), event, "{json}");
        }
    }

    #[test]
    fn examples_have_the_fields_of_their_events() {
        let page = include_str!("../../../docs/run-json.md");
        let lines = page.lines().filter(|it| it.starts_with("{\"event\": "));
        let mut documented = fields(lines.map(|it| serde_json::from_str(it).unwrap()));
        assert!(documented.remove("began").is_some() && documented.remove("ended").is_some());
        assert_eq!(documented, fields(events().iter().map(|it| json!(it))));
    }
}
