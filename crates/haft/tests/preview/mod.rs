//! `preview`: a command runs on overlays of the roots, its changes are listed, and none of them is kept.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    path::Path,
};

use serde_json::{Value, json};

use crate::support::{Called, TestWorkspace};

fn previewed(test_ws: &TestWorkspace, command: &str) -> Called {
    test_ws.call("shell", &json!({"command": command, "preview": true}))
}

/// Everything below a folder: paths, kinds, contents, modes, times of change, inodes.
fn tree(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let about = fs::symlink_metadata(&path).unwrap();
            let content = if about.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
            let identity =
                (about.mtime(), about.mtime_nsec(), about.ctime(), about.ctime_nsec(), about.ino());
            found.push(format!("{} {:o} {identity:?} {content:?}", path.display(), about.mode()));
            if about.is_dir() {
                folders.push(path);
            }
        }
    }
    found.sort();
    found
}

#[track_caller]
fn lists(called: &Called, lines: &[&str]) {
    let text = called.text();
    for line in lines {
        assert!(text.lines().any(|it| it == *line), "`{line}` is not among:\n{text}");
    }
}

fn workspace() -> TestWorkspace {
    let test_ws = TestWorkspace::new();
    test_ws.put("a.txt", "one\ntwo\n");
    test_ws.put("b.txt", "the content of b\n");
    test_ws.put("old/x", "x of old\n");
    test_ws.put("old/deep/y", "y of old, deeper\n");
    test_ws.put("gone/1", "1\n");
    test_ws.put("gone/2", "2\n");
    test_ws.put("again/file", "before\n");
    test_ws.put("again/other", "other\n");
    test_ws.put("run.sh", "echo\n");
    symlink("a.txt", test_ws.at("link")).unwrap();
    test_ws
}

#[test]
fn preview_lists_every_kind_of_change_and_keeps_none() {
    let test_ws = workspace();
    let before = tree(&test_ws.at(""));
    let called = previewed(
        &test_ws,
        "sed -i s/two/2/ a.txt; mv b.txt c.txt; mv old new; rm -r gone; rm -r again; mkdir again; echo after > again/file; \
         chmod 755 run.sh; ln -sf b.txt link; mkdir -p empty/folder; echo hello > made; ln -s made l2; ls; echo done",
    )
    .must("ok");
    assert!(called.text().contains("done"), "{}", called.text());
    lists(
        &called,
        &[
            "changed  a.txt (+1 -1)",
            "  -two",
            "  +2",
            "moved    b.txt to c.txt",
            "moved    old/ to new/ (2 files)",
            "deleted  gone/ (2 files)",
            "changed  again/file (+1 -1)",
            "deleted  again/other",
            "metadata run.sh (mode 644 to 755)",
            "replaced link (link to a.txt by link to b.txt)",
            "created  empty/folder/",
            "created  made (6 bytes)",
            "created  l2 (link to made)",
        ],
    );
    assert_eq!(tree(&test_ws.at("")), before);
    let called = previewed(&test_ws, "cat a.txt").must("ok");
    assert_eq!(
        called.text(),
        "one\ntwo\n[preview: it would change no file; nothing was kept]",
        "one preview does not see what another one changed"
    );
}

#[test]
fn preview_of_a_wiped_workspace_leaves_it_whole() {
    let test_ws = workspace();
    let before = tree(&test_ws.at(""));
    let called = previewed(&test_ws, "rm -rf * .[a-z]*; ls -A; false");
    lists(&called, &["[exit 1]", "deleted  gone/ (2 files)", "deleted  a.txt", "deleted  link"]);
    assert_eq!(tree(&test_ws.at("")), before);
}

#[test]
fn preview_works_in_several_roots_and_control_files_in_them_stay_read_only() {
    let test_ws = workspace();
    let git = |arguments: &[&str]| {
        let ran = std::process::Command::new("git")
            .args(arguments)
            .current_dir(test_ws.at(""))
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .unwrap();
        assert!(ran.status.success(), "{ran:?}");
    };
    git(&["init", "-q"]);
    git(&["add", "."]);
    git(&["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "one"]);
    fs::write(test_ws.outside().join("far"), "far\n").unwrap();
    let outside = test_ws.outside();
    let root = format!("{}", outside.display());
    let (before, far) = (tree(&test_ws.at("")), tree(&outside));
    let command = format!(
        "echo x > {root}/far; echo '#!/bin/sh' > .git/hooks/pre-commit; git config a.b c; \
         git -c user.name=a -c user.email=a@b commit -q --allow-empty -m two && git log --oneline | wc -l; git checkout -q -b other"
    );
    let arguments = json!({"command": command, "preview": true});
    let called = test_ws.call_with(&["--root", &root], "shell", &arguments);
    let text = called.text();
    assert!(text.contains("\n2\n"), "{text}");
    assert!(text.contains("Read-only file system"), "{text}");
    lists(&called, &[&format!("changed  {root}/far (+1 -1)"), "changed  .git/HEAD (+1 -1)"]);
    assert!(
        !text.lines().any(|it| it.contains(".git/hooks/pre-commit") && it.starts_with("created")),
        "{text}"
    );
    assert_eq!(tree(&outside), far);
    assert_eq!(tree(&test_ws.at("")), before);
}

#[test]
fn preview_ends_with_its_command_and_what_does_not_end_is_stopped() {
    let test_ws = workspace();
    let before = tree(&test_ws.at(""));
    let called = previewed(&test_ws, "(sleep 100; echo late > late) & echo now > now").must("ok");
    lists(&called, &["created  now (4 bytes)", "[2 processes that it left running ended with the preview]"]);
    let arguments = json!({"command": "echo now > now; sleep 100", "preview": true, "wait_ms": 5000});
    let called = test_ws.call("shell", &arguments).must("timeout");
    lists(&called, &["created  now (4 bytes)"]);
    assert!(called.text().contains("nothing was kept"), "{}", called.text());
    assert_eq!(tree(&test_ws.at("")), before);
}

#[test]
fn preview_is_refused_where_its_effects_could_stay() {
    let test_ws = workspace();
    let before = tree(&test_ws.at(""));
    let touch = |more: Value| {
        let mut arguments = json!({"command": "touch made", "preview": true});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        arguments
    };
    for (tool, arguments, said) in [
        ("shell", touch(json!({"run_in_background": true})), "does not go on in the background"),
        ("shell", touch(json!({"wait_ms": 0})), "does not go on in the background"),
        ("shell", touch(json!({"net": ["example.org"]})), "has no network"),
        ("shell", touch(json!({"input": true})), "has no input"),
        ("shell", touch(json!({"unconfined": true})), "`unconfined` can't be previewed"),
        ("bash", touch(json!({})), "can't be previewed"),
        ("interact", touch(json!({})), "can't be previewed"),
    ] {
        let called = test_ws.call_with(&["--approve", "auto"], tool, &arguments);
        assert!(!called.ok(), "{tool} {arguments}: {}", called.text());
        assert!(called.text().contains(said), "{tool} {arguments}: {}", called.text());
    }
    assert_eq!(tree(&test_ws.at("")), before);
}

#[test]
fn person_previews_by_an_option_of_call() {
    let test_ws = workspace();
    let ran = test_ws.run(&["call", "--preview", "shell", r#"{"command": "rm a.txt"}"#]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("deleted  a.txt"), "{ran:?}");
    assert!(test_ws.at("a.txt").exists());
    let ran = test_ws.run(&["call", "--preview", "write", r#"{"path": "new", "content": "x"}"#]);
    assert!(ran.err.contains("is for `shell` only"), "{ran:?}");
    assert!(!test_ws.at("new").exists());
}

#[test]
fn preview_reaches_no_host_and_sees_no_other_session_s_files() {
    let test_ws = workspace();
    let calls = [
        ("shell", json!({"command": "echo mine > /tmp/mine; cat /tmp/mine"})),
        ("shell", json!({"command": "cat /tmp/mine; echo p > /tmp/preview", "preview": true})),
        ("shell", json!({"command": "ls /tmp"})),
    ];
    let called = test_ws.batch(&[], &calls);
    assert!(called[1].text().contains("No such file"), "{}", called[1].text());
    assert!(
        called[2].text().contains("mine") && !called[2].text().contains("preview"),
        "{}",
        called[2].text()
    );
}

#[test]
fn preview_of_odd_files_names_them_in_one_line_each() {
    let test_ws = workspace();
    fs::write(test_ws.at("big"), vec![b'x'; 3 << 20]).unwrap();
    fs::set_permissions(test_ws.at("old"), fs::Permissions::from_mode(0o750)).unwrap();
    let called = previewed(
        &test_ws,
        "printf y >> big; chmod 700 old; mkfifo pipe; printf 'a\\nb' > \"$(printf 'two\\nlines')\"; touch -d 2001-01-01 run.sh; \
         rm a.txt; mkdir a.txt; echo z > a.txt/z; printf '\\0\\1' > b.txt",
    )
    .must("ok");
    lists(
        &called,
        &[
            "changed  big (3145728 bytes to 3145729)",
            "metadata old (mode 750 to 700)",
            "created  pipe (pipe)",
            "created  \"two\\nlines\" (3 bytes)",
            "metadata run.sh (another modification time)",
            "deleted  a.txt",
            "created  a.txt/z (2 bytes)",
            "changed  b.txt (17 bytes to 2)",
        ],
    );
}
