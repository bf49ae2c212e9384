//! `haft triggers`: what begins turns without a person: listed, shown, paused, fired, removed.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use kit::Fault;
use serde_json::{Value, json};
use store::{HistoryRow, Store, TriggerRow, TriggerState};
use triggers::{Service, Spec, What};

use super::close;
use crate::{
    Options, Place, print,
    triggers::{news, plain, time},
};

/// Number of history rows that `show` prints.
const SHOWN: usize = 10;

#[derive(Args)]
pub struct Triggers {
    #[command(subcommand)]
    what: Option<Do>,
    /// Print one line of JSON per trigger
    #[arg(long)]
    json: bool,
}

#[derive(Subcommand)]
enum Do {
    /// List the triggers, and what they were not granted or missed
    List {
        /// Print one line of JSON per trigger
        #[arg(long)]
        json: bool,
    },
    /// Show a trigger with its newest history
    Show {
        /// Id of the trigger
        id: String,
        /// Print it as JSON
        #[arg(long)]
        json: bool,
        /// Print the secret that haft created for a webhook
        #[arg(long)]
        secret: bool,
    },
    /// Show each fire and each time that it did not fire
    History {
        /// Id of the trigger
        id: String,
        /// Maximum number of lines, the newest ones
        #[arg(long, short = 'n', default_value_t = 50)]
        limit: usize,
        /// Print one line of JSON per event
        #[arg(long)]
        json: bool,
    },
    /// Pause triggers: they don't fire until you resume them
    Pause {
        /// Ids of the triggers
        #[arg(required = true)]
        ids: Vec<String>,
    },
    /// Arm paused triggers again
    Resume {
        /// Ids of the triggers
        #[arg(required = true)]
        ids: Vec<String>,
    },
    /// Fire a trigger once, now
    ///
    /// Its turn runs as soon as a process runs the session: `haft agents up`, a `haft chat` or a `haft run --wait` of it.
    Fire {
        /// Id of the trigger
        id: String,
    },
    /// Remove triggers with their history
    Remove {
        /// Ids of the triggers
        #[arg(required = true)]
        ids: Vec<String>,
    },
}

impl Triggers {
    /// # Errors
    /// When there is no such trigger, or the store can't be used.
    pub async fn run(&self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        let runtime = options.open(place)?.runtime;
        let done = self.done(runtime.store(), options.session.as_deref()).await;
        close(&runtime);
        done?.iter().for_each(|it| print::out(it));
        Ok(ExitCode::SUCCESS)
    }

    async fn done(&self, store: &Store, session: Option<&str>) -> Result<Vec<String>, Fault> {
        let service = Service::new(store.clone());
        let now = store::now_ms();
        let mut lines = Vec::new();
        match &self.what {
            None => return listed(&service, store, session, self.json).await,
            Some(Do::List { json }) => return listed(&service, store, session, *json || self.json).await,
            Some(Do::Show { id, json, secret }) => {
                let row = service.find(session, id).await?;
                if *secret {
                    let secret = store.triggers().secret(&row.session, &row.id)?;
                    let none = || Fault::not_found(format!("haft created no secret for `{id}`"));
                    return Ok(vec![secret.ok_or_else(none)?]);
                }
                let history = store.triggers().history(&row.session, &row.id, SHOWN)?;
                lines = if *json { vec![as_json(&row, &history).to_string()] } else { shown(&row, &history) };
            }
            Some(Do::History { id, limit, json }) => {
                let row = service.find(session, id).await?;
                let history = store.triggers().history(&row.session, &row.id, *limit)?;
                let as_line = |it: &HistoryRow| if *json { json!(it).to_string() } else { happened(it) };
                lines = history.iter().map(as_line).collect();
                if lines.is_empty() && !json {
                    lines.push("nothing happened yet".to_owned());
                }
            }
            Some(Do::Pause { ids }) => {
                for id in ids {
                    service.pause(&service.find(session, id).await?).await?;
                    lines.push(format!("paused {id}"));
                }
            }
            Some(Do::Resume { ids }) => {
                for id in ids {
                    let row = service.find(session, id).await?;
                    let passed = service.resume(&row, now).await?;
                    let left_out =
                        if passed > 0 { format!(", {passed} left out meanwhile") } else { String::new() };
                    lines.push(format!("resumed {id}{left_out}"));
                }
            }
            Some(Do::Fire { id }) => {
                let row = service.find(session, id).await?;
                let number = service.fire_now(&row, now).await?;
                lines.push(format!("fired {id}, fire {number}, in the session {}", row.session));
            }
            Some(Do::Remove { ids }) => {
                for id in ids {
                    let row = service.find(session, id).await?;
                    service.remove(&row.session, &row.id).await?;
                    lines.push(format!("removed {id}"));
                    if row.origin == "config" || row.origin == "profile" {
                        lines.push(format!("{id} is in the {} and comes back with it", row.origin));
                    }
                }
            }
        }
        Ok(lines)
    }
}

async fn listed(
    service: &Service,
    store: &Store,
    session: Option<&str>,
    is_json: bool,
) -> Result<Vec<String>, Fault> {
    let rows = service.list(session).await?;
    if is_json {
        return Ok(rows.iter().map(|it| as_json(it, &[]).to_string()).collect());
    }
    let mut lines: Vec<String> = rows.iter().map(line).collect();
    if lines.is_empty() {
        lines.push("no triggers".to_owned());
    }
    lines.extend(news(store, session).await?);
    Ok(lines)
}

/// Returns one trigger in one line.
fn line(row: &TriggerRow) -> String {
    let fires = match row.fires {
        0 => "not fired yet".to_owned(),
        1 => "1 fire".to_owned(),
        fires => format!("{fires} fires"),
    };
    format!(
        "{}  {}  {}{}  {fires}  session {}",
        row.id,
        row.state.name(),
        what(row),
        next(row),
        plain(&row.session)
    )
}

fn what(row: &TriggerRow) -> String {
    Spec::of_body(&row.body).map_or_else(|fault| fault.what, |spec| plain(&spec.to_string()))
}

fn next(row: &TriggerRow) -> String {
    match (row.state, row.next_fire_ms) {
        (TriggerState::Armed, Some(at)) => format!("  next {}", time(at)),
        _ => String::new(),
    }
}

/// Returns a trigger in lines.
fn shown(row: &TriggerRow, history: &[HistoryRow]) -> Vec<String> {
    let mut lines = vec![line(row), format!("made by {} at {}", row.origin, time(row.made_ms))];
    if let Ok(spec) = Spec::of_body(&row.body) {
        let common = &spec.common;
        lines.extend(common.prompt.as_deref().map(|it| format!("prompt: {}", plain(it))));
        let grants = if common.grants.is_empty() { "none".to_owned() } else { common.grants.join(", ") };
        lines.push(format!("grants: {}", plain(&grants)));
        if row.next_fire_ms.is_some() {
            lines.push(format!("missed: {}", json!(spec.missed()).as_str().unwrap_or_default()));
        }
        lines.extend(spec.max_per_day().map(|it| format!("at most {it} a day")));
        lines.extend(common.zone.as_deref().map(|it| format!("time zone: {it}")));
        if let What::Webhook { .. } = spec.what {
            lines.push(format!("requests: POST /hooks/{}/{} of `haft mcp --http`", row.session, row.id));
        }
    }
    lines.extend(history.iter().map(happened));
    lines
}

fn happened(row: &HistoryRow) -> String {
    let fire = row.fire.map_or_else(String::new, |it| format!("  fire {it}"));
    let text = if row.text.is_empty() { String::new() } else { format!("  {}", plain(&row.text)) };
    format!("{}  {}{fire}{text}", time(row.at_ms), row.event.name())
}

fn as_json(row: &TriggerRow, history: &[HistoryRow]) -> Value {
    let mut value = json!(row);
    if let Some(all) = value.as_object_mut()
        && !history.is_empty()
    {
        all.insert("history".to_owned(), json!(history));
    }
    value
}
