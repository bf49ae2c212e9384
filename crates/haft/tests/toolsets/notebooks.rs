//! Jupyter notebooks by cell, across calls and processes.

use serde_json::{Value, json};

use super::TestWorkspace;

const NOTEBOOK: &str = "{\n \"cells\": [\n  {\n   \"cell_type\": \"code\",\n   \"execution_count\": 1,\n   \"id\": \"c0ffee01\",\n   \"metadata\": {},\n   \"outputs\": [],\n   \"source\": [\n    \"x = 1\\n\",\n    \"x\"\n   ]\n  }\n ],\n \"metadata\": {},\n \"nbformat\": 4,\n \"nbformat_minor\": 5\n}\n";

#[test]
fn a_cell_is_named_as_it_is_shown_also_in_another_process() {
    let test_ws = TestWorkspace::new();
    test_ws.put("a.ipynb", NOTEBOOK);
    let shown = test_ws.call("notebook_read", &json!({"path": "a.ipynb"})).must("ok").text();
    let anchor = shown.lines().find_map(|it| it.strip_prefix('[')?.split_once(']')).unwrap().0.to_owned();
    // An index says nothing where nobody was shown what it has.
    test_ws.put("b.ipynb", NOTEBOOK);
    test_ws
        .call("notebook_edit", &json!({"path": "b.ipynb", "edits": [{"cell": 0, "source": "y"}]}))
        .must("stale");
    let edits = json!([{"cell": anchor, "old": "x = 1", "new": "x = 2"}, {"cell": 0, "action": "insert_after", "source": "# so", "type": "markdown"}]);
    let said = test_ws.call("notebook_edit", &json!({"path": "a.ipynb", "edits": edits})).must("ok").text();
    assert!(said.starts_with("Updated a.ipynb: cell 0 changed, markdown cell inserted"), "{said}");
    let after: Value = serde_json::from_str(&test_ws.text("a.ipynb")).unwrap();
    assert_eq!(after["cells"][0]["source"], json!(["x = 2\n", "x"]));
    assert_eq!(after["cells"][1]["source"], json!(["# so"]));
    // The cell is not what it was, so its name is no more.
    let edits = json!([{"cell": anchor, "source": "z"}]);
    let said =
        test_ws.call("notebook_edit", &json!({"path": "a.ipynb", "edits": edits})).must("stale").text();
    assert!(said.contains("x = 2"), "{said}");
    // And all of it can be undone.
    assert_eq!(test_ws.run(&["undo"]).code, 0);
    assert_eq!(test_ws.text("a.ipynb"), NOTEBOOK);
}
