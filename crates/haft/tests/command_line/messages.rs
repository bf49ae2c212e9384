//! Messages of commands outside a conversation: each says what happened and what to do next.

use crate::support::TestWorkspace;

#[test]
fn a_tool_that_only_agents_have_is_named_as_such() {
    let test_ws = TestWorkspace::new();
    let ran = test_ws.run(&["call", "list_profiles"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.out.contains("`list_profiles` works only inside an agent, not with `haft call`"), "{ran:?}");
    assert!(ran.out.contains("`haft manual list_profiles` explains it"), "{ran:?}");
    assert!(test_ws.run(&["manual", "list_profiles"]).out.contains("list_profiles"));
    // One that nobody has stays unknown.
    assert!(!test_ws.run(&["call", "list_nothing"]).out.contains("inside an agent"));
}

#[test]
fn a_server_that_never_started_says_how_to_start_it() {
    let test_ws = TestWorkspace::new();
    let ran = test_ws.run(&["mcp", "list"]);
    assert_eq!(ran.out, "no MCP servers are configured; `haft config mcp.files` explains how\n", "{ran:?}");
    std::fs::create_dir_all(test_ws.config()).unwrap();
    std::fs::write(test_ws.config().join("haft.toml"), "[mcp.files]\ncommand = \"no-such-server\"\n")
        .unwrap();
    let ran = test_ws.run(&["mcp", "list"]);
    assert!(ran.out.starts_with("files: tools unknown until its first start; no-such-server"), "{ran:?}");
    assert!(
        ran.out.contains("To start it and list its tools: haft call mcp_list '{\"server\":\"files\"}'"),
        "{ran:?}"
    );
}

#[test]
fn servers_are_unknown_while_the_configuration_is_broken() {
    let test_ws = TestWorkspace::new();
    std::fs::create_dir_all(test_ws.config()).unwrap();
    std::fs::write(test_ws.config().join("haft.toml"), "[mcp.files\n").unwrap();
    let ran = test_ws.run(&["mcp", "list"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert_eq!(ran.out, "MCP servers are unknown until haft.toml is repaired\n", "{ran:?}");
}

#[test]
fn approve_auto_says_that_it_does_not_cover_private_addresses() {
    let test_ws = TestWorkspace::new();
    let ran = test_ws.run(&["--approve", "auto", "call", "web_fetch", r#"{"url": "http://127.0.0.1:9/"}"#]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.out.contains("; `--approve auto` does not cover this"), "{ran:?}");
}

#[test]
fn wrong_arguments_are_told_in_the_words_of_the_tool() {
    let test_ws = TestWorkspace::new();
    let told = |arguments: &str| test_ws.run(&["call", "read", arguments]).out;
    assert!(told(r#"{"pth": "a"}"#).contains("there is no argument `pth`; did you mean `path`?"));
    assert!(told(r#"{"path": ["a", "b"], "offset": "x"}"#).contains("must be "));
    let plain = test_ws.run(&["call", "todo", r#"{"action": "zzz"}"#]).out;
    assert!(!plain.contains("look like {}"), "{plain}");
}

#[test]
fn the_log_says_what_a_call_did_and_not_how_it_was_scheduled() {
    let test_ws = TestWorkspace::new();
    test_ws.run(&["call", "shell", r#"{"command": "echo x"}"#]);
    let log = test_ws.run(&["log"]).out;
    assert!(log.contains("shell  ok") && !log.contains("exclusive"), "{log}");
}

#[test]
fn grants_say_what_they_could_be() {
    let test_ws = TestWorkspace::new();
    let ran = test_ws.run(&["grants", "add", "foo", "bar"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.contains("`net HOST`"), "{ran:?}");
    assert_eq!(test_ws.run(&["grants"]).out, "no grants\n");
    test_ws.run(&["grants", "add", "write", "src"]);
    let listed = test_ws.run(&["grants"]).out;
    assert!(listed.contains("not used since"), "{listed}");
    assert_eq!(test_ws.run(&["grants", "revoke", "7"]).out, "no grant 7\n");
}
