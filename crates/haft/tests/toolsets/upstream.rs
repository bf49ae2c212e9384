//! Names and arguments of the tools of nav and navi, as their own sources and pages have them, beside those of the toolsets.
//!
//! A call that is valid there is valid here: each argument exists, takes what it takes there, and none more is required.
//! Further arguments of a tool here are listed too, so that a new one is noticed.

use haft::tools;
use serde_json::Value;

/// A tool: its name, its arguments (a name, a JSON type, `!` where it is required), and those that only this toolset has.
type Row = (&'static str, &'static [&'static str], &'static [&'static str]);

/// nav 0.9.0, `src/tools/*.ts`: both edit modes. `ask_user` is there in plan mode only.
const NAV: &[Row] = &[
    ("read", &["path: string!", "offset: number", "limit: number"], &["column"]),
    (
        "edit",
        &[
            "path: string!",
            "anchor: string",
            "end_anchor: string",
            "new_text: string",
            "insert_after: boolean",
            "old_string: string",
            "new_string: string",
            "replace_all: boolean",
            "edits: array",
            "edits[].anchor: string",
            "edits[].end_anchor: string",
            "edits[].new_text: string",
            "edits[].insert_after: boolean",
            "edits[].old_string: string",
            "edits[].new_string: string",
            "edits[].replace_all: boolean",
        ],
        &[],
    ),
    ("write", &["path: string!", "content: string!", "overwrite: boolean"], &[]),
    ("skim", &["path: string!", "start_line: number!", "end_line: number!"], &[]),
    (
        "filegrep",
        &["path: string!", "pattern: string!", "linesBefore: number", "linesAfter: number"],
        &["regex", "case_sensitive", "offset", "limit"],
    ),
    ("shell", &["command: string!", "wait_ms: number"], &[]),
    ("shell_status", &["pid: number", "action: string"], &[]),
    ("subagent", &["agent: string!", "prompt: string!"], &[]),
    ("ask_user", &["questions: array!", "questions[]: string"], &[]),
];

/// navi-1, `docs/tools.md` and `manuals/write_tool.md`; arguments only where a page names them. Its sources are not public.
const NAVI: &[Row] = &[
    ("web_search", &["query: string!"], &["*"]),
    ("web_view", &["url: string!"], &["*"]),
    ("filesystem", &["action: string!", "path: string", "content: string"], &["*"]),
    ("http_request", &["url: string!", "method: string"], &["*"]),
    ("code_exec", &["code: string!"], &["*"]),
    (
        "terminal",
        &["action: string", "command: string", "terminal_name: string", "background: boolean"],
        &["*"],
    ),
    ("ssh_exec", &["host: string!", "command: string!"], &["*"]),
    ("image_view", &["path: string"], &["*"]),
    ("todo", &["action: string!"], &["*"]),
    ("scratchpad", &["action: string!", "section: string", "content: string"], &["*"]),
    ("reload_tools", &[], &[]),
    ("write_tool", &["name: string!", "code: string!"], &["*"]),
    ("list_tools", &[], &[]),
    ("tool_manual", &["name: string!"], &[]),
    ("memory", &["action: string!"], &["*"]),
    (
        "spawn_agent",
        &[
            "task: string!",
            "briefing: string",
            "profile_id: string",
            "system_prompt: string",
            "inherit_system_prompt: boolean",
            "max_iterations: number",
        ],
        &["*"],
    ),
    ("switch_profile", &["profile_id: string!"], &[]),
    ("list_profiles", &[], &[]),
    ("share_file", &["path: string!"], &["*"]),
    ("content_publish", &["path: string!"], &["*"]),
    ("model_3d", &[], &["*"]),
    ("scad_lint", &[], &["*"]),
    ("render_3d", &["path: string!"], &["*"]),
    ("delete_tool", &["name: string!"], &[]),
    ("test_tool", &["tool_name: string!", "params: object"], &["*"]),
    ("mcp_status", &[], &["*"]),
    ("reflect", &["situation: string!", "assumptions: string!", "tried: string"], &["*"]),
];

/// Returns the differences between a tool and its upstream, one line each.
fn differences(schema: &Value, (tool, arguments, more): &Row) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut required: Vec<&str> = Vec::new();
    for argument in *arguments {
        let (path, rest) = argument.split_once(": ").unwrap();
        let kind = rest.trim_end_matches('!');
        if rest.ends_with('!') {
            required.push(path);
        }
        match at(schema, path) {
            None => wrong.push(format!("{tool} has no argument `{path}`")),
            Some(ours) if !takes(ours, kind) => wrong.push(format!("{tool} `{path}` is {ours}, not {kind}")),
            Some(_) => {}
        }
    }
    let theirs = |name: &str| arguments.iter().any(|it| it.split([':', '[']).next() == Some(name));
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !required.contains(&name) {
            wrong.push(format!("{tool} requires `{name}`, and upstream does not"));
        }
    }
    for name in schema["properties"].as_object().into_iter().flatten().map(|it| it.0) {
        if !theirs(name) && *more != ["*"] && !more.contains(&name.as_str()) {
            wrong.push(format!("{tool} has an argument `{name}` that is not upstream's"));
        }
    }
    wrong
}

/// Returns the schema of an argument, also of one in the items of a list: `edits[].anchor`.
fn at<'a>(schema: &'a Value, path: &str) -> Option<&'a Value> {
    let mut here = schema;
    for name in path.split('.') {
        let (name, items) = name.strip_suffix("[]").map_or((name, false), |name| (name, true));
        here = here.get("properties")?.get(name)?;
        if items {
            here = here.get("items")?;
        }
    }
    Some(here)
}

/// Returns whether the schema accepts a value of this JSON type.
fn takes(schema: &Value, kind: &str) -> bool {
    let one = |it: &str| it == kind || (kind == "number" && it == "integer");
    match schema.get("type") {
        Some(Value::String(it)) => one(it),
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).any(one),
        // A choice of words is a string, and what says nothing takes all.
        _ => match schema.get("enum").and_then(Value::as_array) {
            Some(words) => kind == "string" && words.iter().all(Value::is_string),
            None => schema
                .get("oneOf")
                .or_else(|| schema.get("anyOf"))
                .and_then(Value::as_array)
                .is_none_or(|all| all.iter().any(|it| takes(it, kind) || it.get("const").is_some())),
        },
    }
}

#[track_caller]
fn same_as_upstream(toolset: &str, rows: &[Row], beside: &[&str]) {
    let ours = [tools::toolset(toolset).unwrap(), tools::of_agents(toolset)].concat();
    let mut wrong: Vec<String> = Vec::new();
    for row in rows {
        match ours.iter().find(|it| it.spec().name == row.0) {
            Some(tool) => wrong.extend(differences(&tool.spec().schema, row)),
            None => wrong.push(format!("there is no `{}`", row.0)),
        }
    }
    let named = |name: &str| rows.iter().any(|it| it.0 == name) || beside.contains(&name);
    wrong.extend(
        ours.iter()
            .map(|it| it.spec().name.as_str())
            .filter(|it| !named(it))
            .map(|it| format!("`{it}` is not upstream's")),
    );
    assert!(wrong.is_empty(), "{toolset}:\n{}", wrong.join("\n"));
}

#[test]
fn names_and_arguments_of_nav_are_those_of_its_release() {
    same_as_upstream("nav", NAV, &[]);
}

#[test]
fn names_and_arguments_of_navi_are_those_of_its_pages() {
    // By these a job of `terminal` is looked after.
    same_as_upstream("navi", NAVI, &["read_job", "wait", "stop_task", "undo"]);
    assert_eq!(NAVI.len(), 27);
}

#[test]
fn a_tool_that_asks_for_more_or_for_something_else_is_noticed() {
    let schema = serde_json::json!({"type": "object", "required": ["path", "x"],
        "properties": {"path": {"type": "integer"}, "x": {"type": "string"}}});
    let wrong = differences(&schema, &("t", &["path: string!", "limit: number"], &[]));
    assert_eq!(wrong.len(), 4, "{wrong:?}");
}
