//! Index of control files below a root: a full walk, and after that only the folders that changed.
//!
//! Creating, removing or renaming a name in a folder changes that folder's change time (ctime), which no
//! program can set. So a folder with the same time holds the same names, and a later walk costs one `lstat`
//! per folder.

use std::{
    collections::HashMap,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use kit::tool_writes::{State, state};
use parking_lot::Mutex;

use super::{ends_in_control, is_control_folder};

/// A folder that was changed this shortly before it was read may change again without another time: some file
/// systems keep whole seconds.
const COARSE: Duration = Duration::from_millis(2500);

/// Folders that a program fills and replaces: read-only mounts would break it.
const VENDORED: &[&str] = &[
    "node_modules",
    "target",
    ".venv",
    "venv",
    "__pycache__",
    ".tox",
    ".mypy_cache",
    ".cache",
    "bower_components",
];

/// The cached contents of the roots. Cheap to clone; all clones share their state.
#[derive(Debug, Clone, Default)]
pub struct Index {
    roots: Arc<Mutex<HashMap<PathBuf, Known>>>,
}

/// The control files and repositories below a root.
#[derive(Debug, Default, Clone)]
pub(crate) struct Scan {
    /// Control files and folders, each the outermost one, without those of git.
    pub(crate) control: Vec<Place>,
    /// Each `.git`, and each folder that looks like one; without the root's own.
    pub(crate) repositories: Vec<PathBuf>,
}

/// A control file or folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// Its path.
    pub path: PathBuf,
    /// Whether it lies in a folder that a package manager or a build fills.
    pub(crate) vendored: bool,
}

#[derive(Debug, Default)]
struct Known {
    folders: HashMap<PathBuf, Folder>,
}

/// The names in a folder when it was read.
#[derive(Debug, Clone, Default)]
struct Folder {
    /// Its device, its inode and its change time; `None`, if they can't be relied on.
    state: Option<State>,
    folders: Vec<OsString>,
    control: Vec<OsString>,
    /// Whether it contains a `.git`.
    has_git: bool,
    /// Whether it is a git folder.
    is_git_s: bool,
}

impl Index {
    /// Scans everything below this root. Symlinks are not followed.
    pub(crate) fn scan(&self, root: &Path) -> Scan {
        let mut roots = self.roots.lock();
        let known = roots.entry(root.to_owned()).or_default();
        let mut before = std::mem::take(&mut known.folders);
        let mut scan = Scan::default();
        let mut waiting = vec![(root.to_owned(), false)];
        while let Some((path, vendored)) = waiting.pop() {
            let folder = match before.remove(&path) {
                Some(folder) if folder.state.is_some() && folder.state == state(&path) => folder,
                _ => Folder::read(&path),
            };
            let place = |name: &OsString| Place { path: path.join(name), vendored };
            scan.control.extend(folder.control.iter().map(place));
            if path != root {
                scan.repositories.extend(folder.has_git.then(|| path.join(".git")));
                scan.repositories.extend(folder.is_git_s.then(|| path.clone()));
            }
            let below = folder
                .folders
                .iter()
                .map(|name| (path.join(name), vendored || VENDORED.iter().any(|it| name == *it)));
            waiting.extend(below);
            known.folders.insert(path, folder);
        }
        scan.control.sort_by(|one, other| one.path.cmp(&other.path));
        scan.repositories.sort();
        scan
    }
}

impl Folder {
    fn read(path: &Path) -> Self {
        // The time is read first: a later change is seen at the next scan.
        let state = state(path).filter(|it| is_settled(it.2, it.3));
        let mut folder = Self { state, ..Self::default() };
        let (mut head, mut objects, mut refs) = (false, false, false);
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let is_folder = entry.file_type().is_ok_and(|it| it.is_dir());
            match name.to_str() {
                Some("HEAD") => head = true,
                Some("objects") => objects = is_folder,
                Some("refs") => refs = is_folder,
                _ => {}
            }
            if name.eq_ignore_ascii_case(".git") {
                folder.has_git = true;
                continue;
            }
            let at = path.join(&name);
            if ends_in_control(&at) {
                // A folder with the name of a control file is an ordinary folder.
                if !is_folder || is_control_folder(&at) {
                    folder.control.push(name);
                    continue;
                }
            }
            if is_folder {
                folder.folders.push(name);
            }
        }
        if head && objects && refs {
            // Everything below a git folder belongs to git.
            return Self { is_git_s: true, state: folder.state, ..Self::default() };
        }
        folder
    }
}

fn is_settled(seconds: i64, nanoseconds: i64) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (Ok(seconds), Ok(nanoseconds)) = (u64::try_from(seconds), u32::try_from(nanoseconds)) else {
        return false;
    };
    Duration::new(seconds, nanoseconds) + COARSE < now
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn names(scan: &Scan, root: &Path) -> Vec<String> {
        let control = scan.control.iter().map(|it| (&it.path, if it.vendored { " vendored" } else { "" }));
        let git = scan.repositories.iter().map(|it| (it, " git"));
        control
            .chain(git)
            .map(|(path, mark)| format!("{}{mark}", path.strip_prefix(root).unwrap().display()))
            .collect()
    }

    #[test]
    fn a_walk_finds_everything_at_any_depth_and_sees_what_is_new() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for file in [
            ".envrc",
            "a/b/c/d/e/f/.vscode/tasks.json",
            "node_modules/x/.npmrc",
            "node_modules/x/.git/HEAD",
            "bare/HEAD",
            "bare/objects/x",
            "bare/refs/x",
            "bare/hooks/.envrc",
            ".config/nvim/init.lua",
            "mise.toml/x/AGENTS.md",
        ] {
            fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
            fs::write(root.join(file), "").unwrap();
        }
        let index = Index::default();
        let expected = [
            ".config/nvim",
            ".envrc",
            "a/b/c/d/e/f/.vscode",
            "mise.toml/x/AGENTS.md",
            "node_modules/x/.npmrc vendored",
            "bare git",
            "node_modules/x/.git git",
        ];
        assert_eq!(names(&index.scan(&root), &root), expected);
        assert_eq!(names(&index.scan(&root), &root), expected);
        fs::write(root.join("a/b/c/CLAUDE.md"), "").unwrap();
        fs::remove_file(root.join(".envrc")).unwrap();
        let now = names(&index.scan(&root), &root);
        assert!(
            now.contains(&"a/b/c/CLAUDE.md".to_owned()) && !now.contains(&".envrc".to_owned()),
            "{now:?}"
        );
    }

    #[test]
    fn a_folder_that_changed_just_now_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Folder::read(dir.path()).state, None);
        assert!(is_settled(1, 1));
    }
}
