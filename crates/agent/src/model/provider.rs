//! Who serves models, where, and with which key?

use std::net::IpAddr;

use reqwest::header::HeaderName;

use super::{
    OwnTool,
    endpoint::{Key, Secret},
};

/// A wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wire {
    /// Anthropic's Messages.
    Anthropic,
    /// OpenAI's Chat Completions, which most servers speak.
    Chat,
    /// OpenAI's Responses.
    Responses,
}

/// Somebody who serves models.
#[derive(Debug)]
pub(super) struct Provider {
    /// Before the colon.
    pub(super) name: &'static str,
    /// Up to and with the version.
    url: &'static str,
    /// The variable that says another address.
    elsewhere: Option<&'static str>,
    /// The variables that hold the key; the first that is set counts.
    pub(super) keys: &'static [&'static str],
    /// It is asked without a key, too.
    open: bool,
    wire: Wire,
    /// One of its models.
    example: &'static str,
}

const CHAT: Provider =
    Provider { name: "", url: "", elsewhere: None, keys: &[], open: false, wire: Wire::Chat, example: "" };

/// In the order in which one is suggested.
pub(super) const PROVIDERS: &[Provider] = &[
    Provider {
        name: "anthropic",
        url: "https://api.anthropic.com/v1",
        elsewhere: Some("ANTHROPIC_BASE_URL"),
        keys: &["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"],
        wire: Wire::Anthropic,
        example: "claude-sonnet-5-5",
        ..CHAT
    },
    Provider {
        name: "openai",
        url: "https://api.openai.com/v1",
        elsewhere: Some("OPENAI_BASE_URL"),
        keys: &["OPENAI_API_KEY"],
        wire: Wire::Responses,
        example: "gpt-5.6-terra",
        ..CHAT
    },
    Provider {
        name: "gemini",
        url: "https://generativelanguage.googleapis.com/v1beta/openai",
        keys: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        example: "gemini-3.8-flash",
        ..CHAT
    },
    Provider {
        name: "openrouter",
        url: "https://openrouter.ai/api/v1",
        keys: &["OPENROUTER_API_KEY"],
        example: "openrouter/auto",
        ..CHAT
    },
    Provider {
        name: "mistral",
        url: "https://api.mistral.ai/v1",
        keys: &["MISTRAL_API_KEY"],
        example: "mistral-large-latest",
        ..CHAT
    },
    Provider {
        name: "deepseek",
        url: "https://api.deepseek.com/v1",
        keys: &["DEEPSEEK_API_KEY"],
        example: "deepseek-chat",
        ..CHAT
    },
    Provider { name: "xai", url: "https://api.x.ai/v1", keys: &["XAI_API_KEY"], example: "grok-4.6", ..CHAT },
    Provider {
        name: "groq",
        url: "https://api.groq.com/openai/v1",
        keys: &["GROQ_API_KEY"],
        example: "openai/gpt-oss-120b",
        ..CHAT
    },
    Provider {
        name: "ollama",
        url: "http://127.0.0.1:11434/v1",
        elsewhere: Some("OLLAMA_HOST"),
        keys: &["OLLAMA_API_KEY"],
        open: true,
        example: "qwen3",
        ..CHAT
    },
];

/// The environment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Variables<'a>(pub(super) &'a [(String, String)]);

impl<'a> Variables<'a> {
    /// A variable that is set to something.
    pub(super) fn get(self, name: &str) -> Option<&'a str> {
        let found = self.0.iter().find(|(it, _)| it == name).map(|(_, value)| value.trim());
        found.filter(|it| !it.is_empty())
    }
}

impl Provider {
    /// The provider of this name.
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        PROVIDERS.iter().find(|it| it.name == name)
    }

    /// Whose wire format it is, where no address is given.
    pub(super) fn of(wire: Wire) -> Option<&'static Self> {
        Self::named(if wire == Wire::Anthropic { "anthropic" } else { "openai" })
    }

    /// Where it is asked, and whether that is its own address.
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

    /// The key that is set, as the provider wants to see it.
    pub(super) fn key(&self, variables: Variables<'_>) -> Option<Key> {
        self.keys.iter().find_map(|it| Some(shown(self.wire, it, variables.get(it)?)))
    }

    /// Is it asked without a key, too?
    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// In which wire format a model is asked. Behind another address than the provider's own is mostly a server that
    /// speaks Chat Completions alone.
    pub(super) fn wire(&self, model: &str, own: bool) -> Wire {
        let old = ["gpt-3", "gpt-4", "chatgpt"].iter().any(|it| model.starts_with(it));
        match self.wire {
            Wire::Responses if !own || old => Wire::Chat,
            wire => wire,
        }
    }

    /// The tools that it runs itself.
    pub(super) fn own_tools(&self, wire: Wire, own: bool) -> Vec<OwnTool> {
        match wire {
            Wire::Anthropic if own => vec![OwnTool::WebSearch],
            Wire::Responses if own => vec![OwnTool::ImageGen, OwnTool::WebSearch],
            _ => Vec::new(),
        }
    }

    /// One of its models, as a person names it.
    pub(super) fn example(&self) -> String {
        format!("{}:{}", self.name, self.example)
    }

    /// Has the person set what it is asked with?
    pub(super) fn is_set_up(&self, variables: Variables<'_>) -> bool {
        let at = if self.open { self.elsewhere } else { None };
        self.keys.iter().copied().chain(at).any(|it| variables.get(it).is_some())
    }
}

/// A key as a wire format shows it. Anthropic has two kinds, told apart by their variable.
pub(super) fn shown(wire: Wire, variable: &str, key: &str) -> Key {
    let secret = Secret::new(key);
    if wire == Wire::Anthropic && !variable.ends_with("_TOKEN") {
        Key::Header(HeaderName::from_static("x-api-key"), secret)
    } else {
        Key::Bearer(secret)
    }
}

/// Anthropic's own programs are given the address without the version.
pub(super) fn versioned(wire: Wire, url: &str) -> String {
    let url = url.trim_end_matches('/');
    if wire == Wire::Anthropic && !url.ends_with("/v1") { format!("{url}/v1") } else { url.to_owned() }
}

/// `OLLAMA_HOST` says where Ollama listens, and may leave out nearly all of it.
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
    // It listens on all addresses; nobody is called at that one.
    let url = ["://0.0.0.0", "://[::]"].iter().fold(url, |url, it| url.replace(it, "://127.0.0.1"));
    format!("{url}/v1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ollama_is_where_its_variable_says_in_any_form() {
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
            assert!(!it.keys.is_empty() && !it.example.is_empty(), "{}", it.name);
            assert!(PROVIDERS.iter().filter(|other| other.name == it.name).count() == 1, "{}", it.name);
        }
    }
}
