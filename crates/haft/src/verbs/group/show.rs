//! `haft group list`, `status` and `graph`: what the rows of a group say, whoever runs it.

use std::fmt::Write as _;

use clap::Args;
use groups::{graph::Topology, service::stored, status::Status as State};
use kit::Fault;
use runtime::Runtime;
use serde_json::{Value, json};
use store::{Store, groups::MemberRecord};

use super::Named;
use crate::{print, terminal::abbreviate};

#[derive(Args)]
pub(super) struct List {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(super) struct Status {
    #[command(flatten)]
    group: Named,
    /// How many of the newest events are shown
    #[arg(long, value_name = "N", default_value_t = 10)]
    events: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(super) struct Graph {
    #[command(flatten)]
    group: Named,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl List {
    pub(super) fn run(&self, runtime: &Runtime) -> Result<(), Fault> {
        let mut text = String::new();
        for group in runtime.store().groups().list()? {
            let runs = is_run(runtime.store(), &group.name)?;
            let state = if runs {
                "running"
            } else if group.state == "running" {
                "interrupted"
            } else {
                group.state.as_str()
            };
            if self.json {
                print::json(
                    &json!({"name": group.name, "file": group.file, "state": state, "tokens": group.used.tokens}),
                );
                continue;
            }
            let _ = writeln!(text, "{}  {state}  {}", group.name, group.file);
        }
        if !self.json {
            print::out(if text.is_empty() {
                "no groups yet: `haft group run FILE TASK` begins one\n"
            } else {
                &text
            });
        }
        Ok(())
    }
}

/// Returns whether a process runs the group.
pub(super) fn is_run(store: &Store, group: &str) -> Result<bool, Fault> {
    Ok(store.transcripts().holder(&format!("group {group}"))?.is_some())
}

impl Status {
    pub(super) fn run(&self, runtime: &Runtime) -> Result<(), Fault> {
        let store = runtime.store();
        let group = self.group.find(runtime)?;
        let shape = store.groups().shape(&group.name)?;
        let runs = is_run(store, &group.name)?;
        let state = if runs { "running" } else { group.state.as_str() };
        let events = newest(store, &group.name, self.events)?;
        if self.json {
            let members: Vec<Value> =
                shape.members.iter().map(|it| described(store, it, runs)).collect::<Result<_, Fault>>()?;
            print::json(&json!({
                "name": group.name, "file": group.file, "state": state, "limits": group.limits,
                "tokens": group.used.tokens, "steps": group.used.steps, "cost": group.used.cost,
                "creatures": members, "events": events,
            }));
            return Ok(());
        }
        let mut text = format!(
            "{}  {state}  {} tokens, {}, {}\n",
            group.name,
            abbreviate::count(group.used.tokens),
            kit::counted(usize::try_from(group.used.steps).unwrap_or(usize::MAX), "step"),
            abbreviate::dollars(group.used.cost),
        );
        for member in &shape.members {
            let status = status_of(store, member, runs)?;
            let flags = match (member.paused, member.killed) {
                (_, true) => " (killed)",
                (true, _) => " (paused)",
                _ => "",
            };
            let queued = store.inbox().queued(&member.session)?.len();
            let waits = if queued > 0 {
                format!(", {} waiting", kit::counted(queued, "message"))
            } else {
                String::new()
            };
            let _ = writeln!(
                text,
                "{}{}  {}{flags}, {}{waits}  session {}",
                member.name,
                if member.privileged { " (privileged)" } else { "" },
                status.name(),
                kit::counted(usize::try_from(member.used.turns).unwrap_or(usize::MAX), "turn"),
                member.session
            );
        }
        for event in events {
            let _ = writeln!(text, "{event}");
        }
        print::out(&text);
        Ok(())
    }
}

fn described(store: &Store, member: &MemberRecord, runs: bool) -> Result<Value, Fault> {
    Ok(json!({
        "creature_id": member.id, "name": member.name, "session": member.session, "graph_id": member.graph,
        "status": status_of(store, member, runs)?.name(), "paused": member.paused, "killed": member.killed,
        "is_privileged": member.privileged, "parent": member.parent, "turns": member.used.turns,
        "tokens": member.used.tokens, "queued": store.inbox().queued(&member.session)?.len(),
    }))
}

/// Returns what a member does, by the newest events of its session.
fn status_of(store: &Store, member: &MemberRecord, runs: bool) -> Result<State, Fault> {
    if !member.running {
        return Ok(State::Stopped);
    }
    let newest = |name: &str| Ok::<u64, Fault>(store.events().newest(&member.session, name)?.unwrap_or(0));
    let (began, ended) = (newest("turn_began")?, newest("turn_ended")?);
    Ok(match (runs, began > ended) {
        (true, true) => State::Busy,
        (_, _) if began == 0 && !runs => State::NotStarted,
        (true, false) => State::Idle,
        (false, _) => State::Stopped,
    })
}

fn newest(store: &Store, group: &str, limit: usize) -> Result<Vec<String>, Fault> {
    let all = store.groups().events(group, 0, usize::MAX >> 1)?;
    let from = all.len().saturating_sub(limit);
    Ok(all
        .iter()
        .skip(from)
        .map(|it| {
            let member = it.event.member.as_deref().unwrap_or("-");
            format!("{}  {}  {member}  {}", super::when(it.at_ms), it.event.kind, it.event.body)
        })
        .collect())
}

impl Graph {
    pub(super) fn run(&self, runtime: &Runtime) -> Result<(), Fault> {
        let group = self.group.find(runtime)?;
        let topology = stored(runtime.store().groups().shape(&group.name)?)?;
        if self.json {
            print::json(&topology);
        } else {
            print::out(&drawn(&topology));
        }
        Ok(())
    }
}

/// Returns the graphs of a group as lines: who sends to which channel, and who listens.
pub(super) fn drawn(all: &Topology) -> String {
    let mut text = String::new();
    for (id, graph) in &all.graphs {
        let cap = if graph.cap > 0 { format!(" of at most {}", graph.cap) } else { String::new() };
        let _ = writeln!(text, "{id}: {}{cap}", kit::counted(graph.members.len(), "agent"));
        for member in &graph.members {
            let mark = if all.is_privileged(member) { " (privileged)" } else { "" };
            let parent = graph.parents.get(member).map(|it| format!(", started by {}", all.name(it)));
            let _ = writeln!(text, "  {}{mark}{}", all.name(member), parent.unwrap_or_default());
        }
        let names = |ids: Vec<&str>| {
            let names: Vec<&str> = ids.into_iter().map(|it| all.name(it)).collect();
            if names.is_empty() { "nobody".to_owned() } else { names.join(", ") }
        };
        for (name, about) in &graph.channels {
            let (from, to) = (graph.senders(name).collect(), graph.listeners(name).collect());
            let about = if about.description.is_empty() {
                String::new()
            } else {
                format!("  ({})", about.description)
            };
            let _ = writeln!(text, "  {} --[{name}]--> {}{about}", names(from), names(to));
        }
        for (from, wires) in &graph.wires {
            for wire in wires {
                let what = if wire.with_content { "output" } else { "turn end" };
                let _ = writeln!(
                    text,
                    "  {} =={what}==> {}  ({})",
                    all.name(from),
                    all.name(&wire.to),
                    wire.id()
                );
            }
        }
    }
    text
}
