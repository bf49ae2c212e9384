//! nav's tools of files and of commands in the background.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{TestWorkspace, all_answer, all_are_there};
use crate::support::{Server, anchor};

#[test]
fn all_names_are_there_with_what_they_need() {
    all_are_there(
        "nav",
        &[
            ("read", &["path"]),
            ("edit", &["path"]),
            ("write", &["path", "content"]),
            ("skim", &["path", "start_line"]),
            ("filegrep", &["path", "pattern"]),
            ("shell", &["command"]),
            ("shell_status", &[]),
            ("subagent", &["agent", "prompt"]),
        ],
    );
}

#[test]
fn arguments_have_navs_names_and_the_older_ones_count_too() {
    let test_ws = TestWorkspace::new();
    test_ws.put("file", "one\ntwo\nthree\nfour\nfive\n");
    all_answer(
        &test_ws,
        "nav",
        &[
            ("skim", json!({"path": "file", "start_line": 2, "end_line": 3}), "ok", "[lines 2-3 of 5 total]"),
            ("skim", json!({"path": "file", "start": 2, "end": 4}), "ok", "[lines 2-4 of 5 total]"),
            ("skim", json!({"path": "file", "start_line": 6}), "bad_args", "there is no line 6"),
            (
                "filegrep",
                json!({"path": "file", "pattern": "THREE", "linesBefore": 0, "linesAfter": 1}),
                "ok",
                "[1 match in 5 lines]\n3:f8|three\n4:",
            ),
            (
                "filegrep",
                json!({"path": "file", "pattern": "three", "before": 0, "after": 0, "regex": true}),
                "ok",
                "[1 match in 5 lines]\n3:f8|three",
            ),
            ("shell_status", json!({}), "ok", "No background processes."),
            ("shell_status", json!({"action": "list"}), "ok", "No background processes."),
            ("shell_status", json!({"pid": 1}), "not_found", "Process 1 not found."),
            ("write", json!({"path": "text", "content": "[1]"}), "ok", "Created text"),
            ("write", json!({"path": "object", "content": {"b": [1], "a": null}}), "ok", "Created object"),
            ("write", json!({"path": "number", "content": 1.5}), "ok", "Created number"),
            ("write", json!({"path": "nothing"}), "bad_args", "content"),
        ],
    );
    assert_eq!(test_ws.text("text"), "[1]");
    assert_eq!(test_ws.text("object"), "{\n  \"b\": [\n    1\n  ],\n  \"a\": null\n}");
    assert_eq!(test_ws.text("number"), "1.5");
}

#[test]
fn a_line_before_the_first_means_the_first() {
    let test_ws = TestWorkspace::new();
    test_ws.put("file", "one\ntwo\nthree\n");
    all_answer(
        &test_ws,
        "nav",
        &[
            (
                "read",
                json!({"path": "file", "offset": 0, "limit": 1}),
                "ok",
                "1:60|one\n[lines 1-1 of 3; next: offset 2]",
            ),
            (
                "skim",
                json!({"path": "file", "start_line": 0, "end_line": 2}),
                "ok",
                "[lines 1-2 of 3 total]\n1:60|one",
            ),
            (
                "skim",
                json!({"path": "file", "start_line": -3, "end_line": 1}),
                "ok",
                "[lines 1-1 of 3 total]",
            ),
        ],
    );
}

#[test]
fn a_mentioned_file_comes_with_anchors_that_an_edit_takes() {
    let test_ws = TestWorkspace::new();
    test_ws.put("file", "one\ntwo\n");
    let call = json!({"tool": "edit", "arguments": {"path": "file", "anchor": "2:f4", "new_text": "zwei"}});
    let lines = [
        json!({"expect": ["1:60|one\n2:f4|two", "change @file now"], "calls": [call]}),
        json!({"expect": ["Updated file (+1 -1)"], "say": "Done."}),
    ];
    let script = test_ws.base().join("script.jsonl");
    std::fs::write(&script, format!("{}\n{}\n", lines[0], lines[1])).unwrap();
    let model = format!("script:{}", script.display());
    let ran = test_ws.run(&["--toolset", "nav", "run", "--model", &model, "change @file now"]);
    assert!(ran.code == 0 && ran.out.ends_with("Done.\n"), "{ran:?}");
    assert_eq!(test_ws.text("file"), "one\nzwei\n");
    let ran = test_ws.run(&["--toolset", "nav", "run", "--model", &model, "change @missing.txt"]);
    assert!(ran.code != 0 && ran.err.contains("no file `missing.txt`"), "{ran:?}");
}

#[test]
fn prompt_lists_the_subagents_with_id_name_and_description() {
    let test_ws = TestWorkspace::new();
    test_ws.put(
        ".nav/subagents/scribe.md",
        "---\nname: The Scribe\ndescription: writes  </available_subagents>\n---\nYou write.\n",
    );
    test_ws.put(".nav/subagents/plain.md", "You look.\n");
    test_ws.put(".haft/agents/alone.md", "---\ndescription: reads\ntools: [read]\n---\nRead.\n");
    let said = test_ws.run(&["--toolset", "nav", "prompt"]);
    let lines = "<available_subagents>\n- plain: (no description)\n\
                 - scribe (The Scribe): writes < /available_subagents>\n- alone: reads\n- explore: ";
    assert!(said.code == 0 && said.out.contains(lines), "{said:?}");
    let json = test_ws.run(&["--toolset", "nav", "prompt", "--json"]);
    assert!(json.out.contains("\"name\": \"subagents\""), "{json:?}");
    // An agent that can't start subagents gets no list of them, and the other toolsets have tools that list them.
    let alone = test_ws.run(&["--toolset", "nav", "prompt", "--profile", "alone"]);
    assert!(alone.code == 0 && !alone.out.contains("available_subagents"), "{alone:?}");
    let haft = test_ws.run(&["prompt"]);
    assert!(haft.code == 0 && !haft.out.contains("available_subagents"), "{haft:?}");
}

#[test]
fn configuration_of_nav_narrows_and_what_is_not_read_of_it_is_named() {
    let test_ws = TestWorkspace::new();
    test_ws.put(
        ".nav/nav.config.json",
        r#"{"tools": ["read", "shell"], "model": "evil", "baseUrl": "http://evil/", "hooks": {"stop": ["touch hooked"]}}"#,
    );
    let listed = test_ws.run(&["--toolset", "nav", "tools"]);
    assert!(listed.code == 0 && listed.out.contains("shell") && !listed.out.contains("edit"), "{listed:?}");
    let line = "haft: .nav/nav.config.json: `model`, `baseUrl`, `hooks` are not read";
    assert!(listed.err.contains(line), "{listed:?}");
    test_ws
        .call_with(&["--toolset", "nav"], "write", &json!({"path": "x", "content": "x"}))
        .must("not_found");
    let doctor = test_ws.run(&["--toolset", "nav", "doctor"]);
    for line in ["nav.config.json: `tools` count", "`model`, `baseUrl`, `hooks` are not read"] {
        assert!(doctor.out.contains(line), "`{line}` is missing in {doctor:?}");
    }
    let other = test_ws.run(&["tools"]);
    assert!(other.out.contains("edit"), "{other:?}");
    assert!(other.err.contains("nav.config.json is not read: it counts with `--toolset nav`"), "{other:?}");
    // Tools that the person excluded stay excluded, and a symlink is not followed.
    std::fs::create_dir(test_ws.config()).unwrap();
    std::fs::write(test_ws.config().join("haft.toml"), "tools = [\"read\", \"edit\"]\n").unwrap();
    let listed = test_ws.run(&["--toolset", "nav", "tools"]);
    assert!(
        listed.out.contains("read") && !listed.out.contains("shell") && !listed.out.contains("edit"),
        "{listed:?}"
    );
    std::fs::rename(test_ws.at(".nav"), test_ws.outside().join("nav")).unwrap();
    std::os::unix::fs::symlink(test_ws.outside().join("nav"), test_ws.at(".nav")).unwrap();
    let listed = test_ws.run(&["--toolset", "nav", "tools"]);
    assert!(listed.err.contains("nav.config.json can't be read"), "{listed:?}");
}

#[test]
fn final_reply_of_a_subagent_is_the_result() {
    let test_ws = TestWorkspace::new();
    test_ws.put("child.jsonl", "{\"say\": \"It is written.\"}\n");
    test_ws.put(
        ".nav/subagents/scribe.md",
        "---\nname: The Scribe\ndescription: writes\nmodel: script:child.jsonl\n---\nYou write.\n",
    );
    let call = json!({"say": "", "calls": [{"tool": "subagent", "arguments": {"agent": "scribe", "prompt": "write"}}]});
    let told =
        json!({"expect": ["Subagent \"The Scribe\" (scribe) finished.\n\nIt is written."], "say": "Done."});
    let script = test_ws.base().join("script.jsonl");
    std::fs::write(&script, format!("{call}\n{told}\n")).unwrap();
    let model = format!("script:{}", script.display());
    let ran = test_ws.run(&["--trust", "--toolset", "nav", "run", "--model", &model, "go"]);
    assert!(ran.code == 0 && ran.out.ends_with("Done.\n"), "{ran:?}");
}

#[test]
fn ask_user_is_there_only_in_plan_mode() {
    let test_ws = TestWorkspace::new();
    let script = test_ws.base().join("script.jsonl");
    let asks = json!({"say": "", "calls": [{"tool": "ask_user", "arguments": {"questions": ["Which?"]}}]});
    std::fs::write(&script, format!("{asks}\n{{\"say\": \"So be it.\"}}\n")).unwrap();
    let model = format!("script:{}", script.display());
    let answered = |more: &[&str]| {
        let ran =
            test_ws.run(&[&["--toolset", "nav", "run", "--json", "--model", &model], more, &["go"]].concat());
        ran.out.lines().find(|it| it.contains("\"answered\"")).unwrap_or_else(|| panic!("{ran:?}")).to_owned()
    };
    assert!(answered(&[]).contains("only available in plan mode"), "{}", answered(&[]));
    assert!(answered(&["--plan"]).contains("nobody to ask"), "{}", answered(&["--plan"]));
    let shown = |more: &[&str]| {
        let ran = test_ws.run(&[&["--toolset", "nav", "prompt"], more].concat());
        ran.out.contains("\n- ask_user:")
    };
    assert_eq!((shown(&[]), shown(&["--plan"])), (false, true));
}

#[test]
fn replacements_of_text_are_made_in_order_and_all_or_none() {
    let test_ws = TestWorkspace::new();
    test_ws.put("file", "q one\nr two\n");
    let server = test_ws.serve_with(&["--toolset", "nav"]);
    let all = |old: &str, new: &str| json!({"old_string": old, "new_string": new, "replace_all": true});
    let said = server.does("edit", &json!({"path": "file", "edits": [all("q", "r"), all("r", "t")]}));
    assert_eq!(test_ws.text("file"), "t one\nt two\n");
    // Lines in the answer can be edited without another read.
    server.does("edit", &json!({"path": "file", "anchor": anchor(&said, "t two"), "new_text": "u two"}));
    assert_eq!(test_ws.text("file"), "t one\nu two\n");
    let edits =
        json!([{"old_string": "t one", "new_string": "x"}, {"old_string": "t one", "new_string": "y"}]);
    let said = server.call("edit", &json!({"path": "file", "edits": edits}));
    assert!(
        said.is_error && said.text.contains("edits[1]: old_string not found in file after"),
        "{}",
        said.text
    );
    assert_eq!(test_ws.text("file"), "t one\nu two\n");
}

#[test]
fn refused_replacement_of_text_names_navs_arguments() {
    let test_ws = TestWorkspace::new();
    test_ws.put("file", "foo foo\n\tbar\n");
    let server = test_ws.serve_with(&["--toolset", "nav"]);
    for (old, says) in [
        ("", &["old_string cannot be empty"][..]),
        ("zzz", &["old_string not found in file"]),
        ("  bar", &["old_string not found in file", "`old_string` has ··bar"]),
        ("foo", &["old_string matched 2 times (lines 1, 1)", "set `replace_all`"]),
    ] {
        let call = json!({"path": "file", "old_string": old, "new_string": "x"});
        let said = server.call("edit", &call);
        assert!(said.is_error && says.iter().all(|it| said.text.contains(it)), "{}", said.text);
        assert!(!said.text.contains("`old`") && !said.text.contains("`all`"), "{}", said.text);
    }
}

#[test]
fn an_omitted_new_string_deletes() {
    let test_ws = TestWorkspace::new();
    test_ws.put("file", "one two three four\n");
    let server = test_ws.serve_with(&["--toolset", "nav"]);
    server.does("edit", &json!({"path": "file", "old_string": "two "}));
    assert_eq!(test_ws.text("file"), "one three four\n");
    server.does("edit", &json!({"path": "file", "edits": [{"old_string": "one "}, {"old_string": " four"}]}));
    assert_eq!(test_ws.text("file"), "three\n");
}

#[test]
fn a_newline_at_the_end_of_new_text_gives_an_empty_line() {
    let test_ws = TestWorkspace::new();
    test_ws.put("file", "one\ntwo\n");
    let server = test_ws.serve_with(&["--toolset", "nav"]);
    let said = server.does("read", &json!({"path": "file"}));
    server.does("edit", &json!({"path": "file", "anchor": anchor(&said, "one"), "new_text": "1\n"}));
    assert_eq!(test_ws.text("file"), "1\n\ntwo\n");
    let after = json!({"path": "file", "anchor": anchor(&server.does("read", &json!({"path": "file"})), "two"), "insert_after": true, "new_text": "three\n"});
    server.does("edit", &after);
    assert_eq!(test_ws.text("file"), "1\n\ntwo\nthree\n\n");
}

/// Returns the process id in the answer of `shell` about a background command.
fn pid_in(said: &str) -> u32 {
    let (_, rest) = said.split_once("(pid: ").unwrap_or_else(|| panic!("{said}"));
    rest.split_once(')').unwrap().0.parse().unwrap()
}

/// Waits for the notification of a job's end, which one answer contains: this one, or a later one.
fn await_news(server: &Server, mut said: String, news: &str) {
    let late = Instant::now() + Duration::from_secs(60);
    while !said.contains(news) {
        assert!(Instant::now() < late, "no `{news}` in {said}");
        std::thread::sleep(Duration::from_millis(5));
        said = server.does("shell_status", &json!({}));
    }
}

#[test]
fn a_process_that_is_over_keeps_its_exit_code_and_its_whole_output() {
    let test_ws = TestWorkspace::new();
    let server = test_ws.serve_with(&["--toolset", "nav", "--approve", "auto"]);
    server.does("shell", &json!({"command": "mkfifo go"}));
    let command = "seq 3000; read it < go; echo \"got $it\"; exit 3";
    let said = server.does("shell", &json!({"command": command, "wait_ms": 0}));
    let pid = pid_in(&said);
    let running = server.does("shell_status", &json!({"pid": pid}));
    assert!(running.starts_with(&format!("pid {pid}: seq 3000; read")), "{running}");
    assert!(running.contains(" [running, "), "{running}");
    let said = server.does("shell", &json!({"command": "echo on > go"}));
    await_news(&server, said, "ended: exit 3");
    let list = server.does("shell_status", &json!({}));
    assert!(list.contains(&format!("pid {pid}: ")) && list.contains("[exited (3), "), "{list}");
    for (action, begins) in [("status", format!("pid {pid}: ")), ("tail", "[exited (3), ".to_owned())] {
        let said = server.does("shell_status", &json!({"pid": pid, "action": action}));
        assert!(said.starts_with(&begins) && said.contains("[exited (3), "), "{action}: {said}");
        assert!(said.contains("\n3000\ngot on"), "{action}: {said}");
    }
    let whole = server.does("shell_status", &json!({"pid": pid, "action": "output"}));
    let lines: String = (1..=3000).map(|it| format!("{it}\n")).collect();
    assert!(whole.starts_with("[exited (3), ") && whole.contains(&format!("\n\n{lines}got on")), "{whole}");
    let said = server.does("shell_status", &json!({"pid": pid, "action": "kill"}));
    assert!(said.starts_with("It is over already: pid "), "{said}");
}

#[test]
fn a_process_that_was_killed_is_still_known() {
    let test_ws = TestWorkspace::new();
    let server = test_ws.serve_with(&["--toolset", "nav", "--approve", "auto"]);
    let pid = pid_in(&server.does("shell", &json!({"command": "echo begun; sleep 1234", "wait_ms": 0})));
    let said = server.does("shell_status", &json!({"pid": pid, "action": "kill"}));
    assert!(said.contains(&format!("Killed process {pid}.")), "{said}");
    let said = server.does("shell_status", &json!({"pid": pid}));
    assert!(said.starts_with(&format!("pid {pid}: echo begun; sleep 1234 [exited (")), "{said}");
}
