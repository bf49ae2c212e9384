//! Tools by which agents send messages to each other.

mod group_send;
mod send_channel;
mod send_message;

use std::sync::Arc;

use kit::{AnyTool, erase};

/// The key of the session's messages: its calls send one after the other.
const MESSAGES: &str = "messages";

/// Returns the tools of this family, in the order in which they are shown.
pub(crate) fn all() -> Vec<Arc<dyn AnyTool>> {
    vec![
        erase::<group_send::GroupSend>(),
        erase::<send_channel::SendChannel>(),
        erase::<send_message::SendMessage>(),
    ]
}

/// Returns names as a list in brackets: `['a', 'b']`.
fn quoted<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<String> = names.map(|it| format!("'{it}'")).collect();
    names.sort();
    format!("[{}]", names.join(", "))
}
