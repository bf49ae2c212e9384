//! Files of the workspace: what a call costs in a tree of many.

use std::{
    fs,
    io::Write,
    path::Path,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{Column, Outcome, median, millis, place::Place, print};

/// Calls of each kind.
const CALLS: usize = 15;
/// A workspace is rarely seconds old. The names in a folder that has just changed are read again by each command: it may
/// change once more within what the file system takes for the same moment.
const SETTLED: Duration = Duration::from_secs(3);
/// Files of one folder.
const FOLDER: usize = 50;

/// Returns the arguments of a call, by its number.
type Arguments = fn(usize) -> Value;

/// Prints a table of workspaces with so many files each.
///
/// # Errors
/// When a call fails.
pub fn table(out: &mut impl Write, numbers: &[usize]) -> Outcome<()> {
    let mut start = Column::new("start to `initialize`, ms");
    let calls: [(&str, &str, Arguments); 5] = [
        ("`read` of one, ms", "read", |_| json!({"path": "folder_0/file_0.txt"})),
        (
            "`edit` of one, ms",
            "edit",
            |turn| json!({"path": "folder_0/file_1.txt", "old": format!("count {turn}."), "new": format!("count {}.", turn + 1)}),
        ),
        ("`shell true`, ms", "shell", |_| json!({"command": "true"})),
        ("`glob` of one, ms", "glob", |_| json!({"pattern": "**/file_0.txt"})),
        ("`grep` of one, ms", "grep", |_| json!({"pattern": "^file 3$"})),
    ];
    let mut columns: Vec<Column> = calls.iter().map(|(name, ..)| Column::new(*name)).collect();
    for number in numbers {
        let base = tempfile::tempdir()?;
        let place = Place::new(base.path())?;
        tree(&base.path().join("ws"), *number)?;
        std::thread::sleep(SETTLED);
        let mut starts = Vec::new();
        for _ in 0..CALLS {
            let began = Instant::now();
            let server = place.server()?;
            starts.push(millis(began.elapsed()));
            // Its end is not part of its start.
            drop(server);
        }
        start.put(*number, median(starts));
        let mut server = place.server()?;
        for ((_, tool, arguments), column) in calls.iter().zip(&mut columns) {
            let mut times = Vec::new();
            for turn in 0..CALLS {
                let began = Instant::now();
                let (text, is_good) = server.call(tool, &arguments(turn))?;
                times.push(millis(began.elapsed()));
                if !is_good {
                    return Err(format!("{tool}: {text}").into());
                }
            }
            column.put(*number, median(times));
        }
    }
    columns.insert(0, start);
    print(out, &columns)
}

fn tree(workspace: &Path, number: usize) -> Outcome<()> {
    for at in 0..number {
        let folder = workspace.join(format!("folder_{}", at / FOLDER));
        if at % FOLDER == 0 {
            fs::create_dir_all(&folder)?;
        }
        let text = format!("file {at}\ncount 0.\n{}", "a line of text\n".repeat(20));
        fs::write(folder.join(format!("file_{}.txt", at % FOLDER)), text)?;
    }
    Ok(())
}
