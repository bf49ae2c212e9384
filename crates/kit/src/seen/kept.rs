//! How does a session remember across processes what it has shown?

use std::{borrow::Cow, path::PathBuf};

use serde::{Deserialize, Serialize};

use super::{File, Rows, State, Version, Views, Window};
use crate::{
    services::Mask,
    text::{Digest, Text},
};

/// How many bytes of files are stored: each process of the session reads and writes all of them.
const ROOM: usize = 8 * 1024 * 1024;

/// What a session has shown, for storing: what was shown last, as far as there is room. A
/// file whose path is not UTF-8 is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    files: Vec<KeptFile>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct KeptFile {
    path: String,
    versions: Vec<KeptVersion>,
    windows: Vec<Window>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct KeptVersion {
    digest: Digest,
    bytes: Bytes,
    shown: Rows,
    known: Rows,
}

/// Bytes, readable where they can be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Bytes {
    Text(String),
    Hex(String),
}

impl Views {
    /// What has been shown, oldest file first.
    pub fn keep(&self) -> Kept {
        let state = self.state.lock();
        let mut files: Vec<(&PathBuf, &File)> = state.files.iter().collect();
        files.sort_by_key(|(_, file)| std::cmp::Reverse(file.used));
        let mut room = ROOM;
        let kept = files.into_iter().filter_map(|(path, file)| KeptFile::of(path.to_str()?, file, &mut room));
        let mut files: Vec<KeptFile> = kept.collect();
        files.reverse();
        Kept { files }
    }

    /// The views that were kept. A text that does not fit its digest is left out.
    pub fn restore(kept: Kept) -> Self {
        let mut state = State::default();
        for kept in kept.files {
            state.clock += 1;
            let versions = kept.versions.into_iter().filter_map(KeptVersion::restore).collect();
            let file = File { used: state.clock, versions, windows: kept.windows };
            state.files.insert(PathBuf::from(kept.path), file);
        }
        state.bound();
        Self { state: state.into() }
    }
}

impl Kept {
    /// The same without any text in which there is something to hide: stored files are
    /// for other programs to read, too.
    #[must_use]
    pub fn without(mut self, mask: &dyn Mask) -> Self {
        for file in &mut self.files {
            file.versions
                .retain(|version| version.bytes.decoded().is_some_and(|text| mask.find(&text).is_empty()));
        }
        self.files.retain(KeptFile::says_something);
        self
    }
}

impl KeptFile {
    fn of(path: &str, file: &File, room: &mut usize) -> Option<Self> {
        let versions: Vec<_> = file
            .versions
            .iter()
            .filter(|version| {
                let left = room.checked_sub(version.text.bytes().len());
                *room = left.unwrap_or(*room);
                left.is_some()
            })
            .map(|version| KeptVersion {
                digest: version.text.digest(),
                bytes: Bytes::of(version.text.bytes()),
                shown: version.shown.clone(),
                known: version.known.clone(),
            })
            .collect();
        let kept = Self { path: path.to_owned(), versions, windows: file.windows.clone() };
        kept.says_something().then_some(kept)
    }

    fn says_something(&self) -> bool {
        !self.versions.is_empty() || !self.windows.is_empty()
    }
}

impl KeptVersion {
    fn restore(self) -> Option<Version> {
        let text = Text::parse(self.bytes.back()?).ok()?;
        (text.digest() == self.digest).then_some(Version { text, shown: self.shown, known: self.known })
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
