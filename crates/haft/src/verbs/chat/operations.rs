//! Operations that attached processes request on the session of a chat: prompts, undo, rewind and others.

use kit::Fault;
use serde_json::Value;
use sessions::{Began, Doer, Event, Operation, Pending, Prompt, begin, check_pictures};
use tokio_util::sync::CancellationToken;

use super::{command::here, conversation::Conversation, front_end::Face, report};
use crate::{
    attach,
    session_service::{self, Inputs},
    terminal::{abbreviate, row::Style},
};

impl<F: Face> Conversation<F> {
    /// Executes an operation that an attached process requests, and shows it to the person here.
    pub(super) async fn asked(&mut self, pending: Pending) {
        let Some(pending) = begin(pending, &self.agent).await else { return };
        let by = pending.by().to_owned();
        let result = match pending.operation().clone() {
            Operation::Prompt(prompt) => self.prompted(&pending, prompt).await,
            Operation::Rename { title } => self.renamed(&title, &by),
            Operation::Model { name } => self.model(&name).map(|said| self.told(&by, &said)),
            Operation::Profile { name } => {
                let name = name.unwrap_or_else(|| "none".to_owned());
                self.profile(&name).map(|said| self.told(&by, &said))
            }
            Operation::Close => {
                self.closed = Some(by);
                Ok(Value::Null)
            }
            operation => {
                self.announce(&operation, &by);
                let result = self.change(&pending).await;
                if let Ok(value) = &result {
                    self.report(&operation, &by, value);
                }
                result
            }
        };
        pending.finish(result).await;
        self.kept();
        self.offer();
    }

    /// Does an operation that begins no turn.
    async fn change(&mut self, pending: &Pending) -> Result<Value, Fault> {
        let records = session_service::records(&self.factory.opened.runtime);
        let cancel = CancellationToken::new();
        let owner = &self.owner;
        let mut doer = Doer {
            owner,
            agent: &mut self.agent,
            driver: &mut self.driver,
            opener: &Inputs,
            records: Some(&*records),
            outputs: &mut self.beside,
        };
        let work = async {
            let work = doer.change(pending);
            tokio::pin!(work);
            tokio::select! {
                biased;
                done = &mut work => done,
                () = cancel.cancelled() => {
                    owner.cancel();
                    work.await
                }
            }
        };
        self.face.attend(self.view.after(work), &cancel).await
    }

    fn announce(&mut self, operation: &Operation, by: &str) {
        match operation {
            Operation::Command { command } => {
                self.face.tell(&format!("> !{command}  ({by})"), Style::BOLD);
                self.face.shows_whole();
            }
            Operation::Undo { .. } => self.face.tell(&format!("{by}: /undo"), Style::DIM),
            Operation::Commit { paths, .. } => {
                self.face.tell(&format!("{by}: git commit of {}", paths.join(", ")), Style::DIM);
            }
            Operation::Compact { .. } => self.face.tell(&format!("{by}: /compact"), Style::DIM),
            _ => {}
        }
    }

    fn report(&mut self, operation: &Operation, by: &str, result: &Value) {
        let text = |name: &str| result.get(name).and_then(Value::as_str).unwrap_or_default().trim_end();
        match operation {
            Operation::Command { .. } => {
                let text = text("text");
                self.face.tell(if text.is_empty() { "(no output)" } else { text }, Style::PLAIN);
            }
            Operation::Undo { .. } | Operation::Commit { .. } => {
                self.face.tell(&here(text("text")), Style::DIM);
            }
            Operation::Rewind { .. } => {
                let said = abbreviate::line(text("said"), 100);
                self.face.tell(&format!("{by} went back to before: {said}"), Style::DIM);
                let changed = result.get("changed").cloned().unwrap_or_default();
                self.taken_back = serde_json::from_value(changed).unwrap_or_default();
            }
            Operation::Compact { .. } => {
                let tokens = |name: &str| result.get(name).and_then(Value::as_u64).unwrap_or_default();
                let cost = result.get("cost").and_then(Value::as_f64);
                self.face.tell(&report::compacted(tokens("before"), tokens("after"), cost), Style::DIM);
            }
            _ => {}
        }
    }

    fn told(&mut self, by: &str, said: &str) -> Value {
        self.face.tell(&format!("{by}: {said}"), Style::DIM);
        Value::Null
    }

    async fn prompted(&mut self, pending: &Pending, prompt: Prompt) -> Result<Value, Fault> {
        check_pictures(&self.agent, &prompt)?;
        let (text, by) = (prompt.text.clone(), pending.by().to_owned());
        let began = Began {
            key: Some(pending.key().to_owned()),
            by: by.clone(),
            text: text.clone(),
            attached: Vec::new(),
            is_resumed: pending.is_resumed(),
        };
        let shown = text.trim_end().replace('\n', "\n  ");
        self.face.tell(&format!("> {shown}  ({by})"), Style::BOLD);
        if prompt.is_empty() {
            return Ok(self.go_on_turn(began).await);
        }
        let mut input = session_service::input(self.agent.session().clone(), prompt).await?;
        input.attached().iter().for_each(|it| self.face.tell(&format!("+ {it}"), Style::DIM));
        self.beside.drain(..).for_each(|(line, pieces)| input.attach(line, pieces));
        // The name of a missing file stays text: its author is at another terminal and can't be asked.
        if let Ok(named) = attach::check(&self.agent, &text, true) {
            named.attach(&mut input, &self.agent, true, &CancellationToken::new()).await?;
        }
        Ok(self.turn(input, began).await)
    }

    fn renamed(&mut self, title: &str, by: &str) -> Result<Value, Fault> {
        let title = agent::title(title);
        let store = self.factory.opened.runtime.store();
        store.conversations().rename(self.owner.session(), &title)?;
        self.owner.log().add(Event::Renamed { title: title.clone() });
        self.face.tell(&format!("{by} renamed this conversation: {title}"), Style::DIM);
        Ok(Value::Null)
    }
}
