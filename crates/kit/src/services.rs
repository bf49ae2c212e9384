//! Traits by which tools reach what the runtime keeps.

mod agents;
mod confirm;
mod notes;
mod servers;
mod shares;

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

pub use crate::redact::Mask;
pub use agents::{Agents, NoAgent, ProfileInfo, Profiles, Question, Report, Task, TaskEnd};
pub use confirm::{Confirm, Matter, NobodyConfirms, Proposed, Review};
pub use notes::{Change, Fact, Notes, Saying};
pub use servers::{NewServer, NoServers, ServerInfo, ServerState, Servers};
pub use shares::{NewShare, NoShares, Shared, Shares};

/// Keeps what a file held before it was changed, so that it can be put back.
pub trait History: Send + Sync {
    /// Called before a change lands, from any thread. `None` stands for "there is no such file".
    /// The change happens only if this worked.
    ///
    /// # Errors
    /// When the before-image can't be kept.
    fn keep(&self, path: &Path, before: Option<&Content>, after: Option<&Content>) -> Result<(), Fault>;

    /// The same for new content that is too long to be held in memory: what is known of it is its digest.
    ///
    /// # Errors
    /// When the before-image can't be kept, or such changes are not expected here.
    fn keep_long(&self, path: &Path, before: Option<&Content>, after: Digest) -> Result<(), Fault> {
        let _ = (before, after);
        Err(Fault::bug(format!("{} was to be changed where nothing keeps what it was", path.display())))
    }

    /// Called after a change has landed, from any thread. `before` is `None` where there was no such file.
    fn landed(&self, path: &Path, before: Option<&Content>, after: After<'_>) {
        let _ = (path, before, after);
    }
}

/// What a file holds after a change.
#[derive(Debug, Clone, Copy)]
pub enum After<'a> {
    /// There is no such file any more.
    Gone,
    /// This content.
    Holds(&'a Content),
    /// So many bytes, which are not held in memory.
    Long(u64),
}

/// Puts back what calls of this session changed.
pub trait Undo: Send + Sync {
    /// Reverts what `which` names, and says what it did, file by file. A file that
    /// moved on since is left as it is, and the report shows how it differs.
    ///
    /// # Errors
    /// [`Kind::NotFound`](crate::Kind::NotFound) when there is nothing to undo.
    fn undo(&self, which: Which) -> Result<Output, Fault>;

    /// The changes that can be undone, newest first, one line each.
    ///
    /// # Errors
    /// When the history can't be read.
    fn list(&self, limit: usize) -> Result<Output, Fault>;
}

/// Which changes to undo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// All changes of the newest call that changed something.
    Last,
    /// All changes of this call.
    Call(String),
    /// The newest change of this file, given by its absolute path.
    File(std::path::PathBuf),
}

/// Hears how far a call has come. None of it reaches the model.
pub trait Progress: Send + Sync {
    /// `done` of `total` steps, with a line for a person.
    fn report(&self, done: f64, total: Option<f64>, message: &str);
}

/// A future that a trait gives.
pub type Soon<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The call itself, as its tool sees it: how it becomes a job.
pub trait Caller: Send + Sync {
    /// The id that this call has, or will have, as a job: such as `job_3`.
    fn job(&self) -> String;

    /// Shows what the call has in hand to whoever looks at it as a job.
    fn show(&self, live: Live);

    /// Answers now, and goes on in the background: what the tool returns in the end is the result
    /// of the job. The locks are given back, and neither the deadline nor the caller stops it any more.
    /// A call that is a job already has been answered: then this changes nothing.
    fn go_on(&self, answer: Output);

    /// Answers with this, and waits for the input that `continue_job` brings. One at a time.
    fn hand_over(&self, answer: Output) -> Soon<'_, Result<Value, Fault>>;
}

/// What a running call has in hand, for others to look at.
#[derive(Clone, Default)]
pub struct Live {
    /// What it wrote until now. It stays to be read when the job is over.
    pub output: Option<Arc<dyn Transcript>>,
    /// Its process, which input can be written to. The job lets go of it at its end.
    pub process: Option<Arc<Process>>,
    /// What tells whether it listens on a port, where its process is not its own.
    pub listens: Option<Arc<dyn Listens>>,
}

/// Tells on which ports a running call listens: a server is not expected to end.
pub trait Listens: Send + Sync {
    /// The TCP ports.
    fn ports(&self) -> Soon<'_, Vec<u16>>;
}

/// What a job writes, for others to read while it does: a [`Recording`], mostly.
pub trait Transcript: Send + Sync {
    /// How many bytes were written until now.
    fn total(&self) -> u64;

    /// The newest `bytes` bytes.
    fn tail(&self, bytes: usize) -> Slice;

    /// What was written from byte `from` on, about `bytes` of it, in one piece. [`Slice::bytes`] says which
    /// bytes those are: they begin later when the earlier ones are gone, and end where to go on.
    fn read(&self, from: u64, bytes: usize) -> Slice;

    /// Waits until there are more than `seen` bytes, or nothing more will come. False: nothing more will.
    fn grown(&self, seen: u64) -> Soon<'_, bool>;
}

/// A look further back than this is cut in its middle by [`Recording::since`].
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

/// The jobs of a session: calls seen from outside.
pub trait Jobs: Send + Sync {
    /// All that are known, oldest first.
    fn list(&self) -> Vec<Job>;

    /// One of them, by its id or its number. Whoever asks for a job that is over, or waits for input,
    /// tells the model so: no later answer carries a note of it.
    ///
    /// # Errors
    /// [`Kind::NotFound`](crate::Kind::NotFound), with the ids there are.
    fn get(&self, id: &str) -> Result<Job, Fault>;

    /// Waits until `until` holds, the job is over or waits for input, or the time is up.
    ///
    /// # Errors
    /// Those of [`get`](Self::get), and [`Kind::BadArgs`](crate::Kind::BadArgs) when the pattern is none.
    fn wait<'a>(&'a self, id: &'a str, until: Until, at_most: Duration) -> Soon<'a, Result<Waited, Fault>>;

    /// Ends a job with all it started, and waits until that is so. One that is over stays as it is.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    fn stop<'a>(&'a self, id: &'a str) -> Soon<'a, Result<Job, Fault>>;

    /// Gives a job that waits for input its input, and waits for what it answers: its next output, or its
    /// result. After `at_most` it says that the job still runs.
    ///
    /// # Errors
    /// Those of [`get`](Self::get), [`Kind::Stale`](crate::Kind::Stale) when it waits for no input, and the
    /// job's own.
    fn go_on<'a>(&'a self, id: &'a str, input: Value, at_most: Duration) -> Soon<'a, Result<Output, Fault>>;
}

/// A job as it is now.
#[derive(Clone)]
pub struct Job {
    /// Its id: `job_3`.
    pub id: String,
    /// The tool that was called.
    pub tool: String,
    /// What a person calls it: the command.
    pub title: String,
    /// What became of it.
    pub state: State,
    /// How long it has run, or ran.
    pub took: Duration,
    /// What it has in hand.
    pub live: Live,
    /// What it said when it began to wait for input.
    pub said: Option<Arc<Output>>,
    /// Its result, once it is over: what the model reads of it.
    pub result: Option<Arc<Result<Output, Fault>>>,
}

/// What became of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It waits for its locks.
    Pending,
    /// It runs.
    Running,
    /// It waits for `continue_job`.
    Waiting,
    /// It is over, and worked.
    Done,
    /// It is over, and did not work.
    Error,
    /// It was stopped.
    Cancelled,
}

impl State {
    /// The word for it.
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

    /// Will it change no more?
    pub fn is_over(self) -> bool {
        matches!(self, Self::Done | Self::Error | Self::Cancelled)
    }
}

/// What is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Until {
    /// The end of the job.
    Exit,
    /// A line that matches this regular expression, in what was written since the job began.
    Pattern(String),
    /// Nothing was written for this long.
    Quiet(Duration),
}

/// Why a wait is over.
pub struct Waited {
    /// The job as it is now.
    pub job: Job,
    /// Whether what was waited for came about.
    pub met: bool,
    /// The line that matched.
    pub line: Option<String>,
}

/// The tools of a session, for tools that deal in tools.
pub trait Tools: Send + Sync {
    /// Those that are shown, in their order, and what could not be loaded.
    fn list(&self) -> Listed;

    /// Waits until the tool files and servers that are still being loaded are known, or known to be broken; 10 s at most.
    fn settled(&self) -> Soon<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// What there is to say of a tool beyond its description, where somebody wrote it down: the workspace's own manual
    /// of it, or what a tool that is a file says of itself.
    fn manual(&self, name: &str) -> Option<String>;

    /// The text with the names of the tools that are shown, where it refers to tools: see [`references`].
    fn named(&self, text: &str) -> String {
        references::in_own_names(text).into_owned()
    }

    /// The model was shown the manual of this tool: what may be called only after that, may be called from now on.
    fn explained(&self, name: &str);

    /// Looks at the folders of tools again, and gives what that came to.
    fn reload(&self) -> Soon<'_, Reloaded>;

    /// Tries code that is meant to be the Python tool `name`, without keeping any of it: reads it with Python's own
    /// parser, looks for what a tool must have, imports it where it would run.
    ///
    /// # Errors
    /// [`Kind::BadArgs`](crate::Kind::BadArgs) with everything that is missing, or the traceback.
    fn check<'a>(&'a self, name: &'a str, code: &'a str) -> Soon<'a, Result<Spec, Fault>>;

    /// Takes note that the tool `name` is now what a model wrote, or is gone, and loads it.
    ///
    /// # Errors
    /// When it can't be loaded: then what there was before goes on.
    fn rewritten<'a>(&'a self, name: &'a str) -> Soon<'a, Result<(), Fault>>;

    /// Calls a tool, as a call of its own: with its own rules, locks, deadline and place in the journal. It stops
    /// when the returned future is dropped.
    fn call<'a>(&'a self, name: &'a str, arguments: Value) -> Soon<'a, Called>;
}

/// The tools there are.
#[derive(Debug, Clone, Default)]
pub struct Listed {
    /// Those that are shown, in their order.
    pub tools: Vec<Spec>,
    /// What could not be loaded.
    pub failed: Vec<NotLoaded>,
    /// So many files of the workspace are ignored until a person trusts it.
    pub aside: usize,
}

/// A file that is meant to be a tool, and could not be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotLoaded {
    /// The file, or the name that no tool has.
    pub file: String,
    /// Why: the traceback, where there is one.
    pub why: String,
    /// An earlier version of it goes on.
    pub older_serves: bool,
}

/// What became of the tools when their folders were looked at again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// The names of the tools that are files, in their order.
    pub loaded: Vec<String>,
    /// Those of them that are new or different.
    pub changed: Vec<String>,
    /// Those that are gone.
    pub gone: Vec<String>,
    /// What could not be loaded.
    pub failed: Vec<NotLoaded>,
    /// So many files of the workspace are ignored until a person trusts it.
    pub aside: usize,
    /// What else a person should know: which of two formats was taken, a name that occurs twice.
    pub notes: Vec<String>,
}

/// What came of a call that a tool made.
#[derive(Debug)]
pub struct Called {
    /// What the model would read.
    pub result: Result<Output, Fault>,
    /// What the runtime says of it.
    pub notes: Vec<String>,
    /// What it printed, where it is a Python file that worked: nobody else is told.
    pub printed: Option<String>,
    /// How long it took.
    pub took: Duration,
}

/// What tools keep in a session from one call to the next, one value of each type.
#[derive(Default)]
pub struct Shelf {
    slots: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
}

impl Shelf {
    /// The value of this type, made at first use.
    pub fn get<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let slot =
            self.slots.lock().entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(T::default())).clone();
        // What lies under a type's id is of that type.
        slot.downcast().unwrap_or_default()
    }

    /// The value of this type, if there is one.
    pub fn find<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.slots.lock().get(&TypeId::of::<T>()).cloned()?.downcast().ok()
    }

    /// Puts a value there, in place of the one of its type.
    pub fn put<T: Send + Sync + 'static>(&self, value: Arc<T>) {
        self.slots.lock().insert(TypeId::of::<T>(), value);
    }

    /// Drops everything.
    pub fn clear(&self) {
        let slots = std::mem::take(&mut *self.slots.lock());
        drop(slots);
    }
}

/// The secrets that a person gave names, for tools to send them where they belong. No model sees a value.
pub trait Vault: Send + Sync {
    /// The value of this secret, for a request to this host.
    ///
    /// # Errors
    /// [`Kind::NotFound`](crate::Kind::NotFound) with the names there are; [`Kind::Denied`](crate::Kind::Denied) when it
    /// is not meant for that host.
    fn reveal(&self, name: &str, host: &str, port: u16) -> Result<String, Fault>;

    /// May it be sent to this host where everybody on the way can read it? Only where a person named the host with this
    /// port.
    fn may_go_in_clear(&self, name: &str, host: &str, port: u16) -> bool {
        let _ = (name, host, port);
        false
    }
}
