//! Triggers of processes that are killed: none fires twice, and none is lost.
//!
//! `cargo run --release -p bench --bin trigger_restarts [RESTARTS [SEED]]`; by default 1,000 restarts. Two processes run the
//! triggers of the same session at the same time, so each claim has a rival.

use std::{
    collections::{BTreeSet, HashSet},
    error::Error,
    fs,
    io::{self, Write as _},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use kit::{Fault, redact::Secrets, services::Jobs};
use serde_json::json;
use store::{HistoryEvent, Store, TriggerState, fire_of};
use triggers::{Engine, FileChanges, Service, Sources, Spec, SystemClock};

/// Restarts, unless the first argument says how many.
const RESTARTS: usize = 1_000;
/// The seed of when, unless the second argument says which.
const SEED: u64 = 20_261_124;
/// Restarts on one state folder.
const RESTARTS_OF_ONE: usize = 40;
/// Triggers that occur once.
const ONCE: u64 = 60;
/// Time for all of them to fire after the last restart.
const TIMEOUT: Duration = Duration::from_secs(60);

type Trouble = Box<dyn Error>;

struct Nothing;

impl Sources for Nothing {
    fn files(&self, _: &Spec) -> Result<Box<dyn FileChanges>, Fault> {
        Err(Fault::not_found("no files are watched here"))
    }

    fn jobs(&self) -> Option<Arc<dyn Jobs>> {
        None
    }
}

/// The counts of one state folder.
#[derive(Default)]
struct Found {
    restarts: usize,
    fires: usize,
    double: usize,
    lost: usize,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Trouble> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [run, folder] = arguments.as_slice()
        && run == "run"
    {
        let store = open(Path::new(folder));
        // Whoever kills it tells it nothing.
        Engine::new(&store, "s", Arc::new(SystemClock), Arc::new(Nothing)).run().await;
        return Ok(());
    }
    let restarts = arguments.first().map_or(Ok(RESTARTS), |it| it.parse())?;
    let mut random = arguments.get(1).map_or(Ok(SEED), |it| it.parse())?;
    let mut all = Found::default();
    while all.restarts < restarts {
        let count = RESTARTS_OF_ONE.min(restarts - all.restarts);
        let one = round(count, &mut random).await?;
        all.restarts += one.restarts;
        all.fires += one.fires;
        all.double += one.double;
        all.lost += one.lost;
    }
    let Found { restarts, fires, double, lost } = all;
    writeln!(io::stdout(), "{restarts} restarts after kill -9, {fires} fires: {double} double, {lost} lost")?;
    if double + lost > 0 { Err("triggers fired twice or were lost".into()) } else { Ok(()) }
}

fn open(folder: &Path) -> Store {
    Store::open(&folder.join("state"), &folder.join("ws"), Arc::new(Secrets::none()))
}

/// Makes triggers in a new folder, and kills the processes that run them so many times.
async fn round(restarts: usize, random: &mut u64) -> Result<Found, Trouble> {
    let folder = tempfile::tempdir()?;
    fs::create_dir_all(folder.path().join("ws"))?;
    let store = open(folder.path());
    let service = Service::new(store.clone());
    let now = store::now_ms();
    let make = async |name: String, tool: &str, arguments| -> Result<(), Trouble> {
        let spec = Spec::of(tool, &arguments).map_err(|it| it.what)?;
        service.add("s", Some(&name), &spec, "tool", now).await.map_err(|it| it.what)?;
        Ok(())
    };
    make("beat".to_owned(), "add_timer", json!({"interval": 0.02, "prompt": "x", "overlap": true})).await?;
    let span = restarts as u64 * 60;
    for number in 0..ONCE {
        let at = jiff::Timestamp::from_millisecond((now + 200 + number * span / ONCE).cast_signed())?;
        let arguments = json!({"once": at.to_string(), "prompt": "x"});
        make(format!("once-{number}"), "add_schedule", arguments).await?;
    }
    for _ in 0..restarts {
        let mut pair = [start(folder.path())?, start(folder.path())?];
        tokio::time::sleep(Duration::from_millis(20 + next(random) % 80)).await;
        for child in &mut pair {
            child.kill()?;
            child.wait()?;
        }
    }
    let mut last = start(folder.path())?;
    let until = Instant::now() + TIMEOUT;
    let is_over = |store: &Store| -> Result<bool, Trouble> {
        let rows = store.triggers().list(Some("s")).map_err(|it| it.what)?;
        Ok(rows.iter().filter(|it| it.id != "beat").all(|it| it.state == TriggerState::Done))
    };
    while !is_over(&store)? && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    last.kill()?;
    last.wait()?;
    count(&store, restarts)
}

/// Compares the history of the triggers with the messages in the inbox.
fn count(store: &Store, restarts: usize) -> Result<Found, Trouble> {
    let mut found = Found { restarts, ..Found::default() };
    let queued = store.inbox().queued("s").map_err(|it| it.what)?;
    let messages: HashSet<(String, u64)> =
        queued.iter().filter_map(|it| fire_of(&it.key)).map(|(id, fire)| (id.to_owned(), fire)).collect();
    // One message for each key: more messages than keys are doubles.
    found.double += queued.len() - messages.len();
    for row in store.triggers().list(Some("s")).map_err(|it| it.what)? {
        let history = store.triggers().history("s", &row.id, usize::MAX).map_err(|it| it.what)?;
        let fired: Vec<_> = history.iter().filter(|it| it.event == HistoryEvent::Fired).collect();
        // Two fires for one due time.
        let due: BTreeSet<&str> = fired.iter().map(|it| it.text.as_str()).collect();
        found.double += fired.len() - due.len();
        found.fires += fired.len();
        let has_message =
            |fire: Option<u64>| fire.is_some_and(|fire| messages.contains(&(row.id.clone(), fire)));
        found.lost += fired.iter().filter(|it| !has_message(it.fire)).count();
        if row.id != "beat" && fired.len() != 1 {
            found.lost += usize::from(fired.is_empty());
            found.double += fired.len().saturating_sub(1);
        }
    }
    Ok(found)
}

fn start(folder: &Path) -> Result<Child, Trouble> {
    let program = std::env::current_exe()?;
    let mut command = Command::new(program);
    Ok(command.arg("run").arg(folder).stdin(Stdio::null()).stdout(Stdio::null()).spawn()?)
}

/// Returns the next random number (xorshift).
fn next(random: &mut u64) -> u64 {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    *random
}
