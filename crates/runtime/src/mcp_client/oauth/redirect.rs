//! The OAuth redirect address on loopback: receives one matching redirect.

use std::{net::Ipv4Addr, time::Duration};

use kit::{Fault, Kind};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    time::timeout,
};

use super::Signing;

const PATH: &str = "/callback";
/// Limits of a browser's request: time, and bytes.
const AT_ONCE: Duration = Duration::from_secs(5);
const FEW: usize = 16 << 10;
/// Limit of simultaneous connections.
const MOST: usize = 16;

/// A loopback port that waits for a browser.
pub struct Redirect {
    listener: TcpListener,
    port: u16,
}

impl Redirect {
    /// Listens at this port, or at any free port.
    ///
    /// # Errors
    /// When the port can't be opened.
    pub async fn listen(port: Option<u16>) -> Result<Self, Fault> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port.unwrap_or(0))).await;
        let bound = listener.and_then(|listener| Ok((listener.local_addr()?.port(), listener)));
        let (port, listener) = bound.map_err(|error| {
            let port = port.map(|it| format!(" {it}")).unwrap_or_default();
            Fault::new(
                Kind::Unavailable,
                format!("can't wait for the browser at port{port} of this machine: {error}"),
            )
        })?;
        Ok(Self { listener, port })
    }

    /// Returns the redirect address.
    pub fn uri(&self) -> String {
        format!("http://127.0.0.1:{}{PATH}", self.port)
    }

    /// Waits for the redirect of this sign-in and returns its whole address. Rejects any other request, and
    /// closes the port after the first match.
    ///
    /// # Errors
    /// [`Kind::Timeout`] when no matching request arrives in time.
    pub async fn answer(self, signing: &Signing, within: Duration) -> Result<String, Fault> {
        let (found, mut finds) = mpsc::channel(1);
        let seats = std::sync::Arc::new(tokio::sync::Semaphore::new(MOST));
        let serving = async {
            loop {
                let Ok(seat) = seats.clone().acquire_owned().await else { return };
                let Ok((stream, _)) = self.listener.accept().await else { continue };
                let (found, state) = (found.clone(), signing.state().to_owned());
                tokio::spawn(async move {
                    if let Ok(Some(target)) = timeout(AT_ONCE, target_of(stream, &state)).await {
                        let _ = found.send(target).await;
                    }
                    drop(seat);
                });
            }
        };
        let target = tokio::select! {
            it = timeout(within, finds.recv()) => it.ok().flatten(),
            () = serving => None,
        };
        let Some(target) = target else {
            let what = format!("nobody let haft in within {} s", within.as_secs());
            return Err(
                Fault::new(Kind::Timeout, what).next("Say `haft mcp login` again; the address is good once.")
            );
        };
        Ok(format!("http://127.0.0.1:{}{target}", self.port))
    }
}

/// Reads a request and returns its target, if it carries this state.
async fn target_of(mut stream: TcpStream, state: &str) -> Option<String> {
    let mut head = Vec::new();
    while head.len() < FEW && !head.windows(4).any(|it| it == b"\r\n\r\n") {
        if stream.read_buf(&mut head).await.ok()? == 0 {
            break;
        }
    }
    let head = String::from_utf8_lossy(&head);
    let mut words = head.lines().next().unwrap_or_default().split(' ');
    let target = match (words.next(), words.next()) {
        (Some("GET"), Some(target)) => is_answer(target, state).then(|| target.to_owned()),
        _ => None,
    };
    let (status, text) = match target {
        Some(_) => ("200 OK", "haft goes on where it was started. This page can be closed.\n"),
        None => ("400 Bad Request", "This is not the answer that haft waits for.\n"),
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\n\
         cache-control: no-store\r\nreferrer-policy: no-referrer\r\nconnection: close\r\n\r\n{text}",
        text.len()
    );
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
    target
}

fn is_answer(target: &str, state: &str) -> bool {
    let Ok(url) = reqwest::Url::parse(&format!("http://127.0.0.1{target}")) else { return false };
    url.path() == PATH && url.query_pairs().any(|(name, value)| name == "state" && value == state)
}
