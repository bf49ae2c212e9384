//! MCP message parsing: checks each message, and explains what is wrong with an invalid one.

use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorCode, GetExtensions as _, JsonObject, JsonRpcMessage,
    ListToolsRequest, ProtocolVersion, Request, RequestId, RequestMetaObject,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::salvage::{id, repaired};

/// The protocol revision from which on a client must ask for notifications of changes.
pub(crate) const LISTENING: &str = "2026-07-28";

/// The result of parsing a line, or one member of a batch.
#[derive(Debug)]
pub(crate) enum Message {
    /// A message for rmcp.
    Good(Box<ClientJsonRpcMessage>),
    /// An invalid message, to be refused.
    Bad(Refusal),
    /// A message that needs no answer and has no effect.
    Nothing,
}

/// The JSON-RPC error that refuses a message.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// The id of the request, or null if it is unknown.
    pub(crate) id: Value,
    pub(crate) code: ErrorCode,
    pub(crate) what: String,
}

/// Limit of a request id, in bytes. Longer ids are refused and not echoed.
const LONGEST_ID: usize = 1024;

/// Limit of values in one message: each takes seventy bytes of memory, however short it is on the line.
const MOST_VALUES: usize = 1_000_000;

/// Limit of client text that an error repeats, in bytes.
const ECHO: usize = 200;

/// The requests of MCP that rmcp reads. If the parameters of one are wrong, rmcp takes it for an unknown
/// method.
const METHODS: &[&str] = &[
    "completion/complete",
    "initialize",
    "logging/setLevel",
    "ping",
    "prompts/get",
    "prompts/list",
    "resources/directory/read",
    "resources/list",
    "resources/read",
    "resources/subscribe",
    "resources/templates/list",
    "resources/unsubscribe",
    "server/discover",
    "skills/get",
    "skills/list",
    "subscriptions/listen",
    "tasks/cancel",
    "tasks/get",
    "tasks/update",
    "tools/call",
    "tools/list",
];

/// The requests that do not exist from revision 2026-07-28 on.
const GONE: &[&str] =
    &["initialize", "logging/setLevel", "ping", "resources/subscribe", "resources/unsubscribe"];

/// Parses the JSON on a line; returns `None` for an empty line.
pub(crate) fn json(line: &[u8]) -> Result<Option<Value>, Refusal> {
    let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line).trim_ascii();
    if line.is_empty() {
        return Ok(None);
    }
    // A shorter line can't hold too many values.
    if line.len() > MOST_VALUES && values(line) > MOST_VALUES {
        let what = format!("the message has more than {MOST_VALUES} values");
        return Err(Refusal::new(id(line), ErrorCode::INVALID_REQUEST, what));
    }
    let error = match serde_json::from_slice(line) {
        Ok(value) => return Ok(Some(value)),
        Err(error) => error,
    };
    // Models write unpaired surrogates (half an emoji).
    if let Some(repaired) = repaired(line)
        && let Ok(value) = serde_json::from_slice(&repaired)
    {
        return Ok(Some(value));
    }
    Err(Refusal::new(id(line), ErrorCode::PARSE_ERROR, format!("the line is not JSON: {error}")))
}

/// Parses a JSON value as a message.
pub(crate) fn understand(value: Value) -> Message {
    let Value::Object(mut object) = value else {
        return Message::bad(Value::Null, ErrorCode::INVALID_REQUEST, "a message is a JSON object");
    };
    let id = object.get("id").cloned();
    let echo = id.clone().filter(is_id).unwrap_or(Value::Null);
    let refuse = |code, what: String| Message::Bad(Refusal::new(echo.clone(), code, what));
    let is_answer = object.contains_key("result") || object.contains_key("error");

    let method = match object.remove("method") {
        None if is_answer => return answer(object),
        None => return refuse(ErrorCode::INVALID_REQUEST, "the message has no `method`".to_owned()),
        Some(Value::String(method)) if !is_answer => method,
        Some(Value::String(_)) => {
            let what = "the message has a `method` and a `result` or an `error`".to_owned();
            return refuse(ErrorCode::INVALID_REQUEST, what);
        }
        Some(_) => return refuse(ErrorCode::INVALID_REQUEST, "`method` must be a string".to_owned()),
    };
    if object.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return refuse(ErrorCode::INVALID_REQUEST, "`jsonrpc` must be \"2.0\"".to_owned());
    }
    let params = object.remove("params");
    let Some(id) = id else { return notification(method, params) };
    let Some(id) = is_id(&id).then(|| serde_json::from_value::<RequestId>(id).ok()).flatten() else {
        let what = format!("`id` must be a whole number or a string of up to {LONGEST_ID} bytes");
        return refuse(ErrorCode::INVALID_REQUEST, what);
    };
    if GONE.contains(&method.as_str()) && is_modern(params.as_ref()) {
        let what = format!("there is no method `{method}` from revision {LISTENING} on");
        return refuse(ErrorCode::METHOD_NOT_FOUND, what);
    }
    match request(&method, params) {
        Ok(request) => Message::Good(Box::new(JsonRpcMessage::request(request, id))),
        Err((code, what)) => refuse(code, what),
    }
}

/// Returns whether this request begins the conversation. Before that, rmcp takes only requests, and ends at
/// anything else.
pub(crate) fn begins(request: &ClientRequest) -> bool {
    if matches!(request, ClientRequest::InitializeRequest(_)) {
        return true;
    }
    let meta = request.extensions().get::<RequestMetaObject>();
    let complete = |meta: &&RequestMetaObject| {
        meta.missing_required_keys(&ProtocolVersion::V_2026_07_28).is_empty()
            && meta.protocol_version().is_some_and(|it| ProtocolVersion::KNOWN_VERSIONS.contains(&it))
    };
    !matches!(request, ClientRequest::DiscoverRequest(_)) && meta.filter(complete).is_some()
}

/// Truncates text from the client to the length that an error may repeat.
pub(crate) fn echo(text: &str) -> String {
    let end = text.floor_char_boundary(ECHO);
    match text.get(..end) {
        Some(head) if end < text.len() => format!("{head}…"),
        _ => text.to_owned(),
    }
}

impl Refusal {
    pub(crate) fn new(id: Value, code: ErrorCode, what: impl Into<String>) -> Self {
        Self { id, code, what: what.into() }
    }

    /// Returns the refusal as JSON-RPC. An unknown id is null, not absent.
    pub(crate) fn to_json(&self) -> Value {
        json!({"jsonrpc": "2.0", "id": self.id, "error": {"code": self.code, "message": self.what}})
    }
}

impl Message {
    fn bad(id: Value, code: ErrorCode, what: &str) -> Self {
        Self::Bad(Refusal::new(id, code, what))
    }
}

/// Returns the approximate number of values in the JSON on a line.
fn values(line: &[u8]) -> usize {
    let (mut count, mut in_string, mut escaped) = (1, false, false);
    for &byte in line {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            b',' | b'[' | b'{' if !in_string => count += 1,
            _ => {}
        }
    }
    count
}

/// Returns whether this can be the id of a request: a number or a short string.
pub(crate) fn is_id(id: &Value) -> bool {
    match id {
        Value::Number(_) => true,
        Value::String(text) => text.len() <= LONGEST_ID,
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
    }
}

/// Returns whether the params declare a protocol revision without sessions.
fn is_modern(params: Option<&Value>) -> bool {
    let Some(meta) = params.and_then(|it| it.get("_meta")) else { return false };
    let said = meta.get("io.modelcontextprotocol/protocolVersion").and_then(Value::as_str);
    said.is_some_and(|said| {
        said >= LISTENING && ProtocolVersion::KNOWN_VERSIONS.iter().any(|it| it.as_str() == said)
    })
}

fn request(method: &str, params: Option<Value>) -> Result<ClientRequest, (ErrorCode, String)> {
    let bad_params = |why: String| {
        (ErrorCode::INVALID_PARAMS, format!("the params of `{method}` are wrong: {}", echo(&why)))
    };
    // Parsed as their types directly: rmcp tries each of its request types in turn, which copies large
    // arguments many times and can't explain what is wrong.
    match method {
        "tools/call" => return typed(params).map(ClientRequest::CallToolRequest).map_err(bad_params),
        "initialize" => return typed(params).map(ClientRequest::InitializeRequest).map_err(bad_params),
        "tools/list" => {
            let Request { method, params, extensions, .. } = typed(params).map_err(bad_params)?;
            let request = ListToolsRequest { method, params: Some(params), extensions };
            return Ok(ClientRequest::ListToolsRequest(request));
        }
        _ => {}
    }
    if !METHODS.contains(&method) {
        return Err((ErrorCode::METHOD_NOT_FOUND, format!("there is no method `{}`", echo(method))));
    }
    // `method` comes first, so that each wrong type fails before it parses the params.
    let mut object = Map::from_iter([("method".to_owned(), Value::from(method))]);
    object.extend(params.map(|params| ("params".to_owned(), params)));
    match serde_json::from_value(Value::Object(object)) {
        Ok(ClientRequest::CustomRequest(_)) => Err(bad_params("they don't fit the method".to_owned())),
        Ok(request) => Ok(request),
        Err(error) => Err(bad_params(error.to_string())),
    }
}

fn typed<M: Default, P: DeserializeOwned>(params: Option<Value>) -> Result<Request<M, P>, String> {
    let mut params = match params {
        None => Map::new(),
        Some(Value::Object(params)) => params,
        Some(_) => return Err("they must be an object".to_owned()),
    };
    let meta: Option<JsonObject> = match params.remove("_meta") {
        None | Some(Value::Null) => None,
        Some(Value::Object(meta)) => Some(meta),
        Some(_) => return Err("`_meta` must be an object".to_owned()),
    };
    let params = serde_json::from_value(Value::Object(params)).map_err(|error| error.to_string())?;
    let mut request = Request::<M, P>::new(params);
    if let Some(meta) = meta {
        request.extensions.insert(RequestMetaObject::from(meta));
    }
    Ok(request)
}

/// Parses a notification. Its sender expects no answer, so an invalid one is ignored.
fn notification(method: String, params: Option<Value>) -> Message {
    let mut object = Map::from_iter([("method".to_owned(), Value::from(method))]);
    object.extend(params.map(|params| ("params".to_owned(), params)));
    match serde_json::from_value(Value::Object(object)) {
        Ok(notification) => Message::Good(Box::new(JsonRpcMessage::notification(notification))),
        Err(error) => {
            tracing::debug!(%error, "ignoring a notification that does not fit its method");
            Message::Nothing
        }
    }
}

fn answer(object: Map<String, Value>) -> Message {
    match serde_json::from_value(Value::Object(object)) {
        Ok(answer) => Message::Good(Box::new(answer)),
        Err(error) => {
            tracing::debug!(%error, "ignoring an answer that is not one of JSON-RPC");
            Message::Nothing
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::panic, clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn read(line: &str) -> Message {
        match json(line.as_bytes()) {
            Ok(value) => value.map_or(Message::Nothing, understand),
            Err(refusal) => Message::Bad(refusal),
        }
    }

    /// Asserts that the line is refused with this code, for this id.
    fn refused(line: &str, code: i32, id: &Value) {
        match read(line) {
            Message::Bad(refusal) => {
                assert_eq!((refusal.code.0, &refusal.id), (code, id), "{line}: {}", refusal.what);
            }
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn names_what_is_wrong_with_a_line() {
        let null = &Value::Null;
        refused("{", -32700, null);
        refused("nonsense", -32700, null);
        refused(r#"{"jsonrpc":"2.0","id":1,"method":"ping"} trailing"#, -32700, &json!(1));
        refused(&"[".repeat(1000), -32700, null);
        refused(&format!(r#"{{"a":{}{}}}"#, "[".repeat(200), "]".repeat(200)), -32700, null);
        refused("5", -32600, null);
        refused("null", -32600, null);
        refused("{}", -32600, null);
        refused(r#"{"jsonrpc":"2.0","id":7}"#, -32600, &json!(7));
        refused(r#"{"jsonrpc":"2.0","id":"seven","params":{}}"#, -32600, &json!("seven"));
        refused(r#"{"jsonrpc":"2.0","id":7,"method":5}"#, -32600, &json!(7));
        refused(r#"{"jsonrpc":"1.0","id":7,"method":"ping"}"#, -32600, &json!(7));
        refused(r#"{"id":7,"method":"ping"}"#, -32600, &json!(7));
        refused(r#"{"jsonrpc":"2.0","id":7,"method":"ping","result":{}}"#, -32600, &json!(7));
        refused(r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600, null);
        refused(r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#, -32600, null);
        refused(r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, -32600, &json!(1.5));
        refused(r#"{"jsonrpc":"2.0","id":18446744073709551615,"method":"ping"}"#, -32600, &json!(u64::MAX));
        refused(&format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"ping"}}"#, "x".repeat(2000)), -32600, null);
        refused(r#"{"jsonrpc":"2.0","id":7,"method":"tools/explode"}"#, -32601, &json!(7));
        refused(r#"{"jsonrpc":"2.0","id":7,"method":"tools/call"}"#, -32602, &json!(7));
        refused(r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":[]}"#, -32602, &json!(7));
        refused(r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":5}}"#, -32602, &json!(7));
        refused(
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x","arguments":"{}"}}"#,
            -32602,
            &json!(7),
        );
        refused(r#"{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"cursor":5}}"#, -32602, &json!(7));
        refused(r#"{"jsonrpc":"2.0","id":7,"method":"resources/read","params":{}}"#, -32602, &json!(7));
    }

    #[test]
    fn a_method_is_gone_in_a_revision_that_has_it_no_more() {
        let line = |method: &str, revision: &str| {
            let params = json!({"protocolVersion": revision, "capabilities": {}, "level": "info", "uri": "x:y",
                "clientInfo": {"name": "test", "version": "1"},
                "_meta": {"io.modelcontextprotocol/protocolVersion": revision}});
            json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).to_string()
        };
        for method in GONE {
            refused(&line(method, "2026-07-28"), -32601, &json!(7));
            assert!(matches!(read(&line(method, "2025-11-25")), Message::Good(_)), "{method}");
            assert!(
                matches!(read(&line(method, "2099-01-01")), Message::Good(_)),
                "{method}: nobody knows it"
            );
        }
        assert!(matches!(read(&line("tools/list", "2026-07-28")), Message::Good(_)));
    }

    #[test]
    fn counts_values_and_not_what_stands_in_strings() {
        assert_eq!(values(br#"{"a":[1,2,{"b":"x,[{\\\",["}],"c\\":5}"#), 7);
        refused(&format!("[{}0]", "0,".repeat(MOST_VALUES)), -32600, &Value::Null);
        let commas = ",".repeat(2 * MOST_VALUES);
        let line =
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{commas}"}}}}"#);
        assert!(matches!(read(&line), Message::Good(_)));
    }

    #[test]
    fn says_which_field_is_wrong() {
        let line =
            r#"{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#;
        let Message::Bad(refusal) = read(line) else { panic!("taken") };
        assert_eq!(refusal.what, "the params of `initialize` are wrong: missing field `capabilities`");
    }

    #[test]
    fn takes_requests_with_their_meta() {
        let line = "\u{feff}{\"params\":{\"_meta\":{\"progressToken\":\"t\"},\"name\":\"read\",\
             \"arguments\":{\"path\":\"x\"}},\"id\":1.0,\"method\":\"tools/call\",\"jsonrpc\":\"2.0\"}\r";
        let Message::Good(message) = read(line) else { panic!("{:?}", read(line)) };
        let JsonRpcMessage::Request(message) = *message else { panic!("{message:?}") };
        assert_eq!(message.id, RequestId::Number(1));
        let ClientRequest::CallToolRequest(request) = message.request else { panic!("another request") };
        assert_eq!(request.params.name, "read");
        assert_eq!(request.params.arguments, json!({"path": "x"}).as_object().cloned());
        let meta = request.extensions.get::<RequestMetaObject>().unwrap();
        assert_eq!(meta.get("progressToken"), Some(&json!("t")));
    }

    #[test]
    fn every_known_method_is_one_of_rmcp() {
        for method in METHODS {
            let object = json!({"method": method, "params": {
                "name": "x", "uri": "skill://x/SKILL.md", "level": "info", "taskId": "t", "inputResponses": {},
                "notifications": {}, "ref": {"type": "ref/prompt", "name": "x"},
                "argument": {"name": "x", "value": "y"}, "protocolVersion": "2025-06-18",
                "capabilities": {}, "clientInfo": {"name": "x", "version": "1"},
            }});
            let request: ClientRequest = serde_json::from_value(object).unwrap();
            assert!(!matches!(request, ClientRequest::CustomRequest(_)), "{method}");
            assert_eq!(request.method(), *method);
        }
    }

    #[test]
    fn what_nobody_waits_for_is_never_refused() {
        assert!(matches!(read(""), Message::Nothing));
        assert!(matches!(read(" \r"), Message::Nothing));
        assert!(matches!(
            read(r#"{"jsonrpc":"2.0","method":"notifications/none","params":5}"#),
            Message::Nothing
        ));
        assert!(matches!(read(r#"{"jsonrpc":"2.0","error":5}"#), Message::Nothing));
        assert!(matches!(
            read(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#),
            Message::Good(_)
        ));
        assert!(matches!(read(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#), Message::Good(_)));
    }
}
