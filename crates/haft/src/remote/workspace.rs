//! Workspaces between machines: there by content, and back as a patch that lands by the edit promise.

use std::{path::Path, sync::Arc};

use engine::{BlobId, Engine, Source as Content};
use kit::{Fault, Kind, services::Soon};
use runtime::{Runtime, Session};
use serde::Serialize;
use snapshots::{BlobHash, Blobs, Cache, Fate, LeftOut, Manifest, Patch, Source, materialize, take};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::fault;
use crate::{Place, print};

/// Files that do not travel which are named; more are counted.
const NAMED: usize = 5;

/// A file that a patch changes here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Landed {
    /// Its path below the workspace.
    pub(crate) path: String,
    /// Why it was not changed, with what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) refused: Option<String>,
}

/// The way of workspaces through an engine.
pub(crate) struct Travel<'a> {
    pub(crate) engine: &'a Arc<dyn Engine>,
}

/// Contents that the engine stores.
struct EngineBlobs {
    engine: Arc<dyn Engine>,
    /// The runtime on which its requests run.
    runtime: Handle,
}

impl Travel<'_> {
    /// Stores what the workspace contains, and returns the id of its manifest.
    ///
    /// # Errors
    /// When the workspace is too large, or the engine can't be reached.
    pub(crate) async fn take(&self, runtime: &Runtime, place: &Place) -> Result<BlobId, Fault> {
        let blobs = self.blobs();
        let index = store::folder_of(&place.state, runtime.roots().workspace()).join("snapshot-index");
        let source = Source::workspace(runtime).indexed(index);
        let manifest = blocking(move || take(&source, &blobs)).await?;
        report(&manifest.left_out, "is not sent");
        self.put(manifest.to_bytes()).await
    }

    /// Makes the files of a snapshot in an empty folder; `contents` is a cache.
    ///
    /// # Errors
    /// When a content can't be had, or the disk is full.
    pub(super) async fn materialize(
        &self,
        id: &BlobId,
        contents: &Path,
        to: &Path,
    ) -> Result<Manifest, Fault> {
        let manifest = Manifest::from_bytes(&self.engine.get(id).await.map_err(fault)?)?;
        let (blobs, cache, to) = (self.blobs(), Cache::new(contents), to.to_owned());
        blocking(move || materialize(&manifest, &blobs, &cache, &to).map(|()| manifest)).await
    }

    /// Stores what changed in a folder since it was made, and returns the id of the patch; none if nothing changed. Files
    /// with a secret that `of_worker` knows stay here.
    ///
    /// # Errors
    /// When the folder can't be read, or the engine can't be reached.
    pub(super) async fn difference(
        &self,
        made: &Manifest,
        folder: &Path,
        of_worker: &Runtime,
    ) -> Result<Option<BlobId>, Fault> {
        let (blobs, made, folder) = (self.blobs(), made.clone(), folder.to_owned());
        let masking = of_worker.clone();
        let patch = blocking(move || {
            let is_secret = move |text: &str| matches!(masking.masked(text), std::borrow::Cow::Owned(_));
            Patch::between(&made, &Source::folder(&folder, is_secret)?, &blobs)
        })
        .await?;
        if patch.is_empty() && patch.left_out.is_empty() {
            return Ok(None);
        }
        self.put(patch.to_bytes()).await.map(Some)
    }

    /// Returns the number of files that a patch changes.
    ///
    /// # Errors
    /// When the engine does not have it.
    pub(crate) async fn files(&self, patch: &BlobId) -> Result<usize, Fault> {
        Ok(self.patch(patch).await?.changes.len())
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
        let patch = self.patch(patch).await?;
        report(&patch.left_out, "stays on the other machine");
        if patch.is_empty() {
            return Ok(Vec::new());
        }
        let landing = snapshots::land(session, &patch, Arc::new(self.blobs()), cancel).await?;
        let files = landing.files.into_iter().map(|it| {
            let refused = match it.fate {
                Fate::Refused(fault) => Some(fault.as_text()),
                Fate::Landed | Fate::Already => None,
            };
            Landed { path: it.path, refused }
        });
        Ok(files.collect())
    }

    async fn patch(&self, id: &BlobId) -> Result<Patch, Fault> {
        Patch::from_bytes(&self.engine.get(id).await.map_err(fault)?)
    }

    async fn put(&self, content: Vec<u8>) -> Result<BlobId, Fault> {
        self.engine.put(Content::Bytes(content)).await.map_err(fault)
    }

    fn blobs(&self) -> EngineBlobs {
        EngineBlobs { engine: self.engine.clone(), runtime: Handle::current() }
    }
}

impl EngineBlobs {
    /// Waits for a request; never called on the runtime's own thread.
    fn wait<T>(&self, request: Soon<'_, engine::Result<T>>) -> Result<T, Fault> {
        self.runtime.block_on(request).map_err(fault)
    }
}

impl Blobs for EngineBlobs {
    fn lacking(&self, hashes: &[BlobHash]) -> Result<Vec<BlobHash>, Fault> {
        let mut lacking = Vec::new();
        for hash in hashes {
            let id = id_of(hash)?;
            if !self.wait(self.engine.has(&id))? {
                lacking.push(*hash);
            }
        }
        Ok(lacking)
    }

    fn put(&self, _: &BlobHash, content: &[u8]) -> Result<(), Fault> {
        self.wait(self.engine.put(Content::Bytes(content.to_vec()))).map(drop)
    }

    fn get(&self, hash: &BlobHash) -> Result<Vec<u8>, Fault> {
        let id = id_of(hash)?;
        self.wait(self.engine.get(&id))
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
