//! `web_fetch` and `web_search` of the built program.

mod fetch;
mod hostile;
mod render;
mod search;
pub(crate) mod site;

use crate::support::Room;
use site::Site;

/// A room whose person granted these sites, and configured this.
pub(crate) fn room(sites: &[&Site], more: &str) -> Room {
    let room = Room::new();
    let hosts: Vec<String> = sites.iter().map(|it| format!("{:?}", it.host())).collect();
    std::fs::create_dir_all(room.config()).unwrap();
    let text = format!("[net]\nallow = [{}]\n{more}", hosts.join(", "));
    std::fs::write(room.config().join("haft.toml"), text).unwrap();
    room
}
