//! The table in one workspace: all commands by one process of haft, then all undos by another.

use std::{collections::BTreeMap, process::Command};

use kit::testing::needs::{Program, skips_test};
use serde_json::{Value, json};

use super::{AGE, BASE, Case, Then, cases::CASES, script_of, tells, tree::Tree, undo};
use crate::support::{Called, TestWorkspace};

/// The processes that prepare folders.
const AT_ONCE: usize = 2;

/// Runs the table in a workspace. `between` is done when the folders are prepared.
pub(super) fn all_hold(test: &str, test_ws: &TestWorkspace, between: impl FnOnce()) {
    let cases = chosen(test);
    std::fs::create_dir_all(test_ws.config()).unwrap();
    std::fs::write(test_ws.config().join("haft.toml"), "[undo]\nfile_mib = 1\n").unwrap();
    prepare_all(test_ws, &cases);
    between();
    let trees = || -> BTreeMap<&str, Tree> {
        cases.iter().map(|case| (case.name, Tree::of(&test_ws.at(case.name)))).collect()
    };
    let before = trees();
    let shell = |case: &&Case| ("shell", json!({"command": script_of(case.command), "dir": case.name}));
    let called = test_ws.batch(&[], &cases.iter().map(shell).collect::<Vec<_>>());
    let after = trees();
    let mut wrong = Vec::new();
    let mut to_undo: Vec<(&Case, &Called)> = Vec::new();
    for (case, called) in cases.iter().zip(&called) {
        let changes = before[case.name].differences(&after[case.name]);
        let mut fails = |why: String| wrong.push(format!("{}: {why}\n  {}", case.name, called.text()));
        match (called.kind() == "denied", case.then) {
            (true, Then::Denied | Then::DeniedAlone | Then::UndoneOrTold) | (false, Then::Refused) => {
                if !changes.is_empty() {
                    fails(format!("changed files:\n  {}", changes.join("\n  ")));
                }
            }
            (false, Then::Denied) => fails("is not denied".to_owned()),
            (true, Then::Undone | Then::Refused) => fails("is denied".to_owned()),
            (false, Then::Undone | Then::UndoneOrTold | Then::DeniedAlone) => {
                if changes.is_empty() {
                    fails("destroyed nothing".to_owned());
                }
                to_undo.push((*case, called));
            }
        }
    }
    to_undo.reverse();
    // A repository's own files are for a person to put back.
    let (of_git, others): (Vec<_>, Vec<_>) =
        to_undo.into_iter().partition(|(case, _)| case.programs.contains(&Program::Git));
    let arguments = |(_, called): &(&Case, &Called)| ("undo", json!({"call": called.id()}));
    let undone = test_ws.batch(&[], &others.iter().map(arguments).collect::<Vec<(&str, Value)>>());
    let mut answers: Vec<_> = others.into_iter().zip(undone.iter().map(Called::text)).collect();
    for (case, called) in of_git {
        let undone = test_ws.run(&["undo", "--call", called.id()]);
        answers.push(((case, called), undone.out + &undone.err));
    }
    for ((case, called), undone) in answers {
        let said = format!("{}\n{undone}", called.text());
        let mut left = before[case.name].differences(&Tree::of(&test_ws.at(case.name)));
        if case.then == Then::UndoneOrTold {
            left.retain(|it| !tells(&said, it, &format!("{}/", case.name)));
        }
        if !left.is_empty() {
            wrong.push(format!("{}:\n  {}\nThe answers:\n{said}", case.name, left.join("\n  ")));
        }
    }
    assert!(wrong.is_empty(), "{test}: {} of {} cases\n{}", wrong.len(), cases.len(), wrong.join("\n\n"));
}

/// Returns the cases that this machine has the programs for; `HAFT_DESTRUCTION_CASE` names a single one.
fn chosen(test: &str) -> Vec<&'static Case> {
    let only = std::env::var("HAFT_DESTRUCTION_CASE").ok();
    let is_there = |case: &&Case| !skips_test(&format!("{test} ({})", case.name), case.programs);
    CASES.iter().filter(|it| only.as_ref().is_none_or(|only| only == it.name)).filter(is_there).collect()
}

/// Makes a folder for each case.
fn prepare_all(test_ws: &TestWorkspace, cases: &[&Case]) {
    let base = test_ws.base().join("base");
    std::fs::create_dir(&base).unwrap();
    let run = |script: &str| {
        let script = format!("set -e\nexport GIT_CONFIG_GLOBAL=/dev/null\n{script}");
        let ran = Command::new("bash").args(["-c", &script]).current_dir(&base).output().unwrap();
        assert!(ran.status.success(), "the setup failed: {ran:?}");
    };
    run(BASE);
    std::thread::scope(|scope| {
        for part in cases.chunks(cases.len().div_ceil(AT_ONCE)) {
            let of_case = |case: &&Case| {
                format!("cp -a . ../ws/{0}\n(cd ../ws/{0}\n{1}\n{AGE}\n)\n", case.name, script_of(case.setup))
            };
            let script: String = part.iter().map(of_case).collect();
            scope.spawn(move || run(&script));
        }
    });
}

#[test]
fn large_part_of_a_small_workspace_is_denied() {
    for case in CASES.iter().filter(|it| it.then == Then::DeniedAlone) {
        let test_ws = TestWorkspace::new();
        super::prepare(&test_ws, case.setup);
        let before = Tree::of(&test_ws.at(""));
        let called = test_ws.call("shell", &json!({"command": script_of(case.command)}));
        assert_eq!(called.kind(), "denied", "{}: {}", case.name, called.text());
        let changed = before.differences(&Tree::of(&test_ws.at("")));
        assert!(changed.is_empty(), "{}: a denied call changed files: {changed:?}", case.name);
    }
}

#[test]
fn undo_without_an_id_reverts_the_newest_command() {
    let test_ws = TestWorkspace::new();
    super::prepare(&test_ws, "");
    let before = Tree::of(&test_ws.at(""));
    test_ws.call("shell", &json!({"command": "rm README; echo x > src/1.c"})).must("ok");
    test_ws.call("shell", &json!({"command": "rm src/1.c; mv docs old"})).must("ok");
    assert!(!before.differences(&Tree::of(&test_ws.at(""))).is_empty());
    undo(&test_ws);
    assert!(test_ws.at("src/1.c").exists() && !test_ws.at("README").exists());
    undo(&test_ws);
    assert_eq!(before.differences(&Tree::of(&test_ws.at(""))), Vec::<String>::new());
}
