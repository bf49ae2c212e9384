//! Stacks of processes that are cloned: each a mapping of its own, with an unmapped page below it.

use std::{ffi::c_void, io, ptr};

/// The size of a stack, in bytes.
const SIZE: usize = 256 << 10;
/// The size of the unmapped part: the largest page of the platforms where haft runs, in bytes.
const GUARD: usize = 64 << 10;
/// Distance from the top of the used part that is kept when the rest is discarded, in bytes: the calls that are under
/// way while it is.
const KEPT: usize = 4 << 10;

/// A stack. Not from the heap: that fills it with zeroes once larger blocks have been freed, and the supervisor would
/// keep all of it for as long as the command runs.
pub(super) struct Stack(*mut c_void);

#[expect(unsafe_code, reason = "memory from the kernel")]
impl Stack {
    /// Maps a stack.
    ///
    /// # Errors
    /// When the kernel has no memory for it.
    pub(super) fn new() -> io::Result<Self> {
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK | libc::MAP_NORESERVE;
        // SAFETY: the mapping is new, so nothing else uses its memory.
        let start = unsafe { libc::mmap(ptr::null_mut(), GUARD + SIZE, libc::PROT_NONE, kind, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let stack = Self(start);
        // SAFETY: this is a part of the mapping.
        if unsafe { libc::mprotect(stack.bottom(), SIZE, libc::PROT_READ | libc::PROT_WRITE) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(stack)
    }

    /// Returns its end, where a stack begins.
    pub(super) fn top(&self) -> *mut c_void {
        self.bottom().wrapping_byte_add(SIZE)
    }

    fn bottom(&self) -> *mut c_void {
        self.0.wrapping_byte_add(GUARD)
    }

    /// Leaves it out of every process that is forked from now on.
    pub(super) fn keep_from_forks(&self) {
        // SAFETY: this is a part of the mapping, and only forks lose it. Without it they would merely have a copy.
        unsafe { libc::madvise(self.bottom(), SIZE, libc::MADV_DONTFORK) };
    }

    /// Discards the part below the calls that are under way. To be called on this stack.
    pub(super) fn discard_unused(&self) {
        let here = 0u8;
        let used = ptr::from_ref(&here).addr().saturating_sub(KEPT);
        let below = used.saturating_sub(self.bottom().addr()).min(SIZE);
        // SAFETY: what lies so far below the present call belongs to calls that have returned.
        unsafe { libc::madvise(self.bottom(), below & !(page_size() - 1), libc::MADV_DONTNEED) };
    }
}

#[expect(unsafe_code, reason = "memory from the kernel")]
impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and the process that ran on it no longer does.
        unsafe { libc::munmap(self.0, GUARD + SIZE) };
    }
}

/// Returns the size of a page, in bytes.
#[expect(unsafe_code, reason = "a library has it only behind a feature")]
pub(super) fn page_size() -> usize {
    // SAFETY: the call takes a plain number.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}
