//! Recovery of a claimed session: settles once everything that an owner that died left open.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use kit::{Fault, Kind};
use serde_json::{Value, json};
use store::{Events, Operation as Noted, Write, journal::Filter};

use super::{Core, Life};
use crate::{
    compaction::{Compaction, of_rows},
    event::{Decision, Event, Row, TurnEnd},
    fault::Outcome,
    fold::Fold,
    log::page,
    operation::Operation,
    unfinished::Unfinished,
};

/// The output of a command that ended, and whose process was killed before its output was in the log.
const LOST: &str = "(the command ran to its end; its output was lost with the process that ran it)";

/// The state that the log of a session had at the end of its last owner's life.
pub(crate) struct Found {
    pub(crate) head: u64,
    pub(crate) fold: Fold,
    /// The results of operations that the log says were done, by their keys.
    pub(crate) done: HashMap<String, Value>,
    pub(crate) commands: Commands,
    pub(crate) unfinished: Unfinished,
    pub(crate) compaction: (Compaction, Vec<Write>),
}

/// Commands that people ran, as the log has them.
#[derive(Default)]
pub(crate) struct Commands {
    /// The keys of those that are in the log.
    begun: HashSet<String>,
    /// The results of calls, by their ids in the journal.
    results: HashMap<String, Value>,
}

impl Commands {
    fn of<'a>(rows: impl Iterator<Item = &'a Row>) -> Self {
        let mut found = Self::default();
        for row in rows {
            match &row.event {
                Event::Command { key: Some(key), .. } => {
                    found.begun.insert(key.clone());
                }
                Event::Agent(agent::Event::Answered { call, ok, exit, text, .. })
                    if !found.begun.is_empty() =>
                {
                    found.results.insert(call.clone(), json!({"ok": ok, "exit": exit, "text": text}));
                }
                _ => {}
            }
        }
        found
    }
}

/// Reads the rows since the session was claimed last: everything before was settled then. Blocks.
pub(crate) fn read(events: &Events, session: &str) -> Result<Found, Fault> {
    let mut after = events.newest(session, "opened")?.map_or(0, |it| it - 1);
    let (mut rows, mut fold, mut unfinished) = (Vec::new(), Fold::new(), Unfinished::default());
    // A turn that the last owner was to go on with began in an earlier life.
    let began = events.newest(session, "turn_began")?.filter(|it| *it <= after);
    if let Some(began) = began.filter(|it| *it > 0)
        && events.newest(session, "turn_ended")?.is_none_or(|ended| ended < began)
    {
        for row in events.page(session, began - 1, 1, 1)? {
            let row = Row::read(&row)?;
            fold.add(&row);
            unfinished.add(&row);
        }
    }
    loop {
        let stored = page(events, session, after)?;
        let Some(last) = stored.last() else { break };
        after = last.seq;
        for row in &stored {
            let row = Row::read(row)?;
            fold.add(&row);
            unfinished.add(&row);
            rows.push(row);
        }
    }
    let head = events.head(session)?;
    let done =
        rows.iter().filter_map(|it| it.event.completes()).map(|(key, it)| (key.to_owned(), it)).collect();
    let commands = Commands::of(rows.iter());
    Ok(Found { head, fold, done, commands, unfinished, compaction: of_rows(rows.iter()) })
}

impl Core {
    /// Settles what the last owner left open. `messages` is how many the transcript has.
    pub(crate) async fn settle(self: &Arc<Self>, found: &Found, messages: u64) -> Result<(), Fault> {
        let Found { fold, done, .. } = found;
        for approval in &fold.approvals {
            let id = approval.id.clone();
            self.log().add(Event::ApprovalClosed { id, decision: Decision::Expired, by: None, words: None });
        }
        for question in &fold.questions {
            self.log().add(Event::QuestionClosed { id: question.id.clone(), answer: None, by: None });
        }
        let open = self.open_operations().await?;
        let mut settled = None;
        if let Some(turn) = &fold.turn {
            let operation = open.iter().find(|it| Some(&it.key) == turn.key.as_ref());
            // The person's words come before anything else of their turn.
            let was_said = messages > turn.messages;
            match operation.map(|it| (it, parse(it))) {
                Some((noted, Ok(prompt))) if !was_said => {
                    drop(self.start(&noted.key, &noted.by, prompt, Life::Logged));
                    settled = Some(noted.key.clone());
                }
                other => {
                    let end = TurnEnd { key: turn.key.clone(), ..TurnEnd::of("interrupted") };
                    self.log().add(Event::TurnEnded(end.clone()));
                    if let Some((noted, _)) = other {
                        self.finish(noted, Ok(json!(end))).await?;
                        settled = Some(noted.key.clone());
                    }
                }
            }
        }
        for noted in open.iter().filter(|it| Some(&it.key) != settled.as_ref()) {
            match done.get(&noted.key) {
                Some(result) => self.finish(noted, Ok(result.clone())).await?,
                None => self.take_over(noted, found).await?,
            }
        }
        Ok(())
    }

    /// The operations of this session without a result.
    async fn open_operations(&self) -> Result<Vec<Noted>, Fault> {
        let (store, session) = (self.store().clone(), self.session().to_owned());
        let open = tokio::task::spawn_blocking(move || store.operations().open(0));
        let open = open.await.map_err(|error| Fault::bug(format!("operations were not read: {error}")))??;
        Ok(open.into_iter().filter(|it| it.session == session).collect())
    }

    async fn take_over(self: &Arc<Self>, noted: &Noted, found: &Found) -> Result<(), Fault> {
        let operation = match parse(noted) {
            Ok(operation) => operation,
            Err(fault) => return self.finish(noted, Err(fault)).await,
        };
        if noted.begun.is_none() {
            drop(self.start(&noted.key, &noted.by, operation, Life::New));
            return Ok(());
        }
        if let Some((_, end)) = found.fold.ended().find(|it| it.0 == noted.key) {
            return self.finish(noted, Ok(json!(end))).await;
        }
        // A prompt of which the log has nothing did not begin.
        if matches!(operation, Operation::Prompt(_)) || operation.is_repeatable() {
            drop(self.start(&noted.key, &noted.by, operation, Life::Begun));
            return Ok(());
        }
        // Its row says what it was about to do: who goes on finds out what is left of that.
        if let Some(plan) = plan_of(noted) {
            if matches!(operation, Operation::Command { .. } | Operation::Commit { .. }) {
                return self.take_over_command(noted, operation, plan, &found.commands).await;
            }
            drop(self.start_planned(&noted.key, &noted.by, operation, Life::Begun, Some(plan)));
            return Ok(());
        }
        let what = "the process that did this died in the middle of it: it may be done, or not";
        let fault =
            Fault::new(Kind::Unavailable, what).next("Look at the session, then ask again under a new key.");
        self.finish(noted, Err(fault)).await
    }

    /// Finds out from the journal and the log how far a command came that a person ran: it runs now if it had not begun.
    async fn take_over_command(
        self: &Arc<Self>,
        noted: &Noted,
        operation: Operation,
        plan: Value,
        commands: &Commands,
    ) -> Result<(), Fault> {
        let call = plan.get("call").and_then(Value::as_str).unwrap_or_default().to_owned();
        if let Some(result) = commands.results.get(&call) {
            return self.finish(noted, result_of(&operation, result.clone())).await;
        }
        let journal = self.store().journal();
        let filter = Filter { call: Some(call), limit: 1, ..Filter::default() };
        let calls = tokio::task::spawn_blocking(move || journal.log(filter)).await;
        let calls = calls.map_err(|error| Fault::bug(format!("the journal was not read: {error}")))??;
        let Some(call) = calls.into_iter().next() else {
            let is_logged = commands.begun.contains(&noted.key);
            let life = if is_logged { Life::Logged } else { Life::Begun };
            drop(self.start_planned(&noted.key, &noted.by, operation, life, Some(plan)));
            return Ok(());
        };
        let result = match call.outcome.as_deref() {
            None | Some("interrupted") => Err(Fault::new(
                Kind::Failed,
                "the command was cut off: its process was killed while it ran, and what it had done until then stays",
            )
            .next("Look at what it has changed before you run it again.")),
            Some("ok") => Ok(json!({"ok": true, "exit": null, "text": LOST})),
            Some(_) => result_of(
                &operation,
                json!({"ok": false, "exit": null, "text": call.said.unwrap_or_default()}),
            ),
        };
        self.finish(noted, result).await
    }

    async fn finish(&self, noted: &Noted, result: Result<Value, Fault>) -> Result<(), Fault> {
        let outcome = json!(Outcome::of(&result));
        self.store().operations().finish(self.session(), &noted.key, outcome).await
    }
}

/// Returns the result of an operation whose command ended so: a commit that git refused has failed.
fn result_of(operation: &Operation, command: Value) -> Result<Value, Fault> {
    if !matches!(operation, Operation::Commit { .. }) || command.get("ok") == Some(&Value::Bool(true)) {
        return Ok(command);
    }
    let text = command.get("text").and_then(Value::as_str).unwrap_or_default().trim().to_owned();
    Err(Fault::new(Kind::Failed, format!("git did not commit: {text}")))
}

/// Returns what the stored operation was about to do.
fn plan_of(noted: &Noted) -> Option<Value> {
    let mut body: Value = serde_json::from_str(&noted.body).ok()?;
    body.get_mut("plan").map(Value::take)
}

/// Parses the stored operation.
pub(crate) fn parse(noted: &Noted) -> Result<Operation, Fault> {
    serde_json::from_str(&noted.body).map_err(|error| {
        Fault::bad_args(format!("the operation `{}` can't be read: {error}", noted.key))
            .next("A newer haft may have asked for it: use that one.")
    })
}
