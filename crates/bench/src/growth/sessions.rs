//! Stored sessions: the start, the list, the search, and going on with one, in a workspace that has many.

use std::{fs, io::Write, path::Path, process::Command, sync::Arc, time::Instant};

use kit::redact::Secrets;
use store::Store;

use super::{Column, Outcome, median, millis, place::Place, print};

/// Runs of each.
const RUNS: usize = 9;

/// The rows of one session, copied under other names. They are what `haft run` has written.
const COPY: &str = "
WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < COUNT)
INSERT INTO sessions (id, door, created_ms, used_ms)
SELECT 'copy-' || n, door, created_ms - n, used_ms - n FROM sessions, n WHERE id = 'first';
WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < COUNT)
INSERT INTO transcript (session, buffer, number, at_ms, body)
SELECT 'copy-' || n, buffer, number, at_ms - n, body FROM transcript, n WHERE session = 'first';
WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < COUNT)
INSERT INTO said (session, place, who, at_ms, text)
SELECT 'copy-' || n, place, who, at_ms - n, text || ' ' || n FROM said, n WHERE session = 'first';
WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < COUNT)
INSERT INTO events (session, seq, first, at_ms, body)
SELECT 'copy-' || n, seq, first, at_ms - n, body FROM events, n WHERE session = 'first';
";

/// Prints a table of workspaces with so many sessions each.
///
/// # Errors
/// When a session is missing, or can't be gone on with.
pub fn table(out: &mut impl Write, numbers: &[usize]) -> Outcome<()> {
    let mut start = Column::new("start to `initialize`, ms");
    let mut list = Column::new("`haft sessions`, the newest 20, a process, ms");
    let mut search = Column::new("`haft sessions search` of one, a process, ms");
    let mut more = Column::new("`haft run --resume`, a process, ms");
    for number in numbers {
        let base = tempfile::tempdir()?;
        let place = Place::new(base.path())?;
        let model = base.path().join("model.jsonl");
        fs::write(&model, "{\"say\": \"Three files, all of them small.\"}\n".repeat(RUNS + 2))?;
        let model = format!("script:{}", model.display());
        done(place.command(&["--session", "first", "run", "--model", &model, "how many files are there?"]))?;
        copy(base.path(), *number)?;
        let mut times: [Vec<f64>; 4] = Default::default();
        for _ in 0..RUNS {
            let [started, listed, searched, resumed] = &mut times;
            let began = Instant::now();
            let server = place.server()?;
            started.push(millis(began.elapsed()));
            drop(server);
            listed.push(done(place.command(&["sessions", "--limit", "20"]))?.0);
            let (took, found) = done(place.command(&["sessions", "search", &number.to_string()]))?;
            if !found.contains(&format!("copy-{number}")) {
                return Err(format!("copy-{number} is not found: {found}").into());
            }
            searched.push(took);
            resumed.push(done(place.command(&["run", "--resume", "--model", &model, "and now?"]))?.0);
        }
        for (column, times) in [&mut start, &mut list, &mut search, &mut more].into_iter().zip(times) {
            column.put(*number, median(times));
        }
    }
    print(out, &[start, list, search, more])
}

fn copy(base: &Path, number: usize) -> Outcome<()> {
    let workspace = base.join("ws").canonicalize()?;
    let store = Store::open(&base.join("state"), &workspace, Arc::new(Secrets::default()));
    let sql = COPY.replace("COUNT", &number.to_string());
    store.wait(move |database| database.execute_batch(&sql)).map_err(|fault| fault.as_text())?;
    Ok(())
}

/// Returns the time that a process took, in milliseconds, and what it printed.
fn done(mut command: Command) -> Outcome<(f64, String)> {
    let began = Instant::now();
    let output = command.stdin(std::process::Stdio::null()).stderr(std::process::Stdio::piped()).output()?;
    let took = millis(began.elapsed());
    if !output.status.success() {
        return Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok((took, String::from_utf8_lossy(&output.stdout).into_owned()))
}
