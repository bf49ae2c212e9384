//! A copy in memory of all records that have not ended, kept by one consumer: the observer of leases reads it, and whoever lists
//! work. Other processes have none, as each change of a record is sent to every copy.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use async_nats::{
    Client,
    jetstream::{Message, consumer::DeliverPolicy, stream::Stream},
};
use parking_lot::Mutex;
use tokio::{sync::watch, time::timeout};

use super::{Follower, decoded, ordered, sequence_of, subject, unreachable};
use crate::{Result, record::Record, storage::Row};

/// How long the first copy may take.
const FIRST_COPY: Duration = Duration::from_secs(30);

pub(super) struct Mirror {
    state: Arc<State>,
    _follower: Follower,
}

struct State {
    records: Mutex<HashMap<String, Entry>>,
    ready: watch::Sender<bool>,
}

struct Entry {
    record: Record,
    revision: u64,
    /// The revision at its first sight, by which records are ordered.
    first: u64,
}

impl Mirror {
    pub(super) fn start(bucket: Stream, client: Client) -> Arc<Self> {
        let state = Arc::new(State { records: Mutex::default(), ready: watch::channel(false).0 });
        let copied = Arc::clone(&state);
        let follower =
            Follower::start("the records", move || copy(Arc::clone(&copied), bucket.clone(), client.clone()));
        Arc::new(Self { state, _follower: follower })
    }

    /// Waits until the copy is complete.
    pub(super) async fn ready(&self) -> Result<()> {
        let mut ready = self.state.ready.subscribe();
        let waited = timeout(FIRST_COPY, ready.wait_for(|it| *it)).await;
        waited.map_err(|_| unreachable("the records could not be read"))?.map(|_| ()).map_err(unreachable)
    }

    pub(super) fn records(&self) -> Vec<Row> {
        let records = self.state.records.lock();
        let mut all: Vec<_> = records.iter().collect();
        all.sort_by_key(|(_, it)| it.first);
        all.into_iter().map(|(id, it)| (id.clone(), it.record.clone(), it.revision)).collect()
    }
}

async fn copy(state: Arc<State>, bucket: Stream, client: Client) -> Result<()> {
    let filters = vec![subject("w.*")];
    let (mut messages, mut pending) =
        ordered(&bucket, &client, filters, DeliverPolicy::LastPerSubject).await?;
    loop {
        if pending == 0 {
            state.ready.send_if_modified(|it| !std::mem::replace(it, true));
        }
        let Some(message) = messages.next().await else { return Ok(()) };
        let message = message.map_err(unreachable)?;
        apply(&state, &message)?;
        pending = message.info().map_err(unreachable)?.pending;
    }
}

fn apply(state: &State, message: &Message) -> Result<()> {
    let subject = message.subject.as_str();
    let revision = sequence_of(message)?;
    let Some(key) = subject.rsplit('.').next() else { return Ok(()) };
    let record: Option<Record> = match message.payload.is_empty() {
        true => None,
        false => Some(decoded(subject, &message.payload)?),
    };
    let mut records = state.records.lock();
    match record.filter(|it| !it.has_ended()) {
        Some(record) => {
            let first = records.get(key).map_or(revision, |it| it.first);
            records.insert(key.to_owned(), Entry { record, revision, first });
        }
        None => {
            records.remove(key);
        }
    }
    Ok(())
}

/// Removes ended work that is older than `age`, by the server's times.
pub(super) async fn sweep(bucket: &Stream, client: &Client, age: Duration) -> Result<()> {
    let before = SystemTime::now().checked_sub(age).unwrap_or(SystemTime::UNIX_EPOCH);
    let filters = vec![subject("w.*")];
    let (mut messages, mut pending) = ordered(bucket, client, filters, DeliverPolicy::LastPerSubject).await?;
    while pending > 0 {
        let Some(message) = messages.next().await else { return Ok(()) };
        let message = message.map_err(unreachable)?;
        let info = message.info().map_err(unreachable)?;
        pending = info.pending;
        if message.payload.is_empty() || SystemTime::from(info.published) >= before {
            continue;
        }
        let record: Record = decoded(&message.subject, &message.payload)?;
        if !record.has_ended() {
            continue;
        }
        let id = record.key.text();
        // The record goes last: an interruption leaves something to find.
        for key in [format!("e.{id}.*"), format!("t.{id}"), format!("w.{id}")] {
            bucket.purge().filter(subject(&key)).await.map_err(unreachable)?;
        }
    }
    Ok(())
}
