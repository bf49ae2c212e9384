//! Resources, prompts, completion, log messages and change notifications of `haft mcp`.

use std::time::Instant;

use serde_json::{Value, json};

use crate::support::{Server, TIMEOUT, TestWorkspace};

const TOKEN: &str = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";

/// Sends a request that must succeed; returns its result.
#[track_caller]
fn result(server: &Server, method: &str, params: &Value) -> Value {
    let answer = server.ask(method, params).wait().unwrap();
    assert!(answer.get("result").is_some(), "{method} {params}: {answer}");
    answer["result"].clone()
}

#[track_caller]
fn read(server: &Server, uri: &str) -> String {
    let contents = result(server, "resources/read", &json!({"uri": uri}))["contents"].clone();
    assert_eq!(contents[0]["uri"], uri);
    contents[0]["text"].as_str().unwrap_or_else(|| panic!("{contents}")).to_owned()
}

/// The params of the next message of this method for which `is` holds.
#[track_caller]
fn hears(server: &Server, method: &str, is: impl Fn(&Value) -> bool) -> Value {
    let began = Instant::now();
    while began.elapsed() < TIMEOUT {
        for line in server.take_other() {
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["method"] == method && is(&message["params"]) {
                return message["params"].clone();
            }
        }
        // A round trip, rather than a sleep.
        server.ask("no/such", &json!({})).wait().unwrap();
    }
    panic!("it never said {method}")
}

#[test]
fn a_job_is_a_document_that_changes_while_it_runs() {
    let test_ws = TestWorkspace::new();
    let server = test_ws.serve_with(&["--approve", "auto"]);
    assert_eq!(result(&server, "logging/setLevel", &json!({"level": "info"})), json!({}));
    let command = "echo first; until test -e go; do sleep 0.05; done; echo second";
    server.does("shell", &json!({"command": command, "run_in_background": true}));
    hears(&server, "notifications/resources/list_changed", |_| true);
    let listed = result(&server, "resources/list", &json!({}))["resources"].clone();
    let job = listed.as_array().unwrap().iter().find(|it| it["uri"] == "haft://jobs/job_1").cloned();
    assert!(job.is_some_and(|it| it["description"].as_str().unwrap().starts_with("job_1 ")), "{listed}");
    let uri = json!({"uri": "haft://jobs/job_1"});
    assert_eq!(result(&server, "resources/subscribe", &uri), json!({}));
    while !read(&server, "haft://jobs/job_1").contains("first") {
        hears(&server, "notifications/resources/updated", |it| *it == uri);
    }
    test_ws.put("go", "");
    while !read(&server, "haft://jobs/job_1").starts_with("job_1 done, exit 0") {
        hears(&server, "notifications/resources/updated", |it| *it == uri);
    }
    let text = read(&server, "haft://jobs/job_1");
    assert!(text.contains("first\nsecond"), "{text}");
    let (first, second) = (server.does("jobs", &json!({})), server.does("jobs", &json!({})));
    assert!(
        first.contains("note: job_1") && !second.contains("note: "),
        "a person's look is not an answer: {first}"
    );
    assert!(server.finish().0.success());
}

#[test]
fn the_end_of_a_job_and_a_denial_are_told_to_who_wants_to_hear_it() {
    let test_ws = TestWorkspace::new();
    test_ws.put("file", "one\n");
    let server = test_ws.serve_with(&["--sandbox", "read-only"]);
    result(&server, "logging/setLevel", &json!({"level": "info"}));
    server.does("read", &json!({"path": "file", "run_in_background": true}));
    let told = hears(&server, "notifications/message", |it| it["logger"] == "jobs");
    assert_eq!(told["level"], "info");
    assert!(told["data"].as_str().unwrap().starts_with("job_1 done"), "{told}");
    assert!(server.call("write", &json!({"path": "new", "content": "x"})).is_error);
    let told = hears(&server, "notifications/message", |it| it["logger"] == "policy");
    assert_eq!(told["level"], "notice");
    assert!(told["data"].as_str().unwrap().starts_with("write: "), "{told}");
}

#[test]
fn a_tool_file_that_can_not_be_loaded_is_told_unasked() {
    let test_ws = TestWorkspace::new();
    test_ws.put(".haft/tools/broken.py", "def broken(:\n");
    let server = test_ws.serve_with(&["--trust"]);
    let told = hears(&server, "notifications/message", |it| it["logger"] == "tools");
    assert_eq!(told["level"], "warning");
    assert!(told["data"].as_str().unwrap().contains("broken.py"), "{told}");
}

#[test]
fn what_was_cut_is_linked_and_read_whole_without_secrets() {
    let test_ws = TestWorkspace::new();
    let long: String = (0..20_000).map(|line| format!("{line:05} {}\n", "x".repeat(30))).collect();
    test_ws.put("long", format!("{TOKEN}\n{long}"));
    let server = Server::spawn(test_ws.haft(&["mcp"]).env("SERVICE_TOKEN", TOKEN)).greeted();
    let params = json!({"name": "editor", "arguments": {"command": "view", "path": "long"}});
    let answer = result(&server, "tools/call", &params);
    let link = answer["content"].as_array().unwrap().iter().find(|it| it["type"] == "resource_link");
    let link = link.unwrap_or_else(|| panic!("{answer}")).clone();
    assert_eq!((&link["uri"], &link["name"]), (&json!("haft://outputs/out_1"), &json!("out_1")));
    hears(&server, "notifications/resources/list_changed", |_| true);
    let listed = result(&server, "resources/list", &json!({}))["resources"].clone();
    assert!(listed.as_array().unwrap().iter().any(|it| it["uri"] == link["uri"]), "{listed}");
    let whole = read(&server, "haft://outputs/out_1");
    assert!(whole.contains("00000 ") && whole.contains("10000 ") && whole.contains("19999 "));
    assert!(!whole.contains(TOKEN), "a secret is masked there as well");
    // And for who knows no links it is words.
    let old = Server::start(&test_ws, &[]);
    let client = json!({"name": "old", "version": "1"});
    let greeting = json!({"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": client});
    result(&old, "initialize", &greeting);
    let answer = result(&old, "tools/call", &params);
    assert!(answer["content"].as_array().unwrap().iter().all(|it| it["type"] == "text"));
}

#[test]
fn the_journal_is_this_session_s_calls() {
    let test_ws = TestWorkspace::new();
    test_ws.put("file", "one\n");
    test_ws.call("read", &json!({"path": "file"})).must("ok");
    let server = test_ws.serve();
    assert_eq!(read(&server, "haft://journal"), "no calls");
    result(&server, "resources/subscribe", &json!({"uri": "haft://journal"}));
    server.does("read", &json!({"path": "file"}));
    hears(&server, "notifications/resources/updated", |it| it["uri"] == "haft://journal");
    let journal = read(&server, "haft://journal");
    assert!(journal.lines().count() == 1 && journal.contains("  read  ok "), "{journal}");
    let complete = |begun: &str| {
        let of = json!({"type": "ref/resource", "uri": "haft://journal/{call}"});
        let params = json!({"ref": of, "argument": {"name": "call", "value": begun}});
        result(&server, "completion/complete", &params)["completion"]["values"].clone()
    };
    let calls = complete("c_");
    let call = calls[0].as_str().unwrap();
    assert_eq!((calls.as_array().unwrap().len(), &complete(call)), (1, &json!([call])));
    let one = read(&server, &format!("haft://journal/{call}"));
    assert!(one.starts_with(journal.trim_end()) && one.contains(r#"arguments: {"path":"file"}"#), "{one}");
    for uri in
        ["haft://journal/c_none", "haft://jobs/job_9", "haft://outputs/out_9", "haft://outputs/../x", "x"]
    {
        let answer = server.ask("resources/read", &json!({"uri": uri})).wait().unwrap();
        assert_eq!(answer["error"]["code"], -32002, "{answer}");
        assert_eq!(answer["error"]["data"]["uri"], uri, "{answer}");
    }
}

#[test]
fn prompts_are_manuals_and_profiles_which_are_completed() {
    let test_ws = TestWorkspace::new();
    test_ws.put(".haft/agents/careful.md", "---\ndescription: Careful.\n---\nTread softly.\n");
    let server = test_ws.serve_with(&["--trust"]);
    let listed = result(&server, "prompts/list", &json!({}))["prompts"].clone();
    let names: Vec<&str> = listed.as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["manual", "profile"]);
    let complete = |prompt: &str, argument: &str, begun: &str| {
        let of = json!({"type": "ref/prompt", "name": prompt});
        let params = json!({"ref": of, "argument": {"name": argument, "value": begun}});
        result(&server, "completion/complete", &params)["completion"]["values"].clone()
    };
    assert_eq!(complete("manual", "tool", "gr")[0], "grep");
    assert_eq!(complete("profile", "name", "care"), json!(["careful"]));
    let get = |name: &str, arguments: Value| {
        let params = json!({"name": name, "arguments": arguments});
        server.ask("prompts/get", &params).wait().unwrap()
    };
    let text =
        |answer: &Value| answer["result"]["messages"][0]["content"]["text"].as_str().unwrap().to_owned();
    let manual = text(&get("manual", json!({"tool": "grep"})));
    assert!(manual.contains("`grep`") && manual.contains("pattern"), "{manual}");
    let profile = text(&get("profile", json!({"name": "careful", "task": "Mend the roof."})));
    assert!(profile.contains("Tread softly.") && profile.contains("Mend the roof."), "{profile}");
    for (name, arguments) in [
        ("manual", json!({})),
        ("manual", json!({"tool": "nothing"})),
        ("manual", json!({"tool": "grep", "more": "x"})),
        ("profile", json!({"name": "nobody"})),
        ("poem", json!({})),
    ] {
        assert_eq!(get(name, arguments)["error"]["code"], -32602, "{name}");
    }
}

#[test]
fn a_long_list_of_documents_comes_in_pages() {
    let test_ws = TestWorkspace::new();
    test_ws.put("file", "one\n");
    let server = test_ws.serve();
    let reads: Vec<_> = (0..105)
        .map(|_| server.start_call("read", &json!({"path": "file", "run_in_background": true})))
        .collect();
    assert!(reads.into_iter().all(|it| it.result().is_some_and(|said| !said.is_error)));
    server.does("wait", &json!({"job": "105"}));
    let first = result(&server, "resources/list", &json!({}));
    assert_eq!(first["resources"].as_array().unwrap().len(), 100);
    let second = result(&server, "resources/list", &json!({"cursor": first["nextCursor"]}));
    // A hundred that are over are kept, and whatever still runs.
    assert!(!second["resources"].as_array().unwrap().is_empty(), "{second}");
    assert!(second.get("nextCursor").is_none(), "{second}");
    let wrong = server.ask("resources/list", &json!({"cursor": "2"})).wait().unwrap();
    assert_eq!(wrong["error"]["code"], -32602, "{wrong}");
}

#[test]
fn a_client_of_the_newer_revision_listens_for_a_job() {
    let test_ws = TestWorkspace::new();
    let server = Server::start(&test_ws, &["--approve", "auto"]);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let command = "until test -e go; do sleep 0.05; done; echo went";
    let arguments = json!({"command": command, "run_in_background": true});
    result(&server, "tools/call", &json!({"name": "shell", "arguments": arguments, "_meta": meta}));
    let wanted = json!({"resourceSubscriptions": ["haft://jobs/job_1"]});
    let listening = server.ask("subscriptions/listen", &json!({"notifications": wanted, "_meta": meta}));
    let accepted = hears(&server, "notifications/subscriptions/acknowledged", |_| true);
    assert_eq!(accepted["notifications"], wanted);
    test_ws.put("go", "");
    loop {
        let updated = hears(&server, "notifications/resources/updated", |_| true);
        assert_eq!(updated["uri"], "haft://jobs/job_1");
        let contents = result(&server, "resources/read", &json!({"uri": "haft://jobs/job_1", "_meta": meta}));
        assert!(contents["ttlMs"].is_u64(), "{contents}");
        let text = contents["contents"][0]["text"].as_str().unwrap();
        if text.starts_with("job_1 done") {
            assert!(text.contains("went"), "{text}");
            break;
        }
    }
    drop(listening);
}
