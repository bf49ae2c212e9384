//! Hidden paths: haft's own folders, and the places of a person's credentials.
//!
//! There are more than a hundred such places, and looking each of them up takes a part of the start of a program. So they
//! are looked up at first use; nothing is resolved before.

use std::{
    collections::HashMap,
    ffi::OsString,
    path::{Path, PathBuf},
    sync::LazyLock,
};

/// Hidden paths, looked up at first use.
pub(super) struct Hidden {
    names: LazyLock<Both, Box<dyn FnOnce() -> Both + Send>>,
}

struct Both {
    credentials: Names,
    /// Those with credentials, and haft's own.
    all: Names,
}

/// Names of paths, by parent folder.
type Names = HashMap<PathBuf, Vec<OsString>>;

impl Hidden {
    /// Hides these paths. One that contains a root is not hidden: a person named that root.
    pub(super) fn new(
        roots: Vec<PathBuf>,
        own: Vec<PathBuf>,
        credentials: impl FnOnce() -> Vec<PathBuf> + Send + 'static,
    ) -> Self {
        let look_up = move || {
            let (own, credentials) = (found(&own, &roots), found(&credentials(), &roots));
            let credentials = names(Names::new(), &credentials);
            Both { all: names(credentials.clone(), &own), credentials }
        };
        Self { names: LazyLock::new(Box::new(look_up)) }
    }

    /// Looks the paths up, unless that was done.
    pub(super) fn look_up(&self) {
        LazyLock::force(&self.names);
    }

    /// Returns the names in this folder that are hidden.
    pub(super) fn names_in(&self, folder: &Path) -> &[OsString] {
        self.names.all.get(folder).map_or(&[], Vec::as_slice)
    }

    /// Returns whether this canonical path is hidden.
    pub(super) fn has(&self, path: &Path) -> bool {
        is_within(path, &self.names.all)
    }

    /// Returns whether this canonical path holds credentials.
    pub(super) fn holds_credentials(&self, path: &Path) -> bool {
        is_within(path, &self.names.credentials)
    }
}

/// Returns each path as it is named, in a folder without symlinks, and its target: one may be a symlink to a settings folder.
fn found(paths: &[PathBuf], roots: &[PathBuf]) -> Vec<PathBuf> {
    // Most paths have the same few parents, and most don't exist.
    let mut folders = Folders::new();
    let mut found = Vec::with_capacity(paths.len());
    for path in paths {
        let Ok(path) = std::path::absolute(path) else { continue };
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            found.extend(path.canonicalize());
            continue;
        };
        let folder = canonical_folder(parent, &mut folders);
        let named = folder.path.join(name);
        let is_link = folder.exists && named.symlink_metadata().is_ok_and(|it| it.file_type().is_symlink());
        let target = if is_link { named.canonicalize().ok().filter(|it| *it != named) } else { None };
        found.push(named);
        found.extend(target);
    }
    // A path around a root would hide the root.
    let is_around =
        |path: &Path, root: &Path| path.as_os_str().len() <= root.as_os_str().len() && root.starts_with(path);
    found.retain(|path| !roots.iter().any(|root| is_around(path, root)));
    found
}

fn names(mut names: Names, paths: &[PathBuf]) -> Names {
    for path in paths {
        if let (Some(folder), Some(name)) = (path.parent(), path.file_name()) {
            names.entry(folder.to_owned()).or_default().push(name.to_owned());
        }
    }
    names
}

/// Returns whether a path is one of these or lies below one. Each call asks this several times, and there are more than
/// a hundred paths: the path has fewer folders.
fn is_within(path: &Path, names: &Names) -> bool {
    let is_named = |it: &Path| match (it.parent(), it.file_name()) {
        (Some(folder), Some(name)) => {
            names.get(folder).is_some_and(|names| names.iter().any(|it| it == name))
        }
        _ => false,
    };
    path.ancestors().any(is_named)
}

/// Folders that were asked for before.
pub(super) type Folders = HashMap<OsString, Folder>;

/// A folder with its deepest existing part in canonical form.
#[derive(Clone)]
pub(super) struct Folder {
    pub(super) path: PathBuf,
    exists: bool,
}

/// Returns the canonical form of a folder, as far as it exists; opens nothing of it. Each is looked up once for all paths.
pub(super) fn canonical_folder(path: &Path, folders: &mut Folders) -> Folder {
    if let Some(known) = folders.get(path.as_os_str()) {
        return known.clone();
    }
    let found = match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => {
            let above = canonical_folder(parent, folders);
            let at = above.path.join(name);
            let about = if above.exists { at.symlink_metadata().ok() } else { None };
            match about {
                Some(about) if about.file_type().is_symlink() => match at.canonicalize() {
                    Ok(path) => Folder { path, exists: true },
                    Err(_) => Folder { path: at, exists: false },
                },
                about => Folder { path: at, exists: about.is_some() },
            }
        }
        // The root, or a path that ends in `..`.
        _ => match path.canonicalize() {
            Ok(path) => Folder { path, exists: true },
            Err(_) => Folder { path: path.to_owned(), exists: false },
        },
    };
    folders.insert(path.as_os_str().to_owned(), found.clone());
    found
}
