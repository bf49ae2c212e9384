//! What may a half-typed word become: a command, or a file after `@`?

use std::path::{Path, PathBuf};

use super::commands::COMMANDS;

/// At most so many are offered.
const MOST: usize = 50;

/// At most so many entries of a folder are looked at.
const LOOKED_AT: usize = 5_000;

/// Completes what is typed at the prompt.
pub(crate) struct Words {
    workspace: PathBuf,
}

impl Words {
    pub(crate) fn new(workspace: PathBuf) -> Self {
        Self { workspace }
    }

    /// Where the word before `pos` begins, and what it may become.
    pub(crate) fn offered(&self, line: &str, pos: usize) -> (usize, Vec<Choice>) {
        let typed = line.get(..pos).unwrap_or(line);
        let start = typed
            .char_indices()
            .rfind(|it| it.1.is_whitespace())
            .map_or(0, |(at, blank)| at + blank.len_utf8());
        let word = typed.get(start..).unwrap_or_default();
        let choices = match word.strip_prefix('@') {
            Some(path) => files(&self.workspace, path)
                .into_iter()
                .map(|it| Choice { word: format!("@{it}"), about: "", ends: !it.ends_with('/') })
                .collect(),
            None if start == 0 && word.starts_with('/') => COMMANDS
                .iter()
                .filter(|it| it.0.starts_with(word))
                .map(|it| Choice { word: it.0.to_owned(), about: it.2, ends: true })
                .collect(),
            None => Vec::new(),
        };
        (start, choices)
    }
}

/// What a word may become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice {
    /// The whole word.
    pub(crate) word: String,
    pub(crate) about: &'static str,
    /// Nothing of it follows.
    pub(crate) ends: bool,
}

/// The files and folders below the workspace whose path goes on from this one, in their order.
fn files(workspace: &Path, typed: &str) -> Vec<String> {
    let (folder, begun) = typed.rsplit_once('/').map_or(("", typed), |(folder, begun)| (folder, begun));
    // What is not below the workspace is not looked at.
    if folder.starts_with('/') || folder.split('/').any(|it| it == "..") {
        return Vec::new();
    }
    let Ok(entries) = std::fs::read_dir(workspace.join(folder)) else { return Vec::new() };
    let mut found: Vec<String> = entries
        .take(LOOKED_AT)
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name().into_string().ok()?;
            let is_meant = name.starts_with(begun) && (begun.starts_with('.') || !name.starts_with('.'));
            if !is_meant || name.chars().any(|it| it.is_control() || it.is_whitespace()) {
                return None;
            }
            let folder = if folder.is_empty() { String::new() } else { format!("{folder}/") };
            let end = if entry.path().is_dir() { "/" } else { "" };
            Some(format!("{folder}{name}{end}"))
        })
        .collect();
    found.sort();
    found.truncate(MOST);
    found
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn commands_and_files_of_the_workspace_are_offered() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("src")).unwrap();
        for name in ["src/main.rs", "src/mod.rs", "sum.py", ".hidden"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let words = Words::new(dir.path().to_owned());
        let offered = |line: &str| -> Vec<String> {
            words.offered(line, line.len()).1.into_iter().map(|it| it.word).collect()
        };
        assert_eq!(offered("look at @s"), ["@src/", "@sum.py"]);
        assert_eq!(offered("@src/m"), ["@src/main.rs", "@src/mod.rs"]);
        assert_eq!(offered("@../"), [""; 0]);
        assert_eq!(offered("/se"), ["/sessions"]);
        assert_eq!(offered("say /se"), [""; 0]);
    }
}
