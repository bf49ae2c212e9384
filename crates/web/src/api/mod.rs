//! The operations of the API, one file for each subject.

pub(crate) mod acp;
pub(crate) mod changes;
mod completion;
pub(crate) mod decisions;
pub(crate) mod files;
mod form;
pub(crate) mod groups;
pub(crate) mod jobs;
pub(crate) mod mcp;
mod messages;
pub(crate) mod openai;
pub(crate) mod outputs;
pub(crate) mod people;
mod plain_text;
pub(crate) mod responses;
pub(crate) mod sessions;
pub(crate) mod shared_files;
pub(crate) mod shares;
pub(crate) mod triggers;
mod turn;
pub(crate) mod workspaces;
