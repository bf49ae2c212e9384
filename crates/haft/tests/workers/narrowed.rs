//! Rights on a worker: its own configuration, which the sender's limits only narrow; and work that it lacks something for.

use serde_json::{Value, json};

use super::{Running, SHORT, Worker, calls, configure, says, script, shell, until, workspace};
use crate::support::TestWorkspace;

/// Returns the kind of the fault of a session's only call, where there is one.
fn fault_of(test_ws: &TestWorkspace, options: &[&str], tool: &str, arguments: &Value) -> Option<String> {
    let model = script(test_ws, "model.jsonl", &[calls(tool, arguments), says("Done.")]);
    let ran = test_ws.run(&[options, &["run", "--json", "--on", "any", "--model", &model, "go"]].concat());
    assert_eq!(ran.code, 0, "{ran:?}");
    let events = ran.out.lines().map(|it| serde_json::from_str::<Value>(it).unwrap());
    let answered = events.into_iter().find(|it| it["event"] == "answered").unwrap();
    answered["fault"].as_str().map(str::to_owned)
}

#[test]
fn sender_narrows_the_worker_and_never_widens_it() {
    let test_ws = workspace();
    let write = json!({"path": "b.txt", "content": "b\n"});
    {
        let _worker = Worker::start(&test_ws, &[]);
        assert_eq!(
            fault_of(&test_ws, &["--sandbox", "read-only"], "write", &write).as_deref(),
            Some("denied")
        );
        assert!(!test_ws.at("b.txt").exists());
        assert_eq!(fault_of(&test_ws, &[], "write", &write), None);
        assert_eq!(test_ws.text("b.txt"), "b\n");
    }
    let write = json!({"path": "c.txt", "content": "c\n"});
    let _worker = Worker::start(&test_ws, &["--sandbox", "read-only"]);
    let widens = ["--sandbox", "full", "--approve", "auto"];
    assert_eq!(fault_of(&test_ws, &widens, "write", &write).as_deref(), Some("denied"));
}

#[test]
fn deny_rules_and_tool_lists_of_the_sender_apply_on_the_worker() {
    let test_ws = workspace();
    configure(
        &test_ws.config(),
        &format!("tools = [\"shell\", \"read\"]\n{SHORT}[commands]\ndeny = [\"rm\"]\n"),
    );
    let config = test_ws.base().join("other");
    configure(&config, SHORT);
    let _worker = Worker::start_with(&test_ws, &config, &[]);
    test_ws.put("a.txt", "a\n");
    let denied = fault_of(&test_ws, &[], "shell", &json!({"command": "rm a.txt"}));
    assert_eq!(denied.as_deref(), Some("denied"));
    let missing = fault_of(&test_ws, &[], "write", &json!({"path": "x", "content": "x"}));
    assert_eq!(missing.as_deref(), Some("not_found"));
    assert!(test_ws.at("a.txt").exists() && !test_ws.at("x").exists());
}

#[test]
fn secrets_of_the_sender_stay_and_a_worker_without_them_gets_no_work() {
    let test_ws = workspace();
    let secret = |name: &str| format!("{SHORT}[secret.{name}]\nfile = \"{{}}\"\nhosts = [\"example.org\"]\n");
    let file = test_ws.base().join("secret.txt");
    std::fs::write(&file, "s3cr3t-v4lue-of-the-sender\n").unwrap();
    configure(&test_ws.config(), &secret("github").replace("{}", &file.display().to_string()));
    test_ws.put("with.txt", "key: s3cr3t-v4lue-of-the-sender\n");
    let config = test_ws.base().join("other");
    configure(&config, SHORT);
    let model =
        script(&test_ws, "model.jsonl", &[calls("glob", &json!({"pattern": "*.txt"})), says("Done.")]);
    let lacking = Worker::start_with(&test_ws, &config, &[]);
    let running = Running::start(&test_ws, &["run", "--json", "--on", "any", "--model", &model, "go"]);
    until(&running.err, "lacks the secret `github`");
    drop(lacking);
    let own = test_ws.base().join("own.txt");
    std::fs::write(&own, "another-v4lue-of-the-worker\n").unwrap();
    configure(&config, &secret("github").replace("{}", &own.display().to_string()));
    let _worker = Worker::start_with(&test_ws, &config, &[]);
    let ran = running.ended();
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(!ran.out.contains("with.txt"), "a file with the secret did not travel: {ran:?}");
    let found = std::process::Command::new("grep")
        .args(["-rlaF", "s3cr3t-v4lue-of-the-sender"])
        .arg(test_ws.state())
        .output()
        .unwrap();
    assert!(found.stdout.is_empty(), "{}", String::from_utf8_lossy(&found.stdout));
}

#[test]
fn tool_file_of_the_sender_is_needed_with_the_same_content() {
    kit::needs!(Python);
    let test_ws = workspace();
    let tool = |text: &str| {
        format!(
            "name = 'greet'\ndescription = 'Greets.'\nparameters = {{'type': 'object', 'properties': {{}}}}\n\
             touches = []\nasync def execute(args):\n    return '{text}'\n"
        )
    };
    let put = |config: &std::path::Path, text: &str| {
        std::fs::create_dir_all(config.join("tools")).unwrap();
        std::fs::write(config.join("tools/greet.py"), tool(text)).unwrap();
    };
    let config = test_ws.base().join("other");
    configure(&config, SHORT);
    put(&test_ws.config(), "hello you");
    put(&config, "other");
    let model = script(&test_ws, "model.jsonl", &[calls("greet", &json!({})), says("Done.")]);
    let other = Worker::start_with(&test_ws, &config, &[]);
    let running = Running::start(&test_ws, &["run", "--json", "--on", "any", "--model", &model, "go"]);
    until(&running.err, "lacks the tool file `greet` as you have it");
    drop(other);
    put(&config, "hello you");
    let _worker = Worker::start_with(&test_ws, &config, &[]);
    let ran = running.ended();
    assert!(ran.code == 0 && ran.out.contains("hello you"), "{ran:?}");
}

#[test]
fn mcp_server_of_the_sender_is_needed_with_the_same_definition() {
    kit::needs!(Python);
    let test_ws = workspace();
    let server = test_ws.base().join("server.py");
    std::fs::write(&server, include_str!("../servers/server.py")).unwrap();
    let section = |more: &str| {
        format!(
            "{SHORT}[mcp.fix]\ncommand = \"python3\"\nargs = [{:?}, \"{{}}\"]\n{more}",
            server.display().to_string()
        )
    };
    configure(&test_ws.config(), &section(""));
    let (config, other) = (test_ws.base().join("none"), test_ws.base().join("other"));
    configure(&config, SHORT);
    configure(&other, &section("tools = [\"nothing\"]\n"));
    let model = script(&test_ws, "model.jsonl", &[shell("echo a > a.txt"), says("Done.")]);
    let without = Worker::start_with(&test_ws, &config, &[]);
    let running = Running::start(&test_ws, &["run", "--json", "--on", "any", "--model", &model, "go"]);
    until(&running.err, "lacks the MCP server `fix` as you have it");
    drop(without);
    let different = Worker::start_with(&test_ws, &other, &[]);
    let listed = test_ws.run(&["workers"]).out;
    assert!(listed.contains(&different.id) && listed.contains("1 task waiting, 0 running"), "{listed}");
    until(&running.err, &format!("worker {} lacks the MCP server `fix` as you have it", different.id));
    drop(different);
    let same = Worker::start(&test_ws, &[]);
    let ran = running.ended();
    assert_eq!((ran.code, test_ws.text("a.txt")), (0, "a\n".into()), "{ran:?}");
    same.until("begins");
}
