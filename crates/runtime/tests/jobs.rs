//! Background jobs: they outlive their turn, and keep order, limits and journal.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
    sync::{Arc, LazyLock, Mutex},
    time::Duration,
};

use kit::{
    AnyTool, Fault, Kind, erase,
    prelude::*,
    redact::Secrets,
    services::{Live, State, Until},
    testing::TestTranscript,
};
use policy::{Approve, Policy};
use runtime::{Answer, Call, Runtime, Session, Settings, Unattended};
use sandbox::SandboxMode;
use serde_json::{Value, json};
use store::journal::{CallRecord, Filter};
use tokio::sync::Semaphore;

const SECRET: &str = "s3cret-Value-91c4";

/// The state that a test and its tools share, by a key of its own.
#[derive(Clone)]
struct Stage {
    begun: Arc<Semaphore>,
    go: Arc<Semaphore>,
    written: Arc<TestTranscript>,
}

static STAGES: LazyLock<Mutex<HashMap<String, Stage>>> = LazyLock::new(Mutex::default);

fn stage(key: &str) -> Stage {
    let new = || Stage {
        begun: Arc::new(Semaphore::new(0)),
        go: Arc::new(Semaphore::new(0)),
        written: Arc::default(),
    };
    STAGES.lock().unwrap().entry(key.to_owned()).or_insert_with(new).clone()
}

impl Stage {
    /// Waits until this number of calls run.
    async fn at_work(&self, calls: u32) {
        self.begun.acquire_many(calls).await.unwrap().forget();
    }

    /// Lets this number of calls end.
    fn let_go(&self, calls: usize) {
        self.go.add_permits(calls);
    }
}

/// A tool that does what its arguments define.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Actor {
    /// The action.
    act: String,
    /// The key of the stage.
    key: String,
}

impl Tool for Actor {
    const NAME: &str = "actor";

    fn touches(&self) -> Touches {
        if self.act.starts_with("alone") { Touches::exclusive() } else { Touches::none() }
    }

    fn time_limit(&self) -> Option<Duration> {
        self.act.contains("patient").then_some(Duration::from_secs(600))
    }

    fn title(&self) -> String {
        self.key.clone()
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let stage = stage(&self.key);
        cx.caller().show(Live { output: Some(stage.written.clone()), ..Live::default() });
        if self.act.contains("move") {
            cx.caller().go_on(Output::text("so far"));
        }
        stage.begun.add_permits(1);
        if !self.act.contains("quick") {
            tokio::select! {
                biased;
                () = cx.cancelled() => return Err(Fault::new(Kind::Cancelled, "told to stop").seen(Output::text("this far"))),
                go = stage.go.acquire() => go.unwrap().forget(),
            }
        }
        if self.act.contains("panic") {
            panic!("the actor fell over");
        }
        Ok(Output { exit: Some(0), ..Output::text(format!("worked with {SECRET}")) })
    }
}

/// A tool that adds up its inputs.
#[derive(Deserialize, JsonSchema)]
struct Counter {}

impl Tool for Counter {
    const NAME: &str = "counter";
    const MODE: Mode = Mode::Stateful;

    fn touches(&self) -> Touches {
        Touches::none()
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let mut sum = 0;
        loop {
            let input = cx.yield_output(Output::text(format!("sum {sum}"))).await?;
            match input.as_i64() {
                Some(0) => return Ok(Output::text(format!("total {sum}"))),
                Some(100) => cx.cancelled().await,
                number => sum += number.unwrap_or_default(),
            }
        }
    }
}

/// A tool that always runs in the background.
#[derive(Deserialize, JsonSchema)]
struct Slow {}

impl Tool for Slow {
    const NAME: &str = "slow";
    const MODE: Mode = Mode::Background;
    const AT_MOST: Kinds = Kinds::READ;

    fn touches(&self) -> Touches {
        Touches::none()
    }

    async fn run(self, _: &Cx) -> Result<Output, Fault> {
        Ok(Output::text("slow but done"))
    }
}

/// A session without this tool does not mention that a call may go to the background.
#[derive(Deserialize, JsonSchema)]
struct ReadJob {}

impl Tool for ReadJob {
    const NAME: &str = "read_job";
    const AT_MOST: Kinds = Kinds::NONE;

    fn touches(&self) -> Touches {
        Touches::none()
    }

    async fn run(self, _: &Cx) -> Result<Output, Fault> {
        Ok(Output::text(""))
    }
}

/// Uses jobs as a model would.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Hand {
    /// The action.
    #[serde(rename = "do")]
    what: String,
    /// The job.
    #[serde(default)]
    job: String,
    /// Input, pattern or seconds.
    #[serde(default)]
    with: Value,
    /// The time limit, in seconds.
    #[serde(default)]
    at_most: u64,
}

impl Tool for Hand {
    const NAME: &str = "hand";
    const AT_MOST: Kinds = Kinds::READ;

    fn touches(&self) -> Touches {
        Touches::none()
    }

    fn time_limit(&self) -> Option<Duration> {
        Some(Duration::from_secs(self.at_most))
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let jobs = cx.jobs();
        let at_most = Duration::from_secs(self.at_most);
        let until = match self.what.as_str() {
            "nothing" => return Ok(Output::text("nothing")),
            "count" => return Ok(Output::text(jobs.list().len().to_string())),
            "read" => return Ok(described(&jobs.get(&self.job)?)),
            "stop" => return jobs.stop(&self.job).await.map(|job| described(&job)),
            "continue" => return jobs.go_on(&self.job, self.with, Duration::from_secs(60)).await,
            "exit" => Until::Exit,
            "pattern" => Until::Pattern(self.with.as_str().unwrap_or_default().to_owned()),
            "quiet" => Until::Quiet(Duration::from_secs(self.with.as_u64().unwrap_or_default())),
            other => return Err(Fault::bad_args(format!("`{other}`?"))),
        };
        let waited = jobs.wait(&self.job, until, at_most).await?;
        let line = waited.line.map(|line| format!(" by `{line}`")).unwrap_or_default();
        Ok(Output::text(format!("{} met: {}{line}", waited.job.state.name(), waited.met)))
    }
}

fn described(job: &kit::services::Job) -> Output {
    let said = match (job.result.as_deref(), &job.said) {
        (Some(Ok(output)), _) => output.as_text(),
        (Some(Err(fault)), _) => format!("{}: {}", fault.kind, fault.as_text()),
        (None, Some(said)) => said.as_text(),
        (None, None) => String::new(),
    };
    Output::text(format!("{} {} {}: {said}", job.id, job.title, job.state.name()))
}

/// A workspace, a state folder, and a session in it.
struct Fixture {
    dir: tempfile::TempDir,
    session: Session,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let session = open(dir.path());
        Self { dir, session }
    }

    async fn call(&self, tool: &str, arguments: Value) -> Answer {
        self.session.call(Call::new(tool, arguments)).await
    }

    async fn says(&self, tool: &str, arguments: Value) -> String {
        self.call(tool, arguments).await.as_text()
    }

    async fn hand(&self, what: &str, job: &str) -> String {
        self.says("hand", json!({"do": what, "job": job, "at_most": 3000})).await
    }

    fn spawn(&self, call: Call) -> tokio::task::JoinHandle<Answer> {
        let session = self.session.clone();
        tokio::spawn(async move { session.call(call).await })
    }

    /// Returns the journal, once all of it is written.
    async fn journal(&self) -> Vec<CallRecord> {
        let store = self.session.runtime().store().clone();
        store.flush().await.unwrap();
        tokio::task::spawn_blocking(move || store.journal().log(Filter::default()).unwrap()).await.unwrap()
    }
}

fn open(dir: &Path) -> Session {
    open_with(dir, &[])
}

fn open_with(dir: &Path, more: &[Arc<dyn AnyTool>]) -> Session {
    std::fs::create_dir_all(dir.join("ws")).unwrap();
    let settings = Settings {
        network: Default::default(),
        tool_files: Default::default(),
        workspace: dir.join("ws"),
        roots: Vec::new(),
        state: dir.join("state"),
        config: dir.join("config"),
        policy: Policy { sandbox: SandboxMode::Workspace, approve: Approve::Auto, ..Policy::default() },
        other_names: kit::files::OtherNames::Refuse,
        allowed: None,
        deadline: Duration::from_secs(60),
        secrets: Secrets::collect([("SOME_TOKEN", SECRET)], []),
        commands: runtime::Commands::default(),
    };
    let tools = [erase::<Actor>(), erase::<Counter>(), erase::<Slow>(), erase::<Hand>()];
    Runtime::open(settings, [&tools, more].concat()).unwrap().session(None, "test", Arc::new(Unattended))
}

fn acts(act: &str, key: &str) -> Value {
    json!({"act": act, "key": key})
}

fn in_background(act: &str, key: &str) -> Value {
    json!({"act": act, "key": key, "run_in_background": true})
}

#[tokio::test]
async fn any_call_goes_to_the_background_by_argument() {
    let (fixture, stage) = (Fixture::new(), stage("by argument"));
    assert_eq!(
        fixture.says("actor", in_background("work", "by argument")).await,
        "job_1 runs in the background: by argument"
    );
    stage.at_work(1).await;
    assert_eq!(fixture.hand("read", "1").await, "job_1 by argument running: ");
    stage.let_go(1);
    assert_eq!(fixture.hand("exit", "job_1").await, "done met: true");
    // The output is redacted like any result, and can be read repeatedly.
    for _ in 0..2 {
        let read = fixture.hand("read", "job_1").await;
        assert_eq!(read, "job_1 by argument done: worked with [masked:SOME_TOKEN]");
    }
    assert_eq!(fixture.says("slow", json!({})).await, "job_2 runs in the background: slow");
    assert_eq!(fixture.hand("exit", "job_2").await, "done met: true");
    // The option is validated, and removed for tools that refuse unknown arguments.
    let said = fixture.says("hand", json!({"do": "nothing", "run_in_background": "true"})).await;
    assert!(said.starts_with("job_3 runs in the background: hand"), "{said}");
    let said = fixture.says("hand", json!({"do": "nothing", "run_in_background": 7})).await;
    assert!(said.starts_with("`run_in_background` is 7; it must be true or false"), "{said}");
    let records = fixture.journal().await;
    let first = records.first().unwrap();
    assert!(first.arguments.contains("run_in_background") && first.outcome.as_deref() == Some("ok"));
    assert!(first.notes.contains(&"ran as job_1".to_owned()), "{:?}", first.notes);
}

#[tokio::test]
async fn tools_that_run_commands_say_so_in_their_schema() {
    let dir = tempfile::tempdir().unwrap();
    let session = open_with(dir.path(), &[erase::<ReadJob>()]);
    let has = |tool: &str, option: &str| {
        let spec = session.catalog().specs().find(|spec| spec.name == tool).unwrap().clone();
        spec.schema.pointer(&format!("/properties/{option}/type")) == Some(&json!("boolean"))
    };
    assert!(has("actor", "run_in_background") && !has("actor", "allow_concurrent"));
    assert!(!has("hand", "run_in_background"));
}

#[tokio::test(start_paused = true)]
async fn a_tool_moves_itself_and_neither_deadline_nor_caller_stops_it_any_more() {
    let (fixture, stage) = (Fixture::new(), stage("moves"));
    let call = Call::new("actor", acts("move", "moves"));
    let cancel = call.cancel.clone();
    let answer = fixture.session.call(call).await;
    assert_eq!(answer.as_text(), "so far\njob_1 goes on in the background");
    cancel.cancel();
    tokio::time::sleep(Duration::from_secs(500)).await;
    assert_eq!(fixture.hand("read", "job_1").await, "job_1 moves running: ");
    stage.let_go(1);
    assert_eq!(fixture.hand("exit", "job_1").await, "done met: true");
    // A job that ends at once has both an answer and a result.
    let answer = fixture.says("actor", acts("quick move", "moves")).await;
    assert!(answer.starts_with("so far\njob_2 goes on"), "{answer}");
    let read = fixture.hand("read", "job_2").await;
    assert_eq!(read, "job_2 moves done: worked with [masked:SOME_TOKEN]");
}

#[tokio::test]
async fn the_host_moves_a_running_call_and_a_waiting_one() {
    let (fixture, stage) = (Fixture::new(), stage("host"));
    let begin = |act: &str| {
        let id = fixture.session.new_call_id();
        (id.clone(), fixture.spawn(Call { id: Some(id), ..Call::new("actor", acts(act, "host")) }))
    };
    let (first, running) = begin("alone");
    stage.at_work(1).await;
    let (second, waiting) = begin("alone");
    tokio::task::yield_now().await;
    assert_eq!(fixture.session.promote(&second).unwrap(), "job_1");
    assert_eq!(waiting.await.unwrap().as_text(), "job_1 runs in the background: host");
    assert_eq!(fixture.hand("read", "job_1").await, "job_1 host pending: ");
    assert_eq!(fixture.session.promote(&first).unwrap(), "job_2");
    let answer = running.await.unwrap();
    assert_eq!((answer.as_text().as_str(), &answer.id), ("job_2 runs in the background: host", &first));
    // The locks are free: the other call has begun.
    stage.at_work(1).await;
    assert!(fixture.session.promote(&first).is_err_and(|fault| fault.kind == Kind::NotFound));
    stage.let_go(2);
    assert!(fixture.hand("exit", "job_1").await.starts_with("done met: true"));
    assert!(fixture.hand("exit", "job_2").await.starts_with("done met: true"));
}

#[tokio::test]
async fn end_of_a_job_is_reported_once_and_not_to_a_caller_that_saw_it() {
    let (fixture, stage) = (Fixture::new(), stage("told"));
    let mut events = fixture.session.events();
    fixture.call("actor", acts("move", "told")).await;
    fixture.call("actor", acts("move panic", "told")).await;
    fixture.call("actor", acts("move", "told")).await;
    stage.at_work(3).await;
    stage.let_go(3);
    let mut seen = Vec::new();
    for _ in 0..3 {
        let event = events.recv().await.unwrap();
        seen.push((event.job, event.state, event.exit, event.tail));
    }
    seen.sort_unstable();
    let worked = "worked with [masked:SOME_TOKEN]".to_owned();
    assert_eq!(
        seen,
        [
            ("job_1".to_owned(), "done", Some(0), worked.clone()),
            ("job_2".to_owned(), "error", None, "the tool panicked: the actor fell over".to_owned()),
            ("job_3".to_owned(), "done", Some(0), worked),
        ]
    );
    // Reading a job counts as a notification.
    assert!(fixture.call("hand", json!({"do": "read", "job": "job_3"})).await.notes.len() == 2);
    let notes = fixture.call("hand", json!({"do": "nothing"})).await.notes;
    assert_eq!(notes, Vec::<String>::new());
    // So does waiting for it, at any timing.
    fixture.call("actor", acts("move", "told")).await;
    let wait = fixture.spawn(Call::new("hand", json!({"do": "exit", "job": "job_4", "at_most": 100})));
    tokio::task::yield_now().await;
    stage.let_go(1);
    let answer = wait.await.unwrap();
    assert_eq!((answer.as_text().as_str(), answer.notes.len()), ("done met: true", 0));
    assert!(fixture.call("nobody", json!({})).await.notes.is_empty());
    assert!(events.recv().await.unwrap().job == "job_4" && events.try_recv().is_err());
}

#[tokio::test]
async fn a_note_says_how_the_job_ended_and_waits_for_an_answer_that_is_read() {
    let (fixture, stage) = (Fixture::new(), stage("npm test"));
    let mut events = fixture.session.events();
    fixture.call("actor", acts("move quick", "npm test")).await;
    events.recv().await.unwrap();
    // A cancelled call delivers no notifications.
    let call = Call::new("hand", json!({"do": "nothing"}));
    call.cancel.cancel();
    assert!(fixture.session.call(call).await.notes.is_empty());
    let notes = fixture.call("nobody", json!({})).await.notes;
    assert_eq!(notes.len(), 1);
    let note = notes.first().unwrap();
    assert!(note.starts_with("job_1 (npm test) ended: exit 0, "), "{note}");
    fixture.call("actor", acts("move panic", "npm test")).await;
    stage.let_go(1);
    events.recv().await.unwrap();
    let notes = fixture.call("hand", json!({"do": "nothing"})).await.notes;
    assert!(notes.iter().any(|it| it.contains("failed after ") && it.ends_with("the actor fell over")));
}

#[tokio::test]
async fn a_stateful_tool_is_continued_input_by_input_to_its_end() {
    let fixture = Fixture::new();
    let answer = fixture.says("counter", json!({})).await;
    assert_eq!(answer, "sum 0\njob_1 waits for input");
    let put = async |job: &str, with: Value| {
        fixture.says("hand", json!({"do": "continue", "job": job, "with": with})).await
    };
    assert_eq!(put("job_1", json!(5)).await, "sum 5\njob_1 waits for input");
    assert_eq!(put("1", json!(7)).await, "sum 12\njob_1 waits for input");
    assert_eq!(
        fixture.hand("read", "job_1").await,
        "job_1  waiting for input: sum 12\njob_1 waits for input"
    );
    // A wait would never end: it returns the awaited input instead.
    assert_eq!(fixture.hand("exit", "job_1").await, "waiting for input met: false");
    assert_eq!(put("job_1", json!(0)).await, "total 12\njob_1 is over: done");
    let late = fixture.call("hand", json!({"do": "continue", "job": "job_1", "with": 1})).await;
    assert!(late.result.as_ref().is_err_and(|fault| fault.kind == Kind::Stale));
    assert!(late.as_text().starts_with("job_1 is over (done); it takes no more input"), "{}", late.as_text());
    let unknown = put("job_7", json!(1)).await;
    assert_eq!(unknown, "there is no job `job_7` in this session\nThe jobs are: job_1.");
}

#[tokio::test]
async fn one_of_two_simultaneous_inputs_is_taken_and_a_stop_ends_a_waiting_job() {
    let fixture = Fixture::new();
    fixture.call("counter", json!({})).await;
    let put =
        |with: i64| fixture.spawn(Call::new("hand", json!({"do": "continue", "job": "job_1", "with": with})));
    let (one, other) = (put(1), put(2));
    let mut said = [one.await.unwrap().as_text(), other.await.unwrap().as_text()];
    said.sort_unstable();
    let [refused, taken] = said;
    assert!(refused.starts_with("job_1 is running; it waits for no input now"), "{refused}");
    assert!(taken == "sum 1\njob_1 waits for input" || taken == "sum 2\njob_1 waits for input", "{taken}");
    let stopped = fixture.hand("stop", "job_1").await;
    assert!(stopped.starts_with("job_1  cancelled: cancelled: "), "{stopped}");
    // A stop also works in the middle of the work; the caller that waits for the answer gets it.
    fixture.call("counter", json!({})).await;
    let put = fixture.spawn(Call::new("hand", json!({"do": "continue", "job": "job_2", "with": 100})));
    tokio::task::yield_now().await;
    assert!(fixture.hand("stop", "job_2").await.starts_with("job_2  cancelled: "));
    let answer = put.await.unwrap();
    assert!(answer.result.is_err_and(|fault| fault.kind == Kind::Cancelled));
    assert!(fixture.call("hand", json!({"do": "nothing"})).await.notes.is_empty());
}

#[tokio::test]
async fn stop_ends_a_job_with_its_partial_result_and_leaves_a_finished_one() {
    let (fixture, stage) = (Fixture::new(), stage("stop"));
    fixture.call("actor", acts("move", "stop")).await;
    let stopped = fixture.hand("stop", "job_1").await;
    assert!(
        stopped.starts_with("job_1 stop cancelled: cancelled: ") && stopped.ends_with("this far"),
        "{stopped}"
    );
    fixture.call("actor", acts("move", "stop")).await;
    stage.let_go(1);
    fixture.hand("exit", "job_2").await;
    assert!(fixture.hand("stop", "job_2").await.starts_with("job_2 stop done: worked"));
    let outcomes: Vec<Option<String>> =
        fixture.journal().await.iter().map(|it| it.outcome.clone()).take(2).collect();
    assert_eq!(outcomes, [Some("cancelled".to_owned()), Some("ok".to_owned())]);
}

#[tokio::test]
async fn a_stop_before_the_move_ends_the_call() {
    let (fixture, stage) = (Fixture::new(), stage("before"));
    let call = Call::new("actor", acts("work", "before"));
    let cancel = call.cancel.clone();
    let running = fixture.spawn(call);
    stage.at_work(1).await;
    cancel.cancel();
    let answer = running.await.unwrap();
    assert!(answer.result.is_err_and(|fault| fault.kind == Kind::Cancelled));
    assert_eq!(fixture.hand("count", "").await, "0");
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_by_pattern_by_quiet_by_the_end_or_by_its_time() {
    let (fixture, stage) = (Fixture::new(), stage("wait"));
    fixture.call("actor", acts("move", "wait")).await;
    let wait = |what: &str, with: Value, at_most: u64| {
        fixture
            .spawn(Call::new("hand", json!({"do": what, "job": "job_1", "with": with, "at_most": at_most})))
    };
    let pattern = wait("pattern", json!("listening on :\\d+"), 3600);
    let other = wait("pattern", json!("^never$"), 3000);
    let exit = wait("exit", json!(null), 3600);
    assert_eq!(wait("exit", json!(null), 300).await.unwrap().as_text(), "running met: false");
    stage.written.write("starting\nlisten");
    tokio::task::yield_now().await;
    stage.written.write("ing on :3000\n");
    assert_eq!(pattern.await.unwrap().as_text(), "running met: true by `listening on :3000`");
    // A second wait finds the output again.
    let again = wait("pattern", json!("^listen"), 1).await.unwrap().as_text();
    assert_eq!(again, "running met: true by `listening on :3000`");
    let began = tokio::time::Instant::now();
    let quiet = wait("quiet", json!(20), 100);
    tokio::time::sleep(Duration::from_secs(15)).await;
    stage.written.write("more\n");
    assert_eq!(quiet.await.unwrap().as_text(), "running met: true");
    assert_eq!(began.elapsed().as_secs(), 35);
    assert_eq!(wait("quiet", json!(20), 10).await.unwrap().as_text(), "running met: false");
    let bad = wait("pattern", json!("("), 10).await.unwrap();
    assert!(bad.result.is_err_and(|fault| fault.kind == Kind::BadArgs));
    // Stopping a wait leaves the job alone.
    let call = Call::new("hand", json!({"do": "exit", "job": "job_1", "at_most": 100}));
    let cancel = call.cancel.clone();
    let stopped = fixture.spawn(call);
    tokio::task::yield_now().await;
    cancel.cancel();
    assert!(stopped.await.unwrap().result.is_err());
    assert!(fixture.hand("read", "job_1").await.starts_with("job_1 wait running"));
    stage.written.write("last words, never quite");
    stage.let_go(1);
    assert_eq!(other.await.unwrap().as_text(), "done met: false");
    assert_eq!(exit.await.unwrap().as_text(), "done met: true");
    // The last output is found though the job is over.
    assert_eq!(
        wait("pattern", json!("words"), 9).await.unwrap().as_text(),
        "done met: true by `last words, never quite`"
    );
}

#[tokio::test(start_paused = true)]
async fn a_call_may_take_as_long_as_it_says_and_the_fault_names_its_deadline() {
    let (fixture, stage) = (Fixture::new(), stage("patient"));
    let patient = fixture.spawn(Call::new("actor", acts("patient", "patient")));
    tokio::time::sleep(Duration::from_secs(590)).await;
    stage.let_go(1);
    assert!(patient.await.unwrap().result.is_ok());
    for (act, seconds) in [("patient", 610), ("work", 60)] {
        let answer = fixture.call("actor", acts(act, "patient")).await;
        let fault = answer.result.unwrap_err();
        assert!(fault.kind == Kind::Timeout, "{fault}");
        let what = &fault.what;
        assert!((seconds - 1..=seconds).any(|it| what.contains(&format!("deadline of {it} s"))), "{what}");
    }
}

#[tokio::test]
async fn exclusive_calls_run_together_only_where_that_is_allowed() {
    let (fixture, stage) = (Fixture::new(), stage("alone"));
    let first = fixture.spawn(Call::new("actor", acts("alone", "alone")));
    stage.at_work(1).await;
    let queued = fixture.spawn(Call::new("actor", acts("alone", "alone")));
    let allowed = json!({"act": "alone", "key": "alone", "allow_concurrent": true});
    let beside = fixture.spawn(Call::new("actor", allowed));
    stage.at_work(1).await;
    // Two calls run; the third has not begun.
    assert_eq!(stage.begun.available_permits(), 0);
    stage.let_go(3);
    for call in [first, queued, beside] {
        assert!(call.await.unwrap().result.is_ok());
    }
}

#[tokio::test]
async fn the_end_of_a_session_stops_its_jobs() {
    let (fixture, stage) = (Fixture::new(), stage("end"));
    fixture.call("actor", in_background("work", "end")).await;
    fixture.call("counter", json!({})).await;
    stage.at_work(1).await;
    fixture.session.end().await;
    assert!(fixture.hand("read", "job_1").await.starts_with("job_1 end cancelled: "));
    assert!(fixture.hand("read", "job_2").await.starts_with("job_2  cancelled: "));
    // Dropping the last handle does the same.
    let Fixture { dir, session } = Fixture::new();
    let mut events = session.events();
    session.call(Call::new("actor", in_background("work", "end"))).await;
    stage.at_work(1).await;
    let copy = session.clone();
    drop(session);
    assert!(events.try_recv().is_err());
    drop(copy);
    assert_eq!(events.recv().await.unwrap().state, State::Cancelled.name());
    drop(dir);
}

#[tokio::test]
async fn a_thousand_jobs_at_once_all_end_and_a_hundred_stay_readable() {
    let (fixture, stage) = (Fixture::new(), stage("many"));
    let mut events = fixture.session.events();
    for _ in 0..1000 {
        fixture.call("actor", in_background("work", "many")).await;
    }
    stage.at_work(1000).await;
    assert_eq!(fixture.hand("count", "").await, "1000");
    stage.let_go(1000);
    let mut ended = std::collections::HashSet::new();
    while ended.len() < 1000 {
        assert!(ended.insert(events.recv().await.unwrap().job));
    }
    let answer = fixture.call("hand", json!({"do": "count"})).await;
    assert_eq!(answer.result.unwrap().as_text(), "100");
    assert_eq!(answer.notes.len(), 11);
    assert_eq!(answer.notes.last().unwrap(), "990 more jobs ended");
    let unknown = fixture.hand("read", "job_0").await;
    assert!(unknown.contains("and 80 older ones."), "{unknown}");
}

#[test]
fn a_job_whose_task_is_gone_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let session = open(dir.path());
    let mut events = session.events();
    tokio.block_on(async {
        session.call(Call::new("actor", in_background("work", "gone"))).await;
        stage("gone").at_work(1).await;
    });
    // The tasks are dropped, and the session stays.
    drop(tokio);
    let event = events.try_recv().unwrap();
    assert_eq!((event.state, event.tail.as_str()), ("error", "`actor` was lost before it was over"));
}

/// The environment variable that tells a test's child process its folder.
const CHILD: &str = "HAFT_TEST_JOBS_CHILD";

#[tokio::test]
async fn a_job_of_a_killed_process_is_interrupted_in_the_journal() {
    if let Some(dir) = std::env::var_os(CHILD) {
        let session = open(Path::new(&dir));
        session.call(Call::new("actor", in_background("work", "killed"))).await;
        stage("killed").at_work(1).await;
        session.runtime().store().flush().await.unwrap();
        writeln!(std::io::stdout(), "\nready").unwrap();
        return std::future::pending().await;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "jobs::a_job_of_a_killed_process_is_interrupted_in_the_journal", "--nocapture"])
        .env(CHILD, dir.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line == "ready"));
    child.kill().unwrap();
    child.wait().unwrap();
    let fixture = Fixture { session: open(dir.path()), dir };
    assert!(fixture.session.runtime().wait_recovered(Duration::from_secs(30)));
    let records = fixture.journal().await;
    assert_eq!(records.first().unwrap().outcome.as_deref(), Some("interrupted"));
}
