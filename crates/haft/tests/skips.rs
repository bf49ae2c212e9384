//! Tests without their programs: skipped by name, or failed in strict mode.

use std::process::{Command, Output};

/// Runs one test of this program where nothing is on `PATH`. Its list of skipped tests goes to this file.
fn run_without_programs(strict: &str, list: &std::path::Path) -> Output {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "cad::golden::a_cube"])
        .env("PATH", "/nowhere")
        .env("HAFT_TEST_STRICT", strict)
        .env("HAFT_TEST_SKIPPED", list)
        .output()
        .unwrap()
}

#[test]
fn missing_program_skips_a_test_by_name_with_its_package() {
    let dir = tempfile::tempdir().unwrap();
    let list = dir.path().join("skipped");
    let ran = run_without_programs("0", &list);
    let line = "skipped: cad::golden::a_cube: needs openscad (apt install openscad)\n";
    assert!(ran.status.success(), "{ran:?}");
    assert_eq!(String::from_utf8_lossy(&ran.stderr), line);
    let listed = std::fs::read_to_string(&list).unwrap();
    assert_eq!(listed.split_once('\n').unwrap().1, line);
}

#[test]
fn missing_program_fails_a_test_in_strict_mode() {
    let dir = tempfile::tempdir().unwrap();
    let list = dir.path().join("skipped");
    let ran = run_without_programs("1", &list);
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(!ran.status.success(), "{said}");
    assert!(said.contains("this test needs openscad (apt install openscad)"), "{said}");
    assert!(!list.exists(), "nothing was skipped");
}
