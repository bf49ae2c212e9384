//! The Agent Client Protocol by WebSocket on `haft serve`.

mod attacks;
mod ends;
mod roles;
mod sessions;
mod support;

pub(crate) use support::Editor;
