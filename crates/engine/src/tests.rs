//! One suite of tests for every engine.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests"
)]

mod blobs;
mod cancel;
mod places;
mod processes;
mod states;
mod suite;
mod takeover;
mod zombie;

#[cfg(feature = "nats")]
mod nodes;
#[cfg(feature = "nats")]
mod servers;

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use futures_util::{StreamExt as _, stream::BoxStream};
use serde_json::json;

use crate::{
    Engine, Event, Grain, Key, Lease, Outcome, Result, State, Status, Update, Work, Worker, leases::Leases,
};
use places::Place;

/// The lease of the tests.
const LEASE: Duration = Duration::from_secs(1);

/// Makes a test of each function, for each engine.
macro_rules! for_each_engine {
    ($($(#[$about:meta])* $name:ident),+ $(,)?) => {
        mod sqlite {
            $($(#[$about])*
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(&<crate::tests::places::Folder as crate::tests::places::Place>::new().await).await;
            })+
        }
        #[cfg(feature = "nats")]
        mod nats {
            $($(#[$about])*
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(&<crate::tests::places::Server as crate::tests::places::Place>::new().await).await;
            })+
        }
    };
}
pub(crate) use for_each_engine;

/// Opens the place's engine as another process would.
async fn engine<P: Place>(place: &P) -> Leases<P::Storage> {
    Leases::new(place.storage(LEASE).await, LEASE)
}

fn key(step: u64) -> Key {
    Key { session: "s1".to_owned(), step, call: 0, attempt: 0 }
}

fn work(step: u64) -> Work {
    Work {
        key: key(step),
        grain: Grain::Call,
        labels: BTreeSet::new(),
        needs: Vec::new(),
        protocol: crate::PROTOCOL,
        haft: "0.1.0".to_owned(),
        task: json!({"step": step}),
        snapshot: None,
        limits: json!({}),
        idempotent: false,
    }
}

fn worker(id: &str) -> Worker {
    Worker {
        id: id.to_owned(),
        host: "host".to_owned(),
        labels: BTreeSet::new(),
        slots: 1,
        busy: 0,
        version: "0.1.0".to_owned(),
        protocol: crate::PROTOCOL,
        draining: false,
        has: Vec::new(),
    }
}

fn labels(all: &[&str]) -> BTreeSet<String> {
    all.iter().map(|it| (*it).to_owned()).collect()
}

fn done(text: &str) -> Outcome {
    Outcome::Done { result: json!(text), patch: None }
}

async fn claim(engine: &(impl Engine + ?Sized), worker: &Worker) -> (Work, Lease) {
    let claimed = tokio::time::timeout(Duration::from_secs(20), engine.claim(worker)).await;
    claimed.expect("a claim within 20 s").unwrap().expect("work, not a request to drain")
}

/// Reads a watch to its end.
async fn rest(mut watch: BoxStream<'static, Result<Update>>) -> (Vec<Event>, Vec<Status>) {
    let (mut events, mut states) = (Vec::new(), Vec::new());
    let all = async {
        while let Some(update) = watch.next().await {
            match update.unwrap() {
                Update::Event(event) => events.push(event),
                Update::State(status) => states.push(status),
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), all).await.expect("the watch ends");
    (events, states)
}

/// Waits for a state.
async fn state_of(watch: &mut BoxStream<'static, Result<Update>>, fits: impl Fn(&State) -> bool) -> Status {
    let wanted = async {
        loop {
            match watch.next().await.expect("the watch goes on").unwrap() {
                Update::State(status) if fits(&status.state) => return status,
                _ => {}
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), wanted).await.expect("the state comes")
}

async fn outcome(engine: &impl Engine, key: &Key) -> Outcome {
    let (_, mut states) = rest(engine.watch(key, 0).await.unwrap()).await;
    match states.pop().expect("a state").state {
        State::Ended(outcome) => outcome,
        other => panic!("the watch ended in {other:?}"),
    }
}

fn since(start: Instant) -> Duration {
    start.elapsed()
}
