//! Integration tests of the built `haft` binary: one module per area, one process for all of them.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::needless_pass_by_value,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests"
)]

mod acp;
mod agent;
mod agents;
mod cad;
mod changes;
mod chat;
mod command_line;
mod decoders;
mod destruction;
mod docs;
mod end_to_end;
mod groups;
mod hooks;
mod http;
mod mcp_sdk;
mod media;
mod net;
mod preview;
mod procs;
mod run;
mod serve;
mod servers;
mod skips;
mod ssh;
mod start;
mod support;
mod tool_files;
mod toolsets;
mod tracking;
mod triggers;
mod web;
mod workers;
