//! Git configuration files: their entries in order, with those of all included files, whatever the condition.
//!
//! Nothing here runs git: a repository's configuration decides what git runs.

use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

use rustix::fs::{Mode, OFlags, open};

/// Maximum number of bytes that are read of a file.
const MOST: u64 = 1 << 20;

/// Maximum depth of includes, as in git.
const DEPTH: usize = 10;

/// One line `key = value` of a section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The section, in lower case.
    pub(crate) section: String,
    /// Its name in quotes, as it is written.
    pub(crate) name: Option<String>,
    /// The key, in lower case.
    pub(crate) key: String,
    /// The value, without quotes.
    pub(crate) value: String,
}

/// The entries of a file, and of its includes.
#[derive(Debug, Default)]
pub(crate) struct Configuration {
    /// All entries, in order.
    pub(crate) entries: Vec<Entry>,
    /// The files that were read besides the first one, whether they exist or not.
    pub(crate) included: Vec<PathBuf>,
}

impl Configuration {
    /// Adds the entries of this file; `home` is the value of `~`.
    pub(crate) fn read(&mut self, file: &Path, home: Option<&Path>) {
        self.read_at(file, home, 0);
    }

    fn read_at(&mut self, file: &Path, home: Option<&Path>, depth: usize) {
        let Some(bytes) = read_small(file) else { return };
        for entry in parse(&String::from_utf8_lossy(&bytes)) {
            if entry.key == "path" && matches!(entry.section.as_str(), "include" | "includeif") {
                let folder = file.parent().unwrap_or(Path::new("/"));
                let included = expand(&entry.value, folder, home);
                if depth < DEPTH && !self.included.contains(&included) {
                    self.included.push(included.clone());
                    self.read_at(&included, home, depth + 1);
                }
            }
            self.entries.push(entry);
        }
    }
}

/// Expands a path as git does: `~/` is the home folder, and a relative one begins at `from`.
pub(crate) fn expand(path: &str, from: &Path, home: Option<&Path>) -> PathBuf {
    match (path.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => from.join(path),
    }
}

/// Reads a small file; `None` if it is not a regular file, which might never end.
pub(crate) fn read_small(path: &Path) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(open(path, flags, Mode::empty()).ok()?);
    let about = file.metadata().ok()?;
    if !about.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(MOST).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Parses the entries of a text. Lines that git would refuse are skipped.
fn parse(text: &str) -> Vec<Entry> {
    let mut entries = Vec::new();
    let (mut section, mut name) = (String::new(), None);
    let mut lines = text.trim_start_matches('\u{feff}').lines();
    while let Some(line) = lines.next() {
        let mut line = line.trim_start();
        if let Some(header) = line.strip_prefix('[') {
            let Some((inside, rest)) = header_end(header) else { continue };
            (section, name) = heading(inside);
            line = rest.trim_start();
        }
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        let mut whole = line.to_owned();
        // A backslash at the end of a line continues it.
        while ends_in_backslash(&whole) {
            whole.pop();
            let Some(next) = lines.next() else { break };
            whole.push_str(next);
        }
        let (key, value) = whole.split_once('=').unwrap_or((whole.as_str(), "true"));
        let key = key.split(['#', ';']).next().unwrap_or_default().trim().to_ascii_lowercase();
        if !key.is_empty() {
            entries.push(Entry { section: section.clone(), name: name.clone(), key, value: unquote(value) });
        }
    }
    entries
}

fn ends_in_backslash(line: &str) -> bool {
    line.bytes().rev().take_while(|it| *it == b'\\').count() % 2 == 1
}

/// Splits a header into the text between the brackets and the rest: a quoted name may contain a bracket.
fn header_end(header: &str) -> Option<(&str, &str)> {
    let (mut quoted, mut escaped) = (false, false);
    for (at, letter) in header.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            ']' if !quoted => return Some((header.get(..at)?, header.get(at + 1..)?)),
            _ => {}
        }
    }
    None
}

/// Parses `a "b"`, or the old form `a.b`.
fn heading(inside: &str) -> (String, Option<String>) {
    if let Some((section, rest)) = inside.split_once('"') {
        let mut name = String::new();
        let mut letters = rest.chars();
        while let Some(letter) = letters.next() {
            match letter {
                '\\' => name.extend(letters.next()),
                '"' => break,
                letter => name.push(letter),
            }
        }
        return (section.trim().to_ascii_lowercase(), Some(name));
    }
    match inside.trim().split_once('.') {
        Some((section, name)) => (section.to_ascii_lowercase(), Some(name.to_ascii_lowercase())),
        None => (inside.trim().to_ascii_lowercase(), None),
    }
}

/// Removes quotes, escapes and a trailing comment from a value.
fn unquote(value: &str) -> String {
    let mut text = String::new();
    let (mut quoted, mut kept) = (false, 0);
    let mut letters = value.trim_start().chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => quoted = !quoted,
            '\\' => match letters.next() {
                Some('n') => text.push('\n'),
                Some('t') => text.push('\t'),
                Some('b') => drop(text.pop()),
                Some(other) => text.push(other),
                None => {}
            },
            '#' | ';' if !quoted => break,
            letter => text.push(letter),
        }
        if quoted || !letter.is_whitespace() {
            kept = text.len();
        }
    }
    text.truncate(kept.min(text.len()));
    text
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn lines(text: &str) -> Vec<String> {
        let line = |it: Entry| {
            let name = it.name.map(|it| format!(".{it}")).unwrap_or_default();
            format!("{}{name}.{}={}", it.section, it.key, it.value)
        };
        parse(text).into_iter().map(line).collect()
    }

    #[test]
    fn entries_are_read_as_git_reads_them() {
        let text = "[Core]\n\thooksPath = .githooks # mine\n[filter \"a.B]\"] clean = \"x # y\" z\n\trequired\n\
                    [alias]\nx = \"!f() { \\\"a\\\"; \\\n b; }\"\n[diff.Word]\ntextconv=t;c\n; no\n";
        assert_eq!(
            lines(text),
            [
                "core.hookspath=.githooks",
                "filter.a.B].clean=x # y z",
                "filter.a.B].required=true",
                "alias.x=!f() { \"a\";  b; }",
                "diff.word.textconv=t",
            ]
        );
    }

    #[test]
    fn included_files_count_whatever_the_condition_is_and_a_loop_ends() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("config"), "[include]\npath = a\n[includeIf \"gitdir:/nowhere\"]\npath = ~/b\n")
            .unwrap();
        std::fs::write(at("a"), "[core]\nhooksPath = x\n[include]\npath = a\n").unwrap();
        std::fs::create_dir(at("home")).unwrap();
        std::fs::write(at("home/b"), "[core]\nfsmonitor = y\n").unwrap();
        let mut read = Configuration::default();
        read.read(&at("config"), Some(&at("home")));
        assert_eq!(read.included, [at("a"), at("home/b")]);
        let values: Vec<_> =
            read.entries.iter().filter(|it| it.section == "core").map(|it| &it.value).collect();
        assert_eq!(values, ["x", "y"]);
    }
}
