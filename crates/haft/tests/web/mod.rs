//! `web_fetch` and `web_search` of the built program.

mod fetch;
mod hostile;
mod render;
mod search;
pub(crate) mod site;

use crate::support::TestWorkspace;
use site::Site;

/// Creates a workspace with grants for these sites and this configuration.
pub(crate) fn test_ws(sites: &[&Site], more: &str) -> TestWorkspace {
    let test_ws = TestWorkspace::new();
    let hosts: Vec<String> = sites.iter().map(|it| format!("{:?}", it.host())).collect();
    std::fs::create_dir_all(test_ws.config()).unwrap();
    let text = format!("[net]\nallow = [{}]\n{more}", hosts.join(", "));
    std::fs::write(test_ws.config().join("haft.toml"), text).unwrap();
    test_ws
}
