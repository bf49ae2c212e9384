//! A small change tracker: makes changes to files, each recorded as the tracker of the sandbox would.

use std::{
    collections::{BTreeMap, HashMap},
    fs::{self, File, OpenOptions},
    io::Write,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use kit::tracking::{BeforeImage, Metadata, Node, Reason, Record};

/// The file at a path: its kind, mode, time, and content or target.
pub(super) type State = (char, u32, (i64, i64), Vec<u8>);

/// Returns the whole tree, with its root.
pub(super) fn snapshot(root: &Path) -> BTreeMap<PathBuf, State> {
    let mut tree = BTreeMap::new();
    walk(root, &mut tree);
    tree
}

fn walk(path: &Path, tree: &mut BTreeMap<PathBuf, State>) {
    let about = fs::symlink_metadata(path).unwrap();
    let (kind, content) = if about.is_dir() {
        ('d', Vec::new())
    } else if about.is_symlink() {
        ('l', fs::read_link(path).unwrap().into_os_string().into_encoded_bytes())
    } else {
        ('f', fs::read(path).unwrap_or_default())
    };
    tree.insert(path.to_owned(), (kind, about.mode() & 0o7777, (about.mtime(), about.mtime_nsec()), content));
    if about.is_dir() {
        for entry in fs::read_dir(path).into_iter().flatten() {
            walk(&entry.unwrap().path(), tree);
        }
    }
}

/// Waits until the clock of the file system has gone on.
pub(super) fn tick() {
    let file = tempfile::tempfile().unwrap();
    let first = file.metadata().unwrap().modified().unwrap();
    // The store counts in milliseconds.
    while tempfile::tempfile().unwrap().metadata().unwrap().modified().unwrap()
        < first + Duration::from_millis(3)
    {
        std::hint::spin_loop();
    }
}

/// A command that changes files.
pub(super) struct Tool {
    folder: PathBuf,
    root: PathBuf,
    log: File,
    next: u64,
    /// The level recorded for each path since the last move: 1 metadata, 2 length, 3 content.
    levels: HashMap<PathBuf, u8>,
    /// The images that are links, by inode.
    linked: HashMap<u64, Vec<u64>>,
}

impl Tool {
    pub(super) fn new(folder: &Path, root: &Path) -> Self {
        fs::create_dir_all(folder).unwrap();
        let log = OpenOptions::new().create(true).append(true).open(folder.join("log")).unwrap();
        let (folder, root) = (folder.to_owned(), root.to_owned());
        Self { folder, root, log, next: 1, levels: HashMap::new(), linked: HashMap::new() }
    }

    fn record(&mut self, record: &Record) {
        let line = serde_json::to_string(record).unwrap() + "\n";
        self.log.write_all(line.as_bytes()).unwrap();
    }

    /// Writes half of a record, as a process that is killed.
    pub(super) fn cut_record(&mut self) {
        self.log.write_all(b"{\"before\":{\"pa").unwrap();
    }

    fn node(path: &Path) -> Node {
        let Ok(about) = fs::symlink_metadata(path) else { return Node::Absent };
        let metadata = Metadata {
            mode: about.mode() & 0o7777,
            owner: (about.uid(), about.gid()),
            size: about.size(),
            modified: (about.mtime(), u32::try_from(about.mtime_nsec()).unwrap()),
            changed: (about.ctime(), u32::try_from(about.ctime_nsec()).unwrap()),
            identity: (about.dev(), about.ino()),
            links: about.nlink(),
        };
        if about.is_dir() {
            Node::Folder(metadata)
        } else if about.is_symlink() {
            Node::Link { target: fs::read_link(path).unwrap().into(), metadata }
        } else {
            Node::File(metadata)
        }
    }

    /// Records a path and its folder, if that was not done: `level` as in `levels`, `link` to keep the file itself.
    fn before(&mut self, path: &Path, level: u8, link: bool) {
        let folder = path.parent().unwrap().to_owned();
        if path != self.root && level == 3 && !self.levels.contains_key(&folder) {
            let node = Self::node(&folder);
            self.levels.insert(folder.clone(), 1);
            self.record(&Record::Before { path: folder, node, kept: BeforeImage::Metadata, git: false });
        }
        if self.levels.get(path).is_some_and(|it| *it >= level) {
            return;
        }
        let node = Self::node(path);
        let kept = match (&node, level) {
            (Node::File(_), 1) | (Node::Folder(_), _) => BeforeImage::Metadata,
            (Node::File(_), 2) => BeforeImage::Length,
            (Node::File(about), _) => {
                let number = self.next;
                self.next += 1;
                let image = self.folder.join(number.to_string());
                if link && about.links == 1 {
                    fs::hard_link(path, &image).unwrap();
                    self.linked.entry(about.identity.1).or_default().push(number);
                    BeforeImage::Linked(number)
                } else {
                    copy(path, &image);
                    BeforeImage::Copied(number)
                }
            }
            _ => BeforeImage::Nothing,
        };
        self.levels.insert(path.to_owned(), level);
        self.record(&Record::Before { path: path.to_owned(), node, kept, git: false });
    }

    /// Replaces images that are links to this file by copies, as it is about to be written.
    fn part(&mut self, path: &Path) {
        let Node::File(about) = Self::node(path) else { return };
        for number in self.linked.remove(&about.identity.1).unwrap_or_default() {
            let image = self.folder.join(number.to_string());
            copy(&image, &self.folder.join("fresh"));
            fs::rename(self.folder.join("fresh"), image).unwrap();
        }
    }

    /// Returns the path of this name, if no symlink is on the way to it.
    fn at(&self, name: &str) -> Option<PathBuf> {
        let path = self.root.join(name);
        let folder = path.parent().unwrap();
        (folder.canonicalize().ok()? == folder).then_some(path)
    }

    pub(super) fn write(&mut self, name: &str, bytes: &[u8]) {
        let Some(path) = self.at(name) else { return };
        if matches!(Self::node(&path), Node::Folder(_) | Node::Link { .. })
            || !path.parent().unwrap().is_dir()
        {
            return;
        }
        self.before(&path, 3, false);
        self.part(&path);
        let _ = fs::write(path, bytes);
    }

    pub(super) fn append(&mut self, name: &str, bytes: &[u8]) {
        let Some(path) = self.at(name) else { return };
        if !matches!(Self::node(&path), Node::File(_)) {
            return;
        }
        self.before(&path, 2, false);
        self.part(&path);
        if let Ok(mut file) = OpenOptions::new().append(true).open(path) {
            file.write_all(bytes).unwrap();
        }
    }

    pub(super) fn remove(&mut self, name: &str) {
        let Some(path) = self.at(name) else { return };
        if matches!(Self::node(&path), Node::File(_) | Node::Link { .. }) {
            self.before(&path, 3, true);
            let _ = fs::remove_file(path);
        }
    }

    pub(super) fn create_folder(&mut self, name: &str) {
        let Some(path) = self.at(name) else { return };
        if matches!(Self::node(&path), Node::Absent) && path.parent().unwrap().is_dir() {
            self.before(&path, 3, false);
            let _ = fs::create_dir(path);
        }
    }

    pub(super) fn remove_folder(&mut self, name: &str) {
        let Some(path) = self.at(name) else { return };
        if matches!(Self::node(&path), Node::Folder(_)) {
            self.before(&path, 3, false);
            let _ = fs::remove_dir(path);
        }
    }

    pub(super) fn move_file(&mut self, from: &str, to: &str) {
        let (Some(from), Some(to)) = (self.at(from), self.at(to)) else { return };
        let is_file = |path: &Path| matches!(Self::node(path), Node::File(_) | Node::Link { .. });
        if from == to || !is_file(&from) || !(is_file(&to) || matches!(Self::node(&to), Node::Absent)) {
            return;
        }
        if !to.parent().unwrap().is_dir() {
            return;
        }
        // A rename of one name of a file to another one does nothing.
        if Self::node(&from) == Self::node(&to) {
            return;
        }
        self.before(&to, 3, true);
        let _ = fs::remove_file(&to);
        self.moved(&from, &to);
    }

    fn moved(&mut self, from: &Path, to: &Path) {
        for path in [from, to] {
            let folder = path.parent().unwrap().to_owned();
            self.before(&folder, 1, false);
        }
        self.record(&Record::Moved { from: from.to_owned(), to: to.to_owned() });
        self.levels.clear();
        fs::rename(from, to).unwrap();
    }

    pub(super) fn move_folder(&mut self, from: &str, to: &str) {
        let (Some(from), Some(to)) = (self.at(from), self.at(to)) else { return };
        let can = matches!(Self::node(&from), Node::Folder(_))
            && matches!(Self::node(&to), Node::Absent)
            && to.parent().unwrap().is_dir()
            && !to.starts_with(&from);
        if !can {
            return;
        }
        self.moved(&from, &to);
    }

    /// Records a rename that the system refuses.
    pub(super) fn refused_move(&mut self, from: &str, to: &str) {
        let (Some(from), Some(to)) = (self.at(from), self.at(to)) else { return };
        if matches!(Self::node(&from), Node::Absent) || from == to || !to.parent().unwrap().is_dir() {
            return;
        }
        if matches!(Self::node(&to), Node::File(_)) {
            self.before(&to, 3, true);
        }
        self.record(&Record::Moved { from: from.clone(), to: to.clone() });
        self.record(&Record::NotMoved { from, to });
    }

    /// Records a removal that the system refuses.
    pub(super) fn refused_removal(&mut self, name: &str) {
        let Some(path) = self.at(name) else { return };
        if matches!(Self::node(&path), Node::File(_) | Node::Link { .. }) {
            self.before(&path, 3, true);
        }
    }

    pub(super) fn set_mode(&mut self, name: &str, mode: u32) {
        let Some(path) = self.at(name) else { return };
        if matches!(Self::node(&path), Node::File(_) | Node::Folder(_)) {
            self.before(&path, 1, false);
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
    }

    pub(super) fn set_time(&mut self, name: &str, seconds: u64) {
        let Some(path) = self.at(name) else { return };
        if matches!(Self::node(&path), Node::File(_) | Node::Folder(_)) {
            self.before(&path, 1, false);
            if let Ok(file) = File::open(path) {
                file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
            }
        }
    }

    pub(super) fn link(&mut self, target: &str, name: &str) {
        let Some(path) = self.at(name) else { return };
        if matches!(Self::node(&path), Node::Absent) && path.parent().unwrap().is_dir() {
            self.before(&path, 3, false);
            let _ = symlink(target, path);
        }
    }

    /// Overwrites a file whose content is not kept.
    pub(super) fn not_kept(&mut self, name: &str) {
        let Some(path) = self.at(name) else { return };
        let node = Self::node(&path);
        self.record(&Record::Before {
            path: path.clone(),
            node,
            kept: BeforeImage::Not(Reason::TooLarge),
            git: false,
        });
        fs::write(path, "lost\n").unwrap();
    }
}

fn copy(from: &Path, to: &Path) {
    let about = fs::metadata(from).unwrap();
    fs::write(to, fs::read(from).unwrap()).unwrap();
    let file = File::options().write(true).open(to).unwrap();
    file.set_modified(about.modified().unwrap()).unwrap();
    fs::set_permissions(to, about.permissions()).unwrap();
}
