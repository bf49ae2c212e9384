//! MCP over stdio, compared with the minimal server.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use serde_json::{Value, json};

use super::{
    Aim, Amount, Row, Scratch, Trouble, in_turn,
    process::{CALLS, Place, STARTS, call, first_answer},
    timed,
};
use crate::client::{Client, greetings};

/// A server in C that finds the id of a line, and returns the same result each time.
const ECHO: &str = include_str!("../../peers/echo.c");

/// Number of calls made before in a used workspace.
const USED: usize = 200;

pub(super) fn rows(scratch: &Scratch) -> Result<Vec<Row>, Trouble> {
    let echo = compiled(scratch)?;
    let mut rows = starts(scratch, &echo)?;
    rows.extend(calls(scratch, &echo)?);
    Ok(rows)
}

/// Measures the time from the start of a process to its answer to `initialize`: in a new and in a used workspace.
fn starts(scratch: &Scratch, echo: &Path) -> Result<Vec<Row>, Trouble> {
    let [(method, params), _] = greetings();
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let used = Place::named(scratch, "mcp-used")?;
    use_it(&used)?;
    let mut fresh = 0;
    let [new, old, least] = in_turn(
        STARTS,
        [
            &mut || {
                fresh += 1;
                let place = Place::named(scratch, &format!("mcp-fresh-{fresh}"))?;
                first_answer(place.command(&["mcp"]), &initialize)
            },
            &mut || first_answer(used.command(&["mcp"]), &initialize),
            &mut || first_answer(Command::new(echo), &initialize),
        ],
    )?;
    let aim = Some(Aim::Under(Amount::Time(Duration::from_millis(15))));
    Ok(vec![
        new.row("start to `initialize`, a new workspace", least.comparison("a server in C, its start"), aim),
        old.row(
            format!("the same after {USED} calls and edits"),
            least.comparison("a server in C, its start"),
            aim,
        ),
    ])
}

/// Measures a call and its answer, of a tool that does next to nothing and of one that reads a file.
fn calls(scratch: &Scratch, echo: &Path) -> Result<Vec<Row>, Trouble> {
    let place = Place::named(scratch, "mcp-calls")?;
    let mut server = Client::start(place.command(&["mcp"]))?;
    server.greet()?;
    let mut least = Client::start(Command::new(echo))?;
    least.greet()?;
    let aim = Some(Aim::Times(3.0));
    let ping = json!({"jsonrpc": "2.0", "id": 3, "method": "ping"});
    let asked: [(&str, Value); 3] = [
        ("`ping`", ping),
        ("a call of `jobs`, where there are none", call("jobs", &json!({}))),
        ("a call of `read`, 40 lines", call("read", &json!({"path": "small.rs"}))),
    ];
    let mut rows = Vec::new();
    for (what, request) in asked {
        let [ours, theirs] = in_turn(
            CALLS,
            [&mut || timed(|| server.exchange(&request)), &mut || timed(|| least.exchange(&request))],
        )?;
        rows.push(ours.row(what, theirs.comparison("a server in C, the same request"), aim));
    }
    Ok(rows)
}

/// Creates the state that a day of work leaves: sessions, calls in the journal, versions of a file.
fn use_it(place: &Place) -> Result<(), Trouble> {
    for session in 0..4 {
        let mut server = Client::start(place.command(&["mcp"]))?;
        server.greet()?;
        for turn in 0..USED / 8 {
            let number = session * USED / 8 + turn;
            let (old, new) = (format!("// {number}"), format!("// {}", number + 1));
            server.exchange(&call("read", &json!({"path": "small.rs"})))?;
            server.exchange(&call("edit", &json!({"path": "turns.rs", "old": old, "new": new})))?;
        }
        server.close()?;
    }
    Ok(())
}

/// Compiles the server in C.
pub(super) fn compiled(scratch: &Scratch) -> Result<PathBuf, Trouble> {
    let folder = scratch.folder("echo")?;
    let (source, program) = (folder.join("echo.c"), folder.join("echo"));
    std::fs::write(&source, ECHO)?;
    let done = Command::new("cc").arg("-O2").arg("-o").arg(&program).arg(&source).status();
    match done {
        Ok(status) if status.success() => Ok(program),
        Ok(status) => Err(format!("cc: {status}").into()),
        Err(error) => Err(format!("cc, which compiles the server in C: {error}").into()),
    }
}
