//! Unfriendly servers: each call ends soon, with little text and memory.

use serde_json::json;

use super::{granting, hostile::Hostile};

/// The maximum memory of the process, in bytes.
const MEMORY: u64 = 200 << 20;

#[test]
fn hostile_server_costs_little_time_and_memory() {
    let server = Hostile::start();
    let test_ws = granting(&[&server]);
    let haft = test_ws.serve();
    let ask = |path: &str| haft.call("http_request", &json!({"url": server.url(path), "timeout_ms": 1500}));
    for (path, says) in [
        ("/endless-headers", "gave no answer that can be read"),
        ("/endless-header", "gave no answer that can be read"),
        ("/endless-status", "gave no answer that can be read"),
        ("/endless-continue", "was not done after 1.5 s"),
        ("/http09", "gave no answer that can be read"),
        ("/noise", "gave no answer that can be read"),
        ("/nothing", "gave no answer that can be read"),
        ("/slow-head", "was not done after 1.5 s"),
        ("/slow-body", "was not done after 1.5 s"),
        ("/too-short", "broke off"),
        ("/cut-chunks", "broke off"),
        ("/bad-chunks", "broke off"),
        ("/two-lengths", "gave no answer that can be read"),
        ("/split-header", "gave no answer that can be read"),
        ("/null-header", "gave no answer that can be read"),
        ("/lying-gzip", "broke off"),
    ] {
        let said = ask(path);
        assert!(said.is_error && said.text.contains(says), "{path}: {}", said.text);
        assert!(said.text.len() < 600 && said.text.lines().count() >= 2, "{path}: {}", said.text);
    }
    for (path, says) in [
        ("/bomb/gzip", "[binary, not shown; `save_to` puts it into a file]"),
        ("/bomb/deflate", "[binary, not shown; `save_to` puts it into a file]"),
        ("/huge", "`save_to` puts all of it into a file]"),
    ] {
        let before = server.sent();
        let said = ask(path);
        assert!(!said.is_error && said.text.contains(says), "{path}: {}", said.text);
        assert!(
            said.text.starts_with("HTTP 200 OK, more than 1064960 bytes"),
            "{path}: {}",
            &said.text[..80]
        );
        assert!(said.text.len() < 128 << 10, "{path}: {} bytes", said.text.len());
        // Beyond that, only the system's buffers fill.
        assert!(server.sent() - before < 64 << 20, "{path}: {} bytes", server.sent() - before);
    }
    // An encoding that haft does not accept is not decompressed.
    for encoding in ["br", "zstd"] {
        let said = ask(&format!("/bomb/{encoding}"));
        let is_as_sent = said.text.contains(&format!("content-encoding: {encoding}"));
        assert!(
            is_as_sent && said.text.contains(", not shown; `save_to` puts it into a file]"),
            "{encoding}: {}",
            said.text
        );
        let page = haft.call("web_fetch", &json!({"url": server.url(&format!("/bomb/{encoding}"))}));
        let expected = format!("answers in the encoding `{encoding}`, which was not asked for");
        assert!(page.is_error && page.text.contains(&expected), "{encoding}: {}", page.text);
    }
    let said = ask("/too-long");
    assert!(said.text.ends_with("hello"), "{}", said.text);
    let peak = haft.peak_memory();
    assert!(peak < MEMORY, "{} MiB", peak >> 20);
    // The positive control: it still serves a client that behaves.
    assert!(ask("/text").text.ends_with("hello\n"));
}

#[test]
fn cancelled_request_closes_its_connection() {
    let server = Hostile::start();
    let test_ws = granting(&[&server]);
    let haft = test_ws.serve();
    let pending = haft.start_call("http_request", &json!({"url": server.url("/slow-body"), "save_to": "x"}));
    while server.requests().is_empty() {
        std::thread::yield_now();
    }
    let id = pending.id();
    haft.send(
        &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
            .to_string(),
    );
    // The server goes on with the next request, and nothing of the first is left.
    assert!(haft.does("http_request", &json!({"url": server.url("/text")})).ends_with("hello\n"));
    let (status, _) = haft.finish();
    assert!(status.success());
    assert!(!test_ws.at("x").exists() && test_ws.leftovers("").is_empty());
    let log = test_ws.log();
    assert!(log.iter().any(|it| it.to_string().contains("cancelled")), "{log:?}");
}
