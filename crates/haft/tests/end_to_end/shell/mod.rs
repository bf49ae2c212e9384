//! Command tools: each call returns, leaves no process and loses no output.

mod interact;
mod lasting;
mod single;

use std::{
    fs,
    os::unix::ffi::OsStrExt as _,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::support::{CallResult, Server, TIMEOUT, TestWorkspace};

/// A server that may run commands, and what it started.
struct Shells {
    server: Server,
    test_ws: TestWorkspace,
}

impl Shells {
    fn new() -> Self {
        let test_ws = TestWorkspace::new();
        let server = test_ws.serve_with(&["--approve", "auto"]);
        Self { server, test_ws }
    }

    #[track_caller]
    fn does(&self, tool: &str, arguments: &Value) -> String {
        self.server.does(tool, arguments)
    }

    fn call(&self, tool: &str, arguments: &Value) -> CallResult {
        self.server.call(tool, arguments)
    }

    /// Returns the output of a command in the session's bash.
    #[track_caller]
    fn bash(&self, command: &str) -> String {
        self.does("bash", &json!({"command": command}))
    }

    #[track_caller]
    fn shell(&self, command: &str, wait_ms: u64) -> String {
        self.does("shell", &json!({"command": command, "wait_ms": wait_ms}))
    }

    /// Waits until a command has made this file in the workspace.
    #[track_caller]
    fn await_file(&self, name: &str) {
        until(&format!("`{name}` is not there"), || self.test_ws.at(name).exists());
    }

    fn has(&self, name: &str) -> bool {
        self.test_ws.at(name).exists()
    }

    /// Ends the server; then nothing that it started is alive.
    #[track_caller]
    fn finish(self) {
        let Self { server, test_ws } = self;
        let (status, errors) = server.finish();
        assert!(status.success(), "{errors}");
        nothing_alive(&test_ws);
    }

    /// Kills the server; then nothing that it started is alive either.
    #[track_caller]
    fn kill(self) {
        let Self { server, test_ws } = self;
        server.kill();
        nothing_alive(&test_ws);
    }
}

/// Returns the id of the job in an answer.
#[track_caller]
fn job_in(answer: &str) -> String {
    let at = answer.find("job_").unwrap_or_else(|| panic!("no job in {answer}"));
    answer[at..].chars().take_while(|it| it.is_alphanumeric() || *it == '_').collect()
}

/// Returns a variable that every command of this workspace has in its environment.
fn mark(test_ws: &TestWorkspace) -> String {
    format!("MARK={}", test_ws.base().display())
}

/// Returns the command lines of processes that carry this workspace's mark, or are in its folders.
fn alive(test_ws: &TestWorkspace) -> Vec<String> {
    let mark = mark(test_ws);
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap() {
        let path = entry.unwrap().path();
        let environment = fs::read(path.join("environ")).unwrap_or_default();
        let carries = environment.split(|it| *it == 0).any(|it| it == mark.as_bytes());
        let is_there = fs::read_link(path.join("cwd")).is_ok_and(|it| it.starts_with(test_ws.base()));
        if carries || is_there {
            let line = fs::read(path.join("cmdline")).unwrap_or_default();
            found.push(format!("{} {}", path.display(), String::from_utf8_lossy(&line).replace('\0', " ")));
        }
    }
    found
}

#[track_caller]
fn nothing_alive(test_ws: &TestWorkspace) {
    assert!(!test_ws.base().as_os_str().as_bytes().is_empty());
    until("processes are left behind", || alive(test_ws).is_empty());
}

/// Looks again and again: the end of a stranger's process can't be awaited.
#[track_caller]
fn until(otherwise: &str, holds: impl Fn() -> bool) {
    let late = Instant::now() + TIMEOUT;
    while !holds() {
        assert!(Instant::now() < late, "{otherwise}");
        thread::sleep(Duration::from_millis(5));
    }
}
