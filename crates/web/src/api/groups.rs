//! Groups of agents: who works, who is connected with whom, and their pause and stop.

use std::sync::Arc;

use groups::service::control::{Request, request};
use kit::Fault;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use store::{
    Arrival, Store,
    groups::{GroupRecord, MemberRecord},
};

use crate::{
    answer::Answer,
    call::{Call, Done},
    problem::Problem,
    workspaces::{Workspace, blocking},
};

/// So many events are given, the newest; and so many messages of an inbox, the oldest; and of all messages
/// the newest, with so many characters of each.
const EVENTS: usize = 500;
const INBOX: usize = 20;
const MESSAGES: usize = 60;
const CHARS: usize = 2000;

/// The agent, and how it ends.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Act {
    /// The agent, by its id or name; all of them, if there is none.
    member: Option<String>,
    /// With `stop`: whether it counts as killed.
    #[serde(default)]
    kill: bool,
}

/// Returns whether a process runs the group.
fn is_run(store: &Store, group: &str) -> Result<bool, Fault> {
    Ok(store.transcripts().holder(&format!("group {group}"))?.is_some())
}

fn shown(workspace: &Workspace, group: &GroupRecord) -> Result<Value, Fault> {
    let runs = is_run(workspace.runtime.store(), &group.name)?;
    let state = match (runs, group.state.as_str()) {
        (true, "paused") => "paused",
        (true, _) => "running",
        (false, "running") => "interrupted",
        (false, other) => other,
    };
    Ok(json!({
        "workspace": workspace.id, "name": group.name, "file": group.file, "state": state, "created_ms": group.created_ms,
        "tokens": group.used.tokens, "steps": group.used.steps, "cost": group.used.cost,
    }))
}

pub(crate) async fn list(call: Call) -> Done {
    let mut all = Vec::new();
    for workspace in call.server.workspaces.all() {
        let groups = blocking(move || {
            let groups = workspace.runtime.store().groups().list()?;
            groups.iter().map(|it| shown(&workspace, it)).collect::<Result<Vec<_>, _>>()
        });
        all.extend(groups.await?);
    }
    Ok(Answer::ok(&json!({"groups": all})))
}

/// Returns the workspace that has the group which the path names.
async fn find(call: &Call) -> Result<(Arc<Workspace>, GroupRecord), Problem> {
    let all = match call.query.get("workspace") {
        Some(_) => vec![call.server.workspaces.of_id(call.query.get("workspace"))?],
        None => call.server.workspaces.all(),
    };
    for workspace in all {
        let (store, name) = (workspace.runtime.store().clone(), call.name(0).to_owned());
        if let Some(group) = blocking(move || store.groups().get(&name)).await? {
            return Ok((workspace, group));
        }
    }
    Err(Problem::missing(format!("there is no group `{}`", call.name(0)))
        .next("GET /api/v1/groups lists them, each with its workspace."))
}

pub(crate) async fn get(call: Call) -> Done {
    let (workspace, group) = find(&call).await?;
    let after = call.number("after")?.unwrap_or_default();
    let whole = blocking(move || whole(&workspace, &group, after)).await?;
    Ok(Answer::ok(&whole))
}

fn whole(workspace: &Workspace, group: &GroupRecord, after: u64) -> Result<Value, Fault> {
    let store = workspace.runtime.store();
    let shape = store.groups().shape(&group.name)?;
    let runs = is_run(store, &group.name)?;
    let members: Vec<Value> =
        shape.members.iter().map(|it| member(store, it, runs)).collect::<Result<_, _>>()?;
    let channels = shape.channels.iter();
    let channels: Vec<Value> = channels
        .map(|it| json!({"graph": it.graph, "name": it.name, "description": it.description}))
        .collect();
    let edges = shape.edges.iter().map(
        |it| json!({"graph": it.graph, "channel": it.channel, "session": it.session, "listens": it.listens}),
    );
    let edges: Vec<Value> = edges.collect();
    let wires: Vec<Value> =
        shape.wires.iter().map(|it| json!({"source": it.source, "body": it.body})).collect();
    let all = store.groups().events(&group.name, after, usize::MAX >> 1)?;
    let events = all.iter().skip(all.len().saturating_sub(EVENTS)).map(|it| {
        json!({"seq": it.seq, "at_ms": it.at_ms, "kind": it.event.kind, "member": it.event.member,
            "graph": it.event.graph, "body": it.event.body})
    });
    let events: Vec<Value> = events.collect();
    let mut value = shown(workspace, group)?;
    if let Some(fields) = value.as_object_mut() {
        let parts = [
            ("members", members),
            ("channels", channels),
            ("edges", edges),
            ("wires", wires),
            ("events", events),
            ("messages", messages(store, &shape.members)?),
        ];
        fields.extend(parts.map(|(name, all)| (name.to_owned(), Value::Array(all))));
    }
    Ok(value)
}

/// Returns the newest messages among all members, oldest first.
fn messages(store: &Store, members: &[MemberRecord]) -> Result<Vec<Value>, Fault> {
    let mut all = Vec::new();
    for it in members {
        let of_one = store.inbox().list(&it.session, MESSAGES)?;
        all.extend(of_one.into_iter().map(|arrival| (it, arrival)));
    }
    all.sort_by_key(|it| it.1.id);
    let older = all.len().saturating_sub(MESSAGES);
    Ok(all.iter().skip(older).map(|(to, arrival)| message(arrival, &to.name)).collect())
}

fn message(arrival: &Arrival, to: &str) -> Value {
    let text: String = arrival.text.chars().take(CHARS).collect();
    json!({
        "from": arrival.sender, "to": to, "channel": arrival.channel, "at_ms": arrival.at_ms,
        "state": arrival.state.name(), "text": text,
    })
}

fn member(store: &Store, member: &MemberRecord, runs: bool) -> Result<Value, Fault> {
    let newest = |name: &str| Ok::<u64, Fault>(store.events().newest(&member.session, name)?.unwrap_or(0));
    let (began, ended) = (newest("turn_began")?, newest("turn_ended")?);
    let status = match (member.running && runs, began > ended) {
        (true, true) => "busy",
        (true, false) => "idle",
        (false, _) if began == 0 && member.running => "not_started",
        (false, _) => "stopped",
    };
    let queued = store.inbox().queued(&member.session)?;
    let inbox = queued.iter().take(INBOX).map(|it| message(it, &member.name));
    Ok(json!({
        "id": member.id, "name": member.name, "session": member.session, "graph": member.graph,
        "parent": member.parent, "privileged": member.privileged, "status": status, "paused": member.paused,
        "killed": member.killed, "turns": member.used.turns, "tokens": member.used.tokens, "cost": member.used.cost,
        "queued": queued.len(), "inbox": inbox.collect::<Vec<_>>(),
    }))
}

pub(crate) async fn act(mut call: Call) -> Done {
    let Act { member, kill } = call.json().await?;
    let wanted = match call.name(1) {
        "pause" => Request::GroupPause { member: member.clone() },
        "resume" => Request::GroupResume { member: member.clone() },
        "stop" => Request::GroupStop { member: member.clone(), kill },
        other => {
            return Err(Problem::missing(format!("`{other}` is none of pause, resume, stop"))
                .next("End the address with one of those."));
        }
    };
    let (workspace, group) = find(&call).await?;
    let (store, sessions) = (workspace.runtime.store(), &workspace.sessions);
    if let Some(member) = member {
        check_member(store, &group.name, &member).await?;
    }
    let done = request(store, sessions, &group.name, &call.key()?, &call.who.name, &wanted).await?;
    Ok(Answer::ok(&done))
}

/// Refuses an agent that the group does not have, before the request is kept for the process of the group.
async fn check_member(store: &Store, group: &str, member: &str) -> Result<(), Problem> {
    let (groups, name) = (store.groups(), group.to_owned());
    let members = blocking(move || groups.shape(&name)).await?.members;
    if members.iter().any(|it| it.id == member || it.name == member) {
        return Ok(());
    }
    let shown: String = member.chars().take(60).collect();
    let names: Vec<&str> = members.iter().map(|it| it.name.as_str()).take(20).collect();
    let problem = Problem::missing(format!("the group has no agent `{shown}`"));
    Err(problem.next(format!("It has: {}.", names.join(", "))))
}
