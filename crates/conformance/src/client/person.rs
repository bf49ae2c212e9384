//! Who is behind haft while the suite plays: a person who says yes, and a model that says something.

use std::{future::Future, pin::Pin};

use kit::{
    Cx, Fault,
    effect::Scope,
    services::{Agents, Profiles, Question, Report, Soon, Task},
};
use runtime::{Approver, Request, Verdict};

/// The person, as what approves calls and as what answers questions.
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

    /// The defaults, where a form has them; else the first of what is offered.
    fn ask<'a>(&'a self, question: Question, _: &'a Cx) -> Soon<'a, Result<String, Fault>> {
        let defaults = question.options.iter().find(|it| *it == "Take the defaults");
        let answer = defaults.or_else(|| question.options.first()).cloned().unwrap_or_default();
        Box::pin(std::future::ready(Ok(answer)))
    }

    fn think<'a>(&'a self, _: &'a str, _: &'a str) -> Soon<'a, Result<String, Fault>> {
        Box::pin(std::future::ready(Ok("Whatever you say.".to_owned())))
    }
}
