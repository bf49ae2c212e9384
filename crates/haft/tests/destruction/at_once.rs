//! Commands and edits at once in one tree: the changes of each call are attributed to it, and nothing is lost.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use super::{prepare, tree::Tree};
use crate::support::{Pending, Server, TestWorkspace};

/// Returns the id of the call of this tool whose arguments have this text.
#[track_caller]
fn id_of(test_ws: &TestWorkspace, tool: &str, marker: &str) -> String {
    let log = test_ws.log();
    // The answer of another call may name this one.
    let of_it = |it: &&Value| it["tool"] == tool && it["arguments"].to_string().contains(marker);
    let found = log.iter().find(of_it).unwrap_or_else(|| panic!("no {tool} with {marker} in {log:#?}"));
    found["call"].as_str().unwrap().to_owned()
}

fn undo(test_ws: &TestWorkspace, call: &str) -> String {
    let undone = test_ws.run(&["undo", "--call", call]);
    format!("{}{}", undone.out, undone.err)
}

/// Returns how the folder differs from before, without differences in times.
fn differences_but_times(before: &Tree, test_ws: &TestWorkspace) -> Vec<String> {
    let left = before.differences(&Tree::of(&test_ws.at("")));
    left.into_iter().filter(|it| !it.contains(": time ")).collect()
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).unwrap().map(|it| it.unwrap().path()).collect()
}

#[track_caller]
fn all_work(calls: Vec<Pending>) {
    for call in calls {
        let result = call.result().unwrap();
        assert!(!result.is_error, "{}", result.text);
    }
}

/// Waits until no job of this server runs.
#[track_caller]
fn wait_for_jobs(server: &Server) {
    let until = std::time::Instant::now() + crate::support::TIMEOUT;
    while server.does("shell_status", &json!({"action": "list"})).contains("running") {
        assert!(std::time::Instant::now() < until, "the jobs do not end");
        std::thread::yield_now();
    }
}

/// Writes files of a folder that no other call writes, and a line at the end of one that another command also writes.
fn command(letter: &str) -> String {
    format!(
        "mkdir -p {letter}; for i in $(seq 40); do echo {letter} $i > {letter}/$i; done; rm src/deep/er/{letter}*.h; \
         mv src/{letter}.c {letter}/moved; echo {letter} >> docs/letter"
    )
}

/// Has these commands run at once: the first does its work before the second begins with its own, and neither ends
/// before the other has done it.
fn in_order([first, second]: [&str; 2]) -> [String; 2] {
    [
        format!("{first}; touch first.wrote; until [ -e second.wrote ]; do sleep 0.01; done"),
        format!("until [ -e first.wrote ]; do sleep 0.01; done; {second}; touch second.wrote"),
    ]
}

const SETUP: &str =
    "for i in a b; do echo $i > src/$i.c; for j in 1 2 3; do echo $i$j > src/deep/er/$i$j.h; done; done\n";

#[test]
fn two_commands_and_three_edits_at_once_are_undone_one_by_one() {
    let test_ws = TestWorkspace::new();
    prepare(&test_ws, SETUP);
    let before = Tree::of(&test_ws.at(""));
    let server = test_ws.serve();
    let edit = |path: &str, old: &str| json!({"path": path, "edits": [{"old": old, "new": "edited"}]});
    let [first, second] = in_order([&command("a"), &command("b")]);
    all_work(vec![
        server.start_call("shell", &json!({"command": first})),
        server.start_call("edit", &edit("src/1.c", "file 1")),
        server.start_call("shell", &json!({"command": second})),
        server.start_call("edit", &edit("src/2.c", "file 2")),
        server.start_call("edit", &edit("README", "readme")),
    ]);
    let _ = server.finish();
    let [a, b] = ["mkdir -p a;", "mkdir -p b;"].map(|it| id_of(&test_ws, "shell", it));
    let edits = ["src/1.c", "src/2.c", "README"].map(|it| id_of(&test_ws, "edit", it));
    let all = Tree::of(&test_ws.at(""));
    let list = test_ws.run(&["undo", "--list"]).out;
    for call in [&a, &b, &edits[0], &edits[1], &edits[2]] {
        assert!(list.contains(call.as_str()), "{call} is not in\n{list}");
    }
    // One edit alone.
    undo(&test_ws, &edits[0]);
    let changed = all.differences(&Tree::of(&test_ws.at("")));
    let changed: Vec<_> = changed.iter().filter(|it| !it.contains(": time ")).collect();
    assert!(changed.len() == 1 && changed[0].starts_with("src/1.c: another content"), "{changed:?}");
    assert_eq!(test_ws.text("src/1.c"), "file 1\n");
    // The commands, from the newer one.
    undo(&test_ws, &b);
    assert_eq!(test_ws.text("docs/letter"), "letter\na\n");
    assert_eq!(test_ws.text("README"), "edited\n");
    assert_eq!(test_ws.text("src/2.c"), "edited\n");
    assert_eq!(test_ws.text("a/40"), "a 40\n");
    undo(&test_ws, &a);
    undo(&test_ws, &edits[2]);
    undo(&test_ws, &edits[1]);
    let left = differences_but_times(&before, &test_ws);
    // An edit replaces a file, and its undo does too: content and mode are what it promises.
    assert_eq!(left, Vec::<String>::new());
}

/// Runs these commands at once, in order, and returns their ids.
fn run_in_order(test_ws: &TestWorkspace, commands: [&str; 2]) -> [String; 2] {
    let server = test_ws.serve();
    let calls = in_order(commands).map(|it| server.start_call("shell", &json!({"command": it})));
    all_work(Vec::from(calls));
    let _ = server.finish();
    commands.map(|it| id_of(test_ws, "shell", &format!("{it}; touch")))
}

#[test]
fn older_of_two_commands_leaves_alone_what_the_newer_one_changed() {
    let test_ws = TestWorkspace::new();
    prepare(&test_ws, SETUP);
    let before = Tree::of(&test_ws.at(""));
    let [older, newer] = run_in_order(&test_ws, [&command("a"), &command("b")]);
    let said = undo(&test_ws, &older);
    assert!(said.contains("left docs/letter alone: "), "{said}");
    assert_eq!(test_ws.text("docs/letter"), "letter\na\nb\n", "nothing is lost");
    assert!(!test_ws.at("a").exists());
    assert_eq!(test_ws.text("b/moved"), "b\n");
    let said = [undo(&test_ws, &newer), undo(&test_ws, &older)].concat();
    let left = differences_but_times(&before, &test_ws);
    // A folder in which both made changes has the time of the last undo.
    assert_eq!(left, Vec::<String>::new(), "{said}");
}

#[test]
fn newer_command_whose_copy_is_damaged_does_not_stop_the_undo_of_the_older_one() {
    let test_ws = TestWorkspace::new();
    prepare(&test_ws, SETUP);
    let before = Tree::of(&test_ws.at(""));
    let [older, newer] = run_in_order(&test_ws, ["echo older > README", "echo newer > README"]);
    let [workspace] = &entries(&test_ws.state().join("workspaces"))[..] else { panic!("one workspace") };
    let copies = entries(&workspace.join("tracked").join(&newer))
        .into_iter()
        .filter(|it| fs::read(it).unwrap() == b"older\n");
    let copies: Vec<_> = copies.collect();
    let [copy] = &copies[..] else { panic!("{copies:?}") };
    fs::write(copy, "ol").unwrap();
    let said = undo(&test_ws, &newer);
    assert!(said.contains("left README alone: the copy of what it held before was changed"), "{said}");
    assert_eq!(test_ws.text("README"), "newer\n");
    let said = undo(&test_ws, &older);
    assert!(said.contains(&format!("{newer} changed some of these files at the same time")), "{said}");
    let left = differences_but_times(&before, &test_ws);
    assert_eq!(left, Vec::<String>::new(), "{said}");
}

#[test]
fn jobs_and_edits_at_once_are_told_apart() {
    let test_ws = TestWorkspace::new();
    prepare(&test_ws, SETUP);
    let before = Tree::of(&test_ws.at(""));
    let server = test_ws.serve();
    // Both jobs wait for the edits, so that all of them have begun.
    let job = |it: &str| {
        let command = format!(
            "echo x > {it}.begun; while [ ! -e go ]; do sleep 0.01; done; echo {it} > src/1.c; {}",
            command(it)
        );
        json!({"command": command, "wait_ms": 0})
    };
    all_work(Vec::from(["a", "b"].map(|it| server.start_call("shell", &job(it)))));
    let edit = |path: &str, old: &str| json!({"path": path, "edits": [{"old": old, "new": "edited"}]});
    all_work(vec![
        server.start_call("edit", &edit("src/3.c", "file 3")),
        server.start_call("edit", &edit("README", "readme")),
        server.start_call("write", &json!({"path": "go", "content": "now\n"})),
    ]);
    wait_for_jobs(&server);
    server.does("edit", &json!({"path": "a/1", "edits": [{"old": "a 1", "new": "by hand"}]}));
    let _ = server.finish();
    let [a, b] = ["mkdir -p a;", "mkdir -p b;"].map(|it| id_of(&test_ws, "shell", it));
    // Each of the jobs wrote docs/letter and src/1.c at the same time as the other.
    let said = undo(&test_ws, &a);
    assert!(said.contains("left a/1 alone: it changed since"), "{said}");
    assert!(said.contains("at the same time"), "{said}");
    assert_eq!(
        test_ws.text("a/1"),
        "by hand\n",
        "an edit survives the undo of the command that made the file"
    );
    assert!(!test_ws.at("a/2").exists(), "{said}");
    assert_eq!(test_ws.text("b/40"), "b 40\n");
    assert_eq!((test_ws.text("src/3.c"), test_ws.text("README")), ("edited\n".into(), "edited\n".into()));
    undo(&test_ws, &b);
    undo(&test_ws, &a);
    assert!(!test_ws.at("b").exists());
    // Both wrote these two without a lock: each is whole, or an answer named it.
    for (marker, tool) in [("a/1", "edit"), ("src/3.c", "edit"), ("README", "edit"), ("now", "write")] {
        undo(&test_ws, &id_of(&test_ws, tool, marker));
    }
    let again = [undo(&test_ws, &a), undo(&test_ws, &b), undo(&test_ws, &a)].concat();
    let left = differences_but_times(&before, &test_ws);
    assert_eq!(left, Vec::<String>::new(), "{again}");
}

#[test]
fn commands_of_two_processes_of_haft_at_once_are_told_apart() {
    let test_ws = TestWorkspace::new();
    prepare(&test_ws, SETUP);
    let before = Tree::of(&test_ws.at(""));
    let (one, other) = (test_ws.serve(), test_ws.serve());
    all_work(vec![
        one.start_call("shell", &json!({"command": command("a")})),
        other.start_call("shell", &json!({"command": command("b")})),
        one.start_call("write", &json!({"path": "by-one", "content": "1\n"})),
        other.start_call("write", &json!({"path": "by-other", "content": "2\n"})),
    ]);
    let _ = (one.finish(), other.finish());
    let [a, b] = ["mkdir -p a;", "mkdir -p b;"].map(|it| id_of(&test_ws, "shell", it));
    undo(&test_ws, &a);
    assert!(!test_ws.at("a").exists());
    assert_eq!(test_ws.text("b/40"), "b 40\n");
    assert_eq!((test_ws.text("by-one"), test_ws.text("by-other")), ("1\n".into(), "2\n".into()));
    // What one left alone, as the other had appended to it, is restored in the second round.
    let said = [undo(&test_ws, &b), undo(&test_ws, &a)].concat();
    for name in ["by-one", "by-other"] {
        undo(&test_ws, &id_of(&test_ws, "write", name));
    }
    let left = differences_but_times(&before, &test_ws);
    assert_eq!(left, Vec::<String>::new(), "{said}");
}
