//! Input history: the lines typed in this chat and in earlier ones, in a file of mode 0600.

use std::{
    fs::OpenOptions,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

/// Maximum number of lines that are kept.
const REMEMBERED: usize = 1_000;

/// The typed lines, oldest first, in a file that only the person can read.
#[derive(Debug, Default)]
pub(crate) struct Remembered {
    path: Option<PathBuf>,
    lines: Vec<String>,
}

impl Remembered {
    /// Reads the lines in this file. If the file can't be used, only lines of this chat are kept.
    pub(crate) fn open(path: &Path) -> Self {
        let kept = std::fs::read_to_string(path).unwrap_or_default();
        let mut lines: Vec<String> = kept.lines().map(written_out).collect();
        let mut remembered = Self { path: Some(path.to_owned()), lines: Vec::new() };
        if lines.len() > 2 * REMEMBERED {
            lines.drain(..lines.len() - REMEMBERED);
            // If the file can't be shortened, it stays long.
            let _ = remembered.rewrite(&lines);
        }
        remembered.lines = lines;
        remembered
    }

    /// Adds a line, unless it repeats the last one, is blank, or begins with a blank.
    pub(crate) fn add(&mut self, line: &str) {
        if line.trim().is_empty() || line.starts_with(' ') || self.lines.last().is_some_and(|it| it == line) {
            return;
        }
        self.lines.push(line.to_owned());
        // A line that can't be written to the file is kept until the chat ends.
        let _ = self.append(line);
    }

    pub(crate) fn len(&self) -> usize {
        self.lines.len()
    }

    pub(crate) fn get(&self, at: usize) -> Option<&str> {
        self.lines.get(at).map(String::as_str)
    }

    /// Returns the newest line before `at` that contains `part`; matching is case-sensitive only if `part` has capitals.
    pub(crate) fn before(&self, at: usize, part: &str) -> Option<usize> {
        self.lines.get(..at.min(self.lines.len()))?.iter().rposition(|it| has(it, part))
    }

    /// Returns the oldest line after `at` that contains `part`.
    pub(crate) fn after(&self, at: usize, part: &str) -> Option<usize> {
        let found = self.lines.get(at + 1..)?.iter().position(|it| has(it, part))?;
        Some(at + 1 + found)
    }

    fn append(&self, line: &str) -> io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let mut file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
        // Several chats may append: each line is one write.
        file.write_all(in_one_line(line).as_bytes())
    }

    fn rewrite(&self, lines: &[String]) -> io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let beside = path.with_extension(std::process::id().to_string());
        let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&beside)?;
        file.write_all(lines.iter().map(|it| in_one_line(it)).collect::<String>().as_bytes())?;
        std::fs::rename(beside, path)
    }
}

fn has(line: &str, part: &str) -> bool {
    line.contains(part) || !part.chars().any(char::is_uppercase) && line.to_lowercase().contains(part)
}

fn in_one_line(line: &str) -> String {
    format!("{}\n", line.replace('\\', "\\\\").replace('\n', "\\n"))
}

fn written_out(kept: &str) -> String {
    let mut line = String::new();
    let mut letters = kept.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some('n') => line.push('\n'),
                Some(other) => line.push(other),
                None => line.push('\\'),
            },
            _ => line.push(letter),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn what_was_typed_is_kept_where_nobody_else_reads() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state/history");
        let mut first = Remembered::open(&path);
        for line in ["one", "first\nand \\n second", "first\nand \\n second", " secret", ""] {
            first.add(line);
        }
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let again = Remembered::open(&path);
        assert_eq!(again.lines, ["one", "first\nand \\n second"]);
        assert_eq!((again.before(2, "one"), again.before(1, "second")), (Some(0), None));
    }

    #[test]
    fn a_file_that_became_long_is_cut() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history");
        std::fs::write(&path, (0..2_001).map(|it| format!("{it}\n")).collect::<String>()).unwrap();
        assert_eq!(Remembered::open(&path).get(0), Some("1001"));
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), REMEMBERED);
    }
}
