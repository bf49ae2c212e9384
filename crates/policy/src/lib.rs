//! Policy: whether a call may run, is asked about, or is denied.
//!
//! [`Policy`] decides from what a call would touch, with symlinks resolved. [`commands`] takes a command line apart into
//! every command that may run. [`grants`] remembers what a person allowed. Deny wins over ask, ask wins over allow.

mod decision;

pub mod commands;
pub mod grants;

pub use decision::{Approve, COMPOSED, Decision, Policy, Rule, Want, Web};
