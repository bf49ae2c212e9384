//! Tools that keep what the model wants to know later: its tasks, its notes, facts, and what was said.

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

/// The day of a moment that is given in milliseconds since 1970, in UTC.
pub(crate) fn day(at_ms: u64) -> String {
    let at = i64::try_from(at_ms).ok().and_then(|it| jiff::Timestamp::from_millisecond(it).ok());
    at.map(|it| it.strftime("%Y-%m-%d").to_string()).unwrap_or_default()
}

/// The beginning of a text, where it is longer than this.
pub(crate) fn clipped(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}
