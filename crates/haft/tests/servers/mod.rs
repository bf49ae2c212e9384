//! haft as a client of MCP servers.

mod broken;
mod guarded;
mod pinned;
mod started;
mod support;
