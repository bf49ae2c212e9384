//! `--approve ask-edits`: no file changes before a person has seen what would be written.

use std::path::Path;

use serde_json::{Value, json};

use super::edit;
use crate::support::{Terminal, TestWorkspace};

const QUESTION: &str = "[n]o: ";

/// Runs one call, with a person at the terminal.
fn asked(test_ws: &TestWorkspace, options: &[&str], tool: &str, arguments: &Value) -> Terminal {
    let arguments = arguments.to_string();
    Terminal::start(&test_ws.haft(&[options, &["--approve", "ask-edits", "call", tool, &arguments]].concat()))
}

fn last(test_ws: &TestWorkspace) -> Value {
    test_ws.log().pop().unwrap()
}

#[test]
fn an_edit_lands_only_after_a_yes_to_its_diff() {
    let test_ws = TestWorkspace::new();
    test_ws.put("a.txt", "one\ntwo\n");
    for (answer, decision, text) in [
        ("n\n", "refused by the person: ask_edits", "one\ntwo\n"),
        ("\u{3}", "refused by the person: ask_edits", "one\ntwo\n"),
        ("o\n", "approved: ask_edits", "1\ntwo\n"),
    ] {
        let mut terminal = asked(&test_ws, &[], "edit", &edit("a.txt", "one", "1"));
        terminal.shows(QUESTION, 1);
        assert_eq!(test_ws.text("a.txt"), "one\ntwo\n", "nothing lands while the question stands");
        terminal.types(answer);
        let (code, seen) = terminal.ends();
        assert_eq!(code, Some(i32::from(answer != "o\n")), "{seen}");
        let seen = seen.replace('\r', "");
        assert!(
            seen.contains(
                "Allow `edit` to change a.txt?\n  a.txt (+1 -1)\n  @@ -1,2 +1,2 @@\n  -one\n  +1\n   two\nReason: "
            ),
            "{seen}"
        );
        assert_eq!(test_ws.text("a.txt"), text);
        assert_eq!(last(&test_ws)["decision"], decision);
    }
}

#[test]
fn a_no_in_words_reaches_the_model_and_another_key_says_which_there_are() {
    let test_ws = TestWorkspace::new();
    let write = json!({"path": "new.txt", "content": "x\n"});
    let mut terminal = asked(&test_ws, &[], "write", &write);
    terminal.shows(QUESTION, 1).types("2\n").shows("Type o, s, p or n; `n WORDS`", 1).shows(QUESTION, 2);
    terminal.types("n put it into docs/\n");
    assert_eq!(terminal.ends().0, Some(1));
    assert!(!test_ws.at("new.txt").exists());
    let said = last(&test_ws)["said"].as_str().unwrap().to_owned();
    assert!(said.ends_with("the person said no: put it into docs/"), "{said}");
}

#[test]
fn an_approval_holds_for_the_session_or_the_project_but_not_for_control_files() {
    let test_ws = TestWorkspace::new();
    let write = |path: &str| json!({"path": path, "content": "x\n"});
    let mut terminal = asked(&test_ws, &["--session", "one"], "write", &write("a"));
    terminal.shows("  edit .  (every file", 1).shows(QUESTION, 1).types("s\n");
    assert_eq!(terminal.ends().0, Some(0));
    let with = |session: &str, path: &str| {
        test_ws.call_with(&["--approve", "ask-edits", "--session", session], "write", &write(path))
    };
    with("one", "b").must("ok");
    assert_eq!(last(&test_ws)["decision"], "granted: edit . (session)");
    with("two", "c").must("denied");
    with("one", ".envrc").must("denied");
    assert_eq!(test_ws.run(&["grants", "add", "edit sub"]).out, "2  project  edit sub\n");
    with("two", "sub/c").must("ok");
    with("two", "c").must("denied");
    with("two", "sub/.envrc").must("denied");
}

#[test]
fn a_yes_is_for_exactly_what_was_shown() {
    let test_ws = TestWorkspace::new();
    test_ws.put("a.txt", "one\n");
    // A file that changed while the question stood is not overwritten.
    let session = ["--session", "one"];
    test_ws.call_with(&session, "read", &json!({"path": "a.txt"})).must("ok");
    let write = json!({"path": "a.txt", "content": "new\n", "overwrite": true});
    let mut terminal = asked(&test_ws, &session, "write", &write);
    terminal.shows(QUESTION, 1);
    test_ws.put("a.txt", "somebody else's\n");
    terminal.types("o\n");
    assert_eq!(terminal.ends().0, Some(1));
    assert_eq!(test_ws.text("a.txt"), "somebody else's\n");
    assert_eq!(last(&test_ws)["outcome"], "stale");
    // An edit is planned again on what is there now, and asked about again.
    test_ws.put("a.txt", "one\n");
    let mut terminal = asked(&test_ws, &[], "edit", &edit("a.txt", "one", "1"));
    terminal.shows(QUESTION, 1);
    test_ws.put("a.txt", "one\nmore\n");
    terminal.types("o\n").shows("+1 -1", 2).shows("   more", 1).shows(QUESTION, 2);
    assert_eq!(test_ws.text("a.txt"), "one\nmore\n");
    terminal.types("o\n");
    assert_eq!(terminal.ends().0, Some(0));
    assert_eq!(test_ws.text("a.txt"), "1\nmore\n");
}

#[test]
fn a_call_that_changes_several_files_asks_once_and_all_or_nothing() {
    let test_ws = TestWorkspace::new();
    test_ws.put("a.txt", "one\n");
    let moved = json!({"action": "move", "path": "a.txt", "destination": "b.txt"});
    let state = || (test_ws.at("a.txt").exists(), test_ws.at("b.txt").exists());
    for (answer, after) in [("n\n", (true, false)), ("o\n", (false, true))] {
        let mut terminal = asked(&test_ws, &["--toolset", "navi"], "filesystem", &moved);
        terminal.shows("create b.txt (+1 -0)", 1).shows("delete a.txt (+0 -1)", 1).shows(QUESTION, 1);
        terminal.types(answer);
        let (_, seen) = terminal.ends();
        assert_eq!((seen.matches("allow it?").count(), state()), (1, after), "{seen}");
    }
    // Its undo likewise.
    let mut terminal = asked(&test_ws, &[], "undo", &json!({}));
    terminal
        .shows("create a.txt (+1 -0)", 1)
        .shows("delete b.txt (+0 -1)", 1)
        .shows(QUESTION, 1)
        .types("n\n");
    assert_eq!((terminal.ends().0, state()), (Some(1), (false, true)));
    let mut terminal = asked(&test_ws, &[], "undo", &json!({}));
    terminal.shows(QUESTION, 1).types("o\n");
    let (code, seen) = terminal.ends();
    assert_eq!((code, seen.matches("allow it?").count(), state()), (Some(0), 1, (true, false)), "{seen}");
}

#[test]
fn a_control_file_is_asked_about_with_its_diff_in_every_mode_that_asks() {
    let test_ws = TestWorkspace::new();
    test_ws.put(".mcp.json", "{\n  \"mcpServers\": {}\n}\n");
    for approve in ["ask", "ask-edits"] {
        let arguments = edit(".mcp.json", "{}", "{\"x\": {}}").to_string();
        let mut terminal =
            Terminal::start(&test_ws.haft(&["--approve", approve, "call", "edit", &arguments]));
        terminal.shows("  -  \"mcpServers\": {}", 1).shows("  +  \"mcpServers\": {\"x\": {}}", 1);
        terminal.shows("rule control_files", 1).shows("  write .mcp.json", 1).shows(QUESTION, 1).types("n\n");
        let (code, seen) = terminal.ends();
        assert_eq!((code, seen.matches("allow it?").count()), (Some(1), 1), "{seen}");
        assert_eq!(last(&test_ws)["decision"], "refused by the person: control_files");
    }
    // A change that can't be applied needs no approval.
    let arguments = edit(".mcp.json", "nowhere", "x").to_string();
    let terminal = Terminal::start(&test_ws.haft(&["call", "edit", &arguments]));
    let (code, seen) = terminal.ends();
    assert_eq!((code, seen.contains("allow it?")), (Some(1), false), "{seen}");
}

#[test]
fn where_nobody_can_be_asked_nothing_is_written_and_the_fault_says_what_to_do() {
    let test_ws = TestWorkspace::new();
    test_ws.put("a.txt", "one\n");
    for (tool, arguments) in [
        ("edit", edit("a.txt", "one", "two")),
        ("write", json!({"path": "new.txt", "content": "x"})),
        ("editor", json!({"command": "create", "path": "new.txt", "file_text": "x"})),
        ("json_write", json!({"path": "new.json", "pointer": "", "value": 1})),
    ] {
        let said = test_ws.call_with(&["--approve", "ask-edits"], tool, &arguments).must("denied").text();
        assert!(said.contains("rule `ask_edits`") && said.contains("nobody to ask"), "{said}");
        assert!(said.contains("grants add 'edit .'") && said.contains("`--approve ask`"), "{said}");
    }
    test_ws.call_with(&["--approve", "ask-edits"], "read", &json!({"path": "a.txt"})).must("ok");
    assert_eq!(crate::support::names(&test_ws.at("")), ["a.txt"]);
    assert_eq!(test_ws.text("a.txt"), "one\n");
}

fn own_config(test_ws: &TestWorkspace, text: &str) {
    std::fs::create_dir_all(test_ws.config()).unwrap();
    std::fs::write(test_ws.config().join("haft.toml"), text).unwrap();
}

#[test]
fn a_workspace_may_ask_for_it_and_can_not_take_it_away() {
    let test_ws = TestWorkspace::new();
    let write = json!({"path": "a.txt", "content": "x", "overwrite": true});
    test_ws.put("haft.toml", "approve = \"ask-edits\"\n");
    test_ws.call("write", &write).must("denied");
    own_config(&test_ws, "approve = \"ask-edits\"\n");
    for theirs in ["ask", "auto", "never"] {
        test_ws.put("haft.toml", format!("approve = \"{theirs}\"\n"));
        test_ws.call("write", &write).must("denied");
        let ran = test_ws.run(&["call", "write", &write.to_string()]);
        assert!(ran.err.contains(&format!("`approve = \"{theirs}\"`")), "{ran:?}");
    }
    // Only the person can.
    test_ws.call_with(&["--approve", "ask"], "write", &write).must("ok");
    assert!(Path::new(&test_ws.at("a.txt")).exists());
}
