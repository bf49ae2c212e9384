//! Integration tests of the MCP server over its wire format: one module per area.
#![expect(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "tests")]

mod mcp;
