//! The connector: what all requests of a process share.

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
    ip_rules::{Reach, is_public, plain, says_private},
    local_addresses,
};
use crate::services::Soon;

/// How long a host may take to be connected to.
const CONNECT: Duration = Duration::from_secs(10);

/// How long a connection that nobody uses is kept.
const IDLE: Duration = Duration::from_secs(30);

/// Finds the addresses of a name, and knows which of them are this machine's.
pub trait Lookup: Send + Sync {
    /// The addresses, in the order in which they are tried.
    fn lookup<'a>(&'a self, host: &'a str, port: u16) -> Soon<'a, std::io::Result<Vec<SocketAddr>>>;

    /// Is this an address of this machine? Checked for each connection, as interfaces come and go.
    fn is_own(&self, address: IpAddr) -> bool {
        local_addresses::is_own(address)
    }
}

/// What the operating system knows of names.
pub struct System;

impl Lookup for System {
    fn lookup<'a>(&'a self, host: &'a str, port: u16) -> Soon<'a, std::io::Result<Vec<SocketAddr>>> {
        Box::pin(async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) })
    }
}

/// What all requests of a process share: their connections, and who finds names.
///
/// There are several sets of connections, so that none which was opened for a call that may reach a private address is
/// used for one that may not.
pub struct Line {
    lookup: Arc<dyn Lookup>,
    proxy: Option<Url>,
    clients: Mutex<HashMap<Use, Client>>,
}

/// Which way a request goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Way {
    /// To the host itself.
    Direct,
    /// To the proxy, which goes there.
    Proxy,
}

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Use {
    pub(super) way: Way,
    pub(super) reach: Reach,
    /// Whether bodies come as they were sent, not unpacked.
    pub(super) as_sent: bool,
}

impl Line {
    /// A line through this proxy, if a person named one. What the environment says of proxies counts nothing.
    pub fn new(lookup: Arc<dyn Lookup>, proxy: Option<Url>) -> Self {
        Self { lookup, proxy, clients: Mutex::default() }
    }

    /// The connections for this use.
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
        // Where the proxy is was decided by whoever named it; where it goes was looked at before it is asked.
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

    /// Which way a request to this host goes. An address that may not be reached so far ends it here, if it is known
    /// before a connection is made: a number is never looked up, and a proxy looks up by itself.
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
            // What nobody here knows, the proxy may.
            None => self.lookup.lookup(host, port).await.unwrap_or_default(),
        };
        match found.iter().find(|it| !self.is_elsewhere(it.ip())) {
            None => Ok(Way::Proxy),
            Some(private) if reach == Reach::Public => Err(Unreached::Private(private.ip())),
            // What is behind the person's own door is not behind the proxy's.
            Some(_) => Ok(Way::Direct),
        }
    }

    /// The addresses of this name that may be reached so far.
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

    /// Connects to an address that was looked at; the name is not looked up a second time.
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

/// A name that says itself where it leads is not even looked up.
fn named_openly(host: &str, reach: Reach) -> Result<(), Unreached> {
    match host.parse::<IpAddr>() {
        Err(_) if reach == Reach::Public && says_private(host) => Err(Unreached::Own),
        _ => Ok(()),
    }
}

/// Why an address is refused without a grant of `host:port`.
pub fn why_closed(address: IpAddr) -> &'static str {
    if is_public(address) { "is an address of this machine" } else { "is not a public address" }
}

/// Why a host can't be spoken to.
#[derive(Debug)]
pub(super) enum Unreached {
    /// It is at this address, and that may not be reached.
    Private(IpAddr),
    /// Its name is kept for this machine and for private networks.
    Own,
    /// Nobody knows its name.
    NotFound(std::io::Error),
    /// It is not there.
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
        let line = Line::new(self.lookup.clone(), None);
        let reach = self.reach;
        Box::pin(async move {
            let found = line.find(&plain(name.as_str()), 0, reach).await?;
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}
