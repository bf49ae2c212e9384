//! Whole folders: lists one, creates one, moves one, and removes an empty one.
//!
//! Only folders that consist of regular files and folders are handled; anything that undo could not restore
//! is refused.

use std::{
    ffi::OsStr,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, Dir, Mode, OFlags, RenameFlags, fsync, mkdirat, openat, renameat_with, statat, unlinkat},
    io::Errno,
};

use super::{
    Before, EntryKind, Files, Loaded, Location, Roots,
    roots::refused,
    save::{failed, folder, make_folders, moved_on, still},
};
use crate::{Fault, Kind, services::After};

/// Limits of a folder that is handled as a whole: entries, and depth.
const MOST: usize = 1_000;
const DEEPEST: usize = 32;

/// The contents of a folder, as paths below it. Each folder comes before its contents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree {
    /// The folders below the one itself.
    pub folders: Vec<PathBuf>,
    /// The regular files.
    pub files: Vec<PathBuf>,
}

impl Tree {
    /// Returns the empty folders.
    pub fn empty_folders(&self) -> impl Iterator<Item = &Path> {
        let all = || self.folders.iter().chain(&self.files);
        let is_empty = move |it: &&PathBuf| !all().any(|other| other.parent() == Some(it));
        self.folders.iter().filter(is_empty).map(PathBuf::as_path)
    }
}

impl Roots {
    /// Returns the places of a [`Touch::WriteTree`](crate::Touch::WriteTree): `path`, and the contents of it
    /// or of `like`.
    ///
    /// # Errors
    /// Those of [`Files::tree`].
    pub fn tree_places(&self, path: &str, like: Option<&str>) -> Result<Vec<Location>, Fault> {
        let top = self.locate(path)?;
        let model = like.unwrap_or(path);
        let tree = Files::reading(self.clone(), self.locate(model)?).tree(model)?;
        let below = tree.into_iter().flat_map(|it| it.folders.into_iter().chain(it.files));
        let below: Vec<Location> = below.map(|it| top.join(it)).collect();
        Ok([vec![top], below].concat())
    }
}

impl Files {
    /// Lists everything below a folder that this call was granted to read; `None` if `dir` is not a folder.
    ///
    /// # Errors
    /// [`Kind::Denied`] when it holds credentials, haft's own files or another root; [`Kind::BadArgs`] when
    /// it holds a symlink or a special file; [`Kind::TooBig`] when there is too much.
    pub fn tree(&self, dir: &str) -> Result<Option<Tree>, Fault> {
        let opened = self.resolve(dir)?;
        self.may_read(dir, &opened.location)?;
        if !opened.exists() {
            return Ok(None);
        }
        // A move or a removal acts on the name, so there must be one.
        if opened.found.name.is_none() {
            return Err(match opened.location.relative().as_os_str().is_empty() {
                true => is_a_root(dir),
                false => Fault::bad_args(format!("`{dir}` ends in `..`; name the folder itself")),
            });
        }
        let handle = match openat(&opened.found.dir, opened.name(), INTO, Mode::empty()) {
            Ok(handle) => handle,
            Err(Errno::NOTDIR) => return Ok(None),
            Err(errno) => return Err(refused(dir, "list", errno.into())),
        };
        self.not_a_link(dir, &opened.location)?;
        let mut survey = Survey { roots: self.roots(), dir, top: &opened.location, tree: Tree::default() };
        survey.enter(&handle, Path::new(""), 1)?;
        Ok(Some(survey.tree))
    }

    /// Checks that the last name of this path is that of the place itself, not of a symlink to it: moving or
    /// deleting would act on the symlink.
    fn not_a_link(&self, dir: &str, place: &Location) -> Result<(), Fault> {
        let named = Path::new(dir);
        let (Some(parent), Some(name)) = (named.parent().and_then(Path::to_str), named.file_name()) else {
            return Ok(());
        };
        if self.resolve(parent).is_ok_and(|it| it.location.join(name).is(place)) {
            return Ok(());
        }
        Err(Fault::bad_args(format!("`{dir}` is a symlink to `{place}`")).next("Name the folder itself."))
    }

    /// Creates a folder, and those missing on the way.
    ///
    /// # Errors
    /// Those of [`save`](Self::save).
    pub fn make_folder(&self, path: &str) -> Result<(), Fault> {
        let _inside = self.begin_change()?;
        let opened = self.resolve(path)?;
        self.may_write(path, &opened.location)?;
        let (dir, name) = make_folders(path, &opened)?;
        mkdirat(&dir, &name, Mode::from_raw_mode(0o777))
            .and_then(|()| fsync(&dir))
            .map_err(|errno| refused(path, "make the folder", errno.into()))
    }

    /// Removes an empty folder.
    ///
    /// # Errors
    /// [`Kind::Stale`] when it is not empty; those of [`save`](Self::save).
    pub fn remove_folder(&self, path: &str) -> Result<(), Fault> {
        let _inside = self.begin_change()?;
        let opened = self.resolve(path)?;
        self.may_write(path, &opened.location)?;
        let name = opened.found.name.as_deref().ok_or_else(|| is_a_root(path))?;
        let dir = folder(&opened.found.dir, path)?;
        match unlinkat(&dir, name, AtFlags::REMOVEDIR).and_then(|()| fsync(&dir)) {
            Ok(()) => Ok(()),
            Err(Errno::NOTEMPTY | Errno::EXIST) => Err(Fault::new(
                Kind::Stale,
                format!("the folder `{path}` is not empty: another program put something there just now"),
            )),
            Err(errno) => Err(refused(path, "remove the folder", errno.into())),
        }
    }

    /// Moves a folder in one step: all of it or nothing. `holds` is all its files, by their paths below it.
    ///
    /// # Errors
    /// [`Kind::Stale`] when a file is no longer as `holds` says, or when something exists at `to`; those of
    /// [`save`](Self::save). Nothing was changed then.
    pub fn move_folder(&self, from: &str, to: &str, holds: &[(PathBuf, Loaded)]) -> Result<(), Fault> {
        let pairs: Vec<(String, String, &Loaded)> = holds
            .iter()
            .map(|(below, loaded)| Ok((text_of(from, below)?, text_of(to, below)?, loaded)))
            .collect::<Result<_, Fault>>()?;
        if self.is_reviewed() {
            for (old, new, loaded) in &pairs {
                self.review(new, Before::Absent, After::Holds(&loaded.bytes), Some(loaded.bytes.digest()))?;
                self.review(old, Before::Was(loaded), After::Gone, None)?;
            }
        }
        let _inside = self.begin_change()?;
        let (source, target) = (self.resolve(from)?, self.resolve(to)?);
        self.may_write(from, &source.location)?;
        self.may_write(to, &target.location)?;
        let mut moved = Vec::new();
        for (old, new, loaded) in &pairs {
            let (gone, made) = (self.resolve(old)?, self.resolve(new)?);
            self.may_write(old, &gone.location)?;
            self.may_write(new, &made.location)?;
            self.refuse_unsaved(old, &gone)?;
            still(old, &gone, Before::Was(loaded))?;
            moved.push((gone.location.absolute(), made.location.absolute(), &loaded.bytes));
        }
        let now = self.tree(from)?.ok_or_else(|| moved_on(from))?;
        if now.files.len() != holds.len() {
            return Err(moved_on(from));
        }
        let name = source.found.name.as_deref().ok_or_else(|| is_a_root(from))?;
        let source_dir = folder(&source.found.dir, from)?;
        for (gone, made, bytes) in &moved {
            self.inner.history.keep(gone, Some(bytes), None)?;
            self.inner.history.keep(made, None, Some(bytes))?;
        }
        let (target_dir, new_name) = make_folders(to, &target)?;
        renameat_with(&source_dir, name, &target_dir, &new_name, RenameFlags::NOREPLACE)
            .map_err(|errno| not_moved(from, to, errno))?;
        for (gone, made, bytes) in &moved {
            self.inner.history.landed(made, None, After::Holds(bytes));
            self.inner.history.landed(gone, Some(bytes), After::Gone);
        }
        fsync(&source_dir)
            .and_then(|()| fsync(&target_dir))
            .map_err(|errno| refused(to, "make durable the move to", errno.into()))
    }
}

/// Flags to open a folder for reading its names, not through a symlink.
const INTO: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A listing of everything in a folder. It goes by handles, so nothing that is renamed meanwhile leads it elsewhere.
struct Survey<'a> {
    roots: &'a Roots,
    dir: &'a str,
    top: &'a Location,
    tree: Tree,
}

impl Survey<'_> {
    fn enter(&mut self, handle: &OwnedFd, at: &Path, depth: usize) -> Result<(), Fault> {
        let dir = self.dir;
        let here = self.top.join(at).absolute();
        let hidden = self.roots.hidden_in(&here);
        let mut names = Vec::new();
        let listed = Dir::read_from(handle).map_err(|errno| refused(dir, "list", errno.into()))?;
        for entry in listed {
            let entry = entry.map_err(|errno| refused(dir, "list", errno.into()))?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes()).to_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
            if self.tree.folders.len() + self.tree.files.len() + names.len() > MOST {
                let what = format!("`{dir}` holds more than {MOST} files and folders");
                return Err(Fault::new(Kind::TooBig, what)
                    .next("Take its folders one by one, or use a command of the shell."));
            }
        }
        names.sort_unstable();
        for name in names {
            let path = at.join(&name);
            let shown = Path::new(dir).join(&path);
            let absolute = here.join(&name);
            if hidden.contains(&name) || self.roots.is_hidden(&absolute) {
                let what =
                    format!("`{dir}` holds what is hidden because it holds credentials or is haft's own");
                return Err(Fault::denied(format!("{what} (rule `credentials`)"))
                    .next("Take what else is in it, by name."));
            }
            if self.roots.list().any(|(root, _)| root == absolute) {
                let what = format!("`{dir}` holds `{}`, which is a root of its own", shown.display());
                return Err(Fault::denied(what).next("Take what else is in it, by name."));
            }
            let stat = statat(handle, &name, AtFlags::SYMLINK_NOFOLLOW)
                .map_err(|errno| refused(&shown.to_string_lossy(), "look at", errno.into()))?;
            match EntryKind::from(rustix::fs::FileType::from_raw_mode(stat.st_mode)) {
                EntryKind::File => self.tree.files.push(path),
                EntryKind::Folder if depth >= DEEPEST => {
                    return Err(Fault::new(
                        Kind::TooBig,
                        format!("`{dir}` is more than {DEEPEST} folders deep"),
                    )
                    .next("Take its folders one by one, or use a command of the shell."));
                }
                EntryKind::Folder => {
                    let inside = openat(handle, &name, INTO, Mode::empty())
                        .map_err(|errno| refused(&shown.to_string_lossy(), "list", errno.into()))?;
                    self.tree.folders.push(path.clone());
                    self.enter(&inside, &path, depth + 1)?;
                }
                kind @ (EntryKind::Link | EntryKind::Special) => {
                    let what = if kind == EntryKind::Link { "a symlink" } else { "not a regular file" };
                    let what = format!("`{dir}` holds `{}`, which is {what}", shown.display());
                    return Err(Fault::bad_args(format!("{what}: an undo could not put it back"))
                        .next("Take what else is in it, by name, or use a command of the shell."));
                }
            }
        }
        Ok(())
    }
}

/// Returns the path of something below a folder, as a model writes it.
fn text_of(dir: &str, below: &Path) -> Result<String, Fault> {
    let path = Path::new(dir).join(below);
    path.to_str().map(str::to_owned).ok_or_else(|| {
        Fault::bad_args(format!("`{}` has a name that is not UTF-8; nothing was changed", path.display()))
    })
}

fn is_a_root(path: &str) -> Fault {
    let path = if path.is_empty() { "." } else { path };
    Fault::denied(format!("`{path}` is a root: a person gave it, and it stays"))
}

fn not_moved(from: &str, to: &str, errno: Errno) -> Fault {
    match errno {
        Errno::XDEV => Fault::new(
            Kind::Unavailable,
            format!("`{from}` and `{to}` are on different file systems; nothing was changed"),
        )
        .next("Copy the folder, then delete it."),
        Errno::EXIST | Errno::NOTEMPTY => {
            Fault::new(Kind::Stale, format!("`{to}` exists; nothing was changed"))
        }
        Errno::INVAL => {
            Fault::bad_args(format!("`{to}` lies in `{from}`; a folder can't be moved into itself"))
        }
        errno => failed(from, errno),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::{fs, os::unix::fs::symlink};

    use super::*;
    use crate::{Touch, Touches, testing::TestWorkspace};

    fn files(test_ws: &TestWorkspace, paths: &[(&str, Option<&str>)]) -> Files {
        let touch = |(path, like): &(&str, Option<&str>)| Touch::WriteTree {
            path: (*path).to_owned(),
            like: like.map(str::to_owned),
        };
        let touches = paths.iter().map(touch).fold(Touches::none(), Touches::and);
        test_ws.cx_for(&touches).files().clone()
    }

    fn holds(files: &Files, dir: &str) -> Vec<(PathBuf, Loaded)> {
        let tree = files.tree(dir).unwrap().unwrap();
        let load = |it: PathBuf| {
            let loaded = files.load(&text_of(dir, &it).unwrap(), 1 << 20).unwrap();
            (it, loaded)
        };
        tree.files.into_iter().map(load).collect()
    }

    #[test]
    fn a_folder_is_moved_whole_and_only_as_it_was() {
        let test_ws = TestWorkspace::new("//- a/x\none\n//- a/b/y\ntwo\n");
        fs::create_dir(test_ws.path().join("a/empty")).unwrap();
        let files = files(&test_ws, &[("a", None), ("to/b", Some("a"))]);
        let all = holds(&files, "a");
        fs::write(test_ws.path().join("a/new"), "theirs").unwrap();
        assert_eq!(files.move_folder("a", "to/b", &all).unwrap_err().kind, Kind::Stale);
        fs::remove_file(test_ws.path().join("a/new")).unwrap();
        fs::write(test_ws.path().join("a/x"), "other\n").unwrap();
        assert_eq!(files.move_folder("a", "to/b", &all).unwrap_err().kind, Kind::Stale);
        fs::write(test_ws.path().join("a/x"), "one\n").unwrap();
        let all = holds(&files, "a");
        files.move_folder("a", "to/b", &all).unwrap();
        assert_eq!(test_ws.bytes("to/b/b/y"), b"two\n");
        assert!(test_ws.path().join("to/b/empty").is_dir() && !test_ws.path().join("a").exists());
    }

    #[test]
    fn a_change_that_undo_could_not_revert_is_refused() {
        let test_ws = TestWorkspace::new("//- a/x\none\n//- b/y\ntwo\n//- c/key\nthree\n");
        symlink("x", test_ws.path().join("a/link")).unwrap();
        let said = test_ws.cx().files().tree("a").unwrap_err();
        assert!(said.kind == Kind::BadArgs && said.what.contains("`a/link`, which is a symlink"), "{said}");
        symlink("b", test_ws.path().join("to_b")).unwrap();
        let said = test_ws.cx().files().tree("to_b").unwrap_err();
        assert_eq!(said.what, "`to_b` is a symlink to `b`");
        assert!(test_ws.cx().files().tree("./b/.").unwrap().is_some());
        for at in 0..=MOST {
            fs::write(test_ws.path().join(format!("b/{at}")), "").unwrap();
        }
        assert_eq!(test_ws.cx().files().tree("b").unwrap_err().kind, Kind::TooBig);
        assert_eq!(test_ws.cx().files().tree("a/x").unwrap(), None);
        assert_eq!(test_ws.cx().files().tree("no").unwrap(), None);
        let key = test_ws.path().join("c/key");
        let hidden = test_ws.cx().files().roots().hiding(&[], || vec![key]);
        assert_eq!(hidden.tree_places("c", None).unwrap_err().kind, Kind::Denied);
    }

    #[test]
    fn a_folder_is_removed_only_empty_and_only_where_that_was_granted() {
        let test_ws = TestWorkspace::new("//- a/x\none\n");
        let granted = files(&test_ws, &[("a", None), ("new", None)]);
        assert_eq!(granted.remove_folder("a").unwrap_err().kind, Kind::Stale);
        granted.make_folder("new").unwrap();
        assert_eq!(test_ws.cx().files().remove_folder("new").unwrap_err().kind, Kind::Denied);
        granted.remove_folder("new").unwrap();
        assert!(!test_ws.path().join("new").exists());
        assert_eq!(files(&test_ws, &[(".", None)]).remove_folder(".").unwrap_err().kind, Kind::Denied);
    }
}
