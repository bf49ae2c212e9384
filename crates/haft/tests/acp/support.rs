//! A client of `haft acp`: sends requests, answers haft's own, and reads every line by the protocol's types.

use std::{
    collections::HashMap,
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    thread::{self, JoinHandle},
    time::Instant,
};

use haft::serve::acp::v1;
use serde_json::{Value, json};

use crate::support::{TIMEOUT, TestWorkspace};

/// Answers a request of haft with a result, or with `None` not at all.
type Answers = Box<dyn Fn(&str, &Value) -> Option<Value> + Send + Sync>;

/// A running `haft acp` with its client.
pub(super) struct Client {
    child: Child,
    input: Arc<Mutex<Option<ChildStdin>>>,
    received: Arc<Received>,
    next: AtomicU64,
    stderr: Option<JoinHandle<String>>,
}

/// Messages that haft wrote.
#[derive(Default)]
struct Received {
    waiting: Mutex<HashMap<u64, Sender<(Instant, Value)>>>,
    /// Notifications, and requests that haft sent.
    messages: Mutex<Vec<Value>>,
    changed: Condvar,
}

/// An answer that is on its way.
pub(super) struct Pending(Receiver<(Instant, Value)>);

impl Pending {
    pub(super) fn wait(self) -> (Instant, Value) {
        self.0.recv_timeout(TIMEOUT).expect("haft answers")
    }

    pub(super) fn result(self) -> Value {
        let (_, answer) = self.wait();
        assert!(answer.get("error").is_none(), "{answer}");
        answer["result"].clone()
    }

    pub(super) fn error(self) -> Value {
        let (_, answer) = self.wait();
        answer.get("error").unwrap_or_else(|| panic!("an error was expected: {answer}")).clone()
    }
}

/// Returns a workspace with a script of the model.
pub(super) fn workspace(script: &[Value]) -> TestWorkspace {
    let test_ws = TestWorkspace::new();
    set_script(&test_ws, script);
    test_ws
}

pub(super) fn set_script(test_ws: &TestWorkspace, script: &[Value]) {
    let text: String = script.iter().map(|it| format!("{it}\n")).collect();
    fs::write(test_ws.base().join("script"), text).unwrap();
}

/// Returns `haft` in this workspace, without `--dir`.
pub(super) fn haft(test_ws: &TestWorkspace, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_haft"));
    command
        .env_clear()
        .env("HAFT_STATE_DIR", test_ws.state())
        .env("HAFT_CONFIG_DIR", test_ws.config())
        .env("HOME", test_ws.base().join("home"))
        .current_dir(test_ws.base().join("home"))
        .args(arguments);
    command
}

impl Client {
    /// Starts a client with the minimal capabilities.
    pub(super) fn start(test_ws: &TestWorkspace) -> Self {
        Self::with(test_ws, &[], json!({}), |_, _| None)
    }

    /// Starts a client with these capabilities, which answers haft's requests with `answers`.
    pub(super) fn with(
        test_ws: &TestWorkspace,
        options: &[&str],
        capabilities: Value,
        answers: impl Fn(&str, &Value) -> Option<Value> + Send + Sync + 'static,
    ) -> Self {
        let model = format!("script:{}", test_ws.base().join("script").display());
        let client =
            Self::spawn(&mut haft(test_ws, &[options, &["acp", "--model", &model]].concat()), answers);
        let params = json!({"protocolVersion": 1, "clientCapabilities": capabilities});
        let hello = client.ask("initialize", params).result();
        assert_eq!(hello["agentInfo"]["name"], "haft", "{hello}");
        client
    }

    pub(super) fn spawn(
        command: &mut Command,
        answers: impl Fn(&str, &Value) -> Option<Value> + Send + Sync + 'static,
    ) -> Self {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let input = Arc::new(Mutex::new(child.stdin.take()));
        let received = Arc::new(Received::default());
        let output = BufReader::new(child.stdout.take().unwrap());
        let (to, back) = (received.clone(), input.clone());
        let answers: Answers = Box::new(answers);
        thread::spawn(move || {
            for line in output.lines() {
                let Ok(line) = line else { break };
                to.line(&line, &back, &answers);
            }
            to.waiting.lock().unwrap().clear();
        });
        let mut errors = child.stderr.take().unwrap();
        let stderr = thread::spawn(move || {
            let mut text = String::new();
            let _ = errors.read_to_string(&mut text);
            text
        });
        Self { child, input, received, next: AtomicU64::new(1), stderr: Some(stderr) }
    }

    pub(super) fn send_line(&self, line: &str) {
        if let Some(input) = &mut *self.input.lock().unwrap() {
            let _ = writeln!(input, "{line}");
        }
    }

    pub(super) fn notify(&self, method: &str, params: Value) {
        self.send_line(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string());
    }

    pub(super) fn ask(&self, method: &str, params: Value) -> Pending {
        self.ask_with_id(method, params).1
    }

    pub(super) fn ask_with_id(&self, method: &str, params: Value) -> (u64, Pending) {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (to, answer) = channel();
        self.received.waiting.lock().unwrap().insert(id, to);
        self.send_line(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
        (id, Pending(answer))
    }

    /// Opens a new session in the workspace; returns its id.
    pub(super) fn session(&self, test_ws: &TestWorkspace) -> String {
        let opened = self.ask("session/new", json!({"cwd": test_ws.at(""), "mcpServers": []})).result();
        opened["sessionId"].as_str().unwrap().to_owned()
    }

    pub(super) fn prompt(&self, session: &str, text: &str) -> Pending {
        let prompt = json!([{"type": "text", "text": text}]);
        self.ask("session/prompt", json!({"sessionId": session, "prompt": prompt}))
    }

    /// Sends a prompt; returns the turn's stop reason.
    pub(super) fn says(&self, session: &str, text: &str) -> String {
        self.prompt(session, text).result()["stopReason"].as_str().unwrap().to_owned()
    }

    /// Returns the updates of a session until now.
    pub(super) fn updates(&self, session: &str) -> Vec<Value> {
        let messages = self.received.messages.lock().unwrap();
        let of = messages
            .iter()
            .filter(|it| it["method"] == "session/update" && it["params"]["sessionId"] == session);
        of.map(|it| it["params"]["update"].clone()).collect()
    }

    /// Returns the updates of this kind.
    pub(super) fn of_kind(&self, session: &str, kind: &str) -> Vec<Value> {
        self.updates(session).into_iter().filter(|it| it["sessionUpdate"] == kind).collect()
    }

    /// Returns the text of the chunks of this kind.
    pub(super) fn text(&self, session: &str, kind: &str) -> String {
        let chunks = self.of_kind(session, kind);
        chunks.iter().filter_map(|it| it["content"]["text"].as_str()).collect()
    }

    /// Returns the tool calls of a session as its updates have made them until now, in order.
    pub(super) fn calls(&self, session: &str) -> Vec<Value> {
        let mut calls: Vec<Value> = Vec::new();
        for update in self.updates(session) {
            match update["sessionUpdate"].as_str() {
                Some("tool_call") => {
                    let known = calls.iter().any(|it| it["toolCallId"] == update["toolCallId"]);
                    assert!(!known, "announced twice: {update}");
                    calls.push(update);
                }
                Some("tool_call_update") => {
                    let call = calls.iter_mut().find(|it| it["toolCallId"] == update["toolCallId"]);
                    let call = call.unwrap_or_else(|| panic!("not announced: {update}"));
                    for (key, value) in update.as_object().unwrap() {
                        if key != "sessionUpdate" {
                            call[key] = value.clone();
                        }
                    }
                }
                _ => {}
            }
        }
        calls
    }

    /// Returns the messages and calls of a session, in order: each message with its whole text, each call as it is now.
    pub(super) fn told(&self, session: &str) -> Vec<Value> {
        let mut told: Vec<Value> = Vec::new();
        let calls = self.calls(session);
        for update in self.updates(session) {
            let kind = update["sessionUpdate"].as_str().unwrap();
            if kind == "tool_call" {
                let call = calls.iter().find(|it| it["toolCallId"] == update["toolCallId"]);
                told.push(call.unwrap().clone());
            } else if kind.ends_with("_chunk") {
                let same = |it: &&mut Value| {
                    it["kind"] == kind && update["messageId"].is_string() && it["id"] == update["messageId"]
                };
                let text = update["content"]["text"].as_str().unwrap_or_default();
                match told.iter_mut().rev().find(same) {
                    Some(message) => {
                        let whole = format!("{}{text}", message["text"].as_str().unwrap());
                        message["text"] = json!(whole);
                    }
                    None => told.push(json!({"kind": kind, "id": update["messageId"], "text": text})),
                }
            }
        }
        told
    }

    /// Returns the process.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns haft's requests of this method.
    pub(super) fn asked(&self, method: &str) -> Vec<Value> {
        self.received.messages.lock().unwrap().iter().filter(|it| it["method"] == method).cloned().collect()
    }

    /// Waits for a message of haft that matches; returns it.
    pub(super) fn until(&self, is: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + TIMEOUT;
        let mut messages = self.received.messages.lock().unwrap();
        loop {
            if let Some(found) = messages.iter().find(|it| is(it)) {
                return found.clone();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "no such message came; there were {messages:#?}");
            messages = self.received.changed.wait_timeout(messages, left).unwrap().0;
        }
    }

    /// Answers an open request of haft.
    pub(super) fn answer(&self, id: &Value, result: Value) {
        self.send_line(&json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string());
    }

    /// Ends the input; gives what haft wrote to standard error.
    pub(super) fn end(mut self) -> String {
        self.input.lock().unwrap().take();
        let status = self.child.wait().unwrap();
        let said = self.stderr.take().unwrap().join().unwrap();
        assert!(status.success(), "{status}: {said}");
        said
    }

    /// Kills it, as a crash would.
    pub(super) fn process(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Received {
    fn line(&self, line: &str, back: &Arc<Mutex<Option<ChildStdin>>>, answers: &Answers) {
        let message: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("not a message: {line}"));
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        if let Some(method) = message.get("method").and_then(Value::as_str) {
            is_known(method, &message);
            if message.get("id").is_some()
                && let Some(result) = answers(method, &message["params"])
            {
                let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
                if let Some(input) = &mut *back.lock().unwrap() {
                    let _ = writeln!(input, "{answer}");
                }
            }
            self.messages.lock().unwrap().push(message);
            self.changed.notify_all();
            return;
        }
        let waiting = message["id"].as_u64().and_then(|id| self.waiting.lock().unwrap().remove(&id));
        match waiting {
            // A test that has ended waits no more.
            Some(waiting) => drop(waiting.send((Instant::now(), message))),
            None => {
                self.messages.lock().unwrap().push(message);
                self.changed.notify_all();
            }
        }
    }
}

/// Checks that the protocol's types read the params of a message without loss.
fn is_known(method: &str, message: &Value) {
    fn read<T: serde::Serialize + serde::de::DeserializeOwned>(params: &Value) {
        let typed: T =
            serde_json::from_value(params.clone()).unwrap_or_else(|error| panic!("{params}: {error}"));
        assert_eq!(&serde_json::to_value(typed).unwrap(), params);
    }
    let params = &message["params"];
    match method {
        "session/update" => read::<v1::SessionNotification>(params),
        "session/request_permission" => read::<v1::RequestPermissionRequest>(params),
        "elicitation/create" => read::<v1::CreateElicitationRequest>(params),
        "fs/read_text_file" => read::<v1::ReadTextFileRequest>(params),
        "$/cancel_request" => read::<v1::CancelRequestNotification>(params),
        other => panic!("haft sends `{other}`"),
    }
}

/// Chooses the first option of this kind.
pub(super) fn choose(kind: &'static str) -> impl Fn(&str, &Value) -> Option<Value> + Send + Sync {
    move |method, params| {
        if method != "session/request_permission" {
            return None;
        }
        let option = params["options"].as_array()?.iter().find(|it| it["kind"] == kind)?;
        Some(json!({"outcome": {"outcome": "selected", "optionId": option["optionId"]}}))
    }
}

/// Returns a call in a script.
pub(super) fn call(tool: &str, arguments: Value) -> Value {
    json!({"calls": [{"tool": tool, "arguments": arguments}]})
}

pub(super) fn say(text: &str) -> Value {
    json!({"say": text})
}
