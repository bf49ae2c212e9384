//! Declarations of tools in files: parsed from the cache when they are needed.

use std::{
    ops::Range,
    sync::{Arc, OnceLock},
};

use serde_json::json;

use super::{Contribution, Described};

/// A declaration. Most cached ones are never parsed: a start needs their names and sizes only.
pub(crate) struct Declaration {
    pub(super) summary: Summary,
    /// The JSON text in the cache; none, if it was described by this process.
    cached: Option<Cached>,
    described: OnceLock<Arc<Described>>,
}

/// The properties of a declaration that a start needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Summary {
    pub(super) name: String,
    /// The bytes of its name, description and schema.
    pub(super) bytes: usize,
    /// Whether it has a manual, an addition to the system prompt, or notes.
    pub(super) has_more: bool,
}

/// The place of a text in the texts of a cache.
#[derive(Clone)]
struct Cached {
    texts: Arc<[u8]>,
    range: Range<usize>,
}

impl Cached {
    fn text(&self) -> &[u8] {
        self.texts.get(self.range.clone()).unwrap_or_default()
    }
}

impl Declaration {
    /// Creates the declaration of a file that was described now.
    pub(super) fn new(described: Described) -> Self {
        let summary = Summary {
            name: described.name.clone(),
            bytes: described.name.len() + described.description.len() + described.schema.to_string().len(),
            has_more: described.manual.is_some()
                || described.manual_first
                || described.contribution.is_some()
                || !described.notes.is_empty(),
        };
        Self { summary, cached: None, described: OnceLock::from(Arc::new(described)) }
    }

    /// Creates the declaration with this JSON text; none, if the texts are too short.
    pub(super) fn cached(summary: Summary, texts: &Arc<[u8]>, range: Range<usize>) -> Option<Self> {
        texts.get(range.clone())?;
        let cached = Some(Cached { texts: texts.clone(), range });
        Some(Self { summary, cached, described: OnceLock::new() })
    }

    /// Returns its JSON text.
    pub(super) fn text(&self) -> serde_json::Result<Vec<u8>> {
        match &self.cached {
            Some(cached) => Ok(cached.text().to_vec()),
            None => serde_json::to_vec(&**self.described()),
        }
    }

    /// Returns the name of the tool.
    pub(super) fn name(&self) -> &str {
        &self.summary.name
    }

    /// Returns all of it.
    pub(super) fn described(&self) -> &Arc<Described> {
        self.described.get_or_init(|| {
            let text = self.cached.as_ref().map(Cached::text).unwrap_or_default();
            Arc::new(serde_json::from_slice(text).unwrap_or_else(|error| self.unreadable(&error)))
        })
    }

    /// Returns its manual.
    pub(super) fn manual(&self) -> Option<&String> {
        self.more()?.manual.as_ref()
    }

    /// Returns whether a call requires reading the manual first.
    pub(super) fn is_manual_first(&self) -> bool {
        self.more().is_some_and(|it| it.manual_first)
    }

    /// Returns its addition to the system prompt.
    pub(super) fn contribution(&self) -> Option<&Contribution> {
        self.more()?.contribution.as_ref()
    }

    /// Returns its notes for a person.
    pub(super) fn notes(&self) -> &[String] {
        self.more().map_or(&[], |it| &it.notes)
    }

    fn more(&self) -> Option<&Arc<Described>> {
        self.summary.has_more.then(|| self.described())
    }

    /// The cache checks the hash of its texts: this happens only if the same version wrote another form.
    fn unreadable(&self, error: &serde_json::Error) -> Described {
        tracing::warn!("the cached declaration of `{}` can't be read: {error}", self.summary.name);
        Described {
            name: self.summary.name.clone(),
            description: "Its cached declaration can't be read: run `haft reload-tools`.".to_owned(),
            schema: json!({"type": "object", "properties": {}}),
            format: String::new(),
            entry: String::new(),
            touches: None,
            timeout_seconds: None,
            manual: None,
            manual_first: false,
            contribution: None,
            mode: None,
            notes: Vec::new(),
        }
    }
}

impl PartialEq for Declaration {
    fn eq(&self, other: &Self) -> bool {
        self.summary == other.summary && self.described() == other.described()
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn described(notes: &[&str]) -> Described {
        let notes: Vec<String> = notes.iter().map(|it| (*it).to_owned()).collect();
        let schema = json!({"type": "object", "properties": {"z": {}, "a": {}}});
        serde_json::from_value(json!({
            "name": "t", "description": "D", "schema": schema, "format": "navi", "notes": notes,
        }))
        .unwrap()
    }

    #[test]
    fn cached_declaration_equals_the_one_that_was_described() {
        let new = Declaration::new(described(&["note"]));
        let texts: Arc<[u8]> = new.text().unwrap().into();
        let cached = Declaration::cached(new.summary.clone(), &texts, 0..texts.len()).unwrap();
        assert_eq!(cached.text().unwrap(), *texts);
        assert_eq!(cached.notes(), ["note"]);
        assert_eq!(cached.described().schema.to_string(), new.described().schema.to_string());
        assert!(cached == new);
        assert!(Declaration::cached(new.summary.clone(), &texts, 1..texts.len() + 1).is_none());
    }

    #[test]
    fn declaration_without_more_is_not_parsed_for_it() {
        let new = Declaration::new(described(&[]));
        assert!(!new.summary.has_more);
        let cached = Declaration::cached(new.summary, &Arc::from(*b"{"), 0..1).unwrap();
        assert!(cached.notes().is_empty() && cached.manual().is_none() && !cached.is_manual_first());
        assert!(cached.described.get().is_none());
        assert!(cached.described().description.contains("haft reload-tools"));
    }
}
