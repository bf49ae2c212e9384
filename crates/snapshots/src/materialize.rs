//! Making the files of a snapshot.

use std::{
    fs::{self, File},
    io::{self, Write},
    os::fd::OwnedFd,
    path::Path,
};

use kit::Fault;
use rustix::fs::{Mode, OFlags, mkdirat, openat, symlinkat};

use crate::{
    BlobHash, Blobs, Cache, Manifest,
    blobs::{trouble, verified},
    manifest::{Node, check, check_folders},
};

/// Makes the files of a snapshot in `dir`, a folder that is empty or does not exist. Contents come from the cache, or from
/// `blobs` and then stay in the cache; each is compared with its hash. Nothing is written outside of `dir`. Blocks.
///
/// # Errors
/// [`Kind::BadArgs`](kit::Kind::BadArgs) when `dir` is not empty; when a content can't be had or the disk is full: then `dir`
/// has part of the files.
pub fn materialize(manifest: &Manifest, blobs: &dyn Blobs, cache: &Cache, dir: &Path) -> Result<(), Fault> {
    check_folders(manifest.files.keys())?;
    for (path, node) in &manifest.files {
        check(path, Some(node))?;
    }
    fs::create_dir_all(dir).map_err(|error| trouble(dir, &error))?;
    let mut entries = fs::read_dir(dir).map_err(|error| trouble(dir, &error))?;
    if entries.next().is_some() {
        return Err(Fault::bad_args(format!(
            "`{}` is not empty; a snapshot needs a folder of its own",
            dir.display()
        )));
    }
    let top = rustix::fs::open(dir, FOLDER, Mode::empty()).map_err(|errno| trouble(dir, &errno.into()))?;
    let mut folders = Folders { top, open: Vec::new() };
    // Links last: none can lead a file elsewhere.
    let (links, files): (Vec<_>, Vec<_>) =
        manifest.files.iter().partition(|(_, node)| matches!(node, Node::Link { .. }));
    for (path, node) in files.into_iter().chain(links) {
        let made = match node {
            Node::File { hash, executable, .. } => {
                let content = content(hash, blobs, cache)?;
                folders.file(path, &content, *executable)
            }
            Node::Link { target } => folders.link(path, target),
        };
        made.map_err(|error| trouble(&dir.join(path), &error))?;
    }
    Ok(())
}

fn content(hash: &BlobHash, blobs: &dyn Blobs, cache: &Cache) -> Result<Vec<u8>, Fault> {
    if let Ok(content) = cache.get(hash) {
        return Ok(content);
    }
    let content = verified(blobs, hash)?;
    // Without the cache only the next snapshot takes longer.
    if let Err(fault) = cache.put(hash, &content) {
        tracing::warn!("a content is not in the cache: {fault}");
    }
    Ok(content)
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The open folders on the way to the last file.
struct Folders {
    top: OwnedFd,
    open: Vec<(String, OwnedFd)>,
}

impl Folders {
    /// Returns the folder of a path, which is made if it is missing, and the name in it.
    fn at<'p>(&mut self, path: &'p str) -> io::Result<(&OwnedFd, &'p str)> {
        let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
        let names: Vec<&str> = above.split('/').filter(|it| !it.is_empty()).collect();
        let same = self.open.iter().zip(&names).take_while(|((open, _), name)| open == *name).count();
        self.open.truncate(same);
        for name in names.into_iter().skip(same) {
            let into = self.open.last().map_or(&self.top, |(_, handle)| handle);
            match mkdirat(into, name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                Err(errno) => return Err(errno.into()),
            }
            let handle = openat(into, name, FOLDER, Mode::empty())?;
            self.open.push((name.to_owned(), handle));
        }
        Ok((self.open.last().map_or(&self.top, |(_, handle)| handle), name))
    }

    fn file(&mut self, path: &str, content: &[u8], executable: bool) -> io::Result<()> {
        let (folder, name) = self.at(path)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(if executable { 0o777 } else { 0o666 });
        File::from(openat(folder, name, flags, mode)?).write_all(content)
    }

    fn link(&mut self, path: &str, target: &str) -> io::Result<()> {
        let (folder, name) = self.at(path)?;
        Ok(symlinkat(target, folder, name)?)
    }
}
