//! The cost of keeping what commands change, beside the same commands without haft.
//!
//! `cargo build --release -p haft && cargo run --release -p bench --bin command_cost [OTHER_HAFT]`
//!
//! Each row is one command: bare (bash in the folder), by haft, and by OTHER_HAFT, such as one of an earlier
//! version that tracks nothing. All are run in turn, so that a busy machine is busy for each of them.

use std::{
    error::Error,
    fs,
    io::{self, BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// One command that is measured.
struct Row {
    name: &'static str,
    /// A script before each run, which is not measured.
    before: &'static str,
    command: &'static str,
    times: usize,
}

const ROWS: &[Row] = &[
    Row { name: "true", before: "", command: "true", times: 200 },
    Row { name: "git status, 20,000 files", before: "", command: "git status --short | wc -l", times: 10 },
    Row {
        name: "build, 5,000 new files of 4 KB",
        before: "rm -rf target",
        command: "mkdir -p target && perl -e 'for (1..5000) { open(F, \">\", \"target/$_.o\"); print F \"x\" x 4096; close F }'",
        times: 5,
    },
    Row {
        name: "build again, 5,000 files overwritten",
        before: "",
        command: "perl -e 'for (1..5000) { open(F, \">\", \"target/$_.o\"); print F \"y\" x 4096; close F }'",
        times: 5,
    },
    Row {
        name: "build, 500 processes with 10 files each",
        before: "rm -rf target",
        command: "mkdir -p target && for i in $(seq 500); do perl -e 'for (1..10) { open(F, \">\", \"target/$ARGV[0].$_\"); print F \"x\" x 4096 }' $i; done",
        times: 3,
    },
    Row {
        name: "rm -rf of 10,000 files",
        before: "mkdir -p target/many && perl -e 'for (1..10000) { open(F, \">\", \"target/many/$_\"); print F $_ }'",
        command: "rm -rf target/many",
        times: 5,
    },
    Row {
        name: "append to a file of 2 GB",
        before: "",
        command: "head -c 1000000 /dev/zero >> target.big",
        times: 10,
    },
    Row {
        name: "sed -i on 2,000 files",
        before: "",
        command: "sed -i s/file/FILE/ files/d1/*.txt files/d2/*.txt files/d3/*.txt files/d4/*.txt",
        times: 5,
    },
];

/// Makes the folder in which all of it happens.
const FOLDER: &str = r#"
mkdir -p files && perl -e 'for my $d (1..40) { mkdir "files/d$d"; for (1..500) { open(F, ">", "files/d$d/$_.txt"); print F "file $d $_\n" } }'
printf 'target/\ntarget.big\n' > .gitignore
export GIT_CONFIG_GLOBAL=/dev/null
git init -q && git add -A && git -c user.name=a -c user.email=a@b commit -qm one
head -c 2000000000 /dev/zero > target.big
"#;

fn main() -> Outcome<()> {
    let haft = std::env::current_exe()?.with_file_name("haft");
    let mut sides: Vec<(String, PathBuf)> = vec![("haft".to_owned(), haft)];
    sides.extend(std::env::args_os().skip(1).map(|it| (it.to_string_lossy().into_owned(), it.into())));
    let base = tempfile::tempdir()?;
    let mut out = io::stdout().lock();
    let bare = base.path().join("bare");
    folder(&bare)?;
    let mut running = Vec::new();
    for (number, (name, program)) in sides.iter().enumerate() {
        let workspace = base.path().join(format!("ws{number}"));
        folder(&workspace)?;
        let state = base.path().join(format!("state{number}"));
        running.push((name.as_str(), Haft::start(program, &workspace, &state)?, workspace, state));
    }
    for row in ROWS {
        let mut times = vec![Vec::new(); running.len() + 1];
        for _ in 0..row.times {
            script(&bare, row.before)?;
            let began = Instant::now();
            script(&bare, row.command)?;
            keep(&mut times, 0, began.elapsed());
            for (number, (_, haft, workspace, _)) in running.iter_mut().enumerate() {
                script(workspace, row.before)?;
                let began = Instant::now();
                haft.call(row.command)?;
                keep(&mut times, number + 1, began.elapsed());
            }
        }
        let mut times = times.into_iter().map(median);
        let bare = times.next().unwrap_or_default();
        write!(out, "{:<42} bare {bare:>10.2?}", row.name)?;
        for ((name, ..), time) in running.iter().zip(times) {
            write!(
                out,
                "   {name} {time:>10.2?} ({:+.2} ms)",
                (time.as_secs_f64() - bare.as_secs_f64()) * 1000.0
            )?;
        }
        writeln!(out)?;
    }
    for (name, _, _, state) in &running {
        writeln!(out, "{name}: {} MB in its state folder", bytes(state) / 1_000_000)?;
    }
    Ok(())
}

/// A `haft call --batch` that takes one call after the other.
struct Haft {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Haft {
    fn start(program: &Path, workspace: &Path, state: &Path) -> Outcome<Self> {
        let home = state.with_extension("home");
        fs::create_dir_all(&home)?;
        let mut child = Command::new(program)
            .arg("--dir")
            .arg(workspace)
            .args(["call", "--json", "--batch", "-"])
            .env("HAFT_STATE_DIR", state)
            .env("HAFT_CONFIG_DIR", home.join("config"))
            .env("HOME", home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let input = child.stdin.take().ok_or("no input")?;
        let output = BufReader::new(child.stdout.take().ok_or("no output")?);
        let mut haft = Self { child, input, output };
        haft.call("true")?;
        Ok(haft)
    }

    fn call(&mut self, command: &str) -> Outcome<()> {
        let arguments = json!({"command": command, "wait_ms": 600_000});
        writeln!(self.input, "{}", json!({"tool": "shell", "arguments": arguments}))?;
        self.input.flush()?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        let answer: Value = serde_json::from_str(&line)?;
        if answer.get("ok") == Some(&Value::Bool(true)) { Ok(()) } else { Err(line.into()) }
    }
}

impl Drop for Haft {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn folder(path: &Path) -> Outcome<()> {
    fs::create_dir_all(path)?;
    script(path, FOLDER)
}

fn script(folder: &Path, script: &str) -> Outcome<()> {
    if script.is_empty() {
        return Ok(());
    }
    let ran = Command::new("bash").args(["-c", script]).current_dir(folder).stdin(Stdio::null()).output()?;
    if ran.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&ran.stderr).into_owned().into()) }
}

fn keep(times: &mut [Vec<Duration>], at: usize, time: Duration) {
    if let Some(times) = times.get_mut(at) {
        times.push(time);
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn bytes(path: &Path) -> u64 {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let of_entry = |it: fs::DirEntry| match it.metadata() {
        Ok(about) if about.is_dir() => bytes(&it.path()),
        Ok(about) => about.len(),
        Err(_) => 0,
    };
    entries.map(of_entry).sum()
}
