//! Network namespaces on one bridge: each has an address of its own and one link, which can be cut.

use std::{
    net::Ipv4Addr,
    process::{Command, Stdio},
};

/// Namespaces that reach each other and this one by a bridge. They are removed when this is dropped.
pub(super) struct Networks {
    bridge: String,
    /// The address of this namespace on the bridge.
    here: Ipv4Addr,
    all: Vec<Network>,
}

/// A network namespace with one link to the bridge.
struct Network {
    name: String,
    address: Ipv4Addr,
    /// The end of the link on the bridge's side.
    link: String,
}

impl Networks {
    /// Makes so many namespaces, or returns `None` where this machine does not allow it.
    pub(super) fn new(count: usize) -> Option<Self> {
        let process = std::process::id();
        // Runs beside each other have different networks.
        let (second, third) =
            (u8::try_from(200 + process / 250 % 50).ok()?, u8::try_from(process % 250).ok()?);
        let address = |last: usize| Some(Ipv4Addr::new(10, second, third, u8::try_from(last).ok()?));
        // A name of a link has 15 letters at most.
        let bridge = format!("hf{process}br");
        let mut these = Self { bridge, here: address(1)?, all: Vec::new() };
        let here = format!("{}/24", these.here);
        let ready = count > 0
            && ip(&["link", "add", &these.bridge, "type", "bridge"])
            && ip(&["addr", "add", &here, "dev", &these.bridge])
            && ip(&["link", "set", &these.bridge, "up"]);
        if !ready {
            return None;
        }
        for number in 0..count {
            let (name, link) = (format!("haft-{process}-{number}"), format!("hf{process}a{number}"));
            let network = Network { name, address: address(10 + number)?, link };
            let made = network.make(&these.bridge, &format!("hf{process}b{number}"));
            these.all.push(network);
            made.then_some(())?;
        }
        Some(these)
    }

    /// Returns the address of this namespace.
    pub(super) fn here(&self) -> Ipv4Addr {
        self.here
    }

    /// Returns the name and the address of a namespace.
    pub(super) fn get(&self, at: usize) -> Option<(&str, Ipv4Addr)> {
        self.all.get(at).map(|it| (it.name.as_str(), it.address))
    }

    /// Cuts the link of a namespace, or joins it again.
    pub(super) fn link(&self, at: usize, up: bool) {
        if let Some(network) = self.all.get(at) {
            ip(&["link", "set", &network.link, if up { "up" } else { "down" }]);
        }
    }
}

impl Drop for Networks {
    fn drop(&mut self) {
        for network in &self.all {
            ip(&["netns", "del", &network.name]);
        }
        ip(&["link", "del", &self.bridge]);
    }
}

impl Network {
    fn make(&self, bridge: &str, end: &str) -> bool {
        let address = format!("{}/24", self.address);
        ip(&["netns", "add", &self.name])
            && ip(&["link", "add", &self.link, "type", "veth", "peer", "name", end, "netns", &self.name])
            && ip(&["link", "set", &self.link, "master", bridge])
            && ip(&["link", "set", &self.link, "up"])
            && ip(&["-n", &self.name, "addr", "add", &address, "dev", end])
            && ip(&["-n", &self.name, "link", "set", end, "up"])
            && ip(&["-n", &self.name, "link", "set", "lo", "up"])
    }
}

fn ip(arguments: &[&str]) -> bool {
    did(Command::new("ip").args(arguments))
}

/// Runs a command in silence, and returns whether it succeeded.
pub(super) fn did(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|it| it.success())
}
