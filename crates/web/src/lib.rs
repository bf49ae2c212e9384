//! The HTTP API of haft, and its page: sessions that others watch and take part in, by a browser or a program.
//!
//! Sessions are those of the crate `sessions`; this crate puts them on HTTP. One table of routes says what is served, which
//! role each route needs, and what the description at `/api/v1/openapi.json` says.

mod access;
mod answer;
mod api;
mod assets;
mod call;
mod conversations;
mod counts;
mod diffs;
mod markdown;
mod once;
mod openapi;
mod overview;
mod problem;
mod protocols;
mod role;
mod route;
mod routes;
mod rows;
mod server;
mod shared;
mod stream;
mod views;
mod websocket;
mod workspaces;

pub use access::{FileToken, hash_of};
pub use api::shared_files::files_of;
pub use problem::all_agents_work;
pub use protocols::{AcpClient, McpApproval, McpDecision, Protocols};
pub use role::Role;
pub use server::{Server, Settings};
pub use views::{View, change, views};
pub use workspaces::{Agents, Folders, Workspace, guard};
