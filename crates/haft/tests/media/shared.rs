//! Shared files: given to the right person, unchanged, for a day.

use std::{fs, os::unix::fs::symlink, path::PathBuf};

use serde_json::{Value, json};

use super::pictures::{halves, written};
use crate::support::{Server, TestWorkspace};

/// Returns the link that a call gives.
#[track_caller]
fn link(server: &Server, tool: &str, arguments: &Value) -> (String, String) {
    let answer = server.start_call(tool, arguments).wait().unwrap();
    let content = answer["result"]["content"].as_array().unwrap_or_else(|| panic!("{answer}"));
    let link = content.iter().find(|it| it["type"] == "resource_link");
    let link = link.unwrap_or_else(|| panic!("{tool}: {answer}"));
    (content[0]["text"].as_str().unwrap().to_owned(), link["uri"].as_str().unwrap().to_owned())
}

fn read(server: &Server, uri: &str) -> Value {
    server.ask("resources/read", &json!({"uri": uri})).wait().unwrap()
}

/// Returns all files below the folders of shared files.
fn kept(test_ws: &TestWorkspace) -> Vec<PathBuf> {
    fn below(folder: &std::path::Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() { below(&path, found) } else { found.push(path) }
        }
    }
    let mut found = Vec::new();
    for workspace in fs::read_dir(test_ws.state().join("workspaces")).into_iter().flatten() {
        below(&workspace.unwrap().path().join("files"), &mut found);
    }
    found
}

#[test]
fn shared_file_is_read_by_its_link_for_a_day() {
    let test_ws = TestWorkspace::new();
    test_ws.put("report.txt", "all is well\n");
    let server = test_ws.serve();
    let (line, uri) = link(&server, "share_file", &json!({"path": "report.txt", "name": "Report.txt"}));
    assert!(line.starts_with("shared `Report.txt`: text/plain, 12 bytes, until "), "{line}");
    assert!(uri.starts_with("haft://files/") && uri.len() == "haft://files/".len() + 32, "{uri}");
    // A later change of the file does not change the shared copy.
    test_ws.put("report.txt", "all is lost\n");
    let contents = read(&server, &uri)["result"]["contents"][0].clone();
    assert_eq!((&contents["text"], &contents["mimeType"]), (&json!("all is well\n"), &json!("text/plain")));
    let listed = server.ask("resources/list", &json!({})).wait().unwrap();
    assert!(listed.to_string().contains(&uri), "{listed}");
    let notes: Vec<PathBuf> =
        kept(&test_ws).into_iter().filter(|it| it.extension().is_some_and(|it| it == "json")).collect();
    let mut note: Value = serde_json::from_slice(&fs::read(&notes[0]).unwrap()).unwrap();
    note["until_ms"] = json!(1);
    fs::write(&notes[0], note.to_string()).unwrap();
    assert!(read(&server, &uri).get("error").is_some());
    assert_eq!(kept(&test_ws), [] as [PathBuf; 0], "it is gone from the disk, too");
}

#[test]
fn other_sessions_cannot_read_a_shared_file() {
    let test_ws = TestWorkspace::new();
    test_ws.put("a.txt", "for one alone");
    let (one, other) = (test_ws.serve(), test_ws.serve());
    let (_, uri) = link(&one, "share_file", &json!({"path": "a.txt"}));
    let id = uri.strip_prefix("haft://files/").unwrap();
    assert!(read(&one, &uri).get("result").is_some());
    assert!(read(&other, &uri).get("error").is_some());
    assert!(other.call("content_publish", &json!({"path": id})).is_error);
    for guess in ["", "a.txt", "../../haft.db", &"0".repeat(32), &id.to_uppercase()] {
        assert!(read(&one, &format!("haft://files/{guess}")).get("error").is_some(), "{guess}");
    }
}

#[test]
fn file_outside_or_too_large_is_not_shared() {
    let test_ws = TestWorkspace::new();
    fs::write(test_ws.outside().join("secret"), "secret").unwrap();
    symlink(test_ws.outside().join("secret"), test_ws.at("link")).unwrap();
    let huge = fs::File::create(test_ws.at("huge")).unwrap();
    huge.set_len((200 << 20) + 1).unwrap();
    for tool in ["share_file", "content_publish"] {
        test_ws.call(tool, &json!({"path": "huge"})).must("too_big");
        test_ws.call(tool, &json!({"path": "link"})).must("denied");
        test_ws.call(tool, &json!({"path": "../outside/secret"})).must("denied");
        test_ws.call(tool, &json!({"path": "missing"})).must("not_found");
    }
    assert_eq!(kept(&test_ws), [] as [PathBuf; 0]);
    // Just as long as may be: it is copied piece by piece.
    huge.set_len(200 << 20).unwrap();
    let server = test_ws.serve();
    link(&server, "share_file", &json!({"path": "huge"}));
    let peak = server.peak_memory();
    assert!(peak < 150, "{peak} MiB");
}

#[test]
fn published_content_has_its_type() {
    let test_ws = TestWorkspace::new();
    test_ws.put("plot.dat", written(&halves(20, 20), image::ImageFormat::Png));
    test_ws.put("page.png", "<html><script>alert(1)</script>");
    test_ws.put("notes.md", "# notes\n");
    test_ws.put("a.zip", b"PK\x03\x04aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
    let server = test_ws.serve();
    let (line, uri) = link(&server, "content_publish", &json!({"path": "plot.dat"}));
    assert!(line.starts_with("published as image: `plot.dat`: image/png, "), "{line}");
    assert!(line.ends_with("The person's program is asked to show it; you don't see it."), "{line}");
    assert_eq!(read(&server, &uri)["result"]["contents"][0]["mimeType"], "image/png");
    let (line, _) = link(&server, "content_publish", &json!({"path": "page.png"}));
    assert!(line.starts_with("published as html (to download where its scripts could run): "), "{line}");
    let (line, _) = link(&server, "content_publish", &json!({"path": "notes.md"}));
    assert!(line.starts_with("published as markdown: "), "{line}");
    // One that was shared, by its name and by its id.
    let (_, uri) = link(&server, "share_file", &json!({"path": "notes.md", "name": "other.md"}));
    let id = uri.strip_prefix("haft://files/").unwrap();
    for name in ["other.md", id] {
        assert_eq!(link(&server, "content_publish", &json!({"path": name})).1, uri, "{name}");
    }
    let said = server.call("content_publish", &json!({"path": "a.zip"}));
    assert!(said.is_error && said.text.contains("application/zip, which can't be shown"), "{said:?}");
}
