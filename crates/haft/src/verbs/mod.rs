//! What can be asked of `haft`? One file, one verb.

pub mod call;
pub mod doctor;
pub mod grants;
pub mod log;
pub mod manual;
pub mod mcp;
pub mod reload_tools;
pub mod tools;
pub mod trust;
pub mod undo;

use std::time::Duration;

use runtime::{Runtime, Session};

use crate::print;

/// The exit code where a call ended in a fault.
pub const FAULT: u8 = 1;

/// The exit code where haft was asked for something that makes no sense.
pub const USAGE: u8 = 2;

/// The session of who calls from a shell and names none: one after the other, they
/// belong together.
const SHELL_SESSION: &str = "cli";

/// How long the last rows may take to reach the disk.
const LAST_WRITE: Duration = Duration::from_secs(5);

/// Ends a session's jobs, keeps what it has seen, and writes out what is queued.
async fn finish(session: &Session) {
    session.end().await;
    if let Err(fault) = session.keep() {
        print::err(&format!("haft: what this session has seen is not kept: {}", fault.as_text()));
    }
    close(session.runtime());
}

fn close(runtime: &Runtime) {
    // Whoever only looks in for a moment tidies up after the dead all the same.
    runtime.wait_recovered(LAST_WRITE);
    if !runtime.store().close(LAST_WRITE) {
        print::err(
            "haft: the store did not finish writing in time; the last calls may be missing from the log",
        );
    }
}
