//! The program: its start, its memory, a call through its pipes.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{Aim, Amount, Comparison, Row, Scratch, Trouble, in_turn, timed};
use crate::client::{Client, greetings};

pub(super) const STARTS: usize = 30;
pub(super) const CALLS: usize = 2_000;

/// Measures the time from the start of a process to its first answer.
pub(super) fn start(scratch: &Scratch) -> Result<Vec<Row>, Trouble> {
    let place = Place::new(scratch)?;
    let mut rows = Vec::new();
    let echo = "cat, which echoes one line";
    let [legacy, modern] = greetings();
    let editor = json!({"protocolVersion": 1, "clientCapabilities": {"fs": {"readTextFile": true}},
        "clientInfo": {"name": "speed", "version": "1"}});
    let of = |verb, (method, params)| (verb, method, params);
    for (verb, method, params) in [of("mcp", legacy), of("mcp", modern), ("acp", "initialize", editor)] {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let [ours, cat] = in_turn(
            STARTS,
            [&mut || first_answer(place.command(&[verb]), &request), &mut || {
                first_answer(Command::new("cat"), &request)
            }],
        )?;
        let aim = Aim::Under(Amount::Time(Duration::from_millis(10)));
        rows.push(ours.row(format!("start of `haft {verb}` to `{method}`"), cat.comparison(echo), Some(aim)));
    }
    let read = ["call", "read", r#"{"path": "small.rs"}"#];
    let [ours, cat] = in_turn(
        STARTS,
        [&mut || run(place.command(&read)), &mut || {
            let mut cat = Command::new("cat");
            cat.arg(place.workspace.join("small.rs"));
            run(cat)
        }],
    )?;
    rows.push(ours.row("`haft call read`, a whole process", cat.comparison("cat FILE, a process"), None));
    Ok(rows)
}

/// Measures a call and its answer, through pipes.
pub(super) fn stdio(scratch: &Scratch) -> Result<Vec<Row>, Trouble> {
    let place = Place::new(scratch)?;
    let mut server = Client::start(place.command(&["mcp"]))?;
    server.greet()?;
    let mut echo = Client::start(Command::new("cat"))?;
    let call = call("read", &json!({"path": "small.rs"}));
    let [ours, cat] =
        in_turn(CALLS, [&mut || timed(|| server.exchange(&call)), &mut || timed(|| echo.exchange(&call))])?;
    Ok(vec![ours.row(
        "`read` of 40 lines, through pipes",
        cat.comparison("cat, which echoes the request"),
        None,
    )])
}

/// Measures the memory of the program after a little work.
pub(super) fn memory(scratch: &Scratch) -> Result<Vec<Row>, Trouble> {
    let place = Place::new(scratch)?;
    let mut server = Client::start(place.command(&["mcp"]))?;
    server.greet()?;
    let fresh = Amount::Bytes(server.resident()?);
    server.exchange(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}))?;
    for turn in 0..5 {
        let (old, new) = (format!("// {turn}"), format!("// {}", turn + 1));
        server.exchange(&call("read", &json!({"path": "small.rs"})))?;
        server.exchange(&call("grep", &json!({"pattern": "value"})))?;
        server.exchange(&call("glob", &json!({"pattern": "**/*.rs"})))?;
        server.exchange(&call("edit", &json!({"path": "turns.rs", "old": old, "new": new})))?;
    }
    let after = Amount::Bytes(server.resident()?);
    let aim = Some(Aim::Under(Amount::Bytes(15_000_000)));
    let comparison = Comparison::Measured("the same just after `initialize`".to_owned(), fresh);
    Ok(vec![Row {
        what: "memory of `haft mcp` after 20 calls".to_owned(),
        ours: after,
        p95: None,
        comparison,
        aim,
    }])
}

pub(super) fn call(tool: &str, arguments: &Value) -> Value {
    let params = json!({"name": tool, "arguments": arguments});
    json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": params})
}

/// Runs a process to its end, which must be good.
pub(super) fn run(mut command: Command) -> Result<Duration, Trouble> {
    timed(|| {
        let output = command.stdin(Stdio::null()).output()?;
        if output.status.success() { Ok(()) } else { Err(format!("{command:?}: {output:?}").into()) }
    })
}

/// The program, and a workspace for it.
pub(super) struct Place {
    haft: PathBuf,
    workspace: PathBuf,
    state: PathBuf,
}

impl Place {
    pub(super) fn new(scratch: &Scratch) -> Result<Self, Trouble> {
        Self::named(scratch, "process")
    }

    /// Creates a workspace of this name, with state of its own.
    pub(super) fn named(scratch: &Scratch, name: &str) -> Result<Self, Trouble> {
        let haft = match std::env::var_os("HAFT_BIN") {
            Some(given) => PathBuf::from(given),
            None => scratch.target.join("release/haft"),
        };
        if !haft.exists() {
            let what = format!("there is no `{}`; cargo build --release -p haft", haft.display());
            return Err(what.into());
        }
        let workspace = scratch.folder(name)?;
        fs::write(workspace.join("small.rs"), (1..=40).map(super::line).collect::<String>())?;
        fs::write(workspace.join("turns.rs"), "// 0\n")?;
        Ok(Self { haft, workspace, state: scratch.folder(&format!("{name}-state"))? })
    }

    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.haft);
        command
            .args(arguments)
            .current_dir(&self.workspace)
            .env("HAFT_STATE_DIR", &self.state)
            .env("HAFT_CONFIG_DIR", self.state.join("config"));
        command
    }
}

/// Returns the time from the start of a process to its answer to this request.
pub(super) fn first_answer(command: Command, request: &Value) -> Result<Duration, Trouble> {
    let began = Instant::now();
    let mut server = Client::start(command)?;
    server.exchange(request)?;
    let took = began.elapsed();
    // Its end is not part of its start.
    server.close()?;
    Ok(took)
}
