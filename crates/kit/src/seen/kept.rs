//! How does a session remember across processes what it has shown?

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{File, Rows, State, Version, Views, Window};
use crate::text::{Digest, Text};

/// All that a session has shown, for storing. A file whose path is not UTF-8 is left out.
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
    followed: bool,
}

/// Bytes, readable where they can be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Bytes {
    Text(String),
    Hex(String),
}

impl Views {
    /// All that has been shown, oldest file first.
    pub fn keep(&self) -> Kept {
        let state = self.state.lock();
        let mut files: Vec<(&PathBuf, &File)> = state.files.iter().collect();
        files.sort_by_key(|(_, file)| file.used);
        let files = files.into_iter().filter_map(|(path, file)| KeptFile::of(path.to_str()?, file)).collect();
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

impl KeptFile {
    fn of(path: &str, file: &File) -> Option<Self> {
        let versions = file
            .versions
            .iter()
            .map(|version| KeptVersion {
                digest: version.text.digest(),
                bytes: Bytes::of(version.text.bytes()),
                shown: version.shown.clone(),
                known: version.known.clone(),
                followed: version.followed,
            })
            .collect();
        Some(Self { path: path.to_owned(), versions, windows: file.windows.clone() })
    }
}

impl KeptVersion {
    fn restore(self) -> Option<Version> {
        let text = Text::parse(self.bytes.back()?).ok()?;
        (text.digest() == self.digest).then_some(Version {
            text,
            shown: self.shown,
            known: self.known,
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
