//! The state of a group in memory, and its rows.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use agent::{Agent, Steering};
use kit::Fault;
use runtime::WeakSession;
use serde_json::{Value, json};
use sessions::Handle;
use store::{
    Store,
    groups::{ChannelRecord, EdgeRecord, GraphRecord, MemberRecord, Shape, Used, WireRecord},
};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::{exchanges::Exchanges, process::Process};
use crate::{
    graph::{Channel, Graph, Names, Topology, direct_description},
    recipe::MemberSpec,
    runtime_prompt::with_block,
    status::{MemberState, Status},
    wiring::Wire,
};

/// A group in memory.
pub(super) struct State {
    pub(super) generation: u64,
    pub(super) topology: Topology,
    pub(super) live: BTreeMap<String, Live>,
    /// The ids in the order in which members came.
    order: Vec<String>,
    pub(super) exchanges: Exchanges,
    pub(super) is_stopped: bool,
    /// Members that are down, whose end could be reported to nobody.
    pub(super) unreported: BTreeSet<String>,
}

/// A member in memory.
pub(super) struct Live {
    pub(super) session: String,
    pub(super) spec: MemberSpec,
    pub(super) standing: MemberState,
    /// Whether it is to run.
    pub(super) running: bool,
    /// The number of the row of its log up to which everything is done.
    pub(super) done: u64,
    /// The number of the last row that was read.
    pub(super) seen: u64,
    pub(super) turns: u64,
    /// The cause of the turn that goes on, and its time.
    pub(super) began: Option<(String, u64)>,
    /// Whether its last turn was interrupted by the end of its process.
    pub(super) is_interrupted: bool,
    /// Whether it was asked to go on with that turn, from before the turn begins to its end.
    pub(super) goes_on: bool,
    pub(super) handle: Option<Handle>,
    pub(super) follows: Option<AbortOnDropHandle<()>>,
    /// Its agent, where it runs in this process.
    pub(super) agent: Option<LiveAgent>,
    /// Whether its process ended by itself: its messages wait until it is started again.
    pub(super) is_down: bool,
    /// Its process, where it has one of its own.
    pub(super) process: Option<Arc<Process>>,
    /// Whether it admits turns; the loop of its session waits for it.
    pub(super) gate: watch::Sender<bool>,
}

/// The parts of a running agent that others use.
#[derive(Clone)]
pub(crate) struct LiveAgent {
    steering: Steering,
    session: WeakSession,
}

impl LiveAgent {
    pub(crate) fn of(agent: &Agent) -> Self {
        Self { steering: agent.steering(), session: agent.session().weak() }
    }

    /// Replaces the block of the group in its system prompt.
    pub(crate) fn set_block(&self, block: Option<&str>) {
        let before = self.steering.system();
        let after = with_block(&before, block);
        if after != *before {
            self.steering.set_system(after.into());
        }
    }

    /// Returns whether results of jobs were promised to its model.
    pub(crate) async fn owes_jobs(&self) -> bool {
        match self.session.get() {
            Some(session) => !session.owed_jobs().await.is_empty(),
            None => false,
        }
    }
}

impl Live {
    fn new(session: String, spec: MemberSpec) -> Self {
        Self {
            session,
            spec,
            standing: MemberState::default(),
            running: true,
            done: 0,
            seen: 0,
            turns: 0,
            began: None,
            is_interrupted: false,
            goes_on: false,
            handle: None,
            follows: None,
            agent: None,
            is_down: false,
            process: None,
            gate: watch::Sender::new(true),
        }
    }
}

/// Returns the name of a member's session.
pub(super) fn session_of(group: &str, id: &str) -> String {
    format!("{group}.{id}")
}

impl State {
    pub(super) fn new(group: &str, topology: Topology, members: Vec<(String, MemberSpec)>) -> Self {
        let order = members.iter().map(|it| it.0.clone()).collect();
        let live = members
            .into_iter()
            .map(|(id, spec)| {
                let session = session_of(group, &id);
                (id, Live::new(session, spec))
            })
            .collect();
        Self::of(1, topology, live, order)
    }

    fn of(generation: u64, topology: Topology, live: BTreeMap<String, Live>, order: Vec<String>) -> Self {
        Self {
            generation,
            topology,
            live,
            order,
            exchanges: Exchanges::default(),
            is_stopped: false,
            unreported: BTreeSet::new(),
        }
    }

    /// Builds the state from its rows.
    pub(super) fn read(generation: u64, shape: Shape) -> Result<Self, Fault> {
        let Shape { graphs, members, channels, edges, wires } = shape;
        let mut topology = Topology::default();
        for GraphRecord { id, cap } in graphs {
            let cap = usize::try_from(cap).unwrap_or(0);
            topology.graphs.insert(id, Graph { cap, ..Graph::default() });
        }
        let names: BTreeSet<String> = members.iter().map(|it| it.name.clone()).collect();
        for ChannelRecord { graph, name, description } in channels {
            let direct = names.contains(&name) && description == direct_description(&name);
            if let Some(graph) = topology.graphs.get_mut(&graph) {
                graph.channels.insert(name, Channel { description, direct });
            }
        }
        let ids: BTreeMap<String, String> =
            members.iter().map(|it| (it.session.clone(), it.id.clone())).collect();
        let (mut live, mut order) = (BTreeMap::new(), Vec::new());
        for member in members {
            let graph = topology.graphs.get_mut(&member.graph);
            let graph =
                graph.ok_or_else(|| Fault::bug(format!("the graph `{}` is missing", member.graph)))?;
            graph.members.insert(member.id.clone());
            graph.listen.entry(member.id.clone()).or_default();
            graph.send.entry(member.id.clone()).or_default();
            if let Some(parent) = member.parent {
                graph.parents.insert(member.id.clone(), parent);
            }
            topology
                .names
                .insert(member.id.clone(), Names { name: member.name, is_privileged: member.privileged });
            let spec: MemberSpec = serde_json::from_value(member.spec).map_err(|error| {
                Fault::bug(format!("the config of `{}` can't be read: {error}", member.id))
            })?;
            order.push(member.id.clone());
            let mut it = Live::new(member.session, spec);
            it.standing =
                MemberState { status: Status::NotStarted, paused: member.paused, killed: member.killed };
            if !member.running {
                it.standing.status = Status::Stopped;
            }
            (it.running, it.done, it.seen, it.turns) =
                (member.running, member.seen, member.seen, member.used.turns);
            it.gate.send_replace(!member.paused);
            live.insert(member.id, it);
        }
        for EdgeRecord { graph, channel, session, listens } in edges {
            let (Some(graph), Some(id)) = (topology.graphs.get_mut(&graph), ids.get(&session)) else {
                continue;
            };
            let edges = if listens { &mut graph.listen } else { &mut graph.send };
            edges.entry(id.clone()).or_default().insert(channel);
        }
        for WireRecord { source, body } in wires {
            let Ok(wire) = serde_json::from_value::<Wire>(body) else { continue };
            if let Some(graph) = topology.graphs.values_mut().find(|it| it.members.contains(&source)) {
                graph.wires.entry(source).or_default().push(wire);
            }
        }
        Ok(Self::of(generation, topology, live, order))
    }

    /// Returns the rows of the group.
    pub(super) fn shape(&self) -> Shape {
        self.shape_of(&self.topology, None)
    }

    /// Returns the rows that the group will have with this topology, and perhaps another member.
    pub(super) fn shape_of(&self, topology: &Topology, new: Option<(&str, &str, &MemberSpec)>) -> Shape {
        let mut shape = Shape::default();
        for (id, graph) in &topology.graphs {
            shape.graphs.push(GraphRecord { id: id.clone(), cap: graph.cap as u64 });
            shape.channels.extend(graph.channels.iter().map(|(name, about)| ChannelRecord {
                graph: id.clone(),
                name: name.clone(),
                description: about.description.clone(),
            }));
            for (edges, listens) in [(&graph.listen, true), (&graph.send, false)] {
                for (member, channels) in edges {
                    let Some(session) = self.session(member, new) else { continue };
                    shape.edges.extend(channels.iter().map(|channel| EdgeRecord {
                        graph: id.clone(),
                        channel: channel.clone(),
                        session: session.to_owned(),
                        listens,
                    }));
                }
            }
            for (source, wires) in &graph.wires {
                shape.wires.extend(
                    wires.iter().map(|wire| WireRecord { source: source.clone(), body: json!(wire) }),
                );
            }
        }
        let order = self.order.iter().map(String::as_str).chain(new.map(|it| it.0));
        for id in order {
            let Some((graph_id, graph)) = topology.graph_of(id) else { continue };
            let live = self.live.get(id);
            let spec = live.map(|it| &it.spec).or(new.map(|it| it.2));
            shape.members.push(MemberRecord {
                id: id.to_owned(),
                name: topology.name(id).to_owned(),
                session: self.session(id, new).unwrap_or_default().to_owned(),
                graph: graph_id.clone(),
                parent: graph.parents.get(id).cloned(),
                privileged: topology.is_privileged(id),
                spec: json!(spec),
                running: live.is_none_or(|it| it.running),
                paused: live.is_some_and(|it| it.standing.paused),
                killed: live.is_some_and(|it| it.standing.killed),
                seen: 0,
                used: Used::default(),
            });
        }
        shape
    }

    fn session<'a>(&'a self, id: &str, new: Option<(&str, &'a str, &MemberSpec)>) -> Option<&'a str> {
        self.live.get(id).map(|it| it.session.as_str()).or(new.filter(|it| it.0 == id).map(|it| it.1))
    }

    pub(super) fn add(&mut self, id: &str, session: &str, spec: MemberSpec) {
        self.live.insert(id.to_owned(), Live::new(session.to_owned(), spec));
        self.order.push(id.to_owned());
    }

    pub(super) fn remove(&mut self, id: &str) {
        self.live.remove(id);
        self.order.retain(|it| it != id);
    }

    /// Returns the members that are to run, in their order.
    pub(super) fn to_run(&self) -> Vec<String> {
        let runs = |id: &&String| self.live.get(*id).is_some_and(|it| it.running);
        self.order.iter().filter(runs).cloned().collect()
    }

    /// Returns the first member that the person's words go to: the root, or the first of all.
    pub(super) fn first(&self) -> Option<&String> {
        let is_privileged = |id: &&String| self.topology.is_privileged(id);
        self.order.iter().find(is_privileged).or(self.order.first())
    }

    /// Returns the id of a member by its session.
    pub(super) fn by_session(&self, session: &str) -> Option<&String> {
        self.live.iter().find(|it| it.1.session == session).map(|it| it.0)
    }

    /// Marks the members whose last turn was cut, by a budget for example: they go on with it. Blocks.
    pub(super) fn with_cut_turns(mut self, store: &Store) -> Result<Self, Fault> {
        for live in self.live.values_mut() {
            let Some(seq) = store.events().newest(&live.session, "turn_ended")? else { continue };
            let row = store.events().page(&live.session, seq.saturating_sub(1), 1, usize::MAX)?;
            let end = row.first().and_then(|it| serde_json::from_str::<Value>(&it.body).ok());
            live.is_interrupted = end.is_some_and(|it| it.get("ended").is_some_and(|it| it != "done"));
        }
        Ok(self)
    }

    /// Returns whether a paused member has messages that wait. Blocks, briefly.
    pub(super) fn waiting_paused(&self, store: &Store) -> Result<bool, Fault> {
        for live in self.live.values().filter(|it| it.running && it.standing.paused) {
            if live.is_interrupted || store.inbox().has_queued(&live.session)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
