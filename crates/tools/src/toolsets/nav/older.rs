//! Older forms of nav's edits, which it still accepts: models have learned them.

use serde::{Deserialize, Deserializer, de};
use serde_json::Value;

/// `{"set_line": {…}}`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SetLine {
    pub(super) anchor: String,
    pub(super) new_text: String,
}

/// `{"replace_lines": {…}}`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReplaceLines {
    pub(super) start_anchor: String,
    #[serde(default)]
    pub(super) end_anchor: Option<String>,
    pub(super) new_text: String,
}

/// `{"insert_after": {…}}`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InsertText {
    pub(super) anchor: String,
    pub(super) text: String,
}

/// `{"type": …}`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Type {
    SetLine,
    ReplaceLines,
    InsertAfter,
}

/// `insert_after`: a flag, or in an older form the inserted text.
#[derive(Debug)]
pub(super) enum InsertAfter {
    Is(bool),
    This(InsertText),
}

impl Default for InsertAfter {
    fn default() -> Self {
        Self::Is(false)
    }
}

impl<'de> Deserialize<'de> for InsertAfter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            it @ Value::Object(_) => InsertText::deserialize(it).map(Self::This).map_err(de::Error::custom),
            other => bool::deserialize(other).map(Self::Is).map_err(de::Error::custom),
        }
    }
}
