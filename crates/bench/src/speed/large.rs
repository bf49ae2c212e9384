//! Fifty lines of a file of 100 MB.
//!
//! The times of `sed` and `tail` have the start of a process in them (about a
//! millisecond); `…;Bq` lets `sed` stop at the last line, which it does not do by itself.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};

use super::{Aim, Comparison, Fixture, Row, Scratch, Times, Trouble, in_turn, timed};

const LINES: usize = 1_250_000;
const SHOWN: usize = 50;
const FIRST_LOOKS: usize = 15;
const SECOND_LOOKS: usize = 300;

pub(super) fn rows(scratch: &Scratch) -> Result<Vec<Row>, Trouble> {
    let file = scratch.lines("large", "large.txt", LINES)?;
    let mut rows = Vec::new();
    for (place, first) in [("middle", LINES / 2), ("end", LINES - SHOWN + 1)] {
        let arguments = match place {
            "end" => json!({"path": "large.txt", "offset": -(i64::try_from(SHOWN)?)}),
            _ => json!({"path": "large.txt", "offset": first, "limit": SHOWN}),
        };
        rows.extend(looks(scratch, &file, place, first, &arguments)?);
    }
    Ok(rows)
}

fn looks(
    scratch: &Scratch,
    file: &Path,
    place: &str,
    first: usize,
    arguments: &Value,
) -> Result<Vec<Row>, Trouble> {
    let folder = file.parent().ok_or("a file lies in a folder")?;
    let last = first + SHOWN - 1;
    let (whole, early) = (format!("{first},{last}p"), format!("{first},{last}p;{last}q"));
    // A new runtime has no line counts of the file yet.
    let [new, sed, quitting, tail] = in_turn(
        FIRST_LOOKS,
        [
            &mut || Fixture::open(scratch, folder, tools::all())?.call("read", arguments.clone()),
            &mut || run("sed", &["-n", &whole], file),
            &mut || run("sed", &["-n", &early], file),
            &mut || run("tail", &["-n", &SHOWN.to_string()], file),
        ],
    )?;
    let fixture = Fixture::open(scratch, folder, tools::all())?;
    let [again] = in_turn(SECOND_LOOKS, [&mut || fixture.call("read", arguments.clone())])?;
    let row = |what: &str, times: &Times, comparison: Comparison, aim: Option<f64>| {
        times.row(format!("`read` at the {place} of 100 MB, {what}"), comparison, aim.map(Aim::Times))
    };
    let sed_name = "sed -n 'A,Bp', a process";
    let other = match place {
        "end" => tail.comparison("tail -n 50, a process (no line numbers)"),
        _ => quitting.comparison("sed -n 'A,Bp;Bq', a process"),
    };
    Ok(vec![
        row("1st look", &new, sed.comparison(sed_name), Some(1.2)),
        row("2nd look", &again, sed.comparison(sed_name), Some(0.1)),
        row("2nd look", &again, other, None),
    ])
}

fn run(program: &str, arguments: &[&str], file: &Path) -> Result<Duration, Trouble> {
    timed(|| {
        let output = Command::new(program).args(arguments).arg(file).stdin(Stdio::null()).output()?;
        let lines = output.stdout.iter().filter(|byte| **byte == b'\n').count();
        if lines == SHOWN { Ok(()) } else { Err(format!("{program} gave {lines} lines").into()) }
    })
}
