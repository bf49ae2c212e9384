//! Asynchronous pipes, without a thread for each.

use std::{io, os::fd::OwnedFd};

use tokio::io::unix::AsyncFd;

/// Makes the file non-blocking, for use with `await`.
#[expect(unsafe_code, reason = "tokio wants a promise that the file stays open")]
pub(super) fn awaited(file: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    rustix::io::ioctl_fionbio(&file, true)?;
    // SAFETY: an `OwnedFd` gives the same open descriptor until it is dropped, which the `AsyncFd` does last.
    unsafe { AsyncFd::register(file) }.map_err(Into::into)
}
