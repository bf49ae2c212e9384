//! Operations on a session: what whoever attached to it may ask for.

use runtime::SandboxMode;
use serde::{Deserialize, Serialize};

use crate::event::Decision;

/// An operation. Each is asked for under an idempotency key: the same key twice is done once, with one result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "operation", rename_all = "snake_case")]
pub enum Operation {
    /// Begins a turn. The result is how it ended: a [`TurnEnd`](crate::TurnEnd). Prompts wait for each other.
    Prompt(Prompt),
    /// Stops a turn. The result is `{"cancelled": true}`, or `false` where nothing was stopped.
    Cancel {
        /// The key of its prompt, which may also still wait; without one, the turn that goes on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt: Option<String>,
    },
    /// Decides an approval. The first decision wins; a later one fails as stale and says who decided.
    Approve {
        /// The id of the approval.
        id: String,
        /// Its [`hash`](crate::Approval::hash), as it was shown.
        hash: String,
        /// The decision: `once`, `session`, `project` or `no`.
        decision: Decision,
        /// The person's words with a refusal: the model does that instead.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        words: Option<String>,
    },
    /// Answers a question. The first answer wins.
    Answer {
        /// The id of the question.
        id: String,
        /// The answer; without one, the person does not want to answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    /// Puts back the file changes of a call, the newest change of one file by the session, or the newest changes.
    Undo {
        /// The call in the journal.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<String>,
        /// The file: relative to the workspace, or absolute.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
    },
    /// Makes another session that goes on from here. The result is `{"session": NAME}`.
    Fork {
        /// How many of the newest turns it does not have.
        #[serde(default)]
        without: usize,
    },
    /// Takes the newest turns back. The result is an [`agent::Rewound`].
    Rewind {
        /// How many.
        turns: usize,
    },
    /// Gives the session a title.
    Rename {
        /// The title.
        title: String,
    },
    /// Archives the session, or takes it back from there.
    Archive {
        /// Whether it is to be archived.
        archived: bool,
    },
    /// Has another model answer from now on.
    Model {
        /// Its name.
        name: String,
    },
    /// Goes on under another profile, or without one.
    Profile {
        /// Its name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// Narrows the sandbox of the session, or widens it again up to the configured one: at once, also while a turn goes on.
    Sandbox {
        /// The sandbox.
        mode: SandboxMode,
    },
    /// Runs a command for the person, in the session's sandbox and under their own word. The model gets its output with the
    /// next message. The result is `{"ok": …, "exit": …, "text": …}`.
    Command {
        /// The command.
        command: String,
    },
    /// Commits files of the workspace with git, in the session's sandbox. The result is `{"commit": …, "branch": …, "text": …}`.
    Commit {
        /// The message.
        message: String,
        /// The files: relative to the workspace, or absolute.
        paths: Vec<String>,
    },
    /// Replaces the conversation with a summary. The result is an [`agent::Compacted`].
    Compact {
        /// The subjects that the summary keeps.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        keep: Option<String>,
    },
    /// Asks for what only the process that runs the session knows. The result is `{"text": …}`.
    Report(Report),
    /// Has its owner give the session up, once the turn that goes on has ended.
    Close,
}

/// A report of the process that runs a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "report", rename_all = "snake_case")]
pub enum Report {
    /// The tools that the model has.
    Tools {
        /// Only those about this word, with what they do.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        about: Option<String>,
    },
    /// The use of the model's context window.
    Context,
}

/// The person's input at the beginning of a turn.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prompt {
    /// The words. Without words and attachments the turn goes on where the conversation was left.
    #[serde(default)]
    pub text: String,
    /// The attachments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
}

/// A text or picture that a person attaches to their words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Attachment {
    /// A text: the content of a file, or of a resource.
    Text {
        /// Its name.
        name: String,
        /// The text.
        text: String,
    },
    /// A picture.
    Picture {
        /// Its name; the ending says its type.
        name: String,
        /// Its bytes, in base64.
        data: String,
    },
}

impl Prompt {
    /// These words alone.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), attachments: Vec::new() }
    }

    /// Returns whether the turn goes on where the conversation was left.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty() && self.attachments.is_empty()
    }
}

impl Operation {
    /// Returns whether it is done at once, also while a turn goes on.
    pub(crate) fn is_immediate(&self) -> bool {
        matches!(
            self,
            Self::Cancel { .. } | Self::Approve { .. } | Self::Answer { .. } | Self::Sandbox { .. }
        )
    }

    /// Returns whether it needs no agent, so that it does not wait for a turn. Between turns the loop of the session does it, which
    /// reports it to its terminal.
    pub(crate) fn needs_no_agent(&self) -> bool {
        matches!(self, Self::Rename { .. } | Self::Archive { .. })
    }

    /// Returns whether it may be repeated if nobody knows whether it was done.
    pub(crate) fn is_repeatable(&self) -> bool {
        matches!(
            self,
            Self::Rename { .. }
                | Self::Archive { .. }
                | Self::Model { .. }
                | Self::Profile { .. }
                | Self::Sandbox { .. }
                | Self::Report(_)
                | Self::Close
        )
    }
}
