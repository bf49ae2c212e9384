//! Mentions: the `@path` in what a person writes, and which of them are meant as files.

use std::ops::Range;

/// A file, folder or picture that a text names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mention {
    /// The range in the text, with the `@`.
    pub(crate) place: Range<usize>,
    /// The path.
    pub(crate) path: String,
    /// The first and the last line, if the text names them: `@a.rs#L10-20`.
    pub(crate) lines: Option<(usize, usize)>,
    /// Whether it is in quotes.
    pub(crate) is_quoted: bool,
    /// Whether its opening quote has no end in the line.
    pub(crate) is_open: bool,
}

impl Mention {
    /// Returns whether it looks like a path, even if there is no such file. `@property` and `@alice` do not.
    pub(crate) fn is_path(&self) -> bool {
        self.is_quoted || self.path.contains(['/', '.'])
    }
}

/// Returns the mentions in a text, in order. Text in backticks is not a mention, nor is text after a letter
/// (`me@example.org`).
pub(crate) fn mentions(text: &str) -> Vec<Mention> {
    let mut found = Vec::new();
    let mut before = None;
    let mut at = 0;
    while let Some(letter) = text.get(at..).and_then(|it| it.chars().next()) {
        if letter == '`' {
            at = behind_code(text, at);
            before = Some('`');
            continue;
        }
        let begins = before
            .is_none_or(|it: char| it.is_whitespace() || matches!(it, '(' | '[' | '{' | '"' | '\'' | ','));
        if letter == '@'
            && begins
            && let Some(mention) = mention_at(text, at)
        {
            at = mention.place.end;
            before = Some('x');
            found.push(mention);
            continue;
        }
        before = Some(letter);
        at += letter.len_utf8();
    }
    found
}

/// Returns the end of the code that begins here with backticks; the end of the backticks, if the code has none.
fn behind_code(text: &str, at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    let ticks = rest.len() - rest.trim_start_matches('`').len();
    let behind = at + ticks;
    let mark = rest.get(..ticks).unwrap_or_default();
    let end = text.get(behind..).and_then(|it| it.find(mark));
    end.map_or(behind, |end| behind + end + ticks)
}

fn mention_at(text: &str, at: usize) -> Option<Mention> {
    let rest = text.get(at + 1..)?;
    if let Some(quoted) = rest.strip_prefix('"') {
        let end = quoted.find(['"', '\n']).unwrap_or(quoted.len());
        let path = quoted.get(..end)?;
        let is_open = quoted.as_bytes().get(end) != Some(&b'"');
        let place = at..at + 1 + 1 + end + usize::from(!is_open);
        return (!path.trim().is_empty()).then(|| Mention {
            place,
            path: path.to_owned(),
            lines: None,
            is_quoted: true,
            is_open,
        });
    }
    let word = rest.split(char::is_whitespace).next()?;
    // Punctuation that closes a sentence or a bracket is not part of a path.
    let word = word.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', ']', '}', '"', '\'', '>']);
    let (path, lines) = with_lines(word);
    if path.is_empty() || path.starts_with('@') {
        return None;
    }
    let place = at..at + 1 + word.len();
    Some(Mention { place, path: path.to_owned(), lines, is_quoted: false, is_open: false })
}

/// Splits a word into a path and the lines that its end names.
fn with_lines(word: &str) -> (&str, Option<(usize, usize)>) {
    let of = |text: &str| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let number = |it: &str| it.trim_start_matches('L').parse::<usize>().ok().filter(|it| *it > 0);
        number(first).zip(number(last)).filter(|(first, last)| first <= last)
    };
    match word.split_once("#L") {
        Some((path, lines)) => of(lines).map_or((word, None), |lines| (path, Some(lines))),
        None => (word, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<String> {
        mentions(text).into_iter().map(|it| it.path).collect()
    }

    #[test]
    fn a_mention_is_a_word_that_begins_with_an_at_sign() {
        assert_eq!(paths("fix @src/main.rs, and (@a.txt)."), ["src/main.rs", "a.txt"]);
        assert_eq!(paths("@a @\"b c.txt\" @日本.md"), ["a", "b c.txt", "日本.md"]);
        assert_eq!(paths("@src/ @.env"), ["src/", ".env"]);
        for text in ["me@example.org", "`@a.txt`", "```\n@a.txt\n```", "@ x", "@@", "@\"\"", "@\"", ""] {
            assert_eq!(paths(text), [""; 0], "{text}");
        }
        assert_eq!(paths("`code` @a and `@b` `"), ["a"]);
    }

    #[test]
    fn a_quote_that_is_not_closed_is_noticed() {
        let open = |text: &str| mentions(text).pop().map(|it| (it.path, it.is_open));
        assert_eq!(open("see @\"a b/ ok\nand"), Some(("a b/ ok".to_owned(), true)));
        assert_eq!(open("@\"a b\""), Some(("a b".to_owned(), false)));
    }

    #[test]
    fn lines_may_be_named() {
        let lines = |text: &str| mentions(text).pop().map(|it| (it.path, it.lines));
        assert_eq!(lines("@a.rs#L10-20"), Some(("a.rs".to_owned(), Some((10, 20)))));
        assert_eq!(lines("@a.rs#L7."), Some(("a.rs".to_owned(), Some((7, 7)))));
        assert_eq!(lines("@a.rs#L20-10"), Some(("a.rs#L20-10".to_owned(), None)));
        assert_eq!(lines("@c#"), Some(("c#".to_owned(), None)));
    }

    #[test]
    fn a_mention_stands_where_it_was_written() {
        let text = "see @\"a b\", @c.";
        let seen: Vec<&str> = mentions(text).iter().filter_map(|it| text.get(it.place.clone())).collect();
        assert_eq!(seen, ["@\"a b\"", "@c"]);
    }

    #[test]
    fn names_and_decorators_do_not_look_like_paths() {
        let is_path = |text: &str| mentions(text).pop().is_some_and(|it| it.is_path());
        assert!(is_path("@a.txt") && is_path("@src/x") && is_path("@\"a b\""));
        assert!(!is_path("@property") && !is_path("@alice"));
    }
}
