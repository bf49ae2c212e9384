//! `haft acp` on the built program: each method and update of the Agent Client Protocol.

mod attached;
mod install;
mod replayed;
mod sessions;
mod support;
mod turns;
mod unsaved;
