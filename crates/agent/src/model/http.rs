//! HTTP requests to a model provider: retries with backoff, streams events, and keeps secrets out of every error.

mod failure;
mod get;
#[cfg(test)]
mod tests;

use std::{
    net::IpAddr,
    sync::OnceLock,
    time::{Duration, SystemTime},
};

use async_stream::stream;
use bytes::Bytes;
use futures_util::Stream;
use reqwest::{
    Client, Response, Url,
    header::{CONTENT_TYPE, HeaderMap},
};
use serde_json::Value;
use tokio::time::timeout;

use super::{Breach, ModelError, endpoint::Secrets, sse};
use failure::{Unsent, causes, no_stream, refused, unsent};
pub(super) use failure::{is_too_long, message};
pub(super) use get::get;

/// Timeout of a connection.
const CONNECT: Duration = Duration::from_secs(15);
/// Maximum pause before a retry; if the provider asks for more, the person decides.
const LONGEST_WAIT: Duration = Duration::from_secs(120);
/// Maximum length of an error's body that is read, in bytes.
const BODY: usize = 64 * 1024;
/// Maximum length of an address or of an invalid answer in an error, in characters.
const GLIMPSE: usize = 200;
/// Number of tries of a request that fails at once: to a server that does not support HTTP, or whose name is
/// unknown.
const TWICE: u32 = 2;
/// Maximum size of an answer, in bytes.
const LARGEST: usize = 512 * 1024 * 1024;

/// One request, which may be sent more than once. [`Endpoint::post`](super::endpoint::Endpoint::post) makes it.
#[derive(Debug)]
pub(super) struct Post {
    pub(super) url: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Value,
    pub(super) retry_policy: RetryPolicy,
    pub(super) secrets: Secrets,
}

/// Retry policy: how often a request is sent, and how far apart.
#[derive(Debug, Clone, Copy)]
pub(super) struct RetryPolicy {
    /// At most this many times.
    pub(super) tries: u32,
    /// The first pause; each is twice as long as the one before, and at least as long as the provider says.
    pub(super) pause: Duration,
    /// Idle timeout, before an answer and within it. A model may think for minutes.
    pub(super) idle: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { tries: 6, pause: Duration::from_millis(500), idle: Duration::from_secs(300) }
    }
}

/// A part of the response.
#[derive(Debug, PartialEq)]
pub(super) enum Received {
    /// The request is sent again after this many seconds.
    Waiting { why: String, seconds: f32 },
    /// One server-sent event: its name, where it has one, and its data.
    Sent { event: Option<String>, data: String },
}

/// Sends the request, and streams the events of the answer. Ends without an error when the provider closes
/// the connection normally.
///
/// Its errors contain no secret; callers that make errors from its events use [`Secrets::covered`].
pub(super) fn post(post: Post) -> impl Stream<Item = Result<Received, ModelError>> + Send {
    stream! {
        let mut tried = 0;
        let (first, mut response) = loop {
            tried += 1;
            let Failed { error, wait, at_once } = match answered(&post).await {
                Ok(answered) => break answered,
                Err(failed) => failed,
            };
            let error = post.secrets.covered(error);
            let pause = pause(&post.retry_policy, tried).max(wait.unwrap_or_default());
            let once_more = at_once || error.breach == Breach::Malformed;
            let most = if once_more { TWICE } else { post.retry_policy.tries };
            if !error.may_pass() || tried >= most {
                yield Err(error.tried());
                return;
            }
            if pause > LONGEST_WAIT {
                let next = format!("It asks for a pause of {} s: continue then, or use another model.", pause.as_secs());
                yield Err(error.next(next).tried());
                return;
            }
            // A pause of half a second needs no notice; if it fails again, the error says the same.
            if !at_once {
                yield Ok(Received::Waiting { why: error.to_string(), seconds: pause.as_secs_f32() });
            }
            tokio::time::sleep(pause).await;
        };
        let mut events = sse::Events::default();
        let mut size = 0;
        let mut first = Some(first).filter(|it| !it.is_empty());
        loop {
            let more = match first.take() {
                Some(first) => Ok(Ok(Some(Bytes::from(first)))),
                None => timeout(post.retry_policy.idle, response.chunk()).await,
            };
            match more {
                Err(_) => {
                    let seconds = post.retry_policy.idle.as_secs();
                    yield Err(broken(&format!("nothing came for {seconds} s")));
                    return;
                }
                Ok(Ok(None)) => break,
                Ok(Err(error)) => {
                    yield Err(post.secrets.covered(broken(&causes(error).0)));
                    return;
                }
                Ok(Ok(Some(more))) => {
                    size += more.len();
                    if events.take(&more).is_err() || size > LARGEST {
                        let what = format!("the answer is larger than any: {size} bytes came without an end");
                        yield Err(ModelError::new(Breach::Malformed, what));
                        return;
                    }
                    while let Some(sse::Sent { event, data }) = events.next() {
                        yield Ok(Received::Sent { event, data });
                    }
                }
            }
        }
        if let Some(sse::Sent { event, data }) = events.last() {
            yield Ok(Received::Sent { event, data });
        }
    }
}

fn broken(why: &str) -> ModelError {
    ModelError::new(Breach::Broken, format!("the answer broke off: {why}"))
}

/// The failure of one try.
struct Failed {
    error: ModelError,
    /// The pause that the provider asks for.
    wait: Option<Duration>,
    /// See [`Unsent::at_once`].
    at_once: bool,
}

/// Returns the response of one try, if it is a stream of events, with its first bytes.
async fn answered(post: &Post) -> Result<(Vec<u8>, Response), Failed> {
    let sent = send(post).await;
    let mut response = sent.map_err(|Unsent { error, at_once }| Failed { error, wait: None, at_once })?;
    let wait = retry_after(response.headers());
    let failed = |error| Failed { error, wait, at_once: false };
    if !response.status().is_success() {
        return Err(failed(refused(response, &post.secrets).await));
    }
    let mime = text(response.headers(), CONTENT_TYPE.as_str()).unwrap_or_default().to_ascii_lowercase();
    if mime.starts_with("text/event-stream") {
        return Ok((Vec::new(), response));
    }
    // Some servers send a stream with another content type, or with none; others answer errors with it, or
    // the whole answer; and servers that are not providers answer pages. The first bytes distinguish them.
    let mut first = Vec::new();
    loop {
        match begins_events(&first) {
            Some(true) => return Ok((first, response)),
            Some(false) => break,
            None => {}
        }
        match timeout(post.retry_policy.idle, response.chunk()).await {
            Ok(Ok(Some(more))) => first.extend_from_slice(&more),
            Ok(Ok(None)) => break,
            Ok(Err(error)) => return Err(failed(broken(&causes(error).0))),
            Err(_) => {
                let seconds = post.retry_policy.idle.as_secs();
                return Err(failed(broken(&format!("nothing came for {seconds} s"))));
            }
        }
    }
    Err(failed(no_stream(response, first, &mime, &post.secrets).await))
}

/// Returns whether server-sent events begin like this; `None` if the bytes are too few.
fn begins_events(bytes: &[u8]) -> Option<bool> {
    let is_long = bytes.len() > BODY;
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes).trim_ascii_start();
    let fields: [&[u8]; 5] = [b":", b"data:", b"event:", b"id:", b"retry:"];
    if fields.iter().any(|it| bytes.starts_with(it)) {
        return Some(true);
    }
    // Endless white space is not a stream of events.
    let mark = "\u{feff}".as_bytes();
    let may_become = fields.iter().any(|it| it.starts_with(bytes)) || mark.starts_with(bytes);
    if may_become && !is_long { None } else { Some(false) }
}

async fn send(post: &Post) -> Result<Response, Unsent> {
    let url = address(&post.url).map_err(Unsent::new)?;
    let client = client(is_loopback(&url)).map_err(Unsent::new)?;
    let request = client.post(url.clone()).headers(post.headers.clone()).json(&post.body);
    match timeout(post.retry_policy.idle, request.send()).await {
        Ok(Ok(response)) => Ok(response),
        Ok(Err(error)) => Err(unsent(error, &url)),
        Err(_) => Err(Unsent::new(silent(&url, post.retry_policy.idle))),
    }
}

fn address(url: &str) -> Result<Url, ModelError> {
    Url::parse(url)
        .map_err(|error| ModelError::new(Breach::Refused, format!("`{url}` is not an address: {error}")))
}

fn silent(url: &Url, idle: Duration) -> ModelError {
    let what = format!("no answer from {} within {} s", shown(url), idle.as_secs());
    ModelError::new(Breach::Unreachable, what)
}

/// Returns one of two shared clients, since creating one takes milliseconds. Requests to this machine use no
/// proxy.
fn client(loopback: bool) -> Result<&'static Client, ModelError> {
    static FAR: OnceLock<Client> = OnceLock::new();
    static NEAR: OnceLock<Client> = OnceLock::new();
    let cell = if loopback { &NEAR } else { &FAR };
    if let Some(client) = cell.get() {
        return Ok(client);
    }
    let builder = kit::net::client()
        .connect_timeout(CONNECT)
        // A key is for its own host only.
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("haft/", env!("CARGO_PKG_VERSION")));
    let builder = if loopback { builder.no_proxy() } else { builder };
    let made = builder.build().map_err(|error| {
        ModelError::new(Breach::Unreachable, format!("no HTTP client can be made: {error}"))
    })?;
    Ok(cell.get_or_init(|| made))
}

/// Returns whether a URL is on this machine.
pub(super) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    address.map_or(host == "localhost" || host.ends_with(".localhost"), |it| it.is_loopback())
}

/// Returns a URL as a person may see it: without its path and query, which may be secret.
pub(super) fn shown(url: &Url) -> String {
    let port = url.port().map(|it| format!(":{it}")).unwrap_or_default();
    format!("{}://{}{port}", url.scheme(), url.host_str().unwrap_or_default())
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// Returns the pause that the provider asks for: `retry-after-ms`, or `retry-after` in seconds or as a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
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

/// Returns the pause after this many tries, with jitter, so that clients that were refused together don't
/// retry together.
fn pause(retry_policy: &RetryPolicy, tried: u32) -> Duration {
    let whole = retry_policy.pause.saturating_mul(1 << (tried - 1).min(8));
    let random = f64::from(getrandom::u32().unwrap_or(0)) / f64::from(u32::MAX);
    whole.mul_f64(0.75 + 0.5 * random)
}
