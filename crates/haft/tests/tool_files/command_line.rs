//! Results of tools on the command line.

use serde_json::{Value, json};

use super::folders::put_file;
use crate::support::TestWorkspace;

#[test]
fn pictures_and_links_are_named_and_json_has_their_data() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    let code = "from kohakuterrarium.modules.tool.base import ToolResult\n\
        name = 'parts'\ndescription = 'd'\nparameters = {'type': 'object', 'properties': {}}\n\
        PNG = 'data:image/png;base64,iVBORw0KGgo='\n\
        async def execute(args):\n    return ToolResult(output=['see', {'type': 'image_url', 'url': PNG}, 'end'])\n";
    put_file(&test_ws.config().join("tools"), "parts.py", code);
    let ran = test_ws.run(&["call", "parts"]);
    assert_eq!(ran.out, "see\n[image: image/png, 8 bytes; --json has its data]\nend\n", "{ran:?}");
    let ran = test_ws.run(&["call", "--json", "parts"]);
    let whole: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(
        whole["content"][1],
        json!({"type": "image", "mime": "image/png", "data": "iVBORw0KGgo="}),
        "{whole}"
    );
}

#[test]
fn manual_without_a_name_lists_the_tools_that_have_one() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    put_file(&test_ws.config().join("tools"), "plain.py", &super::support::navi("plain", "return 1").1);
    let ran = test_ws.run(&["manual"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let names: Vec<&str> = ran.out.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.contains(&"write_tool") && !names.contains(&"plain"), "{}", ran.out);
    assert!(ran.out.trim_end().ends_with("it shows description and arguments."), "{}", ran.out);
}
