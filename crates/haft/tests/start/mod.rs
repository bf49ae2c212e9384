//! The first five minutes: the demo, keys, models, earlier conversations, and `haft` without a command.

mod command_line;
mod conversations;
mod demo;
mod keys;
mod models;
mod names;
mod provider;
mod sessions;
mod state_folder;
