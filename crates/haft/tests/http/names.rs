//! Host, Origin and token checks.

use serde_json::json;

use super::support::{ANN, HttpServer, TestWorkspace, good, initialize};

fn status(http_server: &HttpServer, host: &str, origin: Option<&str>) -> u16 {
    let body = initialize().to_string();
    let origin = origin.map(|it| format!("Origin: {it}\r\n")).unwrap_or_default();
    let head = format!("POST /mcp HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{}{origin}", good(ANN));
    http_server.raw(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes()).status
}

#[test]
fn foreign_host_header_is_refused() {
    let http_server = TestWorkspace::new().open();
    let port = http_server.address.port();
    for good in ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"] {
        assert_eq!(status(&http_server, &format!("{good}:{port}"), None), 200, "{good}");
    }
    let rebound = [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "127.0.0.1",
        "0.0.0.0",
        "evil@127.0.0.1",
    ];
    for foreign in rebound {
        for host in [foreign.to_owned(), format!("{foreign}:{}", port ^ 1)] {
            assert_eq!(status(&http_server, &host, None), 403, "{host}");
        }
    }
    assert_eq!(status(&http_server, &format!("evil.example:{port}"), None), 403);
    // None, two, and one that the request's own address contradicts.
    let head = good(ANN);
    let here = http_server.address;
    for odd in [
        format!("GET /mcp HTTP/1.1\r\n{head}\r\n"),
        format!("GET /mcp HTTP/1.1\r\nHost: {here}\r\nHost: evil.example\r\n{head}\r\n"),
        format!("GET http://evil.example/mcp HTTP/1.1\r\nHost: {here}\r\n{head}\r\n"),
        format!("GET /mcp HTTP/1.0\r\n{head}\r\n"),
    ] {
        let reply = http_server.raw(odd.as_bytes());
        assert!([400, 403].contains(&reply.status), "{odd}: {reply:?}");
    }
    http_server.is_alive();
}

#[test]
fn foreign_origin_is_refused_even_with_a_token() {
    let test_ws = TestWorkspace::new();
    let tokens = test_ws.path("tokens");
    let http_server = test_ws.open_with(&[
        "--token-file",
        tokens.to_str().unwrap(),
        "--allow-origin",
        "https://app.example:8443",
    ]);
    let host = http_server.address.to_string();
    let port = http_server.address.port();
    for good in [format!("http://{host}"), "https://app.example:8443".to_owned()] {
        assert_eq!(status(&http_server, &host, Some(&good)), 200, "{good}");
    }
    let foreign = [
        "null".to_owned(),
        "https://evil.example".to_owned(),
        "https://app.example".to_owned(),
        "http://app.example:8443".to_owned(),
        "https://app.example:8443.evil.example".to_owned(),
        format!("http://127.0.0.1:{}", port ^ 1),
        format!("http://localhost:{port}"),
        "http://127.0.0.1".to_owned(),
        "file://".to_owned(),
        String::new(),
    ];
    for origin in foreign {
        assert_eq!(status(&http_server, &host, Some(&origin)), 403, "{origin}");
    }
    http_server.is_alive();
}

#[test]
fn cors_allows_configured_origins_only() {
    let test_ws = TestWorkspace::new();
    let http_server = test_ws.open_with(&["--no-token", "--allow-origin", "https://app.example"]);
    let asked = "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: Content-Type, Mcp-Session-Id, X-Other\r\n";
    let named = http_server.ask("OPTIONS /mcp", &format!("Origin: https://app.example\r\n{asked}"), "");
    assert_eq!(named.status, 204);
    assert_eq!(named.header("access-control-allow-origin").as_deref(), Some("https://app.example"));
    assert_eq!(named.header("access-control-allow-headers").as_deref(), Some("content-type, mcp-session-id"));
    let own = http_server.ask("OPTIONS /mcp", asked, "");
    let foreign = http_server.ask("OPTIONS /mcp", &format!("Origin: https://evil.example\r\n{asked}"), "");
    assert_eq!((own.status, foreign.status), (204, 403));
    for reply in [own, foreign] {
        assert!(!reply.head.to_ascii_lowercase().contains("access-control"), "{reply:?}");
    }
}

#[test]
fn request_without_a_token_learns_only_how_to_authenticate() {
    let http_server = TestWorkspace::new().open();
    let body = initialize().to_string();
    let json = "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n";
    for wrong in
        ["", "Bearer", "Bearer ", "Bearer wrong", "Basic dG9rZW4=", &ANN[1..], &format!("Bearer {ANN}x")]
    {
        let header = if wrong.is_empty() { String::new() } else { format!("Authorization: {wrong}\r\n") };
        for line in ["POST /mcp", "GET /mcp", "DELETE /mcp", &format!("POST /mcp?token={ANN}")] {
            let reply = http_server.ask(line, &format!("{header}{json}"), &body);
            assert_eq!(reply.status, 401, "{line} {wrong}: {reply:?}");
            let challenge = reply.header("www-authenticate").unwrap();
            assert!(
                challenge.starts_with("Bearer ") && challenge.contains("resource_metadata=\"http://"),
                "{challenge}"
            );
        }
    }
    let metadata = http_server.ask("GET /.well-known/oauth-protected-resource", "", "").message();
    let resource = format!("http://{}/mcp", http_server.address);
    assert_eq!(
        metadata,
        json!({"resource": resource, "resource_name": "haft", "bearer_methods_supported": ["header"]})
    );
    http_server.is_alive();
}

#[test]
fn token_is_created_once_in_a_private_file() {
    use std::os::unix::fs::PermissionsExt as _;
    let test_ws = TestWorkspace::new();
    let first = test_ws.open_with(&[]);
    let kept = test_ws.path("state/mcp-token");
    let token = std::fs::read_to_string(&kept).unwrap();
    assert_eq!(token.len(), 64);
    assert_eq!(std::fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(first.said.iter().any(|line| line.contains(&token)), "{:?}", first.said);
    first.begin(&token);
    first.kill();
    let second = test_ws.open_with(&[]);
    assert!(!second.said.iter().any(|line| line.contains(&token)), "shown once: {:?}", second.said);
    second.begin(&token);
}

#[test]
fn unsafe_token_files_and_addresses_are_refused_at_start() {
    let test_ws = TestWorkspace::new();
    let refused = |arguments: &[&str]| {
        let done = test_ws.haft().arg("mcp").args(arguments).output().unwrap();
        assert_eq!(done.status.code(), Some(2), "{arguments:?}: {done:?}");
        String::from_utf8(done.stderr).unwrap()
    };
    assert!(refused(&["--http", "0.0.0.0:0"]).contains("--public"));
    assert!(refused(&["--http", "0.0.0.0:0", "--no-token", "--public", "h"]).contains("loopback"));
    assert!(refused(&["--http", "127.0.0.1:0", "--allow-origin", "*"]).contains("origin"));
    assert!(refused(&["--http", "127.0.0.1:0", "--public", "*"]).contains("--public"));
    assert!(refused(&["--http", "nonsense"]).contains("nonsense"));
    test_ws.put("short", "ann abc\n");
    let short = test_ws.path("short");
    assert!(refused(&["--http", "127.0.0.1:0", "--token-file", short.to_str().unwrap()]).contains("16"));
    let open = test_ws.path("open");
    std::fs::write(&open, ANN).unwrap();
    std::process::Command::new("chmod").arg("644").arg(&open).status().unwrap();
    assert!(
        refused(&["--http", "127.0.0.1:0", "--token-file", open.to_str().unwrap()]).contains("other users")
    );
}
