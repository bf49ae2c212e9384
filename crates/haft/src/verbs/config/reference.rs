//! Reference of the configuration: the declared keys, as `haft config` looks them up and explains them.

use runtime::config::keys::{NAMED, sections};

/// A key, or a section as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// The names of its tables, then its own. Where people choose a name, it is the example's: `models.local.url`.
    pub(super) key: Vec<String>,
    /// The explanation of the key.
    pub(super) about: String,
    /// An example, as it is written in a file; `None` for a section.
    pub(super) example: Option<String>,
    /// The type of its value, in words; `None` for a section.
    pub(super) kind: Option<String>,
    /// The default, which applies if the key is not set.
    pub(super) default: Option<String>,
}

/// Returns all sections and keys, in the order of the reference.
pub(super) fn entries() -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for section in sections() {
        let path: Vec<String> = section.path().into_iter().map(str::to_owned).collect();
        if !path.is_empty() {
            entries.push(Entry {
                key: path.clone(),
                about: section.doc.to_owned(),
                example: None,
                kind: None,
                default: None,
            });
        }
        // The keys of a rule belong to the rule.
        for key in section.keys.iter().filter(|_| path != ["command"]) {
            entries.push(Entry {
                key: [path.clone(), vec![key.name.to_owned()]].concat(),
                about: key.about(),
                example: Some(key.setting()),
                kind: Some(key.kind()),
                default: key.default.text(),
            });
        }
    }
    entries
}

/// Returns the entry of a key, under any name of its section.
pub(super) fn entry(key: &[String]) -> Option<Entry> {
    let is_meant = |it: &Entry| is_same(&it.key, key);
    let all = entries();
    // `[mcp.files]` and `[mcp.tracker]` have different keys.
    all.iter().find(|it| it.key == key).or_else(|| all.iter().find(|it| is_meant(it))).cloned()
}

/// Returns whether two keys are the same one, in sections whose names people choose.
fn is_same(one: &[String], other: &[String]) -> bool {
    let named = one.first().is_some_and(|it| NAMED.contains(&it.as_str()));
    one.len() == other.len()
        && one.iter().zip(other).enumerate().all(|(at, (one, other))| one == other || (named && at == 1))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn every_key_and_section_is_explained() {
        let entries = entries();
        assert!(entries.len() > 80, "{}", entries.len());
        for it in &entries {
            assert!(it.about.len() > 10 && it.about.ends_with(['.', ')']), "{it:?}");
            assert!(it.example.is_none() || it.default.is_some() || is_required(&it.key), "{it:?}");
        }
    }

    fn is_required(key: &[String]) -> bool {
        matches!(key.last().map(String::as_str), Some("event" | "hosts" | "model" | "name"))
    }

    #[test]
    fn a_section_may_have_any_name() {
        let key = |text: &str| text.split('.').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(entry(&key("models.mine.url")).unwrap().key, key("models.local.url"));
        assert_eq!(entry(&key("mcp.mine.bearer_env")).unwrap().key, key("mcp.tracker.bearer_env"));
        assert_eq!(entry(&key("agent.models")), None);
        assert_eq!(entry(&key("agent.profile")).unwrap().default.unwrap(), "none");
        assert!(entry(&key("command")).unwrap().about.starts_with("A rule in the long form"));
    }
}
