//! `haft demo`.

use std::{fs, path::PathBuf, process::Command};

use serde_json::json;

use crate::{
    chat::tmux::Tmux,
    support::{Ran, TestWorkspace, names, run},
};

/// Returns the demo in this workspace: without `--dir`, and with a folder of its own for temporary files.
fn demo(test_ws: &TestWorkspace, arguments: &[&str]) -> Command {
    let mut haft = Command::new(env!("CARGO_BIN_EXE_haft"));
    let temporary = test_ws.base().join("tmp");
    fs::create_dir_all(&temporary).unwrap();
    haft.env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", test_ws.base().join("home"))
        .env("TMPDIR", temporary)
        .current_dir(test_ws.base().join("home"))
        .arg("demo")
        .args(arguments);
    haft
}

fn projects(test_ws: &TestWorkspace) -> Vec<PathBuf> {
    let folder = test_ws.base().join("tmp");
    let mut all: Vec<PathBuf> = names(&folder).into_iter().map(|it| folder.join(it)).collect();
    all.sort();
    all
}

/// Runs a line of what the demo says to type next.
#[track_caller]
fn typed(test_ws: &TestWorkspace, said: &str, part: &str) -> Ran {
    let line = said.lines().find(|it| it.contains(part)).unwrap_or_else(|| panic!("no `{part}` in {said}"));
    // What it does stands beside it, or below.
    let line = line.trim().split("   ").next().unwrap();
    let mut sh = Command::new("/bin/sh");
    sh.arg("-c").arg(line).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", test_ws.base().join("home"));
    run(sh.current_dir(test_ws.base().join("home")), "")
}

fn tested(project: &PathBuf) -> i32 {
    Command::new("/bin/sh").arg("test.sh").current_dir(project).output().unwrap().status.code().unwrap()
}

#[test]
fn the_test_fails_is_fixed_with_real_tools_and_what_to_type_next_works() {
    let test_ws = TestWorkspace::new();
    let ran = run(&mut demo(&test_ws, &[]), "");
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    let steps = [
        "> The test fails.",
        "< shell sh test.sh: exit 1, ",
        "2 of 3 failed",
        "< read price.sh: ok, ",
        "< edit price.sh: ok, ",
        "-echo $((price * count * (1 - discount)))",
        "+echo $((price * count * (100 - discount) / 100))",
        "< shell sh test.sh: ok, ",
        "all 3 passed",
        "all three checks pass.",
        "What happened:",
        "The project stays.",
    ];
    let mut rest = ran.out.as_str();
    for step in steps {
        let at = rest.find(step).unwrap_or_else(|| panic!("`{step}` is not in its place: {}", ran.out));
        rest = &rest[at + step.len()..];
    }
    let all = projects(&test_ws);
    let [project] = all.as_slice() else { panic!("{all:?}") };
    assert_eq!(tested(project), 0);
    assert_eq!(names(&test_ws.base().join("home")), [".local"], "its log, and nothing else");

    let log = typed(&test_ws, &ran.out, " log --dir ");
    assert!(log.code == 0 && log.out.contains("edit") && log.out.contains("price.sh"), "{log:?}");
    let undone = typed(&test_ws, &ran.out, " undo --dir ");
    assert!(undone.code == 0 && undone.out.contains("price.sh"), "{undone:?}");
    assert_eq!(tested(project), 1, "the bug is back");
    assert_eq!(typed(&test_ws, &ran.out, "rm -r ").code, 0);
    assert!(!project.exists());
}

#[test]
fn with_remove_nothing_is_left() {
    let test_ws = TestWorkspace::new();
    let ran = run(&mut demo(&test_ws, &["--remove"]), "");
    assert!(ran.code == 0 && ran.out.contains("The project and its log are removed"), "{ran:?}");
    assert_eq!(projects(&test_ws), Vec::<PathBuf>::new());
    assert_eq!(names(&test_ws.base().join("home/.local/state/haft/workspaces")), Vec::<String>::new());
}

#[test]
fn a_home_that_can_t_be_written_is_no_obstacle() {
    let test_ws = TestWorkspace::new();
    let mut haft = demo(&test_ws, &[]);
    // Nobody makes a folder below a file, root neither.
    fs::write(test_ws.base().join("file"), "").unwrap();
    let ran = run(haft.env("HOME", test_ws.base().join("file")), "");
    assert_eq!(ran.code, 0, "{ran:?}");
    let undone = typed(&test_ws, &ran.out, " undo --dir ");
    assert!(undone.code == 0 && undone.out.contains("price.sh"), "{undone:?}");
    assert!(names(&test_ws.base().join("home")).is_empty());
    assert_eq!(typed(&test_ws, &ran.out, "rm -r ").code, 0);
    assert_eq!(projects(&test_ws), Vec::<PathBuf>::new());
}

#[test]
fn a_person_s_configuration_does_not_change_it() {
    let test_ws = TestWorkspace::new();
    let config = test_ws.base().join("home/.config/haft");
    fs::create_dir_all(&config).unwrap();
    fs::write(
        config.join("haft.toml"),
        "sandbox = \"read-only\"\ntoolset = \"navi\"\n[commands]\ndeny = [\"sh\"]\n",
    )
    .unwrap();
    let ran = run(&mut demo(&test_ws, &["--remove"]), "");
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[test]
fn inside_a_sandbox_that_allows_no_other_it_says_so_and_plays_all_the_same() {
    let test_ws = TestWorkspace::new();
    fs::copy(env!("CARGO_BIN_EXE_haft"), test_ws.at("haft")).unwrap();
    let command = "HAFT_STATE_DIR=$PWD/state TMPDIR=$PWD ./haft demo --remove </dev/null; echo rc=$?";
    let ran = test_ws.call("shell", &json!({ "command": command })).must("ok");
    let text = ran.text();
    assert!(text.contains("This machine lacks a part of the OS sandbox: namespaces failed"), "{text}");
    assert!(text.contains("--accept-weaker namespaces"), "{text}");
    assert!(text.contains("all three checks pass.") && text.contains("rc=0"), "{text}");
}

#[test]
fn at_a_terminal_it_looks_like_the_chat_and_fits() {
    kit::needs!(Tmux);
    for size in [(80, 24), (40, 12)] {
        let test_ws = TestWorkspace::new();
        let screen = Tmux::start(&test_ws, &demo(&test_ws, &["--remove"]), size);
        screen
            .shows("> The test fails. Find out why and fix")
            .shows("✗ shell sh test.sh")
            .shows("✓ edit price.sh");
        screen.shows("What happened: the test").shows("Next, in your own project:");
    }
}

#[test]
fn a_folder_for_it_is_refused() {
    let test_ws = TestWorkspace::new();
    let ran = test_ws.run(&["demo"]);
    assert!(ran.code == 2 && ran.err.contains("makes a project of its own"), "{ran:?}");
}
