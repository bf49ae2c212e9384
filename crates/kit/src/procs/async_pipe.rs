//! Asynchronous pipes, without a thread for each.

use std::{io, os::fd::OwnedFd};

use tokio::io::{Interest, unix::AsyncFd};

use crate::reactor;

/// Makes the file non-blocking, for use with `await`.
pub(super) fn awaited(file: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    rustix::io::ioctl_fionbio(&file, true)?;
    reactor::watch(file, Interest::READABLE | Interest::WRITABLE)
}
