//! Replacements of a whole conversation, found in its rows: what a process that died had written of a compaction.

use kit::Fault;
use store::{Buffer, Store};

use super::{conversation::Conversation, row::Row};
use crate::model::Item;

/// Returns the first item that the conversation had at this row, and what replaced the conversation from its beginning in
/// later rows. Blocks.
///
/// # Errors
/// When the conversation can't be read.
pub(crate) fn replaced_since(
    store: &Store,
    session: &str,
    row: u64,
) -> Result<(Option<Item>, Vec<Vec<Item>>), Fault> {
    let (before, after): (Vec<_>, Vec<_>) =
        store.transcripts().rows(session, Buffer::Context)?.into_iter().partition(|it| it.number <= row);
    let replaced = after.iter().filter_map(|it| match serde_json::from_str(&it.body) {
        Ok(Row::Instead { from: 0, items, .. }) => Some(items),
        _ => None,
    });
    let replaced = replaced.collect();
    Ok((Conversation::read(before)?.items.into_iter().next(), replaced))
}
