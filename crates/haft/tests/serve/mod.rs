//! `haft serve`: sign-in, roles, streams of events, approvals, changes, files, shares, MCP and ACP.

mod acp;
mod approvals;
mod changes;
mod closing;
mod commits;
mod errors;
mod files;
mod groups;
mod mcp;
mod mcp_approvals;
mod open_agents;
mod openai;
mod openai_sessions;
mod roles;
mod sandbox_switch;
mod shared_files;
mod shares;
mod sign_in;
mod streams;
pub(crate) mod support;
mod uploads;
mod workspaces;
