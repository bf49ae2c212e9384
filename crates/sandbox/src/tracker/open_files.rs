//! Files that a lasting process keeps open for writing from one call to the next: a write to them is not stopped.
//!
//! When a call begins, they are copied, as far as they have changed since the last copy. When it ends, those that it
//! changed are recorded with that copy; what the process still has open then is recorded, too.

use std::{
    collections::{HashMap, HashSet},
    fs, io,
    os::{
        unix::{ffi::OsStrExt, fs::DirBuilderExt},
    },
    path::{Path, PathBuf},
    sync::{
        atomic::{AtomicU64, Ordering},
    },
};

use kit::tracking::{BeforeImage, Metadata, Node, Reason, Record};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, statat};

use super::{
    images::{self, Copied},
    log::{Early, Identity, Level, Log, Place, identity},
    logs::Call,
    resolve::{Found, Looking, Roots, TreeRoot},
};

/// The files that the processes of a tree have open for writing.
#[derive(Default)]
pub(super) struct OpenFiles {
    /// Threads that have opened a file for writing.
    threads: HashSet<u32>,
    /// The newest copies, each with what it is of.
    copies: HashMap<Identity, (Metadata, PathBuf)>,
}

impl Drop for OpenFiles {
    fn drop(&mut self) {
        for (_, copy) in self.copies.values() {
            let _ = fs::remove_file(copy);
        }
    }
}

impl OpenFiles {
    /// Notes that a thread opens a file for writing.
    pub(super) fn add(&mut self, thread: u32) {
        self.threads.insert(thread);
    }

    /// Copies the files that are open now, for a call that begins.
    pub(super) fn begin(&mut self, roots: &Roots, root: &TreeRoot, call: &Call) {
        let files = self.files(roots, root);
        let early: Vec<Early> = files.into_iter().map(|(place, there)| self.early(place, there, call)).collect();
        if !early.is_empty() {
            let mut log = call.log.lock();
            call.early.lock().extend(early);
            if let Some(log) = &mut *log {
                link_early(log, call);
            }
        }
    }

    /// Records what a call changed that ends, of the files that were open when it began, and what is still open.
    pub(super) fn end(&mut self, roots: &Roots, root: &TreeRoot, call: &Call) -> io::Result<()> {
        let early = std::mem::take(&mut *call.early.lock());
        let is_changed = |it: &Early| {
            let now = statat(&it.place.folder, &it.place.name, AtFlags::SYMLINK_NOFOLLOW);
            let (then, place) = (Metadata::of(&it.there), &it.there);
            now.is_ok_and(|now| identity(&now) == identity(place) && !is_same(&Metadata::of(&now), &then))
        };
        let changed: Vec<bool> = early.iter().map(is_changed).collect();
        let mut open = call.log.lock();
        if changed.contains(&true) && open.is_none() {
            *open = Some(Log::open(call.folder(), call.bounds)?);
        }
        let Some(log) = &mut *open else { return Ok(()) };
        for (mut early, is_changed) in early.into_iter().zip(changed) {
            let path = early.place.path();
            let is_recorded = log.level(&path) >= Some(Level::Length);
            if is_changed && !is_recorded {
                let kept = early.link(log);
                log.before(path, Node::File(Metadata::of(&early.there)), kept, false);
            } else if !is_recorded && let Some(number) = early.image {
                let _ = fs::remove_file(call.folder().join(number.to_string()));
            }
        }
        for (place, _) in self.files(roots, root) {
            if log.level(&place.path()).is_some() {
                log.add(&Record::StillOpen { path: place.path() });
            }
        }
        let counted = log.write()?;
        call.count(&counted);
        Ok(())
    }

    fn early(&mut self, place: Place, there: Stat, call: &Call) -> Early {
        let now = Metadata::of(&there);
        let copy = match self.copies.get(&identity(&there)) {
            Some((then, copy)) if is_same(&now, then) => Ok(copy.clone()),
            _ => self.copy(&place, &there, call),
        };
        Early { place, there, copy, image: None }
    }

    fn copy(&mut self, place: &Place, there: &Stat, call: &Call) -> Result<PathBuf, Reason> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let failed = |error: io::Error| Reason::Failed(error.to_string());
        // Beside the folders of the calls: a name that begins so is not one.
        let folder = call.folder().with_file_name(".open");
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(failed)?;
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}-{number}", std::process::id());
        if number == 0 {
            remove_leftovers(&folder);
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = rustix::fs::open(&folder, flags, Mode::empty()).map_err(|it| failed(it.into()))?;
        match images::copy_to(place, there, &handle, &name, false).map_err(failed)? {
            Copied::Done => {}
            Copied::Long => {
                let why = "it was open since an earlier call, and is larger than 8 MiB";
                return Err(Reason::Failed(why.to_owned()));
            }
        }
        let copy = folder.join(name);
        let old = self.copies.insert(identity(there), (Metadata::of(there), copy.clone()));
        if let Some((_, old)) = old {
            let _ = fs::remove_file(old);
        }
        Ok(copy)
    }

    /// Returns the files of roots that the threads have open for writing, each once.
    fn files(&mut self, roots: &Roots, root: &TreeRoot) -> Vec<(Place, Stat)> {
        let mut files: Vec<(Place, Stat)> = Vec::new();
        self.threads.retain(|thread| {
            // A thread that has ended has no descriptors.
            let Ok(descriptors) = fs::read_dir(format!("/proc/{thread}/fd")) else { return false };
            let looking = Looking { roots, root, thread: *thread };
            for descriptor in descriptors.flatten() {
                let Some((place, there)) = open_for_writing(&looking, &descriptor.path()) else { continue };
                if files.iter().all(|it| identity(&it.1) != identity(&there)) {
                    files.push((place, there));
                }
            }
            true
        });
        files
    }
}

impl Early {
    /// Makes its copy an image of the call. Returns that.
    fn link(&mut self, log: &mut Log) -> BeforeImage {
        let copy = match &self.copy {
            Ok(copy) => copy,
            Err(why) => return BeforeImage::Not(why.clone()),
        };
        if let Some(number) = self.image {
            return BeforeImage::Copied(number);
        }
        let number = log.next_image();
        let name = number.to_string();
        match rustix::fs::linkat(rustix::fs::CWD, copy, &log.images, &name, AtFlags::empty()) {
            Ok(()) => {
                self.image = Some(number);
                BeforeImage::Copied(number)
            }
            Err(error) => BeforeImage::Not(Reason::Failed(error.to_string())),
        }
    }
}

/// Adds what was open when a call began to its log, which is open now: a change of it has that before-image.
pub(super) fn link_early(log: &mut Log, call: &Call) {
    for early in call.early.lock().iter_mut() {
        let kept = early.link(log);
        log.copied.insert(identity(&early.there), (Metadata::of(&early.there), kept));
    }
}

fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.size, one.modified, one.changed) == (other.size, other.modified, other.changed)
}

/// Returns the file of a root that this descriptor is open for writing.
fn open_for_writing(looking: &Looking<'_>, descriptor: &Path) -> Option<(Place, Stat)> {
    let number = descriptor.file_name()?.to_str()?;
    let target = fs::read_link(descriptor).ok()?;
    if target.as_os_str().as_bytes().first() != Some(&b'/') || !looking.roots.have(&target) {
        return None;
    }
    let about = fs::read_to_string(format!("/proc/{}/fdinfo/{number}", looking.thread)).ok()?;
    let flags = about.lines().find_map(|it| it.strip_prefix("flags:"))?;
    let flags = i32::from_str_radix(flags.trim(), 8).ok()?;
    if flags & libc::O_ACCMODE == libc::O_RDONLY || flags & libc::O_PATH != 0 {
        return None;
    }
    match looking.open_file(number.parse().ok()?) {
        Ok(Found::Name(place, Some(there))) if FileType::from_raw_mode(there.st_mode).is_file() => {
            Some((place, there))
        }
        _ => None,
    }
}

/// Removes copies whose process of haft was killed.
fn remove_leftovers(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|it| it.split('-').next()).unwrap_or_default();
        if !Path::new("/proc").join(process).exists() {
            let _ = fs::remove_file(entry.path());
        }
    }
}
