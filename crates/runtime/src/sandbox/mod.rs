//! What does the operating system enforce on the processes of a session?

use std::process::ExitCode;

/// The first argument of our own binary that makes it a keeper.
pub const KEEPER: &str = "keeper";

/// Runs this process as a keeper: takes its orders from the socket that is its standard input, enters the
/// sandbox they describe, and starts what it is told to until that socket closes. To be called before
/// anything else in `main`, while there is one thread.
pub fn keep() -> ExitCode {
    #[cfg(target_os = "linux")]
    if let Ok(orders) = kit::procs::Orders::take()
        && orders.report(b"").is_ok()
    {
        return orders.serve(&|| Ok(()));
    }
    ExitCode::FAILURE
}
