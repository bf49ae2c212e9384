//! What does the operating system enforce on the processes of a session?

use std::process::ExitCode;

use kit::procs::Orders;

/// The first argument of our own binary that makes it a keeper.
pub const KEEPER: &str = "keeper";

/// Runs this process as a keeper: takes its orders from the socket that is its standard input, enters the
/// sandbox they describe, and starts what it is told to until that socket closes. To be called before
/// anything else in `main`, while there is one thread.
pub fn keep() -> ExitCode {
    let Ok(orders) = Orders::take() else { return ExitCode::FAILURE };
    if orders.report(b"").is_err() {
        return ExitCode::FAILURE;
    }
    orders.serve(&|| Ok(()))
}
