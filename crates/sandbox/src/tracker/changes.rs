//! Changes of stopped calls: the files concerned, and their records in the log.

use std::{
    ffi::{OsStr, OsString},
    io,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};

use kit::tracking::{BeforeImage, Metadata, Node, Reason};
use parking_lot::Mutex;
use rustix::fs::{FileType, RenameFlags, Stat, fstat, fstatfs, readlinkat};

use super::{
    calls::Change,
    hold::{Decision, Losing},
    ignored::Ignored,
    images::{self, Copied},
    log::{Identity, Level, Log, Place, identity},
    refused::Rename,
    resolve::{Found, Looking, Trouble},
};

/// The subject of a change, looked up.
pub(super) enum Subject {
    Nothing,
    Gone(Place, Stat),
    Moved { from: (Place, Stat), to: (Place, Option<Stat>), exchange: bool },
    Named { file: (Place, Stat), name: Place },
    Created(Place),
    Written { place: Place, there: Stat, append: bool, empties: bool },
    Metadata { place: Place, there: Stat, attributes: bool },
    Unknown(String),
    /// haft may not look into the process.
    Hidden,
}

/// Why a change can't be made yet, or at all.
pub(super) enum Stop {
    /// A copy takes long: it was not made.
    Long,
    /// Content would be lost, and nobody has decided about that yet.
    Held,
    /// Content would be lost, and that was refused.
    Refused,
}

/// Looks up what a call is about. Takes no lock and changes nothing.
pub(super) fn subject(looking: &Looking<'_>, change: Change) -> Subject {
    match look(looking, change) {
        Ok(subject) => subject,
        Err(Trouble::Fails) => Subject::Nothing,
        Err(Trouble::Unknown(why)) => Subject::Unknown(why),
        Err(Trouble::Hidden) => Subject::Hidden,
        Err(Trouble::Long(above)) if looking.roots.have(&above) => {
            Subject::Unknown(format!("in {}/, below a path of more than 4096 bytes", above.display()))
        }
        Err(Trouble::Long(_)) => Subject::Nothing,
    }
}

fn look(looking: &Looking<'_>, change: Change) -> Result<Subject, Trouble> {
    let is_file = |there: &Stat| FileType::from_raw_mode(there.st_mode).is_file();
    let written = |found, append, empties| match found {
        Found::Name(place, Some(there)) if is_file(&there) => {
            Subject::Written { place, there, append, empties }
        }
        Found::Name(place, None) => Subject::Created(place),
        _ => Subject::Nothing,
    };
    Ok(match change {
        Change::Open { at, flags } => {
            let empties = flags & libc::O_TRUNC != 0;
            let writes = flags & libc::O_ACCMODE != libc::O_RDONLY || empties;
            match looking.opened(at.folder, &looking.text(at)?, flags)? {
                // It is created only if it is missing, and read otherwise.
                Found::Name(_, Some(_)) if !writes => Subject::Nothing,
                Found::Name(_, Some(_)) if flags & libc::O_CREAT != 0 && flags & libc::O_EXCL != 0 => {
                    Subject::Nothing
                }
                // A file that can be read, too, can be mapped, and written so anywhere.
                found => {
                    let appends = flags & libc::O_APPEND != 0 && flags & libc::O_ACCMODE == libc::O_WRONLY;
                    written(found, appends && !empties, empties)
                }
            }
        }
        Change::Unlink { at, folder } => match looking.name(at.folder, &looking.text(at)?)? {
            Found::Name(place, Some(there)) => {
                let is_folder = FileType::from_raw_mode(there.st_mode).is_dir();
                if is_folder == folder { Subject::Gone(place, there) } else { Subject::Nothing }
            }
            _ => Subject::Nothing,
        },
        Change::Rename { from, to, flags } => {
            let (old, new) = (looking.text(from)?, looking.text(to)?);
            let source = looking.name(from.folder, &old)?;
            let target = looking.name(to.folder, &new)?;
            // It will fail, and the program copies instead.
            if is_to_another_folder(&source, &target)
                && looking.is_across_mounts((from.folder, &old), (to.folder, &new))
            {
                return Ok(Subject::Nothing);
            }
            renamed(source, target, RenameFlags::from_bits_retain(flags))
        }
        Change::Link { from, to, flags } => {
            let Found::Name(name, None) = looking.name(to.folder, &looking.text(to)?)? else {
                return Ok(Subject::Nothing);
            };
            let text = looking.text(from)?;
            let file = match (text.is_empty(), flags & libc::AT_SYMLINK_FOLLOW != 0) {
                (true, _) => looking.open_file(from.folder),
                (false, follow) => looking.object(from.folder, &text, follow),
            };
            match file {
                Ok(Found::Name(place, Some(there))) => Subject::Named { file: (place, there), name },
                // A file that has no name yet, or one outside of the roots.
                Ok(_) => Subject::Created(name),
                Err(trouble) => return Err(trouble),
            }
        }
        Change::Create(at) => match looking.name(at.folder, &looking.text(at)?)? {
            Found::Name(place, None) => Subject::Created(place),
            _ => Subject::Nothing,
        },
        Change::Truncate(at) => written(looking.object(at.folder, &looking.text(at)?, true)?, false, true),
        Change::Write(file) => written(looking.open_file(file)?, false, false),
        Change::Bind { address, length } => match looking.socket(address, length)? {
            Some(text) => match looking.name(libc::AT_FDCWD, &text)? {
                Found::Name(place, None) => Subject::Created(place),
                _ => Subject::Nothing,
            },
            None => Subject::Nothing,
        },
        Change::Metadata { at, follow, may_be_empty, attributes } => {
            let text = looking.text(at)?;
            let found = match text.is_empty() && may_be_empty {
                true if at.folder == libc::AT_FDCWD => looking.object(at.folder, b".", true)?,
                true => looking.open_file(at.folder)?,
                false => looking.object(at.folder, &text, follow)?,
            };
            match found {
                Found::Name(place, Some(there)) => Subject::Metadata { place, there, attributes },
                _ => Subject::Nothing,
            }
        }
        Change::MetadataOf { file, attributes } => match looking.open_file(file)? {
            Found::Name(place, Some(there)) => Subject::Metadata { place, there, attributes },
            _ => Subject::Nothing,
        },
    })
}

/// Returns whether a file of several names may get another inode number there at its first change: overlayfs copies it from its
/// lower layer then.
fn changes_numbers(place: &Place) -> bool {
    fstatfs(&place.folder).is_ok_and(|it| it.f_type == libc::OVERLAYFS_SUPER_MAGIC)
}

fn is_to_another_folder(source: &Found, target: &Found) -> bool {
    match (source, target) {
        (Found::Name(from, _), Found::Name(to, _)) => from.folder_path != to.folder_path,
        _ => false,
    }
}

fn renamed(source: Found, target: Found, flags: RenameFlags) -> Subject {
    let exchange = flags.contains(RenameFlags::EXCHANGE);
    match (source, target) {
        (Found::Name(_, None), _) => Subject::Nothing,
        (_, Found::Name(_, Some(_))) if flags.contains(RenameFlags::NOREPLACE) => Subject::Nothing,
        (_, Found::Name(_, None)) if exchange => Subject::Nothing,
        (Found::Name(from, Some(there)), Found::Name(to, other)) => {
            if other.is_some_and(|it| identity(&it) == identity(&there)) {
                return Subject::Nothing;
            }
            Subject::Moved { from: (from, there), to: (to, other), exchange }
        }
        // A file can't be moved between a root and another file system, but a root's folder may lie beside.
        (Found::Name(from, Some(there)), Found::Nothing) => {
            let folder = FileType::from_raw_mode(there.st_mode).is_dir();
            if folder {
                return Subject::Unknown(format!("{} may have been moved out of the roots", from.path().display()));
            }
            Subject::Gone(from, there)
        }
        (Found::Nothing, Found::Name(to, Some(there))) => Subject::Gone(to, there),
        (Found::Nothing, Found::Name(to, None)) => Subject::Created(to),
        (Found::Nothing, Found::Nothing) => Subject::Nothing,
    }
}

/// Adds the records of one change to a log.
pub(super) struct Recording<'a> {
    pub(super) log: &'a mut Log,
    /// Locked only while it is asked: a copy may take long.
    pub(super) ignored: &'a Mutex<Ignored>,
    /// Returns whether git makes the change.
    pub(super) git: &'a dyn Fn() -> bool,
    /// Returns what was decided about a file's content that may not be kept.
    pub(super) decision: &'a dyn Fn(Identity) -> Option<Decision>,
    /// Decides about a content that can't be kept.
    pub(super) decide: &'a dyn Fn(Losing<'_>) -> Decision,
    /// Whether a copy may take long.
    pub(super) may_be_long: bool,
    /// The thread that makes the change.
    pub(super) thread: u32,
}

impl Recording<'_> {
    /// Adds what is to be kept before this change.
    pub(super) fn add(&mut self, subject: &Subject) -> Result<(), Stop> {
        self.log.check_renames(Some(self.thread));
        match subject {
            Subject::Nothing | Subject::Hidden => {}
            Subject::Gone(place, there) => self.gone(place, there)?,
            Subject::Created(place) => self.created(place),
            Subject::Written { place, there, append, empties } => {
                self.written(place, there, *append, *empties)?;
            }
            Subject::Metadata { place, there, attributes } => self.metadata(place, there, *attributes),
            Subject::Named { file: (place, there), name } => {
                if self.log.level(&place.path()) < Some(Level::Whole) {
                    self.log.named.insert(identity(there), place.clone());
                }
                // Otherwise nobody could know that a write through the new name is one to this file.
                if there.st_nlink > 1 && changes_numbers(place) {
                    self.written(place, there, false, false)?;
                }
                self.created(name);
            }
            Subject::Moved { from: (from, there), to: (to, other), exchange } => {
                self.moved((from, there), (to, other.as_ref()), *exchange)?;
            }
            Subject::Unknown(what) => self.log.unknown(what.clone()),
        }
        Ok(())
    }

    /// The name is about to lead nowhere, or to another file.
    fn gone(&mut self, place: &Place, there: &Stat) -> Result<(), Stop> {
        let path = place.path();
        let level = self.log.level(&path);
        let kind = FileType::from_raw_mode(there.st_mode);
        if kind.is_dir() {
            self.around(place);
            if level.is_none() {
                let git = self.by_git(&path);
                self.log.before(path, Node::Folder(Metadata::of(there)), BeforeImage::Nothing, git);
            }
            if level != Some(Level::New) {
                self.attributes(place, there, false);
            }
            if level != Some(Level::New) {
                self.log.counted.folders_deleted += 1;
            }
            return Ok(());
        }
        if level >= Some(Level::Whole) {
            self.around(place);
            self.log.changed_again(&path, self.git);
            // Its number may be another file's soon.
            if there.st_nlink == 1 {
                self.log.copied.remove(&identity(there));
                self.log.attributed.remove(&identity(there));
            }
            return Ok(());
        }
        let (node, kept) = match self.log.copied.get(&identity(there)) {
            // It was written by another name before: its content is not that of before the call.
            Some((of, kept)) if kind.is_file() => (Node::File(*of), kept.clone()),
            _ => {
                let node = node(place, there);
                let kept = match &node {
                    Node::Link { .. } => BeforeImage::Nothing,
                    _ => self.keep(place, there, true)?,
                };
                (node, kept)
            }
        };
        if there.st_nlink == 1 {
            // Its number may be another file's soon.
            self.log.copied.remove(&identity(there));
        }
        if kind.is_file() && !self.ignored.lock().have(&path) {
            self.log.counted.deleted += 1;
            self.count_of_git(&path);
        }
        self.around(place);
        let is_copied = matches!(kept, BeforeImage::Copied(_));
        let git = self.by_git(&path);
        self.log.before(path, node, kept, git);
        if is_copied {
            self.attributes(place, there, false);
        }
        Ok(())
    }

    fn created(&mut self, place: &Place) {
        self.around(place);
        let path = place.path();
        if self.log.level(&path).is_none() {
            let git = self.by_git(&path);
            self.log.before(path, Node::Absent, BeforeImage::Nothing, git);
        }
    }

    fn written(&mut self, place: &Place, there: &Stat, append: bool, empties: bool) -> Result<(), Stop> {
        if let Some(named) = self.log.named.get(&identity(there)).cloned()
            && (named.path() != place.path())
        {
            self.content(&named, there, append, empties)?;
        }
        self.content(place, there, append, empties)
    }

    fn content(&mut self, place: &Place, there: &Stat, append: bool, empties: bool) -> Result<(), Stop> {
        let path = place.path();
        // Its removal was recorded, and then refused: it is its own image.
        if there.st_nlink > 1 {
            self.unshare(&identity(there));
        }
        let before = self.log.level(&path);
        let wanted = if append { Level::Length } else { Level::Whole };
        if before >= Some(wanted) {
            self.log.changed_again(&path, self.git);
            return Ok(());
        }
        if append {
            let git = self.by_git(&path);
            self.log.before(path.clone(), Node::File(Metadata::of(there)), BeforeImage::Length, git);
        } else {
            let (of, kept) = match self.log.copied.get(&identity(there)) {
                // The same file was written by another name before.
                Some((of, kept)) => (*of, kept.clone()),
                None => {
                    let kept = self.keep(place, there, false)?;
                    self.log.copied.insert(identity(there), (Metadata::of(there), kept.clone()));
                    (Metadata::of(there), kept)
                }
            };
            let is_copied = matches!(kept, BeforeImage::Copied(_));
            let git = self.by_git(&path);
            self.log.before(path.clone(), Node::File(of), kept, git);
            if is_copied {
                self.attributes(place, there, false);
            }
        }
        if before < Some(Level::Length) && !self.ignored.lock().have(&path) {
            if empties && there.st_size > 0 {
                self.log.counted.emptied += 1;
            } else {
                self.log.counted.overwritten += 1;
            }
            if !append {
                self.count_of_git(&path);
            }
        }
        Ok(())
    }

    fn metadata(&mut self, place: &Place, there: &Stat, attributes: bool) {
        let path = place.path();
        let level = self.log.level(&path);
        if level.is_none() {
            let node = node(place, there);
            let kept = match &node {
                Node::File(_) | Node::Special(_) => BeforeImage::Metadata,
                _ => BeforeImage::Nothing,
            };
            let git = self.by_git(&path);
            self.log.before(path, node, kept, git);
        }
        if attributes && level != Some(Level::New) {
            self.attributes(place, there, true);
        }
    }

    /// Makes a copy of an image that is still a file of a root, which is about to be written.
    fn unshare(&mut self, file: &Identity) {
        if let Some(number) = self.log.linked.remove(file)
            && let Err(error) = images::unshare(&self.log.images, number)
        {
            self.log.unknown(format!("the image {number} of a file that could not be removed: {error}"));
        }
    }

    /// Records the extended attributes at the first time: where they are about to be `changed`, or are not those of
    /// the image.
    fn attributes(&mut self, place: &Place, there: &Stat, changed: bool) {
        if self.log.attributed.contains(&identity(there)) {
            return;
        }
        // What can't be read now can't be restored: the undo leaves the attributes that are there.
        let Ok(attributes) = kit::files::attributes(&place.folder, &place.name) else { return };
        if changed || !attributes.is_empty() {
            self.log.attributed.insert(identity(there));
            self.log.attributes(place.path(), attributes);
        }
    }

    fn moved(
        &mut self,
        (from, there): (&Place, &Stat),
        (to, other): (&Place, Option<&Stat>),
        exchange: bool,
    ) -> Result<(), Stop> {
        let is_folder = |it: &Stat| FileType::from_raw_mode(it.st_mode).is_dir();
        let thread = self.thread;
        let rename = |log: &mut Log, moves: Vec<(PathBuf, PathBuf)>| {
            log.rename(Rename { thread, place: from.clone(), identity: identity(there), moves });
        };
        match other {
            Some(_) if exchange => {
                self.around(from);
                self.around(to);
                self.history_moves(from);
                self.history_moves(to);
                let mut between = from.path().into_os_string().into_vec();
                between.extend_from_slice(b".exchanged");
                let between = PathBuf::from(OsString::from_vec(between));
                let (one, other) = (from.path(), to.path());
                let moves = vec![(one.clone(), between.clone()), (other.clone(), one), (between, other)];
                rename(self.log, moves);
                return Ok(());
            }
            // The call will fail.
            Some(other) if is_folder(other) != is_folder(there) => return Ok(()),
            Some(other) => self.gone(to, other)?,
            None => self.around(to),
        }
        self.around(from);
        self.history_moves(from);
        rename(self.log, vec![(from.path(), to.path())]);
        // Its first name, not the further one, is moved.
        if let Some(named) = self.log.named.get_mut(&identity(there))
            && named.path() == from.path()
        {
            *named = to.clone();
        }
        Ok(())
    }

    /// Records that another program than git is about to move something of a repository's history.
    fn history_moves(&mut self, place: &Place) {
        let path = place.path();
        if is_of_history(&path) && !(self.git)() {
            self.log.not_by_git(path);
        }
    }

    /// Keeps the content of a file that has no copy yet. `goes`: the name is about to be removed, so the file itself can be kept.
    fn keep(&mut self, place: &Place, there: &Stat, goes: bool) -> Result<BeforeImage, Stop> {
        let is_file = FileType::from_raw_mode(there.st_mode).is_file();
        if goes && there.st_nlink == 1 {
            let number = self.log.next_image();
            match images::link(place, there, &self.log.images, number) {
                Ok(()) => {
                    self.log.linked.insert(identity(there), number);
                    return Ok(BeforeImage::Linked(number));
                }
                Err(error) if !is_file => return Ok(BeforeImage::Not(Reason::Failed(error.to_string()))),
                Err(_) => {}
            }
        }
        if !is_file {
            return Ok(BeforeImage::Not(Reason::Special));
        }
        // A sparse file takes less space than its size.
        let size = there.st_size.cast_unsigned().min(there.st_blocks.cast_unsigned().saturating_mul(512));
        let bounds = self.log.bounds;
        if !bounds.ignored && self.ignored.lock().have(&place.path()) {
            return Ok(BeforeImage::Not(Reason::Ignored));
        }
        if size > bounds.file {
            return self.lost(place, there, Reason::TooLarge, goes);
        }
        if self.log.kept.saturating_add(size) > bounds.call {
            return self.lost(place, there, Reason::CallFull, goes);
        }
        // It was asked about as its copy failed: it isn't copied again for each look.
        match (self.decision)(identity(there)) {
            None | Some(Decision::Allowed) => {}
            Some(Decision::Pending) => return Err(Stop::Held),
            Some(Decision::Refused) => return Err(Stop::Refused),
        }
        let number = self.log.next_image();
        match images::copy(place, there, &self.log.images, number, self.may_be_long) {
            Ok(Copied::Done) => {
                self.log.kept += size;
                self.log.counted.kept_bytes += size;
                Ok(BeforeImage::Copied(number))
            }
            Ok(Copied::Long) => Err(Stop::Long),
            Err(error) => {
                let is_full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded].contains(&error.kind());
                let why = if is_full { Reason::Full } else { Reason::Failed(error.to_string()) };
                self.lost(place, there, why, goes)
            }
        }
    }

    /// Returns that the content is not kept, if it may be lost.
    fn lost(&self, place: &Place, there: &Stat, why: Reason, removes: bool) -> Result<BeforeImage, Stop> {
        let losing = Losing {
            identity: identity(there),
            path: place.path(),
            size: there.st_size.cast_unsigned(),
            why: &why,
            is_full: matches!(why, Reason::CallFull | Reason::Full),
            removes,
        };
        match (self.decide)(losing) {
            Decision::Allowed => Ok(BeforeImage::Not(why)),
            Decision::Pending => Err(Stop::Held),
            Decision::Refused => Err(Stop::Refused),
        }
    }

    /// Records the folder in which a name is about to change, at the first time.
    fn around(&mut self, place: &Place) {
        if self.log.level(&place.folder_path).is_none()
            && let Ok(there) = fstat(&place.folder)
        {
            let node = Node::Folder(Metadata::of(&there));
            let git = self.by_git(&place.folder_path);
            self.log.before(place.folder_path.clone(), node, BeforeImage::Nothing, git);
        }
    }

    /// Returns whether git itself makes the change, where that matters.
    fn by_git(&self, path: &Path) -> bool {
        may_be_of_repository(path) && (self.git)()
    }

    fn count_of_git(&mut self, path: &Path) {
        if path.components().any(|it| it.as_os_str() == OsStr::from_bytes(b".git"))
            && !(self.git)()
        {
            self.log.counted.of_git_dir += 1;
        }
    }
}

/// Returns what is there.
fn node(place: &Place, there: &Stat) -> Node {
    let metadata = Metadata::of(there);
    match FileType::from_raw_mode(there.st_mode) {
        FileType::RegularFile => Node::File(metadata),
        FileType::Directory => Node::Folder(metadata),
        FileType::Symlink => {
            let target = readlinkat(&place.folder, &place.name, Vec::new());
            let target = target.map(std::ffi::CString::into_bytes).unwrap_or_default();
            Node::Link { target: OsString::from_vec(target), metadata }
        }
        _ => Node::Special(metadata),
    }
}

/// Returns whether this may be a file of a repository, with a worktree or without one.
fn may_be_of_repository(path: &Path) -> bool {
    path.components().any(|it| {
        let name = it.as_os_str();
        name.eq_ignore_ascii_case(".git") || name == "objects" || name == "refs"
    })
}

/// Returns whether this is an object, a ref, `HEAD` or `packed-refs` in a `.git`, or a folder of such.
fn is_of_history(path: &Path) -> bool {
    let mut inside = path.components().skip_while(|it| !it.as_os_str().eq_ignore_ascii_case(".git")).skip(1);
    let is_transient = path.file_name().is_some_and(|it| {
        it.as_bytes().starts_with(b"tmp_") || it.as_bytes().ends_with(b".lock")
    });
    !is_transient && inside.any(|it| ["objects", "refs", "HEAD", "packed-refs"].iter().any(|name| it.as_os_str() == *name))
}
