//! What does a slash command do?

use kit::Fault;
use runtime::Call;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::Talk;
use crate::{
    terminal::{
        commands::COMMANDS,
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
            return Ok(format!("{}; /model NAME goes on with another", self.agent.model().name()));
        }
        let model = self.agency.model(Some(named))?;
        let said = format!("{} answers from now on", model.name());
        let session = self.agent.session().clone();
        self.agent = self.agency.agent(session, model, self.host.clone())?;
        Ok(said)
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
        let call = Call { cancel: cancel.child_token(), ..Call::new(tool, json!({})) };
        let answer = self.front.attend(session.call(call), &cancel).await;
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
        let session = self.agency.session(name, "chat", std::sync::Arc::new(self.asks.clone()));
        let agent = self.agency.agent(session, self.agent.model().clone(), self.host.clone())?;
        let before = std::mem::replace(&mut self.agent, agent);
        // What it has seen is kept, and its jobs end, as when the chat does.
        before.session().end().await;
        before.session().keep()?;
        *self.host.taken.lock() = super::Taken::default();
        self.front.show(&[Row::new("", Style::PLAIN)]);
        self.begin();
        Ok(String::new())
    }
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
