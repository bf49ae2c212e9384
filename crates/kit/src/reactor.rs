//! The reactor: one thread that runs a program's futures. Its loop is compiled in this crate, for any program.

use std::{future::Future, io, os::fd::OwnedFd, pin::Pin};

use tokio::{
    io::{Interest, unix::AsyncFd},
    runtime::Runtime,
};

/// Runs a future to its end, and meanwhile everything that was spawned.
///
/// `Runtime::block_on` is generic: a program that calls it compiles tokio's loop itself, with its own level of
/// optimization.
pub fn run(runtime: &Runtime, future: Pin<&mut dyn Future<Output = ()>>) {
    runtime.block_on(future);
}

/// Has the reactor watch a pipe, socket or terminal. It stays blocking or non-blocking as it is. Panics without a reactor
/// that has I/O.
///
/// # Errors
/// When the system can't watch such a file, or no more of them.
#[expect(unsafe_code, reason = "tokio wants a promise that the file stays open")]
pub fn watch(file: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` gives the same open descriptor until it is dropped, which the `AsyncFd` does last.
    unsafe { AsyncFd::register_with_interest(file, interest) }.map_err(Into::into)
}
