//! The interface between the rules of leases, which all engines share, and the place where an engine keeps its records.

use std::{path::Path, sync::Arc};

use futures_util::stream::BoxStream;
use serde_json::Value;
use tokio::sync::watch;

use crate::{BlobId, Control, Event, Result, Source, Work, Worker, record::Record};

/// A record with its id, which is its key's text, and its revision.
pub(crate) type Row = (String, Record, u64);

/// One item of [`Storage::follow`].
pub(crate) enum Followed {
    Record(Box<Record>, u64),
    Event(Event),
}

/// The answer of [`Storage::notified`].
pub(crate) enum Notified {
    /// Nobody gave a notification. Only with NATS is asking cheaper than reading.
    #[cfg(feature = "nats")]
    Unchanged,
    Removed,
    Record(Box<Record>, u64),
}

impl From<Option<(Record, u64)>> for Notified {
    fn from(found: Option<(Record, u64)>) -> Self {
        found.map_or(Self::Removed, |(record, revision)| Self::Record(Box::new(record), revision))
    }
}

#[async_trait::async_trait]
pub(crate) trait Storage: Send + Sync + 'static {
    /// Stores work that is new, and its record. Returns the revision, or `None` if the id exists.
    async fn insert(&self, id: &str, work: &Work, record: &Record) -> Result<Option<u64>>;

    async fn load(&self, id: &str) -> Result<Option<(Record, u64)>>;

    /// Returns the record if somebody other than its holder may have changed it. A change that it does not show yet comes with a
    /// notification, or none if the notification was lost.
    async fn notified(&self, id: &str) -> Result<Notified>;

    async fn work(&self, id: &str) -> Result<Option<Work>>;

    /// Compare-and-set. Returns the new revision, or `None` if `revision` is not the record's.
    async fn replace(&self, id: &str, record: &Record, revision: u64) -> Result<Option<u64>>;

    /// Stores an event if `revision` is the record's, in one atomic step, and returns whether it did.
    async fn append(&self, id: &str, event: &Event, revision: u64) -> Result<bool>;

    /// Returns the number of the last event, 0 for none.
    async fn last_event(&self, id: &str) -> Result<u64>;

    /// Notifies workers of an offered record.
    async fn deliver(&self, id: &str, record: &Record) -> Result<()>;

    /// Waits for the id of work that fits the worker and was offered a moment ago.
    async fn next(&self, worker: &Worker) -> Result<String>;

    /// Is notified after changes of records by others than their holders, also by other processes.
    async fn changes(&self) -> Result<watch::Receiver<u64>>;

    /// Notifies the holder of a record that somebody else changed it.
    async fn notify(&self, id: &str) -> Result<()>;

    /// Returns whether this process is to observe the leases of all workers.
    async fn observes(&self) -> Result<bool>;

    /// Returns the records that have not ended, oldest first.
    async fn open_records(&self) -> Result<Vec<Row>>;

    /// Streams the events after number `after` and the changes of the record, in the order in which they were stored. Returns
    /// `None` if there is no such record.
    async fn follow(
        self: Arc<Self>,
        id: String,
        after: u64,
    ) -> Result<Option<BoxStream<'static, Result<Followed>>>>;

    async fn put(&self, source: Source) -> Result<BlobId>;
    async fn has(&self, id: &BlobId) -> Result<bool>;
    async fn get(&self, id: &BlobId) -> Result<Vec<u8>>;
    async fn fetch(&self, id: &BlobId, to: &Path) -> Result<()>;

    async fn announce(&self, worker: &Worker, lease: std::time::Duration) -> Result<()>;
    async fn leave(&self, worker: &str) -> Result<()>;
    async fn workers(&self) -> Result<Vec<Worker>>;
    async fn control(&self, worker: &str, control: Control) -> Result<()>;
    /// Returns the request to this worker, if there is one.
    async fn requested(&self, worker: &str) -> Result<Option<Control>>;
    /// Waits for a request to this worker.
    async fn controlled(&self, worker: &str) -> Result<Control>;

    async fn sweep(&self, age: std::time::Duration) -> Result<()>;
}

/// A value that is stored inline, or as a blob if it is large.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
enum Packed {
    Inline(Value),
    Blob(BlobId),
}

/// The largest value that is stored in a row itself.
const LARGEST_INLINE: usize = 64 << 10;

/// Packs a value: a large one becomes a blob.
pub(crate) async fn pack(storage: &impl Storage, value: Value) -> Result<Value> {
    let bytes = serde_json::to_vec(&value).map_err(|it| crate::Error::Refused(it.to_string()))?;
    let packed = match bytes.len() > LARGEST_INLINE {
        true => Packed::Blob(storage.put(Source::Bytes(bytes)).await?),
        false => Packed::Inline(value),
    };
    serde_json::to_value(packed).map_err(|it| crate::Error::Refused(it.to_string()))
}

/// Reverses [`pack`].
pub(crate) async fn unpack(storage: &impl Storage, value: Value) -> Result<Value> {
    let damaged = |it: serde_json::Error| crate::Error::Damaged(format!("a stored value: {it}"));
    match serde_json::from_value(value).map_err(damaged)? {
        Packed::Inline(value) => Ok(value),
        Packed::Blob(id) => serde_json::from_slice(&storage.get(&id).await?).map_err(damaged),
    }
}
