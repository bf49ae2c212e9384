//! Packs: small contents of a workspace that travel together, as each blob of its own costs requests and an fsync.
//!
//! A pack is a blob: contents one behind the other. Which contents it has travels beside the manifest or the patch. The sender
//! remembers the packs of its last snapshot, so that the next one sends only what is new.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs,
    path::Path,
    sync::Arc,
};

use engine::BlobId;
use kit::{Fault, Kind};
use serde::{Deserialize, Serialize};
use snapshots::BlobHash;

/// The largest content that is packed, in bytes.
pub(super) const PACKED: usize = 64 << 10;

/// The length at which a pack is closed, in bytes: one part of the engine's blobs.
const FULL: usize = 512 << 10;

/// Maximum number of packs of one snapshot that were made for earlier ones; with more, all is packed anew.
const MOST: usize = 256;

/// Packs that are kept in memory while their contents are used, in bytes.
const HELD: usize = 64 << 20;

/// One pack, and its contents in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pack {
    pub(super) id: BlobId,
    contents: Vec<(BlobHash, u64)>,
}

/// A manifest or a patch, with the packs that have contents of it.
#[derive(Serialize, Deserialize)]
pub(super) struct Bundle<T> {
    pub(super) what: T,
    pub(super) packs: Vec<Pack>,
}

/// The packs of one way: those that exist, and the one that is being filled.
#[derive(Default)]
pub(super) struct Packs {
    packs: Vec<Pack>,
    /// For each content its pack, and its place there.
    places: HashMap<BlobHash, (usize, usize, usize)>,
    /// The packs that were used.
    used: BTreeSet<usize>,
    filling: Vec<u8>,
    contents: Vec<(BlobHash, u64)>,
    held: HashMap<usize, Arc<Vec<u8>>>,
}

impl Packs {
    /// Returns these packs, to take contents from.
    pub(super) fn of(packs: Vec<Pack>) -> Self {
        let mut these = Self::default();
        packs.into_iter().for_each(|it| these.add(it));
        these
    }

    /// Reads the packs of the last snapshot of a workspace; none if there were too many.
    pub(super) fn remembered(file: &Path) -> Vec<Pack> {
        let read = fs::read(file).ok().and_then(|it| serde_json::from_slice::<Vec<Pack>>(&it).ok());
        read.filter(|it| it.len() <= MOST).unwrap_or_default()
    }

    fn add(&mut self, pack: Pack) {
        let (at, mut from) = (self.packs.len(), 0);
        for (hash, len) in &pack.contents {
            let len = usize::try_from(*len).unwrap_or(usize::MAX);
            self.places.insert(*hash, (at, from, len));
            from = from.saturating_add(len);
        }
        self.packs.push(pack);
    }

    /// Returns whether the content is in a pack, which then counts as used.
    pub(super) fn use_content(&mut self, hash: &BlobHash) -> bool {
        let Some((at, ..)) = self.places.get(hash) else { return false };
        self.used.insert(*at);
        true
    }

    /// Adds a content. Returns a pack to store, once one is full.
    pub(super) fn put(&mut self, hash: &BlobHash, content: &[u8]) -> Option<Vec<u8>> {
        self.filling.extend_from_slice(content);
        self.contents.push((*hash, content.len() as u64));
        if self.filling.len() < FULL { None } else { self.close() }
    }

    /// Returns the pack that is being filled, to store it; none if it is empty.
    pub(super) fn close(&mut self) -> Option<Vec<u8>> {
        let (bytes, contents) = (std::mem::take(&mut self.filling), std::mem::take(&mut self.contents));
        if contents.is_empty() {
            return None;
        }
        self.used.insert(self.packs.len());
        self.add(Pack { id: BlobId::of(&bytes), contents });
        Some(bytes)
    }

    /// Returns the packs that were used.
    pub(super) fn used(&self) -> Vec<Pack> {
        self.used.iter().filter_map(|it| self.packs.get(*it)).cloned().collect()
    }

    /// Remembers the packs that were used. The file is a help only: it may be missing or old.
    pub(super) fn remember(&self, file: &Path) {
        if let Ok(text) = serde_json::to_vec(&self.used()) {
            let _ = fs::write(file, text);
        }
    }

    /// Returns the pack that has this content.
    pub(super) fn pack_of(&self, hash: &BlobHash) -> Option<(usize, BlobId)> {
        let (at, ..) = self.places.get(hash)?;
        self.packs.get(*at).map(|it| (*at, it.id.clone()))
    }

    /// Returns the packs that have any of these contents, each once.
    pub(super) fn with(&self, hashes: &[BlobHash]) -> BTreeMap<usize, BlobId> {
        hashes.iter().filter_map(|it| self.pack_of(it)).collect()
    }

    /// Returns the contents of a pack, each with its hash, which whoever uses it compares.
    pub(super) fn contents<'a>(
        &self,
        at: usize,
        bytes: &'a [u8],
    ) -> Result<Vec<(BlobHash, &'a [u8])>, Fault> {
        let (mut contents, mut from) = (Vec::new(), 0_usize);
        for (hash, len) in self.packs.get(at).iter().flat_map(|it| &it.contents) {
            let to = usize::try_from(*len).ok().and_then(|it| from.checked_add(it));
            let content = to.and_then(|to| Some((to, bytes.get(from..to)?)));
            let (to, content) = content.ok_or_else(|| short(hash))?;
            contents.push((*hash, content));
            from = to;
        }
        Ok(contents)
    }

    fn cut<'a>(&self, hash: &BlobHash, bytes: &'a [u8]) -> Result<&'a [u8], Fault> {
        let place =
            self.places.get(hash).and_then(|(_, from, len)| bytes.get(*from..from.checked_add(*len)?));
        place.ok_or_else(|| short(hash))
    }

    /// Returns a content of a pack that is held in memory.
    pub(super) fn held(&self, hash: &BlobHash) -> Option<Result<Vec<u8>, Fault>> {
        let (at, ..) = self.places.get(hash)?;
        Some(self.cut(hash, self.held.get(at)?).map(<[u8]>::to_vec))
    }

    /// Holds a pack in memory, in place of the others if they are many.
    pub(super) fn hold(&mut self, at: usize, bytes: Vec<u8>) {
        if self.held.values().map(|it| it.len()).sum::<usize>() > HELD {
            self.held.clear();
        }
        self.held.insert(at, Arc::new(bytes));
    }
}

fn short(hash: &BlobHash) -> Fault {
    Fault::new(Kind::Failed, format!("the pack of the content {hash} is too short"))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn content(number: usize) -> Vec<u8> {
        format!("{number} ").repeat(2_000 + number).into_bytes()
    }

    #[test]
    fn contents_of_packs_are_found_again_and_only_used_packs_are_named() {
        let mut packs = Packs::default();
        let mut stored = Vec::new();
        for number in 0..100 {
            let content = content(number);
            stored.extend(packs.put(&BlobHash::of(&content), &content));
        }
        stored.extend(packs.close());
        assert!(packs.close().is_none() && (2..20).contains(&stored.len()), "{}", stored.len());
        let all = packs.used();
        assert_eq!(
            all.iter().map(|it| it.id.clone()).collect::<Vec<_>>(),
            stored.iter().map(|it| BlobId::of(it)).collect::<Vec<_>>()
        );
        let mut other = Packs::of(all);
        for number in 0..100 {
            let hash = BlobHash::of(&content(number));
            let (at, id) = other.pack_of(&hash).unwrap();
            let bytes = stored.iter().find(|it| BlobId::of(it) == id).unwrap().clone();
            assert!(
                other
                    .contents(at, &bytes)
                    .unwrap()
                    .iter()
                    .all(|(hash, content)| BlobHash::of(content) == *hash)
            );
            assert!(other.contents(at, bytes.get(1..).unwrap()).is_err(), "a pack that was cut");
            other.hold(at, bytes);
            assert_eq!(other.held(&hash).unwrap().unwrap(), content(number));
        }
        assert!(other.used().is_empty() && !other.use_content(&BlobHash::of(b"no")));
        assert!(other.use_content(&BlobHash::of(&content(0))));
        assert_eq!(other.used().len(), 1);
    }
}
