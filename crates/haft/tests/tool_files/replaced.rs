//! Tool files in place of built-in tools: only by a person's word, and only the very content that they trusted.

use std::fs;

use serde_json::{Value, json};

use super::folders::put_file;
use crate::support::TestWorkspace;

const SECTIONS: &str = "toolset = \"hyperagents\"\n\
    [tool.bash]\nreplaces_built_in = true\n[tool.editor]\nreplaces_built_in = true\n";

/// Returns a file in HyperAgents' format.
fn hyper(name: &str, says: &str) -> String {
    format!(
        "def tool_info():\n    return {{'name': {name:?}, 'description': 'For a test.', 'input_schema': \
         {{'type': 'object', 'properties': {{'command': {{'type': 'string'}}}}, 'required': ['command']}}}}\n\n\
         def tool_function(command):\n    return {says:?} + command\n"
    )
}

fn names(test_ws: &TestWorkspace) -> Vec<String> {
    let ran = test_ws.run(&["tools", "--json"]);
    let tools: Vec<Value> = serde_json::from_str(&ran.out).unwrap();
    tools.iter().map(|it| it["name"].as_str().unwrap().to_owned()).collect()
}

fn bash(test_ws: &TestWorkspace) -> (String, String) {
    let called = test_ws.call("bash", &json!({"command": "echo from the shell"}));
    (called.kind().to_owned(), called.text().trim().to_owned())
}

#[test]
fn a_persons_file_takes_the_name_of_a_built_in_tool_once_it_is_trusted() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    let own = test_ws.config().join("tools");
    put_file(&own, "bash.py", &hyper("bash", "mine: "));
    put_file(&own, "edit.py", &hyper("editor", "my editor: "));
    fs::write(test_ws.config().join("haft.toml"), "toolset = \"hyperagents\"\n").unwrap();
    assert_eq!(bash(&test_ws), ("ok".to_owned(), "from the shell".to_owned()));
    let ran = test_ws.run(&["tools"]);
    assert!(ran.err.contains("`replaces_built_in = true` under `[tool.bash]` in haft.toml"), "{ran:?}");

    // The configuration replaces haft's own tool: until the person's file is trusted, there is none.
    fs::write(test_ws.config().join("haft.toml"), SECTIONS).unwrap();
    assert_eq!(names(&test_ws), Vec::<String>::new());
    let (kind, text) = bash(&test_ws);
    assert!(kind == "not_found" && text.contains("`haft trust bash`"), "{kind}: {text}");

    let ran = test_ws.run(&["trust", "bash", "editor"]);
    assert!(ran.code == 0 && ran.out.contains("replaces the built-in tool of its name"), "{ran:?}");
    assert_eq!(names(&test_ws), ["bash", "editor"]);
    assert_eq!(bash(&test_ws), ("ok".to_owned(), "mine: echo from the shell".to_owned()));
    let called = test_ws.call("editor", &json!({"command": "view"}));
    assert_eq!(called.must("ok").text(), "my editor: view");
    assert_eq!(test_ws.run(&["tools"]).err, "");

    put_file(&own, "bash.py", &hyper("bash", "another: "));
    let (kind, text) = bash(&test_ws);
    assert!(kind == "not_found" && text.contains("`haft trust bash`"), "{kind}: {text}");
    assert_eq!(names(&test_ws), ["editor"]);
}

#[test]
fn neither_an_untrusted_workspace_nor_a_model_takes_the_name_of_a_built_in_tool() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    let tools = test_ws.at(".haft/tools");
    fs::write(test_ws.at("haft.toml"), "[tool.bash]\nreplaces_built_in = true\n").unwrap();
    put_file(&tools, "bash.py", &hyper("bash", "theirs: "));
    assert_eq!(bash(&test_ws), ("ok".to_owned(), "from the shell".to_owned()));

    assert_eq!(test_ws.run(&["trust"]).code, 0);
    assert_eq!(bash(&test_ws), ("ok".to_owned(), "theirs: echo from the shell".to_owned()));
    let code = "name = 'bash'\ndescription = 'For a test.'\nparameters = {'type': 'object', 'properties': \
                {'command': {'type': 'string'}}}\nasync def execute(args):\n    return 'the models'\n";
    test_ws.call("write_tool", &json!({"name": "bash", "code": code}));
    fs::write(tools.join("bash.py"), code).unwrap();
    let (kind, text) = bash(&test_ws);
    assert!(kind == "not_found" && !text.contains("the models"), "{kind}: {text}");
}
