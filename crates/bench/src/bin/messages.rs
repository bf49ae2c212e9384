//! Messages between agents: to the start of a turn, and through a broadcast channel; and the memory of agents that do nothing,
//! beside KohakuTerrarium.
//!
//! `cargo run --release -p bench --bin messages [PYTHON]`: PYTHON is an interpreter with the package kohakuterrarium; without one,
//! its column is left out. haft's messages are on the disk before they count as sent; KohakuTerrarium's channels live in memory.
//! Memory is the proportional set size (PSS) of a process with all agents open.

use std::{
    error::Error,
    io::{self, BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use agent::{
    Agent, Driver, Driving, Settings,
    model::{Abilities, Event, Events, Model, Request, Why, script::Script},
};
use kit::{Fault, redact::Secrets};
use runtime::Runtime;
use serde_json::json;
use sessions::{Opened, Opener, Prepared, Sessions, testing::ScriptOpener};
use store::{
    NewMessage, Source, Store,
    channels::{ChannelKind, Channels, Direction, NewPost, Scope},
};
use tokio::sync::Notify;

/// Messages whose way to a turn is measured.
const TURNS: usize = 500;
/// Messages through the broadcast channel.
const MESSAGES: usize = 1000;
/// Senders that send at the same time, in the second run.
const SENDERS: usize = 10;
/// Its subscribers.
const SUBSCRIBERS: usize = 10;
/// Agents that do nothing.
const IDLE: usize = 100;
/// The first argument of the process whose agents do nothing.
const IDLE_VERB: &str = "idle";
/// Time limit of one wait.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The peer, as Python.
const TERRARIUM: &str = include_str!("../../peers/terrarium_messages.py");

type Trouble = Box<dyn Error>;

/// A model that notes when it is asked, and says `ok`.
struct Stamped {
    abilities: Abilities,
    asked: Mutex<Option<Instant>>,
    began: Notify,
}

impl Model for Stamped {
    fn name(&self) -> &'static str {
        "stamped"
    }

    fn abilities(&self) -> &Abilities {
        &self.abilities
    }

    fn stream(&self, _: Request) -> Events {
        if let Ok(mut asked) = self.asked.lock() {
            *asked = Some(Instant::now());
        }
        self.began.notify_one();
        let events = [Ok(Event::Text("ok".to_owned())), Ok(Event::End(Why::Done))];
        Box::pin(async_stream::stream! {
            for event in events {
                yield event;
            }
        })
    }
}

struct Agents {
    runtime: Runtime,
    model: Arc<Stamped>,
}

impl Opener for Agents {
    fn open(&self, prepared: &Prepared) -> Result<Opened, Fault> {
        let session = self.runtime.session(Some(prepared.session()), "bench", prepared.approver());
        let agent = Agent::open(Settings {
            session,
            model: self.model.clone(),
            system: "x".into(),
            bounds: Default::default(),
            visible: Default::default(),
            host: prepared.observer(),
        })?;
        let driver = Driver::new(Driving { wait: Duration::ZERO, wakes: 10 });
        Ok(Opened { agent, driver, notes: Vec::new() })
    }

    fn set_model(&self, _: &Agent, name: &str) -> Result<(), Fault> {
        Err(Fault::not_found(format!("there is no model `{name}`")))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Trouble> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [verb, folder, count] = arguments.as_slice()
        && verb == IDLE_VERB
    {
        return idle(Path::new(folder), count.parse()?).await;
    }
    let python = arguments.first().cloned();
    let mut out = io::stdout();
    let folder = tempfile::tempdir()?;
    std::fs::create_dir(folder.path().join("ws"))?;
    let opener = ScriptOpener::new(&folder.path().join("ws"), &folder.path().join("state"), Secrets::none())
        .map_err(|it| it.what)?;
    let runtime = opener.runtime().clone();
    let model = Arc::new(Stamped {
        abilities: Script::empty().abilities().clone(),
        asked: Mutex::default(),
        began: Notify::new(),
    });
    let agents = Arc::new(Agents { runtime: runtime.clone(), model: model.clone() });
    let sessions = Sessions::new(runtime.store().clone(), "bench", Some(agents));
    writeln!(out, "| what | haft, on the disk | KohakuTerrarium, in memory |\n|---|---|---|")?;
    let memory = idle_memory(python.as_deref(), folder.path())?;
    let (half, most) = turns(&sessions, &model, runtime.store()).await?;
    let delivered = broadcast(runtime.store(), "delivered", &[], 1).await?;
    let together = broadcast(runtime.store(), "together", &[], SENDERS).await?;
    let shown = shown_to_agents(&sessions, runtime.store()).await?;
    let peer = python.map(|it| terrarium(&it, folder.path())).transpose()?;
    let of = |at: usize| {
        peer.as_ref()
            .map_or_else(|| "—".to_owned(), |it| format!("{:.2} ms", it.0.get(at).unwrap_or(&0.0) * 1e3))
    };
    let version = peer.as_ref().map_or_else(String::new, |it| format!(" ({})", it.1));
    writeln!(out, "| message to the start of a turn, p50 | {half:.2?} | {}{version} |", of(0))?;
    writeln!(out, "| message to the start of a turn, p99 | {most:.2?} | {} |", of(1))?;
    writeln!(
        out,
        "| {MESSAGES} messages through a broadcast channel, in all of {SUBSCRIBERS} inboxes | {delivered:.0?} | {} |",
        of(2)
    )?;
    writeln!(out, "| the same, by {SENDERS} senders at once | {together:.0?} | — |")?;
    writeln!(out, "| the same, shown to the models of {SUBSCRIBERS} agents | {shown:.0?} | — |")?;
    let mib =
        |kib: Option<u64>| kib.map_or_else(|| "—".to_owned(), |it| format!("{:.1} MiB", it as f64 / 1024.0));
    let [none, all, peers_none, peers_all] = memory.map(mib);
    writeln!(out, "| memory of a process without agents | {none} | {peers_none} |")?;
    writeln!(out, "| memory of a process with {IDLE} agents that do nothing | {all} | {peers_all} |")?;
    Ok(())
}

/// Opens agents with all of haft's tools, and waits until the input ends.
async fn idle(folder: &Path, count: usize) -> Result<(), Trouble> {
    std::fs::create_dir_all(folder.join("ws"))?;
    let settings = runtime::Settings {
        network: Default::default(),
        tool_files: Default::default(),
        workspace: folder.join("ws"),
        roots: Vec::new(),
        state: folder.join("state"),
        config: folder.join("config"),
        policy: policy::Policy::default(),
        other_names: kit::files::OtherNames::Refuse,
        allowed: None,
        deadline: TIMEOUT,
        secrets: Secrets::none(),
        commands: runtime::Commands { decodes_here: true, ..Default::default() },
    };
    let all = [tools::all(), tools::of_agents(tools::HAFT)].concat();
    let runtime = Runtime::open(settings, all).map_err(|it| it.what)?;
    let model = Arc::new(Stamped {
        abilities: Script::empty().abilities().clone(),
        asked: Mutex::default(),
        began: Notify::new(),
    });
    let agents = Arc::new(Agents { runtime: runtime.clone(), model });
    let sessions = Sessions::new(runtime.store().clone(), "bench", Some(agents));
    let mut handles = Vec::new();
    for at in 0..count {
        handles.push(sessions.open(Some(&format!("agent {at}")), "bench").await?);
    }
    // What the opening began is done.
    tokio::time::sleep(Duration::from_secs(1)).await;
    writeln!(io::stdout(), "ready")?;
    tokio::task::spawn_blocking(|| io::stdin().lock().read_line(&mut String::new())).await??;
    drop(handles);
    Ok(())
}

/// Returns the memory of processes without agents and with [`IDLE`] ones, in KiB: this program's, and the peer's.
fn idle_memory(python: Option<&str>, folder: &Path) -> Result<[Option<u64>; 4], Trouble> {
    let script = folder.join("idle.py");
    std::fs::write(&script, TERRARIUM)?;
    let own = |count: usize| -> Result<Option<u64>, Trouble> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(IDLE_VERB).arg(folder.join(format!("idle {count}"))).arg(count.to_string());
        memory_of(command).map(Some)
    };
    let peers = |count: usize| -> Result<Option<u64>, Trouble> {
        let Some(python) = python else { return Ok(None) };
        let mut command = Command::new(python);
        command.arg(&script).arg(IDLE_VERB).arg(count.to_string());
        memory_of(command).map(Some)
    };
    Ok([own(0)?, own(IDLE)?, peers(0)?, peers(IDLE)?])
}

/// Returns the PSS of a process, in KiB, once it has written a line. It ends with its input.
fn memory_of(mut command: Command) -> Result<u64, Trouble> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().ok_or("a process without output")?).read_line(&mut line)?;
    let rollup = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", child.id()))?;
    drop(child.stdin.take());
    child.wait()?;
    if line.trim() != "ready" {
        return Err(format!("a process that should do nothing said {line:?}").into());
    }
    let pss = rollup.lines().find_map(|it| it.strip_prefix("Pss:")).ok_or("no PSS")?;
    Ok(pss.trim().trim_end_matches("kB").trim().parse()?)
}

async fn turns(sessions: &Sessions, model: &Stamped, store: &Store) -> Result<(Duration, Duration), Trouble> {
    let _handle = sessions.open(Some("bob"), "bench").await?;
    let mut took = Vec::with_capacity(TURNS);
    for at in 0..TURNS {
        let sent = Instant::now();
        store.inbox().post(NewMessage::new("bob", Source::Direct, "alice", format!("message {at}"))).await?;
        tokio::time::timeout(TIMEOUT, model.began.notified()).await?;
        let asked = model.asked.lock().map_err(|_| "a model panicked")?.ok_or("the model was not asked")?;
        took.push(asked.saturating_duration_since(sent));
        // The turn ends before the next message.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    took.sort_unstable();
    let at =
        |part: usize| took.get((took.len() * part / 100).min(took.len() - 1)).copied().unwrap_or_default();
    Ok((at(50), at(99)))
}

/// Sends through a channel on which these sessions and more listen, [`SUBSCRIBERS`] of them, from so many senders; each sends its
/// next message once the one before is on the disk. Returns the time until all copies are there.
async fn broadcast(
    store: &Store,
    name: &str,
    sessions: &[String],
    senders: usize,
) -> Result<Duration, Trouble> {
    let (scope, channels) = (Scope::Environment(format!("env_{name}")), store.channels());
    channels.create(&scope, "news", ChannelKind::Broadcast, 0, "").await?;
    for at in 0..SUBSCRIBERS {
        let session = sessions.get(at).cloned().unwrap_or_else(|| format!("{name} {at}"));
        channels.wire(&scope, "news", &session, Direction::Listen).await?;
    }
    let began = Instant::now();
    let sending: Vec<_> = (0..senders)
        .map(|_| tokio::spawn(send_some(channels.clone(), scope.clone(), MESSAGES / senders)))
        .collect();
    for sender in sending {
        sender.await??;
    }
    Ok(began.elapsed())
}

async fn send_some(channels: Channels, scope: Scope, count: usize) -> Result<(), String> {
    for at in 0..count {
        let sent = channels.send(NewPost {
            scope: scope.clone(),
            channel: "news".to_owned(),
            sender: "alice".to_owned(),
            sender_session: Some("alice".to_owned()),
            content: json!(format!("message {at}")),
            metadata: json!({}),
            reply_to: None,
            key: None,
            needs_edge: false,
        });
        let sent = sent.await.map_err(|it| it.what)?.map_err(|it| format!("{it:?}"))?;
        if sent.recipients.len() != SUBSCRIBERS {
            return Err("a subscriber is missing".to_owned());
        }
    }
    Ok(())
}

async fn shown_to_agents(sessions: &Sessions, store: &Store) -> Result<Duration, Trouble> {
    let names: Vec<String> = (0..SUBSCRIBERS).map(|at| format!("agent {at}")).collect();
    let mut handles = Vec::new();
    for name in &names {
        handles.push(sessions.open(Some(name), "bench").await?);
    }
    let began = Instant::now();
    broadcast(store, "shown", &names, 1).await?;
    for name in &names {
        while store.inbox().has_queued(name)? {
            if began.elapsed() > TIMEOUT {
                return Err(format!("`{name}` has messages left").into());
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let shown = store.inbox().list(name, MESSAGES + 1)?.len();
        if shown != MESSAGES {
            return Err(format!("`{name}` got {shown} messages").into());
        }
    }
    Ok(began.elapsed())
}

/// Returns the peer's figures in seconds, and its version.
fn terrarium(python: &str, folder: &Path) -> Result<(Vec<f64>, String), Trouble> {
    let script = folder.join("messages.py");
    std::fs::write(&script, TERRARIUM)?;
    let counts = [TURNS, MESSAGES, SUBSCRIBERS].map(|it| it.to_string());
    let ran = Command::new(python).arg(&script).args(counts).output()?;
    let said = String::from_utf8_lossy(&ran.stdout);
    let mut words: Vec<&str> = said.split_whitespace().collect();
    let version = words.pop().ok_or_else(|| String::from_utf8_lossy(&ran.stderr).into_owned())?.to_owned();
    let figures = words.iter().map(|it| it.parse()).collect::<Result<Vec<f64>, _>>()?;
    Ok((figures, version))
}
