//! `haft log --diff` and `haft undo`: what was changed, from what is kept.

use serde_json::{Value, json};

use super::edit;
use crate::support::TestWorkspace;

fn done(test_ws: &TestWorkspace, tool: &str, arguments: &Value) -> String {
    test_ws.call(tool, arguments).must("ok").id().to_owned()
}

fn diff_of(test_ws: &TestWorkspace, call: &str) -> String {
    let ran = test_ws.run(&["log", "--diff", "--call", call]);
    assert_eq!(ran.code, 0, "{ran:?}");
    ran.out
}

#[test]
fn the_log_shows_what_each_call_changed() {
    let test_ws = TestWorkspace::new();
    test_ws.put("a.txt", "one\ntwo\n");
    let first = done(&test_ws, "edit", &edit("a.txt", "one", "1"));
    let second = done(&test_ws, "edit", &edit("a.txt", "two", "2"));
    let made = done(&test_ws, "write", &json!({"path": "b.bin.txt", "content": "x"}));
    test_ws.call("read", &json!({"path": "a.txt"})).must("ok");
    // The result of the first call is known from the second one's before-image.
    let shown = diff_of(&test_ws, &first);
    assert!(
        shown.ends_with("    a.txt (+1 -1)\n    @@ -1,2 +1,2 @@\n    -one\n    +1\n     two\n"),
        "{shown}"
    );
    // The result of the second call is the current file.
    assert!(diff_of(&test_ws, &second).contains("\n    -two\n    +2\n"));
    let shown = diff_of(&test_ws, &made);
    assert!(
        shown.contains("    created b.bin.txt (+1 -0)\n    @@ -0,0 +1 @@\n    +x\n    \\ No newline"),
        "{shown}"
    );
    // All of it, with the calls that changed nothing in between.
    let all = test_ws.run(&["log", "--diff"]).out;
    assert!(all.contains("  edit  ok") && all.contains("  read  ok") && all.contains("    +2\n"), "{all}");
    assert!(!test_ws.run(&["log"]).out.contains("+2"));
    let json: Value =
        serde_json::from_str(&test_ws.run(&["log", "--diff", "--json", "--call", &first]).out).unwrap();
    assert_eq!((&json["diffs"][0]["path"], &json["diffs"][0]["removed"]), (&json!("a.txt"), &json!(1)));
    assert_eq!(json["diffs"][0]["diff"], "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n-one\n+1\n two\n");
    let without: Value =
        serde_json::from_str(&test_ws.run(&["log", "--json", "--call", &first]).out).unwrap();
    assert_eq!(without.get("diffs"), None);
}

#[test]
fn what_a_call_left_is_not_made_up_once_somebody_else_changed_the_file() {
    let test_ws = TestWorkspace::new();
    test_ws.put("a.txt", "one\n");
    let call = done(&test_ws, "edit", &edit("a.txt", "one", "two"));
    test_ws.put("a.txt", "somebody else's\n");
    let shown = diff_of(&test_ws, &call);
    assert!(shown.contains("    a.txt: not shown: the file was changed since"), "{shown}");
    assert!(!shown.contains("@@") && !shown.contains("somebody"), "{shown}");
    // A deleted file leaves nothing to compare either.
    std::fs::remove_file(test_ws.at("a.txt")).unwrap();
    assert!(diff_of(&test_ws, &call).contains("a.txt: not shown: "));
    // And what somebody put back by hand had been changed all the same.
    test_ws.put("a.txt", "one\n");
    assert!(diff_of(&test_ws, &call).contains("a.txt: not shown: "));
}

#[test]
fn a_change_that_never_landed_is_not_shown_as_one() {
    let test_ws = TestWorkspace::new();
    test_ws.put("a.txt", "one\n");
    // The before-image is kept first; then the folder says no.
    let call = test_ws.call("write", &json!({"path": "a.txt/x", "content": "x"}));
    assert!(!call.ok());
    assert!(!diff_of(&test_ws, call.id()).contains("@@"));
}

#[test]
fn undo_shows_what_it_put_back_and_how_to_redo_it() {
    let test_ws = TestWorkspace::new();
    test_ws.put("a.txt", "one\n");
    done(&test_ws, "edit", &edit("a.txt", "one", "two"));
    let ran = test_ws.run(&["undo"]);
    let mut lines = ran.out.lines();
    assert_eq!(lines.next(), Some("restored a.txt (1 line changed)"), "{ran:?}");
    let redo = lines.next().unwrap().strip_prefix("To redo: haft ").unwrap().to_owned();
    let rest: Vec<&str> = lines.collect();
    assert_eq!(rest, ["    a.txt (+1 -1)", "    @@ -1 +1 @@", "    -two", "    +one"], "{ran:?}");
    assert_eq!(test_ws.text("a.txt"), "one\n");
    assert_eq!(test_ws.run(&redo.split(' ').collect::<Vec<_>>()).code, 0, "{redo}");
    assert_eq!(test_ws.text("a.txt"), "two\n");
    assert_eq!(test_ws.run(&["undo"]).code, 0);
    let ran = test_ws.run(&["undo"]);
    assert_eq!((ran.code, ran.err.as_str()), (1, "haft: nothing left to undo in this workspace\n"));
}
