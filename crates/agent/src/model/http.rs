//! How is a provider asked over HTTP, and asked again?

use std::{
    sync::OnceLock,
    time::{Duration, SystemTime},
};

use async_stream::stream;
use futures_util::{Stream, StreamExt};
use reqwest::{Client, Response, StatusCode, header::HeaderMap};
use serde_json::Value;
use sse_stream::SseStream;
use tokio::time::timeout;

use super::{Breach, ModelError, endpoint::Secrets};

/// How long a provider may take to take up a connection.
const CONNECT: Duration = Duration::from_secs(15);
/// How long the first part of an answer may take.
const FIRST: Duration = Duration::from_secs(300);
/// How long the next part may take.
const NEXT: Duration = Duration::from_secs(120);
/// A longer wait than this is not waited: the person decides.
const LONGEST_WAIT: Duration = Duration::from_secs(120);
/// How much of an error's body is read.
const BODY: usize = 64 * 1024;

/// One request, which may be sent more than once. [`Endpoint::post`](super::endpoint::Endpoint::post) makes it.
#[derive(Debug)]
pub(super) struct Post {
    pub(super) url: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Value,
    pub(super) patience: Patience,
    pub(super) secrets: Secrets,
}

/// How often a request is sent, and how far apart.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// At most so many times.
    pub(super) tries: u32,
    /// The first pause; each is twice as long as the one before, and at least as long as the provider says.
    pub(super) pause: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { tries: 6, pause: Duration::from_millis(500) }
    }
}

/// What comes back.
#[derive(Debug, PartialEq)]
pub(super) enum Heard {
    /// The request is sent again after this many seconds.
    Waiting { why: String, seconds: f32 },
    /// One server-sent event: its name, where it has one, and its data.
    Sent { event: Option<String>, data: String },
}

/// Sends it, and gives the events of the answer. Ends without an error when the provider closes the connection in good order.
pub(super) fn post(post: Post) -> impl Stream<Item = Result<Heard, ModelError>> + Send {
    stream! {
        let mut tried = 0;
        let response = loop {
            tried += 1;
            let (error, told) = match send(&post).await {
                Ok(response) if response.status().is_success() => break response,
                Ok(response) => {
                    let told = told_to_wait(response.headers());
                    (refused(response).await, told)
                }
                Err(error) => (error, None),
            };
            let pause = pause(&post.patience, tried).max(told.unwrap_or_default());
            if tried >= post.patience.tries || !error.may_pass() || pause > LONGEST_WAIT {
                yield Err(error);
                return;
            }
            yield Ok(Heard::Waiting { why: error.to_string(), seconds: pause.as_secs_f32() });
            tokio::time::sleep(pause).await;
        };
        let mut events = SseStream::from_bytes_stream(response.bytes_stream());
        let mut patience = FIRST;
        loop {
            match timeout(patience, events.next()).await {
                Err(_) => {
                    let what = format!("nothing came for {} s, and the answer is not complete", patience.as_secs());
                    yield Err(ModelError::new(Breach::Broken, what));
                    return;
                }
                Ok(None) => return,
                Ok(Some(Err(error))) => {
                    yield Err(ModelError::new(Breach::Broken, format!("the answer broke off: {error}")));
                    return;
                }
                Ok(Some(Ok(sse))) => {
                    patience = NEXT;
                    // A line without data keeps the connection alive, and says nothing.
                    if let Some(data) = sse.data {
                        yield Ok(Heard::Sent { event: sse.event, data });
                    }
                }
            }
        }
    }
}

/// One client for all: making one costs milliseconds.
fn client() -> Result<&'static Client, ModelError> {
    static CLIENT: OnceLock<Client> = OnceLock::new();
    if let Some(client) = CLIENT.get() {
        return Ok(client);
    }
    let made = Client::builder()
        .connect_timeout(CONNECT)
        // A key is for the host that it was given for.
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("haft/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| {
            ModelError::new(Breach::Unreachable, format!("no HTTP client can be made: {error}"))
        })?;
    Ok(CLIENT.get_or_init(|| made))
}

async fn send(post: &Post) -> Result<Response, ModelError> {
    let request = client()?.post(&post.url).headers(post.headers.clone()).json(&post.body);
    match timeout(FIRST, request.send()).await {
        Ok(Ok(response)) => Ok(response),
        Ok(Err(error)) => Err(unreachable(&post.url, &error)),
        Err(_) => {
            let what = format!("{} did not answer for {} s", post.url, FIRST.as_secs());
            Err(ModelError::new(Breach::Unreachable, what))
        }
    }
}

fn unreachable(url: &str, error: &reqwest::Error) -> ModelError {
    if error.is_builder() {
        return ModelError::new(Breach::Refused, format!("`{url}` can't be asked: {error}"));
    }
    let mut why = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(it) = cause {
        why = format!("{why}: {it}");
        cause = it.source();
    }
    ModelError::new(Breach::Unreachable, why).next("Look whether the address and the network are right.")
}

/// What an answer that is none says.
async fn refused(response: Response) -> ModelError {
    let status = response.status();
    let mut body = Vec::new();
    let mut bytes = response.bytes_stream();
    while let Ok(Some(Ok(more))) = timeout(CONNECT, bytes.next()).await {
        body.extend_from_slice(&more);
        if body.len() > BODY {
            body.truncate(BODY);
            break;
        }
    }
    let body = String::from_utf8_lossy(&body).into_owned();
    let said =
        message(&body).unwrap_or_else(|| body.lines().next().unwrap_or_default().chars().take(300).collect());
    let breach = match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Breach::Auth,
        StatusCode::TOO_MANY_REQUESTS => Breach::Busy,
        _ if is_too_long(&body) => Breach::TooLong,
        StatusCode::REQUEST_TIMEOUT | StatusCode::CONFLICT | StatusCode::TOO_EARLY => Breach::Busy,
        status if status.is_server_error() => Breach::Busy,
        _ => Breach::Refused,
    };
    ModelError::new(breach, format!("the provider answered {status}: {said}"))
}

/// The words of an error, in the shapes that providers give them.
pub(super) fn message(body: &str) -> Option<String> {
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

/// Does an error say that the conversation is longer than the model's window?
pub(super) fn is_too_long(body: &str) -> bool {
    let body = body.to_ascii_lowercase();
    [
        "context_length_exceeded",
        "prompt is too long",
        "maximum context length",
        "context window",
        "input token count",
    ]
    .iter()
    .any(|it| body.contains(it))
}

/// How long the provider says that it wants to be left alone.
fn told_to_wait(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    if let Some(ms) = text("retry-after-ms").and_then(|it| it.parse::<f64>().ok()) {
        return Duration::try_from_secs_f64(ms / 1000.0).ok();
    }
    let after = text("retry-after")?;
    if let Ok(seconds) = after.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let until = jiff::fmt::rfc2822::parse(after).ok()?.timestamp();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Duration::from_secs(u64::try_from(until.as_second()).ok()?).checked_sub(now)
}

/// The pause after so many tries, a little different each time, so that many who were refused don't come back at once.
fn pause(patience: &Patience, tried: u32) -> Duration {
    let whole = patience.pause.saturating_mul(1 << (tried - 1).min(8));
    let random = f64::from(getrandom::u32().unwrap_or(0)) / f64::from(u32::MAX);
    whole.mul_f64(0.75 + 0.5 * random)
}
