//! `haft serve`: sign-in, roles, streams of events, approvals, changes, files, shares.

mod approvals;
mod changes;
mod files;
mod openai;
mod roles;
mod shares;
mod sign_in;
mod streams;
pub(crate) mod support;
