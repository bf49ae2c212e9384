//! How is a provider asked over HTTP, and asked again?

use std::{
    net::IpAddr,
    sync::OnceLock,
    time::{Duration, SystemTime},
};

use async_stream::stream;
use futures_util::{Stream, StreamExt};
use reqwest::{
    Client, Response, StatusCode, Url,
    header::{CONTENT_TYPE, HeaderMap, LOCATION},
};
use serde_json::Value;
use tokio::time::timeout;

use super::{Breach, ModelError, endpoint::Secrets, sse};

/// How long a provider may take to take up a connection.
const CONNECT: Duration = Duration::from_secs(15);
/// A longer wait than this is not waited: the person decides.
const LONGEST_WAIT: Duration = Duration::from_secs(120);
/// How much of an error's body is read.
const BODY: usize = 64 * 1024;
/// How many characters of it are shown.
const SHOWN: usize = 600;
/// A larger answer is refused.
const LARGEST: usize = 512 * 1024 * 1024;

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
    /// How long nothing may come, before an answer and within it. A model may think for minutes.
    pub(super) idle: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { tries: 6, pause: Duration::from_millis(500), idle: Duration::from_secs(300) }
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
///
/// No error that it gives has a secret in it; whoever makes errors of what is heard uses [`Secrets::covered`].
pub(super) fn post(post: Post) -> impl Stream<Item = Result<Heard, ModelError>> + Send {
    stream! {
        let mut tried = 0;
        let response = loop {
            tried += 1;
            let (error, told) = match answered(&post).await {
                Ok(response) => break response,
                Err((error, told)) => (post.secrets.covered(error), told),
            };
            let pause = pause(&post.patience, tried).max(told.unwrap_or_default());
            if !error.may_pass() || tried >= post.patience.tries {
                yield Err(error);
                return;
            }
            if pause > LONGEST_WAIT {
                let next = format!("It wants to be asked again in {} s: go on then, or name another model.", pause.as_secs());
                yield Err(error.next(next));
                return;
            }
            yield Ok(Heard::Waiting { why: error.to_string(), seconds: pause.as_secs_f32() });
            tokio::time::sleep(pause).await;
        };
        let mut bytes = response.bytes_stream();
        let mut events = sse::Events::default();
        let mut size = 0;
        loop {
            match timeout(post.patience.idle, bytes.next()).await {
                Err(_) => {
                    let seconds = post.patience.idle.as_secs();
                    yield Err(broken(format!("nothing came for {seconds} s")));
                    return;
                }
                Ok(None) => break,
                Ok(Some(Err(error))) => {
                    yield Err(post.secrets.covered(broken(causes(error))));
                    return;
                }
                Ok(Some(Ok(more))) => {
                    size += more.len();
                    if events.take(&more).is_err() || size > LARGEST {
                        let what = format!("the answer is no end of one event: {size} bytes came");
                        yield Err(ModelError::new(Breach::Malformed, what));
                        return;
                    }
                    while let Some(sse::Sent { event, data }) = events.next() {
                        yield Ok(Heard::Sent { event, data });
                    }
                }
            }
        }
        if let Some(sse::Sent { event, data }) = events.last() {
            yield Ok(Heard::Sent { event, data });
        }
    }
}

fn broken(why: String) -> ModelError {
    ModelError::new(Breach::Broken, format!("the answer broke off: {why}"))
}

/// The answer, if it is one; else why not, and how long the provider wants to be left alone.
async fn answered(post: &Post) -> Result<Response, (ModelError, Option<Duration>)> {
    let response = send(post).await.map_err(|error| (error, None))?;
    let told = told_to_wait(response.headers());
    let mime = text(response.headers(), CONTENT_TYPE.as_str()).unwrap_or_default().to_ascii_lowercase();
    // Some servers answer errors so, and what is not a provider at all answers pages.
    let other = mime.starts_with("application/json") || mime.starts_with("text/html");
    if response.status().is_success() && !other {
        return Ok(response);
    }
    Err((refused(response).await, told))
}

async fn send(post: &Post) -> Result<Response, ModelError> {
    let url = Url::parse(&post.url).map_err(|error| {
        ModelError::new(Breach::Refused, format!("`{}` is no address: {error}", post.url))
    })?;
    let host = shown(&url);
    let request = client(is_loopback(&url))?.post(url).headers(post.headers.clone()).json(&post.body);
    match timeout(post.patience.idle, request.send()).await {
        Ok(Ok(response)) => Ok(response),
        Ok(Err(error)) if error.is_builder() => {
            Err(ModelError::new(Breach::Refused, format!("{host} can't be asked: {}", causes(error))))
        }
        Ok(Err(error)) => {
            let what = format!("{host} does not answer: {}", causes(error));
            Err(ModelError::new(Breach::Unreachable, what)
                .next("Look whether the address and the network are right."))
        }
        Err(_) => {
            let what = format!("{host} did not answer for {} s", post.patience.idle.as_secs());
            Err(ModelError::new(Breach::Unreachable, what))
        }
    }
}

/// Two clients for all: making one costs milliseconds. What is served on this machine is asked past any proxy.
fn client(loopback: bool) -> Result<&'static Client, ModelError> {
    static FAR: OnceLock<Client> = OnceLock::new();
    static NEAR: OnceLock<Client> = OnceLock::new();
    let cell = if loopback { &NEAR } else { &FAR };
    if let Some(client) = cell.get() {
        return Ok(client);
    }
    let builder = Client::builder()
        .connect_timeout(CONNECT)
        // A key is for the host that it was given for.
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("haft/", env!("CARGO_PKG_VERSION")));
    let builder = if loopback { builder.no_proxy() } else { builder };
    let made = builder.build().map_err(|error| {
        ModelError::new(Breach::Unreachable, format!("no HTTP client can be made: {error}"))
    })?;
    Ok(cell.get_or_init(|| made))
}

/// Is it served on this machine?
pub(super) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    address.map_or(host == "localhost" || host.ends_with(".localhost"), |it| it.is_loopback())
}

/// An address as a person may see it: without what may be secret in it.
pub(super) fn shown(url: &Url) -> String {
    let port = url.port().map(|it| format!(":{it}")).unwrap_or_default();
    format!("{}://{}{port}", url.scheme(), url.host_str().unwrap_or_default())
}

/// An error with what is behind it, and without the address.
fn causes(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut why = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(it) = cause {
        why = format!("{why}: {it}");
        cause = it.source();
    }
    why
}

/// What an answer that is none says.
async fn refused(response: Response) -> ModelError {
    let status = response.status();
    let stay = text(response.headers(), "x-should-retry").is_some_and(|it| it == "false");
    let elsewhere = text(response.headers(), LOCATION.as_str()).map(str::to_owned);
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
    let said = message(&body).unwrap_or_else(|| body.lines().next().unwrap_or_default().to_owned());
    let said: String = said.chars().take(SHOWN).collect();
    let error = |breach| ModelError::new(breach, format!("the provider answered {status}: {said}"));
    if is_spent(status, &body) {
        return error(Breach::Refused)
            .next("Look at the plan and the bill at the provider, or name another model.");
    }
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            error(Breach::Auth).next("Look whether the key is right, and good for this model.")
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
            let elsewhere = elsewhere.unwrap_or_default();
            error(Breach::Refused)
                .next(format!("It points to `{elsewhere}`: if that is right, name it as the address."))
        }
        status if status.is_success() => ModelError::new(
            Breach::Refused,
            format!("the provider answered with something else than a stream of events: {said}"),
        )
        .next("Look whether the address is that of a provider, up to and with its version, such as `/v1`."),
        StatusCode::NOT_FOUND => {
            error(Breach::Refused).next("Look whether the address and the name of the model are right.")
        }
        _ => error(Breach::Refused),
    }
}

/// Does an error say that there is no money left, so that no waiting helps?
fn is_spent(status: StatusCode, body: &str) -> bool {
    let said = ["insufficient_quota", "credit balance is too low", "billing_error"];
    let body = body.to_ascii_lowercase();
    status == StatusCode::PAYMENT_REQUIRED || !status.is_success() && said.iter().any(|it| body.contains(it))
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

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// How long the provider says that it wants to be left alone.
fn told_to_wait(headers: &HeaderMap) -> Option<Duration> {
    if let Some(ms) = text(headers, "retry-after-ms").and_then(|it| it.parse::<f64>().ok()) {
        return Duration::try_from_secs_f64(ms / 1000.0).ok();
    }
    let after = text(headers, "retry-after")?;
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
