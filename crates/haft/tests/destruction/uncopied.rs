//! Files of which no copy can be kept: the process that is about to overwrite one waits until a person has decided.

use serde_json::json;

use super::{script, tree::Tree, undo};
use crate::support::{Terminal, TestWorkspace};

const QUESTION: &str = "[n]o: ";

/// A workspace with files of which none may be copied: they are like those above the bound.
fn without_room(config: &str) -> TestWorkspace {
    let test_ws = TestWorkspace::new();
    std::fs::create_dir_all(test_ws.config()).unwrap();
    std::fs::write(test_ws.config().join("haft.toml"), format!("[undo]\n{config}\n")).unwrap();
    script(&test_ws, "echo image > disk.img; echo rows > rows.db; echo text > text");
    test_ws
}

/// Runs a command, with a person at the terminal.
fn asked(test_ws: &TestWorkspace, tool: &str, arguments: &serde_json::Value) -> Terminal {
    Terminal::start(&test_ws.haft(&["call", tool, &arguments.to_string()]))
}

#[test]
fn where_nobody_is_there_the_write_fails_and_the_model_is_told_what_and_why() {
    let test_ws = without_room("file_mib = 0");
    let before = Tree::of(&test_ws.at(""));
    for options in [&[][..], &["--approve", "auto"]] {
        let part = "dd if=/dev/zero of=disk.img bs=1 count=1 conv=notrunc";
        for command in ["echo new > disk.img", "truncate -s 0 disk.img", part] {
            let called = test_ws.call_with(options, "shell", &json!({"command": command}));
            let text = called.text();
            assert!(text.contains("disk.img (6 B) was not changed") && text.contains("EPERM"), "{text}");
            assert!(text.contains("larger than 0 MiB ([undo] file_mib)"), "{text}");
            assert!(text.contains("`overwrite` of `[undo]`"), "{text}");
            assert_eq!(before.differences(&Tree::of(&test_ws.at(""))), Vec::<String>::new(), "{text}");
        }
    }
    let log = test_ws.run(&["log", "-n", "1", "--json"]).out;
    assert!(log.contains("no_copy"), "{log}");
}

#[test]
fn what_keeps_the_content_is_not_asked_about() {
    let test_ws = without_room("file_mib = 0");
    let before = Tree::of(&test_ws.at(""));
    let command = "echo more >> disk.img; rm rows.db; echo new > text.new; mv text.new text; chmod 600 disk.img; \
        echo mine > mine; echo again > mine";
    test_ws.call("shell", &json!({"command": command})).must("ok");
    assert!(!test_ws.at("rows.db").exists());
    undo(&test_ws);
    assert_eq!(before.differences(&Tree::of(&test_ws.at(""))), Vec::<String>::new());
}

#[test]
fn process_waits_for_the_person_and_the_others_go_on() {
    let test_ws = without_room("file_mib = 0");
    let command = "(while [ ! -e go ]; do :; done; echo on > others) & echo new > disk.img; wait";
    let mut terminal = asked(&test_ws, "shell", &json!({"command": command}));
    terminal.shows("disk.img (6 B)", 1).shows("no copy can be kept", 1).shows(QUESTION, 1);
    assert_eq!(test_ws.text("disk.img"), "image\n", "nothing changes while the question stands");
    // A process of the same command is served meanwhile.
    test_ws.put("go", "");
    super::until("the other process did not go on", || test_ws.at("others").exists());
    terminal.types("o\n");
    let (code, seen) = terminal.ends();
    assert_eq!((code, test_ws.text("disk.img").as_str()), (Some(0), "new\n"), "{seen}");
    let undone = undo(&test_ws);
    assert!((undone.out + &undone.err).contains("disk.img"), "the undo says what it can't put back");
}

#[test]
fn no_makes_the_write_fail_and_the_command_goes_on() {
    let test_ws = without_room("file_mib = 0");
    let command = "echo new > disk.img; echo again > disk.img; echo after > after";
    let mut terminal = asked(&test_ws, "shell", &json!({"command": command}));
    terminal.shows(QUESTION, 1).types("n keep the image\n");
    let (_, seen) = terminal.ends();
    assert_eq!(seen.matches("allow it?").count(), 1, "a file is asked about once: {seen}");
    assert_eq!((test_ws.text("disk.img").as_str(), test_ws.text("after").as_str()), ("image\n", "after\n"));
    let said = test_ws.call("shell", &json!({"command": "true"})).must("ok").text();
    assert!(!said.contains("disk.img"), "{said}");
}

#[test]
fn one_question_for_all_files_where_no_copy_fits() {
    let test_ws = without_room("call_mib = 0");
    let command = "echo new > disk.img; echo new > rows.db; echo new > text";
    let mut terminal = asked(&test_ws, "shell", &json!({"command": command}));
    terminal.shows("and perhaps further files", 1).shows(QUESTION, 1).types("o\n");
    let (code, seen) = terminal.ends();
    assert_eq!((code, seen.matches("allow it?").count()), (Some(0), 1), "{seen}");
    assert_eq!(test_ws.text("text"), "new\n");
}

#[test]
fn time_limit_of_a_command_does_not_run_while_the_person_is_asked() {
    let test_ws = without_room("file_mib = 0");
    let mut terminal = asked(
        &test_ws,
        "bash",
        &json!({"command": "echo new > disk.img; echo ended > ended", "timeout_s": 1}),
    );
    terminal.shows(QUESTION, 1);
    // Longer than the limit: no event tells that a time did not pass.
    std::thread::sleep(std::time::Duration::from_millis(1500));
    terminal.types("o\n");
    let (code, seen) = terminal.ends();
    assert_eq!((code, test_ws.text("ended").as_str()), (Some(0), "ended\n"), "{seen}");
}

#[test]
fn question_is_withdrawn_when_the_process_is_killed() {
    let test_ws = without_room("file_mib = 0");
    let command =
        "sh -c 'echo new > disk.img' & while [ ! -e go ]; do :; done; kill -9 $!; echo after > after";
    let mut terminal = asked(&test_ws, "shell", &json!({"command": command}));
    terminal.shows(QUESTION, 1);
    test_ws.put("go", "");
    // It ends without an answer.
    let (code, seen) = terminal.ends();
    assert_eq!((code, test_ws.text("disk.img").as_str()), (Some(0), "image\n"), "{seen}");
}

#[test]
fn named_files_and_those_that_the_session_made_are_not_asked_about() {
    let test_ws = without_room("file_mib = 0\noverwrite = [\"*.db\"]");
    let session = ["--session", "one"];
    test_ws.call_with(&session, "shell", &json!({"command": "echo mine > mine"})).must("ok");
    let command = "echo new > rows.db; echo again > mine";
    test_ws.call_with(&session, "shell", &json!({"command": command})).must("ok");
    assert_eq!((test_ws.text("rows.db").as_str(), test_ws.text("mine").as_str()), ("new\n", "again\n"));
    // The workspace's own file can't name any.
    test_ws.put("haft.toml", "[undo]\noverwrite = [\"*\"]\n");
    test_ws.call_with(&session, "shell", &json!({"command": "echo new > disk.img"}));
    assert_eq!(test_ws.text("disk.img"), "image\n");
}
