//! Roots: the allowed folders, and the resolution of paths in them.

use std::{
    ffi::OsString,
    fmt, io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use parking_lot::Mutex;
use rustix::{
    fs::{Mode, OFlags, open},
    io::Errno,
};

use super::{
    beneath::{self, Astray, Found},
    hidden::{Folders, Hidden, canonical_folder},
    line_index::LineIndexes,
    links::HardLinks,
    unsaved::Buffers,
};
use crate::{Fault, Kind, deliberate_faults::is_broken};

/// Longer paths are refused before the system does, with a clear message.
const MAX_PATH: usize = 4096;

/// Maximum number of symlinks from one root into another.
const MAX_HOPS: usize = 8;

/// A folder to open as a root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootSpec {
    /// Its path.
    pub path: PathBuf,
    /// Whether everything below it is read-only.
    pub read_only: bool,
}

/// The treatment of a file that has other names, which may lie outside the roots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OtherNames {
    /// Refuse to read it, unless all its names are below the roots.
    #[default]
    Refuse,
    /// Read it like any other.
    Allow,
}

/// The allowed folders; the first is the workspace. Cheap to clone.
#[derive(Clone)]
pub struct Roots {
    roots: Vec<Arc<Root>>,
    /// The folder of spilled outputs, which are read by their handle: `out_12`.
    shelf: Option<Arc<Root>>,
    /// The folder below the workspace at which relative paths begin, if it is another one.
    base: Option<Arc<Path>>,
    /// None, if nothing is hidden.
    hidden: Option<Arc<Hidden>>,
    pub(super) caches: Arc<Caches>,
}

/// Caches about files that live longer than one call.
pub(super) struct Caches {
    pub(super) indexes: LineIndexes,
    pub(super) links: Mutex<HardLinks>,
    pub(super) other_names: OtherNames,
    /// The editor whose texts count before the disk's.
    pub(super) buffers: OnceLock<Arc<dyn Buffers>>,
}

/// One open folder: everything below it is opened through its handle.
pub(super) struct Root {
    pub(super) dir: OwnedFd,
    /// Without symlinks.
    path: PathBuf,
    /// The path as configured, made absolute: the model may use this spelling.
    given: PathBuf,
    read_only: bool,
}

/// A place below a root, with every symlink resolved.
#[derive(Clone)]
pub struct Location {
    pub(super) root: Arc<Root>,
    pub(super) rel: PathBuf,
    workspace: bool,
}

/// A location together with the handle that it was resolved through.
pub(super) struct Opened {
    pub(super) location: Location,
    pub(super) found: Found,
}

impl Roots {
    /// Opens the folders; the first is the workspace.
    ///
    /// # Errors
    /// [`Kind::NotFound`] when one does not exist, [`Kind::BadArgs`] when it is not a folder.
    pub fn open(specs: &[RootSpec], other_names: OtherNames) -> Result<Self, Fault> {
        let roots = specs.iter().map(|spec| Root::open(spec).map(Arc::new)).collect::<Result<Vec<_>, _>>()?;
        if roots.is_empty() {
            return Err(Fault::bug("no root was given"));
        }
        let caches = Caches {
            indexes: LineIndexes::default(),
            links: Mutex::new(HardLinks::default()),
            other_names,
            buffers: OnceLock::new(),
        };
        Ok(Self { roots, shelf: None, base: None, hidden: None, caches: Arc::new(caches) })
    }

    /// Adds a folder whose files can be read by their bare names `out_1`, `out_2`, ….
    ///
    /// # Errors
    /// When the folder can't be opened.
    pub fn with_shelf(&self, dir: &Path) -> Result<Self, Fault> {
        let shelf = Root::open(&RootSpec { path: dir.to_owned(), read_only: true })?;
        Ok(Self { shelf: Some(Arc::new(shelf)), ..self.clone() })
    }

    /// Has relative paths begin at a folder of the workspace. One that does not exist there, and exists below the workspace, is
    /// that one: tools name what they find by its path below the workspace.
    ///
    /// # Errors
    /// When it is not a folder of the workspace.
    pub fn with_base(&self, folder: &str) -> Result<Self, Fault> {
        let at = Self { base: None, ..self.clone() }.locate(folder)?;
        if !at.workspace || !at.absolute().is_dir() {
            return Err(Fault::not_found(format!("`{folder}` is not a folder of the workspace")));
        }
        let base = Some(at.rel.as_path()).filter(|it| !it.as_os_str().is_empty()).map(Arc::from);
        Ok(Self { base, ..self.clone() })
    }

    /// Has relative paths begin where those of `other` begin.
    #[must_use]
    pub fn with_base_of(&self, other: &Self) -> Self {
        Self { base: other.base.clone(), ..self.clone() }
    }

    /// Returns the workspace's canonical path.
    pub fn workspace(&self) -> &Path {
        self.roots.first().map_or(Path::new("/"), |root| &root.path)
    }

    /// Returns the roots' canonical paths, and whether they are read-only.
    pub fn list(&self) -> impl Iterator<Item = (&Path, bool)> {
        self.roots.iter().map(|root| (root.path.as_path(), root.read_only))
    }

    /// Resolves `path`, as a model wrote it. It need not exist.
    ///
    /// # Errors
    /// [`Kind::Denied`] when it leads out of the roots.
    pub fn locate(&self, path: &str) -> Result<Location, Fault> {
        Ok(self.resolve(path)?.location)
    }

    pub(super) fn handles(&self) -> impl Iterator<Item = &OwnedFd> {
        self.roots.iter().map(|root| &root.dir)
    }

    /// Hides haft's own folders, since no call may read or change the state that decides over calls, and files and folders with
    /// credentials. One that contains a root is not hidden: a person named that root.
    #[must_use]
    pub fn hiding(
        &self,
        own: &[PathBuf],
        credentials: impl FnOnce() -> Vec<PathBuf> + Send + 'static,
    ) -> Self {
        let roots = self.roots.iter().map(|it| it.path.clone()).collect();
        Self { hidden: Some(Arc::new(Hidden::new(roots, own.to_vec(), credentials))), ..self.clone() }
    }

    /// Looks the hidden paths up now; otherwise the first call does it.
    pub fn look_up_hidden(&self) {
        self.hidden.iter().for_each(|it| it.look_up());
    }

    /// Returns the names in this folder that are hidden: haft's own, and those with credentials.
    pub(super) fn hidden_in(&self, folder: &Path) -> &[OsString] {
        if is_broken("hidden-names") {
            return &[];
        }
        self.hidden.as_ref().map_or(&[], |it| it.names_in(folder))
    }

    /// Returns whether this canonical path is haft's own, or holds credentials.
    pub(super) fn is_hidden(&self, path: &Path) -> bool {
        self.hidden.as_ref().is_some_and(|it| it.has(path))
    }

    pub(super) fn resolve(&self, path: &str) -> Result<Opened, Fault> {
        let Some(base) = self.base.as_deref().filter(|_| Path::new(path).is_relative()) else {
            return self.resolve_plainly(path);
        };
        let below = base.join(path);
        let own = self.resolve_plainly(&below.to_string_lossy());
        match own {
            Ok(own) if own.exists() => Ok(own),
            own => match self.resolve_plainly(path) {
                Ok(there) if there.exists() => Ok(there),
                _ => own,
            },
        }
    }

    fn resolve_plainly(&self, path: &str) -> Result<Opened, Fault> {
        let mut opened = None;
        for (root, rel) in self.choose(path)? {
            match self.follow(path, root, rel) {
                Ok(found) => {
                    opened = Some(Ok(found));
                    break;
                }
                // As seen from the next root, `..` may stay inside.
                Err(fault) => drop(opened.get_or_insert(Err(fault))),
            }
        }
        let opened = opened.unwrap_or_else(|| Err(self.outside(path, None)))?;
        let opened = self.by_its_own_root(path, opened)?;
        let absolute = opened.location.absolute();
        if self.hidden.as_ref().is_some_and(|it| it.holds_credentials(&absolute)) {
            return Err(Fault::denied(format!(
                "`{path}` is hidden because it holds credentials (rule `credentials`)"
            ))
            .next(
                "Do without it, or ask the person for what you need. A root inside a hidden folder shows what is in it."
                    .to_owned(),
            ));
        }
        if self.is_hidden(&absolute) {
            return Err(Fault::denied(format!(
                "`{path}` is haft's own state or configuration (rule `own_state`)"
            ))
            .next("`haft log`, `haft undo` and `haft trust` work on it.".to_owned()));
        }
        if let Some(shelf) = &self.shelf
            && is_handle(path)
            && !opened.exists()
            && let Ok(spilled) = self.enter(shelf, Path::new(path))
            && spilled.exists()
        {
            return Ok(spilled);
        }
        Ok(opened)
    }

    /// Resolves a path below a root, also from one root into another.
    fn follow(&self, path: &str, mut root: Arc<Root>, mut rel: PathBuf) -> Result<Opened, Fault> {
        let mut hops = MAX_HOPS;
        loop {
            match self.enter(&root, &rel) {
                Ok(opened) => return Ok(opened),
                Err(Astray::Outside(Some(target))) if hops > 0 => {
                    hops -= 1;
                    (root, rel) = self
                        .within(&target)
                        .into_iter()
                        .next()
                        .ok_or_else(|| self.outside(path, Some(&target)))?;
                }
                Err(astray) => return Err(self.explain(path, &root, astray)),
            }
        }
    }

    /// Applies the rights of the innermost root. A root may lie inside another one with other rights, and its
    /// places can be reached by several spellings.
    fn by_its_own_root(&self, path: &str, opened: Opened) -> Result<Opened, Fault> {
        let absolute = opened.location.absolute();
        let innermost = self
            .roots
            .iter()
            .filter(|root| absolute.starts_with(&root.path))
            .max_by_key(|root| root.path.as_os_str().len());
        let Some(root) = innermost.filter(|root| !Arc::ptr_eq(root, &opened.location.root)) else {
            return Ok(opened);
        };
        let rel = absolute.strip_prefix(&root.path).unwrap_or(Path::new(""));
        self.enter(root, rel).map_err(|astray| self.explain(path, root, astray))
    }

    fn enter(&self, root: &Arc<Root>, rel: &Path) -> Result<Opened, Astray> {
        let found = beneath::resolve(&root.dir, &root.path, rel)?;
        let mut plain = self.roots.first().into_iter().chain(&self.shelf);
        let workspace = plain.any(|it| Arc::ptr_eq(it, root));
        Ok(Opened { location: Location { root: root.clone(), rel: found.rel.clone(), workspace }, found })
    }

    /// Splits a path into its root and the rest; returns several if roots are nested.
    fn choose(&self, path: &str) -> Result<Vec<(Arc<Root>, PathBuf)>, Fault> {
        if let Some(at) = path.find('\0') {
            return Err(Fault::bad_args(format!("the path has a NUL character at byte {at}")));
        }
        if path.len() > MAX_PATH {
            return Err(Fault::bad_args(format!(
                "the path is {} bytes long; at most {MAX_PATH} are allowed",
                path.len()
            )));
        }
        let as_path = Path::new(path);
        if as_path.is_relative() {
            let Some(first) = self.roots.first() else { return Err(Fault::bug("no root was given")) };
            return Ok(vec![(first.clone(), as_path.to_owned())]);
        }
        Ok(self.within(as_path))
    }

    /// Returns the roots that contain an absolute path, the innermost first, each with the rest of the path.
    fn within(&self, path: &Path) -> Vec<(Arc<Root>, PathBuf)> {
        let mut roots: Vec<&Arc<Root>> = self.roots.iter().collect();
        roots.sort_by_key(|root| std::cmp::Reverse(root.path.as_os_str().len()));
        let below = |path: &Path| -> Vec<(Arc<Root>, PathBuf)> {
            let strip = |root: &&Arc<Root>| {
                let rel = [&root.path, &root.given]
                    .into_iter()
                    .find_map(|prefix| path.strip_prefix(prefix).ok())?;
                Some((Arc::clone(root), rel.to_owned()))
            };
            roots.iter().filter_map(strip).collect()
        };
        let named = below(path);
        if !named.is_empty() {
            return named;
        }
        // Another spelling of a root, such as `/tmp` for `/private/tmp`. The result is only a guess at the
        // spelling: the rest is resolved through handles as ever.
        match (path.parent(), path.file_name()) {
            (Some(folder), Some(name)) => {
                below(&canonical_folder(folder, &mut Folders::new()).path.join(name))
            }
            _ => Vec::new(),
        }
    }

    fn outside(&self, path: &str, target: Option<&Path>) -> Fault {
        let leads = match target {
            Some(target) => {
                format!("`{path}` leads to `{}`, which is outside the workspace", target.display())
            }
            None => format!("`{path}` is outside the workspace"),
        };
        let roots: Vec<String> = self.list().map(|(root, _)| format!("`{}`", root.display())).collect();
        Fault::denied(format!("{leads} (rule `roots`)")).next(format!(
            "Files can be reached below {}. A person can add a folder with `--root PATH` or `roots` in haft.toml.",
            roots.join(" and ")
        ))
    }

    fn explain(&self, path: &str, root: &Root, astray: Astray) -> Fault {
        match astray {
            Astray::Outside(target) => self.outside(path, target.as_deref()),
            Astray::NotADirectory(rel) => Fault::not_found(format!(
                "`{path}` is not there: `{}` is a file, not a folder",
                root.path.join(rel).display()
            )),
            Astray::TooManyLinks => Fault::new(
                Kind::NotFound,
                format!("`{path}` is a loop of symbolic links, or too long a chain of them"),
            ),
            Astray::MissingParent(rel) => Fault::not_found(format!(
                "`{path}` goes up from `{}`, which does not exist",
                root.path.join(rel).display()
            )),
            Astray::Io(error) => refused(path, "reach", error),
        }
    }
}

impl Root {
    fn open(spec: &RootSpec) -> Result<Self, Fault> {
        let shown = spec.path.display();
        let given =
            std::path::absolute(&spec.path).map_err(|error| refused(&shown.to_string(), "open", error))?;
        let path = spec.path.canonicalize().map_err(|error| refused(&shown.to_string(), "open", error))?;
        let dir = open_canonical(&path).map_err(|errno| match errno {
            // A process has put a link there since.
            Errno::LOOP => Fault::new(Kind::Stale, format!("`{shown}` became a link while it was opened"))
                .next("Look at what is there now, and open that."),
            errno => refused(&shown.to_string(), "open", errno.into()),
        })?;
        Ok(Self { dir, path, given, read_only: spec.read_only })
    }
}

/// Opens the folder at a canonical path, which follows no link.
fn open_canonical(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    #[cfg(target_os = "linux")]
    match rustix::fs::openat2(
        rustix::fs::CWD,
        path,
        flags,
        Mode::empty(),
        rustix::fs::ResolveFlags::NO_SYMLINKS,
    ) {
        // A filter of system calls does not have it.
        Err(Errno::NOSYS | Errno::PERM) => {}
        opened => return opened,
    }
    open(path, flags | OFlags::NOFOLLOW, Mode::empty()).map_err(|errno| {
        // With a folder asked for, a link is just no folder.
        let is_link = errno == Errno::NOTDIR && path.is_symlink();
        if is_link { Errno::LOOP } else { errno }
    })
}

impl Location {
    /// Returns the canonical path.
    pub fn absolute(&self) -> PathBuf {
        if self.rel.as_os_str().is_empty() { self.root.path.clone() } else { self.root.path.join(&self.rel) }
    }

    /// Returns the canonical path of its root.
    pub fn root_path(&self) -> PathBuf {
        self.root.path.clone()
    }

    /// Returns the canonical path below its root.
    pub fn relative(&self) -> &Path {
        &self.rel
    }

    /// Returns whether nothing may be changed here.
    pub fn is_read_only(&self) -> bool {
        self.root.read_only
    }

    /// Returns the place this many steps up, not above its root.
    pub(super) fn above(&self, steps: usize) -> Self {
        let rel = self.rel.ancestors().nth(steps).unwrap_or(Path::new("")).to_owned();
        Self { rel, ..self.clone() }
    }

    /// Returns the place of this name below.
    #[must_use]
    pub fn join(&self, name: impl AsRef<Path>) -> Self {
        Self { rel: self.rel.join(name), ..self.clone() }
    }

    /// Returns whether it is `other`, or below it.
    pub fn is_within(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.root, &other.root) && self.rel.starts_with(&other.rel)
    }

    /// Returns whether both are the same place.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.root, &other.root) && self.rel == other.rel
    }
}

/// Formats the path for the model: relative below the workspace, otherwise absolute.
impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.workspace {
            return self.absolute().display().fmt(f);
        }
        if self.rel.as_os_str().is_empty() { f.write_str(".") } else { self.rel.display().fmt(f) }
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.absolute().fmt(f)
    }
}

impl Opened {
    /// Returns whether the name existed when the path was resolved.
    pub(super) fn exists(&self) -> bool {
        let Some(name) = &self.found.name else { return true };
        self.found.rest.is_empty()
            && rustix::fs::statat(&self.found.dir, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Returns the name to open in the folder; `.` for the folder itself.
    pub(super) fn name(&self) -> OsString {
        self.found.name.clone().unwrap_or_else(|| ".".into())
    }
}

/// Turns an error of the system into a fault about `path`.
pub(super) fn refused(path: &str, verb: &str, error: io::Error) -> Fault {
    // The empty path is the folder itself.
    let path = if path.is_empty() { "." } else { path };
    let kind = match error.kind() {
        io::ErrorKind::NotFound => Kind::NotFound,
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Kind::Denied,
        io::ErrorKind::InvalidFilename | io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory => {
            Kind::BadArgs
        }
        io::ErrorKind::FileTooLarge => Kind::TooBig,
        _ => Kind::Unavailable,
    };
    let what = match error.kind() {
        io::ErrorKind::NotFound => format!("`{path}` does not exist"),
        io::ErrorKind::PermissionDenied => {
            format!(
                "can't {verb} `{path}`: the user haft runs as has no permission (the file's mode, not a rule of haft)"
            )
        }
        io::ErrorKind::StorageFull => format!("can't {verb} `{path}`: the disk is full"),
        _ => format!("can't {verb} `{path}`: {error}"),
    };
    Fault::new(kind, what).caused_by(error)
}

/// Returns whether it is the name of a spilled output.
fn is_handle(path: &str) -> bool {
    path.strip_prefix("out_")
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|it| it.is_ascii_digit()))
}
