//! Keys entered with `haft login`: each is sent only to the origin that it was entered for.
//!
//! An environment variable takes precedence over such a key. The program decides where keys are stored; this
//! module holds them in memory, and no `Debug` output shows them.

use std::collections::BTreeMap;

use reqwest::Url;

use super::endpoint::Secret;

/// The keys, by the name that they were entered for: a provider (`anthropic`), or a section of haft.toml
/// (`models.local`).
#[derive(Debug, Clone, Default)]
pub struct Keys(BTreeMap<String, KeyWithOrigin>);

#[derive(Debug, Clone)]
struct KeyWithOrigin {
    origin: String,
    key: Secret,
}

/// Returns the name of the key of a section `[models.NAME]`.
pub(super) fn of_section(name: &str) -> String {
    format!("models.{name}")
}

/// Returns scheme, host and port of a URL: `https://api.anthropic.com`.
pub fn origin(url: &str) -> Option<String> {
    let url = Url::parse(url).ok().filter(Url::has_host)?;
    Some(url.origin().ascii_serialization())
}

impl Keys {
    /// No keys.
    pub const NONE: &'static Self = &Self(BTreeMap::new());

    /// Adds a key that may be sent to this origin, and replaces the one with the same name.
    pub fn insert(&mut self, name: impl Into<String>, origin: impl Into<String>, key: &str) {
        self.0.insert(name.into(), KeyWithOrigin { origin: origin.into(), key: Secret::new(key) });
    }

    /// Returns names and values, for masking.
    pub fn values(&self) -> impl Iterator<Item = (String, String)> {
        self.0.iter().map(|(name, bound)| (format!("login:{name}"), bound.key.reveal().to_owned()))
    }

    /// Returns the origin of the key of this name, if there is one.
    pub fn origin_of(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|it| it.origin.as_str())
    }

    /// Returns the key of this name, if it was entered for the origin of `url`.
    pub(super) fn get(&self, name: &str, url: &str) -> Option<&Secret> {
        let bound = self.0.get(name)?;
        (origin(url).as_deref() == Some(bound.origin.as_str())).then_some(&bound.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_only_given_for_its_own_origin() {
        let mut keys = Keys::default();
        keys.insert("openai", "https://api.openai.com", " sk-one-two-three\n");
        let get = |url: &str| keys.get("openai", url).map(Secret::reveal);
        assert_eq!(get("https://api.openai.com/v1"), Some("sk-one-two-three"));
        assert_eq!(get("https://API.openai.com:443/v1/"), Some("sk-one-two-three"));
        for other in [
            "http://api.openai.com/v1",
            "https://api.openai.com:8443/v1",
            "https://api.openai.com.evil.example/v1",
            "https://evil.example/api.openai.com",
            "https://api.openai.com@evil.example/v1",
            "nonsense",
        ] {
            assert_eq!(get(other), None, "{other}");
        }
        assert_eq!(keys.get("anthropic", "https://api.openai.com/v1").map(Secret::reveal), None);
    }

    #[test]
    fn debug_output_shows_no_key() {
        let mut keys = Keys::default();
        keys.insert("openai", "https://api.openai.com", "sk-one-two-three");
        assert!(!format!("{keys:?}").contains("sk-one"), "{keys:?}");
        assert_eq!(keys.values().collect::<Vec<_>>(), [("login:openai".into(), "sk-one-two-three".into())]);
    }
}
