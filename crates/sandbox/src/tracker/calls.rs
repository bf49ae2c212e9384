//! The system calls that change files, by their numbers and arguments.

use crate::filter::FCHMODAT2;

/// `setxattrat`, which the library of C does not name yet; the number is the same on both machines.
pub(super) const SETXATTRAT: i64 = 463;
/// `removexattrat`.
pub(super) const REMOVEXATTRAT: i64 = 466;

/// A path as a process gives it: a folder by descriptor, and the address of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct At {
    pub(super) folder: i32,
    pub(super) text: u64,
}

/// The change that a call is about to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Open { at: At, flags: i32 },
    Unlink { at: At, folder: bool },
    Rename { from: At, to: At, flags: u32 },
    Link { from: At, to: At, flags: i32 },
    /// A folder, a link, a pipe is made.
    Create(At),
    Truncate(At),
    /// The content of an open file is about to be changed in a way that appending does not.
    Write(i32),
    /// `attributes`: extended attributes are changed.
    Metadata { at: At, follow: bool, may_be_empty: bool, attributes: bool },
    MetadataOf { file: i32, attributes: bool },
    /// A socket gets an address, which may be a name in a folder.
    Bind { address: u64, length: u64 },
}

impl Change {
    /// Returns what this call does; `None` for a call that the filter does not stop.
    pub(super) fn of(call: i64, arguments: [u64; 6]) -> Option<Self> {
        let [a, b, c, d, e, _] = arguments;
        let number = |it: u64| it as u32 as i32;
        let at = |folder: u64, text| At { folder: number(folder), text };
        let here = |text| At { folder: libc::AT_FDCWD, text };
        let changed = |at: At, flags: i32, attributes: bool| {
            if at.text == 0 {
                return Self::MetadataOf { file: at.folder, attributes };
            }
            let follow = flags & libc::AT_SYMLINK_NOFOLLOW == 0;
            Self::Metadata { at, follow, may_be_empty: flags & libc::AT_EMPTY_PATH != 0, attributes }
        };
        let metadata = |at: At, flags: i32| changed(at, flags, false);
        let attributes = |at: At, flags: i32| changed(at, flags, true);
        Some(match call {
            libc::SYS_openat => Self::Open { at: at(a, b), flags: number(c) },
            libc::SYS_unlinkat => Self::Unlink { at: at(a, b), folder: number(c) & libc::AT_REMOVEDIR != 0 },
            libc::SYS_renameat => Self::Rename { from: at(a, b), to: at(c, d), flags: 0 },
            libc::SYS_renameat2 => Self::Rename { from: at(a, b), to: at(c, d), flags: e as u32 },
            libc::SYS_linkat => Self::Link { from: at(a, b), to: at(c, d), flags: number(e) },
            libc::SYS_symlinkat => Self::Create(at(b, c)),
            libc::SYS_mkdirat | libc::SYS_mknodat => Self::Create(at(a, b)),
            libc::SYS_truncate => Self::Truncate(here(a)),
            // Of the last two only requests for holes, and calls that write in the middle of a file that was opened for
            // appending.
            libc::SYS_ftruncate | libc::SYS_fallocate | libc::SYS_ioctl | libc::SYS_pwritev2 => {
                Self::Write(number(a))
            }
            libc::SYS_bind => Self::Bind { address: b, length: c },
            // Only without this flag can an open file be written elsewhere than at its end.
            libc::SYS_fcntl if number(c) & libc::O_APPEND != 0 => return None,
            libc::SYS_fcntl => Self::Write(number(a)),
            libc::SYS_fchmod | libc::SYS_fchown => Self::MetadataOf { file: number(a), attributes: false },
            libc::SYS_fsetxattr | libc::SYS_fremovexattr => {
                Self::MetadataOf { file: number(a), attributes: true }
            }
            libc::SYS_fchmodat => metadata(at(a, b), 0),
            FCHMODAT2 | libc::SYS_utimensat => metadata(at(a, b), number(d)),
            libc::SYS_fchownat => metadata(at(a, b), number(e)),
            libc::SYS_setxattr | libc::SYS_removexattr => attributes(here(a), 0),
            libc::SYS_lsetxattr | libc::SYS_lremovexattr => attributes(here(a), libc::AT_SYMLINK_NOFOLLOW),
            SETXATTRAT | REMOVEXATTRAT => attributes(at(a, b), number(c)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_open => Self::Open { at: here(a), flags: number(b) },
            #[cfg(target_arch = "x86_64")]
            libc::SYS_creat => {
                Self::Open { at: here(a), flags: libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC }
            }
            #[cfg(target_arch = "x86_64")]
            libc::SYS_unlink => Self::Unlink { at: here(a), folder: false },
            #[cfg(target_arch = "x86_64")]
            libc::SYS_rmdir => Self::Unlink { at: here(a), folder: true },
            #[cfg(target_arch = "x86_64")]
            libc::SYS_rename => Self::Rename { from: here(a), to: here(b), flags: 0 },
            #[cfg(target_arch = "x86_64")]
            libc::SYS_link => Self::Link { from: here(a), to: here(b), flags: 0 },
            #[cfg(target_arch = "x86_64")]
            libc::SYS_symlink => Self::Create(here(b)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_mkdir | libc::SYS_mknod => Self::Create(here(a)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_chmod | libc::SYS_chown | libc::SYS_utime | libc::SYS_utimes => metadata(here(a), 0),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_lchown => metadata(here(a), libc::AT_SYMLINK_NOFOLLOW),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_futimesat => metadata(at(a, b), 0),
            _ => return None,
        })
    }
}
