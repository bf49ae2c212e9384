//! Texts name the tools that are shown: in every toolset, in every description, hint, manual, fault and profile.
//!
//! Texts that several toolsets share refer to haft's own tools (`kit::references`). The tests read these texts from the
//! source, so that they check every one.
#![expect(clippy::print_stdout, reason = "the tests say how many names and calls they looked at")]

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::{Arc, LazyLock},
};

use kit::{
    AnyTool,
    references::{Named, Reference, references, rendered},
};
use regex::Regex;
use serde_json::{Value, json};

use super::TestWorkspace;

/// Code that only these tools reach: in a toolset without them, these texts are never shown.
const REACHED_BY: [(&str, &[&str]); 16] = [
    ("agent/src/skills.rs", &["info", "tool_manual"]),
    ("tools/src/agents/", &["subagent"]),
    ("tools/src/cad/", &["model_3d"]),
    ("tools/src/files/editor.rs", &["editor"]),
    ("tools/src/files/filegrep.rs", &["filegrep"]),
    ("tools/src/files/json_", &["json_read"]),
    ("tools/src/files/notebook", &["notebook_read"]),
    ("tools/src/files/write.rs", &["write"]),
    ("tools/src/jobs/", &["read_job"]),
    ("tools/src/remote/", &["ssh_exec"]),
    ("tools/src/shell/answer.rs", &["ssh_exec", "interact"]),
    ("tools/src/search/names.rs", &["grep"]),
    // The one of nav is another.
    ("tools/src/shell/shell", &["interact"]),
    ("tools/src/shell/interact.rs", &["interact"]),
    ("tools/src/toolsets/nav/", &["skim"]),
    ("tools/manuals/", &[]),
];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The files of these folders that texts for models are in, as paths below `crates` and texts without tests and comments
/// on code.
fn sources() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = [
        "kit/src",
        "sandbox/src",
        "store/src",
        "policy/src",
        "runtime/src",
        "tools/src",
        "tools/manuals",
        "tools/hints",
        "agent/src",
        "agent/profiles",
    ]
    .map(|it| crates().join(it))
    .to_vec();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                if name != "tests" {
                    folders.push(path);
                }
            } else if (name.ends_with(".rs") || name.ends_with(".md")) && name != "tests.rs" {
                let text = std::fs::read_to_string(&path).unwrap();
                let text = text.split("#[cfg(test)]\nmod tests").next().unwrap().to_owned();
                let shown = path.strip_prefix(crates()).unwrap().to_str().unwrap().to_owned();
                // It explains what a reference is.
                if shown != "kit/src/references.rs" {
                    found.push((shown, text));
                }
            }
        }
    }
    assert!(found.len() > 300, "{}", found.len());
    found.sort();
    found
}

/// One text with references in it, and where it is.
struct Text {
    file: String,
    text: String,
}

/// Returns the string literals of code, as they are written there.
fn literals(code: &str) -> Vec<String> {
    static LITERAL: LazyLock<Regex> = LazyLock::new(|| Regex::new(r#"(?s)"((?:[^"\\]|\\.)*)""#).unwrap());
    let lines: Vec<&str> = code.lines().filter(|it| !it.trim_start().starts_with("//")).collect();
    LITERAL.captures_iter(&lines.join("\n")).map(|it| it[1].to_owned()).collect()
}

/// All texts that refer to tools: string literals and the documentation of arguments in Rust, lines elsewhere.
static TEXTS: LazyLock<Vec<Text>> = LazyLock::new(|| {
    let gap = Regex::new(r"\\\n\s*").unwrap();
    let mut found = Vec::new();
    for (file, text) in sources() {
        let texts: Vec<String> = if file.ends_with(".md") {
            vec![text]
        } else {
            let docs = text.lines().filter_map(|it| it.trim_start().strip_prefix("/// ")).map(str::to_owned);
            let literals = literals(&text).into_iter().map(|it| {
                let text = gap.replace_all(&it, "").into_owned();
                text.replace("\\\"", "\"").replace("\\\\", "\\").replace("{{", "{").replace("}}", "}")
            });
            docs.chain(literals).collect()
        };
        for text in texts.into_iter().filter(|it| kit::references::has_any(it)) {
            found.push(Text { file: file.clone(), text });
        }
    }
    assert!(found.len() > 60, "{}", found.len());
    found
});

/// Returns the calls that are put into texts by `call(TOOL, ARGUMENTS)`: the tool and the names of the arguments.
fn calls() -> Vec<(String, String, Vec<String>)> {
    let call = Regex::new(r#"call\(\s*"(\w+)",\s*&json!\(\{(.*?)\}\)"#).unwrap();
    let name = Regex::new(r#""(\w+)":"#).unwrap();
    let mut found = Vec::new();
    for (file, text) in sources() {
        for it in call.captures_iter(&text) {
            let names = name.captures_iter(&it[2]).map(|it| it[1].to_owned()).collect();
            found.push((file.clone(), it[1].to_owned(), names));
        }
    }
    assert!(found.len() > 6, "{found:?}");
    found
}

/// Returns the names of the arguments, and of the fields of items.
fn argument_names(tool: &dyn AnyTool) -> BTreeSet<String> {
    let names = |schema: &Value| -> Vec<(String, Value)> {
        let properties = schema["properties"].as_object().cloned();
        properties.into_iter().flatten().collect()
    };
    let own = names(&tool.spec().schema);
    let fields = own.iter().flat_map(|it| names(&it.1["items"])).map(|it| it.0).collect::<Vec<_>>();
    own.into_iter().map(|it| it.0).chain(fields).collect()
}

#[test]
fn every_reference_is_to_a_tool_of_haft_and_to_an_argument_that_it_has() {
    let tools = tools::shown_in(tools::HAFT);
    let find = |name: &str, file: &str| {
        tools
            .iter()
            .chain(&tools::finders())
            .find(|it| it.spec().name == name)
            .cloned()
            .unwrap_or_else(|| panic!("{file} refers to the tool `{name}`, which haft does not have"))
    };
    let has = |tool: &str, name: &str, file: &str| {
        let names = argument_names(&*find(tool, file));
        assert!(
            names.contains(name),
            "{file} refers to the argument `{name}` of `{tool}`, which has {names:?}"
        );
    };
    let mut count = 0;
    for Text { file, text } in TEXTS.iter() {
        for (reference, _) in references(text) {
            count += 1;
            match reference {
                Reference::Tool(tool) => drop(find(tool, file)),
                Reference::Argument(tool, name) | Reference::If(tool, name) => has(tool, name, file),
                Reference::Call(tool, arguments) => arguments.keys().for_each(|it| has(tool, it, file)),
            }
        }
    }
    for (file, tool, names) in calls() {
        count += 1;
        names.iter().for_each(|it| has(&tool, it, &file));
    }
    println!("{count} references in {} texts", TEXTS.len());
    assert!(count > 100, "{count}");
}

#[test]
fn no_text_names_a_tool_without_a_reference() {
    let names: BTreeSet<String> =
        tools::shown_in(tools::HAFT).iter().map(|it| it.spec().name.clone()).collect();
    let quoted = Regex::new("`([a-z_0-9]+)`").unwrap();
    let mut wrong = Vec::new();
    for (file, text) in sources() {
        if !file.ends_with(".rs") {
            continue;
        }
        for literal in literals(&text) {
            for name in quoted.captures_iter(&literal) {
                if names.contains(&name[1]) && !NOT_TOOLS.contains(&(file.as_str(), &name[1])) {
                    wrong.push(format!("{file}: {literal}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "write `tool:NAME` in these:\n{}", wrong.join("\n"));
}

/// Words that are names of tools and mean something else where they stand.
const NOT_TOOLS: [(&str, &str); 7] = [
    // Keys of `[[trigger]]`.
    ("runtime/src/config/triggers.rs", "glob"),
    ("runtime/src/config/triggers.rs", "webhook"),
    // Said only where the tool is there, under this name.
    ("agent/src/prompt/subagents.rs", "subagent"),
    // Documentation of haft.toml, which a person reads; the names are those of haft's own toolset.
    ("runtime/src/config/keys/general.rs", "search_tools"),
    ("runtime/src/config/keys/general.rs", "call_tool"),
    // A command.
    ("tools/src/files/editor.rs", "grep"),
    // A tool that says its own name, of which there is one in every toolset that has it.
    ("tools/src/toolsmith/call_tool.rs", "call_tool"),
];

/// Returns a text as a toolset shows it.
fn in_toolset(shown: &[Arc<dyn AnyTool>], text: &str) -> String {
    rendered(text, &|own| Named::among(shown.iter(), own)).into_owned()
}

/// Every text of a toolset: outside of groups each reference is to what is there, and what it becomes names only what is
/// there. Then every description and manual, and the calls that manuals show.
#[track_caller]
fn all_names_are_there(toolset: &str, at_least: [usize; 2]) {
    let shown = tools::shown_in(toolset);
    let owns: BTreeSet<String> =
        tools::shown_in(tools::HAFT).iter().map(|it| it.spec().name.clone()).collect();
    let names: BTreeSet<String> = shown.iter().map(|it| it.spec().name.clone()).collect();
    let (mut count, mut wrong) = (0, Vec::new());
    for Text { file, text } in TEXTS.iter() {
        let by = REACHED_BY.iter().find(|(path, _)| file.starts_with(path)).map(|it| it.1);
        let is_reached = by.is_none_or(|by| by.iter().any(|it| names.contains(*it)));
        if !is_reached {
            continue;
        }
        for (reference, is_optional) in references(text) {
            count += 1;
            let alone = match &reference {
                Reference::Tool(tool) => format!("`tool:{tool}`"),
                Reference::Argument(tool, name) | Reference::If(tool, name) => format!("`arg:{tool}.{name}`"),
                Reference::Call(tool, arguments) => {
                    format!("`call:{tool} {}`", Value::from(arguments.clone()))
                }
            };
            if !is_optional && in_toolset(&shown, &format!("[?{alone}|absent?]")) == "absent" {
                wrong.push(format!("{file}: {alone} is not in {toolset}, and its text has no other: {text}"));
            }
        }
    }
    for tool in &shown {
        let spec = tool.spec();
        let own = argument_names(&**tool);
        let manual = tools::manual_in(toolset, &spec.name).unwrap_or_default();
        for text in [spec.description.as_str(), &spec.schema.to_string(), manual] {
            for name in quoted(&in_toolset(&shown, text)) {
                count += 1;
                if owns.contains(&name)
                    && !names.contains(&name)
                    && !own.contains(&name)
                    && !is_value(spec, &name)
                {
                    wrong.push(format!("{} of {toolset} names `{name}`, which is not there", spec.name));
                }
            }
        }
        if let Some(unresolved) =
            ["`tool:", "`arg:", "`call:", "[?"].iter().find(|it| in_toolset(&shown, manual).contains(**it))
        {
            wrong.push(format!("the manual of {} has {unresolved}", spec.name));
        }
    }
    let calls = shown.iter().map(|it| example_calls(toolset, &**it).len()).sum::<usize>();
    println!("{toolset}: {count} names, {calls} calls of manuals");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(
        [count, calls].iter().zip(at_least).all(|(is, least)| *is >= least),
        "{toolset}: {count} names, {calls} calls"
    );
}

/// Words in back-ticks.
fn quoted(text: &str) -> Vec<String> {
    let quoted = Regex::new("`([a-z_0-9]{3,})`").unwrap();
    quoted.captures_iter(text).map(|it| it[1].to_owned()).collect()
}

/// Returns whether it is one of the values of an argument, or a word of a shell.
fn is_value(spec: &kit::Spec, word: &str) -> bool {
    let of_shell = ["wait", "jobs", "read", "tree"];
    let is_said = spec.schema.to_string().contains(&format!("\"{word}\""));
    is_said || (of_shell.contains(&word) && ["bash", "shell"].contains(&spec.name.as_str()))
}

/// Returns the calls that the manual of a tool shows.
fn example_calls(toolset: &str, tool: &dyn AnyTool) -> Vec<Value> {
    let name = tool.spec().name.as_str();
    let manual = tools::manual_in(toolset, name).unwrap_or_default();
    let example = Regex::new(r"(?m)^`(\{.*?\})`").unwrap();
    let shown = example.captures_iter(manual);
    let shown = shown.filter_map(|it| serde_json::from_str(&it[1].replace('…', "x")).ok());
    // Input that continues a program, and a header alone, are not calls of the tool.
    let is_part = |arguments: &Value| {
        let needed = [("interact", "command"), ("http_request", "url")];
        needed.iter().any(|(tool, needed)| name == *tool && arguments.get(needed).is_none())
    };
    shown.filter(|it| !is_part(it)).collect()
}

/// Makes every call that the manuals of a toolset show, on the binary, where nothing may be contacted: each is understood,
/// whatever becomes of it in a workspace that does not have its files.
#[track_caller]
fn examples_are_made(toolset: &str, at_least: usize) {
    let shown = tools::shown_in(toolset);
    let calls: Vec<(&str, Value)> = shown
        .iter()
        .flat_map(|tool| {
            example_calls(toolset, &**tool).into_iter().map(|it| (tool.spec().name.as_str(), it))
        })
        .collect();
    assert!(calls.len() >= at_least, "{toolset}: {} calls", calls.len());
    let test_ws = TestWorkspace::new();
    test_ws.put("src/main.rs", "fn main() {}\n");
    // A port that nobody serves.
    std::fs::create_dir_all(test_ws.config()).unwrap();
    std::fs::write(test_ws.config().join("haft.toml"), "[net]\nproxy = \"http://127.0.0.1:9\"\n").unwrap();
    let called = test_ws.batch(&["--toolset", toolset], &calls);
    for ((tool, arguments), called) in calls.iter().zip(&called) {
        println!("{tool} {arguments}: {} {}", called.kind(), called.text());
        assert!(!["bad_args", "bug"].contains(&called.kind()), "{}", called.text());
    }
}

#[test]
fn calls_that_manuals_of_haft_show_are_made() {
    examples_are_made("haft", 60);
}

#[test]
fn calls_that_manuals_of_navi_show_are_made() {
    examples_are_made("navi", 30);
}

#[test]
fn calls_that_manuals_of_terrarium_show_are_made() {
    examples_are_made("terrarium", 10);
}

#[test]
fn all_names_that_haft_s_own_tools_say_are_there() {
    all_names_are_there("haft", [150, 40]);
}

#[test]
fn all_names_that_nav_says_are_there() {
    all_names_are_there("nav", [60, 0]);
}

#[test]
fn all_names_that_navi_says_are_there() {
    all_names_are_there("navi", [80, 10]);
}

#[test]
fn all_names_that_terrarium_says_are_there() {
    all_names_are_there("terrarium", [80, 0]);
}

#[test]
fn all_names_that_hyperagents_says_are_there() {
    all_names_are_there("hyperagents", [40, 0]);
}

#[test]
fn printed_prompts_of_built_in_profiles_have_no_reference_left() {
    let test_ws = TestWorkspace::new();
    for toolset in ["haft", "navi", "terrarium", "nav", "hyperagents"] {
        for profile in ["plan", "explore", "critic", "general"] {
            let ran = test_ws.run(&["--toolset", toolset, "prompt", "--profile", profile]);
            assert_eq!(ran.code, 0, "{ran:?}");
            for mark in ["[?", "`tool:", "`arg:", "`call:"] {
                assert!(!ran.out.contains(mark), "{toolset} {profile}: {mark} in\n{}", ran.out);
            }
        }
    }
}

/// Checks the text of a toolset's calls: names that it must and must not contain.
#[track_caller]
fn says(toolset: &str, rows: &[(&str, Value, &[&str], &[&str])]) {
    let test_ws = TestWorkspace::new();
    test_ws.put("src/a.rs", "fn main() {}\n");
    test_ws.put("data.bin", b"\0\x01\x02\0");
    let calls: Vec<(&str, Value)> =
        rows.iter().map(|(tool, arguments, ..)| (*tool, arguments.clone())).collect();
    let called = test_ws.batch(&["--toolset", toolset, "--approve", "auto"], &calls);
    for ((tool, arguments, named, absent), called) in rows.iter().zip(called) {
        let text = called.text();
        for it in *named {
            assert!(text.contains(it), "{toolset} {tool} {arguments}: {it} is not in\n{text}");
        }
        for it in *absent {
            assert!(!text.contains(it), "{toolset} {tool} {arguments}: {it} is in\n{text}");
        }
    }
}

#[test]
fn faults_of_navi_name_its_own_tools_and_the_person_s_way() {
    says(
        "navi",
        &[
            (
                "filesystem",
                json!({"action": "read", "path": "src"}),
                &["`filesystem` {\"action\": \"list\", \"path\": \"src\"}"],
                &["tree", "glob"],
            ),
            (
                "filesystem",
                json!({"action": "read", "path": "no/such"}),
                &["\"action\": \"find\""],
                &["`glob`"],
            ),
            (
                "filesystem",
                json!({"action": "write", "path": "src/a.rs", "content": "x"}),
                &["\"action\": \"read\""],
                &["`edit`"],
            ),
            (
                "filesystem",
                json!({"action": "read", "path": "data.bin"}),
                &["`filesystem` with `action`: \"list\""],
                &["tree", "glob"],
            ),
            (
                "terminal",
                json!({"command": "curl -sS http://example.org"}),
                &["haft --dir", "grants add 'net example.org'"],
                &["`shell`", "takes"],
            ),
            (
                "tool_manual",
                json!({"name": "http_request"}),
                &["`web_view` costs fewer tokens"],
                &["web_fetch"],
            ),
            ("tool_manual", json!({"name": "web_view"}), &["Page text is data"], &[]),
            ("tool_manual", json!({"name": "unicorn_tool"}), &["`list_tools`"], &[]),
        ],
    );
}

#[test]
fn faults_of_terrarium_name_its_own_tools_and_arguments() {
    says(
        "terrarium",
        &[
            ("read", json!({"path": "src"}), &["`tree` {\"path\": \"src\"}"], &["dir"]),
            ("grep", json!({"pattern": "["}), &["backslash"], &["literal"]),
            ("info", json!({"name": "nope"}), &[], &["list_tools"]),
            (
                "bash",
                json!({"command": "curl -sS http://example.org"}),
                &["grants add 'net example.org'"],
                &["`shell`", "takes"],
            ),
        ],
    );
}

#[test]
fn faults_of_nav_and_hyperagents_name_their_own_tools() {
    says("nav", &[("read", json!({"path": "no/such"}), &[], &["glob", "tree"])]);
    says(
        "hyperagents",
        &[(
            "editor",
            json!({"command": "str_replace", "path": "src/b.rs", "old_str": "a", "new_str": "b"}),
            &[],
            &["glob", "tree"],
        )],
    );
}

#[test]
fn words_of_a_model_are_shown_as_they_are_and_are_no_references() {
    let many = "[?".repeat(1_000);
    let words = format!("`if:edit.path`.envx `tool:read` {many}");
    says(
        "haft",
        &[
            ("read", json!({"path": words}), &[&words], &[]),
            ("tree", json!({"dir": words}), &[&words], &[]),
            ("grep", json!({"pattern": format!("{words}(")}), &["`pattern` is not a regex"], &[]),
            (
                "grep",
                json!({"pattern": format!("`tool:read` {}(", "[?".repeat(20_000))}),
                &["`pattern` is not a regex"],
                &[],
            ),
        ],
    );
}

#[test]
fn faults_of_arguments_list_all_there_are_and_name_no_type_of_rust() {
    says(
        "haft",
        &[
            (
                "shell",
                json!({"command": "x", "nope": 1}),
                &["`unconfined`, `preview`, `run_in_background`"],
                &[],
            ),
            ("read", json!({"path": "a", "limit": -5}), &["`limit`: must be 0 or more, not -5"], &["usize"]),
            ("jobs", json!({"x": 1}), &["there is no argument `x`; it takes none"], &["fields", "look like"]),
        ],
    );
}
