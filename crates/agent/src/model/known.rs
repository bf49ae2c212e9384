//! Known models: the one list of model names, with context window, longest answer, prices and picture support.
//!
//! Taken from the providers' pages in November 2026 ([`AS_OF`]). Everything that names a model takes the name from here:
//! messages, help, README, docs and haft.example.toml (a test checks them). A name that is not in the list is still sent
//! to its provider, since new models come out; the list only adds limits, prices and spelling suggestions. Some providers
//! charge more above roughly 200,000 tokens of context; the list leaves that out. `[models.NAME]` in haft.toml overrides
//! all of it.

use kit::nearest::nearest;

use super::Price;

/// The month in which the list was checked against the providers' pages.
pub const AS_OF: &str = "November 2026";

/// Limits and price of a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Known {
    /// Context window: maximum number of tokens of request and answer together.
    pub window: u64,
    /// Maximum number of tokens of an answer.
    pub longest: u64,
    /// Whether it accepts pictures.
    pub images: bool,
    /// Its prices, where they are known.
    pub price: Option<Price>,
}

/// One model of the list.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Model {
    /// The provider's name, as it stands before the colon.
    pub provider: &'static str,
    /// The model's name at the provider.
    pub name: &'static str,
    /// Its limits and price; `None` where haft has not checked them.
    pub known: Option<Known>,
}

/// Assumptions about a model that is not in the list. Pictures are off: a model without support for them
/// refuses the whole request.
const UNKNOWN: Known = Known { window: 128_000, longest: 16_384, images: false, price: None };

const fn dollars(input: f64, cached: f64, kept: f64, output: f64) -> Option<Price> {
    Some(Price { input, cached, kept, output })
}

const fn model(
    provider: &'static str,
    name: &'static str,
    (window, longest, images): (u64, u64, bool),
    price: Option<Price>,
) -> Model {
    Model { provider, name, known: Some(Known { window, longest, images, price }) }
}

/// Lists a model whose limits and price haft has not checked.
const fn named(provider: &'static str, name: &'static str) -> Model {
    Model { provider, name, known: None }
}

const M: u64 = 1_000_000;
const CLAUDE: (u64, u64, bool) = (M, 128_000, true);
const GEMINI: (u64, u64, bool) = (1_048_576, 65_536, true);
const GPT: (u64, u64, bool) = (1_050_000, 128_000, true);
const GPT_5: (u64, u64, bool) = (400_000, 128_000, true);

/// The models, by provider. haft suggests the first model of a provider.
const MODELS: &[Model] = &[
    model("anthropic", "claude-sonnet-5-5", CLAUDE, dollars(2.0, 0.1, 2.5, 10.0)),
    model("anthropic", "claude-opus-5-5", CLAUDE, dollars(4.0, 0.2, 5.0, 20.0)),
    // A fifth of it for requests of up to 100,000 tokens.
    model("anthropic", "claude-haiku-5-5", CLAUDE, dollars(0.5, 0.05, 0.625, 2.5)),
    model("anthropic", "claude-fable-5-1", CLAUDE, dollars(10.0, 0.25, 12.5, 50.0)),
    model("anthropic", "claude-fable-5", CLAUDE, dollars(10.0, 1.0, 12.5, 50.0)),
    model("anthropic", "claude-sonnet-5", CLAUDE, dollars(2.0, 0.2, 2.5, 10.0)),
    model("anthropic", "claude-opus-5", CLAUDE, dollars(5.0, 0.5, 6.25, 25.0)),
    model("anthropic", "claude-opus-4-8", CLAUDE, dollars(5.0, 0.5, 6.25, 25.0)),
    model("anthropic", "claude-opus-4-7", CLAUDE, dollars(5.0, 0.5, 6.25, 25.0)),
    model("anthropic", "claude-opus-4-6", (200_000, 128_000, true), dollars(5.0, 0.5, 6.25, 25.0)),
    model("anthropic", "claude-sonnet-4-6", (200_000, 64_000, true), dollars(3.0, 0.3, 3.75, 15.0)),
    model("anthropic", "claude-opus-4-5", (200_000, 64_000, true), dollars(5.0, 0.5, 6.25, 25.0)),
    model("anthropic", "claude-sonnet-4-5", (200_000, 64_000, true), dollars(3.0, 0.3, 3.75, 15.0)),
    model("anthropic", "claude-haiku-4-5", (200_000, 64_000, true), dollars(1.0, 0.1, 1.25, 5.0)),
    model("anthropic", "claude-opus-4-1", (200_000, 32_000, true), dollars(15.0, 1.5, 18.75, 75.0)),
    model("openai", "gpt-5.6-terra", GPT, dollars(2.0, 0.2, 2.5, 12.0)),
    model("openai", "gpt-5.6-luna", GPT, dollars(0.2, 0.02, 0.25, 1.2)),
    model("openai", "gpt-5.5", GPT, dollars(5.0, 0.5, 5.0, 30.0)),
    model("openai", "gpt-5.5-pro", GPT, dollars(30.0, 30.0, 30.0, 180.0)),
    model("openai", "gpt-5.4", GPT, dollars(2.5, 0.25, 2.5, 15.0)),
    model("openai", "gpt-5.4-mini", GPT_5, dollars(0.75, 0.075, 0.75, 4.5)),
    model("openai", "gpt-5.4-nano", GPT_5, dollars(0.2, 0.02, 0.2, 1.25)),
    model("openai", "gpt-5.4-pro", GPT, dollars(30.0, 30.0, 30.0, 180.0)),
    model("openai", "gpt-5.3-codex", GPT_5, dollars(1.75, 0.175, 1.75, 14.0)),
    model("openai", "gpt-5.2", GPT_5, dollars(1.75, 0.175, 1.75, 14.0)),
    model("openai", "gpt-5.2-pro", GPT_5, None),
    model("openai", "gpt-5.1", GPT_5, dollars(1.25, 0.125, 1.25, 10.0)),
    model("openai", "gpt-5", GPT_5, dollars(1.25, 0.125, 1.25, 10.0)),
    model("openai", "gpt-5-mini", GPT_5, dollars(0.25, 0.025, 0.25, 2.0)),
    model("openai", "gpt-5-nano", GPT_5, dollars(0.05, 0.005, 0.05, 0.4)),
    model("openai", "gpt-5-pro", GPT_5, None),
    model("openai", "gpt-4.1", (1_047_576, 32_768, true), dollars(2.0, 0.5, 2.0, 8.0)),
    model("openai", "gpt-4.1-mini", (1_047_576, 32_768, true), dollars(0.4, 0.1, 0.4, 1.6)),
    model("openai", "gpt-4.1-nano", (1_047_576, 32_768, true), dollars(0.1, 0.025, 0.1, 0.4)),
    model("openai", "gpt-4o", (128_000, 16_384, true), dollars(2.5, 1.25, 2.5, 10.0)),
    model("openai", "gpt-4o-mini", (128_000, 16_384, true), dollars(0.15, 0.075, 0.15, 0.6)),
    model("openai", "o3", (200_000, 100_000, true), dollars(2.0, 0.5, 2.0, 8.0)),
    model("openai", "o3-mini", (200_000, 100_000, false), dollars(1.1, 0.55, 1.1, 4.4)),
    model("openai", "o3-pro", (200_000, 100_000, true), dollars(20.0, 20.0, 20.0, 80.0)),
    model("openai", "o4-mini", (200_000, 100_000, true), dollars(1.1, 0.275, 1.1, 4.4)),
    model("gemini", "gemini-3.8-flash", GEMINI, dollars(1.5, 0.15, 1.5, 7.5)),
    model("gemini", "gemini-3.7-flash", GEMINI, dollars(1.5, 0.15, 1.5, 7.5)),
    // Half of it until the end of 2026.
    model("gemini", "gemini-3.6-flash", GEMINI, dollars(1.5, 0.15, 1.5, 7.5)),
    model("gemini", "gemini-3.5-flash", GEMINI, dollars(1.5, 0.15, 1.5, 9.0)),
    model("gemini", "gemini-3.5-flash-lite", GEMINI, dollars(0.3, 0.03, 0.3, 2.5)),
    model("gemini", "gemini-3.1-pro", GEMINI, dollars(2.0, 0.2, 2.0, 12.0)),
    model("gemini", "gemini-2.5-pro", GEMINI, dollars(1.25, 0.125, 1.25, 10.0)),
    model("gemini", "gemini-2.5-flash", GEMINI, dollars(0.3, 0.03, 0.3, 2.5)),
    named("openrouter", "openrouter/auto"),
    named("mistral", "mistral-large-latest"),
    named("deepseek", "deepseek-chat"),
    named("xai", "grok-4.6"),
    named("groq", "openai/gpt-oss-120b"),
    named("ollama", "qwen3"),
];

/// Beginnings of names that are not names themselves: whole families, and models whose name carries a date.
const BEGINNINGS: &[Model] = &[
    model("anthropic", "claude", (200_000, 32_000, true), None),
    model("anthropic", "claude-3-5-haiku", (200_000, 8_192, true), dollars(0.8, 0.08, 1.0, 4.0)),
    model("anthropic", "claude-3-7-sonnet", (200_000, 64_000, true), dollars(3.0, 0.3, 3.75, 15.0)),
    model("anthropic", "claude-opus-4", (200_000, 32_000, true), dollars(15.0, 1.5, 18.75, 75.0)),
    model("anthropic", "claude-sonnet-4", (200_000, 64_000, true), dollars(3.0, 0.3, 3.75, 15.0)),
    model("openai", "gpt", (128_000, 16_384, true), None),
    model("openai", "gpt-5.3", GPT_5, dollars(1.75, 0.175, 1.75, 14.0)),
    model("openai", "gpt-5.6", GPT, None),
    model("gemini", "gemini", GEMINI, None),
    // Open weights, served by many.
    model("", "gpt-oss", (131_072, 32_768, false), None),
];

/// Returns all models of the list, by provider; the first of each is the one that haft suggests.
pub fn models() -> impl Iterator<Item = &'static Model> {
    MODELS.iter()
}

/// Returns the model that haft suggests for this provider.
pub(super) fn suggested(provider: &str) -> Option<&'static Model> {
    MODELS.iter().find(|it| it.provider == provider)
}

/// Returns limits and price of the model of this name, also where a provider writes the maker's name before
/// it, as in `anthropic/claude-…`.
pub(super) fn known(model: &str) -> Known {
    listed(model).unwrap_or(UNKNOWN)
}

/// Returns limits and price of a model, if its name or the beginning of its name is listed.
pub fn listed(model: &str) -> Option<Known> {
    let name = plain(model.rsplit('/').next().unwrap_or(model));
    let rows = MODELS.iter().chain(BEGINNINGS);
    let fitting = rows.filter(|it| it.known.is_some() && is_beginning(&plain(it.name), &name));
    fitting.max_by_key(|it| it.name.len())?.known
}

/// Returns a name in the form in which names are compared: in lower case, with `-` for `.`.
fn plain(name: &str) -> String {
    name.to_ascii_lowercase().replace('.', "-")
}

fn is_beginning(start: &str, name: &str) -> bool {
    name.strip_prefix(start).is_some_and(|rest| goes_on(start, rest))
}

/// Returns whether `rest`, after this beginning, leaves it the same model. A date or a variant may follow,
/// but not another version: the price of `gpt-5` says nothing about `gpt-5.9`. A beginning without a version
/// stands for all of them.
fn goes_on(start: &str, rest: &str) -> bool {
    if rest.is_empty() {
        return true;
    }
    let Some(rest) = rest.strip_prefix(['-', ':', '@']) else { return false };
    let first = rest.split(|it: char| !it.is_ascii_alphanumeric()).next().unwrap_or_default();
    let version = first.len() <= 2 && first.bytes().all(|it| it.is_ascii_digit());
    !version || !start.contains(|it: char| it.is_ascii_digit())
}

/// Returns the full name, `PROVIDER:MODEL`, that a name without a provider most likely means: a listed name
/// (`gpt-4o`), a newer model of a listed family (`gpt-7`), a typo (`gtp-4o`) or a part of a name (`sonnet`).
pub(super) fn meant(typed: &str) -> Option<String> {
    let typed = typed.trim();
    let name = plain(typed);
    let full = |it: &Model| format!("{}:{}", it.provider, it.name);
    if name.is_empty() {
        return None;
    }
    if let Some(it) = MODELS.iter().find(|it| plain(it.name) == name) {
        return Some(full(it));
    }
    let families = BEGINNINGS.iter().filter(|it| !it.provider.is_empty());
    if let Some(family) =
        families.filter(|it| is_beginning(&plain(it.name), &name)).max_by_key(|it| it.name.len())
    {
        let whole_family = plain(family.name) == name;
        let newest =
            MODELS.iter().find(|it| it.provider == family.provider && is_beginning(&name, &plain(it.name)));
        return match newest.filter(|_| whole_family) {
            Some(newest) => Some(full(newest)),
            None => Some(format!("{}:{}", family.provider, near(family.provider, typed).unwrap_or(typed))),
        };
    }
    let near = nearest(typed, MODELS.iter().map(|it| it.name));
    let near = MODELS.iter().find(|it| near.as_deref() == Some(it.name));
    let part =
        || MODELS.iter().find(|it| name.len() >= 3 && plain(it.name).split('-').any(|word| word == name));
    near.or_else(part).map(full)
}

/// Returns the listed name of this provider that a misspelt one most likely means. A name that differs from a
/// listed one only in its numbers is a newer or an older version, not a typo.
pub(super) fn near(provider: &str, model: &str) -> Option<&'static str> {
    // The list has one model of each other provider, too few to detect a typo.
    let names = || MODELS.iter().filter(|it| it.provider == provider && it.known.is_some()).map(|it| it.name);
    let words = |name: &str| -> Vec<String> {
        let is_version = |word: &&str| word.contains(|it: char| it.is_ascii_digit());
        plain(name).split('-').filter(|word| !is_version(word)).map(str::to_owned).collect()
    };
    let typed = words(model);
    if names().any(|it| words(it) == typed) {
        return None;
    }
    let near = nearest(model, names())?;
    names().find(|it| *it == near)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn input(model: &str) -> Option<f64> {
        known(model).price.map(|it| it.input)
    }

    #[test]
    fn a_model_is_known_by_the_beginning_of_its_name() {
        assert_eq!(input("claude-sonnet-4-5-20250929"), Some(3.0));
        assert_eq!(input("anthropic/claude-opus-4.6"), Some(5.0));
        assert_eq!(input("claude-opus-4-20250514"), Some(15.0));
        assert_eq!(input("gpt-5-mini-2025-08-07"), Some(0.25));
        assert_eq!(input("gpt-5.4-mini"), Some(0.75));
        assert_eq!(input("gpt-5.3-codex"), Some(1.75));
        assert_eq!(input("gemini-2.5-pro-preview-06-05"), Some(1.25));
        assert_eq!(known("claude-opus-5-5").window, 1_000_000);
    }

    #[test]
    fn a_later_version_does_not_inherit_an_older_price() {
        for later in ["gpt-5.9", "gpt-6", "claude-opus-4-9", "claude-opus-6", "gemini-4.0-pro", "o3x"] {
            assert_eq!(input(later), None, "{later}");
        }
        assert_eq!(known("claude-opus-6").window, 200_000);
        assert!(known("gpt-6").images);
    }

    #[test]
    fn an_unlisted_model_gets_cautious_limits() {
        assert_eq!(known("qwen3:32b"), UNKNOWN);
        assert_eq!(known(""), UNKNOWN);
        assert_eq!(listed("mistral-large-latest"), None);
    }

    #[test]
    fn every_row_is_unique_and_plausible() {
        let mut seen = std::collections::HashSet::new();
        for Model { provider, name, known } in MODELS.iter().chain(BEGINNINGS) {
            assert!(seen.insert((*provider, plain(name))), "{name}");
            let Some(Known { window, longest, price, .. }) = known else { continue };
            assert!(longest < window, "{name}");
            let Some(price) = price else { continue };
            assert!(price.cached <= price.input && price.input < price.output, "{name}");
        }
        let open_weights = known("gpt-oss-120b");
        assert_eq!((open_weights.images, open_weights.price), (false, None));
        known("claude-fable-5-1").price.unwrap();
    }

    #[test]
    fn a_name_without_its_provider_is_completed() {
        for (typed, expected) in [
            ("gpt-4o", "openai:gpt-4o"),
            ("GPT-4o", "openai:gpt-4o"),
            ("claude-sonnet-5.5", "anthropic:claude-sonnet-5-5"),
            ("claude", "anthropic:claude-sonnet-5-5"),
            ("gemini", "gemini:gemini-3.8-flash"),
            ("claude-opus-7", "anthropic:claude-opus-7"),
            ("gpt-7-sol", "openai:gpt-7-sol"),
            ("gpt-5.6-tera", "openai:gpt-5.6-terra"),
            ("claude-sonet-5-5", "anthropic:claude-sonnet-5-5"),
            ("gtp-4o", "openai:gpt-4o"),
            ("sonnet", "anthropic:claude-sonnet-5-5"),
            ("haiku", "anthropic:claude-haiku-5-5"),
            ("grok-4.6", "xai:grok-4.6"),
            ("deepseek-chat", "deepseek:deepseek-chat"),
        ] {
            assert_eq!(meant(typed).as_deref(), Some(expected), "{typed}");
        }
        for other in ["", "hello", "fast", "x"] {
            assert_eq!(meant(other), None, "{other}");
        }
    }

    #[test]
    fn typo_is_distinguished_from_a_new_version() {
        let of_anthropic = |name| near("anthropic", name);
        assert_eq!(of_anthropic("claude-sonet-5-5"), Some("claude-sonnet-5-5"));
        assert_eq!(of_anthropic("claude-sonnet-55"), None, "may be a version");
        for fine in ["claude-sonnet-5-5", "claude-sonnet-5-6", "claude-opus-6", "claude-opus-4-20250514", "x"]
        {
            assert_eq!(of_anthropic(fine), None, "{fine}");
        }
        assert_eq!(near("openai", "gpt-5.6-tera"), Some("gpt-5.6-terra"));
        assert_eq!(near("openai", "gpt-5.4-mini-2026-01-01"), None);
        assert_eq!(near("ollama", "qwen"), None, "the list does not have its models");
    }
}
