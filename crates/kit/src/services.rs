//! Traits of the runtime's services, through which tools use them.

mod agents;
mod confirm;
mod groups;
mod messages;
mod notes;
mod servers;
mod shares;
mod triggers;

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    future::Future,
    path::Path,
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::Value;

use crate::{
    Fault, Output, Spec,
    procs::{Process, Recording, Slice},
    references,
    text::{Content, Digest},
};

pub use crate::redact::Redact;
pub use agents::{Agents, NoAgent, ProfileInfo, Profiles, Question, Report, Task, TaskEnd};
pub use confirm::{Confirm, Matter, NobodyConfirms, Proposed, Review};
pub use groups::{
    ChannelChange, GroupAct, Groups, LifeChange, NewNode, NoGroup, PRIVILEGED_TOOLS, WireChange,
};
pub use messages::{
    ChannelInfo, ChannelRequest, Delivery, Kin, Messages, NoMessages, OtherAgent, Outgoing, OwnIdentity,
    Undelivered,
};
pub use notes::{Change, Fact, FoundMessage, Notes};
pub use servers::{NewServer, NoServers, ServerInfo, ServerState, Servers};
pub use shares::{NewShare, NoShares, Shared, Shares};
pub use triggers::{MadeTrigger, NewTrigger, NoTriggers, Triggers};

/// Keeps the content of files before they change, for undo.
pub trait History: Send + Sync {
    /// Called before a change is made, from any thread. `None` stands for "the file does not exist". The
    /// change is made only if this succeeds.
    ///
    /// # Errors
    /// When the before-image can't be kept.
    fn keep(&self, path: &Path, before: Option<&Content>, after: Option<&Content>) -> Result<(), Fault>;

    /// Like [`keep`](Self::keep), for new content that is too long to be held in memory: only its digest is known.
    ///
    /// # Errors
    /// When the before-image can't be kept, or such changes are not expected here.
    fn keep_long(&self, path: &Path, before: Option<&Content>, after: Digest) -> Result<(), Fault> {
        let _ = (before, after);
        Err(Fault::bug(format!("{} was to be changed where nothing keeps what it was", path.display())))
    }

    /// Called before a file or a symlink is replaced with its mode, or removed: an undo needs more than its content. The change
    /// is made only if this succeeds.
    ///
    /// # Errors
    /// When the before-image can't be kept, or such changes are not expected here.
    fn keep_node(&self, path: &Path) -> Result<(), Fault> {
        Err(Fault::bug(format!("{} was to be changed where nothing keeps what it was", path.display())))
    }

    /// Called after a change was made, from any thread. `before` is `None` if the file did not exist.
    fn landed(&self, path: &Path, before: Option<&Content>, after: After<'_>) {
        let _ = (path, before, after);
    }
}

/// The content of a file after a change.
#[derive(Debug, Clone, Copy)]
pub enum After<'a> {
    /// The file no longer exists.
    Gone,
    /// This content.
    Holds(&'a Content),
    /// This many bytes, which are not held in memory.
    Long(u64),
}

/// Reverts changes that calls of this session made.
pub trait Undo: Send + Sync {
    /// Reverts the changes that `which` names, and reports the result, file by file. A file that has changed
    /// since is left as it is, and the report shows how it differs.
    ///
    /// # Errors
    /// [`Kind::NotFound`](crate::Kind::NotFound) when there is nothing to undo.
    fn undo(&self, which: Which) -> Result<Output, Fault>;

    /// Returns the changes that can be undone, newest first, one line each.
    ///
    /// # Errors
    /// When the history can't be read.
    fn list(&self, limit: usize) -> Result<Output, Fault>;
}

/// The changes to undo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// All changes of the newest call that changed something.
    Last,
    /// All changes of this call.
    Call(String),
    /// The newest change of this file, given by its absolute path.
    File(std::path::PathBuf),
}

/// Receives the progress of a call. None of it reaches the model.
pub trait Progress: Send + Sync {
    /// Reports `done` of `total` steps, with a line for a person.
    fn report(&self, done: f64, total: Option<f64>, message: &str);
}

/// A boxed future, for traits.
pub type Soon<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The call itself, for its tool: its id as a job, and how it becomes one.
pub trait Caller: Send + Sync {
    /// Returns the id that this call has, or will have, as a job: such as `job_3`.
    fn job(&self) -> String;

    /// Publishes the call's output and process, for tools that watch it as a job.
    fn show(&self, live: Live);

    /// Resolves when the call has taken this long from now on, without the time that a person is asked about it.
    fn passed(&self, limit: Duration) -> Soon<'_, ()> {
        Box::pin(tokio::time::sleep(limit))
    }

    /// Answers now, and goes on in the background: the tool's final result becomes the result of the job. The
    /// locks are released, and neither the deadline nor the caller stops it any more. A call that is a job
    /// already has been answered: then this changes nothing.
    fn go_on(&self, answer: Output);

    /// Answers with this, and waits for the input that `continue_job` brings. One at a time.
    fn hand_over(&self, answer: Output) -> Soon<'_, Result<Value, Fault>>;
}

/// The output and the process of a running call, for others to watch.
#[derive(Clone, Default)]
pub struct Live {
    /// Its output until now. It can still be read when the job is over.
    pub output: Option<Arc<dyn Transcript>>,
    /// Its process, for writing input. The job drops it at its end.
    pub process: Option<Arc<Process>>,
    /// The source of its listening ports, if its process is not its own.
    pub listens: Option<Arc<dyn Listens>>,
}

/// Reports the ports on which a running call listens: a server is not expected to end.
pub trait Listens: Send + Sync {
    /// Returns the TCP ports.
    fn ports(&self) -> Soon<'_, Vec<u16>>;
}

/// The output of a job, readable while it is written: mostly a [`Recording`].
pub trait Transcript: Send + Sync {
    /// Returns the number of bytes written until now.
    fn total(&self) -> u64;

    /// Returns the newest `bytes` bytes.
    fn tail(&self, bytes: usize) -> Slice;

    /// Returns about `bytes` bytes from byte `from` on, in one piece. [`Slice::bytes`] gives their range: it
    /// begins later if the earlier ones are gone, and ends where to go on.
    fn read(&self, from: u64, bytes: usize) -> Slice;

    /// Waits until there are more than `seen` bytes, or the end. Returns false at the end.
    fn grown(&self, seen: u64) -> Soon<'_, bool>;
}

/// A slice that begins further back than this is cut in its middle by [`Recording::since`].
const IN_ONE_PIECE: u64 = 8 << 20;

impl Transcript for Recording {
    fn total(&self) -> u64 {
        Self::total(self)
    }

    fn tail(&self, bytes: usize) -> Slice {
        Self::tail(self, bytes)
    }

    fn read(&self, from: u64, bytes: usize) -> Slice {
        let rest = Self::total(self).saturating_sub(from).min(IN_ONE_PIECE);
        self.since(from, bytes.max(usize::try_from(rest).unwrap_or(bytes)))
    }

    fn grown(&self, seen: u64) -> Soon<'_, bool> {
        Box::pin(Self::grown(self, seen))
    }
}

/// The jobs of a session.
pub trait Jobs: Send + Sync {
    /// Returns all known jobs, oldest first.
    fn list(&self) -> Vec<Job>;

    /// Returns a job, by its id or its number. The caller has to tell the model about a job that is over or
    /// waits for input: no later answer carries a notification of it.
    ///
    /// # Errors
    /// [`Kind::NotFound`](crate::Kind::NotFound), with the existing ids.
    fn get(&self, id: &str) -> Result<Job, Fault>;

    /// Waits until `until` holds, the job is over or waits for input, or the time is up.
    ///
    /// # Errors
    /// Those of [`get`](Self::get), and [`Kind::BadArgs`](crate::Kind::BadArgs) for an invalid pattern.
    fn wait<'a>(&'a self, id: &'a str, until: Until, at_most: Duration) -> Soon<'a, Result<Waited, Fault>>;

    /// Stops a job with everything it started, and waits for its end. A job that is over stays as it is.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    fn stop<'a>(&'a self, id: &'a str) -> Soon<'a, Result<Job, Fault>>;

    /// Gives a waiting job its input, and waits for its next output or its result. After `at_most` the answer
    /// is that the job still runs.
    ///
    /// # Errors
    /// Those of [`get`](Self::get), [`Kind::Stale`](crate::Kind::Stale) when it waits for no input, and the
    /// job's own.
    fn go_on<'a>(&'a self, id: &'a str, input: Value, at_most: Duration) -> Soon<'a, Result<Output, Fault>>;
}

/// The present state of a job.
#[derive(Clone)]
pub struct Job {
    /// Its id: `job_3`.
    pub id: String,
    /// The tool that was called.
    pub tool: String,
    /// Its title for people: the command.
    pub title: String,
    /// Its state.
    pub state: State,
    /// How long it has run, or ran.
    pub took: Duration,
    /// Its output and its process.
    pub live: Live,
    /// Its output when it began to wait for input.
    pub said: Option<Arc<Output>>,
    /// Its result, as the model reads it, once it is over.
    pub result: Option<Arc<Result<Output, Fault>>>,
}

/// The state of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Waiting for its locks.
    Pending,
    /// Running.
    Running,
    /// Waiting for `continue_job`.
    Waiting,
    /// Over, successfully.
    Done,
    /// Over, with a fault.
    Error,
    /// Stopped.
    Cancelled,
}

impl State {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Waiting => "waiting for input",
            Self::Done => "done",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
        }
    }

    /// Returns whether it is final.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Done | Self::Error | Self::Cancelled)
    }
}

/// The condition that ends a wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Until {
    /// The end of the job.
    Exit,
    /// A line that matches this regular expression, in the output since the job began.
    Pattern(String),
    /// No output for this long.
    Quiet(Duration),
}

/// The outcome of a wait.
pub struct Waited {
    /// The job's present state.
    pub job: Job,
    /// Whether the condition was met.
    pub met: bool,
    /// The line that matched.
    pub line: Option<String>,
}

/// The tools of a session, for tools that manage tools.
pub trait Tools: Send + Sync {
    /// Returns the tools that are shown, in their order, and the files that could not be loaded.
    fn list(&self) -> Listed;

    /// Waits until the tool files and servers that are still being loaded are known, or known to be broken;
    /// 10 s at most.
    fn settled(&self) -> Soon<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Returns the manual of a tool beyond its description: the workspace's own, or that of a tool file.
    fn manual(&self, name: &str) -> Option<String>;

    /// Renders a text with the names of the tools that are shown, if it refers to tools: see [`references`].
    fn named(&self, text: &str) -> String {
        references::in_own_names(text).into_owned()
    }

    /// Records that the model was shown the manual of this tool. Tools that require this may be called from now on.
    fn explained(&self, name: &str);

    /// Reloads the folders of tools, and returns the result.
    fn reload(&self) -> Soon<'_, Reloaded>;

    /// Checks code for the Python tool `name`, without keeping any of it: parses it, looks for the required
    /// parts, and imports it where it would run.
    ///
    /// # Errors
    /// [`Kind::BadArgs`](crate::Kind::BadArgs) with everything that is missing, or the traceback.
    fn check<'a>(&'a self, name: &'a str, code: &'a str) -> Soon<'a, Result<Spec, Fault>>;

    /// Records that a model wrote or deleted the tool `name`, and loads it.
    ///
    /// # Errors
    /// When it can't be loaded: then the version before stays.
    fn rewritten<'a>(&'a self, name: &'a str) -> Soon<'a, Result<(), Fault>>;

    /// Calls a tool, as a call of its own: with its own rules, locks, deadline and journal entry. It stops
    /// when the returned future is dropped.
    fn call<'a>(&'a self, name: &'a str, arguments: Value) -> Soon<'a, Called>;
}

/// The tools of a session.
#[derive(Debug, Clone, Default)]
pub struct Listed {
    /// The tools that are shown, in their order.
    pub tools: Vec<Spec>,
    /// The files that could not be loaded.
    pub failed: Vec<NotLoaded>,
    /// Number of the workspace's files that are ignored until a person trusts it.
    pub aside: usize,
}

/// A tool file that could not be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotLoaded {
    /// The file, or the name that no tool has.
    pub file: String,
    /// The reason: the traceback, if there is one.
    pub why: String,
    /// Whether an earlier version of it is still used.
    pub older_serves: bool,
}

/// The outcome of a reload.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// The names of all tool files, in their order.
    pub loaded: Vec<String>,
    /// Those that are new or different.
    pub changed: Vec<String>,
    /// Those that were removed.
    pub gone: Vec<String>,
    /// The files that could not be loaded.
    pub failed: Vec<NotLoaded>,
    /// Number of the workspace's files that are ignored until a person trusts it.
    pub aside: usize,
    /// Notes for the person: which of two formats was taken, a name that occurs twice.
    pub notes: Vec<String>,
}

/// The outcome of a call that a tool made.
#[derive(Debug)]
pub struct Called {
    /// The result that the model would read.
    pub result: Result<Output, Fault>,
    /// The runtime's notes on it.
    pub notes: Vec<String>,
    /// The output that a successful Python file printed; it is in no other place.
    pub printed: Option<String>,
    /// How long it took.
    pub took: Duration,
}

/// State that tools keep in a session from one call to the next, one value of each type.
#[derive(Default)]
pub struct Shelf {
    slots: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
}

impl Shelf {
    /// Returns the value of this type, created at first use.
    pub fn get<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let slot =
            self.slots.lock().entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(T::default())).clone();
        // A slot holds a value of the type of its id.
        slot.downcast().unwrap_or_default()
    }

    /// Returns the value of this type, if there is one.
    pub fn find<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.slots.lock().get(&TypeId::of::<T>()).cloned()?.downcast().ok()
    }

    /// Replaces the value of this type.
    pub fn put<T: Send + Sync + 'static>(&self, value: Arc<T>) {
        self.slots.lock().insert(TypeId::of::<T>(), value);
    }

    /// Drops everything.
    pub fn clear(&self) {
        let slots = std::mem::take(&mut *self.slots.lock());
        drop(slots);
    }
}

/// Named secrets, for tools that send them to the hosts they belong to. The model never sees a value.
pub trait Vault: Send + Sync {
    /// Returns the value of this secret, for a request to this host.
    ///
    /// # Errors
    /// [`Kind::NotFound`](crate::Kind::NotFound) with the existing names;
    /// [`Kind::Denied`](crate::Kind::Denied) when it is not configured for that host.
    fn reveal(&self, name: &str, host: &str, port: u16) -> Result<String, Fault>;

    /// Returns whether it may be sent to this host without TLS. Only if a person named the host with this port.
    fn may_go_in_clear(&self, name: &str, host: &str, port: u16) -> bool {
        let _ = (name, host, port);
        false
    }
}
