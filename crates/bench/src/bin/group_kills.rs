//! Random groups of agents under `kill -9`: each accepted message is shown once to each recipient, no trigger fires twice, and
//! none is missed against its policy.
//!
//! `cargo run --release -p bench --bin group_kills [-- --runs N --seed N --jobs N | -- --sample]`; by default 2,000 runs. Each run
//! has a random group of up to 12 agents, whose process is killed up to three times at random steps. `--sample` is a run of
//! less than a minute, also of a debug build: a test runs it. `--broken inbox-claim` breaks a guarantee, in a debug build
//! alone, and then this fails. With the variable HAFT_KEEP, the folders of failed runs stay.

use std::{
    io::{self, Write as _},
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Instant,
};

use bench::group_kills::{Counts, Kills, Trouble, one_run, run_group, run_member};

/// The numbers of a run of this program.
struct Load {
    runs: u64,
    seed: u64,
    jobs: usize,
    broken: Option<String>,
}

const WHOLE: u64 = 2_000;
const SAMPLE: u64 = 16;
/// The faults that are printed.
const SHOWN: usize = 20;

fn main() -> Result<(), Trouble> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [verb @ ("run" | "member"), folder, ahead] =
        arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice()
    {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (folder, ahead) = (Path::new(folder), ahead.parse()?);
        return match *verb {
            "run" => runtime.block_on(run_group(folder, ahead)),
            _ => runtime.block_on(run_member(folder, ahead)),
        };
    }
    let load = load(&arguments)?;
    let began = Instant::now();
    let counts = all(&load)?;
    let Counts { runs, members, kills, messages, broadcasts, wired, fires, passed, .. } = counts;
    let mut out = io::stdout();
    writeln!(
        out,
        "| runs | agents | kills | messages shown | on channels | by wires | fires | not fired by policy |"
    )?;
    writeln!(out, "|---|---|---|---|---|---|---|---|")?;
    writeln!(
        out,
        "| {runs} | {members} | {kills} | {messages} | {broadcasts} | {wired} | {fires} | {passed} |"
    )?;
    writeln!(
        out,
        "{runs} runs in {:.0?}: {} lost, {} repeated, {} double fires, {} missed fires, {} other faults",
        began.elapsed(),
        counts.lost,
        counts.repeated,
        counts.double,
        counts.missed,
        counts.faults.len()
    )?;
    for fault in counts.faults.iter().take(SHOWN) {
        writeln!(out, "{fault}")?;
    }
    if counts.is_bad() { Err("messages or triggers were lost or repeated".into()) } else { Ok(()) }
}

fn load(arguments: &[String]) -> Result<Load, Trouble> {
    let mut load = Load { runs: WHOLE, seed: 20_261_125, jobs: 3, broken: None };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--runs" => load.runs = value()?.parse()?,
            "--seed" => load.seed = value()?.parse()?,
            "--jobs" => load.jobs = value()?.parse()?,
            "--broken" => load.broken = Some(value()?.clone()),
            "--sample" => load.runs = SAMPLE,
            other => return Err(format!("unknown argument {other}").into()),
        }
    }
    Ok(load)
}

/// Makes all runs, some at the same time.
fn all(load: &Load) -> Result<Counts, Trouble> {
    let program = std::env::current_exe()?;
    let (next, counts) = (AtomicU64::new(0), Mutex::new(Counts::default()));
    let work = || -> Result<(), Trouble> {
        let posts = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let kills = Kills { program: &program, broken: load.broken.as_deref() };
        loop {
            let run = next.fetch_add(1, Ordering::Relaxed);
            if run >= load.runs {
                return Ok(());
            }
            let seed = load.seed.wrapping_add(run);
            let mut one = one_run(seed, &kills, &posts).map_err(|error| format!("seed {seed}: {error}"))?;
            one.faults.iter_mut().for_each(|it| *it = format!("seed {seed}: {it}"));
            counts.lock().map_err(|_| "a thread panicked")?.add(one);
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..load.jobs.max(1)).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|it| it.join().map_err(|_| "a thread panicked")?)
    })?;
    counts.into_inner().map_err(|_| "a thread panicked".into())
}
