//! Work on other machines: sends tasks to workers through an engine, runs them there, and brings back what they changed.
//!
//! The engine keeps the records ([`engine::Engine`]); a workspace travels by content (`workspace.rs`). A worker runs a
//! session as `haft run` in a folder of its own, under its own configuration, which the sender's limits can only narrow.

mod call;
mod child;
mod folders;
mod members;
mod needs;
mod packs;
mod sender;
mod session;
mod subagents;
mod task;
mod worker;
mod workspace;

use std::{collections::BTreeSet, path::PathBuf, sync::Arc, time::Duration};

use engine::Engine;
use kit::{Fault, Kind};
use runtime::config::parse_path;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub(crate) use call::{CallResult, RemoteCall};
pub(crate) use child::OfWorker;
pub(crate) use kit::labels::parse as labels;
pub(crate) use members::{OnWorkers, RemoteMember};
pub(crate) use needs::{has, needs};
pub(crate) use sender::{Followed, Sender};
pub(crate) use session::SessionResult;
pub(crate) use subagents::Subagents;
pub(crate) use task::{Task, limits};
pub(crate) use worker::{Offers, Worker};
pub(crate) use workspace::{Landed, Travel};

use crate::{Options, Place};

/// The engine where none is named.
const SQLITE: &str = "sqlite";

/// The label that every worker has.
pub(crate) const ANY: &str = "any";

/// Opens the engine of this address, else that of the configuration, else the one in the state folder.
///
/// # Errors
/// When there is no such engine, or it can't be reached.
pub(crate) async fn open(address: Option<&str>, place: &Place) -> Result<Arc<dyn Engine>, Fault> {
    let config = Options::own_config(place)?;
    let address = address.or(config.engine.as_deref()).unwrap_or(SQLITE);
    let (home, workers) = (place.home(), config.workers);
    let path = |it: Option<PathBuf>| it.map(|it| parse_path(&it, &home));
    let options = engine::Options {
        lease: workers.lease_seconds.map_or(engine::LEASE, Duration::from_secs),
        nkey: path(workers.nkey),
        ca: path(workers.ca),
        replicas: workers.replicas.map_or(1, |it| usize::try_from(it).unwrap_or(1)),
    };
    engine::open(address, &place.state, options).await.map_err(fault)
}

/// Returns labels as a person types them.
pub(crate) fn shown(labels: &BTreeSet<String>) -> String {
    if labels.is_empty() { ANY.to_owned() } else { labels.iter().cloned().collect::<Vec<_>>().join(",") }
}

/// Reads the result that a worker stored.
///
/// # Errors
/// When it has another form.
pub(crate) fn result_of<T: DeserializeOwned>(stored: Value) -> Result<T, Fault> {
    serde_json::from_value(stored)
        .map_err(|error| Fault::new(Kind::Failed, format!("the worker's result can't be read: {error}")))
}

/// Returns an error of the engine as a fault.
#[expect(clippy::needless_pass_by_value, reason = "an argument of `map_err`")]
pub(crate) fn fault(error: engine::Error) -> Fault {
    use engine::Error;
    let what = error.to_string();
    match error {
        Error::Unreachable(_) => Fault::new(Kind::Unavailable, what)
            .next("`haft config engine` shows which engine is used; `haft workers` asks it who is there."),
        Error::Refused(_) => Fault::bad_args(what),
        Error::Unknown(_) => Fault::not_found(what),
        Error::Lost { .. } | Error::Damaged(_) => Fault::new(Kind::Failed, what),
    }
}
