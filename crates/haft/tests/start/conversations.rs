//! `haft sessions`: showing, renaming, forking, archiving, deleting and exporting conversations.

use std::{io::Write, process::Stdio};

use serde_json::{Value, json};

use crate::support::{Ran, Terminal, TestWorkspace};

/// Runs a conversation `one` of two turns: the first reads a file, the second changes it.
fn talked() -> TestWorkspace {
    let test_ws = TestWorkspace::new();
    test_ws.put("a.txt", "red\ngreen\nblue\n");
    let read = json!({"tool": "read", "arguments": {"path": "a.txt"}});
    let edit =
        json!({"tool": "edit", "arguments": {"path": "a.txt", "edits": [{"old": "green", "new": "grey"}]}});
    let script = [
        json!({"say": "I look.", "calls": [read]}),
        json!({"say": "Three colours."}),
        json!({"calls": [edit]}),
        json!({"say": "Grey now."}),
        json!({"expect": ["and then"], "say": "Going on."}),
    ];
    let lines: String = script.iter().map(|it| it.to_string() + "\n").collect();
    std::fs::write(test_ws.base().join("talk.jsonl"), lines).unwrap();
    says(&test_ws, "one", "which colours are there?");
    says(&test_ws, "one", "make the green one grey");
    test_ws
}

/// Says something in a session.
fn says(test_ws: &TestWorkspace, session: &str, words: &str) -> Ran {
    let model = format!("script:{}", test_ws.base().join("talk.jsonl").display());
    let ran = test_ws.run(&["--session", session, "run", "--model", &model, words]);
    assert_eq!(ran.code, 0, "{ran:?}");
    ran
}

#[track_caller]
fn done(test_ws: &TestWorkspace, arguments: &[&str]) -> String {
    let ran = test_ws.run(&[&["sessions"], arguments].concat());
    assert_eq!(ran.code, 0, "{ran:?}");
    ran.out
}

fn json_of(test_ws: &TestWorkspace, arguments: &[&str]) -> Value {
    serde_json::from_str(&done(test_ws, arguments)).unwrap()
}

#[test]
fn conversation_is_shown_as_a_person_reads_it() {
    let test_ws = talked();
    let shown = done(&test_ws, &["show", "on"]);
    for part in [
        "which colours are there?\nsession one, 2 turns, begun 20",
        "\n\n[1] 20",
        "\n> which colours are there?\n\nI look.\n\n< read a.txt  ok, ",
        "\n\nThree colours.\n\n[2] 20",
        "\n> make the green one grey\n\n< edit a.txt  ok, ",
    ] {
        assert!(shown.contains(part), "{part:?} in {shown}");
    }
    assert!(shown.ends_with("\nGrey now.\n"), "{shown}");
    assert_eq!(done(&test_ws, &["show", "latest"]), shown);
    let value = json_of(&test_ws, &["show", "one", "--json"]);
    assert_eq!(
        value["messages"][0],
        json!({
            "number": 1, "at_ms": value["messages"][0]["at_ms"], "turn": 1, "who": "person", "text": "which colours are there?"
        })
    );
    let none = test_ws.run(&["sessions", "show", "two"]);
    assert!(none.code == 1 && none.err.contains("no conversation `two` in "), "{none:?}");
    assert!(none.err.contains("`haft sessions` lists them"), "{none:?}");
}

#[test]
fn long_conversation_at_a_terminal_is_paged_and_a_short_one_is_printed() {
    let test_ws = TestWorkspace::new();
    let text: String = (1..=80).map(|it| format!("line {it}\n\n")).collect();
    let script = test_ws.base().join("talk.jsonl");
    std::fs::write(&script, json!({ "say": text }).to_string()).unwrap();
    says(&test_ws, "long", "count");
    let mut haft = test_ws.haft(&["sessions", "show", "long"]);
    haft.env("TERM", "xterm-256color");
    let mut terminal = Terminal::with_output(&haft);
    terminal.shows("\u{1b}[?1049h", 1).shows("count · long", 1).types("G").shows("line 80", 1).types("q");
    terminal.shows("\u{1b}[?1049l", 1);
    assert_eq!(terminal.ends().0, Some(0));

    std::fs::write(&script, json!({"say": "Short."}).to_string()).unwrap();
    says(&test_ws, "short", "say it");
    let mut haft = test_ws.haft(&["sessions", "show", "short"]);
    haft.env("TERM", "xterm-256color");
    let mut terminal = Terminal::with_output(&haft);
    terminal.shows("Short.", 1);
    let (code, seen) = terminal.ends();
    assert!(code == Some(0) && !seen.contains("\u{1b}[?1049h"), "{seen}");
}

#[test]
fn title_that_a_person_gave_is_listed_and_found() {
    let test_ws = talked();
    assert_eq!(done(&test_ws, &["rename", "latest", "Colours", "of the shop"]), "one: Colours of the shop\n");
    assert!(done(&test_ws, &[]).contains("2 turns  Colours of the shop\n"));
    assert!(done(&test_ws, &["search", "of the shop"]).starts_with("one  "));
    assert!(done(&test_ws, &["export", "one"]).starts_with("# Colours of the shop\n"));
    let none = test_ws.run(&["sessions", "rename", "one", " "]);
    assert!(none.code == 2 && none.err.contains("a title needs a word"), "{none:?}");
}

#[test]
fn part_of_a_name_that_several_have_is_refused_with_their_names() {
    let test_ws = talked();
    says(&test_ws, "once", "hello");
    let ran = test_ws.run(&["sessions", "show", "on"]);
    assert!(ran.code == 2 && ran.err.contains("`on` may be `once`, `one`"), "{ran:?}");
    assert!(done(&test_ws, &["show", "one"]).contains("session one,"));
}

#[test]
fn fork_goes_on_with_what_was_said_and_seen_until_a_message() {
    let test_ws = talked();
    let made = json_of(&test_ws, &["fork", "one", "--at", "1", "--as", "other", "--json"]);
    assert_eq!(made, json!({"session": "other", "forked_from": "one", "turns": 1}));
    let shown = done(&test_ws, &["show", "other"]);
    assert!(
        shown.contains("fork of one after message 1") && shown.ends_with("\nThree colours.\n"),
        "{shown}"
    );
    assert!(done(&test_ws, &["list"]).contains("(fork of one after message 1)"));
    let found = done(&test_ws, &["search", "grey"]);
    assert!(found.contains("one  ") && !found.contains("other  "), "{found}");

    // The model is sent the first turn only: its third answer is that of the script for two answers.
    test_ws.put("a.txt", "red\ngreen\nblue\n");
    says(&test_ws, "other", "make the green one grey");
    assert_eq!(test_ws.text("a.txt"), "red\ngrey\nblue\n");
    assert!(done(&test_ws, &["show", "one"]).contains("2 turns"), "the other one stays as it is");

    let whole = json_of(&test_ws, &["fork", "one", "--json"]);
    says(&test_ws, whole["session"].as_str().unwrap(), "and then?");
    for (at, words) in [("0", "no message 0"), ("3", "there is no message 3: you said 2 messages in `one`")] {
        let ran = test_ws.run(&["sessions", "fork", "one", "--at", at]);
        assert!(ran.code == 2 && ran.err.contains(words), "{ran:?}");
    }
    let taken = test_ws.run(&["sessions", "fork", "one", "--as", "other"]);
    assert!(taken.code == 2 && taken.err.contains("there is a session `other` already"), "{taken:?}");
}

#[test]
fn anchors_that_a_session_has_seen_count_in_its_fork_or_are_refused_with_fresh_ones() {
    let test_ws = talked();
    let whole = json_of(&test_ws, &["export", "one", "--format", "json"]);
    let read = whole["calls"][0]["result"].as_str().unwrap();
    let anchor = read.lines().find_map(|it| it.split_once("|blue").map(|it| it.0.to_owned())).unwrap();
    done(&test_ws, &["fork", "one", "--at", "1", "--as", "other"]);
    let edit = |session: &str, new: &str| {
        let arguments = json!({"path": "a.txt", "edits": [{"anchor": anchor, "new": new}]});
        test_ws.call_with(&["--session", session], "edit", &arguments)
    };
    assert!(edit("other", "navy").ok());
    assert_eq!(test_ws.text("a.txt"), "red\ngrey\nnavy\n");
    // Somebody else changes the line: the anchor is stale, and the answer has the new one.
    done(&test_ws, &["fork", "one", "--at", "1", "--as", "third"]);
    test_ws.put("a.txt", "red\ngrey\nteal\n");
    let refused = edit("third", "black");
    assert!(!refused.ok() && refused.text().contains("|teal"), "{}", refused.text());
    assert_eq!(test_ws.text("a.txt"), "red\ngrey\nteal\n");
}

#[test]
fn changes_before_a_fork_are_undone_where_they_were_made() {
    let test_ws = talked();
    done(&test_ws, &["fork", "one", "--as", "other"]);
    let model = format!("script:{}", test_ws.base().join("talk.jsonl").display());
    let mut chat = test_ws
        .haft(&["--session", "other", "chat", "--model", &model])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    chat.stdin.take().unwrap().write_all(b"/rewind\n").unwrap();
    let ran = chat.wait_with_output().unwrap();
    let out = String::from_utf8(ran.stdout).unwrap();
    let told = "Changed before the fork, in the other session: a.txt. `haft undo --call ";
    assert!(out.contains(told) && !out.contains("/undo turn"), "{out}");
    let call = out.split_once(told).unwrap().1.split('`').next().unwrap();
    let undone = test_ws.run(&["undo", "--call", call]);
    assert_eq!((undone.code, test_ws.text("a.txt").as_str()), (0, "red\ngreen\nblue\n"), "{undone:?}");
}

#[test]
fn archived_conversation_is_hidden_until_it_is_asked_for() {
    let test_ws = talked();
    says(&test_ws, "two", "hello");
    assert_eq!(done(&test_ws, &["archive", "tw"]), "archived two (hello)\n");
    assert_eq!(done(&test_ws, &["archive", "two"]), "two was archived already\n");
    let listed = done(&test_ws, &[]);
    assert!(
        !listed.contains("two  ") && done(&test_ws, &["list", "--archived"]).contains("hello (archived)\n")
    );
    assert!(done(&test_ws, &["hello"]).starts_with("no conversation of "));
    assert!(done(&test_ws, &["search", "hello", "--archived"]).starts_with("two  "));
    // Neither the newest conversation nor `latest` is a hidden one.
    assert!(done(&test_ws, &["show", "latest"]).contains("session one,"));
    let model = format!("script:{}", test_ws.base().join("talk.jsonl").display());
    let resumed = test_ws.run(&["run", "--resume", "--model", &model, "and then"]);
    assert!(resumed.code == 0 && resumed.out.contains("Going on."), "{resumed:?}");
    assert_eq!(done(&test_ws, &["archive", "--undo", "two"]), "two (hello) is in lists again\n");
    assert_eq!(done(&test_ws, &["archive", "--undo", "one"]), "one was not archived\n");
    assert!(done(&test_ws, &[]).contains("two  "));
}

#[test]
fn deleted_conversation_is_gone_from_lists_and_what_stays_is_told() {
    let test_ws = talked();
    says(&test_ws, "two", "hello");
    let shared = test_ws.call_with(&["--session", "one"], "share_file", &json!({"path": "a.txt"}));
    assert!(shared.ok(), "{}", shared.text());
    let unasked = test_ws.run(&["sessions", "delete", "one"]);
    assert!(unasked.code == 2 && unasked.err.contains("Add `--yes`"), "{unasked:?}");
    let told = done(&test_ws, &["delete", "one", "--yes"]);
    assert!(
        told.starts_with("deleted one: no kept outputs, 1 shared file, 0 session approvals and its saved"),
        "{told}"
    );
    assert!(
        told.contains("append-only, so still in ")
            && told.contains("haft.db: 7 lines, 3 calls, 1 file change"),
        "{told}"
    );
    assert!(!done(&test_ws, &["list", "--archived"]).contains("one  "));
    assert!(done(&test_ws, &["search", "grey", "--archived"]).starts_with("no conversation of "));
    for arguments in [&["sessions", "show", "one"][..], &["--session", "one", "run", "--resume", "go on"]] {
        let ran = test_ws.run(&[arguments, &[]].concat());
        assert!(ran.code == 1, "{ran:?}");
    }
    let model = format!("script:{}", test_ws.base().join("talk.jsonl").display());
    let again = test_ws.run(&["--session", "one", "run", "--model", &model, "hello"]);
    assert!(again.code == 1 && again.err.contains("the session `one` was deleted"), "{again:?}");
    // The change can still be undone.
    let log: Value =
        serde_json::from_str(test_ws.run(&["log", "--json", "--tool", "edit"]).out.lines().next().unwrap())
            .unwrap();
    let undone = test_ws.run(&["undo", "--call", log["call"].as_str().unwrap()]);
    assert_eq!((undone.code, test_ws.text("a.txt").as_str()), (0, "red\ngreen\nblue\n"), "{undone:?}");
}

#[test]
fn conversation_that_is_deleted_at_a_terminal_is_asked_about() {
    let test_ws = talked();
    for (answer, says, is_left) in [("n\n", "not deleted", true), ("y\n", "deleted one", false)] {
        let mut terminal = Terminal::with_output(&test_ws.haft(&["sessions", "delete", "one"]));
        terminal.shows("Delete one (which colours are there?, 2 turns)?", 1).shows("[y/N]", 1).types(answer);
        terminal.shows(says, 1);
        assert_eq!(terminal.ends().0, Some(0));
        assert_eq!(done(&test_ws, &[]).contains("one  "), is_left);
    }
}

#[test]
fn conversation_that_is_open_elsewhere_is_listed_so_and_not_deleted() {
    let test_ws = talked();
    let model = format!("script:{}", test_ws.base().join("talk.jsonl").display());
    let mut chat = test_ws
        .haft(&["--session", "one", "chat", "--model", &model])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = chat.stdin.take().unwrap();
    input.write_all(b"/status\n").unwrap();
    // Once it has answered, it has the conversation open.
    let mut heard = std::io::BufReader::new(chat.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut heard, &mut line).unwrap();
    assert!(line.contains("model"), "{line}");
    assert!(done(&test_ws, &[]).contains(" (open)\n"));
    let listed = json_of(&test_ws, &["list", "--json"]);
    assert_eq!(listed["sessions"][0]["open_in"], json!(chat.id().to_string()));
    let ran = test_ws.run(&["sessions", "delete", "one", "--yes"]);
    assert!(
        ran.code == 1 && ran.err.contains(&format!("open in another haft (process {})", chat.id())),
        "{ran:?}"
    );
    assert!(ran.err.contains("Close it there first."), "{ran:?}");
    // Reading, renaming and forking need nobody's leave.
    done(&test_ws, &["rename", "one", "Colours"]);
    let made = json_of(&test_ws, &["fork", "one", "--json"]);
    assert_eq!(made["turns"], json!(2));
    drop(input);
    chat.wait().unwrap();
    assert!(done(&test_ws, &["delete", "one", "--yes"]).starts_with("deleted one"));
}

#[test]
fn conversation_is_exported_as_markdown_and_as_json_with_results_and_changes() {
    let test_ws = talked();
    let markdown = done(&test_ws, &["export", "one"]);
    assert!(
        markdown.starts_with(
            "# which colours are there?\n\nA conversation with haft, session `one`.\n\n## You\n"
        )
    );
    assert!(markdown.contains("- `edit a.txt` (ok)"), "{markdown}");
    let file = test_ws.outside().join("talk.json");
    let file_name = file.display().to_string();
    done(&test_ws, &["export", "one", "--format", "json", "-o", &file_name]);
    let whole: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(whole, json_of(&test_ws, &["export", "one", "--format", "json"]));
    assert_eq!(whole["conversation"]["session"], "one");
    assert_eq!(whole["messages"].as_array().unwrap().len(), 7);
    let calls: Vec<_> =
        whole["calls"].as_array().unwrap().iter().map(|it| (&it["tool"], &it["turn"], &it["ok"])).collect();
    assert_eq!(calls, [(&json!("read"), &json!(1), &json!(true)), (&json!("edit"), &json!(2), &json!(true))]);
    assert_eq!(whole["calls"][1]["arguments"]["path"], "a.txt");
    assert!(whole["calls"][0]["result"].as_str().unwrap().contains("|green"), "{whole}");
    let change = &whole["changes"][0];
    assert_eq!((&change["path"], &change["call"]), (&json!("a.txt"), &whole["calls"][1]["call"]));
    assert!(change["diff"].as_str().unwrap().contains("-green\n+grey"), "{change}");
    let there = test_ws.run(&["sessions", "export", "one", "-o", &file_name]);
    assert!(
        there.code == 2 && there.err.contains("is there already") && there.err.contains("-o FILE"),
        "{there:?}"
    );
}

#[test]
fn lines_that_were_taken_back_are_in_no_export() {
    let test_ws = talked();
    let model = format!("script:{}", test_ws.base().join("talk.jsonl").display());
    let mut chat = test_ws
        .haft(&["--session", "one", "chat", "--model", &model])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    chat.stdin.take().unwrap().write_all(b"/rewind\n").unwrap();
    chat.wait().unwrap();
    let whole = json_of(&test_ws, &["export", "one", "--format", "json"]);
    assert_eq!(whole["calls"].as_array().unwrap().len(), 1, "{whole}");
    assert_eq!(whole["messages"].as_array().unwrap().len(), 4, "{whole}");
    // Numbers are those of what stands, so a fork at the only message is the whole.
    let made = json_of(&test_ws, &["fork", "one", "--at", "1", "--as", "other", "--json"]);
    assert_eq!(made["turns"], json!(1));
    says(&test_ws, "other", "and then?");
}

#[test]
fn state_folder_of_a_newer_haft_is_refused_with_what_to_do() {
    let test_ws = talked();
    let folder =
        std::fs::read_dir(test_ws.state().join("workspaces")).unwrap().next().unwrap().unwrap().path();
    // Byte 60 to 63 of a database are its version.
    let path = folder.join("haft.db");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[60..64].copy_from_slice(&99u32.to_be_bytes());
    for left in ["haft.db-wal", "haft.db-shm"] {
        assert!(!folder.join(left).exists(), "the last process wrote everything into the database");
    }
    std::fs::write(&path, &bytes).unwrap();
    let ran = test_ws.run(&["sessions"]);
    assert!(
        ran.code == 1 && ran.err.contains("it was made by a newer haft (version 99; this one knows "),
        "{ran:?}"
    );
    assert!(ran.err.contains("Use the newer haft, or set HAFT_STATE_DIR to another folder"), "{ran:?}");
    assert_eq!(std::fs::read(&path).unwrap(), bytes, "it is left as it is");
}
