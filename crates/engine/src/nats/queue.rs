//! The work queue: it delivers ids, each to one worker that fits.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use async_nats::jetstream::{
    AckKind, Context,
    consumer::{AckPolicy, PullConsumer, pull},
    stream::Stream,
};
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use parking_lot::Mutex;
use tokio::time::sleep;

use super::{PAUSE, routes::Routes, unreachable};
use crate::{Result, Worker, work::Route};

/// How long a worker may take between the delivery of an id and its acknowledgement, which follows at once. It has nothing to
/// do with the length of a lease. The server cannot change it for an existing consumer.
const ACK_WAIT: Duration = Duration::from_secs(5);

/// How long one request waits for an id.
const POLL: Duration = Duration::from_secs(30);

/// A queue that no worker polls loses its consumer after this time; its ids stay.
const UNUSED: Duration = Duration::from_secs(24 * 60 * 60);

/// The stream of ids, and its consumers that this process has used.
pub(super) struct Queue {
    stream: Stream,
    consumers: Mutex<HashMap<String, PullConsumer>>,
}

/// Puts an id into its queue, where it waits once.
pub(super) async fn deliver(context: &Context, id: &str, route: &Route) -> Result<()> {
    let subject = format!("haft.queue.{}.{id}", route.hash());
    let sent = context.publish(subject, id.to_owned().into()).await;
    let answer = match sent {
        Ok(answer) => answer.await,
        Err(error) => Err(error),
    };
    match answer {
        Ok(_) => Ok(()),
        Err(error) if error.to_string().contains("maximum messages per subject") => Ok(()),
        Err(error) => Err(unreachable(error)),
    }
}

impl Queue {
    pub(super) fn new(stream: Stream) -> Self {
        Self { stream, consumers: Mutex::default() }
    }

    /// Waits for an id of work that fits the worker.
    pub(super) async fn next(&self, routes: &Routes, worker: &Worker) -> Result<String> {
        let mut new_routes = routes.changes();
        let (mut polls, mut polled) = (FuturesUnordered::new(), HashSet::new());
        loop {
            new_routes.borrow_and_update();
            let fresh = routes.fitting(worker).into_iter().filter(|it| polled.insert(it.clone()));
            polls.extend(fresh.map(|it| self.poll(it)));
            tokio::select! {
                Some(id) = polls.next() => return Ok(id),
                changed = new_routes.changed() => changed.map_err(unreachable)?,
            }
        }
    }

    /// Waits for an id of one queue.
    async fn poll(&self, route: String) -> String {
        loop {
            match self.poll_once(&route).await {
                Ok(Some(id)) => return id,
                Ok(None) => {}
                Err(error) => {
                    tracing::debug!(%error, route, "a queue could not be asked; trying again");
                    // The server may have lost it.
                    self.consumers.lock().remove(&route);
                    sleep(PAUSE).await;
                }
            }
        }
    }

    async fn poll_once(&self, route: &str) -> Result<Option<String>> {
        let consumer = self.consumer(route).await?;
        let batch = consumer.batch().max_messages(1).expires(POLL).messages().await;
        let mut batch = batch.map_err(unreachable)?;
        let Some(message) = batch.next().await else { return Ok(None) };
        let message = message.map_err(unreachable)?;
        // At once: the record decides who has the work. If this process ends here, its observer delivers the id again.
        message.ack_with(AckKind::Ack).await.map_err(unreachable)?;
        Ok(Some(String::from_utf8_lossy(&message.payload).into_owned()))
    }

    async fn consumer(&self, route: &str) -> Result<PullConsumer> {
        if let Some(known) = self.consumers.lock().get(route) {
            return Ok(known.clone());
        }
        let config = pull::Config {
            durable_name: Some(route.to_owned()),
            filter_subject: format!("haft.queue.{route}.*"),
            ack_policy: AckPolicy::Explicit,
            ack_wait: ACK_WAIT,
            max_ack_pending: 10_000,
            max_waiting: 10_000,
            inactive_threshold: UNUSED,
            ..pull::Config::default()
        };
        // Never an update: an existing consumer is used as it is.
        let consumer = self.stream.get_or_create_consumer(route, config).await.map_err(unreachable)?;
        self.consumers.lock().insert(route.to_owned(), consumer.clone());
        Ok(consumer)
    }
}
