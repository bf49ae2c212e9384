//! Configuration files as bytes: reads short regular files, and nothing else in their place.

use std::{
    fs,
    io::{self, Read},
    path::Path,
};

use kit::{Fault, Kind};
use rustix::{
    fd::AsFd,
    fs::{CWD, Mode, OFlags},
    io::Errno,
};

use super::{DOT_MCP, FILE};

/// Limit of a configuration file, in bytes.
const LARGEST: u64 = 64 * 1024;

/// Returns the bytes of a configuration file; nothing, if there is none.
pub(super) fn text(path: &Path, read: io::Result<Vec<u8>>) -> Result<Option<Vec<u8>>, Fault> {
    match read {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Fault::new(Kind::Unavailable, format!("can't read `{}`: {error}", path.display()))),
    }
}

pub(super) fn wrong(path: &Path, error: impl std::fmt::Display) -> Fault {
    Fault::bad_args(format!("`{}` is not a valid configuration: {error}", path.display()))
        .next("`haft config --example` lists every key.")
}

/// Reads the text of the workspace's configuration.
///
/// # Errors
/// When there is none, or it is not a short regular file.
pub fn workspace_text(workspace: &Path) -> io::Result<String> {
    let bytes = bounded(&workspace.join(FILE), OFlags::NOFOLLOW)?;
    String::from_utf8(bytes).map_err(io::Error::other)
}

/// Reads the text of the workspace's list of MCP servers, `.mcp.json`; none, if there is no such file.
///
/// # Errors
/// When it is not a short regular file, or not text.
pub fn servers_text(workspace: &Path) -> io::Result<Option<String>> {
    match bounded(&workspace.join(DOT_MCP), OFlags::NOFOLLOW) {
        Ok(bytes) => String::from_utf8(bytes).map(Some).map_err(io::Error::other),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads the text of another program's configuration file in a folder of the workspace; none, if there is no
/// such file. Does not follow a symlink in place of the file or the folder.
///
/// # Errors
/// When it is not a short regular file, or not text.
pub fn text_of_another(workspace: &Path, folder: &str, file: &str) -> io::Result<Option<String>> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
    let bytes = match rustix::fs::open(workspace.join(folder), flags, Mode::empty()) {
        Ok(folder) => bounded_in(&folder, Path::new(file), OFlags::NOFOLLOW),
        Err(Errno::NOTDIR | Errno::LOOP) => Err(io::Error::other(format!("{folder} is not a folder"))),
        Err(errno) => Err(errno.into()),
    };
    match bytes {
        Ok(bytes) => String::from_utf8(bytes).map(Some).map_err(io::Error::other),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads the text of another program's configuration file outside a workspace; none, if there is no such file.
///
/// # Errors
/// When it is not a short regular file, or not text.
pub fn another_text(path: &Path) -> io::Result<Option<String>> {
    match bounded(path, OFlags::empty()) {
        Ok(bytes) => String::from_utf8(bytes).map(Some).map_err(io::Error::other),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads the bytes of a configuration file, which must be regular and short. Refuses a pipe or a device at
/// once.
pub(super) fn bounded(path: &Path, how: OFlags) -> io::Result<Vec<u8>> {
    bounded_in(CWD, path, how)
}

fn bounded_in(folder: impl AsFd, path: &Path, how: OFlags) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY | how;
    let file = match rustix::fs::openat(folder, path, flags, Mode::empty()) {
        Ok(file) => fs::File::from(file),
        Err(Errno::LOOP) => return Err(io::Error::other("it is a link, which is not followed")),
        Err(errno) => return Err(errno.into()),
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        return Err(io::Error::other(format!("it has more than {LARGEST} bytes")));
    }
    Ok(bytes)
}
