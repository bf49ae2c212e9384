//! One-line input for answers and search terms.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::row::tail;

/// A line that is being typed.
#[derive(Debug, Default)]
pub(crate) struct Typed {
    text: String,
}

impl Typed {
    /// Applies a key; returns the line if the key ends it.
    pub(crate) fn key(&mut self, key: KeyEvent) -> Option<String> {
        match (key.code, key.modifiers) {
            (KeyCode::Enter, _) => return Some(std::mem::take(&mut self.text)),
            (KeyCode::Backspace, _) => drop(self.text.pop()),
            (KeyCode::Char('u'), KeyModifiers::CONTROL) => self.text.clear(),
            (KeyCode::Char('w'), KeyModifiers::CONTROL) => {
                let kept = self.text.trim_end().rfind(' ').map_or(0, |it| it + 1);
                self.text.truncate(kept);
            }
            (KeyCode::Char(letter), KeyModifiers::NONE | KeyModifiers::SHIFT) => self.text.push(letter),
            _ => {}
        }
        None
    }

    /// Inserts pasted text, in one line.
    pub(crate) fn paste(&mut self, text: &str) {
        self.text.extend(text.chars().map(|it| if it.is_control() { ' ' } else { it }));
    }

    /// Returns the part of its end that fits.
    pub(crate) fn shown(&self, columns: usize) -> &str {
        tail(&self.text, columns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_make_a_line() {
        let mut typed = Typed::default();
        for letter in "one two".chars() {
            assert_eq!(typed.key(KeyEvent::from(KeyCode::Char(letter))), None);
        }
        typed.key(KeyEvent::new(KeyCode::Char('w'), KeyModifiers::CONTROL));
        typed.key(KeyEvent::from(KeyCode::Backspace));
        typed.paste("\nthree");
        assert_eq!(typed.shown(5), "three");
        assert_eq!(typed.key(KeyEvent::from(KeyCode::Enter)).as_deref(), Some("one three"));
        assert_eq!(typed.shown(5), "");
    }
}
