//! Chips: long pastes and pictures that occupy one letter in the line, and are sent whole.

use std::path::{Path, PathBuf};

/// A paste with more lines, or more characters, becomes a chip.
const LINES: usize = 10;
const CHARACTERS: usize = 1_000;

/// The letter of the first chip: the last private-use plane, which no font and no text uses.
const FIRST: u32 = 0x10_0000;

/// Maximum number of chips in one line.
const MOST: usize = 1_000;

/// The content of the chips.
#[derive(Debug, Default)]
pub(super) struct Chips {
    all: Vec<Chip>,
}

#[derive(Debug)]
enum Chip {
    Text(String),
    Picture(PathBuf),
}

impl Chips {
    /// Returns the text to insert for a paste: the paste itself, or the letter of its chip.
    pub(super) fn paste(&mut self, text: &str) -> String {
        let text = plain(text);
        if text.lines().count() <= LINES && text.chars().count() <= CHARACTERS {
            return text;
        }
        match self.add(Chip::Text(text)) {
            Ok(letter) => letter.to_string(),
            Err(Chip::Text(text)) => text,
            Err(Chip::Picture(_)) => String::new(),
        }
    }

    /// Returns the letter to insert for a picture.
    pub(super) fn picture(&mut self, path: &Path) -> String {
        self.add(Chip::Picture(path.to_owned())).map(String::from).unwrap_or_default()
    }

    /// Returns a text in which the notes of these pictures are replaced by their chips.
    pub(super) fn with(&mut self, text: &str, pictures: &[PathBuf]) -> String {
        let mut text = plain(text);
        for path in pictures {
            let chip = self.picture(path);
            let note = self.shown(&chip).unwrap_or_default();
            text = text.replacen(&note, &chip, 1);
        }
        text
    }

    fn add(&mut self, chip: Chip) -> Result<char, Chip> {
        let letter = u32::try_from(self.all.len()).ok().and_then(|it| char::from_u32(FIRST + it));
        match letter.filter(|_| self.all.len() < MOST) {
            Some(letter) => {
                self.all.push(chip);
                Ok(letter)
            }
            None => Err(chip),
        }
    }

    /// Returns the label of the chip with this letter, if it is one.
    pub(super) fn shown(&self, letter: &str) -> Option<String> {
        Some(match self.of(letter.chars().next()?)? {
            Chip::Text(text) => match text.lines().count() {
                0 | 1 => format!("[{} characters pasted]", text.chars().count()),
                lines => format!("[{lines} lines pasted]"),
            },
            Chip::Picture(path) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                format!("[picture {name}]")
            }
        })
    }

    /// Returns the line as it is sent; a picture is a note in it.
    pub(super) fn whole(&self, line: &str) -> String {
        self.replaced(line, |chip| match chip {
            Chip::Text(text) => Some(text.clone()),
            Chip::Picture(_) => None,
        })
    }

    /// Returns the line as it is shown after it was sent.
    pub(super) fn short(&self, line: &str) -> String {
        self.replaced(line, |_| None)
    }

    /// Returns the pictures in the line.
    pub(super) fn pictures(&self, line: &str) -> Vec<PathBuf> {
        let chips = line.chars().filter_map(|it| self.of(it));
        chips.filter_map(|it| if let Chip::Picture(path) = it { Some(path.clone()) } else { None }).collect()
    }

    fn replaced(&self, line: &str, by: impl Fn(&Chip) -> Option<String>) -> String {
        let mut text = String::with_capacity(line.len());
        for letter in line.chars() {
            match self.of(letter) {
                Some(chip) => {
                    let own = || self.shown(letter.encode_utf8(&mut [0; 4])).unwrap_or_default();
                    text.push_str(&by(chip).unwrap_or_else(own));
                }
                None => text.push(letter),
            }
        }
        text
    }

    fn of(&self, letter: char) -> Option<&Chip> {
        self.all.get(usize::try_from(u32::from(letter).checked_sub(FIRST)?).ok()?)
    }
}

/// Normalises a text for the line: line feeds alone, and no letters that could be taken for a chip.
pub(super) fn plain(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    text.chars().map(|it| if u32::from(it) >= FIRST { char::REPLACEMENT_CHARACTER } else { it }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_big_paste_is_a_chip_that_is_sent_whole() {
        let mut chips = Chips::default();
        assert_eq!(chips.paste("one\r\ntwo"), "one\ntwo");
        let big = "line\n".repeat(200);
        let line = format!("see {} end", chips.paste(&big));
        assert_eq!(chips.short(&line), "see [200 lines pasted] end");
        assert_eq!(chips.whole(&line), format!("see {big} end"));
        let wide = chips.paste(&"x".repeat(1_001));
        assert_eq!(chips.short(&wide), "[1001 characters pasted]");
    }

    #[test]
    fn no_text_can_pass_for_a_chip() {
        let mut chips = Chips::default();
        chips.paste(&"line\n".repeat(11));
        assert_eq!(chips.paste("a\u{100000}b"), "a\u{fffd}b");
        assert_eq!(chips.shown("\u{100001}"), None);
    }

    #[test]
    fn a_picture_is_named_and_kept_by_its_path() {
        let mut chips = Chips::default();
        let line = format!("what is {}?", chips.picture(Path::new("/tmp/a b.png")));
        assert_eq!(chips.whole(&line), "what is [picture a b.png]?");
        let pictures = chips.pictures(&line);
        assert_eq!(pictures, [Path::new("/tmp/a b.png")]);
        let again = Chips::default().with("so [picture a b.png] and [picture c.png]", &pictures);
        assert_eq!(again, "so \u{100000} and [picture c.png]");
    }
}
