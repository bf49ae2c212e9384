//! `haft acp` on the built program: each method and update of the Agent Client Protocol.

mod install;
mod sessions;
mod support;
mod turns;
mod unsaved;
