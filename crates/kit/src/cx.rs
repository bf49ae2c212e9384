//! The context of a running tool: files, processes, network, cancellation.

use std::{cell::Cell, sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use serde_json::Value;

use crate::{
    Fault, Files, Kind, Output, Preferences,
    decoders::{Decoded, Decoder, Decoders},
    net::Net,
    procs::{Exit, Procs},
    redact::Mask,
    seen::Views,
    services::{
        Agents, Caller, Confirm, History, Jobs, Notes, Progress, Servers, Shares, Shelf, Tools, Undo, Vault,
    },
    text::Content,
};

/// How long work may take to notice that it is to stop. The whole answer is promised within
/// 200 ms, unless a change is under way.
const GRACE: Duration = Duration::from_millis(100);

/// The services of one session.
#[derive(Clone)]
pub struct Services {
    /// What processes are started with.
    pub procs: Procs,
    /// Where bytes that somebody else made are decoded.
    pub decoders: Decoders,
    /// How the network is reached.
    pub net: Net,
    /// The secrets that have names.
    pub vault: Arc<dyn Vault>,
    /// What a person decided about tools that reach beyond the workspace.
    pub preferences: Arc<Preferences>,
    /// Who approves what comes up on the way.
    pub confirm: Arc<dyn Confirm>,
    /// The call itself.
    pub caller: Arc<dyn Caller>,
    /// The session's jobs.
    pub jobs: Arc<dyn Jobs>,
    /// The session's tools.
    pub tools: Arc<dyn Tools>,
    /// The agent that the session belongs to.
    pub agents: Arc<dyn Agents>,
    /// The MCP servers that can be asked.
    pub servers: Arc<dyn Servers>,
    /// What is kept as text.
    pub notes: Arc<dyn Notes>,
    /// The files that the session gave away.
    pub shares: Arc<dyn Shares>,
    /// What tools keep from one call to the next.
    pub shelf: Arc<Shelf>,
    /// Where before-images go.
    pub history: Arc<dyn History>,
    /// What puts them back.
    pub undo: Arc<dyn Undo>,
    /// Who hears of progress.
    pub progress: Arc<dyn Progress>,
    /// What must not be shown.
    pub mask: Arc<dyn Mask>,
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
    /// A handle for one call.
    pub fn new(files: Files, views: Arc<Views>, services: Services, cancel: CancellationToken) -> Self {
        Self { inner: Arc::new(Inner { files, views, services, cancel }) }
    }

    /// The files that this call was granted.
    pub fn files(&self) -> &Files {
        &self.inner.files
    }

    /// What this session has shown the model, file by file.
    pub fn views(&self) -> &Views {
        &self.inner.views
    }

    /// What puts changes back.
    pub fn undo(&self) -> &dyn Undo {
        &*self.inner.services.undo
    }

    /// What processes are started with.
    pub fn procs(&self) -> &Procs {
        &self.inner.services.procs
    }

    /// How the network is reached: the hosts that this call was granted.
    pub fn net(&self) -> &Net {
        &self.inner.services.net
    }

    /// Decodes bytes that somebody else made, in a process that reaches nothing. `what` names them in faults.
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

    /// The same for work on a thread that may block: below [`blocking`](Self::blocking).
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

    /// The secrets that a person gave names.
    pub fn vault(&self) -> &dyn Vault {
        &*self.inner.services.vault
    }

    /// What a person decided about tools that reach beyond the workspace.
    pub fn preferences(&self) -> &Preferences {
        &self.inner.services.preferences
    }

    /// Who approves what comes up on the way.
    pub fn confirm(&self) -> &dyn Confirm {
        &*self.inner.services.confirm
    }

    /// The session's jobs.
    pub fn jobs(&self) -> &dyn Jobs {
        &*self.inner.services.jobs
    }

    /// The session's tools.
    pub fn tools(&self) -> &dyn Tools {
        &*self.inner.services.tools
    }

    /// The text with the names of the tools that are shown, where it [refers](crate::references) to tools. A fault is
    /// given them when it is answered; what else a tool says of other tools goes through this.
    pub fn named(&self, text: &str) -> String {
        self.tools().named(text)
    }

    /// What of the failure of a command the sandbox may be to blame for, one line each.
    pub fn denials(&self, exit: Exit, output: &str) -> Vec<String> {
        self.procs().denials(exit, output).iter().map(|it| self.named(it)).collect()
    }

    /// The agent that the session belongs to.
    pub fn agents(&self) -> &dyn Agents {
        &*self.inner.services.agents
    }

    /// The MCP servers that the session can ask.
    pub fn servers(&self) -> &dyn Servers {
        &*self.inner.services.servers
    }

    /// What the session and the workspace keep as text.
    pub fn notes(&self) -> &dyn Notes {
        &*self.inner.services.notes
    }

    /// The files that the session gave away.
    pub fn shares(&self) -> &dyn Shares {
        &*self.inner.services.shares
    }

    /// This call itself: its id as a job, and how it becomes one.
    pub fn caller(&self) -> &dyn Caller {
        &*self.inner.services.caller
    }

    /// What tools keep in this session from one call to the next.
    pub fn shelf(&self) -> &Shelf {
        &self.inner.services.shelf
    }

    /// Gives an output in the middle of the work, for the model to react to; resolves with what the model
    /// says next, by `continue_job`. For tools whose [`MODE`](crate::Tool::MODE) is `Stateful`.
    ///
    /// # Errors
    /// [`Kind::Cancelled`] once the job is to stop.
    pub async fn yield_output(&self, output: Output) -> Result<Value, Fault> {
        self.caller().hand_over(output).await
    }

    /// The other services of the session.
    pub fn services(&self) -> &Services {
        &self.inner.services
    }

    /// Tells the host how far the call has come.
    pub fn progress(&self, done: f64, total: Option<f64>, message: &str) {
        self.inner.services.progress.report(done, total, message);
    }

    /// Resolves when the call is to stop.
    pub async fn cancelled(&self) {
        self.inner.cancel.cancelled().await;
    }

    /// The token that says when the call is to stop.
    pub fn cancel_token(&self) -> &CancellationToken {
        &self.inner.cancel
    }

    /// A checkpoint for loops.
    ///
    /// # Errors
    /// [`Kind::Cancelled`] once the call is to stop.
    pub fn check(&self) -> Result<(), Fault> {
        if self.inner.cancel.is_cancelled() { Err(cancelled()) } else { Ok(()) }
    }

    /// Runs work that may block (file input and output, a long computation) on a
    /// thread of its own. The work should call [`check`](Self::check) in its loops.
    ///
    /// Once the call is to stop, work that is about to change a file no longer may,
    /// and work that is in the middle of it is waited for: an answer of "cancelled"
    /// is never followed by a change.
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
            done = &mut task => return done.unwrap_or_else(|error| Err(panicked(error))),
            () = self.cancelled() => {}
        }
        // What has stopped by itself can say what it had.
        if let Ok(done) = tokio::time::timeout(GRACE, &mut task).await {
            return done.unwrap_or_else(|error| Err(panicked(error)));
        }
        if self.files().close_gate() {
            return Err(cancelled());
        }
        task.await.unwrap_or_else(|error| Err(panicked(error)))
    }
}

thread_local! {
    static MAY_BLOCK: Cell<bool> = const { Cell::new(false) };
}

/// Is this thread one of [`Cx::blocking`], which may wait for whatever it likes?
pub fn may_block() -> bool {
    MAY_BLOCK.get()
}

/// Until it is dropped, this thread may block.
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

fn panicked(error: tokio::task::JoinError) -> Fault {
    let what = match error.try_into_panic() {
        Ok(panic) => panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|it| (*it).to_owned()))
            .unwrap_or_else(|| "no message".to_owned()),
        Err(error) => error.to_string(),
    };
    Fault::bug(format!("the tool panicked: {what}"))
}
