//! The official Python SDK as a client of the built program.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

const SDK: &str = "mcp>=2,<3";

#[test]
fn official_python_sdk_works() {
    kit::needs!(Venv);
    let python = python_with_sdk();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp_sdk/client.py");
    let home = tempfile::tempdir().unwrap();
    let ended = Command::new(&python)
        .arg(script)
        .args([env!("CARGO_BIN_EXE_haft"), "mcp", "--dir", "{dir}"])
        .env("HOME", home.path())
        .output()
        .unwrap();
    assert!(ended.status.success(), "the client is not content:\n{}", said(&ended));
    assert!(String::from_utf8_lossy(&ended.stdout).contains("all good"), "{}", said(&ended));
}

/// Returns a Python with the SDK, installed once in a folder that later runs reuse.
fn python_with_sdk() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python-mcp-2");
    let python = folder.join("bin/python");
    if has_sdk(&python) {
        return python;
    }
    must(
        Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder),
        "install Python 3.10 or newer with its venv module (Debian: `apt-get install python3 python3-venv`)",
    );
    must(
        Command::new(&python).args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", SDK]),
        "make sure that pip can reach its package index, or set PIP_INDEX_URL",
    );
    assert!(has_sdk(&python), "{SDK} was installed and can't be imported");
    python
}

fn has_sdk(python: &Path) -> bool {
    let look = "from importlib.metadata import version; import mcp; assert version('mcp').startswith('2.')";
    Command::new(python).args(["-c", look]).output().is_ok_and(|ended| ended.status.success())
}

fn must(command: &mut Command, otherwise: &str) {
    match command.output() {
        Ok(ended) if ended.status.success() => {}
        Ok(ended) => panic!("{command:?} failed; {otherwise}\n{}", said(&ended)),
        Err(error) => panic!("{command:?} can't be run: {error}; {otherwise}"),
    }
}

fn said(ended: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr))
}
