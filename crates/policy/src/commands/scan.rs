//! Precheck of a text before it is parsed.
//!
//! It only looks at characters, so that no text can exhaust the parser's stack or time, and none contains
//! characters that a person or a shell would read differently from the parser.

use super::Unparsed;
use kit::escape::visible;

/// Maximum length of a command line, in bytes.
const LONGEST: usize = 32 * 1024;

/// Maximum number of opening brackets and words; the parser's stack is sized for it.
const OPENINGS: usize = 2_000;

/// Maximum number of places at which the parser tries two alternatives; each further one doubles its time.
const FORKS: usize = 18;

/// Maximum nesting of indexes (`a[`): the parser's time grows exponentially with it.
const INDEXES: usize = 1;

/// Checks the text.
///
/// # Errors
/// When it must not be parsed, with the reason.
pub(super) fn scan(text: &str) -> Result<(), Unparsed> {
    if text.len() > LONGEST {
        return Err(Unparsed::new(format!("it has more than {LONGEST} bytes")));
    }
    let odd = |letter: &char| match letter {
        '\n' | '\t' => false,
        letter => letter.is_control() || (!letter.is_ascii() && letter.is_whitespace()),
    };
    if let Some(letter) = text.chars().find(odd) {
        return Err(Unparsed::new(format!("it contains the character U+{:04X}", u32::from(letter))));
    }
    if visible(text).1 > 0 {
        return Err(Unparsed::new("it contains characters that can't be seen"));
    }
    let brackets = text.matches(['(', '{', '[', '`']).count();
    let keywords = text
        .split(|letter: char| !letter.is_ascii_alphanumeric())
        .filter(|word| {
            matches!(*word, "if" | "while" | "until" | "case" | "for" | "select" | "function" | "coproc")
        })
        .count();
    if brackets + keywords > OPENINGS {
        return Err(Unparsed::new(format!("it opens more than {OPENINGS} brackets")));
    }
    if forks(text) > FORKS {
        return Err(Unparsed::new("it nests more than can be tried in time"));
    }
    if index_depth(text) > INDEXES {
        return Err(Unparsed::new("it has an index within an index"));
    }
    // The bounds of an arithmetic context are ambiguous, and `<<` in one is not a here-document.
    if text.contains("<<") && (text.contains("((") || text.contains("$[")) {
        return Err(Unparsed::new("it has both arithmetic and a here-document"));
    }
    long_descriptor(text)
}

/// Returns the number of places where a subshell, arithmetic, or a `case` may begin.
fn forks(text: &str) -> usize {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric());
    let words = words.map(|word| match word {
        "case" => 2,
        "time" => 1,
        _ => 0,
    });
    let mut before = '\n';
    let brackets = text.chars().filter(|letter| {
        let begins = *letter == '(' && (before.is_ascii_whitespace() || "(;&|!{`".contains(before));
        before = *letter;
        begins
    });
    words.sum::<usize>() + brackets.count()
}

/// Returns the maximum nesting of indexes, quoted or not.
fn index_depth(text: &str) -> usize {
    let (mut open, mut deepest) = (0_usize, 0);
    let mut before = ' ';
    for letter in text.chars() {
        match letter {
            '[' if before.is_ascii_alphanumeric() || before == '_' => {
                open += 1;
                deepest = deepest.max(open);
            }
            '\n' => open = 0,
            ']' => open = open.saturating_sub(1),
            _ => {}
        }
        before = letter;
    }
    deepest
}

/// Refuses a long number before `<` or `>`, which the parser takes for a descriptor.
fn long_descriptor(text: &str) -> Result<(), Unparsed> {
    let mut digits = 0;
    for letter in text.chars() {
        match letter {
            '0'..='9' => digits += 1,
            '<' | '>' if digits > 8 => return Err(Unparsed::new("it has a descriptor with too many digits")),
            _ => digits = 0,
        }
    }
    Ok(())
}
