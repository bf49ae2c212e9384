//! Line anchors such as `12:a3`.

use std::fmt;

use crate::{Fault, text::Text};

mod pasted;
mod render;
mod rows;

pub(crate) use pasted::{split, unpaste};
pub(crate) use render::in_passing;
pub use render::{CLIP, Rendered, render, render_clipped};
pub use rows::Rows;

/// The name of a line: its number, and the hash of its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Anchor {
    /// Counts from 1.
    pub line: usize,
    /// See [`hash`].
    pub hash: u8,
}

/// The hash of a line: xxHash32 of the line without any white space, modulo 256.
pub fn hash(line: &str) -> u8 {
    let [low, ..] = squashed(line).to_le_bytes();
    low
}

/// The whole xxHash32 of a line without any white space.
pub(crate) fn squashed(line: &str) -> u32 {
    if line.is_ascii() {
        // Whole words: a line has many more bytes than words, and each line of a file that is read is hashed.
        let is_space = |it: &u8| matches!(it, b'\t'..=b'\r' | b' ');
        let mut bare = Vec::with_capacity(line.len());
        line.as_bytes().split(is_space).for_each(|word| bare.extend_from_slice(word));
        return xxhash_rust::xxh32::xxh32(&bare, 0);
    }
    if !line.contains(char::is_whitespace) {
        return xxhash_rust::xxh32::xxh32(line.as_bytes(), 0);
    }
    let mut bare = String::with_capacity(line.len());
    bare.extend(line.split_whitespace());
    xxhash_rust::xxh32::xxh32(bare.as_bytes(), 0)
}

impl Anchor {
    /// The anchor of a row, if the text has it.
    pub fn of(text: &Text, row: usize) -> Option<Self> {
        Some(Self { line: row + 1, hash: hash(&text.line(row)?) })
    }

    /// Reads `12:a3`, also with the line's text pasted behind it (`12:a3|return x`).
    ///
    /// # Errors
    /// A fault that quotes what was given.
    pub fn parse(given: &str) -> Result<Self, Fault> {
        const EXPECTED: &str = r#"Expected format "LINE:HASH" (e.g. "5:a3")."#;
        let bare = given.split('|').next().unwrap_or_default().trim();
        if bare.is_empty() {
            return Err(Fault::bad_args(format!("Missing line reference. {EXPECTED}")));
        }
        let invalid = || Fault::bad_args(format!("Invalid line reference {:?}. {EXPECTED}", clip(given)));
        let (line, hash) = bare.split_once(':').ok_or_else(invalid)?;
        let (line, hash) = (line.trim(), hash.trim());
        if line.is_empty() || !line.bytes().all(|it| it.is_ascii_digit()) {
            return Err(invalid());
        }
        if hash.len() != 2 || !hash.bytes().all(|it| it.is_ascii_hexdigit()) {
            return Err(invalid());
        }
        let line: usize = line.parse().map_err(|_| invalid())?;
        if line == 0 {
            return Err(Fault::bad_args("Line number must be >= 1, got 0"));
        }
        let hash = u8::from_str_radix(hash, 16).map_err(|_| invalid())?;
        Ok(Self { line, hash })
    }

    pub(crate) fn row(self) -> usize {
        self.line.saturating_sub(1)
    }
}

impl fmt::Display for Anchor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:02x}", self.line, self.hash)
    }
}

fn clip(given: &str) -> String {
    match given.char_indices().nth(60) {
        Some((at, _)) => format!("{}…", given.get(..at).unwrap_or_default()),
        None => given.to_owned(),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn hash_matches_known_values() {
        for (line, expected) in [
            ("const foo = \"bar\";", "09"),
            ("const baz = 42;", "8b"),
            ("", "05"),
            ("}", "18"),
            ("  }", "18"),
            ("def f():", "6c"),
            ("return 1", "c4"),
            ("\treturn 1", "c4"),
            ("// naïve café", "be"),
        ] {
            assert_eq!(format!("{:02x}", hash(line)), expected, "{line:?}");
        }
    }

    #[test]
    fn reads_anchors_leniently() {
        let anchor = Anchor { line: 12, hash: 0xa3 };
        for given in ["12:a3", " 12:a3 ", "12:A3", "12:a3|return x|y", "12 : a3", "12:a3 | x"] {
            assert_eq!(Anchor::parse(given).unwrap(), anchor, "{given:?}");
        }
        assert_eq!(anchor.to_string(), "12:a3");
    }

    #[test]
    fn text_that_is_not_an_anchor_is_quoted() {
        let said = |given: &str| Anchor::parse(given).unwrap_err().what;
        assert_eq!(said(" "), r#"Missing line reference. Expected format "LINE:HASH" (e.g. "5:a3")."#);
        assert_eq!(said("x"), r#"Invalid line reference "x". Expected format "LINE:HASH" (e.g. "5:a3")."#);
        assert_eq!(said("0:a3"), "Line number must be >= 1, got 0");
        for given in ["12", "12:", ":a3", "12:a", "12:a3f", "-1:a3", "12:zz", "99999999999999999999:a3"] {
            assert!(said(given).starts_with("Invalid line reference \""), "{given}");
        }
    }
}
