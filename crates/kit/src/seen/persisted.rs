//! Persisted views: what a session has shown, restored in another process.

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{File, Rows, Version, Views, Window};
use crate::{
    redact::Redact,
    text::{Digest, Text},
};

/// Bytes of the versions of one file that are stored, the newest first.
const ROOM: usize = 4 * 1024 * 1024;

/// A session's views of one file, for storing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PersistedView {
    versions: Vec<KeptVersion>,
    windows: Vec<Window>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct KeptVersion {
    digest: Digest,
    bytes: Bytes,
    shown: Rows,
    known: Rows,
    #[serde(default)]
    read: Rows,
    followed: bool,
}

/// Bytes, stored as text where possible.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Bytes {
    Text(String),
    Hex(String),
}

impl Views {
    /// Returns all views, file by file, the least recently used first.
    pub fn keep(&self) -> Vec<(PathBuf, PersistedView)> {
        let state = self.state.lock();
        let mut files: Vec<(&PathBuf, &File)> = state.files.iter().collect();
        files.sort_by_key(|(_, file)| file.used);
        files.into_iter().map(|(path, file)| (path.clone(), PersistedView::of(file))).collect()
    }

    /// Returns whether anything of the file was shown.
    pub fn knows(&self, file: &Path) -> bool {
        self.state.lock().files.contains_key(file)
    }

    /// Restores the stored views of a file. A text that does not match its digest is dropped.
    pub fn restore(&self, file: &Path, kept: PersistedView) {
        let versions = kept.versions.into_iter().filter_map(KeptVersion::restore).collect();
        let mut state = self.state.lock();
        state.clock += 1;
        let used = state.clock;
        state.files.insert(file.to_owned(), File { used, versions, windows: kept.windows });
        state.bound();
    }
}

impl PersistedView {
    fn of(file: &File) -> Self {
        let mut room = ROOM;
        let fits = |version: &&Version| {
            let left = room.checked_sub(version.text.bytes().len());
            room = left.unwrap_or(0);
            left.is_some()
        };
        let versions = file.versions.iter().filter(fits).map(|version| KeptVersion {
            digest: version.text.digest(),
            bytes: Bytes::of(version.text.bytes()),
            shown: version.shown.clone(),
            known: version.known.clone(),
            read: version.read.clone(),
            followed: version.followed,
        });
        Self { versions: versions.collect(), windows: file.windows.clone() }
    }

    /// Removes every text that contains a secret: other programs can read stored files.
    #[must_use]
    pub fn without(mut self, mask: &dyn Redact) -> Self {
        self.versions
            .retain(|version| version.bytes.decoded().is_some_and(|text| mask.find(&text).is_empty()));
        self
    }

    /// Returns whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.versions.is_empty() && self.windows.is_empty()
    }
}

impl KeptVersion {
    fn restore(self) -> Option<Version> {
        let text = Text::parse(self.bytes.back()?).ok()?;
        (text.digest() == self.digest).then_some(Version {
            text,
            shown: self.shown,
            known: self.known,
            read: self.read,
            followed: self.followed,
        })
    }
}

impl Bytes {
    fn of(bytes: &[u8]) -> Self {
        std::str::from_utf8(bytes).map_or_else(
            |_| Self::Hex(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
            |text| Self::Text(text.to_owned()),
        )
    }

    fn decoded(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Text(text) => Some(Cow::Borrowed(text)),
            Self::Hex(_) => {
                let text = Text::parse(self.clone().back()?).ok()?;
                Some(Cow::Owned(text.decoded().into_owned()))
            }
        }
    }

    fn back(self) -> Option<Vec<u8>> {
        match self {
            Self::Text(text) => Some(text.into_bytes()),
            Self::Hex(hex) => {
                let (pairs, _) = hex.as_bytes().as_chunks::<2>();
                pairs
                    .iter()
                    .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
                    .collect()
            }
        }
    }
}
