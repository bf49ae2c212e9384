//! Too much at once: whether a person is asked about what a command deleted.
//!
//! Counts files that were there before the session and are deleted or emptied now. Files that git ignores don't
//! count, nor contents that git can bring back. What another program than git deletes or rewrites of a
//! repository's history counts by itself.

pub(crate) mod git;
pub(crate) mod ignored;

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    path::{Component, Path, PathBuf},
};

use kit::tracking::Node;

use crate::config::AskLimits;

/// Deletions up to this number are never a large part of a workspace.
const FEW: u64 = 10;

/// Folders that are listed.
const LISTED: usize = 12;

/// The fate of a file that was there before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Became {
    /// It is gone, or something else has its name.
    Deleted,
    /// It has no content any more.
    Emptied,
    /// It has another content.
    Rewritten,
}

/// A file that a call deleted, emptied or rewrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Loss {
    /// Its absolute path before the call.
    pub(crate) path: PathBuf,
    pub(crate) became: Became,
    /// Whether git itself did it.
    pub(crate) by_git: bool,
}

/// Returns the fate of a file; `None` if there was not a file, or it is as it was.
pub(crate) fn became(before: &Node, after: &Node) -> Option<Became> {
    let Node::File(was) = before else { return None };
    match after {
        Node::File(is) if is.size == 0 && was.size > 0 => Some(Became::Emptied),
        Node::File(is) if (is.size, is.modified) == (was.size, was.modified) => None,
        Node::File(_) => Some(Became::Rewritten),
        Node::Absent | Node::Folder(_) | Node::Link { .. } | Node::Special(_) => Some(Became::Deleted),
    }
}

/// Returns whether this loss is of a repository's history, and not git's own doing.
pub(crate) fn is_of_history(loss: &Loss) -> bool {
    !loss.by_git && part_of_history(&loss.path)
}

/// Returns whether this is an object, a ref, `HEAD` or `packed-refs` of a repository.
pub(crate) fn part_of_history(path: &Path) -> bool {
    let names: Vec<&str> = path
        .components()
        .filter_map(|it| match it {
            Component::Normal(name) => Some(name.to_str().unwrap_or_default()),
            _ => None,
        })
        .collect();
    let Some((file, folders)) = names.split_last() else { return false };
    if let Some(git) = folders.iter().position(|it| it.eq_ignore_ascii_case(".git")) {
        let inside = folders.get(git + 1..).unwrap_or_default();
        let is_transient = file.starts_with("tmp_") || file.ends_with(".lock");
        return ["HEAD", "packed-refs"].contains(file)
            || (inside.iter().any(|it| ["objects", "refs"].contains(it)) && !is_transient);
    }
    // A repository without a worktree has no such folder, but its objects have names of their own.
    let is_hex = |text: &str| text.bytes().all(|it| it.is_ascii_hexdigit());
    match folders {
        [.., "objects", "pack"] => file.starts_with("pack-"),
        [.., "objects", two] => {
            two.len() == 2 && is_hex(two) && [38, 62].contains(&file.len()) && is_hex(file)
        }
        _ => false,
    }
}

/// Returns the repository that a part of a history belongs to: the folder with its `HEAD`, and the one that holds its
/// files.
pub(crate) fn repository_of_history(path: &Path) -> (PathBuf, PathBuf) {
    let parts: Vec<Component<'_>> = path.components().collect();
    let Some(git) = parts.iter().position(|it| is_git_folder(*it)) else {
        // `REPOSITORY/objects/12/…`: it has no worktree.
        let repository = path.ancestors().nth(3).unwrap_or(path).to_owned();
        return (repository.clone(), repository);
    };
    let is_below =
        |it: &Component<'_>| ["objects", "refs", "logs"].iter().any(|name| it.as_os_str() == *name);
    let below = parts.iter().skip(git).position(is_below).map_or(parts.len() - 1, |it| git + it);
    (parts.iter().take(below).collect(), parts.iter().take(git).collect())
}

fn is_git_folder(part: Component<'_>) -> bool {
    part.as_os_str().eq_ignore_ascii_case(".git")
}

/// Returns whether a path lies in a `.git`.
pub(crate) fn is_in_git_folder(path: &Path) -> bool {
    path.components().any(is_git_folder)
}

/// Returns the losses that count by number: deleted or emptied files outside of `.git`.
pub(crate) fn countable<'a>(losses: impl IntoIterator<Item = &'a Loss>) -> impl Iterator<Item = &'a Loss> {
    losses.into_iter().filter(|it| it.became != Became::Rewritten && !is_in_git_folder(&it.path))
}

/// Returns whether so many losses can be too much at all: then it is worth a look at what git has of them.
pub(crate) fn may_be_too_much(count: u64, limits: AskLimits) -> bool {
    count > limits.files.min(FEW)
}

/// A limit of `[undo]` for deletions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AskLimit {
    Files,
    Percent,
}

impl AskLimit {
    /// Returns its key in haft.toml.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Files => "ask_files",
            Self::Percent => "ask_percent",
        }
    }
}

/// Returns the limit that so many losses exceed. `left` returns the number of files that are left, counted up to
/// a maximum.
pub(crate) fn exceeded(count: u64, limits: AskLimits, left: impl FnOnce(u64) -> u64) -> Option<AskLimit> {
    if count > limits.files {
        return Some(AskLimit::Files);
    }
    if count <= FEW {
        return None;
    }
    // `count` is more than so many percent of `count + left`.
    let enough = (count * 100).div_ceil(limits.percent.max(1));
    (count * 100 > limits.percent * (count + left(enough))).then_some(AskLimit::Percent)
}

/// The excess, for the question and the answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TooMuch {
    /// Files that are deleted or emptied, by path.
    pub(crate) files: Vec<PathBuf>,
    /// The limit that their number exceeds.
    pub(crate) limit: Option<AskLimit>,
    /// Parts of repositories' histories.
    pub(crate) history: Vec<PathBuf>,
}

impl TooMuch {
    /// Returns it in one line: `deletes or empties 3412 files in src/, docs/, and deletes or rewrites 12 files of the
    /// history in .git`.
    pub(crate) fn summary(&self, workspace: &Path) -> String {
        let mut parts = Vec::new();
        if !self.files.is_empty() {
            let places = places(&self.files, workspace);
            parts.push(format!("deletes or empties {}{places}", files(self.files.len())));
        }
        if !self.history.is_empty() {
            let repositories = by(&self.history, |path| repository(path, workspace));
            let named: Vec<String> = repositories.into_iter().map(|it| it.0).take(3).collect();
            let (files, named) = (files(self.history.len()), named.join(", "));
            parts.push(format!("deletes or rewrites {files} of the history in {named}"));
        }
        parts.join(", and ")
    }

    /// Returns a line for each folder, those with the most files first.
    pub(crate) fn lines(&self, workspace: &Path) -> Vec<String> {
        let folder = |path: &Path| folder_of(path, workspace);
        let lines = |verb: &str, paths: &[PathBuf]| {
            let groups = by(paths, folder);
            let line = |(folder, count): &(String, usize)| format!("{verb} {folder} ({})", files(*count));
            let mut lines: Vec<String> = groups.iter().take(LISTED).map(line).collect();
            let more = groups.len().saturating_sub(LISTED);
            if more > 0 {
                let rest: usize = groups.iter().skip(LISTED).map(|it| it.1).sum();
                lines.push(format!("{verb} {} in {more} more folders", files(rest)));
            }
            lines
        };
        [lines("delete or empty", &self.files), lines("delete or rewrite", &self.history)].concat()
    }
}

fn files(count: usize) -> String {
    format!("{count} file{}", if count == 1 { "" } else { "s" })
}

fn places(paths: &[PathBuf], workspace: &Path) -> String {
    let groups = by(paths, |path| top_of(path, workspace));
    let mut text = String::new();
    for (number, (folder, _)) in groups.iter().take(3).enumerate() {
        let _ = write!(text, "{}{folder}", if number == 0 { " in " } else { ", " });
    }
    if groups.len() > 3 {
        text.push_str(", …");
    }
    text
}

/// Counts paths by a name, the most frequent first.
fn by(paths: &[PathBuf], name: impl Fn(&Path) -> String) -> Vec<(String, usize)> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for path in paths {
        *counts.entry(name(path)).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    counts
}

/// Returns the first folder of a path in the workspace, or the file's own name.
fn top_of(path: &Path, workspace: &Path) -> String {
    first(path, workspace, 1)
}

/// Returns the first two folders of a path in the workspace.
fn folder_of(path: &Path, workspace: &Path) -> String {
    first(path, workspace, 2)
}

fn first(path: &Path, workspace: &Path, most: usize) -> String {
    let Ok(rest) = path.strip_prefix(workspace) else {
        return path.parent().map_or_else(|| "/".to_owned(), |it| format!("{}/", it.display()));
    };
    let folders: Vec<_> = rest.parent().into_iter().flat_map(Path::components).take(most).collect();
    match folders.as_slice() {
        [] => "./".to_owned(),
        folders => format!("{}/", folders.iter().collect::<PathBuf>().display()),
    }
}

/// Returns the git folder that a path lies in, in short.
fn repository(path: &Path, workspace: &Path) -> String {
    let git = path
        .ancestors()
        .filter(|it| it.file_name().is_some_and(|name| name.eq_ignore_ascii_case(".git")))
        .last();
    let git = git.or_else(|| path.parent()).unwrap_or(path);
    git.strip_prefix(workspace).unwrap_or(git).display().to_string()
}

#[cfg(test)]
mod tests {
    use kit::tracking::Metadata;

    use super::*;

    const USUAL: AskLimits = AskLimits { files: 50, percent: 20 };

    fn file(size: u64, seconds: i64) -> Node {
        Node::File(Metadata {
            mode: 0o644,
            owner: (0, 0),
            size,
            modified: (seconds, 0),
            changed: (seconds, 0),
            identity: (1, 1),
            links: 1,
        })
    }

    fn loss(path: &str, became: Became, by_git: bool) -> Loss {
        Loss { path: path.into(), became, by_git }
    }

    #[test]
    fn only_files_that_are_gone_or_empty_count_and_an_edit_does_not() {
        assert_eq!(became(&file(3, 1), &Node::Absent), Some(Became::Deleted));
        assert_eq!(became(&file(3, 1), &file(0, 2)), Some(Became::Emptied));
        assert_eq!(became(&file(3, 1), &file(3, 2)), Some(Became::Rewritten));
        assert_eq!(became(&file(3, 1), &file(3, 1)), None);
        assert_eq!(became(&file(0, 1), &file(0, 1)), None);
        assert_eq!(became(&Node::Absent, &file(3, 1)), None);
        let losses = [
            loss("/w/a", Became::Deleted, false),
            loss("/w/b", Became::Emptied, true),
            loss("/w/c", Became::Rewritten, false),
            loss("/w/.git/index", Became::Deleted, false),
        ];
        let paths: Vec<_> = countable(&losses).map(|it| it.path.to_str().unwrap_or_default()).collect();
        assert_eq!(paths, ["/w/a", "/w/b"]);
    }

    #[test]
    fn history_is_git_s_to_change_and_nobody_else_s() {
        for path in [
            "/w/.git/HEAD",
            "/w/.git/packed-refs",
            "/w/.git/refs/heads/main",
            "/w/.git/objects/12/3456789012345678901234567890123456789a",
            "/w/.git/objects/pack/pack-1.pack",
            "/w/x/.git/modules/m/objects/pack/pack-1.idx",
            "/w/.git/worktrees/one/HEAD",
            "/w/bare.git/objects/12/34567890123456789012345678901234567890",
        ] {
            assert!(is_of_history(&loss(path, Became::Rewritten, false)), "{path}");
            assert!(!is_of_history(&loss(path, Became::Deleted, true)), "{path}");
        }
        for path in [
            "/w/HEAD",
            "/w/.git/index",
            "/w/.git/COMMIT_EDITMSG",
            "/w/.git/refs/heads/main.lock",
            "/w/.git/objects/pack/tmp_pack_1",
            "/w/objects/12/ab",
            "/w/refs/x",
        ] {
            assert!(!is_of_history(&loss(path, Became::Deleted, false)), "{path}");
        }
    }

    #[test]
    fn part_of_a_history_leads_to_its_repository() {
        for (path, head, worktree) in [
            ("/w/.git/objects/pack/pack-1.pack", "/w/.git", "/w"),
            ("/w/.git/HEAD", "/w/.git", "/w"),
            ("/w/.git/logs/HEAD", "/w/.git", "/w"),
            ("/w/refs/x/.git/refs/heads/main", "/w/refs/x/.git", "/w/refs/x"),
            ("/w/.git/modules/m/refs/heads/main", "/w/.git/modules/m", "/w"),
            ("/w/objects/bare.git/objects/pack/pack-1.idx", "/w/objects/bare.git", "/w/objects/bare.git"),
        ] {
            assert_eq!(repository_of_history(Path::new(path)), (head.into(), worktree.into()), "{path}");
        }
    }

    #[test]
    fn limit_is_a_number_or_a_part_of_the_workspace() {
        let left = |number: u64| move |most: u64| number.min(most);
        let (files, percent) = (Some(AskLimit::Files), Some(AskLimit::Percent));
        assert_eq!(exceeded(50, USUAL, left(100_000)), None);
        assert_eq!(exceeded(51, USUAL, left(100_000)), files);
        assert_eq!(exceeded(11, USUAL, left(40)), percent, "11 of 51");
        assert_eq!(exceeded(11, USUAL, left(44)), None, "11 of 55 are exactly 20 %");
        assert_eq!(exceeded(10, USUAL, left(0)), None, "a few files are never a large part");
        assert_eq!(exceeded(3, AskLimits { files: 2, percent: 20 }, left(100_000)), files);
        assert!(!may_be_too_much(10, USUAL) && may_be_too_much(11, USUAL));
        assert!(may_be_too_much(1, AskLimits { files: 0, percent: 100 }));
        let counted = |limits, number| {
            let mut most = 0;
            exceeded(number, limits, |it| {
                most = it;
                0
            });
            most
        };
        assert_eq!(counted(USUAL, 20), 100, "no more files are counted than matter");
    }

    #[test]
    fn list_names_folders_with_counts_those_with_the_most_files_first() {
        let mut too_much = TooMuch::default();
        for number in 0..30 {
            too_much.files.push(format!("/w/src/deep/er/{number}").into());
        }
        too_much.files.push("/w/docs/a".into());
        too_much.files.push("/w/top".into());
        too_much.history.push("/w/.git/HEAD".into());
        too_much.history.push("/w/.git/refs/heads/main".into());
        let workspace = Path::new("/w");
        assert_eq!(
            too_much.summary(workspace),
            "deletes or empties 32 files in src/, ./, docs/, and deletes or rewrites 2 files of the history in .git"
        );
        assert_eq!(
            too_much.lines(workspace),
            [
                "delete or empty src/deep/ (30 files)",
                "delete or empty ./ (1 file)",
                "delete or empty docs/ (1 file)",
                "delete or rewrite .git/ (1 file)",
                "delete or rewrite .git/refs/ (1 file)"
            ]
        );
    }
}
