//! KohakuTerrarium's tools of a single agent.

use serde_json::json;

use super::{TestWorkspace, all_answer, all_are_there, conversation};

const NOTEBOOK: &str = "{\"cells\": [{\"cell_type\": \"raw\", \"metadata\": {}, \"source\": \"one\"}], \"metadata\": {}, \"nbformat\": 4, \"nbformat_minor\": 4}";

#[test]
fn all_names_are_there_with_what_they_need() {
    all_are_there(
        "terrarium",
        &[
            ("bash", &["command"]),
            ("python", &["code"]),
            ("read", &["path"]),
            ("write", &["path", "content"]),
            ("edit", &["path"]),
            ("multi_edit", &["path", "edits"]),
            ("glob", &["pattern"]),
            ("grep", &["pattern"]),
            ("tree", &[]),
            ("json_read", &["path"]),
            ("json_write", &["path"]),
            ("notebook_read", &["path"]),
            ("notebook_edit", &["path"]),
            ("web_fetch", &["url"]),
            ("web_search", &["query"]),
            ("scratchpad", &["action"]),
            ("search_memory", &["query"]),
            ("info", &["name"]),
            ("stop_task", &["job_id"]),
            ("jobs", &[]),
            ("read_job", &["job_id"]),
            ("wait", &["job_id"]),
            ("ask_user", &["question"]),
            ("show_card", &["title"]),
            ("explore", &["task"]),
            ("critic", &["task"]),
            ("subagent", &["prompt"]),
        ],
    );
}

#[test]
fn each_tool_says_what_theirs_says() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    test_ws.put("a.txt", "one\ntwo\nthree\n");
    test_ws.put("b.json", "{\"k\": [1, 2]}\n");
    test_ws.put("n.ipynb", NOTEBOOK);
    test_ws.put("x.bin", [0_u8, 1, 2, 3]);
    let edits = json!([{"old": "one", "new": "ONE"}, {"old": "nine", "new": "9"}]);
    all_answer(
        &test_ws,
        "terrarium",
        &[
            ("bash", json!({"command": "exit 4"}), "ok", "Command exited with code 4"),
            ("python", json!({"code": "print(1)"}), "ok", "1"),
            ("read", json!({}), "bad_args", "No path provided"),
            ("read", json!({"path": "no"}), "not_found", "File not found: no"),
            ("read", json!({"path": "x.bin"}), "bad_args", "Binary file detected (.bin)"),
            (
                "write",
                json!({"path": "a.txt", "content": "x"}),
                "stale",
                "Cannot write to 'a.txt': file has not been read yet. Use the read tool first to see the current contents.",
            ),
            (
                "edit",
                json!({"path": "a.txt", "old": "two", "new": "2"}),
                "stale",
                "file has not been read yet",
            ),
            (
                "read",
                json!({"path": "a.txt", "offset": 1, "limit": 1}),
                "ok",
                "     2→two\n... (showing lines 2-2 of 3. Use offset/limit to read more.)",
            ),
            (
                "write",
                json!({"path": "a.txt", "content": "x"}),
                "stale",
                "only 1 of its 3 lines have been read",
            ),
            (
                "edit",
                json!({"path": "a.txt", "old": "two", "new": "2"}),
                "ok",
                "Edited a.txt\n  1 replacement(s) made",
            ),
            (
                "edit",
                json!({"path": "a.txt", "old": "", "new": "2"}),
                "bad_args",
                "old is empty. Provide the exact text to find.",
            ),
            (
                "edit",
                json!({"path": "a.txt", "old": "nowhere at all", "new": "2"}),
                "not_found",
                "old not found in file.",
            ),
            ("edit", json!({"path": "a.txt"}), "bad_args", "Missing edit content. Provide either:"),
            (
                "multi_edit",
                json!({"path": "a.txt", "edits": []}),
                "bad_args",
                "edits must be a non-empty array",
            ),
            (
                "multi_edit",
                json!({"path": "a.txt", "edits": [{"old": "one"}]}),
                "bad_args",
                "edit[0] is missing required field: new",
            ),
            (
                "multi_edit",
                json!({"path": "a.txt", "edits": edits}),
                "not_found",
                "multi_edit failed in strict mode at edit[1] (file unchanged)",
            ),
            (
                "multi_edit",
                json!({"path": "a.txt", "edits": edits, "best_effort": true}),
                "not_found",
                "mode: best_effort\napplied: 1\nfailed: 1\nskipped: 0\nedit[0]: ok: 1 replacement\nedit[1]: error: old not found in file after prior edits",
            ),
            ("multi_edit", json!({"path": "a.txt", "edits": [{"old": "2", "new": "two"}]}), "ok", "-2\n+two"),
            ("glob", json!({"pattern": "*.txt"}), "ok", "a.txt"),
            ("glob", json!({"pattern": "*.none"}), "ok", "(no matches)"),
            ("glob", json!({"pattern": "*", "path": "no"}), "not_found", "Path not found: no"),
            (
                "grep",
                json!({"pattern": "t.o", "path": "a.txt"}),
                "ok",
                "a.txt:2: two\n(1 matches in 1 files)",
            ),
            ("grep", json!({"pattern": "("}), "bad_args", "Invalid regex: "),
            (
                "grep",
                json!({"pattern": "o|e", "limit": 1, "path": "a.txt"}),
                "ok",
                "(Showing 1 matches from 1 files; more may exist. Narrow your pattern or glob to refine.)",
            ),
            ("tree", json!({}), "ok", "b.json"),
            (
                "tree",
                json!({"limit": 2}),
                "ok",
                "... (output limited to 2 lines, use limit=N or path=subdir to see more)",
            ),
            ("tree", json!({"path": "a.txt"}), "bad_args", "Not a directory: a.txt"),
            ("json_read", json!({"path": "b.json", "pointer": "/k/1"}), "ok", "2"),
            ("json_write", json!({"path": "b.json", "pointer": "/k/1", "value": 3}), "ok", "Set"),
            (
                "notebook_edit",
                json!({"path": "n.ipynb", "edits": [{"cell_id": "cell-0", "new_source": "x"}]}),
                "stale",
                "Cannot write to 'n.ipynb': file has not been read yet",
            ),
            (
                "notebook_read",
                json!({"path": "n.ipynb"}),
                "ok",
                "[cell-0] index=0 type=raw synthetic_id=true\none",
            ),
            (
                "notebook_read",
                json!({"path": "a.txt"}),
                "bad_args",
                "File must be a Jupyter notebook (.ipynb)",
            ),
            (
                "notebook_edit",
                json!({"path": "n.ipynb", "edits": [{"cell_id": "cell-0", "new_source": "x"}, {"edit_mode": "insert", "cell_type": "code", "new_source": "y"}]}),
                "ok",
                "mode: strict\napplied: 2",
            ),
            (
                "notebook_edit",
                json!({"path": "n.ipynb", "cell_id": "cell-7", "new_source": "x"}),
                "not_found",
                "notebook_edit failed in strict mode at edit[0] (file unchanged)",
            ),
            ("web_fetch", json!({"url": "ftp://example.org"}), "bad_args", "ftp"),
            ("web_search", json!({"query": ""}), "bad_args", "query"),
            ("scratchpad", json!({"action": "set", "key": "k", "value": "v"}), "ok", "Set 'k'"),
            ("search_memory", json!({"query": "nothing"}), "ok", "Found 0 result(s) for: nothing"),
            ("info", json!({"name": "multi_edit"}), "ok", "multi_edit"),
            (
                "info",
                json!({"tool_name": "none_such"}),
                "not_found",
                "No documentation found for 'none_such'.",
            ),
            ("jobs", json!({}), "ok", "No running jobs."),
            ("read_job", json!({"job_id": "job_77"}), "not_found", "Job not found: job_77"),
            ("wait", json!({"job_id": "job_77"}), "not_found", "Job not found: job_77"),
            ("stop_task", json!({}), "bad_args", "job_id is required"),
            ("stop_task", json!({"job_id": "job_77"}), "not_found", "Task not found: job_77"),
            (
                "write",
                json!({"path": "new/c.txt", "content": "a\nb\n"}),
                "ok",
                "Created new/c.txt (2 lines, 4 bytes)",
            ),
            (
                "write",
                json!({"path": "new/c.txt", "content": "a\n"}),
                "ok",
                "Updated new/c.txt (1 line, 2 bytes)",
            ),
        ],
    );
    assert_eq!(test_ws.text("a.txt"), "ONE\ntwo\nthree\n");
    assert!(test_ws.text("n.ipynb").contains("\"source\": \"y\""), "{}", test_ws.text("n.ipynb"));
}

#[test]
fn a_job_is_listed_waited_for_read_and_stopped() {
    let test_ws = TestWorkspace::new();
    all_answer(
        &test_ws,
        "terrarium",
        &[
            (
                "bash",
                json!({"command": "echo begun; sleep 300", "timeout": 0, "run_in_background": true}),
                "ok",
                "job_1",
            ),
            ("jobs", json!({}), "ok", "[job_1] type=tool/bash status="),
            (
                "wait",
                json!({"job_id": "job_1", "timeout": 0}),
                "ok",
                "## job_1 - TIMEOUT\nJob still running after 0s",
            ),
            ("stop_task", json!({"job_id": "job_1"}), "ok", "Cancelled tool: job_1"),
            ("stop_task", json!({"job_id": "job_1"}), "ok", "Task job_1 is already cancelled"),
            ("read_job", json!({"job_id": "job_1"}), "ok", "## Job job_1 Output\n```"),
            ("wait", json!({"job_id": "job_1"}), "ok", "## job_1 - ERROR"),
        ],
    );
}

#[test]
fn a_session_in_its_words_uses_ten_of_them() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    test_ws.put("sum.py", "def total(a, b):\n    return a - b\n\nprint(total(2, 3))\n");
    test_ws.put("n.ipynb", NOTEBOOK);
    let ran = conversation(
        &test_ws,
        "terrarium",
        &[
            ("tree", json!({}), "sum.py"),
            ("glob", json!({"pattern": "**/*.py"}), "sum.py"),
            ("grep", json!({"pattern": "return"}), "sum.py:2:"),
            ("read", json!({"path": "sum.py"}), "     2→    return a - b"),
            (
                "multi_edit",
                json!({"path": "sum.py", "edits": [{"old": "a - b", "new": "a + b"}, {"old": "total", "new": "sum_of", "replace_all": true}]}),
                "edit[1]: ok: 2 replacements",
            ),
            ("bash", json!({"command": "python3 sum.py"}), "5"),
            ("python", json!({"code": "print(6 * 7)"}), "42"),
            ("notebook_read", json!({"path": "n.ipynb"}), "one"),
            (
                "notebook_edit",
                json!({"path": "n.ipynb", "cell_id": "cell-0", "new_source": "two"}),
                "Edited n.ipynb",
            ),
            ("scratchpad", json!({"action": "set", "key": "done", "value": "yes"}), "Set 'done'"),
            ("info", json!({"name": "edit"}), "replace_all"),
            ("write", json!({"path": "DONE.md", "content": "done\n"}), "Created DONE.md (1 line, 5 bytes)"),
        ],
    );
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.ends_with("All done.\n"), "{ran:?}");
    assert!(test_ws.text("sum.py").contains("return a + b") && test_ws.text("n.ipynb").contains("\"two\""));
}

#[test]
fn arguments_that_theirs_has_are_taken() {
    let test_ws = TestWorkspace::new();
    test_ws.put(".gitignore", "out\n");
    test_ws.put("out/made.txt", "found\n");
    test_ws.put("kept.txt", "found\n");
    test_ws.put("b.json", "{\"k\": [1, {\"l\": \"x\"}]}\n");
    all_answer(
        &test_ws,
        "terrarium",
        &[
            ("glob", json!({"pattern": "**/*.txt"}), "ok", "kept.txt"),
            ("glob", json!({"pattern": "**/*.txt", "gitignore": false}), "ok", "out/made.txt"),
            ("glob", json!({"pattern": "**/made.txt", "gitignore": "yes"}), "ok", "(no matches)"),
            ("grep", json!({"pattern": "found", "gitignore": true}), "ok", "(1 matches in "),
            ("grep", json!({"pattern": "found", "gitignore": "No"}), "ok", "out/made.txt:1: found"),
            ("tree", json!({"gitignore": "0"}), "ok", "made.txt"),
            ("bash", json!({"command": "echo $0", "type": "sh"}), "ok", "sh"),
            ("bash", json!({"command": "ls", "type": "csh"}), "bad_args", "Unknown shell type: csh"),
            ("json_read", json!({"path": "b.json", "query": "k[1].l"}), "ok", "\"x\""),
            ("json_read", json!({"path": "b.json", "query": "$..l"}), "ok", "/k/1/l: \"x\""),
            (
                "json_write",
                json!({"path": "b.json", "query": ".k[1].m", "value": "[2]"}),
                "ok",
                "Updated b.json at '.k[1].m'",
            ),
            ("json_read", json!({"path": "b.json", "pointer": "/k/1/m"}), "ok", "[2]"),
            ("json_write", json!({"path": "c.json", "content": "{\"k\": 1}"}), "ok", "Updated c.json at '.'"),
            ("json_read", json!({"path": "c.json", "query": "k"}), "ok", "1"),
            ("web_search", json!({"query": "", "max_results": 3}), "bad_args", "query"),
        ],
    );
}

/// Returns a notebook with ids, outputs and metadata.
fn notebook() -> String {
    json!({
        "cells": [
            {"cell_type": "markdown", "id": "intro", "metadata": {"tags": ["top"]}, "source": ["# Title\n", "Notes"]},
            {"cell_type": "code", "id": "calc", "metadata": {}, "source": "x = 1\nprint(x)", "execution_count": 4,
                "outputs": [{"output_type": "stream", "name": "stdout", "text": "1\n"}]},
        ],
        "metadata": {"language_info": {"name": "julia"}}, "nbformat": 4, "nbformat_minor": 5,
    })
    .to_string()
}

#[test]
fn notebook_cells_are_read_and_edited_by_id_as_upstream_does() {
    let test_ws = TestWorkspace::new();
    let original = notebook();
    test_ws.put("n.ipynb", original.as_str());
    let both = json!([{"cell_id": "intro", "new_source": "# New"}, {"cell_id": "none", "new_source": "x"}]);
    all_answer(
        &test_ws,
        "terrarium",
        &[
            (
                "notebook_read",
                json!({"path": "n.ipynb", "include_metadata": true}),
                "ok",
                "Notebook: n.ipynb\nLanguage: julia\nFormat: nbformat 4.5\nCells: 2\n\n[intro] index=0 type=markdown\nmetadata: {\"tags\":[\"top\"]}\n# Title\nNotes\n\n[calc] index=1 type=code execution_count=4\nx = 1\nprint(x)\nOutputs:\n[stream:stdout]\n1",
            ),
            (
                "notebook_read",
                json!({"path": "n.ipynb", "cell_id": "calc", "include_outputs": "none"}),
                "ok",
                "print(x)",
            ),
            (
                "notebook_read",
                json!({"path": "n.ipynb", "cell_id": "x"}),
                "not_found",
                "Cell with id 'x' not found",
            ),
            (
                "notebook_read",
                json!({"path": "n.ipynb", "limit": 1}),
                "ok",
                "... (showing cells 0-0 of 2; offset=1 shows more)",
            ),
            (
                "notebook_read",
                json!({"path": "n.ipynb", "cell_id": "cell-1", "max_source_chars": 5}),
                "ok",
                "x = 1\n... (truncated, 14 chars total)",
            ),
            (
                "notebook_edit",
                json!({"path": "n.ipynb", "cell_id": "calc", "edit_mode": "insert", "new_source": "x"}),
                "bad_args",
                "edit[0].cell_type is required for insert",
            ),
            (
                "notebook_edit",
                json!({"path": "n.ipynb", "new_source": "x"}),
                "bad_args",
                "edit[0].cell_id is required for replace",
            ),
            (
                "notebook_edit",
                json!({"path": "n.ipynb", "edits": both}),
                "not_found",
                "No changes made to n.ipynb\nmode: strict",
            ),
            (
                "notebook_edit",
                json!({"path": "n.ipynb", "cell_id": "calc", "new_source": "x = 1\nprint(x)"}),
                "ok",
                "edit[0]: ok: refreshed cell calc at index 1",
            ),
            (
                "notebook_edit",
                json!({"path": "n.ipynb", "cell_id": "calc", "new_source": "x = 1\nprint(x)"}),
                "ok",
                "edit[0]: ok: no change to cell calc",
            ),
            (
                "notebook_edit",
                json!({"path": "n.ipynb", "edits": [
                    {"edit_mode": "insert", "cell_type": "raw", "new_source": "first", "insert_location": "beginning"},
                    {"cell_id": "cell-1", "edit_mode": "delete"},
                    {"cell_id": "calc", "new_source": "y = 2"},
                ]}),
                "ok",
                "edit[1]: ok: deleted cell intro at index 1\nedit[2]: ok: replaced cell calc at index 1\n\n--- a/n.ipynb\n+++ b/n.ipynb",
            ),
            (
                "notebook_edit",
                json!({"path": "n.ipynb", "edits": both, "best_effort": true}),
                "not_found",
                "notebook_edit completed with 2 failed edit(s)",
            ),
        ],
    );
    let after: serde_json::Value = serde_json::from_str(&test_ws.text("n.ipynb")).unwrap();
    let sources: Vec<_> = after["cells"].as_array().unwrap().iter().map(|it| &it["source"]).collect();
    assert_eq!(sources, [&json!("first"), &json!("y = 2")]);
    assert_eq!(after["cells"][1]["outputs"], json!([]));
    // One call after the other, back to what it was.
    for _ in 0..2 {
        assert_eq!(test_ws.run(&["undo"]).code, 0);
    }
    assert_eq!(test_ws.text("n.ipynb"), original);
}

#[test]
fn notebook_that_another_program_changed_is_read_again_before_it_is_edited() {
    let test_ws = TestWorkspace::new();
    test_ws.put("n.ipynb", notebook());
    let on = ["--toolset", "terrarium", "--approve", "auto"];
    test_ws.batch(&on, &[("notebook_read", json!({"path": "n.ipynb"}))]).remove(0).must("ok");
    test_ws.put("n.ipynb", notebook().replace("\"nbformat\":4", "\"nbformat\": 4"));
    let edit = ("notebook_edit", json!({"path": "n.ipynb", "cell_id": "intro", "new_source": "x"}));
    let said = test_ws.batch(&on, &[edit]).remove(0).must("stale").text();
    assert!(said.contains("file was modified since last read"), "{said}");
}

/// Returns a card with fields and two buttons.
fn card(wait: bool) -> serde_json::Value {
    json!({"title": "Plan", "body": "Two steps.", "fields": [{"label": "cost", "value": "3"}], "wait_for_reply": wait,
        "actions": [{"id": "go", "label": "Go on"}, {"id": "no", "label": "Stop"}]})
}

#[test]
fn card_is_shown_in_a_chat_of_lines() {
    let test_ws = TestWorkspace::new();
    let script = test_ws.base().join("script.jsonl");
    let calls = json!({"say": "Look.", "calls": [{"tool": "show_card", "arguments": card(false)}]});
    let answer = json!({"expect": ["card displayed"], "say": "Shown."});
    std::fs::write(&script, format!("{calls}\n{answer}\n")).unwrap();
    let model = format!("script:{}", script.display());
    let mut chat = test_ws.haft(&["--toolset", "terrarium", "chat", "--model", &model]);
    let ran = crate::support::run(&mut chat, "go\n");
    let shown = "Look.\n# Plan\n\nTwo steps.\n- cost: 3\n\nActions: Go on / Stop\nShown.\n";
    assert_eq!((ran.code, ran.out.as_str()), (0, shown), "{ran:?}");
}
