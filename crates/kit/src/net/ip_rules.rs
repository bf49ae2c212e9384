//! Address rules: which IP addresses are public, and which hosts a grant names.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::local_addresses::is_own;

/// Returns whether this is a public address of another machine. A public address of this machine counts as loopback.
pub fn is_elsewhere(address: IpAddr) -> bool {
    is_public(address) && !is_own(address)
}

/// Returns whether this address is public. It may still be this machine's own.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(it) => is_public_v4(it),
        IpAddr::V6(it) => is_public_v6(it),
    }
}

fn is_public_v4(it: Ipv4Addr) -> bool {
    let [a, b, c, _] = it.octets();
    let special = it.is_unspecified()
        || it.is_loopback()
        || it.is_private()
        || it.is_link_local()
        || it.is_multicast()
        || it.is_broadcast()
        || it.is_documentation()
        || a == 0
        || a >= 240
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 192 && b == 88 && c == 99)
        || (a == 198 && (b == 18 || b == 19))
        // Azure's metadata address, reachable from each of its machines.
        || it.octets() == [168, 63, 129, 16];
    !special
}

fn is_public_v6(it: Ipv6Addr) -> bool {
    let parts = it.segments();
    let low = || {
        let [.., a, b] = parts;
        let ([a, b], [c, d]) = (a.to_be_bytes(), b.to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    };
    match parts {
        // An IPv4 address written as IPv6.
        [0, 0, 0, 0, 0, 0 | 0xffff, ..] | [0, 0, 0, 0, 0xffff, 0, ..] => false,
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => is_public_v4(low()),
        // Tunnels to any address (6to4), and ranges reserved for protocols (Teredo and others) and documentation.
        [0x2002, ..] | [0x2001, 0..0x200 | 0xdb8, ..] | [0x3fff, 0..0x1000, ..] => false,
        // ISATAP: an IPv4 address behind its router.
        [_, _, _, _, 0 | 0x200, 0x5efe, ..] if !is_public_v4(low()) => false,
        // Global unicast begins with these bits; everything else is not public.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

/// Returns whether this name or address itself shows that it is of this machine or of a private network. A
/// name that only resolves to one is found at the lookup.
pub fn says_private(host: &str) -> bool {
    let host = plain(host);
    match host.parse::<IpAddr>() {
        Ok(address) => !is_elsewhere(address),
        Err(_) => {
            let ends =
                |it: &str| host.strip_suffix(it).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
            ["localhost", "localdomain", "ip6-localhost", "ip6-loopback", "local", "internal", "home.arpa"]
                .into_iter()
                .any(ends)
        }
    }
}

/// Returns the loopback addresses of this host: both for `localhost`. The unspecified address (`0.0.0.0`),
/// which servers print, counts as loopback too.
pub fn loopback(host: &str) -> Vec<IpAddr> {
    let (four, six) = (IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST));
    let host = plain(host);
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V4(Ipv4Addr::UNSPECIFIED)) => vec![four],
        Ok(IpAddr::V6(Ipv6Addr::UNSPECIFIED)) => vec![six],
        Ok(address) if address.is_loopback() => vec![address],
        Err(_) if host == "localhost" || host.ends_with(".localhost") => vec![four, six],
        Ok(_) | Err(_) => Vec::new(),
    }
}

/// The addresses that a grant covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reach {
    /// Public addresses.
    Public,
    /// Any address, also of this machine and of private networks.
    Anywhere,
}

/// The hosts of a grant: `host`, `host:port`, `*.example.org`, or `*` for all that are public.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPattern {
    /// `*` for all that are public, `*.x` for all below `x`.
    host: String,
    /// Any port, if `None`.
    port: Option<u16>,
}

impl HostPattern {
    /// Parses a pattern. A scheme before it and a path after it are ignored.
    pub fn parse(text: &str) -> Self {
        let text = text.trim();
        let text = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")).unwrap_or(text);
        let text = text.split('/').next().unwrap_or_default();
        let (host, port) = split_port(text);
        Self { host: plain(host), port }
    }

    /// Returns whether it matches this host.
    pub fn fits(&self, host: &str, port: u16) -> bool {
        let host = plain(host);
        let named = match self.host.strip_prefix('*') {
            Some("") => true,
            Some(below) => host.ends_with(below) && host.len() > below.len(),
            None => host == self.host,
        };
        named && self.port.is_none_or(|it| it == port)
    }

    /// Returns its host and port, if it names one port of loopback.
    pub fn loopback_port(&self) -> Option<(&str, u16)> {
        self.port.filter(|_| !loopback(&self.host).is_empty()).map(|port| (self.host.as_str(), port))
    }

    /// Returns whether it has a port.
    pub fn has_port(&self) -> bool {
        self.port.is_some()
    }

    /// Returns the addresses that it covers: those of this machine and of private networks only if it names the port.
    pub fn reach(&self) -> Reach {
        if self.port.is_some() && !self.host.starts_with('*') { Reach::Anywhere } else { Reach::Public }
    }
}

/// Normalizes a name for comparison: without a final dot, brackets or capitals.
pub fn plain(host: &str) -> String {
    let host = host.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(host);
    host.trim_end_matches('.').to_ascii_lowercase()
}

/// Formats `host:port` as a grant names it, with brackets around an IPv6 address.
pub fn with_port(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{}]:{port}", plain(host)) } else { format!("{host}:{port}") }
}

/// Splits off `:port`; the colons of an IPv6 address belong to the host.
pub fn split_port(text: &str) -> (&str, Option<u16>) {
    match text.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => match port.parse() {
            Ok(port) => (host, Some(port)),
            Err(_) => (text, None),
        },
        _ => (text, None),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn addresses_that_are_not_public_are_known_in_every_spelling() {
        for it in [
            "127.0.0.1",
            "10.1.2.3",
            "192.168.0.1",
            "172.16.0.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "0.1.2.3",
            "224.0.0.1",
            "255.255.255.255",
            "198.18.0.1",
            "192.0.0.8",
            "240.0.0.1",
            "::1",
            "::",
            "::ffff:127.0.0.1",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::1",
            "fe80::1",
            "fc00::1",
            "fd00:ec2::254",
            "ff02::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "2001::1",
            "100::1",
            "100.100.100.200",
            "168.63.129.16",
            "192.88.99.1",
            "203.0.113.7",
            "fec0::1",
            "::ffff:0:127.0.0.1",
            "::ffff:0:0:1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1:ffff:ffff:ffff:7f00:1",
            "2001:2::1",
            "2001:20::1",
            "3fff::1",
            "5f00::1",
            "2606:4700::5efe:10.0.0.1",
            "2606:4700::200:5efe:127.0.0.1",
        ] {
            assert!(!is_public(it.parse().unwrap()), "{it}");
            assert!(says_private(it), "{it}");
        }
        for it in ["1.1.1.1", "8.8.8.8", "2606:4700::1111", "64:ff9b::101:101", "2001:4860:4860::8888"] {
            assert!(is_public(it.parse().unwrap()), "{it}");
            assert!(!says_private(it), "{it}");
        }
    }

    #[test]
    fn loopback_is_known_by_address_and_by_name_and_nothing_else_is() {
        let addresses =
            |host: &str| loopback(host).iter().map(IpAddr::to_string).collect::<Vec<_>>().join(" ");
        for (host, found) in [
            ("127.0.0.1", "127.0.0.1"),
            ("127.9.9.9", "127.9.9.9"),
            ("0.0.0.0", "127.0.0.1"),
            ("[::1]", "::1"),
            ("[::]", "::1"),
            ("LOCALHOST.", "127.0.0.1 ::1"),
            ("a.localhost", "127.0.0.1 ::1"),
            ("10.0.0.1", ""),
            ("169.254.169.254", ""),
            ("notlocalhost", ""),
            ("example.org", ""),
        ] {
            assert_eq!(addresses(host), found, "{host}");
        }
        assert_eq!(HostPattern::parse("[::1]:80").loopback_port(), Some(("::1", 80)));
        for it in ["localhost", "*:80", "10.0.0.1:80"] {
            assert_eq!(HostPattern::parse(it).loopback_port(), None, "{it}");
        }
    }

    #[test]
    fn a_name_of_this_machine_says_so() {
        for it in ["localhost", "LOCALHOST.", "a.localhost", "printer.local", "metadata.google.internal"] {
            assert!(says_private(it), "{it}");
        }
        for it in ["example.org", "local.example.org", "notlocalhost"] {
            assert!(!says_private(it), "{it}");
        }
    }
}
