//! Downloads land whole or not at all; uploads are sent as they are.

use std::fs;

use serde_json::json;

use super::{
    ask, does, granting,
    hostile::{Hostile, byte_at},
};

const LARGE: usize = 300 << 20;

#[test]
fn large_download_takes_little_memory_and_arrives_whole() {
    let server = Hostile::start();
    let test_ws = granting(&[&server]);
    let haft = test_ws.serve();
    let said = haft.does(
        "http_request",
        &json!({"url": server.url(&format!("/bytes/{LARGE}")), "save_to": "new/deep/large"}),
    );
    assert!(
        said.ends_with("\n\nsaved to new/deep/large") && said.contains(&format!("200 OK, {LARGE} bytes")),
        "{said}"
    );
    let sent = haft.does(
        "http_request",
        &json!({"url": server.url("/text"), "upload": "new/deep/large", "method": "PUT"}),
    );
    assert!(sent.contains("hello"), "{sent}");
    let peak = haft.peak_memory();
    assert!(peak < 200 << 20, "{} MiB", peak >> 20);
    let (file, body) = (test_ws.bytes("new/deep/large"), server.last().body);
    assert_eq!(file.len(), LARGE);
    assert!(file.iter().enumerate().all(|(place, byte)| *byte == byte_at(place)));
    assert!(file == body);
    assert!(test_ws.leftovers("new/deep").is_empty());
}

#[test]
fn interrupted_download_leaves_the_old_file() {
    let server = Hostile::start();
    let test_ws = granting(&[&server]);
    test_ws.put("old", "as it was");
    for path in ["/bytes-cut/5000000", "/too-short", "/cut-chunks", "/slow-body"] {
        for to in ["old", "new", "folder/new"] {
            let arguments = json!({"url": server.url(path), "save_to": to, "timeout_ms": 1000});
            let (kind, said) = ask(&test_ws, &arguments);
            assert!(["failed", "timeout"].contains(&kind.as_str()), "{path}: {kind} {said}");
        }
    }
    // No success is saved, and what it says is shown.
    let said = does(&test_ws, &json!({"url": server.url("/status/404"), "save_to": "old"}));
    assert!(said.contains("not saved, as it is not a success") && said.contains("because"), "{said}");
    assert_eq!(test_ws.text("old"), "as it was");
    let mut names: Vec<_> = crate::support::names(&test_ws.at(""));
    names.sort();
    assert_eq!(names, ["old"]);
}

#[test]
fn download_keeps_the_file_mode_and_can_be_undone() {
    use std::os::unix::fs::PermissionsExt as _;
    let server = Hostile::start();
    let test_ws = granting(&[&server]);
    test_ws.put("script", "as it was");
    fs::set_permissions(test_ws.at("script"), fs::Permissions::from_mode(0o755)).unwrap();
    does(&test_ws, &json!({"url": server.url("/json"), "save_to": "script"}));
    assert!(test_ws.text("script").starts_with("{\"name\""));
    assert_eq!(fs::metadata(test_ws.at("script")).unwrap().permissions().mode() & 0o777, 0o755);
    does(&test_ws, &json!({"url": server.url("/json"), "save_to": "fresh"}));
    let undone = test_ws.run(&["undo"]);
    assert!(undone.code == 0 && !test_ws.at("fresh").exists(), "{undone:?}");
    let undone = test_ws.run(&["undo"]);
    assert_eq!(undone.code, 0, "{undone:?}");
    assert_eq!(test_ws.text("script"), "as it was");
}

#[test]
fn compressed_download_is_saved_as_sent() {
    let server = Hostile::start();
    let test_ws = granting(&[&server]);
    let said = does(&test_ws, &json!({"url": server.url("/lying-gzip"), "save_to": "packed"}));
    assert!(said.contains("content-encoding: gzip"), "{said}");
    assert_eq!(test_ws.text("packed"), "not gzip at all");
    assert_eq!(server.last().header("accept-encoding"), Some("identity"));
}
