//! Scripted model and tools for tests: the model plays moves, and the tools do what it requests.

use std::{
    collections::{HashMap, VecDeque},
    io::Cursor,
    path::{Path, PathBuf},
    sync::{Arc, LazyLock},
    time::Duration,
};

use async_stream::stream;
use kit::{erase, prelude::*, redact::Secrets};
use parking_lot::Mutex;
use policy::{Approve, Policy};
use runtime::{Runtime, Unattended};
use sandbox::SandboxMode;
use serde_json::Value;
use store::{Buffer, Store};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::super::{Agent, AgentError, Outcome, Settings};
use crate::{
    event::{Event as Heard, Observer},
    model::{
        Abilities, Breach, Event, Events, Item, Model, ModelError, Piece, Price, Request, ResultOf, Why,
    },
    transcript::{is_whole, items_of},
};

/// The time limit of a call.
const DEADLINE: Duration = Duration::from_secs(60);

/// The next move of the model.
#[derive(Debug, Clone)]
pub(super) enum Move {
    Say(Event),
    Fail(Breach),
    /// Fails with an error after all retries.
    GiveUp(Breach),
    /// The person cancels.
    Cancel,
    Panic,
    /// Waits forever.
    Hang,
    /// Lets the calls make progress.
    Yield,
    /// Waits until this many calls hang, at most until their time limit has passed.
    AtWork(u32),
}

/// Returns the moves of a complete call.
pub(super) fn call(index: usize, id: &str, tool: &str, arguments: &str) -> Vec<Move> {
    let (id, tool, arguments) = (id.to_owned(), tool.to_owned(), arguments.to_owned());
    vec![
        Move::Say(Event::CallBegan { index, tool: tool.clone() }),
        Move::Say(Event::CallGrew { index, bytes: arguments.len() }),
        Move::Say(Event::CallClosed { index, id, tool, arguments }),
    ]
}

pub(super) fn end() -> Vec<Move> {
    vec![Move::Say(Event::End(Why::Done))]
}

pub(super) fn said(text: &str) -> Vec<Move> {
    vec![Move::Say(Event::Text(text.to_owned())), Move::Say(Event::End(Why::Done))]
}

pub(super) fn calls(all: &[(&str, &str, &str)]) -> Vec<Move> {
    let calls = all.iter().enumerate();
    calls.flat_map(|(index, (id, tool, arguments))| call(index, id, tool, arguments)).chain(end()).collect()
}

/// Returns the results in the conversation.
pub(super) fn results(agent: &Agent) -> Vec<ResultOf> {
    let of = |it: &Item| if let Item::Results { results } = it { results.clone() } else { Vec::new() };
    agent.transcript().items().iter().flat_map(of).collect()
}

pub(super) fn text(result: &ResultOf) -> String {
    Piece::lines(&result.pieces)
}

/// The state that the tests, the model and the observer share.
#[derive(Default)]
struct Shared {
    plays: Mutex<VecDeque<Vec<Move>>>,
    requests: Mutex<Vec<Request>>,
    heard: Mutex<Vec<Value>>,
    cancel: Mutex<CancellationToken>,
    /// The errors found in requests.
    wrong: Mutex<Vec<String>>,
    /// Whether the last complete answer was paused, so that its request is repeated.
    paused: Mutex<bool>,
}

/// A workspace with one session.
pub(super) struct Fixture {
    dir: tempfile::TempDir,
    shared: Arc<Shared>,
    stage: Stage,
    pub(super) abilities: Abilities,
    /// Whether the tools of the other modes exist.
    has_modes: bool,
}

impl Fixture {
    pub(super) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("ws")).unwrap();
        let stage = Stage::default();
        STAGES.lock().insert(dir.path().canonicalize().unwrap(), stage.clone());
        let abilities = Abilities {
            calls: true,
            images: true,
            window: 200_000,
            longest: 8000,
            own_tools: Vec::new(),
            price: Some(Price { input: 1.0, output: 2.0, ..Price::default() }),
        };
        Self { dir, shared: Arc::default(), stage, abilities, has_modes: false }
    }

    /// Creates a fixture with a background tool, a tool that yields, and the one that continues it.
    pub(super) fn with_modes() -> Self {
        Self { has_modes: true, ..Self::new() }
    }

    /// Adds moves of the model, a list for each request.
    pub(super) fn plays(&self, all: impl IntoIterator<Item = Vec<Move>>) {
        self.shared.plays.lock().extend(all);
    }

    /// Removes the remaining moves of the model.
    pub(super) fn forget_plays(&self) {
        self.shared.plays.lock().clear();
    }

    /// Returns an agent that continues the session of this fixture.
    pub(super) fn agent(&self) -> Agent {
        self.agent_with(|_| {})
    }

    pub(super) fn agent_with(&self, change: impl FnOnce(&mut Settings)) -> Agent {
        self.try_agent(change).unwrap()
    }

    pub(super) fn try_agent(&self, change: impl FnOnce(&mut Settings)) -> Result<Agent, Fault> {
        let workspace = self.dir.path().join("ws");
        let settings = runtime::Settings {
            network: Default::default(),
            tool_files: Default::default(),
            workspace: workspace.clone(),
            roots: Vec::new(),
            state: self.state(),
            config: self.dir.path().join("config"),
            policy: Policy { sandbox: SandboxMode::Workspace, approve: Approve::Auto, ..Policy::default() },
            other_names: kit::files::OtherNames::Refuse,
            allowed: None,
            deadline: DEADLINE,
            secrets: Secrets::none(),
            commands: runtime::Commands { decodes_here: true, ..runtime::Commands::default() },
        };
        let mut all = vec![erase::<Act>()];
        if self.has_modes {
            all.extend([erase::<Late>(), erase::<Dialogue>()]);
            all.extend(tools::all().into_iter().filter(|it| it.spec().name == "continue_job"));
        }
        let runtime = Runtime::open(settings, all).unwrap();
        *self.stage.runtime.lock() = Some(runtime.clone());
        let model = Played {
            shared: self.shared.clone(),
            stage: self.stage.clone(),
            abilities: self.abilities.clone(),
            committed: Store::open(&self.state(), &workspace, Arc::new(Secrets::none())),
        };
        let mut settings = Settings {
            session: runtime.session(Some(SESSION), "test", Arc::new(Unattended)),
            model: Arc::new(model),
            system: "you are".into(),
            bounds: Default::default(),
            visible: Default::default(),
            host: Arc::new(Ears(self.shared.clone())),
        };
        change(&mut settings);
        Agent::open(settings)
    }

    fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    /// Runs a turn that a move can cancel. Panics if the conversation is invalid after it.
    pub(super) async fn turn(&self, agent: &mut Agent, input: &str) -> Outcome {
        self.try_turn(agent, Some(input)).await.unwrap()
    }

    pub(super) async fn try_turn(
        &self,
        agent: &mut Agent,
        input: Option<&str>,
    ) -> Result<Outcome, AgentError> {
        let cancel = CancellationToken::new();
        *self.shared.cancel.lock() = cancel.clone();
        let outcome = agent.turn(input.map(str::to_owned), &cancel).await;
        self.check(agent);
        outcome
    }

    /// Panics if the conversation, or one in a request, is invalid.
    pub(super) fn check(&self, agent: &Agent) {
        assert!(is_whole(agent.transcript().items()), "{:?}", agent.transcript().items());
        assert_eq!(*self.shared.wrong.lock(), Vec::<String>::new());
    }

    pub(super) fn last_request(&self) -> Request {
        self.shared.requests.lock().last().unwrap().clone()
    }

    pub(super) fn requests(&self) -> Vec<Request> {
        self.shared.requests.lock().clone()
    }

    /// Returns the observed events.
    pub(super) fn heard(&self) -> Vec<Value> {
        self.shared.heard.lock().clone()
    }

    /// Returns the number of observed calls of a tool.
    pub(super) fn count(&self, tool: &str) -> usize {
        self.heard().iter().filter(|it| it["event"] == "called" && it["tool"] == tool).count()
    }

    /// Waits until this many calls hang.
    pub(super) async fn at_work(&self, calls: u32) {
        self.stage.begun.acquire_many(calls).await.unwrap().forget();
    }

    /// Releases this many hanging calls.
    pub(super) fn let_go(&self, calls: usize) {
        self.stage.go.add_permits(calls);
    }

    /// Makes a turn that begins a job, and waits for the end of the job.
    pub(super) async fn turn_with_ended_job(&self, agent: &mut Agent) {
        self.turn(agent, "go").await;
        let mut events = agent.session().events();
        self.at_work(1).await;
        self.let_go(1);
        events.recv().await.unwrap();
    }
}

const SESSION: &str = "the one";

struct Ears(Arc<Shared>);

impl Observer for Ears {
    fn observe(&self, event: Heard) {
        self.0.heard.lock().push(serde_json::to_value(event).unwrap());
    }
}

struct Played {
    shared: Arc<Shared>,
    stage: Stage,
    abilities: Abilities,
    /// A second store, which sees only committed rows.
    committed: Store,
}

impl Played {
    /// Checks the conversation in a request.
    fn check(&self, request: &Request) {
        let items = &request.items;
        let mut wrong = self.shared.wrong.lock();
        if !is_whole(items) {
            wrong.push(format!("a call without its one result, or an empty piece: {items:?}"));
        }
        if request.longest.is_some() {
            // A request for a summary is not part of the conversation.
            return;
        }
        let rows = self.committed.transcripts().rows(SESSION, Buffer::Context).unwrap();
        let committed = items_of(rows).unwrap();
        if serde_json::to_value(&committed).unwrap() != serde_json::to_value(items).unwrap() {
            wrong.push(format!("asked for {items:?}\nwhile the disk has {committed:?}"));
        }
        if matches!(items.last(), None | Some(Item::Model { .. })) && !*self.shared.paused.lock() {
            wrong.push(format!("nothing is left to answer: {items:?}"));
        }
    }
}

impl Model for Played {
    fn name(&self) -> &str {
        "played"
    }

    fn abilities(&self) -> &Abilities {
        &self.abilities
    }

    fn stream(&self, request: Request) -> Events {
        self.check(&request);
        self.shared.requests.lock().push(request);
        let moves = self.shared.plays.lock().pop_front().unwrap_or_else(|| said("nothing more"));
        let (shared, stage) = (self.shared.clone(), self.stage.clone());
        Box::pin(stream! {
            for it in moves {
                match it {
                    Move::Say(event) => {
                        if let Event::End(why) = &event {
                            *shared.paused.lock() = *why == Why::Paused;
                        }
                        yield Ok(event);
                    }
                    Move::Fail(breach) => yield Err(ModelError::new(breach, format!("as the test has it: {breach}"))),
                    Move::GiveUp(breach) => yield Err(ModelError::new(breach, "as the test has it").tried()),
                    Move::Cancel => shared.cancel.lock().cancel(),
                    Move::Panic => panic!("as the test has it"),
                    Move::Hang => std::future::pending::<()>().await,
                    Move::Yield => tokio::task::yield_now().await,
                    Move::AtWork(calls) => {
                        // A paused clock may pass the deadline of a call before it begins.
                        let begun = tokio::time::timeout(2 * DEADLINE, stage.begun.acquire_many(calls)).await;
                        if let Ok(permits) = begun {
                            permits.unwrap().forget();
                        }
                    }
                }
            }
        })
    }
}

#[derive(Clone)]
struct Stage {
    begun: Arc<Semaphore>,
    go: Arc<Semaphore>,
    runtime: Arc<Mutex<Option<Runtime>>>,
}

impl Default for Stage {
    fn default() -> Self {
        Self { begun: Arc::new(Semaphore::new(0)), go: Arc::new(Semaphore::new(0)), runtime: Arc::default() }
    }
}

/// The stages, by the folder of their fixture, for the tools.
static STAGES: LazyLock<Mutex<HashMap<PathBuf, Stage>>> = LazyLock::new(Mutex::default);

fn stage(workspace: &Path) -> Stage {
    STAGES.lock().get(workspace.parent().unwrap()).unwrap().clone()
}

/// Does what the model asks for.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Act {
    /// The action.
    #[serde(default)]
    act: String,
}

impl Tool for Act {
    const NAME: &str = "act";

    fn touches(&self) -> Touches {
        assert!(self.act != "early", "of touches");
        if self.act.starts_with("change") { Touches::exclusive() } else { Touches::none() }
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let stage = stage(cx.files().roots().workspace());
        let (act, rest) = self.act.split_once(' ').unwrap_or((&self.act, ""));
        match act {
            "panic" => panic!("of run"),
            "fail" => Err(Fault::new(Kind::Failed, "it failed as it was to")),
            "nothing" => Ok(Output::default()),
            "exit" => Ok(Output { exit: rest.parse().ok(), ..Output::text("it ran") }),
            "big" => Ok(Output::page("0123456789abcde\n".repeat(rest.parse().unwrap()))),
            "picture" => {
                let mut data = Vec::new();
                image::DynamicImage::new_rgba8(1, 1)
                    .write_to(&mut Cursor::new(&mut data), image::ImageFormat::Png)
                    .unwrap();
                let parts = vec![kit::Part::Image { mime: "image/png".to_owned(), data }];
                Ok(Output { parts, ..Output::default() })
            }
            "hang" => {
                stage.begun.add_permits(1);
                tokio::select! {
                    permit = stage.go.acquire() => permit.unwrap().forget(),
                    () = cx.cancelled() => return Err(Fault::new(Kind::Cancelled, "stopped")),
                }
                Ok(Output::text("let go"))
            }
            "stubborn" => {
                stage.begun.add_permits(1);
                std::future::pending().await
            }
            "new" => {
                let runtime = stage.runtime.lock().clone().unwrap();
                runtime.registry().swap(
                    vec![erase::<Self>(), erase::<Other>()],
                    Vec::new(),
                    std::collections::HashSet::new(),
                );
                Ok(Output::text("there is another tool"))
            }
            _ => Ok(Output::text(self.act)),
        }
    }
}

/// Works in the background, always.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Late {}

impl Tool for Late {
    const NAME: &str = "late";
    const MODE: Mode = Mode::Background;

    fn touches(&self) -> Touches {
        Touches::none()
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let stage = stage(cx.files().roots().workspace());
        stage.begun.add_permits(1);
        stage.go.acquire().await.unwrap().forget();
        Ok(Output::text("it came late"))
    }
}

/// Asks for two words, one after the other, and says both.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Dialogue {
    /// Whether it first waits until it may go on.
    #[serde(default)]
    later: bool,
}

impl Tool for Dialogue {
    const NAME: &str = "talk";
    const MODE: Mode = Mode::Stateful;

    fn touches(&self) -> Touches {
        Touches::none()
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        if self.later {
            stage(cx.files().roots().workspace()).go.acquire().await.unwrap().forget();
        }
        let one = cx.yield_output(Output::text("the first word?")).await?;
        let other = cx.yield_output(Output::text("the second word?")).await?;
        Ok(Output::text(format!("{one} and {other}")))
    }
}

/// Does nothing.
#[derive(Deserialize, JsonSchema)]
struct Other {}

impl Tool for Other {
    const NAME: &str = "other";

    fn touches(&self) -> Touches {
        Touches::none()
    }

    async fn run(self, _: &Cx) -> Result<Output, Fault> {
        Ok(Output::text("other"))
    }
}
