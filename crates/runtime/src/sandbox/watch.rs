//! What was not there when the sandbox was made, and decides now what other programs run?
//!
//! What is missing can't be covered by a mount. So it is looked for after every command, and named;
//! and the one file that git itself never makes in a repository is taken away at once.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use super::{
    code::code_in,
    control::{at_the_top, is_git_folder},
};

/// With this file in its folder, git takes its configuration from where the file says.
const COMMON: &str = "commondir";

/// How many folders are looked into after a command.
const FOLDERS: usize = 1000;

/// What is looked at after every command.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    roots: Vec<PathBuf>,
    /// A folder of tools, in which code is closed.
    tools: Option<PathBuf>,
    /// Git's folders that are kept as they are.
    folders: Vec<PathBuf>,
    /// Those of them in which there was no such file.
    alone: Vec<PathBuf>,
    known: BTreeSet<(PathBuf, Option<PathBuf>)>,
    found: Found,
    said_cut: bool,
}

/// What there is to be said.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// What is new, or is a link that leads elsewhere now.
    pub(crate) appeared: Vec<PathBuf>,
    /// What was taken away.
    pub(crate) taken: Vec<PathBuf>,
    /// Roots in which not every repository was found.
    pub(crate) cut: Vec<PathBuf>,
}

impl Watch {
    /// Notes what there is now. What an earlier watch has not said yet is still said.
    pub(crate) fn begin(
        &mut self,
        roots: Vec<PathBuf>,
        tools: Option<PathBuf>,
        folders: Vec<PathBuf>,
        cut: Vec<PathBuf>,
    ) {
        let is_first = self.roots.is_empty();
        let mut found = std::mem::take(&mut self.found);
        let (alone, strange): (Vec<_>, Vec<_>) =
            folders.iter().cloned().partition(|it| fs::symlink_metadata(it.join(COMMON)).is_err());
        if is_first {
            // Only the folder of a worktree has one, and no objects.
            let strange = strange.into_iter().filter(|it| is_git_folder(it));
            found.appeared.extend(strange.map(|it| it.join(COMMON)));
        }
        if !self.said_cut {
            self.said_cut = !cut.is_empty();
            found.cut = cut;
        }
        let said_cut = self.said_cut;
        *self = Self { roots, tools, folders, alone, known: BTreeSet::new(), found, said_cut };
        self.known = self.look();
    }

    /// Takes away what git never makes, if it is there now.
    pub(crate) fn take_away(&mut self) {
        let taken = take_away(&self.alone);
        self.found.taken.extend(taken);
    }

    /// What is to be said now. Each is given once.
    pub(crate) fn found(&mut self) -> Found {
        self.take_away();
        let now = self.look();
        let mut found = std::mem::take(&mut self.found);
        found.appeared.extend(now.difference(&self.known).map(|(path, _)| path.clone()));
        self.known = now;
        found
    }

    fn look(&self) -> BTreeSet<(PathBuf, Option<PathBuf>)> {
        let mut found = Vec::new();
        for root in &self.roots {
            found.extend(at_the_top(root));
            found.extend(submodules(root));
            self.look_around(root, &mut found);
        }
        if let Some(tools) = &self.tools {
            found.extend(code_in(tools, &[]).fixed);
        }
        for folder in &self.folders {
            found.extend(["hooks", "config", "config.worktree", COMMON].map(|it| folder.join(it)));
        }
        found.retain(|path| fs::symlink_metadata(path).is_ok());
        found.into_iter().map(|path| (path.clone(), fs::read_link(&path).ok())).collect()
    }

    /// Repositories that are not kept as they are, up to two folders below a root, with their hooks.
    fn look_around(&self, root: &Path, found: &mut Vec<PathBuf>) {
        let mut folders = vec![(root.to_owned(), 0)];
        let mut looked_at = 0;
        while let Some((folder, depth)) = folders.pop() {
            looked_at += 1;
            if looked_at > FOLDERS {
                return;
            }
            let git = folder.join(".git");
            if depth > 0 && fs::symlink_metadata(&git).is_ok() {
                found.push(git.clone());
            }
            for git in [git, folder.clone()] {
                if !self.folders.contains(&git) && is_git_folder(&git) {
                    found.push(git.join("HEAD"));
                    found.extend(hooks(&git));
                }
            }
            if depth < 2 {
                let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
                let below = entries.filter(|it| it.file_type().is_ok_and(|it| it.is_dir()));
                let below = below.filter(|it| it.file_name() != ".git");
                folders.extend(below.map(|it| (it.path(), depth + 1)));
            }
        }
    }
}

/// Takes away this file from folders of git that had none, and gives what was taken.
pub(super) fn take_away(folders: &[PathBuf]) -> Vec<PathBuf> {
    let mut taken = Vec::new();
    for folder in folders {
        let path = folder.join(COMMON);
        let there = fs::symlink_metadata(&path).is_ok_and(|it| !it.is_dir());
        // A link in its place leads to a folder that is nobody's business.
        if there && folder.canonicalize().is_ok_and(|it| it == *folder) && fs::remove_file(&path).is_ok() {
            taken.push(path);
        }
    }
    taken
}

/// Git's folders, of these, in which there is no such file.
pub(crate) fn without_common(folders: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
    folders.iter().filter(|it| fs::symlink_metadata(it.join(COMMON)).is_err()).cloned().collect()
}

/// Hooks that git runs: what a template brings along has a name that it does not.
fn hooks(git: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(git.join("hooks")).into_iter().flatten().flatten();
    entries.map(|it| it.path()).filter(|it| it.extension().is_none_or(|it| it != "sample")).collect()
}

/// Where the submodules of a repository are, or would be: git asks each about its state.
fn submodules(root: &Path) -> Vec<PathBuf> {
    let text = fs::read_to_string(root.join(".gitmodules")).unwrap_or_default();
    let paths = text.lines().filter_map(|line| {
        let (name, value) = line.split_once('=')?;
        (name.trim() == "path").then(|| root.join(value.trim().trim_matches('"')).join(".git"))
    });
    paths.filter(|it| it.starts_with(root)).collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn repository(path: &Path) {
        for folder in ["objects", "refs", "hooks"] {
            fs::create_dir_all(path.join(folder)).unwrap();
        }
        fs::write(path.join("HEAD"), "").unwrap();
    }

    fn begun(root: &Path) -> Watch {
        repository(&root.join(".git"));
        let mut watch = Watch::default();
        watch.begin(vec![root.to_owned()], None, vec![root.join(".git")], Vec::new());
        assert_eq!(watch.found(), Found::default());
        watch
    }

    #[test]
    fn what_is_new_is_named_once() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let mut watch = begun(&root);
        fs::write(root.join(".mcp.json"), "").unwrap();
        assert_eq!(watch.found().appeared, [root.join(".mcp.json")]);
        assert_eq!(watch.found(), Found::default());
    }

    #[test]
    fn a_repository_s_configuration_is_not_led_elsewhere() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let mut watch = begun(&root);
        let common = root.join(".git/commondir");
        fs::write(&common, "../evil").unwrap();
        assert_eq!(watch.found(), Found { taken: vec![common.clone()], ..Found::default() });
        std::os::unix::fs::symlink("../later", &common).unwrap();
        watch.take_away();
        watch.begin(vec![root.clone()], None, vec![root.join(".git")], Vec::new());
        assert_eq!(watch.found().taken, std::slice::from_ref(&common));
        assert!(fs::symlink_metadata(common).is_err());
    }

    #[test]
    fn new_repositories_are_named_and_then_their_hooks() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let mut watch = begun(&root);
        repository(&root.join("a/b/.git"));
        repository(&root.join("c"));
        let appeared = [root.join("a/b/.git"), root.join("a/b/.git/HEAD"), root.join("c/HEAD")];
        assert_eq!(watch.found().appeared, appeared);
        fs::write(root.join("a/b/.git/hooks/x.sample"), "").unwrap();
        fs::write(root.join("a/b/.git/hooks/pre-commit"), "").unwrap();
        assert_eq!(watch.found().appeared, [root.join("a/b/.git/hooks/pre-commit")]);
    }

    #[test]
    fn a_submodule_that_was_not_there_is_named_however_deep() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::write(root.join(".gitmodules"), "[submodule \"x\"]\n\tpath = a/b/c/d/x\n").unwrap();
        let mut watch = begun(&root);
        fs::create_dir_all(root.join("a/b/c/d/x")).unwrap();
        fs::write(root.join("a/b/c/d/x/.git"), "gitdir: ../evil").unwrap();
        assert_eq!(watch.found().appeared, [root.join("a/b/c/d/x/.git")]);
    }
}
