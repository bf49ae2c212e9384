//! Engines of work: a sender offers work under an idempotency key, and one worker at a time holds its lease.
//!
//! One record per piece of work is the truth, changed only by compare-and-set of its revision. The revision is the fencing
//! token: the renewals, events and result of a worker that lost its lease are refused in the same step that would store them.
//! A lease ends by observation: an observer that finds a leased record unchanged for the length of the lease, on its own monotonic
//! clock, may take it over. Wall clocks are never compared.
//!
//! [`open`] returns the engine of a URL: `sqlite` for the processes of one machine, `nats://host:port` for many machines.

mod error;
mod files;
mod key;
mod leases;
#[cfg(feature = "nats")]
pub mod nats;
mod record;
mod sqlite;
mod storage;
#[cfg(test)]
mod tests;
mod work;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures_util::{future::BoxFuture, stream::BoxStream};
use serde_json::Value;

pub use error::{Error, Result};
pub use key::{BlobId, Key};
pub use work::{
    Control, Event, Grain, Lease, Listed, Need, Outcome, Source, State, Status, Stop, Update, Work, Worker,
};

/// The protocol between senders and workers of this version of haft. Both sides must have the same.
pub const PROTOCOL: u32 = 1;

/// The length of a lease: a worker renews it at a third of that.
pub const LEASE: Duration = Duration::from_secs(15);

/// Settings of [`open`].
#[derive(Clone, Debug)]
pub struct Options {
    /// The length of the leases that this process takes.
    pub lease: Duration,
    /// The file with the seed of this user's nkey, for `nats`.
    pub nkey: Option<PathBuf>,
    /// The certificate authority of the server, a PEM file, for `nats` over TLS.
    pub ca: Option<PathBuf>,
    /// On how many servers of a cluster `nats` stores everything; an existing store keeps its number.
    pub replicas: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { lease: LEASE, nkey: None, ca: None, replicas: 1 }
    }
}

/// Opens the engine of a URL: `sqlite` (in `state/engine/`), or `nats://host:port` (`tls://host:port`).
pub async fn open(url: &str, state: &Path, options: Options) -> Result<Arc<dyn Engine>> {
    match url {
        "" | "sqlite" => sqlite::open(&state.join("engine"), &options).await,
        it if it.starts_with("nats://") || it.starts_with("tls://") => open_nats(it, &options).await,
        it => {
            Err(Error::Refused(format!("{it:?} is not an engine: give \"sqlite\", or \"nats://HOST:PORT\"")))
        }
    }
}

#[cfg(feature = "nats")]
async fn open_nats(url: &str, options: &Options) -> Result<Arc<dyn Engine>> {
    nats::open(url, options).await
}

#[cfg(not(feature = "nats"))]
async fn open_nats(url: &str, _: &Options) -> Result<Arc<dyn Engine>> {
    Err(Error::Refused(format!(
        "this haft is built without NATS, so {url} cannot be used: build it with `--features nats`"
    )))
}

/// An engine: the place where work is offered, claimed and answered. All methods may be called from several tasks and processes at once.
#[async_trait::async_trait]
pub trait Engine: Send + Sync {
    /// Offers work. Idempotent by its key: for an existing key it returns the status and changes nothing.
    async fn offer(&self, work: Work) -> Result<Status>;

    /// Waits for work that fits the worker, and takes its lease. Returns `None` once [`control`](Self::control)
    /// requested this worker to drain or stop. Dropping the future loses nothing.
    async fn claim(&self, worker: &Worker) -> Result<Option<(Work, Lease)>>;

    /// Records that the work begins: from here on it "may have happened".
    async fn begin(&self, lease: &mut Lease) -> Result<()>;

    /// Extends the lease. Call it at a third of [`lease_length`](Self::lease_length). On [`Error::Lost`] the worker must stop
    /// the work; also when no renewal succeeded for the length of the lease.
    async fn renew(&self, lease: &mut Lease) -> Result<()>;

    /// Ends the work with its outcome. Repeating it after [`Error::Unreachable`] is safe. On [`Error::Lost`] the outcome was
    /// not accepted.
    async fn finish(&self, lease: &mut Lease, outcome: Outcome) -> Result<()>;

    /// Appends an event and returns its number. A lost lease appends nothing.
    async fn append(&self, lease: &mut Lease, value: Value) -> Result<u64>;

    /// Returns the status of one piece of work, or `None` for an unknown key.
    async fn status(&self, key: &Key) -> Result<Option<Status>>;

    /// Streams the states and the events of one piece of work. Events begin after number `after` (0: all), each once, in order.
    /// The stream ends after [`State::Ended`], which comes behind all events. While it is polled it also observes the lease.
    async fn watch(&self, key: &Key, after: u64) -> Result<BoxStream<'static, Result<Update>>>;

    /// Cancels work. What no worker has ends at once; a worker that has it is notified through
    /// [`cancelled`](Self::cancelled). Returns the status.
    async fn cancel(&self, key: &Key) -> Result<Status>;

    /// Waits until the worker must stop this work: it was cancelled, or its lease was lost. The future borrows nothing, so the
    /// lease can be renewed meanwhile.
    fn cancelled(&self, lease: &Lease) -> BoxFuture<'static, Result<Stop>>;

    /// Stores a content under its hash.
    async fn put(&self, source: Source) -> Result<BlobId>;

    /// Returns whether the content is stored.
    async fn has(&self, id: &BlobId) -> Result<bool>;

    /// Returns a content. It is compared with its hash.
    async fn get(&self, id: &BlobId) -> Result<Vec<u8>>;

    /// Writes a content to the file `to`: complete and compared with its hash, or not at all.
    async fn fetch(&self, id: &BlobId, to: &Path) -> Result<()>;

    /// Announces a worker. Call it at a third of [`lease_length`](Self::lease_length), also when its load changes.
    async fn announce(&self, worker: &Worker) -> Result<()>;

    /// Removes a worker's announcement, at its end.
    async fn leave(&self, worker: &str) -> Result<()>;

    /// Returns the workers that announced themselves within the length of a lease.
    async fn workers(&self) -> Result<Vec<Worker>>;

    /// Requests a worker to drain or stop.
    async fn control(&self, worker: &str, control: Control) -> Result<()>;

    /// Waits for a request to this worker.
    async fn controlled(&self, worker: &str) -> Result<Control>;

    /// Returns all work that has not ended, oldest first.
    async fn list(&self) -> Result<Vec<Listed>>;

    /// Removes ended work and blobs that nobody used for longer than `age`, where the engine does not do so by itself.
    async fn sweep(&self, age: Duration) -> Result<()>;

    /// Returns the length of a lease.
    fn lease_length(&self) -> Duration;
}
