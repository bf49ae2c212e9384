//! The session service under load: latency from an event to its watchers, attaching, memory, and processes that are killed.
//!
//! `cargo run --release -p bench --bin sessions_load [KILLS [SEED]]`; by default 1,000 kills. Each figure of another process is
//! one of this program.

use std::{
    collections::HashMap,
    error::Error,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use kit::redact::Secrets;
use serde_json::{Value, json};
use sessions::{Event, Fold, Opener as _, Operation, Prompt, Row, Sessions, Watcher, testing::ScriptOpener};

/// Kills, unless the first argument says how many.
const KILLS: usize = 1000;
/// The seed of when, unless the second argument says which.
const SEED: u64 = 20_261_124;
/// Events whose way is measured, one every two milliseconds.
const EVENTS: usize = 2000;
/// Events of the session that is attached to.
const LONG: usize = 10_000;
/// Watchers at once.
const WATCHERS: usize = 100;
/// Sessions that do nothing.
const IDLE: usize = 50;
/// Kills of one session, before the next one begins.
const KILLS_OF_ONE: usize = 20;
/// Prompts of a session that is killed.
const PROMPTS: usize = 20;
/// Timeout for the next row of a watcher.
const TIMEOUT: Duration = Duration::from_secs(60);

type Trouble = Box<dyn Error>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Trouble> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["watch", folder] => watch(Path::new(folder)).await,
        ["run", folder] => run(Path::new(folder)).await,
        rest => {
            let kills = rest.first().map_or(Ok(KILLS), |it| it.parse())?;
            let seed = rest.get(1).map_or(Ok(SEED), |it| it.parse())?;
            table(kills, seed).await
        }
    }
}

async fn table(kills: usize, seed: u64) -> Result<(), Trouble> {
    let mut out = io::stdout();
    writeln!(out, "| what | figure |\n|---|---|")?;
    let memory = idle().await?;
    writeln!(out, "| memory of an idle session, {IDLE} of them after a turn | {:.0} kB |", memory / 1e3)?;
    let (mut here, there) = latencies(1).await?;
    writeln!(out, "| event to watcher, in process | {} |", quantiles(&mut here))?;
    writeln!(out, "| event to watcher, another process | {there} |")?;
    let (mut here, _) = latencies(WATCHERS).await?;
    writeln!(out, "| event to each of {WATCHERS} watchers, in process | {} |", quantiles(&mut here))?;
    let (own, other) = attach().await?;
    writeln!(out, "| attach to {LONG} events and read all, in the owner | {own:.0?} |")?;
    writeln!(out, "| attach to {LONG} events and read all, beside it | {other:.0?} |")?;
    let Killed { kills, rows, lost, repeated } = kill(kills, seed).await?;
    writeln!(
        out,
        "| kill -9, {rows} rows seen meanwhile | {kills} kills: {lost} losses, {repeated} repeats |"
    )?;
    if lost + repeated > 0 { Err("events were lost or repeated".into()) } else { Ok(()) }
}

fn process(folder: &Path) -> Result<ScriptOpener, Trouble> {
    fs::create_dir_all(folder.join("ws"))?;
    ScriptOpener::new(&folder.join("ws"), &folder.join("state"), Secrets::none()).map_err(|it| it.what.into())
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

fn quantiles(all: &mut [u64]) -> String {
    all.sort_unstable();
    let at = |part: usize| {
        all.get((all.len() * part / 100).min(all.len().saturating_sub(1))).copied().unwrap_or(0)
    };
    format!("p50 {} µs, p99 {} µs", at(50) / 1000, at(99) / 1000)
}

/// How long each event took that says when it was.
async fn measure(watcher: &mut Watcher) -> Result<Vec<u64>, Trouble> {
    let mut all = Vec::new();
    while all.len() < EVENTS {
        let row = tokio::time::timeout(TIMEOUT, watcher.next()).await?.map_err(|it| it.what)?;
        if let Event::Told { text } = &row.event
            && let Ok(at) = text.parse::<u64>()
        {
            all.push(now().saturating_sub(at));
        }
    }
    Ok(all)
}

/// Latencies of so many watchers here, and what one in another process says.
async fn latencies(watchers: usize) -> Result<(Vec<u64>, String), Trouble> {
    let folder = tempfile::tempdir()?;
    let opener = process(folder.path())?;
    let sessions = opener.sessions();
    let prepared = sessions.prepare("s");
    let opened = opener.open(&prepared).map_err(|it| it.what)?;
    let owner = prepared.own(&opened.agent).await.map_err(|it| it.what)?;
    let child = Command::new(std::env::current_exe()?)
        .arg("watch")
        .arg(folder.path())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut tasks = Vec::new();
    for _ in 0..watchers {
        let mut watcher = owner.watch(0);
        tasks.push(tokio::spawn(async move { measure(&mut watcher).await.map_err(|it| it.to_string()) }));
    }
    // Until it follows by the socket.
    tokio::time::sleep(Duration::from_secs(1)).await;
    for _ in 0..EVENTS {
        owner.log().add(Event::Told { text: now().to_string() });
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await??);
    }
    let there = tokio::task::spawn_blocking(move || child.wait_with_output()).await??;
    owner.close("bench").await.map_err(|it| it.what)?;
    Ok((all, String::from_utf8_lossy(&there.stdout).trim().to_owned()))
}

/// A watcher in a process of its own.
async fn watch(folder: &Path) -> Result<(), Trouble> {
    let sessions = process(folder)?.watching();
    let mut all = measure(&mut sessions.watch("s", 0)).await?;
    writeln!(io::stdout(), "{}", quantiles(&mut all))?;
    Ok(())
}

async fn read_all(from: &mut Watcher) -> Result<(), Trouble> {
    let mut fold = Fold::new();
    while let Some(row) = from.try_next().await.map_err(|it| it.what)? {
        fold.add(&row);
    }
    if fold.head < LONG as u64 { Err("the session is shorter than it was made".into()) } else { Ok(()) }
}

/// How long it takes to attach to a long session, in its owner and beside it.
async fn attach() -> Result<(Duration, Duration), Trouble> {
    let folder = tempfile::tempdir()?;
    let opener = process(folder.path())?;
    let handle = opener.sessions();
    {
        let prepared = handle.prepare("s");
        let opened = opener.open(&prepared).map_err(|it| it.what)?;
        let owner = prepared.own(&opened.agent).await.map_err(|it| it.what)?;
        for at in 0..LONG {
            owner.log().add(agent::Event::Note { text: format!("event {at} of a long session") });
            if at % 1000 == 0 {
                owner.log().flush().await.map_err(|it| it.what)?;
            }
        }
        owner.close("bench").await.map_err(|it| it.what)?;
    }
    let began = Instant::now();
    let own = handle.attach("s", "bench").await.map_err(|it| it.what)?;
    read_all(&mut own.watch(0)).await?;
    let here = began.elapsed();
    let beside = process(folder.path())?.watching();
    let began = Instant::now();
    let other = beside.attach("s", "bench").await.map_err(|it| it.what)?;
    read_all(&mut other.watch(0)).await?;
    Ok((here, began.elapsed()))
}

/// The memory that this process has, in bytes.
fn resident() -> Result<f64, Trouble> {
    let pages: f64 = fs::read_to_string("/proc/self/statm")?.split(' ').nth(1).unwrap_or("0").parse()?;
    Ok(pages * 4096.0)
}

/// The memory of a session that did one turn, in bytes.
async fn idle() -> Result<f64, Trouble> {
    let folder = tempfile::tempdir()?;
    let sessions = process(folder.path())?.sessions();
    let mut handles = Vec::new();
    let mut before = 0.0;
    for at in 0..=IDLE {
        let handle = sessions.open(None, "bench").await.map_err(|it| it.what)?;
        let said =
            Operation::Prompt(Prompt::new(json!([{"say": "a word and another ".repeat(50)}]).to_string()));
        handle.act("k", said).await.map_err(|it| it.what)?;
        handles.push(handle);
        // The first one pays for what all have in common.
        if at == 0 {
            before = resident()?;
        }
    }
    Ok((resident()? - before) / IDLE as f64)
}

struct Killed {
    kills: usize,
    rows: usize,
    lost: usize,
    repeated: usize,
}

fn prompt(at: usize) -> Operation {
    let say = |text: &str| json!({"tool": "say", "arguments": {"text": text, "after_ms": 2}});
    let answers: Vec<Value> = vec![
        json!({"think": "hm, ".repeat(10), "say": format!("prompt {at} begins. ").repeat(6), "chunks": 8, "chunk_ms": 3,
            "calls": [say("one"), say("two")]}),
        json!({"say": "in the middle. ".repeat(6), "chunks": 8, "chunk_ms": 3, "calls": [say("three")]}),
        json!({"say": format!("prompt {at} is done.")}),
    ];
    Operation::Prompt(Prompt::new(json!(answers).to_string()))
}

/// Runs a session until all its prompts are done.
async fn run(folder: &Path) -> Result<(), Trouble> {
    let sessions = process(folder)?.sessions();
    let handle = sessions.open(Some("s"), "run").await.map_err(|it| it.what)?;
    for at in 0..PROMPTS {
        handle.act(&format!("k{at}"), prompt(at)).await.map_err(|it| it.what)?;
    }
    handle.act("close", Operation::Close).await.map_err(|it| it.what)?;
    Ok(())
}

/// Kills processes that run a session, and compares what a watcher saw with the log.
async fn kill(most: usize, seed: u64) -> Result<Killed, Trouble> {
    let mut all = Killed { kills: 0, rows: 0, lost: 0, repeated: 0 };
    let mut random = seed;
    while all.kills < most {
        let folder = tempfile::tempdir()?;
        let sessions = process(folder.path())?.watching();
        let (mut watcher, mut rows) = (sessions.watch("s", 0), Vec::new());
        let mut left = KILLS_OF_ONE.min(most - all.kills);
        loop {
            let mut child = begin(folder.path())?;
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let until = if left > 0 { 2 + usize::try_from(random >> 58)? } else { usize::MAX };
            let is_over = collect(&mut watcher, &mut rows, until).await?;
            if is_over {
                child.wait()?;
                break;
            }
            tokio::time::sleep(Duration::from_micros(random >> 50)).await;
            child.kill()?;
            child.wait()?;
            all.kills += 1;
            left -= 1;
        }
        all.rows += rows.len();
        compare(&sessions, &rows, watcher.after(), &mut all).await?;
    }
    Ok(all)
}

fn begin(folder: &Path) -> Result<std::process::Child, Trouble> {
    let program: PathBuf = std::env::current_exe()?;
    Ok(Command::new(program).arg("run").arg(folder).stdin(Stdio::null()).spawn()?)
}

/// Collects so many rows, or those until the session is closed: then it gives true.
async fn collect(watcher: &mut Watcher, rows: &mut Vec<Row>, most: usize) -> Result<bool, Trouble> {
    for _ in 0..most {
        let row = tokio::time::timeout(TIMEOUT, watcher.next()).await?.map_err(|it| it.what)?;
        let is_closed = matches!(row.event, Event::Closed { .. });
        rows.push(row);
        if is_closed {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Compares a watcher's rows with the log: adds differences, repeated rows, and lost or repeated turns to `all`.
async fn compare(sessions: &Sessions, rows: &[Row], after: u64, all: &mut Killed) -> Result<(), Trouble> {
    let mut log = sessions.export("s").await.map_err(|it| it.what)?;
    // Whoever closed it may have been killed right then, and have had to open and close it once more.
    log.retain(|it| it.seq <= after);
    let fold = |rows: &[Row]| {
        let mut fold = Fold::new();
        rows.iter().for_each(|it| fold.add(it));
        fold
    };
    let (seen, said) = (fold(rows), fold(&log));
    if seen != said {
        writeln!(io::stderr(), "seen: {seen:?}\nlog: {said:?}")?;
        all.lost += 1;
    }
    all.repeated += rows.windows(2).filter(|it| matches!(it, [one, next] if next.seq <= one.seq)).count();
    let mut turns: HashMap<String, (usize, usize)> = HashMap::new();
    for row in &log {
        match &row.event {
            Event::TurnBegan { key: Some(key), .. } => turns.entry(key.clone()).or_default().0 += 1,
            Event::TurnEnded(end) => turns.entry(end.key.clone().unwrap_or_default()).or_default().1 += 1,
            _ => {}
        }
    }
    for at in 0..PROMPTS {
        let (began, ended) = turns.get(&format!("k{at}")).copied().unwrap_or_default();
        if (began, ended) != (1, 1) {
            writeln!(io::stderr(), "prompt {at} began {began} times and ended {ended} times")?;
        }
        all.lost += usize::from(began == 0) + usize::from(ended == 0);
        all.repeated += began.saturating_sub(1) + ended.saturating_sub(1);
    }
    Ok(())
}
