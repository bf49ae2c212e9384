//! Is haft a good client of any MCP server, whatever that does?

mod broken;
mod guarded;
mod pinned;
mod started;
mod support;
