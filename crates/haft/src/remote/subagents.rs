//! Subagents on other machines: `subagent` with `on`.

use agent::{Elsewhere, profiles::Profiles};
use engine::{Key, Outcome};
use kit::{
    Cx, Fault, Kind,
    services::{Report, Soon, Task as Delegated, TaskEnd},
};
use runtime::Session;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    Followed, Landed, Sender, SessionResult, Task, Travel, labels, needs::needs_of, result_of,
    workspace::changed_here,
};
use crate::{Options, Place};

/// Sends the tasks of a session's agent to workers.
pub(crate) struct Subagents {
    pub(crate) place: Place,
    pub(crate) options: Options,
    pub(crate) profiles: Profiles,
}

impl Elsewhere for Subagents {
    fn run<'a>(
        &'a self,
        on: &'a str,
        task: Delegated,
        session: &'a Session,
        cx: &'a Cx,
    ) -> Soon<'a, Result<Report, Fault>> {
        Box::pin(self.sent(on, task, session, cx))
    }
}

impl Subagents {
    /// Takes a snapshot of this session's workspace for workers with these labels. The session's own limits go along: those of its
    /// profile, and those of the agents above it; `tools` are the only ones that the task has.
    pub(super) async fn sender(
        &self,
        on: &str,
        session: &Session,
        profile: Option<&str>,
        tools: Option<Vec<String>>,
    ) -> Result<Sender, Fault> {
        let labels = labels(on).map_err(Fault::bad_args)?;
        let engine = super::open(None, &self.place).await?;
        let mut limits = super::limits(&self.options.config(&self.place)?)?;
        if let (Value::Object(all), Some(tools)) = (&mut limits, tools) {
            all.insert("tools".to_owned(), json!(tools));
        }
        let runtime = session.runtime();
        let needs = needs_of(runtime, &self.profiles, session, profile);
        let snapshot = Travel { engine: &engine }.take(runtime, &self.place).await?;
        Ok(Sender { engine, labels, needs, snapshot, limits })
    }

    async fn sent(&self, on: &str, task: Delegated, session: &Session, cx: &Cx) -> Result<Report, Fault> {
        let tools = session.limits().tools.clone();
        let sender = self.sender(on, session, task.profile.as_deref(), tools).await?;
        let sent = Task {
            words: words(&task),
            profile: task.profile.clone(),
            plan: session.limits().read_only,
            max_steps: task.steps,
            max_seconds: task.time.map(|it| it.as_secs().max(1)),
            max_tokens: task.tokens,
            ..Task::default()
        };
        sent.check()?;
        let key = Key { session: session.runtime().store().call_id(), step: 0, call: 0, attempt: 0 };
        let work = sender.work(key, &sent, false)?;
        sender.offer(&work).await?;
        let cancel = CancellationToken::new();
        let (mut nobody, stop) = (None, cancel.clone());
        let see = |followed| {
            if let Followed::Waits(why) = followed
                && !why.contains("are busy")
            {
                // The model can do something else; a person would start a worker.
                nobody = Some(why);
                stop.cancel();
            }
        };
        let stopped = async {
            cx.cancelled().await;
            cancel.cancel();
            std::future::pending::<()>().await;
        };
        let outcome = tokio::select! {
            biased;
            ended = sender.follow(&work, &cancel, see) => ended?.0,
            () = stopped => return Err(Fault::new(Kind::Cancelled, "it was stopped")),
        };
        let (result, patch) = match outcome {
            Outcome::Done { result, patch } => (result, patch),
            Outcome::Cancelled => {
                return Err(nobody.map_or_else(
                    || Fault::new(Kind::Cancelled, "it was stopped; nothing was changed here"),
                    |why| {
                        Fault::new(Kind::Unavailable, format!("nobody takes it: {why}"))
                            .next("Leave out `on`: it runs here.")
                    },
                ));
            }
            Outcome::Failed { error } => return Err(Fault::new(Kind::Failed, error)),
            Outcome::Interrupted => {
                let what =
                    "the worker was lost after the task had begun: it may have happened, wholly or in part";
                return Err(Fault::new(Kind::Failed, what).next("Its changes of files are lost with it."));
            }
        };
        let result: SessionResult = result_of(result)?;
        let landed = match &patch {
            Some(patch) => {
                Travel { engine: &sender.engine }.land(patch, session, &CancellationToken::new()).await?
            }
            None => Vec::new(),
        };
        report(result, task.profile, &landed)
    }
}

/// Returns the words of the task.
fn words(task: &Delegated) -> String {
    let parts = [task.system.as_deref(), task.briefing.as_deref(), Some(task.prompt.as_str())];
    parts.into_iter().flatten().map(str::trim).filter(|it| !it.is_empty()).collect::<Vec<_>>().join("\n\n")
}

fn report(result: SessionResult, profile: Option<String>, landed: &[Landed]) -> Result<Report, Fault> {
    let end = match result.is_complete()? {
        true => TaskEnd::Completed,
        false => TaskEnd::Limit(format!("a limit on {}", result.worker)),
    };
    let mut notes: Vec<String> = changed_here(landed).map(|it| format!("changed {it}")).into_iter().collect();
    let refused =
        landed.iter().filter_map(|it| Some(format!("not changed: {}: {}", it.path, it.refused.as_ref()?)));
    notes.extend(refused);
    let steps = result.ended.get("steps").and_then(Value::as_u64).unwrap_or_default();
    Ok(Report {
        profile,
        ended: end,
        text: result.text().to_owned(),
        steps: usize::try_from(steps).unwrap_or_default(),
        tokens: result.tokens("input") + result.tokens("output"),
        cost: result.cost(),
        took: std::time::Duration::from_millis(result.ms),
        agent: result.worker,
        notes,
    })
}
