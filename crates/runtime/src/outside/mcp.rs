//! Which MCP servers is haft a client of, and how are their tools called?

mod connect;
mod handler;
mod http;
mod news;
mod oauth;
mod section;
#[cfg(test)]
mod stage;
mod wire;

pub use oauth::{Logins, Redirect, Signing};
pub use section::{OauthSection, ServerSection, Variables};

use super::Whose;

/// A server that haft may be a client of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// What it is called: the first half of its tools' names.
    pub name: String,
    /// How it is reached, and what it may do.
    pub section: ServerSection,
    /// Who said so. The first start of one that came with the workspace is asked about.
    pub whose: Whose,
    /// The file that says so, as it is told.
    pub file: String,
}
