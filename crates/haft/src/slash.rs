//! Own slash commands and skills in a conversation: `/NAME ...` becomes the text that its file holds, for one turn.
//!
//! The line stays as the person typed it; the file's text is attached to it. The text of an untrusted workspace is
//! shown to the person before it can be sent as theirs.

use std::sync::Arc;

use agent::{
    Agent, Input, Narrowed,
    model::{Model, Piece},
    profiles::Origin,
    skills::Skill,
    slash::Command,
};
use kit::Fault;

use crate::{
    Opened,
    agent_factory::AgentFactory,
    terminal::commands::{Meant, meant},
};

/// The maximum number of lines of an untrusted file that are shown before it is sent.
const SHOWN: usize = 12;

/// A slash command or a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Own {
    Command(Arc<Command>),
    Skill(Arc<Skill>),
}

/// All commands and skills from files, as they are now.
#[derive(Debug, Clone, Default)]
pub(crate) struct All {
    pub(crate) own: Vec<Own>,
    /// The files that can't be used, one line each.
    pub(crate) broken: Vec<String>,
}

/// Settings that change for one turn, with their earlier values.
#[must_use]
pub(crate) struct ForOneTurn {
    model: Option<(Arc<dyn Model>, Arc<dyn Model>)>,
    narrowed: Option<Narrowed>,
}

impl All {
    /// Reads all commands and skills. Blocks.
    pub(crate) fn read(opened: &Opened) -> Self {
        let (commands, skills) = (opened.slash.read(), opened.skills.read());
        let mut own: Vec<Own> = commands.commands.into_iter().map(Own::Command).collect();
        for skill in skills.skills {
            if !own.iter().any(|it| it.name() == skill.name) {
                own.push(Own::Skill(skill));
            }
        }
        Self { own, broken: [commands.broken, skills.broken].concat() }
    }

    /// Returns the command that a task calls, and the text after its name; `None` if it is not a call. During a task, a
    /// person can't review untrusted text, so that is refused.
    ///
    /// # Errors
    /// When the task begins with `/` and a name that is unknown, that is a command of the chat, or that is not trusted.
    pub(crate) fn called<'a>(&'a self, task: &'a str) -> Result<Option<(&'a Own, &'a str)>, Fault> {
        let names: Vec<String> = self.own.iter().map(|it| it.name().to_owned()).collect();
        let as_text = "A blank before the `/` makes it text.";
        match meant(task, &names) {
            Meant::Own(name, given) => match self.find(name) {
                Some(own) if !own.is_trusted() => Err(own.unseen("`--trust` trusts it for this run.")),
                own => Ok(own.map(|own| (own, given))),
            },
            Meant::Command(name, _) => Err(Fault::bad_args(format!("`{name}` is a command of `haft chat`"))
                .next(format!("Type it there. {as_text}"))),
            Meant::Leave if task.trim_start().starts_with('/') => {
                Err(Fault::bad_args(format!("`{}` is a command of `haft chat`", task.trim())).next(as_text))
            }
            Meant::Unknown(typed, nearest) => {
                let near = names.iter().any(|it| nearest.strip_prefix('/') == Some(it));
                let near = if near { format!("Did you mean {nearest}? ") } else { String::new() };
                Err(Fault::bad_args(format!("unknown command {typed}")).next(format!("{near}{as_text}")))
            }
            _ => Ok(None),
        }
    }

    /// Returns the command or skill of this name.
    pub(crate) fn find(&self, name: &str) -> Option<&Own> {
        self.own.iter().find(|it| it.name() == name)
    }
}

impl Own {
    /// Returns the name, without the `/`.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Command(it) => &it.name,
            Self::Skill(it) => &it.name,
        }
    }

    /// Returns a hint of the arguments.
    pub(crate) fn takes(&self) -> &str {
        match self {
            Self::Command(it) => &it.takes,
            Self::Skill(_) => "[TASK]",
        }
    }

    /// Returns the description, and the source.
    pub(crate) fn does(&self) -> String {
        let (does, what) = match self {
            Self::Command(it) => (&it.description, "yours"),
            Self::Skill(it) => (&it.description, "your skill"),
        };
        let whose = match (self, self.origin()) {
            (Self::Skill(_), Origin::Workspace(_)) => "project skill",
            (Self::Command(_), Origin::Workspace(_)) => "project",
            _ => what,
        };
        format!("{does} ({whose})")
    }

    pub(crate) fn origin(&self) -> &Origin {
        match self {
            Self::Command(it) => &it.origin,
            Self::Skill(it) => &it.origin,
        }
    }

    pub(crate) fn is_trusted(&self) -> bool {
        match self {
            Self::Command(it) => it.trusted,
            Self::Skill(it) => it.trusted,
        }
    }

    /// Returns notes on ignored parts of its file, one line each.
    pub(crate) fn notes(&self) -> &[String] {
        match self {
            Self::Command(it) => &it.notes,
            Self::Skill(_) => &[],
        }
    }

    fn body(&self) -> &str {
        match self {
            Self::Command(it) => &it.body,
            Self::Skill(it) => &it.body,
        }
    }

    /// Returns the text in which files may be mentioned: a command's text, or only the words after a skill's name.
    pub(crate) fn names_files(&self, given: &str) -> String {
        match self {
            Self::Command(it) => it.filled(given),
            Self::Skill(_) => given.to_owned(),
        }
    }

    /// Returns the error of an untrusted text that the person has not seen, with its beginning.
    pub(crate) fn unseen(&self, again: &str) -> Fault {
        let lines: Vec<&str> = self.body().lines().collect();
        let mut text = lines.iter().take(SHOWN).map(|it| format!("  | {it}\n")).collect::<String>();
        if lines.len() > SHOWN {
            text.push_str(&format!("  | … and {} more lines\n", lines.len() - SHOWN));
        }
        let what = format!(
            "`/{}` is a file of this workspace, which you have not trusted: {}. It would tell the model:\n{text}",
            self.name(),
            self.origin().shown()
        );
        Fault::denied(what.trim_end()).next(format!("{again} `haft trust` trusts the workspace."))
    }

    /// Attaches its text to a line that calls it, and applies its settings for one turn.
    ///
    /// # Errors
    /// When its model or its tools are unavailable, or it is too long; then nothing changes.
    pub(crate) fn begin(
        &self,
        given: &str,
        input: &mut Input,
        factory: &AgentFactory,
        agent: &Agent,
    ) -> Result<ForOneTurn, Fault> {
        let masked = |text: &str| agent.session().runtime().masked(text).into_owned();
        let mut turn = ForOneTurn { model: None, narrowed: None };
        match self {
            Self::Skill(skill) => {
                let told =
                    format!("The person's next line calls this skill. Follow it.\n{}", skill.prompt_text());
                input.attach(format!("skill {}", skill.name), vec![Piece::text(masked(&told))]);
            }
            Self::Command(command) => {
                let told = command.prompt_text(given).map_err(Fault::bad_args)?;
                let model = command.model.as_deref().map(|name| factory.model(name)).transpose();
                let model = model.map_err(|fault| Fault {
                    what: format!("the model of `/{}` is unavailable: {}", command.name, fault.what),
                    ..fault
                })?;
                if let (Some(tools), Some(crew)) = (&command.tools, agent.crew()) {
                    turn.narrowed = Some(crew.narrow(tools)?);
                }
                if let Some(model) = model {
                    let before = agent.steering().model();
                    agent.steering().set_model(model.clone());
                    turn.model = Some((before, model));
                }
                input.attach(format!("command {}", command.origin.shown()), vec![Piece::text(masked(&told))]);
            }
        }
        Ok(turn)
    }
}

impl ForOneTurn {
    /// Restores the earlier settings, unless somebody changed them meanwhile.
    ///
    /// # Errors
    /// When the earlier profile of the model is gone.
    pub(crate) fn end(self, agent: &Agent) -> Result<(), Fault> {
        if let Some((before, during)) = self.model
            && Arc::ptr_eq(&agent.steering().model(), &during)
        {
            agent.steering().set_model(before);
        }
        match (self.narrowed, agent.crew()) {
            (Some(narrowed), Some(crew)) => crew.widen(narrowed),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn all(trusted: bool) -> All {
        let command = Command {
            name: "review".to_owned(),
            description: "Review".to_owned(),
            takes: String::new(),
            model: None,
            tools: None,
            body: (0..20).map(|it| format!("line {it}\n")).collect(),
            origin: Origin::Workspace(".haft/commands/review.md".to_owned()),
            trusted,
            notes: Vec::new(),
        };
        All { own: vec![Own::Command(Arc::new(command))], broken: Vec::new() }
    }

    #[test]
    fn a_task_may_call_a_command_and_nothing_else_with_a_slash() {
        let all = all(true);
        let called = |task| all.called(task).map(|it| it.map(|it| it.1.to_owned()));
        assert_eq!(called("/review src").unwrap().as_deref(), Some("src"));
        assert_eq!(called("fix /review").unwrap(), None);
        assert_eq!(called("/etc/hosts is wrong").unwrap(), None);
        assert_eq!(called(" /plan is a word").unwrap(), None);
        assert_eq!(called("exit").unwrap(), None);
        for task in ["/plan", "/quit", "/revew x", "/"] {
            assert!(called(task).is_err(), "{task}");
        }
        assert!(called("/revew x").unwrap_err().as_text().contains("Did you mean /review?"));
    }

    #[test]
    fn text_that_is_not_trusted_is_shown_and_not_sent() {
        let fault = all(false).called("/review").unwrap_err();
        assert!(fault.what.contains("  | line 11\n  | … and 8 more lines"), "{}", fault.what);
        assert!(fault.next.unwrap().contains("--trust"));
    }
}
