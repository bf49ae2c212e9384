//! The election of the observer: one process observes the leases of all workers, and another one once it is silent for the
//! length of a lease.
//!
//! The key `o` names the observer, which renews it by compare-and-set. Two observers for a moment do no harm: each takeover is a
//! compare-and-set, too.

use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::{Nats, decoded, encoded};
use crate::{Result, leases::random};

const KEY: &str = "o";

/// The value of the key.
#[derive(Serialize, Deserialize)]
struct Observer {
    process: String,
    lease_ms: u64,
}

/// The candidacy of this process.
pub(super) struct Election {
    process: String,
    lease: Duration,
    /// The last revision of the key, and its first sight.
    seen: Mutex<Option<(u64, Instant)>>,
}

impl Election {
    pub(super) fn new(lease: Duration) -> Result<Self> {
        Ok(Self { process: random()?, lease, seen: Mutex::default() })
    }

    /// Returns whether this process is the observer now.
    pub(super) async fn is_won(&self, nats: &Nats) -> Result<bool> {
        let Some((value, revision, subject)) = nats.last(KEY).await? else {
            return self.stand(nats, 0).await;
        };
        let observer: Observer = decoded(&subject, &value)?;
        let since = self.since(revision);
        let is_me = observer.process == self.process;
        let lasts = match is_me {
            true => self.lease / 3,
            false => Duration::from_millis(observer.lease_ms),
        };
        match since.elapsed() < lasts {
            true => Ok(is_me),
            false => self.stand(nats, revision).await,
        }
    }

    /// Returns when this revision was seen first.
    fn since(&self, revision: u64) -> Instant {
        let mut seen = self.seen.lock();
        match *seen {
            Some((known, since)) if known == revision => since,
            _ => {
                let now = Instant::now();
                *seen = Some((revision, now));
                now
            }
        }
    }

    /// Takes or renews the key, and returns whether nobody else was faster.
    async fn stand(&self, nats: &Nats, revision: u64) -> Result<bool> {
        let lease_ms = u64::try_from(self.lease.as_millis()).unwrap_or(u64::MAX);
        let me = Observer { process: self.process.clone(), lease_ms };
        let stored = nats.set(KEY, encoded(&me)?, revision).await?;
        if let Some(revision) = stored {
            self.since(revision);
        }
        Ok(stored.is_some())
    }
}
