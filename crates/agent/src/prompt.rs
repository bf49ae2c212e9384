//! The system prompt: builds its sections, and estimates the cost of each.

mod cost;
mod project_instructions;
mod subagents;
mod user_instructions;

use std::{borrow::Cow, path::Path, sync::Arc};

use jiff::civil::Date;
use kit::{Hint, Origin, Spec};
use runtime::{Runtime, Session};

use crate::{
    profiles::{self, Known as Profiles, Profile},
    skills::Known as Skills,
};

pub use cost::{Bill, Cost};
pub use project_instructions::Project;
use user_instructions::Own;

/// The tool that starts a subagent by its id.
const STARTS: &str = "subagent";

const BASE: &str = include_str!("../prompts/base.md");

/// A system prompt, in sections. The same inputs give the same text, so that a provider can cache it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// The sections, in the order in which they are sent.
    pub sections: Vec<Section>,
}

/// A section of a system prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// The kind: `base`, `tools`, `hints`, `tool files`, `subagents`, `skills`, `own`, `project`, `profile`,
    /// `environment`.
    pub name: &'static str,
    /// The text.
    pub text: String,
}

/// A system prompt as it is sent, with the size of each section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct System {
    text: Arc<str>,
    sections: Arc<[(&'static str, usize)]>,
}

impl System {
    /// Returns the text as it is sent.
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// Returns the bytes of the sections of this name.
    pub(crate) fn bytes_of(&self, name: &str) -> usize {
        self.sections.iter().filter(|it| it.0 == name).map(|it| it.1).sum()
    }
}

impl From<&Prompt> for System {
    fn from(prompt: &Prompt) -> Self {
        let sections = prompt.sections.iter().map(|it| (it.name, it.text.len()));
        Self { text: prompt.text().into(), sections: sections.collect() }
    }
}

impl From<Arc<str>> for System {
    fn from(text: Arc<str>) -> Self {
        Self { text, sections: Arc::new([]) }
    }
}

impl From<&str> for System {
    fn from(text: &str) -> Self {
        Arc::<str>::from(text).into()
    }
}

impl From<String> for System {
    fn from(text: String) -> Self {
        Arc::<str>::from(text).into()
    }
}

/// The inputs that the prompts of all agents of a runtime share. They don't change while it runs.
#[derive(Clone)]
pub struct Makings {
    hint: fn(&str) -> Option<Hint>,
    own: Arc<Own>,
    project: Option<Arc<Project>>,
    skills: Arc<Skills>,
    /// The catalog of subagents, where no tool lists them.
    subagents: Arc<str>,
    environment: Arc<str>,
}

impl Makings {
    /// Reads the workspace, once. `hint` returns the hint of a tool. Blocks.
    pub fn of(runtime: &Runtime, hint: fn(&str) -> Option<Hint>) -> Self {
        let environment = environment(runtime.roots().workspace(), jiff::Zoned::now().date());
        let (own, project) = (Arc::new(Own::read(runtime)), Project::read(runtime).map(Arc::new));
        let (skills, subagents) = (Arc::default(), "".into());
        Self { hint, own, project, skills, subagents, environment: environment.into() }
    }

    /// Adds skills for the agents.
    #[must_use]
    pub fn with_skills(self, skills: Skills) -> Self {
        Self { skills: Arc::new(skills), ..self }
    }

    /// Adds a catalog of these subagents, for agents that can start some.
    #[must_use]
    pub fn with_subagents(self, known: &Profiles) -> Self {
        Self { subagents: subagents::catalog(known).into(), ..self }
    }

    /// Returns notices for the person about the inputs, one line each.
    pub fn notes(&self) -> impl Iterator<Item = &str> {
        let broken = self.skills.broken.iter().map(String::as_str);
        self.own.note().into_iter().chain(broken)
    }

    /// Returns the prompt of an agent with the tools that this session lists now, under this profile.
    pub fn prompt(&self, session: &Session, profile: Option<&Profile>) -> Prompt {
        let catalog = session.catalog();
        let specs: Vec<&Spec> = catalog.listed().collect();
        let mut prompt = Prompt { sections: Vec::new() };
        prompt.add("base", BASE);
        prompt.add("tools", &list(&specs));
        // A tool file with the name of a built-in tool replaces that tool.
        let ours = specs.iter().filter(|it| !matches!(it.origin, Origin::File(_)));
        prompt.add("hints", &kit::hints(ours.map(|it| it.name.as_str()), self.hint).join("\n"));
        let contributed = session.runtime().plugins().contributions(specs.iter().map(|it| it.name.as_str()));
        prompt.add("tool files", &session.runtime().masked(&contributed.join("\n")));
        if catalog.has(STARTS) {
            prompt.add("subagents", &session.runtime().masked(&self.subagents));
        }
        let reader = catalog.stand_in("info").map(|it| it.name.as_str());
        prompt.add("skills", &session.runtime().masked(&self.skills.listing(reader)));
        prompt.add("own", &self.own.section());
        prompt.add("project", &self.project.as_ref().map(|it| it.section()).unwrap_or_default());
        if let Some(profile) = profile {
            // Prompts of the program refer to tools by placeholders, as each toolset has other names.
            let text = match profile.origin {
                profiles::Origin::Program => catalog.named(&profile.prompt),
                profiles::Origin::Person(_) | profiles::Origin::Workspace(_) => {
                    Cow::Borrowed(profile.prompt.as_str())
                }
            };
            prompt.add("profile", &text);
        }
        prompt.add("environment", &self.environment);
        prompt
    }
}

impl Prompt {
    fn add(&mut self, name: &'static str, text: &str) {
        let text = text.trim();
        if !text.is_empty() {
            self.sections.push(Section { name, text: text.to_owned() });
        }
    }

    /// Returns the whole text, as it is sent.
    pub fn text(&self) -> String {
        self.sections.iter().map(|it| it.text.as_str()).collect::<Vec<_>>().join("\n\n")
    }

    /// Adds the part of `told`, the prompt as a model gets it, that a dialect appends: the instructions on
    /// calls.
    #[must_use]
    pub fn with_dialect(mut self, told: &str) -> Self {
        if let Some(more) = told.strip_prefix(&self.text()) {
            self.add("dialect", more);
        }
        self
    }

    /// Returns the cost of the prompt together with these tools.
    pub fn bill<'a>(&self, tools: impl IntoIterator<Item = &'a Spec>) -> Bill {
        Bill::of(self, tools)
    }
}

/// Returns one line for each tool.
fn list(specs: &[&Spec]) -> String {
    if specs.is_empty() {
        return "You have no tools.".to_owned();
    }
    let lines = specs.iter().map(|it| format!("\n- {}: {}", it.name, it.gist()));
    format!("Your tools:{}", lines.collect::<String>())
}

/// Returns the section on the environment: the date without the time, and nothing that the agent's work
/// changes, so that it stays the same.
fn environment(workspace: &Path, day: Date) -> String {
    format!("Workspace: {}\nSystem: {}\nToday: {day}", workspace.display(), std::env::consts::OS)
}

#[cfg(test)]
mod tests;
