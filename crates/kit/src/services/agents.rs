//! Access to the calling agent, and to subagents.

use std::time::Duration;

use super::Soon;
use crate::{Cx, Fault};

/// The agent that a session belongs to.
pub trait Agents: Send + Sync {
    /// Returns the profiles, in their order. May block.
    fn profiles(&self) -> Profiles;

    /// Switches to another profile, from the model's next response on. Returns what that changes.
    ///
    /// # Errors
    /// [`Kind::NotFound`](crate::Kind::NotFound) with the existing names, and what the profile needs but can't have.
    fn switch(&self, profile: &str) -> Result<String, Fault>;

    /// Runs a subagent on this task, and returns its report. It stops with the call of `cx`.
    ///
    /// # Errors
    /// When the profile does not exist, agents may not start agents here, or its model fails.
    fn delegate<'a>(&'a self, task: Task, cx: &'a Cx) -> Soon<'a, Result<Report, Fault>>;

    /// Asks the person, and waits for the answer.
    ///
    /// # Errors
    /// [`Kind::Unavailable`](crate::Kind::Unavailable) when no person can be asked,
    /// [`Kind::Timeout`](crate::Kind::Timeout) when no answer came in time.
    fn ask<'a>(&'a self, question: Question, cx: &'a Cx) -> Soon<'a, Result<String, Fault>>;

    /// Shows the person a text, without waiting for an answer.
    ///
    /// # Errors
    /// [`Kind::Unavailable`](crate::Kind::Unavailable) when no person can see it.
    fn show<'a>(&'a self, _text: String, _cx: &'a Cx) -> Soon<'a, Result<(), Fault>> {
        Box::pin(std::future::ready(none()))
    }

    /// Requests one response of the agent's model to `prompt`, without tools and outside the conversation.
    ///
    /// # Errors
    /// When the model fails.
    fn think<'a>(&'a self, system: &'a str, prompt: &'a str) -> Soon<'a, Result<String, Fault>>;

    /// Returns how its model writes calls: `native`, or the name of a dialect.
    fn tool_format(&self) -> &'static str {
        "native"
    }

    /// Returns a manual that the agent has under this name: a skill. Blocks.
    fn manual(&self, _name: &str) -> Option<String> {
        None
    }
}

/// The profiles of an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Profiles {
    /// The usable ones, in their order.
    pub known: Vec<ProfileInfo>,
    /// The errors of the others, one line each.
    pub aside: Vec<String>,
}

/// A profile, in a list of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileInfo {
    /// Its name.
    pub name: String,
    /// Its title for people.
    pub title: String,
    /// Its purpose.
    pub description: String,
    /// Whether it is the current one.
    pub current: bool,
}

/// A task for a subagent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Task {
    /// Its profile; the caller's, if `None`.
    pub profile: Option<String>,
    /// The task.
    pub prompt: String,
    /// Background that it should know.
    pub briefing: Option<String>,
    /// A system prompt that replaces the one of its profile.
    pub system: Option<String>,
    /// Whether the profile's prompt is kept before `system`.
    pub keep_system: bool,
    /// Maximum number of model responses.
    pub steps: Option<usize>,
    /// Time limit.
    pub time: Option<Duration>,
    /// Maximum number of tokens.
    pub tokens: Option<u64>,
    /// Labels of a worker on another machine that runs it; this machine, if `None`.
    pub on: Option<String>,
}

/// The report of a subagent.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Its name: `explore_1f3a`.
    pub agent: String,
    /// Its profile, if it had one.
    pub profile: Option<String>,
    /// How it ended.
    pub ended: TaskEnd,
    /// Its last message.
    pub text: String,
    /// Number of model responses.
    pub steps: usize,
    /// Number of tokens, of requests and responses together.
    pub tokens: u64,
    /// Their price in dollars, where it is known.
    pub cost: Option<f64>,
    /// How long it took.
    pub took: Duration,
    /// Notes, one line each.
    pub notes: Vec<String>,
}

/// The end of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskEnd {
    /// The agent finished.
    Completed,
    /// It reached this limit.
    Limit(String),
}

/// A question to the person.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Question {
    /// The question.
    pub text: String,
    /// Answers to choose from; the person may always answer otherwise.
    pub options: Vec<String>,
    /// How long to wait for the answer; without limit if `None`.
    pub within: Option<Duration>,
}

/// A session without an agent.
pub struct NoAgent;

fn none<T>() -> Result<T, Fault> {
    Err(Fault::new(
        crate::Kind::Unavailable,
        "there is no agent here: the tools were called by somebody else's",
    )
    .next("`haft run` and `haft chat` are agents."))
}

impl Agents for NoAgent {
    fn profiles(&self) -> Profiles {
        Profiles::default()
    }

    fn switch(&self, _: &str) -> Result<String, Fault> {
        none()
    }

    fn delegate<'a>(&'a self, _: Task, _: &'a Cx) -> Soon<'a, Result<Report, Fault>> {
        Box::pin(std::future::ready(none()))
    }

    fn ask<'a>(&'a self, _: Question, _: &'a Cx) -> Soon<'a, Result<String, Fault>> {
        Box::pin(std::future::ready(none()))
    }

    fn think<'a>(&'a self, _: &'a str, _: &'a str) -> Soon<'a, Result<String, Fault>> {
        Box::pin(std::future::ready(none()))
    }
}
