//! The zygote: the process that a keeper's supervisors are forked from.
//!
//! A page that the keeper changes after a fork is from then on the fork's alone, and the keeper's memory changes with
//! each command. The zygote's does not: it allocates nothing, and it runs on a stack that its forks don't inherit. So
//! the supervisors share all that they don't write themselves. They are children of the keeper, as the zygote is.

use std::{
    ffi::{c_int, c_void},
    io,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
        unix::net::UnixStream,
    },
    panic::{AssertUnwindSafe, catch_unwind},
    ptr,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, WaitOptions, waitpid};

use super::{Inside, keeper::wait_for, scratch, stack::Stack, supervisor, tree, wire};

/// Interval at which the keeper checks whether the zygote was stopped or killed.
const LOOK: Duration = Duration::from_millis(5);
/// Time limit for one fork.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The keeper's end of a zygote. The zygote exits when this is dropped.
pub(super) struct Zygote {
    pub(super) pid: i32,
    line: UnixStream,
}

/// The things that supervisors have from their keeper.
pub(super) struct Origin<'a> {
    pub(super) signals: BorrowedFd<'a>,
    pub(super) inside: Inside<'a>,
    /// Whether the PID namespace belongs to one session alone.
    pub(super) apart: bool,
}

/// The things that the zygote begins with.
struct Beginning<'a> {
    origin: &'a Origin<'a>,
    stack: &'a Stack,
    line: RawFd,
}

/// The things that a supervisor begins with: at the top of its stack, so that they cost no page.
#[repr(align(16))]
struct Birth<'a> {
    origin: &'a Origin<'a>,
    /// The zygote's end of its line to the keeper.
    zygotes: RawFd,
    /// The line to the keeper that activates the supervisor.
    line: RawFd,
    stack: *const Stack,
}

impl Zygote {
    /// Forks the zygote of this process, which must have one thread.
    #[expect(unsafe_code, reason = "fork")]
    pub(super) fn start(origin: &Origin<'_>) -> Option<Self> {
        let (ours, theirs) = UnixStream::pair().ok()?;
        let stack = Stack::new().ok()?;
        let beginning = Beginning { origin, stack: &stack, line: theirs.as_raw_fd() };
        let beginning = ptr::from_ref(&beginning).cast_mut().cast();
        // SAFETY: the copy takes the `Beginning` that it is given, of which it has a copy as of everything; it never
        // returns from there. No lock is held by another thread, because there is none.
        let pid = unsafe { libc::clone(begin, stack.top(), libc::SIGCHLD, beginning) };
        (pid > 0).then_some(Self { pid, line: ours })
    }

    /// Forks a supervisor that is activated over this line. Returns its process id; `None`, if the process limit is
    /// reached.
    ///
    /// # Errors
    /// When the zygote has ended, or does not answer.
    pub(super) fn fork(&self, line: &UnixStream) -> io::Result<Option<i32>> {
        wire::send_all(&self.line, &[0], &[line.as_fd()])?;
        let until = Instant::now() + TIMEOUT;
        while !wait_for(&self.line, &self.line, Some(LOOK))?.0 {
            if Instant::now() >= until {
                return Err(io::ErrorKind::TimedOut.into());
            }
            // A command has the same user, and can stop it.
            match waitpid(Pid::from_raw(self.pid), WaitOptions::NOHANG | WaitOptions::UNTRACED)? {
                Some((_, status)) if status.stopped() => tree::send(self.pid, Signal::CONT),
                Some(_) => return Err(io::ErrorKind::BrokenPipe.into()),
                None => {}
            }
        }
        let mut pid = [0; 4];
        if !wire::receive_all(&self.line, &mut pid, &mut Vec::new())? {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        Ok(Some(i32::from_ne_bytes(pid)).filter(|it| *it > 0))
    }
}

#[expect(unsafe_code, reason = "the way in from C")]
extern "C" fn begin(beginning: *mut c_void) -> c_int {
    // SAFETY: `Zygote::start` gives a `Beginning`, and nothing here returns to what it is on.
    let Beginning { origin, stack, line } = unsafe { &*beginning.cast_const().cast::<Beginning<'_>>() };
    close_others(*line, origin.signals.as_raw_fd());
    // SAFETY: this process owns its copy of the descriptor.
    let line = unsafe { OwnedFd::from_raw_fd(*line) };
    supervisor::notice_end_of_keeper();
    // In memory that forks have too.
    let Ok(theirs) = Stack::new().map(Box::new) else { return 1 };
    stack.keep_from_forks();
    scratch::open();
    while let Some(supervisors) = next(&line) {
        let birth = Birth {
            origin,
            zygotes: line.as_raw_fd(),
            line: supervisors.as_raw_fd(),
            stack: ptr::from_ref(&*theirs),
        };
        let at = theirs.top().wrapping_byte_sub(size_of::<Birth<'_>>());
        // SAFETY: the stack is larger and not in use, and its end is aligned to a page. The copy takes its `Birth` from
        // there, and never returns.
        let pid = unsafe {
            at.cast::<Birth<'_>>().write(birth);
            libc::clone(be_supervisor, at, libc::CLONE_PARENT | libc::SIGCHLD, at)
        };
        drop(supervisors);
        if wire::send_all(&line, &pid.to_ne_bytes(), &[]).is_err() {
            break;
        }
    }
    0
}

#[expect(unsafe_code, reason = "the way in from C")]
extern "C" fn be_supervisor(birth: *mut c_void) -> c_int {
    // SAFETY: the zygote put a `Birth` there, above all that is called from here.
    let birth = unsafe { &*birth.cast_const().cast::<Birth<'_>>() };
    // SAFETY: this process owns its copies of both descriptors; with the first closed, the keeper notices the end of
    // the zygote.
    let line = unsafe {
        libc::close(birth.zygotes);
        OwnedFd::from_raw_fd(birth.line)
    };
    // SAFETY: the zygote never drops it, and this is a copy of its memory.
    let stack = unsafe { &*birth.stack };
    // After a panic it must not go on.
    let clean = catch_unwind(AssertUnwindSafe(|| wait_to_supervise(line, birth.origin, stack)));
    if clean.unwrap_or(false) { 0 } else { 1 }
}

/// Returns the next descriptor that comes over a line; `None` once the other end is gone.
fn next(line: &OwnedFd) -> Option<OwnedFd> {
    let mut files = Vec::new();
    wire::receive_all(line, &mut [0], &mut files).ok()?;
    files.pop()
}

/// Waits for the activation, then supervises one command.
fn wait_to_supervise(line: OwnedFd, origin: &Origin<'_>, stack: &Stack) -> bool {
    if !supervisor::become_subreaper() {
        return true;
    }
    let socket = next(&line);
    drop(line);
    // Without a socket the keeper is gone.
    socket.is_none_or(|socket| supervisor::supervise(socket, origin, stack))
}

/// Closes all descriptors but the first three and these: the end of a socket would go unnoticed while a copy of it is
/// open here.
#[expect(unsafe_code, reason = "rustix has no call for it")]
fn close_others(one: RawFd, other: RawFd) {
    let [low, high] = [one.min(other), one.max(other)].map(RawFd::cast_unsigned);
    for (first, last) in [(3, low.saturating_sub(1)), (low + 1, high.saturating_sub(1)), (high + 1, u32::MAX)]
    {
        if first <= last {
            // SAFETY: it takes numbers, and nothing here uses the descriptors any more.
            unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        }
    }
}
