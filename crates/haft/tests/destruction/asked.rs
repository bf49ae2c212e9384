//! Deletions that a person is asked about, and those that git can bring back.

use serde_json::json;

use super::{prepare, script, tree::Tree, undo};
use crate::support::{Terminal, TestWorkspace};

/// A workspace with 600 files in a repository, and packages that git ignores.
fn repository() -> TestWorkspace {
    let test_ws = TestWorkspace::new();
    prepare(
        &test_ws,
        "mkdir -p node_modules/a; for i in $(seq 100); do echo $i > node_modules/a/$i.js; done
%GIT%echo node_modules >> .gitignore; git rm -rq --cached node_modules; git commit -qam ignore
         mkdir many; for i in $(seq 600); do echo \"fn f$i( ) {}\" > many/$i.rs; done
         git add many; git commit -qm three; git checkout -q other; echo o > o; git add o; git commit -qm o; git checkout -q main",
    );
    test_ws
}

#[track_caller]
fn not_asked(setup: &str, command: &str) {
    kit::needs!(Git);
    let test_ws = repository();
    script(&test_ws, setup);
    let before = Tree::of(&test_ws.at(""));
    let called = test_ws.call("shell", &json!({"command": command})).must("ok");
    assert!(!before.differences(&Tree::of(&test_ws.at(""))).is_empty(), "{}", called.text());
    let undone = undo(&test_ws);
    let wrong = before.differences(&Tree::of(&test_ws.at("")));
    assert!(wrong.is_empty(), "{}\n{}\n{undone:?}", called.text(), wrong.join("\n"));
}

#[test]
fn formatter_over_600_files_is_not_asked_about() {
    not_asked("", "for f in many/*.rs; do sed 's/( )/()/' $f > $f.tmp && mv $f.tmp $f; done");
}

#[test]
fn branch_switch_that_removes_600_files_is_not_asked_about() {
    not_asked("", "git checkout -q other");
}

#[test]
fn stash_of_600_new_files_is_not_asked_about() {
    not_asked(
        "mkdir new; for i in $(seq 600); do echo new $i > new/$i; done",
        "git -c user.name=a -c user.email=a@b stash -q -u",
    );
}

#[test]
fn hard_reset_that_removes_600_files_is_not_asked_about() {
    not_asked("", "git reset -q --hard HEAD~1");
}

#[test]
fn rebase_of_600_files_is_not_asked_about() {
    not_asked("", "git -c user.name=a -c user.email=a@b rebase -q other");
}

#[test]
fn committed_files_that_are_removed_by_hand_are_not_asked_about() {
    not_asked("", "rm -rf many");
}

#[test]
fn packages_that_git_ignores_are_not_asked_about() {
    not_asked("", "rm -rf node_modules; mkdir node_modules; echo x > node_modules/x; echo done > done");
}

#[test]
fn files_that_git_does_not_have_are_asked_about_and_a_no_changes_nothing() {
    kit::needs!(Git);
    let test_ws = repository();
    script(&test_ws, "for i in $(seq 600); do echo changed >> many/$i.rs; done");
    let before = Tree::of(&test_ws.at(""));
    let called = test_ws.call("shell", &json!({"command": "rm -rf many"})).must("denied");
    let text = called.text();
    assert!(text.contains("600 files in many/") && text.contains("nothing was changed"), "{text}");
    assert_eq!(before.differences(&Tree::of(&test_ws.at(""))), Vec::<String>::new());
    let arguments = json!({"command": "rm -rf many"}).to_string();
    let mut terminal = Terminal::start(&test_ws.haft(&["call", "shell", &arguments]));
    terminal.shows("delete or empty many/ (600 files)", 1).shows("[n]o: ", 1);
    assert_eq!(
        before.differences(&Tree::of(&test_ws.at(""))),
        Vec::<String>::new(),
        "put back before the question"
    );
    terminal.types("n\n");
    assert_eq!(terminal.ends().0, Some(1));
    assert_eq!(before.differences(&Tree::of(&test_ws.at(""))), Vec::<String>::new());
}

#[test]
fn yes_does_it_again_without_running_it_again_and_undo_still_works() {
    kit::needs!(Git);
    let test_ws = repository();
    script(&test_ws, "for i in $(seq 600); do echo changed >> many/$i.rs; done");
    let before = Tree::of(&test_ws.at(""));
    let arguments = json!({"command": "rm -rf many; echo run >> runs"}).to_string();
    let mut terminal = Terminal::start(&test_ws.haft(&["call", "shell", &arguments]));
    terminal.shows("[n]o: ", 1).types("o\n");
    assert_eq!(terminal.ends().0, Some(0));
    assert!(!test_ws.at("many").exists());
    assert_eq!(test_ws.text("runs"), "run\n");
    undo(&test_ws);
    assert_eq!(before.differences(&Tree::of(&test_ws.at(""))), Vec::<String>::new());
}

#[test]
fn home_folder_as_a_root_survives_rm_star() {
    let test_ws = TestWorkspace::new();
    let home = test_ws.base().join("home");
    for number in 0..60 {
        std::fs::create_dir_all(home.join(format!("folder{}", number % 7))).unwrap();
        std::fs::write(home.join(format!("folder{}/{number}", number % 7)), format!("{number}\n")).unwrap();
    }
    let before = Tree::of(&home);
    let root = home.display().to_string();
    let arguments = json!({"command": "cd ~ && rm -rf *"});
    let called = test_ws.call_with(&["--root", &root], "shell", &arguments);
    assert_eq!(before.differences(&Tree::of(&home)), Vec::<String>::new(), "{}", called.text());
    assert_eq!(called.kind(), "denied", "{}", called.text());
}

#[test]
fn workspace_file_can_t_raise_the_limits() {
    let test_ws = TestWorkspace::new();
    prepare(&test_ws, "mkdir many; for i in $(seq 80); do echo $i > many/$i; done");
    test_ws.put("haft.toml", "[undo]\nask_files = 100000\nask_percent = 100\n");
    test_ws.call("shell", &json!({"command": "rm -rf many"})).must("denied");
    assert!(test_ws.at("many/80").exists());
}

#[test]
fn refusal_names_the_limit_that_was_exceeded() {
    let test_ws = TestWorkspace::new();
    prepare(&test_ws, "mkdir many; for i in $(seq 30); do echo $i > many/$i; done");
    let denied = |command: &str| test_ws.call("shell", &json!({"command": command})).must("denied").text();
    let part = denied("rm -rf many");
    assert!(part.contains("`ask_percent` of `[undo]`") && !part.contains("ask_files"), "{part}");
    script(
        &test_ws,
        "mkdir rest; for i in $(seq 900); do echo $i > rest/$i; done; for i in $(seq 60); do echo $i > many/$i; done",
    );
    let number = denied("rm -rf many");
    assert!(number.contains("`ask_files` of `[undo]`") && !number.contains("ask_percent"), "{number}");
}

#[test]
fn patterns_that_the_session_added_make_nothing_ignored() {
    kit::needs!(Git);
    let test_ws = repository();
    script(&test_ws, "mkdir new; for i in $(seq 80); do echo new $i > new/$i; done");
    let before = Tree::of(&test_ws.at("new"));
    let session = ["--session", "one"];
    let denied = |command: &str| {
        let called = test_ws.call_with(&session, "shell", &json!({"command": command}));
        assert_eq!(
            before.differences(&Tree::of(&test_ws.at("new"))),
            Vec::<String>::new(),
            "{}",
            called.text()
        );
        assert_eq!(called.kind(), "denied", "{command}: {}", called.text());
    };
    denied("echo '*' >> .gitignore; rm -rf new");
    denied("echo '*' > new/.gitignore; rm -rf new");
    test_ws.call_with(&session, "shell", &json!({"command": "echo /new >> .gitignore"})).must("ok");
    denied("rm -rf new");
    test_ws.call_with(&session, "write", &json!({"path": "new/.gitignore", "content": "*\n"})).must("ok");
    let called = test_ws.call_with(&session, "shell", &json!({"command": "rm -rf new"})).must("denied");
    assert!(test_ws.at("new/80").exists(), "{}", called.text());
}
