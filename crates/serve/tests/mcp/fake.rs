//! A backend of fake tools for tests of the server.
#![expect(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "tests")]

use std::{
    fs,
    io::Read as _,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use kit::{Body, Fault, Kind, Kinds, Mode, Output, Part, Spec};
use runtime::{Answer, Arguments, Call};
use serde_json::{Map, Value, json};
use serve::{
    Abilities, Ask, Backend, Blank, Changes, Client, Content, Document, Level, Line, Notice, Pattern, Prompt,
    Speaker, Subject,
};
use tokio::sync::{broadcast, watch};

/// Tools that do what their names say.
#[derive(Default)]
pub(crate) struct FakeBackend {
    calls: AtomicUsize,
    order: Mutex<Vec<u64>>,
    tools: watch::Sender<u64>,
    documents: watch::Sender<u64>,
    prompts: watch::Sender<u64>,
    counter: watch::Sender<u64>,
    notices: Notices,
}

struct Notices(broadcast::Sender<Notice>);

impl Default for Notices {
    fn default() -> Self {
        Self(broadcast::Sender::new(16))
    }
}

const TOOLS: &[(&str, &[&str], Kinds)] = &[
    ("ask", &["what", "again"], Kinds::READ),
    ("ask_together", &["keys"], Kinds::READ),
    ("echo", &["text"], Kinds::READ),
    ("fault", &[], Kinds::READ),
    ("glob", &["pattern"], Kinds::READ),
    ("grep", &["pattern"], Kinds::READ),
    ("huge", &["bytes"], Kinds::READ),
    ("image", &[], Kinds::READ),
    ("json", &["text"], Kinds::READ),
    ("late", &["what"], Kinds::READ),
    ("link", &[], Kinds::READ),
    ("log", &[], Kinds::READ),
    ("notes", &[], Kinds::WRITE),
    ("order", &["number"], Kinds::WRITE),
    ("panic", &[], Kinds::NET),
    ("print", &["text"], Kinds::ALL),
    ("read", &["path"], Kinds::READ),
    ("stdin", &[], Kinds::READ),
    ("steps", &["count", "total"], Kinds::READ),
    ("stubborn", &[], Kinds::READ),
    ("touch", &["what"], Kinds::WRITE),
    ("wait", &[], Kinds::READ),
];

impl Backend for FakeBackend {
    fn specs(&self) -> Vec<Spec> {
        TOOLS.iter().map(|&(name, arguments, at_most)| spec(name, arguments, at_most)).collect()
    }

    fn has(&self, name: &str) -> bool {
        TOOLS.iter().any(|tool| tool.0 == name)
    }

    fn task_delay(&self, tool: &str) -> Duration {
        if tool == "echo" { Duration::from_secs(3600) } else { Duration::ZERO }
    }

    fn changes(&self) -> Changes {
        Changes {
            tools: Some(self.tools.subscribe()),
            documents: Some(self.documents.subscribe()),
            prompts: Some(self.prompts.subscribe()),
        }
    }

    fn abilities(&self) -> Abilities {
        Abilities { watch: true, complete: true, log: true }
    }

    fn notices(&self) -> Option<broadcast::Receiver<Notice>> {
        Some(self.notices.0.subscribe())
    }

    fn documents(&self) -> Result<Vec<Document>, Fault> {
        let document = |uri: String| Document {
            name: uri.trim_start_matches("test://").to_owned(),
            description: "A document.".to_owned(),
            mime: Some("text/plain".to_owned()),
            bytes: Some(5),
            uri,
        };
        let own = ["blob", "counter", "text"].map(|name| format!("test://{name}"));
        let many = (0..250).map(|number| format!("test://many/{number}"));
        Ok(own.into_iter().chain(many).map(document).collect())
    }

    fn patterns(&self) -> Vec<Pattern> {
        vec![Pattern {
            uri: "test://many/{number}".to_owned(),
            name: "many".to_owned(),
            description: "One of many.".to_owned(),
            mime: None,
        }]
    }

    async fn read(&self, uri: &str, client: Client) -> Result<Vec<Content>, Fault> {
        let body = match uri {
            "test://text" => Body::Text("hello".to_owned()),
            "test://blob" => Body::Bytes(vec![0xff, 0]),
            "test://counter" => Body::Text(self.counter.borrow().to_string()),
            "test://told" => {
                client.log(Level::Debug, "fake", json!("debug"));
                client.log(Level::Info, "fake", json!("info"));
                client.log(Level::Error, "fake", json!("error"));
                Body::Text("told".to_owned())
            }
            "test://denied" => return Err(Fault::denied("not for you")),
            "test://panic" => panic!("as asked"),
            "test://huge" => Body::Bytes(vec![0; 33 << 20]),
            "test://wait" => std::future::pending().await,
            _ => return Err(Fault::not_found(format!("there is no `{uri}`"))),
        };
        Ok(vec![Content { uri: uri.to_owned(), mime: None, body }])
    }

    fn watch(&self, uri: &str) -> Option<watch::Receiver<u64>> {
        (uri == "test://counter").then(|| self.counter.subscribe())
    }

    fn prompts(&self) -> Vec<Prompt> {
        let blank = Blank { name: "who".to_owned(), description: "Whom.".to_owned(), required: true };
        vec![Prompt {
            name: "greet".to_owned(),
            description: "Greet somebody.".to_owned(),
            arguments: vec![blank],
        }]
    }

    async fn prompt(
        &self,
        name: &str,
        arguments: Vec<(String, String)>,
        _client: Client,
    ) -> Result<Vec<Line>, Fault> {
        if name != "greet" {
            return Err(Fault::not_found(format!("there is no prompt `{name}`")));
        }
        let Some((_, who)) = arguments.iter().find(|(name, _)| name == "who") else {
            return Err(Fault::bad_args("`who` is missing"));
        };
        let text = |by, text: String| Line { by, part: Part::Text { text } };
        let link =
            Part::Link { uri: "test://text".to_owned(), name: "text".to_owned(), mime: None, bytes: None };
        Ok(vec![
            text(Speaker::Person, format!("Greet {who}.")),
            text(Speaker::Model, "Hello!".to_owned()),
            Line { by: Speaker::Person, part: link },
        ])
    }

    fn complete(&self, of: &Subject, argument: &str, begun: &str) -> Vec<String> {
        match of {
            Subject::Prompt(_) if argument == "who" => vec![format!("{begun}anna"), format!("{begun}berta")],
            Subject::Documents(_) => (0..250).map(|number| number.to_string()).collect(),
            Subject::Prompt(_) => Vec::new(),
        }
    }

    async fn call(&self, call: Call, client: Client) -> Answer {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let notes = if call.tool == "notes" { vec!["repaired".to_owned()] } else { Vec::new() };
        let result = self.run(&call, &client).await;
        Answer { id: format!("call_{number}"), result, notes, changes: Vec::new(), took: Duration::ZERO }
    }
}

impl FakeBackend {
    async fn run(&self, call: &Call, client: &Client) -> Result<Output, Fault> {
        let Arguments::Json(arguments) = &call.arguments else { return Err(Fault::bug("not JSON")) };
        let text = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default();
        let number = |name: &str| arguments.get(name).and_then(Value::as_u64).unwrap_or_default();
        match call.tool.as_str() {
            "late" => {
                // The time limit of the caller is over by now.
                tokio::time::sleep(Duration::from_millis(5)).await;
                Ok(Output::text(Value::from(asked(client, arguments).await?).to_string()))
            }
            "ask" => tokio::select! {
                answers = asked(client, arguments) => Ok(Output::text(Value::from(answers?).to_string())),
                () = call.cancel.cancelled() => Err(Fault::new(Kind::Cancelled, "stopped while it asked")),
            },
            "ask_together" => {
                let keys = arguments["keys"].as_array().cloned().unwrap_or_default();
                let all = keys.iter().map(|key| client.ask(vec![question("form", key)]));
                let answers: Result<Vec<_>, Fault> = futures(all).await.into_iter().collect();
                Ok(Output::text(Value::from(answers?.concat()).to_string()))
            }
            "log" => {
                client.log(Level::Info, "fake", json!("a little"));
                client.log(Level::Error, "fake", json!({"much": true}));
                Ok(Output::text("logged"))
            }
            "echo" => Ok(Output::text(text("text"))),
            "fault" => Err(Fault::new(Kind::Stale, "it changed").next("read it again")),
            "glob" => Ok(Output::text(names().join("\n"))),
            "grep" => Ok(Output::text(found(text("pattern")).join("\n"))),
            "huge" => Ok(Output::text("x".repeat(usize::try_from(number("bytes")).unwrap_or(0)))),
            "image" => {
                let data = vec![0x89, b'P', b'N', b'G'];
                Ok(Output {
                    parts: vec![Part::Image { mime: "image/png".to_owned(), data }],
                    ..Output::default()
                })
            }
            "json" => Ok(Output { structured: Some(json!({"n": 1})), ..Output::text(text("text")) }),
            "link" => {
                let link = Part::Link {
                    uri: "test://text".to_owned(),
                    name: "text".to_owned(),
                    mime: None,
                    bytes: None,
                };
                Ok(Output { parts: vec![link], ..Output::default() })
            }
            "notes" => Ok(Output::text("done")),
            "order" => {
                self.order.lock().expect("not poisoned").push(number("number"));
                // Other calls get a chance to overtake.
                tokio::task::yield_now().await;
                let order = self.order.lock().expect("not poisoned");
                Ok(Output::text(serde_json::to_string(&*order).unwrap_or_default()))
            }
            "panic" => panic!("as asked"),
            "print" => {
                println!("{}", text("text"));
                Ok(Output::text("printed"))
            }
            "read" => match fs::read_to_string(text("path")) {
                Ok(content) => Ok(Output::text(content)),
                Err(error) => Err(Fault::not_found(format!("`{}` can't be read: {error}", text("path")))),
            },
            "stdin" => {
                let mut found = Vec::new();
                let count = std::io::stdin().read_to_end(&mut found).unwrap_or(usize::MAX);
                Ok(Output::text(format!("{count} bytes")))
            }
            "steps" => {
                for step in 1..=number("count") {
                    if let Some(progress) = &call.progress {
                        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
                        progress.report(
                            step as f64,
                            arguments.get("total").and_then(Value::as_f64),
                            "a step",
                        );
                    }
                    tokio::task::yield_now().await;
                }
                Ok(Output::text("stepped"))
            }
            "stubborn" => std::future::pending().await,
            "touch" => {
                let changed = match text("what") {
                    "tools" => &self.tools,
                    "documents" => &self.documents,
                    "prompts" => &self.prompts,
                    "counter" => &self.counter,
                    _ => {
                        let levels = [Level::Info, Level::Warning, Level::Critical];
                        for (number, level) in levels.into_iter().enumerate() {
                            let (logger, data) = ("fake".to_owned(), json!({"notice": number}));
                            drop(self.notices.0.send(Notice { level, logger, data }));
                        }
                        return Ok(Output::text("told"));
                    }
                };
                changed.send_modify(|number| *number += 1);
                Ok(Output::text("touched"))
            }
            "wait" => {
                if let Some(progress) = &call.progress {
                    progress.report(1.0, None, "waiting");
                }
                call.cancel.cancelled().await;
                Err(Fault::new(Kind::Cancelled, "stopped"))
            }
            other => Err(Fault::bug(format!("no tool `{other}`"))),
        }
    }
}

/// Returns the answers of the client to `what`: pairs of a kind and a key, all at once; and to `again` after that.
async fn asked(client: &Client, arguments: &Value) -> Result<Vec<Value>, Fault> {
    let mut answers = Vec::new();
    for round in ["what", "again"] {
        let Some(pairs) = arguments[round].as_array() else { continue };
        let pairs = pairs.iter().map(|pair| question(pair[0].as_str().unwrap_or_default(), &pair[1]));
        answers.extend(client.ask(pairs.collect()).await?);
    }
    Ok(answers)
}

fn question(kind: &str, key: &Value) -> (String, Ask) {
    let key = key.as_str().unwrap_or_default().to_owned();
    let ask = match kind {
        "form" => {
            let schema =
                json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
            Ask::Form { message: format!("{key}?"), schema }
        }
        "address" => Ask::Address {
            message: "Open it".to_owned(),
            url: "https://example.org/".to_owned(),
            id: "1".to_owned(),
        },
        "model" => Ask::Model(json!({"maxTokens": 10,
            "messages": [{"role": "user", "content": {"type": "text", "text": "Say it."}}]})),
        "model with tools" => Ask::Model(json!({"maxTokens": 10,
            "tools": [{"name": "x", "inputSchema": {"type": "object"}}],
            "messages": [{"role": "user", "content": {"type": "text", "text": "Say it."}}]})),
        _ => Ask::Roots,
    };
    (key, ask)
}

async fn futures<T>(all: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    futures_util::future::join_all(all).await
}

fn spec(name: &str, arguments: &[&str], at_most: Kinds) -> Spec {
    let properties: Map<String, Value> = arguments.iter().map(|&name| (name.to_owned(), json!({}))).collect();
    Spec {
        output: None,
        origin: kit::Origin::Program,
        name: name.to_owned(),
        description: format!("Does what `{name}` says."),
        schema: json!({"type": "object", "properties": properties}),
        mode: Mode::Direct,
        at_most,
    }
}

fn names() -> Vec<String> {
    let entries = fs::read_dir(".").into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn found(pattern: &str) -> Vec<String> {
    let matches = |name: &String| fs::read_to_string(name).is_ok_and(|text| text.contains(pattern));
    names().into_iter().filter(matches).collect()
}
