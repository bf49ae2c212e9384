//! Commands through the keeper, beside those started directly.
//!
//! `cargo build --release -p haft && cargo run --release -p bench --bin start_speed`

use std::{
    error::Error,
    fs,
    io::{self, Write},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use kit::procs::{Base, Keeper, Program, Stdin, Streams};

/// Number of runs of each, in turn.
const TIMES: usize = 1000;
/// Number of idle processes at once.
const QUIET: usize = 1000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let haft = std::env::current_exe()?.with_file_name("haft");
    let mut command = Command::new(haft);
    command.arg("keeper");
    let (keeper, ..) = Keeper::spawn(command, b"").await?;
    let env = [("PATH".to_owned(), std::env::var("PATH")?)];
    let base = Base { env: &env, ..Base::default() };
    let mut out = io::stdout().lock();

    let (mut direct, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..TIMES {
        let begun = Instant::now();
        Command::new("sh").args(["-c", "true"]).stdin(Stdio::null()).stdout(Stdio::null()).status()?;
        direct.push(begun.elapsed());
        let begun = Instant::now();
        keeper.start(program(&["sh", "-c", "true"]), base).await?.exited().await;
        ours.push(begun.elapsed());
    }
    let (direct, ours) = (median(direct), median(ours));
    let ratio = ours.as_secs_f64() / direct.as_secs_f64();
    writeln!(out, "sh -c true: direct {direct:?}, through the keeper {ours:?}, ratio {ratio:.2}")?;

    let own = memory("self")?;
    let begun = Instant::now();
    let mut all = Vec::new();
    for _ in 0..QUIET {
        all.push(keeper.start(program(&["sleep", "1000"]), base).await?);
    }
    let took = begun.elapsed();
    let parent = parent(all.first().ok_or("none")?.pid())?;
    let each = (memory("self")? - own) / QUIET as u64;
    writeln!(
        out,
        "{QUIET} at once: {took:?} to start; of haft's memory {each} KB each; a supervisor has {} KB of its own",
        memory(&parent)?
    )?;
    let begun = Instant::now();
    let mut marks = Vec::new();
    for process in all.iter().take(100) {
        let begun = Instant::now();
        process.mark().await;
        marks.push(begun.elapsed());
    }
    writeln!(out, "a mark: {:?}, {:?} for 100", median(marks), begun.elapsed())?;

    let begun = Instant::now();
    let flood = keeper.start(program(&["head", "-c", "1000000000", "/dev/zero"]), base).await?;
    flood.finished(Duration::from_secs(60)).await;
    writeln!(out, "1 GB, kept nowhere: {:?}", begun.elapsed())?;
    Ok(())
}

fn program(argv: &[&str]) -> Program {
    Program {
        argv: argv.iter().map(|it| (*it).to_owned()).collect(),
        cwd: "/".into(),
        env: Vec::new(),
        stdin: Stdin::Null,
        streams: Streams::Together,
        files: Vec::new(),
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Returns the unshared memory of a process, in KB.
fn memory(pid: &str) -> Result<u64, Box<dyn Error>> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let line = rollup.lines().find_map(|it| it.strip_prefix("Private_Dirty:")).ok_or("no such line")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

fn parent(pid: u32) -> Result<String, Box<dyn Error>> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    Ok(status.lines().find_map(|it| it.strip_prefix("PPid:")).ok_or("no parent")?.trim().to_owned())
}
