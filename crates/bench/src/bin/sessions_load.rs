//! The session service under load: latency from an event to its watchers, attaching, memory, connections that are cut, and
//! processes that are killed.
//!
//! `cargo run --release -p bench --bin sessions_load [-- --kills N --seed N | -- --sample]`; by default 1,000 kills in one go.
//! `--sample` is a run of less than two minutes, also of a debug build: a test runs it. Each figure of another process is one
//! of this program. It fails if anything is lost or repeated.

use std::{
    cell::RefCell,
    collections::HashMap,
    error::Error,
    fs,
    io::{self, BufRead as _, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    rc::Rc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use kit::redact::Secrets;
use serde_json::{Value, json};
use sessions::{
    Event, Fold, Handle, Opener as _, Operation, Prompt, Row, Sessions, Watcher, testing::ScriptOpener,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
    task::{JoinSet, LocalSet},
};

/// How much of everything.
#[derive(Debug, Clone, Copy)]
struct Load {
    /// Events whose way is measured, one every two milliseconds.
    events: usize,
    /// Events of the session that is attached to.
    long: usize,
    /// Watchers at once.
    watchers: usize,
    /// Sessions that do nothing.
    idle: usize,
    /// Connections that are cut.
    cuts: usize,
    /// Processes that are killed.
    kills: usize,
    /// Of when they are cut and killed.
    seed: u64,
}

const WHOLE: Load =
    Load { events: 2000, long: 10_000, watchers: 100, idle: 50, cuts: 1000, kills: 1000, seed: 20_261_124 };

const SAMPLE: Load = Load { events: 200, long: 2000, watchers: 20, idle: 10, cuts: 100, kills: 20, ..WHOLE };

/// Kills of one session, before the next one begins.
const KILLS_OF_ONE: usize = 20;
/// Sessions whose processes are killed at the same time: most of a life is waiting, for the start of a process, the disk and
/// the pauses of the model.
const LANES: usize = 6;
/// Prompts of a session that is killed.
const PROMPTS: usize = 20;
/// Timeout for the next row of a watcher.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The first event of a measurement, which a watcher in another process waits for.
const READY: &str = "ready";

type Trouble = Box<dyn Error>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Trouble> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["watch", folder, events] => watch(Path::new(folder), events.parse()?).await,
        ["run", folder] => run(Path::new(folder)).await,
        rest => table(load(rest)?).await,
    }
}

fn load(mut arguments: &[&str]) -> Result<Load, Trouble> {
    let mut load = WHOLE;
    loop {
        match arguments {
            [] => return Ok(load),
            ["--sample", rest @ ..] => (load, arguments) = (SAMPLE, rest),
            ["--kills", kills, rest @ ..] => (load.kills, arguments) = (kills.parse()?, rest),
            ["--cuts", cuts, rest @ ..] => (load.cuts, arguments) = (cuts.parse()?, rest),
            ["--seed", seed, rest @ ..] => (load.seed, arguments) = (seed.parse()?, rest),
            [other, ..] => {
                let what = format!("`{other}` is unknown: use --sample, --kills N, --cuts N or --seed N");
                return Err(what.into());
            }
        }
    }
}

async fn table(load: Load) -> Result<(), Trouble> {
    let Load { long, watchers, idle: sessions, .. } = load;
    let mut out = io::stdout();
    writeln!(out, "| what | figure |\n|---|---|")?;
    let memory = idle(load).await?;
    writeln!(out, "| memory of an idle session, {sessions} of them after a turn | {:.0} kB |", memory / 1e3)?;
    let (mut here, there) = latencies(load, 1).await?;
    writeln!(out, "| event to watcher, in process | {} |", quantiles(&mut here))?;
    writeln!(out, "| event to watcher, another process | {there} |")?;
    let (mut here, _) = latencies(load, watchers).await?;
    writeln!(out, "| event to each of {watchers} watchers, in process | {} |", quantiles(&mut here))?;
    let (own, other) = attach(load).await?;
    writeln!(out, "| attach to {long} events and read all, taking over | {own:.0?} |")?;
    writeln!(out, "| attach to {long} events and read all, beside the owner | {other:.0?} |")?;
    let mut random = Random(load.seed);
    let cut = cut(load.cuts, &mut random).await?;
    let Bad { lost, repeated } = cut.bad;
    let (cuts, done) = (load.cuts, cut.done);
    writeln!(
        out,
        "| connections cut at any byte, {done} operations came through | {cuts} cuts: {lost} losses, {repeated} repeats |"
    )?;
    out.flush()?;
    let began = Instant::now();
    let killed = kill(load.kills, &mut random).await?;
    let Killed { kills, rows, .. } = killed;
    let took = began.elapsed();
    writeln!(
        out,
        "| kill -9, {rows} rows seen meanwhile, in {took:.0?} | {kills} kills: {} losses, {} repeats |",
        killed.bad.lost, killed.bad.repeated
    )?;
    let bad = lost + repeated + killed.bad.lost + killed.bad.repeated;
    if bad > 0 { Err("events were lost or repeated".into()) } else { Ok(()) }
}

/// A linear congruential generator: the same seed, the same schedule.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0
    }

    /// A number below this one.
    fn below(&mut self, most: usize) -> usize {
        let most = most.max(1) as u64;
        usize::try_from((self.next() >> 33) % most).unwrap_or_default()
    }
}

/// The number of failures of each kind.
#[derive(Debug, Clone, Copy, Default)]
struct Bad {
    lost: usize,
    repeated: usize,
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
async fn measure(watcher: &mut Watcher, events: usize) -> Result<Vec<u64>, Trouble> {
    let mut all = Vec::new();
    while all.len() < events {
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
async fn latencies(load: Load, watchers: usize) -> Result<(Vec<u64>, String), Trouble> {
    let events = load.events;
    let folder = tempfile::tempdir()?;
    let opener = process(folder.path())?;
    let sessions = opener.sessions();
    let prepared = sessions.prepare("s");
    let mut opened = opener.open(&prepared).map_err(|it| it.what)?;
    let owner = prepared.own(&mut opened.agent).await.map_err(|it| it.what)?;
    let mut child = Command::new(std::env::current_exe()?)
        .arg("watch")
        .arg(folder.path())
        .arg(events.to_string())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut said = io::BufReader::new(child.stdout.take().ok_or("the watcher has no output")?);
    let mut tasks = Vec::new();
    for _ in 0..watchers {
        let mut watcher = owner.watch(0);
        tasks.push(tokio::spawn(
            async move { measure(&mut watcher, events).await.map_err(|it| it.to_string()) },
        ));
    }
    // Until the other process follows by the socket: by then it says that it saw the first event.
    let mut ready = tokio::task::spawn_blocking(move || {
        let mut line = String::new();
        said.read_line(&mut line).map(|_| said)
    });
    let said = loop {
        owner.log().add(Event::Told { text: READY.to_owned() });
        tokio::select! {
            said = &mut ready => break said??,
            () = tokio::time::sleep(Duration::from_millis(100)) => {}
        }
    };
    for _ in 0..events {
        owner.log().add(Event::Told { text: now().to_string() });
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await??);
    }
    let there = tokio::task::spawn_blocking(move || {
        let mut line = String::new();
        let mut said = said;
        said.read_line(&mut line)?;
        child.wait().map(|_| line)
    });
    let there = there.await??;
    owner.close("bench").await.map_err(|it| it.what)?;
    Ok((all, there.trim().to_owned()))
}

/// A watcher in a process of its own.
async fn watch(folder: &Path, events: usize) -> Result<(), Trouble> {
    let sessions = process(folder)?.watching();
    let mut watcher = sessions.watch("s", 0);
    loop {
        let row = tokio::time::timeout(TIMEOUT, watcher.next()).await?.map_err(|it| it.what)?;
        if matches!(&row.event, Event::Told { text } if text == READY) {
            break;
        }
    }
    writeln!(io::stdout(), "{READY}")?;
    let mut all = measure(&mut watcher, events).await?;
    writeln!(io::stdout(), "{}", quantiles(&mut all))?;
    Ok(())
}

async fn read_all(from: &mut Watcher, long: usize) -> Result<(), Trouble> {
    let mut fold = Fold::new();
    while let Some(row) = from.try_next().await.map_err(|it| it.what)? {
        fold.add(&row);
    }
    if fold.head < long as u64 { Err("the session is shorter than it was made".into()) } else { Ok(()) }
}

/// How long it takes to attach to a long session, in its owner and beside it.
async fn attach(Load { long, .. }: Load) -> Result<(Duration, Duration), Trouble> {
    let folder = tempfile::tempdir()?;
    let opener = process(folder.path())?;
    let handle = opener.sessions();
    {
        let prepared = handle.prepare("s");
        let mut opened = opener.open(&prepared).map_err(|it| it.what)?;
        let owner = prepared.own(&mut opened.agent).await.map_err(|it| it.what)?;
        for at in 0..long {
            owner.log().add(agent::Event::Note { text: format!("event {at} of a long session") });
            if at % 1000 == 0 {
                owner.log().flush().await.map_err(|it| it.what)?;
            }
        }
        owner.close("bench").await.map_err(|it| it.what)?;
    }
    let began = Instant::now();
    let own = handle.attach("s", "bench").await.map_err(|it| it.what)?;
    read_all(&mut own.watch(0), long).await?;
    let here = began.elapsed();
    let beside = process(folder.path())?.watching();
    let began = Instant::now();
    let other = beside.attach("s", "bench").await.map_err(|it| it.what)?;
    read_all(&mut other.watch(0), long).await?;
    Ok((here, began.elapsed()))
}

/// The memory that this process has, in bytes.
fn resident() -> Result<f64, Trouble> {
    let pages: f64 = fs::read_to_string("/proc/self/statm")?.split(' ').nth(1).unwrap_or("0").parse()?;
    Ok(pages * 4096.0)
}

/// The memory of a session that did one turn, in bytes.
async fn idle(load: Load) -> Result<f64, Trouble> {
    let folder = tempfile::tempdir()?;
    let sessions = process(folder.path())?.sessions();
    let mut handles = Vec::new();
    let mut before = 0.0;
    for at in 0..=load.idle {
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
    Ok((resident()? - before) / load.idle as f64)
}

struct Cut {
    /// Operations that came through.
    done: usize,
    bad: Bad,
}

/// Cuts connections to an owner at any byte of a request, and compares what a watcher saw with the log.
async fn cut(cuts: usize, random: &mut Random) -> Result<Cut, Trouble> {
    let folder = tempfile::tempdir()?;
    let opener = process(folder.path())?;
    let handle = opener.sessions().open(Some("s"), "bench").await.map_err(|it| it.what)?;
    let beside = process(folder.path())?.watching();
    let (mut watcher, mut rows) = (beside.watch("s", 0), Vec::new());
    let owner = opener.runtime().store().owners().get("s").map_err(|it| it.what)?;
    let name = owner.and_then(|it| it.socket).ok_or("the owner has no socket")?;
    let socket = opener.runtime().store().folder().join("sockets").join(name);
    for at in 0..cuts {
        let act = json!({"version": 1, "session": "s", "ask": {"act": {"key": format!("k{at}"), "by": "bench",
            "operation": {"operation": "cancel"}}}});
        let follow = json!({"version": 1, "session": "s", "ask": {"follow": {"attends": true}}});
        let line = format!("{}\n", if at % 2 == 0 { act } else { follow });
        let mut stream = UnixStream::connect(&socket).await?;
        // A third of the requests is whole, and cut before the answer.
        let sent = if random.below(3) == 0 { line.len() } else { 1 + random.below(line.len()) };
        stream.write_all(line.as_bytes().get(..sent).unwrap_or_default()).await?;
        if random.below(4) == 0 {
            let wait = Duration::from_micros(random.below(2000) as u64);
            // The answer, or the cut, is both well.
            let _ = tokio::time::timeout(wait, stream.read(&mut [0])).await;
        }
        drop(stream);
        if at % 50 == 0 {
            let said = Operation::Prompt(Prompt::new("hi"));
            handle.act(&format!("p{at}"), said).await.map_err(|it| it.what)?;
        }
    }
    let operations = opener.runtime().store().operations();
    finish_cuts(&handle, &operations, cuts, &mut watcher, &mut rows).await
}

/// Asks for the operations of cut connections again, and counts what was lost or done twice.
async fn finish_cuts(
    handle: &Handle,
    operations: &store::Operations,
    cuts: usize,
    watcher: &mut Watcher,
    rows: &mut Vec<Row>,
) -> Result<Cut, Trouble> {
    let (mut bad, mut done) = (Bad::default(), 0);
    for at in (0..cuts).step_by(2) {
        let key = format!("k{at}");
        done += usize::from(operations.get("s", &key).map_err(|it| it.what)?.is_some());
        // The answer is that of the first request, if it came through: one beside a prompt may have cancelled its turn.
        let result = handle.act(&key, Operation::Cancel { prompt: None }).await.map_err(|it| it.what)?;
        bad.lost += usize::from(!result.get("cancelled").is_some_and(Value::is_boolean));
    }
    handle.act("close", Operation::Close).await.map_err(|it| it.what)?;
    while !collect(watcher, rows, usize::MAX).await? {}
    bad.repeated += rows.windows(2).filter(|it| matches!(it, [one, next] if next.seq <= one.seq)).count();
    let ended = rows.iter().filter(|it| matches!(it.event, Event::TurnEnded(_))).count();
    let prompts = cuts.div_ceil(50);
    bad.lost += prompts.saturating_sub(ended);
    bad.repeated += ended.saturating_sub(prompts);
    Ok(Cut { done, bad })
}

#[derive(Default)]
struct Killed {
    kills: usize,
    rows: usize,
    bad: Bad,
}

impl Killed {
    fn add(&mut self, other: &Self) {
        self.kills += other.kills;
        self.rows += other.rows;
        self.bad.lost += other.bad.lost;
        self.bad.repeated += other.bad.repeated;
    }
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

/// The kills that are left to do, and the chance by which sessions are killed.
struct Left {
    kills: usize,
    random: Random,
}

/// Kills processes that run sessions, and compares what a watcher saw of each with its log.
async fn kill(most: usize, random: &mut Random) -> Result<Killed, Trouble> {
    let left = Rc::new(RefCell::new(Left { kills: most, random: Random(random.next()) }));
    let local = LocalSet::new();
    let all = local.run_until(async move {
        let mut lanes = JoinSet::new();
        for _ in 0..LANES {
            lanes.spawn_local(lane(left.clone()));
        }
        let mut all = Killed::default();
        while let Some(done) = lanes.join_next().await {
            all.add(&done??);
        }
        Ok::<_, Trouble>(all)
    });
    all.await
}

/// Takes one session after the other, until no kill is left. A session may be over before all of its kills.
async fn lane(left: Rc<RefCell<Left>>) -> Result<Killed, Trouble> {
    let mut all = Killed::default();
    loop {
        let (kills, random) = {
            let mut left = left.borrow_mut();
            let kills = left.kills.min(KILLS_OF_ONE);
            left.kills -= kills;
            (kills, Random(left.random.next()))
        };
        if kills == 0 {
            return Ok(all);
        }
        let killed = kill_one(kills, random).await?;
        left.borrow_mut().kills += kills - killed.kills;
        all.add(&killed);
    }
}

/// Kills the processes of one session so many times, before one runs it to its end.
async fn kill_one(kills: usize, mut random: Random) -> Result<Killed, Trouble> {
    let folder = tempfile::tempdir()?;
    let sessions = process(folder.path())?.watching();
    let (mut watcher, mut rows) = (sessions.watch("s", 0), Vec::new());
    let (mut left, mut all) = (kills, Killed::default());
    loop {
        let mut child = begin(folder.path())?;
        let until = if left > 0 { 2 + random.below(64) } else { usize::MAX };
        let is_over = collect(&mut watcher, &mut rows, until).await?;
        if !is_over {
            tokio::time::sleep(Duration::from_micros(random.below(16_384) as u64)).await;
            child.kill()?;
            all.kills += 1;
            left -= 1;
        }
        tokio::task::spawn_blocking(move || child.wait()).await??;
        if is_over {
            break;
        }
    }
    all.rows = rows.len();
    compare(&sessions, &rows, watcher.after(), &mut all.bad).await?;
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
async fn compare(sessions: &Sessions, rows: &[Row], after: u64, all: &mut Bad) -> Result<(), Trouble> {
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
