//! The keeper's client: starts commands, and is notified of their end.

use std::{
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream as Socket,
    },
    process::{Child, Command, Stdio},
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use rustix::{
    fs::{Mode, OFlags},
    process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit},
};
use tokio::{
    io::Interest,
    net::{TcpSocket, UnixStream},
    sync::Semaphore,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::{
    Process, Program, Recording, Spilling, Stdin, Streams,
    control::Control,
    input::Input,
    refusal,
    wire::{self, ABOVE, FILES, Limit, REPLY, Reply, Request, ToKeeper},
};
use crate::{Fault, Kind, deliberate_faults::passed_on};

/// Time limit for a keeper to enter its sandbox, and for a command to begin.
const BEGIN: Duration = Duration::from_secs(30);
/// Time limit for a killed keeper to end with its processes.
const END: Duration = Duration::from_secs(2);
/// Time limit for a keeper to read a message.
pub(super) const HEAR: Duration = Duration::from_secs(5);
/// The longest report of a keeper on its sandbox.
const LONGEST: usize = 1 << 20;
/// Maximum number of files that haft asks to have open.
const OPEN: u64 = 1 << 17;
/// Files that haft has open for a command that is active, besides its socket: its output, its errors, its input, the
/// listener of its filter, its root folder.
const FILES_OF_ACTIVE: u64 = 5;
/// Maximum number of commands that count as active: the files of others are held by their supervisors.
const ACTIVE: u64 = 1024;
/// Files that are left for all other work, the starts under way among them.
const OTHER_FILES: u64 = 512;
/// Maximum number of commands that are started at the same time: until a start is over, it has twice the files open
/// that a command needs, and a thousand at once would take those of commands that were accepted before.
const STARTS: usize = 32;
/// The descriptors that a file may get in a command.
const NUMBERS: std::ops::Range<i32> = 3..ABOVE;

/// A keeper of this process. Cheap to clone; once the last clone and the last process are gone, it ends.
#[derive(Clone)]
pub struct Keeper {
    inner: Arc<Inner>,
}

/// A handle that does not keep the keeper alive.
#[derive(Clone)]
pub struct WeakKeeper {
    inner: Weak<Inner>,
    gone: CancellationToken,
}

impl WeakKeeper {
    /// Returns the keeper, unless it has ended.
    pub fn get(&self) -> Option<Keeper> {
        self.inner.upgrade().map(|inner| Keeper { inner }).filter(|it| !it.is_gone())
    }

    /// Resolves when it has ended.
    pub async fn gone(&self) {
        self.gone.cancelled().await;
    }
}

pub(super) struct Inner {
    line: Arc<KeeperSocket>,
    /// The keeper's own process.
    child: Mutex<Option<Child>>,
    pid: u32,
    next: AtomicU64,
    null: OwnedFd,
    starts: Semaphore,
}

/// The socket of a keeper, and whether the keeper is still at the other end.
struct KeeperSocket {
    socket: UnixStream,
    gone: CancellationToken,
    /// Cancelled once the keeper is no longer needed.
    closed: CancellationToken,
}

/// The environment in which a command is started.
#[derive(Clone, Copy, Default)]
pub struct Base<'a> {
    /// The variables that every command has.
    pub env: &'a [(String, String)],
    /// Its resource limits.
    pub limits: &'a [Limit],
    /// The storage of long outputs.
    pub spilling: Option<&'a Arc<dyn Spilling>>,
    /// Whether the sandbox is to stop it before each change of a file: see
    /// [`Process::take_listener`](super::Process::take_listener).
    pub track: bool,
}

impl Keeper {
    /// Starts a keeper and sends it the plan of its sandbox; returns its report, and the files that came with
    /// it. `command` is haft's own binary with the argument that makes it a keeper. It gets no environment
    /// and no open files.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] when it can't be started, or ends before it has reported.
    pub async fn spawn(mut command: Command, plan: &[u8]) -> Result<(Self, Vec<u8>, Vec<OwnedFd>), Fault> {
        let trouble = |error: io::Error| {
            Fault::new(
                Kind::Unavailable,
                format!("the keeper, which starts commands, can't be started: {error}"),
            )
            .caused_by(error)
        };
        if !cfg!(target_os = "linux") {
            return Err(trouble(io::Error::other("commands are run on Linux only, as yet")));
        }
        open_files();
        let (ours, theirs) = Socket::pair().map_err(trouble)?;
        ours.set_nonblocking(true).map_err(trouble)?;
        command
            .env_clear()
            .envs(passed_on())
            .current_dir("/")
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command.spawn().map_err(trouble)?;
        // The command holds the other end, too.
        drop(command);
        let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
            .map_err(|error| trouble(error.into()))?;
        let socket = UnixStream::from_std(ours).map_err(trouble)?;
        let line = Arc::new(KeeperSocket {
            socket,
            gone: CancellationToken::new(),
            closed: CancellationToken::new(),
        });
        let pid = child.id();
        let inner = Inner {
            line,
            child: Mutex::new(Some(child)),
            pid,
            next: AtomicU64::new(1),
            null,
            starts: Semaphore::new(STARTS),
        };
        let keeper = Self { inner: Arc::new(inner) };
        let report =
            timeout(BEGIN, keeper.agree(plan)).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        let (report, files) = report.map_err(trouble)?;
        tokio::spawn(watch(keeper.inner.line.clone()));
        Ok((keeper, report, files))
    }

    async fn agree(&self, plan: &[u8]) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
        let socket = &self.inner.line.socket;
        send(socket, &wire::long(plan), &[]).await?;
        let mut files = Vec::new();
        let mut length = [0; 4];
        receive(socket, &mut length, &mut files).await?;
        let length = u32::from_ne_bytes(length) as usize;
        if length > LONGEST {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut report = vec![0; length];
        receive(socket, &mut report, &mut files).await?;
        Ok((report, files))
    }

    /// Starts a program below a supervisor of its own.
    ///
    /// # Errors
    /// [`Kind::NotFound`] when the program or folder does not exist, [`Kind::BadArgs`] when it can't be run,
    /// [`Kind::TooBig`] when its arguments are too long, [`Kind::Unavailable`] when the keeper is gone.
    pub async fn start(&self, program: Program, base: Base<'_>) -> Result<Process, Fault> {
        // It is never closed. The permit is given back when the start is over, also when this future is dropped.
        let _start = self.inner.starts.acquire().await;
        let (request, mut files, mut ends) = self.prepare(&program, base)?;
        let listening = if base.track {
            let (ours, theirs) = Socket::pair().map_err(refusal::no_pipe)?;
            ours.set_nonblocking(true).map_err(refusal::no_pipe)?;
            files.push(theirs.into());
            Some(ours)
        } else {
            None
        };
        let (ours, theirs) = Socket::pair().map_err(refusal::no_pipe)?;
        ours.set_nonblocking(true).map_err(refusal::no_pipe)?;
        wire::ask_for_sender(ours.as_fd()).map_err(refusal::no_pipe)?;
        let ours = UnixStream::from_std(ours).map_err(refusal::no_pipe)?;
        let id = self.inner.next.fetch_add(1, Ordering::Relaxed);
        // From here on, if this future is dropped, the supervisor ends with everything that it has started.
        let (control, begun) = Control::new(ours, id, self.inner.clone());
        let started = timeout(BEGIN, async {
            send(&self.inner.line.socket, &ToKeeper::Start(id).encode(), &[theirs.as_fd()]).await?;
            drop(theirs);
            let borrowed: Vec<_> = files.iter().map(AsFd::as_fd).collect();
            control.request(&request.encode(), &borrowed).await?;
            drop(files);
            begun.await.map_err(|_| io::ErrorKind::UnexpectedEof.into())
        });
        let begun = match started.await {
            Ok(Ok(it)) => it,
            Ok(Err(error)) => return Err(self.lost(error)),
            Err(_) => return Err(refusal::too_slow(&program, BEGIN)),
        };
        let pid = match begun.reply {
            Reply::Started(pid) => pid,
            Reply::Failed(failure) => return Err(refusal::failed(&program, base.env, failure)),
            _ => return Err(self.lost(io::ErrorKind::UnexpectedEof.into())),
        };
        if let Some(terminal) = begun.terminal {
            ends.input = Some(terminal.try_clone().map_err(refusal::no_pipe)?);
            ends.output = Some(terminal);
        }
        let listener = listening.map(|it| listener_from(&it));
        Ok(process(pid, begun.supervisor, control, ends)?.with_listener(listener))
    }

    /// Returns whether the keeper has ended. Then all its processes have, too.
    pub fn is_gone(&self) -> bool {
        self.inner.line.gone.is_cancelled()
    }

    /// Kills it, and all its processes with it if they are in a PID namespace. Blocks until they have ended,
    /// which takes a moment: none of them runs after this.
    pub fn end(&self) {
        let mut child = self.inner.child.lock();
        let Some(child) = &mut *child else { return };
        // In a PID namespace, its first process is a child of the keeper's process, which waits for it. If
        // that one were killed first, it would end while the others still run.
        let children =
            std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).unwrap_or_default();
        let first: Vec<_> =
            children.split_whitespace().filter_map(|it| Pid::from_raw(it.parse().ok()?)).collect();
        for pid in &first {
            // One that has ended needs no signal.
            let _ = kill_process(*pid, Signal::KILL);
        }
        if first.is_empty() {
            let _ = child.kill();
        }
        let until = Instant::now() + END;
        while matches!(child.try_wait(), Ok(None)) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Resolves when the keeper has ended.
    pub async fn gone(&self) {
        self.inner.line.gone.cancelled().await;
    }

    /// Returns the process id of the spawned process.
    pub fn pid(&self) -> u32 {
        self.inner.pid
    }

    /// Returns the first process of the sandbox, if it has namespaces of its own.
    pub fn first_inside(&self) -> Option<u32> {
        let pid = self.inner.pid;
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
        children.split_ascii_whitespace().next()?.parse().ok()
    }

    /// Creates a TCP socket that is neither bound nor connected, in the network namespace of the commands: it
    /// acts in that namespace wherever it is used.
    ///
    /// # Errors
    /// When the keeper is gone, or can't create one.
    pub async fn tcp_socket(&self, six: bool) -> io::Result<TcpSocket> {
        let (ours, theirs) = Socket::pair()?;
        ours.set_nonblocking(true)?;
        let asked = async {
            let ours = UnixStream::from_std(ours)?;
            send(&self.inner.line.socket, &ToKeeper::Socket { six }.encode(), &[theirs.as_fd()]).await?;
            drop(theirs);
            let mut files = Vec::new();
            receive(&ours, &mut [0], &mut files).await?;
            files.pop().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
        };
        let socket = timeout(HEAR, asked).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
        Ok(TcpSocket::from_std_stream(socket.into()))
    }

    /// Returns a handle that does not keep it alive.
    pub fn downgrade(&self) -> WeakKeeper {
        WeakKeeper { inner: Arc::downgrade(&self.inner), gone: self.inner.line.gone.clone() }
    }

    /// Builds the request to the supervisor, the files that go with it, and haft's ends of them.
    fn prepare(&self, program: &Program, base: Base<'_>) -> Result<(Request, Vec<OwnedFd>, Ends), Fault> {
        let (argv, env) = refusal::check(program, base.env)?;
        let cwd = refusal::folder(&program.cwd)?;
        let mut files = Vec::new();
        let mut numbers = Vec::new();
        let mut ends = Ends { spilling: base.spilling.cloned(), ..Ends::default() };
        let terminal = match program.streams {
            Streams::Terminal { rows, cols } => {
                ends.is_terminal = true;
                Some((rows, cols))
            }
            Streams::Given => {
                let (ours, stderr) = pipe()?;
                ends.output = Some(ours);
                // Such a process may run for days: only the newest of its errors are kept.
                ends.spilling = None;
                numbers.push(2);
                files.push(stderr);
                None
            }
            Streams::Together | Streams::Apart => {
                numbers.extend([0, 1, 2]);
                let stdin = match program.stdin {
                    Stdin::Null => self.inner.null.try_clone().map_err(refusal::no_pipe)?,
                    Stdin::Pipe => {
                        let (theirs, ours) = pipe()?;
                        ends.input = Some(ours);
                        theirs
                    }
                };
                let (ours, stdout) = pipe()?;
                ends.output = Some(ours);
                let stderr = if program.streams == Streams::Apart {
                    let (ours, stderr) = pipe()?;
                    ends.errors = Some(ours);
                    stderr
                } else {
                    stdout.try_clone().map_err(refusal::no_pipe)?
                };
                files.extend([stdin, stdout, stderr]);
                None
            }
        };
        for (number, file) in &program.files {
            let is_given = program.streams == Streams::Given && *number < 2;
            if !(NUMBERS.contains(number) || is_given) || numbers.contains(number) || files.len() + 3 >= FILES
            {
                return Err(Fault::bug(format!(
                    "descriptor {number} can't be given to a command: each is given once, {} to {}, at most {}",
                    NUMBERS.start,
                    NUMBERS.end - 1,
                    FILES - 6,
                )));
            }
            numbers.push(*number);
            files.push(file.try_clone().map_err(refusal::no_pipe)?);
        }
        let mut limits = base.limits.to_vec();
        // haft's own limit of open files is higher than commands expect.
        let ours = open_files();
        if limits.iter().all(|it| it.resource != Resource::Nofile as u32) {
            let forever = libc::RLIM_INFINITY;
            let (soft, hard) = (ours.current.unwrap_or(forever), ours.maximum.unwrap_or(forever));
            limits.push(Limit { resource: Resource::Nofile as u32, soft, hard });
        }
        let request = Request { cwd, argv, env, terminal, numbers, limits, track: base.track };
        Ok((request, files, ends))
    }

    fn lost(&self, error: io::Error) -> Fault {
        let gone = self.is_gone();
        let what = if gone {
            "the keeper, which starts commands, has ended"
        } else {
            "the supervisor of the command has ended"
        };
        Fault::new(Kind::Unavailable, format!("{what}: {error}")).next("Call it again.").caused_by(error)
    }
}

fn process(pid: u32, supervisor: Option<u32>, control: Control, ends: Ends) -> Result<Process, Fault> {
    let Some(output) = ends.output else {
        return Err(Fault::bug("the command has no output to read"));
    };
    let recording = |end: OwnedFd| Recording::reading(end, ends.spilling.clone()).map_err(refusal::no_pipe);
    let output = recording(output)?;
    let errors = ends.errors.map(recording).transpose()?;
    let input =
        ends.input.map(|it| Input::new(it, ends.is_terminal)).transpose().map_err(refusal::no_pipe)?;
    Ok(Process::new(pid, supervisor, output, errors, input, control))
}

/// haft's ends of a command's streams.
#[derive(Default)]
struct Ends {
    input: Option<OwnedFd>,
    output: Option<OwnedFd>,
    errors: Option<OwnedFd>,
    is_terminal: bool,
    spilling: Option<Arc<dyn Spilling>>,
}

fn pipe() -> Result<(OwnedFd, OwnedFd), Fault> {
    let (reader, writer) = io::pipe().map_err(refusal::no_pipe)?;
    Ok((reader.into(), writer.into()))
}

impl Inner {
    /// Asks the keeper to kill the tree of a supervisor that does not answer.
    pub(super) async fn kill(&self, id: u64) {
        let _ = timeout(HEAR, send(&self.line.socket, &ToKeeper::Kill(id).encode(), &[])).await;
    }

    /// Resolves when the keeper has ended.
    pub(super) async fn gone(&self) {
        self.line.gone.cancelled().await;
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.line.closed.cancel();
        let Some(mut child) = self.child.lock().take() else { return };
        // It ends when its socket closes, which is soon but not now; this thread reaps it.
        let _ = std::thread::Builder::new().name("keeper".to_owned()).spawn(move || child.wait());
    }
}

/// Raises the limit of open files: each command takes some. Returns the limit before.
fn open_files() -> Rlimit {
    static BEFORE: OnceLock<Rlimit> = OnceLock::new();
    *BEFORE.get_or_init(|| {
        let before = getrlimit(Resource::Nofile);
        let wanted = OPEN.max(before.current.unwrap_or(OPEN));
        let hard = before.maximum.unwrap_or(u64::MAX);
        // A privileged process can raise the hard limit, too. With a lower one fewer commands can run at once.
        let all = Rlimit { current: Some(wanted), maximum: Some(hard.max(wanted)) };
        if setrlimit(Resource::Nofile, all).is_err() {
            let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted.min(hard)), ..before });
        }
        before
    })
}

/// Returns the number of commands for which this process may open files at the same time.
pub fn most_commands() -> u64 {
    open_files();
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let active = most_awake() as u64;
    files.saturating_sub(OTHER_FILES).saturating_sub(active * FILES_OF_ACTIVE)
}

/// Returns the number of commands whose files haft holds itself.
pub(super) fn most_awake() -> usize {
    static MOST: OnceLock<usize> = OnceLock::new();
    *MOST.get_or_init(|| {
        open_files();
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let active = (files.saturating_sub(OTHER_FILES) / (2 * (FILES_OF_ACTIVE + 1))).clamp(1, ACTIVE);
        usize::try_from(active).unwrap_or(usize::MAX)
    })
}

/// Takes the listener that a command has sent, or why it has none. The program runs: what it sent is here.
fn listener_from(socket: &Socket) -> io::Result<OwnedFd> {
    let mut last = Err(io::Error::other("the sandbox has no filter for it"));
    loop {
        let (mut word, mut files) = ([0; 4], Vec::new());
        match wire::receive(socket.as_fd(), &mut word, &mut files) {
            // A script without an interpreter line is a second start, whose listener is the one that counts.
            Ok(4) => {
                let error = i32::from_ne_bytes(word);
                last = files.pop().ok_or_else(|| io::Error::from_raw_os_error(error));
            }
            _ => return last,
        }
    }
}

/// Waits for the keeper's end: it sends no message of its own.
async fn watch(line: Arc<KeeperSocket>) {
    let (mut byte, mut files) = ([0], Vec::new());
    tokio::select! {
        _ = receive(&line.socket, &mut byte, &mut files) => {}
        () = line.closed.cancelled() => {}
    }
    line.gone.cancel();
}

/// Sends all bytes, and the files with the first byte.
pub(super) async fn send(socket: &UnixStream, bytes: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<()> {
    let (mut rest, mut files) = (bytes, files);
    while !rest.is_empty() {
        let sent =
            socket.async_io(Interest::WRITABLE, || Ok(wire::send(socket.as_fd(), rest, files)?)).await?;
        rest = rest.get(sent..).unwrap_or_default();
        files = &[];
    }
    Ok(())
}

/// Fills `bytes`.
pub(super) async fn receive(
    socket: &UnixStream,
    bytes: &mut [u8],
    files: &mut Vec<OwnedFd>,
) -> io::Result<()> {
    receive_from(socket, bytes, files, &mut None).await
}

async fn receive_from(
    socket: &UnixStream,
    bytes: &mut [u8],
    files: &mut Vec<OwnedFd>,
    sender: &mut Option<u32>,
) -> io::Result<()> {
    let mut have = 0;
    while let Some(rest) = bytes.get_mut(have..).filter(|it| !it.is_empty()) {
        let take = || Ok(wire::receive_from(socket.as_fd(), rest, files, sender)?);
        let got = socket.async_io(Interest::READABLE, take).await?;
        if got == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        have += got;
    }
    Ok(())
}

/// Receives the next message of a supervisor.
pub(super) async fn reply(socket: &UnixStream, files: &mut Vec<OwnedFd>) -> io::Result<Reply> {
    reply_from(socket, files, &mut None).await
}

/// Like [`reply`], and returns the process id of the sender.
pub(super) async fn reply_from(
    socket: &UnixStream,
    files: &mut Vec<OwnedFd>,
    sender: &mut Option<u32>,
) -> io::Result<Reply> {
    let mut message = [0; REPLY];
    receive_from(socket, &mut message, files, sender).await?;
    Reply::decode(&message).ok_or_else(|| io::ErrorKind::InvalidData.into())
}
