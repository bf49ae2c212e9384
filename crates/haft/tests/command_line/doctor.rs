//! `haft doctor`: what it reports beside the guarantees, and what it says to do next.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpListener,
    os::unix::fs::PermissionsExt as _,
    path::Path,
};

use serde_json::Value;

use crate::support::{Ran, TestWorkspace, run};

/// Runs the doctor with these variables, and with only these programs on its PATH.
fn doctor(test_ws: &TestWorkspace, arguments: &[&str], variables: &[(&str, &str)], programs: &[&str]) -> Ran {
    let folder = test_ws.base().join("bin");
    fs::create_dir_all(&folder).unwrap();
    for name in programs {
        let path = folder.join(name);
        fs::write(&path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = test_ws.haft(&[&["doctor"], arguments].concat());
    command.env("PATH", &folder).env("OLLAMA_HOST", "127.0.0.1:9").envs(variables.iter().copied());
    run(&mut command, "")
}

#[test]
fn nothing_at_all_is_no_failure_and_says_how_to_begin() {
    let test_ws = TestWorkspace::new();
    let ran = doctor(&test_ws, &[], &[], &[]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    for line in [
        "  no key  anthropic, openai, gemini",
        "  local   no server answers",
        "  model   none chosen: `--model` names one",
        "  chromium  missing  web pages that need JavaScript",
        "to install it: apt install chromium",
        "  none; `haft config mcp.files` explains how to add one",
        "  not found  Claude Code, Claude Desktop, Codex, Cursor",
        "  G10  untested  tool definitions of MCP servers are pinned",
        "this self-test has no MCP server to try it with",
    ] {
        assert!(ran.out.contains(line), "`{line}` is missing in:\n{}", ran.out);
    }
    let last = ran.out.lines().last().unwrap();
    assert_eq!(last, "Next: `haft login anthropic` or another provider; without a key: `haft demo`");
    assert!(ran.out.lines().all(|it| it.chars().count() <= 80 || it.contains('/')), "{}", ran.out);
}

#[test]
fn keys_are_reported_by_where_they_come_from_and_never_shown() {
    let test_ws = TestWorkspace::new();
    let keys = test_ws.config().join("keys");
    for folder in [test_ws.config(), keys.clone()] {
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    }
    let file = keys.join("openai.json");
    fs::write(&file, r#"{"origin": "https://api.openai.com", "key": "sk-kept-4711"}"#).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let ran = doctor(&test_ws, &[], &[("ANTHROPIC_API_KEY", "sk-given-4711")], &[]);
    let of = |name: &str| ran.out.lines().find(|it| it.trim_start().starts_with(name)).unwrap();
    assert!(of("anthropic").ends_with("key in $ANTHROPIC_API_KEY"), "{}", ran.out);
    assert!(of("openai").ends_with("keys/openai.json, from `haft login`"), "{}", ran.out);
    assert!(of("model").contains("anthropic:") && of("model").contains("first provider"), "{}", ran.out);
    assert!(!ran.out.contains("4711") && !ran.out.contains("\nNext: "), "{}", ran.out);
}

#[test]
fn a_local_model_that_answers_is_found_and_suggested() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let body = r#"{"object": "list", "data": [{"id": "tiny:1b"}]}"#;
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n";
            let _ = write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len());
        }
    });
    let test_ws = TestWorkspace::new();
    let ran = doctor(&test_ws, &[], &[("OLLAMA_HOST", &place)], &[]);
    assert!(ran.out.contains(&format!("1 model at http://{place}, such as ollama:tiny:1b")), "{}", ran.out);
    assert!(ran.out.contains("\nNext: `haft chat --model ollama:tiny:1b`"), "{}", ran.out);
}

#[test]
fn a_chosen_model_without_its_key_is_no_model_to_use() {
    let test_ws = TestWorkspace::new();
    let ran = doctor(&test_ws, &[], &[("HAFT_MODEL", "openai:gpt-5.6-terra")], &[]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(
        ran.out.contains("model   none: openai:gpt-5.6-terra ($HAFT_MODEL) can't be used: "),
        "{}",
        ran.out
    );
    let next = ran.out.lines().last().unwrap();
    assert!(next.starts_with("Next: ") && next.contains("OPENAI_API_KEY"), "{}", ran.out);
}

#[test]
fn programs_are_found_on_the_path_or_where_the_configuration_names_them() {
    let test_ws = TestWorkspace::new();
    fs::create_dir(test_ws.config()).unwrap();
    fs::write(test_ws.config().join("haft.toml"), "[programs]\nopenscad = \"~/no/openscad\"\n").unwrap();
    let ran = doctor(&test_ws, &[], &[], &["google-chrome", "npx", "openscad"]);
    assert!(ran.out.contains("  chromium  found ") && ran.out.contains("  npx       found "), "{}", ran.out);
    let named = test_ws.base().join("home/no/openscad").display().to_string();
    assert!(ran.out.contains(&format!("haft.toml names {named}, where there is none")), "{}", ran.out);
}

#[test]
fn clients_that_are_there_say_how_to_install_haft_in_them() {
    let test_ws = TestWorkspace::new();
    let home = test_ws.base().join("home");
    fs::create_dir(home.join(".gemini")).unwrap();
    fs::create_dir(home.join(".cursor")).unwrap();
    fs::write(home.join(".cursor/mcp.json"), "{ broken").unwrap();
    let ran = doctor(&test_ws, &[], &[], &["codex"]);
    assert!(ran.out.contains("found; to add haft: haft mcp install codex"), "{}", ran.out);
    assert!(ran.out.contains("found; to add haft: haft mcp install gemini"), "{}", ran.out);
    assert!(ran.out.contains("mcp.json: it is not JSON"), "{}", ran.out);
    assert!(ran.out.contains("\nNext: `haft mcp install codex`, or `haft login"), "{}", ran.out);
    assert_eq!(test_ws.run(&["mcp", "install", "codex"]).code, 0);
    let ran = doctor(&test_ws, &[], &[], &["codex"]);
    let file = home.join(".codex/config.toml");
    assert!(ran.out.contains(&format!("haft is installed ({})", file.display())), "{}", ran.out);
    assert!(!ran.out.contains("\nNext: "), "{}", ran.out);
}

#[test]
fn json_has_every_section() {
    let test_ws = TestWorkspace::new();
    fs::create_dir(test_ws.config()).unwrap();
    fs::write(test_ws.config().join("haft.toml"), "[mcp.files]\ncommand = \"no-such-server\"\n").unwrap();
    let ran = doctor(&test_ws, &["--json"], &[("GEMINI_API_KEY", "gm-given-4711")], &["git"]);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    let findings = report["findings"].as_array().unwrap();
    assert!(findings.iter().any(|it| it["name"] == "G10" && it["state"] == "untested"), "{report}");
    let providers = report["models"]["providers"].as_array().unwrap();
    let gemini = providers.iter().find(|it| it["name"] == "gemini").unwrap();
    assert_eq!(gemini["key"], "$GEMINI_API_KEY");
    let programs = report["programs"].as_array().unwrap();
    let git = programs.iter().find(|it| it["name"] == "git").unwrap();
    assert!(git["path"].as_str().is_some_and(|it| Path::new(it).ends_with("bin/git")), "{git}");
    assert_eq!(report["mcp_servers"][0]["name"], "files");
    assert_eq!(report["mcp_servers"][0]["tools"], Value::Null);
    assert_eq!(report["mcp_clients"].as_array().unwrap().len(), 8);
    assert_eq!(report["tool_files"]["failed"], 0);
    assert!(!ran.out.contains("4711"), "{}", ran.out);
}

#[test]
fn a_broken_configuration_is_reported_with_all_else() {
    let test_ws = TestWorkspace::new();
    test_ws.put("haft.toml", "toolz = []\n");
    let ran = doctor(&test_ws, &[], &[], &[]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.out.contains("A configuration file is not used") && ran.out.contains("toolz"), "{}", ran.out);
    assert!(ran.out.contains("G1   holds"), "{}", ran.out);
    assert!(ran.out.ends_with("Next: `haft config --example` lists every key.\n"), "{}", ran.out);
}

/// Each fault breaks one promise on purpose, and the doctor has to notice. A release has no such switches.
#[test]
#[cfg(all(target_os = "linux", debug_assertions))]
fn a_guarantee_that_is_broken_on_purpose_is_reported() {
    let test_ws = TestWorkspace::new();
    let states = |fault: &str| {
        let mut command = test_ws.haft(&["doctor", "--json"]);
        command.env("PATH", "/usr/bin:/bin").env("OLLAMA_HOST", "127.0.0.1:9").env("HAFT_BREAK", fault);
        let ran = run(&mut command, "");
        let report: Value = serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
        let findings = report["findings"].as_array().unwrap().clone();
        let broken = findings.iter().filter(|it| it["state"] == "broken");
        let told =
            broken.map(|it| format!("{}: {}", it["name"].as_str().unwrap(), it["why"].as_str().unwrap()));
        told.collect::<Vec<_>>()
    };
    assert_eq!(states(""), Vec::<String>::new());
    for (fault, guarantee, why) in [
        ("nested-control-files", "G3", "a control file in a subfolder"),
        ("git-configuration", "G3", "my-hooks/pre-commit"),
        ("set-aside", "G3", "was not set aside"),
        ("hidden-names", "G4", "~/.netrc"),
        ("beside-programs", "G4", "a credential beside a program on PATH"),
        ("process-limit", "G7", "too many processes was not ended"),
        ("memory-limit", "G7", "too much memory was not ended"),
        ("inotify-limit", "G7", "most of the user's inotify instances"),
        ("home", "G7", "would be accepted as a workspace without asking"),
        ("escapes", "G10", "an answer had a control character"),
    ] {
        let told = states(fault);
        assert!(
            told.len() == 1 && told[0].starts_with(&format!("{guarantee}: ")) && told[0].contains(why),
            "{fault}: {told:?}"
        );
    }
}
