//! The supervisor: the process that one command and everything it starts descend from.
//!
//! It is the command's subreaper, so orphans become its children, however they were forked. It reports how
//! the command ended, and kills the whole tree on request or when haft is gone. It exits once nothing is
//! left.

use std::{
    collections::{BTreeSet, HashSet, VecDeque},
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::{Duration, Instant},
};

use rustix::{
    process::{Pid, Signal, WaitStatus},
    pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt},
    termios::{Winsize, tcsetwinsize},
};

use super::{
    Inside,
    keeper::{drain, wait_for_any},
    listening, scratch,
    stack::Stack,
    start,
    tree::{self, Identity, NoChildren, Spared},
    wire::{self, ABOVE, Failure, ORDER, Order, Reply, Request, Step},
    zygote::Origin,
};

/// Time in which no further process of a killed tree ends, before the supervisor reports that the tree does not end. Processes
/// that end one after the other on a busy machine get as long as haft waits.
const TIMEOUT: Duration = Duration::from_secs(5);
/// First interval at which the supervisor checks whether processes have ended.
const SOON: Duration = Duration::from_millis(1);
/// Longest interval of these checks.
const LATER: Duration = Duration::from_millis(20);
/// Time for which starting a command is retried when the process limit is reached.
const FULL: Duration = Duration::from_secs(5);
/// Number of marks that are kept.
const MARKS: usize = 8;

/// Serves one command, whose request comes over `socket`. Returns whether nothing of it is left. `stack` is the one that
/// this runs on.
pub(super) fn supervise(socket: OwnedFd, origin: &Origin<'_>, stack: &Stack) -> bool {
    let started = request(&socket).and_then(|(request, files)| begin(&request, files, origin.inside));
    let (first, terminal) = match started {
        Ok(it) => it,
        Err(failure) => return fail(&socket, failure),
    };
    let files = terminal.as_ref().map(AsFd::as_fd);
    let _ = wire::send_all(&socket, &Reply::Started(first.cast_unsigned()).encode(), files.as_slice());
    drop(terminal);
    // From here on it waits, for as long as the command runs.
    scratch::discard_unused();
    stack.discard_unused();
    Supervisor {
        socket,
        signals: origin.signals,
        apart: origin.apart,
        first,
        over: false,
        alone: false,
        heard: true,
        marks: VecDeque::new(),
        endings: Vec::new(),
        held: (0, Vec::new()),
    }
    .serve_to_the_end()
}

/// Has the kernel continue this process when the keeper ends: a stopped process would not notice that, and then nobody
/// would continue it.
pub(super) fn notice_end_of_keeper() {
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::CONT));
}

/// Makes this process the subreaper of its descendants. Returns whether that worked.
pub(super) fn become_subreaper() -> bool {
    notice_end_of_keeper();
    rustix::process::set_child_subreaper(Pid::from_raw(1)).is_ok()
}

fn fail(socket: &OwnedFd, failure: Failure) -> bool {
    let _ = wire::send_all(socket, &Reply::Failed(failure).encode(), &[]);
    true
}

fn request(socket: &OwnedFd) -> Result<(Request, Vec<OwnedFd>), Failure> {
    let nonsense = Failure { step: Step::Setup, errno: libc::EPROTO };
    let mut files = Vec::new();
    let bytes = wire::receive_long(socket, &mut files).map_err(|_| nonsense)?;
    Ok((Request::decode(&bytes).ok_or(nonsense)?, files))
}

fn begin(
    request: &Request,
    mut files: Vec<OwnedFd>,
    inside: Inside<'_>,
) -> Result<(i32, Option<OwnedFd>), Failure> {
    let mut terminal = None;
    let mut numbers = request.numbers.clone();
    let track = if request.track { files.pop() } else { None };
    let track = track.map(|it| rustix::io::fcntl_dupfd_cloexec(&it, ABOVE)).transpose();
    let track = track.map_err(|error| setup(&error.into()))?;
    if let Some((rows, cols)) = request.terminal {
        let (ours, theirs) =
            open_terminal(rows, cols).map_err(|errno| Failure { step: Step::Terminal, errno })?;
        for number in 0..3 {
            files.push(theirs.try_clone().map_err(|error| setup(&error))?);
            numbers.push(number);
        }
        terminal = Some(ours);
    }
    // A file's present descriptor may be the target of another one.
    let files: Vec<_> = numbers
        .into_iter()
        .zip(files)
        .map(|(number, file)| Ok((number, rustix::io::fcntl_dupfd_cloexec(&file, ABOVE)?)))
        .collect::<io::Result<_>>()
        .map_err(|error| setup(&error))?;
    let until = Instant::now() + FULL;
    loop {
        match start::start(request, &files, track.as_ref(), inside) {
            // Another command has used up the process limit, and is about to lose its processes.
            Err(failure)
                if failure.step == Step::Fork && failure.errno == libc::EAGAIN && Instant::now() < until =>
            {
                std::thread::sleep(LATER);
            }
            started => return Ok((started?, terminal)),
        }
    }
}

fn setup(error: &io::Error) -> Failure {
    Failure { step: Step::Setup, errno: error.raw_os_error().unwrap_or(0) }
}

/// Creates a terminal; returns both ends. It is created here, so that the command finds it under its own `/dev/pts`.
fn open_terminal(rows: u16, cols: u16) -> Result<(OwnedFd, OwnedFd), i32> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let open = || {
        let ours = openpt(flags)?;
        unlockpt(&ours)?;
        let theirs = ioctl_tiocgptpeer(&ours, flags)?;
        tcsetwinsize(&ours, Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 })?;
        Ok((ours, theirs))
    };
    open().map_err(|error: rustix::io::Errno| error.raw_os_error())
}

struct Supervisor<'a> {
    socket: OwnedFd,
    signals: BorrowedFd<'a>,
    /// Whether the PID namespace belongs to one session alone.
    apart: bool,
    /// The command itself.
    first: i32,
    /// Whether it has ended.
    over: bool,
    /// Whether nothing is left of its tree.
    alone: bool,
    /// Whether haft still listens.
    heard: bool,
    /// The processes that ran at each mark, newest last.
    marks: VecDeque<(u64, BTreeSet<Identity>)>,
    endings: Vec<Ending>,
    /// The command's files that haft has lent, and their bits.
    held: (u32, Vec<OwnedFd>),
}

/// An ending that is under way.
struct Ending {
    /// The number of the order that it answers.
    number: Option<u32>,
    spared: Spared,
    ended: HashSet<i32>,
    kill_at: Instant,
    /// The number of processes that were left at the last look, and since when.
    left: (usize, Instant),
    next_look: Duration,
}

impl Supervisor<'_> {
    fn serve_to_the_end(mut self) -> bool {
        let nothing_is_left = self.serve();
        // They may have output that haft has not read.
        self.give_back();
        nothing_is_left
    }

    fn serve(&mut self) -> bool {
        while !(self.alone && self.over && self.endings.is_empty()) {
            let at_most = self.endings.iter().map(Ending::sleep).min();
            let heard = [&self.socket].into_iter().chain(&self.held.1).filter(|_| self.heard);
            let Ok(ready) = wait_for_any(self.signals, heard.map(AsFd::as_fd), at_most) else { return false };
            let (ended, told) = (ready & 1 != 0, ready & 2 != 0);
            if ready > 3 {
                self.give_back();
            }
            if ended {
                drain(self.signals);
                self.reap();
            }
            if told && !self.obey() {
                self.heard = false;
                self.end(None, Duration::ZERO, None);
            }
            if !self.go_on() {
                return self.alone;
            }
        }
        true
    }

    fn reap(&mut self) {
        loop {
            match tree::reap() {
                Ok(Some((pid, status))) if pid == self.first => {
                    self.over = true;
                    self.say(ended(status));
                }
                Ok(Some(_)) => {}
                Ok(None) => return,
                Err(NoChildren) => {
                    self.alone = true;
                    return;
                }
            }
        }
    }

    /// Carries out one order. Returns false when haft has closed its end.
    fn obey(&mut self) -> bool {
        let mut message = [0; ORDER];
        let mut files = Vec::new();
        if !matches!(wire::receive_all(&self.socket, &mut message, &mut files), Ok(true)) {
            return false;
        }
        match Order::decode(&message) {
            Some((Order::Signal(signal), number)) => self.answer(number, u64::from(self.signal(signal)), &[]),
            Some((Order::End { grace_ms, spare }, number)) => {
                self.end(Some(number), Duration::from_millis(grace_ms), spare);
            }
            Some((Order::Mark, number)) => self.mark(number),
            Some((Order::Left { since }, number)) => {
                scratch::close();
                let left = listening::left(tree::below(&self.spared_by(since)));
                self.answer(number, 0, &serde_json::to_vec(&left).unwrap_or_default());
            }
            Some((Order::Hold { which }, _)) => {
                self.held = (which, files);
                self.say(Reply::Holds);
            }
            None => return false,
        }
        true
    }

    /// Gives haft its files back.
    fn give_back(&mut self) {
        let (which, files) = &self.held;
        if files.is_empty() {
            return;
        }
        let borrowed: Vec<_> = files.iter().map(AsFd::as_fd).collect();
        let sent = wire::send_all(&self.socket, &Reply::Back { which: *which }.encode(), &borrowed);
        if matches!(sent, Err(error) if error.raw_os_error() == Some(libc::ETOOMANYREFS)) {
            // The user has as many files under way as the kernel allows: soon there are fewer.
            std::thread::sleep(LATER);
            return;
        }
        self.held = (0, Vec::new());
    }

    /// Sends a signal to the command's group. Returns whether it was delivered.
    #[expect(unsafe_code, reason = "signals that have no name are sent, too")]
    fn signal(&self, signal: i32) -> bool {
        // Once the command was reaped, its number may be another process's.
        // SAFETY: it takes two numbers.
        !self.over && unsafe { libc::kill(-self.first, signal) } == 0
    }

    fn mark(&mut self, number: u32) {
        scratch::close();
        let now = tree::below(&Spared { alone: Some(self.first), ..Spared::default() });
        let now = now.into_iter().filter_map(|pid| Some((pid, tree::stat(pid)?.started))).collect();
        let mark = self.marks.back().map_or(0, |it| it.0) + 1;
        self.marks.push_back((mark, now));
        if self.marks.len() > MARKS {
            self.marks.pop_front();
        }
        self.answer(number, mark, &[]);
    }

    /// Returns the processes that existed when this mark was made; none without a mark.
    fn spared_by(&self, mark: Option<u64>) -> Spared {
        mark.map_or_else(Spared::default, |mark| Spared {
            alone: Some(self.first),
            whole: self.marks.iter().find(|it| it.0 == mark).map_or_else(BTreeSet::new, |it| it.1.clone()),
            ..Spared::default()
        })
    }

    fn end(&mut self, number: Option<u32>, grace: Duration, spare: Option<u64>) {
        scratch::close();
        let spared = self.spared_by(spare);
        let mut ended = HashSet::new();
        if !grace.is_zero() {
            for pid in tree::below(&spared) {
                tree::send(pid, Signal::TERM);
                // A stopped process would not receive the signal.
                tree::send(pid, Signal::CONT);
                ended.insert(pid);
            }
        }
        let kill_at = Instant::now() + grace;
        let left = (usize::MAX, kill_at);
        self.endings.push(Ending { number, spared, ended, kill_at, left, next_look: SOON });
    }

    /// Takes each ending a step further. Returns false if the rest can't be killed and haft no longer waits for it.
    fn go_on(&mut self) -> bool {
        if self.endings.is_empty() {
            return true;
        }
        let now = Instant::now();
        let mut done = Vec::new();
        let mut endings = std::mem::take(&mut self.endings);
        endings.retain_mut(|ending| {
            let left = if now >= ending.kill_at {
                tree::kill_all(&ending.spared, &mut ending.ended, self.apart)
            } else {
                tree::below(&ending.spared).len()
            };
            ending.next_look = (ending.next_look * 2).min(LATER);
            let given_up = ending.is_stuck(left);
            // A list of children may miss one while others end; but "no child at all" is certain.
            let over = left == 0
                && if ending.spared.alone.is_none() {
                    self.reap();
                    self.alone
                } else {
                    tree::below(&ending.spared).is_empty()
                };
            if !over && !given_up {
                return true;
            }
            done.push((ending.number, ending.ended.len()));
            false
        });
        self.endings = endings;
        // The end of the command itself is reported first.
        self.reap();
        for (number, ended) in done {
            match number {
                Some(number) => self.answer(number, ended as u64, &[]),
                None => return false,
            }
        }
        true
    }

    fn answer(&self, number: u32, value: u64, bytes: &[u8]) {
        self.say(Reply::Answer { number, value, bytes: bytes.len() as u64 });
        let _ = wire::send_all(&self.socket, bytes, &[]);
    }

    fn say(&self, reply: Reply) {
        // If haft is gone, the next read notices it.
        let _ = wire::send_all(&self.socket, &reply.encode(), &[]);
    }
}

impl Ending {
    /// Returns whether a killed tree, of which so many processes are left, has not changed for [`TIMEOUT`]. A first look at a
    /// growing one may find few: it is not compared with the fewest.
    fn is_stuck(&mut self, left: usize) -> bool {
        let now = Instant::now();
        if now < self.kill_at {
            return false;
        }
        if left != self.left.0 {
            self.left = (left, now);
        }
        now >= self.left.1 + TIMEOUT
    }

    fn sleep(&self) -> Duration {
        let until_kill = self.kill_at.saturating_duration_since(Instant::now());
        if until_kill.is_zero() { self.next_look } else { until_kill.min(self.next_look) }
    }
}

fn ended(status: WaitStatus) -> Reply {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Reply::Exited(code),
        (None, signal) => Reply::Killed(signal.unwrap_or(0)),
    }
}
