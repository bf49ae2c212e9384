//! Tests: the answers of these tools without servers, and with some.

use expect_test::expect;
use kit::{
    services::{ServerInfo, ServerState},
    testing::TestWorkspace,
};
use serde_json::json;

use super::{
    mcp_call::McpCall, mcp_connect::McpConnect, mcp_disconnect::McpDisconnect, mcp_list::McpList,
    mcp_status::McpStatus, standing,
};

#[test]
fn a_list_without_servers_says_so() {
    let test_ws = TestWorkspace::empty();
    expect!["no MCP servers are configured"].assert_eq(&test_ws.says::<McpStatus>(&json!({})));
    expect!["no MCP servers are configured"].assert_eq(&test_ws.says::<McpList>(&json!({})));
    for said in [
        test_ws.says::<McpList>(&json!({"server": "x"})),
        test_ws.says::<McpCall>(&json!({"server": "x", "name": "y"})),
        test_ws.says::<McpConnect>(&json!({"server": "x"})),
        test_ws.says::<McpDisconnect>(&json!({"server": "x"})),
    ] {
        assert!(said.contains("there is no server `x`"), "{said}");
    }
}

#[test]
fn a_new_server_is_named_well_and_reached_in_one_way() {
    let test_ws = TestWorkspace::empty();
    for (arguments, said) in [
        (json!({"server": "a b", "command": ["x"]}), "can't be the name of a server"),
        (json!({"server": "a", "command": ["x"], "url": "http://y"}), "both given"),
        (json!({"server": "a", "url": "file:///etc/passwd"}), "an http address"),
    ] {
        let answer = test_ws.says::<McpConnect>(&arguments);
        assert!(answer.contains(said), "{answer}");
    }
}

#[test]
fn a_server_takes_one_line_and_its_problems_follow() {
    let info = ServerInfo {
        name: "files".to_owned(),
        state: ServerState::Failed,
        about: "npx files".to_owned(),
        tools: Some(2),
        notes: vec!["failed once: it ended\nno module".to_owned()],
    };
    expect![[r#"
        files: failed, 2 tools; npx files
          failed once: it ended
          no module"#]]
    .assert_eq(&standing(&info));
}
