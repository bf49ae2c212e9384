//! Memory of this process: returns what is free, or no longer needed, to the system; takes large blocks at once.

/// Size from which on a block is taken at once, in bytes: below it, a call of the system costs as much as it saves.
#[cfg(target_os = "linux")]
const LARGE: usize = 256 << 10;

/// Returns an empty vector for this many bytes. The pages of a large one are there already: the kernel makes them in one call,
/// in half the time of a fault for each of them.
pub(crate) fn block(bytes: usize) -> Vec<u8> {
    let block = Vec::with_capacity(bytes);
    #[cfg(target_os = "linux")]
    if bytes >= LARGE {
        make_pages(&block);
    }
    block
}

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "there is no safe interface to `madvise`")]
fn make_pages(block: &Vec<u8>) {
    const PAGE: usize = 4096;
    let from = (block.as_ptr() as usize).next_multiple_of(PAGE);
    let to = (block.as_ptr() as usize + block.capacity()) / PAGE * PAGE;
    if from < to {
        // SAFETY: the range is within memory that the vector owns, and its content stays as it is. Before Linux 5.14, and
        // where pages are of another size, the kernel refuses, and makes each page when it is first used.
        unsafe { libc::madvise(from as *mut libc::c_void, to - from, libc::MADV_POPULATE_WRITE) };
    }
}

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

/// Unmaps the pages of the program's code; the kernel maps those that are still used again, from its page cache. Most
/// were needed only for the start, and the kernel maps sixteen pages for each one that is used. Takes a millisecond.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "there is no safe interface to `madvise`")]
pub fn forget_start() {
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
pub fn forget_start() {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

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
