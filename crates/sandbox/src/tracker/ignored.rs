//! Folders of build results and caches that git ignores.

use std::{
    collections::HashMap,
    os::unix::fs::MetadataExt,
    path::{Component, Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// The usual names of such folders.
const NAMES: &[&str] =
    &["target", "node_modules", ".venv", "venv", "__pycache__", "dist", "build", ".cache", ".tox", ".mypy_cache"];

/// The longest file of patterns that is read.
const LONGEST: u64 = 1 << 16;

/// The clock of files is behind by as much.
const BEHIND: Duration = Duration::from_millis(20);

/// Folders, each with whether it is ignored.
pub(super) struct Ignored {
    folders: HashMap<PathBuf, bool>,
    /// Patterns that were written later don't count: a command could have any file ignored.
    since: Duration,
}

impl Default for Ignored {
    fn default() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { folders: HashMap::new(), since: now.saturating_sub(BEHIND) }
    }
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
                && *self.folders.entry(folder.clone()).or_insert_with(|| is_named(&folder, name, self.since))
            {
                return true;
            }
        }
        false
    }
}

/// Returns whether a `.gitignore` beside or above this folder names it, within its repository.
fn is_named(folder: &Path, name: &str, since: Duration) -> bool {
    for above in folder.ancestors().skip(1) {
        let file = above.join(".gitignore");
        let counts = file.symlink_metadata().is_ok_and(|it| {
            let changed = Duration::new(it.ctime().try_into().unwrap_or(0), it.ctime_nsec().try_into().unwrap_or(0));
            it.is_file() && it.len() <= LONGEST && changed < since
        });
        let text = if counts { std::fs::read_to_string(file).unwrap_or_default() } else { String::new() };
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
    fn patterns_that_were_written_since_it_began_do_not_count() {
        let room = tempfile::tempdir().unwrap();
        let mut ignored = Ignored::default();
        fs::create_dir_all(room.path().join("target")).unwrap();
        fs::write(room.path().join(".gitignore"), "target\n").unwrap();
        assert!(!ignored.have(&room.path().join("target/x")));
        ignored = Ignored { since: Duration::MAX, ..Ignored::default() };
        assert!(ignored.have(&room.path().join("target/x")));
    }

    #[test]
    fn a_folder_is_ignored_by_its_name_only_if_git_ignores_it() {
        let room = tempfile::tempdir().unwrap();
        let root = room.path();
        fs::create_dir_all(root.join(".git")).unwrap();
        fs::create_dir_all(root.join("a/target/debug")).unwrap();
        fs::write(root.join(".gitignore"), "/target\nnode_modules/\nout\n").unwrap();
        let all = || Ignored { since: Duration::MAX, ..Ignored::default() };
        let ignored = |path: &str| all().have(&root.join(path));
        assert!(ignored("target/debug/x") && ignored("a/node_modules/x"));
        assert!(!ignored("a/target/debug/x") && !ignored("out/x") && !ignored("target") && !ignored("dist/x"));
    }
}
