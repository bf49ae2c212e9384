//! The proxy of the sandbox: commands reach the granted hosts, and no others.
//!
//! The sandbox's network namespace contains only itself. A socket listens in it that haft serves from
//! outside: an HTTP proxy that connects to granted hosts, at an address that it has checked.

use std::{
    collections::BTreeSet,
    fmt, io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use kit::net::{
    HostPattern, Reach, SessionPorts, is_elsewhere, look_up, loopback, plain, split_port, why_closed,
};
use parking_lot::Mutex;

use super::pass::Pass;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
    time::timeout,
};

/// The proxy's answer for a host that is not granted; programs print it.
pub(super) const REFUSAL: &str = "Blocked by haft's sandbox";

/// Maximum size of a request's head, in bytes.
const LONGEST_HEAD: usize = 32 * 1024;

/// Time limit for a program to send its request, and for a host to answer.
pub(super) const TIMEOUT: Duration = Duration::from_secs(20);

/// Maximum number of connections at a time.
pub(super) const MOST: usize = 256;

/// Maximum number of refusals that are kept.
const REMEMBERED: usize = 16;

/// The hosts that commands may reach. Cheap to clone; all clones share one list.
#[derive(Debug, Clone, Default)]
pub struct Hosts {
    inner: Arc<Mutex<Inner>>,
    /// A list whose grants apply here, too.
    above: Option<Arc<Mutex<Inner>>>,
    /// Ports of the session, which need no grant.
    ports: Option<Arc<dyn SessionPorts>>,
}

#[derive(Debug, Default)]
struct Inner {
    next: u64,
    granted: Vec<Entry>,
    refused: Vec<Refused>,
    /// Notified when a grant ends.
    ended: watch::Sender<()>,
}

/// A host that a program requested and did not reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Its name, as requested.
    pub host: String,
    /// The requested port.
    pub port: u16,
    /// Its address, if it was granted but is not at a public address.
    pub private: Option<IpAddr>,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// One grant.
#[derive(Debug)]
struct Entry {
    id: u64,
    pattern: HostPattern,
    /// The widest reach, whatever the pattern names.
    most: Reach,
    /// The pass of the call that it is limited to, if any.
    pass: Option<Pass>,
}

/// A grant, which ends when this is dropped.
#[derive(Debug)]
pub struct Granted {
    hosts: Hosts,
    id: u64,
}

impl Hosts {
    /// Grants a host until the guard is dropped: `crates.io`, `*.crates.io`, `localhost:8080`, or `*` for all
    /// that are public. An address of this machine or of a private network is reached only if it is granted
    /// with its port.
    #[must_use = "the grant ends when this is dropped"]
    pub fn grant(&self, host: &str) -> Granted {
        Granted { id: self.add(host, Reach::Anywhere, None), hosts: self.clone() }
    }

    /// Grants a host, up to this reach, for the processes of one call alone: those that send the proxy its pass.
    #[must_use = "the grant ends when this is dropped"]
    pub fn grant_to(&self, host: &str, most: Reach, pass: &Pass) -> Granted {
        Granted { id: self.add(host, most, Some(pass.clone())), hosts: self.clone() }
    }

    /// Grants a host for the rest of the session.
    pub fn grant_lasting(&self, host: &str) {
        self.add(host, Reach::Anywhere, None);
    }

    /// Grants a host at public addresses for the rest of the session.
    pub fn grant_lasting_public(&self, host: &str) {
        self.add(host, Reach::Public, None);
    }

    /// Creates a list whose own grants apply to nobody else; those of this list apply there too.
    pub fn below(&self) -> Self {
        Self { inner: Arc::default(), above: Some(self.inner.clone()), ports: None }
    }

    /// Adds ports of the session, which need no grant.
    #[must_use]
    pub fn and_session_ports(self, ports: Arc<dyn SessionPorts>) -> Self {
        Self { ports: Some(ports), ..self }
    }

    /// Returns the hosts that were refused since the last call.
    pub fn take_refused(&self) -> Vec<String> {
        self.take_refusals().iter().map(Refused::to_string).collect()
    }

    /// Like [`take_refused`](Self::take_refused), with the reasons.
    pub fn take_refusals(&self) -> Vec<Refused> {
        std::mem::take(&mut self.inner.lock().refused)
    }

    fn add(&self, host: &str, most: Reach, pass: Option<Pass>) -> u64 {
        let mut inner = self.inner.lock();
        inner.next += 1;
        let id = inner.next;
        inner.granted.push(Entry { id, pattern: HostPattern::parse(host), most, pass });
        id
    }

    /// Returns how far this host may be reached by every process.
    fn allows(&self, host: &str, port: u16) -> Option<Reach> {
        let reach = |list: &Mutex<Inner>| list.lock().allows(host, port, None);
        reach(&self.inner).max(self.above.as_deref().and_then(reach))
    }

    /// Returns how far the pass with these credentials reaches this host, and that pass.
    fn by_pass(&self, host: &str, port: u16, shown: &str) -> Option<(Reach, Pass)> {
        let inner = self.inner.lock();
        let pass = inner.granted.iter().filter_map(|it| it.pass.as_ref()).find(|it| it.is(shown))?.clone();
        inner.allows(host, port, Some(&pass)).map(|reach| (reach, pass))
    }

    /// Returns how far the process at the other end of this connection may reach this host. A grant of one
    /// call is for its own processes: a process that read its pass elsewhere (`/proc/PID/environ`) is none of
    /// them.
    async fn allows_peer(&self, wanted: &Wanted, client: &TcpStream) -> Option<Reach> {
        let (host, port) = (&wanted.host, wanted.port);
        let everybody = self.allows(host, port);
        let Some((reach, pass)) = wanted.shown.as_deref().and_then(|it| self.by_pass(host, port, it)) else {
            return everybody;
        };
        if everybody >= Some(reach) || !pass.is_shown_by(client).await { everybody } else { Some(reach) }
    }

    /// Returns the granted ports of this machine's loopback.
    pub fn loopback_ports(&self) -> BTreeSet<u16> {
        self.loopback_grants().into_iter().map(|it| it.port).collect()
    }

    fn loopback_grants(&self) -> Vec<OnLoopback> {
        let lists = [Some(&self.inner), self.above.as_ref()].into_iter().flatten();
        lists.flat_map(|list| list.lock().loopback_grants(Arc::ptr_eq(list, &self.inner))).collect()
    }

    /// Returns the loopback host that is granted at this port to the process at the other end of this connection.
    pub(super) async fn granted_loopback(&self, port: u16, client: &TcpStream) -> Option<String> {
        let at = client.local_addr().ok()?.ip();
        let mut grants = self.loopback_grants();
        grants.retain(|it| it.port == port);
        // The requested address first, if it is among them.
        grants.sort_by_key(|it| (!loopback(&it.host).contains(&at), it.pass.is_some()));
        for grant in grants {
            let is_for_it = match &grant.pass {
                Some(pass) => pass.is_shown_by(client).await,
                None => true,
            };
            if is_for_it {
                return Some(grant.host);
            }
        }
        None
    }

    /// Returns a receiver that is notified when grants end.
    pub(super) fn grants_ended(&self) -> GrantsEnded {
        let own = self.inner.lock().ended.subscribe();
        let above = self.above.as_ref().map(|it| it.lock().ended.subscribe());
        GrantsEnded { own, above }
    }

    pub(super) fn note_refused(&self, host: &str, port: u16, private: Option<IpAddr>) {
        let mut inner = self.inner.lock();
        let refused = Refused { host: host.to_owned(), port, private };
        if !inner.refused.contains(&refused) {
            inner.refused.push(refused);
        }
        let extra = inner.refused.len().saturating_sub(REMEMBERED);
        inner.refused.drain(..extra);
    }
}

/// A grant of a port of this machine's loopback.
struct OnLoopback {
    host: String,
    port: u16,
    pass: Option<Pass>,
}

/// Notifications of grants that ended.
pub(super) struct GrantsEnded {
    own: watch::Receiver<()>,
    above: Option<watch::Receiver<()>>,
}

impl GrantsEnded {
    /// Resolves when one has ended since the last call.
    pub(super) async fn next(&mut self) {
        let above = async {
            let changed = match &mut self.above {
                Some(above) => above.changed().await.is_ok(),
                None => false,
            };
            if !changed {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            // Without the list nothing is granted any more.
            _ = self.own.changed() => {}
            () = above => {}
        }
    }
}

impl Inner {
    /// Returns the grants that reach private addresses; with those of passes, if the passes are of this list.
    fn loopback_grants(&self, with_passes: bool) -> Vec<OnLoopback> {
        let reaching = self.granted.iter().filter(|it| it.pattern.reach().min(it.most) == Reach::Anywhere);
        let meant = reaching.filter(|it| with_passes || it.pass.is_none());
        let named = meant.filter_map(|it| {
            let (host, port) = it.pattern.loopback_port()?;
            Some(OnLoopback { host: host.to_owned(), port, pass: it.pass.clone() })
        });
        named.collect()
    }

    /// Returns how far this host may be reached by grants for everybody, and those of this pass.
    fn allows(&self, host: &str, port: u16, pass: Option<&Pass>) -> Option<Reach> {
        let meant = self.granted.iter().filter(|it| it.pass.is_none() || it.pass.as_ref() == pass);
        meant.filter(|it| it.pattern.fits(host, port)).map(|it| it.pattern.reach().min(it.most)).max()
    }
}

impl Drop for Granted {
    fn drop(&mut self) {
        let mut inner = self.hosts.inner.lock();
        inner.granted.retain(|it| it.id != self.id);
        inner.ended.send_replace(());
    }
}

/// Serves a socket that listens in the sandbox, until the sandbox is gone.
pub async fn serve(listener: std::net::TcpListener, hosts: Hosts) {
    let Ok(listener) = listener.set_nonblocking(true).and_then(|()| TcpListener::from_std(listener)) else {
        tracing::warn!("the proxy of the sandbox can't be served");
        return;
    };
    let free = Arc::new(Semaphore::new(MOST));
    loop {
        let Ok(permit) = free.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let hosts = hosts.clone();
                tokio::spawn(async move {
                    // Both ends see an error as the end of their socket.
                    let _ = handle(stream, &hosts).await;
                    drop(permit);
                });
            }
            // Too many files are open, or the program has ended already.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

async fn handle(mut client: TcpStream, hosts: &Hosts) -> io::Result<()> {
    let Ok(read) = timeout(TIMEOUT, read_head(&mut client)).await else {
        return refuse(&mut client, "408 Request Timeout", "no request came").await;
    };
    let (head, rest) = read?;
    let Some(wanted) = Wanted::parse(&head) else {
        return refuse(&mut client, "400 Bad Request", "this is a proxy for HTTP").await;
    };
    let ports = hosts.ports.as_deref().filter(|it| it.listens(&wanted.host, wanted.port));
    let connected = match ports {
        Some(ports) => {
            let connected = timeout(TIMEOUT, ports.connect(&wanted.host, wanted.port)).await;
            connected.map(|it| it.map_err(Unreached::Failed))
        }
        None => {
            let Some(reach) = hosts.allows_peer(&wanted, &client).await else {
                hosts.note_refused(&wanted.host, wanted.port, None);
                let says = format!("{REFUSAL}: {}:{}", wanted.host, wanted.port);
                return refuse(&mut client, &format!("403 {REFUSAL}"), &says).await;
            };
            timeout(TIMEOUT, connect(&wanted.host, wanted.port, reach)).await
        }
    };
    let mut server = match connected {
        Ok(Ok(server)) => server,
        Ok(Err(Unreached::Private(at))) => {
            hosts.note_refused(&wanted.host, wanted.port, Some(at));
            let (host, port) = (&wanted.host, wanted.port);
            let why = why_closed(at);
            let says = format!(
                "{REFUSAL}: {host} is at {at}, which {why}; only a grant with the port, {host}:{port}, reaches it"
            );
            return refuse(&mut client, &format!("403 {REFUSAL}"), &says).await;
        }
        Ok(Err(Unreached::Failed(error))) => {
            return refuse(&mut client, "502 Bad Gateway", &error.to_string()).await;
        }
        Err(_) => return refuse(&mut client, "504 Gateway Timeout", "the host did not answer").await,
    };
    match &wanted.head {
        None => client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?,
        Some(head) => server.write_all(head.as_bytes()).await?,
    }
    server.write_all(&rest).await?;
    copy_bidirectional(&mut client, &mut server).await.map(drop)
}

/// The reason why a granted host can't be reached.
enum Unreached {
    /// It is at this address, which the grant does not cover.
    Private(IpAddr),
    Failed(io::Error),
}

impl From<io::Error> for Unreached {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

/// Connects to an address that was checked; the name is not looked up a second time.
async fn connect(host: &str, port: u16, reach: Reach) -> Result<TcpStream, Unreached> {
    let found = look_up(&plain(host), port).await?;
    let may = |it: &SocketAddr| reach == Reach::Anywhere || is_elsewhere(it.ip());
    let open: Vec<SocketAddr> = found.iter().copied().filter(may).collect();
    if let (true, Some(first)) = (open.is_empty(), found.first()) {
        return Err(Unreached::Private(first.ip()));
    }
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in open {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last.into())
}

/// Connects to a host that a person granted with this port, at any address.
pub(super) async fn connect_granted(host: &str, port: u16) -> io::Result<TcpStream> {
    match connect(host, port, Reach::Anywhere).await {
        Ok(server) => Ok(server),
        Err(Unreached::Failed(error)) => Err(error),
        Err(Unreached::Private(_)) => Err(io::ErrorKind::PermissionDenied.into()),
    }
}

async fn refuse(client: &mut TcpStream, status: &str, says: &str) -> io::Result<()> {
    let length = says.len() + 1;
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{says}\n"
    );
    client.write_all(answer.as_bytes()).await?;
    client.shutdown().await
}

/// Reads the head of a request, and the bytes after it.
async fn read_head(client: &mut TcpStream) -> io::Result<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = memchr_end(&bytes) {
            let rest = bytes.split_off(end);
            let head = String::from_utf8(bytes).map_err(io::Error::other)?;
            return Ok((head, rest));
        }
        if bytes.len() > LONGEST_HEAD || client.read_buf(&mut bytes).await? == 0 {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
}

fn memchr_end(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|it| it == b"\r\n\r\n").map(|at| at + 4)
}

/// The target of a request.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    host: String,
    port: u16,
    /// The credentials that the program sent.
    shown: Option<String>,
    /// The head that is sent to the host; `None` for a tunnel.
    head: Option<String>,
}

impl Wanted {
    fn parse(head: &str) -> Option<Self> {
        let mut lines = head.split("\r\n");
        let mut words = lines.next()?.split(' ');
        let (method, target, version) = (words.next()?, words.next()?, words.next()?);
        if words.next().is_some() || !version.starts_with("HTTP/1.") || head.contains('\0') {
            return None;
        }
        let shown = lines.clone().find_map(shown);
        if method == "CONNECT" {
            let (host, port) = split_port(target);
            return Some(Self { host: host.to_owned(), port: port?, shown, head: None });
        }
        let rest = target.strip_prefix("http://")?;
        let at = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at_checked(at)?;
        if authority.contains('@') {
            return None;
        }
        let (host, port) = split_port(authority);
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        // One request to one host: a further request on the connection would not be checked.
        let mut forwarded =
            format!("{method} {path} {version}\r\nHost: {authority}\r\nConnection: close\r\n");
        for line in lines.filter(|line| !line.is_empty()) {
            let name = line.split(':').next().unwrap_or_default().to_ascii_lowercase();
            let is_ours = ["host", "connection", "proxy-connection", "proxy-authorization", "keep-alive"]
                .contains(&name.as_str());
            if !is_ours {
                forwarded.push_str(line);
                forwarded.push_str("\r\n");
            }
        }
        forwarded.push_str("\r\n");
        Some(Self { host: host.to_owned(), port: port.unwrap_or(80), shown, head: Some(forwarded) })
    }
}

/// Returns the credentials in a line of a head.
fn shown(line: &str) -> Option<String> {
    let (name, value) = line.split_once(':')?;
    let value = value.trim();
    let (scheme, credentials) = value.split_once(' ')?;
    let ours = name.eq_ignore_ascii_case("proxy-authorization") && scheme.eq_ignore_ascii_case("basic");
    ours.then(|| credentials.trim().to_owned())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn only_what_is_granted_is_allowed_and_only_as_long() {
        let hosts = Hosts::default();
        assert_eq!(hosts.allows("crates.io", 443), None);
        let grant = hosts.grant("Crates.io");
        assert_eq!(hosts.allows("crates.io.", 443), Some(Reach::Public));
        assert_eq!(hosts.allows("index.crates.io", 443), None);
        assert_eq!(hosts.allows("evilcrates.io", 443), None);
        drop(grant);
        assert_eq!(hosts.allows("crates.io", 443), None);
        hosts.grant_lasting("*.crates.io");
        assert_eq!(hosts.allows("index.crates.io", 443), Some(Reach::Public));
        assert_eq!(hosts.allows("crates.io", 443), None);
        hosts.grant_lasting("localhost:8080");
        assert_eq!(hosts.allows("localhost", 8080), Some(Reach::Anywhere));
        assert_eq!(hosts.allows("localhost", 22), None);
        hosts.grant_lasting("*");
        assert_eq!(hosts.allows("localhost", 22), Some(Reach::Public));
    }

    #[test]
    fn a_request_goes_where_its_first_line_says() {
        let wanted =
            Wanted::parse("GET http://a.example:8080/x?y HTTP/1.1\r\nHost: b.example\r\nX: 1\r\n\r\n")
                .unwrap();
        assert_eq!((wanted.host.as_str(), wanted.port), ("a.example", 8080));
        let head = "GET /x?y HTTP/1.1\r\nHost: a.example:8080\r\nConnection: close\r\nX: 1\r\n\r\n";
        assert_eq!(wanted.head.as_deref(), Some(head));
        let tunnel = Wanted::parse("CONNECT [::1]:443 HTTP/1.1\r\n\r\n").unwrap();
        assert_eq!((tunnel.host.as_str(), tunnel.port, tunnel.head), ("[::1]", 443, None));
        for bad in [
            "GET / HTTP/1.1\r\n\r\n",
            "CONNECT a HTTP/1.1\r\n\r\n",
            "GET http://u@a/ HTTP/1.1\r\n\r\n",
            "\r\n\r\n",
        ] {
            assert_eq!(Wanted::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_grant_with_a_pass_is_for_who_shows_it_and_reaches_no_further_than_it_may() {
        let hosts = Hosts::default();
        let (pass, other) = (Pass::new("abc".to_owned()), Pass::new("ab".to_owned()));
        let _granted = [
            hosts.grant_to("crates.io", Reach::Anywhere, &pass),
            hosts.grant_to("a.org:80", Reach::Anywhere, &pass),
            hosts.grant_to("b.org:80", Reach::Public, &pass),
            hosts.grant_to("c.org", Reach::Anywhere, &other),
        ];
        assert_eq!(hosts.allows("crates.io", 443), None);
        let head = "CONNECT crates.io:443 HTTP/1.1\r\nproxy-authorization: Basic aGFmdDphYmM=\r\n\r\n";
        let shown = Wanted::parse(head).unwrap().shown.unwrap();
        let reach = |host: &str, port| hosts.by_pass(host, port, &shown).map(|it| it.0);
        assert_eq!(reach("crates.io", 443), Some(Reach::Public));
        assert_eq!(reach("a.org", 80), Some(Reach::Anywhere));
        assert_eq!(reach("b.org", 80), Some(Reach::Public));
        assert_eq!(reach("c.org", 80), None);
        assert!(hosts.by_pass("crates.io", 443, "aGFmdDphYmQ=").is_none());
    }

    #[tokio::test]
    async fn the_proxy_connects_to_what_is_granted_and_refuses_the_rest() {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = server.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = server.accept().await.unwrap();
            let (head, _) = read_head(&mut stream).await.unwrap();
            assert!(head.starts_with("GET /x HTTP/1.1\r\n"), "{head}");
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nhello").await.unwrap();
        });
        let hosts = Hosts::default();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = listener.local_addr().unwrap();
        tokio::spawn(serve(listener, hosts.clone()));
        let ask = async || {
            let mut stream = TcpStream::connect(proxy).await.unwrap();
            stream.write_all(format!("GET http://{at}/x HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            answer
        };
        assert!(ask().await.starts_with("HTTP/1.1 403 "));
        let public = hosts.grant("*");
        assert!(ask().await.contains(&format!(
            "127.0.0.1, which is not a public address; only a grant with the port, {at}"
        )));
        drop(public);
        let _here = hosts.grant(&at.to_string());
        assert!(ask().await.ends_with("hello"));
        let refused = |private| Refused { host: "127.0.0.1".to_owned(), port: at.port(), private };
        assert_eq!(hosts.take_refusals(), [refused(None), refused(Some(at.ip()))]);
    }
}
