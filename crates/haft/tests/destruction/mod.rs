//! Commands that destroy: after `haft undo` the tree is what it was, or an answer had said that it would not be.
//!
//! Each case is a folder, a command in it, and what has to hold. `TMPDIR` chooses the file system on which all of
//! it happens.

mod asked;
mod cases;
mod random;
mod tree;

use std::process::{Command, Stdio};

use serde_json::json;

use crate::support::{Ran, TestWorkspace};
use tree::Tree;

/// One case of destruction.
struct Case {
    name: &'static str,
    /// A script that makes the folder what it is before, on top of [`BASE`].
    setup: &'static str,
    /// The command that a model sends.
    command: &'static str,
    then: Then,
}

/// The expectation after the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    /// The tree is another one, and `haft undo` makes it the one before.
    Undone,
    /// As above, but for paths that an answer names.
    UndoneOrTold,
    /// It is too much: nobody is there to ask, so it is denied, and the tree is as before.
    Denied,
}

/// Makes a folder with files of every kind, all of the same old time.
const BASE: &str = r"
mkdir -p src/deep/er docs data empty
for i in 1 2 3 4 5 6; do echo file $i > src/$i.c; echo deep $i > src/deep/er/$i.h; done
printf '#!/bin/sh\necho run\n' > src/run.sh; chmod 755 src/run.sh
echo letter > docs/letter; chmod 640 docs/letter
echo readme > README
: > docs/nothing
head -c 300000 /dev/zero | tr '\0' 'x' > data/blob
ln -s ../src/1.c docs/link; ln -s nowhere docs/dangling; ln -s ../src docs/folder
";

/// Ends each setup: times that no restore meets by chance.
const AGE: &str =
    "\nfind . -depth -path ./.git -prune -o -exec touch -h -d '2020-01-02 03:04:05.678901234' {} +\n";

/// Makes the folder a repository with two branches.
const GIT: &str = r"
export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
git init -q -b main; printf 'target/\n*.o\n' > .gitignore; git config user.name a; git config user.email a@b
git add -A; git commit -qm one; git branch other; echo two >> README; git commit -qam two
";

/// Makes the folder of a case.
fn prepare(test_ws: &TestWorkspace, setup: &str) {
    let setup = setup.replace("%GIT%", GIT);
    script(test_ws, &format!("{BASE}{setup}{AGE}"));
}

/// Runs a script in the workspace, outside of haft.
fn script(test_ws: &TestWorkspace, script: &str) {
    let script = format!("set -e\nexport GIT_CONFIG_GLOBAL=/dev/null\n{script}");
    let ran = Command::new("bash")
        .args(["-c", script.as_str()])
        .current_dir(test_ws.at(""))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(ran.status.success(), "the setup failed: {ran:?}");
}

fn undo(test_ws: &TestWorkspace) -> Ran {
    test_ws.run(&["undo"])
}

/// Runs one case.
#[track_caller]
fn holds(case: &Case) {
    let test_ws = TestWorkspace::new();
    prepare(&test_ws, case.setup);
    let before = Tree::of(&test_ws.at(""));
    let called = test_ws.call("shell", &json!({"command": case.command}));
    let after = Tree::of(&test_ws.at(""));
    let answer = called.text();
    if case.then == Then::Denied {
        assert_eq!(called.kind(), "denied", "{}: {answer}", case.name);
        assert_eq!(
            before.differences(&after),
            Vec::<String>::new(),
            "{}: a denied call changed files",
            case.name
        );
        return;
    }
    assert_ne!(called.kind(), "denied", "{}: {answer}", case.name);
    assert!(!before.differences(&after).is_empty(), "{}: the command destroyed nothing: {answer}", case.name);
    let undone = undo(&test_ws);
    let restored = Tree::of(&test_ws.at(""));
    let said = format!("{answer}\n{}\n{}", undone.out, undone.err);
    let wrong: Vec<String> = before
        .differences(&restored)
        .into_iter()
        .filter(|it| case.then == Then::Undone || !tells(&said, it))
        .collect();
    assert!(wrong.is_empty(), "{}:\n{}\nThe answers:\n{said}", case.name, wrong.join("\n"));
}

/// Returns whether an answer names the path of a difference, or a folder around it.
fn tells(said: &str, difference: &str) -> bool {
    let path = difference.split(": ").next().unwrap_or_default();
    std::path::Path::new(path)
        .ancestors()
        .filter(|it| !it.as_os_str().is_empty())
        .any(|it| said.contains(&it.display().to_string()))
}
