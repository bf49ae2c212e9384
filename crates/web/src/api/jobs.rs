//! Background jobs of a session that this server runs.

use std::{sync::Arc, time::Duration};

use http::StatusCode;
use kit::services::{Job, Jobs};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    answer::Answer,
    call::{Call, Done},
    problem::Problem,
};

/// The end of an output that is shown, in bytes.
const TAIL: usize = 64 << 10;

/// How long the answer to an input is waited for.
const ANSWER: Duration = Duration::from_secs(10);

/// The input of a job that waits.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// A text, or whatever the tool asks for.
    input: Value,
}

/// Returns the jobs of the session; none, where nobody runs it.
async fn jobs(call: &Call) -> Result<Option<Arc<dyn Jobs>>, Problem> {
    let workspace = call.workspace().await?;
    if let Some(session) = workspace.agents.session(call.name(0)) {
        return Ok(Some(session.job_table()));
    }
    match workspace.sessions.state_of(call.name(0)).await? {
        None => Ok(None),
        Some(state) => {
            let what = format!("`haft {}` (process {}) runs this session, and its jobs", state.by, state.pid);
            Err(Problem::new(StatusCode::CONFLICT, "unavailable", what).next("Look at them there."))
        }
    }
}

async fn running(call: &Call) -> Result<Arc<dyn Jobs>, Problem> {
    jobs(call).await?.ok_or_else(|| {
        Problem::missing(format!("nobody runs the session `{}`, so it has no jobs", call.name(0)))
            .next("It is run once somebody prompts it.")
    })
}

fn shown(job: &Job) -> Value {
    json!({
        "id": job.id,
        "tool": job.tool,
        "title": job.title,
        "state": job.state.name(),
        "ms": u64::try_from(job.took.as_millis()).unwrap_or(u64::MAX),
    })
}

pub(crate) async fn list(call: Call) -> Done {
    let jobs = jobs(&call).await?;
    let all: Vec<Value> = jobs.iter().flat_map(|it| it.list()).map(|it| shown(&it)).collect();
    Ok(Answer::ok(&json!({"jobs": all})))
}

/// Returns a job without telling its model of it.
fn find(jobs: &dyn Jobs, id: &str) -> Result<Job, Problem> {
    let found = jobs.list().into_iter().find(|it| it.id == id);
    found.ok_or_else(|| {
        Problem::missing(format!("this session has no job `{id}`"))
            .next("GET /api/v1/sessions/ID/jobs lists them.")
    })
}

pub(crate) async fn get(call: Call) -> Done {
    let job = find(&*running(&call).await?, call.name(1))?;
    let text = match (&job.live.output, job.result.as_deref()) {
        (Some(output), _) => output.tail(TAIL).text,
        (None, Some(Ok(output))) => output.as_text(),
        (None, Some(Err(fault))) => fault.as_text(),
        (None, None) => String::new(),
    };
    let lines: Vec<Value> = text.lines().map(|it| json!([{"s": it}])).collect();
    let mut value = shown(&job);
    if let Some(fields) = value.as_object_mut() {
        fields.insert("lines".to_owned(), lines.into());
    }
    Ok(Answer::ok(&value))
}

pub(crate) async fn input(mut call: Call) -> Done {
    let Input { input } = call.json().await?;
    let jobs = running(&call).await?;
    find(&*jobs, call.name(1))?;
    let output = jobs.go_on(call.name(1), input, ANSWER).await?;
    Ok(Answer::ok(&json!({"text": output.as_text()})))
}

pub(crate) async fn stop(call: Call) -> Done {
    let jobs = running(&call).await?;
    find(&*jobs, call.name(1))?;
    Ok(Answer::ok(&shown(&jobs.stop(call.name(1)).await?)))
}
