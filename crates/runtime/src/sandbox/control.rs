//! Which files inside the roots decide what other programs run, and how are they kept as they are?
//!
//! What exists is bound on itself, read-only. What does not exist can't be: it is looked for
//! after a command, and named to whoever reads the answer.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::layout::Access;
use crate::policy::is_control_file;

/// How deep git's folders are looked for, below a root.
const DEEP: usize = 3;

/// How many folders are looked at for them.
const MANY: usize = 2000;

/// Which paths below this root are bound on themselves, and what may be done with each.
pub(super) fn guards(root: &Path) -> Vec<(PathBuf, Access)> {
    let mut guards = Vec::new();
    for path in at_the_top(root) {
        // A link can't be covered: what takes its place is found afterwards.
        let Ok(about) = fs::symlink_metadata(&path) else { continue };
        if is_named(&path, ".git") {
            guard_git(&path, &mut guards);
        } else if about.is_dir() || about.is_file() {
            guards.push((path, Access::Read));
        }
    }
    for git in nested_git(root) {
        guard_git(&git, &mut guards);
    }
    if is_git_folder(root) {
        guard_git_folder(root, &mut guards);
    }
    guards
}

/// The folder that the worktree at `root` shares with its repository, when that lies elsewhere.
/// The repository has to know the worktree: a file that came with what was cloned opens nothing.
pub(super) fn common_folder(root: &Path) -> Option<PathBuf> {
    let own = worktree_folder(root)?;
    let common = own.parent()?.parent()?;
    (!common.starts_with(root)).then(|| common.to_owned())
}

/// What was not there when the sandbox was made, and would decide what other programs run.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    roots: Vec<PathBuf>,
    known: Vec<(PathBuf, Option<PathBuf>)>,
}

impl Watch {
    /// Notes what there is now at the top of these roots.
    pub(crate) fn begin(roots: impl IntoIterator<Item = PathBuf>) -> Self {
        let roots: Vec<PathBuf> = roots.into_iter().collect();
        let known = Self::look(&roots);
        Self { roots, known }
    }

    /// What is new since then, or is a link that now leads elsewhere. Each is given once.
    pub(crate) fn appeared(&mut self) -> Vec<PathBuf> {
        let now = Self::look(&self.roots);
        let new = now.iter().filter(|it| !self.known.contains(it)).map(|(path, _)| path.clone()).collect();
        self.known = now;
        new
    }

    fn look(roots: &[PathBuf]) -> Vec<(PathBuf, Option<PathBuf>)> {
        let found = roots.iter().flat_map(|root| {
            // With this file in it, git takes its configuration from where the file says.
            let common = Some(root.join(".git/commondir")).filter(|it| it.exists());
            at_the_top(root).into_iter().chain(common)
        });
        found.map(|path| (path.clone(), fs::read_link(&path).ok())).collect()
    }
}

/// The control files and folders that lie directly in a root, in `.config` too.
fn at_the_top(root: &Path) -> Vec<PathBuf> {
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

fn is_named(path: &Path, name: &str) -> bool {
    path.file_name().is_some_and(|it| it.eq_ignore_ascii_case(name))
}

/// Every `.git` in the folders below a root, but not the root's own.
fn nested_git(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![(root.to_owned(), 0)];
    let mut looked_at = 0;
    while let Some((folder, depth)) = folders.pop() {
        looked_at += 1;
        if looked_at > MANY {
            tracing::warn!("{} has too many folders: not every .git in it was looked for", root.display());
            break;
        }
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            if name.eq_ignore_ascii_case(".git") {
                if depth > 0 {
                    found.push(path);
                }
            } else if depth < DEEP
                && entry.file_type().is_ok_and(|it| it.is_dir())
                && name != "node_modules"
                && name != "target"
            {
                folders.push((path, depth + 1));
            }
        }
    }
    found.sort();
    found
}

/// A `.git`: the folder, or the file that says where the folder is.
fn guard_git(git: &Path, guards: &mut Vec<(PathBuf, Access)>) {
    let Ok(about) = fs::symlink_metadata(git) else { return };
    if about.is_dir() {
        // A mount point can't be renamed away, and what is bound inside it with it.
        guards.push((git.to_owned(), Access::Write));
        guard_git_folder(git, guards);
    } else if about.is_file() {
        guards.push((git.to_owned(), Access::Read));
        let Some(root) = git.parent() else { return };
        let Some(own) = worktree_folder(root) else { return };
        let Some(common) = own.parent().and_then(Path::parent) else { return };
        guards.push((common.to_owned(), Access::Write));
        guard_git_folder(common, guards);
        // The other worktrees are nobody's business here.
        let worktrees = common.join("worktrees");
        guards.retain(|(path, _)| !path.starts_with(&worktrees));
        guards.push((worktrees, Access::Read));
        guards.push((own.clone(), Access::Write));
        guard_worktree(&own, guards);
    }
}

fn guard_git_folder(git: &Path, guards: &mut Vec<(PathBuf, Access)>) {
    // Empty it harms nobody; missing, it could be made with something in it.
    let _ = fs::create_dir(git.join("hooks"));
    let mut keep = |path: PathBuf, access: Access, folder: bool| {
        let there =
            fs::symlink_metadata(&path).is_ok_and(|it| if folder { it.is_dir() } else { it.is_file() });
        if there {
            guards.push((path, access));
        }
        there
    };
    keep(git.join("hooks"), Access::Read, true);
    for name in ["config", "config.worktree", "commondir", "gitdir"] {
        keep(git.join(name), Access::Read, false);
    }
    if keep(git.join("info"), Access::Write, true) {
        keep(git.join("info/attributes"), Access::Read, false);
    }
    let worktrees = git.join("worktrees");
    if keep(worktrees.clone(), Access::Write, true) {
        for own in folders_in(&worktrees) {
            guards.push((own.clone(), Access::Write));
            guard_worktree(&own, guards);
        }
    }
    guard_modules(&git.join("modules"), guards);
}

fn guard_worktree(own: &Path, guards: &mut Vec<(PathBuf, Access)>) {
    let names = ["gitdir", "commondir", "config.worktree"];
    guards.extend(names.iter().map(|it| own.join(it)).filter(|it| it.is_file()).map(|it| (it, Access::Read)));
}

/// The submodules' own git folders, whose names may have slashes in them.
fn guard_modules(modules: &Path, guards: &mut Vec<(PathBuf, Access)>) {
    let mut folders = vec![modules.to_owned()];
    let mut looked_at = 0;
    while let Some(folder) = folders.pop() {
        looked_at += 1;
        if !fs::symlink_metadata(&folder).is_ok_and(|it| it.is_dir()) || looked_at > MANY {
            continue;
        }
        guards.push((folder.clone(), Access::Write));
        if is_git_folder(&folder) {
            guard_git_folder(&folder, guards);
        } else {
            folders.extend(folders_in(&folder));
        }
    }
}

fn folders_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter(|it| it.file_type().is_ok_and(|it| it.is_dir())).map(|it| it.path()).collect()
}

fn is_git_folder(folder: &Path) -> bool {
    folder.join("HEAD").is_file() && folder.join("objects").is_dir() && folder.join("refs").is_dir()
}

/// Where git keeps what belongs to the worktree at `root` alone: `<repository>/worktrees/<name>`.
fn worktree_folder(root: &Path) -> Option<PathBuf> {
    let says = fs::read_to_string(root.join(".git")).ok()?;
    let own = root.join(says.strip_prefix("gitdir:")?.trim()).canonicalize().ok()?;
    let back = fs::read_to_string(own.join("gitdir")).ok()?;
    let back = own.join(back.trim()).canonicalize().ok()?;
    let common = fs::read_to_string(own.join("commondir")).ok()?;
    let common = own.join(common.trim()).canonicalize().ok()?;
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
        guards(root).into_iter().map(line).collect()
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
                "ro .git/hooks",
                "ro .git/config",
                "rw .git/info",
                "ro .git/info/attributes",
                "rw .git/modules",
                "rw .git/modules/a",
                "rw .git/modules/a/b",
                "ro .git/modules/a/b/hooks",
                "ro .git/modules/a/b/config",
                "rw sub/.git",
                "ro sub/.git/hooks",
                "ro sub/.git/config",
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
    fn what_is_new_is_named_once() {
        let (_dir, root) = tree(&["haft.toml", ".git/HEAD"]);
        let mut watch = Watch::begin([root.clone()]);
        assert!(watch.appeared().is_empty());
        fs::write(root.join(".mcp.json"), "").unwrap();
        fs::write(root.join(".git/commondir"), "").unwrap();
        assert_eq!(watch.appeared(), [root.join(".mcp.json"), root.join(".git/commondir")]);
        assert!(watch.appeared().is_empty());
    }
}
