//! The `gitignore` of KohakuTerrarium's searches: leaves out what git ignores.

use kit::{files::Ignored, prelude::*};

/// A boolean, a number, or a word, as models write it.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum Gitignore {
    Bool(bool),
    Number(i64),
    Word(String),
}

impl Default for Gitignore {
    fn default() -> Self {
        Self::Bool(true)
    }
}

impl Gitignore {
    /// Only `false`, `no` and `0` switch it off.
    pub(super) fn ignored(&self) -> Ignored {
        let on = match self {
            Self::Bool(it) => *it,
            Self::Number(it) => *it != 0,
            Self::Word(it) => !matches!(it.trim().to_lowercase().as_str(), "false" | "no" | "0"),
        };
        if on { Ignored::Skip } else { Ignored::Show }
    }
}
