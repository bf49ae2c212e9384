//! `haft mcp` over stdio, and the processes below it.

use std::{
    collections::HashMap,
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use serde_json::{Value, json};

use super::Outcome;

/// A server in a workspace, killed with its processes when this is dropped.
pub(super) struct Server {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    next: u64,
}

/// Where a server works.
pub(super) struct Place {
    pub(super) haft: PathBuf,
    pub(super) base: PathBuf,
}

impl Place {
    pub(super) fn new(base: &Path) -> Outcome<Self> {
        let beside = std::env::current_exe()?.with_file_name("haft");
        let haft = std::env::var_os("HAFT_BIN").map_or(beside, PathBuf::from);
        for folder in ["ws", "home", "config/tools"] {
            fs::create_dir_all(base.join(folder))?;
        }
        Ok(Self { haft, base: base.to_owned() })
    }

    pub(super) fn tools(&self) -> PathBuf {
        self.base.join("config/tools")
    }

    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.haft);
        command
            .arg("--dir")
            .arg(self.base.join("ws"))
            .args(arguments)
            .env("HAFT_STATE_DIR", self.base.join("state"))
            .env("HAFT_CONFIG_DIR", self.base.join("config"))
            .env("HOME", self.base.join("home"))
            .stderr(Stdio::null());
        command
    }

    /// Starts a server, and returns it once it has answered `initialize`.
    pub(super) fn server(&self) -> Outcome<Server> {
        let mut child = self.command(&["mcp"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take().ok_or("no input")?;
        let output = BufReader::new(child.stdout.take().ok_or("no output")?);
        let mut server = Server { child, input, output, next: 0 };
        let client = json!({"name": "growth", "version": "1"});
        server.ask(
            "initialize",
            &json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}),
        )?;
        writeln!(server.input, "{}", json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        Ok(server)
    }
}

impl Server {
    /// Returns the result of a request.
    pub(super) fn ask(&mut self, method: &str, params: &Value) -> Outcome<Value> {
        self.next += 1;
        let id = self.next;
        writeln!(self.input, "{}", json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line)? == 0 {
                return Err("the server ended".into());
            }
            let mut message: Value = serde_json::from_str(&line)?;
            if message.get("id") == Some(&json!(id)) && message.get("method").is_none() {
                return message.get_mut("result").map(Value::take).ok_or_else(|| line.into());
            }
        }
    }

    /// Calls a tool; returns its text, and whether it succeeded.
    pub(super) fn call(&mut self, tool: &str, arguments: &Value) -> Outcome<(String, bool)> {
        let result = self.ask("tools/call", &json!({"name": tool, "arguments": arguments}))?;
        let texts = result.get("content").and_then(Value::as_array).into_iter().flatten();
        let text: Vec<&str> = texts.filter_map(|it| it.get("text")?.as_str()).collect();
        Ok((text.join("\n"), result.get("isError") != Some(&Value::Bool(true))))
    }

    /// Returns the ids of the server and of all processes below it.
    pub(super) fn tree(&self) -> Vec<u32> {
        tree(self.child.id())
    }
}

/// Returns the ids of a process and of all processes below it; its own is the first.
pub(crate) fn tree(root: u32) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|it| it.parse().ok()) else { continue };
        if let Some(parent) = field(pid, 1) {
            children.entry(u32::try_from(parent).unwrap_or(0)).or_default().push(pid);
        }
    }
    let (mut found, mut open) = (Vec::new(), vec![root]);
    while let Some(pid) = open.pop() {
        found.push(pid);
        open.extend(children.remove(&pid).into_iter().flatten());
    }
    found
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a field of `/proc/PID/stat`, counted from the state, which is 0.
fn field(pid: u32, number: usize) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(number)?.parse().ok()
}

/// Returns the processor time of these processes, in seconds.
pub(crate) fn cpu(pids: &[u32]) -> f64 {
    let ticks: u64 = pids.iter().filter_map(|pid| Some(field(*pid, 11)? + field(*pid, 12)?)).sum();
    // Linux has 100 of them in a second on every machine that haft runs on.
    ticks as f64 / 100.0
}

/// Returns the memory of these processes in KB: of what they share, each has its part.
pub(crate) fn memory(pids: &[u32]) -> u64 {
    let of_one = |pid: &u32| {
        let about = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
        let line = about.lines().find_map(|line| line.strip_prefix("Pss:"))?;
        line.trim().trim_end_matches(" kB").parse::<u64>().ok()
    };
    pids.iter().filter_map(of_one).sum()
}
