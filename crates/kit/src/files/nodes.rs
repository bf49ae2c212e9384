//! Files and symlinks by their names: a last symlink is never followed, and a change may set the executable bit.
//!
//! Changes of this kind come from elsewhere, as a whole: a file with its mode, or a symlink. What was there before is kept by
//! [`History::keep_node`](crate::services::History::keep_node), as an undo needs more of it than its content.

use std::{
    ffi::{OsStr, OsString},
    os::{fd::OwnedFd, unix::ffi::OsStringExt},
    path::{Component, Path},
};

use rustix::{
    fs::{
        AtFlags, FileType, Mode, OFlags, fstat, fsync, openat, readlinkat, renameat, statat, symlinkat,
        unlinkat,
    },
    io::Errno,
};

use super::{
    Before, EntryKind, Files, Loaded, Location,
    review::Wanted,
    roots::refused,
    save::{check_before, failed, folder, make_folders, moved_on},
    unnamed_file::{Nameless, temporary_name},
};
use crate::{Fault, services::After, text::Content, tool_writes};

/// The file of a name, which is not followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Named {
    /// Nothing, or a folder on the way is missing.
    Absent,
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symlink with this target.
    Link(OsString),
    /// A pipe, a socket, a device.
    Special,
}

/// The state that a change by [`Files::replace`] was planned on.
#[derive(Clone, Copy)]
pub enum Was<'a> {
    /// Nothing.
    Absent,
    /// This file.
    File(&'a Loaded),
    /// A symlink with this target.
    Link(&'a OsStr),
}

/// The state that a change by [`Files::replace`] makes.
#[derive(Clone, Copy)]
pub enum Becomes<'a> {
    /// Nothing.
    Gone,
    /// A regular file.
    File {
        /// Its content.
        content: &'a Content,
        /// Whether those who may read it may execute it.
        executable: bool,
    },
    /// A symlink with this target.
    Link(&'a OsStr),
}

/// A name in an open folder.
struct Spot {
    dir: OwnedFd,
    name: OsString,
    location: Location,
}

impl Files {
    /// Returns the place of a name and its kind, without following a last symlink. A symlink on the way is followed, so that
    /// the place may be another one than the path says.
    ///
    /// # Errors
    /// [`Kind::Denied`](crate::Kind::Denied) outside the grants, and those of the system.
    pub fn named(&self, path: &str) -> Result<(Location, Named), Fault> {
        let (above, name) = split(path)?;
        let parent = self.resolve(above)?;
        let location = parent.location.join(name);
        self.may_read(path, &location)?;
        self.not_hidden(path, &location)?;
        let Some(Spot { dir, name, .. }) = self.spot(path)? else { return Ok((location, Named::Absent)) };
        let stat = match statat(&dir, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok((location, Named::Absent)),
            Err(errno) => return Err(refused(path, "read", errno.into())),
        };
        let named = match EntryKind::from(FileType::from_raw_mode(stat.st_mode)) {
            EntryKind::File => Named::File,
            EntryKind::Folder => Named::Folder,
            EntryKind::Special => Named::Special,
            EntryKind::Link => {
                Named::Link(target(&dir, &name).map_err(|errno| refused(path, "read", errno.into()))?)
            }
        };
        Ok((location, named))
    }

    /// Replaces a file or a symlink, atomically and durably. Missing folders are created.
    ///
    /// # Errors
    /// [`Kind::Stale`](crate::Kind::Stale) when it is no longer as `was` says, [`Kind::Denied`](crate::Kind::Denied) outside
    /// the grants, and those of the disk. In each case it is unchanged.
    pub fn replace(&self, path: &str, was: Was<'_>, becomes: Becomes<'_>) -> Result<(), Fault> {
        if self.is_reviewed() {
            let change = self.reviewed_node(path, was, becomes)?;
            self.ask(vec![change.wanted()])?;
        }
        let _inside = self.begin_change()?;
        let spot = match self.spot(path)? {
            Some(spot) => spot,
            None if matches!(was, Was::Absent) => {
                let opened = self.resolve(path)?;
                self.may_write(path, &opened.location)?;
                let location = opened.location.clone();
                // An undo removes the folders that this makes.
                let absolute = location.absolute();
                let missing: Vec<&Path> =
                    absolute.ancestors().skip(1).take(opened.found.rest.len()).collect();
                for folder in missing.into_iter().rev() {
                    self.inner.history.keep_node(folder)?;
                    // Each is made before the next one is recorded, which is in it.
                    if let Some(inside) = folder.join("x").to_str() {
                        make_folders(inside, &self.resolve(inside)?)?;
                    }
                }
                let (dir, name) = make_folders(path, &self.resolve(path)?)?;
                Spot { dir, name, location }
            }
            None => return Err(moved_on(path)),
        };
        self.may_write(path, &spot.location)?;
        self.not_hidden(path, &spot.location)?;
        if !matches!(was, Was::Link(_)) {
            self.refuse_unsaved(path, &self.resolve(path)?)?;
        }
        self.check_node(path, &spot, was)?;
        let absolute = spot.location.absolute();
        self.inner.history.keep_node(&absolute)?;
        match becomes {
            Becomes::Gone => {
                self.check_node(path, &spot, was)?;
                unlinkat(&spot.dir, &spot.name, AtFlags::empty()).map_err(|errno| failed(path, errno))?;
            }
            Becomes::File { content, executable } => {
                let new = self.new_file(path, &spot, was, content, executable)?;
                let link = |name: &OsStr| new.link(&spot.dir, name);
                self.put_in_place(path, &spot, was, &link)?;
            }
            Becomes::Link(target) => {
                let link = |name: &OsStr| symlinkat(target, &spot.dir, name);
                self.put_in_place(path, &spot, was, &link)?;
            }
        }
        tool_writes::note(&absolute);
        fsync(&spot.dir).map_err(|errno| refused(path, "make durable the change of", errno.into()))
    }

    /// Gives the new file its name: at once if nothing has it, otherwise by a rename over the old one.
    fn put_in_place(
        &self,
        path: &str,
        spot: &Spot,
        was: Was<'_>,
        link: &dyn Fn(&OsStr) -> Result<(), Errno>,
    ) -> Result<(), Fault> {
        if matches!(was, Was::Absent) {
            return link(&spot.name).map_err(|errno| failed(path, errno));
        }
        let temporary = temporary_name();
        link(&temporary).map_err(|errno| failed(path, errno))?;
        let swapped = self.check_node(path, spot, was).and_then(|()| {
            renameat(&spot.dir, &temporary, &spot.dir, &spot.name).map_err(|errno| failed(path, errno))
        });
        if swapped.is_err() {
            let _ = unlinkat(&spot.dir, &temporary, AtFlags::empty());
        }
        swapped
    }

    fn new_file(
        &self,
        path: &str,
        spot: &Spot,
        was: Was<'_>,
        content: &Content,
        executable: bool,
    ) -> Result<Nameless, Fault> {
        let make = || {
            let new = match was {
                Was::File(old) => Nameless::instead_of(&spot.dir, &spot.name, old, content)?,
                Was::Absent | Was::Link(_) => Nameless::new(&spot.dir, content)?,
            };
            let mode = fstat(&new.file)?.st_mode & 0o777;
            // Whoever may read it may execute it, as git and `chmod +x` with a usual umask have it.
            let mode = if executable { mode | (mode & 0o444) >> 2 } else { mode & !0o111 };
            new.set_mode(Mode::from_raw_mode(mode))?;
            Ok(new)
        };
        make().map_err(|errno: Errno| failed(path, errno))
    }

    /// Opens the folder of a name; `None` if it does not exist.
    fn spot(&self, path: &str) -> Result<Option<Spot>, Fault> {
        let (above, name) = split(path)?;
        let parent = self.resolve(above)?;
        if !parent.exists() {
            return Ok(None);
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = match openat(&parent.found.dir, parent.name(), flags, Mode::empty()) {
            Ok(dir) => dir,
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
            Err(errno) => return Err(refused(path, "open the folder of", errno.into())),
        };
        let location = parent.location.join(name);
        Ok(Some(Spot { dir: folder(&dir, path)?, name: name.into(), location }))
    }

    fn check_node(&self, path: &str, spot: &Spot, was: Was<'_>) -> Result<(), Fault> {
        let before = match was {
            Was::Absent => Before::Absent,
            Was::File(loaded) => Before::Was(loaded),
            Was::Link(old) => {
                return match target(&spot.dir, &spot.name) {
                    Ok(now) if now == *old => Ok(()),
                    _ => Err(moved_on(path)),
                };
            }
        };
        check_before(&spot.dir, &spot.name, path, &spot.location, before).map(drop)
    }

    fn not_hidden(&self, path: &str, location: &Location) -> Result<(), Fault> {
        if self.roots().is_hidden(&location.absolute()) {
            return Err(Fault::denied(format!(
                "`{path}` is hidden because it holds credentials or is haft's own"
            )));
        }
        Ok(())
    }

    /// Returns the change as a person is shown it.
    pub(super) fn reviewed_node(
        &self,
        path: &str,
        was: Was<'_>,
        becomes: Becomes<'_>,
    ) -> Result<ReviewedNode, Fault> {
        let (location, _) = self.named(path)?;
        self.may_write(path, &location)?;
        let link = |target: &OsStr| Content::from(format!("symlink to {}", target.display()).into_bytes());
        let before = match was {
            Was::Absent => None,
            Was::File(loaded) => Some(loaded.bytes.clone()),
            Was::Link(target) => Some(link(target)),
        };
        let after = match becomes {
            Becomes::Gone => None,
            Becomes::File { content, .. } => Some(content.clone()),
            Becomes::Link(target) => Some(link(target)),
        };
        Ok(ReviewedNode { file: location.absolute(), shown: [before, after] })
    }
}

/// A change as a person is shown it.
pub(super) struct ReviewedNode {
    file: std::path::PathBuf,
    shown: [Option<Content>; 2],
}

impl ReviewedNode {
    pub(super) fn wanted(&self) -> Wanted<'_> {
        let [before, after] = &self.shown;
        Wanted {
            file: self.file.clone(),
            before: before.as_ref(),
            after: after.as_ref().map_or(After::Gone, After::Holds),
            digest: after.as_ref().map(Content::digest),
        }
    }
}

fn target(dir: &OwnedFd, name: &OsStr) -> Result<OsString, Errno> {
    readlinkat(dir, name, Vec::new()).map(|it| OsString::from_vec(it.into_bytes()))
}

/// Splits a path into its folder and its name.
fn split(path: &str) -> Result<(&str, &OsStr), Fault> {
    let whole = Path::new(path);
    match (whole.components().next_back(), whole.parent().and_then(Path::to_str)) {
        (Some(Component::Normal(name)), Some(above)) => {
            Ok((if above.is_empty() { "." } else { above }, name))
        }
        _ => Err(Fault::bad_args(format!("`{path}` does not name a file"))),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::{
        fs,
        os::unix::fs::{PermissionsExt, symlink},
        sync::Arc,
    };

    use parking_lot::Mutex;

    use super::*;
    use crate::{
        Kind,
        files::{Access, Grant},
        services::History,
        testing::TestWorkspace,
    };

    /// A history that records the paths that it was to keep.
    #[derive(Default)]
    struct KeptPaths(Mutex<Vec<String>>);

    impl History for KeptPaths {
        fn keep(&self, _: &Path, _: Option<&Content>, _: Option<&Content>) -> Result<(), Fault> {
            Err(Fault::bug("a content alone was to be kept"))
        }

        fn keep_node(&self, path: &Path) -> Result<(), Fault> {
            self.0.lock().push(path.file_name().unwrap().display().to_string());
            Ok(())
        }
    }

    fn files(test_ws: &TestWorkspace) -> (Files, Arc<KeptPaths>) {
        let roots = test_ws.cx().files().roots().clone();
        let grant = |path: &str| {
            let location = roots.locate(".").unwrap().join(path);
            Grant { location, access: Access::Write }
        };
        let kept = Arc::new(KeptPaths::default());
        (Files::new(roots.clone(), ["a", "b", "d/c"].map(grant).to_vec(), kept.clone()), kept)
    }

    fn mode(test_ws: &TestWorkspace, path: &str) -> u32 {
        fs::symlink_metadata(test_ws.path().join(path)).unwrap().permissions().mode() & 0o111
    }

    #[test]
    fn files_and_symlinks_replace_each_other_and_the_executable_bit_is_set() {
        let test_ws = TestWorkspace::new("//- a\none\n");
        let (files, kept) = files(&test_ws);
        let content = Content::from(b"run\n".as_slice());
        let executable = Becomes::File { content: &content, executable: true };
        files.replace("d/c", Was::Absent, executable).unwrap();
        assert_eq!(
            (mode(&test_ws, "d/c") & 0o100, test_ws.bytes("d/c").as_slice()),
            (0o100, b"run\n".as_slice())
        );
        let loaded = files.load("a", 100).unwrap();
        files.replace("a", Was::File(&loaded), Becomes::Link(OsStr::new("d/c"))).unwrap();
        assert_eq!(files.named("a").unwrap().1, Named::Link("d/c".into()));
        let stale = files.replace("a", Was::Link(OsStr::new("other")), Becomes::Gone).unwrap_err();
        assert_eq!(stale.kind, Kind::Stale);
        let plain = Becomes::File { content: &content, executable: false };
        files.replace("a", Was::Link(OsStr::new("d/c")), plain).unwrap();
        assert_eq!((files.named("a").unwrap().1, mode(&test_ws, "a")), (Named::File, 0));
        let loaded = files.load("d/c", 100).unwrap();
        fs::write(test_ws.path().join("d/c"), "theirs").unwrap();
        assert_eq!(files.replace("d/c", Was::File(&loaded), Becomes::Gone).unwrap_err().kind, Kind::Stale);
        assert_eq!(test_ws.bytes("d/c"), b"theirs");
        assert_eq!(*kept.0.lock(), ["d", "c", "a", "a"], "what is refused is not recorded");
    }

    #[test]
    fn a_symlink_on_the_way_shows_in_the_place_and_needs_its_own_grant() {
        let test_ws = TestWorkspace::new("//- e/x\none\n");
        symlink("e", test_ws.path().join("d")).unwrap();
        let roots = test_ws.cx().files().roots().clone();
        let (location, named) = test_ws.cx().files().named("d/x").unwrap();
        assert_eq!((location.to_string(), named), ("e/x".to_owned(), Named::File));
        assert_eq!(test_ws.cx().files().named("e/x/y").unwrap().1, Named::Absent);
        let (files, _) = files(&test_ws);
        let made = files.replace("d/c", Was::Absent, Becomes::Link(OsStr::new("x")));
        assert_eq!(made.unwrap_err().kind, Kind::Denied, "{:?}", roots.workspace());
        assert!(!test_ws.path().join("e/c").is_symlink());
    }
}
