//! Folders of build results and caches that git ignores.

use std::{
    collections::HashMap,
    path::{Component, Path, PathBuf},
};

/// The usual names of such folders.
const NAMES: &[&str] =
    &["target", "node_modules", ".venv", "venv", "__pycache__", "dist", "build", ".cache", ".tox", ".mypy_cache"];

/// The longest file of patterns that is read.
const LONGEST: u64 = 1 << 16;

/// Folders, each with whether it is ignored.
#[derive(Default)]
pub(super) struct Ignored {
    folders: HashMap<PathBuf, bool>,
}

impl Ignored {
    /// Returns whether this path is below a folder of such a name that a `.gitignore` of the same repository
    /// names.
    pub(super) fn have(&mut self, path: &Path) -> bool {
        let mut folder = PathBuf::new();
        for part in path.parent().unwrap_or(path).components() {
            folder.push(part);
            if let Component::Normal(name) = part
                && let Some(name) = NAMES.iter().find(|it| name == **it)
                && *self.folders.entry(folder.clone()).or_insert_with(|| is_named(&folder, name))
            {
                return true;
            }
        }
        false
    }
}

/// Returns whether a `.gitignore` beside or above this folder names it, within its repository.
fn is_named(folder: &Path, name: &str) -> bool {
    for above in folder.ancestors().skip(1) {
        let file = above.join(".gitignore");
        let is_small = file.symlink_metadata().is_ok_and(|it| it.is_file() && it.len() <= LONGEST);
        let text = if is_small { std::fs::read_to_string(file).unwrap_or_default() } else { String::new() };
        let is_pattern = |line: &str| {
            let line = line.trim().trim_end_matches('*').trim_end_matches('/');
            let line = line.strip_prefix("**/").unwrap_or(line);
            match line.strip_prefix('/') {
                Some(line) => folder.strip_prefix(above).is_ok_and(|it| it == Path::new(line)),
                None => line == name || (line.contains('/') && folder.strip_prefix(above).is_ok_and(|it| it == Path::new(line))),
            }
        };
        if text.lines().any(is_pattern) {
            return true;
        }
        if above.join(".git").exists() {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::fs;

    use super::*;

    #[test]
    fn a_folder_is_ignored_by_its_name_only_if_git_ignores_it() {
        let room = tempfile::tempdir().unwrap();
        let root = room.path();
        fs::create_dir_all(root.join(".git")).unwrap();
        fs::create_dir_all(root.join("a/target/debug")).unwrap();
        fs::write(root.join(".gitignore"), "/target\nnode_modules/\nout\n").unwrap();
        let ignored = |path: &str| Ignored::default().have(&root.join(path));
        assert!(ignored("target/debug/x") && ignored("a/node_modules/x"));
        assert!(!ignored("a/target/debug/x") && !ignored("out/x") && !ignored("target") && !ignored("dist/x"));
    }
}
