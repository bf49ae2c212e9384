//! Unsaved text: files that an editor has open and whose text there is not on the disk yet.
//!
//! A tool reads what the editor has. It changes no such file: the change would be lost when the editor saves, or undo what
//! the person typed.

use std::{
    fs::File,
    io::{Read as _, Seek as _},
    path::Path,
    sync::Arc,
};

use super::{Files, Identity, Location, Roots, open::open_regular, roots::Opened};
use crate::{
    Fault, Kind,
    text::{Content, Text},
};

/// The texts of files in an editor.
pub trait Buffers: Send + Sync {
    /// The text of this file there; none where the editor does not say. May block for a moment.
    fn text(&self, path: &Path) -> Option<String>;
}

/// Larger files are read from the disk alone.
const LARGEST: u64 = 8 << 20;

impl Roots {
    /// Reads from now on what this editor has of a file, and keeps calls from changing what is not saved there. The first
    /// editor stays; it counts for every clone of these roots.
    pub fn follow_editor(&self, buffers: Arc<dyn Buffers>) {
        let _ = self.caches.buffers.set(buffers);
    }

    /// Returns whether there is an editor, which is asked for the text of each file.
    pub(super) fn has_editor(&self) -> bool {
        self.caches.buffers.get().is_some()
    }

    /// Returns the editor's text of this file, if it differs from the text on disk. `file` is the file, open.
    pub(super) fn unsaved(&self, location: &Location, size: u64, file: &File) -> Option<Content> {
        let buffers = self.caches.buffers.get()?;
        let path = location.absolute();
        if size > LARGEST || !self.list().any(|(root, _)| path.starts_with(root)) {
            return None;
        }
        let mut disk = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        let mut reading = file;
        let read = reading.take(LARGEST + 1).read_to_end(&mut disk);
        // Who reads it next begins at its beginning.
        reading.rewind().ok()?;
        read.ok()?;
        let disk = Content::from(disk);
        // What is not text, no editor has as text.
        let saved = Text::share(disk).ok()?;
        let open = buffers.text(&path)?;
        (normal(&saved.decoded()) != normal(&open)).then(|| open.into_bytes().into())
    }
}

/// Editors keep neither the mark at the beginning nor carriage returns in a text.
fn normal(text: &str) -> String {
    text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n")
}

/// Tells texts that are not saved apart from each other and from every file.
pub(super) fn identity(of: &Identity, text: &Content) -> Identity {
    let digest = blake3::hash(text);
    let mut stamp = [0; 15];
    stamp.iter_mut().zip(digest.as_bytes()).for_each(|(to, from)| *to = *from);
    let stamp = stamp.iter().fold(0_i128, |number, byte| number << 8 | i128::from(*byte));
    Identity {
        device: u64::MAX,
        inode: of.inode,
        size: text.len() as u64,
        modified_ns: stamp,
        changed_ns: stamp,
    }
}

/// The text as a file of its own.
#[cfg(target_os = "linux")]
pub(super) fn file(text: &Content) -> Option<File> {
    use std::io::Write as _;

    use rustix::fs::{MemfdFlags, memfd_create};

    let mut file = File::from(memfd_create("haft-unsaved", MemfdFlags::CLOEXEC).ok()?);
    file.write_all(text).and_then(|()| file.rewind()).ok()?;
    Some(file)
}

/// The text as a file of its own: not here, so the disk is read.
#[cfg(not(target_os = "linux"))]
pub(super) fn file(_: &Content) -> Option<File> {
    None
}

impl Files {
    /// Refuses to change a file that has text in the editor which is not saved.
    ///
    /// # Errors
    /// [`Kind::Stale`], with what to do.
    pub(super) fn refuse_unsaved(&self, path: &str, opened: &Opened) -> Result<(), Fault> {
        if self.roots().caches.buffers.get().is_none() || !opened.found.rest.is_empty() {
            return Ok(());
        }
        let Ok((file, stat)) = open_regular(&opened.found.dir, &opened.name()) else { return Ok(()) };
        match self.roots().unsaved(&opened.location, Identity::of(&stat).size, &file) {
            Some(_) => Err(unsaved(path)),
            None => Ok(()),
        }
    }
}

/// The fault of a change that would meet text which is not saved.
pub fn unsaved(path: &str) -> Fault {
    Fault::new(
        Kind::Stale,
        format!("`{path}` has changes in the editor that are not saved, so it was not changed"),
    )
    .next("Ask the person to save or revert it in the editor, then make the change again.")
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use parking_lot::Mutex;

    use super::*;
    use crate::{
        files::{Access, Before, Grant},
        testing::TestWorkspace,
    };

    /// An editor that has this text of every file it is asked for.
    struct Has(Mutex<Option<String>>);

    impl Buffers for Has {
        fn text(&self, _: &Path) -> Option<String> {
            self.0.lock().clone()
        }
    }

    fn files(test_ws: &TestWorkspace, editor: &Arc<Has>) -> Files {
        let roots = test_ws.cx().files().roots().clone();
        roots.follow_editor(editor.clone());
        let location = roots.locate("a.txt").unwrap();
        let history = test_ws.cx().services().history.clone();
        Files::new(roots, vec![Grant { location, access: Access::Write }], history)
    }

    #[test]
    fn reads_show_unsaved_text_and_changes_are_refused_until_it_is_saved() {
        let test_ws = TestWorkspace::new("//- a.txt\none\r\ntwo\n");
        let editor = Arc::new(Has(Mutex::new(Some("one\ntwo\n".to_owned()))));
        let files = files(&test_ws, &editor);
        let same = files.load("a.txt", 1 << 20).unwrap();
        assert_eq!(&*same.bytes, b"one\r\ntwo\n", "line endings are no difference");

        *editor.0.lock() = Some("typed\n".to_owned());
        let open = files.open("a.txt").unwrap();
        let again = files.open("a.txt").unwrap();
        assert_eq!(open.identity, again.identity, "the same text is the same file");
        let unsaved = open.load("a.txt", 1 << 20).unwrap();
        assert!(unsaved.is_unsaved() && &*unsaved.bytes == b"typed\n");
        for before in [Before::Was(&unsaved), Before::Was(&same)] {
            let fault = files.save("a.txt", before, b"three\n").unwrap_err();
            assert_eq!(fault.kind, Kind::Stale);
            assert!(fault.what.contains("not saved"), "{}", fault.what);
        }
        assert!(files.remove("a.txt", &same).is_err());
        assert_eq!(std::fs::read(test_ws.path().join("a.txt")).unwrap(), b"one\r\ntwo\n");

        *editor.0.lock() = None;
        files.save("a.txt", Before::Was(&same), b"three\n").unwrap();
    }
}
