//! Requests that servers make of haft: sampling, elicitation, roots.
#![expect(
    deprecated,
    reason = "servers of revisions before 2026-07-28 log, and ask for a model and for roots"
)]

mod form;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use kit::{Cx, Fault, escape::visible};
use parking_lot::Mutex;
use rmcp::{
    ClientHandler, RoleClient,
    model::{
        ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult,
        ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability, ErrorData,
        FormElicitationCapability, Implementation, InputRequest, ListRootsResult, LoggingLevel,
        LoggingMessageNotificationParam, ProgressNotificationParam, Role, Root, RootsCapabilities,
        SamplingCapability, SamplingMessage, SamplingMessageContentBlock,
    },
    service::{NotificationContext, RequestContext},
};
use serde_json::Value;

use self::form::Filled;
use super::{FindSession, Server, SessionAccess, notifications::ServerNotifications};

/// Limits of a server's log message, in characters, and of a prompt for a model, in bytes.
const LOGGED: usize = 2000;
const PROMPT: usize = 256 << 10;

/// Limits of a server's requests: at a time, and during one call.
const AT_ONCE: usize = 4;
const IN_ONE_CALL: usize = 50;

/// haft's side of one connection. Cheap to clone.
#[derive(Clone)]
pub(super) struct Handler {
    /// The notifications that the server sends.
    pub(super) notifications: Arc<ServerNotifications>,
    /// The session that the connection belongs to; none, where haft only fetches the tools.
    pub(super) session: Option<FindSession>,
    /// The server's name.
    server: Arc<str>,
    /// Whether it may use haft's model.
    sampling: bool,
    /// The calls that wait for the server.
    calls: Arc<Mutex<Vec<(String, Cx)>>>,
    /// The number of its open requests.
    standing: Arc<AtomicUsize>,
    /// The number of its requests since the first of the waiting calls began.
    asked: Arc<AtomicUsize>,
}

/// An open request of a server; dropping this closes it.
struct OpenRequest(Arc<AtomicUsize>);

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A call that waits for the server, until this is dropped: the server may ask its caller.
pub(super) struct Waiting {
    calls: Arc<Mutex<Vec<(String, Cx)>>>,
    call: String,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.calls.lock().retain(|(call, _)| *call != self.call);
    }
}

impl Handler {
    /// Creates haft's side of a connection to this server.
    pub(super) fn new(
        server: &Server,
        notifications: Arc<ServerNotifications>,
        session: Option<FindSession>,
    ) -> Self {
        let (calls, standing, asked) = Default::default();
        let (name, sampling) = (server.name.as_str().into(), server.section.sampling);
        Self { notifications, session, server: name, sampling, calls, standing, asked }
    }

    /// Registers a call: from now on the server may ask its caller.
    pub(super) fn waits(&self, call: &str, cx: &Cx) -> Waiting {
        let mut calls = self.calls.lock();
        if calls.is_empty() {
            self.asked.store(0, Ordering::Release);
        }
        calls.push((call.to_owned(), cx.clone()));
        drop(calls);
        Waiting { calls: self.calls.clone(), call: call.to_owned() }
    }

    /// Answers a request on which the server's call of this id depends: an `input_required` of 2026-07-28.
    ///
    /// # Errors
    /// When the server uses a capability that haft did not offer.
    pub(super) async fn input(&self, call: &str, request: InputRequest) -> Result<Value, ErrorData> {
        let answer = match request {
            InputRequest::Elicitation(it) => {
                serde_json::to_value(self.elicit(self.caller(Some(call)), it.params).await?)
            }
            InputRequest::CreateMessage(it) => serde_json::to_value(self.sample(it.params).await?),
            InputRequest::ListRoots(_) => serde_json::to_value(self.roots()?),
            _ => return Err(ErrorData::invalid_request("this client does not know that request", None)),
        };
        answer.map_err(|error| ErrorData::internal_error(error.to_string(), None))
    }

    /// Returns the call of this id, or the newest one: a request on the server's own stream names no call.
    fn caller(&self, call: Option<&str>) -> Option<Cx> {
        let calls = self.calls.lock();
        let named = call.and_then(|call| calls.iter().find(|(it, _)| it == call));
        named.or_else(|| calls.last()).map(|(_, cx)| cx.clone())
    }

    /// Counts a request of the server to a person or a model.
    ///
    /// # Errors
    /// When the server exceeds [`AT_ONCE`] or [`IN_ONE_CALL`].
    fn asks(&self) -> Result<OpenRequest, ErrorData> {
        let standing = OpenRequest(self.standing.clone());
        if self.standing.fetch_add(1, Ordering::AcqRel) >= AT_ONCE {
            let why = format!("{AT_ONCE} questions are not answered yet, and more are not taken at a time");
            return Err(ErrorData::invalid_request(why, None));
        }
        if self.asked.fetch_add(1, Ordering::AcqRel) >= IN_ONE_CALL {
            let why = format!("{IN_ONE_CALL} questions were asked, and more are not taken in one call");
            return Err(ErrorData::invalid_request(why, None));
        }
        Ok(standing)
    }

    fn session(&self) -> Option<Arc<dyn SessionAccess>> {
        self.session.as_ref().and_then(|find| find())
    }

    async fn elicit(
        &self,
        caller: Option<Cx>,
        request: ElicitRequestParams,
    ) -> Result<ElicitResult, ErrorData> {
        let ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } = request else {
            return Err(ErrorData::invalid_params("this client offers forms, and no other way to ask", None));
        };
        // No call waits for the server, so a person would not know why they are asked.
        let Some(cx) = caller else { return Ok(ElicitResult::new(ElicitationAction::Cancel)) };
        let _standing = self.asks()?;
        let schema = serde_json::to_value(&requested_schema).unwrap_or_default();
        let asking = form::filled(&self.server, &message, &schema, |question| cx.agents().ask(question, &cx));
        let filled = tokio::select! {
            filled = asking => filled,
            () = cx.cancelled() => return Ok(ElicitResult::new(ElicitationAction::Cancel)),
        };
        Ok(match filled {
            Ok(Filled::In(content)) => ElicitResult::new(ElicitationAction::Accept).with_content(content),
            Ok(Filled::Declined) => ElicitResult::new(ElicitationAction::Decline),
            // Nobody can answer, or nobody answered in time: that is not a refusal.
            Ok(Filled::GaveUp) | Err(_) => ElicitResult::new(ElicitationAction::Cancel),
        })
    }

    async fn sample(&self, params: CreateMessageRequestParams) -> Result<CreateMessageResult, ErrorData> {
        let refused = |why: &str| ErrorData::invalid_request(why.to_owned(), None);
        if !self.sampling {
            return Err(refused("this client was not told to lend its model (`sampling = true`)"));
        }
        if self.calls.lock().is_empty() {
            return Err(refused("no call of this client is under way that would need it"));
        }
        if params.tools.as_ref().is_some_and(|it| !it.is_empty()) {
            return Err(ErrorData::invalid_params("this client's model is lent without tools", None));
        }
        let Some(session) = self.session() else { return Err(refused("the session is over")) };
        let _standing = self.asks()?;
        let prompt = text_of(&params.messages)?;
        let system = params.system_prompt.unwrap_or_default();
        let agents = session.agents();
        let answer = agents.think(&system, &prompt).await;
        let answer = answer.map_err(|Fault { what, .. }| ErrorData::internal_error(what, None))?;
        let message = SamplingMessage::new(Role::Assistant, SamplingMessageContentBlock::text(answer));
        // The answer does not name the model.
        Ok(CreateMessageResult::new(message, "haft".to_owned())
            .with_stop_reason(CreateMessageResult::STOP_REASON_END_TURN))
    }

    fn roots(&self) -> Result<ListRootsResult, ErrorData> {
        let Some(session) = self.session() else {
            return Err(ErrorData::invalid_request("there is no workspace", None));
        };
        let roots = session.roots();
        let uris = roots.list().filter_map(|(dir, _)| reqwest::Url::from_file_path(dir).ok());
        Ok(ListRootsResult::new(uris.map(|it| Root::new(String::from(it))).collect()))
    }
}

/// Renders the conversation of a sampling request as one text.
fn text_of(messages: &[SamplingMessage]) -> Result<String, ErrorData> {
    let mut text = String::new();
    let single = messages.len() == 1;
    for message in messages {
        if !single {
            text.push_str(if message.role == Role::Assistant { "assistant: " } else { "user: " });
        }
        for block in message.content.iter() {
            let Some(block) = block.as_text() else {
                return Err(ErrorData::invalid_params("this client's model is lent for text alone", None));
            };
            text.push_str(&block.text);
            text.push('\n');
        }
    }
    if text.len() > PROMPT {
        let why =
            format!("{} bytes are more than the {PROMPT} that this client's model is lent for", text.len());
        return Err(ErrorData::invalid_params(why, None));
    }
    Ok(text)
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut offers = ClientCapabilities::default();
        if self.session.is_some() {
            let form = FormElicitationCapability::new().with_schema_validation(true);
            offers.elicitation = Some(ElicitationCapability::new().with_form(form));
            offers.roots = Some(RootsCapabilities::default());
            offers.sampling = self.sampling.then(SamplingCapability::default);
        }
        ClientConfig::new(offers, Implementation::new("haft", env!("CARGO_PKG_VERSION")))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        self.elicit(self.caller(None), request).await
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        self.sample(params).await
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        self.roots()
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.notifications.progressed(&params);
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.notifications.tools_changed.notify_one();
    }

    async fn on_logging_message(
        &self,
        said: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let text = said.data.as_str().map_or_else(|| said.data.to_string(), str::to_owned);
        let text: String = visible(&text).0.chars().take(LOGGED).collect();
        let logger: String =
            visible(said.logger.as_deref().unwrap_or_default()).0.chars().take(100).collect();
        let server = &*self.server;
        match said.level {
            LoggingLevel::Debug => tracing::debug!(server, logger, "{text}"),
            LoggingLevel::Info | LoggingLevel::Notice => tracing::info!(server, logger, "{text}"),
            LoggingLevel::Warning => tracing::warn!(server, logger, "{text}"),
            _ => tracing::error!(server, logger, "{text}"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::mcp_client::test_server::configured;

    #[test]
    fn server_requests_are_limited_at_a_time_and_per_call() {
        let handler = Handler::new(&configured("http://127.0.0.1/", |_| {}), Arc::default(), None);
        let few: Vec<OpenRequest> = (0..AT_ONCE).map(|_| handler.asks().unwrap()).collect();
        assert!(handler.asks().is_err());
        drop(few);
        let answered = (0..2 * IN_ONE_CALL).filter(|_| handler.asks().is_ok()).count();
        assert_eq!(answered, IN_ONE_CALL - AT_ONCE);
        assert_eq!(handler.standing.load(Ordering::Acquire), 0);
    }
}
