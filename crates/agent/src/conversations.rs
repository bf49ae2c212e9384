//! The conversations of a workspace, with titles: lists and searches them.

use kit::{Fault, escape::visible};
use runtime::Runtime;
use serde::Serialize;
use store::Archived;

/// Maximum length of a title, in characters.
const TITLE: usize = 72;

/// Maximum length of the line that a search found, in characters.
const FOUND: usize = 160;

/// A conversation of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Conversation {
    /// The name of its session, by which it is resumed.
    pub session: String,
    /// The title that the person gave it, else what they said first, in a line of at most 72 letters.
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
    /// Whether lists leave it out.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub archived: bool,
    /// The session it was forked from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<String>,
    /// After how many of the person's messages, where that was not the whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forked_at: Option<u64>,
}

/// Maximum number of names to list where several conversations match.
const NAMES: usize = 5;

/// The conversations of the runtime's workspace, the one used last first. Blocks.
///
/// # Errors
/// When the store can't be read.
pub fn conversations(
    runtime: &Runtime,
    archived: Archived,
    limit: usize,
) -> Result<Vec<Conversation>, Fault> {
    let all = runtime.store().conversations().list(archived, limit)?;
    Ok(all.into_iter().map(Conversation::from).collect())
}

/// Returns the conversations whose messages or calls match `query`, best first. Blocks.
///
/// # Errors
/// When the store can't be read.
pub fn find_conversations(
    runtime: &Runtime,
    query: &str,
    archived: Archived,
    limit: usize,
) -> Result<Vec<Conversation>, Fault> {
    let all = runtime.store().conversations().find(query, archived, limit)?;
    Ok(all.into_iter().map(Conversation::from).collect())
}

/// The conversation that is meant: of this name, the only one whose name begins so, or with `latest` the one used last that is
/// not archived. Blocks.
///
/// # Errors
/// [`Kind::NotFound`](kit::Kind::NotFound) when there is none, [`Kind::BadArgs`](kit::Kind::BadArgs) when there are several, and
/// when the store can't be read.
pub fn conversation(runtime: &Runtime, name: &str) -> Result<Conversation, Fault> {
    let store = runtime.store().conversations();
    // A session that is called `latest` does not hide the newest one.
    if name != "latest" {
        if let Some(exactly) = store.about(name)? {
            return Ok(exactly.into());
        }
        if store.is_deleted(name)? {
            return Err(Fault::not_found(format!("the session `{name}` was deleted")));
        }
    }
    let all = store.list(Archived::Shown, usize::MAX)?;
    let known = all.into_iter().map(|it| (it.session.clone(), it.archived_ms.is_none(), it));
    named(known, name)?.map(Conversation::from).ok_or_else(|| {
        let workspace = runtime.roots().workspace().display();
        Fault::not_found(format!("no conversation `{name}` in {workspace}"))
            .next("`haft sessions` lists them, `--archived` with the archived ones.")
    })
}

/// Returns what a person means by a name: the only one whose name is or begins so, or with `latest` the first that may be the
/// latest. Each of `known` has its name, whether it may be the latest, and a value; the newest comes first.
///
/// # Errors
/// [`Kind::BadArgs`](kit::Kind::BadArgs) when there are several.
pub fn named<T>(known: impl IntoIterator<Item = (String, bool, T)>, name: &str) -> Result<Option<T>, Fault> {
    let mut meant = Vec::new();
    for (full, may_be_latest, value) in known {
        let is_latest = name == "latest" && may_be_latest;
        if full == name || is_latest {
            return Ok(Some(value));
        }
        if !name.is_empty() && full.starts_with(name) {
            meant.push((full, value));
        }
    }
    if meant.len() < 2 {
        return Ok(meant.pop().map(|it| it.1));
    }
    let more = meant.len().saturating_sub(NAMES);
    let mut names: Vec<String> = meant.iter().take(NAMES).map(|it| format!("`{}`", it.0)).collect();
    names.extend((more > 0).then(|| format!("{more} more")));
    Err(Fault::bad_args(format!("`{name}` may be {}", names.join(", "))).next("Give more of the name."))
}

impl From<store::Conversation> for Conversation {
    fn from(it: store::Conversation) -> Self {
        let store::Conversation { session, first, begun_ms, used_ms, turns, forked_from, forked_at, .. } = it;
        let found = it.found.map(|it| line(&it.split_whitespace().collect::<Vec<_>>().join(" "), FOUND));
        let title = title(it.title.as_deref().unwrap_or(&first));
        let archived = it.archived_ms.is_some();
        Self { session, title, begun_ms, used_ms, turns, found, archived, forked_from, forked_at }
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
    fn name_is_that_of_one_its_beginning_or_the_latest() {
        let of = |name: &str| {
            let all = [("talk-2", false), ("talk", true), ("walk", true)];
            named(all.map(|(name, may)| (name.to_owned(), may, name)), name)
        };
        let is = |name: &str, expected: Option<&'static str>| {
            assert_eq!(of(name).ok().flatten(), expected, "{name}");
        };
        is("latest", Some("talk"));
        is("talk", Some("talk"));
        is("w", Some("walk"));
        is("x", None);
        is("", None);
        let fault = of("ta").err().map(|it| it.what);
        assert_eq!(fault.as_deref(), Some("`ta` may be `talk-2`, `talk`"));
    }

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
