//! Markdown files of the person and of a workspace: finds and reads them, bounded in number and size.
//!
//! haft reads a workspace's file as a tool would: no symlink leads out of the roots. Invisible characters are
//! escaped.

use std::{
    fs,
    path::{Path, PathBuf},
};

use kit::{Fault, Files, files::Roots};

/// Maximum number of files read from one folder and the folders below it.
const FILES: usize = 200;

/// Maximum number of entries read from one folder.
const ENTRIES: usize = 1_000;

/// Reads a file that belongs to the person, of at most `largest` bytes.
///
/// # Errors
/// The reason why it can't be read.
pub(crate) fn of_person(path: &Path, largest: u64) -> Result<Vec<u8>, String> {
    let about = fs::metadata(path).map_err(|error| error.to_string())?;
    if !about.is_file() || about.len() > largest {
        return Err(format!("it is not a regular file of at most {largest} bytes"));
    }
    fs::read(path).map_err(|error| error.to_string())
}

/// Reads a file of the workspace, by its path there, of at most `largest` bytes.
///
/// # Errors
/// The reason why it can't be read.
pub(crate) fn of_workspace(roots: &Roots, path: &str, largest: u64) -> Result<Vec<u8>, String> {
    let read = || {
        let location = roots.locate(path)?;
        Files::reading(roots.clone(), location).load(path, largest)
    };
    read().map(|it| it.bytes.to_vec()).map_err(|fault: Fault| fault.what)
}

/// Decodes bytes as UTF-8, and escapes invisible characters.
///
/// # Errors
/// When they are not UTF-8.
pub(crate) fn text(bytes: Vec<u8>) -> Result<String, String> {
    let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())?;
    Ok(kit::escape::visible(&text).0.into_owned())
}

/// Returns the files at most `depth` levels below a folder whose relative path is `wanted`, sorted by that
/// path.
pub(crate) fn below(folder: &Path, depth: usize, wanted: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![(PathBuf::new(), 1)];
    while let Some((at, level)) = folders.pop() {
        let Ok(entries) = fs::read_dir(folder.join(&at)) else { continue };
        for entry in entries.flatten().take(ENTRIES) {
            let path = at.join(entry.file_name());
            // Symlinks to folders are not followed: they could form a cycle.
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
