//! The change tracker: keeps what commands change in files, before they do.
//!
//! A filter of system calls stops each process of a command before a call that can change a file. A thread of
//! haft looks up which file that is, keeps what it was, writes a record to the log of the call to which the
//! command belongs, and lets the process go on. It does not protect: the sandbox does. A process that
//! changes the path in its memory between that look and the kernel's can hide a change from the log.

macro_rules! tracked {
    ($($item:item)*) => {
        $(#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))] $item)*
    };
}

tracked! {
    mod calls;
    mod changes;
    mod filter;
    mod folders;
    mod ignored;
    mod images;
    mod listener;
    mod open_files;
    mod resolve;
    mod system;
    mod walk;
    pub(crate) use filter::{install, program};
    pub use listener::{During, Tracked, Tracker};
}

mod between;
mod hold;
mod log;
mod log_lock;
mod logs;
mod refused;
#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod untracked;

pub use between::{Opener, Opening};
pub use hold::{Asker, Hold};
pub use logs::{Bounds, Call, Logs, Totals};
#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
pub use untracked::{During, Tracked, Tracker};
