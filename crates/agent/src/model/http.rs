//! How is a provider asked over HTTP, and asked again?

use std::{
    net::IpAddr,
    sync::OnceLock,
    time::{Duration, SystemTime},
};

use async_stream::stream;
use bytes::Bytes;
use futures_util::Stream;
use reqwest::{
    Client, Response, StatusCode, Url,
    header::{CONTENT_TYPE, HeaderMap, LOCATION},
};
use serde_json::Value;
use tokio::time::timeout;

use super::{
    Breach, ModelError,
    endpoint::{SHOWN, Secrets},
    sse,
};

/// How long a provider may take to take up a connection.
const CONNECT: Duration = Duration::from_secs(15);
/// A longer wait than this is not waited: the person decides.
const LONGEST_WAIT: Duration = Duration::from_secs(120);
/// How much of an error's body is read.
const BODY: usize = 64 * 1024;
/// How many characters of an address, or of what is no answer at all, are shown.
const GLIMPSE: usize = 200;
/// How often one is asked who does not speak HTTP.
const STRANGER: u32 = 2;
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
        let (first, mut response) = loop {
            tried += 1;
            let (error, told) = match answered(&post).await {
                Ok(answered) => break answered,
                Err((error, told)) => (post.secrets.covered(error), told),
            };
            let pause = pause(&post.patience, tried).max(told.unwrap_or_default());
            let most = if error.breach == Breach::Malformed { STRANGER } else { post.patience.tries };
            if !error.may_pass() || tried >= most {
                yield Err(error.tried());
                return;
            }
            if pause > LONGEST_WAIT {
                let next = format!("It wants to be asked again in {} s: go on then, or name another model.", pause.as_secs());
                yield Err(error.next(next).tried());
                return;
            }
            yield Ok(Heard::Waiting { why: error.to_string(), seconds: pause.as_secs_f32() });
            tokio::time::sleep(pause).await;
        };
        let mut events = sse::Events::default();
        let mut size = 0;
        let mut first = Some(first).filter(|it| !it.is_empty());
        loop {
            let more = match first.take() {
                Some(first) => Ok(Ok(Some(Bytes::from(first)))),
                None => timeout(post.patience.idle, response.chunk()).await,
            };
            match more {
                Err(_) => {
                    let seconds = post.patience.idle.as_secs();
                    yield Err(broken(&format!("nothing came for {seconds} s")));
                    return;
                }
                Ok(Ok(None)) => break,
                Ok(Err(error)) => {
                    yield Err(post.secrets.covered(broken(&causes(error))));
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

fn broken(why: &str) -> ModelError {
    ModelError::new(Breach::Broken, format!("the answer broke off: {why}"))
}

/// The answer, if it is one, with its first bytes; else why not, and how long the provider wants to be left alone.
async fn answered(post: &Post) -> Result<(Vec<u8>, Response), (ModelError, Option<Duration>)> {
    let mut response = send(post).await.map_err(|error| (error, None))?;
    let told = told_to_wait(response.headers());
    if !response.status().is_success() {
        return Err((refused(response, &post.secrets).await, told));
    }
    let mime = text(response.headers(), CONTENT_TYPE.as_str()).unwrap_or_default().to_ascii_lowercase();
    if mime.starts_with("text/event-stream") {
        return Ok((Vec::new(), response));
    }
    // Some servers give a stream another name, or none; others answer errors so, or with the whole answer; and what is
    // not a provider at all answers pages. How it begins tells.
    let mut first = Vec::new();
    loop {
        match begins_events(&first) {
            Some(true) => return Ok((first, response)),
            Some(false) => break,
            None => {}
        }
        match timeout(post.patience.idle, response.chunk()).await {
            Ok(Ok(Some(more))) => first.extend_from_slice(&more),
            Ok(Ok(None)) => break,
            Ok(Err(error)) => return Err((broken(&causes(error)), told)),
            Err(_) => {
                let seconds = post.patience.idle.as_secs();
                return Err((broken(&format!("nothing came for {seconds} s")), told));
            }
        }
    }
    Err((no_stream(response, first, &mime, &post.secrets).await, told))
}

/// Is this how server-sent events begin? Nothing: more has to come before that can be said.
fn begins_events(bytes: &[u8]) -> Option<bool> {
    let is_long = bytes.len() > BODY;
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes).trim_ascii_start();
    let fields: [&[u8]; 5] = [b":", b"data:", b"event:", b"id:", b"retry:"];
    if fields.iter().any(|it| bytes.starts_with(it)) {
        return Some(true);
    }
    // White space without end is nothing, either.
    let mark = "\u{feff}".as_bytes();
    let may_become = fields.iter().any(|it| it.starts_with(bytes)) || mark.starts_with(bytes);
    if may_become && !is_long { None } else { Some(false) }
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
            let why = causes(error);
            if is_no_http(&why) {
                let what = format!("what answers at {host} does not speak HTTP as a provider does: {why}");
                return Err(ModelError::new(Breach::Malformed, what).next(
                    "Look whether the address is that of a provider, and whether it is `http` or `https`.",
                ));
            }
            let what = format!("{host} does not answer: {why}");
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

/// Is the head of an answer what can't be read? There is no other sign of it than the words.
fn is_no_http(why: &str) -> bool {
    [
        "invalid HTTP",
        "invalid content-length",
        "invalid URI",
        "message head is too large",
        // It speaks before it is asked.
        "received unexpected message",
        // TLS is spoken to one who does not.
        "received corrupt message",
    ]
    .iter()
    .any(|it| why.contains(it))
}

/// What is left of a body, as far as it is looked at.
async fn rest(mut response: Response, mut body: Vec<u8>) -> String {
    while body.len() <= BODY
        && let Ok(Ok(Some(more))) = timeout(CONNECT, response.chunk()).await
    {
        body.extend_from_slice(&more);
    }
    body.truncate(BODY);
    String::from_utf8_lossy(&body).into_owned()
}

/// What is said by an answer that went well, and is no stream of events. It would be the same another time.
async fn no_stream(response: Response, first: Vec<u8>, mime: &str, secrets: &Secrets) -> ModelError {
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
        .next("Look whether the address is that of a provider, up to and with its version, such as `/v1`.")
}

/// What an answer that is none says.
async fn refused(response: Response, secrets: &Secrets) -> ModelError {
    let status = response.status();
    let stay = text(response.headers(), "x-should-retry").is_some_and(|it| it == "false");
    let elsewhere = text(response.headers(), LOCATION.as_str()).map(str::to_owned);
    let body = rest(response, Vec::new()).await;
    let said = message(&body).unwrap_or_else(|| body.lines().next().unwrap_or_default().to_owned());
    let said = secrets.shown(said, SHOWN);
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
            let elsewhere = secrets.shown(elsewhere.unwrap_or_default(), GLIMPSE);
            error(Breach::Refused)
                .next(format!("It points to `{elsewhere}`: if that is right, name it as the address."))
        }
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
    status == StatusCode::PAYMENT_REQUIRED || said.iter().any(|it| body.contains(it))
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

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::fmt::Write as _;

    use futures_util::StreamExt;
    use reqwest::header::HeaderName;
    use serde_json::json;
    use tokio::io::AsyncWriteExt;

    use super::*;
    use crate::model::{
        endpoint::{Endpoint, Key, Secret},
        loopback::{Loopback, Reply},
    };

    const KEY: &str = "sk-a-very-secret-key";

    fn quick() -> Patience {
        Patience { tries: 3, pause: Duration::from_millis(1), idle: Duration::from_secs(20) }
    }

    fn at(url: &str) -> Endpoint {
        let mut endpoint = Endpoint::new(url).with(Some(Key::Bearer(Secret::new(KEY))));
        endpoint.patience = quick();
        endpoint
    }

    async fn ask(endpoint: &Endpoint) -> Vec<Result<Heard, ModelError>> {
        post(endpoint.post("messages", json!({ "a": 1 })).unwrap()).collect().await
    }

    async fn asked(replies: impl IntoIterator<Item = Reply>) -> (Vec<Result<Heard, ModelError>>, usize) {
        let loopback = Loopback::serve(replies).await;
        let heard = ask(&at(&loopback.url)).await;
        (heard, loopback.asked().len())
    }

    fn sent(data: &str) -> Result<Heard, ModelError> {
        Ok(Heard::Sent { event: None, data: data.to_owned() })
    }

    /// What it was that went wrong in the end, with the pauses before it.
    fn failed(heard: &[Result<Heard, ModelError>]) -> (&ModelError, usize) {
        (heard.last().unwrap().as_ref().unwrap_err(), heard.len() - 1)
    }

    fn error(status: u16, kind: &str, message: &str) -> Reply {
        Reply::json(status, &json!({ "error": { "type": kind, "code": kind, "message": message } }))
    }

    #[tokio::test]
    async fn a_request_has_its_key_and_its_body_and_the_answer_its_events() {
        let loopback =
            Loopback::serve([Reply::events("data: one\n\n: ping\n\nevent: b\ndata: two\n\n")]).await;
        let heard = ask(&at(&loopback.url)).await;
        let second = Ok(Heard::Sent { event: Some("b".to_owned()), data: "two".to_owned() });
        assert_eq!(heard, [sent("one"), second]);
        let asked = loopback.asked().remove(0);
        assert_eq!(asked.line, "POST /v1/messages");
        assert_eq!(asked.header("authorization"), Some(format!("Bearer {KEY}").as_str()));
        assert_eq!(asked.header("content-type"), Some("application/json"));
        assert_eq!(asked.body, json!({ "a": 1 }));
    }

    #[tokio::test]
    async fn what_passes_is_asked_again_until_it_is_answered() {
        for (status, kind) in [
            (429, "rate_limit_error"),
            (529, "overloaded_error"),
            (500, "api_error"),
            (503, ""),
            (408, ""),
            (409, ""),
        ] {
            let replies = [error(status, kind, "later"), Reply::nothing(), Reply::events("data: x\n\n")];
            let (heard, count) = asked(replies).await;
            assert_eq!(count, 3, "{status}");
            let Ok(Heard::Waiting { why, .. }) = heard.first().unwrap() else { unreachable!() };
            assert!(why.contains(&status.to_string()) && why.contains("later"), "{why}");
            assert_eq!(heard.last().unwrap(), &sent("x"));
        }
    }

    #[tokio::test]
    async fn after_the_last_try_the_error_is_the_last_one() {
        let (heard, count) =
            asked((0..9).map(|it| error(529, "overloaded_error", &format!("try {it}")))).await;
        let (error, waited) = failed(&heard);
        assert_eq!((error.breach, waited, count), (Breach::Busy, 2, 3));
        assert!(error.what.contains("try 2") && error.tried, "{error}");
    }

    #[tokio::test]
    async fn what_does_not_pass_is_asked_once() {
        let cases = [
            (error(401, "authentication_error", "bad key"), Breach::Auth),
            (error(403, "permission_error", "not yours"), Breach::Auth),
            (error(400, "invalid_request_error", "max_tokens: wrong"), Breach::Refused),
            (error(404, "not_found_error", "no such model"), Breach::Refused),
            (
                error(400, "invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"),
                Breach::TooLong,
            ),
            (error(400, "context_length_exceeded", "too much"), Breach::TooLong),
            (error(413, "request_too_large", "too much"), Breach::TooLong),
            (error(429, "insufficient_quota", "You exceeded your current quota"), Breach::Refused),
            (error(400, "invalid_request_error", "Your credit balance is too low"), Breach::Refused),
            (error(402, "billing_error", "pay"), Breach::Refused),
            (error(500, "api_error", "no").header("x-should-retry", "false"), Breach::Refused),
            (Reply::new(301, "text/plain", "").header("location", "https://there/v1"), Breach::Refused),
            (Reply::new(200, "text/html", "<html>Log in</html>"), Breach::Refused),
            (Reply::json(200, &json!({ "error": { "message": "no stream here" } })), Breach::Refused),
        ];
        for (reply, breach) in cases {
            let (heard, count) = asked([reply.clone(), Reply::events("data: x\n\n")]).await;
            let (error, waited) = failed(&heard);
            assert_eq!((error.breach, waited, count), (breach, 0, 1), "{reply:?}");
        }
    }

    #[tokio::test]
    async fn a_stream_of_events_is_known_by_how_it_begins() {
        for mime in ["application/json", "", "text/plain"] {
            for size in [1, 100] {
                let body = "\n: ping\n\ndata: x\n\n";
                let (heard, count) = asked([Reply::new(200, mime, body).in_parts_of(size)]).await;
                assert_eq!((heard, count), (vec![sent("x")], 1), "{mime}");
            }
        }
    }

    #[tokio::test]
    async fn what_is_no_stream_of_events_is_said_at_once() {
        let png = "\u{89}PNG\r\n\u{1a}\n";
        let whole = json!({ "choices": [{ "message": { "content": "hi" } }] });
        let cases = [
            (Reply::new(200, "image/png", png), "with `image/png` instead of a stream of events: \\u{89}PNG"),
            (Reply::new(204, "", ""), "with 204 No Content and nothing else instead"),
            (Reply::new(200, "", "hello"), "without a content type, instead of a stream of events: hello"),
            (
                Reply::json(200, &json!({ "error": { "message": "no luck" } })),
                "with an error instead of a stream of events: no luck",
            ),
            (
                Reply::json(200, &whole),
                "with its whole answer at once instead of a stream of events: {\"choices\"",
            ),
        ];
        for (reply, words) in cases {
            let (heard, count) = asked([reply, Reply::events("data: x\n\n")]).await;
            let (error, waited) = failed(&heard);
            assert_eq!((error.breach, waited, count), (Breach::Refused, 0, 1), "{error}");
            assert!(error.what.contains(words), "{error}");
        }
    }

    #[tokio::test]
    async fn who_does_not_speak_http_is_soon_left_alone() {
        for head in [
            "SSH-2.0-OpenSSH_9.6\r\n\r\n".to_owned(),
            format!("HTTP/1.1 200 OK\r\nx: {}\r\n", "x".repeat(1 << 20)),
        ] {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("http://{}/v1", listener.local_addr().unwrap());
            let server = tokio::spawn(async move {
                while let Ok((mut stream, _)) = listener.accept().await {
                    let _ = stream.write_all(head.as_bytes()).await;
                    // It is read to its end, so that what was written is not lost.
                    let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
                }
            });
            let heard = ask(&at(&url)).await;
            server.abort();
            let (error, waited) = failed(&heard);
            assert_eq!((error.breach, waited), (Breach::Malformed, 1), "{error}");
            assert!(error.tried && error.what.contains("does not speak HTTP"), "{error}");
        }
    }

    #[tokio::test]
    async fn a_secret_is_covered_before_an_error_is_cut_and_no_address_is_too_long() {
        let straddling = format!("{}{KEY}", "x".repeat(SHOWN - 10));
        let (heard, _) = asked([error(401, "", &straddling)]).await;
        let (what, _) = failed(&heard);
        assert!(!what.what.contains("sk-"), "{what}");
        let far = format!("https://there/{}", "x".repeat(5_000));
        let (heard, _) = asked([Reply::new(308, "text/plain", "").header("location", &far)]).await;
        assert!(failed(&heard).0.next.as_deref().unwrap().len() < 2 * GLIMPSE);
    }

    #[tokio::test]
    async fn a_pause_is_as_long_as_the_provider_says() {
        let replies = [
            error(429, "", "").header("retry-after-ms", "30"),
            error(429, "", "").header("retry-after", "0.04"),
            Reply::events("data: x\n\n"),
        ];
        let (heard, _) = asked(replies).await;
        let pauses: Vec<f32> = heard
            .iter()
            .filter_map(|it| if let Ok(Heard::Waiting { seconds, .. }) = it { Some(*seconds) } else { None })
            .collect();
        assert_eq!(pauses, [0.03, 0.04]);
    }

    #[tokio::test]
    async fn who_is_to_wait_for_too_long_is_told_for_how_long() {
        let (heard, count) = asked([error(429, "", "full").header("retry-after", "86400")]).await;
        let (error, waited) = failed(&heard);
        assert_eq!((error.breach, waited, count), (Breach::Busy, 0, 1));
        assert!(error.next.as_deref().unwrap().contains("86400 s"), "{error:?}");
    }

    #[test]
    fn a_date_to_wait_for_is_counted_from_now() {
        let told = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("retry-after", value.parse().unwrap());
            told_to_wait(&headers)
        };
        let soon = jiff::Timestamp::now() + Duration::from_secs(3600);
        let date = soon.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        let wait = told(&date).unwrap().as_secs();
        assert!((3000..=3600).contains(&wait), "{date}: {wait}");
        assert_eq!(told("Wed, 21 Oct 2015 07:28:00 GMT"), None);
        for nonsense in ["soon", "-5", "NaN", "1e400", ""] {
            assert_eq!(told(nonsense), None, "{nonsense}");
        }
    }

    #[tokio::test]
    async fn an_answer_that_stops_is_broken_and_keeps_what_came() {
        let (heard, count) = asked([Reply::events("data: one\n\ndata: tw").broken_at(20)]).await;
        assert_eq!((heard.first().unwrap(), count), (&sent("one"), 1));
        assert_eq!(failed(&heard).0.breach, Breach::Broken);

        let loopback = Loopback::serve([Reply::events("data: one\n\n").never_ending()]).await;
        let mut endpoint = at(&loopback.url);
        endpoint.patience.idle = Duration::from_millis(200);
        let heard = ask(&endpoint).await;
        assert_eq!(heard.first().unwrap(), &sent("one"));
        assert_eq!(failed(&heard).0.breach, Breach::Broken);
    }

    #[tokio::test]
    async fn an_address_where_nobody_answers_is_unreachable() {
        let url = Loopback::nobody().await;
        let heard = ask(&at(&url)).await;
        let (error, waited) = failed(&heard);
        assert_eq!((error.breach, waited), (Breach::Unreachable, 2));
        assert!(error.what.contains("http://127.0.0.1:") && !error.what.contains("messages"), "{error}");
        let heard = ask(&at("what is this")).await;
        assert_eq!(failed(&heard).0.breach, Breach::Refused);
    }

    #[tokio::test]
    async fn a_server_without_end_fills_no_memory() {
        let body = "x".repeat(8 * 1024 * 1024);
        let (heard, _) = asked([Reply::new(400, "text/plain", &body).never_ending()]).await;
        let (error, _) = failed(&heard);
        assert!(error.what.len() < 2 * SHOWN, "{}", error.what.len());

        let endless = Reply::events(&"x".repeat(64 * 1024 * 1024)).in_parts_of(1024 * 1024).never_ending();
        let (heard, _) = asked([endless]).await;
        assert_eq!(failed(&heard).0.breach, Breach::Malformed);
    }

    #[tokio::test]
    async fn a_key_is_in_no_text_whatever_a_server_says() {
        let own = "a-token-of-its-own";
        let said = format!("no: {KEY}, Bearer {KEY}, {own}");
        let replies = [
            error(500, "", &said),
            Reply::new(429, "text/plain", &said),
            Reply::json(401, &json!({ "detail": said })),
        ];
        let loopback = Loopback::serve(replies).await;
        let mut endpoint = at(&loopback.url);
        endpoint.headers.insert(HeaderName::from_static("x-more"), format!("Token {own}").parse().unwrap());
        let heard = ask(&endpoint).await;
        assert_eq!(loopback.asked().first().unwrap().header("x-more"), Some(format!("Token {own}").as_str()));
        assert_eq!(heard.len(), 3);
        let mut shown = format!("{heard:?}{:?}", endpoint.post("x", Value::Null));
        let nobody =
            ask(&at(&Loopback::nobody().await.replace("http://", &format!("http://me:{KEY}@")))).await;
        write!(shown, "{nobody:?}").unwrap();
        assert!(shown.contains("***") && !shown.contains(KEY) && !shown.contains(own), "{shown}");
    }

    #[test]
    fn what_is_on_this_machine_is_known_by_its_address() {
        for (url, near) in [
            ("http://127.0.0.1:8080/v1", true),
            ("http://[::1]/v1", true),
            ("http://localhost", true),
            ("http://localhost.example.org", false),
            ("http://10.0.0.1", false),
            ("http://127.0.0.1.example.org", false),
        ] {
            assert_eq!(is_loopback(&Url::parse(url).unwrap()), near, "{url}");
        }
    }
}
