//! Messages of commands outside a conversation: each says what happened and what to do next.

use crate::support::Room;

#[test]
fn a_tool_that_only_agents_have_is_named_as_such() {
    let room = Room::new();
    let ran = room.run(&["call", "list_profiles"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.out.contains("`list_profiles` is a tool for agents, and `haft call` is none"), "{ran:?}");
    assert!(ran.out.contains("`haft manual list_profiles` explains it"), "{ran:?}");
    assert!(room.run(&["manual", "list_profiles"]).out.contains("list_profiles"));
    // One that nobody has stays unknown.
    assert!(!room.run(&["call", "list_nothing"]).out.contains("tool for agents"));
}

#[test]
fn a_server_that_never_started_says_how_to_start_it() {
    let room = Room::new();
    let ran = room.run(&["mcp", "list"]);
    assert_eq!(ran.out, "no MCP servers are configured; `haft config mcp.files` explains how\n", "{ran:?}");
    std::fs::create_dir_all(room.config()).unwrap();
    std::fs::write(room.config().join("haft.toml"), "[mcp.files]\ncommand = \"no-such-server\"\n").unwrap();
    let ran = room.run(&["mcp", "list"]);
    assert!(ran.out.starts_with("files: tools unknown until its first start; no-such-server"), "{ran:?}");
    assert!(
        ran.out.contains("To start it and list its tools: haft call mcp_list '{\"server\":\"files\"}'"),
        "{ran:?}"
    );
}

#[test]
fn grants_say_what_they_could_be() {
    let room = Room::new();
    let ran = room.run(&["grants", "add", "foo", "bar"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.contains("`net HOST`"), "{ran:?}");
    assert_eq!(room.run(&["grants"]).out, "no grants\n");
    assert_eq!(room.run(&["grants", "revoke", "7"]).out, "no grant 7\n");
}
