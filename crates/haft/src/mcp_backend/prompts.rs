//! MCP prompts: a tool's manual, and a profile.
//!
//! There are two prompts, however many tools and profiles exist: an argument, with completion, selects one.

use kit::{Fault, Part};
use serve::{Blank, Line, Prompt, Speaker};

use super::{McpBackend, in_brief};
use crate::verbs::manual;

/// Returns all prompts.
pub(super) fn all() -> Vec<Prompt> {
    let blank = |name: &str, description: &str, required| Blank {
        name: name.to_owned(),
        description: description.to_owned(),
        required,
    };
    vec![
        Prompt {
            name: "manual".to_owned(),
            description: "Have the model read the manual of a tool before it uses it.".to_owned(),
            arguments: vec![blank("tool", "Its name.", true)],
        },
        Prompt {
            name: "profile".to_owned(),
            description: "Have the model work as a profile says, such as `plan` or one of .haft/agents."
                .to_owned(),
            arguments: vec![
                blank("name", "The profile's name.", true),
                blank("task", "What is to be done.", false),
            ],
        },
    ]
}

impl McpBackend {
    /// Returns a prompt with its arguments in place. Blocks.
    pub(super) fn fill(&self, name: &str, arguments: &[(String, String)]) -> Result<Vec<Line>, Fault> {
        let prompts = all();
        let Some(prompt) = prompts.iter().find(|it| it.name == name) else {
            let all: Vec<&str> = prompts.iter().map(|it| it.name.as_str()).collect();
            return Err(Fault::not_found(format!("there is no prompt `{}`", in_brief(name)))
                .next(format!("The prompts are: {}.", all.join(", "))));
        };
        if let Some((other, _)) =
            arguments.iter().find(|(given, _)| !prompt.arguments.iter().any(|it| it.name == *given))
        {
            let takes: Vec<&str> = prompt.arguments.iter().map(|it| it.name.as_str()).collect();
            return Err(Fault::bad_args(format!("`{name}` takes no `{}`", in_brief(other))).next(
                match takes.as_slice() {
                    [] => "It takes no arguments.".to_owned(),
                    takes => format!("It takes: {}.", takes.join(", ")),
                },
            ));
        }
        let given = |argument: &str| {
            let value = arguments.iter().find(|(given, _)| given == argument).map(|(_, value)| value.trim());
            value.filter(|it| !it.is_empty())
        };
        if let Some(missing) = prompt.arguments.iter().find(|it| it.required && given(&it.name).is_none()) {
            let what = format!("`{name}` needs `{}`", missing.name);
            return Err(Fault::bad_args(what).next("`completion/complete` names what there is."));
        }
        let text = match name {
            "manual" => self.manual(given("tool").unwrap_or_default())?,
            _ => self.profile(given("name").unwrap_or_default(), given("task"))?,
        };
        Ok(vec![Line { by: Speaker::Person, part: Part::Text { text: self.shown(&text) } }])
    }

    /// Returns the possible values of a prompt's argument.
    pub(super) fn values(&self, prompt: &str, argument: &str) -> Vec<String> {
        match (prompt, argument) {
            ("manual", "tool") => self.session.catalog().specs().map(|it| it.name.clone()).collect(),
            ("profile", "name") => {
                self.profiles.read().profiles.iter().map(|profile| profile.name.clone()).collect()
            }
            _ => Vec::new(),
        }
    }

    fn manual(&self, tool: &str) -> Result<String, Fault> {
        let catalog = self.session.catalog();
        let Some(spec) = catalog.get(tool).map(|it| it.spec()) else {
            let all: Vec<&str> = catalog.specs().map(|spec| spec.name.as_str()).collect();
            return Err(Fault::not_found(format!("there is no tool `{}`", in_brief(tool))).next(
                match all.as_slice() {
                    [] => "This session has no tools.".to_owned(),
                    all => format!("The tools are: {}.", all.join(", ")),
                },
            ));
        };
        let manual = manual::whole(self.session.runtime(), &self.toolset, spec);
        Ok(format!("This is the manual of the tool `{tool}`; use it as it says.\n\n{manual}"))
    }

    fn profile(&self, name: &str, task: Option<&str>) -> Result<String, Fault> {
        let profile = self.profiles.read().find(name)?;
        let mut text =
            format!("From now on, work as the profile `{name}` says.\n\n{}\n", profile.prompt.trim());
        if profile.read_only {
            text.push_str("\nChange nothing: this profile only reads.\n");
        }
        if let Some(task) = task {
            text.push_str(&format!("\nThe task:\n{task}\n"));
        }
        Ok(text)
    }
}
