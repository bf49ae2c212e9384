//! MCP servers that crash, hang or answer nonsense.

use serde_json::json;

use super::support::Fixture;

#[test]
fn server_that_dies_in_a_call_is_reported_and_restarted() {
    kit::needs!(Python);
    let fixture = Fixture::new(&json!({}));
    let said = fixture.batch(&["fix__die", "fix__echo"], "x");
    assert_eq!(said[0].kind(), "unavailable");
    assert_eq!(
        said[0].text(),
        "the connection to `fix` was lost after the call was sent, so it may or may not have been done: the server ended with exit code 3\n\
         Look at what it changed before you call it again: the next call restarts the server.\n\
         its errors end with:\nthe disk is on fire"
    );
    assert_eq!(said[1].text(), "x");
    assert_eq!((fixture.marks("started"), fixture.marks("called")), (2, 2));
}

#[test]
fn only_calls_configured_as_idempotent_are_retried_once() {
    kit::needs!(Python);
    for (section, kind, calls) in
        [("", "unavailable", 1), ("idempotent = [\"count\"]", "ok", 2), ("read_only = [\"*\"]", "ok", 2)]
    {
        let fixture = Fixture::with(&json!({}), section);
        fixture.call("fix__count", "x").must(kind);
        assert_eq!(fixture.marks("called"), calls, "{section}");
    }
    let fixture = Fixture::with(&json!({}), "idempotent = [\"die\"]");
    fixture.call("fix__die", "x").must("unavailable");
    assert_eq!(fixture.marks("called"), 2);
}

#[test]
fn server_that_cannot_start_says_why_and_retries_stop() {
    kit::needs!(Python);
    let fixture = Fixture::new(&json!({}));
    fixture.call("fix__echo", "x").must("ok");
    fixture.configure(&json!({"dies_at_start": true, "tools": ["echo"]}), "");
    let tries: Vec<_> = (0..6)
        .map(|_| ("mcp_call", json!({"server": "fix", "name": "echo", "arguments": {"text": "x"}})))
        .collect();
    let said = fixture.test_ws.batch(&[], &tries);
    let first = said[0].text();
    assert!(first.contains("the server `fix` ended with exit code 1 while it was started"), "{first}");
    assert!(first.contains("no module named 'left'"), "{first}");
    let last = said[5].text();
    assert!(last.contains("times in a row, so it is not tried again for"), "{last}");
    assert!(last.contains("no module named 'left'"), "{last}");

    let fixture = Fixture::new(&json!({"dies_at_start": 2}));
    let said = fixture.test_ws.batch(&[], &tries[..2]);
    assert_eq!((said[0].kind(), said[1].kind()), ("unavailable", "ok"), "{said:?}");
    let missing = Fixture::new(&json!({}));
    let text = "[mcp.fix]\ncommand = \"no-such-program\"\n";
    std::fs::write(missing.test_ws.config().join("haft.toml"), text).unwrap();
    let said = missing.test_ws.call("mcp_connect", &json!({"server": "fix"})).must("unavailable").text();
    assert!(said.contains("can't be started") && said.contains("no-such-program"), "{said}");
}

#[test]
fn hanging_server_is_ended() {
    kit::needs!(Python);
    let fixture = Fixture::with(&json!({"hangs": true}), "start_seconds = 1");
    let said = fixture.test_ws.call("mcp_list", &json!({"server": "fix"})).must("timeout").text();
    assert!(said.contains("the server `fix` did not answer within 1 s, so it was ended"), "{said}");
    let fixture = Fixture::with(&json!({}), "timeout_seconds = 1");
    let said = fixture.call("fix__slow", "x").must("timeout").text();
    assert!(said.contains("did not answer within its 1 s"), "{said}");
    // One that ignores what it does not know is greeted in the old way.
    let fixture = Fixture::new(&json!({"ignores_discover": true}));
    assert_eq!(fixture.call("fix__echo", "x").must("ok").text(), "x");
    assert_eq!(fixture.call("fix__echo", "y").must("ok").text(), "y");
    assert_eq!(fixture.marks("initialized"), 2);
}

#[test]
fn noise_floods_and_endless_lines_are_bounded() {
    kit::needs!(Python);
    let fixture = Fixture::new(&json!({"noise": true, "flood": true}));
    let said =
        fixture.batch(&["fix__echo", "fix__huge", "fix__bad", "fix__fail", "fix__echo", "mcp_status"], "x");
    assert_eq!(said[0].text(), "x");
    assert!(
        said[1].text().contains("its answer is a line of more than 16 MiB, and was not read"),
        "{}",
        said[1].text()
    );
    assert_eq!(said[2].kind(), "failed");
    assert_eq!((said[3].kind(), said[3].text()), ("failed", "x".to_owned()));
    assert_eq!(said[4].text(), "x");
    assert_eq!(fixture.marks("started"), 1, "it is the same process all along");
    let status = fixture
        .test_ws
        .batch(&[], &[("fix__echo", json!({"text": "x"})), ("mcp_status", json!({}))])
        .remove(1)
        .text();
    assert!(
        status.contains(
            "on its output are not messages and were left out; the first: Welcome to the \\u{1b}[31mserver"
        ),
        "{status}"
    );
}
