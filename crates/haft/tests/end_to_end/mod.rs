//! Promises of the built program, one area per file.

mod approval;
mod arguments;
mod concurrency;
mod control_files;
mod credentials;
mod documents;
mod encodings;
mod install;
mod jobs;
mod kill;
mod listing;
mod log_and_undo;
mod login;
mod mcp;
mod notes;
pub(crate) mod person;
mod policy;
mod python;
mod races;
mod roots;
mod secrets;
mod shell;
mod spans;
mod special_files;
mod stale_edits;
mod stopped_call;
mod traversal;
