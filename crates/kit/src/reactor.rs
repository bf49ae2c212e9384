//! The reactor: one thread that runs a program's futures. Its loop is compiled in this crate, for any program.

use std::{future::Future, pin::Pin};

use tokio::runtime::Runtime;

/// Runs a future to its end, and meanwhile everything that was spawned.
///
/// `Runtime::block_on` is generic: a program that calls it compiles tokio's loop itself, with its own level of
/// optimization.
pub fn run(runtime: &Runtime, future: Pin<&mut dyn Future<Output = ()>>) {
    runtime.block_on(future);
}
