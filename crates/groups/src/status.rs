//! Results of the group tools as JSON.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::graph::Topology;

/// The activity of a member.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It was never started.
    #[default]
    NotStarted,
    /// It waits for messages.
    Idle,
    /// A turn goes on.
    Busy,
    /// It was stopped, and can be started again.
    Stopped,
    /// Its last turn failed, or it could not be started.
    Error,
}

impl Status {
    /// Returns its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotStarted => "not_started",
            Self::Idle => "idle",
            Self::Busy => "busy",
            Self::Stopped => "stopped",
            Self::Error => "error",
        }
    }
}

/// The state of a member beside the graph.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberState {
    /// Its activity.
    pub status: Status,
    /// Whether it admits no turn.
    pub paused: bool,
    /// Whether it was killed.
    pub killed: bool,
}

/// A config that can be started as a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Spawnable {
    /// The reference for `group_spawn_child`.
    #[serde(rename = "ref")]
    pub reference: String,
    /// Its name.
    pub name: String,
    /// Its purpose.
    pub description: String,
    /// `workspace` or `package`.
    pub source: &'static str,
}

/// The newest messages of a channel.
pub type HistoryOf<'a> = &'a dyn Fn(&str) -> Vec<Value>;

/// The parts of `group_status` beside the graph itself.
pub struct Shown<'a> {
    /// The state of a member.
    pub state_of: &'a dyn Fn(&str) -> MemberState,
    /// The newest messages of a channel, if they are wanted.
    pub history: Option<HistoryOf<'a>>,
    /// The configs that can be started, if they are wanted.
    pub spawnable: Option<Vec<Spawnable>>,
}

/// Returns the result of `group_status` for a member.
pub fn status(all: &Topology, caller: &str, shown: &Shown<'_>) -> Option<Value> {
    let (graph_id, graph) = all.graph_of(caller)?;
    let members = graph.members.iter().map(|id| member(all, caller, id, &(shown.state_of)(id)));
    let channels = graph.channels.iter().map(|(name, about)| {
        let mut entry = json!({
            "name": name,
            "description": about.description,
            "listeners": graph.listeners(name).collect::<Vec<_>>(),
            "senders": graph.senders(name).collect::<Vec<_>>(),
        });
        if let (Some(history), Some(fields)) = (shown.history, entry.as_object_mut()) {
            fields.insert("history".to_owned(), history(name).into());
        }
        entry
    });
    let edges = graph.wires.iter().flat_map(|(from, wires)| wires.iter().map(|it| it.as_json(from)));
    let mut result = json!({
        "graph_id": graph_id,
        "self": {"creature_id": caller, "name": all.name(caller), "is_privileged": all.is_privileged(caller)},
        "creatures": members.collect::<Vec<_>>(),
        "channels": channels.collect::<Vec<_>>(),
        "output_edges": edges.collect::<Vec<_>>(),
    });
    if let (Some(spawnable), Some(fields)) = (&shown.spawnable, result.as_object_mut()) {
        fields.insert("spawnable".to_owned(), json!(spawnable));
    }
    Some(result)
}

fn member(all: &Topology, caller: &str, id: &str, standing: &MemberState) -> Value {
    let found = all.graph_of(id);
    let graph = found.map(|it| it.1);
    json!({
        "creature_id": id,
        "name": all.name(id),
        "status": standing.status.name(),
        "paused": standing.paused,
        "killed": standing.killed,
        "is_privileged": all.is_privileged(id),
        "in_my_graph": found.map(|it| it.0) == all.graph_of(caller).map(|it| it.0),
        "is_my_child": all.parent_of(id) == Some(caller),
        "graph_id": found.map(|it| it.0),
        "listen_channels": graph.map(|it| it.listens(id).collect::<Vec<_>>()),
        "send_channels": graph.map(|it| it.sends(id).collect::<Vec<_>>()),
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use expect_test::expect;

    use super::*;
    use crate::{
        graph::{Channel, Direction, Graph, Names},
        wiring::Wire,
    };

    #[test]
    fn status_has_the_fields_of_the_wire_in_their_order() {
        let mut all = Topology::default();
        all.graphs.insert("graph_1".to_owned(), Graph::default());
        for (name, is_privileged) in [("lead", true), ("worker", false)] {
            let names = Names { name: name.to_owned(), is_privileged };
            all.add_member("graph_1", &format!("{name}_1"), names, Some("lead_1")).unwrap();
        }
        all.add_channel("graph_1", "tasks", Channel::default()).unwrap();
        all.set_edge("worker_1", "tasks", Direction::Listen, true).unwrap();
        all.add_wire("worker_1", Wire::to("lead")).unwrap();
        let history = |_: &str| {
            vec![json!({"message_id": "msg_1", "sender": "lead", "content": "go", "reply_to": null})]
        };
        let shown = Shown {
            state_of: &|id| MemberState {
                status: if id == "lead_1" { Status::Busy } else { Status::Idle },
                paused: id == "worker_1",
                killed: false,
            },
            history: Some(&history),
            spawnable: Some(vec![Spawnable {
                reference: "creatures/coder".to_owned(),
                name: "coder".to_owned(),
                description: String::new(),
                source: "workspace",
            }]),
        };
        let text = serde_json::to_string_pretty(&status(&all, "lead_1", &shown).unwrap()).unwrap();
        expect![[r#"
            {
              "graph_id": "graph_1",
              "self": {
                "creature_id": "lead_1",
                "name": "lead",
                "is_privileged": true
              },
              "creatures": [
                {
                  "creature_id": "lead_1",
                  "name": "lead",
                  "status": "busy",
                  "paused": false,
                  "killed": false,
                  "is_privileged": true,
                  "in_my_graph": true,
                  "is_my_child": false,
                  "graph_id": "graph_1",
                  "listen_channels": [],
                  "send_channels": []
                },
                {
                  "creature_id": "worker_1",
                  "name": "worker",
                  "status": "idle",
                  "paused": true,
                  "killed": false,
                  "is_privileged": false,
                  "in_my_graph": true,
                  "is_my_child": true,
                  "graph_id": "graph_1",
                  "listen_channels": [
                    "tasks"
                  ],
                  "send_channels": []
                }
              ],
              "channels": [
                {
                  "name": "tasks",
                  "description": "",
                  "listeners": [
                    "worker_1"
                  ],
                  "senders": [],
                  "history": [
                    {
                      "message_id": "msg_1",
                      "sender": "lead",
                      "content": "go",
                      "reply_to": null
                    }
                  ]
                }
              ],
              "output_edges": [
                {
                  "id": "wire_lead_content_simple_noself_811c9dc5",
                  "to": "lead",
                  "with_content": true,
                  "prompt": null,
                  "prompt_format": "simple",
                  "allow_self_trigger": false,
                  "from": "worker_1"
                }
              ],
              "spawnable": [
                {
                  "ref": "creatures/coder",
                  "name": "coder",
                  "description": "",
                  "source": "workspace"
                }
              ]
            }"#]]
        .assert_eq(&text);
        assert_eq!(status(&all, "nobody", &shown), None);
    }
}
