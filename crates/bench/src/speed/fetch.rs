//! Markdown of a large page, beside a widely used library.

use std::{
    fmt::Write as _,
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

use kit::net::Url;

use super::{Aim, Comparison, Row, Scratch, Times, Trouble, in_turn, timed};

/// The page in bytes.
const PAGE: usize = 1_000_000;

const RUNS: usize = 10;

/// A script that converts the page in its argument once for each line of input, and prints the time it took,
/// in nanoseconds.
const THEIRS: &str = r#"
import sys, time, trafilatura
page = open(sys.argv[1], encoding="utf-8").read()
for line in sys.stdin:
    begun = time.perf_counter_ns()
    text = trafilatura.extract(page, url="https://docs.example.org/book/", output_format="markdown",
        include_links=True, include_tables=True, include_formatting=True)
    took = time.perf_counter_ns() - begun
    print(took, len(text or ""), flush=True)
"#;

pub(super) fn rows(scratch: &Scratch) -> Result<Vec<Row>, Trouble> {
    let page = page();
    let path = scratch.folder("fetch")?.join("page.html");
    fs::write(&path, &page)?;
    let url = Url::parse("https://docs.example.org/book/")?;
    let mut ours = || {
        timed(|| {
            let text = tools::page_as_markdown(&page, &url);
            if text.len() < PAGE / 3 {
                Err(format!("only {} bytes of it are left", text.len()).into())
            } else {
                Ok(())
            }
        })
    };
    let what = format!("a page of {} MB as Markdown", PAGE / 1_000_000);
    let mut theirs = match Theirs::start(scratch, &path) {
        Ok(theirs) => theirs,
        Err(why) => {
            let [times] = in_turn(RUNS, [&mut ours])?;
            let missing = Comparison::Missing(format!("trafilatura is not to be had: {why}"));
            return Ok(vec![times.row(what, missing, None)]);
        }
    };
    let [ours, them]: [Times; 2] = in_turn(RUNS, [&mut ours, &mut || theirs.convert()])?;
    Ok(vec![ours.row(
        what,
        them.comparison(format!("python3, trafilatura {}", theirs.version)),
        Some(Aim::Times(1.0)),
    )])
}

/// A process in which trafilatura is loaded.
struct Theirs {
    child: Child,
    ask: ChildStdin,
    told: BufReader<ChildStdout>,
    version: String,
}

impl Theirs {
    fn start(scratch: &Scratch, page: &Path) -> Result<Self, Trouble> {
        let python = python(scratch)?;
        let about = Command::new(&python)
            .args(["-c", "import trafilatura; print(trafilatura.__version__)"])
            .output()?;
        let version = String::from_utf8_lossy(&about.stdout).trim().to_owned();
        if !about.status.success() {
            return Err("it can't be imported".into());
        }
        let mut command = Command::new(python);
        command.args(["-c", THEIRS]).arg(page).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let (ask, told) = (child.stdin.take(), child.stdout.take());
        let (Some(ask), Some(told)) = (ask, told) else { return Err("it has no pipes".into()) };
        Ok(Self { child, ask, told: BufReader::new(told), version })
    }

    fn convert(&mut self) -> Result<Duration, Trouble> {
        self.ask.write_all(b"\n")?;
        let mut line = String::new();
        self.told.read_line(&mut line)?;
        let (took, length) = line.trim().split_once(' ').ok_or("it said nothing")?;
        if length == "0" {
            return Err("it found nothing in the page".into());
        }
        Ok(Duration::from_nanos(took.parse()?))
    }
}

impl Drop for Theirs {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a Python with trafilatura: a virtual environment, which is kept for the next run.
fn python(scratch: &Scratch) -> Result<PathBuf, Trouble> {
    let folder = scratch.target.join("speed-trafilatura");
    let python = folder.join("bin/python3");
    let has_it = |python: &Path| {
        let tried = Command::new(python).args(["-c", "import trafilatura"]).stderr(Stdio::null()).status();
        tried.is_ok_and(|it| it.success())
    };
    if has_it(&python) {
        return Ok(python);
    }
    let made = Command::new("python3").args(["-m", "venv"]).arg(&folder).stdout(Stdio::null()).status()?;
    if !made.success() {
        return Err("python3 makes no virtual environment".into());
    }
    let got = Command::new(&python)
        .args(["-m", "pip", "install", "--quiet", "trafilatura"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    if got.success() && has_it(&python) { Ok(python) } else { Err("pip can't install it".into()) }
}

/// Returns a page of a manual: menus around it, headings, paragraphs with links, code, tables, lists.
fn page() -> String {
    let mut html = String::from(
        "<!doctype html><html lang=en><head><meta charset=utf-8><title>The book of examples</title>\
         <style>.x{color:red}</style><script>var a = 1 < 2;</script></head><body><nav><ul>",
    );
    for item in 0..200 {
        // Writing into a string does not fail.
        let _ = write!(html, "<li><a href=/book/{item}>Chapter {item}</a></li>");
    }
    html.push_str("</ul></nav><main><article><h1>The book of examples</h1>");
    let mut section = 0;
    while html.len() < PAGE {
        section += 1;
        let _ = write!(
            html,
            "<section id=s{section}><h2>Section {section}</h2><p>This is about <em>things</em> number {section}, which are \
             <strong>not</strong> what they seem, as <a href=\"/ref/{section}\">the reference</a> says, and \
             <code>thing_{section}()</code> shows: each of them is different, and each has its place in the order of things.</p>\
             <p>More is to be said of them, but not here; whoever wants to know reads on, and finds what was looked for, \
             somewhere between the first page and the last, &amp; a bit after that.</p>\
             <pre><code class=\"language-rust\">fn thing_{section}() -&gt; u32 {{\n    let a = {section};\n    a + 1\n}}\n</code></pre>\
             <table><thead><tr><th>name</th><th>value</th></tr></thead><tbody>"
        );
        for row in 0..6 {
            let _ = write!(html, "<tr><td>row {row}</td><td>{}</td></tr>", section * row);
        }
        html.push_str(
            "</tbody></table><ul><li>one</li><li>two <ul><li>two and a half</li></ul></li></ul></section>",
        );
    }
    html.push_str("</article></main><footer>The end. <a href=/imprint>Imprint</a></footer></body></html>");
    html
}
