//! Tools for what a model needs later: tasks, notes, facts, and earlier messages.

mod memory;
mod scratchpad;
mod search_memory;
#[cfg(test)]
mod tests;
mod todo;

use std::sync::Arc;

use kit::{AnyTool, erase};

pub(crate) use memory::Memory;
pub(crate) use scratchpad::Scratchpad;
pub(crate) use todo::Todo;

/// The tools of this family.
pub(crate) fn all() -> Vec<Arc<dyn AnyTool>> {
    vec![erase::<Todo>(), erase::<Scratchpad>(), erase::<Memory>(), erase::<search_memory::SearchMemory>()]
}

/// Formats the day of a time in milliseconds since 1970, in UTC.
pub(crate) fn day(at_ms: u64) -> String {
    let at = i64::try_from(at_ms).ok().and_then(|it| jiff::Timestamp::from_millisecond(it).ok());
    at.map(|it| it.strftime("%Y-%m-%d").to_string()).unwrap_or_default()
}

/// Truncates a text to `chars` characters.
pub(crate) fn clipped(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}
