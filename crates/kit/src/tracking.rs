//! Changes that commands make to files: the records of a call's log.
//!
//! Before a command changes a path for the first time, one [`Record`] says what was there, and where its
//! content is kept. What records add up to, and how they are undone, is for the store.

use std::{
    ffi::OsString,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};

use rustix::fs::Stat;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The file at a path, as far as an undo restores it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Node {
    /// Nothing.
    Absent,
    /// A regular file.
    File(Metadata),
    /// A folder.
    Folder(Metadata),
    /// A symbolic link.
    Link {
        /// Its target.
        #[serde(with = "bytes")]
        target: OsString,
        /// Its metadata.
        metadata: Metadata,
    },
    /// A pipe, a socket or a device.
    Special(Metadata),
}

/// The metadata of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    /// Permission bits, with set-id and sticky.
    pub mode: u32,
    /// Owner and group.
    pub owner: (u32, u32),
    /// Size in bytes.
    pub size: u64,
    /// Last change of the content, in seconds and nanoseconds since the epoch.
    pub modified: (i64, u32),
    /// Last change of the metadata, likewise. It can't be restored; it tells whether somebody else changed the file.
    pub changed: (i64, u32),
    /// Device and inode.
    pub identity: (u64, u64),
    /// The number of names.
    pub links: u64,
}

impl Metadata {
    /// Returns the metadata of a file with this status.
    #[expect(
        clippy::useless_conversion,
        clippy::unnecessary_cast,
        reason = "the types differ between systems"
    )]
    pub fn of(stat: &Stat) -> Self {
        Self {
            mode: u32::from(stat.st_mode) & 0o7777,
            owner: (stat.st_uid, stat.st_gid),
            size: u64::try_from(stat.st_size).unwrap_or_default(),
            modified: (i64::from(stat.st_mtime), u32::try_from(stat.st_mtime_nsec).unwrap_or_default()),
            changed: (i64::from(stat.st_ctime), u32::try_from(stat.st_ctime_nsec).unwrap_or_default()),
            identity: (stat.st_dev as u64, stat.st_ino as u64),
            links: stat.st_nlink as u64,
        }
    }
}

/// An extended attribute of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attribute {
    /// Its name, with its namespace: `user.comment`.
    #[serde(with = "bytes")]
    pub name: OsString,
    /// Its value.
    pub value: Vec<u8>,
}

/// Where the content of a file before the call is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BeforeImage {
    /// There is no content: nothing was there, or a folder, a link.
    Nothing,
    /// The file itself, by another name: image of this number.
    Linked(u64),
    /// A copy: image of this number.
    Copied(u64),
    /// Only its length, as it was opened for appending.
    Length,
    /// Only its metadata, as nothing else was changed.
    Metadata,
    /// Not kept.
    Not(Reason),
}

/// Why the content of a file was not kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// It is larger than what may be kept of one file.
    TooLarge,
    /// The limit of one call was reached.
    CallFull,
    /// The disk, or the person's share of it, is full.
    Full,
    /// It is in a folder of build results or caches that git ignores.
    Ignored,
    /// It is a pipe, a socket or a device.
    Special,
    /// It could not be read or linked.
    Failed(String),
}

/// One line of a call's log.
///
/// Read backwards, the log undoes the call: for [`Before`](Self::Before) the path becomes again what it was, for
/// [`Moved`](Self::Moved) the path is moved back. A path may have several records, each of which keeps more
/// than the one before it: [`BeforeImage::Metadata`], then [`BeforeImage::Length`], then the content. The first says what the
/// path was, the first with content has the content: after [`BeforeImage::Length`], as many bytes of it as the file
/// had then. A record may name a change that the system refused afterwards: then the path is as before; after a rename,
/// [`NotMoved`](Self::NotMoved) says so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Record {
    /// The first change of a path, or the first that changes more of it. The path is the one of that moment:
    /// it, or a folder above, may have been moved before.
    Before {
        /// The absolute path in a root.
        #[serde(with = "path")]
        path: PathBuf,
        /// The file before the change.
        node: Node,
        /// Where its content is.
        kept: BeforeImage,
        /// Whether git's own program made the change.
        git: bool,
    },
    /// A folder or a file was moved. Records before it name its old path, those after it the new one. What was
    /// at the new path before has a record of its own.
    Moved {
        /// Its old path.
        #[serde(with = "path")]
        from: PathBuf,
        /// Its new path.
        #[serde(with = "path")]
        to: PathBuf,
    },
    /// Another program than git is about to delete or rewrite a path in a `.git` that git changed, or to move a part of
    /// the history.
    NotByGit {
        /// The path at that moment.
        #[serde(with = "path")]
        path: PathBuf,
    },
    /// The extended attributes of a path with a record, before the call changed them, or as its image has none. A
    /// path without this record has kept its own.
    Attributes {
        /// The path, as in its record.
        #[serde(with = "path")]
        path: PathBuf,
        /// All that its owner may set.
        attributes: Vec<Attribute>,
    },
    /// The system refused the last rename of this path that has a record: it is still there.
    NotMoved {
        /// The path that it has.
        #[serde(with = "path")]
        from: PathBuf,
        /// The path that it would have had.
        #[serde(with = "path")]
        to: PathBuf,
    },
    /// A process of the call still had this file open for writing when the call ended.
    StillOpen {
        /// The path.
        #[serde(with = "path")]
        path: PathBuf,
    },
    /// From here on, some changes may be those of other calls, which ran in the same process at the same time.
    Mixed {
        /// The other calls.
        with: Vec<String>,
    },
    /// A change whose file could not be determined.
    Unknown {
        /// A description.
        what: String,
    },
}

/// Replaces the start `from` of a path by `to`; `None` if the path is neither `from` nor below it.
pub fn rebase(path: &Path, from: &Path, to: &Path) -> Option<PathBuf> {
    let rest = path.strip_prefix(from).ok()?;
    Some(if rest.as_os_str().is_empty() { to.to_owned() } else { to.join(rest) })
}

/// Bytes of the system as text where they are UTF-8, as numbers where they are not.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Bytes {
    Text(String),
    Bytes(Vec<u8>),
}

mod bytes {
    use super::{Bytes, Deserialize, Deserializer, OsStrExt, OsString, OsStringExt, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &OsString, to: S) -> Result<S::Ok, S::Error> {
        match value.to_str() {
            Some(text) => to.serialize_str(text),
            None => Bytes::Bytes(value.as_bytes().to_vec()).serialize(to),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<OsString, D::Error> {
        Ok(match Bytes::deserialize(from)? {
            Bytes::Text(text) => text.into(),
            Bytes::Bytes(bytes) => OsString::from_vec(bytes),
        })
    }
}

mod path {
    use super::{Deserializer, Path, PathBuf, Serializer, bytes};

    pub(super) fn serialize<S: Serializer>(value: &Path, to: S) -> Result<S::Ok, S::Error> {
        bytes::serialize(&value.as_os_str().to_owned(), to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        bytes::deserialize(from).map(PathBuf::from)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_record_reads_back_as_it_was_also_with_a_path_that_is_no_text() {
        for path in [PathBuf::from("/w/a b\n"), PathBuf::from(OsString::from_vec(b"/w/\xff".to_vec()))] {
            let moved = Record::Moved { from: path.clone(), to: "/w/x".into() };
            let line = serde_json::to_string(&moved).unwrap();
            assert!(!line.contains('\n'));
            assert_eq!(serde_json::from_str::<Record>(&line).unwrap(), moved);
            let before = Record::Before { path, node: Node::Absent, kept: BeforeImage::Nothing, git: false };
            let line = serde_json::to_string(&before).unwrap();
            assert_eq!(serde_json::from_str::<Record>(&line).unwrap(), before);
            let attribute = Attribute { name: "user.a".into(), value: vec![0, 255] };
            let attributes = Record::Attributes { path: "/w/a".into(), attributes: vec![attribute] };
            let line = serde_json::to_string(&attributes).unwrap();
            assert_eq!(serde_json::from_str::<Record>(&line).unwrap(), attributes);
        }
    }
}
