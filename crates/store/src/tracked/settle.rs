//! Settling: notes the state in which a call left each path, once no process of it lives.

use std::{
    cell::LazyCell,
    collections::HashSet,
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
    time::SystemTime,
};

use kit::{
    Fault,
    text::Content,
    tracking::{Attribute, BeforeImage, Metadata, Node},
};
use serde::{Deserialize, Serialize};

use super::{
    Entry, Fold, LOG, SETTLED, Tracked,
    folder::{Spot, node_at},
    log,
};

/// Maximum size of a content that is kept for a diff, in bytes.
const SMALL: u64 = 1 << 20;
/// Maximum number of contents that are kept for diffs of one call.
const CONTENTS: usize = 200;

/// The state in which a call left its paths.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settled {
    /// Whether its process was killed, and the state is that of the next start of haft.
    pub interrupted: bool,
    /// The length of the log that this covers.
    pub log_bytes: u64,
    /// One for each entry of the fold, in its order.
    pub left: Vec<Left>,
    /// The moved files, one for each rename; `None` if something else was put in its place later.
    #[serde(default)]
    pub moved: Vec<Option<Node>>,
}

/// The state in which a call left a path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// The file that was there; `None` if it could not be determined.
    pub node: Option<Node>,
    /// The file that was there, if a rename had put it in the place of what was there before the call.
    #[serde(default)]
    pub over: Option<Node>,
    /// Its extended attributes, if the call may have changed them.
    #[serde(default)]
    pub attributes: Option<Vec<Attribute>>,
    /// The hash of its content, if that was small.
    pub after: Option<String>,
    /// The hash of the content before the call, if that was small.
    pub before: Option<String>,
}

impl Left {
    /// Returns whether the call changed the extended attributes of this entry.
    pub(super) fn has_other_attributes(&self, entry: &Entry) -> bool {
        self.attributes.is_some() && self.attributes != entry.attributes
    }
}

impl Tracked {
    /// Notes the state in which a call left its paths. Call it when no process of the call can change a file any
    /// more, and again if it wrote more records. Returns `None` if it changed nothing. Blocks.
    ///
    /// # Errors
    /// When its log can't be read or the state can't be written.
    pub fn settle(&self, call: &str, interrupted: bool) -> Result<Option<Settled>, Fault> {
        let folder = self.folder_of(call);
        let Some((records, log_bytes)) =
            log::read(&folder.join(LOG)).map_err(|error| self.trouble(&error))?
        else {
            return Ok(None);
        };
        let fold = Fold::of(records);
        let mut contents = 0;
        let changed: LazyCell<HashSet<PathBuf>, _> =
            LazyCell::new(|| fold.entries.iter().map(|it| fold.present(&it.path, it.segment)).collect());
        // Nothing is below what the call made a symlink, wherever that leads.
        let is_below_own_link = |path: &Path| {
            let link = path.ancestors().skip(1).filter(|it| it.is_symlink()).last();
            link.is_some_and(|it| changed.contains(it))
        };
        let left = fold
            .entries
            .iter()
            .map(|entry| {
                let path = fold.present(&entry.path, entry.segment);
                match node_at(&path) {
                    Ok(node) => self.left(call, &fold, entry, &path, node, &mut contents),
                    Err(_) if is_below_own_link(&path) => {
                        self.left(call, &fold, entry, &path, Node::Absent, &mut contents)
                    }
                    Err(_) => Left::default(),
                }
            })
            .collect();
        let moved = fold.moves.iter().enumerate().map(|(number, (_, to))| {
            let is_replaced = fold.is_replaced_after(to, number + 1);
            node_at(&fold.present(to, number + 1)).ok().filter(|_| !is_replaced)
        });
        let settled = Settled { interrupted, log_bytes, left, moved: moved.collect() };
        self.write(&folder.join(SETTLED), &settled)?;
        Ok(Some(settled))
    }

    /// Returns when the state was noted in which a call left its paths.
    ///
    /// # Errors
    /// When it was not noted.
    pub(super) fn settled_at(&self, call: &str) -> io::Result<SystemTime> {
        fs::metadata(self.folder_of(call).join(SETTLED))?.modified()
    }

    /// Notes that this node was left at `path`, where the entry is now.
    fn left(
        &self,
        call: &str,
        fold: &Fold,
        entry: &Entry,
        path: &Path,
        node: Node,
        contents: &mut usize,
    ) -> Left {
        self.release(call, entry, &node);
        let file = if let Node::File(about) = &node { Some(*about) } else { None };
        let mut left = Left { node: Some(node), ..Left::default() };
        if entry.attributes.is_some() {
            left.attributes = Spot::at(path).and_then(|it| it.attributes()).ok();
        }
        if fold.is_replaced(entry) {
            // For an undo nothing is there, once the rename is taken back; for a person the new content is.
            left.over = left.node.replace(Node::Absent);
        }
        if *contents >= CONTENTS || matches!(entry.kept, BeforeImage::Metadata) {
            return left;
        }
        if let Some(about) = file {
            left.after = Spot::at(path).ok().and_then(|spot| self.stored(&spot, about.size));
        }
        if let Node::File(about) = &entry.node {
            left.before = self.image(call, entry).and_then(|bytes| self.put(&bytes, about.size));
        }
        *contents += usize::from(left.after.is_some() || left.before.is_some());
        left
    }

    /// Drops an image that is the unchanged file itself, as its removal was refused: it has one name again.
    fn release(&self, call: &str, entry: &Entry, now: &Node) {
        if let (BeforeImage::Linked(number), Node::File(before), Node::File(now)) =
            (&entry.kept, &entry.node, now)
            && (now.identity, now.size, now.modified) == (before.identity, before.size, before.modified)
        {
            let image = self.folder_of(call).join(number.to_string());
            if matches!(node_at(&image), Ok(Node::File(image)) if image.identity == now.identity) {
                // Otherwise the file keeps a second name until the image is pruned.
                let _ = Spot::at(&image).and_then(|it| it.remove());
            }
        }
    }

    /// Returns the content of an entry before the call, if it is kept and small.
    fn image(&self, call: &str, entry: &Entry) -> Option<Vec<u8>> {
        let Node::File(Metadata { size, .. }) = &entry.node else { return None };
        let path = match &entry.kept {
            BeforeImage::Linked(number) | BeforeImage::Copied(number) => {
                self.folder_of(call).join(number.to_string())
            }
            _ => return None,
        };
        let spot = Spot::at(&path).ok()?;
        let mut bytes = Vec::new();
        spot.read().ok().filter(|_| *size <= SMALL)?.take(*size).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    fn stored(&self, spot: &Spot<'_>, size: u64) -> Option<String> {
        let mut bytes = Vec::new();
        spot.read().ok().filter(|_| size <= SMALL)?.take(size + 1).read_to_end(&mut bytes).ok()?;
        self.put(&bytes, size)
    }

    fn put(&self, bytes: &[u8], size: u64) -> Option<String> {
        if bytes.len() as u64 != size {
            return None;
        }
        let hash = self.store.blobs().put(&Content::from(bytes)).ok()?;
        Some(hash.to_hex().as_str().to_owned())
    }
}
