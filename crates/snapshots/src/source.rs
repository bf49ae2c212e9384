//! Source: the folder that a snapshot is taken of, with the rules about what travels.

use std::path::{Path, PathBuf};

use kit::{
    Fault,
    files::{OtherNames, RootSpec, Roots},
};
use runtime::Runtime;

/// Returns whether a content holds a secret.
type HoldsSecret = Box<dyn Fn(&[u8]) -> bool + Send + Sync>;

/// Limits of a snapshot and of a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum length of one file, in bytes. A longer one is left out and named.
    pub file: u64,
    /// Maximum length of all files together, in bytes. A workspace with more is an error.
    pub total: u64,
    /// Maximum number of files. A workspace with more is an error.
    pub files: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { file: 64 << 20, total: 4 << 30, files: 200_000 }
    }
}

/// A folder with the rules about what travels.
pub struct Source {
    pub(crate) roots: Roots,
    pub(crate) holds_secret: HoldsSecret,
    pub(crate) limits: Limits,
    pub(crate) index: Option<PathBuf>,
}

impl Source {
    /// Returns the workspace of a runtime: hidden paths, and files with the value of a secret that it knows, don't travel.
    pub fn workspace(runtime: &Runtime) -> Self {
        let masking = runtime.clone();
        let holds_secret = move |content: &[u8]| holds_secret(content, |text| is_masked(&masking, text));
        Self {
            roots: runtime.roots().clone(),
            holds_secret: Box::new(holds_secret),
            limits: Limits::default(),
            index: None,
        }
    }

    /// Returns a folder that [`materialize`](crate::materialize) made. `secret` tells whether a text contains the value of a
    /// secret of this machine: a file with one does not travel back.
    ///
    /// # Errors
    /// When it is not a folder.
    pub fn folder(
        folder: &Path,
        secret: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Result<Self, Fault> {
        let spec = RootSpec { path: folder.to_owned(), read_only: false };
        Ok(Self {
            roots: Roots::open(&[spec], OtherNames::Refuse)?,
            holds_secret: Box::new(move |content| holds_secret(content, &secret)),
            limits: Limits::default(),
            index: None,
        })
    }

    /// Sets the limits.
    #[must_use]
    pub fn limited(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Remembers the hashes of unchanged files in this file, so that the next snapshot need not read them.
    #[must_use]
    pub fn indexed(self, file: impl Into<PathBuf>) -> Self {
        Self { index: Some(file.into()), ..self }
    }
}

fn is_masked(runtime: &Runtime, text: &str) -> bool {
    matches!(runtime.masked(text), std::borrow::Cow::Owned(_))
}

/// Searches the readable parts of a content.
fn holds_secret(content: &[u8], is_in: impl Fn(&str) -> bool) -> bool {
    content.utf8_chunks().any(|chunk| is_in(chunk.valid()))
}
