//! Workspace files for `@`: an index that its own thread builds and searches, so that no key waits for the disk.
//!
//! It leaves out files that git ignores, follows no symlink, and is bounded in entries and in time.

use std::{
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use kit::{
    Files as Hands,
    files::{EntryKind, Go, Ignored, Roots, Walk},
};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::fuzzy;

/// Maximum number of indexed files and folders.
const MOST: usize = 50_000;

/// Maximum duration of a walk.
const TIMEOUT: Duration = Duration::from_secs(3);

/// An older index is rebuilt at the next query.
const STALE: Duration = Duration::from_secs(5);

/// Maximum number of results.
const OFFERED: usize = 50;

/// The files of a workspace, searched while a person types.
pub(crate) struct Files {
    asked: mpsc::Sender<String>,
    found: watch::Receiver<Found>,
}

/// The result of a search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// The query.
    pub(crate) query: String,
    /// The paths, the best match first; a folder ends with `/`.
    pub(crate) paths: Vec<String>,
    /// A limit in time or entries was reached before all files were indexed.
    pub(crate) cut: bool,
}

impl Files {
    /// Creates the index of the workspace of these roots. It reads nothing before the first query. Without a thread it finds
    /// nothing.
    pub(crate) fn of(roots: Roots) -> Self {
        let (asked, questions) = mpsc::channel::<String>();
        let (tell, found) = watch::channel(Found::default());
        let work = move || {
            let mut index: Option<(Index, Instant)> = None;
            while let Ok(mut query) = questions.recv() {
                // Only the newest query counts.
                while let Ok(newer) = questions.try_recv() {
                    query = newer;
                }
                if index.as_ref().is_none_or(|(_, built)| built.elapsed() > STALE) {
                    index = Some((Index::build(&roots), Instant::now()));
                }
                let Some((index, _)) = &index else { return };
                let paths = index.best(&query);
                if tell.send(Found { query, paths, cut: index.cut }).is_err() {
                    return;
                }
            }
        };
        // Without a thread there are no choices; a path can still be typed.
        let _ = std::thread::Builder::new().name("haft-files".to_owned()).spawn(work);
        Self { asked, found }
    }

    /// Starts a search; its result arrives later.
    pub(crate) fn ask(&self, query: &str) {
        // Without its thread the index finds nothing.
        let _ = self.asked.send(query.to_owned());
    }

    /// Returns the result for this query, if it is available by now.
    pub(crate) fn found(&self, query: &str) -> Option<Found> {
        let found = self.found.borrow();
        (found.query == query && !(query.is_empty() && found.paths.is_empty())).then(|| found.clone())
    }

    /// Waits for a new result.
    pub(crate) async fn changed(&mut self) {
        if self.found.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// All paths of a workspace, up to the limits.
#[derive(Debug, Default)]
pub(crate) struct Index {
    paths: Vec<String>,
    cut: bool,
}

impl Index {
    /// Walks the workspace. Blocks for a bounded time.
    pub(crate) fn build(roots: &Roots) -> Self {
        let Ok(location) = roots.locate(".") else { return Self::default() };
        let files = Hands::reading(roots.clone(), location);
        let began = Instant::now();
        let (met, paths) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let walk = Walk { ignored: Ignored::Skip, depth: usize::MAX };
        let done = files.walk(".", walk, &|| Ok(()), &|it| {
            let path = it.path.to_str().filter(|path| !path.chars().any(char::is_control));
            if let Some(path) = path.filter(|_| it.kind != EntryKind::Special) {
                let end = if it.kind == EntryKind::Folder { "/" } else { "" };
                paths.lock().push(format!("{path}{end}"));
            }
            let count = met.fetch_add(1, Ordering::Relaxed);
            if count < MOST && began.elapsed() < TIMEOUT { Go::On } else { Go::Stop }
        });
        let cut = done.is_err() || met.into_inner() >= MOST || began.elapsed() >= TIMEOUT;
        let mut paths = paths.into_inner();
        paths.sort_unstable();
        Self { paths, cut }
    }

    /// Returns the paths that match best. Hidden names match only if the query has a name that begins with a dot.
    pub(crate) fn best(&self, query: &str) -> Vec<String> {
        let query = query.strip_prefix("./").unwrap_or(query);
        let is_hidden = |path: &str| path.split('/').any(|it| it.starts_with('.'));
        let dots = query.split('/').any(|it| it.starts_with('.'));
        let mut best: Vec<(i32, &str)> = if query.is_empty() {
            // The paths at the top come first.
            let depth = |path: &str| path.trim_end_matches('/').matches('/').count();
            self.paths.iter().map(|it| (-(depth(it).min(99) as i32), it.as_str())).collect()
        } else {
            self.paths.iter().filter_map(|it| Some((fuzzy::score(it, query)?, it.as_str()))).collect()
        };
        // A folder that is typed in full is not a choice any more: its content is.
        best.retain(|(_, path)| (dots || !is_hidden(path)) && !(path.ends_with('/') && *path == query));
        best.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| one.1.cmp(other.1)));
        best.into_iter().take(OFFERED).map(|(_, path)| path.to_owned()).collect()
    }

    /// Returns the path that was probably meant by one that does not exist.
    pub(crate) fn meant(&self, path: &str) -> Option<String> {
        let typed = path.trim_end_matches('/').to_lowercase();
        let name =
            |path: &str| path.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_lowercase();
        let wanted = name(&typed);
        let near =
            |it: &&String| super::commands::distance(&name(it), &wanted) <= 1 + wanted.chars().count() / 5;
        let by_name = self
            .paths
            .iter()
            .filter(near)
            .min_by_key(|it| (super::commands::distance(&it.to_lowercase(), &typed), it.len()));
        by_name.cloned().or_else(|| self.best(path).into_iter().next().filter(|_| wanted.len() > 2))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use kit::files::{OtherNames, RootSpec};

    use super::*;

    fn workspace(paths: &[&str]) -> (tempfile::TempDir, Roots) {
        let dir = tempfile::tempdir().unwrap();
        for path in paths {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let specs = [RootSpec { path: dir.path().to_owned(), read_only: false }];
        let roots = Roots::open(&specs, OtherNames::Refuse).unwrap();
        (dir, roots)
    }

    #[test]
    fn files_and_folders_are_found_at_any_depth_without_what_git_ignores() {
        let (dir, roots) = workspace(&["src/shop/cart.py", "src/main.py", "build/shop.o", "a b.txt", ".env"]);
        std::fs::create_dir(dir.path().join(".git")).unwrap();
        std::fs::write(dir.path().join(".gitignore"), "build/\n").unwrap();
        let index = Index::build(&roots);
        assert!(!index.cut);
        assert_eq!(index.best("shop")[..1], ["src/shop/"]);
        assert_eq!(index.best("crt"), ["src/shop/cart.py"]);
        assert_eq!(index.best("src/shop/"), ["src/shop/cart.py"]);
        assert_eq!(index.best("a b"), ["a b.txt"]);
        assert_eq!(index.best(""), ["a b.txt", "src/", "src/main.py", "src/shop/", "src/shop/cart.py"]);
        assert_eq!(index.best(".en"), [".env"]);
    }

    #[test]
    fn a_path_that_is_not_there_is_near_to_one_that_is() {
        let (_dir, roots) = workspace(&["README.md", "src/shop/cart.py", "src/main.rs"]);
        let index = Index::build(&roots);
        assert_eq!(index.meant("REDME.md").as_deref(), Some("README.md"));
        assert_eq!(index.meant("cart.py").as_deref(), Some("src/shop/cart.py"));
        assert_eq!(index.meant("src/man.rs").as_deref(), Some("src/main.rs"));
        assert_eq!(index.meant("zzz"), None);
    }

    #[tokio::test]
    async fn the_newest_question_is_answered_in_the_background() {
        let (_dir, roots) = workspace(&["one.txt", "two.txt"]);
        let mut files = Files::of(roots);
        assert_eq!(files.found("two"), None);
        files.ask("on");
        files.ask("two");
        while files.found("two").is_none() {
            files.changed().await;
        }
        assert_eq!(files.found("two").unwrap().paths, ["two.txt"]);
    }
}
