//! Control messages between haft and a supervisor.

use std::{
    any::Any,
    collections::HashMap,
    io,
    os::fd::{BorrowedFd, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    net::UnixStream,
    sync::{oneshot, watch},
    time::timeout,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    Exit,
    client::{HEAR, Inner, receive, reply, reply_from, send},
    lending::{self, Lendable, Lending},
    wire::{Order, Reply},
};

/// Time limit for a supervisor to kill its tree and end.
const LEAVE: Duration = Duration::from_secs(10);
/// Maximum length of a reply.
const LONGEST: u64 = 1 << 20;

/// The socket of one supervisor. Dropping it ends the supervisor's tree.
pub(super) struct Control {
    shared: Arc<Shared>,
    exit: watch::Receiver<Option<Exit>>,
    _wanted: DropGuard,
}

pub(super) struct Shared {
    socket: UnixStream,
    id: u64,
    keeper: Arc<Inner>,
    /// The waiters for replies, by number; `None` once no reply will come.
    asked: Mutex<Option<HashMap<u32, oneshot::Sender<Answer>>>>,
    next: AtomicU32,
    /// Held while an order is sent, so that orders don't mix.
    sending: tokio::sync::Mutex<()>,
    life: Life,
    /// Dropped once nothing is left of the tree.
    held: Mutex<Option<Box<dyn Any + Send + Sync>>>,
    lending: Mutex<Lending>,
}

/// Whether anything may be left of a process and of everything it started. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Life {
    over: Arc<AtomicBool>,
}

impl Life {
    /// Returns whether all its processes are gone for good.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Release);
    }
}

/// The outcome of a request to start a command.
pub(super) struct Begun {
    pub(super) reply: Reply,
    pub(super) terminal: Option<OwnedFd>,
    /// The supervisor's process id, as the kernel reports it.
    pub(super) supervisor: Option<u32>,
}

/// The reply to an order.
pub(super) struct Answer {
    pub(super) value: u64,
    pub(super) bytes: Vec<u8>,
}

impl Control {
    /// Listens to the supervisor of this number; the receiver resolves once its command has begun or failed.
    pub(super) fn new(socket: UnixStream, id: u64, keeper: Arc<Inner>) -> (Self, oneshot::Receiver<Begun>) {
        let (said, exit) = watch::channel(None);
        let (begin, begun) = oneshot::channel();
        let dropped = CancellationToken::new();
        let shared = Arc::new(Shared {
            socket,
            id,
            keeper,
            asked: Mutex::new(Some(HashMap::new())),
            next: AtomicU32::new(1),
            sending: tokio::sync::Mutex::default(),
            life: Life::default(),
            held: Mutex::default(),
            lending: Mutex::default(),
        });
        tokio::spawn(listen(shared.clone(), said, begin, dropped.clone()));
        (Self { shared, exit, _wanted: dropped.drop_guard() }, begun)
    }

    /// Sends the supervisor the command to start.
    pub(super) async fn request(&self, request: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<()> {
        send(&self.shared.socket, request, files).await
    }

    pub(super) fn life(&self) -> &Life {
        &self.shared.life
    }

    /// Keeps `held` until nothing is left of the tree.
    pub(super) fn hold(&self, held: Box<dyn Any + Send + Sync>) {
        *self.shared.held.lock() = Some(held);
    }

    /// Adds a file that the supervisor can hold while the command is quiet.
    pub(super) fn lends(&self, file: Arc<dyn Lendable>) {
        self.shared.lending.lock().add(file);
    }

    /// Lets the supervisor hold the files while the command is quiet.
    pub(super) fn lend_when_quiet(&self) {
        lending::count_awake(&self.shared);
    }

    /// Returns how the process ended, if it has.
    pub(super) fn exit(&self) -> Option<Exit> {
        *self.exit.borrow()
    }

    /// Waits until it has ended.
    pub(super) async fn exited(&self) -> Exit {
        let mut exit = self.exit.clone();
        // If the runtime has ended, no report will come.
        exit.wait_for(Option::is_some).await.ok().and_then(|it| *it).unwrap_or(Exit::Lost)
    }

    /// Sends an order to the supervisor. `None`: it has gone, or does not answer in time.
    pub(super) async fn ask(&self, order: Order, at_most: Duration) -> Option<Answer> {
        let number = self.shared.next.fetch_add(1, Ordering::Relaxed);
        let (to, answer) = oneshot::channel();
        self.shared.asked.lock().as_mut()?.insert(number, to);
        let answered = timeout(at_most, async {
            let sending = self.shared.sending.lock().await;
            // An order that can't be sent is to a supervisor that has just ended. Its reader notices that, too, and then
            // nothing is waited for any more; a caller that returned before would take the supervisor for one that hangs.
            let _ = send(&self.shared.socket, &order.encode(number), &[]).await;
            drop(sending);
            answer.await.ok()
        });
        let answer = answered.await.ok().flatten();
        if answer.is_none()
            && let Some(asked) = self.shared.asked.lock().as_mut()
        {
            asked.remove(&number);
        }
        answer
    }

    /// Asks the keeper to kill the tree of a supervisor that does not answer, and waits until it has gone.
    pub(super) async fn give_up(&self) {
        self.shared.keeper.kill(self.shared.id).await;
        let _ = timeout(LEAVE, self.exited()).await;
    }

    /// Returns whether the supervisor has ended. Then nothing is left of its tree.
    pub(super) fn is_gone(&self) -> bool {
        self.shared.asked.lock().is_none()
    }
}

impl Shared {
    /// Lends the files to the supervisor.
    pub(super) async fn lend(&self) {
        let (which, files) = self.lending.lock().go();
        if files.is_empty() {
            return;
        }
        let sent = timeout(HEAR, async {
            let _sending = self.sending.lock().await;
            let borrowed = lending::borrowed(&files);
            send(&self.socket, &Order::Hold { which }.encode(0), &borrowed).await
        });
        if !matches!(sent.await, Ok(Ok(()))) {
            self.lending.lock().not_sent();
        }
    }
}

/// Receives the supervisor's messages until it ends.
async fn listen(
    shared: Arc<Shared>,
    exit: watch::Sender<Option<Exit>>,
    begin: oneshot::Sender<Begun>,
    dropped: CancellationToken,
) {
    let receiving = receive_reports(&shared, &exit, begin);
    tokio::pin!(receiving);
    tokio::select! {
        () = &mut receiving => {}
        () = dropped.cancelled() => leave(&shared, receiving).await,
        () = shared.keeper.gone() => {
            // In a PID namespace it has ended with the keeper; elsewhere it ends when it notices. Messages
            // that it sent before can still be read.
            let over = timeout(Duration::ZERO, &mut receiving).await.is_ok();
            exit.send_if_modified(|it| it.is_none().then(|| *it = Some(Exit::Lost)).is_some());
            if !over {
                leave(&shared, receiving).await;
            }
        }
    }
    *shared.asked.lock() = None;
    shared.lending.lock().end();
    shared.life.end();
    let held = shared.held.lock().take();
    drop(held);
    exit.send_if_modified(|it| it.is_none().then(|| *it = Some(Exit::Lost)).is_some());
}

/// Tells the supervisor to kill its tree and end, and enforces that.
async fn leave(shared: &Arc<Shared>, receiving: impl Future<Output = ()>) {
    let _ = rustix::net::shutdown(&shared.socket, rustix::net::Shutdown::Write);
    if timeout(LEAVE, receiving).await.is_err() {
        shared.keeper.kill(shared.id).await;
    }
}

async fn receive_reports(
    shared: &Arc<Shared>,
    exit: &watch::Sender<Option<Exit>>,
    begin: oneshot::Sender<Begun>,
) {
    let mut files = Vec::new();
    let mut supervisor = None;
    let Ok(begun) = reply_from(&shared.socket, &mut files, &mut supervisor).await else { return };
    // The receiver may have been dropped.
    let _ = begin.send(Begun { reply: begun, terminal: files.pop(), supervisor });
    while let Ok(reply) = reply(&shared.socket, &mut files).await {
        let ended = match reply {
            Reply::Exited(code) => Exit::Code(code),
            Reply::Killed(signal) => Exit::Signal(signal),
            Reply::Answer { number, value, bytes } => {
                let Ok(bytes) = payload(&shared.socket, bytes).await else { return };
                let asked = shared.asked.lock().as_mut().and_then(|it| it.remove(&number));
                if let Some(asked) = asked {
                    let _ = asked.send(Answer { value, bytes });
                }
                continue;
            }
            Reply::Holds => {
                shared.lending.lock().gone();
                continue;
            }
            Reply::Back { which } => {
                if shared.lending.lock().back(which, std::mem::take(&mut files)) {
                    lending::count_awake(shared);
                }
                continue;
            }
            Reply::Started(_) | Reply::Failed(_) => return,
        };
        exit.send_if_modified(|it| it.is_none().then(|| *it = Some(ended)).is_some());
    }
}

async fn payload(socket: &UnixStream, length: u64) -> io::Result<Vec<u8>> {
    if length > LONGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; length as usize];
    receive(socket, &mut bytes, &mut Vec::new()).await?;
    Ok(bytes)
}
