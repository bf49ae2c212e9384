//! Elicitation and sampling: requests of a call to its client.
#![expect(deprecated, reason = "MCP is about to drop sampling, roots and logging; its clients have not")]

use std::sync::Arc;

use futures_util::future::join_all;
use kit::{Fault, Kind, services::Soon};
use rmcp::{
    RoleServer, ServiceError,
    model::{
        ClientCapabilities, ClientResult, CreateMessageRequest, ElicitRequest, ElicitRequestParams,
        ErrorData, InputRequest, ListRootsRequest, ServerRequest,
    },
    service::{Peer, PeerRequestOptions, RequestContext, RequestHandle},
};
use serde_json::{Map, Value, json};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use super::{LISTENING, logging::worded, multi_round::LIFETIME};
use crate::client::{Ask, Level, Offers, Way};

/// Maximum number of messages that wait to be sent to the client.
const SAID: usize = 256;

/// From this revision on a form can have titles for its choices.
const TITLES: &str = "2025-11-25";

/// A message of a call to its client.
pub(super) enum ToClient {
    /// A question.
    Question(Question),
    /// A log record.
    Log(Log),
}

/// A log record for a client.
pub(super) struct Log {
    level: Level,
    logger: String,
    data: Value,
}

/// Requests of a call, to be sent together.
pub(super) struct Question {
    /// The requests, each under its key.
    pub(super) asked: Vec<(String, InputRequest)>,
    /// The receiver of the answers.
    pub(super) reply: oneshot::Sender<Result<Vec<Value>, Fault>>,
}

/// The channel from a call to its client: the task that serves the request forwards the messages.
pub(super) struct Asking {
    to: mpsc::Sender<ToClient>,
    offers: Offers,
    name: Option<String>,
    revision: Option<String>,
    lacks: Arc<Lacks>,
    /// The client's peer, if it can be asked outside of its request.
    lasting: Option<Peer<RoleServer>>,
}

/// Requests of a call that the client does not support.
#[derive(Default)]
pub(super) struct Lacks(std::sync::Mutex<Map<String, Value>>);

impl Asking {
    /// Creates the channel to the client of this request; returns both ends, and the missing features.
    pub(super) fn of(context: &RequestContext<RoleServer>) -> (Self, mpsc::Receiver<ToClient>, Arc<Lacks>) {
        let (to, said) = mpsc::channel(SAID);
        let revision = context.protocol_version().map(|it| it.as_str().to_owned());
        let by_answer = revision.as_deref().is_some_and(|it| it >= LISTENING);
        let lacks = Arc::<Lacks>::default();
        let asking = Self {
            to,
            offers: context.client_capabilities().as_ref().map(offers).unwrap_or_default(),
            name: context.client_info().map(|info| info.name),
            revision,
            lacks: Arc::clone(&lacks),
            lasting: (!by_answer).then(|| context.peer.clone()),
        };
        (asking, said, lacks)
    }

    fn worded(&self, ask: Ask) -> Result<InputRequest, Fault> {
        let titles = self.revision.as_deref().is_some_and(|it| it >= TITLES);
        match in_request(ask, titles) {
            Ok(request) => Ok(request),
            Err(error) => Err(Fault::bug(format!("MCP has no words for this question: {error}"))),
        }
    }
}

impl Way for Asking {
    fn offers(&self) -> Offers {
        self.offers
    }

    fn name(&self) -> Option<String> {
        self.name.clone()
    }

    fn ask(&self, asked: Vec<(String, Ask)>) -> Soon<'_, Result<Vec<Value>, Fault>> {
        Box::pin(async move {
            for (_, ask) in &asked {
                if let Some((capability, settings)) = lacking(ask, self.offers) {
                    self.lacks.note(capability, settings);
                    let what = format!("this client can't be asked that: it does not offer `{capability}`");
                    return Err(Fault::new(Kind::Unavailable, what));
                }
            }
            let worded: Result<_, Fault> =
                asked.into_iter().map(|(key, ask)| Ok((key, self.worded(ask)?))).collect();
            let (reply, answers) = oneshot::channel();
            let question = Question { asked: worded?, reply };
            match self.lasting.as_ref().filter(|_| self.to.is_closed()) {
                Some(peer) => {
                    // Over HTTP the client may have no stream open on which it would receive this.
                    let put = timeout(LIFETIME, put(peer, question));
                    put.await.map_err(|_| Fault::new(Kind::Unavailable, "the client did not answer"))?;
                }
                None => self.to.send(ToClient::Question(question)).await.map_err(|_| gone())?,
            }
            answers.await.map_err(|_| gone())?
        })
    }

    fn log(&self, level: Level, logger: &str, data: Value) {
        if self.to.try_send(ToClient::Log(Log { level, logger: logger.to_owned(), data })).is_err() {
            tracing::debug!("the client is not told: it is behind, or its request is over");
        }
    }

    fn is_there(&self) -> bool {
        !self.to.is_closed()
    }

    fn outlives(&self) -> bool {
        self.lasting.as_ref().is_some_and(|peer| !peer.is_transport_closed())
    }
}

impl Log {
    /// Sends it to the client, if it is severe enough.
    pub(super) async fn send(self, peer: &Peer<RoleServer>, least: Option<Level>) {
        if least.is_some_and(|least| self.level >= least) {
            // If the client is gone, nothing is sent.
            let _ = peer.notify_logging_message(worded(self.level, &self.logger, self.data)).await;
        }
    }
}

impl Lacks {
    fn note(&self, capability: &str, settings: Value) {
        let mut lacks = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        lacks.insert(capability.to_owned(), settings);
    }

    /// Returns the error for a call that failed because the client lacks a feature, if it does.
    pub(super) fn error(&self) -> Option<ErrorData> {
        let lacks = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        if lacks.is_empty() {
            return None;
        }
        let required: ClientCapabilities = serde_json::from_value(Value::Object(lacks)).unwrap_or_default();
        Some(ErrorData::missing_required_client_capability(required))
    }
}

/// Sends the questions to a client that answers requests, and forwards its answers. Cancels them when the
/// call no longer waits.
pub(super) async fn put(peer: &Peer<RoleServer>, question: Question) {
    let Question { asked, mut reply } = question;
    let kinds: Vec<InputRequest> = asked.iter().map(|(_, request)| request.clone()).collect();
    // Sent one after the other, in their order; the answers may arrive in any.
    let mut sent = Vec::with_capacity(asked.len());
    for (_, request) in asked {
        let request = match request {
            InputRequest::CreateMessage(request) => ServerRequest::CreateMessageRequest(request),
            InputRequest::Elicitation(request) => ServerRequest::ElicitRequest(request),
            InputRequest::ListRoots(request) => ServerRequest::ListRootsRequest(request),
            _ => continue,
        };
        match peer.send_request_with_option(request, PeerRequestOptions::no_options()).await {
            Ok(handle) => sent.push(PendingRequest { handle: Some(handle) }),
            Err(error) => {
                // The call may have ended.
                let _ = reply.send(Err(failed(&error)));
                return;
            }
        }
    }
    let answers = join_all(sent.into_iter().map(PendingRequest::answer));
    tokio::select! {
        biased;
        answers = answers => {
            let answers = answers.into_iter().zip(&kinds).map(|(answer, kind)| {
                let answer = answer?;
                if fits(kind, &answer) { Ok(answer) } else { Err(misfit()) }
            });
            let _ = reply.send(answers.collect());
        }
        () = reply.closed() => {}
    }
}

/// A request that the client has not answered.
struct PendingRequest {
    handle: Option<RequestHandle<RoleServer>>,
}

impl PendingRequest {
    async fn answer(mut self) -> Result<Value, Fault> {
        let Some(handle) = &mut self.handle else { return Err(gone()) };
        let answer = (&mut handle.rx).await;
        self.handle = None;
        match answer {
            Ok(Ok(result)) => in_words(&result),
            Ok(Err(error)) => Err(failed(&error)),
            Err(_) => Err(gone()),
        }
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        let Some(handle) = self.handle.take() else { return };
        tokio::spawn(async move {
            // If the client is gone, nothing is sent.
            let _ = handle.cancel(Some("the question is taken back".to_owned())).await;
        });
    }
}

fn in_words(result: &ClientResult) -> Result<Value, Fault> {
    serde_json::to_value(result)
        .map_err(|error| Fault::bug(format!("the client's answer can't be written: {error}")))
}

/// Returns whether this is a valid answer to such a request.
pub(super) fn fits(asked: &InputRequest, answer: &Value) -> bool {
    match asked {
        InputRequest::Elicitation(_) => match answer.get("action").and_then(Value::as_str) {
            Some("accept") => answer.get("content").is_none_or(Value::is_object),
            Some("decline" | "cancel") => true,
            _ => false,
        },
        InputRequest::CreateMessage(_) => {
            answer.get("role").is_some_and(Value::is_string) && answer.get("content").is_some()
        }
        InputRequest::ListRoots(_) => answer.get("roots").is_some_and(Value::is_array),
        _ => false,
    }
}

/// Returns the requests that a client declared to support.
fn offers(capabilities: &ClientCapabilities) -> Offers {
    let elicitation = capabilities.elicitation.as_ref();
    let sampling = capabilities.sampling.as_ref();
    Offers {
        // An empty declaration means forms: addresses came later.
        forms: elicitation.is_some_and(|it| it.form.is_some() || it.url.is_none()),
        addresses: elicitation.is_some_and(|it| it.url.is_some()),
        model: sampling.is_some(),
        model_with_tools: sampling.is_some_and(|it| it.tools.is_some()),
        roots: capabilities.roots.is_some(),
    }
}

/// Returns the feature that a client lacks for this request, if any.
fn lacking(ask: &Ask, offers: Offers) -> Option<(&'static str, Value)> {
    match ask {
        Ask::Form { .. } => (!offers.forms).then(|| ("elicitation", json!({"form": {}}))),
        Ask::Address { .. } => (!offers.addresses).then(|| ("elicitation", json!({"url": {}}))),
        Ask::Model(params) if params.get("tools").is_some() => {
            (!offers.model_with_tools).then(|| ("sampling", json!({"tools": {}})))
        }
        Ask::Model(_) => (!offers.model).then(|| ("sampling", json!({}))),
        Ask::Roots => (!offers.roots).then(|| ("roots", json!({}))),
    }
}

fn in_request(ask: Ask, titles: bool) -> Result<InputRequest, serde_json::Error> {
    Ok(match ask {
        Ask::Form { message, schema } => {
            let schema = if titles { schema } else { without_titles(schema) };
            let requested_schema = serde_json::from_value(schema)?;
            let params = ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema };
            InputRequest::Elicitation(ElicitRequest::new(params))
        }
        Ask::Address { message, url, id } => {
            let params =
                ElicitRequestParams::UrlElicitationParams { meta: None, message, url, elicitation_id: id };
            InputRequest::Elicitation(ElicitRequest::new(params))
        }
        Ask::Model(params) => {
            InputRequest::CreateMessage(CreateMessageRequest::new(serde_json::from_value(params)?))
        }
        Ask::Roots => InputRequest::ListRoots(ListRootsRequest::default()),
    })
}

/// Rewrites the choices of a form for earlier revisions: the values, and a list of their names.
fn without_titles(mut schema: Value) -> Value {
    let Some(fields) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return schema };
    for field in fields.values_mut().filter_map(Value::as_object_mut) {
        let Some(Value::Array(choices)) = field.remove("oneOf") else { continue };
        let each = |name: &str| choices.iter().filter_map(|it| it.get(name).cloned()).collect::<Vec<_>>();
        field.insert("enum".to_owned(), Value::Array(each("const")));
        field.insert("enumNames".to_owned(), Value::Array(each("title")));
    }
    schema
}

/// Returns the fault for a client that has disconnected.
pub(super) fn gone() -> Fault {
    Fault::new(Kind::Unavailable, "the client went away before it answered")
}

fn misfit() -> Fault {
    Fault::new(Kind::Failed, "what the client answered is not an answer to what it was asked")
}

fn failed(error: &ServiceError) -> Fault {
    match error {
        ServiceError::McpError(error) => {
            Fault::new(Kind::Failed, format!("the client refused: {}", error.message))
        }
        ServiceError::TransportClosed => gone(),
        other => Fault::new(Kind::Unavailable, format!("the client can't be asked: {other}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_of_choices_follow_the_revision() {
        let schema = || {
            json!({"type": "object", "properties": {"decision": {"type": "string", "oneOf": [
                {"const": "yes", "title": "Yes, do"}, {"const": "no", "title": "No"}]}}, "required": ["decision"]})
        };
        let field = |titles: bool| {
            let ask = Ask::Form { message: "May I?".to_owned(), schema: schema() };
            let worded = in_request(ask, titles).and_then(serde_json::to_value).unwrap_or_default();
            worded.pointer("/params/requestedSchema/properties/decision").cloned().unwrap_or_default()
        };
        assert_eq!(Some(&field(true)), schema().pointer("/properties/decision"));
        assert_eq!(
            field(false),
            json!({"type": "string", "enum": ["yes", "no"], "enumNames": ["Yes, do", "No"]})
        );
    }

    #[test]
    fn client_capabilities_become_offers() {
        let of = |capabilities: Value| serde_json::from_value(capabilities).as_ref().map(offers).ok();
        let none = Offers::default();
        assert_eq!(of(json!({})), Some(none));
        assert_eq!(of(json!({"elicitation": {}})), Some(Offers { forms: true, ..none }));
        assert_eq!(of(json!({"elicitation": {"url": {}}})), Some(Offers { addresses: true, ..none }));
        assert_eq!(
            of(json!({"elicitation": {"form": {}, "url": {}}, "roots": {}})),
            Some(Offers { forms: true, addresses: true, roots: true, ..none })
        );
        assert_eq!(of(json!({"sampling": {}})), Some(Offers { model: true, ..none }));
        assert_eq!(
            of(json!({"sampling": {"tools": {}}})),
            Some(Offers { model: true, model_with_tools: true, ..none })
        );
    }
}
