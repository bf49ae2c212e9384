//! The demands of all queues, followed by one consumer per process: a worker polls the queues whose work it fits.

use std::{collections::HashMap, sync::Arc};

use async_nats::{
    Client,
    jetstream::{consumer::DeliverPolicy, stream::Stream},
};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::{Follower, decoded, ordered, subject, unreachable};
use crate::{Result, Worker, work::Route};

pub(super) struct Routes {
    state: Arc<State>,
    _follower: Follower,
}

struct State {
    routes: Mutex<HashMap<String, Route>>,
    changes: watch::Sender<u64>,
}

impl Routes {
    pub(super) fn start(bucket: Stream, client: Client) -> Self {
        let state = Arc::new(State { routes: Mutex::default(), changes: watch::channel(0).0 });
        let followed = Arc::clone(&state);
        let follower = Follower::start("the queues", move || {
            follow(Arc::clone(&followed), bucket.clone(), client.clone())
        });
        Self { state, _follower: follower }
    }

    /// Is notified of each new queue.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.state.changes.subscribe()
    }

    /// Returns the queues whose work fits the worker.
    pub(super) fn fitting(&self, worker: &Worker) -> Vec<String> {
        let routes = self.state.routes.lock();
        routes.iter().filter(|(_, route)| route.fits(worker)).map(|(hash, _)| hash.clone()).collect()
    }
}

async fn follow(state: Arc<State>, bucket: Stream, client: Client) -> Result<()> {
    let all = ordered(&bucket, &client, vec![subject("r.*")], DeliverPolicy::LastPerSubject).await?;
    let (mut messages, _) = all;
    while let Some(message) = messages.next().await {
        let message = message.map_err(unreachable)?;
        let Some(hash) = message.subject.rsplit('.').next().filter(|_| !message.payload.is_empty()) else {
            continue;
        };
        state.routes.lock().insert(hash.to_owned(), decoded(&message.subject, &message.payload)?);
        state.changes.send_modify(|it| *it = it.wrapping_add(1));
    }
    Ok(())
}
