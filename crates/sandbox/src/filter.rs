//! seccomp filter: the system calls that are refused to every process of the sandbox.
//!
//! Namespaces and missing capabilities prevent most of them already; this is the layer that still holds if
//! one of those has a hole.

use std::{collections::BTreeMap, io};

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Op, SeccompCondition as Condition,
    SeccompFilter, SeccompRule as Rule, TargetArch, apply_filter, sock_filter,
};

/// The kinds of socket that may be created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sockets {
    /// Internet sockets: the network namespace contains only itself.
    Internet,
    /// Internet sockets and Unix sockets.
    InternetAndUnix,
    /// Only connected pairs.
    Pairs,
}

/// `kexec_file_load`, which the library of C names only on some machines.
const KEXEC_FILE_LOAD: i64 = if cfg!(target_arch = "x86_64") { 320 } else { 294 };
/// `fchmodat2`, likewise; the number is the same on both machines.
pub(super) const FCHMODAT2: i64 = 452;

/// Useless to a command, and each has been used for escapes.
const REFUSED: &[i64] = &[
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_kexec_load,
    KEXEC_FILE_LOAD,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_userfaultfd,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    libc::SYS_syslog,
    libc::SYS_fanotify_init,
    libc::SYS_lookup_dcookie,
    libc::SYS_nfsservctl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_uselib,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
];

/// Their arguments, or those of calls that need them, are in memory, which a filter can't read; programs fall back to
/// other calls.
const ABSENT: &[i64] = &[libc::SYS_clone3, libc::SYS_openat2, libc::SYS_io_setup];

/// Requests of btrfs that make or remove a whole folder, in place of the calls that the change tracker stops.
const SUBVOLUMES: [u64; 6] = [0x5000_9401, 0x5000_940E, 0x5000_940F, 0x5000_9417, 0x5000_9418, 0x5000_943F];

const NEW_NAMESPACES: u64 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u64
    | NEW_TIME;

/// `CLONE_NEWTIME`; in the flags of `clone` the same bits are part of the signal.
const NEW_TIME: u64 = 0x80;

/// Mode bits that give the owner's rights to everyone who runs the file.
const SET_ID: u64 = (libc::S_ISUID | libc::S_ISGID) as u64;

/// Applies the filter to this thread and all that it starts. `no_new_privs` has to be set.
pub(super) fn apply(sockets: Sockets) -> io::Result<()> {
    for program in programs(sockets).map_err(io::Error::other)? {
        apply_filter(&program).map_err(io::Error::other)?;
    }
    Ok(())
}

type Rules = BTreeMap<i64, Vec<Rule>>;

fn programs(sockets: Sockets) -> Result<Vec<BpfProgram>, seccompiler::BackendError> {
    let arch: TargetArch = std::env::consts::ARCH.try_into()?;
    let program = |rules: Rules, error: i32| -> Result<BpfProgram, seccompiler::BackendError> {
        #[expect(clippy::cast_sign_loss, reason = "an error number is positive")]
        let refused = SeccompAction::Errno(error as u32);
        SeccompFilter::new(rules, SeccompAction::Allow, refused, arch)?.try_into()
    };
    let absent = ABSENT.iter().map(|call| (*call, Vec::new())).collect();
    let mut refused = program(refused(sockets)?, libc::EPERM)?;
    if cfg!(target_arch = "x86_64") {
        let mut guarded = without_x32();
        guarded.append(&mut refused);
        refused = guarded;
    }
    Ok(vec![refused, program(absent, libc::ENOSYS)?])
}

/// Refuses the second set of system call numbers of this architecture: no other rule would match it.
fn without_x32() -> BpfProgram {
    const LOAD_NUMBER: sock_filter = sock_filter { code: 0x20, jt: 0, jf: 0, k: 0 };
    const IS_X32: sock_filter = sock_filter { code: 0x35, jt: 0, jf: 1, k: 0x4000_0000 };
    const REFUSE: sock_filter =
        sock_filter { code: 0x06, jt: 0, jf: 0, k: 0x0005_0000 | libc::ENOSYS as u32 };
    vec![LOAD_NUMBER, IS_X32, REFUSE]
}

fn refused(sockets: Sockets) -> Result<Rules, seccompiler::BackendError> {
    let mut rules: Rules = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    let condition = |argument, op, value| Condition::new(argument, Length::Dword, op, value);
    let has = |argument, bit: u64| condition(argument, Op::MaskedEq(bit), bit);
    let bits = |mask: u64| (0..32).map(|it| 1_u64 << it).filter(move |bit| mask & bit != 0);

    for (call, mask) in [(libc::SYS_clone, NEW_NAMESPACES & !NEW_TIME), (libc::SYS_unshare, NEW_NAMESPACES)] {
        let any = bits(mask).map(|bit| Rule::new(vec![has(0, bit)?])).collect::<Result<_, _>>()?;
        rules.insert(call, any);
    }
    // The limits of other processes: those that watch a command are of the same user.
    rules.insert(libc::SYS_prlimit64, vec![Rule::new(vec![condition(0, Op::Ne, 0)?])?]);
    let with_mode = |argument| {
        bits(SET_ID).map(|bit| Rule::new(vec![has(argument, bit)?])).collect::<Result<Vec<_>, _>>()
    };
    for (call, argument) in [
        (libc::SYS_fchmod, 1),
        (libc::SYS_fchmodat, 2),
        (FCHMODAT2, 2),
        (libc::SYS_mknodat, 2),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_chmod, 1),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_creat, 1),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_mknod, 1),
    ] {
        rules.insert(call, with_mode(argument)?);
    }
    for (call, flags, mode) in [
        (libc::SYS_openat, 2, 3),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_open, 1, 2),
    ] {
        // Without one of these flags the mode argument is arbitrary.
        let creates = [libc::O_CREAT as u64, (libc::O_TMPFILE & !libc::O_DIRECTORY) as u64];
        let mut any = Vec::new();
        for create in creates {
            for bit in bits(SET_ID) {
                any.push(Rule::new(vec![has(flags, create)?, has(mode, bit)?])?);
            }
        }
        rules.insert(call, any);
    }
    // Typing into the terminal of the user who runs haft.
    let requests = [libc::TIOCSTI, TIOCLINUX].into_iter().chain(SUBVOLUMES);
    let requests = requests.map(|it| Rule::new(vec![condition(1, Op::Eq, it)?]));
    rules.insert(libc::SYS_ioctl, requests.collect::<Result<_, _>>()?);

    let family = |op, family: i32| condition(0, op, family as u64);
    let mut other = vec![
        family(Op::Ne, libc::AF_INET)?,
        family(Op::Ne, libc::AF_INET6)?,
        family(Op::Ne, libc::AF_NETLINK)?,
    ];
    let mut refused = Vec::new();
    match sockets {
        Sockets::Pairs => {}
        Sockets::Internet | Sockets::InternetAndUnix => {
            if sockets == Sockets::InternetAndUnix {
                other.push(family(Op::Ne, libc::AF_UNIX)?);
            }
            refused.push(Rule::new(other)?);
            // Of netlink, only the protocol that lists addresses and routes.
            let not_routes = condition(2, Op::Ne, libc::NETLINK_ROUTE as u64)?;
            refused.push(Rule::new(vec![family(Op::Eq, libc::AF_NETLINK)?, not_routes])?);
        }
    }
    // An empty rule list matches every call.
    rules.insert(libc::SYS_socket, refused);
    Ok(rules)
}

/// The console's own ioctl, which can also type into the terminal.
const TIOCLINUX: u64 = 0x541C;

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn every_kind_of_filter_is_one_that_the_kernel_takes() {
        for sockets in [Sockets::Internet, Sockets::InternetAndUnix, Sockets::Pairs] {
            for program in programs(sockets).unwrap() {
                assert!(program.len() < 4096, "{}", program.len());
            }
        }
    }

    #[test]
    fn all_calls_of_io_uring_are_refused() {
        let refused = refused(Sockets::Internet).unwrap();
        for call in [libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register] {
            assert_eq!(refused.get(&call).map(Vec::len), Some(0), "{call}");
        }
    }
}
