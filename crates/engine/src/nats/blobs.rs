//! Blobs in the object store `haft_blobs`.
//!
//! Parts are read one by one from the stream: a read by the object store's client makes a consumer, and a server that reads
//! hundreds of files at once runs into its limit of consumers.

use std::{
    path::Path,
    time::{Duration, SystemTime},
};

use async_nats::{
    HeaderMap,
    jetstream::{
        Context,
        object_store::{self, InfoErrorKind, ObjectInfo, ObjectMetadata, ObjectStore, PutErrorKind},
        stream::{RawMessageErrorKind, Stream},
    },
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE};
use bytes::Bytes;
use futures_util::StreamExt as _;
use tokio::{
    fs::File,
    io::{AsyncRead, AsyncWriteExt as _},
};

use super::{decoded, encoded, unreachable};
use crate::{
    BlobId, Error, Result, Source,
    files::{blocking, damaged, folder_of, no_blob, of_file, persist},
};

/// Each part costs a round trip and an fsync; the server takes messages of up to 1 MiB.
const PART: usize = 512 << 10;

/// A blob that was put longer ago is put again, so that a sweep keeps it.
const FRESH: Duration = Duration::from_secs(24 * 60 * 60);

/// A reader starts again if another process puts the same content meanwhile, which removes the parts that it reads.
const TRIES: u32 = 3;

pub(super) struct Blobs {
    store: ObjectStore,
    /// The stream of the store.
    stream: Stream,
    context: Context,
}

impl Blobs {
    pub(super) async fn open(context: &Context, replicas: usize) -> Result<Self> {
        let config = object_store::Config {
            bucket: "haft_blobs".to_owned(),
            num_replicas: replicas,
            ..object_store::Config::default()
        };
        let store = match context.get_object_store("haft_blobs").await {
            Ok(store) => store,
            Err(_) => context.create_object_store(config).await.map_err(unreachable)?,
        };
        let stream = context.get_stream("OBJ_haft_blobs").await.map_err(unreachable)?;
        Ok(Self { store, stream, context: context.clone() })
    }

    pub(super) async fn put(&self, source: Source) -> Result<BlobId> {
        match source {
            Source::Bytes(bytes) => {
                let id = BlobId::of(&bytes);
                self.put_from(&id, &mut &*bytes).await?;
                Ok(id)
            }
            Source::File(path) => {
                let hashed = path.clone();
                let id = blocking(move || {
                    let hash = || {
                        let mut hasher = blake3::Hasher::new();
                        hasher.update_reader(std::fs::File::open(&hashed)?)?;
                        Ok(hasher.finalize())
                    };
                    hash().map(BlobId::from_hash).map_err(|it: std::io::Error| of_file(&hashed, &it))
                })
                .await?;
                let mut file = File::open(&path).await.map_err(|it| of_file(&path, &it))?;
                self.put_from(&id, &mut file).await?;
                Ok(id)
            }
        }
    }

    async fn put_from(&self, id: &BlobId, from: &mut (impl AsyncRead + Unpin + Send)) -> Result<()> {
        match self.info(id).await? {
            Some(info) if age(&info) < FRESH => return Ok(()),
            Some(info) => return self.refresh(id, info).await,
            None => {}
        }
        let about =
            ObjectMetadata { name: id.to_string(), chunk_size: Some(PART), ..ObjectMetadata::default() };
        match self.store.put(about, from).await {
            Ok(_) => Ok(()),
            // Another process put it meanwhile. The parts that are there twice are removed with the whole stream only: senders
            // have no right to remove any.
            Err(error) if error.kind() == PutErrorKind::PurgeOldChunks => Ok(()),
            Err(error) => Err(unreachable(error)),
        }
    }

    /// Records that the blob was put now, so that a sweep keeps it.
    async fn refresh(&self, id: &BlobId, info: ObjectInfo) -> Result<()> {
        let info = ObjectInfo { modified: Some(SystemTime::now().into()), ..info };
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Rollup", "sub");
        let sent = self.context.publish_with_headers(subject_of(id), headers, encoded(&info)?).await;
        sent.map_err(unreachable)?.await.map(drop).map_err(unreachable)
    }

    /// Returns whether the blob is here, and then counts it as used now, so that a sweep keeps it.
    pub(super) async fn has(&self, id: &BlobId) -> Result<bool> {
        match self.info(id).await? {
            Some(info) if age(&info) >= FRESH => self.refresh(id, info).await.map(|()| true),
            info => Ok(info.is_some()),
        }
    }

    pub(super) async fn get(&self, id: &BlobId) -> Result<Vec<u8>> {
        let mut last = no_blob(id);
        for _ in 0..TRIES {
            let mut parts = self.parts(id).await?;
            let mut bytes = Vec::with_capacity(parts.about.size);
            let read = loop {
                match parts.next().await {
                    Ok(Some(part)) => bytes.extend_from_slice(&part),
                    Ok(None) => break Ok(()),
                    Err(error) => break Err(error),
                }
            };
            match read {
                Ok(()) if BlobId::of(&bytes) == *id => return Ok(bytes),
                Ok(()) => last = damaged(id),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    pub(super) async fn fetch(&self, id: &BlobId, to: &Path) -> Result<()> {
        let mut last = no_blob(id);
        for _ in 0..TRIES {
            let mut from = self.parts(id).await?;
            match fetch_once(&mut from, id, to).await {
                Err(error @ (Error::Damaged(_) | Error::Unreachable(_))) => last = error,
                done => return done,
            }
        }
        Err(last)
    }

    async fn parts(&self, id: &BlobId) -> Result<Parts<'_>> {
        match self.info(id).await? {
            Some(about) => Ok(Parts { stream: &self.stream, about, next: 0, read: 0 }),
            None => Err(no_blob(id)),
        }
    }

    /// Returns the description of a blob. One server of a cluster may not have it yet, so the leader is asked where another
    /// one has nothing.
    async fn info(&self, id: &BlobId) -> Result<Option<ObjectInfo>> {
        match self.store.info(id.as_str()).await {
            Ok(info) => return Ok(Some(info).filter(|it| !it.deleted)),
            Err(error) if error.kind() == InfoErrorKind::NotFound => {}
            Err(error) => return Err(unreachable(error)),
        }
        let subject = subject_of(id);
        match self.stream.get_last_raw_message_by_subject(&subject).await {
            Ok(it) => {
                let info: ObjectInfo = decoded(&subject, &it.payload)?;
                Ok(Some(info).filter(|it| !it.deleted))
            }
            Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => Ok(None),
            Err(error) => Err(unreachable(error)),
        }
    }

    pub(super) async fn sweep(&self, age: Duration) -> Result<()> {
        // A blob younger than that may be about to be used.
        let age = age.max(FRESH * 2);
        let mut all = self.store.list().await.map_err(unreachable)?;
        while let Some(info) = all.next().await {
            let info = info.map_err(unreachable)?;
            if self::age(&info) > age {
                self.store.delete(&info.name).await.map_err(unreachable)?;
            }
        }
        Ok(())
    }
}

/// Returns how long ago the blob was put.
fn age(info: &ObjectInfo) -> Duration {
    let put = info.modified.map(SystemTime::from);
    put.and_then(|it| it.elapsed().ok()).unwrap_or_default()
}

/// Returns the subject of a blob's description.
fn subject_of(id: &BlobId) -> String {
    format!("$O.haft_blobs.M.{}", URL_SAFE.encode(id.as_str()))
}

/// The parts of one blob, in order.
struct Parts<'a> {
    stream: &'a Stream,
    about: ObjectInfo,
    /// The sequence in the stream from which the next part is searched.
    next: u64,
    read: usize,
}

impl Parts<'_> {
    /// Returns the next part, or `None` behind the last one.
    async fn next(&mut self) -> Result<Option<Bytes>> {
        if self.read == self.about.chunks {
            return Ok(None);
        }
        let subject = format!("$O.haft_blobs.C.{}", self.about.nuid);
        let part = self.stream.get_first_raw_message_by_subject(&subject, self.next).await;
        let part = part.map_err(unreachable)?;
        self.next = part.sequence + 1;
        self.read += 1;
        Ok(Some(part.payload))
    }
}

async fn fetch_once(from: &mut Parts<'_>, id: &BlobId, to: &Path) -> Result<()> {
    let folder = folder_of(to);
    let here = |it: std::io::Error| of_file(to, &it);
    let target =
        blocking(move || tempfile::NamedTempFile::new_in(&folder).map_err(|it| of_file(&folder, &it)))
            .await?;
    let mut file = File::from_std(target.reopen().map_err(here)?);
    let mut hasher = blake3::Hasher::new();
    while let Some(part) = from.next().await? {
        hasher.update(&part);
        file.write_all(&part).await.map_err(here)?;
    }
    file.flush().await.map_err(here)?;
    if BlobId::from_hash(hasher.finalize()) != *id {
        return Err(damaged(id));
    }
    let to = to.to_owned();
    blocking(move || persist(target, &to).map_err(|it| of_file(&to, &it))).await
}
