//! The history in `.git`: what another program than git deletes or rewrites is asked about; git itself is not.

use serde_json::json;

use super::{prepare, tree::Tree, undo};
use crate::support::TestWorkspace;

/// Settings with which git commits, and starts no maintenance in the background.
const COMMIT: &str = "git -c user.name=a -c user.email=a@b -c maintenance.auto=false -c gc.auto=0";

/// A repository with packed and loose objects and refs, and another one beside it.
fn repository() -> TestWorkspace {
    let test_ws = TestWorkspace::new();
    prepare(
        &test_ws,
        "%GIT%git gc -q; git checkout -q other; echo o > o; git add o; git commit -qm o; git checkout -q main
         git clone -q --bare . remote.git; git remote add there ./remote.git",
    );
    test_ws
}

#[test]
fn history_that_another_program_deletes_or_rewrites_is_put_back() {
    kit::needs!(Git);
    let test_ws = repository();
    let before = Tree::of(&test_ws.at(""));
    for command in [
        "rm -rf .git",
        "rm -rf .git/objects",
        "find .git -name '*.pack' -delete",
        "echo x > .git/HEAD",
        "for ref in .git/refs/heads/*; do echo 0000000000000000000000000000000000000000 > $ref; done",
        // `main` is packed: a new file hides it.
        "id=$(git rev-parse HEAD~1); echo $id > new; mv new .git/refs/heads/main",
        // What git made in the same command is all there is.
        "git gc -q --prune=now; rm -rf .git/objects/pack",
        &format!("echo more >> README; {COMMIT} commit -qam three; echo x > .git/refs/heads/main"),
        // A repository that only looks new.
        "mv .git/HEAD h; echo x > .git/HEAD; rm -rf .git/objects",
        "mv .git/objects o; mkdir .git/objects; rm -rf o",
    ] {
        let called = test_ws.call("shell", &json!({"command": command}));
        let text = called.text();
        let changed = before.differences(&Tree::of(&test_ws.at("")));
        assert_eq!(changed, Vec::<String>::new(), "{command}: {text}");
        assert_eq!(called.kind(), "denied", "{command}: {text}");
        assert!(text.contains("of the history in .git"), "{command}: {text}");
    }
}

#[test]
fn history_that_git_itself_rewrites_is_not_asked_about() {
    kit::needs!(Git);
    let test_ws = repository();
    let before = Tree::of(&test_ws.at(""));
    let filter =
        "FILTER_BRANCH_SQUELCH_WARNING=1 git filter-branch -f --msg-filter 'cat; echo more' -- --all";
    for command in [
        "git reflog expire --expire=now --all; git gc -q --prune=now --aggressive",
        "git repack -adq; git pack-refs --all; git prune",
        &format!("{COMMIT} rebase -q other; {COMMIT} commit -q --amend -m amended"),
        &format!("export GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; {filter} > out"),
        "git reset -q --hard HEAD~1; git push -q --force there main; git push -q there --delete other",
        &format!("echo w >> README; {COMMIT} stash -q; git stash drop -q; git branch -qD other"),
    ] {
        let text = test_ws.call("shell", &json!({"command": command})).must("ok").text();
        assert!(!text.contains("[exit"), "{command}: {text}");
        assert!(!before.differences(&Tree::of(&test_ws.at(""))).is_empty(), "{command}: {text}");
        let undone = undo(&test_ws);
        let wrong = before.differences(&Tree::of(&test_ws.at("")));
        assert!(wrong.is_empty(), "{command}: {text}\n{}\n{undone:?}", wrong.join("\n"));
    }
}

#[test]
fn repository_that_the_session_made_or_that_git_ignores_may_be_deleted() {
    kit::needs!(Git);
    let test_ws = repository();
    super::script(&test_ws, "mkdir -p target/cargo; git clone -q . target/cargo/checkout");
    let session = ["--session", "one"];
    let clone = "git clone -q . clone; git clone -q . again; rm -rf again";
    test_ws.call_with(&session, "shell", &json!({"command": clone})).must("ok");
    // The sandbox covers the configuration of a repository, so that stays.
    test_ws.call_with(&session, "shell", &json!({"command": "rm -rf clone target"})).must("ok");
    for gone in ["clone/.git/HEAD", "again", "target/cargo/checkout/.git/HEAD"] {
        assert!(!test_ws.at(gone).exists(), "{gone}");
    }
}
