//! Endpoints of models: address, key and headers, kept out of every error.

use std::fmt;

use futures_util::{Stream, StreamExt};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

use super::{
    Abilities, Event, Events, ModelError,
    http::{Post, RetryPolicy},
};

/// Minimum length of a secret that is masked in texts; a shorter one would match harmless words.
const SHORTEST: usize = 6;

/// Maximum length of an error, in characters.
pub(super) const SHOWN: usize = 600;

/// A provider's model, as it was chosen.
#[derive(Debug, Clone)]
pub(super) struct Served {
    /// The name by which a person chose it.
    pub(super) name: String,
    /// Its name at the provider.
    pub(super) model: String,
    /// Its endpoint.
    pub(super) endpoint: Endpoint,
    /// Its abilities.
    pub(super) abilities: Abilities,
    /// How hard the model thinks: `low`, `medium`, `high`, or a value of the provider.
    pub(super) effort: Option<String>,
}

/// An address with the key to it.
#[derive(Debug, Clone)]
pub(super) struct Endpoint {
    /// The base URL including the version, without a slash at its end: `https://api.openai.com/v1`.
    pub(super) url: String,
    /// The key, and how it is sent.
    pub(super) key: Option<Key>,
    /// Headers of each request. All of them count as secrets.
    pub(super) headers: HeaderMap,
    /// The retry policy.
    pub(super) retry_policy: RetryPolicy,
}

/// A key, and how it is sent to the provider.
#[derive(Debug, Clone)]
pub(super) enum Key {
    /// As `Authorization: Bearer KEY`.
    Bearer(Secret),
    /// In its own header: `x-api-key`.
    Header(HeaderName, Secret),
}

/// A text that is masked everywhere.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Secret(String);

impl Secret {
    /// Creates a secret, without surrounding white space, which a header can't have.
    pub(super) fn new(text: &str) -> Self {
        Self(text.trim().to_owned())
    }

    /// Returns the text, to send or to mask it.
    pub(super) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl Endpoint {
    /// Creates an endpoint without a key.
    pub(super) fn new(url: &str) -> Self {
        Self {
            url: url.trim_end_matches('/').to_owned(),
            key: None,
            headers: HeaderMap::new(),
            retry_policy: RetryPolicy::default(),
        }
    }

    /// Sets the key.
    #[must_use]
    pub(super) fn with(mut self, key: Option<Key>) -> Self {
        self.key = key;
        self
    }

    /// Creates a POST request to this path below the base URL, such as `chat/completions`.
    ///
    /// # Errors
    /// When a header can't contain the key.
    pub(super) fn post(&self, path: &str, body: Value) -> Result<Post, ModelError> {
        let headers = self.authorized()?;
        Ok(Post {
            url: self.at(path),
            headers,
            body,
            retry_policy: self.retry_policy,
            secrets: self.secrets(),
        })
    }

    /// Returns the URL of this path. Some base URLs have a version after a question mark, which stays at the
    /// end.
    pub(super) fn at(&self, path: &str) -> String {
        match self.url.split_once('?') {
            Some((before, query)) => format!("{}/{path}?{query}", before.trim_end_matches('/')),
            None => format!("{}/{path}", self.url),
        }
    }

    /// Returns the headers of a request, with the key.
    ///
    /// # Errors
    /// When a header can't contain the key.
    pub(super) fn authorized(&self) -> Result<HeaderMap, ModelError> {
        let mut headers = self.headers.clone();
        for value in headers.values_mut() {
            value.set_sensitive(true);
        }
        let shown = match &self.key {
            None => None,
            Some(Key::Bearer(secret)) => Some((AUTHORIZATION, format!("Bearer {}", secret.0))),
            Some(Key::Header(name, secret)) => Some((name.clone(), secret.0.clone())),
        };
        if let Some((name, text)) = shown {
            let mut value = HeaderValue::from_str(&text).map_err(|_| {
                ModelError::new(super::Breach::Auth, "the key has a character that no header can have").next(
                    "Check that the variable, or what you gave `haft login`, holds the key and nothing else.",
                )
            })?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        Ok(headers)
    }

    /// Returns the texts to mask: the key, the values of configured headers, and a password in the URL.
    pub(super) fn secrets(&self) -> Secrets {
        let key = self.key.iter().map(|it| match it {
            Key::Bearer(secret) | Key::Header(_, secret) => secret.0.clone(),
        });
        // Headers of the wire format itself are not secret, and errors are about them.
        let headers = self.headers.iter().filter(|(name, _)| !name.as_str().starts_with("anthropic-"));
        let headers = headers.filter_map(|(_, value)| value.to_str().ok());
        // `Bearer KEY`: the provider may repeat the key alone.
        let headers = headers.flat_map(|it| [it, it.split_once(' ').map_or(it, |(_, rest)| rest)]);
        let password = reqwest::Url::parse(&self.url).ok().and_then(|it| it.password().map(str::to_owned));
        let mut all: Vec<String> = key.chain(headers.map(str::to_owned)).chain(password).collect();
        all.retain(|it| it.len() >= SHORTEST);
        all.sort_by_key(|it| std::cmp::Reverse(it.len()));
        all.dedup();
        Secrets(all)
    }
}

/// The secrets to mask in every text from a provider.
#[derive(Clone, Default)]
pub(super) struct Secrets(Vec<String>);

impl Secrets {
    /// Returns the text with `***` in place of every secret.
    pub(super) fn cover(&self, text: String) -> String {
        self.0.iter().fold(text, |text, secret| {
            if text.contains(secret.as_str()) { text.replace(secret.as_str(), "***") } else { text }
        })
    }

    /// Masks secrets in the errors of a stream.
    pub(super) fn guard(
        self,
        events: impl Stream<Item = Result<Event, ModelError>> + Send + 'static,
    ) -> Events {
        Box::pin(events.map(move |it| it.map_err(|error| self.covered(error))))
    }

    /// Returns the error as a person may see it: without secrets, in one line, with invisible characters
    /// escaped, and truncated. It is truncated only here, so that no part of a secret is left at the cut.
    pub(super) fn covered(&self, error: ModelError) -> ModelError {
        ModelError {
            what: self.shown(error.what, SHOWN),
            next: error.next.map(|it| self.shown(it, SHOWN)),
            ..error
        }
    }

    /// Returns a text from a provider without secrets, in one line of at most `most` characters, with
    /// invisible characters escaped.
    pub(super) fn shown(&self, text: String, most: usize) -> String {
        let covered = self.cover(text);
        // Longer text is cut in any case; escaping never shortens it.
        let begin: String = covered.trim().chars().take(most + 1).collect();
        let line = begin.replace(['\n', '\r', '\t'], " ");
        let line = kit::escape::visible(&line).0;
        if line.chars().nth(most).is_none() {
            return line.into_owned();
        }
        line.chars().take(most.saturating_sub(1)).chain(['…']).collect()
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::model::Breach;

    #[test]
    fn keys_are_never_shown() {
        let mut endpoint = Endpoint::new("https://who:password1@host/v1/")
            .with(Some(Key::Bearer(Secret::new(" sk-the-key\n"))));
        endpoint.headers.insert("x-more", "Token more-secret".parse().unwrap());
        let post = endpoint.post("messages", Value::Null).unwrap();
        assert_eq!(post.url, "https://who:password1@host/v1/messages");
        assert_eq!(post.headers.get(AUTHORIZATION).unwrap(), "Bearer sk-the-key");
        let shown = format!("{endpoint:?} {:?}", post.headers);
        for secret in ["sk-the-key", "more-secret"] {
            assert!(!post.headers.values().any(|it| !it.is_sensitive()));
            assert!(!shown.contains(&format!("Bearer {secret}")), "{shown}");
        }
        let error =
            ModelError::new(Breach::Auth, "no key sk-the-key, nor more-secret, nor password1 is good")
                .next("not sk-the-key");
        let error = post.secrets.covered(error);
        assert_eq!(error.what, "no key ***, nor ***, nor *** is good");
        assert_eq!(error.next.as_deref(), Some("not ***"));
    }

    #[test]
    fn error_is_one_visible_line_truncated_after_masking() {
        let secrets =
            Endpoint::new("https://host").with(Some(Key::Bearer(Secret::new("sk-canary")))).secrets();
        let shown = |text: &str| secrets.covered(ModelError::new(Breach::Auth, text).next(text));
        let error = shown("bad\u{1b}]0;pwned\u{7}\r\n\nline\u{202e}2");
        assert_eq!(error.what, r"bad\u{1b}]0;pwned\u{7}   line\u{202e}2");
        assert_eq!(error.next.as_deref(), Some(error.what.as_str()));
        assert_eq!(secrets.covered(error.clone()), error);
        for before in SHOWN - 12..=SHOWN {
            let error = shown(&format!("{}sk-canary{}", "x".repeat(before), "y".repeat(SHOWN)));
            assert!(!error.what.contains('s') && error.what.chars().count() <= SHOWN, "{error}");
            assert_eq!(secrets.covered(error.clone()), error);
        }
    }

    #[test]
    fn query_of_the_base_url_stays_at_the_end() {
        let url = |url: &str| Endpoint::new(url).post("responses", Value::Null).unwrap().url;
        assert_eq!(url("https://host/v1/?api-version=2"), "https://host/v1/responses?api-version=2");
        assert_eq!(url("https://host/v1/"), "https://host/v1/responses");
    }

    #[test]
    fn invalid_key_is_reported_without_its_text() {
        let endpoint = Endpoint::new("https://host").with(Some(Key::Bearer(Secret::new("sk-\nkey"))));
        let error = endpoint.post("x", Value::Null).unwrap_err();
        assert_eq!(error.breach, Breach::Auth);
        assert!(!error.to_string().contains("sk-"), "{error}");
    }
}
