//! The person and the model behind haft in the suite: the person approves everything, and the model returns a
//! fixed text.

use std::{future::Future, pin::Pin};

use kit::{
    Cx, Fault,
    effect::Scope,
    services::{Agents, Profiles, Question, Report, Soon, Task},
};
use runtime::{Approver, Request, Verdict};

/// The person, who approves calls and answers questions.
pub(crate) struct Agreeable;

impl Approver for Agreeable {
    fn approve(&self, _: Request) -> Pin<Box<dyn Future<Output = Verdict> + Send + '_>> {
        Box::pin(std::future::ready(Verdict::Yes(Scope::Once)))
    }
}

impl Agents for Agreeable {
    fn profiles(&self) -> Profiles {
        Profiles::default()
    }

    fn switch(&self, _: &str) -> Result<String, Fault> {
        Err(Fault::bug("there are no profiles here"))
    }

    fn delegate<'a>(&'a self, _: Task, _: &'a Cx) -> Soon<'a, Result<Report, Fault>> {
        Box::pin(std::future::ready(Err(Fault::bug("there are no agents here"))))
    }

    /// Returns the defaults of a form; without any, the first option.
    fn ask<'a>(&'a self, question: Question, _: &'a Cx) -> Soon<'a, Result<String, Fault>> {
        let defaults = question.options.iter().find(|it| *it == "Take the defaults");
        let answer = defaults.or_else(|| question.options.first()).cloned().unwrap_or_default();
        Box::pin(std::future::ready(Ok(answer)))
    }

    fn think<'a>(&'a self, _: &'a str, _: &'a str) -> Soon<'a, Result<String, Fault>> {
        Box::pin(std::future::ready(Ok("Whatever you say.".to_owned())))
    }
}
