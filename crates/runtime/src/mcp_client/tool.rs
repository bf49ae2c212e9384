//! Calls of a server's tool, and what they touch.

use std::{sync::Arc, time::Duration};

use kit::{
    AnyTool, Cx, Fault, Kind, Kinds, Mode, Origin, Output, Prepared, Running, Spec, Touch, Touches,
    escape::visible, spans,
};
use rmcp::{
    model::{
        CallToolRequest, CallToolRequestParams, CallToolResult, ClientRequest, InputRequiredResult,
        ServerResult,
    },
    service::{PeerRequestOptions, ServiceError},
};
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep};
use tracing::Instrument as _;

use super::{
    Connections, Server,
    connect::{Live, exit_words},
    definition::Definition,
    http,
    link::Link,
    names::called,
    result,
};
use crate::{arguments::Check, execution::session_ended};

/// Limit of `input_required` rounds per call.
const ROUNDS: usize = 10;
/// Pause before the next round if the server asks for no input.
const AGAIN: Duration = Duration::from_millis(250);
/// Time that haft waits for an answer after the server ended.
const LAST: Duration = Duration::from_millis(200);
/// Limit of a protocol error's text, in characters.
const SAID: usize = 2000;

/// A tool of a server.
pub(super) struct ServerTool {
    terms: Arc<CallRules>,
}

/// The data that all calls of a tool share.
struct CallRules {
    spec: Spec,
    server: Arc<Server>,
    definition: Definition,
    check: Check,
    /// Whether the person declared that it changes nothing.
    reads: bool,
    /// Whether the person declared that it may be repeated.
    again: bool,
}

impl ServerTool {
    /// Creates the tool of a definition, with the person's configuration of its server.
    pub(super) fn new(server: &Arc<Server>, definition: &Definition) -> Self {
        let section = &server.section;
        let names = |list: &[String]| list.iter().any(|it| it == "*" || *it == definition.name);
        let reads = names(&section.read_only);
        let at_most = match (reads, &section.url) {
            (true, _) => Kinds::SESSION,
            (false, Some(_)) => Kinds::RUN | Kinds::NET,
            (false, None) => Kinds::RUN | Kinds::NET | Kinds::EXCLUSIVE,
        };
        let spec = Spec {
            name: called(&server.name, &definition.name),
            description: definition.shown(),
            schema: definition.schema.clone(),
            mode: Mode::Direct,
            at_most,
            output: definition.output.clone(),
            origin: Origin::Server(server.name.clone()),
        };
        let again = reads || names(&section.idempotent);
        let (server, definition) = (server.clone(), definition.clone());
        Self {
            terms: Arc::new(CallRules { spec, server, definition, check: Check::default(), reads, again }),
        }
    }
}

impl AnyTool for ServerTool {
    fn spec(&self) -> &Spec {
        &self.terms.spec
    }

    fn prepare(&self, arguments: Value) -> Result<Box<dyn Prepared>, Fault> {
        let arguments = match arguments {
            Value::Null => Map::new(),
            Value::Object(arguments) => arguments,
            other => {
                return Err(Fault::bad_args(format!("the arguments are `{other}`, and must be an object")));
            }
        };
        let arguments = Value::Object(arguments);
        self.terms.check.check(&self.terms.definition.schema, &arguments)?;
        let Value::Object(arguments) = arguments else { return Err(Fault::bug("an object is one")) };
        Ok(Box::new(OneCall { terms: self.terms.clone(), arguments }))
    }
}

/// A call with valid arguments.
struct OneCall {
    terms: Arc<CallRules>,
    arguments: Map<String, Value>,
}

impl Prepared for OneCall {
    fn touches(&self) -> Touches {
        let CallRules { server, reads, .. } = &*self.terms;
        let touches = Touches::none().and(Touch::Server { name: server.name.clone(), reads: *reads });
        // A local server may change the workspace, and haft can't know where.
        if *reads || server.section.url.is_some() { touches } else { touches.and(Touch::Exclusive) }
    }

    fn time_limit(&self) -> Option<Duration> {
        self.terms.server.section.timeout_seconds.map(Duration::from_secs)
    }

    fn run(self: Box<Self>, cx: Cx) -> Running {
        Box::pin(async move { self.done(&cx).await })
    }
}

/// The reason why a call has no answer.
enum Lost {
    /// The connection is lost; the call may have been executed.
    Connection(Option<String>),
    /// Any other fault.
    Otherwise(Fault),
}

impl Lost {
    /// Returns its name in traces.
    fn name(&self) -> &'static str {
        match self {
            Self::Connection(_) => "connection_lost",
            Self::Otherwise(fault) => fault.kind.name(),
        }
    }
}

impl OneCall {
    async fn done(&self, cx: &Cx) -> Result<Output, Fault> {
        let terms = &*self.terms;
        let Some(connections) = cx.shelf().find::<Connections>() else { return Err(session_ended()) };
        let link = connections.link(&terms.server.name)?;
        let mut may_repeat = terms.again;
        loop {
            let live = tokio::select! {
                biased;
                () = cx.cancelled() => return Err(self.stopped()),
                live = connections.live(&link) => live?,
            };
            connections.is_as_shown(&link, &terms.definition, &terms.spec.name)?;
            match self.ask(cx, &live).await {
                Ok(result) => {
                    link.worked(&live);
                    return result::output(&terms.spec.name, result);
                }
                Err(Lost::Otherwise(fault)) => {
                    // The server answered, if with an error.
                    if fault.kind != Kind::Cancelled && fault.kind != Kind::Timeout {
                        link.worked(&live);
                    }
                    return Err(fault);
                }
                Err(Lost::Connection(why)) => {
                    let fault = self.lost(&link, &live, why).await;
                    if !std::mem::take(&mut may_repeat) {
                        return Err(fault);
                    }
                }
            }
        }
    }

    /// Returns the fault of a call whose connection was lost.
    async fn lost(&self, link: &Link, live: &Arc<super::connect::Live>, why: Option<String>) -> Fault {
        let name = &self.terms.server.name;
        let exit = live.ended().await;
        let how = match (exit, why) {
            (Some(exit), _) => format!("the server {}", exit_words(exit)),
            (None, Some(why)) => why,
            (None, None) => "it closed the connection".to_owned(),
        };
        let what = format!(
            "the connection to `{name}` was lost after the call was sent, so it may or may not have been done: {how}"
        );
        let fault = live.with_seen(Fault::new(Kind::Unavailable, what)).await;
        link.lost(live, &fault);
        let next = "Look at what it changed before you call it again: the next call restarts the server.";
        match &fault.next {
            Some(_) => fault,
            None => fault.next(next),
        }
    }

    /// Makes one call, and answers the server's requests on the way.
    async fn ask(&self, cx: &Cx, live: &Live) -> Result<CallToolResult, Lost> {
        let mut params = CallToolRequestParams::new(self.terms.definition.name.clone())
            .with_arguments(self.arguments.clone());
        let _waits = live.service.service().waits(&cx.caller().job(), cx);
        for _ in 0..ROUNDS {
            let more = match self.round(cx, live, params.clone()).await? {
                ServerResult::CallToolResult(result) => return Ok(result),
                ServerResult::InputRequiredResult(more) => more,
                _ => return Err(Lost::Otherwise(self.odd("its answer is not a result of a call"))),
            };
            self.answer(cx, live, more, &mut params).await?;
        }
        Err(Lost::Otherwise(self.odd(&format!("it wanted more {ROUNDS} times"))))
    }

    /// Answers the server's requests and adds the answers to the next request.
    async fn answer(
        &self,
        cx: &Cx,
        live: &Live,
        more: InputRequiredResult,
        params: &mut CallToolRequestParams,
    ) -> Result<(), Lost> {
        let requests = more.input_requests.unwrap_or_default();
        if requests.is_empty() {
            sleep(AGAIN).await;
        }
        let handler = live.service.service();
        let mut answers = rmcp::model::InputResponses::new();
        for (key, request) in requests {
            let call = cx.caller().job();
            let answer = tokio::select! {
                biased;
                () = cx.cancelled() => return Err(Lost::Otherwise(self.stopped())),
                answer = handler.input(&call, request) => answer,
            };
            let answer = answer.map_err(|error| {
                Lost::Otherwise(self.odd(&format!("it asked for what it did not get: {}", error.message)))
            })?;
            answers.insert(key, answer);
        }
        params.input_responses = (!answers.is_empty()).then_some(answers);
        params.request_state = more.request_state;
        Ok(())
    }

    async fn round(&self, cx: &Cx, live: &Live, params: CallToolRequestParams) -> Result<ServerResult, Lost> {
        let span = spans::McpRequest::sent(&self.terms.server.name, "tools/call", Some(&params.name));
        let answered = self.round_in_span(cx, live, params).instrument(span.span()).await;
        match &answered {
            Ok(_) => span.ended(None),
            Err(lost) => span.failed(lost.name()),
        }
        answered
    }

    async fn round_in_span(
        &self,
        cx: &Cx,
        live: &Live,
        params: CallToolRequestParams,
    ) -> Result<ServerResult, Lost> {
        let _changes = live.process().and_then(|it| cx.procs().during(it));
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let sent = live.service.send_cancellable_request(request, PeerRequestOptions::no_options()).await;
        let mut handle = sent.map_err(|error| self.failed(error))?;
        let _hearing = live
            .service
            .service()
            .notifications
            .subscribe(handle.progress_token.clone(), cx.services().progress.clone());
        let answer = tokio::select! {
            biased;
            answer = &mut handle.rx => Some(answer),
            () = cx.cancelled() => {
                // The server may ignore this; haft drops a late answer.
                let _ = handle.cancel(Some("the call was stopped".to_owned())).await;
                return Err(Lost::Otherwise(self.stopped()));
            }
            () = too_long(self.time_limit(), cx) => {
                let seconds = self.time_limit().unwrap_or_default().as_secs();
                let _ = handle.cancel(Some("the call took too long".to_owned())).await;
                let what = format!("`{}` did not answer within its {seconds} s, so the call was stopped; it may or may not have been done", self.terms.spec.name);
                return Err(Lost::Otherwise(live.with_seen(Fault::new(Kind::Timeout, what)).await));
            }
            // A process that the server left behind may keep its output open.
            _ = live.exited() => tokio::time::timeout(LAST, &mut handle.rx).await.ok(),
        };
        match answer {
            Some(Ok(Ok(result))) => Ok(result),
            Some(Ok(Err(error))) => Err(self.failed(error)),
            Some(Err(_)) | None => Err(Lost::Connection(None)),
        }
    }

    fn failed(&self, error: ServiceError) -> Lost {
        if let Some(fault) = http::refused(&self.terms.server.name, &error) {
            return Lost::Otherwise(fault);
        }
        match error {
            ServiceError::McpError(error) => {
                let kind = if error.code.0 == -32602 { Kind::BadArgs } else { Kind::Failed };
                let said: String = visible(&error.message).0.chars().take(SAID).collect();
                let what = format!(
                    "`{}` was refused by its server: {said} ({})",
                    self.terms.spec.name, error.code.0
                );
                Lost::Otherwise(Fault::new(kind, what))
            }
            ServiceError::TransportClosed => Lost::Connection(None),
            ServiceError::TransportSend(error) => Lost::Connection(Some(error.to_string())),
            ServiceError::Cancelled { reason } => {
                let why = reason.map(|it| format!(": {}", visible(&it).0)).unwrap_or_default();
                Lost::Otherwise(self.odd(&format!("it gave the call up{why}")))
            }
            other => Lost::Otherwise(self.odd(&other.to_string())),
        }
    }

    fn odd(&self, why: &str) -> Fault {
        Fault::new(Kind::Failed, format!("`{}` has no answer: {why}", self.terms.spec.name))
    }

    fn stopped(&self) -> Fault {
        Fault::new(Kind::Cancelled, format!("`{}` was stopped before it was done", self.terms.spec.name))
    }
}

async fn too_long(limit: Option<Duration>, cx: &Cx) {
    // A deadline beyond the clock's range never comes.
    match limit.filter(|it| Instant::now().checked_add(*it).is_some()) {
        Some(limit) => cx.caller().passed(limit).await,
        None => std::future::pending().await,
    }
}
