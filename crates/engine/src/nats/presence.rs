//! Announcements of workers, which the server itself removes after the length of a lease, and requests to workers.

use std::time::Duration;

use async_nats::{HeaderMap, jetstream::consumer::DeliverPolicy};
use futures_util::StreamExt as _;
use tokio::time::timeout;

use super::{LastRawMessageErrorKind, Nats, decoded, encoded, ordered, unreachable};
use crate::{Control, Result, Worker, key::part};

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

pub(super) async fn requested(nats: &Nats, worker: &str) -> Result<Option<Control>> {
    let subject = subject_of("control", worker);
    match nats.presence.get_last_raw_message_by_subject(&subject).await {
        Ok(it) if !it.payload.is_empty() => decoded(&subject, &it.payload).map(Some),
        Ok(_) => Ok(None),
        Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
        Err(error) => Err(unreachable(error)),
    }
}

pub(super) async fn controlled(nats: &Nats, worker: &str) -> Result<Control> {
    let subject = subject_of("control", worker);
    // First the subscription, so that nothing falls in between.
    let mut requests = nats.client.subscribe(subject.clone()).await.map_err(unreachable)?;
    loop {
        match requested(nats, worker).await {
            Ok(Some(control)) => return Ok(control),
            Ok(None) => {}
            Err(error) => tracing::debug!(%error, "requests to this worker could not be read; trying again"),
        }
        if let Ok(Some(request)) = timeout(LOOK, requests.next()).await {
            return decoded(&subject, &request.payload);
        }
    }
}
