//! Manuals of tools, and tools that wait until theirs was read.

use serde_json::json;

use super::{folders::put_file, support::after};
use crate::support::TestWorkspace;

const TERRARIUM: &str = "from kohakuterrarium.modules.tool.base import BaseTool, ToolResult\n\
    class Strict(BaseTool):\n    require_manual_read = True\n    tool_name = 'strict'\n    description = 'D.'\n\
    \x20   def get_parameters_schema(self):\n        return {'type': 'object', 'properties': {}}\n\
    \x20   async def _execute(self, args, **others):\n        return ToolResult(output='done', exit_code=0)\n";

#[test]
fn a_file_that_asks_for_it_is_called_only_once_its_manual_was_read() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    let tools = test_ws.config().join("tools");
    put_file(&tools, "strict.py", TERRARIUM);
    put_file(&tools, "module.py", &after("manual_first = True", "module", "return 'done'").1);
    put_file(&tools, "told.py", &after("", "told", "return 'done'").1);
    put_file(&tools, "free.py", &after("", "free", "return 'done'").1);
    put_file(
        &tools,
        "cmd.tool.toml",
        "name = 'cmd'\ndescription = 'D.'\ncommand = ['true']\nmanual_first = true\n",
    );
    put_file(&test_ws.config(), "haft.toml", "[tool.told]\nmanual_first = true\n");
    let call = |tool: &str| test_ws.call_with(&["--session", "s"], tool, &json!({}));
    call("free").must("ok");
    for tool in ["strict", "module", "told", "cmd"] {
        let refused = call(tool).must("stale").text();
        assert!(refused.contains(&format!("Call `info` with {{\"name\": \"{tool}\"}}")), "{refused}");
        test_ws.call_with(&["--session", "s"], "info", &json!({"name": tool})).must("ok");
        call(tool).must("ok");
    }
    // Under navi's names the tool that shows manuals has another.
    put_file(&tools, "enabled.json", "[\"module\"]");
    let navi =
        |tool: &str, arguments| test_ws.call_with(&["--toolset", "navi", "--session", "n"], tool, &arguments);
    let refused = navi("module", json!({})).must("stale").text();
    assert!(refused.contains("Call `tool_manual` with"), "{refused}");
    navi("tool_manual", json!({"name": "module"})).must("ok");
    navi("module", json!({})).must("ok");
}

#[test]
fn a_workspaces_own_manual_counts_first_once_the_workspace_is_trusted() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    put_file(
        &test_ws.config().join("tools"),
        "mine.py",
        &after("manual = 'Of the file.'", "mine", "return 1").1,
    );
    test_ws.put(".haft/manuals/mine.md", "Of the workspace.");
    test_ws.put(".haft/manuals/glob.md", "Look in src first.");
    std::os::unix::fs::symlink(test_ws.outside().join("x"), test_ws.at(".haft/manuals/grep.md")).unwrap();
    std::fs::write(test_ws.outside().join("x"), "From outside.").unwrap();
    let info =
        |options: &[&str], tool: &str| test_ws.call_with(options, "info", &json!({"name": tool})).text();
    assert!(info(&[], "mine").contains("Of the file.") && !info(&[], "glob").contains("Look in src"));
    let trusted = ["--trust"];
    assert!(
        info(&trusted, "mine").contains("Of the workspace.")
            && !info(&trusted, "mine").contains("Of the file.")
    );
    assert!(info(&trusted, "glob").contains("Look in src first."));
    assert!(!info(&trusted, "grep").contains("From outside."));
    assert!(test_ws.run(&["--trust", "manual", "glob"]).out.contains("Look in src first."));
}
