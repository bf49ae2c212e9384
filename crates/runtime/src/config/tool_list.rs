//! Lists of tools: names, or the word `all`.

use std::fmt;

use serde::{
    Deserializer,
    de::{Error, SeqAccess, Unexpected, Visitor},
};

use super::keys::Type;

/// The type of such a list.
pub(super) const TYPE: Type = Type::Words("list of strings, or \"all\"");

/// The word for all tools.
pub(super) const ALL: &str = "all";

/// Reads a list of names; `all` is the same as no list.
pub(super) fn names<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<String>>, D::Error> {
    from.deserialize_any(List)
}

/// Reads a list in which `*` stands for all tools; so does the word `all`.
pub(super) fn with_star<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    Ok(names(from)?.unwrap_or_else(|| vec!["*".to_owned()]))
}

struct List;

impl<'de> Visitor<'de> for List {
    type Value = Option<Vec<String>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of names of tools, or \"all\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        if text == ALL { Ok(None) } else { Err(E::invalid_value(Unexpected::Str(text), &self)) }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut names = Vec::new();
        while let Some(name) = items.next_element()? {
            names.push(name);
        }
        Ok(Some(names))
    }
}
