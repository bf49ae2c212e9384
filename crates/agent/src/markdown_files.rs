//! Markdown files of a person and of a workspace: finds and reads them, bounded in number and size.
//!
//! A workspace's file is read as a tool would read it: no symlink leads out of the roots. Text that a terminal or a reader
//! would not see is spelled out.

use std::{
    fs,
    path::{Path, PathBuf},
};

use kit::{Fault, Files, files::Roots};

/// At most so many files of one folder are read, with those of the folders below it.
const FILES: usize = 200;

/// At most so many entries of one folder are looked at.
const ENTRIES: usize = 1_000;

/// The bytes of a person's own file of at most `largest` bytes.
///
/// # Errors
/// Why it can't be read.
pub(crate) fn of_person(path: &Path, largest: u64) -> Result<Vec<u8>, String> {
    let about = fs::metadata(path).map_err(|error| error.to_string())?;
    if !about.is_file() || about.len() > largest {
        return Err(format!("it is not a regular file of at most {largest} bytes"));
    }
    fs::read(path).map_err(|error| error.to_string())
}

/// The bytes of a file of the workspace, of at most `largest` bytes, by its path in there.
///
/// # Errors
/// Why it can't be read.
pub(crate) fn of_workspace(roots: &Roots, path: &str, largest: u64) -> Result<Vec<u8>, String> {
    let read = || {
        let location = roots.locate(path)?;
        Files::reading(roots.clone(), location).load(path, largest)
    };
    read().map(|it| it.bytes.to_vec()).map_err(|fault: Fault| fault.what)
}

/// These bytes as text in which nothing is invisible.
///
/// # Errors
/// When they are not UTF-8.
pub(crate) fn text(bytes: Vec<u8>) -> Result<String, String> {
    let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())?;
    Ok(kit::escape::visible(&text).0.into_owned())
}

/// The files below a folder, at most `depth` levels down, whose path in there is `wanted`; by that path, sorted.
pub(crate) fn below(folder: &Path, depth: usize, wanted: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![(PathBuf::new(), 1)];
    while let Some((at, level)) = folders.pop() {
        let Ok(entries) = fs::read_dir(folder.join(&at)) else { continue };
        for entry in entries.flatten().take(ENTRIES) {
            let path = at.join(entry.file_name());
            // A symlink to a folder is not entered: it could lead around in circles.
            if entry.file_type().is_ok_and(|it| it.is_dir()) {
                if level < depth {
                    folders.push((path, level + 1));
                }
            } else if wanted(&path) {
                found.push(path);
            }
        }
    }
    found.sort();
    found.truncate(FILES);
    found
}
