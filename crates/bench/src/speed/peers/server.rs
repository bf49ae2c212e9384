//! A server of MCP over stdio, of whatever make.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use serde_json::{Value, json};

use super::super::{Trouble, process::greetings};
use crate::growth::server::{memory, tree};

/// A running server, killed with what it started when this is dropped.
pub(super) struct Server {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    line: String,
    next: u64,
}

impl Server {
    pub(super) fn start(mut command: Command) -> Result<Self, Trouble> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let input = child.stdin.take().ok_or("no input")?;
        let output = BufReader::new(child.stdout.take().ok_or("no output")?);
        Ok(Self { child, input, output, line: String::new(), next: 0 })
    }

    /// Sends `initialize`, and waits for the answer.
    pub(super) fn initialize(&mut self) -> Result<(), Trouble> {
        let [(method, params), _] = greetings();
        self.ask(method, &params).map(drop)
    }

    /// Ends the handshake, and takes the list of tools, as every client does.
    pub(super) fn list(&mut self) -> Result<usize, Trouble> {
        writeln!(self.input, "{}", json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        self.ask("tools/list", &json!({}))
    }

    /// Returns the number of bytes of the answer, once it is complete; an error is one.
    ///
    /// The answer is found by its id as text: parsing it is the client's work and would count.
    pub(super) fn ask(&mut self, method: &str, params: &Value) -> Result<usize, Trouble> {
        self.next += 1;
        let id = self.next;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.input.write_all(format!("{request}\n").as_bytes())?;
        loop {
            self.line.clear();
            if self.output.read_line(&mut self.line)? == 0 {
                return Err(format!("it ended at {method}").into());
            }
            if self.line.contains(&format!("\"id\":{id}")) && !self.line.contains("\"method\":") {
                break;
            }
        }
        let is_error = self.line.contains("\"isError\":true") || self.line.starts_with("{\"error\":");
        if is_error || self.line.contains("\"error\":{\"code\"") {
            return Err(format!("to {method} it answered {}", self.line.trim()).into());
        }
        Ok(self.line.len())
    }

    /// Returns the memory of its processes in bytes: of what they share with others, their part.
    pub(super) fn memory(&self) -> u64 {
        memory(&tree(self.child.id())) * 1024
    }

    /// Returns the texts that the model is given by the last answer.
    pub(super) fn texts(&self) -> Result<String, Trouble> {
        let answer: Value = serde_json::from_str(&self.line)?;
        let content = answer.pointer("/result/content").and_then(Value::as_array).into_iter().flatten();
        let texts: Vec<&str> = content.filter_map(|it| it.get("text")?.as_str()).collect();
        Ok(texts.join("\n"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for pid in tree(self.child.id()).into_iter().skip(1) {
            if let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) {
                // It may have ended already.
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
