//! Edits of a file that changed since it was shown: applied at the right place, or refused.

use serde_json::json;

use crate::support::{Called, TestWorkspace, anchor};

const FILE: &str =
    "fn one() {\n    first();\n}\n\nfn two() {\n    second();\n}\n\nfn three() {\n    third();\n}\n";

/// Reads the file, lets it change, and edits a line by the anchor that was shown.
fn stale(test_ws: &TestWorkspace, line: &str, changed: &str) -> Called {
    test_ws.put("file", FILE);
    let shown = test_ws.call("read", &json!({"path": "file"})).must("ok").text();
    test_ws.put("file", changed);
    test_ws.call(
        "edit",
        &json!({"path": "file", "edits": [{"anchor": anchor(&shown, line), "new": "    EDITED();"}]}),
    )
}

/// The edit was refused with the file as it was; the same edit by the anchors it gave lands.
#[track_caller]
fn refused_and_lands_at_the_second_try(test_ws: &TestWorkspace, fault: Called, changed: &str, line: &str) {
    let fault = fault.must("stale");
    assert_eq!(test_ws.text("file"), changed);
    let fresh = anchor(&fault.text(), line);
    test_ws
        .call("edit", &json!({"path": "file", "edits": [{"anchor": fresh, "new": "    EDITED();"}]}))
        .must("ok");
    assert_eq!(test_ws.text("file"), changed.replacen(line, "    EDITED();", 1));
}

#[test]
fn lines_put_in_above_move_the_edit_and_it_says_so() {
    let test_ws = TestWorkspace::new();
    let changed = format!("use a;\nuse b;\n\n{FILE}");
    let called = stale(&test_ws, "    second();", &changed).must("ok");
    assert!(called.text().contains("line 6 is at 9 now"), "{}", called.text());
    assert_eq!(test_ws.text("file"), changed.replace("    second();", "    EDITED();"));
}

#[test]
fn lines_taken_out_above_move_the_edit_and_it_says_so() {
    let test_ws = TestWorkspace::new();
    let changed = FILE.replace("fn one() {\n    first();\n}\n\n", "");
    let called = stale(&test_ws, "    second();", &changed).must("ok");
    assert!(called.text().contains("line 6 is at 2 now"), "{}", called.text());
    assert_eq!(test_ws.text("file"), changed.replace("    second();", "    EDITED();"));
}

#[test]
fn an_edit_after_a_fresh_read_lands_though_an_older_read_had_other_lines_under_the_same_names() {
    let test_ws = TestWorkspace::new();
    test_ws.put("file", "a\n}\nb\n}\n");
    test_ws.call("read", &json!({"path": "file"})).must("ok");
    test_ws.put("file", "a\nb\n}\n}\n");
    let shown = test_ws.call("read", &json!({"path": "file"})).must("ok").text();
    assert!(shown.contains("4:18|}"), "{shown}");
    test_ws.call("edit", &json!({"path": "file", "edits": [{"anchor": "4:18", "new": "x"}]})).must("ok");
    assert_eq!(test_ws.text("file"), "a\nb\n}\nx\n");
}

#[test]
fn a_change_of_the_line_itself_is_refused_with_fresh_anchors() {
    let test_ws = TestWorkspace::new();
    let changed = FILE.replace("second()", "second(now)");
    let fault = stale(&test_ws, "    second();", &changed);
    refused_and_lands_at_the_second_try(&test_ws, fault, &changed, "    second(now);");
}

#[test]
fn a_line_that_is_gone_is_refused_with_fresh_anchors() {
    let test_ws = TestWorkspace::new();
    let changed = FILE.replace("    second();\n", "");
    let fault = stale(&test_ws, "    second();", &changed);
    refused_and_lands_at_the_second_try(&test_ws, fault, &changed, "fn two() {");
}

#[test]
fn a_same_looking_brace_in_the_place_of_another_is_not_taken_for_it() {
    let test_ws = TestWorkspace::new();
    test_ws.put("file", FILE);
    let shown = test_ws.call("read", &json!({"path": "file"})).must("ok").text();
    // The brace that ends `two`, in line 7.
    let brace = shown.lines().nth(6).unwrap().split('|').next().unwrap();
    // `two` is gone, and where its brace was there is `three`'s.
    let changed = "fn one() {\n    first();\n}\n\n// here\nfn three() {\n}\n";
    test_ws.put("file", changed);
    test_ws
        .call("edit", &json!({"path": "file", "edits": [{"anchor": brace, "new": "    EDITED();"}]}))
        .must("stale");
    assert_eq!(test_ws.text("file"), changed);
}

#[test]
fn a_formatter_elsewhere_is_no_reason_to_read_again() {
    let test_ws = TestWorkspace::new();
    let changed = FILE.replace("    first();", "\tfirst( );").replace("fn three() {", "fn three()\n{");
    stale(&test_ws, "    second();", &changed).must("ok");
    assert_eq!(test_ws.text("file"), changed.replace("    second();", "    EDITED();"));
}

#[test]
fn line_endings_that_change_everywhere_keep_the_edit_in_its_place() {
    let test_ws = TestWorkspace::new();
    let changed = FILE.replace('\n', "\r\n");
    stale(&test_ws, "    second();", &changed).must("ok");
    assert_eq!(test_ws.text("file"), changed.replace("    second();", "    EDITED();"));
}

#[test]
fn edits_that_overlap_are_refused_and_all_land_or_none() {
    let test_ws = TestWorkspace::new();
    test_ws.put("file", FILE);
    let shown = test_ws.call("read", &json!({"path": "file"})).text();
    let (two, second) = (anchor(&shown, "fn two() {"), anchor(&shown, "    second();"));
    let edit = |edits| test_ws.call("edit", &json!({"path": "file", "edits": edits}));
    let overlap =
        json!([{"anchor": two, "end_anchor": second, "new": "x"}, {"old": "second();", "new": "y"}]);
    assert!(edit(overlap).must("bad_args").text().contains("overlap"), "the overlap is named");
    let one_misses = json!([{"old": "first();", "new": "FIRST();"}, {"old": "nowhere", "new": "x"}]);
    assert!(!edit(one_misses).ok());
    let one_is_ambiguous = json!([{"old": "first();", "new": "FIRST();"}, {"old": "}\n", "new": "x"}]);
    edit(one_is_ambiguous).must("ambiguous");
    let empty = json!([{"old": "first();", "new": "FIRST();"}, {"old": "", "new": "x"}]);
    edit(empty).must("bad_args");
    assert_eq!(test_ws.text("file"), FILE);
    edit(json!([{"old": "first();", "new": "FIRST();"}, {"anchor": second, "new": "    SECOND();"}]))
        .must("ok");
    assert_eq!(test_ws.text("file"), FILE.replace("first()", "FIRST()").replace("second()", "SECOND()"));
}

#[test]
fn a_miss_by_white_space_shows_the_nearest_lines_and_writes_nothing() {
    let test_ws = TestWorkspace::new();
    let before = "fn a() {\n\tcall(1);\n\tcall(2);\n}\n";
    test_ws.put("file", before);
    let fault =
        test_ws.call("edit", &json!({"path": "file", "edits": [{"old": "call(1);\ncall(3);", "new": "x"}]}));
    assert!(!fault.ok() && fault.text().contains("call(1);"), "{}", fault.text());
    assert_eq!(test_ws.text("file"), before);
}

#[test]
fn a_file_is_replaced_only_after_the_whole_of_it_was_seen_unchanged() {
    let test_ws = TestWorkspace::new();
    let long: String = (0..3_000).map(|line| format!("line {line}\n")).collect();
    test_ws.put("file", &long);
    let replace = || test_ws.call("write", &json!({"path": "file", "content": "new\n", "overwrite": true}));
    let read = |offset: usize| test_ws.call("read", &json!({"path": "file", "offset": offset})).must("ok");
    test_ws.call("write", &json!({"path": "file", "content": "new\n"})).must("bad_args");
    assert!(replace().must("stale").text().contains("has not read it"));
    read(1);
    assert!(replace().must("stale").text().contains("2000 of its 3000 lines"));
    read(2_001);
    test_ws.put("file", long.replace("line 7\n", "line seven\n"));
    assert!(replace().must("stale").text().contains("has changed"));
    assert!(test_ws.text("file").contains("line seven"));
    read(1);
    read(2_001);
    replace().must("ok");
    assert_eq!(test_ws.text("file"), "new\n");
    // The session has seen the content that it wrote.
    test_ws.call("write", &json!({"path": "file", "content": "newer\n", "overwrite": true})).must("ok");
}

#[test]
fn a_session_remembers_across_processes_and_others_do_not_know() {
    let test_ws = TestWorkspace::new();
    test_ws.put("file", FILE);
    let as_one = |session: &'static str, tool: &str, arguments: serde_json::Value| {
        test_ws.call_with(&["--session", session], tool, &arguments)
    };
    let shown = as_one("mine", "read", json!({"path": "file"})).must("ok").text();
    test_ws.put("file", format!("// new\n{FILE}"));
    let edit =
        json!({"path": "file", "edits": [{"anchor": anchor(&shown, "    second();"), "new": "    mine();"}]});
    // Somebody who has not seen the file has only what stands in that line now.
    as_one("theirs", "edit", edit.clone()).must("stale");
    as_one("theirs", "write", json!({"path": "file", "content": "x", "overwrite": true})).must("stale");
    as_one("mine", "edit", edit).must("ok");
    assert_eq!(test_ws.text("file"), format!("// new\n{}", FILE.replace("second()", "mine()")));
    // A server resumes a session too.
    as_one("mine", "read", json!({"path": "file"})).must("ok");
    let server = test_ws.serve_with(&["--session", "mine"]);
    server.does("write", &json!({"path": "file", "content": "replaced\n", "overwrite": true}));
    assert!(server.finish().0.success());
    as_one("mine", "write", json!({"path": "file", "content": "again\n", "overwrite": true})).must("ok");
}

#[test]
fn many_edits_whose_text_is_absent_are_refused_at_once() {
    let test_ws = TestWorkspace::new();
    let line = |it: usize| format!("    let value_{it} = compute(it, \"some text of some length\");\n");
    let file: String = (0..13_000).map(line).collect();
    test_ws.put("file", &file);
    let edits: Vec<_> =
        (0..1_000).map(|it| json!({"old": format!("let other_{it} = computed(that);"), "new": ""})).collect();
    let edits: Vec<_> = [vec![json!({"old": "let value_7 = ", "new": "let seven = "})], edits].concat();
    let said = test_ws.call("edit", &json!({"path": "file", "edits": edits})).must("not_found").text();
    assert!(said.contains("edit 2: `old` is not in the file; line"), "{said}");
    assert!(said.contains("990 more edits of those from 12 to 1001 can't be made either."), "{said}");
    assert!(said.len() < 16_000, "{} bytes", said.len());
    assert_eq!(test_ws.text("file"), file);
}
