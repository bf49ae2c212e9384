//! Idempotency keys, and names derived from them that every engine can store.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::Error;

/// The longest part of a key that stays readable; a longer one is hashed.
const LONGEST_PART: usize = 80;

/// The idempotency key of one piece of work. Offering the same key twice gives one piece of work.
///
/// `attempt` counts what the sender (or a person) asks for again on purpose, for example after an interruption. What the
/// engine offers again by itself, after a worker died, keeps the key: see [`Status::retries`](crate::Status::retries).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key {
    pub session: String,
    pub step: u64,
    pub call: u64,
    pub attempt: u32,
}

impl Key {
    /// Returns the stable text form: at most 200 bytes of `A-Z a-z 0-9 - _`, safe in NATS subjects, KV keys and file names.
    ///
    /// A session's name with other characters, or a long one, is replaced by its hash.
    pub fn text(&self) -> String {
        format!("{}-{}-{}-{}", part(&self.session), self.step, self.call, self.attempt)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

/// Returns `text` if it is short and of `A-Z a-z 0-9 - _`, else `h_` with its hash. A text that begins with `h_` is hashed
/// too, so that two texts never share a form.
pub(crate) fn part(text: &str) -> String {
    let plain = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_');
    let fits = !text.is_empty() && text.len() <= LONGEST_PART && !text.starts_with("h_");
    if fits && text.bytes().all(plain) {
        return text.to_owned();
    }
    format!("h_{}", blake3::hash(text.as_bytes()).to_hex())
}

/// The name of a blob: the BLAKE3 hash of its content, as 64 hexadecimal digits.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BlobId(String);

impl BlobId {
    /// Returns the id of this content.
    pub fn of(content: &[u8]) -> Self {
        Self(blake3::hash(content).to_hex().to_string())
    }

    pub(crate) fn from_hash(hash: blake3::Hash) -> Self {
        Self(hash.to_hex().to_string())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for BlobId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let hex = |it: u8| it.is_ascii_digit() || (b'a'..=b'f').contains(&it);
        if text.len() == 64 && text.bytes().all(hex) {
            return Ok(Self(text.to_owned()));
        }
        Err(Error::Refused(format!("{text:?} is not a blob id; give 64 hexadecimal digits")))
    }
}

impl TryFrom<String> for BlobId {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl From<BlobId> for String {
    fn from(id: BlobId) -> Self {
        id.0
    }
}

impl fmt::Display for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(session: &str) -> Key {
        Key { session: session.to_owned(), step: u64::MAX, call: u64::MAX, attempt: u32::MAX }
    }

    #[test]
    fn key_text_is_stable() {
        let plain = Key { session: "a1-b_2".to_owned(), step: 3, call: 1, attempt: 0 };
        assert_eq!(plain.text(), "a1-b_2-3-1-0");
        let odd = Key { session: "my session".to_owned(), step: 3, call: 1, attempt: 2 };
        let hash = blake3::hash(b"my session").to_hex();
        assert_eq!(odd.text(), format!("h_{hash}-3-1-2"));
    }

    proptest! {
        #[test]
        fn key_text_is_short_and_safe_in_subjects(session in ".*") {
            let text = key(&session).text();
            prop_assert!(text.len() <= 200, "{} bytes", text.len());
            prop_assert!(text.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'-' || it == b'_'));
        }

        #[test]
        fn different_sessions_have_different_texts(one in "[a-z._ *>h]{0,6}", other in "[a-z._ *>h]{0,6}") {
            prop_assert_eq!(one == other, key(&one).text() == key(&other).text());
        }
    }
}
