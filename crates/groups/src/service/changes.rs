//! Changes of a running group: members, channels, edges and wires. The rows are written before anybody acts on a change.

use std::{collections::BTreeSet, path::Path, sync::Arc};

use kit::{
    Fault, Kind,
    services::{ChannelChange, GroupAct, NewNode, WireChange},
};
use serde_json::{Value, json};
use store::{NewMessage, Source, channels::Scope, groups::NewGroupEvent};

use super::{Inner, blocking, event, state::session_of};
use crate::{
    graph::{Broken, Change, Channel, Delta, Direction, Names, Topology, new_member_id},
    recipe::{Limits, MOST, MemberSpec, creature},
    status::{MemberState, Shown, status},
    wiring::{Format, Wire},
};

/// The most messages of a channel that are shown at once.
const HISTORY: usize = 200;

impl Inner {
    /// Does this in the name of a member, or of the person.
    pub(super) async fn act(self: &Arc<Self>, caller: Option<&str>, act: GroupAct) -> Result<Value, Fault> {
        match act {
            GroupAct::Status { history, spawnable } => self.status(caller, history, spawnable).await,
            GroupAct::Add(node) => self.add(caller, node).await,
            GroupAct::Life { member, change } => self.change_life(caller, &member, change).await,
            GroupAct::Channel { channel, change } => self.change_channel(caller, &channel, change).await,
            GroupAct::Wire { from, change } => self.change_wire(caller, from, change).await,
        }
    }

    /// Returns the id of a target. The person may name any member of the group.
    pub(super) fn resolve(&self, caller: Option<&str>, target: &str) -> Result<String, Fault> {
        let state = self.state.lock();
        let all = &state.topology;
        if let Some(caller) = caller {
            return all.resolve(caller, target).map_err(|error| Fault::not_found(error.to_string()));
        }
        if all.names.contains_key(target) {
            return Ok(target.to_owned());
        }
        let found: Vec<&String> = all.names.iter().filter(|it| it.1.name == target).map(|it| it.0).collect();
        match found.as_slice() {
            [one] => Ok((*one).clone()),
            [] => {
                let names: Vec<&str> = all.names.values().map(|it| it.name.as_str()).collect();
                let fault = Fault::not_found(format!("the group has no agent `{target}`"));
                Err(fault.next(format!("There are: {}.", names.join(", "))))
            }
            several => {
                let ids: Vec<&str> = several.iter().map(|it| it.as_str()).collect();
                Err(Fault::new(Kind::Ambiguous, format!("several agents are called `{target}`"))
                    .next(format!("Name the id: {}.", ids.join(", "))))
            }
        }
    }

    /// Returns who acts: the caller, or the first member in whose graph the person acts.
    fn whose(&self, caller: Option<&str>) -> Result<String, Fault> {
        let first = || self.state.lock().first().cloned();
        let whose = caller.map(str::to_owned).or_else(first);
        whose.ok_or_else(|| Fault::not_found("the group is empty"))
    }

    async fn status(
        &self,
        caller: Option<&str>,
        history: Option<usize>,
        spawnable: bool,
    ) -> Result<Value, Fault> {
        let whose = self.whose(caller)?;
        let maker = self.maker.clone();
        let spawnable = if spawnable { Some(blocking(move || Ok(maker.spawnable())).await?) } else { None };
        let state = self.state.lock();
        let graph_id = state.topology.graph_of(&whose).map(|it| it.0.clone()).unwrap_or_default();
        let standing =
            |id: &str| state.live.get(id).map_or_else(MemberState::default, |it| it.standing.clone());
        let scope = Scope::Environment(format!("env_{graph_id}"));
        let newest = |channel: &str| -> Vec<Value> {
            let limit = history.unwrap_or_default().min(HISTORY);
            let messages = self.store.channels().history(&scope, channel, limit).unwrap_or_default();
            let one = |it: store::channels::ChannelMessage| json!({"message_id": it.message_id, "sender": it.sender, "content": it.content, "reply_to": it.reply_to});
            messages.into_iter().map(one).collect()
        };
        let newest: &dyn Fn(&str) -> Vec<Value> = &newest;
        let shown = Shown { state_of: &standing, history: history.map(|_| newest), spawnable };
        status(&state.topology, &whose, &shown).ok_or_else(|| Fault::not_found("you are not in a group"))
    }

    /// Changes the graph: `change` is made on a copy, written, and then takes its place.
    async fn transact<T>(
        &self,
        change: impl FnOnce(&mut Topology) -> Result<(T, Vec<NewGroupEvent>), Broken>,
        new: Option<(&str, &str, &MemberSpec)>,
    ) -> Result<T, Fault> {
        let _one = self.changing.lock().await;
        let (topology, shape, generation, done, events) = {
            let state = self.state.lock();
            let mut topology = state.topology.clone();
            let (done, events) = change(&mut topology).map_err(|broken| fault_of(&broken))?;
            let shape = state.shape_of(&topology, new);
            (topology, shape, state.generation, done, events)
        };
        let generation = self.store.groups().change(&self.name, generation, shape, events.clone()).await?;
        {
            let mut state = self.state.lock();
            (state.generation, state.topology) = (generation, topology);
            if let Some((id, session, spec)) = new {
                state.add(id, session, spec.clone());
            }
        }
        self.refresh();
        self.announce(&events);
        Ok(done)
    }

    async fn add(self: &Arc<Self>, caller: Option<&str>, node: NewNode) -> Result<Value, Fault> {
        let whose = self.whose(caller)?;
        let (graph_id, parent_name, parent_spec, depth) = {
            let state = self.state.lock();
            let graph = state.topology.graph_of(&whose).map(|it| it.0.clone()).unwrap_or_default();
            let spec = state.live.get(&whose).map(|it| it.spec.clone()).unwrap_or_default();
            let depth = state.topology.depth_of(&whose) + 1;
            (graph, state.topology.name(&whose).to_owned(), spec, depth)
        };
        let most = self.budget.limits().depth.unwrap_or(Limits::DEPTH);
        if depth > most {
            return Err(Fault::denied(format!(
                "agents may start agents {most} deep; this one would be {depth} deep"
            )));
        }
        let mut spec = self.spec_of(&node, caller.is_some()).await?;
        if spec.model.is_none() {
            spec.model.clone_from(&parent_spec.model);
        }
        if spec.pwd.is_none() {
            spec.pwd.clone_from(&parent_spec.pwd);
        }
        let (id, name) = (new_member_id(&spec.name), spec.name.clone());
        let session = session_of(&self.name, &id);
        let events = vec![
            event("creature_added", Some(&id), json!({"config": node.config, "name": name})),
            event("parent_link_changed", Some(&id), json!({"parent": whose, "change": "added"})),
        ];
        let names = Names { name: name.clone(), is_privileged: false };
        let adds = |all: &mut Topology| {
            let count = all.names.len();
            if count >= MOST {
                return Err(Broken::Full(count, MOST));
            }
            all.add_member(&graph_id, &id, names, Some(&whose)).map(|()| ((), events))
        };
        self.transact(adds, Some((&id, &session, &spec))).await?;
        if let Err(fault) = self.start(&id).await {
            self.remove(&id).await?;
            let what = format!(
                "the agent from '{}' did not start and is not in the group: {}",
                node.config, fault.what
            );
            return Err(Fault { what, ..fault });
        }
        let mut result = json!({"creature_id": id, "name": name, "graph_id": graph_id});
        let mut put =
            |key: &str, value: Value| drop(result.as_object_mut().map(|it| it.insert(key.to_owned(), value)));
        if node.says_delivered {
            let delivered = match &node.task {
                Some(task) => self.give_task(&whose, &parent_name, &session, task).await?,
                None => false,
            };
            put("task_delivered", delivered.into());
        } else {
            put("parent_creature_id", whose.clone().into());
        }
        put("caller_graph_id", graph_id.into());
        Ok(result)
    }

    async fn give_task(&self, whose: &str, name: &str, session: &str, task: &str) -> Result<bool, Fault> {
        let sender = self.state.lock().live.get(whose).map(|it| it.session.clone());
        let message = NewMessage {
            sender_session: sender,
            key: Some("first task".to_owned()),
            ..NewMessage::new(session, Source::Direct, name, task)
        };
        self.store.inbox().post(message).await?;
        self.touch();
        Ok(true)
    }

    /// Returns the config of a member that is to be added: a creature's, or a profile.
    async fn spec_of(self: &Arc<Self>, node: &NewNode, by_member: bool) -> Result<MemberSpec, Fault> {
        let (inner, node) = (self.clone(), node.clone());
        blocking(move || {
            let is_path = node.config.contains(['/', '.']) || node.config.starts_with('@');
            let is_there = is_path || inner.workspace.join(&node.config).exists();
            let from: &Path = &inner.workspace;
            let mut spec = match is_there {
                true => creature::load(&inner.places, from, &node.config)?,
                false => inner.maker.profile(&node.config)?,
            };
            if let Some(name) = node.name {
                spec.name = name;
            }
            if let Some(model) = node.model {
                if by_member {
                    inner.maker.check_model(&model)?;
                }
                spec.model = Some(model);
            }
            if let Some(pwd) = node.pwd {
                inner.maker.check_folder(&pwd)?;
                spec.pwd = Some(pwd);
            }
            spec.listen.clear();
            spec.send.clear();
            Ok(spec)
        })
        .await
    }

    /// Removes a member: it ends, and leaves the graph.
    pub(super) async fn remove(self: &Arc<Self>, id: &str) -> Result<(), Fault> {
        if let Some(live) = self.state.lock().live.get_mut(id) {
            live.running = false;
        }
        self.store.channels().set_running(&self.session(id), false).await?;
        self.end(id).await;
        let parent = self.state.lock().topology.parent_of(id).map(str::to_owned);
        let removes = |all: &mut Topology| {
            let mut events = vec![event("creature_removed", Some(id), json!({"name": all.name(id)}))];
            if let Some(parent) = parent {
                events.push(event(
                    "parent_link_changed",
                    Some(id),
                    json!({"parent": parent, "change": "removed"}),
                ));
            }
            let delta = all.remove_member(id)?;
            events.push(topology_changed(&delta));
            Ok(((), events))
        };
        self.transact(removes, None).await?;
        self.state.lock().remove(id);
        Ok(())
    }

    fn session(&self, id: &str) -> String {
        self.state.lock().live.get(id).map(|it| it.session.clone()).unwrap_or_default()
    }

    async fn change_channel(
        &self,
        caller: Option<&str>,
        channel: &str,
        change: ChannelChange,
    ) -> Result<Value, Fault> {
        let whose = self.whose(caller)?;
        let graph_id = self.state.lock().topology.graph_of(&whose).map(|it| it.0.clone()).unwrap_or_default();
        match change {
            ChannelChange::Create { description } => {
                let creates = |all: &mut Topology| {
                    all.add_channel(&graph_id, channel, Channel { description, direct: false })?;
                    let delta = Delta {
                        kind: Change::Nothing,
                        old_graph_ids: vec![graph_id.clone()],
                        new_graph_ids: vec![graph_id.clone()],
                        affected: BTreeSet::from([whose.clone()]),
                    };
                    Ok(((), vec![topology_changed(&delta)]))
                };
                self.transact(creates, None).await?;
                Ok(json!({"created": channel, "caller_graph_id": graph_id}))
            }
            ChannelChange::Delete => {
                self.check_channel(&graph_id, channel)?;
                let deletes = |all: &mut Topology| {
                    let delta = all.remove_channel(&graph_id, channel)?;
                    Ok((delta.kind, vec![topology_changed(&delta)]))
                };
                let kind = self.transact(deletes, None).await?;
                Ok(json!({"deleted": channel, "caller_graph_id": graph_id, "delta_kind": kind.name()}))
            }
            ChannelChange::Edge { member, listens, is_there } => {
                let direction = if listens { Direction::Listen } else { Direction::Send };
                let target = self.target_of_edge(caller, &member, is_there)?;
                self.change_edge(&whose, &target, channel, direction, is_there).await
            }
        }
    }

    /// Returns the target of an edge. A wire may lead to a member of another graph, which is then merged.
    fn target_of_edge(&self, caller: Option<&str>, member: &str, is_there: bool) -> Result<String, Fault> {
        match self.resolve(caller, member) {
            Err(_) if is_there && self.state.lock().topology.names.contains_key(member) => {
                Ok(member.to_owned())
            }
            found => found,
        }
    }

    async fn change_edge(
        &self,
        whose: &str,
        target: &str,
        channel: &str,
        direction: Direction,
        is_there: bool,
    ) -> Result<Value, Fault> {
        let (own, other) = {
            let state = self.state.lock();
            let is_elsewhere = state.live.get(target).is_some_and(|it| it.spec.on.is_some());
            if is_there && direction == Direction::Send && is_elsewhere {
                let name = state.topology.name(target);
                return Err(Fault::denied(format!(
                    "'{name}' runs on workers (`on`), where it has no tool `send_channel`"
                ))
                .next("`group_wire` passes on its answers."));
            }
            let graph = |id: &str| state.topology.graph_of(id).map(|it| it.0.clone()).unwrap_or_default();
            (graph(whose), graph(target))
        };
        let mut result = json!({
            if is_there { "wired" } else { "unwired" }: channel,
            "creature_id": target,
            "direction": direction.name(),
            "caller_graph_id": own,
        });
        let mut put =
            |key: &str, value: Value| drop(result.as_object_mut().map(|it| it.insert(key.to_owned(), value)));
        if is_there && own != other {
            self.check_channel_for(&own, channel, target)?;
            let (sender, receiver) = match direction {
                Direction::Listen => (whose, target),
                Direction::Send => (target, whose),
            };
            let merges = |all: &mut Topology| {
                let delta = all.connect(sender, receiver, channel)?;
                Ok(((), vec![topology_changed(&delta)]))
            };
            self.transact(merges, None).await?;
            put("merged", true.into());
            return Ok(result);
        }
        self.check_channel_for(&own, channel, target)?;
        let changes = |all: &mut Topology| {
            let delta = all.set_edge(target, channel, direction, is_there)?;
            Ok((delta.kind, vec![topology_changed(&delta)]))
        };
        let kind = self.transact(changes, None).await?;
        if !is_there {
            put("delta_kind", kind.name().into());
        }
        Ok(result)
    }

    fn channels_of(&self, graph: &str) -> Vec<String> {
        let state = self.state.lock();
        state.topology.graphs.get(graph).map(|it| it.channels.keys().cloned().collect()).unwrap_or_default()
    }

    fn check_channel(&self, graph: &str, channel: &str) -> Result<(), Fault> {
        let there = self.channels_of(graph);
        if there.iter().any(|it| it == channel) {
            return Ok(());
        }
        Err(Fault::not_found(format!("your graph has no channel '{channel}'; it has {}", quoted(&there))))
    }

    fn check_channel_for(&self, graph: &str, channel: &str, target: &str) -> Result<(), Fault> {
        let there = self.channels_of(graph);
        if there.iter().any(|it| it == channel) {
            return Ok(());
        }
        let name = self.state.lock().topology.name(target).to_owned();
        let what = format!(
            "channel '{channel}' does not exist in your graph; no channel was created. available: {}.",
            quoted(&there)
        );
        Err(Fault::not_found(what).next(format!(
            "Call group_channel(action='create', channel='{channel}') and wire '{name}' again; for '{name}' alone, \
             group_send(to='{name}', message=...) needs no channel."
        )))
    }

    async fn change_wire(
        &self,
        caller: Option<&str>,
        from: Option<String>,
        change: WireChange,
    ) -> Result<Value, Fault> {
        let whose = self.whose(caller)?;
        let from = match from {
            Some(from) => self.resolve(caller, &from)?,
            None => whose.clone(),
        };
        let graph_id = self.state.lock().topology.graph_of(&whose).map(|it| it.0.clone()).unwrap_or_default();
        match change {
            WireChange::Add { to, with_content, prompt, is_jinja, allow_self_trigger } => {
                let to = self.resolve(caller, &to)?;
                let prompt_format = if is_jinja { Format::Jinja } else { Format::Simple };
                let wire = Wire { to: to.clone(), with_content, prompt, prompt_format, allow_self_trigger };
                wire.check().map_err(Fault::bad_args)?;
                let adds = |all: &mut Topology| {
                    let edge = all.add_wire(&from, wire)?;
                    let body = json!({"edge_id": edge, "to": to});
                    Ok((edge, vec![event("output_wire_added", Some(&from), body)]))
                };
                let edge = self.transact(adds, None).await?;
                Ok(json!({"edge_id": edge, "from": from, "to": to, "caller_graph_id": graph_id}))
            }
            WireChange::Remove { edge } => {
                let removes = |all: &mut Topology| {
                    let removed = all.remove_wire(&from, &edge)?;
                    let removal = event("output_wire_removed", Some(&from), json!({"edge_id": edge}));
                    Ok((removed, if removed { vec![removal] } else { Vec::new() }))
                };
                let removed = self.transact(removes, None).await?;
                Ok(json!({"removed": removed, "edge_id": edge, "from": from, "caller_graph_id": graph_id}))
            }
        }
    }
}

fn topology_changed(delta: &Delta) -> NewGroupEvent {
    let body = json!({
        "kind": delta.kind.name(),
        "old_graph_ids": delta.old_graph_ids,
        "new_graph_ids": delta.new_graph_ids,
        "affected": delta.affected,
    });
    NewGroupEvent { graph: delta.new_graph_ids.first().cloned(), ..event("topology_changed", None, body) }
}

fn fault_of(broken: &Broken) -> Fault {
    let what = broken.to_string();
    match broken {
        Broken::NoMember(_) | Broken::NoGraph(_) | Broken::NoChannel(_) => Fault::not_found(what),
        Broken::Full(..) => Fault::denied(what),
        Broken::IsChannel(_) | Broken::IsMember { .. } | Broken::Collide(_) => Fault::new(Kind::Stale, what),
    }
}

fn quoted(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|it| format!("'{it}'")).collect();
    format!("[{}]", names.join(", "))
}
