//! A secret that was sent in every way is found nowhere else.

use std::{fs, path::Path};

use kit::base64;
use serde_json::{Value, json};

use super::hostile::Hostile;
use crate::support::{TestWorkspace, names, run};

const OF_ENVIRONMENT: &str = r#"cnry-E1"/+\x 7f3a9c&d"#;
const OF_FILE: &str = "cnry-F2-ghp_0b1c2d3e4f";
const SHORT: &str = "q7#Z";

/// The remains of a day of work: everything that was printed.
struct Day {
    test_ws: TestWorkspace,
    printed: String,
}

impl Day {
    fn haft(&mut self, arguments: &[&str], input: &str) -> String {
        let mut command = self.test_ws.haft(arguments);
        command.env("MY_VARIABLE", OF_ENVIRONMENT).env("MY_SHORT_ONE", SHORT).env("HAFT_LOG", "trace");
        let ran = run(&mut command, input);
        self.printed.push_str(&ran.out);
        self.printed.push_str(&ran.err);
        ran.out
    }

    fn calls(&mut self, calls: &[(&str, Value)]) -> Vec<Value> {
        let lines: String = calls
            .iter()
            .map(|(tool, arguments)| json!({"tool": tool, "arguments": arguments}).to_string() + "\n")
            .collect();
        let out = self.haft(&["--session", "day", "call", "--json", "--batch", "-"], &lines);
        let answers: Vec<Value> = out.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
        assert_eq!(answers.len(), calls.len(), "{out}");
        answers
    }
}

#[test]
fn secret_is_found_only_where_it_was_sent() {
    let server = Hostile::start();
    let test_ws = TestWorkspace::new();
    fs::create_dir_all(test_ws.config()).unwrap();
    let kept = test_ws.base().join("kept");
    fs::write(&kept, format!("{OF_FILE}\n")).unwrap();
    let (host, kept_at) = (server.host(), kept.display());
    let config = format!(
        "[net]\nallow = [\"{host}\", \"127.0.0.1:1\"]\n\
         [secret.one]\nenv = \"MY_VARIABLE\"\nhosts = [\"{host}\", \"127.0.0.1:1\"]\n\
         [secret.two]\nfile = \"{kept_at}\"\nhosts = [\"{host}\"]\n\
         [secret.short]\nenv = \"MY_SHORT_ONE\"\nhosts = [\"{host}\"]\n"
    );
    fs::write(test_ws.config().join("haft.toml"), config).unwrap();
    test_ws.put("up", "no secret\n");
    let mut day = Day { test_ws, printed: String::new() };
    let url = |path: &str| server.url(path);
    let all = "{{secret:one}} {{secret:two}} {{secret:short}}";

    // Requests that succeed, with the secret echoed in the ways in which servers do that.
    let sent = [
        (
            "http_request",
            json!({"url": url("/echo"), "headers": {"Authorization": "Bearer {{secret:two}}", "X-One": "{{secret:one}}", "X-Short": "{{secret:short}}"}}),
        ),
        (
            "http_request",
            json!({"url": url("/echo"), "headers": {"Authorization": "Basic me:{{secret:one}}"}, "all_headers": true}),
        ),
        (
            "http_request",
            json!({"url": url("/echo/{{secret:one}}/x?k={{secret:two}}&s={{secret:short}}"), "query": {"q": all}}),
        ),
        ("http_request", json!({"url": url("/echo"), "body": all})),
        ("http_request", json!({"url": url("/echo"), "json": {"deep": [{"k": all}]}})),
        ("http_request", json!({"url": url("/echo"), "form": {"k": all}})),
        (
            "http_request",
            json!({"url": url("/echo"), "multipart": [{"name": "k", "value": all}, {"name": "f", "path": "up"}]}),
        ),
        ("http_request", json!({"url": url("/302?/echo?k={{secret:one}}")})),
        ("http_request", json!({"url": url("/302?/loop?k={{secret:one}}"), "redirects": 1})),
        (
            "http_request",
            json!({"url": url("/echo"), "method": "POST", "body": format!("{all}\n").repeat(4000), "max_bytes": 1_000_000}),
        ),
        ("http_request", json!({"url": url("/echo"), "body": all, "max_bytes": 160})),
        ("http_request", json!({"url": url("/echo"), "body": all, "save_to": "saved.txt"})),
        ("read", json!({"path": "saved.txt"})),
        ("grep", json!({"pattern": "cnry"})),
        ("read", json!({"path": "out_1"})),
        ("shell", json!({"command": "cat saved.txt; env; cat /proc/*/environ", "wait_ms": 20000})),
    ];
    let answers = day.calls(&sent);
    for ((tool, arguments), answer) in sent.iter().zip(&answers) {
        // The loop ends in a fault; what a shell's `cat` is refused is its own affair.
        let may_fail = arguments.to_string().contains("/loop");
        assert!(answer["ok"] == true || may_fail, "{tool} {arguments}: {answer}");
    }
    let said = answers.iter().map(Value::to_string).collect::<String>();
    for masked in ["[masked:one]", "[masked:two]", "[masked:short]"] {
        assert!(said.matches(masked).count() > 8, "{masked} in {said}");
    }

    // Requests that fail, at every stage.
    let failing = [
        json!({"url": url("/status/401?{{secret:one}}")}),
        json!({"url": url("/nothing?{{secret:one}}")}),
        json!({"url": url("/http09/{{secret:one}}")}),
        json!({"url": url("/slow-body?{{secret:one}}"), "timeout_ms": 300}),
        json!({"url": url("/slow-head?{{secret:one}}"), "timeout_ms": 300}),
        json!({"url": url("/too-short?{{secret:one}}"), "save_to": "x"}),
        json!({"url": url("/loop?{{secret:one}}")}),
        json!({"url": url("/302?http://10.0.0.1/{{secret:one}}")}),
        json!({"url": url("/302?ftp://x/{{secret:one}}")}),
        json!({"url": "http://127.0.0.1:1/{{secret:one}}"}),
        json!({"url": "http://127.0.0.1:1/{{secret:two}}"}),
        json!({"url": "https://example.invalid/{{secret:two}}"}),
        json!({"url": url("/echo"), "headers": {"X": "{{secret:one}}\r\n"}}),
        json!({"url": url("/echo"), "headers": {"{{secret:one}}": "x"}}),
        json!({"url": url("/echo"), "headers": {"Host": "{{secret:one}}"}}),
        json!({"url": url("/echo"), "method": "{{secret:one}}"}),
        json!({"url": url("/echo"), "body": "{{secret:one}}", "json": "{{secret:one}}"}),
        json!({"url": url("/echo"), "body": "{{secret:no_such}}"}),
        json!({"url": url("/echo"), "body": all, "save_to": "../outside/x"}),
    ];
    let calls: Vec<_> = failing.iter().map(|it| ("http_request", it.clone())).collect();
    day.calls(&calls);
    let job = json!({"url": url("/echo"), "body": all, "run_in_background": true});
    day.calls(&[
        ("http_request", job),
        ("wait", json!({"job": "job_1", "wait_ms": 20000})),
        ("read_job", json!({"job": "job_1"})),
    ]);
    for verb in [&["log"][..], &["log", "--json"], &["jobs"], &["undo", "--list"], &["grants"], &["tools"]] {
        day.haft(verb, "");
    }
    day.haft(&["call", "http_request", &json!({"url": url("/echo"), "body": all}).to_string()], "");

    // The positive control: all of them arrived, in every way.
    let received: Vec<u8> = server
        .requests()
        .iter()
        .flat_map(|it| [format!("{} {:?}\n", it.target, it.headers).into_bytes(), it.body.clone()].concat())
        .collect();
    for secret in [OF_ENVIRONMENT, OF_FILE] {
        for it in &forms(secret)[..4] {
            assert!(contains(&received, it.as_bytes()), "{it} was not sent");
        }
    }
    assert!(contains(&received, base64::encoded(format!("me:{OF_ENVIRONMENT}").as_bytes()).as_bytes()));
    assert!(contains(&fs::read(day.test_ws.at("saved.txt")).unwrap(), OF_FILE.as_bytes()));

    // And are found nowhere else.
    let mut left = vec![("what was printed".to_owned(), day.printed.clone().into_bytes())];
    collect(&day.test_ws.state(), &mut left);
    collect(&day.test_ws.base().join("home"), &mut left);
    assert!(
        left.len() > 3 && left.iter().any(|(name, _)| name.contains("spill")),
        "there is nothing to look in"
    );
    for secret in [OF_ENVIRONMENT, OF_FILE] {
        for form in forms(secret) {
            for (name, bytes) in &left {
                assert!(!contains(bytes, form.as_bytes()), "{form} is in {name}");
            }
        }
    }
    assert!(!day.printed.contains(SHORT) && !day.printed.contains("q7%23Z"), "the short one was printed");
}

/// Returns the ways in which a value is written.
fn forms(value: &str) -> Vec<String> {
    let json = Value::from(value).to_string();
    let escaped = |unreserved: &str| -> String {
        let one = |it: char| {
            if it.is_ascii_alphanumeric() || unreserved.contains(it) {
                it.to_string()
            } else {
                format!("%{:02X}", it as u32)
            }
        };
        value.chars().map(one).collect()
    };
    vec![
        value.to_owned(),
        json.trim_matches('"').to_owned(),
        escaped("-._~"),
        escaped("-._~").replace("%20", "+"),
        base64::encoded(format!("me:{value}").as_bytes()),
        base64::encoded(value.as_bytes()),
    ]
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|it| it == part)
}

/// The raw bytes of every file below a folder.
fn collect(folder: &Path, found: &mut Vec<(String, Vec<u8>)>) {
    for name in names(folder) {
        let path = folder.join(name);
        if path.is_dir() {
            collect(&path, found);
        } else if path.is_file() {
            found.push((path.display().to_string(), fs::read(&path).unwrap()));
        }
    }
}
