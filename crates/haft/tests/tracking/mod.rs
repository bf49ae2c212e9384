//! The log of what a command changes in files, on the built program.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use kit::tracking::{BeforeImage, Node, Record};
use serde_json::json;

use crate::support::{TestWorkspace, run};

/// Returns the folder of a call's log.
fn folder(test_ws: &TestWorkspace, call: &str) -> std::path::PathBuf {
    let workspaces = fs::read_dir(test_ws.state().join("workspaces")).unwrap();
    let mut folders = workspaces.map(|it| it.unwrap().path().join("tracked").join(call));
    folders.find(|it| it.exists()).unwrap_or_else(|| panic!("{call} has no log"))
}

/// Returns the records of a call, one line each, with paths in the workspace, without those of folders whose
/// entries changed; and the contents of its images.
fn records(test_ws: &TestWorkspace, call: &str) -> Vec<String> {
    let folder = folder(test_ws, call);
    let root = test_ws.at("");
    let name = |path: &Path| {
        path.strip_prefix(&root).map_or_else(|_| path.display().to_string(), |it| it.display().to_string())
    };
    let image = |number: u64| {
        String::from_utf8_lossy(&fs::read(folder.join(number.to_string())).unwrap()).into_owned()
    };
    let lines = fs::read_to_string(folder.join("log")).unwrap();
    let records = lines.lines().map(|line| serde_json::from_str::<Record>(line).unwrap());
    records
        .filter_map(|record| {
            Some(match record {
                Record::Before { node: Node::Folder(_), .. } => return None,
                Record::Before { path, node: Node::Absent, .. } => format!("new {}", name(&path)),
                Record::Before { path, node: Node::Link { target, .. }, .. } => {
                    format!("link {} to {}", name(&path), target.to_string_lossy())
                }
                Record::Before { path, kept, .. } => {
                    let path = name(&path);
                    match kept {
                        BeforeImage::Linked(number) => format!("linked {path}: {}", image(number)),
                        BeforeImage::Copied(number) => format!("copied {path}: {}", image(number)),
                        BeforeImage::Length => format!("length {path}"),
                        BeforeImage::Metadata => format!("metadata {path}"),
                        kept => format!("{kept:?} {path}"),
                    }
                }
                Record::Moved { from, to } => format!("moved {} to {}", name(&from), name(&to)),
                Record::NotByGit { path } => format!("not by git {}", name(&path)),
                Record::Attributes { path, attributes } => {
                    format!("{} attributes {}", attributes.len(), name(&path))
                }
                Record::NotMoved { from, to } => format!("not moved {} to {}", name(&from), name(&to)),
                Record::StillOpen { path } => format!("still open {}", name(&path)),
                Record::Mixed { .. } => "mixed".to_owned(),
                Record::Unknown { what } => format!("unknown: {what}"),
            })
        })
        .collect()
}

/// Runs a script and returns its records.
fn after(test_ws: &TestWorkspace, script: &str) -> Vec<String> {
    let called = test_ws.call("shell", &json!({"command": script})).must("ok");
    records(test_ws, called.id())
}

#[test]
fn each_kind_of_change_is_in_the_log_with_what_was_there() {
    let test_ws = TestWorkspace::new();
    for name in ["over", "cut", "grown", "gone", "replaced", "mode", "time", "part"] {
        test_ws.put(name, format!("old {name}"));
    }
    test_ws.put("new-content", "source");
    test_ws.put("dir/file", "in dir");
    std::os::unix::fs::symlink("over", test_ws.at("link")).unwrap();
    let script = "echo new > over; truncate -s 1 cut; echo more >> grown; rm gone; mv new-content replaced; \
        chmod 600 mode; touch -d 2020-01-01 time; printf X | dd of=part conv=notrunc 2>/dev/null; mv dir moved; \
        mkdir made; echo x > made/x; rm link; ln -s elsewhere link2; mkdir empty; rmdir empty";
    assert_eq!(
        after(&test_ws, script),
        [
            "copied over: old over",
            "copied cut: old cut",
            "length grown",
            "linked gone: old gone",
            "linked replaced: old replaced",
            "moved new-content to replaced",
            "metadata mode",
            "copied time: old time",
            "copied part: old part",
            "moved dir to moved",
            "new made",
            "new made/x",
            "link link to over",
            "new link2",
            "new empty",
        ]
    );
}

#[test]
fn the_first_state_of_a_path_is_the_one_that_is_kept() {
    let test_ws = TestWorkspace::new();
    test_ws.put("a", "first");
    let found = after(
        &test_ws,
        "chmod 600 a; echo second >> a; echo third > a; echo fourth > a; rm a; echo fifth > a",
    );
    assert_eq!(found, ["metadata a", "length a", "copied a: firstsecond\n"]);
}

#[test]
fn a_file_is_found_through_links_descriptors_and_other_folders() {
    let test_ws = TestWorkspace::new();
    for name in ["one", "sub/two", "three", "four", "sub/five"] {
        test_ws.put(name, name);
    }
    std::os::unix::fs::symlink("sub", test_ws.at("to-sub")).unwrap();
    std::os::unix::fs::symlink(test_ws.at("three"), test_ws.at("to-three")).unwrap();
    let script = "ln -s $PWD /tmp/out; echo 1 > /tmp/out/one; echo 2 > to-sub/two; echo 3 > to-three; \
        exec 5>>four; exec 6>/dev/fd/5; cd sub; rm ../to-sub/five; echo x > /tmp/other; ln -s new ../dangling; \
        echo y > ../dangling";
    assert_eq!(
        after(&test_ws, script),
        [
            "copied one: one",
            "copied sub/two: sub/two",
            "copied three: three",
            "length four",
            "copied four: four",
            "linked sub/five: sub/five",
            "new dangling",
            "new new",
        ]
    );
}

#[test]
fn the_other_name_of_a_file_is_kept_when_it_is_written_by_a_new_one() {
    let test_ws = TestWorkspace::new();
    test_ws.put("a", "shared");
    test_ws.put("x", "both");
    fs::hard_link(test_ws.at("x"), test_ws.at("y")).unwrap();
    assert_eq!(after(&test_ws, "ln a b; echo new > b"), ["new b", "copied a: shared"]);
    assert_eq!(after(&test_ws, "echo new > x; echo newer > y; rm x"), ["copied x: both", "copied y: both"]);
}

#[test]
fn a_move_that_the_kernel_refuses_between_mounts_is_recorded_as_the_copy_that_it_becomes() {
    kit::needs!(Git);
    let test_ws = TestWorkspace::new();
    let init = std::process::Command::new("git").args(["init", "-q"]).current_dir(test_ws.at("")).status();
    assert!(init.unwrap().success());
    // The sandbox mounts `.git`.
    assert_eq!(after(&test_ws, "echo x > new; mv new .git/refs/new"), ["new new", "new .git/refs/new"]);
}

#[test]
fn names_that_are_no_text_are_in_the_log() {
    let test_ws = TestWorkspace::new();
    assert_eq!(after(&test_ws, "echo x > $'a\\xffb'; echo x > $'c\\nd'"), ["new a\u{fffd}b", "new c\nd"]);
}

#[test]
fn a_write_through_memory_is_preceded_by_a_copy() {
    let test_ws = TestWorkspace::new();
    test_ws.put("a", "mapped");
    let script =
        "python3 -c \"import mmap; f = open('a', 'r+b'); m = mmap.mmap(f.fileno(), 0); m[0:1] = b'X'\"";
    assert_eq!(after(&test_ws, script), ["copied a: mapped"]);
}

#[test]
fn each_call_of_a_lasting_shell_has_a_log_of_its_own() {
    let test_ws = TestWorkspace::new();
    test_ws.put("a", "1");
    let bash = |command: &str| ("bash", json!({"command": command}));
    let called = test_ws.batch(&[], &[bash("echo 2 > a"), bash("echo 3 > a; touch b")]);
    assert_eq!(records(&test_ws, called[0].id()), ["copied a: 1"]);
    assert_eq!(records(&test_ws, called[1].id()), ["copied a: 2\n", "new b"]);
}

#[test]
fn a_command_that_changes_nothing_has_no_log() {
    let test_ws = TestWorkspace::new();
    test_ws.put("a", "1");
    let called = test_ws
        .call("shell", &json!({"command": "cat a; ls; echo x > /tmp/y; echo z > /dev/null"}))
        .must("ok");
    let workspaces = fs::read_dir(test_ws.state().join("workspaces")).unwrap();
    for workspace in workspaces {
        assert!(!workspace.unwrap().path().join("tracked").join(called.id()).exists());
    }
}

#[test]
fn a_kept_file_has_the_mode_and_time_that_it_had() {
    let test_ws = TestWorkspace::new();
    test_ws.put("a", "1");
    fs::set_permissions(test_ws.at("a"), fs::Permissions::from_mode(0o640)).unwrap();
    let before = fs::metadata(test_ws.at("a")).unwrap();
    let called = test_ws.call("shell", &json!({"command": "chmod 400 a; rm -f a"})).must("ok");
    let log = fs::read_to_string(folder(&test_ws, called.id()).join("log")).unwrap();
    let first: Record = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    let Record::Before { node: Node::File(metadata), .. } = first else { panic!("{first:?}") };
    assert_eq!(metadata.mode, 0o640);
    let modified = before.modified().unwrap().duration_since(std::time::UNIX_EPOCH).unwrap();
    assert_eq!(metadata.modified.0, modified.as_secs() as i64);
}

#[test]
fn the_log_of_a_haft_that_was_killed_can_be_read() {
    let test_ws = TestWorkspace::new();
    test_ws.put("a", "1");
    let arguments = json!({"command": "rm a; touch ready; sleep 100"}).to_string();
    let mut child = test_ws.haft(&["call", "shell", &arguments]).spawn().unwrap();
    while !test_ws.at("ready").exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let workspace = fs::read_dir(test_ws.state().join("workspaces")).unwrap().next().unwrap().unwrap().path();
    let call = fs::read_dir(workspace.join("tracked")).unwrap().next().unwrap().unwrap();
    assert_eq!(records(&test_ws, &call.file_name().to_string_lossy()), ["linked a: 1", "new ready"]);
}

#[test]
fn a_rename_that_is_refused_is_taken_back_in_the_log() {
    let test_ws = TestWorkspace::new();
    test_ws.put("d/a", "1");
    test_ws.put("e/b", "2");
    assert_eq!(
        after(&test_ws, "mv -T d e 2>/dev/null; echo 2 > d/a"),
        ["moved d to e", "not moved d to e", "copied d/a: 1"]
    );
    assert_eq!(
        after(&test_ws, "echo 3 > e/b; mv -T d e 2>/dev/null || true"),
        ["copied e/b: 2", "moved d to e", "not moved d to e"]
    );
}

#[test]
fn attributes_are_in_the_log_where_an_image_lacks_them() {
    let test_ws = TestWorkspace::new();
    for name in ["written", "removed", "changed", "plain"] {
        test_ws.put(name, name);
        if name != "plain" {
            rustix::fs::setxattr(test_ws.at(name), "user.a", b"1", rustix::fs::XattrFlags::empty()).unwrap();
        }
    }
    let script = "echo x > written; rm removed; echo x > plain; \
        /usr/bin/python3 -c 'import os; os.setxattr(\"changed\", \"user.b\", b\"2\"); os.removexattr(\"changed\", \"user.a\")'";
    assert_eq!(
        after(&test_ws, script),
        [
            "copied written: written",
            "1 attributes written",
            "linked removed: removed",
            "copied plain: plain",
            "metadata changed",
            "1 attributes changed",
        ]
    );
}

#[test]
fn many_long_copies_at_once_stop_no_command_and_are_all_undone() {
    let test_ws = TestWorkspace::new();
    let names: Vec<String> = (0..6).map(|it| format!("big{it}")).collect();
    names.iter().for_each(|it| test_ws.put(it, "as it was\n"));
    let writers = "for i in 0 1 2 3 4 5; do (echo x > big$i) & done; for i in $(seq 40); do (echo $i > new$i) & done; wait";
    let calls = [("shell", json!({"command": writers})), ("shell", json!({"command": "echo y > other"}))];
    let mut haft = test_ws.haft(&["call", "--json", "--batch", "-"]);
    haft.env("HAFT_BREAK", "fast-copies");
    let lines: String = calls
        .iter()
        .map(|(tool, arguments)| json!({"tool": tool, "arguments": arguments}).to_string() + "\n")
        .collect();
    let ran = run(&mut haft, &lines);
    assert!(ran.code == 0 && test_ws.text("other") == "y\n", "{ran:?}");
    assert_eq!((test_ws.text("big3").as_str(), test_ws.text("new40").as_str()), ("x\n", "40\n"));
    for _ in 0..2 {
        test_ws.call("undo", &json!({})).must("ok");
    }
    for name in names {
        assert_eq!(test_ws.text(&name), "as it was\n", "{name}");
    }
    assert!(!test_ws.at("new40").exists() && !test_ws.at("other").exists());
}
