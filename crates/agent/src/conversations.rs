//! The conversations of a workspace, with titles: lists and searches them.

use kit::{Fault, escape::visible};
use runtime::Runtime;
use serde::Serialize;

/// Maximum length of a title, in characters.
const TITLE: usize = 72;

/// Maximum length of the line that a search found, in characters.
const FOUND: usize = 160;

/// A conversation of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Conversation {
    /// The name of its session, by which it is resumed.
    pub session: String,
    /// The person's first message, in a line of at most 72 characters.
    pub title: String,
    /// The time it began, in milliseconds since 1970.
    pub begun_ms: u64,
    /// The time of its last use, in milliseconds since 1970.
    pub used_ms: u64,
    /// The number of the person's messages.
    pub turns: u64,
    /// The line that a search found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
}

/// Returns the conversations of the runtime's workspace, the one used last first. Blocks.
///
/// # Errors
/// When the store can't be read.
pub fn conversations(runtime: &Runtime, limit: usize) -> Result<Vec<Conversation>, Fault> {
    Ok(runtime.store().conversations().list(limit)?.into_iter().map(Conversation::from).collect())
}

/// Returns the conversations whose messages or calls match `query`, best first. Blocks.
///
/// # Errors
/// When the store can't be read.
pub fn find_conversations(runtime: &Runtime, query: &str, limit: usize) -> Result<Vec<Conversation>, Fault> {
    Ok(runtime.store().conversations().find(query, limit)?.into_iter().map(Conversation::from).collect())
}

impl From<store::Conversation> for Conversation {
    fn from(it: store::Conversation) -> Self {
        let store::Conversation { session, first, begun_ms, used_ms, turns, found } = it;
        let found = found.map(|it| line(&it.split_whitespace().collect::<Vec<_>>().join(" "), FOUND));
        Self { session, title: title(&first), begun_ms, used_ms, turns, found }
    }
}

/// Returns a title for a message of the person: its first line with a word, without leading markup, of at
/// most 72 characters.
pub fn title(text: &str) -> String {
    let has_word = |it: &&str| it.contains(char::is_alphanumeric);
    let first = text.lines().find(has_word).or_else(|| text.lines().next()).unwrap_or_default();
    let first = first.trim().trim_start_matches(['#', '>', '*', '-', ' ']);
    line(&first.split_whitespace().collect::<Vec<_>>().join(" "), TITLE)
}

/// Escapes control characters, and cuts the text at a word where it is too long.
fn line(text: &str, longest: usize) -> String {
    let text = visible(text).0;
    let Some((end, _)) = text.char_indices().nth(longest) else { return text.into_owned() };
    let kept = text.get(..end).unwrap_or_default();
    let whole = kept.rfind(' ').filter(|at| at * 2 > end).and_then(|at| kept.get(..at)).unwrap_or(kept);
    format!("{}…", whole.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn title_is_the_first_line_with_a_word_of_bounded_length() {
        for (text, expected) in [
            ("fix the test", "fix the test"),
            ("\n---\n## Fix   the\ttest\n\nIt fails.", "Fix the test"),
            ("```\nlog\n```", "log"),
            ("???", "???"),
            ("", ""),
            ("\u{1b}[2Jgone", "\\u{1b}[2Jgone"),
        ] {
            assert_eq!(title(text), expected, "{text:?}");
        }
        let long = title(&"a word and another ".repeat(20));
        assert!(long.chars().count() <= TITLE + 1 && long.ends_with("and…"), "{long}");
        assert_eq!(title(&"日".repeat(200)).chars().count(), TITLE + 1);
    }
}
