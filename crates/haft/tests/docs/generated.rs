//! Pages that are made from the program itself: docs/tools.md, docs/configuration.md and docs/cli.md.

use std::{collections::BTreeMap, path::Path, process::Command};

use expect_test::expect_file;
use haft::{
    kit::{Kinds, Mode, Spec},
    tools,
};
use kit::references::in_own_names;

use super::page::REPOSITORY;

/// The first line of each, so that nobody changes one by hand.
const MARK: &str =
    "<!-- generated: `UPDATE_EXPECT=1 cargo test -p haft --test integration docs::generated` -->\n";

/// The tools of haft's own toolset as a person looks for them.
const FAMILIES: &[(&str, &[&str])] = &[
    (
        "Files",
        &[
            "read",
            "edit",
            "write",
            "skim",
            "filegrep",
            "editor",
            "json_read",
            "json_write",
            "notebook_read",
            "notebook_edit",
            "undo",
        ],
    ),
    ("Search", &["glob", "grep", "tree"]),
    ("Commands", &["shell", "bash", "shell_status", "interact", "python"]),
    ("Background jobs", &["jobs", "read_job", "wait", "stop_task", "continue_job"]),
    ("Web", &["web_search", "web_fetch", "http_request"]),
    ("Other machines", &["ssh_exec"]),
    ("Pictures and files for a person", &["image_view", "share_file", "content_publish"]),
    ("CAD parts", &["scad_lint", "model_3d", "render_3d"]),
    ("Notes", &["todo", "scratchpad", "memory", "search_memory"]),
    (
        "Triggers",
        &[
            "add_timer",
            "add_schedule",
            "watch_channel",
            "watch_files",
            "watch_job",
            "webhook",
            "list_triggers",
            "delete_trigger",
        ],
    ),
    ("Agents", &["subagent", "list_profiles", "switch_profile", "ask_user", "reflect"]),
    ("Messages", &["group_send", "send_channel", "send_message"]),
    (
        "Groups",
        &[
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
        ],
    ),
    ("MCP servers", &["mcp_status", "mcp_connect", "mcp_list", "mcp_call", "mcp_disconnect"]),
    (
        "Tools about tools",
        &[
            "list_tools",
            "search_tools",
            "call_tool",
            "info",
            "write_tool",
            "test_tool",
            "delete_tool",
            "reload_tools",
        ],
    ),
];

/// The text before the tools.
const ABOUT_TOOLS: &str = "\
# Tools

Every tool, with its arguments and the most that a call of it may touch. A model sees the same descriptions and schemas:
`haft tools --json` prints them, `haft tools --cost` what each costs in tokens, `haft manual NAME` prints examples.

**Effects** is the upper bound of a call. The policy judges each call by what it really touches: `write` to `src/a.rs`
asks nobody, `write` to `.git/config` does.

| effect | meaning | without approval |
|---|---|---|
| reads files | below the roots | yes |
| changes files | below the roots that are not `:ro` | yes, except [control files](security.md#control-files) |
| runs commands | in the sandbox | yes, in the sandbox |
| web | GET and HEAD to public hosts | yes, if the address is known (`web` in `[net]`) |
| network | any other request, and any private address | no: a grant or an answer per host |
| session | state of this session only | yes |
| runs alone | no call that writes runs beside it; for commands, see [below](#commands-at-once) | |

Any call also takes `run_in_background` (the call becomes a job) and `allow_concurrent` (it waits for no command, and none waits for it).

### Commands at once

Commands that a model sends together run together, as do calls that touch different things:

- A command waits for each write before it. It waits at most 0.1 s for a command that has just begun: quick ones keep their order.
- Commands that call the same program of these take turns: git, make, cargo, go, npm, yarn, pip, docker, terraform and other build and package programs.
- A `write` or `edit` waits for a command before it that has the file open for writing, has changed it, names it, or began less than 0.1 s ago.
- Calls of one lasting `bash`, and of `python`, take turns among themselves. Commands outside the sandbox, whose changes haft can't follow, run alone.
- The answer names files that two calls changed at the same time, writes that happened while a command ran, and, if a command failed, those that had not ended before it began.
- A call that waits says for what: as progress, and in the terminal.

A command that needs another one belongs in the same call (`make && make test`) or the next message.

";

#[test]
fn the_page_of_tools_is_the_catalog() {
    let of = |toolset: &str| [tools::toolset(toolset).unwrap(), tools::of_agents(toolset)].concat();
    let mut text = format!("{MARK}{ABOUT_TOOLS}");
    let own = of(tools::HAFT);
    let mut specs: BTreeMap<&str, &Spec> =
        own.iter().map(|tool| tool.spec()).map(|spec| (spec.name.as_str(), spec)).collect();
    let count = specs.len();
    text.push_str(&format!("haft has {count} tools of its own.\n"));
    for (family, names) in FAMILIES {
        text.push_str(&format!("\n## {family}\n"));
        for name in *names {
            let spec = specs.remove(name).unwrap_or_else(|| panic!("there is no tool `{name}`"));
            text.push_str(&in_own_names(&described(spec)));
        }
    }
    assert!(specs.is_empty(), "these tools are in no family of this test: {:?}", specs.keys());
    text.push_str(
        "\n## Toolsets of other agents\n\n`--toolset NAME` (`toolset` in haft.toml) shows the tools under the names that another agent's prompts know.\n\
         They run on the same code, under the same rules.\n",
    );
    for toolset in tools::toolsets().filter(|it| *it != tools::HAFT) {
        let all = of(toolset);
        text.push_str(&format!(
            "\n### `{toolset}`: {} tools\n\n| tool | what it does | arguments |\n|---|---|---|\n",
            all.len()
        ));
        for spec in all.iter().map(|tool| tool.spec()) {
            text.push_str(&format!(
                "| `{}` | {} | {} |\n",
                spec.name,
                cell(&spec.gist()),
                cell(&spec.arguments())
            ));
        }
    }
    current("docs/tools.md", &text);
}

fn described(spec: &Spec) -> String {
    let arguments = spec.manual();
    let arguments = arguments.split_once("## Arguments\n\n").map_or("", |it| it.1).trim_end();
    let more = if tools::manual(&spec.name).is_some() {
        format!(" `haft manual {}` has examples.", spec.name)
    } else {
        String::new()
    };
    format!(
        "\n### {}\n\n{}\n\nEffects: {}.{more}\n\n{}\n",
        spec.name,
        escaped(&spec.description),
        effects(spec),
        escaped(arguments)
    )
}

fn effects(spec: &Spec) -> String {
    let has = |kind: Kinds| spec.at_most.covers(kind);
    let mut all = Vec::new();
    if has(Kinds::WRITE) {
        all.push("changes files");
    } else if has(Kinds::READ) {
        all.push("reads files");
    }
    for (kind, name) in [
        (Kinds::RUN, "runs commands"),
        (Kinds::NET, "network"),
        (Kinds::WEB, "web"),
        (Kinds::SESSION, "session"),
        (Kinds::EXCLUSIVE, "runs alone"),
    ] {
        if has(kind) {
            all.push(name);
        }
    }
    let mode = match spec.mode {
        Mode::Direct => None,
        Mode::Background => Some("gives a job at once"),
        Mode::Stateful => Some("yields and takes more input"),
    };
    let text = if all.is_empty() { "none outside the session".to_owned() } else { all.join(", ") };
    mode.map_or_else(|| text.clone(), |mode| format!("{text}; {mode}"))
}

/// Text in which nothing is taken for HTML outside of code.
fn escaped(text: &str) -> String {
    let spans = text.split('`').enumerate();
    let spans = spans.map(|(at, it)| if at % 2 == 0 { it.replace('<', "&lt;") } else { it.to_owned() });
    spans.collect::<Vec<_>>().join("`")
}

fn cell(text: &str) -> String {
    escaped(text).replace('|', "\\|")
}

/// The text before the keys.
const ABOUT_CONFIGURATION: &str = "\
# Configuration

haft reads two files, both optional and both TOML: your own `~/.config/haft/haft.toml` (`HAFT_CONFIG_DIR` names another folder),
and `haft.toml` in the workspace. A command-line option wins over both. `haft config` prints each value and where it came from;
`haft config --example` prints every key with its default, as below.

A workspace's file came with whatever was cloned, so it may only restrict what your own file allows. Keys marked **needs trust**
count there only after `haft trust`, and only until the file changes. A key that haft does not know is an error: with one
in your own file tools may only read; a workspace's file with one is ignored as a whole, with a warning, its restrictions too.

";

#[test]
fn the_page_of_configuration_is_the_example() {
    let example = std::fs::read_to_string(Path::new(REPOSITORY).join("haft.example.toml")).unwrap();
    current("docs/configuration.md", &format!("{MARK}{ABOUT_CONFIGURATION}{}", keys(&example)));
}

/// Returns the example as Markdown: prose where it explains, a block where it shows keys, a heading for each section.
fn keys(example: &str) -> String {
    let mut text = String::from("## Top-level keys\n");
    let mut section = String::new();
    // The first is about the file.
    for paragraph in example.split("\n\n").skip(1) {
        let (mut prose, mut keys) = (Vec::new(), Vec::new());
        let mut heading = None;
        for line in paragraph.lines() {
            let line = line.strip_prefix('#').unwrap_or(line);
            let line = line.strip_prefix(' ').unwrap_or(line).trim_end();
            if line.starts_with('[') && line.ends_with(']') {
                section = line.to_owned();
                heading = Some(line.to_owned());
            } else if is_key(line) {
                keys.push(line.to_owned());
            } else if line.starts_with("Type: ") {
                // A paragraph of its own.
                prose.push(format!("\n{line}"));
            } else if !line.is_empty() {
                prose.push(line.to_owned());
            }
        }
        if let Some(heading) = &heading {
            text.push_str(&format!("\n## `{heading}`\n"));
        }
        if !prose.is_empty() {
            text.push_str(&format!(
                "\n{}\n",
                escaped(&prose.join("\n")).replace("(needs trust", "(**needs trust**")
            ));
        }
        if !keys.is_empty() {
            let head = if section.is_empty() { String::new() } else { format!("{section}\n") };
            text.push_str(&format!("\n```toml\n{head}{}\n```\n", keys.join("\n")));
        }
    }
    text
}

fn is_key(line: &str) -> bool {
    let Some((key, _)) = line.split_once(" = ") else { return false };
    !key.is_empty() && key.chars().all(|it| it.is_ascii_alphanumeric() || it == '_')
}

/// The text before the commands.
const ABOUT_CLI: &str = "\
# Command line

Every command and option, as `haft COMMAND --help` prints it.

Exit codes: 0 done, 1 fault (a call failed, a limit was reached), 2 wrong usage, 130 stopped by Ctrl-C. A command that ends with
an error is a call that worked: `haft call shell` then exits with 0, and its answer (`--json`) has the exit code.

| variable | meaning |
|---|---|
| `HAFT_CONFIG_DIR` | folder of your own `haft.toml`, `tools/`, `agents/`; default `$XDG_CONFIG_HOME/haft` or `~/.config/haft` |
| `HAFT_STATE_DIR` | folder of state; default `$XDG_STATE_HOME/haft` or `~/.local/state/haft` |
| `HAFT_MODEL` | the model, where neither `--model` nor `haft.toml` names one |
| `HAFT_MCP_TOKEN` | the token of `haft mcp --http` |
| `HAFT_LOG` | `info`, `debug`: log to standard error; `spans=info`: times of turns, calls and jobs |
| `NO_COLOR` | no colour in `run`, `chat` and `log` |

";

#[test]
fn the_page_of_the_command_line_is_its_help() {
    let mut text = format!("{MARK}{ABOUT_CLI}");
    let whole = help(&[]);
    text.push_str(&format!("## `haft`\n\n```text\n{whole}```\n"));
    let verbs = commands(&whole);
    assert!(verbs.len() > 10 && verbs.iter().any(|it| it == "run"), "{verbs:?}");
    for verb in verbs {
        let about = own_part(&help(&[&verb]));
        text.push_str(&format!("\n## `haft {verb}`\n\n```text\n{about}```\n"));
        for inner in commands(&about) {
            let about = own_part(&help(&[&verb, &inner]));
            text.push_str(&format!("\n### `haft {verb} {inner}`\n\n```text\n{about}```\n"));
        }
    }
    current("docs/cli.md", &text);
}

fn help(verb: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_haft"));
    command.args(verb).arg("--help").env_clear().env("COLUMNS", "100").env("HOME", "/home/you");
    let ran = command.output().unwrap();
    assert!(ran.status.success(), "{verb:?}: {ran:?}");
    let text = String::from_utf8(ran.stdout).unwrap();
    text.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Returns a command's help without the options that all have: the page has them once.
fn own_part(help: &str) -> String {
    let Some((before, after)) = help.split_once("\nGlobal options:\n") else { return help.to_owned() };
    let next = after.lines().position(|line| line.ends_with(':') && !line.starts_with(' '));
    let after: Vec<&str> = next.map(|at| after.lines().skip(at).collect()).unwrap_or_default();
    let after: String = after.iter().map(|line| format!("{line}\n")).collect();
    format!("{before}\n{after}").trim_end().to_owned() + "\n"
}

/// Returns the commands in a help text: indented words before the options, with a description.
fn commands(help: &str) -> Vec<String> {
    let lines = help.lines().take_while(|it| *it != "Options:");
    let names = lines.filter_map(|line| line.strip_prefix("  ")?.split_once("  "));
    let names =
        names.filter(|(name, _)| name.starts_with(|it: char| it.is_ascii_lowercase()) && *name != "help");
    names.map(|(name, _)| name.trim().to_owned()).collect()
}

fn current(name: &str, text: &str) {
    expect_file![Path::new(REPOSITORY).join(name)].assert_eq(text);
}

#[test]
fn every_key_of_the_example_is_one() {
    let example = std::fs::read_to_string(Path::new(REPOSITORY).join("haft.example.toml")).unwrap();
    let lines = example.lines().map(|line| line.strip_prefix("# ").unwrap_or_default());
    let lines = lines.filter(|line| is_key(line) || line.starts_with('[') && line.ends_with(']'));
    let text: String = lines.map(|line| format!("{line}\n")).collect();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("haft.toml"), &text).unwrap();
    let read = haft::runtime::config::Config::read(&folder.path().join("haft.toml"));
    assert!(read.is_ok(), "{read:?} in\n{text}");
}

#[test]
fn commands_are_found_in_any_group_of_a_help_text() {
    let help = "Does it\n\nUsage: x [OPTIONS]\n\nAgent:\n  run           Do it\n\nSetup:\n  help  Print\n  log-in  Enter\n\nOptions:\n  no  x\n\nGlobal options:\n      --dir\n\nExamples:\n  x run\n";
    assert_eq!(commands(help), ["run", "log-in"]);
    assert!(own_part(help).ends_with("Options:\n  no  x\n\nExamples:\n  x run\n"), "{}", own_part(help));
}

#[test]
fn an_example_becomes_prose_and_keys() {
    let example = "# About the file.\n\n# How many. (needs trust)\n# Type: whole number.\n# many = 1   # default: 2\n\n# Hosts.\n# [net]\n# allow = []\n\n# More <of> it.\n# web = \"public\"\n";
    assert_eq!(
        keys(example),
        "## Top-level keys\n\nHow many. (**needs trust**)\n\nType: whole number.\n\n```toml\nmany = 1   # default: 2\n```\n\n## `[net]`\n\nHosts.\n\n```toml\n[net]\nallow = []\n```\n\n\
         More &lt;of> it.\n\n```toml\n[net]\nweb = \"public\"\n```\n"
    );
}
