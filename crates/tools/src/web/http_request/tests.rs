//! Tests: a request declares the touches it needs, and reaches nothing without them.

use std::sync::Arc;

use expect_test::expect;
use kit::{erase, net::HostPattern, prelude::*, services::Vault, testing::TestWorkspace};
use serde_json::{Value, json};

use super::HttpRequest;

/// Returns the touches of a call with these arguments.
fn claims(arguments: &Value) -> Vec<Touch> {
    let call = erase::<HttpRequest>().prepare(arguments.clone());
    call.map(|it| it.touches().iter().cloned().collect()).unwrap_or_default()
}

#[test]
fn reads_touch_web_other_requests_touch_net_and_files_are_named() {
    let web = |host: &str| vec![Touch::Web(host.to_owned())];
    let net = |host: &str| vec![Touch::Net(host.to_owned())];
    for (arguments, claimed) in [
        (json!({"url": "https://example.org/x"}), web("example.org")),
        (json!({"url": "https://EXAMPLE.org:443/x"}), web("example.org")),
        (json!({"url": "https://example.org:8443/x"}), web("example.org:8443")),
        (json!({"url": "http://127.1/x"}), web("127.0.0.1:80")),
        (json!({"url": "https://[::1]/x"}), web("[::1]:443")),
        (json!({"url": "https://printer.local/x"}), web("printer.local:443")),
        (json!({"url": "https://example.org", "method": "head"}), web("example.org")),
        (json!({"url": "https://example.org", "headers": {"A": "{{secret:x}}"}}), web("example.org")),
        (json!({"url": "https://example.org", "method": "DELETE"}), net("example.org")),
        (json!({"url": "https://example.org", "method": "GET", "body": ""}), net("example.org")),
        (json!({"url": "https://example.org", "json": null, "form": {}}), net("example.org")),
        (json!({"url": "https://example.org", "headers": {"X-HTTP-Method": "PUT"}}), net("example.org")),
        (json!({"url": "example.org/x"}), web("example.org")),
        (json!({"url": "no sense at all"}), Vec::new()),
        (json!({"url": "https://user@example.org"}), Vec::new()),
    ] {
        assert_eq!(claims(&arguments), claimed, "{arguments}");
    }
    let all =
        json!({"url": "https://example.org", "multipart": [{"name": "a", "path": "in"}], "save_to": "out"});
    let read = Touch::Read("in".to_owned());
    assert_eq!(claims(&all), [read, Touch::Write("out".to_owned()), Touch::Net("example.org".to_owned())]);
}

/// A vault with one secret, for one host.
struct One;

impl Vault for One {
    fn reveal(&self, name: &str, host: &str, port: u16) -> Result<String, Fault> {
        match HostPattern::parse("api.example.org").fits(host, port) {
            true if name == "one" => Ok("the value".to_owned()),
            _ => Err(Fault::denied(format!("the secret `{name}` is not for {host}:{port}"))),
        }
    }
}

#[test]
fn a_secret_goes_to_its_hosts_alone_and_not_in_clear() {
    let mut test_ws = TestWorkspace::empty();
    test_ws.vault = Arc::new(One);
    let says =
        |url: &str| test_ws.says::<HttpRequest>(&json!({"url": url, "headers": {"X": "{{secret:one}}"}}));
    expect!["denied: the secret `one` is not for example.org:443"].assert_eq(&says("https://example.org/"));
    expect![[r#"
        denied: the secret `one` is not sent over http, where everybody on the way can read it
        Use https. If there is none, a person can put `api.example.org:80` into `hosts` of `[secret.one]`."#]]
    .assert_eq(&says("http://api.example.org/"));
}

#[test]
fn more_headers_than_any_server_takes_are_refused() {
    let headers: serde_json::Map<String, Value> =
        (0..40_000).map(|it| (format!("X{it}"), json!("a"))).collect();
    let says = TestWorkspace::empty()
        .says::<HttpRequest>(&json!({"url": "https://example.org/", "headers": headers}));
    expect![[r#"
        bad_args: 40000 headers were given
        A request has 200 of them at most; `body` sends what is longer."#]]
    .assert_eq(&says);
}
