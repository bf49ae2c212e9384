//! A folder as an undo has to restore it: names, kinds, contents, modes, times, numbers of names, attributes.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{FileTypeExt as _, MetadataExt as _},
    path::{Path, PathBuf},
};

/// Everything below a folder, and the folder itself.
pub(crate) struct Tree {
    nodes: BTreeMap<PathBuf, Node>,
}

#[derive(Clone, PartialEq, Eq)]
struct Node {
    kind: &'static str,
    mode: u32,
    modified: (i64, i64),
    content: Vec<u8>,
    /// The number of its names; 0 for a folder.
    names: u64,
    /// Extended attributes, access lists among them.
    attributes: BTreeMap<String, Vec<u8>>,
}

impl Tree {
    pub(crate) fn of(folder: &Path) -> Self {
        let mut tree = Self { nodes: BTreeMap::new() };
        tree.add(folder, folder);
        tree
    }

    fn add(&mut self, folder: &Path, path: &Path) {
        let about = fs::symlink_metadata(path).unwrap();
        let kind = about.file_type();
        let (kind, content) = if kind.is_dir() {
            ("folder", Vec::new())
        } else if kind.is_symlink() {
            ("link", fs::read_link(path).unwrap().into_os_string().into_encoded_bytes())
        } else if kind.is_file() {
            ("file", fs::read(path).unwrap_or_else(|_| b"(can't be read)".to_vec()))
        } else if kind.is_fifo() {
            ("pipe", Vec::new())
        } else {
            ("special", Vec::new())
        };
        let is_folder = kind == "folder";
        let node = Node {
            kind,
            mode: about.mode() & 0o7777,
            modified: (about.mtime(), about.mtime_nsec()),
            content,
            names: if is_folder { 0 } else { about.nlink() },
            attributes: if kind == "link" { BTreeMap::new() } else { attributes(path) },
        };
        self.nodes.insert(path.strip_prefix(folder).unwrap().to_owned(), node);
        if is_folder {
            for entry in fs::read_dir(path).into_iter().flatten() {
                self.add(folder, &entry.unwrap().path());
            }
        }
    }

    /// The same for two trees that one command made of equal ones: what it made has the time at which it ran.
    pub(crate) fn made_differences(&self, other: &Self) -> Vec<String> {
        let known = |tree: &Self| {
            let nodes = tree.nodes.iter().map(|(path, node)| {
                let is_new = node.modified.0 > 1_700_000_000;
                let modified = if is_new { (0, 0) } else { node.modified };
                (path.clone(), Node { modified, ..node.clone() })
            });
            Self { nodes: nodes.collect() }
        };
        known(self).differences(&known(other))
    }

    /// Returns a line for each path that is another one in `other`: the path, a colon, the difference.
    pub(crate) fn differences(&self, other: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        for (path, node) in &self.nodes {
            let mut line = |what: String| lines.push(format!("{}: {what}", path.display()));
            match other.nodes.get(path) {
                None => line("is gone".to_owned()),
                Some(it) if it.kind != node.kind => line(format!("{} instead of {}", it.kind, node.kind)),
                Some(it) => {
                    if it.content != node.content {
                        line(format!(
                            "another content ({} bytes, not {})",
                            it.content.len(),
                            node.content.len()
                        ));
                    }
                    if it.mode != node.mode {
                        line(format!("mode {:o}, not {:o}", it.mode, node.mode));
                    }
                    if it.names != node.names {
                        line(format!("{} names, not {}", it.names, node.names));
                    }
                    if it.attributes != node.attributes {
                        line(format!("attributes {:?}, not {:?}", it.attributes, node.attributes));
                    }
                    if it.modified != node.modified {
                        line(format!("time {:?}, not {:?}", it.modified, node.modified));
                    }
                }
            }
        }
        for path in other.nodes.keys().filter(|it| !self.nodes.contains_key(*it)) {
            lines.push(format!("{}: is new", path.display()));
        }
        lines
    }
}

/// Returns the attributes that a file's owner may set.
fn attributes(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut names = vec![0; 4096];
    let length = rustix::fs::llistxattr(path, &mut names[..]).unwrap_or(0);
    let names = String::from_utf8(names[..length].to_vec()).unwrap();
    let owned = |name: &&str| name.starts_with("user.") || name.starts_with("system.posix_acl_");
    let value = |name: &str| {
        let mut value = vec![0; 4096];
        let length = rustix::fs::lgetxattr(path, name, &mut value[..]).unwrap();
        (name.to_owned(), value[..length].to_vec())
    };
    names.split('\0').filter(owned).map(value).collect()
}

#[test]
fn tree_tells_content_mode_time_and_kind_apart() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for name in ["content", "mode", "time", "kind", "gone", "names", "attributes"] {
        fs::write(at(name), "x").unwrap();
    }
    let before = Tree::of(dir.path());
    assert!(before.differences(&Tree::of(dir.path())).is_empty());
    fs::write(at("content"), "y").unwrap();
    fs::set_permissions(at("mode"), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    fs::File::options().write(true).open(at("time")).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    fs::remove_file(at("kind")).unwrap();
    fs::create_dir(at("kind")).unwrap();
    fs::remove_file(at("gone")).unwrap();
    fs::hard_link(at("names"), at("new")).unwrap();
    rustix::fs::setxattr(at("attributes"), "user.a", b"1", rustix::fs::XattrFlags::empty()).unwrap();
    let lines = before.differences(&Tree::of(dir.path())).join("\n");
    for line in [
        "content: another content",
        "mode: mode 600",
        "time: time (0, 0)",
        "kind: folder instead of file",
        "gone: is gone",
        "new: is new",
        "names: 2 names, not 1",
        "attributes: attributes {\"user.a\": [49]}, not {}",
    ] {
        assert!(lines.contains(line), "{line} is not in:\n{lines}");
    }
}
