//! Confinement of decoder processes: no file, no network, and only the system calls that computing needs.
//!
//! Unlike the sandbox of commands this is an allowlist: a decoder reads its socket, allocates, computes and answers.

use std::{
    collections::BTreeMap,
    fs, io,
    net::{TcpStream, UdpSocket},
    os::unix::net::UnixDatagram,
    process::{Command, ExitCode, Stdio},
};

use kit::{
    Fault,
    decoders::{Confinement, Decoded, Decoder, Entry, serve},
};
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetStatus,
    Scope,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Op, SeccompCondition as Condition,
    SeccompFilter, SeccompRule as Rule, TargetArch, apply_filter_all_threads,
};
use serde::{Deserialize, Serialize};

/// The newest Landlock version that is requested; an older kernel enforces the rights it knows.
const NEWEST: ABI = ABI::V7;

/// The system calls that computing needs. Reading and writing work on open descriptors only: the socket to
/// haft, and the pipe for stderr.
const ALLOWED: &[i64] = &[
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_recvfrom,
    libc::SYS_sendto,
    libc::SYS_close,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_getrandom,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_membarrier,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
    libc::SYS_exit_group,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_time,
];

/// Runs this process as a decoder worker: `decoders`, and the one with which `haft doctor` tests the confinement.
pub fn decode(decoders: &'static [Entry]) -> ExitCode {
    serve(decoders, &Confinement { files: close_files, calls: close_calls })
}

fn close_files() -> Result<(), String> {
    let close = || {
        Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(NEWEST))?
            .handle_access(AccessNet::from_all(NEWEST))?
            .scope(Scope::AbstractUnixSocket | Scope::Signal)?
            .create()?
            .restrict_self()
    };
    match close() {
        Ok(status) if status.ruleset == RulesetStatus::NotEnforced => Err("no Landlock".to_owned()),
        Ok(_) => Ok(()),
        Err(error) => Err(format!("no Landlock: {error}")),
    }
}

fn close_calls() -> Result<(), String> {
    let program = program().map_err(|error| format!("no seccomp filter: {error}"))?;
    apply_filter_all_threads(&program).map_err(|error| format!("no seccomp filter: {error}"))
}

/// Builds the filter. A refused call fails with `EPERM`, so a library that only probes for something goes on.
fn program() -> Result<BpfProgram, seccompiler::BackendError> {
    let arch: TargetArch = std::env::consts::ARCH.try_into()?;
    let mut rules: BTreeMap<i64, Vec<Rule>> = ALLOWED.iter().map(|call| (*call, Vec::new())).collect();
    let own = |argument| Condition::new(argument, Length::Dword, Op::Eq, 0);
    // Limits of this process only, and the signal by which an abort ends it.
    rules.insert(libc::SYS_prlimit64, vec![Rule::new(vec![own(0)?])?]);
    let process = u64::from(std::process::id());
    let this = Condition::new(0, Length::Dword, Op::Eq, process)?;
    rules.insert(libc::SYS_tgkill, vec![Rule::new(vec![this])?]);
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    SeccompFilter::new(rules, refused, SeccompAction::Allow, arch)?.try_into()
}

/// Tries, inside a worker, what a worker must not reach.
#[derive(Debug, Serialize, Deserialize)]
pub struct Escape {
    /// A file that every user may read.
    pub file: std::path::PathBuf,
    /// A port of this machine on which a server listens.
    pub port: u16,
}

impl Escape {
    /// Number of attempts.
    pub const TRIES: usize = 7;
}

impl Decoder for Escape {
    /// The attempts that succeeded, in words.
    type Answer = Vec<String>;

    const NAME: &'static str = "escape";

    fn decode(self, _: Vec<u8>) -> Result<Decoded<Self::Answer>, Fault> {
        let program = || {
            let mut command = Command::new("/proc/self/exe");
            command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command.status().map(drop)
        };
        let tries: [(&str, io::Result<()>); Self::TRIES] = [
            ("read a file", fs::read(&self.file).map(drop)),
            ("list a folder", fs::read_dir("/").map(drop)),
            ("write a file", fs::write(self.file.with_extension("written"), "x")),
            ("TCP", TcpStream::connect(("127.0.0.1", self.port)).map(drop)),
            ("UDP", UdpSocket::bind(("127.0.0.1", 0)).map(drop)),
            ("a Unix socket", UnixDatagram::unbound().map(drop)),
            ("start a process", program()),
        ];
        let reached = tries.into_iter().filter(|(_, tried)| tried.is_ok()).map(|(what, _)| what.to_owned());
        Ok(reached.collect::<Vec<_>>().into())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn decoder_filter_is_one_that_the_kernel_takes() {
        assert!(program().unwrap().len() < 4096);
    }

    #[test]
    fn decoder_filter_lets_nothing_open_or_start() {
        let opening = [
            libc::SYS_openat,
            libc::SYS_openat2,
            libc::SYS_socket,
            libc::SYS_connect,
            libc::SYS_clone,
            libc::SYS_clone3,
            libc::SYS_execve,
            libc::SYS_ptrace,
            libc::SYS_io_uring_setup,
            libc::SYS_recvmsg,
            libc::SYS_kill,
        ];
        assert!(opening.iter().all(|call| !ALLOWED.contains(call)));
    }
}
