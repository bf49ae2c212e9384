//! Verbs of the command line: one file for each command, and what they share.

pub mod acp;
pub mod call;
pub mod chat;
pub mod completions;
pub mod config;
pub mod demo;
pub mod doctor;
pub mod grants;
pub mod log;
pub mod login;
pub mod man;
pub mod manual;
pub mod mcp;
pub mod models;
pub mod new_tool;
pub mod prompt;
pub mod reload_tools;
pub mod run;
pub mod sessions;
pub mod start;
pub mod strict;
pub mod tools;
pub mod trust;
pub mod undo;

use std::time::Duration;

use kit::{Fault, Kind, services::NotLoaded};
use runtime::{Runtime, Session, plugins::gist};

use crate::{Opened, print};

/// Exit code of a call that failed.
pub const FAULT: u8 = 1;

/// Exit code for wrong arguments.
pub const USAGE: u8 = 2;

/// The session of who calls from a shell and names none: one after the other, they
/// belong together.
const SHELL_SESSION: &str = "cli";

/// How long the last rows may take to reach the disk.
const LAST_WRITE: Duration = Duration::from_secs(5);

/// Ends a session's jobs, keeps what it has seen, and writes out what is queued.
pub(crate) async fn finish(session: &Session) {
    session.end().await;
    if let Err(fault) = session.keep() {
        print::err(&format!("haft: the session's state was not saved: {}", fault.as_text()));
    }
    close(session.runtime());
}

/// Prints what is ignored; with `--strict` not what [`all_seen`] reports.
fn tell_aside(opened: &Opened, strict: bool) {
    for line in opened.aside.iter().filter(|line| !strict || !opened.unseen.contains(line)) {
        print::err(&format!("haft: {line}"));
    }
}

/// Checks for `--strict` that no tools were ignored.
///
/// # Errors
/// When there are, with what to do.
fn all_seen(opened: &Opened) -> Result<(), Fault> {
    if opened.unseen.is_empty() {
        return Ok(());
    }
    let what =
        format!("not all tools were loaded, and `--strict` requires all:\n{}", opened.unseen.join("\n"));
    let fault = Fault::new(Kind::Unavailable, what);
    if !opened.unseen.iter().any(|line| line.contains("haft trust")) {
        return Err(fault);
    }
    Err(fault.next(
        "Run `haft trust`; in CI, trust for one run with `--trust`: `haft --trust reload-tools --strict`.",
    ))
}

/// One line for what could not be loaded.
pub(crate) fn in_short(it: &NotLoaded) -> String {
    let why = gist(&it.why);
    let older = if it.older_serves { "; its last good version stays in use" } else { "" };
    let whole = if why == it.why.trim() { "" } else { "; `haft reload-tools` shows the whole error" };
    format!("`{}`: {why}{older}{whole}", it.file)
}

/// Writes out what is queued.
pub(crate) fn close(runtime: &Runtime) {
    // Whoever only looks in for a moment tidies up after the dead all the same.
    runtime.wait_recovered(LAST_WRITE);
    if !runtime.store().close(LAST_WRITE) {
        print::err("haft: the store did not finish writing in time; the log may lack the last calls");
    }
}
