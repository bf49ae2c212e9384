//! The loop of a session that no terminal runs: it owns the agent and takes operations one after the other.

use std::sync::Arc;

use agent::{Agent, AgentError, Driver, Input, Outcome};
use kit::{Fault, Kind, base64, services::Soon};
use runtime::{Call, Session};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    event::{Event, TurnEnd},
    fault::Failure,
    operation::{Attachment, Operation, Prompt},
    owner::{Began, Owner, Pending, Prepared},
};

/// How agents are made, for sessions that no terminal runs.
pub trait Opener: Send + Sync {
    /// Opens the agent of the prepared session, with its [observer](Prepared::observer), [approver](Prepared::approver) and
    /// [asker](Prepared::asker). Blocks.
    ///
    /// # Errors
    /// When there is no agent to be had.
    fn open(&self, prepared: &Prepared) -> Result<Opened, Fault>;

    /// Has the model of this name answer from now on. Blocks.
    ///
    /// # Errors
    /// When there is no such model.
    fn set_model(&self, agent: &Agent, name: &str) -> Result<(), Fault>;

    /// Goes on under this profile, or without one. Blocks.
    ///
    /// # Errors
    /// When there is no such profile.
    fn set_profile(&self, agent: &Agent, name: Option<&str>) -> Result<(), Fault> {
        let crew = agent.crew().ok_or_else(|| Fault::new(Kind::Unavailable, "this agent has no profiles"))?;
        crew.begin(name, true).map(drop)
    }

    /// Returns the agent's input for the beginning of a turn.
    fn input(&self, session: Session, prompt: Prompt) -> Soon<'_, Result<Input, Fault>> {
        Box::pin(input_of(session, prompt))
    }

    /// Keeps how the conversation stands, for whoever goes on with it. Called after each operation. Blocks.
    ///
    /// # Errors
    /// When that can't be written.
    fn keep(&self, agent: &Agent) -> Result<(), Fault> {
        let _ = agent;
        Ok(())
    }
}

/// The result of an [`Opener`].
pub struct Opened {
    /// The agent, which holds the session's lease.
    pub agent: Agent,
    /// The driver, which runs its turns.
    pub driver: Driver,
    /// Notes for the person, one line each.
    pub notes: Vec<String>,
}

/// Session data that a workspace keeps besides the events. Its functions block.
pub trait Records: Send + Sync {
    /// Gives a session a title.
    ///
    /// # Errors
    /// When that can't be written.
    fn rename(&self, session: &str, title: &str) -> Result<(), Fault>;

    /// Archives a session, or takes it back from there.
    ///
    /// # Errors
    /// When that can't be written.
    fn archive(&self, session: &str, archived: bool) -> Result<(), Fault>;

    /// Makes a session that goes on from this one, `without` so many of its newest turns. Gives its name.
    ///
    /// # Errors
    /// When there are not so many turns, or it can't be written.
    fn fork(&self, session: &str, without: usize) -> Result<String, Fault>;

    /// Deletes what is kept of a session that nobody owns.
    ///
    /// # Errors
    /// When that can't be written.
    fn delete(&self, session: &str) -> Result<(), Fault>;
}

/// The session that a loop runs.
struct Running {
    owner: Owner,
    agent: Agent,
    driver: Driver,
    opener: Arc<dyn Opener>,
    records: Option<Arc<dyn Records>>,
}

/// Runs a session until it is closed, or another process owns it.
pub(crate) async fn run(
    owner: Owner,
    opened: Opened,
    opener: Arc<dyn Opener>,
    records: Option<Arc<dyn Records>>,
) {
    let Opened { agent, driver, notes } = opened;
    notes.into_iter().for_each(|text| owner.log().add(agent::Event::Note { text }));
    let mut running = Running { owner, agent, driver, opener, records };
    let closed = loop {
        let pending = tokio::select! {
            biased;
            pending = running.owner.next() => Some(pending),
            () = running.driver.woken(running.agent.session()) => None,
        };
        if running.owner.is_lost() {
            break None;
        }
        let closed = match pending {
            Some(pending) => running.take(pending).await,
            None => {
                running.wake().await;
                None
            }
        };
        if let Err(fault) = running.opener.keep(&running.agent) {
            tracing::warn!(%fault, "how the conversation stands is not kept");
        }
        running.owner.describe(&running.agent);
        running.owner.rest();
        if closed.is_some() {
            break closed;
        }
    };
    let Running { owner, agent, .. } = running;
    agent.session().end().await;
    let by = closed.as_ref().map_or("another process", Pending::by).to_owned();
    if let Err(fault) = owner.close(&by).await {
        tracing::warn!(%fault, "the end of the session is not in its log");
    }
    if let Some(closed) = closed {
        closed.finish(Ok(Value::Null)).await;
    }
    // Its lease goes last.
    drop(agent);
}

impl Running {
    /// Does an operation. Gives it back where it is to close the session.
    async fn take(&mut self, pending: Pending) -> Option<Pending> {
        if pending.is_cancelled() {
            let end = TurnEnd { key: Some(pending.key().to_owned()), ..TurnEnd::of("cancelled") };
            pending.finish(Ok(json!(end))).await;
            return None;
        }
        match pending.begin().await {
            Ok(true) => {}
            Ok(false) => {
                pending.already_done().await;
                return None;
            }
            Err(fault) => {
                pending.finish(Err(fault)).await;
                return None;
            }
        }
        let result = match pending.operation().clone() {
            Operation::Prompt(prompt) => self.prompt(&pending, prompt).await,
            Operation::Rewind { turns } => self.rewind(turns).await,
            Operation::Undo { call } => self.undo(call).await,
            Operation::Fork { without } => self.fork(without),
            Operation::Rename { title } => self.rename(title),
            Operation::Archive { archived } => self.archive(archived),
            Operation::Model { name } => self.model(name),
            Operation::Profile { name } => self.profile(name),
            Operation::Close => return Some(pending),
            other @ (Operation::Cancel { .. } | Operation::Approve { .. } | Operation::Answer { .. }) => {
                Err(Fault::bug(format!("{other:?} came to the loop of the session")))
            }
        };
        pending.finish(result).await;
        None
    }

    async fn prompt(&mut self, pending: &Pending, prompt: Prompt) -> Result<Value, Fault> {
        let text = prompt.text.clone();
        let input = match prompt.is_empty() {
            true => None,
            false => Some(self.opener.input(self.agent.session().clone(), prompt).await?),
        };
        let began = Began {
            key: Some(pending.key().to_owned()),
            by: pending.by().to_owned(),
            text,
            attached: input.as_ref().map(|it| it.attached().to_vec()).unwrap_or_default(),
            is_resumed: pending.is_resumed(),
        };
        Ok(json!(self.turn(began, input).await))
    }

    async fn turn(&mut self, began: Began, input: Option<Input>) -> TurnEnd {
        let turn = self.owner.begin_turn(&self.agent, began);
        let cancel = turn.cancel().clone();
        let result: Result<Outcome, AgentError> = match input {
            Some(input) => self.driver.say(&mut self.agent, input, &cancel).await,
            None => self.agent.turn(None, &cancel).await,
        };
        turn.end(&result)
    }

    /// A turn that a message of the inbox or the end of a job begins.
    async fn wake(&mut self) {
        let by = Driver::cause(self.agent.session()).to_owned();
        let turn = self.owner.begin_turn(&self.agent, Began { by, ..Began::default() });
        let cancel = turn.cancel().clone();
        let result = self.driver.wake(&mut self.agent, &cancel).await;
        turn.end(&result);
    }

    async fn rewind(&mut self, turns: usize) -> Result<Value, Fault> {
        let rewound = self.agent.rewind(turns).await.map_err(|error| Fault::from(Failure::from(&error)))?;
        self.owner.log().add(Event::Rewound { turns: rewound.turns, said: rewound.said.clone() });
        Ok(json!(rewound))
    }

    async fn undo(&mut self, call: Option<String>) -> Result<Value, Fault> {
        let session = self.agent.session();
        if !session.catalog().has("undo") {
            return Err(Fault::not_found("this session has no tool `undo`"));
        }
        let arguments = call.as_ref().map_or_else(|| json!({}), |call| json!({"call": call}));
        let cancel = CancellationToken::new();
        let answer = session.call(Call { cancel, by_person: true, ..Call::new("undo", arguments) }).await;
        let text = answer.as_text();
        answer.result?;
        self.owner.log().add(Event::Undone { call, text: text.clone() });
        Ok(json!({"text": text}))
    }

    fn fork(&self, without: usize) -> Result<Value, Fault> {
        let into = records(self.records.as_ref())?.fork(self.owner.session(), without)?;
        self.owner.log().add(Event::Forked { into: into.clone() });
        Ok(json!({"session": into}))
    }

    fn rename(&self, title: String) -> Result<Value, Fault> {
        records(self.records.as_ref())?.rename(self.owner.session(), &title)?;
        self.owner.log().add(Event::Renamed { title });
        Ok(Value::Null)
    }

    fn archive(&self, archived: bool) -> Result<Value, Fault> {
        records(self.records.as_ref())?.archive(self.owner.session(), archived)?;
        self.owner.log().add(Event::Archived { archived });
        Ok(Value::Null)
    }

    fn model(&self, name: String) -> Result<Value, Fault> {
        self.opener.set_model(&self.agent, &name)?;
        self.owner.log().add(Event::Configured { model: Some(name), profile: None });
        Ok(Value::Null)
    }

    fn profile(&self, name: Option<String>) -> Result<Value, Fault> {
        self.opener.set_profile(&self.agent, name.as_deref())?;
        let profile = Some(name.unwrap_or_else(|| "none".to_owned()));
        self.owner.log().add(Event::Configured { model: None, profile });
        Ok(Value::Null)
    }
}

/// Returns the records, or [`Kind::Unavailable`] if the program keeps none.
pub(crate) fn records(records: Option<&Arc<dyn Records>>) -> Result<&Arc<dyn Records>, Fault> {
    records.ok_or_else(|| Fault::new(Kind::Unavailable, "titles, archives and forks are not kept here"))
}

/// The prompt with what is attached.
async fn input_of(session: Session, prompt: Prompt) -> Result<Input, Fault> {
    let mut input = Input::new(prompt.text);
    for attachment in prompt.attachments {
        match attachment {
            Attachment::Text { name, text } => {
                let attached = session.clone();
                input = tokio::task::spawn_blocking(move || {
                    input.attach_text(&attached, "file", &name, text.as_bytes()).map(|()| input)
                })
                .await
                .map_err(|error| Fault::bug(format!("a text was not attached: {error}")))??;
            }
            Attachment::Picture { name, data } => {
                let bytes = base64::decoded(&data)
                    .ok_or_else(|| Fault::bad_args(format!("the picture `{name}` is not base64")))?;
                input.attach_picture(&session, &name, bytes).await?;
            }
        }
    }
    Ok(input)
}
