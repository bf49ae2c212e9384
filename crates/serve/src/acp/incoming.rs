//! Messages of a client: what a JSON value is, or why it is refused.

use rmcp::model::{ErrorCode, RequestId};
use serde_json::{Map, Value};

use crate::message::{Refusal, echo, is_id};

/// A message of the client.
#[derive(Debug, PartialEq)]
pub(super) enum Message {
    Request {
        id: RequestId,
        method: String,
        params: Value,
    },
    Notification {
        method: String,
        params: Value,
    },
    /// To a request of ours.
    Response {
        id: i64,
        result: Result<Value, Value>,
    },
    /// Nobody waits for an answer.
    Nothing,
}

/// Parses a JSON value as a JSON-RPC message.
pub(super) fn understand(value: Value) -> Result<Message, Refusal> {
    let bad = |id: Value, what: &str| Err(Refusal::new(id, ErrorCode::INVALID_REQUEST, what));
    let mut object = match value {
        Value::Object(object) => object,
        Value::Array(_) => return bad(Value::Null, "ACP has no batches; send one message per line"),
        _ => return bad(Value::Null, "a message is a JSON object"),
    };
    let id = object.remove("id");
    let echoed = id.clone().filter(is_id).unwrap_or_default();
    let is_answer = object.contains_key("result") || object.contains_key("error");
    let method = match object.remove("method") {
        None if is_answer => return Ok(response(id, object)),
        None => return bad(echoed, "the message has no `method`"),
        Some(Value::String(method)) if !is_answer => method,
        Some(Value::String(_)) => {
            return bad(echoed, "the message has a `method` and a `result` or an `error`");
        }
        Some(_) => return bad(echoed, "`method` must be a string"),
    };
    if object.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return bad(echoed, "`jsonrpc` must be \"2.0\"");
    }
    let params = match object.remove("params") {
        None | Some(Value::Null) => Value::Object(Map::new()),
        Some(params) => params,
    };
    let Some(id) = id else { return Ok(Message::Notification { method, params }) };
    let Some(id) = is_id(&id).then(|| serde_json::from_value(id).ok()).flatten() else {
        return bad(echoed, "`id` must be a whole number or a short string");
    };
    if !params.is_object() {
        let what = format!("the params of `{}` must be an object", echo(&method));
        return Err(Refusal::new(echoed, ErrorCode::INVALID_PARAMS, what));
    }
    Ok(Message::Request { id, method, params })
}

fn response(id: Option<Value>, mut object: Map<String, Value>) -> Message {
    // Ours are numbers; some clients give them back as text.
    let number = |id: Value| id.as_i64().or_else(|| id.as_str()?.parse().ok());
    let Some(id) = id.and_then(number) else {
        tracing::debug!("ignoring an answer to no request");
        return Message::Nothing;
    };
    let result = match object.remove("error") {
        Some(error) if !error.is_null() => Err(error),
        _ => Ok(object.remove("result").unwrap_or_default()),
    };
    Message::Response { id, result }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    #[test]
    fn broken_messages_are_refused_with_their_id() {
        for (value, id) in [
            (json!(5), json!(null)),
            (json!([]), json!(null)),
            (json!({"jsonrpc": "2.0", "id": 7}), json!(7)),
            (json!({"jsonrpc": "1.0", "id": "a", "method": "x"}), json!("a")),
            (json!({"jsonrpc": "2.0", "id": null, "method": "x"}), json!(null)),
            (json!({"jsonrpc": "2.0", "id": 1.5, "method": "x"}), json!(1.5)),
            (json!({"jsonrpc": "2.0", "id": 1, "method": "x", "params": []}), json!(1)),
            (json!({"jsonrpc": "2.0", "id": 1, "method": "x", "result": 1}), json!(1)),
        ] {
            assert_eq!(understand(value.clone()).unwrap_err().id, id, "{value}");
        }
    }

    #[test]
    fn answers_notifications_and_requests_are_told_apart() {
        let said = |value| understand(value).unwrap();
        assert_eq!(
            said(json!({"jsonrpc": "2.0", "id": 3, "error": {"code": 1}})),
            Message::Response { id: 3, result: Err(json!({"code": 1})) }
        );
        assert_eq!(
            said(json!({"jsonrpc": "2.0", "id": "3", "result": null})),
            Message::Response { id: 3, result: Ok(Value::Null) }
        );
        assert_eq!(said(json!({"jsonrpc": "2.0", "id": [], "result": null})), Message::Nothing);
        let params = json!({});
        assert_eq!(
            said(json!({"jsonrpc": "2.0", "method": "x"})),
            Message::Notification { method: "x".to_owned(), params: params.clone() }
        );
        let id = RequestId::Number(1);
        assert_eq!(
            said(json!({"jsonrpc": "2.0", "id": 1, "method": "x", "params": null})),
            Message::Request { id, method: "x".to_owned(), params }
        );
    }
}
