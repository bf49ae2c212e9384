//! Escaping: spells out characters that are invisible or that control a terminal.
//!
//! Text from files is data. A terminal's escape codes, marks that change the direction of writing, and
//! characters without any width can hide words from the person that the model reads, or the other way round;
//! so they are spelled out, as `\u{1b}`.

use std::{
    borrow::Cow,
    fmt::{self, Write},
};

use crate::deliberate_faults::is_broken;

/// Escapes invisible characters; returns the text and how many were escaped.
pub fn visible(text: &str) -> (Cow<'_, str>, usize) {
    spelled(text, |shown, letter| write!(shown, "\\u{{{:x}}}", u32::from(letter)))
}

/// Escapes invisible characters of a JSON text by JSON's own escapes, so that its values stay the same. Such
/// characters occur in strings only.
pub fn visible_json(json: &str) -> Cow<'_, str> {
    let escape = |shown: &mut String, letter: char| {
        letter.encode_utf16(&mut [0; 2]).iter().try_for_each(|unit| write!(shown, "\\u{unit:04x}"))
    };
    spelled(json, escape).0
}

fn spelled(text: &str, spell: impl Fn(&mut String, char) -> fmt::Result) -> (Cow<'_, str>, usize) {
    if is_broken("escapes") || is_plain(text.as_bytes()) {
        return (Cow::Borrowed(text), 0);
    }
    let Some(first) = text.char_indices().find(|(at, letter)| is_hidden(text, *at, *letter)) else {
        return (Cow::Borrowed(text), 0);
    };
    let (clean, rest) = text.split_at_checked(first.0).unwrap_or(("", text));
    let mut shown = String::with_capacity(text.len() + 64);
    shown.push_str(clean);
    let mut count = 0;
    for (at, letter) in rest.char_indices() {
        if is_hidden(rest, at, letter) {
            count += 1;
            // Writing to a string can't fail.
            let _ = spell(&mut shown, letter);
        } else {
            shown.push(letter);
        }
    }
    (Cow::Owned(shown), count)
}

/// Returns whether a text has only visible ASCII characters and plain white space. Most texts have.
fn is_plain(text: &[u8]) -> bool {
    // Without a way out in the middle of a block the compiler compares many bytes at once.
    let is_plain = |block: &[u8]| {
        block.iter().fold(true, |plain, it| plain & matches!(it, b'\t' | b'\n' | b'\r' | b' '..=b'~'))
    };
    text.chunks(64).all(is_plain)
}

fn is_hidden(text: &str, at: usize, letter: char) -> bool {
    match letter {
        '\t' | '\n' | '\r' | ' '..='~' => false,
        // The rest of the control characters: escape codes, backspaces, the bell.
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => true,
        // Joiners belong into emoji and into some scripts, between letters of those.
        '\u{200c}' | '\u{200d}' => {
            let after = text.get(at + letter.len_utf8()..).and_then(|it| it.chars().next());
            !before(text, at).is_some_and(is_joined) || !after.is_some_and(is_joined)
        }
        // A choice of presentation belongs to an emoji or such a letter, once.
        '\u{fe00}'..='\u{fe0f}' => match before(text, at) {
            Some('#' | '*' | '0'..='9') => {
                !text.get(at..).is_some_and(|it| it.starts_with("\u{fe0f}\u{20e3}"))
            }
            Some(base) => base.is_ascii() || is_unseen(base),
            None => true,
        },
        _ => is_unseen(letter),
    }
}

fn before(text: &str, at: usize) -> Option<char> {
    text.get(..at).and_then(|it| it.chars().next_back())
}

/// Returns whether it may stand beside a joiner: a visible letter of a script that has joiners.
fn is_joined(letter: char) -> bool {
    let presents = ('\u{fe00}'..='\u{fe0f}').contains(&letter);
    !letter.is_ascii() && (presents || !is_unseen(letter)) && !letter.is_whitespace()
}

/// Returns whether it has no visible shape in any context.
pub fn is_unseen(letter: char) -> bool {
    match letter {
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => true,
        // Soft hyphen, the joiner of graphemes, direction marks, fillers, inherent vowels.
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' => true,
        // Mongolian variants, zero width, breaks of lines that are none, direction marks.
        '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' => true,
        // Invisible operators, deprecated formats, fillers, presentation, notes on notes.
        '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' => true,
        '\u{fff0}'..='\u{fffb}' | '\u{1d159}' | '\u{1d173}'..='\u{1d17a}' => true,
        // Shorthand and hieroglyph controls, a filler of Khitan.
        '\u{1bca0}'..='\u{1bca3}' | '\u{13430}'..='\u{1343f}' | '\u{16fe4}' => true,
        // Tags and more presentation: whole alphabets that are invisible.
        '\u{e0000}'..='\u{e0fff}' => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_characters_are_spelled_out() {
        for (text, shown) in [
            ("\u{1b}[31mred\u{1b}[0m", "\\u{1b}[31mred\\u{1b}[0m"),
            ("a\u{202e}b\u{200b}c", "a\\u{202e}b\\u{200b}c"),
            ("\u{e0041}\u{e0042}", "\\u{e0041}\\u{e0042}"),
            ("x\u{200d}y", "x\\u{200d}y"),
            ("é\u{200d}\u{200d}é", "é\\u{200d}\\u{200d}é"),
            ("é\u{200d}y é\u{200c}", "é\\u{200d}y é\\u{200c}"),
            ("a\u{fe0f}😀\u{fe0f}\u{fe0e}", "a\\u{fe0f}😀\u{fe0f}\\u{fe0e}"),
            ("葛\u{e0100}\u{2028}", "葛\\u{e0100}\\u{2028}"),
            ("\u{3164}\u{ffa0}\u{34f}\u{115f}", "\\u{3164}\\u{ffa0}\\u{34f}\\u{115f}"),
            ("\u{1160}\u{17b4}\u{180f}\u{1d173}", "\\u{1160}\\u{17b4}\\u{180f}\\u{1d173}"),
        ] {
            assert_eq!(visible(text).0, shown);
        }
    }

    #[test]
    fn json_keeps_its_value_and_escapes_invisible_characters() {
        let text = "a\u{9b}2J\u{202e}b\u{e0041}\u{1b}[0m\n日本";
        let json = serde_json::json!({ text: [text] });
        for written in [json.to_string(), format!("{json:#}")] {
            let shown = visible_json(&written);
            assert!(shown.chars().all(|it| it == '\n' || !is_unseen(it)), "{shown:?}");
            assert_eq!(shown.parse::<serde_json::Value>().ok().as_ref(), Some(&json));
        }
    }

    #[test]
    fn ordinary_text_is_left_as_it_is() {
        for text in [
            "tab\there\r\n",
            "naïve café",
            "👨\u{200d}👩\u{200d}👧",
            "می\u{200c}خواهم",
            "日本語",
            "",
            "क्\u{200d}ष",
            "❤\u{fe0f}",
            "1\u{fe0f}\u{20e3}",
            "🏳\u{fe0f}\u{200d}🌈",
        ] {
            assert!(matches!(visible(text), (Cow::Borrowed(same), 0) if same == text));
        }
    }
}
