//! The keeper: the process that starts all commands of a session.
//!
//! It has one thread and little memory, because it forks for every command. Each fork becomes a supervisor, which
//! hears from haft over a socket of its own; the keeper itself only forks, reaps, and ends what nobody minds any more.

use std::{
    collections::{HashMap, HashSet},
    io,
    mem::MaybeUninit,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
        unix::net::UnixStream,
    },
    panic::{AssertUnwindSafe, catch_unwind},
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
    Inside, supervisor,
    tree::{self, NoChildren, Spared},
    wire::{self, TO_KEEPER, ToKeeper},
};

/// How often it is looked whether what was killed has gone.
const LOOK: Duration = Duration::from_millis(5);
/// So often a supervisor may be stopped by what it keeps, within [`STOPS_WITHIN`].
const STOPS: usize = 64;
/// What is longer ago does not count: a sibling that ends its tree stops all others for a moment.
const STOPS_WITHIN: Duration = Duration::from_secs(10);
/// How long it is tried to start a supervisor where there can be no more processes.
const FULL: Duration = Duration::from_secs(5);
/// How long what is killed may take to go, at the end.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a keeper is told before it serves: how its sandbox is to be.
pub struct Orders {
    socket: OwnedFd,
    plan: Vec<u8>,
}

impl Orders {
    /// Takes the socket that is this process's standard input, and the plan that comes over it.
    ///
    /// # Errors
    /// When nobody gives orders: this was not started by haft.
    pub fn take() -> io::Result<Self> {
        let null = rustix::fs::open("/dev/null", rustix::fs::OFlags::RDWR, Mode::empty())?;
        let socket = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
        rustix::stdio::dup2_stdin(&null)?;
        let plan = wire::receive_long(&socket, &mut Vec::new())?;
        Ok(Self { socket, plan })
    }

    /// What [`Keeper::spawn`](super::Keeper::spawn) was given.
    pub fn plan(&self) -> &[u8] {
        &self.plan
    }

    /// Says how it went, or why it can't be done; the files go along.
    ///
    /// # Errors
    /// When haft is gone.
    pub fn report(&self, report: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<()> {
        wire::send_all(&self.socket, &wire::long(report), files)
    }

    /// Starts commands until haft closes its end, with all that still runs ended. Each calls `inside` before it begins.
    /// The calling process has one thread, and its other children are left alone.
    pub fn serve(self, inside: Inside<'_>, tick: Option<Tick<'_>>) -> ExitCode {
        match Serving::begin(self.socket).and_then(|mut it| it.serve(inside, tick)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        }
    }
}

/// What a keeper does from time to time, while commands run: it looks at the trees below these supervisors. It must not
/// start processes.
pub type Tick<'a> = &'a mut dyn FnMut(&[i32]) -> Looked;

/// What came of a look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Looked {
    /// When the next is due.
    pub next: Duration,
    /// The supervisors whose commands are to be ended, with all that they started.
    pub end: Vec<i32>,
}

struct Serving {
    socket: OwnedFd,
    signals: OwnedFd,
    /// The supervisors, by process id.
    supervisors: HashMap<i32, u64>,
    /// The one that waits for its command.
    spare: Option<Spare>,
    /// Children that were there before.
    others: HashSet<i32>,
    /// Is there something to end that no supervisor minds?
    strays: bool,
    /// How often each supervisor was stopped by somebody, and since when that counts.
    stopped: HashMap<i32, (usize, Instant)>,
    /// Is this the first process of a PID namespace, which ends with it?
    apart: bool,
}

/// A fork that will be a supervisor, and how it hears that it is one.
struct Spare {
    pid: i32,
    line: UnixStream,
}

impl Serving {
    fn begin(socket: OwnedFd) -> io::Result<Self> {
        let signals = block_signals()?;
        rustix::process::set_child_subreaper(rustix::process::Pid::from_raw(1))?;
        // A session of its own: what is typed at haft's terminal is not for us. One who leads a group already stays there.
        let _ = rustix::process::setsid();
        rustix::process::umask(Mode::from_raw_mode(0o022));
        let others = tree::children(tree::own_pid()).into_iter().collect();
        Ok(Self {
            socket,
            signals,
            supervisors: HashMap::new(),
            spare: None,
            others,
            strays: false,
            stopped: HashMap::new(),
            apart: rustix::process::getpid().is_init(),
        })
    }

    fn serve(&mut self, inside: Inside<'_>, mut tick: Option<Tick<'_>>) -> io::Result<()> {
        self.fork(inside);
        let mut due = Instant::now();
        loop {
            let at_most = match &mut tick {
                Some(tick) if !self.supervisors.is_empty() => {
                    if Instant::now() >= due {
                        due = Instant::now() + self.look(tick);
                    }
                    Some(due.saturating_duration_since(Instant::now()))
                }
                _ => None,
            };
            let at_most = if self.strays { Some(LOOK) } else { at_most };
            let (told, ended) = wait_for(&self.socket, &self.signals, at_most)?;
            if ended {
                drain(&self.signals);
            }
            self.reap();
            if self.strays {
                self.strays = tree::kill_all(&self.spared(), &mut HashSet::new(), self.apart) > 0;
            }
            if told && !self.obey(inside, &mut tick)? {
                // With the first process of a namespace the kernel ends all others, at once and for sure.
                if !self.apart {
                    self.end();
                }
                return Ok(());
            }
        }
    }

    /// Looks at what runs, and ends what is to be ended. Gives when the next look is due.
    fn look(&self, tick: &mut Tick<'_>) -> Duration {
        let supervisors: Vec<i32> = self.supervisors.keys().copied().collect();
        let Looked { next, end } = tick(&supervisors);
        for supervisor in end.iter().filter(|it| self.apart && self.supervisors.contains_key(it)) {
            let until = Instant::now() + FULL;
            // A fork that was under way shows up only now: stopped, so that it starts nothing more.
            while !tree::kill_frozen(*supervisor, &Spared::default()).is_empty() && Instant::now() < until {
                std::thread::sleep(LOOK);
            }
        }
        next
    }

    /// Does what haft says. False: it says nothing more.
    fn obey(&mut self, inside: Inside<'_>, tick: &mut Option<Tick<'_>>) -> io::Result<bool> {
        let mut message = [0; TO_KEEPER];
        let mut files = Vec::new();
        // Who breaks off in the middle of a message is gone, too.
        if !matches!(wire::receive_all(&self.socket, &mut message, &mut files), Ok(true)) {
            return Ok(false);
        }
        match ToKeeper::decode(&message) {
            Some(ToKeeper::Start(id)) => {
                if let Some(socket) = files.pop() {
                    self.start(id, socket, inside, tick);
                }
            }
            Some(ToKeeper::Kill(id)) => {
                for (pid, _) in self.supervisors.iter().filter(|it| *it.1 == id) {
                    tree::send(*pid, Signal::KILL);
                }
            }
            Some(ToKeeper::Socket { six }) => {
                // Without an answer whoever asks sees the socket close.
                if let (Some(line), Ok(socket)) = (files.pop(), tcp_socket(six)) {
                    let _ = wire::send_all(&line, &[0], &[socket.as_fd()]);
                }
            }
            None => return Ok(false),
        }
        Ok(true)
    }

    /// Gives this socket to a supervisor.
    fn start(&mut self, id: u64, socket: OwnedFd, inside: Inside<'_>, tick: &mut Option<Tick<'_>>) {
        let until = Instant::now() + FULL;
        while self.spare.is_none() {
            self.fork(inside);
            if self.spare.is_some() || Instant::now() >= until {
                break;
            }
            // Some command has taken all the processes that there may be: it loses them, and its supervisor reaps them.
            if let Some(tick) = tick {
                self.look(tick);
            }
            let _ = wait_for(&self.signals, &self.signals, Some(LOOK));
            drain(&self.signals);
            self.reap();
        }
        // If there is none, or it was killed just now, the socket closes, which says that nothing was started.
        if let Some(spare) = self.spare.take() {
            let _ = wire::send_all(&spare.line, &[0], &[socket.as_fd()]);
            self.supervisors.insert(spare.pid, id);
        }
        // Invariant: no fork has the socket of another, or nobody would see that one end.
        drop(socket);
        // The next finds one that waits for it: forking takes as long as starting a small program.
        self.fork(inside);
    }

    #[expect(unsafe_code, reason = "fork")]
    fn fork(&mut self, inside: Inside<'_>) {
        let Ok((ours, theirs)) = UnixStream::pair() else { return };
        // SAFETY: this process has one thread, so no lock is held by another in the copy.
        match unsafe { libc::fork() } {
            -1 => {}
            0 => {
                drop(ours);
                // SAFETY: the copy of the keeper's socket is not used any more, so that haft is notified when the
                // keeper ends; and the copy ends here, without running what the keeper would at its end.
                unsafe {
                    libc::close(self.socket.as_raw_fd());
                    // What panics here must not go on as a second keeper.
                    let clean = catch_unwind(AssertUnwindSafe(|| {
                        wait_to_supervise(theirs, &self.signals, inside, self.apart)
                    }));
                    libc::_exit(if clean.unwrap_or(false) { 0 } else { 1 })
                }
            }
            pid => self.spare = Some(Spare { pid, line: ours }),
        }
    }

    fn reap(&mut self) {
        while let Some((pid, status)) = tree::ended_or_stopped() {
            if status.stopped() {
                self.let_go_on(pid);
                continue;
            }
            self.stopped.remove(&pid);
            self.others.remove(&pid);
            self.spare.take_if(|it| it.pid == pid);
            if self.supervisors.remove(&pid).is_some() && !ended_well(status) {
                self.strays = true;
            }
        }
    }

    /// A command has the same user as its supervisor, and can stop it; that must keep nobody waiting.
    fn let_go_on(&mut self, pid: i32) {
        let is_spare = self.spare.as_ref().is_some_and(|it| it.pid == pid);
        if !is_spare && !self.supervisors.contains_key(&pid) {
            return;
        }
        let (times, since) = self.stopped.entry(pid).or_insert((0, Instant::now()));
        if since.elapsed() > STOPS_WITHIN {
            (*times, *since) = (0, Instant::now());
        }
        *times += 1;
        // Whoever goes on stopping it loses it, and with it all that it keeps.
        tree::send(pid, if *times > STOPS { Signal::KILL } else { Signal::CONT });
    }

    fn spared(&self) -> Spared {
        let spare = self.spare.as_ref().map(|it| it.pid);
        let children = self.supervisors.keys().chain(&self.others).copied().chain(spare).collect();
        Spared { children, ..Spared::default() }
    }

    /// Ends all that was ever started here, where no PID namespace does.
    fn end(&mut self) {
        let until = Instant::now() + PATIENCE;
        self.supervisors.clear();
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

/// What a fork does until it is needed, and then.
fn wait_to_supervise(line: UnixStream, signals: &OwnedFd, inside: Inside<'_>, apart: bool) -> bool {
    let mut files = Vec::new();
    // Without a message the keeper is gone.
    let told = supervisor::adopt() && matches!(wire::receive_all(&line, &mut [0], &mut files), Ok(true));
    drop(line);
    match files.pop() {
        Some(socket) if told => supervisor::supervise(socket, signals, inside, apart),
        _ => true,
    }
}

/// Waits until one of two can be read, or the time is up.
pub(super) fn wait_for(
    first: &impl AsFd,
    second: &impl AsFd,
    at_most: Option<Duration>,
) -> io::Result<(bool, bool)> {
    let mut polled = [PollFd::new(first, PollFlags::IN), PollFd::new(second, PollFlags::IN)];
    let at_most = at_most.and_then(|it| Timespec::try_from(it).ok());
    match poll(&mut polled, at_most.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let ready = polled.map(|it| !it.revents().is_empty());
    Ok((ready[0], ready[1]))
}

/// A TCP socket of the network namespace that this process is in; it belongs to that one wherever it is used.
fn tcp_socket(six: bool) -> rustix::io::Result<OwnedFd> {
    let family = if six { AddressFamily::INET6 } else { AddressFamily::INET };
    socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
}

/// Takes what is known of children that ended; which ones is asked of the kernel.
pub(super) fn drain(signals: &OwnedFd) {
    let mut bytes = [0; size_of::<libc::signalfd_siginfo>()];
    while rustix::io::read(signals, &mut bytes).is_ok_and(|got| got > 0) {}
}

fn ended_well(status: WaitStatus) -> bool {
    status.exit_status() == Some(0)
}

/// Lets no signal end this process or what it forks, and gives what tells of children that ended.
#[expect(unsafe_code, reason = "signal masks")]
fn block_signals() -> io::Result<OwnedFd> {
    // SAFETY: plain calls on sets and on an empty `sigaction` that live here; the descriptor that comes is new and
    // ours.
    unsafe {
        // What runs below starts with everything as it is by default, and inherits that from us.
        // The C library would not let us at two that it has for itself, and whoever started haft may ignore those.
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
