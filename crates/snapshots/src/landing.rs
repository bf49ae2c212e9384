//! Landing a patch in the workspace of a session.

use std::{
    collections::{HashMap, HashSet},
    ffi::OsStr,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use kit::{
    Fault, Kind,
    deliberate_faults::killed_at,
    files::{Becomes, Before, Loaded, Named, Proposal, Was},
    may_block_here,
    text::Content,
};
use parking_lot::Mutex;
use runtime::{Target, folders_above};
use tokio_util::sync::CancellationToken;

use crate::{BlobHash, Blobs, Patch, blobs::verified, manifest::Node, patch::Change, refusal};

/// Maximum length of a file that a patch changes, in bytes.
const MOST: u64 = 1 << 30;

/// Fewer changes than this are carried out one after the other.
const MANY: usize = 64;

/// The threads that carry out many changes. Each waits for the disk most of the time, which makes the changes of several files
/// durable together.
const THREADS: usize = 8;

/// The outcome of landing a patch.
#[derive(Debug)]
pub struct Landing {
    /// The call that changed the files: `haft undo --call ID` takes all of it back, and so does `haft undo`.
    pub call: String,
    /// Each file of the patch, in the order of the paths.
    pub files: Vec<Landed>,
}

/// The outcome of one file.
#[derive(Debug)]
pub struct Landed {
    /// Its path below the workspace.
    pub path: String,
    /// Its fate.
    pub fate: Fate,
}

/// The fate of one file of a patch.
#[derive(Debug)]
pub enum Fate {
    /// It was changed.
    Landed,
    /// It was as the patch wants it already: nothing was written.
    Already,
    /// It is as it was before. The fault says why, and shows the present lines where the patch would have changed it.
    Refused(Fault),
}

impl Landing {
    /// Returns the files that were refused, and why.
    pub fn refused(&self) -> impl Iterator<Item = (&str, &Fault)> {
        self.files.iter().filter_map(|it| match &it.fate {
            Fate::Refused(fault) => Some((it.path.as_str(), fault)),
            Fate::Landed | Fate::Already => None,
        })
    }

    /// Describes it, one line for each file and what to do about those that were refused.
    pub fn as_text(&self) -> String {
        let mut lines = Vec::new();
        for Landed { path, fate } in &self.files {
            match fate {
                Fate::Landed => lines.push(format!("landed {path}")),
                Fate::Already => lines.push(format!("{path} was so already")),
                Fate::Refused(fault) => lines.push(format!("refused {path}: {}", fault.as_text())),
            }
        }
        lines.join("\n")
    }
}

/// Lands a patch: changes each of its files that is still as the snapshot had it. Each file is changed atomically, in the name
/// of one call of the session, which the journal and `haft undo` know; the rules, grants and approvals of the session decide
/// about each file, and control files are asked about. A file that can't land is refused and named, and keeps no other one from
/// landing. If the process dies meanwhile, each file is old or new, and landing the same patch again completes it.
///
/// `blobs` holds the contents of the patch, and those of the snapshot.
///
/// # Errors
/// When the session's store can't be written, or `cancel` came before the first change. Faults of single files are in the
/// result.
pub async fn land(
    session: &runtime::Session,
    patch: &Patch,
    blobs: Arc<dyn Blobs>,
    cancel: &CancellationToken,
) -> Result<Landing, Fault> {
    let paths: Vec<String> = patch.changes.iter().map(|it| it.path.clone()).collect();
    let about = serde_json::json!({"base": patch.base, "files": paths}).to_string();
    let call = session.begin_landing("land", &about, &paths, cancel).await?;
    let (changes, cancel) = (patch.changes.clone(), cancel.clone());
    let work = move || {
        may_block_here(|| {
            let entangled = entangled(&changes);
            let work = Work {
                call: &call,
                blobs: &*blobs,
                cancel: &cancel,
                entangled,
                done: AtomicUsize::default(),
                recorded: Mutex::default(),
            };
            let files = work.all(&changes);
            (call, files)
        })
    };
    let done = tokio::task::spawn_blocking(work).await;
    let (call, files) = done.map_err(|error| Fault::bug(format!("landing a patch failed: {error}")))?;
    let landing = Landing { call: call.call().to_owned(), files };
    let notes = landing.refused().map(|(path, fault)| format!("refused {path}: {}", fault.what)).collect();
    call.end(&Ok(()), notes).await?;
    Ok(landing)
}

/// The state of a path now.
enum Now {
    Absent,
    File(Loaded),
    Link(String),
    Folder,
    /// Something special.
    Other,
}

/// A change that nothing prevents.
struct Step<'a> {
    change: &'a Change,
    target: Target,
    now: Now,
    content: Option<Content>,
    /// Whether the file is to be executable.
    executable: bool,
    /// Whether an undo needs more than its content, whatever changes of it.
    entangled: bool,
    /// The folders without any file that are in the place of the file, by their paths below the workspace: a snapshot has
    /// no empty folders, so nobody decided that they stay.
    empty_folders: Vec<String>,
}

/// Returns the paths of files that become folders, or folders that become files, with what is in them. An undo has to put these
/// back in their order.
fn entangled(changes: &[Change]) -> HashSet<String> {
    let paths = |removed: bool| -> HashSet<&str> {
        changes.iter().filter(|it| it.after.is_none() == removed).map(|it| it.path.as_str()).collect()
    };
    let (removed, made) = (paths(true), paths(false));
    let mut found = HashSet::new();
    for (some, others) in [(&removed, &made), (&made, &removed)] {
        for path in some.iter().copied() {
            for folder in folders_above(path).filter(|it| others.contains(it)) {
                found.extend([path.to_owned(), folder.to_owned()]);
            }
        }
    }
    found
}

/// The next step for one file.
enum Next<'a> {
    Change(Box<Step<'a>>),
    Done(Fate),
}

struct Work<'a> {
    call: &'a runtime::Landing,
    blobs: &'a dyn Blobs,
    cancel: &'a CancellationToken,
    /// Files that become folders, folders that become files, and what is in both.
    entangled: HashSet<String>,
    done: AtomicUsize,
    /// The paths of which an undo needs more than the content.
    recorded: Mutex<HashSet<String>>,
}

impl Work<'_> {
    fn all(&self, changes: &[Change]) -> Vec<Landed> {
        let mut fates: HashMap<&str, Fate> = HashMap::new();
        self.ask(changes, &mut fates);
        // What is removed makes place: a file may become a folder.
        let is_removal = |it: &&Change| it.after.is_none();
        self.each(changes.iter().filter(is_removal), &mut fates);
        // A folder that stays is not removed and made anew: an undo would have to do both.
        let needed: HashSet<&str> =
            changes.iter().filter(|it| !is_removal(it)).flat_map(|it| folders_above(&it.path)).collect();
        for recorded in [true, false] {
            let removed = changes.iter().filter(is_removal).map(|it| it.path.as_str());
            let landed = removed.filter(|it| {
                matches!(fates.get(it), Some(Fate::Landed)) && recorded == self.recorded.lock().contains(*it)
            });
            let folders: HashSet<&str> = landed.flat_map(folders_above).collect();
            self.call.remove_folders(folders.difference(&needed), recorded);
        }
        self.each(changes.iter().filter(|it| !is_removal(it)), &mut fates);
        let missing = || Fate::Refused(Fault::bug("the change was lost"));
        let fate = |it: &Change| fates.remove(it.path.as_str()).unwrap_or_else(missing);
        let mut fate = fate;
        changes.iter().map(|it| Landed { path: it.path.clone(), fate: fate(it) }).collect()
    }

    /// Asks the person once about all the files that they have to decide about. Those that can't land anyway are not shown.
    fn ask<'c>(&self, changes: &'c [Change], fates: &mut HashMap<&'c str, Fate>) {
        let mut steps = Vec::new();
        for change in changes.iter().filter(|it| self.call.is_asked(&it.path)) {
            match self.next(change) {
                Next::Change(step) => steps.push(step),
                Next::Done(fate) => drop(fates.insert(&change.path, fate)),
            }
        }
        let proposals: Vec<Proposal<'_>> = steps.iter().map(|it| it.proposal()).collect();
        if let Err(fault) = self.call.propose(&proposals) {
            for step in &steps {
                fates.insert(&step.change.path, Fate::Refused(fault.copied()));
            }
        }
    }

    /// Carries out those of these changes that have no fate yet. If they are many, those that don't depend on each other are
    /// carried out at once.
    fn each<'c>(&self, changes: impl Iterator<Item = &'c Change>, fates: &mut HashMap<&'c str, Fate>) {
        let open = changes.filter(|it| !fates.contains_key(it.path.as_str()));
        let (many, few): (Vec<_>, Vec<_>) = open.partition(|it| self.is_independent(it));
        let threads = if many.len() < MANY { 1 } else { THREADS };
        let next = AtomicUsize::new(0);
        let carry_out = || {
            let mut done = Vec::new();
            while let Some(change) = many.get(next.fetch_add(1, Ordering::Relaxed)) {
                done.push((change.path.as_str(), self.one(change)));
            }
            done
        };
        thread::scope(|scope| {
            let start = |_| {
                let builder = thread::Builder::new().name("haft-land".to_owned());
                // If no thread can be started, this one does all.
                builder.spawn_scoped(scope, || may_block_here(carry_out)).ok()
            };
            let others: Vec<_> = (1..threads).filter_map(start).collect();
            fates.extend(carry_out());
            for other in others {
                // A change whose thread panicked has no fate, which is reported.
                fates.extend(other.join().unwrap_or_default());
            }
        });
        fates.extend(few.into_iter().map(|it| (it.path.as_str(), self.one(it))));
    }

    /// Returns whether only the content of a file changes, whatever else the patch changes.
    fn is_independent(&self, change: &Change) -> bool {
        let executable = |node: &Option<Node>| match node {
            None => Some(None),
            Some(Node::File { executable, .. }) => Some(Some(*executable)),
            Some(Node::Link { .. }) => None,
        };
        let is_content = match (executable(&change.before), executable(&change.after)) {
            (Some(Some(was)), Some(Some(is))) => was == is,
            (Some(None), Some(Some(is))) => !is,
            (Some(Some(was)), Some(None)) => !was,
            _ => false,
        };
        is_content && !self.entangled.contains(&change.path) && !self.call.is_asked(&change.path)
    }

    fn one(&self, change: &Change) -> Fate {
        if self.cancel.is_cancelled() {
            let what = format!("landing was stopped before `{}` was changed", change.path);
            return Fate::Refused(Fault::new(Kind::Cancelled, what).next("Land the patch again."));
        }
        let _lock = match self.call.lock(&change.path) {
            Ok(lock) => lock,
            Err(fault) => return Fate::Refused(fault),
        };
        let step = match self.next(change) {
            Next::Change(step) => step,
            Next::Done(fate) => return fate,
        };
        if !step.empty_folders.is_empty() {
            self.call.remove_folders(&step.empty_folders, true);
        }
        match step.carry_out() {
            Ok(()) => {
                if !step.is_content_alone() {
                    self.recorded.lock().insert(change.path.clone());
                }
                let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
                killed_at(&format!("landing-{done}"));
                Fate::Landed
            }
            Err(fault) => Fate::Refused(fault),
        }
    }

    /// Compares a file with what the patch was made on.
    fn next<'c>(&self, change: &'c Change) -> Next<'c> {
        match self.step(change) {
            Ok(next) => next,
            Err(fault) => Next::Done(Fate::Refused(fault)),
        }
    }

    fn step<'c>(&self, change: &'c Change) -> Result<Next<'c>, Fault> {
        let Change { path, before, after } = change;
        let found = self.call.target(path).and_then(|target| now(&target, path).map(|now| (target, now)));
        let (target, mut now) = match found {
            // What was its folder is a file now, so it is not there.
            Err(fault) if after.is_none() && fault.kind == Kind::NotFound => {
                return Ok(Next::Done(Fate::Already));
            }
            found => found?,
        };
        if after.is_none() && matches!(now, Now::Folder) && self.entangled.contains(path) {
            return Ok(Next::Done(Fate::Already));
        }
        let mut empty_folders = Vec::new();
        if before.is_none()
            && matches!(now, Now::Folder)
            && let Some(folders) = folders_without_files(Path::new(&target.path), path)
        {
            (now, empty_folders) = (Now::Absent, folders);
        }
        let executable = match (before, after, &now) {
            // The bit that the work did not change stays as it is here.
            (
                Some(Node::File { executable: was, .. }),
                Some(Node::File { executable: wanted, .. }),
                Now::File(loaded),
            ) if was == wanted => loaded.is_executable_by_owner(),
            (_, Some(Node::File { executable, .. }), _) => *executable,
            _ => false,
        };
        if now.is(after.as_ref(), Some(executable)) {
            return Ok(Next::Done(Fate::Already));
        }
        if !now.is(before.as_ref(), None) {
            let load = |node: &Option<Node>| self.load(node.as_ref()).ok().flatten();
            let texts = [load(before), load(after)];
            let loaded = if let Now::File(loaded) = &now { Some(loaded) } else { None };
            let fault = refusal::moved_on(self.call, path, now.describe(), loaded, change, &texts);
            return Ok(Next::Done(Fate::Refused(fault)));
        }
        let content = self.load(after.as_ref())?;
        Ok(Next::Change(Box::new(Step {
            change,
            target,
            now,
            content,
            executable,
            entangled: self.entangled.contains(path) || !empty_folders.is_empty(),
            empty_folders,
        })))
    }

    /// Returns the content of a file of the patch or of its snapshot.
    fn load(&self, node: Option<&Node>) -> Result<Option<Content>, Fault> {
        let hash = node.and_then(Node::hash);
        hash.map(|it| verified(self.blobs, &it).map(Content::from)).transpose()
    }
}

/// Returns this folder and those in it, by their paths below the workspace, unless there is anything else in them. `path` is
/// the folder's own.
fn folders_without_files(absolute: &Path, path: &str) -> Option<Vec<String>> {
    /// More are not taken for an accident.
    const MOST_FOLDERS: usize = 1_000;
    let mut found = Vec::new();
    let mut open = vec![(absolute.to_owned(), path.to_owned())];
    while let Some((absolute, path)) = open.pop() {
        for entry in std::fs::read_dir(&absolute).ok()? {
            let entry = entry.ok()?;
            if !entry.file_type().ok()?.is_dir() {
                return None;
            }
            open.push((entry.path(), format!("{path}/{}", entry.file_name().to_str()?)));
        }
        found.push(path);
        if found.len() > MOST_FOLDERS {
            return None;
        }
    }
    Some(found)
}

fn now(target: &Target, path: &str) -> Result<Now, Fault> {
    let (location, named) = target.files.named(&target.path)?;
    if location.absolute() != Path::new(&target.path) {
        return Err(Fault::denied(format!("`{path}` leads through a symlink to `{location}` now")));
    }
    Ok(match named {
        Named::Absent => Now::Absent,
        Named::File => Now::File(target.files.load(&target.path, MOST)?),
        Named::Link(link) => Now::Link(link.to_string_lossy().into_owned()),
        Named::Folder => Now::Folder,
        Named::Special => Now::Other,
    })
}

impl Now {
    /// Returns whether it is this state. `executable` is the bit that it needs; any, if there is none.
    fn is(&self, node: Option<&Node>, executable: Option<bool>) -> bool {
        match (self, node) {
            (Self::Absent, None) => true,
            (Self::Link(now), Some(Node::Link { target })) => now == target,
            (Self::File(now), Some(Node::File { hash, .. })) => {
                executable.is_none_or(|it| it == now.is_executable_by_owner())
                    && BlobHash::of(&now.bytes) == *hash
            }
            _ => false,
        }
    }

    fn describe(&self) -> &'static str {
        match self {
            Self::Absent => "is gone",
            Self::File(_) => "has another content",
            Self::Link(_) => "is another symlink",
            Self::Folder => "is a folder",
            Self::Other => "is not a regular file",
        }
    }

    fn was(&self) -> Option<Was<'_>> {
        match self {
            Self::Absent => Some(Was::Absent),
            Self::File(loaded) => Some(Was::File(loaded)),
            Self::Link(target) => Some(Was::Link(OsStr::new(target))),
            Self::Folder | Self::Other => None,
        }
    }
}

impl Step<'_> {
    fn becomes(&self) -> Becomes<'_> {
        match (&self.change.after, &self.content) {
            (Some(Node::Link { target }), _) => Becomes::Link(OsStr::new(target)),
            (Some(Node::File { .. }), Some(content)) => {
                Becomes::File { content, executable: self.executable }
            }
            _ => Becomes::Gone,
        }
    }

    /// Returns whether only a content changes, which `edit`, `write` and `delete` would do too. Otherwise an undo needs the
    /// executable bit or a symlink as well.
    fn is_content_alone(&self) -> bool {
        if self.entangled {
            return false;
        }
        match (&self.now, self.becomes()) {
            (Now::File(now), Becomes::File { executable, .. }) => now.is_executable_by_owner() == executable,
            (Now::Absent, Becomes::File { executable, .. }) => !executable,
            (Now::File(now), Becomes::Gone) => !now.is_executable(),
            _ => false,
        }
    }

    fn proposal(&self) -> Proposal<'_> {
        let path = self.target.path.as_str();
        match (&self.now, self.becomes()) {
            (Now::File(now), Becomes::Gone) if self.is_content_alone() => {
                Proposal::Remove { path, before: now }
            }
            (Now::File(now), Becomes::File { content, .. }) if self.is_content_alone() => {
                Proposal::Save { path, before: Before::Was(now), content }
            }
            (Now::Absent, Becomes::File { content, .. }) if self.is_content_alone() => {
                Proposal::Save { path, before: Before::Absent, content }
            }
            (now, becomes) => Proposal::Replace { path, was: now.was().unwrap_or(Was::Absent), becomes },
        }
    }

    fn carry_out(&self) -> Result<(), Fault> {
        let files = &self.target.files;
        match self.proposal() {
            Proposal::Save { path, before, content } => files.save(path, before, content).map(drop),
            Proposal::Remove { path, before } => files.remove(path, before),
            Proposal::Replace { path, was, becomes } => files.replace(path, was, becomes),
        }
    }
}
