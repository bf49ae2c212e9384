//! Failed requests to a provider: classifies the error, and reports it in one line with what to do next.

use reqwest::{Response, StatusCode, Url, header::LOCATION};
use serde_json::Value;
use tokio::time::timeout;

use super::{BODY, CONNECT, GLIMPSE, shown, text};
use crate::model::{
    Breach, ModelError,
    endpoint::{SHOWN, Secrets},
};

/// The reason why a request got no response.
pub(super) struct Unsent {
    pub(super) error: ModelError,
    /// Whether it failed at once and would fail again for the same reason, so that a person is notified once.
    pub(super) at_once: bool,
}

impl Unsent {
    /// Creates an error after which the request is retried as usual, if the error may pass.
    pub(super) fn new(error: ModelError) -> Self {
        Self { error, at_once: false }
    }
}

/// Classifies the error of a request that could not be sent, or got no response.
pub(super) fn unsent(error: reqwest::Error, url: &Url) -> Unsent {
    let host = shown(url);
    let is_builder = error.is_builder();
    let (whole, last) = causes(error);
    let unreachable = |what: String| ModelError::new(Breach::Unreachable, what);
    if is_builder {
        return Unsent::new(ModelError::new(
            Breach::Refused,
            format!("a request to {host} can't be made: {whole}"),
        ));
    }
    if whole.contains("dns error") {
        let name = url.host_str().unwrap_or_default();
        let error = unreachable(format!("no network, or the name is unknown: {name}"))
            .next("Check the network connection and the address; behind a proxy, check HTTPS_PROXY.");
        return Unsent { error, at_once: true };
    }
    if is_no_http(&whole) {
        let what = format!("the server at {host} does not speak HTTP as a provider does: {whole}");
        return Unsent::new(
            ModelError::new(Breach::Malformed, what)
                .next("Check that the address is that of a provider, and whether it is `http` or `https`."),
        );
    }
    let refused = last.contains("onnection refused");
    if refused && super::is_loopback(url) {
        let error = unreachable(format!("nothing listens at {host}"))
            .next("Start the model server (for Ollama: `ollama serve`), or check the address.");
        return Unsent { error, at_once: true };
    }
    let error = unreachable(format!("no answer from {host}: {last}"))
        .next("Check the address and the network connection.");
    Unsent::new(error)
}

/// Returns an error with all its causes, and the innermost cause alone; both without the URL.
pub(super) fn causes(error: reqwest::Error) -> (String, String) {
    let error = error.without_url();
    let mut whole = error.to_string();
    let mut last = whole.clone();
    let mut cause = std::error::Error::source(&error);
    while let Some(it) = cause {
        last = it.to_string();
        whole = format!("{whole}: {last}");
        cause = it.source();
    }
    (whole, last)
}

/// Returns whether a response is not HTTP. Only the text of the error shows that.
fn is_no_http(why: &str) -> bool {
    [
        "invalid HTTP",
        "invalid content-length",
        "invalid URI",
        "message head is too large",
        // The server sends before the request.
        "received unexpected message",
        // The server does not support TLS.
        "received corrupt message",
    ]
    .iter()
    .any(|it| why.contains(it))
}

/// Returns the rest of a body, up to [`BODY`] bytes.
pub(super) async fn rest(mut response: Response, mut body: Vec<u8>) -> String {
    while body.len() <= BODY
        && let Ok(Ok(Some(more))) = timeout(CONNECT, response.chunk()).await
    {
        body.extend_from_slice(&more);
    }
    body.truncate(BODY);
    String::from_utf8_lossy(&body).into_owned()
}

/// Returns the error for a response with a good status that is not a stream of events. A retry would give the
/// same.
pub(super) async fn no_stream(
    response: Response,
    first: Vec<u8>,
    mime: &str,
    secrets: &Secrets,
) -> ModelError {
    let status = response.status();
    let body = rest(response, first).await;
    let json = serde_json::from_str::<Value>(&body).ok();
    let has = |keys: &[&str]| keys.iter().any(|key| json.as_ref().is_some_and(|it| it.get(key).is_some()));
    let (what, said) = if body.trim().is_empty() {
        (format!("with {status} and nothing else"), None)
    } else if let Some(said) = message(&body).filter(|_| !has(&["choices", "content", "output"])) {
        ("with an error".to_owned(), Some(secrets.shown(said, SHOWN)))
    } else {
        let what = match mime {
            _ if has(&["choices", "content", "output"]) => "with its whole answer at once".to_owned(),
            "" => "with something else, without a content type,".to_owned(),
            mime => format!("with `{}`", secrets.shown(mime.to_owned(), GLIMPSE)),
        };
        (what, Some(secrets.shown(body.clone(), GLIMPSE)))
    };
    let said = said.map(|it| format!(": {it}")).unwrap_or_default();
    let breach = if is_too_long(&body) { Breach::TooLong } else { Breach::Refused };
    ModelError::new(breach, format!("the provider answered {what} instead of a stream of events{said}"))
        .next("Check that the address is that of a provider, up to and with its version, such as `/v1`.")
}

/// Returns the error for a response with a bad status.
pub(super) async fn refused(response: Response, secrets: &Secrets) -> ModelError {
    let status = response.status();
    let stay = text(response.headers(), "x-should-retry").is_some_and(|it| it == "false");
    let elsewhere = text(response.headers(), LOCATION.as_str()).map(str::to_owned);
    let body = rest(response, Vec::new()).await;
    let said = message(&body).unwrap_or_else(|| body.lines().next().unwrap_or_default().to_owned());
    let said = secrets.shown(said, SHOWN);
    let error = |breach| ModelError::new(breach, format!("the provider answered {status}: {said}"));
    if is_spent(status, &body) {
        return error(Breach::Refused)
            .next("Check your plan and billing at the provider, or use another model.");
    }
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            error(Breach::Auth).next("Check that the key is correct and may use this model.")
        }
        StatusCode::PAYLOAD_TOO_LARGE => error(Breach::TooLong),
        _ if is_too_long(&body) => error(Breach::TooLong),
        _ if stay => error(Breach::Refused),
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::REQUEST_TIMEOUT
        | StatusCode::CONFLICT
        | StatusCode::TOO_EARLY => error(Breach::Busy),
        status if status.is_server_error() => error(Breach::Busy),
        status if status.is_redirection() => {
            let elsewhere = secrets.shown(elsewhere.unwrap_or_default(), GLIMPSE);
            error(Breach::Refused).next(format!(
                "It redirects to `{elsewhere}`: if that is right, configure it as the address."
            ))
        }
        StatusCode::NOT_FOUND => error(Breach::Refused)
            .next("Check the address and the model name; `haft models` lists what is served."),
        _ => error(Breach::Refused),
    }
}

/// Returns whether an error says that the quota or the credit is used up, so that waiting does not help.
fn is_spent(status: StatusCode, body: &str) -> bool {
    let said = ["insufficient_quota", "credit balance is too low", "billing_error"];
    let body = body.to_ascii_lowercase();
    status == StatusCode::PAYMENT_REQUIRED || said.iter().any(|it| body.contains(it))
}

/// Returns the message of an error, in the shapes that providers use.
pub(in crate::model) fn message(body: &str) -> Option<String> {
    let value: Value = serde_json::from_str(body).ok()?;
    let value = value.as_array().and_then(|it| it.first()).unwrap_or(&value);
    let error = value.get("error").unwrap_or(value);
    let text = error
        .get("message")
        .or_else(|| value.get("message"))
        .or_else(|| value.get("detail"))
        .unwrap_or(error);
    text.as_str().map(str::to_owned)
}

/// Returns whether an error says that the conversation is longer than the model's context window.
pub(in crate::model) fn is_too_long(body: &str) -> bool {
    let body = body.to_ascii_lowercase();
    [
        "context_length_exceeded",
        "request_too_large",
        "prompt is too long",
        "maximum context length",
        "exceed context limit",
        "exceeds the context window",
        "exceeds the available context size",
        "context window exceeded",
        "input token count",
    ]
    .iter()
    .any(|it| body.contains(it))
}
