//! Git repositories on disk: the locations of their parts, and the check whether a new one would run anything.

use std::{
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use super::git_config::{Configuration, Entry, read_small};

/// Returns whether git would recognize this folder as a git folder.
pub(crate) fn is_git_folder(folder: &Path) -> bool {
    folder.join("HEAD").exists() && folder.join("objects").is_dir() && folder.join("refs").is_dir()
}

/// Returns the git folder of a `.git`: itself, a symlink's target, or the one that the file names.
pub(crate) fn folder_of(git: &Path) -> Option<PathBuf> {
    let real = git.canonicalize().ok()?;
    if real.is_dir() { Some(real) } else { folder_named_in(&real) }
}

/// Returns the git folder that a `.git` file names.
pub(crate) fn folder_named_in(git: &Path) -> Option<PathBuf> {
    let says = String::from_utf8(read_small(git)?).ok()?;
    git.parent()?.join(says.strip_prefix("gitdir:")?.trim()).canonicalize().ok()
}

/// Returns the common folder that a worktree's git folder names.
pub(crate) fn common_of(own: &Path) -> Option<PathBuf> {
    let common = String::from_utf8(read_small(&own.join("commondir"))?).ok()?;
    own.join(common.trim()).canonicalize().ok()
}

/// Returns whether git reads `config.worktree` of the repository and of every worktree.
pub(crate) fn has_worktree_configuration(git: &Path) -> bool {
    let text = read_small(&git.join("config")).unwrap_or_default();
    String::from_utf8_lossy(&text).to_ascii_lowercase().contains("worktreeconfig")
}

/// Returns the parts of a new git folder that would run a program, or redirect git: hooks, unusual
/// configuration entries, attributes. Nothing that git itself creates is among them.
pub(crate) fn harmful(git: &Path) -> Vec<PathBuf> {
    let mut found = hooks(git);
    for name in ["config", "config.worktree"] {
        let path = git.join(name);
        let Ok(about) = fs::symlink_metadata(&path) else { continue };
        let mut read = Configuration::default();
        read.read(&path, None);
        if !about.is_file() || !read.entries.iter().all(is_plain) {
            found.push(path);
        }
    }
    let attributes = git.join("info/attributes");
    if fs::symlink_metadata(&attributes).is_ok() {
        found.push(attributes);
    }
    if fs::symlink_metadata(git.join("commondir")).is_ok() && !is_of_a_worktree(git) {
        found.push(git.join("commondir"));
    }
    found
}

/// Returns whether it is `<repository>/worktrees/<name>` of a repository.
fn is_of_a_worktree(own: &Path) -> bool {
    let Some(worktrees) = own.parent() else { return false };
    worktrees.file_name().is_some_and(|it| it == "worktrees")
        && common_of(own).as_deref() == worktrees.parent()
}

/// Returns the hooks that git would run; those of a template have names that it ignores.
fn hooks(git: &Path) -> Vec<PathBuf> {
    let folder = git.join("hooks");
    if fs::symlink_metadata(&folder).is_ok_and(|it| !it.is_dir()) {
        return vec![folder];
    }
    let entries = fs::read_dir(&folder).into_iter().flatten().flatten().map(|it| it.path());
    entries.filter(|it| !it.as_os_str().as_bytes().ends_with(b".sample") && !is_set_aside(it)).collect()
}

/// Returns whether haft set this file aside, judged by its name.
pub(crate) fn is_set_aside(path: &Path) -> bool {
    path.file_name().is_some_and(|it| it.to_string_lossy().contains(SET_ASIDE))
}

/// The suffix of a control file that haft set aside.
pub(crate) const SET_ASIDE: &str = ".haft-set-aside";

/// Returns whether an entry neither runs a program nor reads another configuration. All others may.
pub(crate) fn is_plain(entry: &Entry) -> bool {
    let key = entry.key.as_str();
    match entry.section.as_str() {
        "core" => matches!(
            key,
            "repositoryformatversion"
                | "filemode"
                | "bare"
                | "logallrefupdates"
                | "ignorecase"
                | "precomposeunicode"
                | "symlinks"
                | "worktree"
                | "autocrlf"
                | "eol"
                | "safecrlf"
                | "quotepath"
                | "abbrev"
                | "sparsecheckout"
                | "sparsecheckoutcone"
                | "untrackedcache"
                | "splitindex"
                | "preloadindex"
                | "longpaths"
                | "protectntfs"
                | "protecthfs"
                | "compression"
                | "commitgraph"
                | "multipackindex"
        ),
        "remote" => matches!(
            key,
            "url"
                | "pushurl"
                | "fetch"
                | "push"
                | "tagopt"
                | "prune"
                | "mirror"
                | "promisor"
                | "partialclonefilter"
                | "skipdefaultupdate"
                | "skipfetchall"
                | "gh-resolved"
        ),
        "submodule" => match key {
            "update" => !entry.value.starts_with('!'),
            "url"
            | "active"
            | "path"
            | "branch"
            | "ignore"
            | "fetchrecursesubmodules"
            | "shallow"
            | "recurse" => true,
            _ => false,
        },
        "extensions" => true,
        "user" => matches!(key, "name" | "email" | "useconfigonly"),
        "branch" | "push" | "pull" | "fetch" | "rebase" | "color" | "status" | "index" | "pack" | "gc"
        | "maintenance" | "advice" | "feature" | "checkout" | "clone" | "log" | "rerere" | "stash" => {
            !entry.value.starts_with('!')
        }
        "commit" => key == "gpgsign",
        "tag" => matches!(key, "gpgsign" | "sort"),
        "init" => key == "defaultbranch",
        "merge" => {
            matches!(key, "conflictstyle" | "ff" | "renames" | "renamelimit" | "log" | "stat" | "tool")
        }
        "diff" => entry.name.is_none() && key != "external" && key != "orderfile",
        "lfs" => matches!(key, "repositoryformatversion") || key == "access",
        _ => false,
    }
}
