//! Addresses of this machine: looked up in the kernel's routing table for each connection, never cached.
//!
//! A public address of an interface leads to local services just as `127.0.0.1` does, so it counts as
//! loopback. The routing table has every address that is delivered locally: those of interfaces, secondary
//! ones, and local routes.

use std::net::{IpAddr, Ipv6Addr, UdpSocket};

/// Returns whether the kernel delivers packets to this address to this machine.
///
/// If the routing table can't be read, an address is own if a socket can be bound to it.
pub fn is_own(address: IpAddr) -> bool {
    let asked = |it: IpAddr| route::is_local(it).unwrap_or_else(|| can_bind(it));
    asked(address) || behind_nat64(address).is_some_and(asked)
}

fn can_bind(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

/// Returns the IPv4 address that a NAT64 gateway turns this one into.
fn behind_nat64(address: IpAddr) -> Option<IpAddr> {
    let IpAddr::V6(it) = address else { return None };
    match it.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, _, _] => {
            let mapped = Ipv6Addr::from(it.to_bits() & u128::from(u32::MAX) | 0xffff_0000_0000);
            mapped.to_ipv4_mapped().map(IpAddr::V4)
        }
        _ => None,
    }
}

#[cfg(target_os = "linux")]
mod route {
    //! One query to the routing table by netlink (rtnetlink(7)).

    use std::net::IpAddr;

    use rustix::net::{
        AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
    };

    const RTM_NEWROUTE: u16 = 24;
    const RTM_GETROUTE: u16 = 26;
    const NLMSG_ERROR: u16 = 2;
    const NLM_F_REQUEST: u16 = 1;
    const RTA_DST: u16 = 1;
    const AF_INET: u8 = 2;
    const AF_INET6: u8 = 10;
    /// `RTN_LOCAL`, `RTN_BROADCAST`, `RTN_ANYCAST` and `RTN_MULTICAST`: all are delivered here too.
    const DELIVERED_HERE: std::ops::RangeInclusive<u8> = 2..=5;

    /// Returns whether the route to this address ends here; `None` if the table can't be read.
    pub(super) fn is_local(address: IpAddr) -> Option<bool> {
        // Protocol 0 is NETLINK_ROUTE.
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None).ok()?;
        send(&socket, &question(address), SendFlags::empty()).ok()?;
        let mut answer = [0; 4096];
        let (length, _) =
            rustix::io::retry_on_intr(|| recv(&socket, answer.as_mut_slice(), RecvFlags::empty())).ok()?;
        read(answer.get(..length)?)
    }

    fn question(address: IpAddr) -> Vec<u8> {
        let (family, bytes) = match address {
            IpAddr::V4(it) => (AF_INET, it.octets().to_vec()),
            IpAddr::V6(it) => (AF_INET6, it.octets().to_vec()),
        };
        let bits = if family == AF_INET { 32 } else { 128 };
        // The head of an attribute, with its length; then the message without its own length.
        let attribute = (4 + u16::try_from(bytes.len()).unwrap_or(u16::MAX)).to_ne_bytes();
        let rest = [
            RTM_GETROUTE.to_ne_bytes().as_slice(),
            &NLM_F_REQUEST.to_ne_bytes(),
            &[0; 8],
            &[family, bits, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            &attribute,
            &RTA_DST.to_ne_bytes(),
            &bytes,
        ]
        .concat();
        let length = 4 + u32::try_from(rest.len()).unwrap_or(u32::MAX);
        [length.to_ne_bytes().as_slice(), &rest].concat()
    }

    /// Returns the kind of the route in an answer: the eighth byte after the 16-byte head.
    fn read(answer: &[u8]) -> Option<bool> {
        let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
        match kind {
            RTM_NEWROUTE => answer.get(23).map(|it| DELIVERED_HERE.contains(it)),
            // No route leads there.
            NLMSG_ERROR => Some(false),
            _ => None,
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod route {
    //! Systems without netlink.

    use std::net::IpAddr;

    pub(super) fn is_local(_: IpAddr) -> Option<bool> {
        None
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn loopback_is_own_and_a_resolver_elsewhere_is_not() {
        for it in ["127.0.0.1", "127.9.9.9", "64:ff9b::127.0.0.1"] {
            assert!(is_own(it.parse().unwrap()), "{it}");
        }
        for it in ["8.8.8.8", "2001:4860:4860::8888", "64:ff9b::8.8.8.8"] {
            assert!(!route::is_local(it.parse().unwrap()).unwrap_or(false), "{it}");
        }
    }

    #[test]
    fn the_addresses_of_each_interface_are_own_by_route_and_by_bind() {
        let own = UdpSocket::bind("0.0.0.0:0").unwrap();
        // Nothing is sent: the kernel only picks the source address that it would use.
        if own.connect("8.8.8.8:53").is_ok() {
            let address = own.local_addr().unwrap().ip();
            assert!(is_own(address) && can_bind(address), "{address}");
        }
        assert!(can_bind("127.0.0.1".parse().unwrap()));
        assert!(!can_bind("8.8.8.8".parse().unwrap()));
    }
}
