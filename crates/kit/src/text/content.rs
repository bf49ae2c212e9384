//! Shared contents of files, and their hashes.

use std::{
    fmt,
    ops::Deref,
    sync::{Arc, OnceLock},
};

use super::Digest;

/// The bytes of a file. A clone shares them, and their digest, which is computed once.
#[derive(Clone)]
pub struct Content {
    inner: Arc<Inner>,
}

struct Inner {
    bytes: Vec<u8>,
    digest: OnceLock<Digest>,
}

impl Content {
    /// Returns the digest of the bytes, computed at the first call.
    pub fn digest(&self) -> Digest {
        *self.inner.digest.get_or_init(|| blake3::hash(self).into())
    }
}

impl Deref for Content {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.inner.bytes
    }
}

impl From<Vec<u8>> for Content {
    fn from(bytes: Vec<u8>) -> Self {
        Self { inner: Arc::new(Inner { bytes, digest: OnceLock::new() }) }
    }
}

impl From<&[u8]> for Content {
    fn from(bytes: &[u8]) -> Self {
        bytes.to_vec().into()
    }
}

impl<const LENGTH: usize> From<&[u8; LENGTH]> for Content {
    fn from(bytes: &[u8; LENGTH]) -> Self {
        bytes.to_vec().into()
    }
}

impl From<&Self> for Content {
    fn from(content: &Self) -> Self {
        content.clone()
    }
}

impl PartialEq for Content {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner) || self.inner.bytes == other.inner.bytes
    }
}

impl Eq for Content {}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len())
    }
}
