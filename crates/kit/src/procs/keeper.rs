//! The keeper: the process that starts all commands of a session.
//!
//! Its zygote forks a supervisor for each command, which gets its orders from haft over a socket of its own. The keeper
//! itself only has them forked, reaps, and kills processes that no supervisor is responsible for.

use std::{
    array,
    collections::{HashMap, HashSet},
    io,
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd},
        unix::net::UnixStream,
    },
    process::ExitCode,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::Mode,
    net::{AddressFamily, SocketFlags, SocketType, socket_with},
    process::{Signal, WaitStatus},
};

use super::{
    Inside, lending,
    tree::{self, NoChildren, Spared},
    wire::{self, TO_KEEPER, ToKeeper},
    zygote::{Origin, Zygote},
};

/// Interval at which the keeper checks whether killed processes have ended.
const LOOK: Duration = Duration::from_millis(5);
/// Maximum number of children that are reaped before the keeper looks for messages again.
const REAPED: usize = 256;
/// Maximum number of times that a supervisor's own processes may stop it, within [`STOPS_WITHIN`].
const STOPS: usize = 64;
/// Older stops don't count: a sibling that kills its tree stops all others for a moment.
const STOPS_WITHIN: Duration = Duration::from_secs(10);
/// Time for which starting a supervisor is retried when the process limit is reached.
const FULL: Duration = Duration::from_secs(5);
/// Time limit for killed processes to end, when the keeper ends.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The orders that a keeper gets before it serves: the plan of its sandbox.
pub struct Orders {
    socket: OwnedFd,
    plan: Vec<u8>,
}

/// Takes the standard input of this process, so that no process that it starts has it; `/dev/null` is in its place.
///
/// # Errors
/// When there is none.
pub fn take_stdin() -> io::Result<OwnedFd> {
    let null = rustix::fs::open("/dev/null", rustix::fs::OFlags::RDWR, Mode::empty())?;
    let taken = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    rustix::stdio::dup2_stdin(&null)?;
    Ok(taken)
}

impl Orders {
    /// Takes the socket that is this process's standard input, and reads the plan from it.
    ///
    /// # Errors
    /// When no orders come: haft did not start this process.
    pub fn take() -> io::Result<Self> {
        let socket = take_stdin()?;
        let plan = wire::receive_long(&socket, &mut Vec::new())?;
        Ok(Self { socket, plan })
    }

    /// Returns the plan that [`Keeper::spawn`](super::Keeper::spawn) was given.
    pub fn plan(&self) -> &[u8] {
        &self.plan
    }

    /// Reports to haft that the sandbox is ready, or why it can't be; sends these files along.
    ///
    /// # Errors
    /// When haft is gone.
    pub fn report(&self, report: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<()> {
        wire::send_all(&self.socket, &wire::long(report), files)
    }

    /// Starts commands until haft closes its end, then kills all that still run. Each command calls `inside`
    /// before it begins. The calling process must have one thread; its other children are left alone.
    pub fn serve(self, inside: Inside<'_>, watch: Option<&mut dyn Watch>) -> ExitCode {
        match Serving::begin(self.socket).and_then(|mut it| it.serve(inside, watch)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        }
    }
}

/// An inspection that the keeper makes from time to time while commands run. It must not start processes.
pub trait Watch {
    /// Inspects the trees below the processes of which the argument says that they are supervisors.
    fn look(&mut self, is_supervisor: &dyn Fn(i32) -> bool) -> Looked;
}

/// The result of an inspection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Looked {
    /// Time until the next one.
    pub next: Duration,
    /// The supervisors whose commands are to be killed, with everything that they started.
    pub end: Vec<i32>,
}

struct Serving {
    socket: OwnedFd,
    signals: OwnedFd,
    /// The supervisors, by process id.
    supervisors: HashMap<i32, u64>,
    /// The process that forks them.
    zygote: Option<Zygote>,
    /// The spare supervisor, which waits for a command.
    spare: Option<Spare>,
    /// Children that existed before.
    others: HashSet<i32>,
    /// Whether there are processes to kill that belong to no supervisor.
    strays: bool,
    /// For each supervisor, the number of times it was stopped, and since when they count.
    stopped: HashMap<i32, (usize, Instant)>,
    /// Whether this is the first process of a PID namespace, which ends with it.
    apart: bool,
}

/// A fork that will become a supervisor, and the socket that activates it.
struct Spare {
    pid: i32,
    line: UnixStream,
}

impl Serving {
    fn begin(socket: OwnedFd) -> io::Result<Self> {
        let signals = block_signals()?;
        rustix::process::set_child_subreaper(rustix::process::Pid::from_raw(1))?;
        // A session of its own: keys typed at haft's terminal send it no signals. This fails for a group
        // leader, which stays where it is.
        let _ = rustix::process::setsid();
        rustix::process::umask(Mode::from_raw_mode(0o022));
        let others = tree::children(tree::own_pid()).into_iter().collect();
        Ok(Self {
            socket,
            signals,
            supervisors: HashMap::new(),
            zygote: None,
            spare: None,
            others,
            strays: false,
            stopped: HashMap::new(),
            apart: rustix::process::getpid().is_init(),
        })
    }

    fn serve(&mut self, inside: Inside<'_>, mut watch: Option<&mut dyn Watch>) -> io::Result<()> {
        self.fork(inside);
        let mut due = Instant::now();
        let mut has_reaped_all = true;
        loop {
            let at_most = match &mut watch {
                Some(watch) if !self.supervisors.is_empty() => {
                    if Instant::now() >= due {
                        due = Instant::now() + self.look(*watch);
                    }
                    Some(due.saturating_duration_since(Instant::now()))
                }
                _ => None,
            };
            let at_most = if self.strays { Some(LOOK) } else { at_most };
            let at_most = if has_reaped_all { at_most } else { Some(Duration::ZERO) };
            let (told, ended) = wait_for(&self.socket, &self.signals, at_most)?;
            if ended {
                drain(&self.signals);
            }
            has_reaped_all = self.reap();
            if self.strays {
                self.strays = tree::kill_all(&self.spared(), &mut HashSet::new(), self.apart) > 0;
            }
            if told && !self.obey(inside, &mut watch)? {
                // When the first process of a PID namespace ends, the kernel kills all others.
                if !self.apart {
                    self.end();
                }
                return Ok(());
            }
        }
    }

    /// Inspects the running commands, and kills those that are over a limit. Returns the time until the next
    /// inspection.
    fn look(&self, watch: &mut dyn Watch) -> Duration {
        let own = self.own();
        let Looked { next, end } =
            watch.look(&|pid| self.supervisors.contains_key(&pid) || own.contains(&Some(pid)));
        for supervisor in end.iter().filter(|it| self.apart && self.supervisors.contains_key(it)) {
            let until = Instant::now() + FULL;
            // A fork that was under way shows up only now: stopped, so that it starts nothing more.
            while !tree::kill_frozen(*supervisor, &Spared::default()).is_empty() && Instant::now() < until {
                std::thread::sleep(LOOK);
            }
        }
        next
    }

    /// Carries out one message from haft. Returns false when haft has closed its end.
    fn obey(&mut self, inside: Inside<'_>, watch: &mut Option<&mut dyn Watch>) -> io::Result<bool> {
        let mut message = [0; TO_KEEPER];
        let mut files = Vec::new();
        // A message that breaks off means that haft is gone, too.
        if !matches!(wire::receive_all(&self.socket, &mut message, &mut files), Ok(true)) {
            return Ok(false);
        }
        match ToKeeper::decode(&message) {
            Some(ToKeeper::Start(id)) => {
                if let Some(socket) = files.pop() {
                    self.start(id, socket, inside, watch);
                }
            }
            Some(ToKeeper::Kill(id)) => {
                for (pid, _) in self.supervisors.iter().filter(|it| *it.1 == id) {
                    tree::send(*pid, Signal::KILL);
                }
            }
            Some(ToKeeper::Socket { six }) => {
                // Without an answer, haft sees the socket close.
                if let (Some(line), Ok(socket)) = (files.pop(), tcp_socket(six)) {
                    let _ = wire::send_all(&line, &[0], &[socket.as_fd()]);
                }
            }
            None => return Ok(false),
        }
        Ok(true)
    }

    /// Passes this socket to a supervisor.
    fn start(&mut self, id: u64, socket: OwnedFd, inside: Inside<'_>, watch: &mut Option<&mut dyn Watch>) {
        let until = Instant::now() + FULL;
        while self.spare.is_none() {
            self.fork(inside);
            if self.spare.is_some() || Instant::now() >= until {
                break;
            }
            // A command has used up the process limit: its processes are killed, and its supervisor reaps them.
            if let Some(watch) = watch {
                self.look(*watch);
            }
            let _ = wait_for(&self.signals, &self.signals, Some(LOOK));
            drain(&self.signals);
            self.reap();
        }
        // If there is none, or it was killed just now, the socket closes, which means that nothing was started.
        if let Some(spare) = self.spare.take() {
            let _ = wire::send_all(&spare.line, &[0], &[socket.as_fd()]);
            self.supervisors.insert(spare.pid, id);
        }
        // Invariant: no fork has another fork's socket; otherwise the end of that one would go unnoticed.
        drop(socket);
        // Forked ahead of the next command: that takes as long as starting a small program.
        self.fork(inside);
    }

    /// Has the zygote fork a spare supervisor.
    fn fork(&mut self, inside: Inside<'_>) {
        if self.zygote.is_none() {
            let origin = Origin { signals: self.signals.as_fd(), inside, apart: self.apart };
            self.zygote = Zygote::start(&origin);
        }
        let (Some(zygote), Ok((ours, theirs))) = (&self.zygote, UnixStream::pair()) else { return };
        match zygote.fork(&theirs) {
            Ok(pid) => self.spare = pid.map(|pid| Spare { pid, line: ours }),
            // A command has killed it, or keeps stopping it: another takes its place.
            Err(_) => {
                tree::send(zygote.pid, Signal::KILL);
                self.zygote = None;
            }
        }
    }

    /// Takes in which children have ended or were stopped. Returns whether those are all: some may be stopped as fast as
    /// they are continued.
    fn reap(&mut self) -> bool {
        for _ in 0..REAPED {
            let Some((pid, status)) = tree::ended_or_stopped() else { return true };
            if status.stopped() {
                self.let_go_on(pid);
                continue;
            }
            self.stopped.remove(&pid);
            self.others.remove(&pid);
            self.spare.take_if(|it| it.pid == pid);
            self.zygote.take_if(|it| it.pid == pid);
            if self.supervisors.remove(&pid).is_some() && !ended_well(status) {
                self.strays = true;
            }
        }
        false
    }

    /// Continues a supervisor that was stopped. A command has the same user as its supervisor and can stop
    /// it; no call may hang because of that.
    fn let_go_on(&mut self, pid: i32) {
        if !self.own().contains(&Some(pid)) && !self.supervisors.contains_key(&pid) {
            return;
        }
        let (times, since) = self.stopped.entry(pid).or_insert((0, Instant::now()));
        if since.elapsed() > STOPS_WITHIN {
            (*times, *since) = (0, Instant::now());
        }
        *times += 1;
        // A command that keeps stopping it loses its supervisor, and with it everything that it started.
        tree::send(pid, if *times > STOPS { Signal::KILL } else { Signal::CONT });
    }

    /// Returns the process ids of the zygote and of the spare supervisor.
    fn own(&self) -> [Option<i32>; 2] {
        [self.zygote.as_ref().map(|it| it.pid), self.spare.as_ref().map(|it| it.pid)]
    }

    fn spared(&self) -> Spared {
        let own = self.own().into_iter().flatten();
        let children = self.supervisors.keys().chain(&self.others).copied().chain(own).collect();
        Spared { children, ..Spared::default() }
    }

    /// Kills everything that was ever started here, if there is no PID namespace to do it.
    fn end(&mut self) {
        let until = Instant::now() + TIMEOUT;
        self.supervisors.clear();
        self.zygote = None;
        self.spare = None;
        while Instant::now() < until {
            tree::kill_all(&self.spared(), &mut HashSet::new(), self.apart);
            loop {
                match tree::reap() {
                    Ok(Some((pid, _))) => drop(self.others.remove(&pid)),
                    Ok(None) => break,
                    Err(NoChildren) => return,
                }
            }
            if tree::below(&self.spared()).is_empty() {
                return;
            }
            let _ = wait_for(&self.signals, &self.signals, Some(LOOK));
            drain(&self.signals);
        }
    }
}

/// Waits until one of two descriptors is readable, or the time is up.
pub(super) fn wait_for(
    first: &impl AsFd,
    second: &impl AsFd,
    at_most: Option<Duration>,
) -> io::Result<(bool, bool)> {
    let ready = wait_for_any(first.as_fd(), [second.as_fd()].into_iter(), at_most)?;
    Ok((ready & 1 != 0, ready & 2 != 0))
}

/// Waits until one of these descriptors is readable or has ended, or the time is up. Returns which of them are, the
/// first as the lowest bit. It allocates nothing.
pub(super) fn wait_for_any<'a>(
    first: BorrowedFd<'a>,
    mut others: impl Iterator<Item = BorrowedFd<'a>>,
    at_most: Option<Duration>,
) -> io::Result<u32> {
    let mut number = 1;
    let mut polled: [_; 2 + lending::MOST] = array::from_fn(|at| {
        let file = if at == 0 { None } else { others.next() };
        number += usize::from(file.is_some());
        PollFd::from_borrowed_fd(file.unwrap_or(first), PollFlags::IN)
    });
    let polled = polled.get_mut(..number).unwrap_or_default();
    let at_most = at_most.and_then(|it| Timespec::try_from(it).ok());
    match poll(polled, at_most.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(polled.iter().rev().fold(0, |bits, it| bits << 1 | u32::from(!it.revents().is_empty())))
}

/// Creates a TCP socket in the network namespace of this process; it stays in that namespace wherever it is used.
fn tcp_socket(six: bool) -> rustix::io::Result<OwnedFd> {
    let family = if six { AddressFamily::INET6 } else { AddressFamily::INET };
    socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
}

/// Discards queued notifications of ended children; the kernel is asked which ones ended.
pub(super) fn drain(signals: impl AsFd) {
    let mut bytes = [0; size_of::<libc::signalfd_siginfo>()];
    while rustix::io::read(&signals, &mut bytes).is_ok_and(|got| got > 0) {}
}

fn ended_well(status: WaitStatus) -> bool {
    status.exit_status() == Some(0)
}

/// Blocks all signals in this process and its forks, and returns a descriptor that reports ended children.
#[expect(unsafe_code, reason = "signal masks")]
fn block_signals() -> io::Result<OwnedFd> {
    // SAFETY: plain calls on sets and on an empty `sigaction` that live here; the descriptor that comes is new and
    // ours.
    unsafe {
        // Commands inherit signal handlers, so all are reset to their defaults. The C library refuses two
        // signals that it uses itself, and the process that started haft may ignore those.
        let default = [0u64; 4];
        for signal in 1..=libc::SIGRTMAX() {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                default.as_ptr(),
                std::ptr::null_mut::<u64>(),
                8usize,
            );
        }
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigfillset(set.as_mut_ptr());
        if libc::sigprocmask(libc::SIG_SETMASK, set.as_ptr(), std::ptr::null_mut()) < 0 {
            return Err(io::Error::last_os_error());
        }
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGCHLD);
        let signals = libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if signals < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(signals))
    }
}
