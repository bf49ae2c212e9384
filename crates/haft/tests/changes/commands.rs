//! Changes of commands: shown, undone and done again, like edits.

use serde_json::json;

use crate::support::TestWorkspace;

fn shell(test_ws: &TestWorkspace, command: &str) -> String {
    test_ws.call("shell", &json!({"command": command})).must("ok").id().to_owned()
}

#[test]
fn a_command_is_undone_shown_and_done_again() {
    let test_ws = TestWorkspace::new();
    test_ws.put("a", "one\n");
    test_ws.put("gone", "gone\n");
    let call = shell(&test_ws, "sed -i s/one/two/ a; rm gone; mkdir d; echo new > d/new; mv d e");
    let log = test_ws.run(&["log", "--diff", "-n", "1"]).out;
    assert!(log.contains("-one") && log.contains("+two"), "{log}");
    assert!(log.contains("deleted gone (+0 -1)") && log.contains("created e/new (+1 -0)"), "{log}");
    let list = test_ws.run(&["undo", "--list"]).out;
    assert!(list.contains(&call) && list.contains("1 file changed, 1 file deleted"), "{list}");
    let undone = test_ws.run(&["undo"]);
    assert_eq!(undone.code, 0, "{undone:?}");
    assert_eq!((test_ws.text("a"), test_ws.text("gone")), ("one\n".to_owned(), "gone\n".to_owned()));
    assert!(!test_ws.at("e").exists() && !test_ws.at("d").exists());
    let redo = undone.out.lines().find_map(|it| it.strip_prefix("To redo: haft undo --call ")).unwrap();
    let again = test_ws.run(&["undo", "--call", redo]);
    assert_eq!(again.code, 0, "{again:?}");
    assert_eq!((test_ws.text("a"), test_ws.text("e/new")), ("two\n".to_owned(), "new\n".to_owned()));
    assert!(!test_ws.at("gone").exists());
}

#[test]
fn undo_of_a_file_that_a_command_replaced_shows_the_change_and_no_temporary_name() {
    let test_ws = TestWorkspace::new();
    let lines = |second: &str| format!("one\n{second}\nthree\nfour\nfive\nsix\nseven\n");
    test_ws.put("a", lines("two"));
    // It writes another file, and renames it over the first.
    let call = shell(&test_ws, "sed -i s/two/TWO/ a");
    let mut of = call;
    for (now, gone, fresh) in [("two", "TWO", "two"), ("TWO", "two", "TWO"), ("two", "TWO", "two")] {
        let undone = test_ws.run(&["undo", "--call", &of]);
        assert_eq!((undone.code, test_ws.text("a")), (0, lines(now)), "{undone:?}");
        let all = undone.out.clone() + &undone.err;
        assert_eq!(all.matches(&format!("restored a (replaced by {of})")).count(), 1, "{all}");
        assert!(all.contains(&format!("-{gone}\n")) && all.contains(&format!("+{fresh}\n")), "{all}");
        assert!(all.contains("a (+1 -1)") && !all.contains("-seven") && !all.contains("+seven"), "{all}");
        assert!(!all.contains("sed") && !all.contains("moved") && !all.contains("removed"), "{all}");
        assert!(!all.contains("alone"), "nothing outside of the workspace is touched: {all}");
        of = undone
            .out
            .lines()
            .find_map(|it| it.strip_prefix("To redo: haft undo --call "))
            .unwrap()
            .to_owned();
        let listed = test_ws.run(&["undo", "--list"]).out;
        let row = listed.lines().find(|it| it.starts_with(&of)).unwrap_or_else(|| panic!("{listed}"));
        assert!(row.contains("1 file changed: a") && !row.contains("moved"), "{row}");
    }
    // A file that was moved and then removed was removed.
    test_ws.put("b", "b\n");
    shell(&test_ws, "mv b c; rm c");
    let log = test_ws.run(&["log", "--diff", "-n", "1"]).out;
    assert!(log.contains("deleted b (+0 -1)") && !log.contains("moved"), "{log}");
    let undone = test_ws.run(&["undo"]);
    assert_eq!((undone.code, test_ws.text("b")), (0, "b\n".into()), "{undone:?}");
}

#[test]
fn undo_leaves_a_file_alone_that_a_command_replaced_and_a_person_changed_since() {
    let test_ws = TestWorkspace::new();
    test_ws.put("a", "one\n");
    // The new content is in a file beside it, which is renamed over it.
    let call = shell(&test_ws, "sed -i s/one/two/ a");
    let mut file = std::fs::OpenOptions::new().append(true).open(test_ws.at("a")).unwrap();
    std::io::Write::write_all(&mut file, b"by hand\n").unwrap();
    let undone = test_ws.run(&["undo"]);
    assert_eq!(test_ws.text("a"), "two\nby hand\n", "{undone:?}");
    let said = undone.out.clone() + &undone.err;
    assert_eq!(said.matches(&format!("left a alone: it changed since {call}")).count(), 1, "{undone:?}");
    let names: Vec<_> =
        std::fs::read_dir(test_ws.at("")).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert!(!names.iter().any(|it| it.to_string_lossy().starts_with("sed")), "{names:?}");
}

#[test]
fn undo_goes_through_edits_and_commands_from_the_newest() {
    let test_ws = TestWorkspace::new();
    test_ws.put("a", "one\n");
    let edits = json!([{"old": "one", "new": "two"}]);
    test_ws.call("edit", &json!({"path": "a", "edits": edits})).must("ok");
    shell(&test_ws, "echo three > a");
    let edits = json!([{"old": "three", "new": "four"}]);
    test_ws.call("edit", &json!({"path": "a", "edits": edits})).must("ok");
    for expected in ["three\n", "two\n", "one\n"] {
        let undone = test_ws.run(&["undo"]);
        assert_eq!((undone.code, test_ws.text("a").as_str()), (0, expected), "{undone:?}");
    }
}

#[test]
fn undo_passes_over_a_command_that_only_filled_a_cache() {
    let test_ws = TestWorkspace::new();
    test_ws.put("calc.py", "one\n");
    test_ws.put("tests/test_calc.py", "");
    test_ws.call("edit", &json!({"path": "calc.py", "edits": [{"old": "one", "new": "two"}]})).must("ok");
    let cache = shell(
        &test_ws,
        "mkdir -p tests/__pycache__ && echo x > tests/__pycache__/t.1 && mv tests/__pycache__/t.1 tests/__pycache__/t.pyc",
    );
    let undone = test_ws.run(&["undo"]);
    assert!(undone.code == 0 && test_ws.text("calc.py") == "one\n", "{undone:?}");
    let undone = test_ws.run(&["undo", "--call", &cache]);
    assert!(undone.code == 0 && !test_ws.at("tests/__pycache__/t.pyc").exists(), "{undone:?}");
}

#[test]
fn a_change_by_a_person_after_a_command_stays_and_the_next_call_is_named() {
    let test_ws = TestWorkspace::new();
    test_ws.put("a", "one\n");
    let older = shell(&test_ws, "echo b > b");
    shell(&test_ws, "echo two > a");
    test_ws.put("a", "a person's\n");
    let undone = test_ws.run(&["undo"]);
    assert_eq!(undone.code, 1, "{undone:?}");
    let said = undone.out + &undone.err;
    assert!(said.contains("left a alone: it changed since"), "{said}");
    assert!(said.contains(&format!("haft undo --call {older}")), "{said}");
    assert_eq!((test_ws.text("a"), test_ws.text("b")), ("a person's\n".to_owned(), "b\n".to_owned()));
}

#[test]
fn images_are_counted_by_doctor_and_removed_by_prune() {
    let test_ws = TestWorkspace::new();
    test_ws.put("a", "x".repeat(3_000_000));
    shell(&test_ws, "rm a");
    let doctor = test_ws.run(&["doctor"]).out;
    assert!(doctor.contains("commands 3.0 MB"), "{doctor}");
    let pruned = test_ws.run(&["prune", "--days", "30", "--size", "0"]);
    // What is newer than ten minutes stays.
    assert!(pruned.out.starts_with("removed 0 files") && pruned.out.contains("3.0 MB"), "{pruned:?}");
}
