//! The events of an agent: what whoever watches it is told, while it happens.

use std::time::Duration;

use kit::Kind;
use runtime::OwedJob;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::changes::Change;

use crate::model::Usage;

/// Hears what an agent does, while it does it. Must not block: calls and the model's answer wait meanwhile.
pub trait Observer: Send + Sync {
    /// Something happened.
    fn hear(&self, event: Event);
}

/// Nobody watches.
pub struct Silent;

impl Observer for Silent {
    fn hear(&self, _: Event) {}
}

/// Something that happened. In JSON one object, with `event` saying what it is; a field that is not known stays out, or is
/// null. Names of events and fields stay as they are; new ones may come.
///
/// `docs/run-json.md` has an example of each. An answer of the model is `asked`, then `text`, `reasoning`, `writing`, `called`, `progress`, `answered` and `picture`
/// as they come, then `used`. Each `called` has one `answered` with the same `call` before `used`, or none at all where
/// the process died.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The model is asked.
    Asked {
        /// Which answer of the conversation it is to be, counted from 1.
        step: usize,
    },
    /// More of the text that the model writes.
    Text {
        /// What is new.
        text: String,
    },
    /// More of what it thinks.
    Reasoning {
        /// What is new.
        text: String,
    },
    /// It writes a call.
    Writing {
        /// Which one of this answer.
        index: usize,
        /// The tool.
        tool: String,
        /// How many bytes of arguments there are by now.
        bytes: usize,
    },
    /// A call has begun.
    Called {
        /// Its id in the journal.
        call: String,
        /// The tool.
        tool: String,
        /// The arguments, as they were written; as a string, where they are not JSON.
        arguments: Value,
    },
    /// A call that runs says how far it has come.
    Progress {
        /// Its id in the journal.
        call: String,
        /// A line for a person.
        line: String,
    },
    /// A call is over.
    Answered {
        /// Its id in the journal.
        call: String,
        /// The tool.
        tool: String,
        /// Whether it worked.
        ok: bool,
        /// The kind of its fault, where it did not work: `denied`, `bad_args`, `timeout`, ….
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fault: Option<Kind>,
        /// The exit code, where a command ran.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit: Option<i32>,
        /// How long it took, in milliseconds.
        ms: f64,
        /// What it said. The model may read less of it, where it has read the same before.
        text: String,
        /// The pictures that came of it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pictures: Vec<Shown>,
        /// The files that it changed, as diffs: of one call 400 lines and 32 KiB at most.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changes: Vec<Change>,
        /// The files it gives the person, each as `name: address`.
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
    /// What the model has said of this answer does not count: it is asked again.
    Again {
        /// Why.
        why: String,
        /// In how many seconds.
        seconds: f32,
    },
    /// Something a person should know.
    Note {
        /// One line.
        text: String,
    },
    /// The turn is over, and results that were promised to the model are waited for.
    Waits {
        /// Whose results.
        jobs: Vec<OwedJob>,
        /// For at most so many seconds.
        seconds: u64,
    },
    /// An answer of the model is complete; also one that summed up the conversation, which has no `asked`.
    Used {
        /// What it took.
        #[serde(flatten)]
        usage: Usage,
        /// What that costs, in dollars, where it is known.
        cost: Option<f64>,
    },
    /// What an agent that this one started does.
    Under {
        /// Which one: `explore_1f3a`.
        agent: String,
        /// What happened there.
        inner: Box<Self>,
    },
}

/// A picture that is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Shown {
    /// Its handle, such as `out_12`.
    pub handle: String,
    /// Its media type.
    pub mime: String,
    /// How many bytes it has.
    pub bytes: usize,
}

/// Milliseconds, as events have them.
pub(crate) fn ms(took: Duration) -> f64 {
    (took.as_secs_f64() * 1e6).round() / 1e3
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::collections::{BTreeMap, BTreeSet};

    use serde_json::json;

    use super::*;

    /// One of each, with every field.
    fn events() -> Vec<Event> {
        let text = || "x".to_owned();
        let picture = || Shown { handle: text(), mime: text(), bytes: 1 };
        vec![
            Event::Asked { step: 1 },
            Event::Text { text: text() },
            Event::Reasoning { text: text() },
            Event::Writing { index: 0, tool: text(), bytes: 1 },
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
            Event::Waits { jobs: vec![OwedJob { id: text(), name: text() }], seconds: 1 },
            Event::Used { usage: Usage::default(), cost: Some(1.0) },
            Event::Under { agent: text(), inner: Box::new(Event::Asked { step: 1 }) },
        ]
    }

    /// The fields of each event there is among these, by its name.
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
