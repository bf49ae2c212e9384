//! The engine of many machines, over NATS JetStream.
//!
//! - The key-value bucket `haft` has the truth: `w.ID` is the record of one piece of work, changed only by compare-and-set of
//!   its revision; `t.ID` its task; `e.ID.NUMBER` its events; `r.HASH` the demands of a queue; `o` the observer of leases.
//! - Each change of a record is sent to its sender and to one observer, never to all workers: throughput does not fall as
//!   workers grow. A holder is notified of what others do to its record by a message to `haft.notice.ID`.
//! - The work queue `haft_queue` only delivers ids. An acknowledgement is not a fence: acking late or twice changes nothing. Each
//!   set of demands has a subject and a consumer of its own, as the filters of a work queue must not overlap.
//! - Blobs are in the object store `haft_blobs`.
//! - The stream `haft_workers` has announcements, which the server removes by their time to live, and requests to workers.

mod blobs;
mod follower;
mod mirror;
mod notices;
mod observer;
mod presence;
mod queue;
mod routes;
pub mod server;

use std::{collections::HashSet, path::Path, sync::Arc, time::Duration};

use async_nats::{
    Client, ConnectOptions, Event as OfClient, HeaderMap, ServerAddr,
    jetstream::{
        self, Context, Message,
        consumer::{DeliverPolicy, push},
        context::PublishErrorKind,
        kv,
        stream::{self, LastRawMessageErrorKind, RetentionPolicy, Stream},
    },
};
use bytes::Bytes;
use futures_util::{StreamExt as _, stream::BoxStream};
use parking_lot::Mutex;
use serde::{Serialize, de::DeserializeOwned};
use tokio::{
    sync::{OnceCell, watch},
    time::sleep,
};

use crate::{
    BlobId, Control, Engine, Error, Event, Options, Result, Source, Work, Worker,
    leases::Leases,
    record::Record,
    storage::{Followed, Notified, Row, Storage},
};
use blobs::Blobs;
use follower::Follower;
use mirror::Mirror;
use notices::Notices;
use observer::Election;
use presence::Requests;
use queue::Queue;
use routes::Routes;

/// The oldest nats-server that works: it has a time to live per message, and checks a revision of another subject.
const OLDEST: (i64, i64, i64) = (2, 12, 0);

/// How long the server may take to answer one request.
const ANSWER: Duration = Duration::from_secs(3);

/// The pause after a failure, before a consumer is made anew.
const PAUSE: Duration = Duration::from_millis(200);

pub(crate) async fn open(url: &str, options: &Options) -> Result<Arc<dyn Engine>> {
    Ok(Arc::new(Leases::new(Nats::open(url, options).await?, options.lease)))
}

pub(crate) struct Nats {
    client: Client,
    context: Context,
    /// The stream of the bucket.
    bucket: Stream,
    queue: Queue,
    presence: Stream,
    requests: Requests,
    blobs: Blobs,
    mirror: Mutex<Option<Arc<Mirror>>>,
    notices: OnceCell<Notices>,
    election: Election,
    routes: OnceCell<Routes>,
    /// The queues whose demands this process has stored.
    stored_routes: Mutex<HashSet<String>>,
    lease: Duration,
}

/// Any failure to get an answer.
pub(crate) fn unreachable(error: impl std::fmt::Display) -> Error {
    Error::Unreachable(error.to_string())
}

fn encoded(value: &impl Serialize) -> Result<Bytes> {
    serde_json::to_vec(value).map(Bytes::from).map_err(|it| Error::Refused(it.to_string()))
}

fn decoded<T: DeserializeOwned>(subject: &str, bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|it| Error::Damaged(format!("{subject}: {it}")))
}

async fn connect(url: &str, options: &Options) -> Result<Client> {
    let mut connect = ConnectOptions::new()
        .name("haft")
        .connection_timeout(ANSWER)
        .request_timeout(Some(ANSWER))
        .ping_interval(Duration::from_secs(10))
        .reconnect_delay_callback(|attempts| {
            Duration::from_millis(50).saturating_mul(attempts.min(20) as u32)
        })
        .event_callback(async |event| match event {
            // The server does not answer a request that it refuses.
            OfClient::ServerError(error) => tracing::warn!(%error, "the NATS server refused a request"),
            other => tracing::debug!(%other, "NATS"),
        });
    if let Some(path) = &options.nkey {
        let seed = tokio::fs::read_to_string(path).await.map_err(|it| {
            Error::Refused(format!("{}: {it}; it must be the file with the seed of an nkey", path.display()))
        })?;
        let pair = nkeys::KeyPair::from_seed(seed.trim()).map_err(|it| {
            Error::Refused(format!("{}: {it}; it must be the file with the seed of an nkey", path.display()))
        })?;
        connect = connect.nkey(seed.trim().to_owned()).custom_inbox_prefix(server::inbox(&pair.public_key()));
    }
    if let Some(path) = &options.ca {
        connect = connect.add_root_certificates(path.clone()).require_tls(true);
    }
    let servers: std::result::Result<Vec<ServerAddr>, _> =
        url.split(',').map(|it| it.trim().parse()).collect();
    let servers = servers.map_err(|it| Error::Refused(format!("{url}: {it}; give \"nats://HOST:PORT\"")))?;
    let client = connect.connect(servers).await.map_err(|it| {
        unreachable(format!("{url}: {it}; is a nats-server running there? `haft workers up` starts one"))
    })?;
    let (major, minor, patch) = OLDEST;
    if !client.is_server_compatible(major, minor, patch) {
        let version = client.server_info().version;
        return Err(Error::Refused(format!(
            "{url} is nats-server {version}; haft needs {major}.{minor} or newer: `haft workers up` starts one"
        )));
    }
    Ok(client)
}

impl Nats {
    pub(crate) async fn open(url: &str, options: &Options) -> Result<Self> {
        let client = connect(url, options).await?;
        let mut context = jetstream::new(client.clone());
        context.set_timeout(ANSWER);
        let replicas = options.replicas;
        let bucket = kv::Config {
            bucket: "haft".to_owned(),
            history: 1,
            num_replicas: replicas,
            ..kv::Config::default()
        };
        let bucket = match context.get_key_value("haft").await {
            Ok(bucket) => bucket,
            Err(_) => context.create_key_value(bucket).await.map_err(|it| no_stream(url, &it))?,
        };
        let queue = stream::Config {
            name: "haft_queue".to_owned(),
            subjects: vec!["haft.queue.*.*".to_owned()],
            retention: RetentionPolicy::WorkQueue,
            // An id waits once.
            max_messages_per_subject: 1,
            discard: stream::DiscardPolicy::New,
            discard_new_per_subject: true,
            num_replicas: replicas,
            ..stream::Config::default()
        };
        let presence = stream::Config {
            name: "haft_workers".to_owned(),
            subjects: vec!["haft.worker.*".to_owned(), "haft.control.*".to_owned()],
            max_messages_per_subject: 1,
            allow_message_ttl: true,
            num_replicas: replicas,
            ..stream::Config::default()
        };
        Ok(Self {
            bucket: bucket.stream,
            queue: Queue::new(context.get_or_create_stream(queue).await.map_err(|it| no_stream(url, &it))?),
            presence: context.get_or_create_stream(presence).await.map_err(|it| no_stream(url, &it))?,
            requests: Requests::default(),
            blobs: Blobs::open(&context, replicas).await.map_err(|it| no_stream(url, &it))?,
            client,
            context,
            mirror: Mutex::default(),
            notices: OnceCell::new(),
            election: Election::new(options.lease)?,
            routes: OnceCell::new(),
            stored_routes: Mutex::default(),
            lease: options.lease,
        })
    }

    async fn mirror(&self) -> Result<Arc<Mirror>> {
        let start = || Mirror::start(self.bucket.clone(), self.client.clone());
        let mirror = Arc::clone(self.mirror.lock().get_or_insert_with(start));
        mirror.ready().await?;
        Ok(mirror)
    }

    async fn notices(&self) -> Result<&Notices> {
        self.notices.get_or_try_init(async || Notices::start(&self.client, self.lease).await).await
    }

    /// Publishes; `None` means that an expected revision was not the last one.
    async fn publish(&self, subject: String, headers: HeaderMap, payload: Bytes) -> Result<Option<u64>> {
        let sent = self.context.publish_with_headers(subject, headers, payload).await;
        let answer = match sent {
            Ok(answer) => answer.await,
            Err(error) => Err(error),
        };
        match answer {
            Ok(ack) => Ok(Some(ack.sequence)),
            Err(error) if error.kind() == PublishErrorKind::WrongLastSequence => Ok(None),
            Err(error) => Err(unreachable(error)),
        }
    }

    /// Compare-and-set of a key of the bucket. Revision 0: it must not exist.
    async fn set(&self, key: &str, value: Bytes, revision: u64) -> Result<Option<u64>> {
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Expected-Last-Subject-Sequence", revision.to_string().as_str());
        self.publish(subject(key), headers, value).await
    }

    /// The number of consumers that read records and announcements.
    #[cfg(test)]
    pub(crate) async fn consumers(&self) -> Result<usize> {
        let mut all = 0;
        for stream in [&self.bucket, &self.presence] {
            all += stream.get_info().await.map_err(unreachable)?.state.consumer_count;
        }
        Ok(all)
    }

    /// Returns the last value of a key from the stream's leader: what was acknowledged before is in it.
    async fn last(&self, key: &str) -> Result<Option<(Bytes, u64, String)>> {
        match self.bucket.get_last_raw_message_by_subject(&subject(key)).await {
            Ok(it) if it.payload.is_empty() => Ok(None),
            Ok(it) => Ok(Some((it.payload, it.sequence, it.subject.to_string()))),
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
            Err(error) => Err(unreachable(error)),
        }
    }
}

fn no_stream(url: &str, error: &dyn std::fmt::Display) -> Error {
    Error::Unreachable(format!("{url}: {error}; it must be a nats-server with JetStream on"))
}

fn subject(key: &str) -> String {
    format!("$KV.haft.{key}")
}

/// The messages of an ordered consumer.
struct Ordered {
    messages: push::Ordered,
    stream: Stream,
    name: String,
}

impl Ordered {
    async fn next(&mut self) -> Option<std::result::Result<Message, push::OrderedError>> {
        self.messages.next().await
    }
}

impl Drop for Ordered {
    /// Deletes the consumer. The server would keep it for 30 s more, and refuses others while it has too many: a sender of many
    /// short pieces of work would wait for its own past.
    fn drop(&mut self) {
        let (stream, name) = (self.stream.clone(), std::mem::take(&mut self.name));
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if let Err(error) = stream.delete_consumer(&name).await {
                    tracing::debug!(%error, name, "a consumer was not deleted; it ends by itself");
                }
            });
        }
    }
}

/// Starts an ordered consumer: it goes on by itself after a reconnection, without loss or repetition.
async fn ordered(
    stream: &Stream,
    client: &Client,
    filters: Vec<String>,
    deliver_policy: DeliverPolicy,
) -> Result<(Ordered, u64)> {
    let config = push::OrderedConfig {
        deliver_subject: client.new_inbox(),
        filter_subjects: filters,
        deliver_policy,
        ..push::OrderedConfig::default()
    };
    let consumer = stream.create_consumer(config).await.map_err(unreachable)?;
    let (pending, name) = (consumer.cached_info().num_pending, consumer.cached_info().name.clone());
    let messages = consumer.messages().await.map_err(unreachable)?;
    Ok((Ordered { messages, stream: stream.clone(), name }, pending))
}

fn sequence_of(message: &Message) -> Result<u64> {
    message.info().map(|it| it.stream_sequence).map_err(unreachable)
}

#[async_trait::async_trait]
impl Storage for Nats {
    async fn insert(&self, id: &str, work: &Work, record: &Record) -> Result<Option<u64>> {
        let route = record.route.hash();
        if !self.stored_routes.lock().contains(&route) {
            self.set(&format!("r.{route}"), encoded(&record.route)?, 0).await?;
            self.stored_routes.lock().insert(route);
        }
        // The first task counts, as the first record does. Both are sent before the first answer.
        let (task, first) = (format!("t.{id}"), format!("w.{id}"));
        let (task, record) =
            tokio::join!(self.set(&task, encoded(work)?, 0), self.set(&first, encoded(record)?, 0));
        task?;
        record
    }

    async fn load(&self, id: &str) -> Result<Option<(Record, u64)>> {
        let Some((value, revision, subject)) = self.last(&format!("w.{id}")).await? else { return Ok(None) };
        Ok(Some((decoded(&subject, &value)?, revision)))
    }

    async fn notified(&self, id: &str) -> Result<Notified> {
        match self.notices().await?.has(id) {
            true => self.load(id).await.map(Notified::from),
            false => Ok(Notified::Unchanged),
        }
    }

    async fn work(&self, id: &str) -> Result<Option<Work>> {
        let Some((value, _, subject)) = self.last(&format!("t.{id}")).await? else { return Ok(None) };
        decoded(&subject, &value).map(Some)
    }

    async fn replace(&self, id: &str, record: &Record, revision: u64) -> Result<Option<u64>> {
        self.set(&format!("w.{id}"), encoded(record)?, revision).await
    }

    async fn append(&self, id: &str, event: &Event, revision: u64) -> Result<bool> {
        // The server compares the revision of the record where it stores the event.
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Expected-Last-Subject-Sequence", revision.to_string().as_str());
        headers.insert("Nats-Expected-Last-Subject-Sequence-Subject", subject(&format!("w.{id}")).as_str());
        let to = subject(&format!("e.{id}.{}", event.number));
        Ok(self.publish(to, headers, encoded(&event.value)?).await?.is_some())
    }

    async fn last_event(&self, id: &str) -> Result<u64> {
        let Some((_, _, subject)) = self.last(&format!("e.{id}.*")).await? else { return Ok(0) };
        number_of(&subject)
    }

    async fn deliver(&self, id: &str, record: &Record) -> Result<()> {
        queue::deliver(&self.context, id, &record.route).await
    }

    async fn next(&self, worker: &Worker) -> Result<String> {
        let start = async || Routes::start(self.bucket.clone(), self.client.clone());
        self.queue.next(self.routes.get_or_init(start).await, worker).await
    }

    async fn changes(&self) -> Result<watch::Receiver<u64>> {
        Ok(self.notices().await?.changes())
    }

    async fn notify(&self, id: &str) -> Result<()> {
        notices::notify(&self.client, id).await
    }

    async fn observes(&self) -> Result<bool> {
        let observes = self.election.is_won(self).await?;
        if !observes {
            *self.mirror.lock() = None;
        }
        Ok(observes)
    }

    async fn open_records(&self) -> Result<Vec<Row>> {
        Ok(self.mirror().await?.records())
    }

    async fn follow(
        self: Arc<Self>,
        id: String,
        _: u64,
    ) -> Result<Option<BoxStream<'static, Result<Followed>>>> {
        let filters = [format!("w.{id}"), format!("e.{id}.*")].map(|it| subject(&it)).to_vec();
        let all = ordered(&self.bucket, &self.client, filters.clone(), DeliverPolicy::All).await?;
        let (mut messages, pending) = all;
        // The node of the consumer may be behind the stream's leader.
        if pending == 0 && self.load(&id).await?.is_none() {
            return Ok(None);
        }
        let rows = async_stream::try_stream! {
            let mut next = None;
            loop {
                while let Some(Ok(message)) = messages.next().await {
                    let sequence = sequence_of(&message)?;
                    next = Some(sequence + 1);
                    if message.payload.is_empty() {
                        continue;
                    }
                    if message.subject.contains(".w.") {
                        let record = decoded(&message.subject, &message.payload)?;
                        yield Followed::Record(Box::new(record), sequence);
                    } else {
                        let value = decoded(&message.subject, &message.payload)?;
                        yield Followed::Event(Event { number: number_of(&message.subject)?, value });
                    }
                }
                messages = loop {
                    sleep(PAUSE).await;
                    let from = match next {
                        Some(start_sequence) => DeliverPolicy::ByStartSequence { start_sequence },
                        None => DeliverPolicy::All,
                    };
                    if let Ok((again, _)) = ordered(&self.bucket, &self.client, filters.clone(), from).await {
                        break again;
                    }
                };
            }
        };
        Ok(Some(rows.boxed()))
    }

    async fn put(&self, source: Source) -> Result<BlobId> {
        self.blobs.put(source).await
    }

    async fn has(&self, id: &BlobId) -> Result<bool> {
        self.blobs.has(id).await
    }

    async fn get(&self, id: &BlobId) -> Result<Vec<u8>> {
        self.blobs.get(id).await
    }

    async fn fetch(&self, id: &BlobId, to: &Path) -> Result<()> {
        self.blobs.fetch(id, to).await
    }

    async fn announce(&self, worker: &Worker, lease: Duration) -> Result<()> {
        presence::announce(self, worker, lease).await
    }

    async fn leave(&self, worker: &str) -> Result<()> {
        presence::leave(self, worker).await
    }

    async fn workers(&self) -> Result<Vec<Worker>> {
        presence::workers(self).await
    }

    async fn control(&self, worker: &str, control: Control) -> Result<()> {
        presence::control(self, worker, control).await
    }

    async fn requested(&self, worker: &str) -> Result<Option<Control>> {
        presence::requested(self, worker).await
    }

    async fn controlled(&self, worker: &str) -> Result<Control> {
        presence::controlled(self, worker).await
    }

    async fn sweep(&self, age: Duration) -> Result<()> {
        mirror::sweep(&self.bucket, &self.client, age).await?;
        self.blobs.sweep(age).await
    }
}

fn number_of(subject: &str) -> Result<u64> {
    let number = subject.rsplit('.').next().and_then(|it| it.parse().ok());
    number.ok_or_else(|| Error::Damaged(format!("{subject} is not the subject of an event")))
}
