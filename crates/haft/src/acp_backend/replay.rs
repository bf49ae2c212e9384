//! Replay of a loaded session: sends the updates of its conversation again, in order, with the diffs of its edits.

use std::collections::HashMap;

use agent::{HistoryItem, model::Piece};
use serde_json::Value;
use serve::acp::v1::{
    ContentBlock, ContentChunk, MessageId, SessionUpdate, TextContent, ToolCallContent, ToolCallStatus,
};

use super::{
    session::AcpSession,
    tool_calls::{self, Ended},
};
use crate::terminal::checklist;

/// Sends it, in its order. `changes` is what the session's own calls changed, by their ids.
pub(super) async fn send(
    session: &AcpSession,
    told: Vec<HistoryItem>,
    mut changes: HashMap<String, Vec<ToolCallContent>>,
) {
    let mut plan = None;
    for (number, told) in told.into_iter().enumerate() {
        let chunk = |text: String| {
            let content = ContentBlock::Text(TextContent::new(text));
            ContentChunk::new(content).message_id(MessageId::from(format!("replay-{number}")))
        };
        match told {
            HistoryItem::Person { text, attached } => {
                let attached: String = attached.iter().map(|it| format!("\n[{it}]")).collect();
                session.tell(SessionUpdate::UserMessageChunk(chunk(format!("{text}{attached}")))).await;
            }
            HistoryItem::Model { text } => session.tell(SessionUpdate::AgentMessageChunk(chunk(text))).await,
            HistoryItem::Call { journal, tool, arguments, result } => {
                let id = journal.clone().unwrap_or_else(|| format!("replay-{number}"));
                let arguments = serde_json::from_str(&arguments).unwrap_or_else(|_| Value::String(arguments));
                let mut begun = tool_calls::begun(&session.session, &id, &tool, &arguments, None);
                begun.status = ToolCallStatus::Pending;
                session.tell(SessionUpdate::ToolCall(begun)).await;
                let (ok, pieces) = result.map_or_else(
                    || (false, vec![Piece::text("nobody knows what came of it: the process died")]),
                    |it| (it.ok, it.pieces),
                );
                let text = Piece::lines(&pieces);
                let diffs = match &journal {
                    Some(call) => match changes.remove(call) {
                        Some(diffs) => diffs,
                        // In a forked conversation, the calls belong to another session.
                        None if could_change(session, &tool) => tool_calls::diffs(session, call).await,
                        None => Vec::new(),
                    },
                    None => Vec::new(),
                };
                if ok && checklist::is_list(&tool) {
                    plan = Some(text.clone());
                }
                let ended = Ended {
                    call: id,
                    tool,
                    ok,
                    fault: None,
                    exit: None,
                    text,
                    pictures: pictures(&pieces),
                    links: Vec::new(),
                };
                let update = tool_calls::ended(&session.session, &ended, diffs).await;
                session.tell(SessionUpdate::ToolCallUpdate(update)).await;
            }
        }
    }
    if let Some(text) = plan {
        session.tell(SessionUpdate::Plan(tool_calls::plan(&text))).await;
    }
}

fn could_change(session: &AcpSession, tool: &str) -> bool {
    session.session.catalog().get(tool).is_none_or(|it| !it.spec().at_most.is_read_only())
}

fn pictures(pieces: &[Piece]) -> Vec<agent::Shown> {
    let shown = |piece: &Piece| match piece {
        Piece::Image { mime, handle, .. } => {
            Some(agent::Shown { handle: handle.clone(), mime: mime.clone(), bytes: 0 })
        }
        Piece::Text { .. } => None,
    };
    pieces.iter().filter_map(shown).collect()
}
