//! Streamed escaping: escapes text that arrives in pieces, without splitting letters.

use crate::print::harmless;

/// Escapes control and invisible characters in a streamed text. Holds the last letter back while the next piece may belong to
/// it.
#[derive(Debug, Default)]
pub(crate) struct Letters {
    held: String,
}

impl Letters {
    /// Adds a piece; returns the text that can be shown by now.
    pub(crate) fn push(&mut self, text: &str) -> String {
        self.held.push_str(text);
        let waits = waits_from(&self.held);
        let rest = self.held.split_off(waits);
        let whole = std::mem::replace(&mut self.held, rest);
        harmless(&whole).into_owned()
    }

    /// Ends the text; returns the rest.
    pub(crate) fn end(&mut self) -> String {
        harmless(&std::mem::take(&mut self.held)).into_owned()
    }
}

/// Returns the offset from which the text may look different once more of it arrives.
fn waits_from(text: &str) -> usize {
    for (at, letter) in text.char_indices().rev() {
        let belongs = matches!(letter, '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}' | '\u{20e3}' | '\u{1f3fb}'..='\u{1f3ff}');
        let joined = text.get(..at).is_some_and(|it| it.ends_with(['\u{200c}', '\u{200d}']));
        if !belongs && !joined {
            // A digit may become a key cap, and a carriage return the end of a line, but only with the very next letter.
            return if letter.is_ascii() && letter != '\r' && text.len() == at + 1 { text.len() } else { at };
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_joined_letter_is_whole_wherever_the_text_is_cut() {
        let text = "ok 👩\u{200d}💻 \u{1b}[2J \u{202e}x\r\nover\rünï";
        let whole = harmless(text).into_owned();
        for (cut, _) in text.char_indices() {
            let (before, after) = text.split_at(cut);
            let mut letters = Letters::default();
            let shown = [letters.push(before), letters.push(after), letters.end()].concat();
            assert_eq!(shown, whole, "cut at {cut}");
        }
    }
}
