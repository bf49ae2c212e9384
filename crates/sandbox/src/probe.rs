//! Sandbox probe: a process that tries what it must not reach, and reports what succeeded.
//!
//! `haft doctor` runs it inside the sandbox and outside: an attempt that fails outside proves nothing.

use std::{
    fs, io,
    io::Write,
    net::{TcpStream, UdpSocket},
    os::{
        fd::{FromRawFd, OwnedFd},
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixStream},
    },
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use serde::{Deserialize, Serialize};

/// The first argument of haft's own binary that makes it a probe.
pub const PROBE: &str = "sandbox-probe";

/// The argument after [`PROBE`] that makes it take more and more memory.
pub const TAKES_MEMORY: &str = "takes-memory";

/// Size of all `memfd` files of [`TAKES_MEMORY`] together, in MiB.
pub const TAKEN: u64 = 192;

/// Time for which a process that uses too much waits to be killed.
pub const WAITS: Duration = Duration::from_secs(8);

/// The targets that a process in the sandbox must not reach.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Targets {
    /// A folder outside the roots, with a file `secret` in it.
    pub outside: PathBuf,
    /// haft's state, with a file `secret` in it.
    pub state: PathBuf,
    /// The workspace, with a `.git` in it, and the files that [`NESTED`] and [`CONFIGURED`] name.
    pub workspace: PathBuf,
    /// A home folder, with [`BESIDE`] in it.
    pub home: PathBuf,
    /// The process id of haft.
    pub haft: i32,
    /// Ports of servers outside, for TCP and UDP.
    pub ports: (u16, u16),
    /// The path of a Unix socket, and the name of an abstract one.
    pub sockets: (PathBuf, String),
}

/// Control files below the top of the workspace.
pub const NESTED: &[&str] =
    &["sub/.envrc", "sub/.mcp.json", "sub/.vscode/tasks.json", "sub/.gitattributes", "sub/deep/AGENTS.md"];

/// Files that the configuration of the workspace's repository runs.
pub const CONFIGURED: &[&str] = &["my-hooks/pre-commit", "tools/filter"];

/// A repository where a package manager keeps what it installs.
pub const VENDORED: &str = "node_modules/x/.git/hooks";

/// A folder of programs in the home folder, and a credential beside it.
pub const BESIDE: (&str, &str) = (".doctor/bin", ".doctor/token");

type Try = fn(&Targets) -> io::Result<()>;

/// All attempts: the guarantee, the description, the function.
const TRIES: &[(&str, &str, Try)] = &[
    ("G2", "write outside the roots", |at| fs::write(at.outside.join("written"), "x")),
    ("G2", "read outside the roots", |at| fs::read(at.outside.join("secret")).map(drop)),
    ("G2", "change a mode outside the roots", |at| {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(at.outside.join("secret"), fs::Permissions::from_mode(0o644))
    }),
    ("G2", "TCP", |at| TcpStream::connect(("127.0.0.1", at.ports.0)).map(drop)),
    ("G2", "UDP", udp),
    ("G2", "a socket with a path", |at| UnixStream::connect(&at.sockets.0).map(drop)),
    ("G2", "a socket with a name", |at| {
        UnixStream::connect_addr(&SocketAddr::from_abstract_name(&at.sockets.1)?).map(drop)
    }),
    ("G2", "io_uring", |_| io_uring()),
    ("G2", "ptrace", |_| trace_me()),
    ("G2", "a new user namespace", |_| in_child(unshare_user)),
    ("G2", "a signal to haft", |at| signal(at.haft)),
    ("G2", "a setting of the kernel", |_| {
        fs::OpenOptions::new().write(true).open("/proc/sys/kernel/core_pattern").map(drop)
    }),
    ("G3", "a git hook", |at| fs::write(at.workspace.join(".git/hooks/probe"), "")),
    ("G3", "git's configuration", |at| {
        fs::OpenOptions::new().append(true).open(at.workspace.join(".git/config")).map(drop)
    }),
    ("G3", "the name of .git", |at| {
        fs::rename(at.workspace.join(".git"), at.workspace.join("git2"))?;
        fs::rename(at.workspace.join("git2"), at.workspace.join(".git"))
    }),
    ("G3", "a control file in a subfolder", |at| append_any(at, NESTED)),
    ("G3", "what git's configuration runs", |at| append_any(at, CONFIGURED)),
    ("G3", "a hook below node_modules", |at| fs::write(at.workspace.join(VENDORED).join("probe"), "")),
    ("G7", "most of the user's inotify instances", |_| most_of_inotify()),
    ("G4", "a credential beside a program on PATH", |at| fs::read(at.home.join(BESIDE.1)).map(drop)),
    ("G4", "haft's state", |at| fs::read(at.state.join("secret")).map(drop)),
    ("G4", "haft's environment", |at| fs::read(format!("/proc/{}/environ", at.haft)).map(drop)),
    ("G4", "a key of haft's environment in its own", |_| {
        let own = std::env::vars_os().any(|(name, _)| name == "DOCTOR_TOKEN" || name == "SSH_AUTH_SOCK");
        if own { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
    }),
];

/// The result of one attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tried {
    /// Its guarantee.
    pub guarantee: String,
    /// Its description.
    pub what: String,
    /// Whether it succeeded.
    pub reached: bool,
}

/// Tries everything with the targets in the second argument, and prints the results as JSON.
pub fn probe() -> ExitCode {
    if std::env::args().nth(2).as_deref() == Some(TAKES_MEMORY) {
        return take_memory().map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS);
    }
    let targets = std::env::args().nth(2).and_then(|it| serde_json::from_str::<Targets>(&it).ok());
    let Some(targets) = targets else { return ExitCode::FAILURE };
    let tried = TRIES.iter().map(|(guarantee, what, attempt)| Tried {
        guarantee: (*guarantee).to_owned(),
        what: (*what).to_owned(),
        reached: attempt(&targets).is_ok(),
    });
    let said = serde_json::to_string(&tried.collect::<Vec<_>>()).unwrap_or_default();
    match writeln!(io::stdout(), "{said}") {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Opens the first of these files that can be opened for appending.
fn append_any(at: &Targets, names: &[&str]) -> io::Result<()> {
    let mut opened = Err(io::ErrorKind::NotFound.into());
    for name in names {
        opened = fs::OpenOptions::new().append(true).open(at.workspace.join(name)).map(drop);
        if opened.is_ok() {
            break;
        }
    }
    opened
}

/// Creates a third of the inotify instances that a user may have: the sandbox leaves a quarter to commands.
#[expect(unsafe_code, reason = "rustix has no call for it without its feature")]
fn most_of_inotify() -> io::Result<()> {
    let most = fs::read_to_string("/proc/sys/fs/inotify/max_user_instances")?;
    let most: u64 = most.trim().parse().map_err(|_| io::ErrorKind::InvalidData)?;
    let mut limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current = limit.maximum;
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit)?;
    let make = |_| {
        // SAFETY: it takes a number and gives a descriptor.
        let made = unsafe { libc::inotify_init1(libc::IN_CLOEXEC) };
        done(made.into())?;
        // SAFETY: it was created just now, and has no other owner.
        Ok(unsafe { OwnedFd::from_raw_fd(made) })
    };
    (0..most / 3).map(make).collect::<io::Result<Vec<OwnedFd>>>().map(drop)
}

/// Fills files in memory, and waits to be killed.
fn take_memory() -> io::Result<()> {
    let file = rustix::fs::memfd_create("taken", rustix::fs::MemfdFlags::CLOEXEC)?;
    let mut file = fs::File::from(file);
    let mebibyte = vec![1; 1 << 20];
    for _ in 0..TAKEN {
        file.write_all(&mebibyte)?;
    }
    std::thread::sleep(WAITS);
    Ok(())
}

fn udp(at: &Targets) -> io::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.set_read_timeout(Some(Duration::from_secs(1)))?;
    socket.send_to(b"x", ("127.0.0.1", at.ports.1))?;
    socket.recv(&mut [0]).map(drop)
}

fn signal(process: i32) -> io::Result<()> {
    let process = rustix::process::Pid::from_raw(process).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(rustix::process::test_kill_process(process)?)
}

#[expect(unsafe_code, reason = "rustix has no call for it")]
fn io_uring() -> io::Result<()> {
    let mut parameters = [0_u64; 15];
    // SAFETY: the kernel writes 120 bytes, which is what there is.
    done(unsafe { libc::syscall(libc::SYS_io_uring_setup, 4, parameters.as_mut_ptr()) })
}

fn trace_me() -> io::Result<()> {
    #[expect(unsafe_code, reason = "rustix has no call for it")]
    in_child(|| {
        // SAFETY: this request takes no pointers.
        done(unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) })
    })
}

#[expect(unsafe_code, reason = "it is done in a child that ends at once")]
fn unshare_user() -> io::Result<()> {
    // SAFETY: no file descriptor table is taken apart.
    Ok(unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWUSER) }?)
}

/// Runs it in a child, so that this process stays as it is.
#[expect(unsafe_code, reason = "there is no other way to a child without a program")]
fn in_child(attempt: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    // SAFETY: this process has one thread.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let code = i32::from(attempt().is_err());
        // SAFETY: the child ends here, without running what this process would at its end.
        unsafe { libc::_exit(code) }
    }
    let child = rustix::process::Pid::from_raw(child).ok_or(io::ErrorKind::Other)?;
    let ended = rustix::process::waitpid(Some(child), rustix::process::WaitOptions::empty())?;
    match ended.and_then(|(_, status)| status.exit_status()) {
        Some(0) => Ok(()),
        _ => Err(io::ErrorKind::PermissionDenied.into()),
    }
}

fn done(result: libc::c_long) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
