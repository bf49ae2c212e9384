//! Tool calls: each ends in exactly one answer, whatever its tool does.

use std::{
    future::{Future, pending},
    path::Path,
    pin::Pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use kit::{
    AnyTool, Fault, Kind,
    effect::{Effect, Scope},
    erase,
    files::RootSpec,
    prelude::*,
    redact::Secrets,
};
use policy::{Approve, Policy};
use runtime::{
    Answer, Approver, Arguments, Call, Limits, Request, Runtime, Session, Settings, Unattended, Verdict,
};
use sandbox::SandboxMode;
use serde_json::{Value, json};
use store::journal::{CallRecord, Filter};

const SECRET: &str = "s3cret-Value-91c4";

/// A workspace, a state folder, and a session in it.
struct Fixture {
    dir: tempfile::TempDir,
    session: Session,
}

impl Fixture {
    fn new(tools: Vec<Arc<dyn AnyTool>>) -> Self {
        Self::with(tools, Policy::default(), Arc::new(Unattended))
    }

    fn with(tools: Vec<Arc<dyn AnyTool>>, policy: Policy, approver: Arc<dyn Approver>) -> Self {
        Self::within(tools, policy, approver, Duration::from_secs(60))
    }

    fn within(
        tools: Vec<Arc<dyn AnyTool>>,
        policy: Policy,
        approver: Arc<dyn Approver>,
        deadline: Duration,
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("ws")).unwrap();
        std::fs::create_dir(dir.path().join("more")).unwrap();
        let settings = Settings {
            network: Default::default(),
            tool_files: Default::default(),
            workspace: dir.path().join("ws"),
            roots: vec![RootSpec { path: dir.path().join("more"), read_only: true }],
            state: dir.path().join("state"),
            config: dir.path().join("config"),
            policy,
            other_names: kit::files::OtherNames::Refuse,
            allowed: None,
            deadline,
            secrets: Secrets::collect([("SOME_TOKEN", SECRET)], []),
            commands: runtime::Commands::default(),
        };
        let session = Runtime::open(settings, tools).unwrap().session(None, "test", approver);
        Self { dir, session }
    }

    fn file(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join("ws").join(name)
    }

    async fn call(&self, tool: &str, arguments: Value) -> Answer {
        self.session.call(Call::new(tool, arguments)).await
    }

    /// Returns the journal, once all of it is written.
    async fn journal(&self) -> Vec<CallRecord> {
        let store = self.session.runtime().store().clone();
        store.flush().await.unwrap();
        tokio::task::spawn_blocking(move || store.journal().log(Filter::default()).unwrap()).await.unwrap()
    }
}

fn kind(answer: &Answer) -> Kind {
    answer.result.as_ref().err().unwrap_or_else(|| panic!("it was done: {}", answer.as_text())).kind
}

/// A tool that does what its arguments define.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Puppet {
    /// The action.
    act: String,
    /// The file.
    #[serde(default)]
    path: String,
}

impl Tool for Puppet {
    const NAME: &str = "puppet";

    fn touches(&self) -> Touches {
        match self.act.as_str() {
            "write" | "late write" => Touches::write(&self.path),
            "net" => Touches::none().and(Touch::Net("example.org".to_owned())),
            _ => Touches::none(),
        }
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        match self.act.as_str() {
            "panic" => panic!("the puppet fell over"),
            "hang" => pending().await,
            "wait" => {
                cx.cancelled().await;
                Err(Fault::new(Kind::Cancelled, "stopped").seen(Output::text("this far")))
            }
            "lie" => cx.files().load(&self.path, 100).map(|_| Output::text("read it")),
            "secret" => Ok(Output::text(format!("the value is {SECRET}"))),
            "much" => Ok(Output::text("a line of output\n".repeat(100_000))),
            "write" => {
                let path = self.path;
                cx.blocking(move |cx| cx.files().save(&path, kit::files::Before::Absent, b"new\n")).await?;
                Ok(Output::text("written"))
            }
            "late write" => {
                cx.blocking(|cx| {
                    // Ignores the stop, until it would write.
                    while !cx.files().close_gate() {
                        std::thread::yield_now();
                    }
                    cx.files().save("late", kit::files::Before::Absent, b"late\n")?;
                    Ok(Output::text("written"))
                })
                .await
            }
            "net" => Ok(Output::text("called home")),
            other => Ok(Output::text(format!("did {other}"))),
        }
    }
}

/// A tool that touches more than it declares.
#[derive(Deserialize, JsonSchema)]
struct Modest {}

impl Tool for Modest {
    const NAME: &str = "modest";
    const AT_MOST: Kinds = Kinds::READ;

    fn touches(&self) -> Touches {
        Touches::write("a")
    }

    async fn run(self, _: &Cx) -> Result<Output, Fault> {
        Ok(Output::text("wrote"))
    }
}

fn puppet() -> Fixture {
    Fixture::new(vec![erase::<Puppet>(), erase::<Modest>()])
}

#[tokio::test]
async fn a_panic_is_a_fault_and_the_next_call_works() {
    let fixture = puppet();
    let answer = fixture.call("puppet", json!({"act": "panic"})).await;
    assert_eq!(kind(&answer), Kind::Bug);
    assert_eq!(answer.as_text(), "the tool panicked: the puppet fell over");
    assert_eq!(fixture.call("puppet", json!({"act": "nod"})).await.as_text(), "did nod");
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_never_ends_is_stopped_at_its_deadline() {
    let fixture = puppet();
    let answer = fixture.call("puppet", json!({"act": "hang"})).await;
    assert_eq!(kind(&answer), Kind::Timeout);
    assert!(answer.result.unwrap_err().next.unwrap().contains("Ask for less"));
}

#[tokio::test(start_paused = true)]
async fn stopped_call_answers_within_200_ms_even_if_its_tool_ignores_the_stop() {
    let fixture = puppet();
    for act in ["hang", "wait"] {
        let call = Call::new("puppet", json!({"act": act}));
        let cancel = call.cancel.clone();
        let session = fixture.session.clone();
        let task = tokio::spawn(async move { session.call(call).await });
        tokio::time::sleep(Duration::from_secs(1)).await;
        let stopped = tokio::time::Instant::now();
        cancel.cancel();
        let answer = task.await.unwrap();
        assert!(stopped.elapsed() <= Duration::from_millis(200), "{act} took {:?}", stopped.elapsed());
        assert_eq!(kind(&answer), Kind::Cancelled);
        // The partial result is not lost.
        assert_eq!(answer.as_text().contains("this far"), act == "wait");
    }
}

#[tokio::test]
async fn no_change_follows_an_answer_of_cancelled() {
    let fixture = puppet();
    let call = Call::new("puppet", json!({"act": "late write", "path": "late"}));
    call.cancel.cancel();
    let answer = fixture.session.call(call).await;
    assert!(matches!(kind(&answer), Kind::Cancelled), "{}", answer.as_text());
    assert!(!fixture.file("late").exists());
}

#[tokio::test]
async fn dropping_a_call_stops_it_and_its_end_is_in_the_journal() {
    let fixture = puppet();
    let mut call = Box::pin(fixture.call("puppet", json!({"act": "wait"})));
    tokio::select! {
        biased;
        _ = &mut call => panic!("it waits to be stopped"),
        () = tokio::task::yield_now() => {}
    }
    drop(call);
    let ended = loop {
        let records = fixture.journal().await;
        if let Some(outcome) = records.first().and_then(|record| record.outcome.clone()) {
            break outcome;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(ended, "cancelled");
}

#[tokio::test]
async fn a_tool_that_claims_too_little_fails_closed() {
    let fixture = puppet();
    std::fs::write(fixture.file("a"), "x").unwrap();
    assert_eq!(kind(&fixture.call("puppet", json!({"act": "lie", "path": "a"})).await), Kind::Denied);
    assert_eq!(kind(&fixture.call("modest", json!({})).await), Kind::Bug);
}

#[tokio::test]
async fn secrets_are_masked_and_a_write_of_the_mask_is_refused() {
    let fixture = puppet();
    let answer = fixture.call("puppet", json!({"act": "secret"})).await;
    assert_eq!(answer.as_text(), "the value is [masked:SOME_TOKEN]");
    let arguments = json!({"act": "write", "path": "x[masked:SOME_TOKEN]"});
    let answer = fixture.call("puppet", arguments).await;
    assert_eq!(kind(&answer), Kind::BadArgs);
    assert!(answer.as_text().contains("stands for a secret"), "{}", answer.as_text());
    fixture.call("puppet", json!({"act": format!("say {SECRET}")})).await;
    let journal = format!("{:?}", fixture.journal().await);
    assert!(!journal.contains(SECRET), "{journal}");
}

#[tokio::test]
async fn a_long_output_is_cut_and_the_whole_is_kept() {
    let fixture = puppet();
    let text = fixture.call("puppet", json!({"act": "much"})).await.as_text();
    assert!(text.len() <= 64 * 1024 + 200, "{}", text.len());
    assert!(text.contains("all of it: out_1"), "{text}");
    let kept = fixture.session.runtime().spills().read(fixture.session.name(), "out_1").unwrap();
    assert_eq!(kept.len(), 17 * 100_000);
}

#[tokio::test]
async fn broken_arguments_never_run_a_tool_and_the_second_time_the_schema_is_given() {
    let fixture = puppet();
    let call = || Call {
        arguments: Arguments::Raw("{\"act\": \"write\"".to_owned()),
        ..Call::new("puppet", Value::Null)
    };
    let first = fixture.session.call(call()).await;
    assert_eq!(kind(&first), Kind::BadArgs);
    assert!(first.as_text().contains("not valid JSON") && !first.as_text().contains("The schema"));
    let second = fixture.session.call(call()).await;
    assert!(second.as_text().contains("The schema of `puppet`"), "{}", second.as_text());
    let answer = fixture.call("puppet", json!({"act": "nod", "nonsense": 1})).await;
    assert!(answer.as_text().contains("`nonsense`"), "{}", answer.as_text());
    assert!(
        answer.as_text().contains("`act`, `path`") || answer.as_text().contains("`act` or `path`"),
        "{}",
        answer.as_text()
    );
}

#[tokio::test]
async fn an_unknown_tool_is_answered_with_the_nearest_name() {
    let answer = puppet().call("pupet", json!({})).await;
    assert_eq!(answer.as_text(), "there is no tool `pupet` in this session\nDid you mean `puppet`?");
}

#[tokio::test]
async fn withheld_tool_is_reported_as_existing() {
    let fixture = puppet();
    fixture.session.limit(Limits { tools: Some(Vec::new()), read_only: true });
    let answer = fixture.call("puppet", json!({})).await;
    let said = answer.as_text();
    assert!(said.starts_with("`puppet` is not among the tools of this session"), "{said}");
    assert!(said.ends_with("\nIt has no tools."), "{said}");
}

/// A person who always gives the same verdict, and records the requests.
struct Person(Verdict, Mutex<Vec<Request>>);

impl Approver for Person {
    fn approve(&self, request: Request) -> Pin<Box<dyn Future<Output = Verdict> + Send + '_>> {
        self.1.lock().unwrap().push(request);
        Box::pin(std::future::ready(self.0.clone()))
    }
}

#[tokio::test]
async fn call_that_needs_approval_runs_only_after_it() {
    for (approve, verdict, asked, done) in [
        (Approve::Ask, Verdict::Yes(Scope::Once), 1, true),
        (Approve::Ask, Verdict::No, 1, false),
        (Approve::Ask, Verdict::NobodyThere, 1, false),
        (Approve::Auto, Verdict::No, 0, true),
        (Approve::Never, Verdict::Yes(Scope::Once), 0, false),
    ] {
        let person = Arc::new(Person(verdict.clone(), Mutex::default()));
        let policy = Policy { sandbox: SandboxMode::Workspace, approve, ..Policy::default() };
        let fixture = Fixture::with(vec![erase::<Puppet>()], policy, person.clone());
        let answer = fixture.call("puppet", json!({"act": "write", "path": ".mcp.json"})).await;
        assert_eq!(answer.result.is_ok(), done, "{approve:?} {verdict:?}: {}", answer.as_text());
        assert_eq!(fixture.file(".mcp.json").exists(), done);
        let requests = person.1.lock().unwrap().clone();
        assert_eq!(requests.len(), asked);
        assert!(
            requests.iter().all(|it| it.rule.name == "control_files" && it.arguments.contains(".mcp.json"))
        );
        if !done {
            assert_eq!(kind(&answer), Kind::Denied);
            assert!(answer.as_text().contains("rule `control_files`"), "{}", answer.as_text());
        }
        let net = fixture.call("puppet", json!({"act": "net"})).await;
        assert_eq!(net.result.is_ok(), done);
    }
}

/// A person who answers after a delay.
struct Slow(Duration);

impl Approver for Slow {
    fn approve(&self, _: Request) -> Pin<Box<dyn Future<Output = Verdict> + Send + '_>> {
        Box::pin(async {
            tokio::time::sleep(self.0).await;
            Verdict::Yes(Scope::Once)
        })
    }
}

#[tokio::test]
async fn time_of_a_question_does_not_count_for_the_call() {
    let (thought, deadline) = (Duration::from_millis(900), Duration::from_millis(450));
    let policy = |approve| Policy { approve, ..Policy::default() };
    let fixture = |approve| {
        Fixture::within(vec![erase::<Puppet>()], policy(approve), Arc::new(Slow(thought)), deadline)
    };
    // A question before the call, one once the content is known, and one about each edit.
    for (approve, act, path) in
        [(Approve::Ask, "net", ""), (Approve::Ask, "write", ".mcp.json"), (Approve::AskEdits, "write", "a")]
    {
        let fixture = fixture(approve);
        let answer = fixture.call("puppet", json!({"act": act, "path": path})).await;
        assert!(answer.result.is_ok() && answer.took < deadline, "{:?} {}", answer.took, answer.as_text());
        let took = fixture.journal().await[0].took_ms.unwrap();
        assert!(took < deadline.as_secs_f64() * 1e3, "{took}");
    }
    // Nor does the time count for another call that waits for the same file meanwhile.
    let fixture = fixture(Approve::AskEdits);
    let write = || fixture.call("puppet", json!({"act": "write", "path": "a"}));
    let (one, other) = tokio::join!(write(), write());
    assert!(one.result.is_ok(), "{}", one.as_text());
    assert_eq!(kind(&other), Kind::Stale, "{}", other.as_text());
    assert!(other.took < deadline, "{:?}", other.took);
}

#[tokio::test]
async fn a_change_is_reviewed_with_its_content_and_the_decision_is_in_the_journal_before_it_lands() {
    let person = Arc::new(Person(Verdict::Instead("elsewhere".to_owned()), Mutex::default()));
    let policy = Policy { approve: Approve::AskEdits, ..Policy::default() };
    let fixture = Fixture::with(vec![erase::<Puppet>()], policy, person.clone());
    let answer = fixture.call("puppet", json!({"act": "write", "path": "a"})).await;
    assert_eq!(kind(&answer), Kind::Denied);
    assert!(answer.as_text().contains("the person said no: elsewhere"), "{}", answer.as_text());
    assert!(answer.changes.is_empty() && !fixture.file("a").exists());
    let request = person.1.lock().unwrap().remove(0);
    assert_eq!((request.rule.name, request.offers), ("ask_edits", vec![Effect::Edit(".".to_owned())]));
    assert_eq!(request.changes[0].diff, "--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+new\n");
    let record = fixture.journal().await.remove(0);
    assert_eq!(record.decision, "refused by the person: ask_edits");
    // A call that changes nothing needs no approval, and is in the journal too.
    fixture.call("puppet", json!({"act": "lie", "path": "nowhere"})).await;
    assert_eq!(fixture.journal().await.len(), 2);
    assert!(person.1.lock().unwrap().is_empty());
}

#[tokio::test]
async fn longer_approval_is_not_asked_again() {
    for (scope, asked_here, asked_beside) in
        [(Scope::Once, 2, 1), (Scope::Session, 1, 1), (Scope::Project, 1, 0)]
    {
        let person = Arc::new(Person(Verdict::Yes(scope), Mutex::default()));
        let dir_policy = Policy { sandbox: SandboxMode::Workspace, ..Policy::default() };
        let fixture = Fixture::with(vec![erase::<Puppet>()], dir_policy, person.clone());
        for _ in 0..2 {
            assert!(fixture.call("puppet", json!({"act": "net"})).await.result.is_ok());
        }
        let requests = person.1.lock().unwrap().clone();
        assert_eq!(requests.len(), asked_here, "{scope:?}");
        for request in &requests {
            assert_eq!(request.effects, ["net example.org"]);
            assert_eq!(request.offers, [Effect::Net("example.org".to_owned())]);
        }
        let beside = fixture.session.runtime().session(Some("beside"), "cli", person.clone());
        let call = Call::new("puppet", json!({"act": "net"}));
        assert!(beside.call(call).await.result.is_ok());
        assert_eq!(person.1.lock().unwrap().len(), asked_here + asked_beside, "{scope:?}");
    }
}

#[tokio::test]
async fn one_answer_serves_the_calls_that_wait_behind_it() {
    let person = Arc::new(Person(Verdict::Yes(Scope::Session), Mutex::default()));
    let fixture = Fixture::with(vec![erase::<Puppet>()], Policy::default(), person.clone());
    let net = || fixture.call("puppet", json!({"act": "net"}));
    let (one, two, three) = tokio::join!(net(), net(), net());
    assert!(one.result.is_ok() && two.result.is_ok() && three.result.is_ok());
    assert_eq!(person.1.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_grant_allows_until_it_is_revoked_and_the_journal_names_it() {
    for approve in [Approve::Ask, Approve::Never] {
        let policy = Policy { approve, ..Policy::default() };
        let fixture = Fixture::with(vec![erase::<Puppet>()], policy, Arc::new(Unattended));
        let grants = fixture.session.runtime().store().grants();
        let net = || fixture.call("puppet", json!({"act": "net"}));
        let refused = net().await;
        assert!(refused.as_text().contains(" grants add 'net example.org'`"), "{}", refused.as_text());
        let id = grants.add(&policy::grants::parse("net *.org").unwrap(), None, "cli").unwrap();
        assert_eq!(grants.add(&policy::grants::parse("net *.org").unwrap(), None, "cli").unwrap(), id);
        let other =
            grants.add(&policy::grants::parse("net other.com").unwrap(), Some("elsewhere"), "cli").unwrap();
        let allowed = net().await;
        assert!(allowed.result.is_ok());
        let record = fixture.journal().await.into_iter().find(|it| it.call == allowed.id).unwrap();
        assert_eq!(record.decision, "granted: net *.org (project)");
        let listed: Vec<_> =
            grants.list(None).unwrap().into_iter().map(|it| (it.id, it.effect, it.uses)).collect();
        assert_eq!(listed, [(id, "net *.org".to_owned(), 1), (other, "net other.com".to_owned(), 0)]);
        assert!(grants.revoke(id).unwrap() && !grants.revoke(id).unwrap());
        assert!(net().await.result.is_err());
    }
}

#[tokio::test]
async fn a_read_only_root_and_a_read_only_sandbox_are_not_written_to() {
    let fixture = puppet();
    let inside = fixture.dir.path().join("more/new").display().to_string();
    let answer = fixture.call("puppet", json!({"act": "write", "path": inside})).await;
    assert!(answer.as_text().contains("rule `read_only_root`"), "{}", answer.as_text());
    let policy = Policy { sandbox: SandboxMode::ReadOnly, approve: Approve::Auto, ..Policy::default() };
    let fixture = Fixture::with(vec![erase::<Puppet>()], policy, Arc::new(Unattended));
    let answer = fixture.call("puppet", json!({"act": "write", "path": "new"})).await;
    assert!(answer.as_text().contains("rule `sandbox`"), "{}", answer.as_text());
    assert!(!fixture.file("new").exists());
}

#[tokio::test]
async fn every_call_is_in_the_journal_with_its_decision_and_outcome() {
    let fixture = puppet();
    fixture.call("puppet", json!({"act": "write", "path": "a"})).await;
    fixture.call("puppet", json!({"act": "panic"})).await;
    fixture.call("puppet", json!({"act": "write", "path": ".git/config"})).await;
    fixture.call("nobody", json!({})).await;
    let records = fixture.journal().await;
    let told: Vec<(&str, &str, &str)> = records
        .iter()
        .map(|it| (it.tool.as_str(), it.decision.as_str(), it.outcome.as_deref().unwrap_or("open")))
        .collect();
    assert_eq!(
        told,
        [
            ("puppet", "allowed", "ok"),
            ("puppet", "allowed", "bug"),
            ("puppet", "denied, nobody to ask: control_files", "denied"),
            ("nobody", "not reached", "not_found"),
        ]
    );
    let first = records.first().unwrap();
    assert_eq!(first.changes.len(), 1);
    assert!(Path::new(&first.changes.first().unwrap().path).ends_with("ws/a"));
}

/// A tool that shows manuals.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Reader {
    /// The tool.
    name: String,
}

impl Tool for Reader {
    const NAME: &str = "info";

    fn touches(&self) -> Touches {
        Touches::none()
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        cx.tools().explained(&self.name);
        Ok(Output::text("read"))
    }
}

#[tokio::test]
async fn tool_with_manual_first_is_refused_until_it_was_read() {
    let policy = Policy {
        sandbox: SandboxMode::Workspace,
        approve: Approve::Auto,
        manual_first: vec!["puppet".to_owned()].into(),
        ..Policy::default()
    };
    let tools = vec![erase::<Puppet>(), erase::<Reader>()];
    let fixture = Fixture::with(tools, policy, Arc::new(Unattended));
    let write = json!({"act": "write", "path": "new"});
    let refused = fixture.call("puppet", write.clone()).await;
    assert_eq!(kind(&refused), Kind::Stale);
    assert!(refused.as_text().contains("Call `info` with {\"name\": \"puppet\"}"), "{}", refused.as_text());
    assert!(!fixture.file("new").exists());
    // A continued session has read the manual; another session has not.
    let runtime = fixture.session.runtime().clone();
    let named = |name| runtime.session(Some(name), "test", Arc::new(Unattended));
    assert!(named("a").call(Call::new("info", json!({"name": "puppet"}))).await.result.is_ok());
    assert_eq!(kind(&named("b").call(Call::new("puppet", write.clone())).await), Kind::Stale);
    assert!(named("a").call(Call::new("puppet", write)).await.result.is_ok());
    assert!(fixture.file("new").exists());
}
