//! Memory of this process: returns what is free, or no longer needed, to the system.

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

/// Lets the C library keep what was freed, up to 16 MB, until [`give_back`]: it would return the buffers of a large file
/// after each call, and each page of the next call's would be mapped anew. Grows its heaps by larger steps, too.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "there is no safe interface to the C library's allocator")]
pub fn keep_until_rest() {
    const MB: libc::c_int = 1 << 20;

    // SAFETY: it takes two numbers, and may be called at any time; an unknown option changes nothing.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, 16 * MB);
        libc::mallopt(libc::M_MMAP_THRESHOLD, 8 * MB);
        libc::mallopt(libc::M_TOP_PAD, MB / 2);
    }
}

/// Does nothing: only glibc has such options.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn keep_until_rest() {}

/// The memory of a program that rests now and then.
#[derive(Default)]
pub struct AtRest {
    /// Its resident bytes after it was returned last.
    resident: Option<u64>,
}

impl AtRest {
    /// Growth below which nothing is returned: the next call would have to map it again.
    const LITTLE: u64 = 4 << 20;

    /// Returns what is not needed at rest: at the first rest the code of the start too, and later what has come to more
    /// than a little.
    pub fn give_back(&mut self) {
        match self.resident {
            None => {
                give_back();
                forget_start();
            }
            Some(before) if resident() < before + Self::LITTLE => return,
            Some(_) => give_back(),
        }
        self.resident = Some(resident());
    }
}

/// The resident bytes of this process; 0 where the system does not tell.
fn resident() -> u64 {
    let about = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = about.lines().find_map(|it| it.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<u64>().map_or(0, |it| it << 10)
}

/// Unmaps the pages of the program's code; the kernel maps those that are still used again, from its page cache. Most
/// were needed only for the start, and the kernel maps sixteen pages for each one that is used. Takes a millisecond.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "there is no safe interface to `madvise`")]
fn forget_start() {
    use std::os::unix::fs::MetadataExt;

    let (Ok(maps), Ok(program)) =
        (std::fs::read_to_string("/proc/self/maps"), std::fs::metadata("/proc/self/exe"))
    else {
        return;
    };
    for line in maps.lines() {
        let mut parts = line.split_ascii_whitespace();
        let (range, rights, inode) = (parts.next(), parts.next(), parts.nth(2));
        // Only pages that nobody can have written: the others hold what the loader put there.
        if rights != Some("r-xp") || inode != Some(program.ino().to_string().as_str()) {
            continue;
        }
        let address = |it: &str| usize::from_str_radix(it, 16).ok();
        let Some((Some(from), Some(to))) =
            range.and_then(|it| it.split_once('-')).map(|(from, to)| (address(from), address(to)))
        else {
            continue;
        };
        // SAFETY: the range is a private mapping of the program's file without a right to write, so its pages are those
        // of the file, and the kernel reads them again when they are used.
        unsafe { libc::madvise(from as *mut libc::c_void, to - from, libc::MADV_DONTNEED) };
    }
}

/// Does nothing: there is no list of mappings.
#[cfg(not(target_os = "linux"))]
fn forget_start() {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_rest_returns_the_memory_of_a_large_call_and_leaves_that_of_a_small_one() {
        keep_until_rest();
        let mut rest = AtRest::default();
        rest.give_back();
        let use_and_free = |bytes: usize| drop(std::hint::black_box(vec![1_u8; bytes]));
        let before = resident();
        use_and_free(7 << 20);
        assert!(resident() >= before + (6 << 20), "freed memory was returned at once");
        rest.give_back();
        assert!(resident() < before + (4 << 20), "memory of a large call is still there after a rest");
        let before = resident();
        use_and_free(2 << 20);
        rest.give_back();
        assert!(resident() >= before + (1 << 20), "memory of a small call was returned");
    }

    #[test]
    fn code_runs_on_after_its_pages_were_given_back() {
        let of_files = || {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find_map(|it| it.strip_prefix("RssFile:")).unwrap();
            line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap()
        };
        let before = of_files();
        forget_start();
        let after = of_files();
        assert!(after < before, "{before} kB, then {after} kB");
    }
}
