//! Control files: files that decide what other programs run, such as hooks, shell rc files and instructions
//! for agents.
//!
//! The list is data, one entry with its source per line: `list.txt`. A file that a repository's configuration
//! makes other programs run (`core.hooksPath`, `filter.*`, …) is a control file as well: `configured.rs`.

pub mod configured;
pub(crate) mod git_config;
pub mod index;
pub(crate) mod repository;

use std::{
    collections::HashSet,
    ffi::OsStr,
    path::{Component, Path},
    sync::LazyLock,
};

const LIST: &str = include_str!("list.txt");

static ENTRIES: LazyLock<List> = LazyLock::new(|| List::parse(LIST));

/// The entries of the list, in lower case.
#[derive(Debug, Default)]
struct List {
    files: HashSet<String>,
    folders: HashSet<String>,
    /// The components of each path, the last one first.
    paths: Vec<Vec<String>>,
}

impl List {
    fn parse(text: &str) -> Self {
        let mut list = Self::default();
        for line in text.lines().filter(|it| !it.starts_with('#')) {
            let mut words = line.split_whitespace();
            let (Some(kind), Some(pattern)) = (words.next(), words.next()) else { continue };
            let pattern = pattern.to_ascii_lowercase();
            match kind {
                "file" => drop(list.files.insert(pattern)),
                "folder" => drop(list.folders.insert(pattern)),
                _ => list.paths.push(pattern.rsplit('/').map(str::to_owned).collect()),
            }
        }
        list
    }
}

/// Returns whether this path, relative to a root, is that of a control file, or in a folder of control files.
pub fn is_control_file(path: &Path) -> bool {
    is_below(path, 0)
}

/// Like [`is_control_file`], for an absolute path: a folder of the list counts if it lies below `root`, or if
/// its first components are folders around the root. A root itself is none, whatever its name is.
pub fn is_control_file_in(root: &Path, path: &Path) -> bool {
    path.starts_with(root) && is_below(path, names(root).count())
}

/// Returns whether this path ends in an entry of the list. Files in a listed folder don't count.
pub(crate) fn ends_in_control(path: &Path) -> bool {
    depth(path).is_some()
}

/// Returns how many components at the end of this path match an entry of the list; `None`, if none do.
pub(crate) fn depth(path: &Path) -> Option<usize> {
    let name = path.file_name().and_then(OsStr::to_str)?.to_ascii_lowercase();
    if ENTRIES.files.contains(&name) || ENTRIES.folders.contains(&name) {
        return Some(1);
    }
    matching(path, &name).map(Vec::len)
}

/// Returns whether everything in a folder of this name is a control file.
pub(crate) fn is_control_folder(path: &Path) -> bool {
    let Some(name) = path.file_name().and_then(OsStr::to_str) else { return false };
    let name = name.to_ascii_lowercase();
    ENTRIES.folders.contains(&name) || ends_in_path(path, &name)
}

fn is_below(path: &Path, skip: usize) -> bool {
    let last = names(path).count();
    let mut so_far = std::path::PathBuf::new();
    for (at, name) in names(path).enumerate() {
        so_far.push(name);
        if at < skip {
            continue;
        }
        let Some(name) = name.to_str().map(str::to_ascii_lowercase) else { continue };
        if ENTRIES.folders.contains(&name)
            || (at + 1 == last && ENTRIES.files.contains(&name))
            || ends_in_path(&so_far, &name)
        {
            return true;
        }
    }
    false
}

/// Returns whether the path ends in a listed path; `name` is its last component, in lower case.
fn ends_in_path(path: &Path, name: &str) -> bool {
    matching(path, name).is_some()
}

fn matching(path: &Path, name: &str) -> Option<&'static Vec<String>> {
    ENTRIES.paths.iter().find(|pattern| {
        pattern.first().is_some_and(|it| it == name)
            && pattern.iter().zip(names(path).rev().map(Some).chain(std::iter::repeat(None))).all(
                |(wanted, there)| {
                    there.and_then(OsStr::to_str).is_some_and(|there| there.eq_ignore_ascii_case(wanted))
                },
            )
    })
}

fn names(path: &Path) -> impl DoubleEndedIterator<Item = &OsStr> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name),
        Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => None,
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::panic, reason = "tests")]

    use super::*;

    #[test]
    fn each_entry_has_a_kind_a_pattern_and_a_source_and_is_there_once() {
        let mut seen = HashSet::new();
        for line in LIST.lines().filter(|it| !it.is_empty() && !it.starts_with('#')) {
            let words: Vec<_> = line.split_whitespace().collect();
            let [kind, pattern, source] = words.as_slice() else { panic!("{line}") };
            assert!(["file", "folder", "path"].contains(kind), "{line}");
            assert_eq!(pattern.contains('/'), *kind == "path", "{line}");
            assert!(source.starts_with("https://") || source.starts_with("docs/"), "{line}");
            assert!(seen.insert((*kind, *pattern)), "{line} is there twice");
        }
        assert!(seen.len() > 150, "{}", seen.len());
    }

    #[test]
    fn names_count_wherever_they_are_and_paths_where_their_names_meet() {
        for path in [
            ".git/hooks/pre-commit",
            "sub/.envrc",
            "a/b/AGENTS.md",
            "claude.MD",
            ".config/nvim/init.lua",
            "dot/.gradle/init.gradle",
            ".local/bin/ls",
            ".devcontainer.json",
            ".jj/repo/config.toml",
        ] {
            assert!(is_control_file(Path::new(path)), "{path}");
        }
        for path in ["src/main.rs", ".config/x", "local/bin/x", ".github/workflows/ci.yml", "xAGENTS.md", ""]
        {
            assert!(!is_control_file(Path::new(path)), "{path}");
        }
        assert!(ends_in_control(Path::new("a/.vscode")) && !ends_in_control(Path::new("a/.vscode/x")));
    }

    #[test]
    fn a_root_is_not_a_control_file_and_files_in_it_can_be() {
        let is = |root: &str, path: &str| is_control_file_in(Path::new(root), Path::new(path));
        assert!(is("/home/a/.config", "/home/a/.config/nvim/init.lua"));
        assert!(!is("/home/a/.config/nvim", "/home/a/.config/nvim/init.lua"));
        assert!(!is("/home/a/.claude/worktrees/x", "/home/a/.claude/worktrees/x/src/main.rs"));
        assert!(is("/home/a/.claude/worktrees/x", "/home/a/.claude/worktrees/x/.claude/settings.json"));
    }
}
