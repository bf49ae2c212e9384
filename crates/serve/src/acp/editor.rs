//! The client of a connection, as an agent reaches it: updates, permissions, questions, and the texts of open files.

use std::{
    path::PathBuf,
    sync::{Arc, mpsc},
    time::Duration,
};

use agent_client_protocol_schema::v1::{
    ClientCapabilities, CreateElicitationRequest, CreateElicitationResponse, Implementation,
    ReadTextFileRequest, ReadTextFileResponse, RequestPermissionOutcome, RequestPermissionRequest,
    RequestPermissionResponse, SessionId, SessionNotification, SessionUpdate,
};
use kit::{Fault, Kind};
use parking_lot::RwLock;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::wire::Sender;

/// The client of a connection. Cheap to clone.
#[derive(Clone)]
pub struct Editor {
    sender: Sender,
    client: Arc<RwLock<Client>>,
}

#[derive(Default)]
struct Client {
    capabilities: ClientCapabilities,
    info: Option<Implementation>,
}

/// A request to the client; when it is dropped unanswered, haft sends `$/cancel_request`.
struct Asked<'a> {
    sender: &'a Sender,
    id: i64,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if self.sender.forget(self.id) {
            self.sender.send_soon(&cancelled(self.id));
        }
    }
}

fn cancelled(id: i64) -> Value {
    json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": id}})
}

impl Editor {
    pub(super) fn new(sender: Sender) -> Self {
        Self { sender, client: Arc::default() }
    }

    pub(super) fn met(&self, capabilities: ClientCapabilities, info: Option<Implementation>) {
        *self.client.write() = Client { capabilities, info };
    }

    /// Returns the client's capabilities, as declared when the connection began.
    pub fn capabilities(&self) -> ClientCapabilities {
        self.client.read().capabilities.clone()
    }

    /// Returns the client's name, if it sent one.
    pub fn name(&self) -> Option<String> {
        self.client.read().info.as_ref().map(|it| it.name.clone())
    }

    /// Returns whether the client can show forms (elicitation).
    pub fn has_forms(&self) -> bool {
        self.client.read().capabilities.elicitation.as_ref().is_some_and(|it| it.form.is_some())
    }

    /// Returns whether the client shows notices, which are not part of the conversation.
    pub fn shows_notices(&self) -> bool {
        self.client.read().capabilities.session.as_ref().is_some_and(|it| it.notices.is_some())
    }

    /// Returns whether the client can read text files, unsaved changes included.
    pub fn reads_files(&self) -> bool {
        self.client.read().capabilities.fs.read_text_file
    }

    /// Sends a `session/update` notification. Waits while the outbox is full, because the client does not read.
    pub async fn update(&self, session: &SessionId, update: SessionUpdate) {
        let params = SessionNotification::new(session.clone(), update);
        let message = json!({"jsonrpc": "2.0", "method": "session/update", "params": params});
        self.sender.send(&message).await;
    }

    /// Asks the person whether a call may run. Dropping the future takes the question back.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] when the client goes away; [`Kind::Failed`] when it refuses; [`Kind::BadArgs`] when its answer can't
    /// be read.
    pub async fn request_permission(
        &self,
        request: RequestPermissionRequest,
    ) -> Result<RequestPermissionOutcome, Fault> {
        let answer: RequestPermissionResponse = self.request("session/request_permission", &request).await?;
        Ok(answer.outcome)
    }

    /// Has the person fill in a form. Dropping the future takes it back.
    ///
    /// # Errors
    /// Those of [`request_permission`](Self::request_permission).
    pub async fn elicit(
        &self,
        request: CreateElicitationRequest,
    ) -> Result<CreateElicitationResponse, Fault> {
        self.request("elicitation/create", &request).await
    }

    /// The text of a file as the editor has it, with what is not saved yet. Blocks, for at most `within`.
    ///
    /// # Errors
    /// Those of [`request_permission`](Self::request_permission), and [`Kind::Timeout`].
    pub fn read_text_file(
        &self,
        session: &SessionId,
        path: impl Into<PathBuf>,
        within: Duration,
    ) -> Result<String, Fault> {
        let (tell, told) = mpsc::channel();
        let id = self.sender.expect(Box::new(move |answer| drop(tell.send(answer))));
        let asked = Asked { sender: &self.sender, id };
        let params = ReadTextFileRequest::new(session.clone(), path);
        if !self.sender.send_blocking(&call(id, "fs/read_text_file", &params), within) {
            return Err(gone());
        }
        let answer = told.recv_timeout(within);
        drop(asked);
        let answer = answer.map_err(|_| {
            Fault::new(Kind::Timeout, "the editor did not answer `fs/read_text_file` in time")
        })?;
        result::<ReadTextFileResponse>("fs/read_text_file", answer).map(|it| it.content)
    }

    async fn request<R: DeserializeOwned>(
        &self,
        method: &str,
        params: &(impl Serialize + Sync),
    ) -> Result<R, Fault> {
        let (tell, told) = oneshot::channel();
        let id = self.sender.expect(Box::new(move |answer| drop(tell.send(answer))));
        let _asked = Asked { sender: &self.sender, id };
        if !self.sender.send(&call(id, method, params)).await {
            return Err(gone());
        }
        result(method, told.await.map_err(|_| gone())?)
    }
}

fn call(id: i64, method: &str, params: &impl Serialize) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn result<R: DeserializeOwned>(method: &str, answer: Result<Value, Value>) -> Result<R, Fault> {
    match answer {
        Ok(result) => serde_json::from_value(result).map_err(|error| {
            Fault::bad_args(format!("the client's answer to `{method}` can't be read: {error}"))
        }),
        Err(error) => {
            let what = error.get("message").and_then(Value::as_str).unwrap_or("no reason was given");
            Err(Fault::new(Kind::Failed, format!("the client refused `{method}`: {what}")))
        }
    }
}

fn gone() -> Fault {
    Fault::new(Kind::Unavailable, "the client has gone away")
}
