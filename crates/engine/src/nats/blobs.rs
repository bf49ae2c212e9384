//! Blobs in the object store `haft_blobs`.

use std::{
    path::Path,
    time::{Duration, SystemTime},
};

use async_nats::jetstream::{
    Context,
    object_store::{self, GetErrorKind, InfoErrorKind, ObjectMetadata, ObjectStore},
};
use futures_util::StreamExt as _;
use tokio::{
    fs::File,
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
};

use super::unreachable;
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

pub(super) struct Blobs(ObjectStore);

impl Blobs {
    pub(super) async fn open(context: &Context, replicas: usize) -> Result<Self> {
        if let Ok(store) = context.get_object_store("haft_blobs").await {
            return Ok(Self(store));
        }
        let config = object_store::Config {
            bucket: "haft_blobs".to_owned(),
            num_replicas: replicas,
            ..object_store::Config::default()
        };
        context.create_object_store(config).await.map(Self).map_err(unreachable)
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
        if self.age(id).await?.is_some_and(|it| it < FRESH) {
            return Ok(());
        }
        let about =
            ObjectMetadata { name: id.to_string(), chunk_size: Some(PART), ..ObjectMetadata::default() };
        self.0.put(about, from).await.map(|_| ()).map_err(unreachable)
    }

    /// Returns how long ago the blob was put, or `None` if it is not there.
    async fn age(&self, id: &BlobId) -> Result<Option<Duration>> {
        match self.0.info(id.as_str()).await {
            Ok(info) if info.deleted => Ok(None),
            Ok(info) => {
                let put = info.modified.map(SystemTime::from);
                Ok(Some(put.and_then(|it| it.elapsed().ok()).unwrap_or_default()))
            }
            Err(error) if error.kind() == InfoErrorKind::NotFound => Ok(None),
            Err(error) => Err(unreachable(error)),
        }
    }

    pub(super) async fn has(&self, id: &BlobId) -> Result<bool> {
        Ok(self.age(id).await?.is_some())
    }

    pub(super) async fn get(&self, id: &BlobId) -> Result<Vec<u8>> {
        let mut last = no_blob(id);
        for _ in 0..TRIES {
            let mut bytes = Vec::new();
            match self.read(id).await?.read_to_end(&mut bytes).await {
                Ok(_) if BlobId::of(&bytes) == *id => return Ok(bytes),
                Ok(_) => last = damaged(id),
                Err(error) => last = unreachable(error),
            }
        }
        Err(last)
    }

    pub(super) async fn fetch(&self, id: &BlobId, to: &Path) -> Result<()> {
        let mut last = no_blob(id);
        for _ in 0..TRIES {
            let mut from = self.read(id).await?;
            match fetch_once(&mut from, id, to).await {
                Err(error @ (Error::Damaged(_) | Error::Unreachable(_))) => last = error,
                done => return done,
            }
        }
        Err(last)
    }

    async fn read(&self, id: &BlobId) -> Result<object_store::Object> {
        match self.0.get(id.as_str()).await {
            Ok(object) => Ok(object),
            Err(error) if error.kind() == GetErrorKind::NotFound => Err(no_blob(id)),
            Err(error) => Err(unreachable(error)),
        }
    }

    pub(super) async fn sweep(&self, age: Duration) -> Result<()> {
        // A blob younger than that may be about to be used.
        let age = age.max(FRESH * 2);
        let mut all = self.0.list().await.map_err(unreachable)?;
        while let Some(info) = all.next().await {
            let info = info.map_err(unreachable)?;
            let old = info.modified.map(SystemTime::from).and_then(|it| it.elapsed().ok());
            if old.is_some_and(|it| it > age) {
                self.0.delete(&info.name).await.map_err(unreachable)?;
            }
        }
        Ok(())
    }
}

async fn fetch_once(from: &mut (impl AsyncRead + Unpin), id: &BlobId, to: &Path) -> Result<()> {
    let folder = folder_of(to);
    let here = |it: std::io::Error| of_file(to, &it);
    let target =
        blocking(move || tempfile::NamedTempFile::new_in(&folder).map_err(|it| of_file(&folder, &it)))
            .await?;
    let mut file = File::from_std(target.reopen().map_err(here)?);
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; PART];
    loop {
        let length = from.read(&mut buffer).await.map_err(unreachable)?;
        let Some(part) = buffer.get(..length).filter(|it| !it.is_empty()) else { break };
        hasher.update(part);
        file.write_all(part).await.map_err(here)?;
    }
    file.flush().await.map_err(here)?;
    if BlobId::from_hash(hasher.finalize()) != *id {
        return Err(damaged(id));
    }
    let to = to.to_owned();
    blocking(move || persist(target, &to).map_err(|it| of_file(&to, &it))).await
}
