//! Elicitation and sampling: the person and the model behind an MCP client.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, Stdio},
    sync::mpsc::{Receiver, channel},
    time::Duration,
};

use serde_json::{Value, json};

use crate::support::TestWorkspace;

/// A test that waits this long has failed.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A client that can be asked.
pub(crate) struct Client {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Value>,
    capabilities: Value,
    by_requests: bool,
}

impl Client {
    /// Of a revision in which servers ask by requests.
    fn by_requests(test_ws: &TestWorkspace, version: &str, capabilities: &Value) -> Self {
        let mut client = Self::start(test_ws, capabilities, true);
        client.send(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": version, "capabilities": capabilities,
            "clientInfo": {"name": "t", "version": "1"}}}));
        assert_eq!(client.next()["result"]["protocolVersion"], version);
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    /// Of the revision in which they ask by answers.
    fn by_rounds(test_ws: &TestWorkspace, capabilities: &Value) -> Self {
        Self::start(test_ws, capabilities, false)
    }

    fn start(test_ws: &TestWorkspace, capabilities: &Value, by_requests: bool) -> Self {
        let mut child = test_ws
            .haft(&["mcp"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (line, lines) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for text in output.lines() {
                let message = serde_json::from_str(&text.unwrap()).unwrap();
                if line.send(message).is_err() {
                    return;
                }
            }
        });
        let input = child.stdin.take();
        Self { child, input, lines, capabilities: capabilities.clone(), by_requests }
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    fn next(&mut self) -> Value {
        loop {
            let message = self.lines.recv_timeout(TIMEOUT).unwrap();
            // Unrequested notifications are not part of this.
            let method = message["method"].as_str().unwrap_or_default();
            if !method.starts_with("notifications/message") && !method.ends_with("list_changed") {
                return message;
            }
        }
    }

    fn request(&self, id: u64, tool: &str, arguments: &Value) -> Value {
        let mut params = json!({"name": tool, "arguments": arguments});
        if !self.by_requests {
            params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": self.capabilities});
        }
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
    }

    /// Calls, and answers each question; gives the result as text, and whether it is an error.
    pub(crate) fn call(
        &mut self,
        tool: &str,
        arguments: &Value,
        mut person: impl FnMut(&str, &Value) -> Value,
    ) -> (String, bool) {
        let first = self.request(1, tool, arguments);
        let mut request = first.clone();
        self.send(&request);
        loop {
            let said = self.next();
            if let Some(method) = said["method"].as_str() {
                let answer = person(method, &said["params"]);
                self.send(&json!({"jsonrpc": "2.0", "id": said["id"], "result": answer}));
            } else if said["result"]["resultType"] == "input_required" {
                let asked = said["result"]["inputRequests"].as_object().unwrap();
                let answers = asked.iter().map(|(key, asked)| {
                    (key.clone(), person(asked["method"].as_str().unwrap(), &asked["params"]))
                });
                request = first.clone();
                request["id"] = json!(said["id"].as_u64().unwrap() + 1);
                request["params"]["inputResponses"] = Value::Object(answers.collect());
                request["params"]["requestState"] = said["result"]["requestState"].clone();
                self.send(&request);
            } else {
                assert_eq!(said["id"], request["id"], "{said}");
                let text = said["result"]["content"][0]["text"].as_str().map(str::to_owned);
                return (text.unwrap_or_else(|| said.to_string()), said["result"]["isError"] == true);
            }
        }
    }

    pub(crate) fn end(mut self) {
        drop(self.input.take());
        assert!(self.child.wait().unwrap().success());
    }
}

pub(crate) fn both(test_ws: &TestWorkspace, capabilities: &Value) -> [Client; 3] {
    [
        Client::by_requests(test_ws, "2025-06-18", capabilities),
        Client::by_requests(test_ws, "2025-11-25", capabilities),
        Client::by_rounds(test_ws, capabilities),
    ]
}

fn write(content: &str) -> Value {
    json!({"path": ".mcp.json", "content": content})
}

#[test]
fn an_approval_is_a_form_and_only_a_yes_is_one() {
    let forms = json!({"elicitation": {}});
    let test_ws = TestWorkspace::new();
    for mut client in both(&test_ws, &forms) {
        for (answer, is_done) in [
            (json!({"action": "decline"}), false),
            (json!({"action": "cancel"}), false),
            (json!({"action": "accept", "content": {"decision": "no"}}), false),
            (json!({"action": "accept", "content": {}}), false),
            (json!({"action": "accept", "content": {"decision": "once"}}), true),
        ] {
            std::fs::remove_file(test_ws.at(".mcp.json")).unwrap_or_default();
            let mut asked = 0;
            let (text, is_error) = client.call("write", &write("{}"), |method, params| {
                assert_eq!(method, "elicitation/create");
                let message = params["message"].as_str().unwrap();
                let begins = "Allow `write` to create .mcp.json?\n\n    create .mcp.json (+1 -0)\n    @@ -0,0 +1 @@\n    +{}\n";
                assert!(message.starts_with(begins), "{message}");
                assert!(message.contains("\n\nReason: files that decide"), "{message}");
                let field = &params["requestedSchema"]["properties"]["decision"];
                assert!(field["oneOf"].is_array() || field["enumNames"].is_array(), "{params}");
                asked += 1;
                answer.clone()
            });
            assert_eq!((asked, is_error), (1, !is_done), "{text}");
            assert_eq!(test_ws.at(".mcp.json").exists(), is_done, "{text}");
        }
        std::fs::remove_file(test_ws.at(".mcp.json")).unwrap();
        client.end();
    }
}

#[test]
fn each_change_of_a_file_is_a_form_where_the_person_wants_that() {
    let test_ws = TestWorkspace::new();
    test_ws.put("a.txt", "one\n");
    std::fs::create_dir_all(test_ws.config()).unwrap();
    std::fs::write(test_ws.config().join("haft.toml"), "approve = \"ask-edits\"\n").unwrap();
    let edit = json!({"path": "a.txt", "edits": [{"old": "one", "new": "two"}]});
    for mut client in both(&test_ws, &json!({"elicitation": {}})) {
        let answers = [
            (json!({"decision": "no", "instead": "call it 2"}), "the person said no: call it 2", "one\n"),
            (json!({"decision": "once"}), "Updated a.txt (+1 -1)", "two\n"),
        ];
        test_ws.put("a.txt", "one\n");
        for (answer, says, text) in answers {
            let (said, _) = client.call("edit", &edit, |_, params| {
                let message = params["message"].as_str().unwrap();
                assert!(
                    message.contains("    a.txt (+1 -1)\n    @@ -1 +1 @@\n    -one\n    +two\n"),
                    "{message}"
                );
                assert_eq!(test_ws.text("a.txt"), "one\n");
                json!({"action": "accept", "content": answer.clone()})
            });
            assert!(said.contains(says), "{said}");
            assert_eq!(test_ws.text("a.txt"), text);
        }
        client.end();
    }
    let mut mute = Client::by_rounds(&test_ws, &json!({}));
    test_ws.put("a.txt", "one\n");
    let (said, is_error) = mute.call("edit", &edit, |method, _| panic!("asked {method}"));
    assert!(is_error && said.contains("nobody to ask") && said.contains("`--approve ask`"), "{said}");
    assert_eq!(test_ws.text("a.txt"), "one\n");
    mute.end();
}

#[test]
fn card_is_a_form_without_fields_and_its_buttons_are_choices() {
    let test_ws = TestWorkspace::new();
    std::fs::create_dir_all(test_ws.config()).unwrap();
    std::fs::write(test_ws.config().join("haft.toml"), "toolset = \"terrarium\"\n").unwrap();
    let card = |actions: &Value| json!({"title": "Plan", "body": "Two steps.\nNo more.", "actions": actions});
    let actions = json!([{"id": "go", "label": "Go on"}, {"id": "no", "label": "Stop"}]);
    for mut client in both(&test_ws, &json!({"elicitation": {}})) {
        let mut shown = Vec::new();
        let (text, is_error) = client.call("show_card", &card(&json!([])), |method, params| {
            assert_eq!(
                (method, &params["requestedSchema"]["properties"]),
                ("elicitation/create", &json!({}))
            );
            shown.push(params["message"].as_str().unwrap().to_owned());
            json!({"action": "decline"})
        });
        assert_eq!((text.as_str(), is_error), ("card displayed", false));
        assert!(shown[0].contains("    # Plan\n") && shown[0].contains("    No more."), "{shown:?}");
        let (text, _) = client.call("show_card", &card(&actions), |_, params| {
            let message = params["message"].as_str().unwrap();
            assert!(message.contains("2. Stop"), "{message}");
            json!({"action": "accept", "content": {"choice": "2"}})
        });
        assert_eq!(text, "action: no");
        client.end();
    }
    let mut mute = Client::by_rounds(&test_ws, &json!({}));
    let (text, _) = mute.call("show_card", &card(&json!([])), |method, _| panic!("asked {method}"));
    assert!(text.starts_with("# Plan\n"), "with nobody to see it the model has the text: {text}");
    mute.end();
}

#[test]
fn who_can_be_asked_nothing_is_told_what_a_person_can_do() {
    let test_ws = TestWorkspace::new();
    for mut client in both(&test_ws, &json!({"sampling": {}})) {
        let (text, is_error) = client.call("write", &write("{}"), |method, _| panic!("asked {method}"));
        assert!(is_error && text.contains("nobody to ask") && text.contains("--approve auto"), "{text}");
        assert!(!test_ws.at(".mcp.json").exists());
        client.end();
    }
}

#[test]
fn a_call_that_is_taken_back_or_whose_client_vanishes_does_nothing() {
    let test_ws = TestWorkspace::new();
    let forms = json!({"elicitation": {}});
    let mut client = Client::by_requests(&test_ws, "2025-11-25", &forms);
    let request = client.request(1, "write", &write("{}"));
    client.send(&request);
    let asked = client.next();
    assert_eq!(asked["method"], "elicitation/create");
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}));
    let taken_back = client.next();
    assert_eq!(taken_back["method"], "notifications/cancelled");
    assert_eq!(taken_back["params"]["requestId"], asked["id"]);
    let yes = json!({"action": "accept", "content": {"decision": "once"}});
    client.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": yes}));
    client.end();
    for mut client in both(&test_ws, &forms) {
        let request = client.request(1, "write", &write("{}"));
        client.send(&request);
        let asked = client.next();
        assert!(asked["method"] == "elicitation/create" || asked["result"]["inputRequests"].is_object());
        client.end();
    }
    assert!(!test_ws.at(".mcp.json").exists());
}

#[test]
fn what_a_model_wants_to_know_the_person_says() {
    let test_ws = TestWorkspace::new();
    let question = json!({"question": "Which branch?", "options": ["main", "dev"]});
    for mut client in both(&test_ws, &json!({"elicitation": {}})) {
        for (filled, said) in [(json!({"choice": "2"}), "dev"), (json!({"answer": "neither"}), "neither")] {
            let (text, is_error) = client.call("ask_user", &question, |_, params| {
                assert_eq!(
                    params["message"],
                    "The model asks:\n\n    Which branch?\n    1. main\n    2. dev"
                );
                json!({"action": "accept", "content": filled})
            });
            assert!(!is_error && text.contains(said), "{text}");
        }
        let (text, is_error) = client.call("ask_user", &question, |_, _| json!({"action": "cancel"}));
        assert!(is_error && text.contains("did not answer"), "{text}");
        client.end();
    }
    let mut mute = Client::by_rounds(&test_ws, &json!({}));
    let (text, is_error) = mute.call("ask_user", &question, |method, _| panic!("asked {method}"));
    assert!(is_error && text.contains("nobody to ask"), "{text}");
    mute.end();
}

/// Plays a model that reads a file, then answers.
fn model(params: &Value) -> Value {
    let says = |content: Value, why: &str| json!({"role": "assistant", "model": "m", "stopReason": why, "content": content});
    let last = params["messages"].as_array().unwrap().last().unwrap().to_string();
    if last.contains("the secret word") {
        return says(json!({"type": "text", "text": "It says so."}), "endTurn");
    }
    if params["tools"].is_array() {
        let call = json!({"type": "tool_use", "id": "1", "name": "read", "input": {"path": "note"}});
        return says(json!([call]), "toolUse");
    }
    assert!(params["systemPrompt"].as_str().unwrap().contains("<tool_call>"), "{params}");
    let call = r#"<tool_call>{"name": "read", "arguments": {"path": "note"}}</tool_call>"#;
    says(json!({"type": "text", "text": call}), "endTurn")
}

/// A tool file that has an agent read a file.
const READER: &str = r#"
from haft import agent

name = "reader"
description = "Have an agent read the note."
parameters = {"type": "object", "properties": {}}


async def execute(params):
    report = await agent("explore").run("Read `note`.", seconds=50)
    return report.text
"#;

#[test]
fn agent_in_a_tool_file_borrows_the_model_of_the_client() {
    let test_ws = TestWorkspace::new();
    test_ws.put("note", "the secret word\n");
    std::fs::create_dir_all(test_ws.config().join("tools")).unwrap();
    std::fs::write(test_ws.config().join("tools/reader.py"), READER).unwrap();
    let sampling = json!({"sampling": {"tools": {}}});
    let mut client = Client::by_requests(&test_ws, "2025-11-25", &sampling);
    let mut asked = 0;
    let (text, is_error) = client.call("reader", &json!({}), |method, params| {
        assert_eq!(method, "sampling/createMessage");
        asked += 1;
        model(params)
    });
    assert!(!is_error && text.contains("It says so."), "{text}");
    assert_eq!(asked, 2, "it looked, and said what it saw");
    client.end();
    let mut client = Client::by_requests(&test_ws, "2025-11-25", &json!({}));
    let (text, is_error) = client.call("reader", &json!({}), |method, _| panic!("asked {method}"));
    assert!(is_error && text.contains("this client offers none"), "{text}");
    client.end();
}

#[test]
fn an_agent_borrows_the_model_of_the_client_with_calls_or_without() {
    let test_ws = TestWorkspace::new();
    test_ws.put("note", "the secret word\n");
    for sampling in [json!({"sampling": {"tools": {}}}), json!({"sampling": {}})] {
        for mut client in both(&test_ws, &sampling) {
            let mut asked = 0;
            let (text, is_error) =
                client.call("subagent", &json!({"prompt": "Read `note`."}), |method, params| {
                    assert_eq!(method, "sampling/createMessage");
                    assert_eq!(params["tools"].is_array(), sampling["sampling"]["tools"].is_object());
                    asked += 1;
                    model(params)
                });
            assert!(!is_error && text.contains("It says so."), "{text}");
            assert_eq!(asked, 2, "it looked, and said what it saw");
            client.end();
        }
    }
    for mut client in both(&test_ws, &json!({})) {
        let (text, is_error) =
            client.call("subagent", &json!({"prompt": "Read `note`."}), |_, _| Value::Null);
        assert!(
            is_error && text.contains("this client offers none") && text.contains("HAFT_MODEL"),
            "{text}"
        );
        client.end();
    }
}

#[test]
fn an_agent_in_the_background_has_the_clients_model_too() {
    let test_ws = TestWorkspace::new();
    test_ws.put("note", "the secret word\n");
    for mut client in both(&test_ws, &json!({"sampling": {"tools": {}}})) {
        let task = json!({"prompt": "Read `note`.", "run_in_background": true});
        let (text, is_error) = client.call("subagent", &task, |_, params| model(params));
        assert!(!is_error && text.contains("runs in the background"), "{text}");
        let job = text.split(' ').next().unwrap();
        // It is asked outside of the first call, or by the answer to this one.
        let (text, _) = client.call("wait", &json!({"job": job}), |_, params| model(params));
        let (read, _) = client.call("read_job", &json!({"job": job}), |_, _| Value::Null);
        assert!(text.contains("It says so.") || read.contains("It says so."), "{text}\n{read}");
        client.end();
    }
}

#[test]
fn the_call_of_an_agent_below_asks_the_same_person() {
    let test_ws = TestWorkspace::new();
    for mut client in both(&test_ws, &json!({"sampling": {"tools": {}}, "elicitation": {}})) {
        let mut asked = Vec::new();
        let (text, is_error) = client.call("subagent", &json!({"prompt": "Write it."}), |method, params| {
            asked.push(method.to_owned());
            if method == "elicitation/create" {
                assert!(params["message"].as_str().unwrap().contains(": Allow `write` to "), "{params}");
                return json!({"action": "accept", "content": {"decision": "once"}});
            }
            let done = params["messages"].to_string().contains("tool_result");
            let content = if done {
                json!({"type": "text", "text": "Written."})
            } else {
                json!({"type": "tool_use", "id": "1", "name": "write", "input": write("{}")})
            };
            json!({"role": "assistant", "model": "m", "content": content})
        });
        assert!(!is_error && text.contains("Written."), "{text}");
        assert_eq!(asked, ["sampling/createMessage", "elicitation/create", "sampling/createMessage"]);
        std::fs::remove_file(test_ws.at(".mcp.json")).unwrap();
        client.end();
    }
}
