//! The context of a running tool: files, processes, network, cancellation.

use std::{
    any::Any,
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use serde_json::Value;

use crate::{
    Fault, Files, Kind, Output, Preferences,
    decoders::{Decoded, Decoder, Decoders},
    net::Net,
    procs::{Exit, Procs},
    redact::Redact,
    seen::Views,
    services::{
        Agents, Caller, Confirm, Groups, History, Jobs, Messages, Notes, Progress, Servers, Shares, Shelf,
        Tools, Triggers, Undo, Vault,
    },
    text::Content,
};

/// Time that work has to notice a cancellation. The whole answer is promised within 200 ms, unless a change
/// is under way.
const GRACE: Duration = Duration::from_millis(100);

/// The services of one session.
#[derive(Clone)]
pub struct Services {
    /// Starts processes.
    pub procs: Procs,
    /// Decodes untrusted bytes.
    pub decoders: Decoders,
    /// The network.
    pub net: Net,
    /// The named secrets.
    pub vault: Arc<dyn Vault>,
    /// The person's configuration of tools that reach beyond the workspace.
    pub preferences: Arc<Preferences>,
    /// Asks for approval during a call.
    pub confirm: Arc<dyn Confirm>,
    /// The call itself.
    pub caller: Arc<dyn Caller>,
    /// The session's jobs.
    pub jobs: Arc<dyn Jobs>,
    /// The session's tools.
    pub tools: Arc<dyn Tools>,
    /// The agent that the session belongs to.
    pub agents: Arc<dyn Agents>,
    /// The group that this agent belongs to.
    pub groups: Arc<dyn Groups>,
    /// Messages to other agents.
    pub messages: Arc<dyn Messages>,
    /// The MCP servers.
    pub servers: Arc<dyn Servers>,
    /// Notes of the session and facts of the workspace.
    pub notes: Arc<dyn Notes>,
    /// The files shared with the person.
    pub shares: Arc<dyn Shares>,
    /// The triggers of the session.
    pub triggers: Arc<dyn Triggers>,
    /// State that tools keep from one call to the next.
    pub shelf: Arc<Shelf>,
    /// Stores before-images.
    pub history: Arc<dyn History>,
    /// Restores them.
    pub undo: Arc<dyn Undo>,
    /// Receives progress.
    pub progress: Arc<dyn Progress>,
    /// Finds the secrets that must not be shown.
    pub mask: Arc<dyn Redact>,
}

/// The handle a running tool holds: everything it may reach, and nothing else.
/// Cheap to clone.
#[derive(Clone)]
pub struct Cx {
    inner: Arc<Inner>,
}

struct Inner {
    files: Files,
    views: Arc<Views>,
    services: Services,
    cancel: CancellationToken,
}

impl Cx {
    /// Creates the handle of one call.
    pub fn new(files: Files, views: Arc<Views>, services: Services, cancel: CancellationToken) -> Self {
        Self { inner: Arc::new(Inner { files, views, services, cancel }) }
    }

    /// Returns the files that this call was granted.
    pub fn files(&self) -> &Files {
        &self.inner.files
    }

    /// Returns the views: what this session has shown the model, file by file.
    pub fn views(&self) -> &Views {
        &self.inner.views
    }

    /// Returns the service that undoes changes.
    pub fn undo(&self) -> &dyn Undo {
        &*self.inner.services.undo
    }

    /// Returns the service that starts processes.
    pub fn procs(&self) -> &Procs {
        &self.inner.services.procs
    }

    /// Returns network access, limited to the hosts that this call was granted.
    pub fn net(&self) -> &Net {
        &self.inner.services.net
    }

    /// Decodes untrusted bytes in a confined worker process. `what` names them in faults.
    ///
    /// # Errors
    /// Those of [`Decoders::run`](crate::decoders::Decoders::run), and [`Kind::Cancelled`] once the call is to stop.
    pub async fn decode<D: Decoder>(
        &self,
        what: &str,
        decoder: D,
        data: impl Into<Content>,
    ) -> Result<Decoded<D::Answer>, Fault> {
        self.check()?;
        let decoders = &self.inner.services.decoders;
        tokio::select! {
            biased;
            () = self.cancelled() => Err(cancelled()),
            done = decoders.run(what, decoder, data) => done,
        }
    }

    /// Like [`decode`](Self::decode), for work on a thread that may block: below [`blocking`](Self::blocking).
    ///
    /// # Errors
    /// Those of [`decode`](Self::decode).
    pub fn decode_blocking<D: Decoder>(
        &self,
        what: &str,
        decoder: D,
        data: impl Into<Content>,
    ) -> Result<Decoded<D::Answer>, Fault> {
        tokio::runtime::Handle::current().block_on(self.decode(what, decoder, data))
    }

    /// Returns the vault of named secrets.
    pub fn vault(&self) -> &dyn Vault {
        &*self.inner.services.vault
    }

    /// Returns the person's configuration of tools that reach beyond the workspace.
    pub fn preferences(&self) -> &Preferences {
        &self.inner.services.preferences
    }

    /// Returns the service that asks for approval while a call runs.
    pub fn confirm(&self) -> &dyn Confirm {
        &*self.inner.services.confirm
    }

    /// Returns the session's jobs.
    pub fn jobs(&self) -> &dyn Jobs {
        &*self.inner.services.jobs
    }

    /// Returns the session's tools.
    pub fn tools(&self) -> &dyn Tools {
        &*self.inner.services.tools
    }

    /// Renders a text that [refers](crate::references) to tools, with the names under which they are shown. A
    /// fault is rendered when it is answered; every other text that names tools goes through this.
    pub fn named(&self, text: &str) -> String {
        self.tools().named(text)
    }

    /// Returns one line for each part of a command's failure that the sandbox may have caused.
    pub fn denials(&self, exit: Exit, output: &str) -> Vec<String> {
        self.procs().denials(exit, output).iter().map(|it| self.named(it)).collect()
    }

    /// Returns the agent that the session belongs to.
    pub fn agents(&self) -> &dyn Agents {
        &*self.inner.services.agents
    }

    /// Returns the service that sends messages to other agents.
    pub fn messages(&self) -> &dyn Messages {
        &*self.inner.services.messages
    }

    /// Returns the group that the session's agent belongs to.
    pub fn groups(&self) -> &dyn Groups {
        &*self.inner.services.groups
    }

    /// Returns the MCP servers that the session can use.
    pub fn servers(&self) -> &dyn Servers {
        &*self.inner.services.servers
    }

    /// Returns the notes of the session and of the workspace.
    pub fn notes(&self) -> &dyn Notes {
        &*self.inner.services.notes
    }

    /// Returns the files that the session shared with the person.
    pub fn shares(&self) -> &dyn Shares {
        &*self.inner.services.shares
    }

    /// Returns the triggers of the session.
    pub fn triggers(&self) -> &dyn Triggers {
        &*self.inner.services.triggers
    }

    /// Returns this call itself: its id as a job, and how it becomes one.
    pub fn caller(&self) -> &dyn Caller {
        &*self.inner.services.caller
    }

    /// Returns the shelf: state that tools keep in this session from one call to the next.
    pub fn shelf(&self) -> &Shelf {
        &self.inner.services.shelf
    }

    /// Gives an intermediate output to the model, and resolves with the input that the model sends next by
    /// `continue_job`. For tools whose [`MODE`](crate::Tool::MODE) is `Stateful`.
    ///
    /// # Errors
    /// [`Kind::Cancelled`] once the job is to stop.
    pub async fn yield_output(&self, output: Output) -> Result<Value, Fault> {
        self.caller().hand_over(output).await
    }

    /// Returns the other services of the session.
    pub fn services(&self) -> &Services {
        &self.inner.services
    }

    /// Reports progress to the client.
    pub fn progress(&self, done: f64, total: Option<f64>, message: &str) {
        self.inner.services.progress.report(done, total, message);
    }

    /// Resolves when the call is to stop.
    pub async fn cancelled(&self) {
        self.inner.cancel.cancelled().await;
    }

    /// Returns the token that is cancelled when the call is to stop.
    pub fn cancel_token(&self) -> &CancellationToken {
        &self.inner.cancel
    }

    /// Checks for cancellation; loops call this.
    ///
    /// # Errors
    /// [`Kind::Cancelled`] once the call is to stop.
    pub fn check(&self) -> Result<(), Fault> {
        if self.inner.cancel.is_cancelled() { Err(cancelled()) } else { Ok(()) }
    }

    /// Runs work that takes at most about a millisecond here: waking a thread for it would take longer. A panic is
    /// caught as in [`blocking`](Self::blocking).
    ///
    /// # Errors
    /// Those of the work, and [`Kind::Cancelled`] when the call is to stop already.
    pub fn brief<T>(&self, work: impl FnOnce(&Self) -> Result<T, Fault>) -> Result<T, Fault> {
        self.check()?;
        catch_unwind(AssertUnwindSafe(|| work(self))).unwrap_or_else(|panic| Err(panicked(&*panic)))
    }

    /// Runs work that may block (file input and output, a long computation) on a thread of its own. The work
    /// should call [`check`](Self::check) in its loops.
    ///
    /// Once the call is to stop, work can't begin to change a file, and `blocking` waits for a change that is
    /// under way: no change follows an answer of "cancelled".
    ///
    /// # Errors
    /// Those of the work, and [`Kind::Cancelled`] when it does not stop soon by itself.
    pub async fn blocking<T, F>(&self, work: F) -> Result<T, Fault>
    where
        T: Send + 'static,
        F: FnOnce(&Self) -> Result<T, Fault> + Send + 'static,
    {
        self.check()?;
        let cx = self.clone();
        let mut task = tokio::task::spawn_blocking(move || {
            let _blocking = Blocking::begin();
            work(&cx)
        });
        tokio::select! {
            biased;
            done = &mut task => return done.unwrap_or_else(|error| Err(failed(error))),
            () = self.cancelled() => {}
        }
        // Work that stopped by itself may have a partial result.
        if let Ok(done) = tokio::time::timeout(GRACE, &mut task).await {
            return done.unwrap_or_else(|error| Err(failed(error)));
        }
        if self.files().close_gate() {
            return Err(cancelled());
        }
        task.await.unwrap_or_else(|error| Err(failed(error)))
    }
}

/// Runs work on a thread that may block for long, for instance for a person's answer.
pub fn may_block_here<T>(work: impl FnOnce() -> T) -> T {
    let _blocking = Blocking::begin();
    work()
}

thread_local! {
    static MAY_BLOCK: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether this thread belongs to [`Cx::blocking`], which may wait without limit.
pub fn may_block() -> bool {
    MAY_BLOCK.get()
}

/// Marks this thread as one that may block, until it is dropped.
struct Blocking;

impl Blocking {
    fn begin() -> Self {
        MAY_BLOCK.set(true);
        Self
    }
}

impl Drop for Blocking {
    fn drop(&mut self) {
        MAY_BLOCK.set(false);
    }
}

fn cancelled() -> Fault {
    Fault::new(Kind::Cancelled, "the call was stopped before it was done")
}

fn failed(error: tokio::task::JoinError) -> Fault {
    match error.try_into_panic() {
        Ok(panic) => panicked(&*panic),
        Err(error) => Fault::bug(format!("the tool panicked: {error}")),
    }
}

fn panicked(panic: &(dyn Any + Send)) -> Fault {
    let what = panic
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| panic.downcast_ref::<&str>().map(|it| (*it).to_owned()))
        .unwrap_or_else(|| "no message".to_owned());
    Fault::bug(format!("the tool panicked: {what}"))
}
