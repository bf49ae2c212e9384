//! The names and schemas of KohakuTerrarium's tools, compared with those of `--toolset terrarium`.

use serde_json::Value;

use crate::support::TestWorkspace;

/// Upstream's tools of a single agent (1.4.0): each argument as `name: type`, `!` where it is required. An argument of
/// an object in a list is `list.name`.
const UPSTREAM: &[(&str, &[&str])] = &[
    ("bash", &["command: string!", "type: string", "timeout: number"]),
    ("python", &["code: string!", "timeout: number"]),
    ("read", &["path: string!", "offset: integer", "limit: integer"]),
    ("write", &["path: string!", "content: string!"]),
    ("edit", &["path: string!", "old: string", "new: string", "replace_all: boolean", "diff: string"]),
    (
        "multi_edit",
        &[
            "path: string!",
            "edits: array!",
            "edits.old: string!",
            "edits.new: string!",
            "edits.replace_all: boolean",
            "strict: boolean",
            "best_effort: boolean",
        ],
    ),
    (
        "notebook_read",
        &[
            "path: string!",
            "cell_id: string",
            "offset: integer",
            "limit: integer",
            "include_outputs: string",
            "include_metadata: boolean",
            "max_source_chars: integer",
            "max_output_chars: integer",
        ],
    ),
    (
        "notebook_edit",
        &[
            "path: string!",
            "cell_id: string",
            "new_source: string",
            "cell_type: string",
            "edit_mode: string",
            "insert_location: string",
            "clear_outputs: boolean",
            "edits: array",
            "edits.cell_id: string",
            "edits.new_source: string",
            "edits.cell_type: string",
            "edits.edit_mode: string",
            "edits.insert_location: string",
            "edits.clear_outputs: boolean",
            "strict: boolean",
            "best_effort: boolean",
        ],
    ),
    ("glob", &["pattern: string!", "path: string", "gitignore: boolean"]),
    ("grep", &["pattern: string!", "path: string", "glob: string", "gitignore: boolean"]),
    ("tree", &["path: string", "depth: integer", "limit: integer", "gitignore: boolean"]),
    ("scratchpad", &["action: string!", "key: string", "value: string"]),
    ("info", &["name: string!"]),
    ("search_memory", &["query: string!", "mode: string", "k: integer"]),
    ("web_fetch", &["url: string!"]),
    ("web_search", &["query: string!", "max_results: integer"]),
    ("ask_user", &["question: string!"]),
    ("json_read", &["path: string!", "query: string"]),
    ("json_write", &["path: string!", "content: string!"]),
    (
        "show_card",
        &[
            "title: string!",
            "subtitle: string",
            "icon: string",
            "accent: string",
            "body: string",
            "fields: array",
            "fields.label: string!",
            "fields.value: string!",
            "fields.inline: boolean",
            "footer: string",
            "actions: array",
            "actions.id: string!",
            "actions.label: string!",
            "actions.style: string",
            "actions.url: string",
            "wait_for_reply: boolean",
            "timeout_s: number",
            "surface: string",
        ],
    ),
    ("stop_task", &["job_id: string!"]),
    ("explore", &["task: string!"]),
    ("critic", &["task: string!"]),
];

/// Upstream's other tools, and why they are not in the toolset.
const ABSENT: &[(&str, &str)] = &[
    ("send_message", "only agents of a group have it"),
    ("send_channel", "only agents of a group have it"),
    ("group_status", "a group"),
    ("group_add_node", "a group"),
    ("group_remove_node", "a group"),
    ("group_start_node", "a group"),
    ("group_stop_node", "a group"),
    ("group_channel", "a group"),
    ("group_wire", "a group"),
    ("group_send", "only agents that can reach others have it"),
    ("mcp_list", "tools of MCP servers are tools by their own names"),
    ("mcp_call", "tools of MCP servers are tools by their own names"),
    ("mcp_connect", "servers are configured by the person"),
    ("mcp_disconnect", "servers are configured by the person"),
    ("image_gen", "run by the provider: `own_tools` of a model"),
    ("skill", "`info` gives a skill"),
];

/// Arguments that have another name in the schema and are understood under upstream's: tool, upstream's, ours.
const OTHER_NAMES: &[(&str, &str, &str)] =
    &[("bash", "type", "shell"), ("web_search", "max_results", "limit"), ("json_write", "content", "value")];

#[test]
fn names_and_schemas_are_those_of_upstream() {
    let ran = TestWorkspace::new().run(&["--toolset", "terrarium", "tools", "--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let tools: Vec<Value> = serde_json::from_str(&ran.out).unwrap();
    let find = |name: &str| tools.iter().find(|it| it["name"] == name);
    let (mut wrong, mut count) = (Vec::new(), 0);
    for (name, arguments) in UPSTREAM {
        let Some(tool) = find(name) else {
            wrong.push(format!("{name} is missing"));
            continue;
        };
        let schema = &tool["inputSchema"];
        for argument in *arguments {
            let (path, kind) = argument.split_once(": ").unwrap();
            count += 1;
            let other = OTHER_NAMES.iter().find(|it| (it.0, it.1) == (*name, path));
            let differs = match other {
                Some((.., ours)) if schema["properties"][ours].is_null() => Some(format!("no {ours}")),
                Some(_) => None,
                None => differs(schema, path, kind),
            };
            wrong.extend(differs.map(|why| format!("{name} {argument}: {why}")));
        }
        // An argument that upstream does not require is not required here.
        for required in schema["required"].as_array().into_iter().flatten() {
            let theirs = arguments.iter().any(|it| {
                it.split_once(": ").is_some_and(|(path, kind)| path == required && kind.ends_with('!'))
            });
            if !theirs {
                wrong.push(format!("{name} requires {required}"));
            }
        }
    }
    for (name, _) in ABSENT {
        if find(name).is_some() {
            wrong.push(format!("{name} is there, and the list says that it is not"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!((UPSTREAM.len() + ABSENT.len(), count), (TOOLS, ARGUMENTS));
}

/// Returns the difference between the argument at a path such as `edits.old` and upstream's; `None` if they match.
fn differs(schema: &Value, path: &str, kind: &str) -> Option<String> {
    let (place, name) = match path.rsplit_once('.') {
        None => (schema, path),
        Some((list, name)) => (&schema["properties"][list]["items"], name),
    };
    let found = &place["properties"][name];
    if found.is_null() {
        return Some(format!("not in {place}"));
    }
    let (kind, required) = kind.strip_suffix('!').map_or((kind, false), |kind| (kind, true));
    let is_required = place["required"].as_array().is_some_and(|it| it.iter().any(|it| it == name));
    // A value without a type is any value.
    let fits = found["type"].is_null() || found["type"] == kind || found["enum"].is_array();
    match (fits, is_required == required) {
        (false, _) => Some(format!("its schema is {found}")),
        (true, false) => Some(format!("required is {is_required}")),
        (true, true) => None,
    }
}

/// The number of compared tools; below, that of arguments.
const TOOLS: usize = 39;
const ARGUMENTS: usize = 93;
