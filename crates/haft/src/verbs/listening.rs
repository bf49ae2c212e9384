//! Listening for HTTP: addresses, files of tokens, and the signal to end.

use std::{
    fs,
    io::{self, Read as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, ToSocketAddrs as _},
    os::unix::fs::PermissionsExt as _,
    path::Path,
};

use kit::{Fault, Kind};

/// Returns the address that the option gives: `ADDRESS:PORT`, or a port of loopback.
pub(super) fn address(option: &str, text: &str) -> Result<SocketAddr, Fault> {
    let wrong = |why: String| {
        Fault::bad_args(format!("`{option} {text}`: {why}"))
            .next("Give an address and a port: 127.0.0.1:8722.")
    };
    if let Ok(port) = text.parse::<u16>() {
        return Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    }
    let mut found = text.to_socket_addrs().map_err(|error| wrong(error.to_string()))?;
    found.next().ok_or_else(|| wrong("no such address".to_owned()))
}

/// Listens at this address.
pub(super) fn listen(address: SocketAddr) -> Result<TcpListener, Fault> {
    TcpListener::bind(address).map_err(|error| {
        Fault::new(Kind::Unavailable, format!("can't listen on {address}: {error}"))
            .next("Port 0 takes any free port.")
    })
}

/// Checks a name that `--public` gives.
pub(super) fn is_name(name: &str) -> Result<(), Fault> {
    if serve::is_public_name(name) {
        return Ok(());
    }
    Err(Fault::bad_args(format!("`--public {name}` is not a host name"))
        .next("Give HOST, HOST:PORT or https://HOST."))
}

/// Returns the text of a file that nobody else can read.
pub(super) fn private(file: &Path) -> io::Result<String> {
    let mut opened = fs::File::open(file)?;
    if opened.metadata()?.permissions().mode() & 0o077 != 0 {
        return Err(io::Error::other("other users of this machine can read it"));
    }
    let mut text = String::new();
    opened.read_to_string(&mut text)?;
    Ok(text)
}

/// Resolves when the process gets SIGTERM or SIGINT.
pub(super) async fn end_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut end), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = end.recv() => {}
        _ = interrupt.recv() => {}
    }
}
