//! Events of a session: what its watchers see, one numbered row each.

use agent::model::Usage;
use kit::Fault;
use runtime::SandboxMode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use store::{EventRow, changes::Change};

use crate::fault::Failure;

/// A row of a session's log.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Its number, counted from 1. Whoever has it goes on with `after = seq`.
    pub seq: u64,
    /// The first number that it covers. Where that is below `seq`, the row takes the place of the pieces of the same kind
    /// and agent that have numbers from `first` on: see [`from`](Self::from).
    pub first: u64,
    /// When it was written, in milliseconds since 1970.
    pub at_ms: u64,
    /// The event.
    pub event: Event,
}

/// Something that happened in a session. In JSON one object, with `event` saying what it is: those of [`agent::Event`] as they
/// are, and the ones below. Names of events and fields stay as they are; new ones may come, and are [`Unknown`](Self::Unknown)
/// to an older reader.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A process runs the session from here on.
    Opened {
        /// How often the session was claimed.
        epoch: u64,
        /// The process.
        pid: u32,
        /// The front end of the process: `chat`, `run`, `acp`.
        by: String,
    },
    /// A turn began.
    TurnBegan {
        /// The idempotency key of its prompt, where it came as an operation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        /// The initiator of the turn.
        by: String,
        /// The person's words; empty, if the turn continues the conversation or the end of a job began it.
        text: String,
        /// The attachments, a line each.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attached: Vec<String>,
        /// How many messages the transcript had before.
        messages: u64,
    },
    /// A turn ended.
    TurnEnded(TurnEnd),
    /// A person is asked whether a call may run.
    ApprovalOpened(Approval),
    /// It is decided, or the call no longer waits.
    ApprovalClosed {
        /// The id of the approval.
        id: String,
        /// How.
        decision: Decision,
        /// The actor that decided; `None` if nobody did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// The person's words with a refusal.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        words: Option<String>,
    },
    /// A person is asked something.
    QuestionOpened(Asked),
    /// It is answered, or no longer asked.
    QuestionClosed {
        /// The id of the question.
        id: String,
        /// The answer; nothing, where there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answer: Option<String>,
        /// The actor that answered; `None` if the question was withdrawn.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// A notification to the person that needs no answer.
    Told {
        /// The text.
        text: String,
    },
    /// A message arrived in the session's inbox. The model is shown it before its next step: `message_shown`.
    MessageArrived {
        /// The number of its row in the inbox.
        id: u64,
        /// Its id.
        message: String,
        /// Its origin: `person`, `direct`, `channel`, `trigger`, `job`, `output`, `webhook`.
        source: String,
        /// The display name of its sender.
        from: String,
        /// The channel that it came by.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        channel: Option<String>,
        /// Its first line, cut to 120 characters.
        text: String,
    },
    /// A background job ended.
    JobEnded(Job),
    /// A background job waits for input.
    JobWaits(Job),
    /// Another model or profile answers from here on.
    Configured {
        /// The model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// The profile; `none` where there is none any more.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        profile: Option<String>,
    },
    /// A person switched the sandbox of the session.
    SandboxChosen {
        /// The sandbox in effect from here on.
        sandbox: SandboxMode,
        /// The actor that switched it.
        by: String,
    },
    /// The session has another title.
    Renamed {
        /// The title.
        title: String,
    },
    /// The session is archived, or no longer.
    Archived {
        /// Whether it is.
        archived: bool,
    },
    /// A person runs a command; its call follows.
    Command {
        /// The idempotency key, where it came as an operation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        /// The person's terminal or front end.
        by: String,
        /// The command.
        command: String,
    },
    /// A summary took the place of the conversation.
    Compacted {
        /// The idempotency key, where it came as an operation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        /// Approximate number of tokens of the next request, before it.
        before: u64,
        /// Approximate number of tokens after it.
        after: u64,
        /// The cost in dollars, where it is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost: Option<f64>,
    },
    /// The newest turns were taken back.
    Rewound {
        /// The idempotency key, where it came as an operation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        /// How many.
        turns: usize,
        /// The person's words at the beginning of the first of them.
        said: String,
    },
    /// Another session goes on from here.
    Forked {
        /// The idempotency key, where it came as an operation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        /// Its name.
        into: String,
    },
    /// Changes of files were put back.
    Undone {
        /// The idempotency key, where it came as an operation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        /// The call that was undone, where one was named.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<String>,
        /// The file, where one was named.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
        /// A description of the changes that were put back.
        text: String,
    },
    /// The process that ran the session gave it up.
    Closed {
        /// The actor that closed it.
        by: String,
    },
    /// An event of the agent.
    #[serde(untagged)]
    Agent(agent::Event),
    /// Something that a newer haft wrote.
    #[serde(untagged)]
    Unknown(Value),
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnEnd {
    /// The idempotency key of its prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// `done`, `cancelled`, `limit`, `refused`; `error` where the model does not answer; `interrupted` where the process died.
    pub ended: String,
    /// The last text of the model.
    #[serde(default)]
    pub text: String,
    /// How many answers it took.
    #[serde(default)]
    pub steps: usize,
    /// The usage of these answers.
    #[serde(default)]
    pub usage: Usage,
    /// The cost of these answers in dollars, if it is known.
    #[serde(default)]
    pub cost: Option<f64>,
    /// The failure, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
}

/// A call that a person is asked about. A decision is for exactly what is here: it names [`hash`](Self::hash).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// Its id.
    pub id: String,
    /// The hash of tool, arguments, effects and changes: what a decision is bound to.
    pub hash: String,
    /// The call in the journal, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// The sub-agent that asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The tool.
    pub tool: String,
    /// The name of the rule by which it is asked about.
    pub rule: String,
    /// The subject of the rule in this call: a path, a command.
    pub about: String,
    /// The explanation of the rule, in one sentence.
    pub says: String,
    /// The call's arguments, as they came.
    pub arguments: String,
    /// The effects of the call that need approval, one line each.
    pub effects: Vec<String>,
    /// The changes of files that would land, where they are known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
    /// The grants that are stored if the person allows more than this call; empty, if only this call can be allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub offers: Vec<String>,
}

/// How an approval was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// This call may run.
    Once,
    /// For the rest of the session.
    Session,
    /// For this workspace.
    Project,
    /// It may not.
    No,
    /// The call no longer waits.
    Expired,
    /// There was nobody to ask.
    Nobody,
}

/// A question to the person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// Its id.
    pub id: String,
    /// The question.
    pub text: String,
    /// Answers to choose from; the person may always say something else.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// In how many seconds it is taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
}

/// The state of a background job that ended or waits for input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Its id: `job_3`.
    pub job: String,
    /// The tool that was called.
    pub tool: String,
    /// Its title, for people.
    pub title: String,
    /// Its state.
    pub state: String,
    /// The exit code, where a command ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<i32>,
    /// The end of what it wrote.
    pub tail: String,
    /// How long it ran, in milliseconds.
    pub ms: u64,
}

impl Row {
    /// The row as it is stored.
    ///
    /// # Errors
    /// When it is not one that haft wrote.
    pub(crate) fn read(stored: &EventRow) -> Result<Self, Fault> {
        let event = serde_json::from_str(&stored.body)
            .map_err(|error| Fault::bug(format!("event {} can't be read: {error}", stored.seq)))?;
        Ok(Self { seq: stored.seq, first: stored.first, at_ms: stored.at_ms, event })
    }

    /// The first of the pieces that this row takes the place of, where it does. Whoever has some of them drops those of the
    /// same kind and agent from this number on: the row says all that they said, and more.
    pub fn from(&self) -> Option<u64> {
        (self.first < self.seq).then_some(self.first)
    }
}

impl Event {
    /// The agent that it is about, and what happened there: `explore_1/critic_2` is below `explore_1`; empty is the session's
    /// own.
    pub fn of_agent(&self) -> Option<(String, &agent::Event)> {
        let Self::Agent(event) = self else { return None };
        let (mut path, mut event) = (String::new(), event);
        while let agent::Event::Under { agent, inner } = event {
            if !path.is_empty() {
                path.push('/');
            }
            path.push_str(agent);
            event = inner;
        }
        Some((path, event))
    }
}

impl Event {
    /// Returns the key and the result of the operation that this event completes, if it is such an event.
    pub(crate) fn completes(&self) -> Option<(&str, Value)> {
        let (key, result) = match self {
            Self::Rewound { key, turns, said } => (key, json!({"turns": turns, "said": said, "changed": []})),
            Self::Forked { key, into } => (key, json!({"session": into})),
            Self::Compacted { key, before, after, cost } => {
                (key, json!({"before": before, "after": after, "usage": Usage::default(), "cost": cost}))
            }
            Self::Undone { key, text, .. } => (key, json!({"text": text})),
            _ => return None,
        };
        key.as_deref().map(|key| (key, result))
    }
}

impl From<agent::Event> for Event {
    fn from(event: agent::Event) -> Self {
        Self::Agent(event)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    #[test]
    fn events_are_read_as_they_were_written_whoever_wrote_them() {
        let under = agent::Event::Under {
            agent: "a_1".to_owned(),
            inner: Box::new(agent::Event::Text { text: "hi".to_owned() }),
        };
        let end = TurnEnd {
            key: None,
            ended: "done".to_owned(),
            text: String::new(),
            steps: 1,
            usage: agent::model::Usage::default(),
            cost: None,
            error: None,
        };
        for (event, json) in [
            (Event::Told { text: "x".to_owned() }, json!({"event": "told", "text": "x"})),
            (
                under.into(),
                json!({"event": "under", "agent": "a_1", "inner": {"event": "text", "text": "hi"}}),
            ),
            (
                Event::TurnEnded(end),
                json!({"event": "turn_ended", "ended": "done", "text": "", "steps": 1, "cost": null,
                    "usage": {"input": 0, "cached": 0, "kept": 0, "output": 0, "reasoning": 0}}),
            ),
        ] {
            assert_eq!(serde_json::to_value(&event).unwrap(), json);
            assert_eq!(serde_json::from_value::<Event>(json).unwrap(), event);
        }
        let newer = json!({"event": "danced", "with": 3});
        assert_eq!(serde_json::from_value::<Event>(newer.clone()).unwrap(), Event::Unknown(newer.clone()));
        assert_eq!(serde_json::to_value(Event::Unknown(newer.clone())).unwrap(), newer);
    }
}
