//! Files that a session gives to the person: links of the server, for its roles and for shares.

use serde_json::{Value, json};

use super::support::{ROLES, Served, Stage, token};

fn calls(tool: &str, path: &str) -> Value {
    json!({"calls": [{"tool": tool, "arguments": {"path": path}}]})
}

/// Returns the links that the calls of a session gave.
#[track_caller]
fn links(served: &Served, session: &str) -> Vec<String> {
    let rows = served.get(&format!("sessions/{session}/rows"));
    let all = rows["rows"].as_array().unwrap().iter();
    let links =
        all.filter(|it| it["event"]["event"] == "answered").filter_map(|it| it["event"]["links"].as_array());
    links.flatten().map(|it| it.as_str().unwrap().to_owned()).collect()
}

/// Returns the path of a link of this server, which has the name of the file before it.
#[track_caller]
fn path_of(served: &Served, link: &str) -> String {
    let path = link.split_once(&format!(": http://{}", served.address));
    path.unwrap_or_else(|| panic!("{link}")).1.to_owned()
}

#[test]
fn shared_and_published_files_have_links_for_the_roles_that_outlive_the_server() {
    let stage = Stage::new(&[
        calls("share_file", "report.txt"),
        calls("content_publish", "page.html"),
        json!({"say": "Here."}),
    ]);
    stage.put("report.txt", "all is well\n");
    stage.put("page.html", "<script>alert(1)</script>");
    let served = stage.serve();
    let session = served.begin("go");
    served.watch(&session, 0).until(|row| row.kind() == "turn_ended");
    let links = links(&served, &session);
    let [report, page] = links.as_slice() else { panic!("{links:?}") };
    let (report, page) = (path_of(&served, report), path_of(&served, page));
    // A later change of the file does not change what was given.
    stage.put("report.txt", "all is lost\n");
    let read =
        |served: &Served, role: &str, path: &str| served.ask(role, &format!("GET {path}"), &Value::Null);
    for role in ROLES {
        let reply = read(&served, role, &report);
        assert_eq!((reply.status, reply.body.as_str()), (200, "all is well\n"), "{role}");
    }
    let reply = read(&served, "view", &report);
    let named = reply.header("content-disposition").unwrap();
    assert!(named.contains("report.txt"), "{named}");
    let reply = read(&served, "view", &page);
    assert_eq!(reply.header("content-type").as_deref(), Some("text/plain; charset=utf-8"));
    assert!(reply.header("content-security-policy").unwrap().contains("sandbox"), "{reply:?}");
    assert_eq!(served.raw(&format!("GET {report}"), "", b"").status, 401);
    let bearer = format!("Authorization: Bearer {}\r\n", token("view"));
    assert_eq!(
        served.raw(&format!("GET {report}"), &format!("{bearer}Range: bytes=4-5\r\n"), b"").body,
        "is"
    );
    let (of_session, id) = report.rsplit_once('/').unwrap();
    for wrong in [
        format!("{of_session}/{}", "0".repeat(32)),
        format!("{of_session}/report.txt"),
        format!("{of_session}/{}", id.to_uppercase()),
        format!("{of_session}/..%2f..%2fhaft.db"),
        format!("/files/s_nothing/{id}"),
        format!("/files/..%2f{session}/{id}"),
    ] {
        assert_eq!(read(&served, "own", &wrong).status, 404, "{wrong}");
    }
    // The same address, and another process.
    let address = served.address.to_string();
    served.kill();
    let tokens = stage.path("tokens");
    let arguments = ["--addr", &address, "--tokens", tokens.to_str().unwrap()];
    let served = Served::start(&mut stage.haft(&arguments));
    assert_eq!(read(&served, "view", &report).body, "all is well\n");
    // Its day is over.
    expire(&stage, id);
    assert_eq!(read(&served, "own", &report).status, 404);
}

/// Starts a server that knows this secret.
fn serve_with_key(stage: &Stage, secret: &str) -> Served {
    let tokens = stage.path("tokens");
    let mut haft = stage.haft(&["--addr", "127.0.0.1:0", "--tokens", tokens.to_str().unwrap()]);
    Served::start(haft.env("ANTHROPIC_API_KEY", secret))
}

/// Has the day of a shared file be over.
fn expire(stage: &Stage, id: &str) {
    fn find(folder: &std::path::Path, name: &str) -> Option<std::path::PathBuf> {
        let entries = std::fs::read_dir(folder).ok()?.flatten().map(|it| it.path());
        let mut found = entries.filter_map(|it| match it.is_dir() {
            true => find(&it, name),
            false => it.ends_with(name).then_some(it),
        });
        found.next()
    }
    let note = find(&stage.path("state/workspaces"), &format!("{id}.json")).unwrap();
    let mut value: Value = serde_json::from_slice(&std::fs::read(&note).unwrap()).unwrap();
    value["until_ms"] = json!(1);
    std::fs::write(&note, value.to_string()).unwrap();
}

#[test]
fn share_gives_the_files_of_its_own_rows_until_it_is_revoked() {
    let stage = Stage::new(&[
        calls("share_file", "first.txt"),
        json!({"say": "One."}),
        calls("share_file", "second.txt"),
        json!({"say": "Two."}),
    ]);
    let secret = "sk-ant-0123456789abcdef0123456789abcdef";
    stage.put("first.txt", format!("the first: {secret}\n"));
    stage.put("second.txt", "the second\n");
    let served = serve_with_key(&stage, secret);
    let session = served.begin("go");
    served.watch(&session, 0).until(|row| row.kind() == "turn_ended");
    let share = served.does(201, "POST /api/v1/shares", &json!({"session": session}));
    let share = share["id"].as_str().unwrap();
    served.prompt(&session, "and the other");
    let links = links(&served, &session);
    let ids: Vec<&str> = links.iter().map(|it| it.rsplit('/').next().unwrap()).collect();
    let read = |id: &str| served.raw(&format!("GET /api/v1/shared/{share}/files/{id}"), "", b"");
    let reply = read(ids[0]);
    assert!(reply.status == 200 && reply.body.starts_with("the first: "), "{reply:?}");
    assert!(!reply.body.contains(secret), "{reply:?}");
    assert!(reply.header("content-security-policy").unwrap().contains("sandbox"), "{reply:?}");
    assert_eq!(read(ids[1]).status, 404, "it is not in a row of the share");
    for wrong in ["first.txt", "x", &"0".repeat(32)] {
        assert_eq!(read(wrong).status, 404, "{wrong}");
    }
    let rows = served.raw(&format!("GET /api/v1/shared/{share}"), "", b"").body;
    assert!(rows.contains(&format!("/api/v1/shared/{share}/files/{}", ids[0])), "{rows}");
    assert!(!rows.contains("/files/s_"), "{rows}");
    served.does(204, &format!("DELETE /api/v1/shares/{share}"), &Value::Null);
    assert_eq!(read(ids[0]).status, 404);
}

#[test]
fn share_refuses_a_file_with_a_secret_that_is_no_text_to_be_masked() {
    let secret = "sk-ant-0123456789abcdef0123456789abcdef";
    let utf16: Vec<u8> = format!("a {secret}").encode_utf16().flat_map(u16::to_le_bytes).collect();
    let files = [
        ("latin1.txt", [b"caf\xe9 ", secret.as_bytes()].concat()),
        ("utf16.txt", [&[0xff, 0xfe][..], &utf16].concat()),
        ("nul.log", [b"\0", secret.as_bytes()].concat()),
        ("picture.gif", [b"GIF89a", secret.as_bytes()].concat()),
        ("far.bin", [&[0xff; (1 << 20) - 9][..], secret.as_bytes()].concat()),
        ("harmless.gif", b"GIF89a\0\xff".to_vec()),
    ];
    let mut script: Vec<Value> = files.iter().map(|it| calls("share_file", it.0)).collect();
    script.push(json!({"say": "Here."}));
    let stage = Stage::new(&script);
    for (name, bytes) in &files {
        stage.put(name, bytes);
    }
    let served = serve_with_key(&stage, secret);
    let session = served.begin("go");
    served.watch(&session, 0).until(|row| row.kind() == "turn_ended");
    let share = served.does(201, "POST /api/v1/shares", &json!({"session": session}));
    let share = share["id"].as_str().unwrap();
    let links = links(&served, &session);
    assert_eq!(links.len(), files.len());
    for (link, (name, _)) in links.iter().zip(&files) {
        let id = link.rsplit('/').next().unwrap();
        let reply = served.raw(&format!("GET /api/v1/shared/{share}/files/{id}"), "", b"");
        let expected = if *name == "harmless.gif" { 200 } else { 403 };
        assert!(reply.status == expected && !reply.body.contains(secret), "{name}: {reply:?}");
    }
}
