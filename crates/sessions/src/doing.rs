//! Operations done by the process that runs a session: the same in every loop, and once, also if a process dies meanwhile.
//!
//! Before an operation changes anything, its row says what it is about to do: the name of a fork, the call that is undone,
//! where the conversation ends. The next owner finds out from that whether it was done, and does the rest.

use agent::{
    Agent, AgentError, Compacted, Driver, Ended, Input, Outcome, Settled, compacted_since, model::Usage,
    rewound_after,
};
use kit::{
    Fault, Kind,
    deliberate_faults::{is_broken, killed_at},
};
use runtime::{Call, Session};
use serde_json::{Value, json};
use store::{
    changes::{Version, Versions},
    journal::Filter,
};
use tokio_util::sync::CancellationToken;

use crate::{
    command_outputs::{CommandOutputs, attach_command},
    event::{Event, TurnEnd},
    fault::Failure,
    opener::{Begin, Command, Opener},
    operation::{Attachment, Operation, Prompt},
    owner::{Began, Owner, Pending},
    records::{Records, not_kept},
};

/// The tools that run a command.
const SHELLS: [&str; 3] = ["shell", "bash", "terminal"];

/// Does operations, with the agent of a session and all that belongs to it.
pub struct Doer<'a> {
    /// The session.
    pub owner: &'a Owner,
    /// Its agent.
    pub agent: &'a mut Agent,
    /// Runs its turns.
    pub driver: &'a mut Driver,
    /// Gives it models and profiles.
    pub opener: &'a dyn Opener,
    /// Keeps titles, archives and forks.
    pub records: Option<&'a dyn Records>,
    /// Waits for the next message.
    pub outputs: &'a mut CommandOutputs,
}

/// Notes that an operation begins. Gives nothing where there is nothing to do: it was cancelled, or another owner did it.
pub async fn begin(mut pending: Pending, agent: &Agent) -> Option<Pending> {
    if pending.is_cancelled() {
        let end = TurnEnd { key: Some(pending.key().to_owned()), ..TurnEnd::of("cancelled") };
        pending.finish(Ok(json!(end))).await;
        return None;
    }
    let begun = match plan(&pending, agent) {
        Ok(plan) => pending.begin_with(plan).await,
        Err(fault) => Err(fault),
    };
    match begun {
        Ok(true) => {
            killed_at("operation-begun");
            Some(pending)
        }
        Ok(false) => {
            pending.already_done().await;
            None
        }
        Err(fault) => {
            pending.finish(Err(fault)).await;
            None
        }
    }
}

/// Returns what an operation is about to do, for the owner that may have to go on with it.
fn plan(pending: &Pending, agent: &Agent) -> Result<Option<Value>, Fault> {
    let store = agent.session().runtime().store();
    Ok(match pending.operation() {
        Operation::Fork { .. } => Some(json!({"into": store.call_id().replacen("c_", "s_", 1)})),
        Operation::Rewind { .. } => Some(json!({"messages": agent.transcript().message_count()})),
        Operation::Compact { .. } => {
            let (row, before) = (agent.transcript().newest_row(), agent.context().tokens);
            Some(json!({"row": row, "before": before}))
        }
        Operation::Command { .. } | Operation::Commit { .. } => {
            Some(json!({"call": agent.session().new_call_id()}))
        }
        Operation::Undo { call: Some(_), path: Some(_) } => {
            return Err(Fault::bad_args("an undo is of a call or of a file, not of both"));
        }
        Operation::Undo { call: Some(call), path: None } => Some(json!({"call": call})),
        // Undone twice, the newest change of the file would be the undo: its own call says whether it was done.
        Operation::Undo { call: None, path: Some(_) } => Some(json!({"by": agent.session().new_call_id()})),
        Operation::Undo { call: None, path: None } => {
            store.newest_to_undo(agent.session().name())?.map(|call| json!({"call": call}))
        }
        _ => None,
    })
}

impl Doer<'_> {
    /// Does an operation. Gives it back where it is to close the session.
    pub async fn take(&mut self, pending: Pending) -> Option<Pending> {
        let pending = begin(pending, self.agent).await?;
        let result = match pending.operation().clone() {
            Operation::Prompt(prompt) => self.prompt(&pending, prompt).await,
            Operation::Close => return Some(pending),
            _ => self.change(&pending).await,
        };
        if is_broken("operation-logged") {
            // Without the test, the result is queued behind the events.
            let _ = self.owner.log().flush().await;
            killed_at("operation-logged");
        }
        pending.finish(result).await;
        None
    }

    /// Does an operation that begins no turn, and was begun.
    ///
    /// # Errors
    /// Those of the operation.
    pub async fn change(&mut self, pending: &Pending) -> Result<Value, Fault> {
        match pending.operation().clone() {
            Operation::Rewind { turns } => self.rewind(pending, turns).await,
            Operation::Undo { path: Some(path), .. } => self.undo_file(pending, path).await,
            Operation::Undo { call, path: None } => self.undo(pending, call).await,
            Operation::Fork { without } => self.fork(pending, without).await,
            Operation::Rename { title } => pending.keep(Event::Renamed { title }).await,
            Operation::Archive { archived } => pending.keep(Event::Archived { archived }).await,
            Operation::Model { name } => self.model(name),
            Operation::Profile { name } => self.profile(name),
            Operation::Command { command } => self.command(pending, &command).await,
            Operation::Commit { message, paths } => self.commit(pending, &message, &paths).await,
            Operation::Compact { keep } => self.compact(pending, keep.as_deref()).await,
            Operation::Report(report) => {
                self.opener.report(self.agent, &report).map(|text| json!({"text": text}))
            }
            other @ (Operation::Prompt(_)
            | Operation::Close
            | Operation::Sandbox { .. }
            | Operation::Cancel { .. }
            | Operation::Approve { .. }
            | Operation::Answer { .. }) => {
                Err(Fault::bug(format!("{other:?} came to the loop of the session")))
            }
        }
    }

    async fn prompt(&mut self, pending: &Pending, prompt: Prompt) -> Result<Value, Fault> {
        check_pictures(self.agent, &prompt)?;
        let mut began = Began {
            key: Some(pending.key().to_owned()),
            by: pending.by().to_owned(),
            text: prompt.text.clone(),
            attached: Vec::new(),
            is_resumed: pending.is_resumed(),
        };
        if prompt.is_empty() {
            return Ok(json!(self.turn(began, None).await));
        }
        match self.opener.begin(self.agent, prompt).await? {
            Begin::Command(command) => Ok(json!(self.front_end_command(began, command).await)),
            Begin::Turn { mut input, after } => {
                self.outputs.drain(..).for_each(|(line, pieces)| input.attach(line, pieces));
                began.attached = input.attached().to_vec();
                let end = self.turn(began, Some(input)).await;
                if let Some(Err(fault)) = after.map(|it| it(self.agent)) {
                    self.owner.log().add(agent::Event::Note { text: fault.as_text() });
                }
                Ok(json!(end))
            }
        }
    }

    async fn turn(&mut self, began: Began, input: Option<Input>) -> TurnEnd {
        let turn = self.owner.begin_turn(self.agent, began);
        let cancel = turn.cancel().clone();
        let result: Result<Outcome, AgentError> = match input {
            Some(input) if self.opener.waits_for_jobs() => self.settle(input, &cancel).await,
            Some(input) => self.driver.say(self.agent, input, &cancel).await,
            None => self.agent.turn(None, &cancel).await,
        };
        turn.end(&result)
    }

    async fn settle(&mut self, input: Input, cancel: &CancellationToken) -> Result<Outcome, AgentError> {
        let Settled { outcome, late, .. } = self.driver.settle(self.agent, Some(input), cancel).await?;
        if !late.is_empty() {
            let names: Vec<&str> = late.iter().map(|it| it.name.as_str()).collect();
            let text = format!("still running in the background: {}", names.join(", "));
            self.owner.log().add(agent::Event::Note { text });
        }
        Ok(outcome)
    }

    async fn front_end_command(&mut self, began: Began, command: Command) -> TurnEnd {
        let turn = self.owner.begin_turn(self.agent, began);
        let cancel = turn.cancel().clone();
        match command(self.agent, &cancel).await {
            Ok(text) => {
                self.owner.log().add(Event::Told { text: text.clone() });
                turn.ended_as(Ended::Done, text)
            }
            Err(_) if cancel.is_cancelled() => turn.ended_as(Ended::Cancelled, String::new()),
            Err(fault) => turn.failed(&AgentError::Transcript(fault)),
        }
    }

    async fn rewind(&mut self, pending: &Pending, turns: usize) -> Result<Value, Fault> {
        let before = pending.plan().and_then(|it| it.get("messages")).and_then(Value::as_u64);
        if let Some(before) = before.filter(|_| pending.was_begun()) {
            let session = self.agent.session();
            if let Some(said) = rewound_after(session.runtime().store(), session.name(), before)? {
                return Ok(self.rewound(pending, json!({"turns": turns, "said": said, "changed": []})));
            }
        }
        let rewound = self.agent.rewind(turns).await.map_err(|error| Fault::from(Failure::from(&error)))?;
        Ok(self.rewound(pending, json!(rewound)))
    }

    fn rewound(&self, pending: &Pending, rewound: Value) -> Value {
        killed_at("operation-done");
        let said = rewound.get("said").and_then(Value::as_str).unwrap_or_default().to_owned();
        let turns = rewound.get("turns").and_then(Value::as_u64).unwrap_or_default();
        let turns = usize::try_from(turns).unwrap_or_default();
        let key = Some(pending.key().to_owned());
        self.owner.log().add(Event::Rewound { key, turns, said });
        rewound
    }

    async fn undo(&mut self, pending: &Pending, call: Option<String>) -> Result<Value, Fault> {
        let session = self.agent.session();
        if !session.catalog().has("undo") {
            return Err(Fault::not_found("this session has no tool `undo`"));
        }
        let planned = pending.plan().and_then(|it| it.get("call")).and_then(Value::as_str);
        let of = planned.map(str::to_owned).or_else(|| call.clone());
        let arguments = of.as_ref().map_or_else(|| json!({}), |call| json!({"call": call}));
        let cancel = CancellationToken::new();
        let answer = session.call(Call { cancel, by_person: true, ..Call::new("undo", arguments) }).await;
        let text = answer.as_text();
        let text = match answer.result {
            Ok(_) => text,
            // The process that began with it had put all of it back.
            Err(fault) if fault.kind == Kind::NotFound && planned.is_some() && pending.was_begun() => {
                format!("the changes of {} were put back", of.unwrap_or_default())
            }
            Err(fault) => return Err(fault),
        };
        killed_at("operation-done");
        let key = Some(pending.key().to_owned());
        self.owner.log().add(Event::Undone { key, call, path: None, text: text.clone() });
        Ok(json!({"text": text}))
    }

    /// Undoes the newest change of a file by the session.
    async fn undo_file(&mut self, pending: &Pending, path: String) -> Result<Value, Fault> {
        let session = self.agent.session();
        if !session.catalog().has("undo") {
            return Err(Fault::not_found("this session has no tool `undo`"));
        }
        let by = pending.plan().and_then(|it| it.get("by")).and_then(Value::as_str).map(str::to_owned);
        let begun = match &by {
            Some(by) if pending.was_begun() => call_of(session, by)?,
            _ => None,
        };
        let text = match begun {
            Some(true) => format!("the newest change of {path} was put back"),
            begun => {
                // An id of the journal is one call's.
                let id = if begun.is_some() { None } else { by };
                let call = Call { id, by_person: true, ..Call::new("undo", json!({"path": path})) };
                let answer = session.call(call).await;
                let text = answer.as_text();
                answer.result.map(|_| text)?
            }
        };
        killed_at("operation-done");
        let key = Some(pending.key().to_owned());
        self.owner.log().add(Event::Undone { key, call: None, path: Some(path), text: text.clone() });
        Ok(json!({"text": text}))
    }

    async fn fork(&mut self, pending: &Pending, without: usize) -> Result<Value, Fault> {
        let records = self.records.ok_or_else(not_kept)?;
        let session = self.owner.session();
        let into = pending.plan().and_then(|it| it.get("into")).and_then(Value::as_str);
        let into = into.ok_or_else(|| Fault::bug("a fork without a name"))?.to_owned();
        if !(pending.was_begun() && records.is_fork(session, &into)?) {
            records.fork(session, without, &into)?;
        }
        runtime::pass_sandbox_on(self.agent.session().runtime(), session, &into)?;
        killed_at("operation-done");
        let key = Some(pending.key().to_owned());
        self.owner.log().add(Event::Forked { key, into: into.clone() });
        Ok(json!({"session": into}))
    }

    fn model(&self, name: String) -> Result<Value, Fault> {
        self.opener.set_model(self.agent, &name)?;
        self.owner.log().add(Event::Configured { model: Some(name), profile: None });
        Ok(Value::Null)
    }

    fn profile(&self, name: Option<String>) -> Result<Value, Fault> {
        self.opener.set_profile(self.agent, name.as_deref())?;
        let profile = Some(name.unwrap_or_else(|| "none".to_owned()));
        self.owner.log().add(Event::Configured { model: None, profile });
        Ok(Value::Null)
    }

    /// Runs a command under the person's own word: what a rule would ask about is allowed.
    async fn command(&mut self, pending: &Pending, command: &str) -> Result<Value, Fault> {
        if command.trim().is_empty() {
            return Err(Fault::bad_args("there is no command after the `!`").next("Type one: !git status"));
        }
        let catalog = self.agent.session().catalog();
        let tool = SHELLS.into_iter().find(|it| catalog.has(it));
        let tool = tool.ok_or_else(|| Fault::not_found("this session has no tool that runs commands"))?;
        let call = pending.plan().and_then(|it| it.get("call")).and_then(Value::as_str);
        let call = call.map_or_else(|| self.agent.session().new_call_id(), str::to_owned);
        if !pending.is_resumed() {
            let (key, by) = (Some(pending.key().to_owned()), pending.by().to_owned());
            self.owner.log().add(Event::Command { key, by, command: command.to_owned() });
        }
        killed_at("command-logged");
        let work = self.owner.begin_work(pending, &format!("!{command}"));
        let cancel = work.cancel();
        let looked = self.agent.look_as(call, tool, json!({"command": command}), true, cancel).await;
        let is_cancelled = cancel.is_cancelled();
        drop(work);
        killed_at("operation-done");
        let result = json!({"ok": looked.ok, "exit": looked.exit, "text": looked.text});
        if !is_cancelled {
            attach_command(self.outputs, command, looked.pieces);
        }
        Ok(result)
    }

    /// Commits files by a command of the person: the repository's hooks run in the sandbox, and watchers see it.
    async fn commit(&mut self, pending: &Pending, message: &str, paths: &[String]) -> Result<Value, Fault> {
        let runtime = self.agent.session().runtime().clone();
        let before = runtime.repository().await?;
        let command = runtime.commit_command(self.agent.session().sandbox(), &before, message, paths)?;
        let done = self.command(pending, &command).await?;
        let text = done.get("text").and_then(Value::as_str).unwrap_or_default().trim();
        let after = runtime.repository().await?;
        if done.get("ok") != Some(&Value::Bool(true)) || after.commit == before.commit {
            return Err(Fault::new(Kind::Failed, format!("git did not commit: {text}")));
        }
        Ok(json!({"commit": after.commit, "branch": after.branch, "text": text}))
    }

    async fn compact(&mut self, pending: &Pending, keep: Option<&str>) -> Result<Value, Fault> {
        if let Some(done) = self.compacted_before(pending)? {
            return Ok(self.compacted(pending, &done));
        }
        let work = self.owner.begin_work(pending, "/compact");
        let cancel = work.cancel().clone();
        let done = self.agent.compact(keep, &cancel).await;
        drop(work);
        let done = done.map_err(|error| Fault::from(Failure::from(&error)))?;
        killed_at("operation-done");
        Ok(self.compacted(pending, &done))
    }

    /// Returns the result of the compaction that the process that began with it had written, if it had.
    fn compacted_before(&self, pending: &Pending) -> Result<Option<Compacted>, Fault> {
        let of_plan = |name: &str| pending.plan().and_then(|it| it.get(name)).and_then(Value::as_u64);
        let (Some(row), Some(before)) = (of_plan("row"), of_plan("before")) else { return Ok(None) };
        let session = self.agent.session();
        if !pending.was_begun() || !compacted_since(session.runtime().store(), session.name(), row)? {
            return Ok(None);
        }
        let after = self.agent.context().tokens;
        Ok(Some(Compacted { before, after, usage: Usage::default(), cost: None }))
    }

    fn compacted(&self, pending: &Pending, done: &Compacted) -> Value {
        let key = Some(pending.key().to_owned());
        let (before, after, cost) = (done.before, done.after, done.cost);
        self.owner.log().add(Event::Compacted { key, before, after, cost });
        json!(done)
    }
}

/// Returns whether the call of this id changed a file; `None` if it did not begin. Blocks.
fn call_of(session: &Session, id: &str) -> Result<Option<bool>, Fault> {
    let runtime = session.runtime();
    let filter = Filter { call: Some(id.to_owned()), limit: 1, ..Filter::default() };
    let Some(record) = runtime.store().journal().log(filter)?.into_iter().next() else { return Ok(None) };
    let is_change = |it: &Versions| it.before != it.after && !matches!(it.after, Version::Unknown(_));
    let has_changed =
        record.outcome.as_deref() == Some("ok") || runtime.changed_by(&record)?.iter().any(is_change);
    Ok(Some(has_changed))
}

/// Checks that the model can look at the pictures of a prompt.
///
/// # Errors
/// When it can't, and the prompt has some.
pub fn check_pictures(agent: &Agent, prompt: &Prompt) -> Result<(), Fault> {
    let has_pictures = prompt.attachments.iter().any(|it| matches!(it, Attachment::Picture { .. }));
    let model = agent.model();
    if !has_pictures || model.abilities().images {
        return Ok(());
    }
    Err(Fault::bad_args(format!("`{}` can't look at pictures", model.name()))
        .next("Switch to a model that can with /model, or leave the picture out."))
}
