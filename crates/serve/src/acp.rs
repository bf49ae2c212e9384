//! The Agent Client Protocol (ACP), version 1, over stdio or messages: an editor drives an agent.
//!
//! The types are those of the crate `agent-client-protocol-schema`; the framing is this crate's own, as for MCP: a malformed
//! line is answered and does not end the connection, and only the protocol writes to standard output. What the agent is,
//! [`AcpBackend`] decides.

mod backend;
mod dispatch;
mod editor;
mod incoming;
mod messages;
mod wire;

use std::{
    io::{self, Read, Write},
    sync::Arc,
    time::Duration,
};

use kit::{Fault, Kind};
use tokio::time::timeout;

pub use agent_client_protocol_schema::{self as schema, v1};
pub use backend::{AcpBackend, Described, Reply};
pub use editor::Editor;
pub use messages::{MessageChannel, MessageReader, MessageWriter, by_messages};

use crate::stdio;

/// How long the end waits until turns were stopped and sessions kept.
const END: Duration = Duration::from_secs(5);

/// Serves ACP on this process's standard input and output, until the input ends. From then on whatever else prints to
/// standard output prints to standard error.
///
/// # Errors
/// When the two streams can't be taken over, or no threads are left for them.
pub async fn acp_stdio<B: AcpBackend>(open: impl FnOnce(Editor) -> B) -> io::Result<()> {
    let (input, output) = stdio::private()?;
    acp(open, input, output).await
}

/// Serves ACP on any pair of byte streams, until the input ends or the output breaks. Turns under way are stopped then.
///
/// # Errors
/// When no threads are left for the two streams.
pub async fn acp<B: AcpBackend>(
    open: impl FnOnce(Editor) -> B,
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
) -> io::Result<()> {
    let wire::Opened { incoming, sender, ends } = wire::open(input, output)?;
    let editor = Editor::new(sender.clone());
    let backend = Arc::new(open(editor.clone()));
    let dispatcher = dispatch::Dispatcher::new(backend.clone(), editor, sender);
    dispatcher.run(incoming, &ends.broken).await;
    if timeout(END, backend.end()).await.is_err() {
        tracing::warn!("sessions did not end in time; leaving them");
    }
    drop((dispatcher, backend));
    ends.written().await
}

/// A fault as a JSON-RPC error: what happened, and what to do next.
pub fn error_of(fault: &Fault) -> v1::Error {
    let code = match fault.kind {
        Kind::BadArgs => v1::ErrorCode::InvalidParams,
        Kind::NotFound => v1::ErrorCode::ResourceNotFound,
        Kind::Cancelled => v1::ErrorCode::RequestCancelled,
        _ => v1::ErrorCode::InternalError,
    };
    let next = fault.next.as_deref().map_or_else(String::new, |it| format!("\n{it}"));
    let data = serde_json::json!({"kind": fault.kind.name(), "next": fault.next});
    v1::Error::new(code.into(), format!("{}{next}", fault.what)).data(data)
}

/// The error of a session that is not open on this connection.
pub fn unknown_session(session: &v1::SessionId) -> v1::Error {
    let what = format!(
        "no session `{session}` is open on this connection\nOpen it with `session/load` or `session/resume`; `session/list` \
         lists them."
    );
    let data = serde_json::json!({"sessionId": session});
    v1::Error::new(v1::ErrorCode::ResourceNotFound.into(), what).data(data)
}
