//! The supervisor: the process that one command and all it starts descend from.
//!
//! It adopts what the command leaves behind, however that was forked, says how the command ended, and ends the whole
//! tree when it is told to or nobody listens any more. It goes once nothing is left.

use std::{
    collections::{BTreeSet, HashSet, VecDeque},
    io,
    os::fd::{AsFd, OwnedFd},
    time::{Duration, Instant},
};

use rustix::{
    process::{Pid, Signal, WaitStatus},
    pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt},
    termios::{Winsize, tcsetwinsize},
};

use super::{
    Inside,
    keeper::{drain, wait_for},
    listening, start,
    tree::{self, Identity, NoChildren, Spared},
    wire::{self, ABOVE, Failure, ORDER, Order, Reply, Request, Step},
};

/// How long a tree may withstand being killed before that is said.
const PATIENCE: Duration = Duration::from_secs(5);
/// It is looked so often, at first, whether what was asked to end has.
const SOON: Duration = Duration::from_millis(1);
/// And so often in the end.
const LATER: Duration = Duration::from_millis(20);
/// How long a command may wait until there can be one more process.
const FULL: Duration = Duration::from_secs(5);
/// How many marks are remembered.
const MARKS: usize = 8;

/// Serves one command, whose request comes over `socket`. Whether nothing of it is left.
/// `apart`: the PID namespace belongs to one session alone.
pub(super) fn supervise(socket: OwnedFd, signals: &OwnedFd, inside: Inside<'_>, apart: bool) -> bool {
    let started = request(&socket).and_then(|(request, files)| begin(&request, files, inside));
    let (first, terminal) = match started {
        Ok(it) => it,
        Err(failure) => return fail(&socket, failure),
    };
    let files: Vec<_> = terminal.iter().map(AsFd::as_fd).collect();
    let _ = wire::send_all(&socket, &Reply::Started(first.cast_unsigned()).encode(), &files);
    drop(terminal);
    Supervisor {
        socket,
        signals,
        apart,
        first,
        over: false,
        alone: false,
        heard: true,
        marks: VecDeque::new(),
        endings: Vec::new(),
    }
    .serve()
}

/// Has what descends from this process be its child when its own parent has gone. Whether that is so.
pub(super) fn adopt() -> bool {
    // Who was stopped would not notice that the keeper is gone, and that there is nobody to wake it any more.
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::CONT));
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
    if let Some((rows, cols)) = request.terminal {
        let (ours, theirs) =
            open_terminal(rows, cols).map_err(|errno| Failure { step: Step::Terminal, errno })?;
        for number in 0..3 {
            files.push(theirs.try_clone().map_err(|error| setup(&error))?);
            numbers.push(number);
        }
        terminal = Some(ours);
    }
    // Where they are now may be where another is to be.
    let files: Vec<_> = numbers
        .into_iter()
        .zip(files)
        .map(|(number, file)| Ok((number, rustix::io::fcntl_dupfd_cloexec(&file, ABOVE)?)))
        .collect::<io::Result<_>>()
        .map_err(|error| setup(&error))?;
    let until = Instant::now() + FULL;
    loop {
        match start::start(request, &files, inside) {
            // Another command has taken all there are, and is about to lose them.
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

/// Both ends of a new terminal. It is made here, so that the command finds it under its own `/dev/pts`.
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
    signals: &'a OwnedFd,
    /// Does the PID namespace belong to one session alone?
    apart: bool,
    /// The command itself.
    first: i32,
    /// Has it ended?
    over: bool,
    /// Is nothing left?
    alone: bool,
    /// Does haft still listen?
    heard: bool,
    /// What ran when it was marked, newest last.
    marks: VecDeque<(u64, BTreeSet<Identity>)>,
    endings: Vec<Ending>,
}

/// An ending that is under way.
struct Ending {
    /// Which order it is to answer.
    number: Option<u32>,
    spared: Spared,
    ended: HashSet<i32>,
    kill_at: Instant,
    next_look: Duration,
}

impl Supervisor<'_> {
    fn serve(mut self) -> bool {
        while !(self.alone && self.over && self.endings.is_empty()) {
            let at_most = self.endings.iter().map(Ending::sleep).min();
            let waited = match self.heard {
                true => wait_for(&self.socket, self.signals, at_most),
                false => wait_for(self.signals, self.signals, at_most).map(|(_, ended)| (false, ended)),
            };
            let Ok((told, ended)) = waited else { return false };
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

    /// Does what haft says. False: it says nothing more.
    fn obey(&mut self) -> bool {
        let mut message = [0; ORDER];
        if !matches!(wire::receive_all(&self.socket, &mut message, &mut Vec::new()), Ok(true)) {
            return false;
        }
        match Order::decode(&message) {
            Some((Order::Signal(signal), number)) => self.answer(number, u64::from(self.signal(signal)), &[]),
            Some((Order::End { grace_ms, spare }, number)) => {
                self.end(Some(number), Duration::from_millis(grace_ms), spare);
            }
            Some((Order::Mark, number)) => self.mark(number),
            Some((Order::Left { since }, number)) => {
                let left = listening::left(tree::below(&self.spared_by(since)));
                self.answer(number, 0, &serde_json::to_vec(&left).unwrap_or_default());
            }
            None => return false,
        }
        true
    }

    /// Whether there was somebody to get it.
    #[expect(unsafe_code, reason = "signals that have no name are sent, too")]
    fn signal(&self, signal: i32) -> bool {
        // Once it was reaped, its number may be another's.
        // SAFETY: it takes two numbers.
        !self.over && unsafe { libc::kill(-self.first, signal) } == 0
    }

    fn mark(&mut self, number: u32) {
        let now = tree::below(&Spared { alone: Some(self.first), ..Spared::default() });
        let now = now.into_iter().filter_map(|pid| Some((pid, tree::stat(pid)?.started))).collect();
        let mark = self.marks.back().map_or(0, |it| it.0) + 1;
        self.marks.push_back((mark, now));
        if self.marks.len() > MARKS {
            self.marks.pop_front();
        }
        self.answer(number, mark, &[]);
    }

    /// What there was when this mark was made; nothing without a mark.
    fn spared_by(&self, mark: Option<u64>) -> Spared {
        mark.map_or_else(Spared::default, |mark| Spared {
            alone: Some(self.first),
            whole: self.marks.iter().find(|it| it.0 == mark).map_or_else(BTreeSet::new, |it| it.1.clone()),
            ..Spared::default()
        })
    }

    fn end(&mut self, number: Option<u32>, grace: Duration, spare: Option<u64>) {
        let spared = self.spared_by(spare);
        let mut ended = HashSet::new();
        if !grace.is_zero() {
            for pid in tree::below(&spared) {
                tree::send(pid, Signal::TERM);
                // What is stopped would not hear of it.
                tree::send(pid, Signal::CONT);
                ended.insert(pid);
            }
        }
        let kill_at = Instant::now() + grace;
        self.endings.push(Ending { number, spared, ended, kill_at, next_look: SOON });
    }

    /// Takes each ending a step further. False: what is left can't be ended, and nobody wants to know.
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
            let given_up = now >= ending.kill_at + PATIENCE;
            // A list of children may miss one while others end; that there is no child at all is sure.
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
        // How the command itself ended is said first.
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
        // That haft is gone is seen when it is listened to.
        let _ = wire::send_all(&self.socket, &reply.encode(), &[]);
    }
}

impl Ending {
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
