//! Files of the workspace, outputs and uploads.

use std::io::{Read as _, Write as _};

use serde_json::{Value, json};

use super::support::{Stage, token};

#[test]
fn files_are_listed_and_read_in_parts_and_only_in_the_workspace() {
    let stage = Stage::new(&[]);
    stage.put("a b.txt", "0123456789");
    stage.put("page.html", "<script>alert(1)</script>");
    stage.put("x.bin", [0u8, 1, 2]);
    std::fs::create_dir(stage.path("ws/src")).unwrap();
    std::os::unix::fs::symlink(stage.path("tokens"), stage.path("ws/link")).unwrap();
    std::os::unix::fs::symlink("/etc", stage.path("ws/etc")).unwrap();
    let served = stage.serve();
    let listed = served.get("files");
    let names: Vec<&str> =
        listed["entries"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["src", "a b.txt", "etc", "link", "page.html", "x.bin"]);
    assert_eq!(
        (&listed["entries"][0]["kind"], &listed["entries"][1]["bytes"]),
        (&json!("folder"), &json!(10))
    );
    let raw = |path: &str, headers: &str| {
        let headers = format!("Authorization: Bearer {}\r\n{headers}", token("say"));
        served.raw(&format!("GET /api/v1/files/raw?path={path}"), &headers, b"")
    };
    let whole = raw("a%20b.txt", "");
    assert_eq!((whole.status, whole.body.as_str()), (200, "0123456789"));
    assert_eq!(whole.header("content-length").as_deref(), Some("10"));
    assert!(whole.header("content-security-policy").unwrap().contains("sandbox"));
    assert_eq!(whole.header("content-disposition").as_deref(), Some("inline; filename*=UTF-8''a%20b.txt"));
    let tag = whole.header("etag").unwrap();
    assert_eq!(raw("a%20b.txt", &format!("If-None-Match: {tag}\r\n")).status, 304);
    let part = raw("a%20b.txt", "Range: bytes=2-4\r\n");
    assert_eq!((part.status, part.body.as_str()), (206, "234"));
    assert_eq!(part.header("content-range").as_deref(), Some("bytes 2-4/10"));
    assert_eq!(raw("a%20b.txt", "Range: bytes=10-\r\n").status, 416);
    // A part of a file that has changed since is not given.
    stage.put("a b.txt", "abcdefghij");
    let other = raw("a%20b.txt", &format!("Range: bytes=2-4\r\nIf-Range: {tag}\r\n"));
    assert_eq!((other.status, other.body.as_str()), (200, "abcdefghij"));
    let page = raw("page.html", "");
    assert_eq!(page.header("content-type").as_deref(), Some("text/plain; charset=utf-8"));
    assert!(raw("x.bin", "").header("content-disposition").unwrap().starts_with("attachment"));
    for path in [
        "../tokens",
        "src/../../tokens",
        "link",
        "etc/passwd",
        "/etc/passwd",
        "%2e%2e/tokens",
        "..%2ftokens",
        "a%00b",
        "src",
        "nothing",
        "",
        "/proc/self/environ",
        "~/.ssh",
    ] {
        let reply = raw(path, "");
        assert!((400..500).contains(&reply.status), "{path}: {reply:?}");
        let headers = format!("Authorization: Bearer {}\r\n", token("say"));
        if path != "src" && !path.is_empty() {
            let listed = served.raw(&format!("GET /api/v1/files?path={path}"), &headers, b"");
            assert!((400..500).contains(&listed.status), "{path}: {listed:?}");
        }
    }
}

#[test]
fn uploads_are_bounded_and_reach_the_model() {
    let stage =
        Stage::new(&[json!({"expect": ["the content of it"], "say": "Read."}), json!({"say": "Again."})]);
    let served = stage.serve();
    let session = served.does(201, "POST /api/v1/sessions", &json!({}))["id"].as_str().unwrap().to_owned();
    let upload = |name: &str, kind: &str, body: &[u8]| {
        let headers = format!("Authorization: Bearer {}\r\nContent-Type: {kind}\r\n", token("say"));
        served.raw(&format!("POST /api/v1/sessions/{session}/uploads?name={name}"), &headers, body)
    };
    let reply = upload("..%2f..%2fnotes.txt", "application/octet-stream", b"the content of it");
    assert_eq!(reply.status, 201, "{reply:?}");
    let kept: Value = serde_json::from_str(&reply.body).unwrap();
    assert_eq!((&kept["name"], &kept["bytes"]), (&json!("notes.txt"), &json!(17)));
    let handle = kept["upload"].as_str().unwrap();
    let read = served.ask("view", &format!("GET /api/v1/sessions/{session}/outputs/{handle}"), &Value::Null);
    assert_eq!(read.body, "the content of it");
    let form =
        "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"b.txt\"\r\n\r\nb\r\n--x--\r\n";
    let reply = upload("", "multipart/form-data; boundary=x", form.as_bytes());
    assert!(reply.status == 201 && reply.body.contains("\"b.txt\""), "{reply:?}");
    for kind in ["multipart/form-data", "multipart/form-data; boundary=", "multipart/mixed; boundary=x"] {
        let reply = upload("", kind, form.as_bytes());
        assert!(reply.status == 400 && reply.body.contains("boundary"), "{kind}: {reply:?}");
    }
    // A body that is announced as too large is not read.
    let mut socket = served.connect();
    let head = format!(
        "POST /api/v1/sessions/{session}/uploads HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Length: 99999999999\r\n\r\n",
        served.address,
        token("say")
    );
    std::io::Write::write_all(&mut socket, head.as_bytes()).unwrap();
    assert_eq!(crate::http::support::rest(&mut socket).status, 413);
    let line = format!("POST /api/v1/sessions/{session}/prompt");
    let big = json!({"text": "x".repeat(17 << 20)}).to_string();
    let headers = format!("Authorization: Bearer {}\r\nContent-Type: application/json\r\n", token("say"));
    assert_eq!(served.raw(&line, &headers, big.as_bytes()).status, 413);
    for wrong in ["out_99", "../tokens", "x"] {
        let body = json!({"text": "read", "attachments": [{"upload": wrong}]});
        assert!((400..500).contains(&served.ask("say", &line, &body).status), "{wrong}");
    }
    for path in ["out_99", "..%2f..%2ftokens", "%2e%2e"] {
        let reply =
            served.ask("view", &format!("GET /api/v1/sessions/{session}/outputs/{path}"), &Value::Null);
        assert!((400..500).contains(&reply.status), "{path}: {reply:?}");
    }
    let body = json!({"text": "read", "attachments": [{"upload": handle, "name": "notes.txt"}]});
    served.does(202, &line, &body);
    let rows = served.watch(&session, 0).until(|row| row.kind() == "turn_ended");
    assert_eq!(rows.last().unwrap().event["text"], "Read.", "{rows:?}");
}

#[test]
fn several_workspaces_are_served_and_a_session_belongs_to_one() {
    let stage = Stage::new(&[json!({"say": "Hello."})]);
    std::fs::create_dir(stage.path("other")).unwrap();
    std::fs::write(stage.path("other/only-here"), "x").unwrap();
    let served = stage.serve_with(&["--workspace", stage.path("other").to_str().unwrap()]);
    let info = served.get("info");
    let workspaces = info["workspaces"].as_array().unwrap();
    assert_eq!(workspaces.len(), 2, "{info}");
    assert_eq!((&workspaces[0]["name"], &workspaces[1]["name"]), (&json!("ws"), &json!("other")));
    let other = workspaces[1]["id"].as_str().unwrap();
    let body = json!({"workspace": other, "prompt": {"text": "in the other one"}});
    let session = served.does(201, "POST /api/v1/sessions", &body);
    let id = session["id"].as_str().unwrap();
    served.watch(id, 0).until(|row| row.kind() == "turn_ended");
    assert_eq!(served.get(&format!("sessions/{id}"))["workspace"], other);
    assert_eq!(served.get("sessions")["sessions"].as_array().unwrap().len(), 1);
    let first = workspaces[0]["id"].as_str().unwrap();
    assert_eq!(served.get(&format!("sessions?workspace={first}"))["sessions"], json!([]));
    served.does(404, &format!("GET /api/v1/sessions/{id}?workspace={first}"), &Value::Null);
    let files = served.get(&format!("files?workspace={other}"));
    assert_eq!(files["entries"][0]["name"], "only-here");
}

#[test]
fn download_ends_when_its_token_is_revoked() {
    let stage = Stage::new(&[]);
    let served = stage.serve();
    let size: u64 = 1 << 30;
    // Without content on the disk.
    std::fs::File::create(stage.path("ws").join("large")).unwrap().set_len(size).unwrap();
    let made = served.does(201, "POST /api/v1/tokens", &json!({"name": "ci", "role": "say"}));
    let mut socket = served.connect();
    let head = format!(
        "GET /api/v1/files/raw?path=large HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAuthorization: Bearer {}\r\n\r\n",
        served.address,
        made["token"].as_str().unwrap()
    );
    socket.write_all(head.as_bytes()).unwrap();
    let mut buffer = vec![0; 64 << 10];
    let first = socket.read(&mut buffer).unwrap();
    assert!(String::from_utf8_lossy(&buffer[..first]).starts_with("HTTP/1.1 200"));
    served.does(204, "DELETE /api/v1/tokens/ci", &Value::Null);
    let began = std::time::Instant::now();
    let mut sum = first as u64;
    // At most 20 MiB a second: the whole would take most of a minute.
    loop {
        match socket.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(read) => sum += read as u64,
        }
        let due = std::time::Duration::from_micros(sum / 20);
        std::thread::sleep(due.saturating_sub(began.elapsed()));
    }
    assert!(sum < size / 2, "{sum} bytes came");
}
