//! Tasks: calls that take too long to be waited for.
//!
//! A client that supports tasks gets the id of one: that of the job that the call has become, if calls can
//! become jobs. It then polls the task, answers its questions, and fetches its result.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use kit::{
    Fault, Kind,
    services::{Job, Jobs, Until},
};
use rmcp::{
    ErrorData, RoleServer,
    model::{
        CallToolResponse, CancelTaskParams, CreateTaskResult, DetailedTask, GetTaskParams, GetTaskResult,
        InputResponses, JsonObject, Task, TaskPayload, TaskStatus, UpdateTaskParams,
    },
    service::RequestContext,
    task_manager::current_timestamp,
};
use runtime::Answer;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    LISTENING, McpServer,
    calls::tool_response,
    client_requests::Question,
    exchange::Exchange,
    multi_round::{LIFETIME, Open, Whose, unguessable},
};
use crate::{
    answer,
    backend::Backend,
    client::{Client, Filled},
    message::echo,
};

/// Time for which a finished task is kept.
const KEPT: Duration = Duration::from_secs(60 * 60);

/// Maximum number of tasks. At the limit, calls are waited for instead.
const MOST: usize = 256;

/// The polling interval that clients are given.
const POLL: Duration = Duration::from_secs(1);

/// Maximum duration of one wait for a job, after which it is repeated.
const LOOK: Duration = Duration::from_secs(60 * 60);

/// The tasks of a server.
#[derive(Default)]
pub(crate) struct Tasks {
    tasks: Mutex<HashMap<String, Arc<StoredTask>>>,
}

/// One task.
struct StoredTask {
    whose: Whose,
    created: String,
    began: Instant,
    cancel: CancellationToken,
    state: Mutex<State>,
}

struct State {
    open: Open,
    over: Option<(TaskPayload, Instant)>,
    updated: String,
    /// The last request about it.
    seen: Instant,
}

impl Tasks {
    fn is_below_limit(&self) -> bool {
        let mut tasks = self.tasks();
        tasks.retain(|_, task| !task.is_past());
        tasks.len() < MOST
    }

    fn add(&self, id: &str, whose: Whose, cancel: CancellationToken) -> Arc<StoredTask> {
        let (now, began) = (current_timestamp(), Instant::now());
        let state = State { open: Open::default(), over: None, updated: now.clone(), seen: began };
        let task = Arc::new(StoredTask { whose, created: now, began, cancel, state: Mutex::new(state) });
        self.tasks().insert(id.to_owned(), Arc::clone(&task));
        task
    }

    fn find(&self, id: &str, whose: &Whose) -> Result<Arc<StoredTask>, ErrorData> {
        let task = self.tasks().get(id).filter(|task| task.whose == *whose && !task.is_past()).cloned();
        task.ok_or_else(|| ErrorData::invalid_params(format!("there is no task `{}`", echo(id)), None))
    }

    fn tasks(&self) -> MutexGuard<'_, HashMap<String, Arc<StoredTask>>> {
        lock(&self.tasks)
    }
}

impl StoredTask {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn is_past(&self) -> bool {
        self.state().over.as_ref().is_some_and(|(_, since)| since.elapsed() > KEPT)
    }

    fn ends(&self, payload: TaskPayload) {
        let mut state = self.state();
        state.updated = current_timestamp();
        state.over = Some((payload, Instant::now()));
    }

    fn now(&self, id: &str) -> DetailedTask {
        let mut state = self.state();
        state.seen = Instant::now();
        let payload = match &state.over {
            Some((payload, _)) => payload.clone(),
            None => {
                let input_requests = state.open.requests();
                if input_requests.is_empty() {
                    TaskPayload::Working
                } else {
                    TaskPayload::InputRequired { input_requests }
                }
            }
        };
        let mut task = Task::new(id, payload.status(), self.created.clone(), state.updated.clone());
        // The duration of a running task is unknown; its lifetime counts from its end.
        let lives =
            state.over.as_ref().map_or_else(|| self.began.elapsed(), |(_, end)| *end - self.began) + KEPT;
        task.ttl_ms = u64::try_from(lives.as_millis()).ok();
        task.poll_interval_ms = u64::try_from(POLL.as_millis()).ok();
        DetailedTask::new(task, payload)
    }

    fn asks(&self, question: Question) {
        let mut state = self.state();
        state.open.add(question, &mut InputResponses::new());
        state.updated = current_timestamp();
        state.seen = Instant::now();
    }

    fn answer(&self, responses: InputResponses) {
        let mut state = self.state();
        state.open.answer(responses);
        state.updated = current_timestamp();
        state.seen = Instant::now();
    }

    /// Waits until a question of it has been open for as long as a call waits for its client.
    async fn forsaken(&self) {
        loop {
            let left = {
                let mut state = self.state();
                let waits = !state.open.requests().is_empty();
                if waits { LIFETIME.saturating_sub(state.seen.elapsed()) } else { LIFETIME }
            };
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left).await;
        }
    }
}

impl<H: Backend> McpServer<H> {
    /// Returns whether this client can be asked by the answer to its request.
    pub(super) fn takes_rounds(&self, context: &RequestContext<RoleServer>) -> bool {
        context.protocol_version().is_some_and(|it| it.as_str() >= LISTENING)
    }

    /// Returns whether this client supports tasks.
    pub(super) fn follows_tasks(&self, context: &RequestContext<RoleServer>) -> bool {
        self.takes_rounds(context)
            && context.client_capabilities().is_some_and(|it| it.supports_tasks())
            && self.tasks.is_below_limit()
    }

    /// Makes a task of a call that takes too long.
    pub(super) async fn call_goes_on(
        &self,
        mut exchange: Box<Exchange<Answer>>,
        tool: &str,
        call: Option<&str>,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let whose = Whose::of(context);
        let promoted = call.and_then(|call| self.backend.promote(call).ok());
        if let (Some(job), Some(jobs)) = (promoted, self.backend.jobs()) {
            // The call answers its request now; questions before that are kept.
            let early: Mutex<Vec<Question>> = Mutex::default();
            let answer = exchange.alone(|question| lock(&early).push(question)).await?;
            if jobs.list().iter().all(|it| it.id != job) {
                return Ok(tool_response(&answer));
            }
            let response = self.follow_job(exchange, tool, job.clone(), jobs, whose.clone());
            let task = self.tasks.find(&job, &whose)?;
            for question in lock(&early).drain(..) {
                task.asks(question);
            }
            return Ok(response);
        }
        exchange.go_on_alone();
        let Some(id) = unguessable() else {
            return Err(ErrorData::internal_error("there are no random numbers to be had", None));
        };
        Ok(self.follow(exchange, tool, &format!("task_{id}"), whose))
    }

    /// Returns the answer to a call, or its task if the call has become a job.
    pub(super) fn job_or_answer(
        &self,
        exchange: Box<Exchange<Answer>>,
        answer: &Answer,
        tool: &str,
        call: Option<&str>,
        context: &RequestContext<RoleServer>,
    ) -> CallToolResponse {
        match (call.and_then(|call| self.backend.job_of(call)), self.backend.jobs()) {
            (Some(job), Some(jobs)) => self.follow_job(exchange, tool, job, jobs, Whose::of(context)),
            _ => tool_response(answer),
        }
    }

    fn follow_job(
        &self,
        mut exchange: Box<Exchange<Answer>>,
        tool: &str,
        job: String,
        jobs: Arc<dyn Jobs>,
        whose: Whose,
    ) -> CallToolResponse {
        let (client, id) = (exchange.client.clone(), job.clone());
        let cancel = CancellationToken::new();
        exchange.cancel = cancel.clone();
        exchange.becomes(Box::pin(async move { Ok(result_of(&job, &*jobs, &client, &cancel).await) }));
        self.follow(exchange, tool, &id, whose)
    }

    fn follow(
        &self,
        mut exchange: Box<Exchange<Answer>>,
        tool: &str,
        id: &str,
        whose: Whose,
    ) -> CallToolResponse {
        let task = self.tasks.add(id, whose, exchange.cancel.clone());
        let mut seed = task.now(id).task;
        seed.status = TaskStatus::Working;
        let (stop, declares) = (self.stop.clone(), self.backend.declares(tool));
        tokio::spawn(async move {
            let done = {
                let going_on = exchange.alone(|question| task.asks(question));
                tokio::select! {
                    biased;
                    done = going_on => done,
                    () = stop.cancelled() => return,
                    () = task.forsaken() => Ok(forsaken()),
                }
            };
            drop(exchange);
            task.ends(match done {
                Ok(Answer { result: Err(fault), .. }) if fault.kind == Kind::Cancelled => {
                    TaskPayload::Cancelled
                }
                Ok(answer) => {
                    let mut result = answer::result(&answer);
                    answer::fit(&mut result, LISTENING, || declares);
                    TaskPayload::Completed { result: object(&result) }
                }
                Err(error) => TaskPayload::Failed { error: object(&error) },
            });
        });
        CreateTaskResult::new(seed).into()
    }

    /// Returns the state of a task.
    pub(super) fn task(
        &self,
        request: &GetTaskParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let task = self.tasks.find(&request.task_id, &Whose::of(context))?;
        Ok(GetTaskResult::new(task.now(&request.task_id)))
    }

    /// Delivers answers to a task.
    pub(super) fn update(
        &self,
        request: UpdateTaskParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let task = self.tasks.find(&request.task_id, &Whose::of(context))?;
        task.answer(request.input_responses);
        Ok(())
    }

    /// Cancels a task. A finished one stays as it is.
    pub(super) fn cancel(
        &self,
        request: &CancelTaskParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks.find(&request.task_id, &Whose::of(context))?.cancel.cancel();
        Ok(())
    }
}

/// Returns the result of a job, once it is over. If the job waits for input, its client is asked.
async fn result_of(job: &str, jobs: &dyn Jobs, client: &Client, cancel: &CancellationToken) -> Answer {
    let over = async {
        loop {
            let now = match jobs.wait(job, Until::Exit, LOOK).await {
                Ok(waited) => waited.job,
                Err(fault) => return Err(fault),
            };
            if now.state.is_over() {
                return result(&now);
            }
            if now.state == kit::services::State::Waiting {
                match input(&now, client).await {
                    // The next check reads its answer.
                    Some(input) => drop(jobs.go_on(job, input, Duration::ZERO).await),
                    // Its model may deliver the input.
                    None => tokio::time::sleep(POLL).await,
                }
            }
        }
    };
    let result = tokio::select! {
        biased;
        result = over => result,
        () = cancel.cancelled() => jobs.stop(job).await.and_then(|job| result(&job)),
    };
    Answer { id: job.to_owned(), result, notes: Vec::new(), changes: Vec::new(), took: Duration::ZERO }
}

fn result(job: &Job) -> Result<kit::Output, Fault> {
    match job.result.as_deref() {
        Some(Ok(output)) => Ok(output.clone()),
        Some(Err(fault)) => Err(fault.copied()),
        None => Err(Fault::bug(format!("{} is over without a result", job.id))),
    }
}

/// Asks the person for the input that a job waits for.
async fn input(job: &Job, client: &Client) -> Option<Value> {
    if !client.offers().forms {
        return None;
    }
    let said = job.said.as_deref().map(kit::Output::as_text).unwrap_or_default();
    let message = format!("{} waits for input; it said:\n{said}", job.id);
    let schema = json!({"type": "object", "required": ["input"],
        "properties": {"input": {"type": "string", "title": "Input", "description": "What the job goes on with"}}});
    match client.form(message, schema).await {
        Ok(Filled::Accepted(filled)) => filled.get("input").cloned(),
        _ => None,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn forsaken() -> Answer {
    let fault = Fault::new(Kind::Cancelled, "nobody answered what this call wanted to know; it was stopped");
    Answer {
        id: String::new(),
        result: Err(fault),
        notes: Vec::new(),
        changes: Vec::new(),
        took: Duration::ZERO,
    }
}

fn object(value: &impl Serialize) -> JsonObject {
    match serde_json::to_value(value) {
        Ok(Value::Object(object)) => object,
        _ => JsonObject::new(),
    }
}
