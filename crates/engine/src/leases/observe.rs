//! Observation of leases: a holder is lost if its record stays at one revision for the length of its lease, on the
//! observer's monotonic clock.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::time::{Instant, sleep};

use super::Shared;
use crate::{record::Record, storage::Storage};

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

    /// Returns when its holder counts as lost.
    pub(super) fn due(&self, record: &Record) -> Option<Instant> {
        record.lease().map(|lease| self.since + lease)
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
    let mut now = HashMap::new();
    for (id, record, revision) in shared.storage.open_records().await? {
        if record.lease().is_none() {
            continue;
        }
        let known = seen.get(&id).filter(|it| it.revision == revision);
        let observed = known.copied().unwrap_or_else(|| Observed::now(revision));
        if observed.due(&record).is_some_and(|due| due <= Instant::now()) {
            shared.take_over(&id, &record, revision).await?;
        }
        now.insert(id, observed);
    }
    *seen = now;
    Ok(())
}
