//! The kernel's side of a listener: receiving stopped calls, reading the memory of a process, letting it go on.

use std::{
    io,
    mem::size_of,
    os::fd::{AsRawFd, BorrowedFd},
};

const RECEIVE: u64 = 0xC050_2100;
const SEND: u64 = 0xC018_2101;
const IS_VALID: u64 = 0x4008_2102;
const SET_FLAGS: u64 = 0x4008_2104;
const SYNC_WAKE_UP: u64 = 1;
const GO_ON: u32 = 1;
/// The longest path that the kernel takes, with its end.
const LONGEST_PATH: usize = 4096;

/// A call that was stopped.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stopped {
    id: u64,
    /// The thread that made it, as haft sees it.
    pub(super) thread: u32,
    pub(super) call: i64,
    pub(super) arguments: [u64; 6],
}

/// Receives the next stopped call; `None`, if it was ended meanwhile.
#[expect(unsafe_code, reason = "rustix has no call for it")]
pub(super) fn receive(listener: BorrowedFd<'_>) -> io::Result<Option<Stopped>> {
    // SAFETY: the kernel wants zeroes, which are a valid value.
    let mut about: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one such value.
    let done = unsafe { libc::ioctl(listener.as_raw_fd(), RECEIVE as _, &raw mut about) };
    if done < 0 {
        let error = io::Error::last_os_error();
        return match error.raw_os_error() {
            Some(libc::ENOENT | libc::EINTR | libc::EAGAIN) => Ok(None),
            _ => Err(error),
        };
    }
    Ok(Some(Stopped {
        id: about.id,
        thread: about.pid,
        call: about.data.nr.into(),
        arguments: about.data.args,
    }))
}

/// Lets the process make its call.
#[expect(unsafe_code, reason = "rustix has no call for it")]
pub(super) fn go_on(listener: BorrowedFd<'_>, stopped: &Stopped) {
    let answer = libc::seccomp_notif_resp { id: stopped.id, val: 0, error: 0, flags: GO_ON };
    // A process that was killed meanwhile needs no answer.
    // SAFETY: the kernel reads one such value.
    unsafe { libc::ioctl(listener.as_raw_fd(), SEND as _, &raw const answer) };
}

/// Makes the call fail with this error.
#[expect(unsafe_code, reason = "rustix has no call for it")]
pub(super) fn fail(listener: BorrowedFd<'_>, stopped: &Stopped, error: i32) {
    let answer = libc::seccomp_notif_resp { id: stopped.id, val: 0, error: -error, flags: 0 };
    // A process that was killed meanwhile needs no answer.
    // SAFETY: the kernel reads one such value.
    unsafe { libc::ioctl(listener.as_raw_fd(), SEND as _, &raw const answer) };
}

/// Returns whether the process still waits: then what was looked up by its number was its own.
#[expect(unsafe_code, reason = "rustix has no call for it")]
pub(super) fn waits(listener: BorrowedFd<'_>, stopped: &Stopped) -> bool {
    // SAFETY: the kernel reads one number.
    unsafe { libc::ioctl(listener.as_raw_fd(), IS_VALID as _, &raw const stopped.id) == 0 }
}

/// Asks the kernel to run this thread on the processor of the process that waits for it.
#[expect(unsafe_code, reason = "rustix has no call for it")]
pub(super) fn wake_beside(listener: BorrowedFd<'_>) {
    // Kernels before 6.6 don't know it: then each answer takes a little longer.
    // SAFETY: it takes a number.
    unsafe { libc::ioctl(listener.as_raw_fd(), SET_FLAGS as _, SYNC_WAKE_UP) };
}

/// Reads the address of a socket. Returns its path; `None` if it has another kind of address.
///
/// # Errors
/// Those of the system; `EFAULT` is what the call itself will fail with.
#[expect(unsafe_code, reason = "rustix has no call for it")]
pub(super) fn socket_path(thread: u32, address: u64, length: u64) -> io::Result<Option<Vec<u8>>> {
    let mut piece = [0_u8; size_of::<libc::sockaddr_un>()];
    let length = piece.len().min(length as usize);
    let ours = libc::iovec { iov_base: piece.as_mut_ptr().cast(), iov_len: length };
    let theirs = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: length };
    // SAFETY: the kernel writes at most `length` bytes to `piece`, which has as many.
    let got =
        unsafe { libc::process_vm_readv(thread.cast_signed(), &raw const ours, 1, &raw const theirs, 1, 0) };
    if got < 0 {
        return Err(io::Error::last_os_error());
    }
    let piece = piece.get(..got as usize).unwrap_or_default();
    let Some((family, path)) = piece.split_first_chunk::<2>() else { return Ok(None) };
    let path = path.split(|it| *it == 0).next().unwrap_or_default();
    let is_path = i32::from(u16::from_ne_bytes(*family)) == libc::AF_UNIX && !path.is_empty();
    Ok(is_path.then(|| path.to_owned()))
}

/// Reads a path of the process.
///
/// # Errors
/// Those of the system; `EFAULT` and `ENAMETOOLONG` are what the call itself will fail with.
#[expect(unsafe_code, reason = "rustix has no call for it")]
pub(super) fn path(thread: u32, address: u64) -> io::Result<Vec<u8>> {
    const PAGE: usize = 4096;
    let mut text = Vec::new();
    let mut at = address as usize;
    while text.len() < LONGEST_PATH {
        // The next page may not be there.
        let length = (PAGE - at % PAGE).min(LONGEST_PATH - text.len());
        let mut piece = [0_u8; PAGE];
        let ours = libc::iovec { iov_base: piece.as_mut_ptr().cast(), iov_len: length };
        let theirs = libc::iovec { iov_base: at as *mut libc::c_void, iov_len: length };
        // SAFETY: the kernel writes at most `length` bytes to `piece`, which has as many.
        let got = unsafe {
            libc::process_vm_readv(thread.cast_signed(), &raw const ours, 1, &raw const theirs, 1, 0)
        };
        if got <= 0 {
            return Err(io::Error::last_os_error());
        }
        let piece = piece.get(..got as usize).unwrap_or_default();
        if let Some(end) = memchr::memchr(0, piece) {
            text.extend_from_slice(piece.get(..end).unwrap_or_default());
            return Ok(text);
        }
        text.extend_from_slice(piece);
        at = at.wrapping_add(got as usize);
    }
    Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG))
}
