//! Commands in a session, beside the same without one.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use policy::{Approve, Policy};
use runtime::{Call, Commands, Session};
use sandbox::SandboxMode;
use serde_json::{Value, json};

use super::{Aim, Amount, Comparison, Fixture, Row, Scratch, Trouble, in_turn, timed};

const RUNS: usize = 300;
const JOBS: usize = 1_000;

pub(super) fn rows(scratch: &Scratch) -> Result<Vec<Row>, Trouble> {
    let haft = scratch.target.join("release/haft");
    if !haft.exists() {
        return Err(format!("there is no `{}`; cargo build --release -p haft", haft.display()).into());
    }
    let workspace = scratch.folder("commands")?;
    let mut rows = Vec::new();
    let open = |sandbox| fixture(scratch, &workspace, &haft, sandbox);
    let (free, boxed) = (open(SandboxMode::Full)?, open(SandboxMode::Workspace)?);
    let shell = json!({"command": "true"});
    let [free, sandboxed, direct] = in_turn(
        RUNS,
        [&mut || free.call("shell", shell.clone()), &mut || boxed.call("shell", shell.clone()), &mut || {
            run(&["sh", "-c", "true"], &workspace)
        }],
    )?;
    let comparison = "fork, exec and wait of `sh -c true`";
    rows.push(free.row("`shell true`, --sandbox full", direct.comparison(comparison), Some(Aim::Times(1.5))));
    rows.push(sandboxed.row(
        "`shell true` in the sandbox",
        direct.comparison(comparison),
        Some(Aim::Times(2.0)),
    ));
    rows.push(bash(&boxed)?);
    rows.extend(python(&boxed, &workspace)?);
    rows.extend(jobs(&open(SandboxMode::Workspace)?)?);
    Ok(rows)
}

fn fixture(
    scratch: &Scratch,
    workspace: &Path,
    haft: &Path,
    sandbox: SandboxMode,
) -> Result<Fixture, Trouble> {
    let policy = Policy { sandbox, approve: Approve::Auto, ..Policy::default() };
    let commands = Commands {
        keeper: Some(haft.to_owned()),
        variables: std::env::vars().collect(),
        ..Commands::default()
    };
    Fixture::with(scratch, workspace, tools::all(), policy, commands)
}

/// Measures what a call adds to a command in the persistent bash; the command itself costs microseconds.
fn bash(fixture: &Fixture) -> Result<Row, Trouble> {
    let call = json!({"command": ":"});
    let [ours, noop] =
        in_turn(RUNS, [&mut || fixture.call("bash", call.clone()), &mut || fixture.call("jobs", json!({}))])?;
    let aim = Aim::Under(Amount::Time(Duration::from_millis(1)));
    Ok(ours.row("`bash :` in a live session", noop.comparison("`jobs`, a call without a command"), Some(aim)))
}

fn python(fixture: &Fixture, workspace: &Path) -> Result<[Row; 2], Trouble> {
    let call = json!({"code": "1+1"});
    let [ours, fresh, system] = in_turn(
        RUNS / 3,
        [
            &mut || fixture.call("python", call.clone()),
            // The interpreter itself, without the shim that a version manager puts before it.
            &mut || run(&["python3", "-c", "1+1"], workspace),
            &mut || run(&["/usr/bin/python3", "-c", "1+1"], workspace),
        ],
    )?;
    let aim = Some(Aim::Times(0.2));
    Ok([
        ours.row("`python 1+1`", fresh.comparison("`python3 -c 1+1`, of the PATH"), aim),
        ours.row("`python 1+1`", system.comparison("`/usr/bin/python3 -c 1+1`"), aim),
    ])
}

/// Measures many commands in the background at once.
fn jobs(fixture: &Fixture) -> Result<Vec<Row>, Trouble> {
    fixture.call("shell", json!({"command": "true"}))?;
    let before = resident()?;
    let began = Instant::now();
    fixture.tokio.block_on(async {
        let calls = (0..JOBS).map(|_| {
            let session = fixture.session.clone();
            tokio::spawn(start(
                session,
                json!({"command": "sleep 600", "wait_ms": 0, "allow_concurrent": true}),
            ))
        });
        for call in calls.collect::<Vec<_>>() {
            call.await??;
        }
        Ok::<_, Trouble>(())
    })?;
    let took = began.elapsed();
    let each = (resident()?.saturating_sub(before)) / JOBS as u64;
    let began = Instant::now();
    for _ in 0..JOBS {
        run(&["sh", "-c", "true"], Path::new("/"))?;
    }
    let direct = began.elapsed();
    Ok(vec![
        Row {
            what: format!("{JOBS} background jobs at once, to start"),
            ours: Amount::Time(took),
            p95: None,
            comparison: Comparison::Measured(format!("{JOBS} times `sh -c true`"), Amount::Time(direct)),
            aim: None,
        },
        Row {
            what: "memory of haft for each of them".to_owned(),
            ours: Amount::Bytes(each),
            p95: None,
            comparison: Comparison::Missing("nothing is beside it".to_owned()),
            aim: Some(Aim::Under(Amount::Bytes(200_000))),
        },
    ])
}

async fn start(session: Session, arguments: Value) -> Result<(), String> {
    let answer = session.call(Call::new("shell", arguments)).await;
    if answer.result.is_err() { Err(answer.as_text()) } else { Ok(()) }
}

fn run(argv: &[&str], dir: &Path) -> Result<Duration, Trouble> {
    let (program, arguments) = argv.split_first().ok_or("no program")?;
    timed(|| {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(dir).stdin(Stdio::null()).stdout(Stdio::null());
        if command.status()?.success() { Ok(()) } else { Err(format!("{argv:?} failed").into()) }
    })
}

/// Returns the resident memory of this process.
fn resident() -> Result<u64, Trouble> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse::<u64>()? * 1024)
}
