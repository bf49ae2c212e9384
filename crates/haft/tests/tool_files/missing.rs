//! Calls of tools that are not there: the error says why.

use serde_json::json;

use super::folders::{put, put_file};
use crate::support::{Server, TestWorkspace};

fn refused(server: &Server, name: &str) -> String {
    let answer = server.start_call(name, &json!({})).wait().unwrap();
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    answer["error"]["message"].as_str().unwrap().to_owned()
}

#[test]
fn a_client_is_told_why_a_tool_is_missing() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    put_file(&test_ws.config().join("tools"), "broken.py", "import no_such_module_at_all\n");
    put(&test_ws.at(".haft/tools"), "waits", "return 1");
    let server = test_ws.serve();
    let said = refused(&server, "broken");
    assert!(said.starts_with("there is no tool `broken`: "), "{said}");
    assert!(
        said.contains("broken.py could not be loaded: ModuleNotFoundError") && !said.contains('\n'),
        "{said}"
    );
    let waits = ".haft/tools/waits.py is ignored until a person runs `haft trust`";
    assert_eq!(refused(&server, "waits"), format!("there is no tool `waits`: {waits}"));
    assert_eq!(refused(&server, "globb"), "there is no tool `globb`: did you mean `glob`?");
    assert_eq!(
        refused(&server, "xyzzy"),
        "there is no tool `xyzzy`: `search_tools` finds those that are not listed"
    );
    server.kill();
    // The same by the command line, which says it whole, and tells no other names.
    let said = test_ws.call("waits", &json!({})).must("not_found").text();
    assert_eq!(said, format!("there is no tool `waits` in this session: {waits}"));
}

#[test]
fn many_names_are_not_told_to_who_can_ask_for_them() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    for number in 0..31 {
        put(&test_ws.config().join("tools"), &format!("numbered_{number}"), "return 1");
    }
    let said = test_ws.call("xyzzy", &json!({})).must("not_found").text();
    assert!(said.contains("\n`list_tools` names the ") && !said.contains("numbered_"), "{said}");
}
