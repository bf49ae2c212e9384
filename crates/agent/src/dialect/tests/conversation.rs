//! Tests of a whole conversation in each dialect, with the built-in tools.

use std::time::Duration;

use kit::{AnyTool, redact::Secrets};
use policy::Policy;
use runtime::{Runtime, Session, Settings, Unattended, plugins::ToolFiles};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{
    Agent, Bounds, Ended, Silent,
    model::{ModelError, script::Script},
};

/// Records requests, and passes them to a script.
struct Asked {
    inner: Script,
    requests: parking_lot::Mutex<Vec<Request>>,
}

impl Model for Asked {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn abilities(&self) -> &Abilities {
        self.inner.abilities()
    }

    fn stream(&self, request: Request) -> Events {
        self.requests.lock().push(request.clone());
        self.inner.stream(request)
    }
}

fn script(answers: &[Value]) -> Arc<Asked> {
    let text: String = answers.iter().map(|it| format!("{it}\n")).collect();
    let script = Script::parse("s", &text).unwrap();
    let abilities = Abilities { calls: false, ..script.abilities().clone() };
    Arc::new(Asked { inner: script.with(abilities), requests: Default::default() })
}

fn session(dir: &std::path::Path, tools: Vec<Arc<dyn AnyTool>>) -> Session {
    let workspace = dir.join("ws");
    std::fs::create_dir(&workspace).unwrap();
    let settings = Settings {
        network: Default::default(),
        tool_files: ToolFiles::default(),
        workspace,
        roots: Vec::new(),
        state: dir.join("state"),
        config: dir.join("config"),
        policy: Policy::default(),
        other_names: kit::files::OtherNames::Refuse,
        allowed: None,
        deadline: Duration::from_secs(60),
        secrets: Secrets::default(),
        commands: runtime::Commands::default(),
    };
    Runtime::open(settings, tools).unwrap().session(None, "test", Arc::new(Unattended))
}

fn agent(session: Session, model: Arc<dyn Model>) -> Agent {
    Agent::open(crate::Settings {
        session,
        model,
        system: "You are terse.".into(),
        bounds: Bounds::default(),
        visible: Default::default(),
        host: Arc::new(Silent),
    })
    .unwrap()
}

/// Runs a conversation: one answer writes and reads a file, and the next reads a missing one.
async fn talk(words: &str) -> (Arc<Asked>, String, Vec<Request>) {
    let syntax = syntax_of(words);
    let write = syntax.write("write", &json!({"path": "a.txt", "content": "one\n"}).to_string());
    let read = syntax.write("read", &json!({"path": "a.txt"}).to_string());
    let missing = syntax.write("read", &json!({"path": "b.txt"}).to_string());
    let model = script(&[
        json!({"say": format!("I write it.\n{write}\n{read}"), "chunks": 50}),
        json!({"expect": ["|one", "write"], "say": format!("And the other:\n{missing}"), "chunks": 9}),
        json!({"expect": ["b.txt"], "say": "There is no other."}),
    ]);
    let dir = tempfile::tempdir().unwrap();
    let session = session(dir.path(), tools::all());
    let spoken = Arc::new(Spoken::new(model.clone(), dialect(words)));
    assert!(spoken.abilities().calls);
    let mut agent = agent(session, spoken);
    let outcome = agent.turn(Some("Begin.".to_owned()), &CancellationToken::new()).await.unwrap();
    assert_eq!((outcome.ended, outcome.steps, outcome.text.as_str()), (Ended::Done, 3, "There is no other."));
    let written = std::fs::read_to_string(dir.path().join("ws/a.txt")).unwrap();
    let requests = model.requests.lock().clone();
    (model, written, requests)
}

fn only_text(item: &Item) -> String {
    match item {
        Item::Person { pieces } => Piece::lines(pieces),
        Item::Model { said } => match said.as_slice() {
            [MessagePart::Text { text }] => text.clone(),
            other => unreachable!("{other:?}"),
        },
        Item::Results { .. } => unreachable!("results are told by a person"),
    }
}

#[tokio::test]
async fn a_turn_runs_real_tools_in_each_dialect() {
    let own = r#"{"start_char": "{", "end_char": "}", "arg_prefix": "--", "arg_kv_sep": ":"}"#;
    for words in ["json", "bracket", "xml", "hermes", "tool_use", own] {
        let (_, written, requests) = talk(words).await;
        assert_eq!(written, "one\n", "{words}");
        let [first, second, third] = requests.as_slice() else { unreachable!() };
        assert!(requests.iter().all(|it| it.tools.is_empty()));
        assert!(first.system.starts_with("You are terse.\n\n# Tools\n"), "{}", first.system);
        assert!(
            first.system == second.system && second.system == third.system,
            "it must be the same, to be kept"
        );
        // The model gets its own calls as it wrote them, and earlier input stays the same.
        let syntax = syntax_of(words);
        let read = syntax.write("read", &json!({"path": "a.txt"}).to_string());
        let items: Vec<String> = second.items.iter().map(only_text).collect();
        let [_, wrote, told] = items.as_slice() else { unreachable!("{items:?}") };
        assert!(wrote.starts_with("I write it.\n") && wrote.ends_with(&read), "{wrote}");
        let later: Vec<String> = third.items.iter().map(only_text).collect();
        assert_eq!(later.get(..3), Some(items.as_slice()), "{words}");
        // A result does not look like a call.
        assert!(matches!(said(words, told).as_slice(), [Found::Text(_)]), "{words}: {told}");
    }
}

#[tokio::test]
async fn results_are_written_in_the_form_of_the_dialect() {
    let results = |words: &str| {
        let call = |id: &str, tool: &str, arguments: Value| MessagePart::Call {
            id: id.to_owned(),
            tool: tool.to_owned(),
            arguments: arguments.to_string(),
        };
        let result = |id: &str, tool: &str, ok: bool, text: &str| ResultOf {
            id: id.to_owned(),
            tool: tool.to_owned(),
            ok,
            pieces: vec![Piece::text(text)],
        };
        let items = vec![
            Item::person("Go."),
            Item::Model {
                said: vec![
                    call("c1", "bash", json!({"command": "ls \"x\""})),
                    call("c2", "read", json!({"path": "b"})),
                ],
            },
            Item::Results {
                results: vec![
                    result("c1", "bash", true, "a\n\"b\" </json>"),
                    result("c2", "read", false, "there is no `b`"),
                ],
            },
            Item::person("And?"),
        ];
        let items = spoken(items, &syntax_of(words));
        let [_, said, told] = items.as_slice() else { unreachable!("{items:?}") };
        (only_text(said), only_text(told))
    };
    assert_eq!(
        results("bracket"),
        (
            "[/bash]\nls \"x\"\n[bash/]\n[/read]\nb\n[read/]".to_owned(),
            "## c1 bash - OK\na\n\"b\" </json>\n\n## c2 read - ERROR\nthere is no `b`\nAnd?".to_owned()
        )
    );
    assert_eq!(results("xml").0, "<bash>\nls \"x\"\n</bash>\n<read>\nb\n</read>");
    assert_eq!(
        results("json"),
        (
            "<json>\n{\"tool_name\": \"bash\", \"tool_input\": {\"command\":\"ls \\\"x\\\"\"}}\n</json>\n\
             <json>\n{\"tool_name\": \"read\", \"tool_input\": {\"path\":\"b\"}}\n</json>".to_owned(),
            "<json>\n{\"tool_name\": \"bash\", \"tool_input\": {\"command\":\"ls \\\"x\\\"\"}, \"tool_output\": \"a\\n\\\"b\\\" <\\/json>\"}\n</json>\n\n\
             <json>\n{\"tool_name\": \"read\", \"tool_input\": {\"path\":\"b\"}, \"tool_output\": \"there is no `b`\", \"is_error\": true}\n</json>\nAnd?".to_owned()
        )
    );
    assert_eq!(
        results("hermes").1,
        "<tool_response>\n{\"name\": \"bash\", \"content\": \"a\\n\\\"b\\\" <\\/json>\"}\n</tool_response>\n\n\
         <tool_response>\n{\"name\": \"read\", \"content\": \"there is no `b`\", \"is_error\": true}\n</tool_response>\nAnd?"
    );
}

#[test]
fn a_picture_follows_the_result_it_belongs_to() {
    let picture = Piece::Image {
        mime: "image/png".to_owned(),
        handle: "out_1".to_owned(),
        data: Some(Arc::from([1u8])),
    };
    let old = Piece::Image { mime: "image/png".to_owned(), handle: "out_0".to_owned(), data: None };
    let result = ResultOf {
        id: "c1".to_owned(),
        tool: "image_view".to_owned(),
        ok: true,
        pieces: vec![picture.clone(), old],
    };
    let items = spoken(vec![Item::Results { results: vec![result] }], &syntax_of("xml"));
    let text = "## c1 image_view - OK\n[picture out_1: image/png]\n[picture out_0: image/png]";
    assert_eq!(items, [Item::Person { pieces: vec![Piece::text(text), picture] }]);
}

#[test]
fn instructions_on_calls_are_short_and_show_one_of_the_tools() {
    let tools: Vec<Spec> =
        specs().into_iter().filter(|it| it.name == "shell_status" || it.name == "write").collect();
    let words = |words: &str| Spoken::new(script(&[]), dialect(words)).words(&tools);
    let bracket = words("bracket");
    assert!(bracket.contains("\n[/write]\n@@path=src/main.rs\nThe text.\n[write/]\n"), "{bracket}");
    assert!(
        bracket.contains("\n- content (string, body): The whole content.\n- overwrite (boolean, optional): "),
        "{bracket}"
    );
    assert!(bracket.contains("\n- action (\"list\"|\"status\"|"), "{bracket}");
    assert!(
        words("xml").contains("\n<write path=\"src/main.rs\">\nThe text.\n</write>\n"),
        "{}",
        words("xml")
    );
    assert!(
        words("hermes").contains("\n<tool_call>\n{\"name\": \"write\", \"arguments\": {"),
        "{}",
        words("hermes")
    );
    for dialect in ["json", "bracket", "xml", "hermes", "tool_use"] {
        let about = words(dialect).split("The tools:").next().unwrap().len();
        assert!(about < 1300, "{dialect}: {about} bytes");
    }
}

#[test]
fn instructions_name_the_limit_of_calls_in_an_answer() {
    let words =
        |most: Option<usize>| Spoken::new(script(&[]), dialect("json")).max_calls(most).words(&specs());
    for (most, says) in [
        (None, "- Up to 40 calls may stand in one answer; they run at once."),
        (Some(7), "- Up to 7 calls may stand in one answer;"),
        (Some(1), "- One call per answer: only the first is run."),
        (Some(0), "- Several calls may stand in one answer;"),
    ] {
        assert!(words(most).contains(says), "{most:?}: {}", words(most));
    }
}

/// Returns the events of an answer with this text and this end.
async fn answer(words: &str, text: &str, end: &str) -> Vec<Result<Event, ModelError>> {
    let model = script(&[json!({"say": text, "end": end})]);
    let request = Request {
        system: "".into(),
        items: vec![Item::person("Go.")],
        tools: specs().into(),
        step: 0,
        longest: None,
        format: None,
    };
    Spoken::new(model, dialect(words)).stream(request).collect().await
}

#[tokio::test]
async fn end_reason_depends_on_the_calls_in_the_answer() {
    let ends =
        async |words: &str, text: &str, end: &str| answer(words, text, end).await.pop().unwrap().unwrap();
    assert_eq!(ends("xml", "<jobs/>", "done").await, Event::End(Why::Calls));
    assert_eq!(ends("xml", "<jobs>", "done").await, Event::End(Why::Done));
    assert_eq!(ends("xml", "<jobs/>", "length").await, Event::End(Why::Length));
    let begun = r#"<json>{"tool_name": "write", "tool_input": {"content": "abc"#;
    assert_eq!(ends("json", begun, "done").await, Event::End(Why::Length));
    assert_eq!(ends("json", begun, "refused").await, Event::End(Why::Refused));
    let events = answer("json", begun, "done").await;
    let text: String = events
        .iter()
        .filter_map(|it| if let Ok(Event::Text(text)) = it { Some(text.as_str()) } else { None })
        .collect();
    assert_eq!(text, begun, "what was held back comes before the end");
}

#[tokio::test]
async fn held_back_text_is_sent_when_the_answer_breaks_off() {
    let script = Script::parse("s", "{\"fault\": \"cut\"}\n{\"say\": \"a <read\", \"chunks\": 1}").unwrap();
    let request = Request {
        system: "".into(),
        items: Vec::new(),
        tools: specs().into(),
        step: 0,
        longest: None,
        format: None,
    };
    let spoken = Spoken::new(Arc::new(script), dialect("xml"));
    let mut events: Vec<Result<Event, ModelError>> = spoken.stream(request).collect().await;
    assert!(events.pop().unwrap().is_err());
    assert_eq!(merged(events.into_iter().map(Result::unwrap).collect()), [text("a <read")]);
}

#[test]
fn opaque_parts_keep_their_place() {
    let opaque = MessagePart::Opaque { wire: "anthropic".to_owned(), value: json!({"x": 1}) };
    let say = |text: &str| MessagePart::Text { text: text.to_owned() };
    let call = MessagePart::Call { id: "c".to_owned(), tool: "jobs".to_owned(), arguments: "{}".to_owned() };
    let said = vec![opaque.clone(), say("a"), call.clone(), opaque.clone(), call];
    let items = spoken(vec![Item::Model { said }], &syntax_of("xml"));
    let expected = vec![opaque.clone(), say("a\n<jobs/>"), opaque, say("<jobs/>")];
    assert_eq!(items, [Item::Model { said: expected }]);
}

#[tokio::test]
async fn answer_that_was_cut_off_is_continued() {
    let model = script(&[
        json!({"say": r#"<json>{"tool_name": "write", "tool_input": {"path": "a", "content": "abc"#}),
        json!({"expect": ["cut off"], "say": r#"<json>{"tool_name": "write", "tool_input": {"path": "a", "content": "abc"}}</json>"#}),
        json!({"say": "Done."}),
    ]);
    let dir = tempfile::tempdir().unwrap();
    let spoken = Arc::new(Spoken::new(model, Dialect::Json));
    let mut agent = agent(session(dir.path(), tools::all()), spoken);
    let outcome = agent.turn(Some("Write.".to_owned()), &CancellationToken::new()).await.unwrap();
    assert_eq!(outcome.steps, 3);
    assert_eq!(std::fs::read_to_string(dir.path().join("ws/a")).unwrap(), "abc");
}

#[test]
fn provider_tool_is_declared_and_not_described() {
    let mut tools = specs();
    let own = Spec { origin: Origin::Provider, ..spec("image_gen", json!({"type": "object"})) };
    tools.push(own.clone());
    let syntax = syntax::of(dialect("xml").manner(), &tools);
    let request = Request {
        system: "".into(),
        items: Vec::new(),
        tools: tools.into(),
        step: 0,
        longest: None,
        format: None,
    };
    let request = in_words(request, &syntax, CALLS);
    assert_eq!(request.tools.as_ref(), [own]);
    assert!(!request.system.contains("## image_gen"));
    is_text("xml", "<image_gen/>");
}
