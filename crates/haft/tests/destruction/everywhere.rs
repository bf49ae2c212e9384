//! Deletions that are too much, by everything that runs commands: jobs, programs in a terminal, Python, tool files,
//! MCP servers, and the person.

use std::time::Instant;

use serde_json::{Value, json};

use super::{script, tree::Tree};
use crate::support::{Ran, Server, TIMEOUT, TestWorkspace, run};

/// A workspace with 80 files.
fn many() -> TestWorkspace {
    let test_ws = TestWorkspace::new();
    script(&test_ws, "mkdir many; for i in $(seq 80); do echo $i > many/$i; done; echo keep > keep");
    test_ws
}

/// Asserts that a call was denied and nothing changed.
#[track_caller]
fn put_back(test_ws: &TestWorkspace, before: &Tree, text: &str) {
    assert_eq!(before.differences(&Tree::of(&test_ws.at(""))), Vec::<String>::new(), "{text}");
    assert!(text.contains("80 files in many/") && text.contains("nothing was changed"), "{text}");
}

#[test]
fn job_is_checked_when_it_ends() {
    let test_ws = many();
    let before = Tree::of(&test_ws.at(""));
    let command = json!({"command": "rm -rf many", "run_in_background": true});
    let calls = test_ws.batch(&[], &[("shell", command), ("wait", json!({"job": "job_1"}))]);
    put_back(&test_ws, &before, &calls[1].text());
    let log = test_ws.log();
    assert!(log.iter().any(|it| it["tool"] == "shell" && it["outcome"] == "denied"), "{log:?}");
}

#[test]
fn command_that_went_to_the_background_is_checked_when_it_ends() {
    let test_ws = many();
    let before = Tree::of(&test_ws.at(""));
    let server = test_ws.serve();
    let command = json!({"command": "read line; rm -rf many", "input": true, "wait_ms": 0});
    assert!(server.does("shell", &command).contains("job_1"));
    server.does("shell_status", &json!({"action": "input", "job": "job_1", "text": "go\n"}));
    let said = told(&server, "wait", &json!({"job": "job_1"}));
    put_back(&test_ws, &before, &said);
    server.finish();
}

/// Returns the text of an answer, also of a fault.
fn told(server: &Server, tool: &str, arguments: &Value) -> String {
    server.call(tool, arguments).text
}

#[test]
fn each_interaction_with_a_program_in_a_terminal_is_checked() {
    let test_ws = many();
    let before = Tree::of(&test_ws.at(""));
    let server = test_ws.serve();
    let bash = json!({"command": "PS1='> ' bash --norc --noprofile", "until": "^> $"});
    assert!(server.does("interact", &bash).contains("job_1"));
    let types = |text: &str, number: usize| {
        let input =
            json!({"text": format!("{text}; echo do\"\"ne {number}\r"), "until": format!("^done {number}")});
        told(&server, "continue_job", &json!({"job": "job_1", "input": input}))
    };
    // The second time, the files are again those of before.
    for number in 0..2 {
        put_back(&test_ws, &before, &types("rm -rf many", number));
    }
    let said = types("rm keep", 2);
    assert!(!said.contains("rule `too_much`") && !test_ws.at("keep").exists(), "{said}");
    server.finish();
}

#[test]
fn command_in_the_session_s_bash_is_checked() {
    let test_ws = many();
    let before = Tree::of(&test_ws.at(""));
    for _ in 0..2 {
        let calls = [("bash", json!({"command": "cd many"})), ("bash", json!({"command": "rm -rf ../many"}))];
        let calls = test_ws.batch(&[], &calls);
        put_back(&test_ws, &before, &calls[1].text());
    }
}

#[test]
fn python_code_is_checked() {
    kit::needs!(Python);
    let test_ws = many();
    let before = Tree::of(&test_ws.at(""));
    let code = json!({"code": "import shutil; shutil.rmtree('many')"});
    put_back(&test_ws, &before, &test_ws.call("python", &code).must("denied").text());
}

#[test]
fn tool_files_are_checked() {
    kit::needs!(Python);
    let test_ws = many();
    let tools = test_ws.config().join("tools");
    std::fs::create_dir_all(&tools).unwrap();
    let wipe = "name = 'wipe'\ndescription = 'Wipes.'\nparameters = {'type': 'object', 'properties': {}}\n\
        touches = ['write .']\nimport shutil\nasync def execute(args):\n    shutil.rmtree('many')\n    return 'wiped'\n";
    std::fs::write(tools.join("wipe.py"), wipe).unwrap();
    let program = "#!/bin/sh\nif [ \"${1-}\" = --tool ]; then\n  echo '{\"name\": \"purge\", \"description\": \"Purges.\", \
        \"parameters\": {\"type\": \"object\"}, \"touches\": [\"write .\"]}'\n  exit\nfi\nrm -rf many\n";
    std::fs::write(tools.join("purge.sh"), program).unwrap();
    script(&test_ws, &format!("chmod +x {}", tools.join("purge.sh").display()));
    let before = Tree::of(&test_ws.at(""));
    for tool in ["wipe", "purge"] {
        put_back(&test_ws, &before, &test_ws.call(tool, &json!({})).must("denied").text());
    }
}

/// An MCP server with one tool, which deletes the folder.
const SERVER: &str = r#"
import json, shutil, sys
for line in sys.stdin:
    said = json.loads(line)
    if "id" not in said:
        continue
    if said["method"] == "initialize":
        result = {"protocolVersion": said["params"]["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "wiper", "version": "1"}}
    elif said["method"] == "tools/list":
        result = {"tools": [{"name": "wipe", "description": "Wipes.", "inputSchema": {"type": "object"}}]}
    elif said["method"] == "tools/call":
        shutil.rmtree("many")
        result = {"content": [{"type": "text", "text": "wiped"}]}
    else:
        result = {}
    print(json.dumps({"jsonrpc": "2.0", "id": said["id"], "result": result}), flush=True)
"#;

#[test]
fn mcp_servers_are_checked() {
    kit::needs!(Python);
    let test_ws = many();
    test_ws.put("server.py", SERVER);
    std::fs::create_dir_all(test_ws.config()).unwrap();
    let config = "[mcp.wiper]\ncommand = \"python3\"\nargs = [\"server.py\"]\n";
    std::fs::write(test_ws.config().join("haft.toml"), config).unwrap();
    let before = Tree::of(&test_ws.at(""));
    let server = test_ws.serve_with(&["--approve", "auto"]);
    // One process of the server serves both.
    for _ in 0..2 {
        let arguments = json!({"server": "wiper", "name": "wipe", "arguments": {}});
        put_back(&test_ws, &before, &told(&server, "mcp_call", &arguments));
    }
    server.finish();
}

/// Makes calls until an answer says that haft has put something back by itself; returns it.
#[track_caller]
fn after_it_was_put_back(server: &Server) -> String {
    let began = Instant::now();
    loop {
        let said = told(server, "bash", &json!({"command": "echo next"}));
        if said.contains("nothing was changed") {
            return said;
        }
        assert!(began.elapsed() < TIMEOUT, "nothing was put back");
    }
}

#[test]
fn process_that_goes_on_after_its_call_is_checked_and_the_next_answer_says_it() {
    let test_ws = many();
    let before = Tree::of(&test_ws.at("many"));
    let server = test_ws.serve();
    let command = "(while [ ! -e go ]; do sleep 0.01; done; rm -rf many) & true";
    server.does("bash", &json!({"command": command}));
    assert!(test_ws.at("many").exists());
    test_ws.put("go", "");
    let said = after_it_was_put_back(&server);
    assert_eq!(before.differences(&Tree::of(&test_ws.at("many"))), Vec::<String>::new(), "{said}");
    assert!(said.contains("left running") && said.contains("80 files in many/"), "{said}");
    let _ = server.finish();
}

#[test]
fn mcp_server_that_wipes_between_calls_is_checked() {
    kit::needs!(Python);
    let test_ws = many();
    let later = "        import os, threading, time\n        def later():\n            while not os.path.exists(\"go\"):\n                \
        time.sleep(0.01)\n            shutil.rmtree(\"many\")\n        threading.Thread(target=later).start()\n";
    let server = SERVER.replace("        shutil.rmtree(\"many\")\n", later);
    assert_ne!(server, SERVER);
    test_ws.put("server.py", &server);
    std::fs::create_dir_all(test_ws.config()).unwrap();
    let config = "[mcp.wiper]\ncommand = \"python3\"\nargs = [\"server.py\"]\n";
    std::fs::write(test_ws.config().join("haft.toml"), config).unwrap();
    let before = Tree::of(&test_ws.at("many"));
    let server = test_ws.serve_with(&["--approve", "auto"]);
    server.does("mcp_call", &json!({"server": "wiper", "name": "wipe", "arguments": {}}));
    test_ws.put("go", "");
    let said = after_it_was_put_back(&server);
    assert_eq!(before.differences(&Tree::of(&test_ws.at("many"))), Vec::<String>::new(), "{said}");
    assert!(said.contains("80 files in many/"), "{said}");
    let _ = server.finish();
}

/// Types these lines into a chat whose model gives these answers.
fn chat(test_ws: &TestWorkspace, answers: &[Value], options: &[&str], lines: &str) -> Ran {
    let file = test_ws.base().join("script.jsonl");
    std::fs::write(&file, answers.iter().map(|it| format!("{it}\n")).collect::<String>()).unwrap();
    let model = format!("script:{}", file.display());
    run(&mut test_ws.haft(&[&["chat", "--model", &model], options].concat()), lines)
}

#[test]
fn command_of_the_person_s_is_done_and_they_are_told_how_to_take_it_back() {
    let test_ws = many();
    let before = Tree::of(&test_ws.at(""));
    let says = json!({"say": "Gone.", "expect": ["80 files in many/"]});
    let ran = chat(&test_ws, &[says], &[], "!rm -rf many\nwhat happened?\n");
    assert!(
        ran.out.contains("this deletes or empties 80 files in many/; `/undo` brings that back"),
        "{ran:?}"
    );
    assert!(!test_ws.at("many").exists(), "{ran:?}");
    let ran = chat(&test_ws, &[], &["--resume"], "/undo\n");
    assert_eq!(before.differences(&Tree::of(&test_ws.at(""))), Vec::<String>::new(), "{ran:?}");
}
