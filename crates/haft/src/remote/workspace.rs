//! Workspaces between machines: there by content, and back as a patch that lands by the edit promise.

use std::{collections::BTreeSet, path::Path, sync::Arc};

use engine::{BlobId, Engine, Source as Content};
use futures_util::{StreamExt as _, stream};
use kit::{Fault, Kind, counted, services::Soon};
use parking_lot::Mutex;
use runtime::{Runtime, Session};
use serde::Serialize;
use serde_json::Value;
use snapshots::{BlobHash, Blobs, Cache, Fate, LeftOut, Manifest, Node, Patch, Source, materialize, take};
use tokio::{runtime::Handle, sync::Semaphore, task::JoinSet};
use tokio_util::sync::CancellationToken;

use super::{
    fault,
    packs::{Bundle, PACKED, Pack, Packs},
};
use crate::{Place, print};

/// Files that do not travel which are named; more are counted.
const NAMED: usize = 5;

/// How many contents are stored or fetched at once.
const AT_ONCE: usize = 16;

/// The largest content that is fetched beside others, in bytes.
const SMALL: u64 = 1 << 20;

/// A file that a patch changes here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Landed {
    /// Its path below the workspace.
    pub(crate) path: String,
    /// Why it was not changed, with what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) refused: Option<String>,
    /// Whether nothing was written because it was as the patch makes it already.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) already: bool,
    /// The call here that changed it, or refused to.
    #[serde(skip)]
    pub(crate) call: String,
}

impl Landed {
    /// Returns whether the file was changed here.
    pub(crate) fn is_changed(&self) -> bool {
        self.refused.is_none() && !self.already
    }
}

/// Returns the files that were changed here, for a model: `2 files here: a, b`. `None` if there are none.
pub(super) fn changed_here(landed: &[Landed]) -> Option<String> {
    let changed: Vec<&str> = landed.iter().filter(|it| it.is_changed()).map(|it| it.path.as_str()).collect();
    (!changed.is_empty()).then(|| format!("{} here: {}", counted(changed.len(), "file"), changed.join(", ")))
}

/// A workspace that was made from a snapshot.
pub(super) struct Made {
    manifest: Manifest,
    /// The packs of its contents.
    packs: Vec<Pack>,
}

/// The way of workspaces through an engine.
pub(crate) struct Travel<'a> {
    pub(crate) engine: &'a Arc<dyn Engine>,
}

/// Contents that the engine stores. Some requests run at once, as each waits for the network and for a disk.
#[derive(Clone)]
struct EngineBlobs {
    engine: Arc<dyn Engine>,
    /// The runtime on which its requests run.
    runtime: Handle,
    /// Contents that are being stored, until [`settle`](Self::settle).
    storing: Arc<Mutex<JoinSet<engine::Result<()>>>>,
    turns: Arc<Semaphore>,
    /// Small contents, which travel together.
    packs: Arc<Mutex<Packs>>,
    /// Held while a pack is fetched, so that each is fetched once.
    fetching: Arc<Mutex<()>>,
}

impl Travel<'_> {
    /// Stores what the workspace contains, and returns the id of its manifest.
    ///
    /// # Errors
    /// When the workspace is too large, or the engine can't be reached.
    pub(crate) async fn take(&self, runtime: &Runtime, place: &Place) -> Result<BlobId, Fault> {
        let records = store::folder_of(&place.state, runtime.roots().workspace());
        let remembered = records.join("snapshot-packs");
        let blobs = self.blobs(self.known(Packs::remembered(&remembered)).await?);
        let source = Source::workspace(runtime).indexed(records.join("snapshot-index"));
        let to = blobs.clone();
        let manifest = blocking(move || take(&source, &to)).await?;
        blobs.settle().await?;
        report(&manifest.left_out, "is not sent");
        let packs = {
            let mut packs = blobs.packs.lock();
            for hash in manifest.files.values().filter_map(Node::hash) {
                packs.use_content(&hash);
            }
            packs.remember(&remembered);
            packs.used()
        };
        self.put_bundle(manifest.to_bytes(), packs).await
    }

    /// Returns those of these packs that the engine has.
    async fn known(&self, packs: Vec<Pack>) -> Result<Vec<Pack>, Fault> {
        let mut known = Vec::new();
        for pack in packs {
            if self.engine.has(&pack.id).await.map_err(fault)? {
                known.push(pack);
            }
        }
        Ok(known)
    }

    /// Makes the files of a snapshot in an empty folder; `contents` is a cache.
    ///
    /// # Errors
    /// When a content can't be had, or the disk is full.
    pub(super) async fn materialize(&self, id: &BlobId, contents: &Path, to: &Path) -> Result<Made, Fault> {
        let (manifest, packs) = self.bundle(id).await?;
        let manifest = Manifest::from_bytes(&manifest)?;
        let (blobs, contents, to) = (self.blobs(packs.clone()), contents.to_owned(), to.to_owned());
        blobs.prefetch(&manifest, &contents).await?;
        blocking(move || {
            materialize(&manifest, &blobs, &Cache::new(&contents), &to)?;
            Ok(Made { manifest, packs })
        })
        .await
    }

    /// Stores what changed in a folder since it was made, and returns the id of the patch; none if nothing changed. Files
    /// with a secret that `of_worker` knows stay here.
    ///
    /// # Errors
    /// When the folder can't be read, or the engine can't be reached.
    pub(super) async fn difference(
        &self,
        made: &Made,
        folder: &Path,
        of_worker: &Runtime,
    ) -> Result<Option<BlobId>, Fault> {
        let (blobs, base, folder) = (self.blobs(Vec::new()), made.manifest.clone(), folder.to_owned());
        let (masking, to) = (of_worker.clone(), blobs.clone());
        let patch = blocking(move || {
            let is_secret = move |text: &str| matches!(masking.masked(text), std::borrow::Cow::Owned(_));
            Patch::between(&base, &Source::folder(&folder, is_secret)?, &to)
        })
        .await?;
        blobs.settle().await?;
        if patch.is_empty() && patch.left_out.is_empty() {
            return Ok(None);
        }
        let mut packs = blobs.packs.lock().used();
        // A file that is refused is shown beside what it was made on.
        let mut before = Packs::of(made.packs.clone());
        for hash in patch.changes.iter().filter_map(|it| it.before.as_ref()?.hash()) {
            before.use_content(&hash);
        }
        packs.extend(before.used());
        self.put_bundle(patch.to_bytes(), packs).await.map(Some)
    }

    /// Returns the number of files that a patch changes.
    ///
    /// # Errors
    /// When the engine does not have it.
    pub(crate) async fn files(&self, patch: &BlobId) -> Result<usize, Fault> {
        Ok(self.patch(patch).await?.0.changes.len())
    }

    /// Lets a patch land in the workspace of this session. A file that is no longer as it was sent is refused.
    ///
    /// # Errors
    /// When the patch can't be had, or the session's store can't be written.
    pub(crate) async fn land(
        &self,
        patch: &BlobId,
        session: &Session,
        cancel: &CancellationToken,
    ) -> Result<Vec<Landed>, Fault> {
        let (patch, packs) = self.patch(patch).await?;
        report(&patch.left_out, "stays on the other machine");
        if patch.is_empty() {
            return Ok(Vec::new());
        }
        let landing = snapshots::land(session, &patch, Arc::new(self.blobs(packs)), cancel).await?;
        let files = landing.files.into_iter().map(|it| {
            let already = matches!(it.fate, Fate::Already);
            let refused = match it.fate {
                Fate::Refused(fault) => Some(fault.as_text()),
                Fate::Landed | Fate::Already => None,
            };
            Landed { path: it.path, refused, already, call: landing.call.clone() }
        });
        Ok(files.collect())
    }

    async fn patch(&self, id: &BlobId) -> Result<(Patch, Vec<Pack>), Fault> {
        let (patch, packs) = self.bundle(id).await?;
        Ok((Patch::from_bytes(&patch)?, packs))
    }

    /// Stores a manifest or a patch, with the packs that it needs.
    async fn put_bundle(&self, what: Vec<u8>, packs: Vec<Pack>) -> Result<BlobId, Fault> {
        let text = |error: serde_json::Error| Fault::bug(format!("a bundle: {error}"));
        let what: Value = serde_json::from_slice(&what).map_err(text)?;
        let bundle = serde_json::to_vec(&Bundle { what, packs }).map_err(text)?;
        self.engine.put(Content::Bytes(bundle)).await.map_err(fault)
    }

    async fn bundle(&self, id: &BlobId) -> Result<(Vec<u8>, Vec<Pack>), Fault> {
        let read = self.engine.get(id).await.map_err(fault)?;
        let bundle: Bundle<Value> = serde_json::from_slice(&read)
            .map_err(|error| Fault::bad_args(format!("{id} is not a manifest or a patch: {error}")))?;
        Ok((bundle.what.to_string().into_bytes(), bundle.packs))
    }

    fn blobs(&self, packs: Vec<Pack>) -> EngineBlobs {
        EngineBlobs {
            engine: self.engine.clone(),
            runtime: Handle::current(),
            storing: Arc::default(),
            turns: Arc::new(Semaphore::new(AT_ONCE)),
            packs: Arc::new(Mutex::new(Packs::of(packs))),
            fetching: Arc::default(),
        }
    }
}

impl EngineBlobs {
    /// Waits for a request; never called on the runtime's own thread.
    fn wait<T>(&self, request: Soon<'_, engine::Result<T>>) -> Result<T, Fault> {
        self.runtime.block_on(request).map_err(fault)
    }

    /// Stores a blob in the background. Waits for a turn.
    fn store(&self, content: Vec<u8>) -> Result<(), Fault> {
        let turn = self.runtime.block_on(self.turns.clone().acquire_owned());
        let turn = turn.map_err(|error| Fault::bug(error.to_string()))?;
        let engine = self.engine.clone();
        let store = async move {
            let _turn = turn;
            engine.put(Content::Bytes(content)).await.map(drop)
        };
        self.storing.lock().spawn_on(store, &self.runtime);
        Ok(())
    }

    /// Waits until everything is stored.
    async fn settle(&self) -> Result<(), Fault> {
        let last = self.packs.lock().close();
        if let Some(pack) = last {
            self.engine.put(Content::Bytes(pack)).await.map_err(fault)?;
        }
        let mut storing = std::mem::take(&mut *self.storing.lock());
        while let Some(stored) = storing.join_next().await {
            stored
                .map_err(|error| Fault::bug(format!("a content was not stored: {error}")))?
                .map_err(fault)?;
        }
        Ok(())
    }

    /// Fills the cache with the small contents of a manifest that it lacks.
    async fn prefetch(&self, manifest: &Manifest, contents: &Path) -> Result<(), Fault> {
        let small = manifest.files.values().filter_map(|it| match it {
            Node::File { hash, len, .. } if *len <= SMALL => Some(*hash),
            _ => None,
        });
        let hashes: Vec<BlobHash> = small.collect::<BTreeSet<_>>().into_iter().collect();
        let cache = contents.to_owned();
        let lacking = blocking(move || Cache::new(&cache).lacking(&hashes)).await?;
        let (packed, alone): (Vec<_>, Vec<_>) = {
            let packs = self.packs.lock();
            lacking.into_iter().partition(|it| packs.pack_of(it).is_some())
        };
        let packed = self.packs.lock().with(&packed);
        let gets = packed
            .into_iter()
            .map(|(at, id)| async move { Ok::<_, Fault>((at, self.engine.get(&id).await.map_err(fault)?)) });
        let mut gets = stream::iter(gets).buffer_unordered(AT_ONCE);
        while let Some(got) = gets.next().await {
            let (at, bytes) = got?;
            let (packs, cache) = (self.packs.clone(), contents.to_owned());
            blocking(move || {
                let packs = packs.lock();
                for (hash, content) in packs.contents(at, &bytes)? {
                    if BlobHash::of(content) == hash {
                        Cache::new(&cache).put(&hash, content)?;
                    }
                }
                Ok(())
            })
            .await?;
        }
        let gets = alone.into_iter().map(|hash| async move {
            let content = self.engine.get(&id_of(&hash)?).await.map_err(fault)?;
            Ok::<_, Fault>((hash, content))
        });
        let mut gets = stream::iter(gets).buffer_unordered(AT_ONCE);
        while let Some(got) = gets.next().await {
            let (hash, content) = got?;
            let cache = contents.to_owned();
            blocking(move || Cache::new(&cache).put(&hash, &content)).await?;
        }
        Ok(())
    }
}

impl Blobs for EngineBlobs {
    fn lacking(&self, hashes: &[BlobHash]) -> Result<Vec<BlobHash>, Fault> {
        let asked = hashes.iter().map(|hash| async move {
            let is_there = self.engine.has(&id_of(hash)?).await.map_err(fault)?;
            Ok::<_, Fault>((*hash, is_there))
        });
        let answers = stream::iter(asked).buffered(AT_ONCE);
        let answers: Vec<_> = self.runtime.block_on(answers.collect());
        let lacks = |it: Result<(BlobHash, bool), Fault>| match it {
            Ok((_, true)) => None,
            Ok((hash, false)) => Some(Ok(hash)),
            Err(fault) => Some(Err(fault)),
        };
        answers.into_iter().filter_map(lacks).collect()
    }

    /// A small content is in a pack, or nowhere.
    fn lacking_contents(&self, contents: &[(BlobHash, u64)]) -> Result<Vec<BlobHash>, Fault> {
        let is_small = |it: &&(BlobHash, u64)| it.1 <= PACKED as u64;
        let large: Vec<BlobHash> = contents.iter().filter(|it| !is_small(it)).map(|it| it.0).collect();
        let mut lacking = self.lacking(&large)?;
        let mut packs = self.packs.lock();
        lacking.extend(contents.iter().filter(is_small).map(|it| it.0).filter(|it| !packs.use_content(it)));
        Ok(lacking)
    }

    fn put(&self, hash: &BlobHash, content: &[u8]) -> Result<(), Fault> {
        if content.len() > PACKED {
            return self.store(content.to_vec());
        }
        let full = self.packs.lock().put(hash, content);
        full.map_or(Ok(()), |pack| self.store(pack))
    }

    fn get(&self, hash: &BlobHash) -> Result<Vec<u8>, Fault> {
        let held = || self.packs.lock().held(hash);
        if let Some(content) = held() {
            return content;
        }
        let pack = self.packs.lock().pack_of(hash);
        let Some((at, id)) = pack else {
            let id = id_of(hash)?;
            return self.wait(self.engine.get(&id));
        };
        let _fetching = self.fetching.lock();
        if let Some(content) = held() {
            return content;
        }
        let bytes = self.wait(self.engine.get(&id))?;
        self.packs.lock().hold(at, bytes);
        held().unwrap_or_else(|| Err(Fault::bug("a pack was not held")))
    }
}

fn id_of(hash: &BlobHash) -> Result<BlobId, Fault> {
    hash.to_string().parse().map_err(fault)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Fault::new(Kind::Failed, format!("the workspace was not read: {error}")))?
}

/// Prints the files that do not travel.
fn report(left_out: &[LeftOut], how: &str) {
    for it in left_out.iter().take(NAMED) {
        print::err(&format!("haft: {it}, and {how}"));
    }
    if let Some(more) = left_out.len().checked_sub(NAMED).filter(|it| *it > 0) {
        print::err(&format!("haft: {more} more files: each {how}"));
    }
}
