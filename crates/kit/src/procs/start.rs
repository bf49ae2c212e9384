//! Starting commands: folder, files, variables, terminal.

use std::{
    cell::Cell,
    ffi::{CStr, CString, OsStr, c_char, c_int, c_void},
    io,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd, RawFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
    ptr,
};

use super::{
    Inside,
    stack::Stack,
    wire::{Failure, Limit, PATH, Request, Step},
};

/// Starts the program; returns its process id once it runs.
pub(super) fn start(
    request: &Request,
    files: &[(RawFd, OwnedFd)],
    track: Option<&OwnedFd>,
    inside: Inside<'_>,
) -> Result<i32, Failure> {
    let Some(name) = request.argv.first() else {
        return Err(Failure { step: Step::Program, errno: libc::ENOENT });
    };
    let programs = candidates(name, &request.env);
    let argv: Vec<&CStr> = request.argv.iter().map(CString::as_c_str).collect();
    let first = run(request, &programs, &argv, files, track, inside);
    let Err((failure, at)) = first else { return first.map_err(|it| it.0) };
    if failure.step != Step::Program {
        return Err(failure);
    }
    let Some(program) = programs.get(at) else { return Err(failure) };
    if failure.errno != libc::ENOEXEC {
        return Err(closer(failure, &request.cwd, program, &programs));
    }
    // A script without an interpreter line is run by the shell, as everywhere.
    let mut argv_of_shell = vec![c"/bin/sh", program.as_c_str()];
    argv_of_shell.extend(argv.iter().skip(1));
    run(request, &[c"/bin/sh".to_owned()], &argv_of_shell, files, track, inside).map_err(|it| it.0)
}

/// Returns the paths where the program may be, in the order in which they are tried.
fn candidates(name: &CStr, env: &[CString]) -> Vec<CString> {
    if name.to_bytes().contains(&b'/') {
        return vec![name.to_owned()];
    }
    if name.is_empty() {
        return Vec::new();
    }
    let path = env.iter().find_map(|it| it.as_bytes().strip_prefix(b"PATH="));
    path.unwrap_or(PATH.as_bytes())
        .split(|it| *it == b':')
        .filter_map(|dir| {
            let dir = if dir.is_empty() { b"." } else { dir };
            CString::new([dir, b"/", name.to_bytes()].concat()).ok()
        })
        .collect()
}

/// Refines the kernel's error: a folder is not a program, and a script's interpreter may be missing.
fn closer(failure: Failure, cwd: &CStr, program: &CStr, programs: &[CString]) -> Failure {
    let cwd = Path::new(OsStr::from_bytes(cwd.to_bytes()));
    let path = |program: &CStr| cwd.join(OsStr::from_bytes(program.to_bytes()));
    match failure.errno {
        libc::EACCES if path(program).is_dir() => Failure { errno: libc::EISDIR, ..failure },
        libc::ENOENT if programs.iter().any(|it| path(it).exists()) => {
            Failure { step: Step::Interpreter, ..failure }
        }
        _ => failure,
    }
}

/// The data that the child needs. It shares haft's memory while the parent waits, so it only reads, and
/// writes to `failure` which step failed, and with which of the programs.
struct Plan<'a> {
    cwd: &'a CStr,
    programs: Vec<*const c_char>,
    argv: Vec<*const c_char>,
    env: Vec<*const c_char>,
    files: Vec<(RawFd, RawFd)>,
    terminal: bool,
    limits: &'a [Limit],
    /// The socket for the listener of a tracked command.
    track: Option<&'a OwnedFd>,
    inside: Inside<'a>,
    failure: Cell<Option<(Failure, usize)>>,
}

#[expect(
    unsafe_code,
    reason = "a process is made by hand: `std` can neither give it a terminal nor share memory"
)]
fn run(
    request: &Request,
    programs: &[CString],
    argv: &[&CStr],
    files: &[(RawFd, OwnedFd)],
    track: Option<&OwnedFd>,
    inside: Inside<'_>,
) -> Result<i32, (Failure, usize)> {
    let plan = Plan {
        cwd: &request.cwd,
        programs: programs.iter().map(|it| it.as_ptr()).collect(),
        argv: ended(argv.iter().map(|it| it.as_ptr())),
        env: ended(request.env.iter().map(|it| it.as_ptr())),
        files: files.iter().map(|(number, file)| (file.as_raw_fd(), *number)).collect(),
        terminal: request.terminal.is_some(),
        limits: &request.limits,
        track,
        inside,
        failure: Cell::new(None),
    };
    let Ok(stack) = Stack::new() else { return Err((Failure { step: Step::Fork, errno: errno() }, 0)) };
    // SAFETY: it gets the end of a stack that lives until the child runs another program or has ended, because
    // `CLONE_VFORK` makes us wait for that; `child` takes the `Plan` that it is given, and no thread of ours runs
    // meanwhile, because there is none.
    let pid = unsafe {
        libc::clone(
            child,
            stack.top(),
            libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD,
            ptr::from_ref(&plan).cast_mut().cast(),
        )
    };
    if pid < 0 {
        return Err((Failure { step: Step::Fork, errno: errno() }, 0));
    }
    let Some(failure) = plan.failure.get() else { return Ok(pid) };
    // A child that did not begin must not be reported as one that ended.
    if let Some(pid) = rustix::process::Pid::from_raw(pid) {
        let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
    }
    Err(failure)
}

extern "C" fn child(plan: *mut c_void) -> c_int {
    #[expect(unsafe_code, reason = "the way in from C")]
    // SAFETY: `run` gives its `Plan`, which lives as long as it waits for us.
    let plan = unsafe { &*plan.cast_const().cast::<Plan<'_>>() };
    plan.failure.set(Some(become_program(plan)));
    127
}

/// Sets up the forked process and executes the program. Returns only on failure.
#[expect(unsafe_code, reason = "system calls between fork and exec")]
fn become_program(plan: &Plan<'_>) -> (Failure, usize) {
    let failed = |step| (Failure { step, errno: errno() }, usize::MAX);
    // SAFETY: these calls take numbers, and pointers to C strings and to lists that end with null, all of which
    // `run` keeps alive.
    unsafe {
        if libc::setsid() < 0 {
            return failed(Step::Setup);
        }
        // The program inherits only the descriptors that are set up below.
        if libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) < 0 {
            return failed(Step::Setup);
        }
        for (from, to) in &plan.files {
            if libc::dup2(*from, *to) < 0 {
                return failed(Step::Setup);
            }
        }
        if plan.terminal && libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
            return failed(Step::Terminal);
        }
        if libc::chdir(plan.cwd.as_ptr()) < 0 {
            return failed(Step::Cwd);
        }
        for limit in plan.limits {
            let value = libc::rlimit { rlim_cur: limit.soft, rlim_max: limit.hard };
            if libc::setrlimit(limit.resource as _, &raw const value) < 0 {
                return failed(Step::Limits);
            }
        }
        if let Err(error) = (plan.inside)(plan.track.map(AsFd::as_fd)) {
            let errno = error.raw_os_error().unwrap_or(libc::EPERM);
            return (Failure { step: Step::Inside, errno }, usize::MAX);
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
        let mut best = (Failure { step: Step::Program, errno: libc::ENOENT }, 0);
        for (at, program) in plan.programs.iter().enumerate() {
            libc::execve(*program, plan.argv.as_ptr(), plan.env.as_ptr());
            let failure = (Failure { step: Step::Program, errno: errno() }, at);
            match failure.0.errno {
                libc::ENOENT | libc::ENOTDIR => {}
                // A later candidate may be executable.
                libc::EACCES => best = failure,
                _ => return failure,
            }
        }
        best
    }
}

fn ended(pointers: impl Iterator<Item = *const c_char>) -> Vec<*const c_char> {
    pointers.chain([ptr::null()]).collect()
}

fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}
