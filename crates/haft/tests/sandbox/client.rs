//! The built program, run as one user: single commands, and `haft mcp` with one call at a time.

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, ChildStdin, Command, Output, Stdio},
    sync::mpsc::{Receiver, channel},
    time::Duration,
};

use serde_json::{Value, json};

use crate::support::{ORDINARY, User, World};

/// Long enough for the slowest machine.
const TIMEOUT: Duration = Duration::from_secs(60);

impl World {
    /// `haft` in this folder, as the user of this world.
    pub(crate) fn haft(&self, folder: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.base.join("bin/haft"));
        command
            .env_clear()
            .env("HOME", self.base.join("home"))
            .env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin")
            .env("HAFT_STATE_DIR", self.base.join("state"))
            .env("HAFT_CONFIG_DIR", self.base.join("config"))
            .current_dir(folder)
            .args(arguments)
            .stdin(Stdio::null());
        if self.user == User::Ordinary {
            command.uid(ORDINARY).gid(ORDINARY);
        }
        command
    }

    /// Replaces the person's own configuration.
    pub(crate) fn configure(&self, text: &str) {
        std::fs::write(self.base.join("config/haft.toml"), text).unwrap();
    }
}

/// Standard output and standard error of a command, as text.
pub(crate) fn said(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// A client of `haft mcp`.
pub(crate) struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Value>,
    id: u64,
}

impl Client {
    pub(crate) fn start(world: &World) -> Self {
        let ws = world.base.join("ws");
        let mut command = world.haft(&ws, &["--dir", ".", "mcp", "--all-tools"]);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (to, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let _ = serde_json::from_str(&line).map(|it| to.send(it));
            }
        });
        let mut client = Self { stdin: child.stdin.take(), child, lines, id: 0 };
        let about = json!({"protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"}});
        let id = client.ask("initialize", &about);
        client.answer(id);
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    fn ask(&mut self, method: &str, params: &Value) -> u64 {
        self.id += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params}));
        self.id
    }

    fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.lines.recv_timeout(TIMEOUT).unwrap();
            if message["id"] == id {
                return message;
            }
        }
    }

    /// Calls a tool; returns its text, also if it failed.
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> String {
        let id = self.ask("tools/call", &json!({"name": tool, "arguments": arguments}));
        let answer = self.answer(id);
        let parts = answer["result"]["content"].as_array().unwrap_or_else(|| panic!("{answer}")).clone();
        parts.iter().filter_map(|it| it["text"].as_str()).collect::<Vec<_>>().join("\n")
    }

    pub(crate) fn shell(&mut self, command: &str) -> String {
        self.call("shell", &json!({"command": command}))
    }

    /// Starts a command that continues as a job; returns the job's id.
    pub(crate) fn job(&mut self, command: &str) -> String {
        let said = self.call("shell", &json!({"command": command, "wait_ms": 0}));
        let start = said.find("job_").unwrap_or_else(|| panic!("{said}"));
        said[start..].chars().take_while(|it| it.is_alphanumeric() || *it == '_').collect()
    }

    /// Kills haft, which can do nothing about it.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}
