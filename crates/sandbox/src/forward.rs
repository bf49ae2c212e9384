//! Granted loopback ports of the machine: a listener inside the sandbox for each, for programs that don't use
//! a proxy. A connection is forwarded only for a process that the grant covers.

use std::{
    fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use kit::{net::SessionPorts, procs::Keeper};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::timeout,
};

use super::{
    ports::{Namespace, SandboxPorts, listens_at, reaches},
    proxy::{self, Hosts, MOST, TIMEOUT},
};

/// Maximum number of connections that wait to be accepted.
const BACKLOG: u32 = 128;

impl SandboxPorts {
    /// Listens inside the sandbox at each loopback port that is granted now. Skips a port at which a process
    /// of the session listens, and one without a server on the machine: it stays free for a server of the
    /// session.
    pub async fn forward(&self, hosts: &Hosts) {
        let granted = hosts.loopback_ports();
        if granted.is_empty() {
            return;
        }
        let Some(namespace) = self.namespace() else { return };
        let _turn = namespace.turn.lock().await;
        for port in granted {
            if namespace.of_haft.lock().contains(&port) || self.listens("localhost", port) || !is_open(port) {
                continue;
            }
            let Some(keeper) = namespace.keeper.get() else { return };
            let Ok(four) = listen(&keeper, Ipv4Addr::LOCALHOST.into(), port).await else { continue };
            // The namespace may have no IPv6.
            let six = listen(&keeper, Ipv6Addr::LOCALHOST.into(), port).await.ok();
            namespace.of_haft.lock().insert(port);
            tokio::spawn(serve_while_granted(
                Listeners { four, six, port },
                hosts.clone(),
                namespace.clone(),
            ));
        }
    }
}

/// Returns whether a server listens at this port of the machine's loopback.
fn is_open(port: u16) -> bool {
    let tables =
        ["tcp", "tcp6"].map(|it| fs::read_to_string(format!("/proc/self/net/{it}")).unwrap_or_default());
    let listening = tables.iter().flat_map(|it| it.lines()).filter_map(|line| listens_at(line, port));
    let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    listening.into_iter().any(|at| at.is_loopback() || loopback.iter().any(|it| reaches(at, *it)))
}

async fn listen(keeper: &Keeper, address: IpAddr, port: u16) -> io::Result<TcpListener> {
    let socket = keeper.tcp_socket(address.is_ipv6()).await?;
    // Closed connections of an earlier listener may still be in `TIME_WAIT`.
    socket.set_reuseaddr(true)?;
    socket.bind(SocketAddr::new(address, port))?;
    socket.listen(BACKLOG)
}

/// The listeners of one port.
struct Listeners {
    four: TcpListener,
    six: Option<TcpListener>,
    port: u16,
}

impl Listeners {
    async fn accept(&self) -> io::Result<TcpStream> {
        let (four, six) = (self.four.accept(), async {
            match &self.six {
                Some(six) => six.accept().await,
                None => std::future::pending().await,
            }
        });
        tokio::select! {
            accepted = four => accepted,
            accepted = six => accepted,
        }
        .map(|it| it.0)
    }

    /// Forwards connections until the grant has ended.
    async fn serve(&self, hosts: &Hosts) {
        let free = Arc::new(Semaphore::new(MOST));
        let mut ended = hosts.grants_ended();
        while hosts.loopback_ports().contains(&self.port) {
            let accepted = tokio::select! {
                () = ended.next() => continue,
                accepted = self.accept() => accepted,
            };
            match (accepted, free.clone().try_acquire_owned()) {
                (Ok(client), Ok(permit)) => {
                    let (hosts, port) = (hosts.clone(), self.port);
                    tokio::spawn(async move {
                        // Both ends see an error as the end of their socket.
                        let _ = handle(client, port, &hosts).await;
                        drop(permit);
                    });
                }
                (Ok(client), Err(_)) => reset(&client),
                // Too many files are open, or the program has ended already.
                (Err(_), _) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }
}

async fn serve_while_granted(listeners: Listeners, hosts: Hosts, namespace: Namespace) {
    let port = listeners.port;
    loop {
        tokio::select! {
            () = namespace.keeper.gone() => return,
            () = listeners.serve(&hosts) => {}
        }
        // Invariant: no lookup of the port runs between the decision to close it and the closing.
        let _turn = namespace.turn.lock().await;
        if !hosts.loopback_ports().contains(&port) {
            drop(listeners);
            namespace.of_haft.lock().remove(&port);
            return;
        }
    }
}

async fn handle(mut client: TcpStream, port: u16, hosts: &Hosts) -> io::Result<()> {
    let at = client.local_addr()?.ip();
    let Some(host) = hosts.granted_loopback(port, &client).await else {
        hosts.note_refused(&at.to_string(), port, None);
        reset(&client);
        return Ok(());
    };
    match timeout(TIMEOUT, proxy::connect_granted(&host, port)).await {
        Ok(Ok(mut server)) => copy_bidirectional(&mut client, &mut server).await.map(drop),
        Ok(Err(_)) | Err(_) => {
            reset(&client);
            Ok(())
        }
    }
}

/// Closes a connection with a reset: the client sees an error, not an empty answer.
fn reset(client: &TcpStream) {
    // If it can't be set, the connection just ends.
    let _ = rustix::net::sockopt::set_socket_linger(client, Some(Duration::ZERO));
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use kit::net::Reach;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::pass::Pass;

    /// Starts a server on the machine that sends `hello` to each client.
    async fn machine() -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                stream.write_all(b"hello").await.unwrap();
            }
        });
        port
    }

    /// Returns what a server sends.
    async fn heard(at: SocketAddr) -> String {
        let mut stream = TcpStream::connect(at).await.unwrap();
        let mut said = String::new();
        let _ = stream.read_to_string(&mut said).await;
        said
    }

    #[tokio::test]
    async fn connection_is_forwarded_for_the_process_tree_of_the_grant_alone_and_as_long_as_it_holds() {
        let port = machine().await;
        // Stands for the sandbox: another address of this machine at the same port.
        let four = TcpListener::bind(("127.0.0.3", port)).await.unwrap();
        let at = four.local_addr().unwrap();
        let hosts = Hosts::default();
        let host = format!("127.0.0.1:{port}");
        let (ours, others) = (Pass::new("ours".to_owned()), Pass::new("others".to_owned()));
        let by_others = hosts.grant_to(&host, Reach::Anywhere, &others);
        let served = tokio::spawn({
            let hosts = hosts.clone();
            async move { Listeners { four, six: None, port }.serve(&hosts).await }
        });
        assert_eq!(heard(at).await, "", "the grant is for another process tree");
        assert_eq!(hosts.take_refused(), [format!("127.0.0.3:{port}")]);
        let unasked = hosts.grant_to(&host, Reach::Public, &ours);
        ours.coming().is(Some(std::process::id()));
        assert_eq!(heard(at).await, "", "nobody was asked about this grant");
        let by_us = hosts.grant_to(&host, Reach::Anywhere, &ours);
        assert_eq!(heard(at).await, "hello");
        drop((by_others, unasked, by_us));
        timeout(TIMEOUT, served).await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn only_a_grant_of_a_loopback_port_is_forwarded() {
        let port = machine().await;
        let hosts = Hosts::default();
        for (host, is_loopback) in
            [("127.0.0.1", true), ("localhost", true), ("10.0.0.1", false), ("*", false), ("0.0.0.0", true)]
        {
            let granted = hosts.grant(&format!("{host}:{port}"));
            assert_eq!(hosts.loopback_ports().contains(&port), is_loopback, "{host}");
            drop(granted);
        }
        hosts.grant_lasting("localhost");
        assert!(hosts.loopback_ports().is_empty(), "a grant without a port");
        assert!(is_open(port));
    }
}
