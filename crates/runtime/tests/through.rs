//! The journal of calls that a tool makes for another.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use kit::{Kind, Part, effect::Scope, erase, prelude::*, redact::Secrets, services::Progress};
use policy::Policy;
use runtime::{Answer, Approver, Call, Request, Runtime, Session, Settings, Verdict};
use serde_json::{Value, json};

/// A tool that calls another tool and returns its answer.
#[derive(Deserialize, JsonSchema)]
struct Through {
    name: String,
    arguments: Value,
}

impl Tool for Through {
    const NAME: &str = "through";

    fn touches(&self) -> Touches {
        Touches::none()
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        cx.tools().call(&self.name, self.arguments).await.result
    }
}

#[derive(Deserialize, JsonSchema)]
struct Inner {
    act: String,
}

impl Tool for Inner {
    const NAME: &str = "inner";

    fn touches(&self) -> Touches {
        match self.act.as_str() {
            "net" => Touches::none().and(Touch::Net("example.org".to_owned())),
            _ => Touches::none(),
        }
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        match self.act.as_str() {
            "step" => {
                cx.progress(1.0, Some(2.0), "half way");
                Ok(Output::text("done"))
            }
            "look" => {
                let mut output = Output::text("a picture");
                output.parts.push(Part::Image { mime: "image/png".to_owned(), data: vec![1, 2] });
                output.structured = Some(json!({"size": 2}));
                output.exit = Some(3);
                Ok(output)
            }
            "wait" => {
                cx.progress(0.0, None, "waiting");
                cx.cancelled().await;
                Err(Fault::new(Kind::Cancelled, "stopped").seen(Output::text("this far")))
            }
            _ => Ok(Output::text("done")),
        }
    }
}

/// A person who allows everything, and records the requests.
#[derive(Default)]
struct Asked(Mutex<Vec<Request>>);

impl Approver for Asked {
    fn approve(&self, request: Request) -> Pin<Box<dyn Future<Output = Verdict> + Send + '_>> {
        self.0.lock().unwrap().push(request);
        Box::pin(std::future::ready(Verdict::Yes(Scope::Once)))
    }
}

/// Records progress, and notifies of each step.
#[derive(Default)]
struct Steps {
    heard: Mutex<Vec<String>>,
    some: tokio::sync::Notify,
}

impl Progress for Steps {
    fn report(&self, done: f64, total: Option<f64>, message: &str) {
        self.heard.lock().unwrap().push(format!("{done} {total:?} {message}"));
        self.some.notify_one();
    }
}

struct Fixture {
    _dir: tempfile::TempDir,
    session: Session,
    asked: Arc<Asked>,
    steps: Arc<Steps>,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("ws")).unwrap();
        let settings = Settings {
            network: Default::default(),
            tool_files: Default::default(),
            workspace: dir.path().join("ws"),
            roots: Vec::new(),
            state: dir.path().join("state"),
            config: dir.path().join("config"),
            policy: Policy::default(),
            other_names: kit::files::OtherNames::Refuse,
            allowed: None,
            deadline: Duration::from_secs(60),
            secrets: Secrets::none(),
            commands: runtime::Commands::default(),
        };
        let asked = Arc::new(Asked::default());
        let runtime = Runtime::open(settings, vec![erase::<Through>(), erase::<Inner>()]).unwrap();
        let session = runtime.session(None, "test", asked.clone());
        Self { _dir: dir, session, asked, steps: Arc::default() }
    }

    /// Returns a call of the inner tool through the other one, twice.
    fn twice(&self, act: &str) -> Call {
        let once = json!({"name": "inner", "arguments": {"act": act}});
        let mut call = Call::new("through", json!({"name": "through", "arguments": once}));
        call.progress = Some(self.steps.clone());
        call.id = Some(self.session.new_call_id());
        call
    }

    async fn answer(&self, act: &str) -> Answer {
        self.session.call(self.twice(act)).await
    }
}

#[tokio::test]
async fn person_is_asked_about_the_inner_tool_on_behalf_of_the_outer_call() {
    let fixture = Fixture::new();
    let call = fixture.twice("net");
    let id = call.id.clone();
    assert_eq!(fixture.session.call(call).await.as_text(), "done");
    let asked = fixture.asked.0.lock().unwrap();
    let [request] = asked.as_slice() else { panic!("asked {} times", asked.len()) };
    assert_eq!((request.tool.as_str(), &request.call), ("inner", &id));
    assert_eq!(request.effects, ["net example.org"]);
}

#[tokio::test]
async fn images_structured_results_and_progress_are_passed_on() {
    let fixture = Fixture::new();
    let output = fixture.answer("look").await.result.unwrap();
    assert_eq!((output.structured, output.exit), (Some(json!({"size": 2})), Some(3)));
    assert_eq!(output.parts.get(1), Some(&Part::Image { mime: "image/png".to_owned(), data: vec![1, 2] }));
    assert_eq!(fixture.answer("step").await.as_text(), "done");
    assert_eq!(*fixture.steps.heard.lock().unwrap(), ["1 Some(2.0) half way"]);
}

#[tokio::test]
async fn stopping_the_outer_call_stops_the_inner_one() {
    let fixture = Fixture::new();
    let call = fixture.twice("wait");
    let cancel = call.cancel.clone();
    let session = fixture.session.clone();
    let running = tokio::spawn(async move { session.call(call).await });
    fixture.steps.some.notified().await;
    cancel.cancel();
    let fault = running.await.unwrap().result.unwrap_err();
    assert_eq!(fault.kind, Kind::Cancelled);
    assert!(fault.seen.is_some_and(|it| it.as_text() == "this far"));
}
