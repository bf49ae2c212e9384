//! Commands of the command line: one file for each command, and the code that they share.

pub mod acp;
pub mod agents;
pub mod call;
pub mod chat;
pub mod completions;
pub mod config;
pub mod demo;
pub mod doctor;
pub mod grants;
pub mod group;
pub mod hooks;
mod listening;
pub mod log;
pub mod login;
pub mod man;
pub mod manual;
pub mod mcp;
pub mod models;
pub mod new_tool;
pub mod prompt;
pub mod prune;
pub mod reload_tools;
pub mod run;
pub mod send;
#[cfg(feature = "web")]
pub mod serve;
pub mod sessions;
pub mod start;
pub mod strict;
pub mod tools;
pub mod triggers;
pub mod trust;
pub mod undo;
pub mod worker;
pub mod workers;

use std::time::Duration;

use kit::{Fault, Kind, services::NotLoaded};
use runtime::{Runtime, Session, plugins::gist};

use crate::{Opened, print};

/// Exit code of a call that failed.
pub const FAULT: u8 = 1;

/// Exit code for wrong arguments.
pub const USAGE: u8 = 2;

/// The session of calls from a shell that name no session: consecutive calls share it.
const SHELL_SESSION: &str = "cli";

/// Time limit for writing the last rows to disk.
const LAST_WRITE: Duration = Duration::from_secs(5);

/// Ends a session's jobs, saves its state, and flushes queued writes.
pub(crate) async fn finish(session: &Session) {
    session.end().await;
    if let Err(fault) = session.keep() {
        print::err(&format!("haft: the session's state was not saved: {}", fault.as_text()));
    }
    close(session.runtime());
}

/// Prints the ignored files and tools; with `--strict` without those that [`all_seen`] reports.
fn report_ignored(opened: &Opened, strict: bool) {
    for line in opened.aside.iter().filter(|line| !strict || !opened.unseen.contains(line)) {
        print::err(&format!("haft: {line}"));
    }
}

/// Checks for `--strict` that no tools were ignored.
///
/// # Errors
/// When tools were ignored, with the remedy.
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

/// Returns one line for a tool that could not be loaded.
pub(crate) fn in_short(it: &NotLoaded) -> String {
    let why = gist(&it.why);
    let older = if it.older_serves { "; its last good version stays in use" } else { "" };
    let whole = if why == it.why.trim() { "" } else { "; `haft reload-tools` shows the whole error" };
    format!("`{}`: {why}{older}{whole}", it.file)
}

/// Flushes queued writes.
pub(crate) fn close(runtime: &Runtime) {
    // Short-lived commands also recover the calls of dead processes.
    runtime.wait_recovered(LAST_WRITE);
    if !runtime.store().close(LAST_WRITE) {
        print::err("haft: the store did not finish writing in time; the log may lack the last calls");
    }
}
