//! haft over MCP beside the servers that a user would pick instead, each called as clients call.
//!
//! A client waits between two calls, for its model: it finds sleeping threads and cold caches. All contestants
//! are called in turn, with a pause before each call, and do the same work on the same files.

mod context;
mod first;
mod http;
mod install;
mod tasks;

use std::{
    fs,
    io::{self, Write as _},
    path::PathBuf,
    process::{Command, Stdio},
    thread::sleep,
    time::Duration,
};

use serde_json::{Value, json};

use self::{
    install::Peer,
    tasks::{Task, Who, Workspace, durable_write},
};
use super::{Aim, Amount, Comparison, Row, Scratch, Times, Trouble, mcp, process::run, timed};
use crate::{client::Client, tool_file::shout};

/// The pause before each call.
const PAUSE: Duration = Duration::from_millis(10);
const CALLS: usize = 80;
const STARTS: usize = 20;
/// How long a server rests before its memory is measured.
const REST: Duration = Duration::from_secs(5);

/// The names of these benchmarks, which need `--peers`.
pub const PEERS: [(&str, super::Measure); 6] = [
    ("initialize", initialize),
    ("calls", calls),
    ("first-calls", first::rows),
    ("idle-memory", memory),
    ("context", context::rows),
    ("http", http::rows),
];

/// The programs that are measured, and their files.
struct Site {
    haft: PathBuf,
    /// haft of the other profile, if there is one.
    release: Option<PathBuf>,
    echo: PathBuf,
    peers: PathBuf,
    home: PathBuf,
    workspace: Workspace,
}

impl Site {
    fn new(scratch: &Scratch, name: &str) -> Result<Self, Trouble> {
        let release = scratch.target.join("release/haft");
        let haft = std::env::var_os("HAFT_BIN").map_or_else(|| release.clone(), PathBuf::from);
        if !haft.exists() {
            return Err(format!("there is no `{}`; cargo build --release -p haft", haft.display()).into());
        }
        let home = scratch.folder(&format!("peers-{name}-home"))?;
        fs::create_dir_all(home.join("config/tools"))?;
        fs::write(home.join("config/tools/shout.py"), shout("shout"))?;
        Ok(Self {
            release: (release != haft && release.exists()).then_some(release),
            haft,
            echo: mcp::compiled(scratch)?,
            peers: scratch.target.join("peers"),
            home,
            workspace: Workspace::new(scratch.folder(&format!("peers-{name}"))?)?,
        })
    }

    /// Returns the command that starts a contestant, which serves over stdio.
    fn command(&self, who: Who) -> Result<Command, Trouble> {
        let haft = match who {
            Who::Haft => &self.haft,
            Who::Release => self
                .release
                .as_ref()
                .ok_or("haft of the release profile is not built; cargo build --release -p haft")?,
            Who::Floor => return Ok(quiet(Command::new(&self.echo))),
            Who::Peer(peer) => return peer.command(&self.peers, &self.workspace.folder).map(quiet),
        };
        Ok(quiet(self.haft(haft, &["mcp"])))
    }

    /// Returns a command of haft in the workspace.
    fn haft(&self, haft: &PathBuf, arguments: &[&str]) -> Command {
        let mut command = Command::new(haft);
        command
            .args(arguments)
            .current_dir(&self.workspace.folder)
            .env("HAFT_STATE_DIR", self.home.join("state"))
            .env("HAFT_CONFIG_DIR", self.home.join("config"));
        command
    }

    /// Returns all contestants that can be started. Why another one can't be is printed.
    fn contestants(&self) -> Vec<Who> {
        self.among(&Peer::ALL)
    }

    /// Returns haft, the floor and those of these peers that can be started. Why another one can't be is printed.
    fn among(&self, peers: &[Peer]) -> Vec<Who> {
        let release = self.release.is_some().then_some(Who::Release);
        let peers = peers.iter().copied().map(Who::Peer);
        let all = [Who::Haft, Who::Floor].into_iter().chain(release).chain(peers);
        all.filter(|who| match self.command(*who) {
            Ok(_) => true,
            Err(why) => {
                // The table has a row without it; a closed error output changes nothing about that.
                let _ = writeln!(io::stderr(), "{} is left out: {why}", who.name());
                false
            }
        })
        .collect()
    }

    /// Starts a contestant, which is then ready for calls.
    fn server(&self, who: Who) -> Result<Client, Trouble> {
        let mut server = Client::start(self.command(who)?)?;
        server.greet()?;
        // As every client does.
        server.ask("tools/list", &json!({}))?;
        Ok(server)
    }
}

/// Returns a command without error output: the table alone is shown.
fn quiet(mut command: Command) -> Command {
    command.stderr(Stdio::null());
    command
}

/// The times of each contestant.
type Measured = Vec<(Who, Times)>;

/// Measures all sides in turn, each after a pause. The first round only warms up.
fn in_turn(
    runs: usize,
    whos: &[Who],
    mut side: impl FnMut(Who, usize) -> Result<Duration, Trouble>,
) -> Result<Measured, Trouble> {
    let mut times: Vec<(Who, Vec<Duration>)> = whos.iter().map(|who| (*who, Vec::new())).collect();
    for run in 0..=runs {
        for (who, times) in &mut times {
            sleep(PAUSE);
            let took = side(*who, run).map_err(|error| format!("{}: {error}", who.name()))?;
            if run > 0 {
                times.push(took);
            }
        }
    }
    Ok(times.into_iter().map(|(who, times)| (who, Times::new(times))).collect())
}

/// Returns the rows of a task: haft beside the floor, the best peer, and its other profile.
fn beside(what: &str, times: &Measured, floor: &str, aims: Aims) -> Vec<Row> {
    let of = |wanted: fn(Who) -> bool| times.iter().filter(move |(who, _)| wanted(*who));
    let Some((_, ours)) = of(|who| who == Who::Haft).next() else { return Vec::new() };
    let best = of(|who| matches!(who, Who::Peer(_)))
        .min_by(|one, other| one.1.p50().number().total_cmp(&other.1.p50().number()));
    let mut rows = Vec::new();
    for (_, least) in of(|who| who == Who::Floor) {
        rows.push(ours.row(what, least.comparison(floor), aims.floor));
    }
    match best {
        Some((who, theirs)) => {
            rows.push(ours.row(what, theirs.comparison(format!("the best peer, {}", who.name())), aims.peer));
        }
        None => rows.push(ours.row(what, Comparison::Missing("no peer has it".to_owned()), None)),
    }
    for (who, other) in of(|who| who == Who::Release) {
        rows.push(ours.row(what, other.comparison(who.name()), None));
    }
    rows
}

/// The targets of a task.
#[derive(Debug, Clone, Copy, Default)]
struct Aims {
    floor: Option<Aim>,
    peer: Option<Aim>,
}

impl Aims {
    fn floor(aim: Aim) -> Self {
        Self { floor: Some(aim), peer: None }
    }

    fn peer(aim: Aim) -> Self {
        Self { floor: None, peer: Some(aim) }
    }
}

/// Measures the time from the start of a process to its answer to `initialize`, and whole processes of `haft call`.
fn initialize(scratch: &Scratch) -> Result<Vec<Row>, Trouble> {
    let site = Site::new(scratch, "start")?;
    let mut ended = Vec::new();
    let times = in_turn(STARTS, &site.contestants(), |who, _| {
        // Its end is not part of its start.
        ended.clear();
        let command = site.command(who)?;
        timed(|| {
            let mut server = Client::start(command)?;
            server.initialize()?;
            ended.push(server);
            Ok(())
        })
    })?;
    drop(ended);
    let limit = Aim::Under(Amount::Time(Duration::from_millis(5)));
    let aims = Aims { floor: Some(limit), peer: Some(Aim::Times(1.2)) };
    let mut rows = beside("start to `initialize`", &times, "a server in C, its start", aims);
    for (what, arguments) in [
        ("`haft call read`, a process", ["call", "read", r#"{"path": "small.rs"}"#]),
        ("`haft call shell true`, a process", ["call", "shell", r#"{"command": "true"}"#]),
    ] {
        let whos = [Some(Who::Haft), Some(Who::Floor), site.release.is_some().then_some(Who::Release)];
        let whos: Vec<Who> = whos.into_iter().flatten().collect();
        let times = in_turn(STARTS, &whos, |who, _| match (who, &site.release) {
            (Who::Haft, _) => run(site.haft(&site.haft, &arguments)),
            (Who::Release, Some(haft)) => run(site.haft(haft, &arguments)),
            _ => run(Command::new("true")),
        })?;
        let aim = Aim::Under(Amount::Time(Duration::from_millis(20)));
        rows.extend(beside(what, &times, "fork, exec and wait of `true`", Aims::floor(aim)));
    }
    Ok(rows)
}

/// Measures one call after another, of all contestants.
fn calls(scratch: &Scratch) -> Result<Vec<Row>, Trouble> {
    let site = Site::new(scratch, "calls")?;
    site.workspace.fill()?;
    let whos = site.contestants();
    let mut servers = Vec::new();
    for who in &whos {
        servers.push((*who, site.server(*who)?));
    }
    let tasks = [
        (Task::Ping, Aims::floor(Aim::Times(1.5))),
        (Task::Read, Aims::peer(Aim::Times(1.0))),
        (Task::Range, Aims::peer(Aim::Times(1.0))),
        (Task::Edit, Aims::floor(Aim::Times(2.0))),
        (Task::Search, Aims::peer(Aim::Times(1.0))),
        (Task::Glob, Aims::peer(Aim::Times(1.0))),
        (Task::Shell, Aims::floor(Aim::Times(1.6))),
        (Task::Python, Aims::floor(Aim::Under(Amount::Time(Duration::from_millis(2))))),
        (Task::Own, Aims::floor(Aim::Under(Amount::Time(Duration::from_micros(350))))),
    ];
    let mut rows = Vec::new();
    for (task, aims) in tasks {
        let able: Vec<Who> = whos
            .iter()
            .filter(|who| {
                **who == Who::Floor || task == Task::Ping || who.call(task, &site.workspace, 0).is_some()
            })
            .copied()
            .collect();
        let times = in_turn(CALLS, &able, |who, turn| {
            let server =
                servers.iter_mut().find(|(it, _)| *it == who).map(|(_, server)| server).ok_or("no server")?;
            match (who, task) {
                (Who::Floor, Task::Edit) => timed(|| durable_write(&site.workspace)),
                (Who::Floor, Task::Shell) => run(Command::new("true")),
                _ => {
                    let (method, params) = match who.call(task, &site.workspace, turn) {
                        Some(params) => ("tools/call", params),
                        None => ("ping", Value::Object(serde_json::Map::new())),
                    };
                    timed(|| server.ask(method, &params).map(drop))
                }
            }
        })?;
        let floor = match task {
            Task::Edit => "write, fsync, rename, fsync of 1 MB",
            Task::Shell => "fork, exec and wait of `true`",
            _ => "a server in C, which answers",
        };
        rows.extend(beside(task.name(), &times, floor, aims));
    }
    Ok(rows)
}

/// Measures the memory of servers that rest after the handshake and a read.
fn memory(scratch: &Scratch) -> Result<Vec<Row>, Trouble> {
    let site = Site::new(scratch, "memory")?;
    let mut resting = Vec::new();
    for who in site.contestants() {
        let mut server = site.server(who)?;
        if let Some(params) = who.call(Task::Read, &site.workspace, 0) {
            server.ask("tools/call", &params)?;
        }
        resting.push((who, server));
    }
    sleep(REST);
    let of = |who: Who| {
        resting.iter().find(|(it, _)| *it == who).map(|(_, server)| Amount::Bytes(server.memory()))
    };
    let Some(ours) = of(Who::Haft) else { return Ok(Vec::new()) };
    let least = Peer::ALL
        .into_iter()
        .filter_map(|peer| Some((peer, of(Who::Peer(peer))?)))
        .min_by(|one, other| one.1.number().total_cmp(&other.1.number()));
    let comparison = match least {
        Some((peer, amount)) => Comparison::Measured(format!("the smallest peer, {}", peer.name()), amount),
        None => Comparison::Missing("no peer could be started".to_owned()),
    };
    let aim = Some(Aim::Under(Amount::Bytes(14_000_000)));
    let row =
        |comparison| Row { what: "memory at rest, over MCP".to_owned(), ours, p95: None, comparison, aim };
    let release = of(Who::Release).map(|amount| Comparison::Measured(Who::Release.name().to_owned(), amount));
    Ok([Some(comparison), release].into_iter().flatten().map(row).collect())
}

/// The parameters of a call.
fn call(tool: &str, arguments: &Value) -> Value {
    json!({"name": tool, "arguments": arguments})
}
