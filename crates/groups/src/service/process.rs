//! Processes of members that have one of their own, as the group's process sees them.
//!
//! A member's process opens the session, and runs its turns with the group's budget and in the group's name. It ends with the
//! group's process, and its own end is a failure of the member that reaches whoever started it.

use std::{
    collections::VecDeque,
    io::{self, BufRead as _, BufReader},
    os::{
        fd::OwnedFd,
        unix::{net::UnixStream as Socket, process::CommandExt as _},
    },
    process::{Child, ChildStderr, ExitStatus, Stdio},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use kit::{Fault, Kind, services::Groups as _};
use parking_lot::Mutex;
use serde_json::json;
use sessions::Failure;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader as AsyncBufReader},
    net::{UnixStream, unix::OwnedReadHalf},
    sync::{oneshot, watch},
};
use tokio_util::sync::CancellationToken;

use super::{Counter as _, GroupOf, Inner, blocking};
use crate::{
    protocol::{Hello, Link, ToGroup, ToMember},
    runtime_prompt::block,
    status::Status,
};

/// How long a process may take to open its session.
const START: Duration = Duration::from_secs(60);

/// The longest time that a process takes to end, before it is killed.
const END: Duration = Duration::from_secs(5);

/// How long a process may take for an answer. One that is suspended gives none.
const ANSWER: Duration = Duration::from_secs(2);

/// Pause between two looks at a process that is about to end.
const LOOK: Duration = Duration::from_millis(5);

/// Numbers of the first and the last lines of standard error that are in the report of a failure.
const FIRST_LINES: usize = 3;
const LAST_LINES: usize = 3;

/// The process of one member.
pub(super) struct Process {
    link: Link<ToMember>,
    /// Whether it is to end.
    ends: AtomicBool,
    /// Kills it.
    kill: CancellationToken,
    /// Whether it has ended.
    ended: watch::Receiver<bool>,
}

/// The answer to whether the session is open.
pub(super) type Opening = oneshot::Receiver<Result<(), Fault>>;

/// The first and the last lines that a process wrote to standard error.
#[derive(Default)]
struct Words {
    first: Vec<String>,
    last: VecDeque<String>,
    left_out: usize,
}

impl Words {
    fn add(&mut self, line: String) {
        if self.first.len() < FIRST_LINES {
            return self.first.push(line);
        }
        self.last.push_back(line);
        if self.last.len() > LAST_LINES {
            self.last.pop_front();
            self.left_out += 1;
        }
    }

    fn lines(&self) -> Vec<&str> {
        let between = (self.left_out > 0).then_some("…");
        self.first
            .iter()
            .map(String::as_str)
            .chain(between)
            .chain(self.last.iter().map(String::as_str))
            .collect()
    }
}

type LastWords = Arc<Mutex<Words>>;

impl Process {
    /// Starts the process of a member. It is ready once its session is [open](Self::is_open).
    pub(super) fn start(inner: &Arc<Inner>, id: &str) -> Result<(Arc<Self>, Opening), Fault> {
        let hello = hello_of(inner, id)?;
        let name = hello.name.clone();
        let command = inner.maker.process(&inner.name, id)?;
        let (child, socket, words) = spawn(command).map_err(|error| {
            Fault::new(Kind::Unavailable, format!("the process of `{name}` can't be started: {error}"))
        })?;
        let (read, write) = socket.into_split();
        let (is_over, ended) = watch::channel(false);
        let process = Arc::new(Self {
            link: Link::new(write),
            ends: AtomicBool::new(false),
            kill: CancellationToken::new(),
            ended,
        });
        let (begun, opening) = oneshot::channel();
        let serving = Serving {
            inner: Arc::downgrade(inner),
            process: Arc::downgrade(&process),
            id: id.to_owned(),
            session: hello.session.clone(),
            kill: process.kill.clone(),
            begun: Some(begun),
        };
        process.link.send(ToMember::Hello(Box::new(hello)));
        tokio::spawn(serving.run(read, child, words, is_over));
        Ok((process, opening))
    }

    /// Waits until its session is open.
    pub(super) async fn is_open(opening: Opening) -> Result<(), Fault> {
        let ended = |_| Err(Fault::new(Kind::Unavailable, "its process ended"));
        tokio::time::timeout(START, opening)
            .await
            .unwrap_or_else(|_| {
                let what = format!("its process did not open its session within {} s", START.as_secs());
                Ok(Err(Fault::new(Kind::Timeout, what)))
            })
            .unwrap_or_else(ended)
    }

    /// Sets whether messages begin turns there. It holds once [`owes_jobs`](Self::owes_jobs) has answered.
    pub(super) fn set_gate(&self, open: bool) {
        self.link.send(ToMember::Gate(open));
    }

    /// Replaces the block about the group in its system prompt.
    pub(super) fn set_block(&self, block: Option<String>) {
        self.link.send(ToMember::Block(block));
    }

    /// Returns whether results of jobs were promised to its model, or it does not answer. All that was sent before is done then.
    pub(super) async fn owes_jobs(&self) -> bool {
        let answer = self.link.ask(|id| ToMember::OwesJobs { id });
        tokio::time::timeout(ANSWER, answer).await.map_or(true, |it| it.unwrap_or(false))
    }

    /// From now on its end is not a failure.
    pub(super) fn is_to_end(&self) {
        self.ends.store(true, Ordering::Release);
    }

    /// Waits until the process has ended; kills it if it does not.
    pub(super) async fn end(&self) {
        self.is_to_end();
        self.link.send(ToMember::End);
        let mut ended = self.ended.clone();
        let is_over = async move { drop(ended.wait_for(|it| *it).await) };
        tokio::pin!(is_over);
        if tokio::time::timeout(END, &mut is_over).await.is_err() {
            self.kill.cancel();
            is_over.await;
        }
    }
}

impl Drop for Process {
    /// A process that nobody holds any more is killed.
    fn drop(&mut self) {
        self.kill.cancel();
    }
}

fn hello_of(inner: &Inner, id: &str) -> Result<Hello, Fault> {
    let (is_attended, configuration) = (inner.maker.is_attended(), inner.maker.configuration());
    let state = inner.state.lock();
    let live = state.live.get(id).ok_or_else(|| Fault::bug("a member without a state"))?;
    Ok(Hello {
        session: live.session.clone(),
        name: state.topology.name(id).to_owned(),
        is_privileged: state.topology.is_privileged(id),
        is_attended,
        spec: live.spec.clone(),
        block: block(&state.topology, id),
        gate: !live.standing.paused,
        configuration,
    })
}

/// Starts the process with a socket as its standard input.
fn spawn(mut command: std::process::Command) -> io::Result<(Child, UnixStream, LastWords)> {
    let (ours, theirs) = Socket::pair()?;
    ours.set_nonblocking(true)?;
    // In a process group of its own: Ctrl-C is for the process of the group, which ends it.
    command.process_group(0).stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    // The command holds the other end, too.
    drop(command);
    let words = LastWords::default();
    if let Some(stderr) = child.stderr.take() {
        let words = words.clone();
        thread::Builder::new().name("stderr of a member".to_owned()).spawn(move || keep(stderr, &words))?;
    }
    Ok((child, UnixStream::from_std(ours)?, words))
}

fn keep(stderr: ChildStderr, words: &Mutex<Words>) {
    for line in BufReader::new(stderr).lines().map_while(Result::ok) {
        tracing::info!(line, "a member's process");
        words.lock().add(line);
    }
}

/// The task that reads what a process sends, until it ends.
struct Serving {
    inner: Weak<Inner>,
    process: Weak<Process>,
    id: String,
    session: String,
    kill: CancellationToken,
    begun: Option<oneshot::Sender<Result<(), Fault>>>,
}

impl Serving {
    async fn run(
        mut self,
        read: OwnedReadHalf,
        child: Child,
        words: LastWords,
        is_over: watch::Sender<bool>,
    ) {
        let mut lines = AsyncBufReader::new(read).lines();
        let Some(mut arrivals) = self.inner.upgrade().map(|it| it.store.inbox().arrivals(&self.session))
        else {
            return;
        };
        loop {
            tokio::select! {
                line = lines.next_line() => match line {
                    Ok(Some(line)) => self.take(&line),
                    Ok(None) | Err(_) => break,
                },
                Ok(()) = arrivals.changed() => {
                    if let Some(process) = self.process.upgrade() {
                        process.link.send(ToMember::Arrived);
                    }
                }
                () = self.kill.cancelled() => break,
            }
        }
        let kill = self.kill.clone();
        let status = blocking(move || Ok(end_of(child, &kill))).await;
        let why = reason(status.ok().and_then(Result::ok), &words.lock());
        is_over.send_replace(true);
        let process = self.process.upgrade();
        if let Some(process) = &process {
            process.link.hang_up();
        }
        if let Some(begun) = self.begun.take() {
            drop(begun.send(Err(Fault::new(Kind::Unavailable, why))));
        } else if let (Some(inner), Some(process)) = (self.inner.upgrade(), process)
            && !process.ends.load(Ordering::Acquire)
        {
            inner.process_ended(&self.id, &process, &why).await;
        }
    }

    fn take(&mut self, line: &str) {
        let (Some(inner), Some(process)) = (self.inner.upgrade(), self.process.upgrade()) else { return };
        let line = match serde_json::from_str(line) {
            Ok(line) => line,
            Err(error) => {
                return tracing::warn!(%error, id = self.id, "a line from a member's process can't be read");
            }
        };
        match line {
            ToGroup::Ready => self.begins(Ok(())),
            ToGroup::Failed(failure) => self.begins(Err(failure.into())),
            ToGroup::Answer { id, answer } => process.link.answered(id, answer),
            ToGroup::Arrived { recipient } => inner.store.inbox().notify(&recipient),
            ToGroup::Used { tokens, dollars } => inner.budget.add(tokens, dollars),
            ToGroup::Step { id } => {
                tokio::spawn(async move {
                    let answer = json!(inner.budget.take_step().await);
                    process.link.send(ToMember::Answer { id, answer });
                });
            }
            ToGroup::Act { id, act } => {
                let of = GroupOf { inner: self.inner.clone(), id: self.id.clone() };
                tokio::spawn(async move {
                    let answer = json!(of.act(act).await.map_err(|fault| Failure::from(&fault)));
                    process.link.send(ToMember::Answer { id, answer });
                });
            }
        }
    }

    fn begins(&mut self, how: Result<(), Fault>) {
        if let Some(begun) = self.begun.take() {
            drop(begun.send(how));
        }
    }
}

/// Waits until a process has ended, and kills it if it is to be killed or takes too long. Blocks.
fn end_of(mut child: Child, kill: &CancellationToken) -> io::Result<ExitStatus> {
    let until = Instant::now() + END;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if kill.is_cancelled() || Instant::now() >= until {
            child.kill()?;
            return child.wait();
        }
        thread::sleep(LOOK);
    }
}

fn reason(status: Option<ExitStatus>, words: &Words) -> String {
    let how = status.map_or_else(String::new, |it| format!(" ({it})"));
    match words.lines().as_slice() {
        [] => format!("its process ended{how}"),
        words => format!("its process ended{how}: {}", words.join("; ")),
    }
}

impl Inner {
    /// Records that the process of a member ended by itself. Its messages wait until it is started again.
    async fn process_ended(&self, id: &str, process: &Arc<Process>, why: &str) {
        {
            let mut state = self.state.lock();
            let Some(live) = state.live.get_mut(id) else { return };
            if !live.process.as_ref().is_some_and(|it| Arc::ptr_eq(it, process)) {
                return;
            }
            (live.is_down, live.handle, live.process) = (true, None, None);
            // Until whoever is above has the message about it, the group has something to do.
            live.standing.status = Status::Busy;
        }
        // What was logged until now still counts.
        self.read_to_end(id).await;
        if let Some(live) = self.state.lock().live.get_mut(id) {
            (live.follows, live.began) = (None, None);
        }
        match self.failed(id, why).await {
            Ok(true) => {}
            Ok(false) => drop(self.state.lock().unreported.insert(id.to_owned())),
            Err(fault) => {
                tracing::warn!(%fault, id, "the end of a member's process is not in the group's events");
            }
        }
        self.touch();
    }
}
