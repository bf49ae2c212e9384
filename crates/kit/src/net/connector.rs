//! The connector: name lookup and connections, shared by all requests of a process.

use std::{
    collections::HashMap,
    error::Error,
    fmt,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use reqwest::{
    Client, Url,
    dns::{Addrs, Name, Resolve, Resolving},
    redirect,
};
use tokio::net::TcpStream;

use super::{
    client,
    ip_rules::{Reach, is_public, loopback, plain, says_private},
    local_addresses,
};
use crate::services::Soon;

/// Time limit for connecting to a host.
const CONNECT: Duration = Duration::from_secs(10);

/// Time for which an unused connection is kept.
const IDLE: Duration = Duration::from_secs(30);

/// Name lookup. It also knows which addresses are this machine's.
pub trait Lookup: Send + Sync {
    /// Returns the addresses, in the order in which they are tried.
    fn lookup<'a>(&'a self, host: &'a str, port: u16) -> Soon<'a, std::io::Result<Vec<SocketAddr>>>;

    /// Returns whether this is an address of this machine. Checked for each connection, as interfaces change.
    fn is_own(&self, address: IpAddr) -> bool {
        local_addresses::is_own(address)
    }
}

/// Name lookup by the operating system.
pub struct System;

impl Lookup for System {
    fn lookup<'a>(&'a self, host: &'a str, port: u16) -> Soon<'a, std::io::Result<Vec<SocketAddr>>> {
        Box::pin(look_up(host, port))
    }
}

/// Returns the addresses of a host. `localhost` and the names below it are this machine (RFC 6761): a system without
/// `/etc/hosts` would ask a name server.
///
/// # Errors
/// Those of the lookup.
pub async fn look_up(host: &str, port: u16) -> std::io::Result<Vec<SocketAddr>> {
    // The unspecified address counts as loopback too, and stays what it is here.
    if plain(host).parse::<IpAddr>().is_err() {
        let own = loopback(host);
        if !own.is_empty() {
            return Ok(own.into_iter().map(|it| SocketAddr::new(it, port)).collect());
        }
    }
    Ok(tokio::net::lookup_host((host, port)).await?.collect())
}

/// The connector that all requests of a process share: their connections and the name lookup.
///
/// There are several pools of connections: a connection that was opened for a call that may reach a private
/// address is never used for one that may not.
pub struct Connector {
    lookup: Arc<dyn Lookup>,
    proxy: Option<Url>,
    clients: Mutex<HashMap<Use, Client>>,
}

/// The route of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Way {
    /// Directly to the host.
    Direct,
    /// Through the proxy.
    Proxy,
}

/// The use of a connection pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Use {
    pub(super) way: Way,
    pub(super) reach: Reach,
    /// Whether bodies are passed on as they were sent, not unpacked.
    pub(super) as_sent: bool,
}

impl Connector {
    /// Creates a connector with this proxy, if a person configured one. Proxy variables of the environment
    /// are ignored.
    pub fn new(lookup: Arc<dyn Lookup>, proxy: Option<Url>) -> Self {
        Self { lookup, proxy, clients: Mutex::default() }
    }

    /// Returns the client for this use.
    pub(super) fn client(&self, of: Use) -> reqwest::Result<Client> {
        let mut clients = self.clients.lock();
        if let Some(client) = clients.get(&of) {
            return Ok(client.clone());
        }
        let client = self.build(of)?;
        clients.insert(of, client.clone());
        Ok(client)
    }

    fn build(&self, of: Use) -> reqwest::Result<Client> {
        // The person who configured the proxy decided its address; the target was checked before the proxy is asked.
        let reach = if of.way == Way::Proxy { Reach::Anywhere } else { of.reach };
        let resolver = Resolver { lookup: self.lookup.clone(), reach };
        let mut client = client()
            .no_proxy()
            .redirect(redirect::Policy::none())
            .dns_resolver(resolver)
            .connect_timeout(CONNECT)
            .pool_idle_timeout(IDLE)
            .user_agent(concat!("haft/", env!("CARGO_PKG_VERSION")))
            .referer(false);
        if of.as_sent {
            client = client.no_gzip().no_brotli().no_deflate().no_zstd();
        }
        match &self.proxy {
            Some(proxy) if of.way == Way::Proxy => client.proxy(reqwest::Proxy::all(proxy.clone())?).build(),
            _ => client.build(),
        }
    }

    fn is_elsewhere(&self, address: IpAddr) -> bool {
        is_public(address) && !self.lookup.is_own(address)
    }

    /// Returns the route of a request to this host. If its address is known before a connection is made and
    /// may not be reached, this is an error: a numeric address needs no lookup, and a proxy does its own.
    ///
    /// # Errors
    /// When the host is at an address that may not be reached.
    pub(super) async fn way(&self, host: &str, port: u16, reach: Reach) -> Result<Way, Unreached> {
        named_openly(host, reach)?;
        let number = host.parse::<IpAddr>().ok();
        if self.proxy.is_none() {
            return match number {
                Some(at) if reach == Reach::Public && !self.is_elsewhere(at) => Err(Unreached::Private(at)),
                _ => Ok(Way::Direct),
            };
        }
        let found = match number {
            Some(at) => vec![SocketAddr::new(at, port)],
            // The proxy may resolve names that this machine can't.
            None => self.lookup.lookup(host, port).await.unwrap_or_default(),
        };
        match found.iter().find(|it| !self.is_elsewhere(it.ip())) {
            None => Ok(Way::Proxy),
            Some(private) if reach == Reach::Public => Err(Unreached::Private(private.ip())),
            // A host of this machine's own network is not behind the proxy.
            Some(_) => Ok(Way::Direct),
        }
    }

    /// Looks up the addresses of this name that may be reached.
    pub(super) async fn find(
        &self,
        host: &str,
        port: u16,
        reach: Reach,
    ) -> Result<Vec<SocketAddr>, Unreached> {
        named_openly(host, reach)?;
        let found = match host.parse::<IpAddr>() {
            Ok(address) => vec![SocketAddr::new(address, port)],
            Err(_) => self.lookup.lookup(host, port).await.map_err(Unreached::NotFound)?,
        };
        let may = |it: &SocketAddr| reach == Reach::Anywhere || self.is_elsewhere(it.ip());
        let open: Vec<SocketAddr> = found.iter().copied().filter(may).collect();
        match found.first() {
            Some(first) if open.is_empty() => Err(Unreached::Private(first.ip())),
            None => Err(Unreached::NotFound(std::io::ErrorKind::NotFound.into())),
            Some(_) => Ok(open),
        }
    }

    /// Connects to an address that was checked; the name is not looked up a second time.
    pub(super) async fn connect(&self, host: &str, port: u16, reach: Reach) -> Result<TcpStream, Unreached> {
        let mut last = std::io::Error::from(std::io::ErrorKind::NotFound);
        for address in self.find(&plain(host), port, reach).await? {
            match tokio::time::timeout(CONNECT, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => last = error,
                Err(_) => last = std::io::ErrorKind::TimedOut.into(),
            }
        }
        Err(Unreached::Failed(last))
    }
}

/// Refuses a host whose name alone shows that it is private, without a lookup.
fn named_openly(host: &str, reach: Reach) -> Result<(), Unreached> {
    match host.parse::<IpAddr>() {
        Err(_) if reach == Reach::Public && says_private(host) => Err(Unreached::Own),
        _ => Ok(()),
    }
}

/// Returns why an address is refused without a grant of `host:port`.
pub fn why_closed(address: IpAddr) -> &'static str {
    if is_public(address) { "is an address of this machine" } else { "is not a public address" }
}

/// The reason why a host can't be contacted.
#[derive(Debug)]
pub(super) enum Unreached {
    /// It is at this address, which may not be reached.
    Private(IpAddr),
    /// Its name is reserved for this machine or for private networks.
    Own,
    /// Its name can't be resolved.
    NotFound(std::io::Error),
    /// The connection failed.
    Failed(std::io::Error),
}

impl fmt::Display for Unreached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Private(at) => write!(f, "at {at}, which {}", why_closed(*at)),
            Self::Own => f.write_str("of this machine or of a private network, by its name"),
            Self::NotFound(error) | Self::Failed(error) => error.fmt(f),
        }
    }
}

impl Error for Unreached {}

struct Resolver {
    lookup: Arc<dyn Lookup>,
    reach: Reach,
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let connector = Connector::new(self.lookup.clone(), None);
        let reach = self.reach;
        Box::pin(async move {
            let found = connector.find(&plain(name.as_str()), 0, reach).await?;
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}
