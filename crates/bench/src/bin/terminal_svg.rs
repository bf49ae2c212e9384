//! A program at a terminal, as an SVG: `terminal_svg [OPTION…] FILE PROGRAM [ARGUMENT…]`.
//!
//! The program runs in tmux, so it sees a real terminal. When it has ended, what it printed is drawn into FILE: all of it,
//! or the lines from that which has the text of `--from` to that which has the text of `--to`.

use std::{
    error::Error,
    io::{self, Write},
    path::Path,
    process::{Command, ExitCode, Output},
};

use bench::terminal_svg::picture;

const USAGE: &str = "usage: terminal_svg [--columns N] [--rows N] [--title TEXT] [--from TEXT] [--to TEXT] FILE PROGRAM [ARGUMENT...]";

struct Wanted {
    columns: u16,
    rows: u16,
    title: Option<String>,
    from: Option<String>,
    to: Option<String>,
    file: String,
    program: Vec<String>,
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let Some(wanted) = wanted(std::env::args().skip(1)) else {
        writeln!(io::stderr(), "{USAGE}")?;
        return Ok(ExitCode::from(2));
    };
    let folder = tempfile::tempdir()?;
    let captured = captured(&wanted, folder.path())?;
    let shown = part(&captured, wanted.from.as_deref(), wanted.to.as_deref())?;
    let title = wanted.title.unwrap_or_else(|| wanted.program.join(" "));
    std::fs::write(&wanted.file, picture(&title, &shown, wanted.columns))?;
    Ok(ExitCode::SUCCESS)
}

fn wanted(mut arguments: impl Iterator<Item = String>) -> Option<Wanted> {
    let mut wanted = Wanted {
        columns: 80,
        rows: 24,
        title: None,
        from: None,
        to: None,
        file: String::new(),
        program: Vec::new(),
    };
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--columns" => wanted.columns = arguments.next()?.parse().ok()?,
            "--rows" => wanted.rows = arguments.next()?.parse().ok()?,
            "--title" => wanted.title = arguments.next(),
            "--from" => wanted.from = arguments.next(),
            "--to" => wanted.to = arguments.next(),
            _ => {
                wanted.file = argument;
                wanted.program = arguments.by_ref().collect();
            }
        }
    }
    (!wanted.program.is_empty()).then_some(wanted)
}

/// Returns everything that the program printed, with its colours.
fn captured(wanted: &Wanted, folder: &Path) -> Result<String, Box<dyn Error>> {
    let socket = folder.join("tmux");
    let tmux = |arguments: &[&str]| -> Result<Output, Box<dyn Error>> {
        let ran = Command::new("tmux")
            .arg("-S")
            .arg(&socket)
            .args(["-f", "/dev/null"])
            .args(arguments)
            .env_remove("TMUX")
            .output()?;
        if ran.status.success() {
            Ok(ran)
        } else {
            Err(String::from_utf8_lossy(&ran.stderr).into_owned().into())
        }
    };
    // It signals its end, and stays, so that its screen does.
    let told = format!("tmux -S {} wait-for -S done", quoted(&socket.display().to_string()));
    let program: Vec<String> = wanted.program.iter().map(|it| quoted(it)).collect();
    let script = format!("{}; {told}; exec sleep 600", program.join(" "));
    let (columns, rows) = (wanted.columns.to_string(), wanted.rows.to_string());
    let started = tmux(&[
        "new-session",
        "-d",
        "-x",
        &columns,
        "-y",
        &rows,
        "env",
        "TERM=tmux-256color",
        "sh",
        "-c",
        &script,
    ]);
    let shown = started
        .and_then(|_| tmux(&["wait-for", "done"]))
        .and_then(|_| tmux(&["capture-pane", "-e", "-p", "-S", "-"]));
    let ended = tmux(&["kill-server"]);
    let shown = shown?;
    ended?;
    Ok(String::from_utf8(shown.stdout)?)
}

/// Returns the lines from one that contains the first text to one that contains the second.
fn part(captured: &str, from: Option<&str>, to: Option<&str>) -> Result<String, Box<dyn Error>> {
    let lines: Vec<&str> = captured.lines().collect();
    let find = |text: Option<&str>, otherwise: usize| match text {
        None => Ok(otherwise),
        Some(text) => {
            lines.iter().position(|it| it.contains(text)).ok_or_else(|| format!("no line has `{text}`"))
        }
    };
    let (first, last) = (find(from, 0)?, find(to, lines.len().saturating_sub(1))?);
    Ok(lines.get(first..=last).ok_or("the last line is before the first")?.join("\n"))
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}
