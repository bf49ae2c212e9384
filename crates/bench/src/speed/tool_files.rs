//! Tool files, compared with the same file run as a program.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use policy::Policy;
use runtime::{
    Commands,
    plugins::{Folder, OWN, ToolFiles, Whose},
};
use serde_json::json;

use super::{Aim, Amount, Comparison, Fixture, Row, Scratch, Trouble, in_turn, timed};
use crate::tool_file::shout_program;

const CALLS: usize = 3_000;
const PROCESSES: usize = 100;
const STARTS: usize = 30;
const COLD: usize = 5;
const TOOLS: usize = 200;

/// The same call in a Python agent with the tool in its own process.
const IN_PROCESS: &str = include_str!("../../peers/asyncio_call.py");

pub(super) fn rows(scratch: &Scratch) -> Result<Vec<Row>, Trouble> {
    let haft = scratch.target.join("release/haft");
    if !haft.exists() {
        return Err(format!("there is no `{}`; cargo build --release -p haft", haft.display()).into());
    }
    let mut rows = calls(scratch, &haft)?;
    rows.extend(lists(scratch, &haft)?);
    Ok(rows)
}

fn calls(scratch: &Scratch, haft: &Path) -> Result<Vec<Row>, Trouble> {
    let workspace = scratch.folder("tool-files")?;
    let tools = scratch.folder(&format!("tool-files/{OWN}"))?;
    let file = tools.join("shout.py");
    fs::write(&file, shout_program("shout"))?;
    let commands = Commands {
        keeper: Some(haft.to_owned()),
        variables: std::env::vars().collect(),
        ..Commands::default()
    };
    let folders = vec![Folder { path: tools, whose: Whose::Workspace }];
    let files = ToolFiles { folders, ..ToolFiles::default() };
    let fixture = Fixture::with_files(scratch, &workspace, tools::all(), Policy::default(), commands, files)?;
    let arguments = json!({"text": "good morning"});
    let first = fixture.call("shout", arguments.clone())?;
    let [ours] = in_turn(CALLS, [&mut || fixture.call("shout", arguments.clone())])?;
    let input = arguments.to_string();
    let [process] = in_turn(PROCESSES, [&mut || run("/usr/bin/python3", &file, &input)])?;
    let aim = Some(Aim::Under(Amount::Time(Duration::from_micros(250))));
    let as_process = process.comparison("`/usr/bin/python3 shout.py`, a process");
    let first = Row {
        what: "the first call of a Python tool".to_owned(),
        ours: Amount::Time(first),
        p95: None,
        comparison: process.comparison("`/usr/bin/python3 shout.py`, a process"),
        aim: None,
    };
    Ok(vec![
        first,
        ours.row("a warm call of a Python tool", as_process, aim),
        ours.row("a warm call of a Python tool", in_process(&file)?, None),
    ])
}

/// Measures the call in Python's own event loop.
fn in_process(file: &Path) -> Result<Comparison, Trouble> {
    let output = Command::new("/usr/bin/python3").args(["-c", IN_PROCESS]).arg(file).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let micros: f64 = text.trim().parse().map_err(|_| {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        Trouble::from(said)
    })?;
    let time = Duration::from_secs_f64(micros / 1e6);
    Ok(Comparison::Measured("`await execute(…)`, no haft, no process".to_owned(), Amount::Time(time)))
}

fn lists(scratch: &Scratch, haft: &Path) -> Result<Vec<Row>, Trouble> {
    let none = Listing::new(scratch, haft, "list-none", 0)?;
    let many = Listing::new(scratch, haft, "list-many", TOOLS)?;
    many.trust()?;
    many.expect_all()?;
    let [without, cached] = in_turn(STARTS, [&mut || none.list(), &mut || many.list()])?;
    let [cold] = in_turn(
        COLD,
        [&mut || {
            fs::remove_dir_all(&many.state)?;
            many.list()
        }],
    )?;
    let [each] = in_turn(PROCESSES, [&mut || run("/usr/bin/python3", Path::new("-c"), "")])?;
    let comparison = "the same without any";
    let added = Row {
        what: format!("what {TOOLS} cached tools add to that"),
        ours: cached.p50().minus(without.p50()),
        p95: None,
        comparison: without.comparison("`haft tools` without any"),
        aim: Some(Aim::Under(Amount::Time(Duration::from_millis(10)))),
    };
    let alone = Comparison::Measured(format!("{TOOLS} starts of python3"), each.p50().times(TOOLS));
    Ok(vec![
        cached.row(format!("`haft tools` with {TOOLS} tools, cached"), without.comparison(comparison), None),
        added,
        cold.row(format!("`haft tools` with {TOOLS} tools, cold"), alone, None),
    ])
}

/// A workspace with `tools` tool files, which the program lists.
struct Listing {
    haft: PathBuf,
    workspace: PathBuf,
    state: PathBuf,
    config: PathBuf,
    tools: usize,
}

impl Listing {
    fn new(scratch: &Scratch, haft: &Path, name: &str, tools: usize) -> Result<Self, Trouble> {
        let workspace = scratch.folder(name)?;
        let folder = scratch.folder(&format!("{name}/{OWN}"))?;
        for number in 0..tools {
            let tool = format!("shout_{number}");
            fs::write(folder.join(format!("{tool}.py")), shout_program(&tool))?;
        }
        let (state, config) = (scratch.folder(&format!("{name}-state"))?, scratch.folder("config")?);
        Ok(Self { haft: haft.to_owned(), workspace, state, config, tools })
    }

    /// Trusts the workspace, as a person would: the tools are known from then on.
    fn trust(&self) -> Result<(), Trouble> {
        let done = self.command("trust").stdout(Stdio::null()).status()?;
        if done.success() { Ok(()) } else { Err("`haft trust` failed".into()) }
    }

    fn command(&self, verb: &str) -> Command {
        let mut command = Command::new(&self.haft);
        command.arg("--dir").arg(&self.workspace).arg(verb);
        command.env("HAFT_STATE_DIR", &self.state).env("HAFT_CONFIG_DIR", &self.config);
        command.stdin(Stdio::null()).stderr(Stdio::inherit());
        command
    }

    fn list(&self) -> Result<Duration, Trouble> {
        let mut command = self.command("tools");
        command.stdout(Stdio::null());
        timed(|| if command.status()?.success() { Ok(()) } else { Err("`haft tools` failed".into()) })
    }

    /// Checks that the list is complete: a fast partial list would prove nothing.
    fn expect_all(&self) -> Result<(), Trouble> {
        let output = self.command("tools").output()?;
        let listed =
            String::from_utf8_lossy(&output.stdout).lines().filter(|it| it.starts_with("shout_")).count();
        if listed == self.tools {
            Ok(())
        } else {
            Err(format!("{listed} of {} tools are listed", self.tools).into())
        }
    }
}

fn run(python: &str, file: &Path, input: &str) -> Result<Duration, Trouble> {
    timed(|| {
        let mut command = Command::new(python);
        command.arg(file).stdin(Stdio::piped()).stdout(Stdio::null());
        if file == Path::new("-c") {
            command.arg("pass");
        }
        let mut child = command.spawn()?;
        child.stdin.take().ok_or("no input")?.write_all(input.as_bytes())?;
        if child.wait()?.success() { Ok(()) } else { Err(format!("{python} failed").into()) }
    })
}
