//! Does the shipped program read and search the web, and nothing that it was not granted?

mod fetch;
mod hostile;
mod render;
mod search;
mod site;

use crate::support::Room;
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
