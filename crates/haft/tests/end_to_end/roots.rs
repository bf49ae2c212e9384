//! MCP roots: `haft mcp` works in its client's root, wherever it was started.

use std::{
    fs,
    io::{BufRead as _, BufReader, Lines, Write as _},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use serde_json::{Value, json};

use crate::support::{TestWorkspace, run};

/// A client that says nothing by itself.
struct Client {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
}

impl Client {
    fn start(test_ws: &TestWorkspace, here: &Path, options: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_haft"))
            .env_clear()
            .env("HAFT_STATE_DIR", test_ws.state())
            .env("HAFT_CONFIG_DIR", test_ws.config())
            .env("HOME", test_ws.base().join("home"))
            .current_dir(here)
            .args(options)
            .arg("mcp")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { input: child.stdin.take(), child, output }
    }

    fn say(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    fn receive(&mut self) -> Value {
        serde_json::from_str(&self.output.next().unwrap().unwrap()).unwrap()
    }

    /// Reads until a message has this value; returns it.
    fn until(&mut self, key: &str, value: &Value) -> Value {
        loop {
            let message = self.receive();
            if message[key] == *value {
                return message;
            }
        }
    }

    /// Says hello, and writes a file at once; the answer to `initialize` needs no roots.
    fn greet_and_write(&mut self) {
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {"roots": {"listChanged": true}},
            "clientInfo": {"name": "t", "version": "1"}});
        self.say(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}));
        assert_eq!(self.receive()["id"], 1);
        self.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        self.write(2, "made.txt");
    }

    fn write(&mut self, id: u64, path: &str) {
        let params = json!({"name": "write", "arguments": {"path": path, "content": "here\n"}});
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}));
    }

    fn tell(&mut self, roots: &[&Path]) {
        let asked = self.until("method", &json!("roots/list"));
        let roots: Vec<Value> =
            roots.iter().map(|root| json!({"uri": format!("file://{}", root.display())})).collect();
        self.say(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": roots}}));
    }

    fn ends(mut self) {
        self.input.take();
        assert!(self.child.wait().unwrap().success());
    }
}

#[test]
fn started_nowhere_it_works_in_the_client_s_first_folder_and_reaches_the_others() {
    let test_ws = TestWorkspace::new();
    for here in [Path::new("/"), &test_ws.base().join("home")] {
        let mut client = Client::start(&test_ws, here, &[]);
        client.greet_and_write();
        client.tell(&[Path::new("/no/such/folder"), &test_ws.at(""), &test_ws.outside()]);
        let answer = client.until("id", &json!(2));
        assert_eq!(answer["result"]["isError"], false, "{answer}");
        assert_eq!(test_ws.text("made.txt"), "here\n");
        let beside = test_ws.outside().join("beside.txt");
        client.write(3, beside.to_str().unwrap());
        assert_eq!(client.until("id", &json!(3))["result"]["isError"], false);
        assert_eq!(fs::read_to_string(&beside).unwrap(), "here\n");
        // It may come and go; the workspace stays.
        client.say(&json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}));
        client.write(4, "again.txt");
        assert_eq!(client.until("id", &json!(4))["result"]["isError"], false);
        assert_eq!(test_ws.text("again.txt"), "here\n");
        client.ends();
        for name in ["made.txt", "again.txt"] {
            fs::remove_file(test_ws.at(name)).unwrap();
        }
        fs::remove_file(beside).unwrap();
    }
}

#[test]
fn started_where_the_client_works_it_stays_there() {
    let test_ws = TestWorkspace::new();
    fs::create_dir(test_ws.at("deep")).unwrap();
    let mut client = Client::start(&test_ws, &test_ws.at("deep"), &[]);
    client.greet_and_write();
    client.tell(&[&test_ws.outside(), &test_ws.at("")]);
    assert_eq!(client.until("id", &json!(2))["result"]["isError"], false);
    assert_eq!(test_ws.text("deep/made.txt"), "here\n");
    client.ends();
}

#[test]
fn a_client_that_does_not_say_where_it_works_is_not_waited_for() {
    let test_ws = TestWorkspace::new();
    let mut client = Client::start(&test_ws, &test_ws.at(""), &[]);
    client.greet_and_write();
    assert_eq!(client.until("id", &json!(2))["result"]["isError"], false);
    assert_eq!(test_ws.text("made.txt"), "here\n");
    client.ends();
}

#[test]
fn started_nowhere_without_a_folder_from_the_client_its_tools_are_listed_and_refused() {
    let test_ws = TestWorkspace::new();
    let home = test_ws.base().join("home").canonicalize().unwrap();
    for (here, roots) in [(Path::new("/"), None), (Path::new("/"), Some("/")), (&home, None)] {
        let mut client = Client::start(&test_ws, here, &[]);
        client.greet_and_write();
        if let Some(root) = roots {
            client.tell(&[Path::new(root)]);
        }
        let answer = client.until("id", &json!(2));
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        let why = format!("there is no workspace: haft was started in `{}`, and the client", here.display());
        assert!(text.contains(&why) && text.contains("--dir FOLDER"), "{text}");
        let shell = json!({"name": "shell", "arguments": {"command": "true"}});
        client.say(&json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": shell}));
        assert_eq!(client.until("id", &json!(3))["result"]["isError"], true);
        client.say(&json!({"jsonrpc": "2.0", "id": 4, "method": "tools/list", "params": {}}));
        let tools = client.until("id", &json!(4));
        assert!(tools["result"]["tools"].as_array().unwrap().len() > 5, "{tools}");
        client.ends();
        assert!(!here.join("made.txt").exists());
        // Over HTTP nobody will say it.
        let mut command = Command::new(env!("CARGO_BIN_EXE_haft"));
        let isolated = command.env_clear().env("HAFT_STATE_DIR", test_ws.state()).env("HOME", &home);
        let ran = run(isolated.current_dir(here).args(["mcp", "--http", "127.0.0.1:0"]), "");
        assert_eq!(ran.code, 1, "{ran:?}");
        assert!(ran.err.contains("there is no workspace") && ran.err.contains("--dir"), "{ran:?}");
    }
}

#[test]
fn the_home_folder_is_the_workspace_of_who_says_so() {
    let test_ws = TestWorkspace::new();
    let home = test_ws.base().join("home");
    for (options, root) in [(&[][..], Some(&home)), (&["--dir", home.to_str().unwrap()], None)] {
        let mut client = Client::start(&test_ws, &home, options);
        client.greet_and_write();
        if let Some(root) = root {
            client.tell(&[root]);
        }
        // A client offers whatever folder it was started in; only a person's `--dir` means the home folder.
        let is_named = root.is_none();
        assert_eq!(client.until("id", &json!(2))["result"]["isError"], !is_named);
        assert_eq!(home.join("made.txt").exists(), is_named);
        client.ends();
    }
}

#[test]
fn whoever_named_the_workspace_is_not_asked() {
    let test_ws = TestWorkspace::new();
    let workspace = test_ws.at("");
    let mut client = Client::start(&test_ws, Path::new("/"), &["--dir", workspace.to_str().unwrap()]);
    client.greet_and_write();
    let said = client.receive();
    assert_eq!((&said["id"], &said["result"]["isError"]), (&json!(2), &json!(false)), "{said}");
    assert_eq!(test_ws.text("made.txt"), "here\n");
    client.ends();
}
