//! Worker pool: limits the workers that run at once, keeps a warm one per session, and kills a worker at a
//! fault or its deadline.
//!
//! One thread per pool starts workers, reaps those that end, and ends those that idle. It is one thread
//! because a worker dies with the thread that started it.

use std::{
    collections::HashMap,
    io::{self, Read},
    os::{fd::OwnedFd, unix::net::UnixStream as Socket},
    path::{Path, PathBuf},
    process::{Child, ChildStderr, Command, ExitStatus, Stdio},
    sync::{
        Arc, LazyLock, OnceLock,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
    sync::{Semaphore, oneshot},
    time::timeout,
};

use super::{
    Raw, WORKER,
    wire::{self, ANSWER, Head, READY, Request, TAKEN},
};
use crate::{Fault, Kind, procs::signal_name};

/// Time after which an idle worker ends.
const IDLE: Duration = Duration::from_secs(30);

/// Maximum number of idle workers.
const MOST_IDLE: usize = 4;

/// Time within which a worker must be ready.
const START: Duration = Duration::from_secs(20);

/// Interval at which the pool checks whether a killed worker has ended.
const LOOK: Duration = Duration::from_millis(3);

/// Environment variable of every worker. A program that has it set and tries to start a worker did not call
/// [`serve`](super::serve).
const MARK: &str = "HAFT_DECODER";

/// Bytes of a worker's stderr that are read after it ended.
const LAST_WORDS: u64 = 2048;

/// Returns the maximum number of workers that decode at once, by processors; at least 4, so that two stuck
/// ones don't block the rest.
fn most() -> usize {
    // Counting processors reads several files.
    static MOST: OnceLock<usize> = OnceLock::new();
    *MOST.get_or_init(|| thread::available_parallelism().map_or(4, usize::from).clamp(4, 16))
}

/// A session's share of the pool: half of it, so that one session can't use up the pool.
pub(super) struct Owner {
    id: u64,
    turns: Semaphore,
}

impl Owner {
    pub(super) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self { id: NEXT.fetch_add(1, Ordering::Relaxed), turns: Semaphore::new(most() / 2) }
    }
}

/// The workers of one program.
pub(super) struct Pool {
    turns: Semaphore,
    idle: Arc<Mutex<Vec<Worker>>>,
    orders: Sender<Order>,
}

/// An order to the pool's thread.
enum Order {
    /// Starts a worker that prepares this decoder, if any.
    Start { prepares: Option<&'static str>, to: oneshot::Sender<io::Result<Started>> },
    /// Reaps a process that was killed, and sends how it ended to `to`, if any.
    Ended { child: Child, stderr: Option<ChildStderr>, to: Option<oneshot::Sender<Death>> },
    /// A worker has become idle.
    Idle,
}

struct Started {
    child: Child,
    socket: Socket,
    stderr: Option<ChildStderr>,
}

/// How a worker ended, and the last bytes that it wrote to stderr.
struct Death {
    status: Option<ExitStatus>,
    said: String,
}

/// A worker, which is killed when this is dropped.
struct Worker {
    process: Option<(Child, Option<ChildStderr>)>,
    socket: Option<Socket>,
    owner: u64,
    prepares: Option<&'static str>,
    /// Whether it has answered before.
    is_used: bool,
    since: Instant,
    orders: Sender<Order>,
}

/// The reason why a worker gave no answer.
enum Lost {
    /// It ended before it had received the whole request.
    Before,
    /// It ended while it decoded.
    Ended,
    /// Its answer is malformed.
    Invalid,
}

impl From<io::Error> for Lost {
    fn from(_: io::Error) -> Self {
        Self::Ended
    }
}

impl Pool {
    /// Returns the pool of `program` in this process.
    pub(super) fn of(program: &Path) -> Arc<Self> {
        static POOLS: LazyLock<Mutex<HashMap<PathBuf, Arc<Pool>>>> = LazyLock::new(Mutex::default);
        POOLS.lock().entry(program.to_owned()).or_insert_with(|| Arc::new(Self::new(program))).clone()
    }

    fn new(program: &Path) -> Self {
        let (orders, receiver) = channel();
        let idle = Arc::new(Mutex::new(Vec::new()));
        Self::attend(program.to_owned(), receiver, idle.clone());
        Self { turns: Semaphore::new(most()), idle, orders }
    }

    /// Starts the pool's thread. If that fails, every request for a worker gets an error.
    fn attend(program: PathBuf, orders: Receiver<Order>, idle: Arc<Mutex<Vec<Worker>>>) {
        let attendant = Attendant { program, orders, idle, ended: Vec::new() };
        let started = thread::Builder::new().name("haft-decoders".to_owned());
        // Without it the receiver is gone, and every order is refused.
        let _ = started.spawn(move || attendant.run());
    }

    /// Decodes in a worker; waits until one is available.
    pub(super) async fn run(
        &self,
        owner: &Owner,
        what: &str,
        request: &Request<'_>,
        prepares: bool,
    ) -> Result<Raw, Fault> {
        let closed = |error| Fault::bug(format!("no turn to decode: {error}"));
        let _own = owner.turns.acquire().await.map_err(closed)?;
        let _turn = self.turns.acquire().await.map_err(closed)?;
        let prepares = prepares.then_some(request.name);
        loop {
            let mut worker = match self.take(owner, prepares) {
                Some(worker) => worker,
                None => self.start(owner, prepares).await?,
            };
            let was_used = worker.is_used;
            // A worker that is dropped is killed: at its deadline, after a fault, and when the call is cancelled.
            match timeout(request.deadline, worker.ask(what, request)).await {
                Ok(Ok((done, retires))) => {
                    if !retires {
                        self.put_back(worker);
                    }
                    return done;
                }
                // It ended while it idled.
                Ok(Err(Lost::Before)) if was_used => {}
                Ok(Err(Lost::Before | Lost::Ended)) => return Err(worker.died(what, request).await),
                Ok(Err(Lost::Invalid)) => {
                    return Err(Fault::new(
                        Kind::Failed,
                        format!("the decoder of {what} gave no valid answer"),
                    )
                    .next(HOSTILE));
                }
                Err(_) => {
                    return Err(Fault::new(
                        Kind::Timeout,
                        format!("{what} took longer than {} s to decode", request.deadline.as_secs()),
                    )
                    .next("It is too large or made to be slow. Ask for less of it at once, or take another copy."));
                }
            }
        }
    }

    fn take(&self, owner: &Owner, prepares: Option<&'static str>) -> Option<Worker> {
        let mut idle = self.idle.lock();
        let at = idle.iter().rposition(|it| it.owner == owner.id && it.prepares == prepares)?;
        Some(idle.remove(at))
    }

    fn put_back(&self, mut worker: Worker) {
        worker.is_used = true;
        worker.since = Instant::now();
        let mut idle = self.idle.lock();
        idle.push(worker);
        let oldest = (idle.len() > MOST_IDLE).then(|| idle.remove(0));
        drop(idle);
        drop(oldest);
        let _ = self.orders.send(Order::Idle);
    }

    async fn start(&self, owner: &Owner, prepares: Option<&'static str>) -> Result<Worker, Fault> {
        if std::env::var_os(MARK).is_some() {
            return Err(Fault::bug("this program was started as a decoder and did not become one")
                .next("Its `main` calls `haft::keeper()` before anything else."));
        }
        let (to, started) = oneshot::channel();
        let unstarted = |error: io::Error| {
            Fault::new(Kind::Unavailable, format!("the process that decodes files can't be started: {error}"))
                .next("Try again when this machine has processes and memory to spare.")
        };
        let gone = || unstarted(io::Error::other("its thread could not be started"));
        self.orders.send(Order::Start { prepares, to }).map_err(|_| gone())?;
        let Started { child, socket, stderr } = started.await.map_err(|_| gone())?.map_err(unstarted)?;
        let mut worker = Worker {
            process: Some((child, stderr)),
            socket: Some(socket),
            owner: owner.id,
            prepares,
            is_used: false,
            since: Instant::now(),
            orders: self.orders.clone(),
        };
        match timeout(START, worker.ready()).await {
            Ok(Ok(missing)) => {
                if !missing.is_empty() {
                    // The limits and the deadline hold; `haft doctor` tells the person.
                    MISSING.lock().clone_from(&missing);
                }
                Ok(worker)
            }
            Ok(Err(_)) => {
                let Death { status, said } = worker.death().await;
                let how = status.map_or_else(|| "it is gone".to_owned(), |it| it.to_string());
                Err(unstarted(io::Error::other(format!("{how} {said}").trim().to_owned())))
            }
            Err(_) => Err(unstarted(io::Error::other(format!("not ready after {} s", START.as_secs())))),
        }
    }
}

/// Isolation that the last worker lacked.
static MISSING: Mutex<String> = Mutex::new(String::new());

/// Returns the parts of the isolation that decoder workers lack on this machine, in words; empty if none.
/// Known once a worker was started.
pub(super) fn missing() -> String {
    MISSING.lock().clone()
}

const HOSTILE: &str =
    "It is damaged, or made to do harm; nothing else was affected. Take another copy or source of it.";

impl Worker {
    /// Waits until the worker has confined itself; returns what it could not do.
    async fn ready(&mut self) -> io::Result<String> {
        let mut socket = self.socket()?;
        let mut length = [0; 4];
        socket.read_exact(&mut length).await?;
        let length = usize::try_from(u32::from_ne_bytes(length)).unwrap_or(usize::MAX);
        if length > READY {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut missing = vec![0; length];
        socket.read_exact(&mut missing).await?;
        self.socket = Some(socket.into_std()?);
        Ok(String::from_utf8_lossy(&missing).into_owned())
    }

    /// Registers the socket with the runtime of the current call.
    fn socket(&mut self) -> io::Result<UnixStream> {
        UnixStream::from_std(self.socket.take().ok_or(io::ErrorKind::NotConnected)?)
    }

    async fn ask(&mut self, what: &str, request: &Request<'_>) -> Result<(Result<Raw, Fault>, bool), Lost> {
        let mut socket = self.socket().map_err(|_| Lost::Before)?;
        let send = async {
            socket.write_all(&request.head()).await?;
            socket.write_all(request.data).await?;
            socket.read_u8().await
        };
        match send.await {
            Ok(TAKEN) => {}
            Ok(_) => return Err(Lost::Invalid),
            Err(_) => return Err(Lost::Before),
        }
        let mut head = [0; ANSWER];
        socket.read_exact(&mut head).await?;
        let head = Head::decode(&head).ok_or(Lost::Invalid)?;
        let mut lengths = vec![0; head.blobs * 8];
        socket.read_exact(&mut lengths).await?;
        let lengths = head.lengths(&lengths).ok_or(Lost::Invalid)?;
        let json = exactly(&mut socket, head.json).await?;
        let mut blobs = Vec::new();
        for length in lengths {
            blobs.push(exactly(&mut socket, length).await?);
        }
        self.socket = Some(socket.into_std()?);
        let done = if head.worked { Ok(Raw { json, blobs }) } else { Err(wire::fault(what, &json)) };
        Ok((done, head.retires))
    }

    /// Returns the fault for a worker that gave no answer.
    async fn died(mut self, what: &str, request: &Request<'_>) -> Fault {
        let Death { status, said } = self.death().await;
        let memory = (request.memory >> 20).to_string();
        let signal = status.and_then(|it| std::os::unix::process::ExitStatusExt::signal(&it));
        if said.contains("memory allocation of") {
            let what = format!("{what} needs more than the {memory} MB of memory that decoding it may use");
            return Fault::new(Kind::TooBig, what).next(HOSTILE);
        }
        if said.contains("overflowed its stack") {
            let what = format!("{what} is nested deeper than a decoder can follow");
            return Fault::new(Kind::TooBig, what).next(HOSTILE);
        }
        let how = match (signal, status) {
            (Some(signal), _) => format!("ended by {}", signal_name(signal)),
            (None, Some(status)) => format!("ended: {status}"),
            (None, None) => "is gone".to_owned(),
        };
        Fault::new(Kind::Failed, format!("{what} can't be decoded: its decoder {how}")).next(HOSTILE)
    }

    /// Kills the worker and returns how it ended.
    async fn death(&mut self) -> Death {
        let none = Death { status: None, said: String::new() };
        let Some((mut child, stderr)) = self.process.take() else { return none };
        // What has ended already keeps its own status.
        let _ = child.kill();
        let (to, death) = oneshot::channel();
        if self.orders.send(Order::Ended { child, stderr, to: Some(to) }).is_err() {
            return none;
        }
        death.await.unwrap_or(none)
    }
}

async fn exactly(socket: &mut UnixStream, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    socket.read_exact(&mut bytes).await?;
    Ok(bytes)
}

impl Drop for Worker {
    fn drop(&mut self) {
        let Some((mut child, _)) = self.process.take() else { return };
        let _ = child.kill();
        // Freeing its memory takes a while; no caller waits for that.
        let _ = self.orders.send(Order::Ended { child, stderr: None, to: None });
    }
}

/// The pool's thread.
struct Attendant {
    program: PathBuf,
    orders: Receiver<Order>,
    idle: Arc<Mutex<Vec<Worker>>>,
    /// Processes that were killed and are not gone yet.
    ended: Vec<(Child, Option<ChildStderr>, Option<oneshot::Sender<Death>>)>,
}

impl Attendant {
    fn run(mut self) {
        loop {
            let next = self.idle.lock().iter().map(|it| it.since + IDLE).min();
            let idle = next.map(|it| it.saturating_duration_since(Instant::now()));
            let at_most = if self.ended.is_empty() { idle } else { Some(LOOK) };
            let order = match at_most {
                Some(at_most) => self.orders.recv_timeout(at_most),
                None => self.orders.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match order {
                Ok(Order::Start { prepares, to }) => {
                    if let Err(Ok(Started { mut child, .. })) = to.send(self.start(prepares)) {
                        let _ = child.kill();
                        self.ended.push((child, None, None));
                    }
                }
                Ok(Order::Ended { child, stderr, to }) => self.ended.push((child, stderr, to)),
                Ok(Order::Idle) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let over = |it: &mut Worker| it.since.elapsed() >= IDLE;
            let idled: Vec<Worker> = self.idle.lock().extract_if(.., over).collect();
            drop(idled);
            self.reap();
        }
    }

    fn start(&self, prepares: Option<&'static str>) -> io::Result<Started> {
        let (ours, theirs) = Socket::pair()?;
        ours.set_nonblocking(true)?;
        let mut command = Command::new(&self.program);
        command
            .arg(WORKER)
            .args(prepares)
            .env_clear()
            // One heap for all threads: each more reserves 64 MB of the address space.
            .env("MALLOC_ARENA_MAX", "1")
            .env(MARK, "1")
            .current_dir("/")
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let stderr = child.stderr.take();
        Ok(Started { child, socket: ours, stderr })
    }

    fn reap(&mut self) {
        for (mut child, stderr, to) in std::mem::take(&mut self.ended) {
            match child.try_wait() {
                Ok(None) => self.ended.push((child, stderr, to)),
                gone => {
                    let Some(to) = to else { continue };
                    let mut said = Vec::new();
                    if let Some(stderr) = stderr {
                        let _ = stderr.take(LAST_WORDS).read_to_end(&mut said);
                    }
                    let said = String::from_utf8_lossy(&said).trim().to_owned();
                    let _ = to.send(Death { status: gone.ok().flatten(), said });
                }
            }
        }
    }
}
