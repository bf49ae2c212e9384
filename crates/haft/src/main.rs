//! The `haft` program: becomes the process that starts commands, or runs one verb of the command line.

mod log;

use std::{pin::pin, process::ExitCode};

use haft::{
    Haft, Place,
    kit::{self, Fault, Kind, reactor},
    print, verbs,
};

/// A command's supervisor has memory of its own in front of the C library's.
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: kit::procs::Allocator = kit::procs::Allocator;

fn main() -> ExitCode {
    // The keeper, the decoder workers and the probe that `haft doctor` runs in the sandbox are this program too.
    if let Some(code) = haft::keeper() {
        return code;
    }
    #[cfg(target_os = "linux")]
    if std::env::args_os().nth(1).unwrap_or_default() == haft::sandbox::probe::PROBE {
        return haft::sandbox::probe::probe();
    }
    let haft = match Haft::of_process() {
        Ok(haft) => haft,
        Err(code) => return code,
    };
    log::start();
    let place = match Place::from_env() {
        Ok(place) => place,
        Err(fault) => {
            print::fault(&fault);
            return ExitCode::FAILURE;
        }
    };
    // One thread: calls are served in the order of their arrival, and start-up costs less. Blocking work has threads of
    // its own.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            print::err(&format!("haft: can't start: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let mut done = Err(Fault::bug("the program ended before its command did"));
    reactor::run(&runtime, pin!(async { done = haft.run(&place).await }));
    // The program does not wait for a thread that a stopped call left behind.
    runtime.shutdown_background();
    match done {
        Ok(code) => code,
        Err(fault) => {
            print::fault(&fault);
            ExitCode::from(if fault.kind == Kind::BadArgs { verbs::USAGE } else { verbs::FAULT })
        }
    }
}
