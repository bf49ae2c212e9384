//! The example, used as another program would use this crate.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{fs, path::PathBuf, process::Command};

/// Returns the path of the example, which cargo builds with the tests.
fn example() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    tests.parent().unwrap().with_file_name("examples").join("confined")
}

#[test]
fn command_writes_its_folder_and_does_not_see_another() {
    let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(outside.path().join("secret"), "hidden").unwrap();
    let script = format!("echo made > here; cat {}/secret; echo ended", outside.path().display());
    let output = Command::new(example()).args(["sh", "-c", &script]).current_dir(&inside).output().unwrap();
    let (shown, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(shown.contains("ended"), "{shown}{errors}");
    assert!(!shown.contains("hidden"), "{shown}");
    assert_eq!(fs::read_to_string(inside.path().join("here")).unwrap(), "made\n");
}
