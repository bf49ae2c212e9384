//! The OS sandbox of a session's processes: namespaces, mounts, Landlock and seccomp, planned as data and
//! entered by a keeper process.

pub mod bubblewrap;
pub mod closed;
pub mod code;
pub mod control_files;
mod control_mounts;
#[cfg(target_os = "linux")]
pub mod decoding;
pub mod denial;
#[cfg(target_os = "linux")]
mod enter;
pub mod environment;
#[cfg(target_os = "linux")]
mod filter;
pub(crate) mod forward;
pub(crate) mod handle;
pub mod home;
#[cfg(target_os = "linux")]
mod keep;
pub mod layout;
pub mod limits;
mod mode;
pub mod mount;
pub mod pass;
pub mod places;
mod plan;
pub mod ports;
pub mod preview;
#[cfg(target_os = "linux")]
pub mod probe;
pub mod proxy;
#[cfg(target_os = "linux")]
mod ruleset;
pub mod seatbelt;
pub mod tracker;
#[cfg(target_os = "linux")]
mod usage;
pub mod watch;

pub use mode::SandboxMode;

#[cfg(target_os = "linux")]
pub use keep::keep;
pub use plan::{Confined, Part, Plan, Report, Trouble};

/// The first argument of haft's own binary that makes it a keeper.
pub const KEEPER: &str = "keeper";

/// Fails: there is no keeper on this system yet.
#[cfg(not(target_os = "linux"))]
pub fn keep() -> std::process::ExitCode {
    std::process::ExitCode::FAILURE
}

/// The examples of the README, as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
