//! Dispatch of a client's requests: each runs in a task of its own, is answered exactly once, and can be cancelled.

use std::{collections::HashMap, future::Future, sync::Arc, time::Duration};

use agent_client_protocol_schema::{
    ProtocolVersion,
    v1::{
        CancelNotification, CancelRequestNotification, Error, ErrorCode, InitializeRequest,
        InitializeResponse, PromptRequest, SessionId,
    },
};
use parking_lot::Mutex;
use rmcp::model::RequestId;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    backend::{AcpBackend, Described, Reply},
    editor::Editor,
    wire::{Incoming, Sender},
};
use crate::message::echo;

/// Time for requests to end by themselves after the end of input: a script that pipes its requests in has no other way to get
/// the answers.
const FINISH: Duration = Duration::from_millis(500);

/// How long the end waits for the answers of requests that were cancelled.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// The outcome of a request.
type Outcome = Result<Reply<Value>, Error>;

/// The requests of a connection.
pub(super) struct Dispatcher<B> {
    backend: Arc<B>,
    editor: Editor,
    sender: Sender,
    under_way: Arc<UnderWay>,
    tasks: TaskTracker,
}

/// Requests and turns that can be cancelled.
#[derive(Default)]
struct UnderWay {
    requests: Mutex<HashMap<RequestId, CancellationToken>>,
    turns: Mutex<HashMap<SessionId, Vec<(RequestId, CancellationToken)>>>,
}

impl<B: AcpBackend> Dispatcher<B> {
    pub(super) fn new(backend: Arc<B>, editor: Editor, sender: Sender) -> Self {
        let (under_way, tasks) = (Arc::default(), TaskTracker::new());
        Self { backend, editor, sender, under_way, tasks }
    }

    /// Dispatches until the input ends or the output breaks. Requests under way then get a moment to end by themselves if the
    /// output is there, and are cancelled and answered after it.
    pub(super) async fn run(&self, mut incoming: mpsc::Receiver<Incoming>, broken: &CancellationToken) {
        let mut begun = false;
        loop {
            let message = tokio::select! {
                biased;
                () = broken.cancelled() => break,
                message = incoming.recv() => message,
            };
            match message {
                None => break,
                Some(Incoming::Notification { method, params }) => self.note(&method, params),
                Some(Incoming::Request { id, method, params, ticket }) => {
                    let refusal = match method.as_str() {
                        "initialize" => {
                            begun = true;
                            None
                        }
                        _ if begun => None,
                        _ => Some(Error::new(
                            ErrorCode::InvalidRequest.into(),
                            format!("`{}` came before `initialize`; send `initialize` first", echo(&method)),
                        )),
                    };
                    match refusal {
                        Some(error) => self.sender.answer(&id, Err(error)).await,
                        None => self.begin(id, method, params),
                    }
                    drop(ticket);
                }
            }
        }
        self.tasks.close();
        if !broken.is_cancelled() {
            let _ = tokio::time::timeout(FINISH, self.tasks.wait()).await;
        }
        for token in self.under_way.requests.lock().values() {
            token.cancel();
        }
        // A request that does not end is left to `end`.
        let _ = tokio::time::timeout(LAST_ANSWERS, self.tasks.wait()).await;
    }

    /// Takes up a notification. One that nobody knows is ignored, as the protocol wants it.
    fn note(&self, method: &str, params: Value) {
        match method {
            "session/cancel" => {
                let Ok(cancel) = serde_json::from_value::<CancelNotification>(params) else { return };
                let turns = self.under_way.turns.lock();
                match turns.get(&cancel.session_id) {
                    Some(turns) => turns.iter().for_each(|(_, token)| token.cancel()),
                    // Somebody else may have begun the turn that goes on.
                    None => {
                        let backend = self.backend.clone();
                        self.tasks.spawn(async move { backend.cancel(cancel.session_id).await });
                    }
                }
            }
            "$/cancel_request" => {
                let request = serde_json::from_value::<CancelRequestNotification>(params)
                    .ok()
                    .and_then(|it| serde_json::to_value(it.request_id).ok())
                    .and_then(|it| serde_json::from_value::<RequestId>(it).ok());
                if let Some(token) = request.and_then(|it| self.under_way.requests.lock().get(&it).cloned()) {
                    token.cancel();
                }
            }
            other => tracing::debug!(method = other, "ignoring a notification"),
        }
    }

    fn begin(&self, id: RequestId, method: String, params: Value) {
        let token = CancellationToken::new();
        self.under_way.requests.lock().insert(id.clone(), token.clone());
        // A turn can be cancelled from now on, also before its task has run for the first time.
        let turn = (method == "session/prompt")
            .then(|| serde_json::from_value::<PromptRequest>(params.clone()).ok())
            .flatten()
            .map(|it| it.session_id);
        if let Some(session) = &turn {
            let mut turns = self.under_way.turns.lock();
            turns.entry(session.clone()).or_default().push((id.clone(), token.clone()));
        }
        let (backend, editor) = (self.backend.clone(), self.editor.clone());
        let (sender, under_way) = (self.sender.clone(), self.under_way.clone());
        self.tasks.spawn(async move {
            // A turn that is cancelled has an answer, with its stop reason.
            let outcome = if method == "session/prompt" {
                answer(&*backend, &editor, &method, params, token.clone()).await
            } else {
                tokio::select! {
                    biased;
                    () = token.cancelled() => Err(Error::request_cancelled()),
                    outcome = answer(&*backend, &editor, &method, params, token.clone()) => outcome,
                }
            };
            under_way.requests.lock().remove(&id);
            if let Some(session) = turn {
                let mut turns = under_way.turns.lock();
                if let Some(others) = turns.get_mut(&session) {
                    others.retain(|(it, _)| *it != id);
                }
                turns.retain(|_, others| !others.is_empty());
            }
            match outcome {
                Ok(Reply { result, then }) => {
                    sender.answer(&id, Ok::<_, Error>(result)).await;
                    if let Some(then) = then {
                        then.await;
                    }
                }
                Err(error) => sender.answer(&id, Err(error)).await,
            }
        });
    }
}

async fn answer<B: AcpBackend>(
    backend: &B,
    editor: &Editor,
    method: &str,
    params: Value,
    cancel: CancellationToken,
) -> Outcome {
    match method {
        "initialize" => initialize(backend, editor, read(method, params)?),
        "authenticate" => written(backend.authenticate(read(method, params)?)).await,
        "session/new" => written(backend.new_session(read(method, params)?)).await,
        "session/load" => written(backend.load(read(method, params)?)).await,
        "session/resume" => written(backend.resume(read(method, params)?)).await,
        "session/fork" => written(backend.fork(read(method, params)?)).await,
        "session/list" => written(backend.list(read(method, params)?)).await,
        "session/delete" => written(backend.delete(read(method, params)?)).await,
        "session/close" => written(backend.close(read(method, params)?)).await,
        "session/prompt" => written(backend.prompt(read(method, params)?, cancel)).await,
        "session/set_mode" => written(backend.set_mode(read(method, params)?)).await,
        "session/set_config_option" => written(backend.set_config_option(read(method, params)?)).await,
        other => {
            let what = format!("there is no method `{}` in ACP version 1 here", echo(other));
            Err(Error::new(ErrorCode::MethodNotFound.into(), what))
        }
    }
}

/// The version is the client's where this is one that is spoken here, else the newest that is.
fn initialize<B: AcpBackend>(backend: &B, editor: &Editor, request: InitializeRequest) -> Outcome {
    let InitializeRequest { client_capabilities, client_info, .. } = request;
    let Described { capabilities, auth_methods, info } = backend.describe(&client_capabilities);
    editor.met(client_capabilities, client_info);
    let response = InitializeResponse::new(ProtocolVersion::V1)
        .agent_capabilities(capabilities)
        .auth_methods(auth_methods)
        .agent_info(info);
    Ok(value(&response)?.into())
}

fn read<P: DeserializeOwned>(method: &str, params: Value) -> Result<P, Error> {
    serde_json::from_value(params).map_err(|error| {
        let why = error.to_string();
        let what = format!("the params of `{method}` are wrong: {}", echo(&why));
        Error::new(ErrorCode::InvalidParams.into(), what)
    })
}

async fn written<T: Serialize>(answer: impl Future<Output = Result<Reply<T>, Error>>) -> Outcome {
    let Reply { result, then } = answer.await?;
    Ok(Reply { result: value(&result)?, then })
}

fn value(result: &impl Serialize) -> Result<Value, Error> {
    serde_json::to_value(result).map_err(Error::into_internal_error)
}
