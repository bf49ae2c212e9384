//! Engines of work: a sender offers work under an idempotency key, and one worker at a time holds its lease.
//!
//! One record per piece of work is the truth, changed only by compare-and-set of its revision. The revision is the fencing
//! token: the renewals, events and result of a worker that lost its lease are refused in the same step that would store them.
//! A lease ends by observation: an observer that finds a leased record unchanged for the length of the lease, on its own monotonic
//! clock, may take it over. Wall clocks are never compared.
//!
//! [`open`] returns the engine of a URL: `sqlite` for the processes of one machine, `nats://host:port` for many machines.

mod error;
mod files;
mod interface;
mod key;
mod lease;
mod leases;
#[cfg(feature = "nats")]
pub mod nats;
mod record;
mod sqlite;
mod storage;
#[cfg(test)]
mod tests;
mod work;

use std::{path::Path, sync::Arc};

pub use error::{Error, Result};
pub use interface::{Engine, LEASE, Options, PROTOCOL};
pub use key::{BlobId, Key};
pub use lease::Lease;
pub use work::{
    Control, Event, Grain, Listed, Need, Outcome, Source, State, Status, Stop, Update, Work, Worker,
};

/// Opens the engine of a URL: `sqlite` (in `state/engine/`), or `nats://host:port` (`tls://host:port`); a comma between the
/// servers of a cluster.
pub async fn open(url: &str, state: &Path, options: Options) -> Result<Arc<dyn Engine>> {
    match url {
        "" | "sqlite" => sqlite::open(&state.join("engine"), &options).await,
        it if it.starts_with("nats://") || it.starts_with("tls://") => open_nats(it, &options).await,
        it => {
            Err(Error::Refused(format!("{it:?} is not an engine: give \"sqlite\", or \"nats://HOST:PORT\"")))
        }
    }
}

#[cfg(feature = "nats")]
async fn open_nats(url: &str, options: &Options) -> Result<Arc<dyn Engine>> {
    nats::open(url, options).await
}

#[cfg(not(feature = "nats"))]
async fn open_nats(url: &str, _: &Options) -> Result<Arc<dyn Engine>> {
    Err(Error::Refused(format!(
        "this haft is built without NATS, so {url} cannot be used: build it with `--features nats`"
    )))
}
