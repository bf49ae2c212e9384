//! The change tracker: keeps what commands change in files, before they do.
//!
//! A filter of system calls stops each process of a command before a call that can change a file. A thread of
//! haft looks up which file that is, keeps what it was, writes a record to the log of the call to which the
//! command belongs, and lets the process go on. It is no protection: that is the sandbox's. A process that
//! changes the path in its memory between that look and the kernel's can hide a change from the log.

mod log;
mod logs;

pub use logs::{Bounds, Call, Logs, Totals};
