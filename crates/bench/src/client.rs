//! An MCP client over stdio, for servers of any make.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::{
    batch::Outcome,
    processes::{memory, resident, tree},
};

/// Returns the client's first request in both lifecycles: its method and parameters.
#[must_use]
pub fn greetings() -> [(&'static str, Value); 2] {
    let client = json!({"name": "bench", "version": "1"});
    let legacy = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
    let modern = json!({"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": client, "io.modelcontextprotocol/clientCapabilities": {}}});
    [("initialize", legacy), ("server/discover", modern)]
}

/// A running server; it is killed with all processes below it when this is dropped.
#[derive(Debug)]
pub struct Client {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    line: String,
    next: u64,
}

impl Client {
    /// Starts a server.
    ///
    /// # Errors
    /// When the program can't be started.
    pub fn start(mut command: Command) -> Outcome<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().ok_or("no output")?);
        Ok(Self { child, input, output, line: String::new(), next: 0 })
    }

    /// Sends `initialize`, and waits for the answer.
    ///
    /// # Errors
    /// Those of [`ask`](Self::ask).
    pub fn initialize(&mut self) -> Outcome<()> {
        let [(method, params), _] = greetings();
        self.ask(method, &params).map(drop)
    }

    /// Does the whole handshake; calls may follow.
    ///
    /// # Errors
    /// Those of [`ask`](Self::ask).
    pub fn greet(&mut self) -> Outcome<()> {
        self.initialize()?;
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
    }

    /// Sends a request as it is, and returns the next line, whatever its id: an echo is an answer as well.
    ///
    /// # Errors
    /// When the server ends, or answers with an error.
    pub fn exchange(&mut self, request: &Value) -> Outcome<&str> {
        self.send(request)?;
        self.receive()?;
        self.no_error(request)
    }

    /// Sends a request with an id of its own, and returns its answer.
    ///
    /// # Errors
    /// When the server ends, or answers with an error; that a tool failed is one.
    pub fn ask(&mut self, method: &str, params: &Value) -> Outcome<&str> {
        let request = self.request(method, params)?;
        self.no_error(&request)
    }

    /// Calls a tool; returns its text, and whether it succeeded.
    ///
    /// # Errors
    /// When the server ends, or answers without a result.
    pub fn call(&mut self, tool: &str, arguments: &Value) -> Outcome<(String, bool)> {
        self.request("tools/call", &json!({"name": tool, "arguments": arguments}))?;
        Ok((self.texts()?, !self.line.contains(FAILED)))
    }

    /// Returns the texts for the model in the last answer.
    ///
    /// # Errors
    /// When it has no result.
    pub fn texts(&self) -> Outcome<String> {
        let answer: Value = serde_json::from_str(&self.line)?;
        let result = answer.get("result").ok_or_else(|| self.line.clone())?;
        let content = result.get("content").and_then(Value::as_array).into_iter().flatten();
        let texts: Vec<&str> = content.filter_map(|it| it.get("text")?.as_str()).collect();
        Ok(texts.join("\n"))
    }

    /// Returns the process id of the server.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the ids of the server and of all processes below it.
    #[must_use]
    pub fn tree(&self) -> Vec<u32> {
        tree(self.child.id())
    }

    /// Returns the memory (PSS) of the server and of all processes below it, in bytes.
    #[must_use]
    pub fn memory(&self) -> u64 {
        memory(&self.tree()) * 1024
    }

    /// Returns the resident memory of the server alone, in bytes.
    ///
    /// # Errors
    /// When it has ended.
    pub fn resident(&self) -> Outcome<u64> {
        resident(self.child.id())
    }

    /// Closes the input of the server, and waits until it has ended by itself.
    ///
    /// # Errors
    /// When it can't be waited for.
    pub fn close(mut self) -> Outcome<()> {
        drop(self.input.take());
        self.child.wait()?;
        Ok(())
    }

    /// Sends a request, and reads lines up to its answer, which is found by its id as text: parsing it is the client's
    /// work and would count.
    fn request(&mut self, method: &str, params: &Value) -> Outcome<Value> {
        self.next += 1;
        let request = json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params});
        let id = format!("\"id\":{}", self.next);
        self.send(&request)?;
        loop {
            self.receive()?;
            if self.line.contains(&id) && !self.line.contains("\"method\":") {
                return Ok(request);
            }
        }
    }

    fn send(&mut self, message: &Value) -> Outcome<()> {
        // In one piece: the server does not wait for more.
        let line = format!("{message}\n");
        self.input.as_mut().ok_or("no input")?.write_all(line.as_bytes())?;
        Ok(())
    }

    fn receive(&mut self) -> Outcome<()> {
        self.line.clear();
        match self.output.read_line(&mut self.line)? {
            0 => Err("the server ended".into()),
            _ => Ok(()),
        }
    }

    fn no_error(&self, request: &Value) -> Outcome<&str> {
        let is_error = self.line.contains(FAILED) || self.line.starts_with("{\"error\":");
        if is_error || self.line.contains("\"error\":{\"code\"") {
            return Err(format!("to {request} it answered {}", self.line.trim()).into());
        }
        Ok(&self.line)
    }
}

/// The mark of the result of a tool that failed. In a text its quotes would be escaped.
const FAILED: &str = "\"isError\":true";

impl Drop for Client {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        let below = self.tree();
        // Any of them may have ended already.
        let _ = self.child.kill();
        for pid in below.into_iter().skip(1) {
            if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        let _ = self.child.wait();
    }
}
