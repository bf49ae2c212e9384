//! Does the shipped program read and search the web, and nothing that it was not granted?
#![expect(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "tests")]

mod fetch;
mod hostile;
#[path = "../end_to_end/support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "shared with the tests that look at other things")]
mod program;
mod render;
mod search;
mod site;

use program::Room;
use site::Site;

/// A room whose person granted these sites, and configured this.
fn room(sites: &[&Site], more: &str) -> Room {
    let room = Room::new();
    let hosts: Vec<String> = sites.iter().map(|it| format!("{:?}", it.host())).collect();
    std::fs::create_dir_all(room.config()).unwrap();
    let text = format!("[net]\nallow = [{}]\n{more}", hosts.join(", "));
    std::fs::write(room.config().join("haft.toml"), text).unwrap();
    room
}
