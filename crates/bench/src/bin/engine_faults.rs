//! Work on engines under faults: no effect happens twice, no result is lost, and each call has an answer.
//!
//! `cargo run --release -p bench --bin engine_faults [-- --engine sqlite|nats|cluster] [--faults N] [--seed N] [--only KINDS]
//! [--sample]`; by default 5,000 faults of each engine: `kill -9` of workers, senders and servers, stops of each that last longer than the lease,
//! which is 1 s, and, as root on Linux: partitions by network namespaces, wall clocks moved by libfaketime, a full disk (a small
//! tmpfs below the engine), and a slow fsync (strace's inject). `cluster` is three servers, one of which fails at a time.
//! `--only partition,clock` makes only these kinds, of kill-worker, kill-sender, stop-worker, stop-sender, kill-server, stop-server,
//! partition, partition-server, clock, full-disk and slow-fsync. Runs beside each other don't share anything.
//! `--sample` is less than two minutes. The server is a nats-server on PATH, or one that `uv` installs.

use std::{
    io::{self, Write as _},
    path::Path,
    time::Instant,
};

use bench::engine_faults::{Fault, Load, Place, Trouble, run, run_sender, run_worker};

const WHOLE: u64 = 5_000;
const SAMPLE: u64 = 150;

struct Arguments {
    places: Vec<Place>,
    load: Load,
}

fn main() -> Result<(), Trouble> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [role @ ("worker" | "sender"), folder, url, nkey, name] =
        words.iter().map(String::as_str).collect::<Vec<_>>().as_slice()
    {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let folder = Path::new(folder);
        return match *role {
            "worker" => runtime.block_on(run_worker(folder, url, nkey, name)),
            _ => runtime.block_on(run_sender(folder, url, nkey, name)),
        };
    }
    let Arguments { places, load } = arguments(&words)?;
    let mut out = io::stdout();
    writeln!(
        out,
        "| engine | faults | works | done | interrupted (of these happened) | double effects | lost results | without an answer | two answers | time |"
    )?;
    writeln!(out, "|---|---|---|---|---|---|---|---|---|---|")?;
    let (mut kinds, mut bad) = (Vec::new(), false);
    for place in places {
        let folder = tempfile::tempdir()?;
        let began = Instant::now();
        let it = run(folder.path(), place, &load)?;
        writeln!(
            out,
            "| {place:?} | {} | {} | {} | {} ({}) | {} | {} | {} | {} | {:.0?} |",
            load.faults,
            it.works,
            it.done,
            it.interrupted,
            it.interrupted_after_effect,
            it.double_effects,
            it.lost_results,
            it.unanswered,
            it.contradictions,
            began.elapsed()
        )?;
        for other in &it.others {
            writeln!(out, "{other}")?;
        }
        bad |= it.is_bad();
        if !it.missing.is_empty() {
            writeln!(out, "not possible on this machine: {}", it.missing.join(", "))?;
        }
        kinds.push((place, it.faults));
    }
    for (place, faults) in kinds {
        for (kind, count) in faults {
            writeln!(out, "{place:?}: {count} × {kind}")?;
        }
    }
    if bad { Err("an effect happened twice, or a result or an answer was lost".into()) } else { Ok(()) }
}

fn arguments(words: &[String]) -> Result<Arguments, Trouble> {
    let mut places = vec![Place::Sqlite, Place::Nats];
    let mut load = Load { faults: WHOLE, seed: 20_261_128, only: Vec::new() };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--sample" => load.faults = SAMPLE,
            "--faults" => load.faults = value()?.parse()?,
            "--seed" => load.seed = value()?.parse()?,
            "--only" => load.only = value()?.split(',').map(kind).collect::<Result<_, _>>()?,
            "--engine" => {
                places = match value()?.as_str() {
                    "sqlite" => vec![Place::Sqlite],
                    "nats" => vec![Place::Nats],
                    "cluster" => vec![Place::Cluster],
                    other => {
                        return Err(
                            format!("{other:?} is not an engine: give sqlite, nats or cluster").into()
                        );
                    }
                }
            }
            other => return Err(format!("{other:?} is not an option of engine_faults").into()),
        }
    }
    Ok(Arguments { places, load })
}

fn kind(name: &str) -> Result<Fault, Trouble> {
    let found = Fault::ALL.iter().find(|it| it.0 == name).map(|it| it.1);
    let names: Vec<&str> = Fault::ALL.iter().map(|it| it.0).collect();
    found.ok_or_else(|| format!("{name:?} is not a kind of fault: give some of {}", names.join(",")).into())
}
