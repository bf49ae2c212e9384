//! SSRF protection: requests to listeners on this machine, in every notation of a loopback address.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use kit::{
    Fault, Kind,
    net::{Allowed, Connector, Lookup, Net, Request, System, Url},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    task::JoinHandle,
};

/// Tests the SSRF protection against its own listeners.
///
/// # Errors
/// Names the address that was reached, or says why the test could not run.
pub(super) async fn are_guarded() -> Result<(), String> {
    are_guarded_by(&(Arc::new(System) as Arc<dyn Lookup>)).await
}

async fn are_guarded_by(lookup: &Arc<dyn Lookup>) -> Result<(), String> {
    own_addresses_count_as_loopback(&**lookup)?;
    let failed = |error: std::io::Error| format!("nothing can listen here: {error}");
    let closed = Listener::start(String::new()).await.map_err(failed)?;
    let port = closed.port;
    let open = Listener::start(format!("Location: http://127.0.0.1:{port}/\r\n")).await.map_err(failed)?;
    let web = || Allowed::default().and_web();
    for host in ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "127.1", "[::ffff:127.0.0.1]", "0.0.0.0"] {
        expect_refusal(ask(lookup, web(), &format!("http://{host}:{port}/")).await, host)?;
    }
    // A granted address is reached, which shows that something listens; haft checks the target of its redirect again.
    let granted = web().and(&format!("127.0.0.1:{}", open.port));
    expect_refusal(ask(lookup, granted, &format!("http://127.0.0.1:{}/", open.port)).await, "a redirect")?;
    match (closed.connections.load(Ordering::Acquire), open.connections.load(Ordering::Acquire)) {
        (0, 1) => Ok(()),
        (0, _) => Err("a request to a granted address did not arrive".to_owned()),
        _ => Err("an address of this machine was connected to".to_owned()),
    }
}

/// Checks that every address that this machine sends from counts as loopback: a public one would lead to local services.
fn own_addresses_count_as_loopback(lookup: &dyn Lookup) -> Result<(), String> {
    // Nothing is sent: the kernel only picks the address that it would use.
    let toward = |from: &str, to: &str| {
        let socket = std::net::UdpSocket::bind(from).ok()?;
        socket.connect(to).ok()?;
        Some(socket.local_addr().ok()?.ip())
    };
    let used = [toward("0.0.0.0:0", "8.8.8.8:53"), toward("[::]:0", "[2001:4860:4860::8888]:53")];
    let own = used.into_iter().flatten().chain([std::net::Ipv4Addr::LOCALHOST.into()]);
    match own.into_iter().find(|it| !lookup.is_own(*it)) {
        Some(missed) => Err(format!("{missed}, an address of this machine, counts as another machine's")),
        None => Ok(()),
    }
}

fn expect_refusal(asked: Result<(), Fault>, what: &str) -> Result<(), String> {
    match asked {
        Err(fault) if fault.kind == Kind::Denied => Ok(()),
        Err(fault) => Err(format!("{what} gave {}: {}", fault.kind, fault.what)),
        Ok(()) => Err(format!("{what} was reached")),
    }
}

async fn ask(lookup: &Arc<dyn Lookup>, allowed: Allowed, url: &str) -> Result<(), Fault> {
    let url = Url::parse(url).map_err(|error| Fault::bad_args(error.to_string()))?;
    let net = Net::new(Arc::new(Connector::new(lookup.clone(), None)), allowed);
    net.send(Request::get(url)).await.map(drop)
}

/// Answers every request with a redirect, and counts them.
struct Listener {
    port: u16,
    connections: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Listener {
    async fn start(location: String) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let connections = Arc::<AtomicUsize>::default();
        let count = connections.clone();
        let task = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::AcqRel);
                let answer =
                    format!("HTTP/1.1 302 Found\r\n{location}Content-Length: 0\r\nConnection: close\r\n\r\n");
                // A client that closes the connection was counted already.
                let _ = stream.read(&mut [0; 1024]).await;
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        Ok(Self { port, connections, task })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, SocketAddr};

    use kit::services::Soon;

    use super::*;

    /// Takes every address for another machine's.
    struct Blind;

    impl Lookup for Blind {
        fn lookup<'a>(&'a self, host: &'a str, port: u16) -> Soon<'a, std::io::Result<Vec<SocketAddr>>> {
            System.lookup(host, port)
        }

        fn is_own(&self, _: IpAddr) -> bool {
            false
        }
    }

    #[tokio::test]
    async fn an_own_address_that_counts_as_another_machine_s_is_reported() {
        let blind: Arc<dyn Lookup> = Arc::new(Blind);
        let said = are_guarded_by(&blind).await;
        assert!(said.as_ref().is_err_and(|it| it.contains("counts as another machine's")), "{said:?}");
        assert_eq!(are_guarded().await, Ok(()));
    }
}
