//! Files of gigabytes, and folders of many files.

use std::{
    fs::{self, File},
    io::{BufWriter, Write},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};

use super::{Aim, Amount, Fixture, Row, Scratch, Trouble, in_turn, line, timed};

/// Bytes of a line.
const LINE: usize = 80;

/// Number of looks, each in a new session.
const LOOKS: usize = 15;

/// Number of searches.
const SEARCHES: usize = 5;

const MS: Duration = Duration::from_millis(1);

/// Measures the parts of `read` and the searches on a file of this size, and pages of `glob`.
///
/// # Errors
/// When the file can't be made, or a call fails.
pub fn rows(scratch: &Scratch, gigabytes: usize) -> Result<Vec<Row>, Trouble> {
    let folder = scratch.folder("big")?;
    let lines = gigabytes * 1_000_000_000 / LINE;
    let file = folder.join("big.txt");
    let mut writer = BufWriter::with_capacity(1 << 20, File::create(&file)?);
    (1..=lines).try_for_each(|number| writer.write_all(line(number).as_bytes()))?;
    writer.into_inner()?.sync_all()?;
    let small = scratch.lines("big", "small.txt", 100_000_000 / LINE)?;
    let name = |what: &str| format!("`read` of {gigabytes} GB, {what}");
    let of = |offset: i64| json!({"path": "big.txt", "offset": offset, "limit": 50});
    let middle = i64::try_from(lines / 2)?;
    let mut rows = vec![
        look(scratch, &folder, &name("head"), &of(1), ("head", &["-n", "50"], &file), Some(5))?,
        look(scratch, &folder, &name("tail"), &of(-50), ("tail", &["-n", "50"], &file), Some(5))?,
        look(scratch, &folder, &name("middle"), &of(middle), ("wc", &["-l"], &file), None)?,
        look(
            scratch,
            &folder,
            "`read` of 100 MB, middle",
            &json!({"path": "small.txt", "offset": 600_000, "limit": 50}),
            ("wc", &["-l"], &small),
            Some(40),
        )?,
    ];
    rows.push(middle_again(scratch, &folder, &of(middle))?);
    rows.push(grown(scratch, &folder, &file, lines)?);
    rows.extend(searches(scratch, &folder, &file)?);
    rows.extend(pages_of_glob(scratch)?);
    Ok(rows)
}

/// Measures a call that is the first of its session, beside a program.
fn look(
    scratch: &Scratch,
    folder: &Path,
    what: &str,
    arguments: &Value,
    (program, options, file): (&str, &[&str], &Path),
    aim_ms: Option<u32>,
) -> Result<Row, Trouble> {
    let [ours, theirs] = in_turn(
        LOOKS,
        [&mut || Fixture::open(scratch, folder, tools::all())?.call("read", arguments.clone()), &mut || {
            run(program, options, file)
        }],
    )?;
    let aim = aim_ms.map(|ms| Aim::Under(Amount::Time(MS * ms)));
    let name = format!("{program} {}, a process", options.join(" "));
    Ok(ours.row(what, theirs.comparison(name), aim))
}

fn middle_again(scratch: &Scratch, folder: &Path, arguments: &Value) -> Result<Row, Trouble> {
    let fixture = Fixture::open(scratch, folder, tools::all())?;
    fixture.call("read", arguments.clone())?;
    let other = json!({"path": "small.txt", "limit": 50});
    fixture.call("read", other.clone())?;
    let [again, head] = in_turn(
        200,
        [&mut || fixture.call("read", arguments.clone()), &mut || fixture.call("read", other.clone())],
    )?;
    Ok(again.row("the middle again", head.comparison("the head of the small file"), Some(Aim::Times(2.0))))
}

/// Measures the count of a log that grew by a line.
fn grown(scratch: &Scratch, folder: &Path, file: &Path, lines: usize) -> Result<Row, Trouble> {
    let fixture = Fixture::open(scratch, folder, tools::all())?;
    let mut lines = lines;
    let mut last = || {
        File::options().append(true).open(file)?.write_all(line(lines + 1).as_bytes())?;
        lines += 1;
        // Its number, so that all lines before it have to be counted.
        fixture.call("read", json!({"path": "big.txt", "offset": lines}))
    };
    last()?;
    let [ours, theirs] = in_turn(LOOKS, [&mut last, &mut || run("wc", &["-l"], file)])?;
    Ok(ours.row("the last line of a log that grew", theirs.comparison("wc -l, a process"), None))
}

fn searches(scratch: &Scratch, folder: &Path, file: &Path) -> Result<Vec<Row>, Trouble> {
    let fixture = Fixture::open(scratch, folder, tools::all())?;
    let mut rows = Vec::new();
    for (what, pattern) in [("nothing", "no such text"), ("every line", "unwrap_or_default")] {
        let filegrep = json!({"path": "big.txt", "pattern": pattern, "case_sensitive": true});
        let any_case = json!({"path": "big.txt", "pattern": pattern});
        let grep = json!({"path": "big.txt", "pattern": pattern});
        let [ours, folded, grep, theirs] = in_turn(
            SEARCHES,
            [
                &mut || fixture.call("filegrep", filegrep.clone()),
                &mut || fixture.call("filegrep", any_case.clone()),
                &mut || fixture.call("grep", grep.clone()),
                &mut || run("grep", &["-c", pattern], file),
            ],
        )?;
        let with = || grep.comparison("`grep`");
        rows.push(ours.row(format!("`filegrep`, {what}"), with(), Some(Aim::Times(1.2))));
        rows.push(folded.row(format!("`filegrep`, any case, {what}"), with(), None));
        rows.push(grep.row(format!("`grep`, {what}"), theirs.comparison("grep -c, a process"), None));
    }
    Ok(rows)
}

/// Measures the first page of many files, and one past 10,000.
fn pages_of_glob(scratch: &Scratch) -> Result<Vec<Row>, Trouble> {
    let folder = scratch.folder("many")?;
    for number in 0..100 {
        let below = folder.join(format!("d{number:02}"));
        fs::create_dir_all(&below)?;
        (0..1_000).try_for_each(|file| File::create(below.join(format!("{file:03}.txt"))).map(drop))?;
    }
    let fixture = Fixture::open(scratch, &folder, tools::all())?;
    let page = |offset: usize| json!({"pattern": "*.txt", "offset": offset});
    let [first, later] =
        in_turn(LOOKS, [&mut || fixture.call("glob", page(0)), &mut || fixture.call("glob", page(90_000))])?;
    let comparison = first.comparison("its first page");
    Ok(vec![later.row("`glob` of 100,000 files, offset 90,000", comparison, Some(Aim::Times(2.0)))])
}

fn run(program: &str, options: &[&str], file: &Path) -> Result<Duration, Trouble> {
    timed(|| {
        let status = Command::new(program)
            .args(options)
            .arg(file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()?;
        // `grep` ends with 1 if it found nothing.
        if status.code().is_some_and(|code| code < 2) {
            Ok(())
        } else {
            Err(format!("{program}: {status}").into())
        }
    })
}
