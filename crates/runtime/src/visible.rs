//! Which characters would not be seen, or would act on whoever shows them?
//!
//! Text from files is data. A terminal's escape codes, marks that turn the direction of
//! writing, and characters without any width can hide words from the person that the
//! model reads, or the other way round; so they are spelled out, as `\u{1b}`.

use std::{borrow::Cow, fmt::Write};

/// The text with what can't be seen spelled out, and how many characters that were.
pub(crate) fn visible(text: &str) -> (Cow<'_, str>, usize) {
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
            let _ = write!(shown, "\\u{{{:x}}}", u32::from(letter));
        } else {
            shown.push(letter);
        }
    }
    (Cow::Owned(shown), count)
}

fn is_hidden(text: &str, at: usize, letter: char) -> bool {
    match letter {
        '\t' | '\n' | '\r' | ' '..='~' => false,
        // The rest of the control characters: escape codes, backspaces, the bell.
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => true,
        // Joiners belong into emoji and into some scripts, between letters of those.
        '\u{200c}' | '\u{200d}' => {
            let before = text.get(..at).and_then(|it| it.chars().next_back());
            before.is_none_or(|it| it.is_ascii())
        }
        // Soft hyphen, zero width, direction marks, invisible operators, deprecated formats.
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' => true,
        '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' => true,
        // Tags: a whole alphabet that nobody sees.
        '\u{e0000}'..='\u{e007f}' => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_sees_is_spelled_out() {
        for (text, shown) in [
            ("\u{1b}[31mred\u{1b}[0m", "\\u{1b}[31mred\\u{1b}[0m"),
            ("a\u{202e}b\u{200b}c", "a\\u{202e}b\\u{200b}c"),
            ("\u{e0041}\u{e0042}", "\\u{e0041}\\u{e0042}"),
            ("x\u{200d}y", "x\\u{200d}y"),
        ] {
            assert_eq!(visible(text).0, shown);
        }
    }

    #[test]
    fn ordinary_text_is_left_as_it_is() {
        for text in ["tab\there\r\n", "naïve café", "👨\u{200d}👩\u{200d}👧", "می\u{200c}خواهم", "日本語", ""]
        {
            assert!(matches!(visible(text), (Cow::Borrowed(same), 0) if same == text));
        }
    }
}
