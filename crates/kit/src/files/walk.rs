//! Folder walk, without what git ignores.
//!
//! Each folder is entered by the handle of the one above and never through a symlink, so no rename during the
//! walk can lead it outside. The ignore rules are those of ripgrep's `ignore` crate.

use std::{
    cell::OnceCell,
    ffi::{OsStr, OsString},
    fs::File,
    io::Read,
    os::{
        fd::OwnedFd,
        unix::ffi::{OsStrExt, OsStringExt},
    },
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use parking_lot::{Condvar, Mutex};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, readlinkat, statat};

use super::{
    EntryKind, Files, Identity, check_glob,
    open::{Unopened, open_listed, open_regular, plain_device},
};
use crate::Fault;

/// Options of a walk.
#[derive(Debug, Clone, Copy)]
pub struct Walk {
    /// The treatment of ignored entries.
    pub ignored: Ignored,
    /// Number of levels to descend; 1 is the folder's own entries.
    pub depth: usize,
}

/// The treatment of entries that git ignores, and of vendored and cache folders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ignored {
    /// Leave it out.
    Skip,
    /// Show it like anything else (but never the inside of `.git`).
    Show,
    /// Leave out only the entries that git ignores, and repositories' own data. `.ignore` has no effect.
    AsGit,
}

/// Ignore rules that lie outside of the folder walked: those of a person, of a repository's `.git`, of folders above. Rules
/// in the folder come before them.
#[derive(Default)]
pub struct OuterRules(Vec<(PathBuf, Gitignore)>);

impl OuterRules {
    /// Parses rules, the lowest precedence first: each with the path from where it applies down to the folder walked.
    pub fn parse<'t>(rules: impl IntoIterator<Item = (&'t str, &'t str)>) -> Self {
        let parsed = rules.into_iter().filter_map(|(way, text)| {
            Some((PathBuf::from(way), compile(Path::new(""), [text.as_bytes().to_vec()])?))
        });
        Self(parsed.collect())
    }

    fn decide(&self, path: &Path, is_folder: bool) -> bool {
        let verdicts =
            self.0.iter().rev().map(|(way, rules)| rules.matched(way.join(path), is_folder).map(|_| ()));
        verdicts.into_iter().find(|it| !it.is_none()).is_some_and(|it| it.is_ignore())
    }
}

/// The decision whether to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Go {
    /// Continue.
    On,
    /// Stop the walk.
    Stop,
}

/// An entry that the walk found. The folder walked itself is not reported.
pub struct Met<'a> {
    /// Its path below the folder walked.
    pub path: &'a Path,
    /// Its kind.
    pub kind: EntryKind,
    dir: &'a OwnedFd,
    /// The folder's [`plain_device`], determined when its first file is opened.
    device: &'a OnceCell<Option<u64>>,
    name: &'a OsStr,
    files: &'a Files,
}

/// The outcome of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Walked {
    /// Folders that could not be read.
    pub unreadable: usize,
}

impl Met<'_> {
    /// Opens it for reading; `None` when it is not a regular file, or may not be read.
    pub fn open(&self) -> Option<(File, Identity)> {
        if self.kind != EntryKind::File {
            return None;
        }
        let device = *self.device.get_or_init(|| plain_device(self.dir));
        let (file, stat) = open_listed(self.dir, self.name, device).ok()?;
        self.files.check_other_names(&self.path.to_string_lossy(), &stat).ok()?;
        Some((file, Identity::of(&stat)))
    }

    /// Returns the target of a symlink; `None` when it is none.
    pub fn link_target(&self) -> Option<OsString> {
        let target = readlinkat(self.dir, self.name, Vec::new()).ok()?;
        Some(OsString::from_vec(target.into_bytes()))
    }

    /// Returns its size and times; `None` when it has been deleted.
    pub fn identity(&self) -> Option<Identity> {
        statat(self.dir, self.name, AtFlags::SYMLINK_NOFOLLOW).ok().map(|stat| Identity::of(&stat))
    }
}

impl Files {
    /// Walks a folder that this call was granted to read, on all cores, in no order. `meet` is called for
    /// every entry, from several threads, and decides whether to go on; `check` is called for every folder,
    /// and for every part of a large one.
    ///
    /// # Errors
    /// Those of [`list`](Self::list) for the folder itself, and of `check`.
    pub fn walk(
        &self,
        dir: &str,
        walk: Walk,
        check: &(dyn Fn() -> Result<(), Fault> + Sync),
        meet: &(dyn Fn(&Met<'_>) -> Go + Sync),
    ) -> Result<Walked, Fault> {
        self.walk_within(dir, walk, &OuterRules::default(), check, meet)
    }

    /// Like [`walk`](Self::walk), with ignore rules from outside of the folder.
    ///
    /// # Errors
    /// Those of [`walk`](Self::walk).
    pub fn walk_within(
        &self,
        dir: &str,
        walk: Walk,
        outer: &OuterRules,
        check: &(dyn Fn() -> Result<(), Fault> + Sync),
        meet: &(dyn Fn(&Met<'_>) -> Go + Sync),
    ) -> Result<Walked, Fault> {
        let (handle, location) = self.open_folder(dir)?;
        let above = self.rules_above(dir, &location)?;
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(8);
        let crew = Crew {
            files: self,
            top: location.absolute(),
            walk,
            outer,
            check,
            meet,
            queue: Mutex::new(Queue { waiting: Vec::new(), working: 0, fault: None }),
            changed: Condvar::new(),
            stopped: AtomicBool::new(false),
            unreadable: AtomicUsize::new(0),
        };
        let top = Folder { entered: Entered::Already(handle), path: PathBuf::new(), depth: 0, rules: above };
        crew.queue.lock().waiting.push(Work::Enter(top));
        std::thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(|| crew.work());
            }
            crew.work();
        });
        let unreadable = crew.unreadable.load(Ordering::Relaxed);
        match crew.queue.into_inner().fault {
            Some(fault) => Err(fault),
            None => Ok(Walked { unreadable }),
        }
    }

    /// Returns the rules of the folders from the root down to the one walked, which is not included.
    fn rules_above(&self, dir: &str, location: &super::Location) -> Result<Option<Arc<Rules>>, Fault> {
        let mut rules = None;
        let depth = location.rel.components().count();
        for up in (1..=depth).rev() {
            let above = location.above(up);
            // Reading the rules above is part of the permission to walk here; nothing of them is shown.
            let Ok(found) =
                super::beneath::resolve(&location.root.dir, &above.root_path(), &above.rel.join(".x"))
            else {
                continue;
            };
            let names = [OsString::from(".gitignore"), ".ignore".into(), ".git".into()];
            let below = location.rel.strip_prefix(&above.rel).unwrap_or(Path::new(dir));
            rules = Rules::read(&found.dir, &names, Prefix::Above(below), rules);
        }
        Ok(rules)
    }
}

/// The state that the threads of a walk share.
struct Crew<'a> {
    files: &'a Files,
    /// The canonical path of the folder walked.
    top: PathBuf,
    walk: Walk,
    outer: &'a OuterRules,
    check: &'a (dyn Fn() -> Result<(), Fault> + Sync),
    meet: &'a (dyn Fn(&Met<'_>) -> Go + Sync),
    queue: Mutex<Queue>,
    changed: Condvar,
    stopped: AtomicBool,
    unreadable: AtomicUsize,
}

struct Queue {
    waiting: Vec<Work>,
    working: usize,
    fault: Option<Fault>,
}

enum Work {
    /// Enter this folder.
    Enter(Folder),
    /// Report names of a folder that was entered.
    Meet(Arc<EnteredFolder>, Names),
}

/// A folder to walk.
struct Folder {
    entered: Entered,
    path: PathBuf,
    depth: usize,
    rules: Option<Arc<Rules>>,
}

/// An open folder.
struct EnteredFolder {
    handle: Arc<OwnedFd>,
    path: PathBuf,
    depth: usize,
    rules: Option<Arc<Rules>>,
}

type Names = Vec<(OsString, FileType)>;

/// If a folder has more names than this, they are split among idle threads.
const PART: usize = 128;

enum Entered {
    Already(OwnedFd),
    By(Arc<OwnedFd>, OsString),
}

/// Stops the other threads when one panics: they would wait for it for ever.
struct Alarm<'a, 'c>(&'a Crew<'c>);

impl Drop for Alarm<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Under the lock: a thread that is about to wait would otherwise miss it.
            let _queue = self.0.queue.lock();
            self.0.stopped.store(true, Ordering::Relaxed);
            self.0.changed.notify_all();
        }
    }
}

impl Crew<'_> {
    fn work(&self) {
        // Before the lock, so that it is dropped after it.
        let _alarm = Alarm(self);
        let mut queue = self.queue.lock();
        loop {
            if self.stopped.load(Ordering::Relaxed) {
                return;
            }
            // Last in, first out: depth first keeps the queue and the open handles few.
            let Some(work) = queue.waiting.pop() else {
                if queue.working == 0 {
                    self.changed.notify_all();
                    return;
                }
                self.changed.wait(&mut queue);
                continue;
            };
            queue.working += 1;
            drop(queue);
            let result = (self.check)().map(|()| match work {
                Work::Enter(folder) => self.enter(folder),
                Work::Meet(folder, names) => self.meet_all(&folder, names),
            });
            queue = self.queue.lock();
            queue.working -= 1;
            match result {
                Ok(below) => queue.waiting.extend(below),
                Err(fault) => {
                    queue.fault = Some(fault);
                    self.stopped.store(true, Ordering::Relaxed);
                }
            }
            self.changed.notify_all();
        }
    }

    /// Reads a folder; returns its names, in parts, as further work.
    fn enter(&self, folder: Folder) -> Vec<Work> {
        let Folder { entered, path, depth, rules } = folder;
        let handle = match entered {
            Entered::Already(handle) => Ok(handle),
            Entered::By(above, name) => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                openat(&*above, name, flags, Mode::empty())
            }
        };
        let Ok(handle) = handle.map(Arc::new) else { return self.unreadable() };
        let Ok(entries) = Dir::read_from(&*handle) else { return self.unreadable() };
        // One rule for listing, searching and reading: an entry that can't be read by its name isn't reported either.
        let hidden = self.files.roots().hidden_in(&self.top.join(&path));
        let mut names: Names = entries
            .flatten()
            .map(|entry| (OsStr::from_bytes(entry.file_name().to_bytes()).to_owned(), entry.file_type()))
            .filter(|(name, _)| name != "." && name != ".." && !hidden.contains(name))
            .collect();
        // Sorted, so that the first results don't depend on the file system.
        names.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        let skip = self.walk.ignored == Ignored::Skip;
        if skip && depth > 0 && is_cache(&handle, &names) {
            return Vec::new();
        }
        let rules = if self.walk.ignored != Ignored::Show {
            Rules::read(&handle, names.iter().map(|(name, _)| name), Prefix::Below(&path), rules)
        } else {
            None
        };
        let folder = Arc::new(EnteredFolder { handle, path, depth, rules });
        if names.len() <= PART {
            return self.meet_all(&folder, names);
        }
        // The queue is a stack: the first part should be met first.
        let parts = names.chunks(PART).rev();
        parts.map(|part| Work::Meet(folder.clone(), part.to_vec())).collect()
    }

    /// Reports the entries of these names; returns the folders among them.
    fn meet_all(&self, folder: &Arc<EnteredFolder>, names: Names) -> Vec<Work> {
        let EnteredFolder { handle, path, depth, rules } = &**folder;
        let skip = self.walk.ignored == Ignored::Skip;
        let device = OnceCell::new();
        let mut below = Vec::new();
        for (name, kind) in names {
            if self.stopped.load(Ordering::Relaxed) {
                return Vec::new();
            }
            let kind = match kind {
                FileType::Unknown => statat(&**handle, &name, AtFlags::SYMLINK_NOFOLLOW)
                    .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode)),
                kind => kind,
            };
            let kind = EntryKind::from(kind);
            let is_folder = kind == EntryKind::Folder;
            let at = path.join(&name);
            if (is_folder && is_never_walked(&name, skip))
                || self.leaves_out(rules.as_deref(), &at, is_folder)
            {
                continue;
            }
            let met = Met { path: &at, kind, dir: handle, device: &device, name: &name, files: self.files };
            if (self.meet)(&met) == Go::Stop {
                self.stopped.store(true, Ordering::Relaxed);
                return Vec::new();
            }
            if is_folder && depth + 1 < self.walk.depth {
                below.push(Work::Enter(Folder {
                    entered: Entered::By(handle.clone(), name),
                    path: at,
                    depth: depth + 1,
                    rules: rules.clone(),
                }));
            }
        }
        below.reverse();
        below
    }

    fn leaves_out(&self, rules: Option<&Rules>, path: &Path, is_folder: bool) -> bool {
        match self.walk.ignored {
            Ignored::Show => false,
            Ignored::Skip => Rules::leave_out(rules, path, is_folder),
            Ignored::AsGit => {
                let inside = Rules::decide(rules, path, is_folder, |it| it.git.as_ref(), true);
                inside.unwrap_or_else(|| self.outer.decide(path, is_folder))
            }
        }
    }

    fn unreadable(&self) -> Vec<Work> {
        self.unreadable.fetch_add(1, Ordering::Relaxed);
        Vec::new()
    }
}

/// Returns whether a folder is never walked: a version control system's own data, and with `skip_vendored`
/// installed packages, whether git ignores them or not.
fn is_never_walked(name: &OsStr, skip_vendored: bool) -> bool {
    const CONTROL: [&str; 4] = [".git", ".hg", ".svn", ".jj"];
    const VENDORED: [&str; 6] =
        ["node_modules", "bower_components", "__pycache__", ".venv", ".tox", ".direnv"];
    CONTROL.iter().any(|it| name == *it) || (skip_vendored && VENDORED.iter().any(|it| name == *it))
}

/// Returns whether a folder declares itself a cache: <https://bford.info/cachedir/>.
fn is_cache(dir: &OwnedFd, names: &[(OsString, FileType)]) -> bool {
    const TAG: &str = "CACHEDIR.TAG";
    const SIGNATURE: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";
    names.binary_search_by(|(name, _)| name.as_os_str().cmp(OsStr::new(TAG))).is_ok()
        && read_small(dir, OsStr::new(TAG)).is_some_and(|tag| tag.starts_with(SIGNATURE))
}

/// The ignore rules of one folder, and those above it.
struct Rules {
    /// `.ignore`, which takes precedence over git's rules.
    ours: Option<Gitignore>,
    /// `.gitignore` and `.git/info/exclude`.
    git: Option<Gitignore>,
    /// Whether a repository begins here, so that git's rules above don't apply.
    repository: bool,
    above: Option<Arc<Self>>,
    /// For rules above the folder walked: the path from there to it.
    way: PathBuf,
}

/// The position of rules relative to the folder walked.
#[derive(Clone, Copy)]
enum Prefix<'a> {
    /// In a folder above; this is the path down to it.
    Above(&'a Path),
    /// In it, or this far below it.
    Below(&'a Path),
}

impl Rules {
    fn read<'n>(
        dir: &OwnedFd,
        names: impl IntoIterator<Item = &'n OsString>,
        at: Prefix<'_>,
        above: Option<Arc<Self>>,
    ) -> Option<Arc<Self>> {
        let (mut has_ours, mut has_git, mut repository) = (false, false, false);
        for name in names {
            has_ours |= name == ".ignore";
            has_git |= name == ".gitignore";
            repository |= name == ".git";
        }
        if !has_ours && !has_git && !repository {
            return above;
        }
        let (root, way) = match at {
            Prefix::Above(way) => (Path::new(""), way.to_owned()),
            Prefix::Below(path) => (path, PathBuf::new()),
        };
        repository = repository && statat(dir, ".git", AtFlags::SYMLINK_NOFOLLOW).is_ok();
        let mut git = Vec::new();
        if repository && let Some(exclude) = read_exclude(dir) {
            git.push(exclude);
        }
        git.extend(has_git.then(|| read_small(dir, OsStr::new(".gitignore"))).flatten());
        let ours = has_ours.then(|| read_small(dir, OsStr::new(".ignore"))).flatten();
        Some(Arc::new(Self { ours: compile(root, ours), git: compile(root, git), repository, above, way }))
    }

    fn leave_out(rules: Option<&Self>, path: &Path, is_folder: bool) -> bool {
        Self::decide(rules, path, is_folder, |rules| rules.ours.as_ref(), false)
            .or_else(|| Self::decide(rules, path, is_folder, |rules| rules.git.as_ref(), true))
            .unwrap_or(false)
    }

    /// Returns the verdict of the nearest rule of this kind, if there is one.
    fn decide(
        rules: Option<&Self>,
        path: &Path,
        is_folder: bool,
        pick: fn(&Self) -> Option<&Gitignore>,
        stop_at_repository: bool,
    ) -> Option<bool> {
        let mut level = rules;
        while let Some(rules) = level {
            if let Some(matcher) = pick(rules) {
                let path =
                    if rules.way.as_os_str().is_empty() { path.to_owned() } else { rules.way.join(path) };
                let verdict = matcher.matched(&path, is_folder);
                if !verdict.is_none() {
                    return Some(verdict.is_ignore());
                }
            }
            if stop_at_repository && rules.repository {
                return None;
            }
            level = rules.above.as_deref();
        }
        None
    }
}

fn compile(root: &Path, texts: impl IntoIterator<Item = Vec<u8>>) -> Option<Gitignore> {
    let mut builder = GitignoreBuilder::new(root);
    for text in texts {
        // A glob whose compilation would recurse too deep is skipped as well.
        for line in String::from_utf8_lossy(&text).lines().filter(|line| check_glob(line).is_ok()) {
            // A rule that git would not parse either is ignored.
            let _ = builder.add_line(None, line);
        }
    }
    builder.build().ok().filter(|matcher| !matcher.is_empty())
}

fn read_exclude(dir: &OwnedFd) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let git = openat(dir, ".git", flags, Mode::empty()).ok()?;
    let info = openat(&git, "info", flags, Mode::empty()).ok()?;
    read_small(&info, OsStr::new("exclude"))
}

/// Reads a rule file if it is small; a large one is not a rule file.
fn read_small(dir: &OwnedFd, name: &OsStr) -> Option<Vec<u8>> {
    const MOST: u64 = 1 << 20;
    let (file, _) = open_regular(dir, name).map_err(|_: Unopened| ()).ok()?;
    let mut bytes = Vec::new();
    file.take(MOST).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}
