//! Guarded network access: checks each address before it connects to it (SSRF protection).
//!
//! One guarded client sends every request: http and https only. It resolves the name, checks the address, and
//! connects to exactly that address, at every redirect too. Addresses of this machine and of private networks
//! are reached only if a person granted `host:port`.

mod allowed;
mod body;
mod client;
mod connector;
mod ip_rules;
mod local_addresses;
mod request;
mod response;
mod send;
mod session_port;

pub use allowed::Allowed;
pub use body::{Body, Form};
pub use client::{choose_tls, client};
pub use connector::{Connector, Lookup, System, look_up, why_closed};
pub use ip_rules::{
    HostPattern, Reach, is_elsewhere, is_public, loopback, plain, says_private, split_port, with_port,
};
pub use local_addresses::is_own;
pub use request::{Request, only_looks};
pub use reqwest::{Method, StatusCode, Url, header};
pub use response::{Hop, Response};
pub use send::{Net, host_of};
pub use session_port::SessionPorts;

#[cfg(test)]
mod tests;
