//! Policy: decides whether a call may run, needs approval, or is denied.
//!
//! [`Policy`] decides from the resources that a call declares, with symlinks resolved. [`commands`] splits a
//! command line into every command that may run. [`grants`] stores standing permissions. Deny takes
//! precedence over ask, and ask over allow.

mod decision;

pub mod commands;
pub mod grants;

pub use decision::{Approve, COMPOSED, Decision, Policy, Rule, Want, Web};
