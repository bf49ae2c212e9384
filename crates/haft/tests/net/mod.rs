//! `http_request`: SSRF protection, bounded answers, secrets, proxies.

mod canary;
mod composed;
mod files;
mod hostile;
mod kept;
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

use crate::support::Room;
use hostile::Hostile;
use serde_json::Value;

/// A room whose person wrote this into their configuration.
fn configured(config: &str) -> Room {
    let room = Room::new();
    fs::create_dir_all(room.config()).unwrap();
    fs::write(room.config().join("haft.toml"), config).unwrap();
    room
}

/// A room that may speak to these servers.
fn granting(servers: &[&Hostile]) -> Room {
    let hosts: Vec<String> = servers.iter().map(|it| format!("\"{}\"", it.host())).collect();
    configured(&format!("[net]\nallow = [{}]\n", hosts.join(", ")))
}

/// One request in a process of its own: its kind, and what the model reads.
fn ask(room: &Room, arguments: &Value) -> (String, String) {
    let called = room.call("http_request", arguments);
    (called.kind().to_owned(), called.text())
}

/// The same where it must work.
#[track_caller]
fn does(room: &Room, arguments: &Value) -> String {
    room.call("http_request", arguments).must("ok").text()
}
