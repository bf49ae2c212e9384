//! The conversations of a workspace, with titles: listed for whoever wants to go on with one, and searched.

use kit::{Fault, escape::visible};
use runtime::Runtime;
use serde::Serialize;

/// A title has at most so many letters.
const TITLE: usize = 72;

/// The line that a search found has at most so many.
const FOUND: usize = 160;

/// A conversation of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Conversation {
    /// The name of its session, by which it is resumed.
    pub session: String,
    /// What the person said first, in a line of at most 72 letters.
    pub title: String,
    /// When it began, in milliseconds since 1970.
    pub begun_ms: u64,
    /// When it was last used.
    pub used_ms: u64,
    /// How often the person said something.
    pub turns: u64,
    /// The line that a search found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
}

/// The conversations of the runtime's workspace, the one used last first. Blocks.
///
/// # Errors
/// When the store can't be read.
pub fn conversations(runtime: &Runtime, limit: usize) -> Result<Vec<Conversation>, Fault> {
    Ok(runtime.store().conversations().list(limit)?.into_iter().map(Conversation::from).collect())
}

/// The conversations in which something was said or done that answers to `query`, best first. Blocks.
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

/// A title made of what the person said: its first line that has a word, without marks before it, of at most 72 letters.
pub fn title(text: &str) -> String {
    let has_word = |it: &&str| it.contains(char::is_alphanumeric);
    let first = text.lines().find(has_word).or_else(|| text.lines().next()).unwrap_or_default();
    let first = first.trim().trim_start_matches(['#', '>', '*', '-', ' ']);
    line(&first.split_whitespace().collect::<Vec<_>>().join(" "), TITLE)
}

/// A text in which nothing acts on a terminal, cut behind a word where it is too long.
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
    fn a_title_is_the_first_line_with_a_word_and_bounded() {
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
