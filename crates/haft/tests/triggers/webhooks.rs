//! Webhooks over `haft mcp --http`, with a recorded delivery of GitHub.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, Stdio},
};

use serde_json::json;

use super::{call, good, script};
use crate::support::TestWorkspace;

/// The example of GitHub's documentation: the secret, a body, and its signature.
const SECRET: &str = "It's a Secret to Everybody";
const BODY: &str = "Hello, World!";
const SIGNATURE: &str = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";

struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(test_ws: &TestWorkspace) -> Self {
        let mut command = test_ws.haft(&["mcp", "--http", "127.0.0.1:0"]);
        command.env("HAFT_MCP_TOKEN", "token-0123456789-0123456789").env("HOOK", SECRET);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = lines
            .find_map(|it| {
                Some(it.ok()?.strip_prefix("haft: MCP at http://")?.strip_suffix("/mcp")?.to_owned())
            })
            .unwrap();
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address }
    }

    /// Posts a request; returns the status and the text.
    fn post(&self, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, String) {
        let mut request = format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Length: {}\r\n",
            self.address,
            body.len()
        );
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        self.send(&format!("{request}\r\n{body}"))
    }

    /// Sends these bytes; returns the status and the text of the answer.
    fn send(&self, request: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, text) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), text.trim().to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_signed_delivery_fires_once_and_others_are_refused() {
    let test_ws = TestWorkspace::new();
    std::fs::create_dir_all(test_ws.config()).unwrap();
    std::fs::write(
        test_ws.config().join("haft.toml"),
        "[secret.hook]\nenv = \"HOOK\"\nhosts = [\"webhook\"]\n",
    )
    .unwrap();
    let model = script(
        &test_ws,
        &[
            call("webhook", json!({"prompt": "look at the push", "name": "push", "secret": "hook"})),
            json!({"expect": ["trigger_id=push", "POST /hooks/s/push"], "say": "armed"}),
            json!({"expect": ["look at the push", "Hello, World!", "delivery 72d3162e-cc78, event push", "source=\"webhook\""],
                   "say": "seen"}),
        ],
    );
    let mut run = test_ws.haft(&["--approve", "auto", "--session", "s", "run", "--model", &model, "go"]);
    let ran = run.env("HOOK", SECRET).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let server = Server::start(&test_ws);
    let signed = ("X-Hub-Signature-256", SIGNATURE);
    let delivery = ("X-GitHub-Delivery", "72d3162e-cc78");
    let event = ("X-GitHub-Event", "push");
    for (path, headers, body, status) in [
        ("/hooks/s/push", vec![], BODY, 401),
        ("/hooks/s/push", vec![signed, delivery], "Hello, World?", 401),
        ("/hooks/s/other", vec![signed, delivery], BODY, 404),
        ("/hooks/other/push", vec![signed, delivery], BODY, 404),
        ("/hooks/push", vec![signed, delivery], BODY, 404),
        ("/hooks/s/push", vec![signed, delivery, event], BODY, 202),
        ("/hooks/s/push", vec![signed, delivery, event], BODY, 200),
    ] {
        let (answered, text) = server.post(path, &headers, body);
        assert_eq!(answered, status, "{path}: {text}");
    }
    // Too long, as its length says: nothing of the body is read.
    let head = format!("POST /hooks/s/push HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", server.address);
    let long = format!("{head}X-Hub-Signature-256: {SIGNATURE}\r\nContent-Length: {}\r\n\r\n", 961 << 10);
    assert_eq!(server.send(&long).0, 413);
    // A token is still needed for all else.
    assert_eq!(server.post("/mcp", &[("Content-Type", "application/json")], "{}").0, 401);
    drop(server);
    let history = good(test_ws.run(&["triggers", "history", "push"])).out;
    assert_eq!(history.matches("  fired  ").count(), 1, "{history}");
    // The message waits for whoever runs the session; its turn is unattended.
    let mut run = test_ws.haft(&["--session", "s", "run", "--wait", "--max-seconds", "60"]);
    let mut child = run.env("HOOK", SECRET).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|it| it.is_ok_and(|it| it.contains("seen"))));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_created_secret_is_shown_to_the_model_once_and_to_the_person_on_request() {
    let test_ws = TestWorkspace::new();
    let model = script(
        &test_ws,
        &[
            call("webhook", json!({"prompt": "x", "name": "push"})),
            json!({"expect": ["which is not shown again: "], "calls": [{"tool": "list_triggers", "arguments": {}}]}),
            json!({"say": "armed"}),
        ],
    );
    good(test_ws.run(&["--approve", "auto", "--session", "s", "run", "--model", &model, "go"]));
    let secret = good(test_ws.run(&["triggers", "show", "push", "--secret"])).out;
    assert!(secret.trim().len() == 64 && secret.trim().bytes().all(|it| it.is_ascii_hexdigit()), "{secret}");
    assert!(!good(test_ws.run(&["triggers", "show", "push"])).out.contains(secret.trim()));
    assert!(!good(test_ws.run(&["triggers", "--json"])).out.contains(secret.trim()));
}
