//! Files that are watched: their contents, and how one is set aside and restored.

use std::{
    ffi::OsString,
    fs,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

use crate::{
    control_files::repository::{self, SET_ASIDE},
    handle::Folder,
};

/// Maximum size of a file whose content can be restored; a longer one is only set aside.
const LONGEST: u64 = 256 << 10;

/// Maximum number of files of one folder that are compared one by one; in a larger one every change counts.
const FILES: usize = 10_000;

/// The content of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Content {
    File(Vec<u8>, u32),
    Link(Vec<u8>),
    /// Too large to be kept, or not a file.
    Other,
}

/// Returns the files in a place: itself, if it is not a folder.
pub(super) fn leaves(place: &Path) -> Vec<PathBuf> {
    if !fs::symlink_metadata(place).is_ok_and(|it| it.is_dir()) {
        return vec![place.to_owned()];
    }
    let (mut found, mut folders) = (Vec::new(), vec![place.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if entry.file_type().is_ok_and(|it| it.is_dir()) {
                folders.push(path);
            } else if !repository::is_set_aside(&path) {
                found.push(path);
            }
        }
        if found.len() > FILES {
            return vec![place.to_owned()];
        }
    }
    found
}

pub(super) fn held(path: &Path) -> Option<Content> {
    let (folder, name) = Folder::around(path).ok()?;
    if let Some(to) = folder.link(name) {
        return Some(Content::Link(to));
    }
    let mode = folder.look(name)?.st_mode;
    folder.read(name, LONGEST).map(|bytes| Content::File(bytes, mode))
}

/// Renames a file so that no program runs it.
pub(super) fn aside(path: &Path) -> std::io::Result<PathBuf> {
    let (folder, name) = Folder::around(path)?;
    let mut tried = 1;
    loop {
        let number = if tried == 1 { String::new() } else { format!("-{tried}") };
        let mut new = name.to_owned();
        new.push(format!("{SET_ASIDE}{number}"));
        match folder.rename(name, &new) {
            Ok(()) => return Ok(path.with_file_name(new)),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && tried < 1000 => tried += 1,
            Err(error) => return Err(error),
        }
    }
}

pub(super) fn put_back(path: &Path, held: &Content) {
    let Ok((folder, name)) = Folder::around(path) else { return };
    let made = match held {
        Content::File(bytes, mode) => folder.create_file(name, bytes, *mode),
        Content::Link(to) => folder.create_link(name, Path::new(&OsString::from_vec(to.clone()))),
        Content::Other => return,
    };
    if let Err(error) = made {
        tracing::warn!("{} could not be put back: {error}", path.display());
    }
}
