//! `http_request`: SSRF protection, bounded answers, secrets, proxies.

mod canary;
mod composed;
mod files;
mod hostile;
mod journal;
mod loopback_grants;
mod namespace;
mod own_address;
mod private;
mod proxies;
mod rebinding;
mod requests;
mod session_ports;
mod stolen_pass;
mod unfriendly;

use std::fs;

use crate::support::TestWorkspace;
use hostile::Hostile;
use serde_json::Value;

/// Creates a workspace with this text in the person's configuration.
fn configured(config: &str) -> TestWorkspace {
    let test_ws = TestWorkspace::new();
    fs::create_dir_all(test_ws.config()).unwrap();
    fs::write(test_ws.config().join("haft.toml"), config).unwrap();
    test_ws
}

/// Creates a workspace with a grant for these servers.
fn granting(servers: &[&Hostile]) -> TestWorkspace {
    let hosts: Vec<String> = servers.iter().map(|it| format!("\"{}\"", it.host())).collect();
    configured(&format!("[net]\nallow = [{}]\n", hosts.join(", ")))
}

/// Runs one request in a process of its own; returns its kind, and the text for the model.
fn ask(test_ws: &TestWorkspace, arguments: &Value) -> (String, String) {
    let called = test_ws.call("http_request", arguments);
    (called.kind().to_owned(), called.text())
}

/// The same where it must work.
#[track_caller]
fn does(test_ws: &TestWorkspace, arguments: &Value) -> String {
    test_ws.call("http_request", arguments).must("ok").text()
}
