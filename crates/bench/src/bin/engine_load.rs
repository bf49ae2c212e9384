//! Load on engines: the time of a queued call, many sessions at once, throughput by workers, memory of what waits.
//!
//! `cargo run --release -p bench --bin engine_load [-- --engine sqlite|nats] [--sample]`. For NATS the same run also measures
//! the bare server: publish to a work queue, fetch, acknowledge. The server is a nats-server on PATH, or one that `uv` installs.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use async_nats::jetstream::{self, consumer::pull, stream};
use bench::{
    engine_faults::Trouble,
    engine_works::{key, work, worker},
};
use engine::{Engine, Key, Options, Outcome, State, Update, nats::server};
use futures_util::{StreamExt as _, stream as streams};
use tokio::time::sleep;

/// The worker processes of the run with many sessions, and the sessions at once in each.
const WORKERS: usize = 4;
const SLOTS: usize = 8;

/// How long each of the many sessions takes.
const SESSION_MS: u64 = 100;

/// How many pieces of work one sender follows at once.
const OPEN: usize = 64;

/// The address of an engine: URL, state folder, nkey.
#[derive(Clone)]
struct Address {
    url: String,
    state: PathBuf,
    nkey: PathBuf,
}

impl Address {
    async fn open(&self) -> Result<Arc<dyn Engine>, Trouble> {
        let nkey = Some(self.nkey.clone()).filter(|it| !it.as_os_str().is_empty());
        Ok(engine::open(&self.url, &self.state, Options { nkey, ..Options::default() }).await?)
    }
}

/// How much is measured.
struct Size {
    calls: u64,
    sessions: u64,
    works: u64,
}

fn main() -> Result<(), Trouble> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [role, url, state, nkey] = words.iter().map(String::as_str).collect::<Vec<_>>().as_slice()
        && *role == "worker"
    {
        let address = Address { url: (*url).to_owned(), state: state.into(), nkey: nkey.into() };
        return runtime.block_on(work_until_killed(&address));
    }
    let mut engines = vec!["sqlite", "nats"];
    let mut size = Size { calls: 1_000, sessions: 1_000, works: 2_000 };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--sample" => size = Size { calls: 100, sessions: 100, works: 200 },
            "--engine" => match words.next().map(String::as_str) {
                Some("sqlite") => engines = vec!["sqlite"],
                Some("nats") => engines = vec!["nats"],
                other => return Err(format!("{other:?} is not an engine: give sqlite or nats").into()),
            },
            other => return Err(format!("{other:?} is not an option of engine_load").into()),
        }
    }
    for engine in engines {
        runtime.block_on(measure(engine, &size))?;
    }
    Ok(())
}

async fn measure(engine: &str, size: &Size) -> Result<(), Trouble> {
    let folder = tempfile::tempdir()?;
    let mut out = io::stdout();
    let (sender, worker, pid) = if engine == "nats" {
        let server = server::start(folder.path()).await?;
        let of = |nkey: &Path| Address {
            url: server.url.clone(),
            state: folder.path().to_owned(),
            nkey: nkey.to_owned(),
        };
        let bare = bare(&of(&server.operator_nkey), size.calls).await?;
        writeln!(out, "nats: publish, fetch, acknowledge: {}", shown(bare))?;
        (of(&server.sender_nkey), of(&server.worker_nkey), Some(server.pid))
    } else {
        let here =
            Address { url: "sqlite".to_owned(), state: folder.path().to_owned(), nkey: PathBuf::new() };
        (here.clone(), here, None)
    };
    let ran = parts(engine, size, &sender, &worker, pid).await;
    if pid.is_some() {
        server::stop(folder.path()).await?;
    }
    ran
}

async fn parts(
    name: &str,
    size: &Size,
    sender: &Address,
    worker: &Address,
    server: Option<u32>,
) -> Result<(), Trouble> {
    let mut out = io::stdout();
    let engine = sender.open().await?;
    let mut workers = start(worker, 1)?;
    let mut times = Vec::new();
    for step in 0..size.calls {
        let began = Instant::now();
        answer(&*engine, key("call", step), 0).await?;
        times.push(began.elapsed());
    }
    writeln!(out, "{name}: a queued call, offered to answered: {}", shown(times))?;
    end(&mut workers);

    for count in [1, 2, 4, 8] {
        let mut workers = start(worker, count)?;
        // All have connected.
        let session = format!("by{count}");
        all(&engine, &session, 0..u64::try_from(count * SLOTS)?, 0).await?;
        let began = Instant::now();
        all(&engine, &session, 1_000..1_000 + size.works, 0).await?;
        let rate = size.works as f64 / began.elapsed().as_secs_f64();
        writeln!(out, "{name}: {count} workers: {rate:.0} works a second")?;
        end(&mut workers);
    }

    let mut workers = start(worker, WORKERS)?;
    all(&engine, "warm", 0..WORKERS as u64, 0).await?;
    let began = Instant::now();
    all(&engine, "many", 0..size.sessions, SESSION_MS).await?;
    let least = SESSION_MS as f64 * size.sessions as f64 / (WORKERS * SLOTS) as f64 / 1000.0;
    writeln!(
        out,
        "{name}: {} sessions of {SESSION_MS} ms on {WORKERS} workers of {SLOTS} slots: {:.1} s (at best {least:.1} s)",
        size.sessions,
        began.elapsed().as_secs_f64()
    )?;
    end(&mut workers);

    let processes = [Some(std::process::id()), server];
    let before = processes.map(|it| it.map_or(0, resident));
    let (mut watches, mut offered, mut watched) = (Vec::new(), Vec::new(), Vec::new());
    for step in 0..size.sessions {
        let key = key("waits", step);
        let began = Instant::now();
        engine.offer(work(key.clone(), 0.into(), false)).await?;
        offered.push(began.elapsed());
        let began = Instant::now();
        let mut watch = engine.watch(&key, 0).await?;
        let _ = watch.next().await;
        watched.push(began.elapsed());
        watches.push(watch);
    }
    let last = watched.split_off(watched.len() - watched.len() / 10);
    watched.truncate(last.len());
    writeln!(out, "{name}: an offer that waits: {}", shown(offered))?;
    writeln!(out, "{name}: its watch, the first tenth: {}; the last tenth: {}", shown(watched), shown(last))?;
    let after = processes.map(|it| it.map_or(0, resident));
    let each = |at: usize| {
        let grown = after.get(at).copied().unwrap_or(0).saturating_sub(before.get(at).copied().unwrap_or(0));
        grown / size.sessions
    };
    writeln!(out, "{name}: memory of a waiting session: {} kB here, {} kB in the server", each(0), each(1))?;
    drop(watches);
    Ok(())
}

/// Measures the bare server.
async fn bare(address: &Address, count: u64) -> Result<Vec<Duration>, Trouble> {
    let seed = fs::read_to_string(&address.nkey)?;
    let client = async_nats::ConnectOptions::new().nkey(seed.trim().to_owned()).connect(&address.url).await?;
    let context = jetstream::new(client);
    let config = stream::Config {
        name: "bare".to_owned(),
        subjects: vec!["bare".to_owned()],
        retention: stream::RetentionPolicy::WorkQueue,
        ..stream::Config::default()
    };
    let stream = context.create_stream(config).await?;
    let config = pull::Config { durable_name: Some("bare".to_owned()), ..pull::Config::default() };
    let consumer = stream.create_consumer(config).await?;
    let mut times = Vec::new();
    for _ in 0..count {
        let began = Instant::now();
        context.publish("bare", "x".into()).await?.await?;
        let mut batch = consumer.batch().max_messages(1).expires(Duration::from_secs(5)).messages().await?;
        let message = batch.next().await.ok_or("no message")??;
        message.double_ack().await?;
        times.push(began.elapsed());
    }
    context.delete_stream("bare").await?;
    Ok(times)
}

/// Offers one piece of work, and waits for its answer.
async fn answer(engine: &dyn Engine, key: Key, ms: u64) -> Result<(), Trouble> {
    engine.offer(work(key.clone(), ms.into(), false)).await?;
    let mut watch = engine.watch(&key, 0).await?;
    while let Some(update) = watch.next().await {
        match update? {
            Update::State(status) => match status.state {
                State::Ended(Outcome::Done { .. }) => return Ok(()),
                State::Ended(other) => return Err(format!("{key} ended as {other:?}").into()),
                State::Offered | State::Leased { .. } => {}
            },
            Update::Event(_) => {}
        }
    }
    Err(format!("{key} has no answer").into())
}

async fn all(
    engine: &Arc<dyn Engine>,
    session: &str,
    steps: std::ops::Range<u64>,
    ms: u64,
) -> Result<(), Trouble> {
    let answers = steps.map(|step| answer(&**engine, key(session, step), ms));
    let mut answers = streams::iter(answers).buffer_unordered(OPEN);
    while let Some(answered) = answers.next().await {
        answered?;
    }
    Ok(())
}

fn start(address: &Address, count: usize) -> Result<Vec<Child>, Trouble> {
    let one = || {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("worker").arg(&address.url).arg(&address.state).arg(&address.nkey);
        command.stdin(Stdio::null()).spawn()
    };
    Ok((0..count).map(|_| one()).collect::<Result<_, _>>()?)
}

fn end(workers: &mut Vec<Child>) {
    for mut worker in workers.drain(..) {
        let _ = worker.kill();
        let _ = worker.wait();
    }
}

/// A worker process: it takes work until it is killed.
async fn work_until_killed(address: &Address) -> Result<(), Trouble> {
    let engine = address.open().await?;
    let mut slots = tokio::task::JoinSet::new();
    for slot in 0..SLOTS {
        let engine = Arc::clone(&engine);
        let this = worker(format!("w{}-{slot}", std::process::id()), 1);
        slots.spawn(async move {
            while let Ok(Some((work, mut lease))) = engine.claim(&this).await {
                if engine.begin(&mut lease).await.is_ok() {
                    sleep(Duration::from_millis(work.task.as_u64().unwrap_or(0))).await;
                    let result = work.key.text().into();
                    let _ = engine.finish(&mut lease, Outcome::Done { result, patch: None }).await;
                }
            }
        });
    }
    while slots.join_next().await.is_some() {}
    Ok(())
}

/// Returns the resident memory of a process in kB.
fn resident(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:"));
    line.and_then(|it| it.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn shown(mut times: Vec<Duration>) -> String {
    times.sort();
    let at = |share: usize| {
        times.get(times.len() * share / 100).copied().unwrap_or_default().as_secs_f64() * 1000.0
    };
    format!("p50 {:.2} ms, p99 {:.2} ms ({} times)", at(50), at(99), times.len())
}
