//! Tools that a model writes, tests, changes and deletes.

use std::{fs, net::TcpListener, os::unix::fs::symlink, time::Instant};

use serde_json::{Value, json};

use crate::support::{Server, TIMEOUT, TestWorkspace};

/// Returns a tool that answers `says`.
fn code(name: &str, says: &str) -> String {
    format!(
        "name = '{name}'\ndescription = 'Says it.'\n\
         parameters = {{'type': 'object', 'properties': {{'to': {{'type': 'string'}}}}}}\n\n\
         async def execute(params):\n    return '{says} ' + params.get('to', 'you')\n"
    )
}

fn write(server: &Server, name: &str, code: &str) -> String {
    server.does("write_tool", &json!({"name": name, "code": code}))
}

/// Returns the names in the tool list of a client.
fn listed(server: &Server) -> Vec<String> {
    let answer = server.ask("tools/list", &json!({})).wait().unwrap();
    let tools = answer["result"]["tools"].as_array().unwrap();
    tools.iter().map(|it| it["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_tool_is_written_called_rewritten_undone_and_deleted() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    let server = test_ws.serve();
    let said = write(&server, "greet", &code("greet", "hello"));
    assert!(said.starts_with("Created .haft/tools/greet.py"), "{said}");
    assert!(said.contains("Arguments: to (string)"), "{said}");
    assert_eq!(test_ws.text(".haft/tools/greet.py"), code("greet", "hello"));
    assert_eq!(
        serde_json::from_str::<Value>(&test_ws.text(".haft/tools/enabled.json")).unwrap(),
        json!(["greet"])
    );
    assert!(listed(&server).contains(&"greet".to_owned()));
    assert_eq!(server.does("greet", &json!({"to": "Ada"})), "hello Ada");

    let said = write(&server, "greet", &code("greet", "good day"));
    assert!(said.starts_with("Replaced .haft/tools/greet.py"), "{said}");
    assert_eq!(server.does("greet", &json!({})), "good day you");

    server.does("undo", &json!({}));
    assert_eq!(test_ws.text(".haft/tools/greet.py"), code("greet", "hello"));
    assert!(server.does("greet", &json!({})).starts_with("hello you"));

    let said = server.does("delete_tool", &json!({"name": "greet"}));
    assert!(said.starts_with("Deleted .haft/tools/greet.py"), "{said}");
    assert!(!test_ws.at(".haft/tools/greet.py").exists());
    assert!(!listed(&server).contains(&"greet".to_owned()));
    let gone = server.start_call("greet", &json!({})).wait().unwrap();
    assert!(gone.to_string().contains("there is no tool `greet`"), "{gone}");

    server.does("undo", &json!({}));
    assert!(server.does("greet", &json!({})).starts_with("hello you"));
    drop(server);
    // It is there in every later session, of a workspace that nobody trusts as well.
    assert_eq!(test_ws.call("greet", &json!({"to": "Bob"})).must("ok").text(), "hello Bob");
}

#[test]
fn all_that_is_missing_is_said_at_once_and_nothing_is_written() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    let server = test_ws.serve();
    let said = server.call("write_tool", &json!({"name": "empty", "code": "x = 1\n"}));
    assert!(said.is_error);
    for missing in ["name", "description", "parameters", "async def execute"] {
        assert!(said.text.contains(missing), "{missing}: {}", said.text);
    }
    let said = server.call("write_tool", &json!({"name": "other", "code": code("greet", "x")}));
    assert!(said.is_error && said.text.contains("greet"), "{}", said.text);
    assert!(!test_ws.at(".haft").exists());
}

#[test]
fn what_python_says_is_given_word_by_word_and_the_version_before_goes_on() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    let server = test_ws.serve();
    write(&server, "greet", &code("greet", "hello"));
    let broken = code("greet", "x") + "\ndef broken(:\n    pass\n";
    let said = server.call("write_tool", &json!({"name": "greet", "code": broken}));
    assert!(said.is_error);
    let line = broken.lines().position(|it| it.starts_with("def broken")).unwrap() + 1;
    for exact in ["SyntaxError: ", &format!("line {line}"), "def broken(:"] {
        assert!(said.text.contains(exact), "{exact}: {}", said.text);
    }
    // Python would show line 1 of the file, which is that of the version before.
    let unclosed =
        format!("values = [1,\n{}", code("greet", "x").replace(['(', ')', '[', ']', '{', '}'], ""));
    let said = server.call("write_tool", &json!({"name": "greet", "code": unclosed}));
    assert!(said.is_error && said.text.contains("    values = [1,\n"), "{}", said.text);
    let fails = format!("import no_such_module\n{}", code("greet", "x"));
    let said = server.call("write_tool", &json!({"name": "greet", "code": fails}));
    assert!(said.is_error);
    for exact in ["ModuleNotFoundError: No module named 'no_such_module'", "line 1"] {
        assert!(said.text.contains(exact), "{exact}: {}", said.text);
    }
    assert_eq!(test_ws.text(".haft/tools/greet.py"), code("greet", "hello"));
    assert_eq!(server.does("greet", &json!({})), "hello you");
}

#[test]
fn no_tool_of_somebody_else_is_hidden() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    let mine = test_ws.config().join("tools");
    fs::create_dir_all(&mine).unwrap();
    fs::write(mine.join("mine.py"), code("mine", "mine")).unwrap();
    let server = test_ws.serve();
    server.does("reload_tools", &json!({}));
    assert_eq!(server.does("mine", &json!({})), "mine you");
    for name in ["read", "terminal", "mine"] {
        let said = server.call("write_tool", &json!({"name": name, "code": code(name, "x")}));
        assert!(said.is_error && said.text.contains("Choose another name"), "{name}: {}", said.text);
        assert!(server.call("delete_tool", &json!({"name": name})).is_error, "{name}");
    }
    assert!(mine.join("mine.py").exists() && !test_ws.at(".haft").exists());
}

#[test]
fn a_tool_that_a_model_wrote_has_no_network_and_writes_nowhere_else() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    let server = test_ws.serve();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let outside = test_ws.outside().join("x");
    let tries = format!(
        "import socket\nname = 'tries'\ndescription = 'Tries.'\nparameters = {{'type': 'object', 'properties': {{}}}}\n\n\
         async def execute(params):\n    said = []\n    \
         for what, how in [\n        \
         ('net', lambda: socket.create_connection(('127.0.0.1', {port}), 2)),\n        \
         ('outside', lambda: open('{}', 'w')),\n        \
         ('itself', lambda: open(__file__, 'a').write('#')),\n        \
         ('inside', lambda: open('inside', 'w').write('x')),\n    \
         ]:\n        \
         try:\n            how()\n            said.append(what + ' yes')\n        \
         except OSError:\n            said.append(what + ' no')\n    \
         return ', '.join(said)\n",
        outside.display()
    );
    write(&server, "tries", &tries);
    let said = server.does("tries", &json!({}));
    assert!(said.starts_with("net no, outside no, itself no, inside yes"), "{said}");
    assert!(!outside.exists());
    assert_eq!(test_ws.text("inside"), "x");
}

#[test]
fn the_example_of_the_manual_is_a_tool() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    let server = test_ws.serve();
    let manual = server.does("info", &json!({"name": "write_tool"}));
    let (_, rest) = manual.split_once("```python\n").unwrap();
    let (example, _) = rest.split_once("```\n").unwrap();
    write(&server, "stock", example);
    let stock = |arguments: &Value| server.call("stock", arguments);
    assert_eq!(stock(&json!({"action": "show"})).text, "nothing yet");
    assert_eq!(stock(&json!({"action": "add", "thing": "M4 screw", "amount": 12})).text, "M4 screw: 12");
    assert_eq!(stock(&json!({"action": "add", "thing": "M4 screw", "amount": -2})).text, "M4 screw: 10");
    let failed = stock(&json!({"action": "add", "thing": "M4 screw", "amount": -20}));
    assert!(failed.is_error && failed.text.contains("there are only 10 of 'M4 screw'"), "{}", failed.text);
    let failed = stock(&json!({"action": "add"}));
    assert!(failed.is_error && failed.text.contains("needs `thing`"), "{}", failed.text);
    assert!(stock(&json!({"action": "sell"})).is_error, "no such action");
    // Data beside the file outlives its process, and the tool.
    drop(server);
    assert_eq!(test_ws.call("stock", &json!({"action": "show"})).must("ok").text(), "M4 screw: 10");
    let said = test_ws.call("delete_tool", &json!({"name": "stock"})).must("ok").text();
    assert!(said.contains("Still there: .haft/tools/stock_data.json"), "{said}");
}

#[test]
fn a_tool_is_tried_with_success_though_it_fails_and_nothing_waits_for_itself() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    let server = test_ws.serve();
    // It declares nothing, so it runs alone.
    write(&server, "greet", &code("greet", "hello"));
    let said = server.does("test_tool", &json!({"name": "greet", "arguments": {"to": "Ada"}}));
    assert!(said.starts_with("ok: greet, ") && said.contains("\nhello Ada"), "{said}");
    let both: Vec<_> = (0..4).map(|_| server.start_call("test_tool", &json!({"name": "greet"}))).collect();
    for pending in both {
        assert!(pending.result().unwrap().text.starts_with("ok: greet, "));
    }
    write(
        &server,
        "fails",
        &code("fails", "x")
            .replace("    return", "    print('so far')\n    raise ValueError('no such city')\n    return"),
    );
    let said = server.does("test_tool", &json!({"name": "fails"}));
    assert!(said.starts_with("failed: fails, "), "{said}");
    for part in ["ValueError: no such city", "Traceback", "so far"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    write(
        &server,
        "chatty",
        &code("chatty", "done").replace("    return", "    print('on the way')\n    return"),
    );
    let said = server.does("test_tool", &json!({"name": "chatty"}));
    assert!(said.contains("\ndone you\nnote: it printed: on the way"), "{said}");
    // The same of a tool of haft's own.
    let said = server.does("test_tool", &json!({"name": "read", "arguments": {"path": "no/such"}}));
    assert!(said.starts_with("failed: read, ") && said.contains("not_found"), "{said}");
    assert!(server.call("test_tool", &json!({"name": "test_tool"})).is_error);
    assert!(server.call("test_tool", &json!({"name": "unicorn"})).is_error);
}

#[test]
fn who_stops_a_trial_stops_what_is_tried() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    let server = test_ws.serve();
    let slow = code("slow", "x").replace(
        "    return",
        "    import asyncio\n    open('begun', 'w').close()\n    await asyncio.sleep(600)\n    return",
    );
    write(&server, "slow", &slow);
    let pending = server.start_call("test_tool", &json!({"name": "slow"}));
    let began = Instant::now();
    while !test_ws.at("begun").exists() {
        assert!(began.elapsed() < TIMEOUT, "it never began");
        std::thread::yield_now();
    }
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": pending.id()}});
    server.send(&cancel.to_string());
    // It ran alone, and so does this: it would wait for it.
    write(&server, "greet", &code("greet", "hello"));
    assert_eq!(server.does("greet", &json!({})), "hello you");
    assert!(began.elapsed() < TIMEOUT, "the trial was waited for");
}

#[test]
fn the_tools_are_listed_explained_and_found() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    let server = test_ws.serve();
    write(
        &server,
        "greet",
        &code("greet", "hello").replace("Says it.", "Greets somebody politely. By name."),
    );
    fs::write(test_ws.at(".haft/tools/greet.md"), "Not before nine.").unwrap();
    fs::write(test_ws.at(".haft/tools/broken.py"), "import").unwrap();
    let list = server.does("list_tools", &json!({}));
    assert!(list.contains("\ngreet: Greets somebody politely. [.haft/tools/greet.py]"), "{list}");
    let found = server.does("search_tools", &json!({"query": "greeting somebody", "limit": 1}));
    assert!(found.starts_with("greet: Greets somebody politely. By name.\n"), "{found}");
    let schema = found.lines().find_map(|it| it.trim().strip_prefix("schema: ")).unwrap();
    let schema: Value = serde_json::from_str(schema).unwrap();
    assert_eq!(schema["properties"]["to"]["type"], "string");
    let info = server.does("info", &json!({"name": "greet"}));
    assert!(info.contains("`to` (string)") && info.contains("the file .haft/tools/greet.py"), "{info}");
}

#[test]
fn a_reload_says_what_is_broken_with_the_traceback() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    test_ws.put(".haft/tools/good.py", code("good", "fine"));
    test_ws.put(".haft/tools/bad.py", format!("{}\nraise RuntimeError('not today')\n", code("bad", "x")));
    let server = test_ws.serve_with(&["--trust"]);
    let said = server.call("reload_tools", &json!({}));
    assert!(said.is_error, "{}", said.text);
    for part in
        ["Loaded (1): good\n", "Errors (1):\n .haft/tools/bad.py: RuntimeError: not today\n", "line 8"]
    {
        assert!(said.text.contains(part), "{part}: {}", said.text);
    }
    assert!(server.does("good", &json!({})).starts_with("fine you"));
    test_ws.put(".haft/tools/bad.py", code("bad", "mended"));
    let said = server.does("reload_tools", &json!({}));
    assert!(said.starts_with("Loaded (2): bad, good"), "{said}");
    assert!(server.does("bad", &json!({})).starts_with("mended you"));
}

#[test]
fn where_nothing_may_be_changed_no_tool_is() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    let arguments = json!({"name": "greet", "code": code("greet", "x")});
    let called = test_ws.call_with(&["--sandbox", "read-only"], "write_tool", &arguments).must("denied");
    assert!(called.text().contains("--sandbox"), "{}", called.text());
    assert!(!test_ws.at(".haft").exists());
    test_ws.call("write_tool", &arguments).must("ok");
    let log = test_ws.run(&["log"]).out;
    assert!(log.contains("tool greet"), "{log}");
}

#[test]
fn a_tool_that_a_list_leaves_out_is_not_said_to_be_callable() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    fs::create_dir_all(test_ws.config()).unwrap();
    fs::write(test_ws.config().join("haft.toml"), "tools = [\"write_tool\", \"greet\"]").unwrap();
    let server = test_ws.serve();
    let said = write(&server, "greet", &code("greet", "hello"));
    assert!(said.contains("Call it as `greet`"), "{said}");
    let said = write(&server, "other", &code("other", "hello"));
    assert!(!said.contains("Call it as"), "{said}");
    assert!(said.contains("the list `tools = […]` in haft.toml leaves `other` out"), "{said}");
}

#[test]
fn a_link_makes_no_tool_of_another_file() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    test_ws.put(".git/hooks/pre-commit", "#!/bin/sh\n");
    fs::create_dir_all(test_ws.at(".haft/tools")).unwrap();
    symlink("../../.git/hooks/pre-commit", test_ws.at(".haft/tools/greet.py")).unwrap();
    for tool in ["write_tool", "delete_tool"] {
        let mut arguments = json!({"name": "greet"});
        if tool == "write_tool" {
            arguments["code"] = json!(code("greet", "x"));
        }
        let called = test_ws.call(tool, &arguments).must("denied");
        assert!(called.text().contains("greet.py` is a link"), "{}", called.text());
    }
    assert_eq!(test_ws.text(".git/hooks/pre-commit"), "#!/bin/sh\n");
}

#[test]
fn navi_s_models_find_these_tools_under_their_names() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    let server = test_ws.serve_with(&["--toolset", "navi"]);
    let lacks = server.call("write_tool", &json!({"name": "greet", "code": "x = 1\n"})).text;
    assert!(lacks.contains("the manual of `write_tool` shows") && !lacks.contains("`info`"), "{lacks}");
    write(&server, "greet", &code("greet", "hello"));
    assert!(listed(&server).contains(&"greet".to_owned()));
    let said = server.does("test_tool", &json!({"tool_name": "greet", "params": {"to": "Ada"}}));
    assert!(said.starts_with("ok: greet, ") && said.contains("hello Ada"), "{said}");
    let manual = server.does("tool_manual", &json!({"name": "write_tool"}));
    assert!(manual.contains("async def execute"), "{manual}");
    assert!(server.does("reload_tools", &json!({})).starts_with("Loaded (1): greet"));
    assert!(server.does("list_tools", &json!({})).contains("greet: Says it."));
    server.does("delete_tool", &json!({"name": "greet"}));
    assert_eq!(server.does("reload_tools", &json!({})).lines().next(), Some("No tools loaded."));
}
