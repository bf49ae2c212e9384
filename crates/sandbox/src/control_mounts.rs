//! Read-only control files: finds the files inside the roots that decide what other programs run, and plans
//! their mounts.
//!
//! An existing file is bound on itself, read-only, at any depth. So is every folder on the way to it: a mount
//! point can't be renamed, which would move the mounts inside it. A missing file can't be bound, nor one that
//! a package manager keeps replacing: `watch.rs` handles those.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use kit::deliberate_faults::is_broken;

use super::{handle::Folder, mount::Access};
use crate::control_files::{
    configured::Configured,
    index::{Index, Place},
    repository::{common_of, folder_named_in, has_worktree_configuration, is_git_folder},
};

/// The mounts that keep control files as they are.
#[derive(Debug, Default)]
pub(super) struct Guards {
    /// The paths that are bound on themselves, with their access.
    pub(super) mounts: BTreeMap<PathBuf, Access>,
    /// The git folders among them.
    pub folders: BTreeSet<PathBuf>,
}

/// Plans the mounts for these roots, of which each may be writable or not.
pub(super) fn guards(roots: &[(PathBuf, bool)], index: &Index, configured: &Configured) -> Guards {
    let mut guarding = Guarding { roots, beyond: Vec::new(), guards: Guards::default() };
    let writable = || roots.iter().filter(|it| it.1).map(|it| it.0.as_path());
    let scans: Vec<_> = writable().map(|root| (root, index.scan(root))).collect();
    let nested = |it: &&Place| {
        !is_broken("nested-control-files") || roots.iter().any(|root| it.path.parent() == Some(&root.0))
    };
    for place in scans.iter().flat_map(|(_, scan)| &scan.control).filter(|it| !it.vendored).filter(nested) {
        guarding.keep_pinned(&place.path);
    }
    if writable().next().is_some() {
        for path in configured.paths_by(scans.iter().flat_map(|(_, scan)| &scan.repositories)) {
            guarding.keep_pinned(&path);
        }
    }
    for (root, scan) in &scans {
        guarding.git(&root.join(".git"));
        if is_git_folder(root) {
            guarding.folder(root);
        }
        for git in &scan.repositories {
            if is_named(git, ".git") { guarding.git(git) } else { guarding.folder(git) }
        }
    }
    guarding.guards
}

/// Returns the folder that the worktree at `root` shares with its repository, if that lies elsewhere. The
/// repository has to know the worktree: a file in a cloned workspace can't open a folder.
pub(super) fn common_folder(root: &Path) -> Option<PathBuf> {
    let own = worktree_folder(root)?;
    let common = own.parent()?.parent()?;
    (!common.starts_with(root)).then(|| common.to_owned())
}

struct Guarding<'a> {
    roots: &'a [(PathBuf, bool)],
    /// Repositories outside the roots whose worktrees are roots.
    beyond: Vec<PathBuf>,
    guards: Guards,
}

impl Guarding<'_> {
    /// Returns the innermost root around a path.
    fn root_of(&self, path: &Path) -> Option<&(PathBuf, bool)> {
        let around = self.roots.iter().filter(|(root, _)| path.starts_with(root));
        around.max_by_key(|(root, _)| root.components().count())
    }

    fn is_open(&self, path: &Path) -> bool {
        self.beyond.iter().any(|it| path.starts_with(it)) || self.root_of(path).is_some_and(|it| it.1)
    }

    /// Binds this path on itself, unless that would reopen a closed one.
    fn keep(&mut self, path: PathBuf, access: Access) {
        let mounts = &mut self.guards.mounts;
        let closed = path.ancestors().skip(1).find_map(|it| mounts.get(it)) == Some(&Access::Read);
        if access == Access::Write && (closed || mounts.contains_key(&path)) || !self.is_open(&path) {
            return;
        }
        self.guards.mounts.insert(path, access);
    }

    /// Makes every folder between a root and this path a mount point, which can't be renamed.
    fn pin(&mut self, path: &Path) {
        let Some((root, true)) = self.root_of(path).cloned() else { return };
        let between: Vec<_> =
            path.ancestors().skip(1).take_while(|it| *it != root).map(Path::to_owned).collect();
        for folder in between.into_iter().rev().filter(|_| path != root) {
            self.keep(folder, Access::Write);
        }
    }

    /// Keeps this path if it exists, and pins its folders.
    fn keep_pinned(&mut self, path: &Path) {
        if self.is_open(path) && fs::symlink_metadata(path).is_ok() {
            self.pin(path);
            self.keep_existing(path, Access::Read);
        }
    }

    /// Keeps this path if it exists; of a symlink the target, if that is in a root.
    fn keep_existing(&mut self, path: &Path, access: Access) -> bool {
        let Ok(about) = fs::symlink_metadata(path) else { return false };
        if about.is_dir() || about.is_file() {
            self.keep(path.to_owned(), access);
        } else if about.is_symlink()
            && let Ok(target) = path.canonicalize()
            && self.is_open(&target)
            && !self.roots.iter().any(|it| it.0 == target)
        {
            self.pin(&target);
            self.keep(target, access);
        }
        about.is_dir()
    }

    /// Keeps a `.git`: the folder, a symlink to it, or the file that names it.
    fn git(&mut self, git: &Path) {
        let Ok(about) = fs::symlink_metadata(git) else { return };
        let Ok(real) = git.canonicalize() else { return };
        if real.is_dir() {
            if self.is_open(&real) {
                self.folder(&real);
            }
            self.pin(git);
            return;
        }
        self.pin(git);
        if about.is_symlink() {
            self.pin(&real);
        }
        self.keep(real, Access::Read);
        let Some(root) = git.parent() else { return };
        if let Some(own) = worktree_folder(root) {
            self.linked(&own);
        } else if let Some(folder) = folder_named_in(git)
            && folder.is_dir()
            && self.is_open(&folder)
        {
            self.folder(&folder);
        }
    }

    /// Keeps the parts of its repository that a linked worktree uses; nothing of that repository's own worktree.
    fn linked(&mut self, own: &Path) {
        let Some(common) = own.parent().and_then(Path::parent) else { return };
        if self.root_of(common).is_some_and(|it| it.1) {
            return self.folder(common);
        }
        if !self.beyond.iter().any(|it| it == common) {
            self.beyond.push(common.to_owned());
            for closed in ["HEAD", "index", "info", "objects/info"] {
                self.keep_existing(&common.join(closed), Access::Read);
            }
            self.guards.mounts.insert(common.to_owned(), Access::Write);
            self.keep(common.join("worktrees"), Access::Write);
            for other in folders_in(&common.join("worktrees")) {
                self.keep(other, Access::Read);
            }
            self.folder(common);
        }
        self.guards.mounts.insert(own.to_owned(), Access::Write);
        self.worktree(own, has_worktree_configuration(common));
    }

    /// Leaves a git folder writable, except for the files that decide which programs git runs.
    fn folder(&mut self, git: &Path) {
        if !self.guards.folders.insert(git.to_owned()) {
            return;
        }
        self.pin(git);
        self.keep(git.to_owned(), Access::Write);
        let per_worktree = has_worktree_configuration(git);
        if self.is_open(git) {
            // Empty it is harmless; missing, it could be created with content. Another sandbox of the session
            // may swap the folder meanwhile, so it is opened once, and not through a symlink.
            if let Ok(folder) = Folder::open(git) {
                let _ = folder.create_folder("hooks");
                if per_worktree {
                    let _ = folder.create_file("config.worktree", &[], 0o644);
                }
            }
        }
        for name in ["hooks", "config", "config.worktree", "commondir", "gitdir"] {
            self.keep_existing(&git.join(name), Access::Read);
        }
        if self.keep_existing(&git.join("info"), Access::Write) {
            self.keep_existing(&git.join("info/attributes"), Access::Read);
        }
        let worktrees = git.join("worktrees");
        if self.keep_existing(&worktrees, Access::Write) {
            for own in folders_in(&worktrees) {
                if self.guards.mounts.get(&own) != Some(&Access::Read) {
                    self.keep(own.clone(), Access::Write);
                    self.worktree(&own, per_worktree);
                }
            }
        }
        self.modules(&git.join("modules"));
        // A worktree's own folder, named by a file in a root, but unknown to its repository.
        if let Some(common) = common_of(git).filter(|it| it.is_dir() && self.is_open(it)) {
            self.folder(&common);
        }
    }

    fn worktree(&mut self, own: &Path, per_worktree: bool) {
        if per_worktree && let Ok(folder) = Folder::open(own) {
            let _ = folder.create_file("config.worktree", &[], 0o644);
        }
        for name in ["gitdir", "commondir", "config.worktree"] {
            self.keep_existing(&own.join(name), Access::Read);
        }
        self.modules(&own.join("modules"));
    }

    /// Keeps the git folders of submodules, whose names may contain slashes.
    fn modules(&mut self, modules: &Path) {
        let mut folders = vec![modules.to_owned()];
        while let Some(folder) = folders.pop() {
            if !fs::symlink_metadata(&folder).is_ok_and(|it| it.is_dir()) {
                continue;
            }
            if is_git_folder(&folder) {
                self.folder(&folder);
            } else {
                self.keep(folder.clone(), Access::Write);
                folders.extend(folders_in(&folder));
            }
        }
    }
}

fn is_named(path: &Path, name: &str) -> bool {
    path.file_name().is_some_and(|it| it.eq_ignore_ascii_case(name))
}

fn folders_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter(|it| it.file_type().is_ok_and(|it| it.is_dir())).map(|it| it.path()).collect()
}

/// Returns the git folder of the worktree at `root` alone: `<repository>/worktrees/<name>`.
fn worktree_folder(root: &Path) -> Option<PathBuf> {
    let own = folder_named_in(&root.join(".git"))?;
    let back = fs::read_to_string(own.join("gitdir")).ok()?;
    let back = own.join(back.trim()).canonicalize().ok()?;
    let common = common_of(&own)?;
    let worktrees = own.parent()?;
    let is_known = back == root.join(".git").canonicalize().ok()?
        && is_named(worktrees, "worktrees")
        && worktrees.parent() == Some(&*common)
        && is_git_folder(&common);
    is_known.then_some(own)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn tree(files: &[&str]) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for file in files {
            let path = root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            if !file.ends_with('/') {
                fs::write(path, "").unwrap();
            }
        }
        (dir, root)
    }

    fn guarded(roots: &[(PathBuf, bool)]) -> Guards {
        let index = Index::default();
        let paths = roots.iter().map(|it| it.0.clone()).collect();
        guards(roots, &index, &Configured::new(paths, &[], index.clone()))
    }

    fn seen(root: &Path) -> Vec<String> {
        let name = |access| if access == Access::Read { "ro" } else { "rw" };
        let line = |(path, access): (PathBuf, Access)| {
            format!("{} {}", name(access), path.strip_prefix(root).unwrap().display())
        };
        guarded(&[(root.to_owned(), true)]).mounts.into_iter().map(line).collect()
    }

    #[test]
    fn control_files_are_mounted_read_only() {
        let (_dir, root) =
            tree(&["haft.toml", ".vscode/tasks.json", "src/main.rs", ".config/git/config", ".config/x"]);
        assert_eq!(seen(&root), ["rw .config", "ro .config/git", "ro .vscode", "ro haft.toml"]);
    }

    #[test]
    fn git_works_but_for_its_hooks_and_its_configuration() {
        let (_dir, root) = tree(&[
            ".git/HEAD",
            ".git/config",
            ".git/info/attributes",
            ".git/objects/x",
            ".git/refs/x",
            ".git/modules/a/b/HEAD",
            ".git/modules/a/b/config",
            ".git/modules/a/b/objects/x",
            ".git/modules/a/b/refs/x",
            "sub/.git/config",
        ]);
        assert_eq!(
            seen(&root),
            [
                "rw .git",
                "ro .git/config",
                "ro .git/hooks",
                "rw .git/info",
                "ro .git/info/attributes",
                "rw .git/modules",
                "rw .git/modules/a",
                "rw .git/modules/a/b",
                "ro .git/modules/a/b/config",
                "ro .git/modules/a/b/hooks",
                "rw sub",
                "rw sub/.git",
                "ro sub/.git/config",
                "ro sub/.git/hooks",
            ]
        );
    }

    #[test]
    fn a_worktree_opens_its_repository_only_if_that_knows_it() {
        let (_dir, top) = tree(&[
            "main/.git/HEAD",
            "main/.git/objects/x",
            "main/.git/refs/x",
            "main/.git/worktrees/w/HEAD",
        ]);
        let (root, own) = (top.join("w"), top.join("main/.git/worktrees/w"));
        fs::create_dir(&root).unwrap();
        fs::write(root.join(".git"), format!("gitdir: {}\n", own.display())).unwrap();
        fs::write(own.join("commondir"), "../..\n").unwrap();
        assert_eq!(common_folder(&root), None);
        fs::write(own.join("gitdir"), format!("{}\n", root.join(".git").display())).unwrap();
        assert_eq!(common_folder(&root), Some(top.join("main/.git")));
        fs::write(own.join("commondir"), "/etc\n").unwrap();
        assert_eq!(common_folder(&root), None);
    }

    #[test]
    fn a_separate_git_directory_has_read_only_config_and_hooks() {
        let (_dir, root) = tree(&["a/b/w/x", "apart/HEAD", "apart/config", "apart/objects/", "apart/refs/"]);
        fs::write(root.join("a/b/w/.git"), "gitdir: ../../../apart\n").unwrap();
        assert_eq!(
            seen(&root),
            ["rw a", "rw a/b", "rw a/b/w", "ro a/b/w/.git", "rw apart", "ro apart/config", "ro apart/hooks"]
        );
    }

    #[test]
    fn linked_git_folders_and_hooks_are_protected_at_their_targets() {
        let (_dir, root) = tree(&["real/config", "hooks.d/x", "w/x"]);
        std::os::unix::fs::symlink("../real", root.join("w/.git")).unwrap();
        std::os::unix::fs::symlink("../hooks.d", root.join("real/hooks")).unwrap();
        assert_eq!(seen(&root), ["ro hooks.d", "rw real", "ro real/config", "rw w"]);
    }

    #[test]
    fn the_configuration_of_a_worktree_is_made_before_somebody_else_makes_it() {
        let (_dir, root) = tree(&[".git/HEAD"]);
        fs::write(root.join(".git/config"), "[extensions]\n\tworktreeConfig = true\n").unwrap();
        assert!(seen(&root).contains(&"ro .git/config.worktree".to_owned()));
    }

    #[test]
    fn read_only_folders_get_no_writable_mounts() {
        let (_dir, root) = tree(&["vendor/x/.git/config", ".vscode/x/.git/config"]);
        let roots = [(root.clone(), true), (root.join("vendor"), false)];
        let mounts: Vec<_> = guarded(&roots).mounts.into_iter().collect();
        assert!(
            mounts
                .iter()
                .all(|(path, access)| *access == Access::Read && path.starts_with(root.join(".vscode"))),
            "{mounts:?}"
        );
    }
}
