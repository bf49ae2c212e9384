//! The thread that answers stopped calls of all commands of a sandbox.

use std::{
    cell::LazyCell,
    collections::HashMap,
    io,
    mem::MaybeUninit,
    os::fd::{AsFd, OwnedFd},
    path::PathBuf,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use kit::procs::Lendable;
use parking_lot::Mutex;
use rustix::event::{EventfdFlags, epoll, eventfd};
use tokio::sync::watch;

use super::{
    between::{Between, Opener, Opening},
    calls::Change,
    changes::{self, Recording, Stop, Subject},
    hold::{Process, Wake},
    ignored::Ignored,
    log::{Level, Log},
    logs::{Call, Logs, Use},
    open_files::{OpenFiles, link_early},
    resolve::{Looking, Roots, TreeRoot},
    system::{self, Stopped},
};

/// The number of the descriptor that wakes the thread; trees count from 1.
const WAKE: u64 = 0;

/// The tracker of one sandbox. Cheap to clone; its thread ends with the last process that it tracks.
#[derive(Clone)]
pub struct Tracker {
    handle: Arc<Handle>,
}

struct Handle {
    shared: Arc<Shared>,
}

struct Shared {
    epoll: OwnedFd,
    wake: OwnedFd,
    logs: Logs,
    roots: Roots,
    ignored: Mutex<Ignored>,
    /// Opens calls for changes of processes that work for none.
    opener: Arc<OnceLock<Opener>>,
    next: AtomicU64,
    /// Trees that the thread has not taken up yet.
    coming: Mutex<Vec<Arc<Tree>>>,
    /// Calls that wait until a log is free.
    waiting: Mutex<Vec<Waiting>>,
    /// Trees whose listener ended with their supervisor.
    lost: Mutex<Vec<u64>>,
    /// Whether no further tree will come.
    closing: AtomicBool,
}

/// A tree of processes that have one filter.
struct Tree {
    number: u64,
    /// `None` while its supervisor holds it.
    listener: Mutex<Option<Arc<OwnedFd>>>,
    root: TreeRoot,
    calls: Mutex<Calls>,
    /// Whether it works for several calls, one after the other.
    is_lasting: AtomicBool,
    open: Mutex<OpenFiles>,
    over: watch::Sender<bool>,
}

/// The calls for which a tree works.
#[derive(Default)]
struct Calls {
    /// The call that started it, as long as it has worked for that one only.
    owner: Option<Use>,
    /// The calls that it works for at present.
    present: Vec<Use>,
    /// The last one: what it changes without a call is counted to this, unless content would be lost.
    last: Option<Arc<Call>>,
    between: Between,
}

/// A stopped call.
#[derive(Clone)]
struct Waiting {
    tree: Arc<Tree>,
    listener: Arc<OwnedFd>,
    stopped: Stopped,
}

impl Waiting {
    /// Describes the process, for a question about what it is about to do.
    fn process(&self) -> Process {
        let (listener, stopped) = (self.listener.clone(), self.stopped);
        let name = std::fs::read_to_string(format!("/proc/{}/comm", stopped.thread)).unwrap_or_default();
        Process {
            program: name.trim_end().to_owned(),
            waits: Box::new(move || system::waits(listener.as_fd(), &stopped)),
        }
    }
}

/// The tracked processes of one command, or of one that works for several calls. Cheap to clone.
#[derive(Clone)]
pub struct Tracked {
    tree: Arc<Tree>,
    shared: Arc<Shared>,
}

/// A time in which a process works for a call. Ends when it is dropped.
pub struct During {
    tree: Arc<Tree>,
    shared: Arc<Shared>,
    call: Arc<Call>,
}

impl Tracker {
    /// Whether changes can be tracked on this system.
    pub const IS_AVAILABLE: bool = true;

    /// Starts a thread that tracks changes in these folders.
    ///
    /// # Errors
    /// Those of the system.
    pub fn start(logs: Logs, roots: &[PathBuf], opener: Arc<OnceLock<Opener>>) -> io::Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &wake, epoll::EventData::new_u64(WAKE), epoll::EventFlags::IN)?;
        let shared = Arc::new(Shared {
            epoll,
            wake,
            logs,
            roots: Roots::open(roots),
            ignored: Mutex::default(),
            opener,
            next: AtomicU64::new(WAKE + 1),
            coming: Mutex::default(),
            waiting: Mutex::default(),
            lost: Mutex::default(),
            closing: AtomicBool::new(false),
        });
        let thread = shared.clone();
        std::thread::Builder::new().name("tracker".to_owned()).spawn(move || thread.run())?;
        Ok(Self { handle: Arc::new(Handle { shared }) })
    }

    /// Tracks the processes of this listener, which a call started, or haft itself for later calls.
    ///
    /// # Errors
    /// Those of the system; then their calls fail.
    pub fn track(&self, listener: OwnedFd, call: Option<&str>) -> io::Result<Tracked> {
        let shared = &self.handle.shared;
        system::wake_beside(listener.as_fd());
        let number = shared.next.fetch_add(1, Ordering::Relaxed);
        let owner = call.map(|it| Use::new(shared.logs.call(it)));
        let last = owner.as_ref().map(|it| it.call.clone());
        let calls = Mutex::new(Calls { owner, present: Vec::new(), last, between: Between::Nobody });
        let tree = Arc::new(Tree {
            number,
            listener: Mutex::default(),
            root: TreeRoot::default(),
            calls,
            is_lasting: AtomicBool::new(false),
            open: Mutex::default(),
            over: watch::Sender::new(false),
        });
        shared.coming.lock().push(tree.clone());
        if let Err(error) = shared.listen(&tree, listener) {
            shared.coming.lock().retain(|it| it.number != number);
            return Err(error);
        }
        Ok(Tracked { tree, shared: shared.clone() })
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::Release);
        self.shared.wake();
    }
}

impl Tracked {
    /// Counts the changes of the processes to this call until the result is dropped. With several calls at
    /// once, they are in the log of each, as mixed.
    pub fn during(&self, call: &str) -> During {
        let call = self.shared.logs.call(call);
        self.tree.is_lasting.store(true, Ordering::Relaxed);
        self.tree.open.lock().begin(&self.shared.roots, &self.tree.root, &call);
        let mut calls = self.tree.calls.lock();
        calls.owner = None;
        calls.last = Some(call.clone());
        calls.between = Between::Nobody;
        // After its end it has nothing to settle.
        if !*self.tree.over.borrow() {
            calls.present.push(Use::new(call.clone()));
        }
        During { tree: self.tree.clone(), shared: self.shared.clone(), call }
    }

    /// Waits until none of the processes lives any more.
    pub async fn settled(&self) {
        let _ = self.tree.over.subscribe().wait_for(|it| *it).await;
    }
}

impl Lendable for Tracked {
    fn file(&self) -> Option<OwnedFd> {
        self.tree.listener.lock().as_ref()?.try_clone().ok()
    }

    fn release(&self) {
        if let Some(listener) = self.tree.listener.lock().take() {
            // While a copy of it is open, the kernel would go on to report what comes.
            let _ = epoll::delete(&self.shared.epoll, &listener);
        }
        self.tree.root.close();
    }

    fn resume(&self, file: OwnedFd) {
        if let Err(error) = self.shared.listen(&self.tree, file) {
            tracing::error!("the changes of a command are not received any more: {error}");
            self.lost();
        }
    }

    fn lost(&self) {
        self.shared.lost.lock().push(self.tree.number);
        self.shared.wake();
    }
}

impl Drop for During {
    fn drop(&mut self) {
        let (tree, shared, call) = (self.tree.clone(), self.shared.clone(), self.call.clone());
        if self.call.log.try_lock().is_some() {
            return tree.end_call(&shared, &call);
        }
        // A process still makes a long copy for it. Who ends the call may be a thread that many others wait for.
        let ending = std::thread::Builder::new().name("tracker-end".to_owned()).spawn(move || {
            drop(call.log.lock());
            tree.end_call(&shared, &call);
        });
        if ending.is_err() {
            self.tree.end_call(&self.shared, &self.call);
        }
    }
}

impl Tree {
    /// Ends a call of the processes, which go on. Waits for the call's log.
    fn end_call(&self, shared: &Shared, call: &Arc<Call>) {
        call.check_renames();
        let ended = self.open.lock().end(&shared.roots, &self.root, call);
        if let Err(error) = ended {
            tracing::error!(call = call.id(), "changes of open files are not in the call's log: {error}");
        }
        let mut calls = self.calls.lock();
        if let Some(at) = calls.present.iter().position(|it| Arc::ptr_eq(&it.call, call)) {
            calls.present.swap_remove(at);
        }
    }

    fn end(&self) {
        let mut calls = self.calls.lock();
        let uses = (calls.owner.take(), std::mem::take(&mut calls.present));
        let last = calls.last.take();
        let between = std::mem::take(&mut calls.between);
        drop(calls);
        let of_uses = uses.0.iter().chain(&uses.1).map(|it| &it.call);
        of_uses.chain(&last).for_each(|call| call.check_renames());
        self.over.send_replace(true);
        drop((uses, between));
    }
}

/// The outcome of taking up a stopped call.
enum Taken {
    Recorded,
    /// Another thread has a log.
    Busy,
    /// It takes a long copy.
    Long,
    /// It waits for a decision.
    Held,
    /// It was refused.
    Refused,
}

impl Shared {
    /// Receives what the listener of a tree reports.
    fn listen(&self, tree: &Tree, listener: OwnedFd) -> io::Result<()> {
        let mut kept = tree.listener.lock();
        let data = epoll::EventData::new_u64(tree.number);
        epoll::add(&self.epoll, &listener, data, epoll::EventFlags::IN)?;
        *kept = Some(Arc::new(listener));
        Ok(())
    }

    fn wake(&self) {
        // If the counter is full, the thread is about to wake.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    fn run(self: Arc<Self>) {
        let mut trees: HashMap<u64, Arc<Tree>> = HashMap::new();
        let mut events = [MaybeUninit::uninit(); 64];
        loop {
            let ready: Vec<(u64, epoll::EventFlags)> = match epoll::wait(&self.epoll, &mut events, None) {
                Ok((ready, _)) => ready.iter().map(|it| (it.data.u64(), it.flags)).collect(),
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => {
                    tracing::error!("changes are not tracked any more: {error}");
                    return;
                }
            };
            trees.extend(std::mem::take(&mut *self.coming.lock()).into_iter().map(|it| (it.number, it)));
            for (number, flags) in ready {
                if number == WAKE {
                    let _ = rustix::io::read(&self.wake, &mut [0; 8]);
                    let lost = std::mem::take(&mut *self.lost.lock());
                    lost.into_iter().filter_map(|it| trees.remove(&it)).for_each(|it| self.end(&it));
                    // Its lock ends here: what still can't go on is put back.
                    let waiting = std::mem::take(&mut *self.waiting.lock());
                    waiting.into_iter().for_each(|it| self.take_up(it));
                    continue;
                }
                let Some(tree) = trees.get(&number) else { continue };
                // Its supervisor may have it by now.
                let Some(listener) = tree.listener.lock().clone() else { continue };
                if flags.contains(epoll::EventFlags::IN) {
                    match system::receive(listener.as_fd()) {
                        Ok(Some(stopped)) => {
                            self.take_up(Waiting { tree: tree.clone(), listener, stopped });
                        }
                        Ok(None) => {}
                        Err(error) => tracing::warn!("a change was not received: {error}"),
                    }
                } else if flags.intersects(epoll::EventFlags::HUP | epoll::EventFlags::ERR) {
                    let _ = epoll::delete(&self.epoll, &listener);
                    *tree.listener.lock() = None;
                    self.end(tree);
                    trees.remove(&number);
                }
            }
            if self.closing.load(Ordering::Acquire) && trees.is_empty() && self.coming.lock().is_empty() {
                return;
            }
        }
    }

    /// Ends a tree: none of its processes lives any more.
    fn end(&self, tree: &Tree) {
        tree.end();
        self.roots.folders.clear();
        self.waiting.lock().retain(|it| it.tree.number != tree.number);
    }

    /// Records what a stopped call changes and lets it go on, or keeps it waiting.
    fn take_up(self: &Arc<Self>, waiting: Waiting) {
        match self.record(&waiting, false) {
            Taken::Long => {
                let (shared, long) = (self.clone(), waiting.clone());
                let thread = std::thread::Builder::new().name("tracker copy".to_owned()).spawn(move || {
                    let taken = shared.record(&long, true);
                    shared.answer(long, &taken);
                    // Its decision may be there by now.
                    shared.wake();
                });
                if let Err(error) = thread {
                    tracing::warn!("no thread for a long copy: {error}");
                    let taken = self.record(&waiting, true);
                    self.answer(waiting, &taken);
                }
            }
            taken => self.answer(waiting, &taken),
        }
    }

    /// Lets the process make its call, makes the call fail, or keeps it waiting.
    fn answer(&self, waiting: Waiting, taken: &Taken) {
        match taken {
            Taken::Recorded => system::go_on(waiting.listener.as_fd(), &waiting.stopped),
            Taken::Refused => system::fail(waiting.listener.as_fd(), &waiting.stopped, libc::EPERM),
            Taken::Busy | Taken::Held | Taken::Long => self.waiting.lock().push(waiting),
        }
    }

    /// Returns a function that has this tracker take up what waits.
    fn waker(self: &Arc<Self>) -> Wake {
        let shared = Arc::downgrade(self);
        Arc::new(move || {
            if let Some(shared) = shared.upgrade() {
                shared.wake();
            }
        })
    }

    /// Returns the calls to which a change belongs; `None` while one is being opened for it.
    fn calls_of(self: &Arc<Self>, tree: &Arc<Tree>, subject: &Subject) -> Option<Vec<Arc<Call>>> {
        let mut calls = tree.calls.lock();
        let of: Vec<_> = if !calls.present.is_empty() {
            calls.present.iter().map(|it| it.call.clone()).collect()
        } else if let Between::Is(between) = &calls.between {
            vec![between.call.clone()]
        } else if let (None, false, Some(opener)) =
            (&calls.owner, matches!(calls.between, Between::Failed), self.opener.get())
            && loses(subject, calls.last.as_deref())
        {
            let after = calls.last.as_ref().map(|it| it.id().to_owned());
            let is_asked = matches!(std::mem::replace(&mut calls.between, Between::Asked), Between::Asked);
            drop(calls);
            if !is_asked {
                opener(self.opening(tree, after));
            }
            return None;
        } else {
            calls.last.iter().cloned().collect()
        };
        Some(of.into_iter().map(Call::present).collect())
    }

    fn opening(self: &Arc<Self>, tree: &Arc<Tree>, after: Option<String>) -> Opening {
        let (shared, tree) = (Arc::downgrade(self), Arc::downgrade(tree));
        let answer = move |call: Option<Arc<Call>>| {
            let (Some(shared), Some(tree)) = (shared.upgrade(), tree.upgrade()) else { return };
            let mut calls = tree.calls.lock();
            // It may work for a call by now, or have ended.
            if matches!(calls.between, Between::Asked) && !*tree.over.borrow() {
                calls.between = call.map_or(Between::Failed, |it| Between::Is(Use::new(it)));
            }
            drop(calls);
            shared.wake();
        };
        Opening { after, answer: Some(Box::new(answer)) }
    }

    fn record(self: &Arc<Self>, waiting: &Waiting, may_be_long: bool) -> Taken {
        let Waiting { tree, listener, stopped } = waiting;
        let Some(change) = Change::of(stopped.call, stopped.arguments) else { return Taken::Recorded };
        let looking = Looking { roots: &self.roots, root: &tree.root, thread: stopped.thread };
        let subject = changes::subject(&looking, change);
        if matches!(subject, Subject::Hidden) {
            return Taken::Refused;
        }
        if matches!(subject, Subject::Nothing) || !system::waits(listener.as_fd(), stopped) {
            return Taken::Recorded;
        }
        let Some(calls) = self.calls_of(tree, &subject) else { return Taken::Held };
        if matches!(change, Change::Open { .. }) && tree.is_lasting.load(Ordering::Relaxed) {
            tree.open.lock().add(stopped.thread);
        }
        let git = LazyCell::new(|| looking.runs_git());
        for call in &calls {
            let log = if may_be_long { Some(call.log.lock()) } else { call.log.lock_or_wake(|| self.waker()) };
            let Some(mut log) = log else { return Taken::Busy };
            let Some(log) = opened(&mut log, call) else { continue };
            log.mixed(calls.iter().filter(|it| !Arc::ptr_eq(it, call)).map(|it| it.id()));
            let mut recording = Recording {
                log,
                ignored: &self.ignored,
                git: &|| *git,
                decision: &|file| call.decision(file),
                decide: &|losing| call.decide(losing, || waiting.process(), || self.waker()),
                may_be_long,
                thread: stopped.thread,
            };
            match recording.add(&subject) {
                Ok(()) => {}
                Err(Stop::Long) => return Taken::Long,
                Err(Stop::Held) => return Taken::Held,
                Err(Stop::Refused) => return Taken::Refused,
            }
            match log.write() {
                Ok(counted) => call.count(&counted),
                Err(error) => {
                    tracing::error!(call = call.id(), "a change is not in the call's log: {error}");
                    call.count(&super::Totals { unknown: 1, ..Default::default() });
                }
            }
        }
        Taken::Recorded
    }
}

/// Returns whether a change may lose content that the last call of its process has not kept.
fn loses(subject: &Subject, last: Option<&Call>) -> bool {
    let place = match subject {
        Subject::Gone(place, _) | Subject::Written { place, append: false, .. } => place,
        Subject::Moved { .. } => return true,
        _ => return false,
    };
    let level = |call: &Call| call.log.try_lock().and_then(|log| log.as_ref()?.level(&place.path()));
    last.and_then(level) < Some(Level::Whole)
}

/// Returns the log of a call, which is opened at its first change.
fn opened<'a>(log: &'a mut Option<Log>, call: &Call) -> Option<&'a mut Log> {
    if log.is_none() {
        match Log::open(call.folder(), call.bounds) {
            Ok(mut open) => {
                link_early(&mut open, call);
                *log = Some(open);
            }
            Err(error) => {
                tracing::error!(call = call.id(), "the log of its changes can't be opened: {error}");
                call.count(&super::Totals { unknown: 1, ..Default::default() });
            }
        }
    }
    log.as_mut()
}
