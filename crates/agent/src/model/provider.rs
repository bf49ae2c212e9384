//! Model providers: their addresses, wire formats and the variables that hold their keys.

use std::net::IpAddr;

use reqwest::header::HeaderName;

use super::{
    OwnTool,
    endpoint::{Key, Secret},
    known,
};

/// A wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wire {
    /// Anthropic's Messages.
    Anthropic,
    /// OpenAI's Chat Completions, which most servers support.
    Chat,
    /// OpenAI's Responses.
    Responses,
}

/// A provider of models.
#[derive(Debug)]
pub(super) struct Provider {
    /// Its name, before the colon.
    pub(super) name: &'static str,
    /// Its own base URL, including the version.
    pub(super) url: &'static str,
    /// The variable that overrides the address.
    elsewhere: Option<&'static str>,
    /// The variables that hold the key; the first one that is set wins.
    pub(super) keys: &'static [&'static str],
    /// The page on which a person creates a key.
    pub(super) key_page: &'static str,
    /// Whether it works without a key.
    open: bool,
    wire: Wire,
}

const CHAT: Provider =
    Provider { name: "", url: "", elsewhere: None, keys: &[], key_page: "", open: false, wire: Wire::Chat };

/// The providers, in the order in which haft suggests them.
pub(super) const PROVIDERS: &[Provider] = &[
    Provider {
        name: "anthropic",
        url: "https://api.anthropic.com/v1",
        elsewhere: Some("ANTHROPIC_BASE_URL"),
        keys: &["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"],
        wire: Wire::Anthropic,
        key_page: "https://console.anthropic.com/settings/keys",
        ..CHAT
    },
    Provider {
        name: "openai",
        url: "https://api.openai.com/v1",
        elsewhere: Some("OPENAI_BASE_URL"),
        keys: &["OPENAI_API_KEY"],
        wire: Wire::Responses,
        key_page: "https://platform.openai.com/api-keys",
        ..CHAT
    },
    Provider {
        name: "gemini",
        url: "https://generativelanguage.googleapis.com/v1beta/openai",
        keys: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        key_page: "https://aistudio.google.com/apikey",
        ..CHAT
    },
    Provider {
        name: "openrouter",
        url: "https://openrouter.ai/api/v1",
        keys: &["OPENROUTER_API_KEY"],
        key_page: "https://openrouter.ai/keys",
        ..CHAT
    },
    Provider {
        name: "mistral",
        url: "https://api.mistral.ai/v1",
        keys: &["MISTRAL_API_KEY"],
        key_page: "https://console.mistral.ai/api-keys",
        ..CHAT
    },
    Provider {
        name: "deepseek",
        url: "https://api.deepseek.com/v1",
        keys: &["DEEPSEEK_API_KEY"],
        key_page: "https://platform.deepseek.com/api_keys",
        ..CHAT
    },
    Provider {
        name: "xai",
        url: "https://api.x.ai/v1",
        keys: &["XAI_API_KEY"],
        key_page: "https://console.x.ai",
        ..CHAT
    },
    Provider {
        name: "groq",
        url: "https://api.groq.com/openai/v1",
        keys: &["GROQ_API_KEY"],
        key_page: "https://console.groq.com/keys",
        ..CHAT
    },
    Provider {
        name: "ollama",
        url: "http://127.0.0.1:11434/v1",
        elsewhere: Some("OLLAMA_HOST"),
        keys: &["OLLAMA_API_KEY"],
        open: true,
        ..CHAT
    },
];

/// The environment variables.
#[derive(Debug, Clone, Copy)]
pub(super) struct Variables<'a>(pub(super) &'a [(String, String)]);

impl<'a> Variables<'a> {
    /// Returns the value of a variable, if it is not empty.
    pub(super) fn get(self, name: &str) -> Option<&'a str> {
        let found = self.0.iter().find(|(it, _)| it == name).map(|(_, value)| value.trim());
        found.filter(|it| !it.is_empty())
    }
}

impl Provider {
    /// Returns the provider of this name.
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        PROVIDERS.iter().find(|it| it.name == name)
    }

    /// Returns the provider of a wire format, where no address is configured.
    pub(super) fn of(wire: Wire) -> Option<&'static Self> {
        Self::named(if wire == Wire::Anthropic { "anthropic" } else { "openai" })
    }

    /// Returns its base URL, and whether that is the provider's own.
    pub(super) fn address(&self, variables: Variables<'_>) -> (String, bool) {
        let Some(given) = self.elsewhere.and_then(|it| variables.get(it)) else {
            return (self.url.to_owned(), true);
        };
        let url = match self.name {
            "ollama" => ollama(given),
            _ => versioned(self.wire, given),
        };
        let own = url == self.url;
        (url, own)
    }

    /// Returns the variable that holds the key, and the key as the provider expects it.
    pub(super) fn key(&self, variables: Variables<'_>) -> Option<(&'static str, Key)> {
        self.keys.iter().find_map(|it| Some((*it, shown(self.wire, it, variables.get(it)?))))
    }

    /// Returns a key that was entered with `haft login`, as the provider expects it.
    pub(super) fn entered(&self, key: &Secret) -> Key {
        shown(self.wire, "", key.reveal())
    }

    /// Returns whether it works without a key.
    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// Returns the path that answers 401 to a wrong key. OpenRouter's list of models needs no key.
    pub(super) fn key_test(&self) -> Option<&'static str> {
        (self.name == "openrouter").then_some("key")
    }

    /// Returns the wire format for a model. A server at another address than the provider's own mostly
    /// supports only Chat Completions.
    pub(super) fn wire(&self, model: &str, own: bool) -> Wire {
        let old = ["gpt-3", "gpt-4", "chatgpt"].iter().any(|it| model.starts_with(it));
        match self.wire {
            Wire::Responses if !own || old => Wire::Chat,
            wire => wire,
        }
    }

    /// Returns the tools that the provider runs itself.
    pub(super) fn own_tools(&self, wire: Wire, own: bool) -> Vec<OwnTool> {
        match wire {
            Wire::Anthropic if own => vec![OwnTool::WebSearch],
            Wire::Responses if own => vec![OwnTool::ImageGen, OwnTool::WebSearch],
            _ => Vec::new(),
        }
    }

    /// Returns the model that haft suggests, as a person names it.
    pub(super) fn example(&self) -> String {
        format!("{}:{}", self.name, known::suggested(self.name).map_or("MODEL", |it| it.name))
    }

    /// Returns whether the environment has a key or an address for it.
    pub(super) fn is_set_up(&self, variables: Variables<'_>) -> bool {
        let at = if self.open { self.elsewhere } else { None };
        self.keys.iter().copied().chain(at).any(|it| variables.get(it).is_some())
    }
}

/// Returns a key in the header that a wire format requires. Anthropic has two kinds of keys, distinguished by
/// their variable.
pub(super) fn shown(wire: Wire, variable: &str, key: &str) -> Key {
    let secret = Secret::new(key);
    if wire == Wire::Anthropic && !variable.ends_with("_TOKEN") {
        Key::Header(HeaderName::from_static("x-api-key"), secret)
    } else {
        Key::Bearer(secret)
    }
}

/// Adds the version to an Anthropic base URL: Anthropic's own programs expect it without one.
pub(super) fn versioned(wire: Wire, url: &str) -> String {
    let url = url.trim_end_matches('/');
    if wire == Wire::Anthropic && !url.ends_with("/v1") { format!("{url}/v1") } else { url.to_owned() }
}

/// Returns the base URL in `OLLAMA_HOST`, of which nearly every part may be missing.
fn ollama(given: &str) -> String {
    let given = given.trim_end_matches('/').trim_end_matches("/v1");
    let url = match given.split_once("://") {
        Some(_) => given.to_owned(),
        None if given.parse::<IpAddr>().is_ok_and(|it| it.is_ipv6()) => format!("http://[{given}]:11434"),
        None => {
            let (host, port) = match given.rsplit_once(':') {
                Some((host, port)) if !port.is_empty() && port.bytes().all(|it| it.is_ascii_digit()) => {
                    (host, port)
                }
                _ => (given, "11434"),
            };
            format!("http://{}:{port}", if host.is_empty() { "127.0.0.1" } else { host })
        }
    };
    // The server listens on all addresses; a client needs a specific one.
    let url = ["://0.0.0.0", "://[::]"].iter().fold(url, |url, it| url.replace(it, "://127.0.0.1"));
    format!("{url}/v1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ollama_host_is_parsed_in_all_forms() {
        for (given, url) in [
            ("127.0.0.1", "http://127.0.0.1:11434/v1"),
            ("0.0.0.0:8080", "http://127.0.0.1:8080/v1"),
            (":8080", "http://127.0.0.1:8080/v1"),
            ("box.lan", "http://box.lan:11434/v1"),
            ("::1", "http://[::1]:11434/v1"),
            ("[::1]:8080", "http://[::1]:8080/v1"),
            ("https://box.example.org/", "https://box.example.org/v1"),
            ("http://0.0.0.0:11434", "http://127.0.0.1:11434/v1"),
            ("http://box.lan:1/v1", "http://box.lan:1/v1"),
        ] {
            assert_eq!(ollama(given), url, "{given}");
        }
    }

    #[test]
    fn every_provider_is_complete() {
        for it in PROVIDERS {
            assert!(it.url.contains("://") && !it.url.ends_with('/'), "{}", it.name);
            assert!(!it.keys.is_empty() && known::suggested(it.name).is_some(), "{}", it.name);
            assert!(it.open || it.key_page.starts_with("https://"), "{}", it.name);
            assert!(PROVIDERS.iter().filter(|other| other.name == it.name).count() == 1, "{}", it.name);
        }
    }
}
