//! `haft config`: values, where they come from, and what is not printed.

use std::fs;

use serde_json::{Value, json};

use crate::support::{Ran, TestWorkspace, run};

fn configured(mine: &str, theirs: &str) -> TestWorkspace {
    let test_ws = TestWorkspace::new();
    fs::create_dir_all(test_ws.config()).unwrap();
    fs::write(test_ws.config().join("haft.toml"), mine).unwrap();
    test_ws.put("haft.toml", theirs);
    test_ws
}

#[track_caller]
fn line<'a>(ran: &'a Ran, key: &str) -> Vec<&'a str> {
    let line = ran.out.lines().find(|it| it.split_whitespace().next() == Some(key));
    line.unwrap_or_else(|| panic!("no `{key}` in:\n{}", ran.out)).split_whitespace().collect()
}

#[test]
fn each_value_is_shown_with_its_source() {
    let test_ws = configured("sandbox = \"read-only\"\n", "deadline_seconds = 30\n[net]\nweb = \"none\"\n");
    let ran = test_ws.run(&["config", "--approve", "never"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    assert_eq!(line(&ran, "sandbox"), ["sandbox", "yours", "\"read-only\""]);
    assert_eq!(line(&ran, "deadline_seconds"), ["deadline_seconds", "workspace", "30"]);
    assert_eq!(line(&ran, "web"), ["web", "workspace", "\"none\""]);
    assert_eq!(line(&ran, "approve"), ["approve", "--approve", "\"never\""]);
    assert_eq!(line(&ran, "max_steps"), ["max_steps", "default", "50"]);
    assert_eq!(line(&ran, "tools"), ["tools", "default", "all"]);
    let path = test_ws.config().join("haft.toml").display().to_string();
    assert!(ran.out.contains(&path) && ran.out.contains("(not trusted)"), "{}", ran.out);
}

#[test]
fn a_value_that_needs_trust_is_shown_as_ignored_until_the_person_trusts_it() {
    let test_ws = configured("", "approve = \"auto\"\nroots = [\"../outside\"]\n");
    let ran = test_ws.run(&["config"]);
    assert_eq!(line(&ran, "approve"), ["approve", "default", "\"ask\""]);
    let ignored = "\"auto\"  (ignored until you run `haft trust`)";
    assert!(ran.out.contains(ignored) && ran.out.contains("[\"../outside\"]  (ignored"), "{}", ran.out);
    assert_eq!(test_ws.run(&["trust"]).code, 0);
    let ran = test_ws.run(&["config"]);
    assert_eq!(line(&ran, "approve"), ["approve", "workspace", "\"auto\""]);
    assert!(!ran.out.contains("(ignored") && ran.out.contains("(trusted)"), "{}", ran.out);
}

#[test]
fn keys_of_a_format_of_ones_own_are_shown_as_they_are_written() {
    let test_ws = configured(
        "[models.c]\nmodel = \"script:x\"\nprice = { input = 3, output = 15.5 }\n\
         [models.c.dialect]\nstart_char = \"{\"\narg_prefix = \"@@\"\n[models.d]\nmodel = \"script:y\"\n\
         dialect = { arg_kv_sep = \":\" }\n",
        "",
    );
    let ran = test_ws.run(&["config"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    assert!(!ran.out.contains("overridden") && !ran.out.contains("beyond"), "{}", ran.out);
    assert_eq!(line(&ran, "input"), ["input", "yours", "3.0"]);
    assert_eq!(line(&ran, "arg_kv_sep"), ["arg_kv_sep", "yours", "\":\""]);
    assert_eq!(line(&ran, "start_char"), ["start_char", "yours", "\"{\""]);
    assert_eq!(line(&ran, "arg_prefix"), ["arg_prefix", "yours", "\"@@\""]);
    let ran = test_ws.run(&["config", "models.c.dialect.arg_style"]);
    assert!(
        ran.code == 0 && ran.out.contains("Where arguments are") && ran.out.contains("\"line\""),
        "{ran:?}"
    );
}

#[test]
fn key_of_a_dialect_that_haft_does_not_know_is_an_error_with_its_line() {
    let test_ws = configured("[models.c]\nmodel = \"script:x\"\n[models.c.dialect]\nstart_chr = \"{\"\n", "");
    let ran = test_ws.run(&["config"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.contains("line 4") && ran.err.contains("unknown field `start_chr`"), "{ran:?}");
}

#[test]
fn options_of_the_command_line_widen_nothing_where_your_own_file_cannot_be_read() {
    let test_ws = configured("sandbox = \n", "");
    let beside = test_ws.outside();
    fs::write(beside.join("a"), "beside\n").unwrap();
    let root = beside.to_str().unwrap();
    let options =
        ["--root", root, "--sandbox", "full", "--approve", "auto", "--accept-weaker", "seccomp", "call"];
    let read = json!({"path": beside.join("a")}).to_string();
    let ran = test_ws.run(&[&options[..], &["read", &read]].concat());
    assert!(ran.code == 0 && ran.out.contains("beside"), "{ran:?}");
    let ran = test_ws.run(&[&options[..], &["write", r#"{"path": "new", "content": "x"}"#]].concat());
    assert!(ran.code == 1 && (ran.out.clone() + &ran.err).contains("read-only"), "{ran:?}");
    assert!(!test_ws.at("new").exists());
}

#[test]
fn options_of_the_command_line_add_to_lists_and_replace_values() {
    let test_ws = configured("sandbox = \"full\"\naccept_weaker = [\"landlock\"]\n", "approve = \"never\"\n");
    let ran =
        test_ws.run(&["config", "--sandbox", "read-only", "--accept-weaker", "seccomp", "--approve", "auto"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(line(&ran, "sandbox"), ["sandbox", "--sandbox", "\"read-only\""]);
    assert_eq!(line(&ran, "approve"), ["approve", "--approve", "\"auto\""]);
    let weaker = "yours + --accept-weaker  [\"landlock\", \"seccomp\"]";
    assert!(ran.out.contains(weaker), "{}", ran.out);
}

#[test]
fn a_key_is_explained_with_its_default() {
    let test_ws = TestWorkspace::new();
    let ran = test_ws.run(&["config", "approve"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(line(&ran, "approve"), ["approve", "default", "\"ask\""]);
    assert!(
        ran.out.contains("Handling of calls that need a person") && ran.out.contains("Default: \"ask\""),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("Type: one of \"ask\", \"ask-edits\", \"auto\", \"never\"\n"), "{}", ran.out);
    for (key, kind) in [
        ("deadline_seconds", "seconds, whole number, 1 to 3600"),
        ("roots", "list of strings"),
        ("models.mine.price", "table of numbers: input, cached, kept, output"),
    ] {
        let ran = test_ws.run(&["config", key]);
        assert!(ran.out.contains(&format!("Type: {kind}\n")), "{}", ran.out);
    }
    let whole: Value = serde_json::from_str(&test_ws.run(&["config", "tools", "--json"]).out).unwrap();
    assert_eq!(whole["about"]["type"], "list of strings, or \"all\"");
    // A section that nobody has written yet is explained too.
    let ran = test_ws.run(&["config", "models.mine.url"]);
    assert!(ran.out.starts_with("Address of the server"), "{ran:?}");
    let ran = test_ws.run(&["config", "net"]);
    assert!(ran.out.contains("[net]") && ran.out.contains("Network access"), "{}", ran.out);
}

#[test]
fn an_unknown_key_is_told_the_near_ones() {
    let test_ws = TestWorkspace::new();
    for (key, near) in [("max_steps", "`agent.max_steps` or `subagent.max_steps`"), ("aprove", "`approve`")] {
        let ran = test_ws.run(&["config", key]);
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.err.contains(&format!("there is no key `{key}`")) && ran.err.contains(near), "{ran:?}");
    }
}

#[test]
fn the_example_lists_every_key_and_an_unknown_key_in_a_file_names_it() {
    let test_ws = TestWorkspace::new();
    let ran = test_ws.run(&["config", "--example"]);
    assert!(
        ran.out.starts_with("# Configuration of haft") && ran.out.contains("# [models.local]"),
        "{}",
        ran.out
    );
    assert!(toml::from_str::<toml::Table>(&ran.out).unwrap().is_empty(), "all of it is commented out");
    test_ws.put("haft.toml", "toolz = []\n");
    let ran = test_ws.run(&["tools"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(
        ran.err.contains("toolz") && ran.err.contains("`haft config --example` lists every key"),
        "{ran:?}"
    );
    // It is printed although no configuration can be read.
    assert_eq!(test_ws.run(&["config", "--example"]).code, 0);
}

#[test]
fn paths_say_which_files_are_read() {
    let test_ws = configured("", "");
    fs::remove_file(test_ws.config().join("haft.toml")).unwrap();
    let ran = test_ws.run(&["config", "--path"]);
    let mine = test_ws.config().join("haft.toml").display().to_string();
    assert!(ran.out.starts_with(&format!("yours      {mine}  (does not exist)\nworkspace  ")), "{ran:?}");
    let whole: Value = serde_json::from_str(&test_ws.run(&["config", "--path", "--json"]).out).unwrap();
    assert_eq!(whole["files"][0], json!({"file": "user", "path": mine, "exists": false}));
    assert_eq!(whole["files"][1]["trusted"], false);
}

#[test]
fn no_secret_is_printed() {
    let mine = "[mcp.far]\nurl = \"https://u:s3cret@far.example.org/mcp?key=s3cret\"\nheaders = { x-key = \"s3cret\" }\n\
        [mcp.near]\ncommand = \"server\"\nargs = [\"--api-key\", \"s3cret\"]\nenv = { PASSWORD = \"s3cret\" }\n\
        [models.m]\nmodel = \"m\"\nurl = \"http://127.0.0.1/v1\"\nheaders = { authorization = \"Bearer s3cret\" }\n\
        [net]\nproxy = \"http://u:s3cret@proxy.example.org:3128\"\n";
    let test_ws = configured(mine, "");
    for arguments in [&["config"][..], &["config", "--json"], &["config", "mcp.far"]] {
        let ran = test_ws.run(arguments);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(ran.out.contains("(hidden)") && !ran.out.contains("s3cret"), "{}", ran.out);
        assert!(ran.out.contains("far.example.org"), "{}", ran.out);
    }
}

#[test]
fn json_has_values_sources_and_what_does_not_count() {
    let test_ws = configured("max = 1", "");
    assert_eq!(test_ws.run(&["config", "--json"]).code, 2, "a broken file is an error");
    let test_ws = configured("roots = [\"/a\"]\n", "roots = [\"/b\"]\nlisted = [\"undo\"]\n");
    let mut command = test_ws.haft(&["config", "--json"]);
    command.env("HAFT_MODEL", "ollama:qwen3");
    let whole: Value = serde_json::from_str(&run(&mut command, "").out).unwrap();
    let setting = |key: &str| {
        let settings = whole["settings"].as_array().unwrap();
        settings.iter().find(|it| it["key"] == key).unwrap().clone()
    };
    assert_eq!(
        setting("roots"),
        json!({"key": "roots", "value": ["/a"], "sources": ["user"],
            "unused": [{"source": "workspace", "value": ["/b"], "why": "needs trust"}]})
    );
    assert_eq!(setting("listed"), json!({"key": "listed", "value": ["undo"], "sources": ["workspace"]}));
    assert_eq!(
        setting("agent.model"),
        json!({"key": "agent.model", "value": "ollama:qwen3", "sources": ["$HAFT_MODEL"]})
    );
    assert_eq!(
        setting("tools"),
        json!({"key": "tools", "value": null, "sources": ["default"], "default": "all"})
    );
}
