//! Own tools: the start with many known ones, the first call of one, and how soon new files can be called.

use std::{fs, io::Write, path::Path, time::Instant};

use serde_json::json;

use super::{Column, Outcome, median, millis, place::Place, print};
use crate::{client::Client, tool_file::shout};

/// Runs of each start, in turn with one without any tool.
const STARTS: usize = 9;
/// Tools of which the first call is measured.
const FIRST: usize = 5;

/// Prints a table of folders with so many tools each.
///
/// # Errors
/// When a tool is missing, or can't be called.
pub fn table(out: &mut impl Write, numbers: &[usize]) -> Outcome<()> {
    let mut soon = Column::new("new files: until the first answer of one, ms");
    let mut all = Column::new("new files: until all can be called, ms");
    let mut start = Column::new("start to `initialize`, above that without tools, ms");
    let mut ratio = Column::new("start to `initialize`, ratio to that without tools");
    let mut list = Column::new("start to `tools/list`, above that without tools, ms");
    let mut first = Column::new("first call of a known tool, ms");
    for number in numbers {
        let base = tempfile::tempdir()?;
        let (none, many) = (Place::new(&base.path().join("none"))?, Place::new(&base.path().join("many"))?);
        let mut server = many.server()?;
        for at in 0..*number {
            write(&many.tools(), at)?;
        }
        let last = format!("own_{}", number - 1);
        let began = Instant::now();
        answers(&mut server, &last)?;
        let answered = began.elapsed();
        soon.put(*number, millis(answered));
        // Its end does not count.
        drop(server);
        let began = Instant::now();
        let listed = many.command(&["tools"]).output()?.stdout;
        all.put(*number, millis(answered + began.elapsed()));
        let count = String::from_utf8_lossy(&listed).lines().filter(|it| it.starts_with("own_")).count();
        if count != *number {
            return Err(format!("{count} of {number} tools are listed").into());
        }
        let [mut begun, mut ratios, mut told] = [Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..STARTS {
            let (of_none, of_many) = (starts(&none)?, starts(&many)?);
            begun.push(of_many.0 - of_none.0);
            ratios.push(of_many.0 / of_none.0);
            told.push(of_many.1 - of_none.1);
        }
        start.put(*number, median(begun));
        ratio.put(*number, median(ratios));
        list.put(*number, median(told));
        let mut server = many.server()?;
        server.ask("tools/list", &json!({}))?;
        let mut times = Vec::new();
        for at in 0..FIRST.min(*number) {
            let began = Instant::now();
            answers(&mut server, &format!("own_{at}"))?;
            times.push(millis(began.elapsed()));
        }
        first.put(*number, median(times));
    }
    print(out, &[soon, all, start, ratio, list, first])
}

/// Returns the time from the start to the answers to `initialize` and to `tools/list`.
fn starts(place: &Place) -> Outcome<(f64, f64)> {
    let began = Instant::now();
    let mut server = place.server()?;
    let begun = millis(began.elapsed());
    server.ask("tools/list", &json!({}))?;
    Ok((begun, millis(began.elapsed())))
}

fn answers(server: &mut Client, tool: &str) -> Outcome<()> {
    let (text, is_good) = server.call(tool, &json!({"text": "x"}))?;
    if is_good && text.contains("X!") { Ok(()) } else { Err(format!("{tool}: {text}").into()) }
}

fn write(folder: &Path, at: usize) -> Outcome<()> {
    let name = format!("own_{at}");
    fs::write(folder.join(format!("{name}.py")), shout(&name))?;
    Ok(())
}
