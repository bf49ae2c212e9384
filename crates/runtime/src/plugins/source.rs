//! Source of one version of a tool file: read when it is needed, and only as the text with its hash.

use std::{
    fs::OpenOptions,
    io::Read,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use kit::{Fault, Kind};
use rustix::fs::OFlags;

use super::folders::LARGEST;

/// The text of a version. A tool that is only listed has none in memory.
#[derive(Debug)]
pub(crate) struct Source {
    hash: blake3::Hash,
    text: OnceLock<Arc<[u8]>>,
    /// The files that hold it, if nobody has changed them.
    places: Option<Places>,
}

/// The folder of a cache, with a copy under the hash's name, and the file itself.
#[derive(Debug)]
struct Places {
    copies: Arc<Path>,
    file: PathBuf,
}

impl Source {
    /// Creates the source with this text.
    pub(super) fn held(text: Arc<[u8]>, hash: blake3::Hash) -> Self {
        Self { hash, text: OnceLock::from(text), places: None }
    }

    /// Creates a source whose text is in this file, or in the copy of this folder that has its hash as its name.
    pub(super) fn stored(hash: blake3::Hash, copies: Arc<Path>, file: PathBuf) -> Self {
        Self { hash, text: OnceLock::new(), places: Some(Places { copies, file }) }
    }

    /// Returns the files that may hold the text, the copy first.
    fn places(&self) -> Vec<PathBuf> {
        let copy = |it: &Places| it.copies.join(self.hash.to_hex().as_str());
        self.places.iter().flat_map(|it| [copy(it), it.file.clone()]).collect()
    }

    /// Returns the text.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] when no file holds it any more.
    pub(super) fn text(&self) -> Result<Arc<[u8]>, Fault> {
        if let Some(text) = self.text.get() {
            return Ok(text.clone());
        }
        let places = self.places();
        let Some(text) = places.iter().find_map(|path| read(path, &self.hash)) else {
            let files: Vec<String> = places.iter().map(|it| it.display().to_string()).collect();
            return Err(Fault::new(
                Kind::Unavailable,
                format!("the tool can't be read again as it was loaded: {}", files.join(", ")),
            )
            .next("Call it again: haft loads it as it is now."));
        };
        Ok(self.text.get_or_init(|| text).clone())
    }
}

/// Returns whether a file has the content with this hash.
pub(super) fn has(path: &Path, hash: &blake3::Hash) -> bool {
    read(path, hash).is_some()
}

/// Reads a file, if it has the content with this hash.
fn read(path: &Path, hash: &blake3::Hash) -> Option<Arc<[u8]>> {
    // A name may have become a device or a pipe.
    let how = OFlags::NONBLOCK | OFlags::NOCTTY;
    let how = i32::try_from(how.bits()).ok()?;
    let file = OpenOptions::new().read(true).custom_flags(how).open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes).ok()?;
    (blake3::hash(&bytes) == *hash).then(|| bytes.into())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn only_the_text_with_the_hash_is_returned() {
        let dir = tempfile::tempdir().unwrap();
        let hash = blake3::hash(b"text");
        let (copy, file) = (dir.path().join(hash.to_hex().as_str()), dir.path().join("file"));
        let stored = || Source::stored(hash, dir.path().into(), file.clone());
        std::fs::write(&copy, "torn").unwrap();
        std::fs::write(&file, "text").unwrap();
        assert_eq!(&*stored().text().unwrap(), b"text");
        std::fs::write(&file, "other").unwrap();
        let fault = stored().text().unwrap_err();
        assert_eq!(fault.kind, Kind::Unavailable);
        assert!(fault.what.contains(&copy.display().to_string()), "{}", fault.what);
    }
}
