//! `haft worker`, `haft run --on`, `haft run --tasks`, `haft workers`: sessions on workers, over the engine of one machine.

mod batch;
mod called;
mod cancelled;
mod grouped;
mod landed;
mod listed;
mod narrowed;
mod swept;
mod up;

use std::{
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{Ran, TIMEOUT, TestWorkspace};

/// A lease of one second, so that a lost worker is noticed soon.
const SHORT: &str = "[workers]\nlease_seconds = 1\n";

/// Interval of the checks for something that no event reports.
const LOOK: Duration = Duration::from_millis(10);

/// Returns a workspace whose engine has short leases.
fn workspace() -> TestWorkspace {
    let test_ws = TestWorkspace::new();
    configure(&test_ws.config(), SHORT);
    test_ws
}

fn configure(folder: &std::path::Path, text: &str) {
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join("haft.toml"), text).unwrap();
}

/// Writes a script into the workspace, where it travels; returns its name for `--model`.
fn script(test_ws: &TestWorkspace, name: &str, lines: &[Value]) -> String {
    let text: String = lines.iter().map(|it| format!("{it}\n")).collect();
    test_ws.put(name, text);
    format!("script:{name}")
}

fn calls(tool: &str, arguments: &Value) -> Value {
    json!({"say": "", "calls": [{"tool": tool, "arguments": arguments}]})
}

fn shell(command: &str) -> Value {
    calls("shell", &json!({"command": command}))
}

fn says(text: &str) -> Value {
    json!({ "say": text })
}

/// A running `haft worker`. It is killed when this is dropped.
struct Worker {
    child: Child,
    lines: Receiver<String>,
    id: String,
}

impl Worker {
    /// Starts a worker with the workspace's state and configuration, and waits until it takes work.
    fn start(test_ws: &TestWorkspace, arguments: &[&str]) -> Self {
        Self::start_with(test_ws, &test_ws.config(), arguments)
    }

    /// Does the same with another configuration.
    fn start_with(test_ws: &TestWorkspace, config: &std::path::Path, arguments: &[&str]) -> Self {
        Self::start_broken(test_ws, config, arguments, "")
    }

    /// Does the same with a deliberate fault.
    fn start_broken(
        test_ws: &TestWorkspace,
        config: &std::path::Path,
        arguments: &[&str],
        fault: &str,
    ) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_haft"));
        command
            .env_clear()
            .env("HAFT_STATE_DIR", test_ws.state())
            .env("HAFT_CONFIG_DIR", config)
            .env("HAFT_BREAK", fault)
            .env("HOME", test_ws.base().join("home"))
            .current_dir(test_ws.base().join("home"))
            .arg("worker")
            .args(arguments)
            .stdin(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = lines_of(child.stderr.take().unwrap());
        let mut worker = Self { child, lines, id: String::new() };
        let line = worker.until("takes work");
        worker.id = line.split(' ').nth(2).unwrap().to_owned();
        worker
    }

    /// Waits for a line of standard error with this text.
    fn until(&self, text: &str) -> String {
        until(&self.lines, text)
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the end of the process; returns its exit code.
    fn ended(&mut self) -> Option<i32> {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(began.elapsed() < TIMEOUT, "the worker did not end");
            std::thread::sleep(LOOK);
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A command that runs beside the test.
struct Running {
    child: Child,
    out: Receiver<String>,
    err: Receiver<String>,
}

impl Running {
    fn start(test_ws: &TestWorkspace, arguments: &[&str]) -> Self {
        let mut command = test_ws.haft(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let out = lines_of(child.stdout.take().unwrap());
        let err = lines_of(child.stderr.take().unwrap());
        Self { child, out, err }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for its end.
    fn ended(mut self) -> Ran {
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        let all = |lines: &Receiver<String>| lines.iter().map(|it| it + "\n").collect();
        Ran { code, out: all(&self.out), err: all(&self.err) }
    }
}

impl Drop for Running {
    /// A test that failed leaves nothing behind.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines_of(stream: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (tell, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if tell.send(line).is_err() {
                break;
            }
        }
    });
    lines
}

fn until(lines: &Receiver<String>, text: &str) -> String {
    let mut seen = Vec::new();
    loop {
        let line = lines.recv_timeout(TIMEOUT).unwrap_or_else(|_| panic!("no line with {text:?}: {seen:#?}"));
        if line.contains(text) {
            return line;
        }
        seen.push(line);
    }
}

/// Waits until this is so.
fn becomes(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < TIMEOUT, "never: {what}");
        std::thread::sleep(LOOK);
    }
}

/// Returns the workspaces that the workers have made and not removed yet.
fn workspaces(test_ws: &TestWorkspace) -> Vec<PathBuf> {
    let list = |folder: PathBuf| {
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|it| it.path()).collect::<Vec<_>>()
    };
    let workers = list(test_ws.state().join("workers"));
    let works = workers.into_iter().filter(|it| !it.ends_with("contents")).flat_map(list);
    works.map(|it| it.join("workspace")).filter(|it| it.is_dir()).collect()
}

/// Returns the ids of the processes whose command line contains this text.
fn processes(text: &str) -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let ids = entries.filter_map(|it| it.file_name().to_str()?.parse::<i32>().ok());
    let has = |id: &i32| {
        let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).replace('\0', " ").contains(text)
    };
    ids.filter(has).collect()
}
