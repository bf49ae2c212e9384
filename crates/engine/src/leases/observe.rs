//! Observation of leases: a holder is lost if its record stays at one revision for the length of its lease, on the
//! observer's monotonic clock.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::time::{Instant, sleep};

use super::Shared;
use crate::{
    record::{Holding, Record},
    storage::Storage,
};

/// How many offers are delivered again at once. Most of them only wait for a worker.
const MOST_DELIVERED: usize = 64;

/// The first sight of a revision.
#[derive(Clone, Copy)]
pub(super) struct Observed {
    pub(super) revision: u64,
    since: Instant,
}

impl Observed {
    pub(super) fn now(revision: u64) -> Self {
        Self { revision, since: Instant::now() }
    }

    /// Returns when its holder counts as lost, or its offer if it has none. `lease` is the length of this process's leases.
    pub(super) fn due(&self, record: &Record, lease: Duration) -> Option<Instant> {
        match record.holding {
            Holding::Ended { .. } => None,
            _ => Some(self.since + record.lease().unwrap_or(lease)),
        }
    }

    pub(super) fn restart(&mut self) {
        self.since = Instant::now();
    }
}

/// Observes all leases until the engine is closed.
pub(super) async fn run<S: Storage>(shared: Weak<Shared<S>>) {
    let mut seen: HashMap<String, Observed> = HashMap::new();
    loop {
        let Some(strong) = shared.upgrade() else { return };
        let pause = (strong.lease / 4).clamp(Duration::from_millis(20), Duration::from_secs(2));
        if let Err(error) = tick(&strong, &mut seen).await {
            tracing::warn!(%error, "the leases of other workers could not be observed");
        }
        drop(strong);
        sleep(pause).await;
    }
}

async fn tick<S: Storage>(
    shared: &Arc<Shared<S>>,
    seen: &mut HashMap<String, Observed>,
) -> crate::Result<()> {
    // Better twice than not at all.
    if !shared.storage.observes().await.unwrap_or(true) {
        seen.clear();
        return Ok(());
    }
    let mut now = HashMap::new();
    let mut delivered = 0;
    for (id, record, revision) in shared.storage.open_records().await? {
        let known = seen.get(&id).filter(|it| it.revision == revision);
        let mut observed = known.copied().unwrap_or_else(|| Observed::now(revision));
        if observed.due(&record, shared.lease).is_some_and(|due| due <= Instant::now()) {
            let is_offer = record.holding == Holding::Offered;
            if !is_offer || delivered < MOST_DELIVERED {
                delivered += usize::from(is_offer);
                shared.go_on(&id, &record, revision).await?;
                observed.restart();
            }
        }
        now.insert(id, observed);
    }
    *seen = now;
    Ok(())
}
