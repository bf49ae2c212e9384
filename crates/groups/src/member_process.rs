//! One member of a group in a process of its own: opens its session, and runs its turns with the budget of the group.
//!
//! The process that runs the group starts it, with a socket as its standard input. What the group's process has in memory (the
//! graph, the budget, pauses) is asked for there; rows and messages are in the store. It ends when the other end of the
//! socket is gone.

use std::{
    io,
    os::{fd::OwnedFd, unix::net::UnixStream as Socket},
    sync::Arc,
    time::Duration,
};

use agent::Agent;
use kit::{
    Fault, Kind,
    services::{GroupAct, Groups, Soon},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use sessions::{Failure, Handle, Opened, Opener, Prepared, Sessions};
use store::Store;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines},
    net::{UnixStream, unix::OwnedReadHalf},
    sync::watch,
    time::{Instant, sleep},
};

use crate::{
    protocol::{Hello, Link, ToGroup, ToMember},
    service::{Counter, LiveAgent, Maker, Meter, NewAgent},
};

/// The lines of the group.
type Incoming = Lines<BufReader<OwnedReadHalf>>;

/// How long a process that ran the session before may take to end.
const BEFORE: Duration = Duration::from_secs(5);

/// Pause before a session that another process still has is opened again.
const AGAIN: Duration = Duration::from_millis(20);

/// Name under which the session is opened.
const GROUP: &str = "group";

/// How the process of a member comes to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The group ended the member, whose session is closed.
    Asked,
    /// The group's process is gone. The session has to stay as it is, as after a kill: the process ends at once.
    Alone,
}

/// The socket to the group.
pub struct GroupSocket(OwnedFd);

impl GroupSocket {
    /// Takes the socket, which is the standard input of this process, before anything else is started.
    ///
    /// # Errors
    /// When there is no standard input.
    pub fn take() -> io::Result<Self> {
        kit::procs::take_stdin().map(Self)
    }

    /// Waits until the group says which member this process runs.
    ///
    /// # Errors
    /// When there is no group at the other end of the socket.
    pub async fn join(self) -> Result<Joined, Fault> {
        let no_group = |why: &str| {
            Fault::bad_args(format!("standard input is not the socket of a group: {why}"))
                .next("Only `haft group run` starts the process of an agent.")
        };
        let (mut lines, link) = connected(self).map_err(|error| no_group(&error.to_string()))?;
        match next(&mut lines).await {
            Some(ToMember::Hello(hello)) => Ok(Joined { lines, link, hello: *hello }),
            _ => Err(no_group("nothing came")),
        }
    }
}

/// A process that a group has given a member to run.
pub struct Joined {
    lines: Incoming,
    link: Arc<Link<ToGroup>>,
    hello: Hello,
}

impl Joined {
    /// Returns the configuration of the group: see [`Maker::configuration`].
    pub fn configuration(&self) -> &Value {
        &self.hello.configuration
    }

    /// Runs the member until the group ends it.
    ///
    /// # Errors
    /// When the store can't be written.
    pub async fn run(self, store: Store, maker: Arc<dyn Maker>) -> Result<End, Fault> {
        let Self { lines, link, hello } = self;
        let end = serve(lines, link, hello, &store, maker).await;
        if end == End::Asked {
            store.flush().await?;
        }
        Ok(end)
    }
}

async fn serve(
    mut lines: Incoming,
    link: Arc<Link<ToGroup>>,
    hello: Hello,
    store: &Store,
    maker: Arc<dyn Maker>,
) -> End {
    let session = hello.session.clone();
    let member = Arc::new(Member::new(hello, link.clone(), maker));
    let mut arrivals = store.inbox().all_arrivals();
    let sessions = Sessions::new(store.clone(), GROUP, Some(member.clone()));
    // The session is open as long as this is there.
    let _handle = match open(&sessions, &session).await {
        Ok(handle) => {
            link.send(ToGroup::Ready);
            handle
        }
        Err(fault) => {
            link.send(ToGroup::Failed(Failure::from(&fault)));
            // The group reads it, and closes the socket.
            while next(&mut lines).await.is_some() {}
            return End::Asked;
        }
    };
    loop {
        let line = tokio::select! {
            line = next(&mut lines) => line,
            Some(recipient) = arrivals.next() => {
                if recipient != session {
                    link.send(ToGroup::Arrived { recipient });
                }
                continue;
            }
        };
        match line {
            None => {
                link.hang_up();
                return End::Alone;
            }
            Some(ToMember::End) => return End::Asked,
            Some(ToMember::Hello(_)) => {}
            Some(ToMember::Arrived) => store.inbox().notify(&session),
            Some(ToMember::Gate(open)) => drop(member.gate.send_replace(open)),
            Some(ToMember::Block(block)) => member.set_block(block),
            Some(ToMember::Answer { id, answer }) => link.answered(id, answer),
            Some(ToMember::OwesJobs { id }) => {
                let answer = json!(member.owes_jobs().await);
                link.send(ToGroup::Answer { id, answer });
            }
        }
    }
}

fn connected(socket: GroupSocket) -> io::Result<(Incoming, Arc<Link<ToGroup>>)> {
    let socket = Socket::from(socket.0);
    // Only a socket has a peer.
    socket.peer_addr()?;
    socket.set_nonblocking(true)?;
    let (read, write) = UnixStream::from_std(socket)?.into_split();
    Ok((BufReader::new(read).lines(), Arc::new(Link::new(write))))
}

/// Returns the next line; none at the end of the connection.
async fn next(lines: &mut Incoming) -> Option<ToMember> {
    loop {
        let line = lines.next_line().await.ok().flatten()?;
        match serde_json::from_str(&line) {
            Ok(line) => return Some(line),
            Err(error) => tracing::warn!(%error, "a line from the group's process can't be read"),
        }
    }
}

/// Opens the session in this process. One that ran it before, and was killed, may still be about to end.
async fn open(sessions: &Sessions, session: &str) -> Result<Handle, Fault> {
    let until = Instant::now() + BEFORE;
    loop {
        let opened = sessions.open(Some(session), GROUP).await;
        match opened {
            Ok(handle) if sessions.runs_here(session) => return Ok(handle),
            Ok(_) if Instant::now() >= until => {
                let what = format!("another process runs the session `{session}`");
                return Err(
                    Fault::new(Kind::Unavailable, what).next("Close it there, and start the agent again.")
                );
            }
            Ok(_) => sleep(AGAIN).await,
            Err(fault) => return Err(fault),
        }
    }
}

/// The member, as its session is opened.
struct Member {
    hello: Hello,
    link: Arc<Link<ToGroup>>,
    maker: Arc<dyn Maker>,
    meter: Meter,
    block: Arc<Mutex<Option<String>>>,
    gate: watch::Sender<bool>,
    agent: Mutex<Option<LiveAgent>>,
}

impl Member {
    fn new(hello: Hello, link: Arc<Link<ToGroup>>, maker: Arc<dyn Maker>) -> Self {
        let (block, gate) = (Arc::new(Mutex::new(hello.block.clone())), watch::Sender::new(hello.gate));
        let meter = Meter::new(Arc::new(Remote(link.clone())));
        Self { hello, link, maker, meter, block, gate, agent: Mutex::default() }
    }

    fn set_block(&self, block: Option<String>) {
        *self.block.lock() = block;
        if let Some(agent) = &*self.agent.lock() {
            agent.set_block(self.block.lock().as_deref());
        }
    }

    async fn owes_jobs(&self) -> bool {
        let agent = self.agent.lock().clone();
        match agent {
            Some(agent) => agent.owes_jobs().await,
            None => false,
        }
    }
}

impl Opener for Member {
    fn open(&self, prepared: &Prepared) -> Result<Opened, Fault> {
        let (hello, block) = (&self.hello, self.block.clone());
        if prepared.session() != hello.session {
            return Err(Fault::not_found(format!(
                "`{}` is not the member of this process",
                prepared.session()
            )));
        }
        let opened = self.maker.make(NewAgent {
            prepared,
            spec: &hello.spec,
            name: &hello.name,
            is_privileged: hello.is_privileged,
            is_attended: hello.is_attended,
            block: Arc::new(move || block.lock().clone()),
            groups: Arc::new(Remote(self.link.clone())),
            meter: self.meter.clone(),
            gate: self.gate.subscribe(),
        })?;
        *self.agent.lock() = Some(LiveAgent::of(&opened.agent));
        Ok(opened)
    }

    fn set_model(&self, agent: &Agent, name: &str) -> Result<(), Fault> {
        self.maker.set_model(agent, name, &self.meter)
    }

    fn keep(&self, agent: &Agent) -> Result<(), Fault> {
        self.maker.keep(agent)
    }
}

/// The group and its budget, in the group's process.
struct Remote(Arc<Link<ToGroup>>);

impl Groups for Remote {
    fn act(&self, act: GroupAct) -> Soon<'_, Result<Value, Fault>> {
        Box::pin(async move {
            let answer: Option<Result<Value, Failure>> = self.0.ask(|id| ToGroup::Act { id, act }).await;
            let ended = || Fault::new(Kind::Unavailable, "the group has ended");
            answer.ok_or_else(ended)?.map_err(Fault::from)
        })
    }
}

impl Counter for Remote {
    fn take_step(&self) -> Soon<'_, Result<(), String>> {
        Box::pin(async move {
            let answer = self.0.ask(|id| ToGroup::Step { id }).await;
            answer.unwrap_or_else(|| Err("the group has ended".to_owned()))
        })
    }

    fn add(&self, tokens: u64, dollars: f64) {
        self.0.send(ToGroup::Used { tokens, dollars });
    }
}
