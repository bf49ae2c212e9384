//! Operations that attached processes request on the session of a chat: prompts, undo, rewind and others.

use kit::{Fault, Kind};
use serde_json::{Value, json};
use sessions::{Began, Event, Operation, Pending, Prompt};
use tokio_util::sync::CancellationToken;

use super::{conversation::Conversation, front_end::Face};
use crate::{
    attach, session_service,
    terminal::{abbreviate, row::Style},
    verbs::run::fault,
};

impl<F: Face> Conversation<F> {
    /// Executes an operation that an attached process requests, and shows it to the person here.
    pub(super) async fn asked(&mut self, pending: Pending) {
        if pending.is_cancelled() {
            let end = json!({"ended": "cancelled", "key": pending.key()});
            return pending.finish(Ok(end)).await;
        }
        match pending.begin().await {
            Ok(true) => {}
            Ok(false) => return pending.already_done().await,
            Err(fault) => return pending.finish(Err(fault)).await,
        }
        let by = pending.by().to_owned();
        let result = match pending.operation().clone() {
            Operation::Prompt(prompt) => self.prompted(&pending, prompt).await,
            Operation::Rewind { turns } => self.rewound(turns, &by).await,
            Operation::Undo { call } => {
                let arguments = call.map_or_else(|| json!({}), |call| json!({"call": call}));
                self.face.tell(&format!("{by}: /undo"), Style::DIM);
                self.by_tool("undo", arguments).await.map(|text| {
                    self.face.tell(&text, Style::DIM);
                    json!({"text": text})
                })
            }
            Operation::Fork { without } => self.forked(without),
            Operation::Rename { title } => self.renamed(&title, &by),
            Operation::Archive { archived } => {
                let store = self.factory.opened.runtime.store();
                store.conversations().archive(self.owner.session(), archived).map(|_| {
                    self.owner.log().add(Event::Archived { archived });
                    Value::Null
                })
            }
            Operation::Model { name } => self.model(&name).map(|said| self.told(&by, &said)),
            Operation::Profile { name } => {
                let name = name.unwrap_or_else(|| "none".to_owned());
                self.profile(&name).map(|said| self.told(&by, &said))
            }
            Operation::Close => {
                self.closed = Some(by);
                Ok(Value::Null)
            }
            other @ (Operation::Cancel { .. } | Operation::Approve { .. } | Operation::Answer { .. }) => {
                Err(Fault::bug(format!("{other:?} came to the loop of the chat")))
            }
        };
        pending.finish(result).await;
        self.kept();
        self.offer();
    }

    fn told(&mut self, by: &str, said: &str) -> Value {
        self.face.tell(&format!("{by}: {said}"), Style::DIM);
        Value::Null
    }

    async fn prompted(&mut self, pending: &Pending, prompt: Prompt) -> Result<Value, Fault> {
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
        // The name of a missing file stays text: its author is at another terminal and can't be asked.
        if let Ok(named) = attach::check(&self.agent, &text, true) {
            named.attach(&mut input, &self.agent, true, &CancellationToken::new()).await?;
        }
        Ok(self.turn(input, began).await)
    }

    async fn rewound(&mut self, turns: usize, by: &str) -> Result<Value, Fault> {
        let rewound = self.agent.rewind(turns).await.map_err(fault)?;
        self.owner.log().add(Event::Rewound { turns: rewound.turns, said: rewound.said.clone() });
        let said = abbreviate::line(&rewound.said, 100);
        self.face.tell(&format!("{by} went back to before: {said}"), Style::DIM);
        self.taken_back = rewound.changed.clone();
        Ok(json!(rewound))
    }

    fn forked(&mut self, without: usize) -> Result<Value, Fault> {
        let runtime = &self.factory.opened.runtime;
        let turns = agent::lines(runtime, self.owner.session())?.iter().filter_map(|it| it.turn).max();
        let left = turns.unwrap_or(0).checked_sub(without as u64).filter(|it| *it > 0).ok_or_else(|| {
            Fault::new(Kind::BadArgs, format!("{without} messages can't be left out: nothing would be left"))
        })?;
        let at = (without > 0).then_some(left);
        let into = agent::fork(runtime.store(), self.owner.session(), at, None)?.session;
        self.owner.log().add(Event::Forked { into: into.clone() });
        Ok(json!({"session": into}))
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
