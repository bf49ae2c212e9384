//! OpenAI's wire formats: the code that Chat Completions and Responses share.

use std::time::Duration;

use async_stream::stream;
use futures_util::StreamExt;
use kit::base64;
use serde_json::{Value, json};
use tokio::{pin, time::timeout};

use super::{
    Breach, Event, Events, ModelError, Piece, ResultOf,
    http::{Post, Received, is_too_long, message, post},
};

/// Timeout for data after the end of an answer: the usage, and the end mark.
const LAST: Duration = Duration::from_secs(5);

/// Parser of one answer.
pub(super) trait Answer: Send + 'static {
    /// Parses the data of one server-sent event, and adds its events.
    ///
    /// # Errors
    /// When the event reports a failure, or is malformed.
    fn receive(&mut self, data: &str, events: &mut Vec<Event>) -> Result<(), ModelError>;

    /// Returns the state of the answer.
    fn stands(&self) -> Stands;

    /// Adds the events of the end.
    fn end(&mut self, events: &mut Vec<Event>);
}

/// The state of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stands {
    /// Unfinished.
    Going,
    /// Complete, but its usage may follow.
    Complete,
    /// Ended.
    Over,
}

/// Sends the request, and parses the answer.
pub(super) fn ask(request: Result<Post, ModelError>, mut answer: impl Answer) -> Events {
    Box::pin(stream! {
        let request = match request {
            Ok(request) => request,
            Err(error) => {
                yield Err(error);
                return;
            }
        };
        let secrets = request.secrets.clone();
        let heard = post(request);
        pin!(heard);
        while answer.stands() != Stands::Over {
            let complete = answer.stands() == Stands::Complete;
            let next = if complete {
                // The answer is complete, so an error no longer matters.
                timeout(LAST, heard.next()).await.ok().flatten().and_then(Result::ok).map(Ok)
            } else {
                heard.next().await
            };
            match next {
                Some(Ok(Received::Waiting { why, seconds })) => yield Ok(Event::Waiting { why, seconds }),
                Some(Ok(Received::Sent { data, .. })) => {
                    let mut events = Vec::new();
                    let read = answer.receive(&data, &mut events);
                    for event in events {
                        yield Ok(event);
                    }
                    if let Err(error) = read {
                        yield Err(secrets.covered(error));
                        return;
                    }
                }
                Some(Err(error)) => {
                    yield Err(error);
                    return;
                }
                None if complete => break,
                None => {
                    yield Err(ModelError::new(Breach::Broken, "the answer ended without its last part"));
                    return;
                }
            }
        }
        let mut events = Vec::new();
        answer.end(&mut events);
        for event in events {
            yield Ok(event);
        }
    })
}

/// Parses the JSON of an event.
///
/// # Errors
/// When it is not JSON.
pub(super) fn parsed(data: &str) -> Result<Value, ModelError> {
    serde_json::from_str(data).map_err(|error| {
        // `Secrets::covered` truncates it, like all of these errors.
        ModelError::new(Breach::Malformed, format!("a part of the answer is not JSON ({error}): {data}"))
    })
}

/// Classifies an error in the middle of an answer. `error` is the object with the message.
pub(super) fn failed(error: &Value) -> ModelError {
    let whole = error.to_string();
    let said = message(&whole).unwrap_or_else(|| whole.clone());
    let word = |key: &str| match error.get(key) {
        Some(Value::String(text)) => text.to_ascii_lowercase(),
        Some(Value::Number(number)) => number.to_string(),
        _ => String::new(),
    };
    let (code, kind, status) = (word("code"), word("type"), word("status"));
    let number = [&code, &status].iter().find_map(|it| it.parse::<u16>().ok());
    let words = [code, kind, status].join(" ");
    let says = |all: &[&str]| all.iter().any(|it| words.contains(it));
    let breach = if is_too_long(&whole) {
        Breach::TooLong
    } else if matches!(number, Some(401 | 403)) || says(&["api_key", "authentication", "permission"]) {
        Breach::Auth
    } else if matches!(number, Some(400 | 402))
        || says(&["quota", "billing", "invalid_prompt", "invalid_request"])
    {
        Breach::Refused
    } else if number.is_some_and(|it| it == 429 || it >= 500)
        || says(&["rate_limit", "overloaded", "server_error", "unavailable"])
    {
        Breach::Busy
    } else {
        Breach::Broken
    };
    ModelError::new(breach, format!("the provider broke the answer off: {said}"))
}

/// Returns a call's arguments as they are sent back: always a JSON object, as servers parse them.
pub(super) fn arguments(written: &str) -> String {
    if written.trim().is_empty() {
        return "{}".to_owned();
    }
    match serde_json::from_str(written) {
        Ok(Value::Object(_)) => written.to_owned(),
        Ok(_) | Err(_) => json!({ "not_an_object": written }).to_string(),
    }
}

/// Returns the text of a result for the model.
pub(super) fn result_text(result: &ResultOf) -> String {
    let text = Piece::lines(&result.pieces);
    if result.ok { text } else { format!("Error: {text}") }
}

/// Returns a picture as a data URL, if its bytes are to be sent.
pub(super) fn picture(piece: &Piece) -> Option<String> {
    let Piece::Image { mime, data: Some(data), .. } = piece else { return None };
    Some(format!("data:{mime};base64,{}", base64::encoded(data)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_always_sent_back_as_an_object() {
        for (written, sent) in [
            (r#"{"path": "a"}"#, r#"{"path": "a"}"#),
            ("", "{}"),
            (" \n", "{}"),
            (r#"{"path": "#, r#"{"not_an_object":"{\"path\": "}"#),
            ("[1]", r#"{"not_an_object":"[1]"}"#),
        ] {
            assert_eq!(arguments(written), sent);
        }
    }

    #[test]
    fn error_in_the_middle_has_its_kind() {
        for (error, breach) in [
            (json!({"message": "x", "code": 502}), Breach::Busy),
            (json!({"message": "x", "code": "rate_limit_exceeded"}), Breach::Busy),
            (json!({"message": "x", "type": "server_error"}), Breach::Busy),
            (json!({"message": "x", "code": "insufficient_quota"}), Breach::Refused),
            (json!({"message": "x", "code": "context_length_exceeded"}), Breach::TooLong),
            (json!({"message": "x", "code": 401}), Breach::Auth),
            (json!({"message": "x"}), Breach::Broken),
        ] {
            assert_eq!(failed(&error).breach, breach, "{error}");
        }
        assert_eq!(failed(&json!("no luck")).what, "the provider broke the answer off: no luck");
    }
}
