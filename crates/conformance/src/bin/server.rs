//! The server for the official conformance suite: haft's own HTTP server, with a fixture as backend instead
//! of a session.

#[path = "../server/fixture.rs"]
mod fixture;

use std::{
    io::{self, Write as _},
    net::{Ipv4Addr, TcpListener},
};

use fixture::Fixture;
use serve::{About, Http, http};
use tokio_util::sync::CancellationToken;

fn main() -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut output = io::stdout();
    writeln!(output, "http://{}/mcp", listener.local_addr()?)?;
    output.flush()?;
    let fixture = Fixture::default();
    let open = move |_: serve::Visit<'_>| Ok(fixture.clone());
    let about = About::new("Only for the conformance suite.");
    // The suite kills it.
    let stop = CancellationToken::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(http(listener, Http::default(), about, open, stop))
}
