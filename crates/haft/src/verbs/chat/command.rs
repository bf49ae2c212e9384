//! What does a slash command do?

use std::sync::Arc;

use agent::{Agent, Crew, profiles::PLAN};
use kit::Fault;
use runtime::{Call, changes::Bound};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::Talk;
use crate::{
    terminal::{
        commands::COMMANDS,
        diff,
        row::{Row, Style},
        short,
    },
    verbs::run::bill,
};

/// So many conversations are listed.
const LISTED: usize = 15;

impl Talk {
    /// Does it; gives what there is to say.
    pub(super) async fn command(&mut self, name: &str, given: &str) -> Result<String, Fault> {
        match name {
            "/help" => Ok(help()),
            "/model" => self.model(given),
            "/profile" => self.profile(given),
            "/plan" => self.plan(),
            "/tools" => Ok(self.tools()),
            "/jobs" => self.by_tool("jobs").await,
            "/undo" => self.by_tool("undo").await,
            "/cost" => Ok(self.cost()),
            "/sessions" => self.sessions(),
            "/resume" => {
                let name = if given.is_empty() { self.newest_other()? } else { given.to_owned() };
                self.go_on(Some(&name)).await
            }
            "/new" | "/clear" => self.go_on(None).await,
            other => Err(Fault::bug(format!("{other} is not done here"))),
        }
    }

    fn model(&mut self, named: &str) -> Result<String, Fault> {
        if named.is_empty() {
            let model = self.agent.steering().model();
            return Ok(format!("{}; /model NAME goes on with another", model.name()));
        }
        let model = self.agency.model(named)?;
        let said = format!("{} answers from now on", model.name());
        self.agent.steering().set_model(model);
        Ok(said)
    }

    /// Goes on under another profile, or without one; a model that was chosen with `/model` stays without one.
    fn profile(&mut self, named: &str) -> Result<String, Fault> {
        let crew = crew(&self.agent)?;
        if !named.is_empty() {
            return crew.begin(Some(named).filter(|it| *it != "none"), true);
        }
        let (known, current) = (crew.known(), crew.profile());
        let lines = known.profiles.iter().map(|it| {
            let mark = if current.as_deref() == Some(it.name.as_str()) { " (this one)" } else { "" };
            format!("{}{mark}: {}", it.name, short::line(&it.description, 100))
        });
        let broken = known.broken.iter().map(|it| format!("! {it}"));
        let mut lines: Vec<String> = lines.chain(broken).collect();
        lines.push("/profile NAME goes on under one, /profile none without".to_owned());
        Ok(lines.join("\n"))
    }

    fn plan(&mut self) -> Result<String, Fault> {
        let crew = crew(&self.agent)?;
        let on = crew.profile().as_deref() != Some(PLAN);
        crew.begin(on.then_some(PLAN), true)?;
        let says = if on { "plan mode: nothing is changed; /plan ends it" } else { "plan mode is over" };
        Ok(says.to_owned())
    }

    fn tools(&self) -> String {
        let catalog = self.agent.session().catalog();
        let lines = catalog.specs().map(|spec| {
            let first = spec.description.lines().next().unwrap_or_default();
            format!("{}: {}", spec.name, short::line(first, 100))
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Has a tool of the session answer, as if the model had called it.
    async fn by_tool(&mut self, tool: &str) -> Result<String, Fault> {
        let session = self.agent.session().clone();
        if !session.catalog().has(tool) {
            return Err(Fault::not_found(format!("this session has no `{tool}`")));
        }
        let cancel = CancellationToken::new();
        let cancel_call = cancel.child_token();
        let call = Call { cancel: cancel_call, by_person: true, ..Call::new(tool, json!({})) };
        let answer = self.front.attend(session.call(call), &cancel).await;
        let changes = session.runtime().changes(&answer.changes, Bound::default());
        let diffs = diff::rows(&changes, 2, self.front.columns(), diff::SHOWN, "haft log --diff shows all");
        self.front.show(&diffs);
        Ok(answer.as_text())
    }

    fn cost(&self) -> String {
        let taken = *self.host.taken.lock();
        let more = if taken.unpriced { ", and what has no known price" } else { "" };
        format!("{}{more}", bill(taken.answers, &taken.usage, Some(taken.cost)))
    }

    fn conversations(&self) -> Result<Vec<(String, u64)>, Fault> {
        let store = self.agency.opened.runtime.store();
        let all = store.sessions().list()?;
        let of_agents =
            all.into_iter().filter(|it| matches!(it.door.as_str(), "chat" | "run") && !it.id.contains('/'));
        Ok(of_agents.map(|it| (it.id, it.used_ms)).collect())
    }

    fn sessions(&self) -> Result<String, Fault> {
        let mut lines = Vec::new();
        for (id, used_ms) in self.conversations()?.into_iter().take(LISTED) {
            let at = jiff::Timestamp::from_millisecond(used_ms.cast_signed())
                .map(|at| at.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string())
                .unwrap_or_default();
            let here = if id == self.agent.session().name() { " (this one)" } else { "" };
            lines.push(format!("{id}  {at}{here}"));
        }
        lines.push("/resume NAME goes on with one".to_owned());
        Ok(lines.join("\n"))
    }

    fn newest_other(&self) -> Result<String, Fault> {
        let here = self.agent.session().name().to_owned();
        let other = self.conversations()?.into_iter().find(|it| it.0 != here);
        other.map(|it| it.0).ok_or_else(|| Fault::not_found("this workspace has no other conversation"))
    }

    /// Goes on with another conversation, or begins a new one.
    async fn go_on(&mut self, name: Option<&str>) -> Result<String, Fault> {
        if let Some(name) = name
            && !self.conversations()?.iter().any(|it| it.0 == name)
        {
            return Err(
                Fault::not_found(format!("there is no conversation `{name}`")).next("/sessions lists them.")
            );
        }
        let session = self.agency.session(name, "chat", Arc::new(self.asks.clone()));
        let person = Arc::new(self.asks.clone());
        let (agent, lines) = self.agency.agent(session, self.host.clone(), person)?;
        let before = std::mem::replace(&mut self.agent, agent);
        // What it has seen is kept, and its jobs end, as when the chat does.
        before.session().end().await;
        before.session().keep()?;
        *self.host.taken.lock() = super::Taken::default();
        self.front.show(&[Row::new("", Style::PLAIN)]);
        lines.iter().for_each(|it| self.front.tell(it, Style::DIM));
        self.begin();
        Ok(String::new())
    }
}

/// By what a person steers an agent.
fn crew(agent: &Agent) -> Result<&Crew, Fault> {
    agent.crew().ok_or_else(|| Fault::bug("an agent without profiles"))
}

fn help() -> String {
    let commands = COMMANDS
        .iter()
        .map(|(name, takes, does)| format!("{} : {does}", format!("{name} {takes}").trim_end()));
    let keys = [
        "Alt-Enter, Ctrl-J or a backslash at the end of the line: a line break",
        "Tab: completes commands, and files after @",
        "Esc or Ctrl-C: stops the agent; Ctrl-C at the prompt clears the line; Ctrl-D ends",
    ];
    commands.chain(keys.iter().map(|it| (*it).to_owned())).collect::<Vec<_>>().join("\n")
}
