//! What do all requests of a process share?

use std::{
    error::Error,
    fmt,
    net::{IpAddr, SocketAddr},
    sync::{Arc, OnceLock},
    time::Duration,
};

use reqwest::{
    Client, Url,
    dns::{Addrs, Name, Resolve, Resolving},
    redirect,
};
use tokio::net::TcpStream;

use super::place::{Reach, is_public, plain};
use crate::services::Soon;

/// How long a host may take to be connected to.
const CONNECT: Duration = Duration::from_secs(10);

/// Finds the addresses of a name.
pub trait Lookup: Send + Sync {
    /// The addresses, in the order in which they are tried.
    fn lookup<'a>(&'a self, host: &'a str, port: u16) -> Soon<'a, std::io::Result<Vec<SocketAddr>>>;
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
/// There are two sets of connections, so that none which was opened for a call that may reach a private address is used
/// for one that may not.
pub struct Line {
    lookup: Arc<dyn Lookup>,
    proxy: Option<Url>,
    public: OnceLock<Result<Client, String>>,
    anywhere: OnceLock<Result<Client, String>>,
}

impl Line {
    /// A line through this proxy, if a person named one. What the environment says of proxies counts nothing.
    pub fn new(lookup: Arc<dyn Lookup>, proxy: Option<Url>) -> Self {
        Self { lookup, proxy, public: OnceLock::new(), anywhere: OnceLock::new() }
    }

    /// The connections for what may be reached so far.
    pub(super) fn client(&self, reach: Reach) -> Result<&Client, &str> {
        let slot = match reach {
            Reach::Public => &self.public,
            Reach::Anywhere => &self.anywhere,
        };
        slot.get_or_init(|| self.build(reach).map_err(|error| error.to_string()))
            .as_ref()
            .map_err(String::as_str)
    }

    fn build(&self, reach: Reach) -> reqwest::Result<Client> {
        let resolver = Resolver { lookup: self.lookup.clone(), reach };
        let client = Client::builder()
            .no_proxy()
            .redirect(redirect::Policy::none())
            .dns_resolver(resolver)
            .connect_timeout(CONNECT)
            .referer(false);
        match &self.proxy {
            Some(proxy) => client.proxy(reqwest::Proxy::all(proxy.clone())?).build(),
            None => client.build(),
        }
    }

    /// The addresses of this name that may be reached so far.
    pub(super) async fn find(
        &self,
        host: &str,
        port: u16,
        reach: Reach,
    ) -> Result<Vec<SocketAddr>, Unreached> {
        let found = match host.parse::<IpAddr>() {
            Ok(address) => vec![SocketAddr::new(address, port)],
            Err(_) => self.lookup.lookup(host, port).await.map_err(Unreached::NotFound)?,
        };
        let open: Vec<SocketAddr> =
            found.iter().copied().filter(|it| reach == Reach::Anywhere || is_public(it.ip())).collect();
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

/// Why a host can't be spoken to.
#[derive(Debug)]
pub(super) enum Unreached {
    /// It is at this address, and that may not be reached.
    Private(IpAddr),
    /// Nobody knows its name.
    NotFound(std::io::Error),
    /// It is not there.
    Failed(std::io::Error),
}

impl fmt::Display for Unreached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Private(at) => write!(f, "at {at}, which is not a public address"),
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
