//! Which files inside the roots decide what other programs run, and how are they kept as they are?
//!
//! What exists is bound on itself, read-only, and every folder on the way to it is bound on itself
//! too: a mount point can't be renamed away, and what is bound inside it with it. What does not
//! exist can't be bound: `watch.rs` looks for that.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use super::{
    layout::Access,
    memory::{Memory, Search},
};
use crate::policy::is_control_file;

/// How many files and folders are looked at in a search for git's folders, nearest first.
const MANY: usize = 20_000;

/// How long that may take.
const LONG: Duration = Duration::from_millis(100);

/// Folders that are full of what a program put there, and not searched.
const FULL: &[&str] =
    &["node_modules", "target", ".venv", "venv", "__pycache__", ".tox", ".mypy_cache", ".cache"];

/// What is kept as it is.
#[derive(Debug, Default)]
pub(super) struct Guards {
    /// What is bound on itself, and what may be done with it.
    pub(super) mounts: BTreeMap<PathBuf, Access>,
    /// Git's folders among it.
    pub(super) folders: BTreeSet<PathBuf>,
    /// Roots in which not everything was looked at.
    pub(super) cut: Vec<PathBuf>,
}

/// What is kept as it is in these roots, of which each may be written or not.
pub(super) fn guards(roots: &[(PathBuf, bool)], memory: &Memory) -> Guards {
    let mut guarding = Guarding { roots, memory, beyond: Vec::new(), guards: Guards::default() };
    let writable = || roots.iter().filter(|it| it.1).map(|it| it.0.as_path());
    for root in writable() {
        for path in at_the_top(root) {
            // A link can't be covered: what takes its place is found afterwards.
            let kept = fs::symlink_metadata(&path).is_ok_and(|it| it.is_dir() || it.is_file());
            if kept && !is_named(&path, ".git") {
                guarding.keep(path, Access::Read);
            }
        }
    }
    for root in writable() {
        guarding.git(&root.join(".git"));
        if is_git_folder(root) {
            guarding.folder(root);
        }
        guarding.search(root);
    }
    guarding.guards
}

/// The folder that the worktree at `root` shares with its repository, when that lies elsewhere.
/// The repository has to know the worktree: a file that came with what was cloned opens nothing.
pub(super) fn common_folder(root: &Path) -> Option<PathBuf> {
    let own = worktree_folder(root)?;
    let common = own.parent()?.parent()?;
    (!common.starts_with(root)).then(|| common.to_owned())
}

struct Guarding<'a> {
    roots: &'a [(PathBuf, bool)],
    memory: &'a Memory,
    /// Repositories outside the roots whose worktrees are roots.
    beyond: Vec<PathBuf>,
    guards: Guards,
}

impl Guarding<'_> {
    /// The innermost root decides, where one lies in another.
    fn root_of(&self, path: &Path) -> Option<&(PathBuf, bool)> {
        let around = self.roots.iter().filter(|(root, _)| path.starts_with(root));
        around.max_by_key(|(root, _)| root.components().count())
    }

    fn is_open(&self, path: &Path) -> bool {
        self.beyond.iter().any(|it| path.starts_with(it)) || self.root_of(path).is_some_and(|it| it.1)
    }

    /// Binds this on itself, unless that would open what is closed.
    fn keep(&mut self, path: PathBuf, access: Access) {
        let mounts = &mut self.guards.mounts;
        let closed = path.ancestors().skip(1).find_map(|it| mounts.get(it)) == Some(&Access::Read);
        if access == Access::Write && (closed || mounts.contains_key(&path)) || !self.is_open(&path) {
            return;
        }
        self.guards.mounts.insert(path, access);
    }

    /// Makes every folder between a root and this a mount point, which nobody can rename.
    fn pin(&mut self, path: &Path) {
        let Some((root, true)) = self.root_of(path).cloned() else { return };
        let between: Vec<_> =
            path.ancestors().skip(1).take_while(|it| *it != root).map(Path::to_owned).collect();
        for folder in between.into_iter().rev().filter(|_| path != root) {
            self.keep(folder, Access::Write);
        }
    }

    /// Keeps a file or folder of this name, if there is one; where a link leads, if that is in a root.
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

    /// A `.git`: the folder, a link to it, or the file that says where it is.
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

    /// What a linked worktree has of its repository: of that repository's own worktree, nothing.
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

    /// What git keeps of a repository: everything but what decides which programs it runs.
    fn folder(&mut self, git: &Path) {
        if !self.guards.folders.insert(git.to_owned()) {
            return;
        }
        self.pin(git);
        self.keep(git.to_owned(), Access::Write);
        let per_worktree = has_worktree_configuration(git);
        if self.is_open(git) {
            // Empty it harms nobody; missing, it could be made with something in it.
            let _ = fs::create_dir(git.join("hooks"));
            if per_worktree {
                let _ = fs::File::create_new(git.join("config.worktree"));
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
        // A worktree's own folder, by a file in a root that its repository does not know.
        if let Some(common) = common_of(git).filter(|it| it.is_dir() && self.is_open(it)) {
            self.folder(&common);
        }
    }

    fn worktree(&mut self, own: &Path, per_worktree: bool) {
        if per_worktree {
            let _ = fs::File::create_new(own.join("config.worktree"));
        }
        for name in ["gitdir", "commondir", "config.worktree"] {
            self.keep_existing(&own.join(name), Access::Read);
        }
        self.modules(&own.join("modules"));
    }

    /// The submodules' own git folders, whose names may have slashes in them.
    fn modules(&mut self, modules: &Path) {
        let mut folders = vec![modules.to_owned()];
        let mut looked_at = 0;
        while let Some(folder) = folders.pop() {
            looked_at += 1;
            if !fs::symlink_metadata(&folder).is_ok_and(|it| it.is_dir()) || looked_at > MANY {
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

    /// Looks for every `.git` below a root but the root's own, and for what has all that is in one.
    fn search(&mut self, root: &Path) {
        let closed = self.roots.iter().filter(|it| !it.1 && it.0.starts_with(root)).map(|it| it.0.clone());
        let closed: Vec<_> = closed.collect();
        let search = match self.memory.recall(root, &closed) {
            Some(search) => {
                for path in &search.found {
                    self.near(path);
                }
                search
            }
            None => {
                let search = self.search_anew(root);
                self.memory.keep(root, closed, search.clone());
                search
            }
        };
        if search.cut {
            self.guards.cut.push(root.to_owned());
        }
    }

    fn search_anew(&mut self, root: &Path) -> Search {
        let begun = Instant::now();
        let mut search = Search::default();
        let mut folders = VecDeque::from([root.to_owned()]);
        let mut looked_at = 0;
        while let Some(folder) = folders.pop_front() {
            search.note(&folder);
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                looked_at += 1;
                let name = entry.file_name();
                if !entry.file_type().is_ok_and(|it| it.is_dir())
                    || FULL.iter().any(|it| name == *it)
                    || name.eq_ignore_ascii_case(".git")
                {
                    continue;
                }
                let path = entry.path();
                if !self.is_open(&path) || self.guards.folders.contains(&path) {
                    continue;
                }
                // Seen from above: what is near is found before much is opened.
                let is_git_s = self.near(&path);
                if is_git_s || fs::symlink_metadata(path.join(".git")).is_ok() {
                    search.found.push(path.clone());
                }
                if !is_git_s {
                    folders.push_back(path);
                }
            }
            if !folders.is_empty() && (looked_at > MANY || begun.elapsed() > LONG) {
                search.cut = true;
                break;
            }
        }
        search
    }

    /// Keeps the `.git` in this folder, and the folder itself if it is one of git's.
    fn near(&mut self, path: &Path) -> bool {
        self.git(&path.join(".git"));
        let is_git_s = is_git_folder(path);
        if is_git_s {
            self.folder(path);
        }
        is_git_s
    }
}

/// The control files and folders that lie directly in a root, in `.config` too.
pub(super) fn at_the_top(root: &Path) -> Vec<PathBuf> {
    let entries = |folder: &Path| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let mut found = entries(root);
    found.extend(entries(&root.join(".config")));
    found.retain(|path| path.strip_prefix(root).is_ok_and(is_control_file));
    found.sort();
    found
}

/// Has this folder all that git takes a folder for its own by?
pub(super) fn is_git_folder(folder: &Path) -> bool {
    folder.join("HEAD").exists() && folder.join("objects").is_dir() && folder.join("refs").is_dir()
}

fn is_named(path: &Path, name: &str) -> bool {
    path.file_name().is_some_and(|it| it.eq_ignore_ascii_case(name))
}

fn folders_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter(|it| it.file_type().is_ok_and(|it| it.is_dir())).map(|it| it.path()).collect()
}

/// With this extension git reads `config.worktree`, of the repository and of every worktree.
fn has_worktree_configuration(git: &Path) -> bool {
    let text = fs::read(git.join("config")).unwrap_or_default();
    String::from_utf8_lossy(&text).to_ascii_lowercase().contains("worktreeconfig")
}

/// Where a `.git` file says that git's folder is.
fn folder_named_in(git: &Path) -> Option<PathBuf> {
    let says = fs::read_to_string(git).ok()?;
    git.parent()?.join(says.strip_prefix("gitdir:")?.trim()).canonicalize().ok()
}

/// Where a folder of git's says that the repository is.
fn common_of(own: &Path) -> Option<PathBuf> {
    let common = fs::read_to_string(own.join("commondir")).ok()?;
    own.join(common.trim()).canonicalize().ok()
}

/// Where git keeps what belongs to the worktree at `root` alone: `<repository>/worktrees/<name>`.
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

    fn seen(root: &Path) -> Vec<String> {
        let name = |access| if access == Access::Read { "ro" } else { "rw" };
        let line = |(path, access): (PathBuf, Access)| {
            format!("{} {}", name(access), path.strip_prefix(root).unwrap().display())
        };
        guards(&[(root.to_owned(), true)], &Memory::default()).mounts.into_iter().map(line).collect()
    }

    #[test]
    fn what_decides_over_programs_is_kept_as_it_is() {
        let (_dir, root) =
            tree(&["haft.toml", ".vscode/tasks.json", "src/main.rs", ".config/git/config", ".config/x"]);
        assert_eq!(seen(&root), ["ro .config/git", "ro .vscode", "ro haft.toml"]);
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
    fn a_repository_that_is_kept_apart_is_kept_as_it_is() {
        let (_dir, root) = tree(&["a/b/w/x", "apart/HEAD", "apart/config", "apart/objects/", "apart/refs/"]);
        fs::write(root.join("a/b/w/.git"), "gitdir: ../../../apart\n").unwrap();
        assert_eq!(
            seen(&root),
            ["rw a", "rw a/b", "rw a/b/w", "ro a/b/w/.git", "rw apart", "ro apart/config", "ro apart/hooks"]
        );
    }

    #[test]
    fn where_links_lead_is_kept_as_it_is() {
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
    fn what_is_read_only_stays_so() {
        let (_dir, root) = tree(&["vendor/x/.git/config", ".vscode/x/.git/config"]);
        let roots = [(root.clone(), true), (root.join("vendor"), false)];
        let mounts: Vec<_> = guards(&roots, &Memory::default()).mounts.into_iter().collect();
        assert!(
            mounts
                .iter()
                .all(|(path, access)| *access == Access::Read && path.starts_with(root.join(".vscode"))),
            "{mounts:?}"
        );
    }
}
