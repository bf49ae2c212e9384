//! `web_search` with each engine, and its errors.

use serde_json::json;

use super::{
    Site,
    site::{Answer, Asked, ok, status},
    test_ws,
};
use crate::support::TestWorkspace;

const HTML: &str = include_str!("pages/duckduckgo.html");
const LITE: &str = include_str!("pages/duckduckgo-lite.html");
const ROBOT: &str = r#"<html><body><form id="challenge-form" action="//duckduckgo.com/anomaly.js?sv=html"><div class="anomaly-modal__title">Unfortunately, bots use DuckDuckGo too.</div></form></body></html>"#;

/// Creates a workspace with this site as the search engine.
fn engine(site: &Site, engine: &str) -> TestWorkspace {
    let more = format!(
        "[search]\nengine = \"{engine}\"\nurl = \"{}\"\nkey = \"searching\"\n[secret.searching]\nfile = \"~/key\"\nhosts = [\"{}\"]\n",
        site.url(""),
        site.host()
    );
    // It is granted by being named.
    let test_ws = test_ws(&[], &more);
    std::fs::write(test_ws.base().join("home/key"), "key-that-nobody-sees\n").unwrap();
    test_ws
}

fn duckduckgo(answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> (Site, TestWorkspace) {
    let site = Site::new(answer);
    let test_ws = engine(&site, "duckduckgo");
    (site, test_ws)
}

#[test]
fn duckduckgo_is_read_from_its_page_without_advertisements() {
    let (site, test_ws) = duckduckgo(|_| ok("text/html", HTML));
    let text =
        test_ws.call("web_search", &json!({"query": "rust async book", "region": "de-de"})).must("ok").text();
    assert_eq!(
        text,
        "1. Asynchronous Programming in Rust\nhttps://rust-lang.github.io/async-book/?a=1&b=2\nNOTE: this guide is currently undergoing a rewrite & more.\n\n\
         2. Tokio Tutorial\nhttps://tokio.rs/tokio/tutorial\nTokio is an asynchronous runtime.\n\n\
         3. Without a snippet\nhttps://c.example/"
    );
    let asked = site.asked();
    assert_eq!((asked.len(), asked[0].path.as_str()), (1, "/html/?q=rust+async+book&kl=de-de"));
    assert!(asked[0].head.contains("user-agent: mozilla/5.0 (compatible; haft/"), "{}", asked[0].head);
    let two = test_ws.call("web_search", &json!({"query": "x", "limit": 2})).must("ok").text();
    assert!(two.contains("2. Tokio") && !two.contains("3. "), "{two}");
}

#[test]
fn next_page_is_requested_by_the_form_of_the_page() {
    let (site, test_ws) = duckduckgo(|asked| {
        let next = r#"<div class="nav-link"><form action="/html/" method="post"><input type="submit" class='btn btn--alt' value="Next" /><input type="hidden" name="q" value="x" /><input type="hidden" name="s" value="10" /><input type="hidden" name="vqd" value="4-1" /></form></div>"#;
        let first = if asked.path.contains("s=10") { 10 } else { 0 };
        let results: String = (first..first + 10)
            .map(|it| format!("<div class='result web-result'><h2><a class='result__a' href='https://p{it}.example/'>P{it}</a></h2></div>"))
            .collect();
        ok("text/html", format!("<html><body>{results}{}</body></html>", if first == 0 { next } else { "" }))
    });
    let text = test_ws.call("web_search", &json!({"query": "x", "page": 2, "limit": 8})).must("ok").text();
    assert!(
        text.starts_with("9. P8\nhttps://p8.example/\n\n10. P9")
            && text.ends_with("16. P15\nhttps://p15.example/"),
        "{text}"
    );
    assert_eq!(site.asked()[1].path, "/html/?q=x&s=10&vqd=4-1");
}

#[test]
fn blocked_search_page_falls_back_to_the_other_once() {
    let (site, test_ws) = duckduckgo(|asked| match asked.path.starts_with("/lite/") {
        true => ok("text/html", LITE),
        false => status(202, "text/html", ROBOT),
    });
    let text = test_ws.call("web_search", &json!({"query": "rust"})).must("ok").text();
    assert_eq!(
        text,
        "1. Rust Programming Language\nhttps://www.rust-lang.org/\nA language empowering everyone.\n\n2. Rust (Wikipedia)\nhttps://en.wikipedia.org/wiki/Rust\nRust is an iron oxide."
    );
    let paths: Vec<String> =
        site.asked().iter().map(|it| it.path.split('?').next().unwrap().to_owned()).collect();
    assert_eq!(paths, ["/html/", "/html/", "/lite/"]);
}

#[test]
fn blocked_changed_and_empty_results_are_distinguished() {
    let (_site, test_ws) = duckduckgo(|_| status(202, "text/html", ROBOT).with("Retry-After", "0"));
    let fault = test_ws.call("web_search", &json!({"query": "x"})).must("unavailable").text();
    assert!(fault.contains("DuckDuckGo turns us away for now (it asks whether we are a robot)"), "{fault}");
    let (site, test_ws) = duckduckgo(|_| status(403, "text/html", "no").with("Retry-After", "3600"));
    let fault = test_ws.call("web_search", &json!({"query": "x"})).must("unavailable").text();
    assert!(fault.contains("(status 403)") && fault.contains("another `engine`"), "{fault}");
    assert_eq!(site.asked().len(), 2, "nobody waits for an hour");
    let (_site, test_ws) =
        duckduckgo(|_| ok("text/html", "<html><body><div class=new-design>Rust</div></body></html>"));
    let fault = test_ws.call("web_search", &json!({"query": "x"})).must("failed").text();
    assert!(fault.contains("DuckDuckGo answers in a form that is not known"), "{fault}");
    let (_site, test_ws) = duckduckgo(|_| {
        ok("text/html", "<html><body><div class='no-results'>No results.</div></body></html>")
    });
    let text = test_ws.call("web_search", &json!({"query": "xqzzy"})).must("ok").text();
    assert_eq!(text, "no results for `xqzzy`");
}

#[test]
fn searxng_brave_and_tavily_get_their_own_requests() {
    let site = Site::of(
        "application/json",
        r#"{"results": [{"title": "A <b>b</b>", "url": "https://a.example/", "content": "Some &amp; more"}]}"#,
    );
    let text = engine(&site, "searxng")
        .call("web_search", &json!({"query": "a b", "region": "us-en"}))
        .must("ok")
        .text();
    assert_eq!(text, "1. A b\nhttps://a.example/\nSome & more");
    assert_eq!(site.asked()[0].path, "/search?q=a+b&format=json&pageno=1&language=en-US");

    let site = Site::of(
        "application/json",
        r#"{"query": {}, "web": {"results": [{"title": "B", "url": "https://b.example/", "description": "<strong>x</strong> y"}]}}"#,
    );
    let test_ws = engine(&site, "brave");
    let text = test_ws.call("web_search", &json!({"query": "b", "page": 2, "limit": 5})).must("ok").text();
    assert_eq!(text, "6. B\nhttps://b.example/\nx y");
    let asked = &site.asked()[0];
    assert_eq!(asked.path, "/?q=b&count=5&offset=1");
    assert!(asked.head.contains("x-subscription-token: key-that-nobody-sees"), "{}", asked.head);

    let site = Site::of(
        "application/json",
        r#"{"results": [{"title": "C", "url": "https://c.example/", "content": "key-that-nobody-sees"}]}"#,
    );
    let test_ws = engine(&site, "tavily");
    let text = test_ws.call("web_search", &json!({"query": "c"})).must("ok").text();
    assert!(
        text.starts_with("1. C\nhttps://c.example/\n") && !text.contains("key-that-nobody-sees"),
        "{text}"
    );
    let asked = &site.asked()[0];
    assert_eq!((asked.method.as_str(), asked.body.as_str()), ("POST", r#"{"query":"c","max_results":8}"#));
    assert!(asked.head.contains("authorization: bearer key-that-nobody-sees"), "{}", asked.head);
    let log = format!("{:?}", test_ws.log());
    assert!(!log.contains("key-that-nobody-sees"), "{log}");
}

#[test]
fn engine_error_says_what_to_do() {
    let no_json = Site::new(|_| status(403, "text/html", "Forbidden"));
    let fault =
        engine(&no_json, "searxng").call("web_search", &json!({"query": "x"})).must("unavailable").text();
    assert!(fault.contains("gives no JSON (403)") && fault.contains("settings.yml"), "{fault}");
    let key = Site::new(|_| status(401, "application/json", r#"{"error": "SUBSCRIPTION_TOKEN_INVALID"}"#));
    let fault = engine(&key, "brave").call("web_search", &json!({"query": "x"})).must("failed").text();
    assert!(
        fault.contains("Brave answers 401")
            && fault.contains("SUBSCRIPTION_TOKEN_INVALID")
            && fault.contains("`key` of `[search]`"),
        "{fault}"
    );
    let busy = Site::new(|_| status(429, "application/json", "{}").with("Retry-After", "0"));
    let fault = engine(&busy, "brave").call("web_search", &json!({"query": "x"})).must("unavailable").text();
    assert!(fault.contains("Brave answers 429"), "{fault}");
    assert_eq!(busy.asked().len(), 2, "once more, and then no more");
    let odd = Site::of("application/json", r#"{"hello": 1}"#);
    let fault = engine(&odd, "tavily").call("web_search", &json!({"query": "x"})).must("failed").text();
    assert!(fault.contains("Tavily answers in a form that is not known"), "{fault}");
    let test_ws = test_ws(&[], "[search]\nengine = \"brave\"\n");
    let fault = test_ws.call("web_search", &json!({"query": "x"})).must("unavailable").text();
    assert!(fault.contains("Brave wants a key"), "{fault}");
    let fault = super::test_ws(&[], "[search]\nengine = \"altavista\"\n")
        .call("web_search", &json!({"query": "x"}))
        .must("unavailable")
        .text();
    assert!(fault.contains("`altavista`"), "{fault}");
}

#[test]
fn invalid_query_is_not_sent() {
    let (site, test_ws) = duckduckgo(|_| ok("text/html", HTML));
    for arguments in [
        json!({"query": " "}),
        json!({"query": "x".repeat(501)}),
        json!({"query": "x", "limit": 21}),
        json!({"query": "x", "limit": 0}),
        json!({"query": "x", "page": 0}),
        json!({"query": "x", "region": "germany"}),
    ] {
        test_ws.call("web_search", &arguments).must("bad_args");
    }
    assert!(site.asked().is_empty());
}
