//! The overhead of a call, whatever the tool does.

use std::{fs, path::Path, process::Command, time::Duration};

use kit::{AnyTool, erase, prelude::*};
use serde_json::json;

use super::{Aim, Amount, Comparison, Fixture, Row, Scratch, Trouble, in_turn, timed};

const CALLS: usize = 20_000;
const READS: usize = 5_000;

/// The peer, as Python.
const TERRARIUM: &str = include_str!("../../peers/terrarium.py");

/// Do nothing.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Nothing {
    /// Any text.
    text: String,
}

impl Tool for Nothing {
    const NAME: &str = "nothing";
    const AT_MOST: Kinds = Kinds::NONE;

    fn touches(&self) -> Touches {
        Touches::none()
    }

    async fn run(self, _: &Cx) -> Result<Output, Fault> {
        Ok(Output::text(self.text))
    }
}

/// Do nothing, and nothing beside it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Alone {
    /// Any text.
    text: String,
}

impl Tool for Alone {
    const NAME: &str = "alone";

    fn touches(&self) -> Touches {
        Touches::exclusive()
    }

    async fn run(self, _: &Cx) -> Result<Output, Fault> {
        Ok(Output::text(self.text))
    }
}

pub(super) fn rows(scratch: &Scratch) -> Result<Vec<Row>, Trouble> {
    let workspace = scratch.folder("call")?;
    let small = workspace.join("small.rs");
    fs::write(&small, (1..=40).map(super::line).collect::<String>())?;
    let mut tools: Vec<std::sync::Arc<dyn AnyTool>> = tools::all();
    tools.push(erase::<Nothing>());
    tools.push(erase::<Alone>());
    let fixture = Fixture::open(scratch, &workspace, tools)?;
    let [nothing] = in_turn(CALLS, [&mut || fixture.call("nothing", json!({"text": "ok"}))])?;
    let [alone] = in_turn(READS, [&mut || fixture.call("alone", json!({"text": "ok"}))])?;
    let [read, plain] = in_turn(
        READS,
        [&mut || fixture.call("read", json!({"path": "small.rs"})), &mut || timed(|| Ok(fs::read(&small)?))],
    )?;
    let aim = Aim::Under(Amount::Time(Duration::from_micros(20)));
    Ok(vec![
        nothing.row("a call of a no-op tool, in process", terrarium(scratch), Some(aim)),
        alone.row(
            "the same, if it might change something",
            nothing.comparison("a call of which no record is awaited"),
            None,
        ),
        read.row("`read` of 40 lines, in process", plain.comparison("fs::read of the same file"), None),
    ])
}

/// Measures the same in KohakuTerrarium's executor, if it is installed.
fn terrarium(scratch: &Scratch) -> Comparison {
    let python = scratch.target.join("terrarium/bin/python");
    match ask(&python, scratch) {
        Ok(comparison) => comparison,
        Err(why) => Comparison::Missing(format!("terrarium is not installed: {why}")),
    }
}

fn ask(python: &Path, scratch: &Scratch) -> Result<Comparison, Trouble> {
    // It keeps its logs in the home folder.
    let home = scratch.folder("home")?;
    let output = Command::new(python)
        .args(["-c", TERRARIUM, "3000"])
        .env("HOME", home)
        .output()
        .map_err(|error| format!("{}: {error}", python.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut words = text.split_whitespace();
    let (Some(p50), Some(_), Some(version)) = (words.next(), words.next(), words.next()) else {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(said.lines().last().unwrap_or("it said nothing").into());
    };
    let p50 = Duration::from_secs_f64(p50.parse::<f64>()? / 1e6);
    Ok(Comparison::Measured(format!("KohakuTerrarium {version}, its executor"), Amount::Time(p50)))
}
