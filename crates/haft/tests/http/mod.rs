//! `haft mcp --http`: authentication, sessions, limits.

mod attacks;
mod killed;
mod names;
mod sessions;
mod slow;
pub(crate) mod support;
