//! The Agent Client Protocol by WebSocket: an editor drives the sessions of this server, as far as its role goes.

use std::sync::Arc;

use http::{StatusCode, header};
use serve::acp::by_messages;

use crate::{
    call::{Call, Done},
    problem::Problem,
    protocols::AcpClient,
    shared::Shared,
    websocket::{self, Handshake},
};

/// The WebSockets that one person can have open, with all tokens and sign-ins of the name.
const SOCKETS: usize = 8;

/// A WebSocket counts as open as long as this is held.
struct Counted {
    server: Arc<Shared>,
    name: String,
}

impl Counted {
    fn new(server: &Arc<Shared>, name: String) -> Result<Self, Problem> {
        let mut open = server.open_sockets.lock();
        let count = open.entry(name.clone()).or_default();
        if *count >= SOCKETS {
            let what = format!("{SOCKETS} WebSockets of `{name}` are open already");
            return Err(
                Problem::new(StatusCode::TOO_MANY_REQUESTS, "unavailable", what).next("Close one of them.")
            );
        }
        *count += 1;
        Ok(Self { server: server.clone(), name })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut open = self.server.open_sockets.lock();
        if let Some(count) = open.get_mut(&self.name) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                open.remove(&self.name);
            }
        }
    }
}

pub(crate) async fn connect(mut call: Call) -> Done {
    // A page of any origin can begin a WebSocket, with the cookie and without a preflight. The value of Origin was compared with
    // the server's names already; a browser never leaves it out.
    if call.who.by_cookie && !call.head.headers.contains_key(header::ORIGIN) {
        let what = "a WebSocket that is signed in by a cookie needs the header `Origin`";
        return Err(Problem::new(StatusCode::FORBIDDEN, "denied", what)
            .next("Programs send `Authorization: Bearer TOKEN`."));
    }
    let Handshake { answer, upgrade } = websocket::accept(&mut call.head)?;
    let counted = Counted::new(&call.server, call.who.name.clone())?;
    let (input, output, channel) = by_messages();
    let (access, link) = (Arc::new(call.access()), call.link.clone());
    let standing = access.clone();
    let stands = Arc::new(move || standing.stands());
    let client = AcpClient { input, output, who: call.who.name.clone(), role: call.who.role, stands };
    let server = call.server.clone();
    call.server.sockets.spawn(async move {
        let speaking = server.protocols.acp(client);
        let relaying = websocket::relay(upgrade, channel, &access, &link);
        // The protocol ends once the socket has: its turns are stopped there.
        futures_util::future::join(speaking, relaying).await;
        drop((link, counted));
    });
    Ok(answer)
}
