//! `haft mcp login`: OAuth sign-in to a remote MCP server.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::{Command, Stdio},
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};

use crate::support::{Ran, TestWorkspace, run};

/// A server at `/mcp` that wants a token, and who gives one, in one.
struct Guarded {
    origin: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Guarded {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let origin = format!("http://127.0.0.1:{}", listener.local_addr().unwrap().port());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (seen, at) = (asked.clone(), origin.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (seen, at) = (seen.clone(), at.clone());
                std::thread::spawn(move || serve(stream, &seen, &at));
            }
        });
        Self { origin, asked }
    }
}

fn serve(mut stream: TcpStream, seen: &Mutex<Vec<String>>, origin: &str) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|it| *it > 0)?;
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line == "\r\n" {
            break;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let target = head.split(' ').nth(1)?.to_owned();
    seen.lock().unwrap().push(format!("{target} {}", String::from_utf8_lossy(&body)));
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    let (status, header, answer) = match target.split('?').next()? {
        "/mcp" if !head.to_ascii_lowercase().contains("authorization: bearer access-1") => {
            let at = format!(
                "www-authenticate: Bearer resource_metadata=\"{origin}/.well-known/oauth-protected-resource/mcp\"\r\n"
            );
            (401, at, json!({}))
        }
        "/mcp" => (200, String::new(), spoken(&request)),
        "/.well-known/oauth-protected-resource/mcp" => (
            200,
            String::new(),
            json!({
                "resource": format!("{origin}/mcp"), "authorization_servers": [origin], "scopes_supported": ["read"],
            }),
        ),
        "/.well-known/oauth-authorization-server" => (
            200,
            String::new(),
            json!({
                "issuer": origin, "authorization_endpoint": format!("{origin}/authorize"), "token_endpoint": format!("{origin}/token"),
                "registration_endpoint": format!("{origin}/register"), "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
            }),
        ),
        "/register" => (200, String::new(), json!({"client_id": "c", "redirect_uris": []})),
        "/token" => (200, String::new(), json!({"access_token": "access-1", "token_type": "Bearer"})),
        _ => (404, String::new(), json!({})),
    };
    let answer = answer.to_string();
    let head = format!(
        "HTTP/1.1 {status} X\r\n{header}content-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        answer.len()
    );
    stream.write_all(format!("{head}{answer}").as_bytes()).ok()
}

fn spoken(request: &Value) -> Value {
    let base = json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "private"});
    let more = match request["method"].as_str().unwrap_or_default() {
        "server/discover" => {
            json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "serverInfo": {"name": "far", "version": "1"}})
        }
        "tools/list" => {
            json!({"tools": [{"name": "greet", "description": "Greets.", "inputSchema": {"type": "object"}}]})
        }
        _ => json!({"content": [{"type": "text", "text": "hello from afar"}]}),
    };
    let mut result = base.as_object().unwrap().clone();
    result.extend(more.as_object().unwrap().clone());
    json!({"jsonrpc": "2.0", "id": request["id"], "result": result})
}

fn haft(test_ws: &TestWorkspace, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_haft"));
    command
        .env_clear()
        .env("HAFT_STATE_DIR", test_ws.state())
        .env("HAFT_CONFIG_DIR", test_ws.config())
        .env("HOME", test_ws.base())
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .current_dir(test_ws.at(""))
        .args(arguments);
    command
}

fn call(test_ws: &TestWorkspace) -> Ran {
    run(&mut haft(test_ws, &["--approve", "auto", "call", "far__greet", "{}"]), "")
}

/// Requests an address, as a browser does; returns the response.
fn browse(address: &str) -> String {
    let rest = address.strip_prefix("http://").unwrap();
    let (host, target) = rest.split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET /{target} HTTP/1.1\r\nhost: {host}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_person_signs_in_and_a_call_goes_through_until_they_sign_out() {
    let server = Guarded::new();
    let test_ws = TestWorkspace::new();
    let config = format!("[mcp.far]\nurl = \"{}/mcp\"\n", server.origin);
    std::fs::create_dir_all(test_ws.config()).unwrap();
    std::fs::write(test_ws.config().join("haft.toml"), config).unwrap();

    let refused =
        run(&mut haft(&test_ws, &["--approve", "auto", "call", "mcp_connect", r#"{"server": "far"}"#]), "");
    assert!(
        refused.out.contains("`haft mcp login far`") || refused.err.contains("`haft mcp login far`"),
        "{refused:?}"
    );

    let mut login =
        haft(&test_ws, &["mcp", "login", "far", "--no-browser"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(login.stdout.take().unwrap()).lines();
    let asks = said.next().unwrap().unwrap();
    assert_eq!(asks, format!("{} asks whether haft may use `far`: read", server.origin));
    let address = said.next().unwrap().unwrap().strip_prefix("open: ").unwrap().to_owned();
    let field = |name: &str| {
        let (_, rest) = address.split_once(&format!("{name}=")).unwrap();
        rest.split('&').next().unwrap().to_owned()
    };
    let back = field("redirect_uri").replace("%3A", ":").replace("%2F", "/");
    assert!(back.starts_with("http://127.0.0.1:"), "{back}");
    // Somebody else's answer changes nothing.
    assert!(browse(&format!("{back}?code=evil&state=evil")).starts_with("HTTP/1.1 400"));
    assert!(browse(&format!("{back}?code=good&state={}", field("state"))).starts_with("HTTP/1.1 200"));
    assert_eq!(said.next().unwrap().unwrap(), "signed in to `far`");
    assert!(login.wait().unwrap().success());
    assert!(
        server.asked.lock().unwrap().iter().any(|it| it.starts_with("/token ") && it.contains("code=good"))
    );

    let connected =
        run(&mut haft(&test_ws, &["--approve", "auto", "call", "mcp_connect", r#"{"server": "far"}"#]), "");
    assert_eq!(connected.code, 0, "{connected:?}");
    let called = call(&test_ws);
    assert!(called.out.contains("hello from afar"), "{called:?}");

    let out = run(&mut haft(&test_ws, &["mcp", "logout", "far"]), "");
    assert!(out.out.starts_with("signed out of `far`"), "{out:?}");
    let again = run(&mut haft(&test_ws, &["mcp", "logout", "far"]), "");
    assert_eq!(again.out, "haft was not signed in to `far`\n");
    assert!(
        call(&test_ws).err.contains("`haft mcp login far`")
            || call(&test_ws).out.contains("`haft mcp login far`")
    );
}

#[test]
fn nobody_signs_in_to_a_program_or_to_what_is_not_there() {
    let test_ws = TestWorkspace::new();
    std::fs::create_dir_all(test_ws.config()).unwrap();
    std::fs::write(test_ws.config().join("haft.toml"), "[mcp.near]\ncommand = \"cat\"\n").unwrap();
    let near = run(&mut haft(&test_ws, &["mcp", "login", "near", "--no-browser"]), "");
    assert!(near.code != 0 && near.err.contains("`near` is a program on this machine"), "{near:?}");
    let none = run(&mut haft(&test_ws, &["mcp", "login", "none", "--no-browser"]), "");
    assert!(none.err.contains("there is no server `none`") && none.err.contains("near"), "{none:?}");
}
