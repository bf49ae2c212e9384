//! The filter that stops calls which can change a file, and its listener.

use std::{io, mem::size_of, os::fd::BorrowedFd, os::fd::AsRawFd};

use libc::sock_filter;

use crate::filter::FCHMODAT2;

/// Calls that are stopped whatever their arguments are.
const STOPPED: &[i64] = &[
    libc::SYS_unlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_mkdirat,
    libc::SYS_mknodat,
    libc::SYS_bind,
    libc::SYS_truncate,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    super::calls::SETXATTRAT,
    super::calls::REMOVEXATTRAT,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_creat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rmdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_link,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_symlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mknod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
];

/// Calls that open a file, with the number of the argument that has the flags.
const OPENING: &[(i64, u32)] = &[
    (libc::SYS_openat, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1),
];

/// Flags with one of which an open can change something.
const CHANGING: u32 = (libc::O_WRONLY | libc::O_RDWR | libc::O_TRUNC | libc::O_CREAT) as u32;
/// `RWF_NOAPPEND`: one write elsewhere than at the end of a file that was opened for appending.
const NOT_APPENDING: u32 = 0x20;
/// Requests that make a hole into an open file, or zero a range of it (`FS_IOC_UNRESVSP`, `FS_IOC_UNRESVSP64`,
/// `FS_IOC_ZERO_RANGE`).
const HOLES: [u32; 3] = [0x4030_5829, 0x4030_582B, 0x4030_5839];
/// A file without a name.
const NAMELESS: u32 = (libc::O_TMPFILE & !libc::O_DIRECTORY) as u32;

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xC000_00B7;

const LOAD: u16 = 0x20;
const IF_EQUAL: u16 = 0x15;
const IF_ANY_BIT: u16 = 0x45;
const RETURN: u16 = 0x06;
const ALLOW: u32 = 0x7FFF_0000;
const NOTIFY: u32 = 0x7FC0_0000;

/// The offset of the call's number in the data that a filter reads, and that of the architecture.
const NUMBER_AT: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;

const fn argument_at(number: u32) -> u32 {
    // The machine is little-endian: the low half comes first.
    16 + 8 * number
}

/// A step of the program, with jumps to the two ends.
#[derive(Clone, Copy)]
enum Step {
    Load(u32),
    /// If it is equal: notify.
    NotifyIf(u32),
    /// If it is not equal: allow.
    AllowUnless(u32),
    /// If it is not equal: skip so many steps.
    SkipUnless(u32, u8),
    AllowIfAny(u32),
    NotifyIfAny(u32),
    Allow,
}

/// Returns the program of the filter.
pub(crate) fn program() -> Vec<sock_filter> {
    let number = |call: i64| call as u32;
    let mut steps = vec![Step::Load(ARCHITECTURE_AT), Step::AllowUnless(ARCHITECTURE), Step::Load(NUMBER_AT)];
    for (call, flags) in OPENING {
        steps.extend([
            Step::SkipUnless(number(*call), 4),
            Step::Load(argument_at(*flags)),
            Step::AllowIfAny(NAMELESS),
            Step::NotifyIfAny(CHANGING),
            Step::Allow,
        ]);
    }
    // To set an open file's flags.
    steps.extend([
        Step::SkipUnless(number(libc::SYS_fcntl), 3),
        Step::Load(argument_at(1)),
        Step::NotifyIf(libc::F_SETFL as u32),
        Step::Allow,
    ]);
    let [one, two, three] = HOLES.map(Step::NotifyIf);
    steps.extend([
        Step::SkipUnless(number(libc::SYS_ioctl), 5),
        Step::Load(argument_at(1)),
        one,
        two,
        three,
        Step::Allow,
    ]);
    steps.extend([
        Step::SkipUnless(number(libc::SYS_pwritev2), 3),
        Step::Load(argument_at(5)),
        Step::NotifyIfAny(NOT_APPENDING),
        Step::Allow,
    ]);
    steps.extend(STOPPED.iter().map(|call| Step::NotifyIf(number(*call))));
    let (allow, notify) = (steps.len(), steps.len() + 1);
    let mut program: Vec<sock_filter> = Vec::with_capacity(steps.len() + 2);
    for (at, step) in steps.into_iter().enumerate() {
        // The program has fewer than 100 steps.
        let to = |end: usize| (end - at - 1) as u8;
        let made = |code, k, jt, jf| sock_filter { code, jt, jf, k };
        program.push(match step {
            Step::Load(offset) => made(LOAD, offset, 0, 0),
            Step::NotifyIf(value) => made(IF_EQUAL, value, to(notify), 0),
            Step::AllowUnless(value) => made(IF_EQUAL, value, 0, to(allow)),
            Step::SkipUnless(value, steps) => made(IF_EQUAL, value, 0, steps),
            Step::AllowIfAny(bits) => made(IF_ANY_BIT, bits, to(allow), 0),
            Step::NotifyIfAny(bits) => made(IF_ANY_BIT, bits, to(notify), 0),
            Step::Allow => made(RETURN, ALLOW, 0, 0),
        });
    }
    program.push(sock_filter { code: RETURN, jt: 0, jf: 0, k: ALLOW });
    program.push(sock_filter { code: RETURN, jt: 0, jf: 0, k: NOTIFY });
    program
}

const SET_MODE_FILTER: libc::c_long = 1;
const NEW_LISTENER: libc::c_long = 1 << 3;
/// A stopped call that haft has taken up is not interrupted by signals that have a handler.
const WAIT_KILLABLE: libc::c_long = 1 << 5;
/// How often the listener is sent before its process is given up, a millisecond apart.
const SEND_TRIES: u32 = 10_000;

/// Applies the filter to this process and all that it starts, and sends its listener over the socket; if there
/// can't be one, the number of the error. Allocates nothing: it runs between fork and exec.
#[expect(unsafe_code, reason = "std has no call for it, and a child that shares memory may not allocate")]
pub(crate) fn install(program: &[sock_filter], to: BorrowedFd<'_>) -> io::Result<()> {
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    let apply = |flags: libc::c_long| {
        // SAFETY: the kernel copies the program, which lives until the call is over.
        unsafe { libc::syscall(libc::SYS_seccomp, SET_MODE_FILTER, flags, &raw const filter) }
    };
    let error = || io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL);
    let mut listener = apply(NEW_LISTENER | WAIT_KILLABLE);
    if listener < 0 && error() == libc::EINVAL {
        listener = apply(NEW_LISTENER);
    }
    let word = if listener < 0 { error() } else { 0 }.to_ne_bytes();
    let listener = listener as libc::c_int;
    let mut part = libc::iovec { iov_base: word.as_ptr().cast_mut().cast(), iov_len: word.len() };
    let mut control = [0_u64; 4];
    // SAFETY: a message of zeroes is a valid one.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    if listener >= 0 {
        let size = size_of::<libc::c_int>() as u32;
        message.msg_control = control.as_mut_ptr().cast();
        // SAFETY: the macros compute lengths; the first header lies in `control`, which is large enough for a header and
        // one number.
        unsafe {
            message.msg_controllen = libc::CMSG_SPACE(size) as _;
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(size) as _;
            libc::CMSG_DATA(header).cast::<libc::c_int>().write_unaligned(listener);
        }
    }
    let mut tries = 0;
    let sent = loop {
        // SAFETY: the message and all that it points to live until the call is over.
        let sent = unsafe { libc::sendmsg(to.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) };
        // So many descriptors of this user are on their way, because many commands start at once. They arrive soon.
        if sent >= 0 || error() != libc::ETOOMANYREFS || tries == SEND_TRIES {
            break sent;
        }
        tries += 1;
        let pause = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
        // SAFETY: the kernel reads the time, and is not asked for what is left of it.
        unsafe { libc::nanosleep(&raw const pause, std::ptr::null_mut()) };
    };
    if listener >= 0 {
        // SAFETY: the number is that of the listener, which nothing else here has. A process with a listener of
        // its own filter could let itself go on.
        unsafe { libc::close(listener) };
    }
    // A process whose listener nobody has could change nothing.
    if sent < 0 && listener >= 0 { Err(io::Error::from_raw_os_error(libc::EPIPE)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use super::*;

    /// Returns what the program says to a call: it is run as the kernel runs it.
    fn runs(call: i64, arguments: [u64; 6]) -> u32 {
        let mut data = [0_u8; 64];
        data[0..4].copy_from_slice(&(call as u32).to_ne_bytes());
        data[4..8].copy_from_slice(&ARCHITECTURE.to_ne_bytes());
        for (at, argument) in arguments.iter().enumerate() {
            data[16 + 8 * at..24 + 8 * at].copy_from_slice(&argument.to_ne_bytes());
        }
        let (program, mut at, mut word) = (program(), 0, 0_u32);
        loop {
            let step = program[at];
            at += 1;
            let jump = |yes: bool| usize::from(if yes { step.jt } else { step.jf });
            match step.code {
                LOAD => {
                    let from = step.k as usize;
                    word = u32::from_ne_bytes(data[from..from + 4].try_into().unwrap());
                }
                IF_EQUAL => at += jump(word == step.k),
                IF_ANY_BIT => at += jump(word & step.k != 0),
                _ => return step.k,
            }
        }
    }

    #[test]
    fn calls_that_can_change_a_file_are_stopped() {
        for call in STOPPED {
            assert_eq!(runs(*call, [0; 6]), NOTIFY, "{call}");
        }
        for flags in [libc::O_WRONLY, libc::O_RDWR, libc::O_TRUNC, libc::O_CREAT, libc::O_RDWR | libc::O_CLOEXEC] {
            assert_eq!(runs(libc::SYS_openat, [0, 0, flags as u64, 0, 0, 0]), NOTIFY, "{flags:o}");
        }
        assert_eq!(runs(libc::SYS_fcntl, [3, libc::F_SETFL as u64, 0, 0, 0, 0]), NOTIFY);
        assert_eq!(runs(libc::SYS_pwritev2, [3, 0, 1, 0, 0, 0x20]), NOTIFY);
        for request in HOLES {
            assert_eq!(runs(libc::SYS_ioctl, [3, request.into(), 0, 0, 0, 0]), NOTIFY, "{request:x}");
        }
    }

    #[test]
    fn calls_that_change_no_file_are_not_stopped() {
        for call in [libc::SYS_read, libc::SYS_write, libc::SYS_mmap, libc::SYS_execve, libc::SYS_clone, libc::SYS_sendmsg] {
            assert_eq!(runs(call, [u64::MAX; 6]), ALLOW, "{call}");
        }
        for flags in [libc::O_RDONLY, libc::O_CLOEXEC | libc::O_DIRECTORY, libc::O_TMPFILE | libc::O_RDWR] {
            assert_eq!(runs(libc::SYS_openat, [0, 0, flags as u64, 0, 0, 0]), ALLOW, "{flags:o}");
        }
        assert_eq!(runs(libc::SYS_fcntl, [3, libc::F_GETFL as u64, 0, 0, 0, 0]), ALLOW);
        assert_eq!(runs(libc::SYS_ioctl, [3, libc::TIOCGWINSZ, 0, 0, 0, 0]), ALLOW);
        assert_eq!(runs(libc::SYS_pwritev2, [3, 0, 1, 0, 0, 0x10]), ALLOW);
    }
}
