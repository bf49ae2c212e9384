//! Tests of requests to a provider, against a server on loopback.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::fmt::Write as _;

use futures_util::StreamExt;
use reqwest::header::HeaderName;
use serde_json::json;
use tokio::io::AsyncWriteExt;

use super::*;
use crate::model::{
    endpoint::{Endpoint, Key, SHOWN, Secret},
    loopback::{Loopback, Reply},
};

const KEY: &str = "sk-a-very-secret-key";

fn quick() -> RetryPolicy {
    RetryPolicy { tries: 3, pause: Duration::from_millis(1), idle: Duration::from_secs(20) }
}

fn at(url: &str) -> Endpoint {
    let mut endpoint = Endpoint::new(url).with(Some(Key::Bearer(Secret::new(KEY))));
    endpoint.retry_policy = quick();
    endpoint
}

async fn ask(endpoint: &Endpoint) -> Vec<Result<Received, ModelError>> {
    post(endpoint.post("messages", json!({ "a": 1 })).unwrap()).collect().await
}

async fn asked(replies: impl IntoIterator<Item = Reply>) -> (Vec<Result<Received, ModelError>>, usize) {
    let loopback = Loopback::serve(replies).await;
    let heard = ask(&at(&loopback.url)).await;
    (heard, loopback.asked().len())
}

fn sent(data: &str) -> Result<Received, ModelError> {
    Ok(Received::Sent { event: None, data: data.to_owned() })
}

/// Returns the final error, and the number of pauses before it.
fn failed(heard: &[Result<Received, ModelError>]) -> (&ModelError, usize) {
    (heard.last().unwrap().as_ref().unwrap_err(), heard.len() - 1)
}

fn error(status: u16, kind: &str, message: &str) -> Reply {
    Reply::json(status, &json!({ "error": { "type": kind, "code": kind, "message": message } }))
}

#[tokio::test]
async fn request_has_key_and_body_and_the_answer_has_its_events() {
    let loopback = Loopback::serve([Reply::events("data: one\n\n: ping\n\nevent: b\ndata: two\n\n")]).await;
    let heard = ask(&at(&loopback.url)).await;
    let second = Ok(Received::Sent { event: Some("b".to_owned()), data: "two".to_owned() });
    assert_eq!(heard, [sent("one"), second]);
    let asked = loopback.asked().remove(0);
    assert_eq!(asked.line, "POST /v1/messages");
    assert_eq!(asked.header("authorization"), Some(format!("Bearer {KEY}").as_str()));
    assert_eq!(asked.header("content-type"), Some("application/json"));
    assert_eq!(asked.body, json!({ "a": 1 }));
}

#[tokio::test]
async fn transient_errors_are_retried_until_an_answer() {
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
        let Ok(Received::Waiting { why, .. }) = heard.first().unwrap() else { unreachable!() };
        assert!(why.contains(&status.to_string()) && why.contains("later"), "{why}");
        assert_eq!(heard.last().unwrap(), &sent("x"));
    }
}

#[tokio::test]
async fn error_after_the_last_try_is_the_last_one() {
    let (heard, count) = asked((0..9).map(|it| error(529, "overloaded_error", &format!("try {it}")))).await;
    let (error, waited) = failed(&heard);
    assert_eq!((error.breach, waited, count), (Breach::Busy, 2, 3));
    assert!(error.what.contains("try 2") && error.tried, "{error}");
}

#[tokio::test]
async fn permanent_errors_are_not_retried() {
    let cases = [
        (error(401, "authentication_error", "bad key"), Breach::Auth),
        (error(403, "permission_error", "not yours"), Breach::Auth),
        (error(400, "invalid_request_error", "max_tokens: wrong"), Breach::Refused),
        (error(404, "not_found_error", "no such model"), Breach::Refused),
        (error(400, "invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"), Breach::TooLong),
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
async fn stream_of_events_is_detected_by_its_first_bytes() {
    for mime in ["application/json", "", "text/plain"] {
        for size in [1, 100] {
            let body = "\n: ping\n\ndata: x\n\n";
            let (heard, count) = asked([Reply::new(200, mime, body).in_parts_of(size)]).await;
            assert_eq!((heard, count), (vec![sent("x")], 1), "{mime}");
        }
    }
}

#[tokio::test]
async fn response_without_events_is_an_error_at_once() {
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
async fn server_without_http_is_given_up_soon() {
    for head in [
        "SSH-2.0-OpenSSH_9.6\r\n\r\n".to_owned(),
        format!("HTTP/1.1 200 OK\r\nx: {}\r\n", "x".repeat(1 << 20)),
    ] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let server = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let _ = stream.write_all(head.as_bytes()).await;
                // The request is read to its end, so that the response is not lost.
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
async fn secrets_are_masked_before_errors_are_truncated_and_addresses_are_bounded() {
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
        .filter_map(|it| if let Ok(Received::Waiting { seconds, .. }) = it { Some(*seconds) } else { None })
        .collect();
    assert_eq!(pauses, [0.03, 0.04]);
}

#[tokio::test]
async fn too_long_a_pause_is_an_error_with_its_length() {
    let (heard, count) = asked([error(429, "", "full").header("retry-after", "86400")]).await;
    let (error, waited) = failed(&heard);
    assert_eq!((error.breach, waited, count), (Breach::Busy, 0, 1));
    assert!(error.next.as_deref().unwrap().contains("86400 s"), "{error:?}");
}

#[test]
fn retry_after_date_is_relative_to_now() {
    let told = |value: &str| {
        let mut headers = HeaderMap::new();
        headers.insert("retry-after", value.parse().unwrap());
        retry_after(&headers)
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
async fn idle_answer_is_an_error_after_its_events() {
    let (heard, count) = asked([Reply::events("data: one\n\ndata: tw").broken_at(20)]).await;
    assert_eq!((heard.first().unwrap(), count), (&sent("one"), 1));
    assert_eq!(failed(&heard).0.breach, Breach::Broken);

    let loopback = Loopback::serve([Reply::events("data: one\n\n").never_ending()]).await;
    let mut endpoint = at(&loopback.url);
    endpoint.retry_policy.idle = Duration::from_millis(200);
    let heard = ask(&endpoint).await;
    assert_eq!(heard.first().unwrap(), &sent("one"));
    assert_eq!(failed(&heard).0.breach, Breach::Broken);
}

#[tokio::test]
async fn a_local_address_where_nothing_listens_is_reported_once() {
    let url = Loopback::nobody().await;
    let heard = ask(&at(&url)).await;
    // An immediate failure is retried once, and reported once.
    let (error, waited) = failed(&heard);
    assert_eq!((error.breach, waited), (Breach::Unreachable, 0));
    assert!(error.tried && error.what.starts_with("nothing listens at http://127.0.0.1:"), "{error}");
    assert!(!error.what.contains("messages") && !error.what.contains("os error"), "{error}");
    let heard = ask(&at("what is this")).await;
    assert_eq!(failed(&heard).0.breach, Breach::Refused);
}

#[tokio::test]
async fn an_unknown_name_is_one_short_line() {
    // `.invalid` is reserved: no resolver knows a name in it. Without any network the lookup fails as well.
    let heard = ask(&at("https://models.invalid/v1")).await;
    let (error, waited) = failed(&heard);
    assert_eq!((error.breach, waited, error.tried), (Breach::Unreachable, 0, true));
    assert_eq!(error.what, "no network, or the name is unknown: models.invalid");
    let headers = HeaderMap::new();
    let got =
        get("https://models.invalid/v1/models", headers, &Secrets::default(), Duration::from_secs(20)).await;
    assert_eq!(got.unwrap_err().what, error.what);
}

#[tokio::test]
async fn endless_response_does_not_fill_memory() {
    let body = "x".repeat(8 * 1024 * 1024);
    let (heard, _) = asked([Reply::new(400, "text/plain", &body).never_ending()]).await;
    let (error, _) = failed(&heard);
    assert!(error.what.len() < 2 * SHOWN, "{}", error.what.len());

    let endless = Reply::events(&"x".repeat(64 * 1024 * 1024)).in_parts_of(1024 * 1024).never_ending();
    let (heard, _) = asked([endless]).await;
    assert_eq!(failed(&heard).0.breach, Breach::Malformed);
}

#[tokio::test]
async fn key_is_masked_whatever_a_server_sends() {
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
    let nobody = ask(&at(&Loopback::nobody().await.replace("http://", &format!("http://me:{KEY}@")))).await;
    write!(shown, "{nobody:?}").unwrap();
    assert!(shown.contains("***") && !shown.contains(KEY) && !shown.contains(own), "{shown}");
}

#[test]
fn loopback_addresses_are_detected() {
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
