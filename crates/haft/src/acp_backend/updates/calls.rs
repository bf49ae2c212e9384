//! Calls of tools, from the first piece that the model writes of them to their result; and sub-agents, shown as calls.

use std::collections::{BTreeMap, HashMap, VecDeque};

use agent::Event as Done;
use serde_json::Value;
use serve::acp::v1::SessionUpdate;

use super::{Telling, Updates};
use crate::{acp_backend::tool_calls, terminal::checklist};

/// At most so many lines of a call's progress are shown.
const LINES: usize = 40;

/// The tools with which a model asks the person.
const ASKS: [&str; 2] = ["ask_user", "ask"];

/// The text of a sub-agent is sent again, as a whole, once it has grown by one in so many bytes, and by so many.
const GREW_BY: usize = 8;
const GREW: usize = 200;

/// The calls that have no result yet, and the sub-agents.
#[derive(Default)]
pub(super) struct Calls {
    open: HashMap<String, Call>,
    agents: BTreeMap<String, SubAgent>,
    /// The call with which a model asks the person now.
    asking: Option<String>,
}

struct Call {
    /// The agent that makes it.
    path: String,
    /// It has begun: the model wrote it whole.
    has_begun: bool,
    progress: VecDeque<String>,
}

/// A sub-agent, as the editor sees it.
#[derive(Default)]
struct SubAgent {
    text: String,
    /// How much of the text was sent.
    sent: usize,
    is_over: bool,
}

impl Calls {
    pub(super) fn asking(&self) -> Option<String> {
        self.asking.clone()
    }

    /// The editor was not told of those until now.
    pub(super) fn forget_sub_agents(&mut self) {
        self.agents.clear();
    }
}

impl Updates {
    /// The model writes a call.
    pub(super) async fn writes(&mut self, path: &str, call: &str, tool: &str) {
        // What was written in an earlier step has begun since, or never will.
        if self.telling != Telling::Live || call.is_empty() || self.calls.open.contains_key(call) {
            return;
        }
        self.sub_agent_goes_on(path).await;
        let Some(owner) = self.owner.upgrade() else { return };
        self.add(path, call, false);
        let written = tool_calls::written(&owner.view(), call, tool, agent_of(path));
        self.send(SessionUpdate::ToolCall(written)).await;
    }

    pub(in crate::acp_backend) async fn called(
        &mut self,
        path: &str,
        call: &str,
        tool: &str,
        arguments: &Value,
    ) {
        if ASKS.contains(&tool) {
            self.calls.asking = Some(call.to_owned());
        }
        let Some(owner) = self.owner.upgrade() else { return };
        let was_written = self.calls.open.contains_key(call);
        if self.telling == Telling::Silently {
            return;
        }
        self.add(path, call, true);
        let (view, agent) = (owner.view(), agent_of(path));
        self.send(if was_written {
            SessionUpdate::ToolCallUpdate(tool_calls::begins(&view, call, tool, arguments, agent))
        } else {
            SessionUpdate::ToolCall(tool_calls::begun(&view, call, tool, arguments, agent))
        })
        .await;
    }

    fn add(&mut self, path: &str, call: &str, has_begun: bool) {
        let call = self.calls.open.entry(call.to_owned()).or_insert_with(|| Call {
            path: path.to_owned(),
            has_begun,
            progress: VecDeque::new(),
        });
        call.has_begun |= has_begun;
    }

    pub(super) async fn progress(&mut self, call: &str, line: &str) {
        let Some(known) = self.calls.open.get_mut(call) else { return };
        known.progress.push_back(line.to_owned());
        if known.progress.len() > LINES {
            known.progress.pop_front();
        }
        let lines: Vec<&str> = known.progress.iter().map(String::as_str).collect();
        let update = tool_calls::progress(call, &lines.join("\n"));
        self.send(SessionUpdate::ToolCallUpdate(update)).await;
    }

    pub(in crate::acp_backend) async fn answered(&mut self, path: &str, event: &Done) {
        let Done::Answered { call, tool, ok, fault, exit, text, pictures, changes, links, .. } = event else {
            return;
        };
        if self.calls.asking.as_ref() == Some(call) {
            self.calls.asking = None;
        }
        let was_told = self.calls.open.remove(call).is_some();
        if self.telling == Telling::Silently {
            return;
        }
        let Some(owner) = self.owner.upgrade() else { return };
        if !was_told {
            // The editor attached while it ran.
            let begun = tool_calls::begun(&owner.view(), call, tool, &Value::Null, agent_of(path));
            self.send(SessionUpdate::ToolCall(begun)).await;
        }
        let diffs = match self.changes.remove(call) {
            Some(diffs) => diffs,
            None if changes.is_empty() => Vec::new(),
            None => tool_calls::diffs(&self.runtime, call).await,
        };
        let ended = tool_calls::Ended {
            call: call.clone(),
            tool: tool.clone(),
            ok: *ok,
            fault: *fault,
            exit: *exit,
            text: text.clone(),
            pictures: pictures.clone(),
            links: links.clone(),
        };
        let update = tool_calls::ended(&self.runtime, &self.id, &ended, diffs).await;
        self.send(SessionUpdate::ToolCallUpdate(update)).await;
        if ended.ok && checklist::is_list(&ended.tool) && path.is_empty() {
            self.send(SessionUpdate::Plan(tool_calls::plan(&ended.text))).await;
        }
        if !self.calls.open.values().any(|it| it.path == path && it.has_begun) {
            self.end_sub_agents(path).await;
        }
        if self.telling == Telling::Live {
            self.look_at_mode().await;
        }
    }

    /// The answer is over: calls that the model did not finish writing are not made.
    pub(super) async fn unmade(&mut self, path: &str) {
        self.end_some("the model did not finish writing this call; it was not made", |it| {
            it.path == path && !it.has_begun
        })
        .await;
    }

    /// Ends calls that will have no result: those of the session's own agent, or all.
    pub(super) async fn end_calls(&mut self, why: &str, all: bool) {
        self.end_some(why, |it| all || it.path.is_empty()).await;
        if all {
            self.calls.asking = None;
        }
    }

    async fn end_some(&mut self, why: &str, which: impl Fn(&Call) -> bool) {
        let mut ended: Vec<String> =
            self.calls.open.extract_if(|_, it| which(it)).map(|(call, _)| call).collect();
        ended.sort_unstable();
        for call in ended {
            self.send(SessionUpdate::ToolCallUpdate(tool_calls::unmade(&call, why))).await;
        }
    }

    /// More of a sub-agent's text.
    pub(super) async fn sub_agent_says(&mut self, path: &str, text: &str, begins: bool) {
        self.meets_sub_agent(path).await;
        let Some(agent) = self.calls.agents.get_mut(path) else { return };
        if begins && !agent.text.is_empty() {
            agent.text.push_str("\n\n");
        }
        agent.text.push_str(text);
        let grew = agent.text.len() - agent.sent;
        if agent.is_over || grew >= GREW.max(agent.text.len() / GREW_BY) {
            agent.is_over = false;
            self.send_sub_agent(path).await;
        }
    }

    /// Something else happens in a sub-agent: its text until now is sent.
    pub(super) async fn sub_agent_goes_on(&mut self, path: &str) {
        if self.calls.agents.get(path).is_some_and(|it| it.sent < it.text.len()) {
            self.send_sub_agent(path).await;
        }
    }

    /// The calls of this agent are over, and so are the agents that they started.
    pub(super) async fn end_sub_agents(&mut self, above: &str) {
        let below = |path: &str| {
            above.is_empty() || path.strip_prefix(above).is_some_and(|rest| rest.starts_with('/'))
        };
        let open = self.calls.agents.iter_mut().filter(|(path, it)| !it.is_over && below(path));
        let ended: Vec<String> = open
            .map(|(path, it)| {
                it.is_over = true;
                path.clone()
            })
            .collect();
        for path in ended {
            self.send_sub_agent(&path).await;
        }
    }

    async fn meets_sub_agent(&mut self, path: &str) {
        if !self.calls.agents.contains_key(path) {
            self.calls.agents.insert(path.to_owned(), SubAgent::default());
            self.send(SessionUpdate::ToolCall(tool_calls::sub_agent(&id_of(path), path))).await;
        }
    }

    async fn send_sub_agent(&mut self, path: &str) {
        let Some(agent) = self.calls.agents.get_mut(path) else { return };
        agent.sent = agent.text.len();
        let update = tool_calls::sub_agent_says(&id_of(path), path, &agent.text, agent.is_over);
        self.send(SessionUpdate::ToolCallUpdate(update)).await;
    }
}

/// Returns the id of the call that stands for a sub-agent.
fn id_of(path: &str) -> String {
    format!("agent-{path}")
}

fn agent_of(path: &str) -> Option<&str> {
    Some(path).filter(|it| !it.is_empty())
}
