//! Tools for the MCP servers that haft is a client of.

mod mcp_call;
mod mcp_connect;
mod mcp_disconnect;
mod mcp_list;
mod mcp_status;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use kit::{AnyTool, Touch, Touches, erase, services::ServerInfo};
pub(crate) use mcp_status::McpStatus;

/// The tools of this family.
pub(crate) fn all() -> Vec<Arc<dyn AnyTool>> {
    vec![
        erase::<McpStatus>(),
        erase::<mcp_list::McpList>(),
        erase::<mcp_call::McpCall>(),
        erase::<mcp_connect::McpConnect>(),
        erase::<mcp_disconnect::McpDisconnect>(),
    ]
}

/// Returns the touches of a call that may start this server, and does nothing else with it.
fn starts(server: &str) -> Touches {
    Touches::none().and(Touch::Server { name: server.to_owned(), reads: true })
}

/// Formats a server's status in a line, and its notes below.
fn standing(it: &ServerInfo) -> String {
    let tools = match it.tools {
        None => String::new(),
        Some(1) => ", 1 tool".to_owned(),
        Some(tools) => format!(", {tools} tools"),
    };
    let mut text = format!("{}: {}{tools}; {}", it.name, it.state.name(), it.about);
    for note in &it.notes {
        text.push_str("\n  ");
        text.push_str(&note.replace('\n', "\n  "));
    }
    text
}
