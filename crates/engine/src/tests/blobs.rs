//! Blobs.

use std::fs;

use super::*;
use crate::{BlobId, Error, Source, tests::places::Place};

for_each_engine! {
    blobs_are_stored_once_under_their_hash,
    a_large_file_comes_back_whole,
    a_missing_blob_is_named,
    hundreds_of_blobs_are_read_at_once,
}

async fn blobs_are_stored_once_under_their_hash<P: Place>(place: &P) {
    let (one, other) = (engine(place).await, engine(place).await);
    let id = one.put(Source::Bytes(b"content".to_vec())).await.unwrap();
    assert_eq!(id, BlobId::of(b"content"));
    assert_eq!(other.put(Source::Bytes(b"content".to_vec())).await.unwrap(), id);
    assert!(other.has(&id).await.unwrap());
    assert_eq!(other.get(&id).await.unwrap(), b"content");
    let empty = one.put(Source::Bytes(Vec::new())).await.unwrap();
    assert_eq!(other.get(&empty).await.unwrap(), b"");
}

async fn a_large_file_comes_back_whole<P: Place>(place: &P) {
    let engine = engine(place).await;
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    let bytes: Vec<u8> = (0..5_000_003_u32).map(|it| (it.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    fs::write(&from, &bytes).unwrap();
    let id = engine.put(Source::File(from)).await.unwrap();
    fs::write(&to, "what was there before").unwrap();
    engine.fetch(&id, &to).await.unwrap();
    assert!(fs::read(&to).unwrap() == bytes, "the file is whole");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "no temporary file is left");
}

async fn hundreds_of_blobs_are_read_at_once<P: Place>(place: &P) {
    let engine = engine(place).await;
    let contents: Vec<Vec<u8>> = (0..400).map(|it| format!("content {it}").into_bytes()).collect();
    let puts = contents.iter().map(|it| engine.put(Source::Bytes(it.clone())));
    let ids: Vec<_> = futures_util::future::join_all(puts).await.into_iter().map(Result::unwrap).collect();
    let gets = futures_util::future::join_all(ids.iter().map(|it| engine.get(it))).await;
    assert_eq!(gets.into_iter().map(Result::unwrap).collect::<Vec<_>>(), contents);
}

async fn a_missing_blob_is_named<P: Place>(place: &P) {
    let engine = engine(place).await;
    let id = BlobId::of(b"never stored");
    assert!(!engine.has(&id).await.unwrap());
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("to");
    for error in [engine.get(&id).await.unwrap_err(), engine.fetch(&id, &to).await.unwrap_err()] {
        assert!(matches!(&error, Error::Unknown(text) if text.contains(id.as_str())), "{error}");
    }
    assert!(!to.exists());
}

#[tokio::test]
async fn a_damaged_blob_is_refused() {
    let place = places::Folder::new().await;
    let engine = engine(&place).await;
    let id = engine.put(Source::Bytes(b"content".to_vec())).await.unwrap();
    let text = id.as_str();
    let path = place.0.path().join("engine/blobs").join(&text[..2]).join(text);
    fs::write(&path, "damaged").unwrap();
    let to = place.0.path().join("to");
    for error in [engine.get(&id).await.unwrap_err(), engine.fetch(&id, &to).await.unwrap_err()] {
        assert!(matches!(&error, Error::Damaged(text) if text.contains(id.as_str())), "{error}");
    }
    assert!(!to.exists());
}
