//! The agent loop, without the time of model and tools.
//!
//! The model is simulated: it writes its answers in pieces of a few bytes and records the time right before
//! the piece that closes a call. In the rows about five tools each works for a second, and the model writes
//! for three: the last call closes at the end of the stream, so nothing can be faster than four seconds.

use std::{
    path::Path,
    process::Command,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use agent::{
    Agent, Bounds, Ended, Settings, Silent,
    dialect::Spoken,
    model::{Abilities, Event, Events, Model, Request, Usage, Why},
};
use async_stream::stream;
use kit::{AnyTool, erase, prelude::*};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{Aim, Amount, Comparison, Fixture, Row, Scratch, Times, Trouble, in_turn};

const TURNS: usize = 300;
/// Answers of one turn, the last of which calls nothing.
const STEPS: usize = 50;
const LONG_TURNS: usize = 10;
const PAUSES: usize = 3;
const PIECE: usize = 8;

/// The peer, as Python.
const TERRARIUM: &str = include_str!("../../peers/terrarium_turn.py");

/// The time when the newest call was closed, and the delay until each tool began.
static CLOSED: Mutex<Option<Instant>> = Mutex::new(None);
static BEGAN: Mutex<Vec<Duration>> = Mutex::new(Vec::new());

/// Record when it begins.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Stamp {
    /// Any text.
    text: String,
}

impl Tool for Stamp {
    const NAME: &str = "stamp";
    const AT_MOST: Kinds = Kinds::NONE;

    fn touches(&self) -> Touches {
        Touches::none()
    }

    async fn run(self, _: &Cx) -> Result<Output, Fault> {
        if let (Ok(closed), Ok(mut began)) = (CLOSED.lock(), BEGAN.lock()) {
            began.extend(closed.map(|it| it.elapsed()));
        }
        Ok(Output::text(self.text))
    }
}

/// Wait for a second.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Pause {
    /// Any text.
    text: String,
}

impl Tool for Pause {
    const NAME: &str = "pause";
    const AT_MOST: Kinds = Kinds::NONE;

    fn touches(&self) -> Touches {
        Touches::none()
    }

    async fn run(self, _: &Cx) -> Result<Output, Fault> {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok(Output::text(self.text))
    }
}

/// A model that repeats one answer, and after `every` answers gives one without a call.
struct Played {
    answer: Vec<Part>,
    every: usize,
    abilities: Abilities,
}

/// A part of an answer.
#[derive(Clone)]
enum Part {
    Event(Event),
    Wait(Duration),
    /// The next part closes a call.
    Closing,
}

fn played(answer: Vec<Part>, every: usize) -> Arc<dyn Model> {
    let abilities = Abilities {
        calls: true,
        images: false,
        window: 1_000_000,
        longest: 10_000,
        own_tools: Vec::new(),
        price: None,
    };
    Arc::new(Played { answer, every, abilities })
}

impl Model for Played {
    fn name(&self) -> &'static str {
        "played"
    }

    fn abilities(&self) -> &Abilities {
        &self.abilities
    }

    fn stream(&self, request: Request) -> Events {
        let last = request.step % self.every == self.every - 1;
        let parts =
            if last { vec![Part::Event(Event::Text("Done.".to_owned()))] } else { self.answer.clone() };
        let native = parts.iter().any(|it| matches!(it, Part::Event(Event::CallClosed { .. })));
        Box::pin(stream! {
            for part in parts {
                match part {
                    Part::Event(event) => yield Ok(event),
                    Part::Wait(time) => tokio::time::sleep(time).await,
                    Part::Closing => if let Ok(mut closed) = CLOSED.lock() { *closed = Some(Instant::now()) },
                }
                // The next part comes from a socket: others run meanwhile.
                tokio::task::yield_now().await;
            }
            yield Ok(Event::Used(Usage::default()));
            yield Ok(Event::End(if native { Why::Calls } else { Why::Done }));
        })
    }
}

/// A native call.
fn native(tool: &str) -> Vec<Part> {
    let arguments = json!({"text": "ok"}).to_string();
    let (index, tool, id) = (0, tool.to_owned(), String::new());
    vec![
        Part::Event(Event::CallBegan { index, tool: tool.clone() }),
        Part::Event(Event::CallGrew { index, bytes: arguments.len() }),
        Part::Closing,
        Part::Event(Event::CallClosed { index, id, tool, arguments }),
    ]
}

/// A call in words, in pieces.
fn words(text: &str) -> Vec<Part> {
    let mut rest = text;
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.ceil_char_boundary(PIECE.min(rest.len())));
        if after.is_empty() {
            parts.push(Part::Closing);
        }
        parts.push(Part::Event(Event::Text(piece.to_owned())));
        rest = after;
    }
    parts
}

/// Returns the duration of a turn; it must have ended by itself after this many answers.
fn turn(fixture: &Fixture, agent: &mut Agent, steps: usize) -> Result<Duration, Trouble> {
    fixture.tokio.block_on(async {
        let began = Instant::now();
        let outcome = agent.turn(Some("Go.".to_owned()), &CancellationToken::new()).await?;
        let took = began.elapsed();
        if (outcome.ended, outcome.steps) == (Ended::Done, steps) {
            Ok(took)
        } else {
            Err(format!("the turn ended as {:?} after {} answers", outcome.ended, outcome.steps).into())
        }
    })
}

fn open(fixture: &Fixture, model: Arc<dyn Model>) -> Result<Agent, Trouble> {
    let session = fixture.session.runtime().session(None, "bench", Arc::new(runtime::Unattended));
    let bounds = Bounds { steps: STEPS, ..Bounds::default() };
    let (system, host, visible) =
        ("You measure.".into(), Arc::new(Silent), runtime::config::ToolVisibility::default());
    Ok(Agent::open(Settings { session, model, system, bounds, visible, host })?)
}

fn fixture(scratch: &Scratch) -> Result<Fixture, Trouble> {
    let workspace = scratch.folder("agent")?;
    let mut tools: Vec<Arc<dyn AnyTool>> = tools::all();
    tools.push(erase::<Stamp>());
    tools.push(erase::<Pause>());
    Fixture::open(scratch, &workspace, tools)
}

pub(super) fn rows(scratch: &Scratch) -> Result<Vec<Row>, Trouble> {
    let fixture = fixture(scratch)?;
    let peer = Peer::ask(scratch);
    let mut rows = dispatch(&fixture, &peer)?;
    rows.extend(together(&fixture, &peer)?);
    rows.extend(steps(&fixture, &peer)?);
    Ok(rows)
}

/// Measures the time from the close of a call to the start of its tool.
fn dispatch(fixture: &Fixture, peer: &Result<Peer, String>) -> Result<Vec<Row>, Trouble> {
    let ways = [
        ("native", native("stamp")),
        (
            "json",
            words("I note it.\n<json>{\"tool_name\": \"stamp\", \"tool_input\": {\"text\": \"ok\"}}</json>"),
        ),
        ("bracket", words("I note the time.\n[/stamp]\nok\n[stamp/]")),
        ("xml", words("I note the time.\n<stamp>ok</stamp>")),
        (
            "hermes",
            words(
                "I note it.\n<tool_call>{\"name\": \"stamp\", \"arguments\": {\"text\": \"ok\"}}</tool_call>",
            ),
        ),
        (
            "tool_use",
            words("I note it.\n<tool_use>{'tool_name': 'stamp', 'tool_input': {'text': 'ok'}}</tool_use>"),
        ),
    ];
    let mut rows = Vec::new();
    for (way, answer) in ways {
        let mut model = played(answer, 2);
        if way != "native" {
            model = Arc::new(Spoken::new(model, way.parse()?));
        }
        let mut agent = open(fixture, model)?;
        let mut times = Vec::with_capacity(TURNS);
        for _ in 0..=TURNS {
            let before = BEGAN.lock().map_or(0, |it| it.len());
            turn(fixture, &mut agent, 2)?;
            let began = BEGAN.lock().ok().and_then(|it| it.get(before).copied());
            times.push(began.ok_or("the call did not begin")?);
        }
        let comparison = match peer {
            Ok(peer) => peer.comparison("bracket", peer.late),
            Err(why) => Comparison::Missing(why.clone()),
        };
        let what = format!("a call's close to its start, {way}");
        // The first only warms up.
        rows.push(Times::new(times.split_off(1)).row(what, comparison, Some(under_ms())));
    }
    Ok(rows)
}

/// Measures five tools of a second each, while the model writes for three.
fn together(fixture: &Fixture, peer: &Result<Peer, String>) -> Result<Vec<Row>, Trouble> {
    let mut answer = Vec::new();
    for index in 0..5 {
        answer.push(Part::Wait(Duration::from_millis(600)));
        let (tool, arguments) = ("pause".to_owned(), json!({"text": "ok"}).to_string());
        answer.push(Part::Event(Event::CallBegan { index, tool: tool.clone() }));
        answer.push(Part::Event(Event::CallClosed { index, id: String::new(), tool, arguments }));
    }
    let mut agent = open(fixture, played(answer, 2))?;
    let times: Result<Vec<Duration>, Trouble> = (0..PAUSES).map(|_| turn(fixture, &mut agent, 2)).collect();
    let times = Times::new(times?);
    let what = "3 s of stream, five calls of 1 s in it";
    let told = |name: &str, seconds| {
        Comparison::Measured(name.to_owned(), Amount::Time(Duration::from_secs(seconds)))
    };
    let mut rows = vec![
        times.row(what, told("the last call closes at 3 s: its end", 4), Some(Aim::Times(1.02))),
        times.row(what, told("the sum of all", 8), None),
    ];
    rows.push(times.row(
        what,
        match peer {
            Ok(peer) => peer.comparison("the same", peer.together),
            Err(why) => Comparison::Missing(why.clone()),
        },
        None,
    ));
    Ok(rows)
}

/// Measures the cost of one step in a turn of many.
fn steps(fixture: &Fixture, peer: &Result<Peer, String>) -> Result<Vec<Row>, Trouble> {
    let per_step = |fixture: &Fixture, model| -> Result<Times, Trouble> {
        let mut agent = open(fixture, model)?;
        let each = u32::try_from(STEPS)?;
        let [times] = in_turn(LONG_TURNS, [&mut || Ok(turn(fixture, &mut agent, STEPS)? / each)])?;
        Ok(times)
    };
    let plain = || played(native("stamp"), STEPS);
    let on_disk = per_step(fixture, plain())?;
    let bracket = played(words("[/stamp]\nok\n[stamp/]"), STEPS);
    let spoken = per_step(fixture, Arc::new(Spoken::new(bracket, "bracket".parse()?)))?;
    let comparison = match peer {
        Ok(peer) => peer.comparison("parse and run", peer.step),
        Err(why) => Comparison::Missing(why.clone()),
    };
    let mut rows = vec![on_disk.row("a step of the loop with a no-op call", comparison, Some(under_ms()))];
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        let dir = tempfile::Builder::new().prefix("speed-").tempdir_in(memory)?;
        let without = Scratch::within(dir, std::env::temp_dir());
        let times = per_step(&self::fixture(&without)?, plain())?;
        rows.push(times.row(
            "the same, where nothing reaches a disk",
            on_disk.comparison("kept on the disk"),
            None,
        ));
    }
    let [call] = in_turn(TURNS, [&mut || fixture.call("stamp", json!({"text": "ok"}))])?;
    rows.push(on_disk.row("the same", call.comparison("the call alone"), None));
    rows.push(spoken.row("the same in a dialect, with all tools", on_disk.comparison("native"), None));
    Ok(rows)
}

fn under_ms() -> Aim {
    Aim::Under(Amount::Time(Duration::from_millis(1)))
}

/// The times of KohakuTerrarium for the same work.
struct Peer {
    version: String,
    late: Amount,
    together: Amount,
    step: Amount,
}

impl Peer {
    fn ask(scratch: &Scratch) -> Result<Self, String> {
        let python = scratch.target.join("terrarium/bin/python");
        Self::run(&python, scratch).map_err(|why| format!("terrarium is not installed: {why}"))
    }

    fn run(python: &Path, scratch: &Scratch) -> Result<Self, Trouble> {
        // It keeps its logs in the home folder.
        let home = scratch.folder("home")?;
        let output = Command::new(python)
            .args(["-c", TERRARIUM])
            .env("HOME", home)
            .output()
            .map_err(|error| format!("{}: {error}", python.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let words: Vec<&str> = text.split_whitespace().collect();
        let [late, together, step, version] = words.as_slice() else {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(said.lines().last().unwrap_or("it said nothing").into());
        };
        let seconds = |text: &str| Ok::<_, Trouble>(Amount::Time(Duration::from_secs_f64(text.parse()?)));
        let version = (*version).to_owned();
        Ok(Self { version, late: seconds(late)?, together: seconds(together)?, step: seconds(step)? })
    }

    fn comparison(&self, what: &str, amount: Amount) -> Comparison {
        Comparison::Measured(format!("KohakuTerrarium {}, {what}", self.version), amount)
    }
}
