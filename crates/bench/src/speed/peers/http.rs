//! MCP over HTTP with many clients at once: haft, FastMCP, and a server that only answers, each from its start to a
//! rest after the last call.

use std::{
    io::{self, Write as _},
    process::Command,
    thread::sleep,
    time::Duration,
};

use serde_json::json;

use super::{
    super::{
        Aim, Amount, Comparison, Row, Scratch, Trouble,
        http::{CLIENTS, Client, Loaded, Server, echo, load},
    },
    Site,
    install::Peer,
    tasks::{Task, Who},
};

/// One of so many calls is made before the times count; memory is measured before and after the others.
const PART: usize = 10;
/// How long a server rests before its memory is measured for the last time. Its clients stay connected.
const REST: Duration = Duration::from_secs(15);

pub(super) fn rows(scratch: &Scratch) -> Result<Vec<Row>, Trouble> {
    let site = Site::new(scratch, "http")?;
    let plan = Plan::new(scratch.calls);
    let mut runs = Vec::new();
    for who in site.among(&[Peer::FastMcp]) {
        let mut err = io::stderr();
        // A long run shows where it is; a closed error output changes nothing about it.
        let _ = writeln!(err, "http: {} calls of {}", plan.all, name(who));
        match Run::new(&site, who, &plan) {
            Ok(run) => runs.push((who, run)),
            // The others may have taken long: their results stay.
            Err(why) => drop(writeln!(err, "{} is left out: {why}", name(who))),
        }
    }
    let of = |wanted: Who| runs.iter().find(|(who, _)| *who == wanted).map(|(_, run)| run);
    let ours = of(Who::Haft).ok_or("haft did not do all calls")?;
    let release = site.release.is_some().then_some(Who::Release);
    let others = [Who::Floor, Who::Peer(Peer::FastMcp)].into_iter().chain(release);
    let mut rows: Vec<Row> = others.flat_map(|who| plan.beside(ours, of(who), name(who))).collect();
    rows.extend(plan.growth(ours));
    Ok(rows)
}

fn name(who: Who) -> &'static str {
    match who {
        Who::Floor => "hyper, which echoes the request",
        _ => who.name(),
    }
}

/// The numbers of calls, of all clients together.
struct Plan {
    /// Those before the times count.
    first: usize,
    all: usize,
}

/// The results of one server.
struct Run {
    loaded: Loaded,
    /// Those of all calls.
    errors: usize,
    /// At the start, with all sessions, after the first calls, after all, and after a rest. The server that only
    /// answers has none: it is a part of this program.
    memory: Option<[Amount; 5]>,
}

impl Run {
    fn new(site: &Site, who: Who, plan: &Plan) -> Result<Self, Trouble> {
        let asked = if who == Who::Floor { Who::Haft } else { who };
        let params = asked.call(Task::Read, &site.workspace, 0).ok_or("it has no such tool")?;
        let request = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params});
        if who == Who::Floor {
            let address = echo()?;
            let mut clients = (0..CLIENTS).map(|_| Client::new(address)).collect::<Result<Vec<_>, _>>()?;
            let first = load(&mut clients, &request, plan.first)?;
            let loaded = load(&mut clients, &request, plan.all - plan.first)?;
            return Ok(Self { errors: first.errors + loaded.errors, loaded, memory: None });
        }
        let server = Server::start(command(site, who)?)?;
        let start = server.memory();
        let mut clients =
            (0..CLIENTS).map(|_| Client::greet(server.address)).collect::<Result<Vec<_>, _>>()?;
        let sessions = server.memory();
        let first = load(&mut clients, &request, plan.first)?;
        let after_first = server.memory();
        let loaded = load(&mut clients, &request, plan.all - plan.first)?;
        let end = server.memory();
        sleep(REST);
        let memory = Some([start, sessions, after_first, end, server.memory()]);
        Ok(Self { errors: first.errors + loaded.errors, loaded, memory })
    }
}

/// Returns the command that starts a contestant, which serves over HTTP.
fn command(site: &Site, who: Who) -> Result<Command, Trouble> {
    let mut command = site.command(who)?;
    match who {
        Who::Haft | Who::Release => command.args(["--http", "127.0.0.1:0", "--no-token"]),
        Who::Peer(_) | Who::Floor => command.arg("--http"),
    };
    Ok(command)
}

impl Plan {
    fn new(each: usize) -> Self {
        Self { first: CLIENTS * (each / PART).max(1), all: CLIENTS * each }
    }

    /// Returns the rows of haft beside another server; of one that was not measured, one row.
    fn beside(&self, ours: &Run, other: Option<&Run>, name: &str) -> Vec<Row> {
        let what = format!("`read` over HTTP, {CLIENTS} clients");
        let Some(other) = other else {
            let missing = Comparison::Missing(format!("{name} was not measured"));
            return vec![ours.loaded.times.row(what, missing, None)];
        };
        let row = |what: String, value: fn(&Run) -> Amount, aim| {
            let comparison = Comparison::Measured(name.to_owned(), value(other));
            Row { what, ours: value(ours), p95: None, comparison, aim }
        };
        let mut rows = vec![
            ours.loaded.times.row(what, other.loaded.times.comparison(name), None),
            row("the same, p99".to_owned(), |run| run.loaded.times.at(99), None),
            row("the same, calls per second".to_owned(), |run| Amount::Count(run.loaded.each_second()), None),
            row(
                format!("errors of {} calls", self.all),
                |run| Amount::Count(run.errors as u64),
                Some(Aim::Under(Amount::Count(0))),
            ),
        ];
        let (Some(ours), Some(theirs)) = (ours.memory, other.memory) else { return rows };
        for ((what, ours), theirs) in self.points().into_iter().zip(ours).zip(theirs) {
            let comparison = Comparison::Measured(name.to_owned(), theirs);
            rows.push(Row { what: format!("memory {what}"), ours, p95: None, comparison, aim: None });
        }
        rows
    }

    /// Returns the rows of haft's memory beside its own at an earlier point.
    fn growth(&self, ours: &Run) -> Vec<Row> {
        let Some([_, with_sessions, after_first, end, rest]) = ours.memory else { return Vec::new() };
        let [_, sessions, first, all, resting] = self.points();
        let row = |what: &str, ours, earlier: &str, theirs, aim| {
            let comparison = Comparison::Measured(format!("haft {earlier}"), theirs);
            Row { what: format!("memory {what}"), ours, p95: None, comparison, aim }
        };
        vec![
            row(&all, end, &first, after_first, Some(Aim::Times(1.2))),
            row(&resting, rest, &sessions, with_sessions, None),
        ]
    }

    /// Returns the names of the points at which memory is measured.
    fn points(&self) -> [String; 5] {
        [
            "at the start".to_owned(),
            format!("with {CLIENTS} sessions"),
            format!("after {} calls", self.first),
            format!("after {} calls", self.all),
            format!("after a rest of {} s", REST.as_secs()),
        ]
    }
}
