//! The trait of engines, and their settings.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use futures_util::{future::BoxFuture, stream::BoxStream};
use serde_json::Value;

use crate::{
    BlobId, Control, Key, Lease, Listed, Outcome, Result, Source, Status, Stop, Update, Work, Worker,
};

/// The protocol between senders and workers of this version of haft. Both sides must have the same.
pub const PROTOCOL: u32 = 1;

/// The length of a lease: a worker renews it at a third of that.
pub const LEASE: Duration = Duration::from_secs(15);

/// Settings of [`open`](crate::open).
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

/// An engine: the place where work is offered, claimed and answered. All methods may be called from several tasks and
/// processes at once.
#[async_trait::async_trait]
pub trait Engine: Send + Sync {
    /// Offers work. Idempotent by its key: for an existing key it returns the status and changes nothing.
    async fn offer(&self, work: Work) -> Result<Status>;

    /// Waits for work that fits the worker, and takes its lease. Returns `None` once [`control`](Self::control)
    /// requested this worker to drain or stop. Dropping the future loses nothing, but work that it was about to take may then wait
    /// for the length of a lease.
    async fn claim(&self, worker: &Worker) -> Result<Option<(Work, Lease)>>;

    /// Records that the work begins: from here on it "may have happened".
    async fn begin(&self, lease: &mut Lease) -> Result<()>;

    /// Extends the lease. Call it at a third of [`lease_length`](Self::lease_length). On [`Lost`] the worker must stop the work;
    /// also when no renewal succeeded for the length of the lease.
    ///
    /// [`Lost`]: crate::Error::Lost
    async fn renew(&self, lease: &mut Lease) -> Result<()>;

    /// Ends the work with its outcome. Repeating it after [`Unreachable`] is safe. On [`Lost`] the outcome was not accepted.
    ///
    /// [`Lost`]: crate::Error::Lost
    /// [`Unreachable`]: crate::Error::Unreachable
    async fn finish(&self, lease: &mut Lease, outcome: Outcome) -> Result<()>;

    /// Appends an event and returns its number. A lost lease appends nothing.
    async fn append(&self, lease: &mut Lease, value: Value) -> Result<u64>;

    /// Returns the status of one piece of work, or `None` for an unknown key.
    async fn status(&self, key: &Key) -> Result<Option<Status>>;

    /// Streams the states and the events of one piece of work. Events begin after number `after` (0: all), each once, in order.
    /// The stream ends after [`Ended`], which comes behind all events. While it is polled it also observes the lease.
    ///
    /// [`Ended`]: crate::State::Ended
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
