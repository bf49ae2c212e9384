//! A client of `haft mcp` with many concurrent requests.

use std::{
    collections::HashMap,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    thread::{self, JoinHandle},
};

use serde_json::{Value, json};

use super::{TIMEOUT, TestWorkspace};

/// A running `haft mcp`. It is killed if it is not ended.
pub(crate) struct Server {
    child: Mutex<Child>,
    input: Mutex<Option<ChildStdin>>,
    last_id: AtomicU64,
    received: Arc<Received>,
    output_ended: Mutex<Receiver<()>>,
    errors: Option<JoinHandle<String>>,
}

/// Messages read from its output.
#[derive(Default)]
struct Received {
    /// Requests that wait for an answer; `None` once the output has ended.
    waiting: Mutex<Option<HashMap<u64, Sender<Value>>>>,
    /// Messages that nobody waits for, and lines that are not messages.
    other: Mutex<Vec<String>>,
}

/// An answer that is on its way.
pub(crate) struct Pending {
    id: u64,
    answer: Receiver<Value>,
}

/// The result of a tool.
#[derive(Debug, Clone)]
pub(crate) struct CallResult {
    pub(crate) text: String,
    pub(crate) is_error: bool,
}

impl TestWorkspace {
    /// Starts an initialized server.
    pub(crate) fn serve(&self) -> Server {
        self.serve_with(&[])
    }

    pub(crate) fn serve_with(&self, options: &[&str]) -> Server {
        Server::start(self, options).greeted()
    }
}

impl Server {
    /// The same once it knows its client.
    pub(crate) fn greeted(self) -> Self {
        let client = json!({"name": "test", "version": "1"});
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
        let answer = self.ask("initialize", &params).wait().unwrap();
        assert_eq!(answer["result"]["serverInfo"]["name"], "haft", "{answer}");
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
        self
    }

    /// Starts a server that has received no message yet.
    pub(crate) fn start(test_ws: &TestWorkspace, options: &[&str]) -> Self {
        Self::spawn(&mut test_ws.haft(&[options, &["mcp"]].concat()))
    }

    /// The same by a command that starts one.
    pub(crate) fn spawn(command: &mut Command) -> Self {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let received =
            Arc::new(Received { waiting: Mutex::new(Some(HashMap::new())), other: Mutex::default() });
        let (ended, output_ended) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        let to = Arc::clone(&received);
        thread::spawn(move || {
            for line in output.split(b'\n') {
                // The last line of a process that was killed may be cut short.
                let Ok(line) = line else { break };
                to.line(&String::from_utf8_lossy(&line));
            }
            to.waiting.lock().unwrap().take();
            let _ = ended.send(());
        });
        let mut stderr = child.stderr.take().unwrap();
        let errors = thread::spawn(move || {
            let mut text = String::new();
            stderr.read_to_string(&mut text).unwrap();
            text
        });
        Self {
            input: Mutex::new(child.stdin.take()),
            child: Mutex::new(child),
            last_id: AtomicU64::new(0),
            received,
            output_ended: Mutex::new(output_ended),
            errors: Some(errors),
        }
    }

    /// Sends a line as it is. What a server that was killed can't take is lost.
    pub(crate) fn send(&self, line: &str) {
        self.send_bytes(format!("{line}\n").as_bytes());
    }

    /// The same for what need not be text.
    pub(crate) fn send_bytes(&self, bytes: &[u8]) {
        if let Some(input) = &mut *self.input.lock().unwrap() {
            let _ = input.write_all(bytes);
        }
    }

    /// Sends a request.
    pub(crate) fn ask(&self, method: &str, params: &Value) -> Pending {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let pending = self.expect(id);
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
        pending
    }

    /// Returns the pending answer of a request with this id.
    pub(crate) fn expect(&self, id: u64) -> Pending {
        let (sender, answer) = channel();
        if let Some(waiting) = &mut *self.received.waiting.lock().unwrap() {
            waiting.insert(id, sender);
        }
        Pending { id, answer }
    }

    /// Sends a call; others may be sent before it is answered.
    pub(crate) fn start_call(&self, tool: &str, arguments: &Value) -> Pending {
        self.ask("tools/call", &json!({"name": tool, "arguments": arguments}))
    }

    pub(crate) fn call(&self, tool: &str, arguments: &Value) -> CallResult {
        self.start_call(tool, arguments).result().unwrap_or_else(|| panic!("the server died at `{tool}`"))
    }

    /// Calls that must work.
    #[track_caller]
    pub(crate) fn does(&self, tool: &str, arguments: &Value) -> String {
        let said = self.call(tool, arguments);
        assert!(!said.is_error, "{tool} {arguments}: {}", said.text);
        said.text
    }

    pub(crate) fn process(&self) -> u32 {
        self.child.lock().unwrap().id()
    }

    /// Returns its peak memory, in MiB.
    pub(crate) fn peak_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() / 1024
    }

    /// Returns its messages that answer no request, and forgets them.
    pub(crate) fn take_other(&self) -> Vec<String> {
        std::mem::take(&mut *self.received.other.lock().unwrap())
    }

    /// Kills it, as `kill -9` does.
    pub(crate) fn kill(&self) {
        let mut child = self.child.lock().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Ends its input, and waits for its end. Returns its exit status, and its standard error. All its standard output
    /// must have been messages.
    pub(crate) fn finish(mut self) -> (ExitStatus, String) {
        drop(self.input.lock().unwrap().take());
        let ended = self.output_ended.lock().unwrap().recv_timeout(TIMEOUT);
        ended.unwrap_or_else(|_| panic!("it goes on without input"));
        let status = self.child.lock().unwrap().wait().unwrap();
        let mut other = self.received.other.lock().unwrap().clone();
        // Notifications may come at any time.
        other.retain(|line| !line.contains(r#""method":"notifications/"#));
        assert!(other.is_empty(), "nobody asked for {other:?}");
        (status, self.errors.take().unwrap().join().unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A panic here, while a test fails, would end all tests of this process.
        if let Ok(mut child) = self.child.lock() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Received {
    fn line(&self, line: &str) {
        let message: Option<Value> =
            serde_json::from_str(line).ok().filter(|it: &Value| it["jsonrpc"] == "2.0");
        let waiting = message
            .as_ref()
            .and_then(|it| it["id"].as_u64())
            .and_then(|id| self.waiting.lock().unwrap().as_mut().and_then(|waiting| waiting.remove(&id)));
        match (message, waiting) {
            (Some(message), Some(waiting)) => drop(waiting.send(message)),
            _ => self.other.lock().unwrap().push(line.to_owned()),
        }
    }
}

impl Pending {
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Waits for the whole answer; returns `None` if the server ended without one.
    pub(crate) fn wait(self) -> Option<Value> {
        match self.answer.recv_timeout(TIMEOUT) {
            Ok(answer) => Some(answer),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => None,
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("request {} has no answer", self.id),
        }
    }

    /// Returns the tool's result; `None` if the server ended before.
    pub(crate) fn result(self) -> Option<CallResult> {
        let answer = self.wait()?;
        let result = &answer["result"];
        let parts = result["content"].as_array().unwrap_or_else(|| panic!("no result of a call: {answer}"));
        let text: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
        Some(CallResult { text: text.join("\n"), is_error: result["isError"] == true })
    }
}
