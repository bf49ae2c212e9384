//! Ports of a session's processes, for every user who may run haft.

use serde_json::json;

use crate::{
    client::Client,
    support::{User, World},
};

pub(crate) fn port_of_a_job_is_reached_and_that_of_the_machine_is_not(user: User) {
    let world = World::new(user);
    world.configure("");
    let mut client = Client::start(&world);
    // The machine listens at this port, too, and answers `hi`.
    let places: serde_json::Value = serde_json::from_str(&world.places(0)).unwrap();
    let url = format!("http://127.0.0.1:{}/", places["tcp"]);
    let closed = client.call("http_request", &json!({"url": url}));
    assert!(closed.contains("rule `private_net`"), "{closed}");
    std::fs::write(world.base.join("ws/page.txt"), "of the session").unwrap();
    world.give(&world.base.join("ws/page.txt"));
    client.job(&format!("/usr/bin/python3 -m http.server --bind 127.0.0.1 {}", places["tcp"]));
    let page = format!("{url}page.txt");
    let said = client.shell(&format!(
        "/usr/bin/python3 -c 'import time, urllib.request as r\n\
         while True:\n\
         \x20   try: print(r.urlopen(\"{page}\").read()); break\n\
         \x20   except OSError: time.sleep(0.05)'"
    ));
    assert!(said.contains("of the session"), "{said}");
    let said = client.call("http_request", &json!({"url": page}));
    assert!(said.contains("of the session"), "{said}");
    let said = client.call("web_fetch", &json!({"url": page}));
    assert!(said.contains("of the session"), "{said}");
}
