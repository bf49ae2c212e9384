//! The cost of the tool list for an MCP client, and tools found by search.

use std::fs;

use serde_json::{Value, json};

use crate::support::{Server, TestWorkspace, run};

/// Less than 3,000 tokens of four bytes, with tools that the person added.
const MOST: usize = 12_000;

/// The maximum of haft's own tools, as a model sees them.
const OWN: usize = 8_000;

/// Returns the bytes of a list as a model sees it: names, descriptions and schemas, without hints for the client.
fn as_seen(list: &Value) -> usize {
    let seen = |it: &Value| json!({"name": it["name"], "description": it["description"], "inputSchema": it["inputSchema"]});
    Value::Array(list["tools"].as_array().unwrap().iter().map(seen).collect()).to_string().len()
}

/// Returns the answer to `tools/list`, unchanged.
fn list(server: &Server) -> Value {
    server.ask("tools/list", &json!({})).wait().unwrap()["result"].take()
}

fn names(list: &Value) -> Vec<String> {
    let tools = list["tools"].as_array().unwrap().iter();
    tools.map(|it| it["name"].as_str().unwrap().to_owned()).collect()
}

fn tool(name: &str, described: &str) -> String {
    format!(
        "name = {name:?}\ndescription = {described:?}\n\
         parameters = {{'type': 'object', 'properties': {{'city': {{'type': 'string', 'description': 'Where.'}}}}}}\n\
         touches = []\nasync def execute(params):\n    return 'it rains in ' + params.get('city', '?')\n"
    )
}

impl TestWorkspace {
    /// A tool of the person's own.
    fn own_tool(&self, name: &str, code: &str) {
        let folder = self.config().join("tools");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("{name}.py")), code).unwrap();
    }

    fn configure(&self, text: &str) {
        fs::create_dir_all(self.config()).unwrap();
        fs::write(self.config().join("haft.toml"), text).unwrap();
    }

    /// Loads its tools, so that a server knows them from the start.
    fn load(&self) {
        let ran = self.run(&["reload-tools"]);
        assert_eq!(ran.code, 0, "{ran:?}");
    }
}

#[test]
fn the_default_list_is_cheap_has_what_is_used_daily_and_is_the_same_each_time() {
    let test_ws = TestWorkspace::new();
    let (one, other) = (list(&test_ws.serve()), list(&test_ws.serve()));
    let bytes = one.to_string().len();
    assert!(as_seen(&one) <= OWN, "{} bytes", as_seen(&one));
    assert_eq!(one.to_string(), other.to_string());
    let names = names(&one);
    for name in ["read", "edit", "write", "grep", "glob", "shell", "bash", "search_tools", "call_tool"] {
        assert!(names.iter().any(|it| it == name), "{name} in {names:?}");
    }
    assert!(!names.iter().any(|it| it == "json_read"), "{names:?}");
    // The bill is what goes over the wire.
    let bill: Value = serde_json::from_str(&test_ws.run(&["tools", "--cost", "--json"]).out).unwrap();
    let difference = bill["listed"]["bytes"].as_u64().unwrap().abs_diff(bytes as u64);
    assert!(difference < 100, "{bill} and {bytes}");
    let billed = bill["tools"].as_array().unwrap().iter().filter(|it| it["listed"] == true);
    assert_eq!(billed.map(|it| it["name"].as_str().unwrap()).collect::<Vec<_>>(), names);
    for (it, tool) in one["tools"].as_array().unwrap().iter().map(|it| (it, it["name"].as_str().unwrap())) {
        let billed = bill["tools"].as_array().unwrap().iter().find(|it| it["name"] == tool).unwrap();
        assert_eq!(billed["bytes"], it.to_string().len(), "{tool}");
    }
}

#[test]
fn two_hundred_tools_of_the_user_s_and_a_monstrous_one_cost_no_more_and_are_all_called() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    for number in 0..200 {
        test_ws.own_tool(
            &format!("tool_{number:03}"),
            &tool(&format!("tool_{number:03}"), "It says the weather."),
        );
    }
    test_ws.own_tool("a_monster", &tool("a_monster", &"Much is said of it. ".repeat(1_000)));
    test_ws.load();
    let server = test_ws.serve();
    let before = list(&server);
    assert!(before.to_string().len() < MOST, "{} bytes", before.to_string().len());
    let listed = names(&before);
    assert!(listed.iter().any(|it| it == "tool_000") && listed.iter().any(|it| it == "read"), "{listed:?}");
    assert!(!listed.iter().any(|it| it == "a_monster" || it == "tool_199"), "{listed:?}");
    let arguments = json!({"city": "Ulm"});
    for found in ["tool_199", "a_monster"] {
        assert_eq!(server.does(found, &arguments), "it rains in Ulm");
        let call = json!({"name": found, "arguments": arguments});
        assert_eq!(server.does("call_tool", &call), "it rains in Ulm");
    }
    let said = server.does("search_tools", &json!({"query": "tool_199"}));
    assert!(said.starts_with("tool_199: It says the weather.\n  schema: {"), "{said}");
    assert!(said.ends_with("call_tool {\"name\": \"tool_199\", \"arguments\": {…}}."), "{said}");
    // One more of them moves no other.
    test_ws.own_tool("tool_000b", &tool("tool_000b", "It says the weather."));
    test_ws.load();
    let after = list(&test_ws.serve());
    assert!(after.to_string().len() < MOST, "{} bytes", after.to_string().len());
    let (old, new) = (before["tools"].as_array().unwrap(), after["tools"].as_array().unwrap());
    let kept: Vec<&Value> = new.iter().filter(|it| it["name"] != "tool_000b").collect();
    assert_eq!(kept.len() + 1, new.len(), "it is listed");
    let same: Vec<&Value> = old.iter().filter(|it| kept.contains(it)).collect();
    assert_eq!(kept, same);
    assert!(old.len() - same.len() <= 1, "at most the last one has no room any more");
}

#[test]
fn a_tool_that_the_person_left_out_is_in_no_list_no_search_and_no_call() {
    let test_ws = TestWorkspace::new();
    let all = test_ws.run(&["tools", "--json"]);
    let all: Value = serde_json::from_str(&all.out).unwrap();
    let allowed: Vec<&str> = all
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .filter(|it| *it != "undo")
        .collect();
    test_ws.configure(&format!("tools = {allowed:?}\n"));
    let server = test_ws.serve();
    assert!(!names(&list(&server)).iter().any(|it| it == "undo"));
    let said = server.does("search_tools", &json!({"query": "undo put files back", "limit": 20}));
    assert!(!said.contains("undo:"), "{said}");
    let said = server.call("call_tool", &json!({"name": "undo"}));
    assert!(said.is_error && said.text.contains("there is no tool `undo`"), "{said:?}");
    let answer = server.ask("tools/call", &json!({"name": "undo", "arguments": {}})).wait().unwrap();
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
}

#[test]
fn the_person_says_what_is_listed_and_how_much() {
    let test_ws = TestWorkspace::new();
    let all = names(&list(&test_ws.serve_with(&["--toolset", "navi"])));
    assert!(!all.iter().any(|it| it == "call_tool" || it == "search_tools"), "{all:?}");
    let listed = |text: &str| {
        test_ws.configure(text);
        names(&list(&test_ws.serve()))
    };
    let whole = listed("list_tokens = 0");
    assert!(whole.len() > 30 && !whole.iter().any(|it| it == "call_tool"), "{whole:?}");
    let few = listed("list_tokens = 1500\nlisted = [\"json_read\"]");
    assert!(few.iter().any(|it| it == "json_read") && few.len() < 12, "{few:?}");
    // The configured budget is 1,500 tokens; the client's command line takes precedence.
    let ran = run(
        &mut test_ws.haft(&["mcp", "--all-tools"]),
        "{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"initialize\", \"params\": {\"protocolVersion\": \"2025-11-25\", \
         \"capabilities\": {}, \"clientInfo\": {\"name\": \"t\", \"version\": \"1\"}}}\n\
         {\"jsonrpc\": \"2.0\", \"id\": 2, \"method\": \"tools/list\"}\n",
    );
    let answer: Value = serde_json::from_str(ran.out.lines().last().unwrap()).unwrap();
    assert_eq!(names(&answer["result"]), whole);
}

#[test]
fn what_is_called_through_another_tool_keeps_its_faults_its_rules_and_its_jobs() {
    let test_ws = TestWorkspace::new();
    test_ws.put("file", "one\n");
    let server = test_ws.serve();
    let through = |name: &str, arguments: Value| {
        server.call("call_tool", &json!({"name": name, "arguments": arguments}))
    };
    // Arguments in quotes are accepted, and the repair is reported.
    let said = through("filegrep", json!("{\"path\": \"file\", \"pattern\": \"one\", \"before\": \"1\"}"));
    assert!(!said.is_error && said.text.contains("|one"), "{said:?}");
    assert!(said.text.contains("note: "), "{said:?}");
    for (name, arguments) in [("read", json!({"path": "nothing"})), ("json_read", json!({"paths": 1}))] {
        let (one, other) = (server.call(name, &arguments), through(name, arguments.clone()));
        assert!(one.is_error && other.is_error, "{other:?}");
        assert_eq!(one.text.lines().next(), other.text.lines().next(), "the same fault");
    }
    let said = through("filegrp", json!({}));
    assert!(said.is_error && said.text.contains("Did you mean `filegrep`?"), "{said:?}");
    let said = through("call_tool", json!({"name": "read"}));
    assert!(said.is_error && said.text.contains("can't call itself"), "{said:?}");
    let said = through("read", json!({"path": "../outside/x"}));
    assert!(said.is_error && said.text.contains("rule `roots`"), "{said:?}");
    // A job goes on after both calls have answered.
    let said = through("shell", json!({"command": "cat; echo over", "input": true, "wait_ms": 0}));
    let job = said.text.split_whitespace().find(|it| it.starts_with("job_")).unwrap();
    let job = job.trim_end_matches(|it: char| !it.is_alphanumeric()).to_owned();
    let said = through("shell_status", json!({"action": "input", "job": job, "text": "hello\n\u{4}"}));
    assert!(!said.is_error, "{said:?}");
    let waited = server.does("wait", &json!({"job": job}));
    assert!(waited.contains("done"), "{waited}");
    let shown = server.does("read_job", &json!({"job": job}));
    assert!(shown.contains("hello") && shown.contains("over"), "{shown}");
    assert!(server.finish().0.success());
    // Each has a row of its own.
    let tools: Vec<String> = test_ws.log().iter().map(|it| it["tool"].as_str().unwrap().to_owned()).collect();
    assert!(tools.iter().filter(|it| *it == "call_tool").count() >= 6, "{tools:?}");
    assert!(
        tools.iter().any(|it| it == "filegrep") && tools.iter().any(|it| it == "shell_status"),
        "{tools:?}"
    );
}
