//! Transports by which other programs use haft: MCP over stdio and HTTP, and the Agent Client Protocol over stdio.
//!
//! [`mcp_stdio`] is the Model Context Protocol on standard input and output, [`http()`] the same over HTTP. [`acp`]
//! is the protocol by which editors drive an agent.
#![warn(missing_docs)]

pub mod acp;
mod answer;
mod backend;
mod batch;
mod client;
mod direct;
mod documents;
mod erased;
mod hooks;
mod http;
mod in_flight;
mod incoming;
mod input;
mod lines;
mod mcp;
mod message;
mod progress;
mod salvage;
mod standard_stream;
mod stdio;

pub use answer::{list_bytes, tool_bytes};
pub use backend::{Abilities, Backend, Changes};
pub use client::{Ask, Client, Filled, Level, Offers};
pub use documents::{Blank, Content, Document, Line, Notice, Pattern, Prompt, Speaker, Subject, View};
pub use hooks::{Accepted, Delivery, HOOKS, Hooks, LARGEST_HOOK, hook};
/// Parts of a server over HTTP that other servers of haft share: admission, limits, the pace of connections.
pub mod gate {
    pub use crate::http::{
        bodies::{BodyPermits, Guarded, HeldPermits, due},
        connections::Connection,
        endpoint::{Admitted, Endpoints, Mounted, endpoint},
        exchange::{Exchange, Idle},
        listener::{Answers, accept},
        names::{Names, bearer},
        replies::Reply,
        slow_connections::Pace,
        tokens::{is_same, whose},
    };
}

pub use http::{Http, Principal, Visit, http, is_origin, is_public_name};
pub use mcp::{About, mcp, mcp_stdio};
