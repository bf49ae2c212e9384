//! Promises that every tool keeps, present and future.

use std::{collections::HashSet, fs, os::unix::fs::symlink, sync::Arc, time::Duration};

use expect_test::expect_file;
use kit::{
    AnyTool, Fault, Kind, Kinds, Output, Spec, Touch, references::in_own_names, testing::TestWorkspace,
};
use serde_json::{Value, json};

/// Maximum bytes of one tool in a model's tool list, and of all together (under 5,000 tokens).
const TOOL_BYTES: usize = 2_000;
const ALL_BYTES: usize = 32_000;

/// Maximum bytes of the tools that only an agent has.
const AGENT_BYTES: usize = 2_600;

/// Returns every tool of every toolset, with its toolset.
fn every_tool() -> Vec<(&'static str, Arc<dyn AnyTool>)> {
    let all = |name| [tools::toolset(name).unwrap(), tools::of_agents(name)].concat();
    let of = |name| all(name).into_iter().map(move |tool| (name, tool));
    tools::toolsets().flat_map(of).collect()
}

/// Returns arguments with which each tool works on the file `path`; a tool without a line here fails the tests.
fn arguments(toolset: &str, tool: &str, path: &str) -> Value {
    match (toolset, tool) {
        (_, "read") => json!({"path": path}),
        ("terrarium", "edit") => json!({"path": path, "old": "inside", "new": "x"}),
        ("terrarium", "write") => json!({"path": path, "content": "x"}),
        ("terrarium", "glob") => json!({"path": path, "pattern": "*"}),
        ("terrarium", "tree") => json!({"path": path}),
        ("terrarium", "read_job" | "wait" | "stop_task") => json!({"job_id": "job_1"}),
        ("terrarium", "show_card") => json!({"title": "look", "actions": [{"id": "yes"}]}),
        ("nav", "edit") => json!({"path": path, "old_string": "inside", "new_string": "x"}),
        (_, "edit") => json!({"path": path, "edits": [{"old": "inside", "new": "x"}]}),
        (_, "write") => json!({"path": path, "content": "x", "overwrite": true}),
        ("nav", "skim") => json!({"path": path, "start_line": 1}),
        (_, "skim") => json!({"path": path, "start": 1}),
        (_, "filegrep") => json!({"path": path, "pattern": "inside"}),
        (_, "editor") => json!({"path": path, "command": "view"}),
        (_, "json_read") => json!({"path": path}),
        (_, "json_write") => json!({"path": path, "pointer": "/a", "value": 1}),
        ("terrarium", "multi_edit") => json!({"path": path, "edits": [{"old": "inside", "new": "x"}]}),
        ("terrarium", "notebook_edit") => {
            json!({"path": path, "edits": [{"cell_id": "cell-0", "new_source": "inside"}]})
        }
        (_, "notebook_read") => json!({"path": path}),
        (_, "notebook_edit") => json!({"path": path, "edits": [{"cell": 0, "source": "inside"}]}),
        ("navi", "web_view") => json!({"url": "https://example.org"}),
        ("navi", "filesystem") => json!({"action": "read", "path": path}),
        (_, "undo") => json!({"path": path}),
        (_, "grep") => json!({"path": path, "pattern": "inside"}),
        (_, "glob") => json!({"dir": path, "pattern": "*"}),
        (_, "tree") => json!({"dir": path}),
        (_, "http_request") => json!({"url": "http://127.0.0.1:9/", "upload": path}),
        (_, "jobs") => json!({}),
        (_, "read_job" | "wait" | "stop_task") => json!({"job": "job_1"}),
        (_, "continue_job") => json!({"job": "job_1", "input": path}),
        ("terrarium", "python") | (_, "code_exec") => json!({"code": "1"}),
        ("nav", "shell") | (_, "bash" | "interact" | "terminal") => json!({"command": "true"}),
        ("nav", "shell_status") => json!({"action": "status", "pid": 1}),
        (_, "shell_status") => json!({"action": "kill", "job": "job_1"}),
        (_, "shell") => json!({"command": "true", "dir": path}),
        (_, "python") => json!({"code": "1", "dir": path}),
        (_, "list_tools" | "reload_tools") => json!({}),
        (_, "search_tools") => json!({"query": "file"}),
        (_, "call_tool") => json!({"name": "some_tool"}),
        (_, "info" | "tool_manual" | "delete_tool") => json!({"name": "some_tool"}),
        (_, "write_tool") => json!({"name": "some_tool", "code": path}),
        (_, "todo") => json!({}),
        ("terrarium", "scratchpad") => json!({"action": "list"}),
        (_, "scratchpad") => json!({"action": "read"}),
        (_, "memory") => json!({"action": "search"}),
        (_, "search_memory") => json!({"query": "inside"}),
        ("navi", "test_tool") => json!({"tool_name": "some_tool", "params": {}}),
        ("nav", "subagent") => json!({"agent": "explore", "prompt": "look"}),
        (_, "subagent") => json!({"prompt": "look"}),
        (_, "spawn_agent" | "explore" | "critic") => json!({"task": "look"}),
        (_, "group_send") => json!({"to": "bob", "message": "hello"}),
        (_, "send_channel" | "send_message") => json!({"channel": "tasks", "message": "hello"}),
        (_, "group_status") => json!({}),
        (_, "group_spawn_child") => json!({"config_ref": "creatures/worker"}),
        (_, "group_add_node") => json!({"config_path": "creatures/worker"}),
        (
            _,
            "group_remove_node" | "group_start_node" | "group_stop_node" | "group_pause_node"
            | "group_resume_node" | "group_kill_node",
        ) => json!({"creature_id": "worker"}),
        (_, "group_channel") => json!({"action": "delete", "channel": "tasks"}),
        (_, "group_wire") => json!({"action": "remove", "edge_id": "wire_1"}),
        (_, "list_profiles") => json!({}),
        (_, "list_triggers") => json!({}),
        (_, "add_timer") => json!({"interval": 5, "prompt": "look"}),
        (_, "add_schedule") => json!({"daily_at": "07:30", "prompt": "look"}),
        (_, "watch_channel") => json!({"channel_name": "news"}),
        (_, "watch_files") => json!({"glob": ["*.rs"], "prompt": "look"}),
        (_, "watch_job") => json!({"job": "job_1", "prompt": "look"}),
        (_, "webhook") => json!({"prompt": "look"}),
        (_, "delete_trigger") => json!({"trigger_id": "t"}),
        ("navi", "switch_profile") => json!({"profile_id": "plan"}),
        (_, "switch_profile") => json!({"profile": "plan"}),
        ("nav", "ask_user") => json!({"questions": ["which one?"]}),
        (_, "ask_user") => json!({"question": "which one?"}),
        (_, "reflect") => json!({"situation": "it hangs", "assumptions": "none"}),
        (_, "test_tool") => json!({"name": "some_tool", "arguments": {}}),
        (_, "web_fetch") => json!({"url": "https://example.invalid/"}),
        (_, "web_search") => json!({"query": "inside"}),
        (_, "ssh_exec") => json!({"host": "127.0.0.1:1", "command": "true"}),
        (_, "mcp_status" | "mcp_list") => json!({}),
        (_, "mcp_call") => json!({"server": "some_server", "name": "some_tool"}),
        (_, "mcp_connect" | "mcp_disconnect") => json!({"server": "some_server"}),
        (_, "scad_lint") => json!({"path": path}),
        (_, "model_3d") => json!({"path": path, "output": "part.stl"}),
        (_, "render_3d") => json!({"path": path}),
        (_, "image_view" | "share_file" | "content_publish") => json!({"path": path}),
        _ => panic!("`{tool}` of `{toolset}` needs a line in this test"),
    }
}

/// Returns whether this tool takes a path. Tools that run commands are tested on the program, in its sandbox.
fn takes_a_path(toolset: &str, tool: &str) -> bool {
    match (toolset, tool) {
        ("nav", "shell") | ("terrarium", "python") => false,
        (_, "bash" | "interact" | "ssh_exec" | "terminal" | "code_exec" | "shell_status") => false,
        _ => !WITHOUT_PATH.contains(&tool),
    }
}

/// Tools that have no path among their arguments, and touch no file by themselves.
const WITHOUT_PATH: &[&str] = &[
    "subagent",
    "spawn_agent",
    "explore",
    "critic",
    "group_send",
    "send_channel",
    "send_message",
    "group_status",
    "group_spawn_child",
    "group_add_node",
    "group_remove_node",
    "group_start_node",
    "group_stop_node",
    "group_pause_node",
    "group_resume_node",
    "group_kill_node",
    "group_channel",
    "group_wire",
    "list_profiles",
    "switch_profile",
    "ask_user",
    "show_card",
    "reflect",
    "add_timer",
    "add_schedule",
    "watch_channel",
    "watch_files",
    "watch_job",
    "webhook",
    "list_triggers",
    "delete_trigger",
    "jobs",
    "read_job",
    "wait",
    "stop_task",
    "continue_job",
    "list_tools",
    "search_tools",
    "call_tool",
    "info",
    "tool_manual",
    "write_tool",
    "test_tool",
    "delete_tool",
    "reload_tools",
    "todo",
    "scratchpad",
    "memory",
    "search_memory",
    "mcp_status",
    "mcp_list",
    "mcp_call",
    "mcp_connect",
    "mcp_disconnect",
    "web_fetch",
    "web_search",
    "web_view",
];

const NOTEBOOK: &str = "{\"cells\": [], \"nbformat\": 4, \"nbformat_minor\": 5}\n";

fn properties(spec: &Spec) -> Vec<(&String, &Value)> {
    spec.schema.get("properties").and_then(Value::as_object).expect("an object's schema").iter().collect()
}

fn call(test_ws: &TestWorkspace, tool: &Arc<dyn AnyTool>, arguments: &Value) -> Result<Output, Fault> {
    test_ws.call_any(&**tool, arguments)
}

#[test]
fn names_are_well_formed_and_unique() {
    for toolset in tools::toolsets() {
        let mut seen = HashSet::new();
        for tool in [tools::toolset(toolset).unwrap(), tools::of_agents(toolset)].concat() {
            let name = tool.spec().name.clone();
            assert!(
                name.bytes().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'_'),
                "{name}"
            );
            assert!(seen.insert(name.clone()), "{name} twice in {toolset}");
        }
    }
}

#[test]
fn every_tool_and_every_field_is_described_within_the_budget() {
    for (toolset, tool) in every_tool() {
        let spec = tool.spec();
        let description = in_own_names(&spec.description);
        assert!(description.trim_end().ends_with(['.', ')']), "{}: {description}", spec.name);
        assert!(spec.bytes() <= TOOL_BYTES, "{toolset} {} costs {} bytes", spec.name, spec.bytes());
        check_described(&spec.name, &spec.schema);
        assert_eq!(spec.schema.get("additionalProperties"), Some(&Value::Bool(false)), "{}", spec.name);
    }
    let all: usize = tools::all().iter().map(|tool| tool.spec().bytes()).sum();
    assert!(all <= ALL_BYTES, "all tools cost {all} bytes");
    // Those of a group come on top of that.
    let in_a_group =
        |name: &str| name.starts_with("group_") && name != "group_send" || name.starts_with("send_");
    let agents: usize = tools::of_agents(tools::HAFT)
        .iter()
        .map(|tool| tool.spec())
        .filter(|it| !in_a_group(&it.name) && !tools::UNLISTED.contains(&it.name.as_str()))
        .map(kit::Spec::bytes)
        .sum();
    assert!(agents <= AGENT_BYTES, "an agent's tools cost {agents} bytes");
}

fn check_described(at: &str, schema: &Value) {
    for (name, field) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let described = field.get("description").and_then(Value::as_str).is_some_and(|it| it.len() > 5);
        assert!(described, "{at}.{name} has no description");
        check_described(&format!("{at}.{name}"), field);
        if let Some(items) = field.get("items") {
            check_described(&format!("{at}.{name}[]"), items);
        }
    }
    assert!(!schema.to_string().contains("$ref"), "{at}: models cope badly with references");
}

#[test]
fn definitions_equal_the_catalog_snapshot() {
    let mut shown = String::new();
    for tool in [tools::all(), tools::of_agents(tools::HAFT)].concat() {
        let spec = tool.spec();
        let schema = serde_json::to_string_pretty(&spec.schema).unwrap();
        shown.push_str(&in_own_names(&format!("# {}\n{}\n{schema}", spec.name, spec.description)));
        shown.push_str("\n\n");
    }
    expect_file!["catalog.snap"].assert_eq(&shown);
}

#[test]
fn every_tool_has_its_place_in_the_order_of_importance() {
    let mut tools: Vec<String> = [tools::all(), tools::of_agents(tools::HAFT)]
        .concat()
        .iter()
        .map(|tool| tool.spec().name.clone())
        .filter(|name| !tools::finders().iter().any(|it| it.spec().name == *name))
        .collect();
    let mut placed: Vec<&str> = [tools::DAILY, tools::SELDOM].concat();
    tools.sort();
    placed.sort_unstable();
    assert_eq!(tools, placed);
    let bytes =
        |name: &str| tools::all().iter().find(|it| it.spec().name == name).map_or(0, |it| it.spec().bytes());
    // A list of 8 kB has space for them and for the two that find the others, with what surrounds each.
    let in_clients = |name: &&str| ["ask_user", "subagent"].contains(name);
    let daily =
        tools::DAILY.iter().copied().filter(|it| !in_clients(it)).chain(["search_tools", "call_tool"]);
    let daily: usize = daily.map(|name| bytes(name) + 60).sum();
    assert!(daily <= 7_700, "the daily ones cost {daily} bytes");
}

#[test]
fn every_manual_belongs_to_a_tool_and_every_file_is_listed() {
    let tools: HashSet<String> = tools::all().iter().map(|tool| tool.spec().name.clone()).collect();
    let files = fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/manuals")).unwrap();
    for file in files {
        let name = file.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned();
        assert!(tools.contains(&name), "manuals/{name}.md belongs to no tool");
        assert!(
            tools::manual(&name).is_some_and(|it| it.len() > 100),
            "manuals/{name}.md is not listed, or empty"
        );
    }
}

#[test]
fn every_hint_is_short_belongs_to_a_tool_and_names_no_other() {
    let all = [tools::all(), tools::of_agents(tools::HAFT)].concat();
    let tools: HashSet<String> = all.iter().map(|tool| tool.spec().name.clone()).collect();
    let listed: HashSet<&str> = tools::HINTS.iter().map(|(name, ..)| *name).collect();
    for file in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/hints")).unwrap() {
        let name = file.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned();
        assert!(name.starts_with('_') || listed.contains(&*name), "hints/{name}.md is not listed");
    }
    let commands = ("_commands", tools::COMMANDS);
    for (name, text) in tools::HINTS.iter().map(|&(name, _, text)| (name, text)).chain([commands]) {
        assert!(name.starts_with('_') || tools.contains(name), "hints/{name}.md belongs to no tool");
        assert!(
            text.len() < 400 && text.trim().lines().count() == 1,
            "hints/{name}.md is not one short paragraph"
        );
        for quoted in text.split('`').skip(1).step_by(2) {
            assert!(
                quoted == name || !tools.contains(quoted),
                "hints/{name}.md names `{quoted}`, which may be absent"
            );
        }
    }
}

#[test]
fn a_tools_line_in_the_list_names_no_other_tool() {
    for toolset in tools::toolsets() {
        let specs: Vec<Spec> =
            tools::toolset(toolset).unwrap().iter().map(|tool| tool.spec().clone()).collect();
        for spec in &specs {
            let gist = spec.gist();
            let other =
                specs.iter().find(|it| it.name != spec.name && gist.contains(&format!("`{}`", it.name)));
            assert!(other.is_none(), "{toolset} {}: {gist}", spec.name);
        }
    }
}

#[test]
fn instructions_say_nothing_of_tools_that_are_absent() {
    let specs: Vec<Spec> = tools::all().iter().map(|tool| tool.spec().clone()).collect();
    let all = tools::instructions("haft", &specs);
    assert!(all.len() <= 780, "they grew to {} bytes", all.len());
    assert!(all.contains("LINE:HASH") && all.contains("sandbox") && all.contains("`todo`"), "{all}");
    let some = tools::instructions("haft", specs.iter().filter(|it| it.name == "read"));
    assert!(some.contains("`read`"), "{some}");
    for absent in ["`edit`", "`bash`", "`shell`", "`todo`", "sandbox", "commands"] {
        assert!(!some.contains(absent), "{absent} in {some}");
    }
    assert!(!tools::instructions("nav", &specs).contains('`'));
}

#[test]
fn bad_arguments_name_the_field() {
    let test_ws = TestWorkspace::new("//- a\ninside\n");
    for (toolset, tool) in every_tool() {
        let spec = tool.spec();
        let good = arguments(toolset, &spec.name, "a");
        let mut unknown = good.clone();
        unknown.as_object_mut().unwrap().insert("no_such_field".to_owned(), json!(1));
        let fault = call(&test_ws, &tool, &unknown).expect_err("an unknown field");
        assert_eq!(fault.kind, Kind::BadArgs);
        assert!(fault.what.contains("`no_such_field`"), "{}: {}", spec.name, fault.what);
        for (field, schema) in properties(spec) {
            // A field that takes any JSON has no wrong type.
            if schema.get("type").is_none() && schema.get("enum").is_none() && schema.get("oneOf").is_none() {
                continue;
            }
            // nav writes other values as JSON, but its schema asks models for text.
            if (toolset, spec.name.as_str(), field.as_str()) == ("nav", "write", "content") {
                continue;
            }
            let mut wrong = good.clone();
            let takes_any_object =
                schema.get("type") == Some(&json!("object")) && schema.get("properties").is_none();
            let value = if takes_any_object { json!(["not this"]) } else { json!({"not": ["this"]}) };
            wrong.as_object_mut().unwrap().insert(field.clone(), value);
            let fault = call(&test_ws, &tool, &wrong).expect_err("a wrong type");
            assert_eq!(fault.kind, Kind::BadArgs, "{}.{field}", spec.name);
            assert!(fault.what.contains(&format!("`{field}")), "{}.{field}: {}", spec.name, fault.what);
        }
        for field in spec.schema.get("required").and_then(Value::as_array).into_iter().flatten() {
            let field = field.as_str().unwrap();
            let mut missing = good.clone();
            missing.as_object_mut().unwrap().remove(field);
            let fault = call(&test_ws, &tool, &missing).expect_err("a missing field");
            // `No path provided` and the like are KohakuTerrarium's own messages.
            let named = fault.what.contains(&format!("`{field}`"))
                || toolset == "terrarium"
                    && [format!("No {field} provided"), format!("{field} is required")].contains(&fault.what);
            let two_modes = fault.what.starts_with(&format!("No {field} provided. "));
            assert!(named || two_modes, "{}.{field}: {}", spec.name, fault.what);
        }
    }
}

#[test]
fn a_path_outside_the_workspace_is_denied_in_every_spelling() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("file"), "inside? no: outside\n").unwrap();
    let plain = outside.path().join("file").display().to_string();
    let test_ws = TestWorkspace::new(
        "//- sub/a\ninside\n//- a.json\n{\"inside\": 1}\n//- a.stl\nsolid\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 1 0\nendloop\nendsolid\n",
    );
    fs::write(test_ws.path().join("a.ipynb"), NOTEBOOK).unwrap();
    let picture = r#"<svg xmlns="http://www.w3.org/2000/svg" width="4" height="4"/>"#;
    fs::write(test_ws.path().join("a.svg"), picture).unwrap();
    symlink(outside.path(), test_ws.path().join("link")).unwrap();
    symlink(outside.path().join("file"), test_ws.path().join("direct")).unwrap();
    let sibling = format!("{}-evil/file", test_ws.path().display());
    let up = format!("sub/../..{plain}");
    let spellings = [
        plain.as_str(),
        "../file",
        "/etc/passwd",
        up.as_str(),
        "link/file",
        "direct",
        "link/not/yet",
        "link",
        &sibling,
    ];
    for (toolset, tool) in every_tool() {
        let name = &tool.spec().name;
        if !takes_a_path(toolset, name) {
            let touches = tool.prepare(arguments(toolset, name, &plain)).unwrap().touches();
            let names_a_place = touches.iter().any(|it| matches!(it, Touch::Read(_) | Touch::Write(_)));
            assert!(!names_a_place, "{toolset} {name} touches {touches:?}");
            continue;
        }
        for path in spellings {
            let fault = call(&test_ws, &tool, &arguments(toolset, name, path)).expect_err("a path outside");
            assert_eq!(fault.kind, Kind::Denied, "{toolset} {name} {path}: {}", fault.what);
            assert!(fault.what.contains("rule `roots`"), "{name} {path}: {}", fault.what);
            assert!(fault.next.is_some(), "{name} {path} does not say how to get permission");
        }
        // The positive control: a path inside works.
        let inside = match name.as_str() {
            "glob" | "tree" | "shell" | "python" => "sub",
            "json_read" | "json_write" => "a.json",
            "notebook_read" | "notebook_edit" => "a.ipynb",
            "render_3d" => "a.stl",
            "image_view" => "a.svg",
            _ => "sub/a",
        };
        match call(&test_ws, &tool, &arguments(toolset, name, inside)) {
            Ok(_) => {}
            Err(fault) => {
                // A test workspace starts no processes.
                let expected = matches!(fault.kind, Kind::NotFound | Kind::Stale | Kind::Unavailable);
                assert!(expected, "{name}: {}", fault.as_text());
            }
        }
        fs::write(test_ws.path().join("sub/a"), "inside\n").unwrap();
    }
    let names: Vec<_> = fs::read_dir(outside.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(names, ["file"]);
    assert_eq!(fs::read(outside.path().join("file")).unwrap(), b"inside? no: outside\n");
}

#[test]
fn a_call_touches_no_more_than_its_tool_declares() {
    for (toolset, tool) in every_tool() {
        let spec = tool.spec();
        let call = tool.prepare(arguments(toolset, &spec.name, "a")).unwrap();
        assert!(spec.at_most.covers(call.touches().kinds()), "{}", spec.name);
    }
}

#[test]
fn a_tool_that_calls_others_is_not_read_only() {
    const OTHERS: [&str; 7] =
        ["subagent", "spawn_agent", "explore", "critic", "call_tool", "test_tool", "mcp_call"];
    let all: Vec<_> = every_tool().into_iter().map(|(_, tool)| tool).chain(tools::finders()).collect();
    for name in OTHERS {
        let of_name: Vec<_> = all.iter().map(|it| it.spec()).filter(|it| it.name == name).collect();
        assert!(!of_name.is_empty(), "{name}");
        for spec in of_name {
            assert!(spec.at_most.covers(Kinds::WRITE | Kinds::RUN | Kinds::NET), "{name}");
        }
    }
}

#[test]
fn a_cancelled_call_returns_and_changes_nothing() {
    let test_ws = TestWorkspace::new("//- a\ninside\n//- a.json\n{\"a\": 0, \"inside\": 1}\n");
    fs::write(test_ws.path().join("a.ipynb"), NOTEBOOK).unwrap();
    for folder in 0..20 {
        let folder = test_ws.path().join(format!("f{folder}"));
        fs::create_dir(&folder).unwrap();
        for file in 0..50 {
            fs::write(folder.join(file.to_string()), "some text\n".repeat(100)).unwrap();
        }
    }
    test_ws.cancel.cancel();
    for (toolset, tool) in every_tool() {
        let name = &tool.spec().name;
        let path = match name.as_str() {
            "glob" | "tree" | "grep" => "",
            "json_read" | "json_write" => "a.json",
            "notebook_read" | "notebook_edit" => "a.ipynb",
            _ => "a",
        };
        let arguments = arguments(toolset, name, path);
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let (test_ws, tool) = (&test_ws, &tool);
            scope.spawn(move || tell.send(call(test_ws, tool, &arguments)));
            let answer = told
                .recv_timeout(Duration::from_secs(10))
                .unwrap_or_else(|_| panic!("{name} did not come back"));
            // A fast tool may have finished; one that changes something may not.
            if let Ok(output) = answer {
                assert!(tool.spec().at_most.is_read_only(), "{name}: {}", output.as_text());
            }
        });
    }
    assert_eq!(test_ws.bytes("a"), b"inside\n");
    assert_eq!(test_ws.bytes("a.ipynb"), NOTEBOOK.as_bytes());
    assert_eq!(test_ws.bytes("a.json"), b"{\"a\": 0, \"inside\": 1}\n");
}

#[test]
fn a_tool_that_cuts_its_output_to_pages_stays_bounded_and_says_how_to_go_on() {
    let test_ws = TestWorkspace::new(&format!(
        "//- big\n{}//- big.json\n{{\"a\": [{}]}}\n",
        "a line of text with inside in it\n".repeat(40_000),
        "12345678, ".repeat(40_000) + "1",
    ));
    let wide = test_ws.path().join("wide");
    fs::create_dir(&wide).unwrap();
    for number in 0..3_000 {
        fs::write(wide.join(format!("file-with-a-name-{number}")), "").unwrap();
    }
    for (toolset, tool) in every_tool() {
        let name = &tool.spec().name;
        let path = match name.as_str() {
            "glob" | "tree" => "wide",
            "json_read" => "big.json",
            "write" | "edit" | "multi_edit" | "undo" | "json_write" | "python" | "shell" => continue,
            // Their pages are tested in their own files.
            "notebook_read" | "notebook_edit" | "filesystem" => continue,
            // They need other content than text, or a program.
            "model_3d" | "render_3d" | "image_view" | "http_request" | "share_file" | "content_publish" => {
                continue;
            }
            name if !takes_a_path(toolset, name) => continue,
            _ => "big",
        };
        let output = call(&test_ws, &tool, &arguments(toolset, name, path))
            .unwrap_or_else(|it| panic!("{name}: {it}"));
        let text = output.as_text();
        if output.paged {
            assert!(text.len() <= 256 * 1024, "{name} gives {} bytes", text.len());
            let says = ["next:", "more", "pointer", "of 40000"];
            assert!(
                says.iter().any(|it| text.contains(it)),
                "{name} does not say how to go on: {}",
                &text[text.len() - 200..]
            );
        }
    }
}
