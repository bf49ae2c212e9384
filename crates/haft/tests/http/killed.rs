//! Jobs of an HTTP server that is killed: they are there again after a restart.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, ChildStdout, Stdio},
};

use serde_json::{Value, json};

use super::support::{ANN, BOB, TestWorkspace, initialize};

/// The commands of a job that writes two lines.
const SAID: &str = "echo one; echo two";

#[test]
fn client_that_reconnects_with_its_token_finds_its_jobs() {
    let test_ws = TestWorkspace::new();
    let http_server = test_ws.open();
    let session = http_server.begin(ANN);
    http_server.call(
        ANN,
        &session,
        "shell",
        json!({"command": format!("{SAID}; exit 3"), "run_in_background": true}),
    );
    let waited = http_server.call(ANN, &session, "wait", json!({"job": "job_1"}));
    assert!(waited.contains("exit 3"), "{waited}");
    // The title of a job is its command, which must not contain what the job writes.
    let long = "seq 1 20000; echo la''st; exec sleep 1000";
    http_server.call(ANN, &session, "shell", json!({"command": long, "run_in_background": true}));
    // Another session of hers sees what is on disk: this is the event to wait for.
    let other = http_server.begin(ANN);
    while !http_server.call(ANN, &other, "read_job", json!({"job": "job_2"})).contains("last") {}
    http_server.kill();

    let http_server = test_ws.open();
    let session = http_server.begin(ANN);
    let jobs = http_server.call(ANN, &session, "jobs", json!({}));
    assert!(jobs.contains("job_1") && jobs.contains("exit 3") && jobs.contains("job_2"), "{jobs}");
    let done = http_server.call(ANN, &session, "read_job", json!({"job": "job_1"}));
    assert!(done.contains("one\ntwo") && done.contains("exit 3"), "{done}");
    let lost = http_server.call(ANN, &session, "read_job", json!({"job": "job_2"}));
    assert!(lost.contains("lost") && lost.contains("last"), "{lost}");
    let next =
        http_server.call(ANN, &session, "shell", json!({"command": "echo x", "run_in_background": true}));
    assert!(next.contains("job_3"), "the numbers count on: {next}");
    let bob = http_server.begin(BOB);
    assert_eq!(http_server.call(BOB, &bob, "jobs", json!({})), "no jobs");
}

/// `haft mcp` on standard input and output.
struct Pipes {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Pipes {
    fn start(test_ws: &TestWorkspace) -> Self {
        let mut child = test_ws
            .haft()
            .args(["--session", "work", "mcp"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut this = Self { child, input, output };
        this.send(&initialize());
        this.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        this
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input, "{message}").unwrap();
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> String {
        self.send(&json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}));
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "it has ended");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == 5 {
                return message["result"]["content"][0]["text"].as_str().unwrap().to_owned();
            }
        }
    }
}

impl Drop for Pipes {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn named_session_finds_its_jobs_after_a_kill() {
    let test_ws = TestWorkspace::new();
    let mut first = Pipes::start(&test_ws);
    first.call("shell", &json!({"command": format!("{SAID}; exit 3"), "run_in_background": true}));
    first.call("wait", &json!({"job": "job_1"}));
    first.call("shell", &json!({"command": "echo be''gan; exec sleep 1000", "run_in_background": true}));
    // Another process with the same session reads what is on disk, also the output of the job.
    let mut other = Pipes::start(&test_ws);
    while !other.call("read_job", &json!({"job": "job_2"})).contains("began") {}
    drop(first);
    let lost = loop {
        let read = other.call("read_job", &json!({"job": "job_2"}));
        if !read.contains("running") {
            break read;
        }
    };
    assert!(lost.contains("lost") && lost.contains("began"), "{lost}");
    let mut second = Pipes::start(&test_ws);
    // It looks after what dead processes left beside everything else.
    let jobs = loop {
        let jobs = second.call("jobs", &json!({}));
        if !jobs.contains("running") {
            break jobs;
        }
    };
    assert!(jobs.contains("job_1  done exit 3") && jobs.contains("job_2  error"), "{jobs}");
    assert!(second.call("read_job", &json!({"job": "job_1"})).contains("one\ntwo"));
}
