//! Announcements of workers, which the server itself removes after the length of a lease, and requests to workers.

use std::{collections::HashMap, time::Duration};

use super::{ANSWER, Follower, LastRawMessageErrorKind, Nats, decoded, encoded, ordered, unreachable};
use crate::{Control, Error, Result, Worker, key::part};
use async_nats::{
    Client, HeaderMap,
    jetstream::{consumer::DeliverPolicy, stream::Stream},
};
use futures_util::StreamExt as _;
use parking_lot::Mutex;
use tokio::{sync::watch, time::timeout};

/// How long a request to a worker is stored.
const CONTROL: Duration = Duration::from_secs(24 * 60 * 60);

/// How often a worker looks for a stored request, besides the notification of a new one.
const LOOK: Duration = Duration::from_secs(5);

fn living(time: Duration) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let seconds = time.as_millis().div_ceil(1000).max(1);
    headers.insert("Nats-TTL", format!("{seconds}s").as_str());
    headers
}

fn subject_of(kind: &str, worker: &str) -> String {
    format!("haft.{kind}.{}", part(worker))
}

pub(super) async fn announce(nats: &Nats, worker: &Worker, lease: Duration) -> Result<()> {
    nats.publish(subject_of("worker", &worker.id), living(lease), encoded(worker)?).await?;
    Ok(())
}

pub(super) async fn leave(nats: &Nats, worker: &str) -> Result<()> {
    nats.presence.purge().filter(subject_of("worker", worker)).await.map_err(unreachable)?;
    Ok(())
}

pub(super) async fn workers(nats: &Nats) -> Result<Vec<Worker>> {
    let filters = vec!["haft.worker.*".to_owned()];
    let all = ordered(&nats.presence, &nats.client, filters, DeliverPolicy::LastPerSubject).await?;
    let (mut messages, mut pending) = all;
    let mut workers: Vec<Worker> = Vec::new();
    while pending > 0 {
        let Some(message) = messages.next().await else { break };
        let message = message.map_err(unreachable)?;
        pending = message.info().map_err(unreachable)?.pending;
        if !message.payload.is_empty() {
            workers.push(decoded(&message.subject, &message.payload)?);
        }
    }
    workers.sort_by(|one, other| one.id.cmp(&other.id));
    Ok(workers)
}

pub(super) async fn control(nats: &Nats, worker: &str, control: Control) -> Result<()> {
    nats.publish(subject_of("control", worker), living(CONTROL), encoded(&control)?).await?;
    Ok(())
}

/// The requests to the workers of this process, each followed by one task: a claim costs no request of its own.
#[derive(Default)]
pub(super) struct Requests(Mutex<HashMap<String, Followed>>);

struct Followed {
    seen: watch::Receiver<Seen>,
    _follower: Follower,
}

/// The request to a worker, as far as it is known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// The server was not asked yet.
    Unknown,
    Nothing,
    Request(Control),
}

impl Requests {
    fn of(&self, nats: &Nats, worker: &str) -> watch::Receiver<Seen> {
        let mut all = self.0.lock();
        if let Some(known) = all.get(worker) {
            return known.seen.clone();
        }
        let (tell, seen) = watch::channel(Seen::Unknown);
        let (client, presence) = (nats.client.clone(), nats.presence.clone());
        let subject = subject_of("control", worker);
        let follower = Follower::start("requests to a worker", move || {
            follow(client.clone(), presence.clone(), subject.clone(), tell.clone())
        });
        all.insert(worker.to_owned(), Followed { seen: seen.clone(), _follower: follower });
        seen
    }
}

/// Returns the request to this worker, if there is one.
pub(super) async fn requested(nats: &Nats, worker: &str) -> Result<Option<Control>> {
    let mut seen = nats.requests.of(nats, worker);
    let known = timeout(ANSWER * 2, seen.wait_for(|it| *it != Seen::Unknown)).await;
    let known = *known
        .map_err(|_| unreachable("requests to this worker could not be read"))?
        .map_err(|it| closed(&it))?;
    Ok(match known {
        Seen::Request(control) => Some(control),
        Seen::Unknown | Seen::Nothing => None,
    })
}

pub(super) async fn controlled(nats: &Nats, worker: &str) -> Result<Control> {
    let mut seen = nats.requests.of(nats, worker);
    let seen = *seen.wait_for(|it| matches!(it, Seen::Request(_))).await.map_err(|it| closed(&it))?;
    match seen {
        Seen::Request(control) => Ok(control),
        Seen::Unknown | Seen::Nothing => Err(Error::Unreachable("the requests ended".to_owned())),
    }
}

fn closed(error: &watch::error::RecvError) -> Error {
    Error::Unreachable(format!("the requests to this worker are not followed: {error}"))
}

/// Follows the requests to one worker.
async fn follow(client: Client, presence: Stream, subject: String, tell: watch::Sender<Seen>) -> Result<()> {
    // First the subscription, so that nothing falls in between.
    let mut requests = client.subscribe(subject.clone()).await.map_err(unreachable)?;
    loop {
        match stored(&presence, &subject).await {
            Ok(Some(control)) => drop(tell.send_replace(Seen::Request(control))),
            Ok(None) => drop(tell.send_replace(Seen::Nothing)),
            Err(error) => {
                tracing::debug!(%error, "requests to this worker could not be read; trying again");
            }
        }
        match timeout(LOOK, requests.next()).await {
            Ok(Some(request)) => {
                if let Ok(control) = decoded(&subject, &request.payload) {
                    tell.send_replace(Seen::Request(control));
                }
            }
            Ok(None) => return Ok(()),
            Err(_) => {}
        }
    }
}

async fn stored(presence: &Stream, subject: &str) -> Result<Option<Control>> {
    match presence.get_last_raw_message_by_subject(subject).await {
        Ok(it) if !it.payload.is_empty() => decoded(subject, &it.payload).map(Some),
        Ok(_) => Ok(None),
        Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
        Err(error) => Err(unreachable(error)),
    }
}
