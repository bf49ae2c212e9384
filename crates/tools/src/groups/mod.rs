//! Tools by which agents send messages to each other, and by which privileged ones change their group.

mod group_add_node;
mod group_channel;
mod group_kill_node;
mod group_pause_node;
mod group_remove_node;
mod group_resume_node;
mod group_send;
mod group_spawn_child;
mod group_start_node;
mod group_status;
mod group_stop_node;
mod group_wire;
mod send_channel;
mod send_message;

use std::sync::Arc;

use kit::{AnyTool, Cx, Fault, Output, erase, services::GroupAct};

/// The key of the session's messages: its calls send one after the other.
const MESSAGES: &str = "messages";

/// The key of the session's group: its calls change the group one after the other.
const GROUP: &str = "group";

/// Returns the tools of this family, in the order in which they are shown.
pub(crate) fn all() -> Vec<Arc<dyn AnyTool>> {
    vec![
        erase::<group_send::GroupSend>(),
        erase::<send_channel::SendChannel>(),
        erase::<send_message::SendMessage>(),
        erase::<group_status::GroupStatus>(),
        erase::<group_spawn_child::GroupSpawnChild>(),
        erase::<group_add_node::GroupAddNode>(),
        erase::<group_remove_node::GroupRemoveNode>(),
        erase::<group_start_node::GroupStartNode>(),
        erase::<group_stop_node::GroupStopNode>(),
        erase::<group_pause_node::GroupPauseNode>(),
        erase::<group_resume_node::GroupResumeNode>(),
        erase::<group_kill_node::GroupKillNode>(),
        erase::<group_channel::GroupChannel>(),
        erase::<group_wire::GroupWire>(),
    ]
}

/// Returns names as a list in brackets: `['a', 'b']`.
fn quoted<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<String> = names.map(|it| format!("'{it}'")).collect();
    names.sort();
    format!("[{}]", names.join(", "))
}

/// Does this in the group, and answers with the result as JSON.
async fn answer(cx: &Cx, act: GroupAct) -> Result<Output, Fault> {
    Ok(Output::text(cx.groups().act(act).await?.to_string()))
}

/// Returns a text argument without spaces around it; an empty one is missing.
fn required(name: &str, text: &str) -> Result<String, Fault> {
    let text = text.trim();
    if text.is_empty() { Err(Fault::bad_args(format!("'{name}' is required"))) } else { Ok(text.to_owned()) }
}

/// Returns an optional text argument; an empty one counts as none.
fn optional(text: Option<String>) -> Option<String> {
    text.map(|it| it.trim().to_owned()).filter(|it| !it.is_empty())
}
