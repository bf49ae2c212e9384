//! Memory of this process: returns what is free to the system.

/// Returns freed memory to the system: the C library keeps it for later use. Takes milliseconds, so call it at
/// rest.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "there is no safe interface to the C library's allocator")]
pub fn give_back() {
    // SAFETY: it takes a number, and may be called at any time.
    unsafe { libc::malloc_trim(0) };
}

/// Does nothing: only glibc keeps freed memory.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn give_back() {}
