//! Ports on which processes of a session listen: looked up in the sandbox's network namespace at each call,
//! and connected to inside it, so that haft never reaches the machine's own loopback.

use std::{
    collections::BTreeSet,
    fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use kit::{
    net::{SessionPorts, loopback},
    procs::{Keeper, WeakKeeper},
    services::Soon,
};
use parking_lot::Mutex;
use tokio::net::TcpStream;

/// The state of a listening socket in a table of the kernel (proc_net_tcp).
const LISTENS: &str = "0A";

/// The ports of a session's present sandbox.
#[derive(Debug, Default)]
pub struct SandboxPorts {
    now: Mutex<Option<Namespace>>,
}

/// The network namespace of one sandbox.
#[derive(Clone)]
pub(super) struct Namespace {
    pub(super) keeper: WeakKeeper,
    /// A process in it, whose tables are read.
    first: u32,
    /// Ports of haft's own listeners, which are not the session's servers.
    pub(super) of_haft: Arc<Mutex<BTreeSet<u16>>>,
    /// Held while haft decides at which ports it listens there.
    pub(super) turn: Arc<tokio::sync::Mutex<()>>,
}

impl std::fmt::Debug for Namespace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Namespace of {}", self.first)
    }
}

impl SandboxPorts {
    /// Sets the sandbox: that of this keeper, in which the proxy listens at this port.
    pub fn are_of(&self, keeper: &Keeper, proxy: u16) {
        let of_haft = Arc::new(Mutex::new(BTreeSet::from([proxy])));
        let turn = Arc::default();
        let namespace = |first| Namespace { keeper: keeper.downgrade(), first, of_haft, turn };
        *self.now.lock() = keeper.first_inside().map(namespace);
    }

    /// Returns the namespace, while its sandbox exists.
    pub(super) fn namespace(&self) -> Option<Namespace> {
        self.now.lock().clone().filter(|it| it.keeper.get().is_some())
    }

    /// Returns the addresses of this host at which a process of the session listens.
    fn addresses(&self, host: &str, port: u16) -> Vec<SocketAddr> {
        let wanted = loopback(host);
        let Some(namespace) = self.namespace().filter(|_| !wanted.is_empty()) else { return Vec::new() };
        if namespace.of_haft.lock().contains(&port) {
            return Vec::new();
        }
        let table = |name: &str| {
            fs::read_to_string(format!("/proc/{}/net/{name}", namespace.first)).unwrap_or_default()
        };
        let listening = [table("tcp"), table("tcp6")].concat();
        let listening: Vec<IpAddr> = listening.lines().filter_map(|line| listens_at(line, port)).collect();
        let reached = |it: &IpAddr| listening.iter().any(|at| reaches(*at, *it));
        wanted.into_iter().filter(reached).map(|it| SocketAddr::new(it, port)).collect()
    }
}

impl SessionPorts for SandboxPorts {
    fn listens(&self, host: &str, port: u16) -> bool {
        !self.addresses(host, port).is_empty()
    }

    fn connect<'a>(&'a self, host: &'a str, port: u16) -> Soon<'a, io::Result<TcpStream>> {
        Box::pin(async move {
            let mut last = io::Error::from(io::ErrorKind::ConnectionRefused);
            for address in self.addresses(host, port) {
                let Some(keeper) = self.namespace().and_then(|it| it.keeper.get()) else { break };
                match keeper.tcp_socket(address.is_ipv6()).await?.connect(address).await {
                    Ok(stream) => return Ok(stream),
                    Err(error) => last = error,
                }
            }
            Err(last)
        })
    }
}

/// Returns whether a socket that listens at `listening` receives connections to `address`.
pub(super) fn reaches(listening: IpAddr, address: IpAddr) -> bool {
    match (listening, address) {
        // A socket that listens on all addresses takes IPv4 as well, unless it is IPv6-only.
        (IpAddr::V6(Ipv6Addr::UNSPECIFIED), _) => true,
        (IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V4(_)) => true,
        (IpAddr::V6(it), IpAddr::V4(address)) => it.to_ipv4_mapped() == Some(address),
        (it, address) => it == address,
    }
}

/// Returns the address of a socket that listens at this port, from a line of the kernel's table (proc_net_tcp).
pub(super) fn listens_at(line: &str, port: u16) -> Option<IpAddr> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let (local, _remote, state) = (fields.next()?, fields.next()?, fields.next()?);
    let (address, at) = local.rsplit_once(':')?;
    if state != LISTENS || u16::from_str_radix(at, 16) != Ok(port) {
        return None;
    }
    // Each word is in the machine's byte order.
    let words = address.as_bytes().as_chunks::<8>().0.iter().map(|word| {
        let word = std::str::from_utf8(word).ok()?;
        u32::from_str_radix(word, 16).ok().map(u32::to_ne_bytes)
    });
    match words.collect::<Option<Vec<_>>>()?.as_slice() {
        [four] => Some(IpAddr::V4(Ipv4Addr::from(*four))),
        [a, b, c, d] => {
            let octets: [u8; 16] = [*a, *b, *c, *d].concat().try_into().ok()?;
            Some(IpAddr::V6(Ipv6Addr::from(octets)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// Returns the addresses at which sockets of this process's network namespace listen at this port.
    fn listening(port: u16) -> Vec<IpAddr> {
        let tables = ["tcp", "tcp6"].map(|it| fs::read_to_string(format!("/proc/self/net/{it}")).unwrap());
        tables.iter().flat_map(|it| it.lines()).filter_map(|line| listens_at(line, port)).collect()
    }

    #[test]
    fn socket_that_listens_is_found_in_the_kernel_s_table_and_a_connection_is_not() {
        for (bound, reached, not_reached) in [
            ("127.0.0.1:0", "127.0.0.1", "::1"),
            ("[::1]:0", "::1", "127.0.0.1"),
            ("0.0.0.0:0", "127.9.9.9", "::1"),
            ("127.0.0.2:0", "127.0.0.2", "127.0.0.1"),
        ] {
            let listener = TcpListener::bind(bound).unwrap();
            let port = listener.local_addr().unwrap().port();
            let found = listening(port);
            assert_eq!(found, [listener.local_addr().unwrap().ip()], "{bound}");
            let is_reached = |it: &str| found.iter().any(|at| reaches(*at, it.parse().unwrap()));
            assert!(is_reached(reached) && !is_reached(not_reached), "{bound}");
            let _open = TcpStream::connect(listener.local_addr().unwrap()).ok();
            drop(listener);
            assert!(listening(port).is_empty(), "{bound}");
        }
    }

    #[test]
    fn socket_that_listens_on_all_addresses_is_reached_by_both_versions() {
        let all: IpAddr = "::".parse().unwrap();
        assert!(reaches(all, "127.0.0.1".parse().unwrap()) && reaches(all, "::1".parse().unwrap()));
        assert!(reaches("::ffff:127.0.0.1".parse().unwrap(), "127.0.0.1".parse().unwrap()));
        assert!(listens_at("  0: 0100007F:1F90 00000000:0000 01", 8080).is_none());
    }
}
