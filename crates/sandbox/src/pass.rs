//! The pass of one call for the proxy: a word in the proxy's address, valid only in the process tree that was
//! given it.
//!
//! Other processes could read the word: processes of one sandbox see each other's environment. So the proxy
//! asks the kernel which process holds the other end of a connection, and whether it descends from a
//! supervisor of that call.

use std::{
    fmt, fs, io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use kit::base64;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    time::timeout,
};

/// The user name in the address of the proxy, if there is a pass.
pub const USER: &str = "haft";

/// Time to wait for the supervisor of a process that connects while it is being started.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Number of times that a tree is searched.
const LOOKS: usize = 2;

/// The pass of one call. Cheap to clone; all clones share their state.
#[derive(Clone)]
pub struct Pass {
    inner: Arc<Inner>,
}

struct Inner {
    word: String,
    /// The credentials that a program sends if the proxy's address contains the word.
    credentials: String,
    trees: watch::Sender<Trees>,
}

#[derive(Debug, Default)]
struct Trees {
    /// Number of commands that are being started.
    coming: usize,
    /// The supervisors of running commands.
    supervisors: Vec<Supervisor>,
}

/// A process, identified by its id and its start time.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Supervisor {
    pid: u32,
    started: String,
}

impl Pass {
    /// Creates a pass with this word.
    pub fn new(word: String) -> Self {
        let credentials = base64::encoded(format!("{USER}:{word}").as_bytes());
        Self { inner: Arc::new(Inner { word, credentials, trees: watch::Sender::default() }) }
    }

    /// Returns the word.
    pub fn word(&self) -> &str {
        &self.inner.word
    }

    /// Returns whether these are its credentials, in base64 (RFC 7617).
    pub(super) fn is(&self, shown: &str) -> bool {
        self.inner.credentials == shown
    }

    /// Announces a command that is given the pass.
    pub fn coming(&self) -> Coming {
        self.inner.trees.send_modify(|it| it.coming += 1);
        Coming { pass: self.clone(), supervisor: None }
    }

    /// Returns whether a process of the call holds the other end of this connection.
    pub(super) async fn is_shown_by(&self, client: &TcpStream) -> bool {
        let (Ok(peer), Ok(proxy)) = (client.peer_addr(), client.local_addr()) else { return false };
        let mut trees = self.inner.trees.subscribe();
        let looked = timeout(TIMEOUT, async {
            loop {
                let (supervisors, last) = {
                    let now = trees.borrow_and_update();
                    (now.supervisors.clone(), now.coming == 0)
                };
                let found =
                    tokio::task::spawn_blocking(move || supervisors.iter().any(|it| holds(it, peer, proxy)));
                if found.await.unwrap_or(false) {
                    return true;
                }
                if last || trees.changed().await.is_err() {
                    return false;
                }
            }
        });
        looked.await.unwrap_or(false)
    }
}

impl PartialEq for Pass {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl fmt::Debug for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pass")
    }
}

/// A command that is being started. When this is dropped, it runs or never will.
pub struct Coming {
    pass: Pass,
    supervisor: Option<Supervisor>,
}

impl Coming {
    /// Records the supervisor of the command.
    pub fn is(mut self, supervisor: Option<u32>) {
        self.supervisor = supervisor.and_then(|pid| Some(Supervisor { pid, started: started(pid)? }));
    }
}

impl Drop for Coming {
    fn drop(&mut self) {
        self.pass.inner.trees.send_modify(|it| {
            it.coming = it.coming.saturating_sub(1);
            it.supervisors.extend(self.supervisor.take());
        });
    }
}

/// Tests on this machine that a pass is valid for the process tree that was given it, and for no other.
///
/// # Errors
/// Which of the two does not hold, or why it can't be tested.
pub async fn self_test() -> Result<(), String> {
    let failed = |error: io::Error| format!("a pass for the proxy can't be tried: {error}");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(failed)?;
    let at = listener.local_addr().map_err(failed)?;
    let _ours = TcpStream::connect(at).await.map_err(failed)?;
    let (theirs, _) = listener.accept().await.map_err(failed)?;
    let pass = Pass::new("self-test".to_owned());
    if pass.is_shown_by(&theirs).await {
        return Err("the proxy accepts a pass from a process that was not given it".to_owned());
    }
    pass.coming().is(Some(std::process::id()));
    if pass.is_shown_by(&theirs).await {
        Ok(())
    } else {
        Err("the proxy can't find the process that holds a connection, so no network grant of a call works"
            .to_owned())
    }
}

/// Returns whether a process below this supervisor holds the connection from `peer` to the proxy.
fn holds(supervisor: &Supervisor, peer: SocketAddr, proxy: SocketAddr) -> bool {
    let pid = supervisor.pid;
    let table = |name: &str| fs::read_to_string(format!("/proc/{pid}/net/{name}")).unwrap_or_default();
    let (four, six) = (table("tcp"), table("tcp6"));
    let found = inode(&four, peer, proxy, v4).or_else(|| inode(&six, peer, proxy, v6));
    let Some(socket) = found.map(|it| format!("socket:[{it}]")) else { return false };
    // A list of children may miss one while another ends.
    let found = (0..LOOKS).any(|_| tree_of(pid).into_iter().any(|it| has_open(it, &socket)));
    // Checked afterwards, because the supervisor may have ended, and its id may have been reused.
    found && started(pid).as_ref() == Some(&supervisor.started)
}

fn has_open(pid: u32, socket: &str) -> bool {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    files.filter_map(|it| fs::read_link(it.path()).ok()).any(|it| it.as_os_str() == socket)
}

/// Returns this process and all its descendants.
fn tree_of(pid: u32) -> Vec<u32> {
    let mut found = vec![pid];
    let mut next = 0;
    while let Some(pid) = found.get(next) {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let lists: Vec<String> =
            threads.filter_map(|it| fs::read_to_string(it.path().join("children")).ok()).collect();
        let children = lists.iter().flat_map(|it| it.split_ascii_whitespace());
        let children: Vec<u32> =
            children.filter_map(|it| it.parse().ok()).filter(|it| !found.contains(it)).collect();
        found.extend(children);
        next += 1;
    }
    found
}

/// Returns the start time of a process, as in the 22nd field of its `stat`, whose second is in parentheses.
fn started(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(19).map(str::to_owned)
}

/// Returns the inode of the socket between these addresses, in a table of the kernel (proc_net_tcp).
fn inode(
    table: &str,
    local: SocketAddr,
    remote: SocketAddr,
    spelled: impl Fn(SocketAddr) -> Option<String>,
) -> Option<&str> {
    let (local, remote) = (spelled(local)?, spelled(remote)?);
    table.lines().skip(1).find_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let is_it = fields.next()? == local && fields.next()? == remote;
        // State, queues, timer, retransmits, user, timeouts; then the inode, which is 0 once no process holds
        // the socket.
        let inode = fields.nth(6)?;
        (is_it && inode != "0").then_some(inode)
    })
}

/// Formats an address as in `/proc/net/tcp`: in the machine's byte order.
fn v4(at: SocketAddr) -> Option<String> {
    let word = u32::from_ne_bytes(four(at)?.octets());
    Some(format!("{word:08X}:{:04X}", at.port()))
}

/// Formats an address as in `/proc/net/tcp6`: an IPv4 address as `::ffff:127.0.0.1`.
fn v6(at: SocketAddr) -> Option<String> {
    let words = match at.ip() {
        IpAddr::V4(it) => it.to_ipv6_mapped().octets(),
        IpAddr::V6(it) => it.octets(),
    };
    let words = words.as_chunks::<4>().0.iter().map(|it| format!("{:08X}", u32::from_ne_bytes(*it)));
    Some(format!("{}:{:04X}", words.collect::<String>(), at.port()))
}

fn four(at: SocketAddr) -> Option<Ipv4Addr> {
    match at.ip() {
        IpAddr::V4(it) => Some(it),
        IpAddr::V6(it) => it.to_ipv4_mapped(),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// Returns a connection within this process: the client's end, and the proxy's.
    async fn connection() -> (TcpStream, TcpStream) {
        connection_at("127.0.0.1:0").await
    }

    async fn connection_at(address: &str) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(address).await.unwrap();
        let ours = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (theirs, _) = listener.accept().await.unwrap();
        (ours, theirs)
    }

    #[tokio::test]
    async fn a_pass_is_good_in_the_tree_it_was_given_to_and_nowhere_else() {
        let (_ours, theirs) = connection().await;
        let pass = Pass::new("abc".to_owned());
        assert!(pass.is("aGFmdDphYmM=") && !pass.is("aGFmdDphYg=="));
        // No process was given it, so a process that shows it has stolen it.
        assert!(!pass.is_shown_by(&theirs).await);
        // Another process, which has no such connection.
        let mut other = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        pass.coming().is(Some(other.id()));
        assert!(!pass.is_shown_by(&theirs).await);
        other.kill().unwrap();
        other.wait().unwrap();
        // The positive control.
        pass.coming().is(Some(std::process::id()));
        assert!(pass.is_shown_by(&theirs).await);
    }

    #[tokio::test]
    async fn pass_is_good_over_ipv6_too() {
        let (_ours, theirs) = connection_at("[::1]:0").await;
        let pass = Pass::new("abc".to_owned());
        assert!(!pass.is_shown_by(&theirs).await);
        pass.coming().is(Some(std::process::id()));
        assert!(pass.is_shown_by(&theirs).await);
    }

    #[tokio::test]
    async fn a_request_before_its_supervisor_is_registered_waits() {
        let (_ours, theirs) = connection().await;
        let pass = Pass::new("abc".to_owned());
        let coming = pass.coming();
        let mut shown = std::pin::pin!(pass.is_shown_by(&theirs));
        tokio::select! {
            biased;
            _ = &mut shown => panic!("it did not wait"),
            () = tokio::task::yield_now() => {}
        }
        coming.is(Some(std::process::id()));
        assert!(shown.await);
    }

    #[test]
    fn a_socket_is_found_by_both_its_addresses() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
                       0: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 4711 1\n\
                       1: 0100007F:C350 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 4712 1\n";
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        if cfg!(target_endian = "little") {
            assert_eq!(inode(table, at(50_000), at(8080), v4), Some("4712"));
            assert_eq!(v6(at(8080)).unwrap(), "0000000000000000FFFF00000100007F:1F90");
        }
        assert_eq!(inode(table, at(50_001), at(8080), v4), None);
    }
}
