//! Ignore rules of git for files that may be gone, as they were before a call.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

use ignore::{
    Match,
    gitignore::{Gitignore, GitignoreBuilder},
};

/// Folders of packages and caches that count nowhere, also without a repository.
const CACHES: &[&str] = &["node_modules", "__pycache__", ".venv", ".tox", ".mypy_cache", ".pytest_cache"];

/// The longest file of ignore rules that is read.
const LONGEST: u64 = 1 << 20;

/// The ignore rules of a workspace as they were before a call.
pub(crate) struct Rules<'a> {
    /// Returns the content of a file before the call, if the call changed it.
    before: &'a dyn Fn(&Path) -> Option<Vec<u8>>,
    /// Returns whether a folder held a repository before the call.
    is_repository: &'a dyn Fn(&Path) -> bool,
    roots: Vec<PathBuf>,
    known: HashMap<PathBuf, Option<Gitignore>>,
    repositories: HashMap<PathBuf, bool>,
}

impl<'a> Rules<'a> {
    /// Creates the rules of these roots.
    pub(crate) fn new(
        roots: Vec<PathBuf>,
        before: &'a dyn Fn(&Path) -> Option<Vec<u8>>,
        is_repository: &'a dyn Fn(&Path) -> bool,
    ) -> Self {
        Self { before, is_repository, roots, known: HashMap::new(), repositories: HashMap::new() }
    }

    /// Returns whether git ignored this file.
    pub(crate) fn ignores(&mut self, path: &Path) -> bool {
        self.ignores_it(path, false)
    }

    /// Returns whether git ignored this folder, by the rules of a repository around it.
    pub(crate) fn ignores_folder(&mut self, path: &Path) -> bool {
        self.ignores_it(path, true)
    }

    fn ignores_it(&mut self, path: &Path, is_folder: bool) -> bool {
        let Some(root) = self.roots.iter().find(|root| path.starts_with(root)).cloned() else { return false };
        let Ok(rest) = path.strip_prefix(&root) else { return false };
        let is_cache = |it: std::path::Component<'_>| CACHES.iter().any(|cache| it.as_os_str() == *cache);
        if rest.parent().is_some_and(|folder| folder.components().any(is_cache)) {
            return true;
        }
        let Some(repository) = self.repository_of(path, &root) else { return false };
        let Ok(rest) = path.strip_prefix(&repository) else { return false };
        let mut so_far = repository.clone();
        for part in rest.components() {
            so_far.push(part);
            if self.verdict(&so_far, is_folder || so_far != path, &repository) {
                return true;
            }
        }
        false
    }

    /// Returns the innermost folder around a path that held a repository.
    fn repository_of(&mut self, path: &Path, root: &Path) -> Option<PathBuf> {
        for folder in path.ancestors().skip(1).take_while(|it| it.starts_with(root)) {
            let is = match self.repositories.get(folder) {
                Some(is) => *is,
                None => {
                    let is = (self.is_repository)(folder);
                    self.repositories.insert(folder.to_owned(), is);
                    is
                }
            };
            if is {
                return Some(folder.to_owned());
            }
        }
        None
    }

    /// Returns whether this path itself is ignored: the rules of the nearest folder decide first.
    fn verdict(&mut self, path: &Path, is_folder: bool, repository: &Path) -> bool {
        for folder in path.ancestors().skip(1).take_while(|it| it.starts_with(repository)) {
            if let Some(ignored) = self.matched(&folder.join(".gitignore"), folder, path, is_folder) {
                return ignored;
            }
        }
        self.matched(&repository.join(".git/info/exclude"), repository, path, is_folder) == Some(true)
    }

    fn matched(&mut self, file: &Path, folder: &Path, path: &Path, is_folder: bool) -> Option<bool> {
        if !self.known.contains_key(file) {
            let rules = self.read(file).map(|text| rules(folder, &text));
            self.known.insert(file.to_owned(), rules);
        }
        match self.known.get(file)?.as_ref()?.matched(path, is_folder) {
            Match::None => None,
            Match::Ignore(_) => Some(true),
            Match::Whitelist(_) => Some(false),
        }
    }

    fn read(&self, file: &Path) -> Option<String> {
        let bytes = match (self.before)(file) {
            Some(bytes) => bytes,
            None => {
                let about = fs::symlink_metadata(file).ok()?;
                if !about.is_file() || about.len() > LONGEST {
                    return None;
                }
                fs::read(file).ok()?
            }
        };
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}

fn rules(folder: &Path, text: &str) -> Gitignore {
    let mut builder = GitignoreBuilder::new(folder);
    for line in text.lines() {
        // git skips a rule that it can't read, too.
        let _ = builder.add_line(None, line);
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn rules_of_before_the_call_count_and_the_nearest_decides() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("repo/sub")).unwrap();
        fs::create_dir_all(root.join("repo/.git/info")).unwrap();
        fs::write(root.join("repo/.git/info/exclude"), "secret\n").unwrap();
        fs::write(root.join("repo/sub/.gitignore"), "!keep.log\n/here\n").unwrap();
        // This one was deleted by the call.
        let before =
            |path: &Path| path.ends_with("repo/.gitignore").then(|| b"target/\n*.log\n/build\n".to_vec());
        let is_repository = |path: &Path| path.ends_with("repo");
        let mut rules = Rules::new(vec![root.clone()], &before, &is_repository);
        for (path, ignored) in [
            ("repo/target/debug/x", true),
            ("repo/a.log", true),
            ("repo/sub/a.log", true),
            ("repo/sub/keep.log", false),
            ("repo/sub/here", true),
            ("repo/sub/deep/here", false),
            ("repo/build/x", true),
            ("repo/sub/build/x", false),
            ("repo/secret", true),
            ("repo/src/main.rs", false),
            ("repo/node_modules/a/index.js", true),
            ("other/target/x", false),
            ("other/__pycache__/x.pyc", true),
            ("other/node_modules", false),
        ] {
            assert_eq!(rules.ignores(&root.join(path)), ignored, "{path}");
        }
    }
}
