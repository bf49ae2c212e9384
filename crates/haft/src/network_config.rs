//! Network configuration: proxy, secrets, search engine, SSH and optional programs from haft.toml.

use std::{mem::take, path::PathBuf};

use kit::{
    Fault, Preferences, Programs, Search, Ssh,
    net::{Url, host_of, with_port},
};
use runtime::{
    NetworkConfig,
    config::{Config, ProgramsSection, SearchSection, SshSection, parse_path},
};

use crate::Place;

/// Takes the network settings out of the configuration, with paths below the home folder expanded.
///
/// # Errors
/// When the proxy is not an address.
pub(crate) fn network_config(place: &Place, config: &mut Config) -> Result<NetworkConfig, Fault> {
    let home = place.home();
    let resolve = |it: &mut PathBuf| *it = parse_path(it, &home);
    let mut secrets = take(&mut config.secrets);
    let SearchSection { engine, url, key } = take(&mut config.search);
    let SshSection { config: files, hosts_file, known_hosts } = take(&mut config.ssh);
    let ProgramsSection { chromium, openscad } = take(&mut config.programs);
    let search = Search { engine, url, key };
    let mut ssh = Ssh { config: files, hosts_file, known_hosts };
    let mut programs = Programs { chromium, openscad };
    secrets.values_mut().filter_map(|it| it.file.as_mut()).for_each(resolve);
    ssh.config.iter_mut().chain(&mut ssh.hosts_file).chain(&mut ssh.known_hosts).for_each(resolve);
    programs.chromium.iter_mut().chain(&mut programs.openscad).for_each(resolve);
    // A configured engine is on the allowlist.
    config.net.allow.extend(host_of_engine(&search));
    let preferences = Preferences {
        ssh_agent: place.variable("SSH_AUTH_SOCK").map(PathBuf::from),
        search,
        home: Some(home.clone()),
        ssh,
        programs,
        ..Preferences::default()
    };
    let variable = |name: &str| place.variable(name).map(str::to_owned);
    NetworkConfig::open(config.net.proxy.as_deref(), secrets, preferences, variable)
}

/// Returns the host and port of the configured engine, which may be at a private address.
fn host_of_engine(search: &Search) -> Option<String> {
    let usual = match search.engine.as_deref() {
        Some("brave") => Some("https://api.search.brave.com/"),
        Some("tavily") => Some("https://api.tavily.com/"),
        _ => None,
    };
    let url = Url::parse(search.url.as_deref().or(usual)?).ok()?;
    host_of(&url).ok().map(|(host, port)| with_port(&host, port))
}
