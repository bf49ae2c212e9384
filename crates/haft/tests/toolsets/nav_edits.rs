//! nav's `edit`: the forms of a call that nav takes, and the bytes that its own `edit` writes for them.

use serde_json::{Value, json};

use super::TestWorkspace;
use crate::support::{CallResult, Server, anchor};

const FILE: &str = "one\ntwo\nthree\nfour\nfive\n";

/// Starts a session that has read `file` with this text; also returns the output of `read`.
fn session(text: &str) -> (TestWorkspace, Server, String) {
    let test_ws = TestWorkspace::new();
    test_ws.put("file", text);
    let server = test_ws.serve_with(&["--toolset", "nav"]);
    let shown = server.does("read", &json!({"path": "file"}));
    (test_ws, server, shown)
}

/// Edits `file` with these arguments.
fn edit(server: &Server, mut arguments: Value) -> CallResult {
    arguments["path"] = json!("file");
    server.call("edit", &arguments)
}

/// Edits a file of this text, where the arguments name lines by their text as `@two`, and expects this text after it.
#[track_caller]
fn makes(text: &str, arguments: &Value, expected: &str) {
    let (test_ws, server, shown) = session(text);
    let mut said = arguments.to_string();
    for line in text.lines() {
        said = said.replace(&format!("\"@{line}\""), &json!(anchor(&shown, line)).to_string());
    }
    let called = edit(&server, serde_json::from_str(&said).unwrap());
    assert!(!called.is_error, "{said}: {}", called.text);
    assert_eq!(test_ws.text("file"), expected, "{said}");
}

#[test]
fn empty_arguments_count_as_not_given() {
    let all = json!({"anchor": "@two", "end_anchor": "", "new_text": "x", "insert_after": false,
        "old_string": "", "new_string": "", "replace_all": false, "edits": []});
    makes(FILE, &all, "one\nx\nthree\nfour\nfive\n");
    let all = json!({"anchor": "", "end_anchor": "", "new_text": "", "insert_after": false,
        "old_string": "two", "new_string": "x", "replace_all": false, "edits": []});
    makes(FILE, &all, "one\nx\nthree\nfour\nfive\n");
    let several = json!({"anchor": "", "new_text": "", "old_string": "",
        "edits": [{"anchor": "@two", "end_anchor": "", "new_text": "x", "old_string": ""},
            {"anchor": "@four", "end_anchor": "@five", "new_text": ""}]});
    makes(FILE, &several, "one\nx\nthree\n");
    let (test_ws, server, _) = session(FILE);
    for empty in [json!({"old_string": "", "new_string": "x"}), json!({"anchor": "", "new_text": "x"})] {
        let said = edit(&server, empty.clone());
        assert!(said.is_error, "{empty}: {}", said.text);
    }
    assert_eq!(test_ws.text("file"), FILE);
}

#[test]
fn a_newline_after_the_last_line_ends_a_file_that_had_no_final_newline() {
    makes("a\nb", &json!({"anchor": "@b", "new_text": "b\n"}), "a\nb\n");
    makes("a\nb", &json!({"anchor": "@b", "new_text": "x\n"}), "a\nx\n");
    makes("a\nb", &json!({"anchor": "@b", "insert_after": true, "new_text": "x\n"}), "a\nb\nx\n");
    makes("a\nb", &json!({"anchor": "@a", "end_anchor": "@b", "new_text": "x\n\n"}), "x\n\n");
    // Another line keeps its newline beside it, and so does the end of the file.
    makes("a\nb", &json!({"anchor": "@a", "new_text": "x\n"}), "x\n\nb");
    makes("a\nb", &json!({"anchor": "@b", "new_text": "x"}), "a\nx");
    let both = json!({"edits": [{"anchor": "@a", "new_text": "x\n"}, {"anchor": "@b", "new_text": "y\n"}]});
    makes("a\nb", &both, "x\n\ny\n");
}

#[test]
fn older_forms_of_an_edit_are_taken() {
    for (edits, expected) in [
        (json!([{"set_line": {"anchor": "@two", "new_text": "x"}}]), "one\nx\nthree\nfour\nfive\n"),
        (
            json!([{"replace_lines": {"start_anchor": "@two", "end_anchor": "@four", "new_text": "x"}}]),
            "one\nx\nfive\n",
        ),
        (json!([{"insert_after": {"anchor": "@five", "text": "six"}}]), "one\ntwo\nthree\nfour\nfive\nsix\n"),
        (
            json!([{"type": "set_line", "anchor": "@one", "new_text": "1"},
                {"type": "replace_lines", "start_anchor": "@two", "end_anchor": "@three", "new_text": "x"},
                {"type": "insert_after", "anchor": "@five", "text": "six"}]),
            "1\nx\nfour\nfive\nsix\n",
        ),
    ] {
        makes(FILE, &json!({"edits": edits}), expected);
    }
    makes(FILE, &json!({"set_line": {"anchor": "@two", "new_text": "x"}}), "one\nx\nthree\nfour\nfive\n");
    let lines = json!({"replace_lines": {"start_anchor": "@two", "end_anchor": "@four", "new_text": "x"}});
    makes(FILE, &lines, "one\nx\nfive\n");
    let (test_ws, server, _) = session(FILE);
    for (wrong, says) in [
        (json!([{"insert_after": 1, "anchor": "1:00", "new_text": "x"}]), "`edits[0].insert_after`"),
        (json!([{"set_line": {"anchor": "1:00"}}]), "`edits[0].set_line`"),
    ] {
        let said = edit(&server, json!({"edits": wrong}));
        assert!(said.is_error && said.text.contains(says), "{}", said.text);
    }
    assert_eq!(test_ws.text("file"), FILE);
}

#[test]
fn places_of_a_text_that_share_letters_are_several() {
    let (test_ws, server, _) = session("a\na\na\nzz\n");
    let one = json!({"old_string": "a\na\n", "new_string": "b\n"});
    let other = json!({"old_string": "zz", "new_string": "y"});
    for call in [one.clone(), json!({"edits": [one]}), json!({"edits": [one, other]})] {
        let said = edit(&server, call);
        assert!(said.is_error && said.text.contains("matched 2 times"), "{}", said.text);
    }
    assert_eq!(test_ws.text("file"), "a\na\na\nzz\n");
    let all = json!([{"old_string": "a\na\n", "new_string": "b\n", "replace_all": true}, other]);
    let said = edit(&server, json!({"edits": all}));
    assert!(!said.is_error, "{}", said.text);
    assert_eq!(test_ws.text("file"), "b\na\ny\n");
}

#[test]
fn dollar_signs_of_new_string_are_text() {
    makes(
        FILE,
        &json!({"old_string": "two", "new_string": "$& $1 $$"}),
        "one\n$& $1 $$\nthree\nfour\nfive\n",
    );
}

#[test]
fn edits_in_one_call_mean_the_lines_before_it() {
    let edits = json!({"edits": [{"anchor": "@one", "new_text": "1\n1b"},
        {"anchor": "@three", "end_anchor": "@four", "new_text": ""},
        {"anchor": "@five", "insert_after": true, "new_text": "6"}]});
    makes(FILE, &edits, "1\n1b\ntwo\nfive\n6\n");
    let same = json!({"edits": [{"anchor": "@two", "insert_after": true, "new_text": "2b"},
        {"anchor": "@two", "new_text": "TWO"}]});
    makes(FILE, &same, "one\nTWO\n2b\nthree\nfour\nfive\n");
}

#[test]
fn anchors_are_taken_as_they_were_copied() {
    for copied in [|it: &str| format!("{it}|two"), |it: &str| format!("  {} ", it.to_uppercase())] {
        let (test_ws, server, shown) = session(FILE);
        let said = edit(&server, json!({"anchor": copied(&anchor(&shown, "two")), "new_text": "x"}));
        assert!(!said.is_error, "{}", said.text);
        assert_eq!(test_ws.text("file"), "one\nx\nthree\nfour\nfive\n");
    }
}
