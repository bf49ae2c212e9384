//! Access to the calling agent, and to subagents.

use std::time::Duration;

use super::Soon;
use crate::{Cx, Fault};

/// The agent that a session belongs to.
pub trait Agents: Send + Sync {
    /// The profiles there are, in their order. May block.
    fn profiles(&self) -> Profiles;

    /// Goes on under another profile, from the model's next answer on. Gives what that changes.
    ///
    /// # Errors
    /// [`Kind::NotFound`](crate::Kind::NotFound) with the names there are, and what the profile asks for and can't have.
    fn switch(&self, profile: &str) -> Result<String, Fault>;

    /// Has another agent do this, on its own, and gives what it said in the end. It stops with the call of `cx`.
    ///
    /// # Errors
    /// When there is no such profile, agents may not start agents here, or its model fails.
    fn delegate<'a>(&'a self, task: Task, cx: &'a Cx) -> Soon<'a, Result<Report, Fault>>;

    /// Asks the person, and waits for the answer.
    ///
    /// # Errors
    /// [`Kind::Unavailable`](crate::Kind::Unavailable) when there is nobody to ask,
    /// [`Kind::Timeout`](crate::Kind::Timeout) when nobody answered in time.
    fn ask<'a>(&'a self, question: Question, cx: &'a Cx) -> Soon<'a, Result<String, Fault>>;

    /// Shows the person a text, without waiting for an answer.
    ///
    /// # Errors
    /// [`Kind::Unavailable`](crate::Kind::Unavailable) when there is nobody to see it.
    fn show<'a>(&'a self, _text: String, _cx: &'a Cx) -> Soon<'a, Result<(), Fault>> {
        Box::pin(std::future::ready(none()))
    }

    /// One answer of the agent's model to `prompt`, without tools and apart from the conversation.
    ///
    /// # Errors
    /// When the model fails.
    fn think<'a>(&'a self, system: &'a str, prompt: &'a str) -> Soon<'a, Result<String, Fault>>;

    /// How its model writes calls: `native`, or the name of a dialect.
    fn tool_format(&self) -> &'static str {
        "native"
    }

    /// A text that the agent has under this name, in the way of a tool's manual: a skill of its person's. Blocks.
    fn manual(&self, _name: &str) -> Option<String> {
        None
    }
}

/// The profiles there are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Profiles {
    /// Those that can be used, in their order.
    pub known: Vec<ProfileInfo>,
    /// What is wrong with others, one line each.
    pub aside: Vec<String>,
}

/// A profile, in a list of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileInfo {
    /// Its name.
    pub name: String,
    /// What a person calls it.
    pub title: String,
    /// What it is for.
    pub description: String,
    /// It is the one under which the agent goes on now.
    pub current: bool,
}

/// What another agent is to do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Task {
    /// Under which profile; without one, under that of who asks.
    pub profile: Option<String>,
    /// What to do.
    pub prompt: String,
    /// What it should know beforehand.
    pub briefing: Option<String>,
    /// The system prompt, in place of the one in the profile.
    pub system: Option<String>,
    /// The profile's prompt is kept before `system`.
    pub keep_system: bool,
    /// At most so many answers of the model.
    pub steps: Option<usize>,
    /// At most so long.
    pub time: Option<Duration>,
    /// At most so many tokens.
    pub tokens: Option<u64>,
}

/// What came of a task.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Who did it: `explore_1f3a`.
    pub agent: String,
    /// Under which profile, if it had one.
    pub profile: Option<String>,
    /// How it ended.
    pub ended: TaskEnd,
    /// What it said last.
    pub text: String,
    /// How many answers of the model it took.
    pub steps: usize,
    /// How many tokens, of requests and answers together.
    pub tokens: u64,
    /// What they cost, in dollars, where that is known.
    pub cost: Option<f64>,
    /// How long it took.
    pub took: Duration,
    /// What should be known besides, one line each.
    pub notes: Vec<String>,
}

/// How a task ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskEnd {
    /// The agent said what it had to say.
    Completed,
    /// It came to a limit: this one.
    Limit(String),
}

/// What a person is asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Question {
    /// The question.
    pub text: String,
    /// Answers to choose from; the person may always say something else.
    pub options: Vec<String>,
    /// How long the answer is waited for; for ever, if this is not given.
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
