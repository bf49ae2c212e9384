//! Start and end of MCP servers.

use serde_json::json;

use super::support::{Fixture, until};
use crate::support::Server;

#[test]
fn server_starts_on_its_first_call_and_its_tools_are_remembered() {
    kit::needs!(Python);
    let fixture = Fixture::new(&json!({}));
    assert_eq!(fixture.shown(), Vec::<String>::new());
    assert!(
        fixture
            .test_ws
            .run(&["mcp", "list"])
            .out
            .starts_with("fix: tools unknown until its first start; python3 server.py")
    );
    assert_eq!(
        fixture.test_ws.call("mcp_list", &json!({})).must("ok").text(),
        "fix: not known yet; give `server` to start it"
    );
    assert_eq!(fixture.marks("started"), 0, "nobody asked for anything of it");

    assert_eq!(fixture.call("fix__echo", "hello").must("ok").text(), "hello");
    assert_eq!(fixture.marks("started"), 1);
    assert!(fixture.shown().contains(&"fix__echo".to_owned()));
    assert!(fixture.test_ws.run(&["mcp", "list"]).out.starts_with("fix: 11 tools;"));
    assert!(fixture.test_ws.call("mcp_status", &json!({})).text().starts_with("fix: known, 11 tools;"));
    let listed = fixture.test_ws.call("mcp_list", &json!({"server": "fix"})).must("ok").text();
    assert!(
        listed.starts_with(
            r#"{"name":"fix__echo","description":"Says it again.","inputSchema":{"type":"object""#
        ),
        "{listed}"
    );
    let said = fixture.test_ws.call("fix__echo", &json!({})).must("bad_args").text();
    assert!(said.contains("`text`"), "{said}");
    assert_eq!(fixture.marks("started"), 1, "what is known needs no server");

    let calls = [
        ("fix__echo", json!({"text": "a"})),
        ("mcp_call", json!({"server": "fix", "name": "echo", "arguments": {"text": "b"}})),
        ("mcp_status", json!({})),
    ];
    let said = fixture.test_ws.batch(&[], &calls);
    assert_eq!((said[0].text(), said[1].text()), ("a".to_owned(), "b".to_owned()));
    assert!(said[2].text().starts_with("fix: in use, 11 tools;"), "{}", said[2].text());
    assert_eq!(fixture.marks("started"), 2, "one process serves a session");
    assert_eq!(fixture.marks("left"), fixture.marks("started"), "each was left to end by itself");
}

#[test]
fn status_checks_a_server_that_nobody_used_and_lists_its_tools() {
    kit::needs!(Python);
    let fixture = Fixture::new(&json!({"tools": ["echo", "env"]}));
    let said = fixture.test_ws.call("mcp_status", &json!({})).must("ok").text();
    assert!(said.starts_with("fix: started, 2 tools; python3 server.py"), "{said}");
    assert!(said.ends_with("\n  tools: fix__echo, fix__env"), "{said}");
    assert_eq!(fixture.marks("started"), 1);
    let said = fixture.test_ws.call("mcp_status", &json!({})).must("ok").text();
    assert!(said.starts_with("fix: known, 2 tools;") && said.contains("tools: fix__echo"), "{said}");
    assert_eq!(fixture.marks("started"), 1, "what is known needs no server");
    let said = fixture.test_ws.call("mcp_status", &json!({"server": "fix"})).must("ok").text();
    assert!(said.starts_with("fix: started, 2 tools;"), "{said}");
    let said = fixture.test_ws.call("mcp_status", &json!({"server": "nope"})).must("not_found").text();
    assert!(said.contains("The servers are: fix."), "{said}");
}

#[test]
fn unknown_tool_of_a_server_lists_its_tools() {
    kit::needs!(Python);
    let fixture = Fixture::with(&json!({"tools": ["echo", "env", "a.b"]}), "tools = [\"echo\", \"a.b\"]");
    let called =
        fixture.test_ws.call("mcp_call", &json!({"server": "fix", "name": "nope"})).must("not_found");
    assert!(
        called.text().contains("the server `fix` has no tool `nope`\nIts tools are: echo, env, a.b."),
        "{}",
        called.text()
    );
    let called = fixture.test_ws.call("mcp_call", &json!({"server": "nope", "name": "x"})).must("not_found");
    assert!(called.text().contains("The servers are: fix."), "{}", called.text());
    let shown = fixture.shown();
    assert_eq!(shown.len(), 2, "`env` is left out: {shown:?}");
    assert!(shown[1].starts_with("fix__a_b_") && shown[1].len() == "fix__a_b_".len() + 8, "{shown:?}");
    fixture.call("fix__env", "HOME").must("not_found");
    let by_its_own_name = json!({"server": "fix", "name": "a.b", "arguments": {"text": "x"}});
    assert_eq!(fixture.test_ws.call("mcp_call", &by_its_own_name).must("ok").text(), "x");
}

#[test]
fn client_sees_tools_of_a_server_that_has_not_started() {
    kit::needs!(Python);
    let fixture = Fixture::new(&json!({}));
    let server = fixture.test_ws.serve();
    until(|| {
        let listed = server.ask("tools/list", &json!({})).wait().unwrap();
        let tools = listed["result"]["tools"].as_array().unwrap().clone();
        tools.iter().any(|it| it["name"].as_str().unwrap_or_default().starts_with("fix__"))
            || listed["result"]["nextCursor"].is_string()
            || server.call("mcp_status", &json!({})).text.contains("11 tools")
    });
    assert_eq!(server.does("fix__echo", &json!({"text": "x"})), "x");
}

#[test]
fn server_and_its_children_end_with_haft() {
    kit::needs!(Python);
    let fixture = Fixture::new(&json!({"child": true, "stays": true}));
    fixture.call("fix__echo", "x").must("ok");
    assert_eq!(fixture.processes(), 0, "a call of its own leaves nothing behind");
    for kill in [true, false] {
        let server = fixture.test_ws.serve();
        server.does("fix__echo", &json!({"text": "x"}));
        assert_eq!(fixture.processes(), 2);
        if kill {
            server.kill();
        } else {
            drop(Server::finish(server));
        }
        until(|| fixture.processes() == 0);
    }
    let server = fixture.test_ws.serve();
    server.does("fix__echo", &json!({"text": "x"}));
    assert_eq!(server.does("mcp_disconnect", &json!({"server": "fix"})), "fix: ended");
    assert_eq!(fixture.processes(), 0);
    assert_eq!(server.does("mcp_disconnect", &json!({"server": "fix"})), "fix: did not run");
    assert_eq!(server.does("fix__echo", &json!({"text": "again"})), "again");
}

#[test]
fn cancelled_call_is_cancelled_at_the_server_and_progress_arrives() {
    kit::needs!(Python);
    let fixture = Fixture::new(&json!({}));
    let server = fixture.test_ws.serve();
    server.does("fix__echo", &json!({"text": "x"}));
    let params = json!({"name": "fix__slow", "arguments": {"text": "x"}, "_meta": {"progressToken": "p"}});
    let pending = server.ask("tools/call", &params);
    let mut other = Vec::new();
    let heard = std::cell::RefCell::new(&mut other);
    until(|| {
        heard.borrow_mut().extend(server.take_other());
        heard.borrow().iter().any(|it| it.contains("half"))
    });
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": pending.id()}});
    server.send(&cancel.to_string());
    until(|| fixture.marks("cancelled") == 1);
    assert_eq!(server.does("fix__echo", &json!({"text": "y"})), "y");
    assert_eq!(fixture.marks("started"), 1 + fixture.marks("left"), "it goes on as it was");
}

#[test]
fn haft_can_be_a_server_of_haft() {
    kit::needs!(Python);
    let fixture = Fixture::new(&json!({}));
    fixture.test_ws.put("a", "inner text\n");
    let haft = env!("CARGO_BIN_EXE_haft");
    let text = format!(
        "[mcp.inner]\ncommand = {haft:?}\nargs = [\"--dir\", \".\", \"mcp\"]\nread = [{:?}]\n\
         env = {{ HAFT_STATE_DIR = \"/tmp/state\", HAFT_CONFIG_DIR = \"/tmp/config\" }}\n",
        std::path::Path::new(haft).parent().unwrap()
    );
    std::fs::write(fixture.test_ws.config().join("haft.toml"), text).unwrap();
    let server = fixture.test_ws.serve();
    let said = server.does("inner__read", &json!({"path": "a"}));
    assert!(said.contains("|inner text"), "{said}");
    assert!(server.does("mcp_status", &json!({})).starts_with("inner: in use"));
}
