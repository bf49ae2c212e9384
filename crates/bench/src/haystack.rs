//! `grep` beside ripgrep.
//!
//! Both search the same 20,000 files with a warm cache, in turn, and both count every
//! match. The time of `rg` has the start of its process in it, and the writing of all
//! matches to a pipe, which weighs where they are many (`common word`); that of `grep`
//! has everything from the arguments as JSON to the page of text that the model reads.

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use kit::testing::TestWorkspace;
use serde_json::{Value, json};

const FOLDERS: usize = 800;
const FILES_PER_FOLDER: usize = 25;

/// Number of files that [`tree`] creates.
pub const FILES: usize = FOLDERS * FILES_PER_FOLDER;

/// A case: its name, the arguments of `grep`, and the equivalent ones of `rg`.
pub type Case = (&'static str, Value, &'static [&'static str]);

/// The result of a case.
pub struct Compared {
    /// The median time of `grep`.
    pub grep: Duration,
    /// The median time of `rg`, if there is one.
    pub rg: Option<Duration>,
    /// The output of `grep`.
    pub says: String,
}

/// The cases, the plainest first.
pub fn cases() -> [Case; 7] {
    [
        ("rare literal", json!({"pattern": "needle_in_the_hay"}), &["-n", "needle_in_the_hay"]),
        ("common word", json!({"pattern": "return"}), &["-n", "return"]),
        ("regex with class", json!({"pattern": r"fn [a-z]+_7\d\d\("}), &["-n", r"fn [a-z]+_7\d\d\("]),
        ("ignoring case", json!({"pattern": "NEEDLE_in", "ignore_case": true}), &["-n", "-i", "NEEDLE_in"]),
        ("files mode", json!({"pattern": "value_13", "mode": "files"}), &["-l", "value_13"]),
        ("count mode", json!({"pattern": "value_13", "mode": "count"}), &["-c", "value_13"]),
        ("no match", json!({"pattern": "zzz_nowhere"}), &["-n", "zzz_nowhere"]),
    ]
}

/// Measures one case, `runs` times per side.
///
/// # Errors
/// When `grep` does not return what the case expects.
pub fn compare(
    dir: &Path,
    (_, arguments, rg_arguments): &Case,
    runs: usize,
) -> Result<Compared, Box<dyn Error>> {
    let tools = tools::all();
    let Some(grep) = tools.iter().find(|tool| tool.spec().name == "grep") else {
        return Err("there is no `grep`".into());
    };
    let test_ws = TestWorkspace::at(dir);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let grep = |arguments: &Value| -> Result<String, Box<dyn Error>> {
        let call = grep.prepare(arguments.clone())?;
        let cx = test_ws.cx_for(&call.touches());
        Ok(runtime.block_on(call.run(cx))?.as_text())
    };
    let mut ours = Vec::new();
    let mut theirs = Vec::new();
    let mut says = String::new();
    for run in 0..=runs {
        let began = Instant::now();
        says = grep(arguments)?;
        let took = began.elapsed();
        let began = Instant::now();
        let done = rg(dir, rg_arguments);
        // The first run only warms the cache.
        if run > 0 {
            ours.push(took);
            theirs.extend(done.map(|()| began.elapsed()));
        }
    }
    Ok(Compared { grep: median(&mut ours).unwrap_or_default(), rg: median(&mut theirs), says })
}

/// Runs `rg`; `None` if it is not installed. Its exit code 1 means that nothing was found, which is fine.
fn rg(dir: &Path, arguments: &[&str]) -> Option<()> {
    let mut rg = Command::new("rg");
    rg.args(["--no-config", "--color=never"]).args(arguments).arg(".").current_dir(dir);
    let output = rg.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    matches!(output.status.code(), Some(0 | 1)).then_some(())
}

fn median(times: &mut [Duration]) -> Option<Duration> {
    times.sort_unstable();
    times.get(times.len() / 2).copied()
}

/// Returns the tree to search, created once: it is the same each time.
///
/// # Errors
/// When it can't be written.
pub fn tree() -> Result<PathBuf, Box<dyn Error>> {
    let dir = std::env::temp_dir().join("haft-grep-speed-1");
    let done = dir.join("done");
    if done.exists() {
        return Ok(dir.join("tree"));
    }
    let top = dir.join("tree");
    fs::create_dir_all(top.join(".git"))?;
    fs::write(top.join(".gitignore"), "/target/\n*.log\n*.tmp\n!keep.log\n__generated__/\n")?;
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        usize::try_from(random % below as u64).unwrap_or(0)
    };
    for folder in 0..FOLDERS {
        let (one, two) = (folder / 100, folder / 10 % 10);
        let at = top.join(format!("area_{one}/part_{two}/module_{folder}"));
        fs::create_dir_all(&at)?;
        if folder % 40 == 0 {
            fs::write(at.join(".gitignore"), "*.bak\n/private/\n")?;
            fs::write(at.join("old.bak"), "needle_in_the_hay\n")?;
        }
        fs::write(at.join("run.log"), "needle_in_the_hay\n".repeat(100))?;
        for file in 0..FILES_PER_FOLDER {
            let extension = ["rs", "py", "ts", "md", "toml"].get(file % 5).copied().unwrap_or("txt");
            let mut text = String::new();
            for line in 0..20 + next(180) {
                let indent = "    ".repeat(next(4));
                let (a, b) = (next(1_000), next(1_000));
                text.push_str(&match line % 5 {
                    0 => format!("pub fn compute_{a}(value_{b}: usize) -> usize {{\n"),
                    1 => {
                        format!("{indent}let value_{a} = table[{b}].checked_add({a}).unwrap_or_default();\n")
                    }
                    2 => format!("{indent}// the entry of row {a} comes before that of column {b}\n"),
                    3 => format!("{indent}return value_{a} + value_{b};\n"),
                    _ => "}\n\n".to_owned(),
                });
            }
            if next(400) == 0 {
                text.push_str("const X: &str = \"needle_in_the_hay\";\n");
            }
            fs::write(at.join(format!("file_{file}.{extension}")), text)?;
        }
    }
    for number in 0..500 {
        let at = top.join(format!("target/debug/{}", number % 20));
        fs::create_dir_all(&at)?;
        fs::write(at.join(format!("out_{number}.rs")), "needle_in_the_hay return\n".repeat(50))?;
    }
    fs::write(done, "")?;
    Ok(top)
}
