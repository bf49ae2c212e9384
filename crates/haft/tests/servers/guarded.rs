//! Untrusted MCP servers: what they may do, and who allowed it.

use std::{fs, io::Write as _, net::TcpListener};

use serde_json::json;

use super::support::Fixture;
use crate::support::{Called, run};

const DOT_MCP: &str = r#"{"mcpServers": {"fix": {"command": "python3", "args": ["server.py", "{}"],
    "env": {"GIVEN": "${NONE:-otherwise}", "NAMED": "${PATHS}"}}}}"#;

#[test]
fn servers_of_a_workspace_need_trust_and_then_approval() {
    kit::needs!(Python);
    let fixture = Fixture::new(&json!({}));
    fs::remove_file(fixture.test_ws.config().join("haft.toml")).unwrap();
    fixture.test_ws.put(".mcp.json", DOT_MCP);
    let ran = fixture.test_ws.run(&["mcp", "list"]);
    assert!(ran.out.starts_with("no MCP servers are configured"), "{ran:?}");
    assert!(
        ran.err.contains("the servers in .mcp.json are ignored until you run `haft trust`"),
        "{}",
        ran.err
    );
    fixture.call("fix__echo", "x").must("not_found");
    assert_eq!(fixture.marks("started"), 0);

    let ran = fixture.test_ws.run(&["trust"]);
    assert!(ran.out.contains("trusted until it changes") && ran.out.contains("server.py"), "{ran:?}");
    let connect = json!({"server": "fix"});
    let said = fixture.test_ws.call("mcp_connect", &connect).must("denied").text();
    assert!(said.contains("rule `mcp_server`") && said.contains("python3 server.py"), "{said}");
    assert!(
        said.contains("given GIVEN=") && said.contains("${PATHS}"),
        "what it gets of the environment: {said}"
    );
    let grant = said.split("grants add '").nth(1).unwrap().split('\'').next().unwrap().to_owned();
    assert!(grant.starts_with("server fix@"), "{said}");
    fixture.call("fix__echo", "x").must("not_found");
    assert_eq!(fixture.marks("started"), 0, "nobody allowed it");

    let said =
        fixture.test_ws.call_with(&["--approve", "auto"], "mcp_connect", &connect).must("unavailable").text();
    assert!(said.contains("`${PATHS}` is not set"), "{said}");
    let granted = fixture.test_ws.run(&["grants", "add", &grant]);
    assert_eq!(granted.code, 0, "{granted:?}");
    let mut command = fixture.test_ws.haft(&["call", "fix__env", r#"{"text": "GIVEN"}"#]);
    assert_eq!(run(command.env("PATHS", "p"), "").out, "otherwise\n");

    // Another text is not what was trusted.
    fixture.test_ws.put(".mcp.json", DOT_MCP.replace("server.py", "./server.py"));
    assert!(fixture.test_ws.run(&["mcp", "list"]).out.starts_with("no MCP servers are configured"));
    assert_eq!(fixture.test_ws.run(&["trust"]).code, 0);
    fixture.test_ws.call("mcp_connect", &connect).must("denied");
}

#[test]
fn server_is_confined_like_a_shell_command() {
    kit::needs!(Python);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            let _ = std::io::Read::read(&mut stream, &mut [0; 1024]);
            let _ = stream.write_all(b"HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\nfar!");
        }
    });
    let fixture = Fixture::with(&json!({}), "env = [\"GIVEN\"]");
    let outside = fixture.test_ws.outside();
    fs::write(outside.join("secret"), "outside").unwrap();
    fixture.test_ws.put("inside", "inside");
    let call = |tool: &str, text: &str| {
        let mut command = fixture.test_ws.haft(&["call", tool, &json!({"text": text}).to_string()]);
        run(command.env("GIVEN", "given").env("OTHER_TOKEN", "leaks-8d1f"), "").out
    };
    let far = format!("http://127.0.0.1:{port}/");
    assert_eq!(call("fix__read", "inside"), "inside\n");
    assert!(call("fix__read", &outside.join("secret").display().to_string()).contains("No such file"));
    assert!(
        call("fix__read", &fixture.test_ws.state().join("trusted").display().to_string())
            .contains("No such file")
    );
    assert_eq!(call("fix__env", "GIVEN"), "given\n");
    assert_eq!(call("fix__env", "OTHER_TOKEN"), "not set\n");
    assert!(call("fix__get", &far).contains("Error"), "no host was granted");

    let more = format!(
        "env = [\"GIVEN\"]\nnet = [\"127.0.0.1:{port}\"]\nread = [{:?}]",
        outside.display().to_string()
    );
    fixture.configure(&json!({}), &more);
    assert_eq!(call("fix__read", &outside.join("secret").display().to_string()), "outside\n");
    let said = call("fix__get", &far);
    assert!(said.contains("far!"), "{said}");
}

#[test]
fn unconfigured_server_needs_approval_and_lasts_for_its_session() {
    kit::needs!(Python);
    let fixture = Fixture::new(&json!({}));
    let new = json!({"server": "mine", "command": ["python3", "server.py", "{}"]});
    let said = fixture.test_ws.call("mcp_connect", &new).must("denied").text();
    assert!(said.contains("mine: python3 server.py"), "{said}");
    assert_eq!(fixture.marks("started"), 0);
    let calls = [
        ("mcp_connect", new.clone()),
        ("mine__echo", json!({"text": "x"})),
        ("mcp_call", json!({"server": "mine", "name": "echo", "arguments": {"text": "y"}})),
        ("mcp_connect", new),
        ("mcp_disconnect", json!({"server": "mine"})),
        ("mine__echo", json!({"text": "x"})),
    ];
    let said = fixture.test_ws.batch(&["--approve", "auto"], &calls);
    let kinds: Vec<&str> = said.iter().map(Called::kind).collect();
    assert_eq!(kinds, ["ok", "ok", "ok", "bad_args", "ok", "not_found"], "{said:?}");
    assert!(said[0].text().starts_with("mine: started, 11 tools; python3 server.py"), "{}", said[0].text());
    assert_eq!((said[1].text(), said[2].text()), ("x".to_owned(), "y".to_owned()));
    assert!(!fixture.test_ws.run(&["mcp", "list"]).out.contains("mine"));
}

#[test]
fn read_only_hint_of_a_server_is_not_trusted() {
    kit::needs!(Python);
    let fixture = Fixture::new(&json!({}));
    let server = fixture.test_ws.serve();
    server.does("fix__echo", &json!({"text": "x"}));
    let log = fixture.test_ws.log();
    let touches = log.iter().find(|it| it["tool"] == "fix__echo").unwrap()["touches"].to_string();
    assert!(touches.contains(r#""reads":false"#) && touches.contains("exclusive"), "{touches}");
}
