//! Which model did the person ask for?
//!
//! A name is one of:
//! - that of a section `[models.NAME]` of haft.toml;
//! - `PROVIDER:MODEL`, with the key in the provider's usual variable; `openai:chat:MODEL` and `openai:responses:MODEL`
//!   say the wire format, too;
//! - `URL#MODEL` for a server that speaks Chat Completions and wants no key: a key is for the address that it was given
//!   for, so one that is to go elsewhere is named in a section;
//! - `script:FILE`.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use kit::{Fault, Kind};
use reqwest::{
    Url,
    header::{HeaderName, HeaderValue},
};
use runtime::config::ModelSection;

use crate::dialect::{Dialect, Spoken};

use super::{
    Abilities, Model, OwnTool, Price,
    anthropic::Anthropic,
    chat::Chat,
    endpoint::{Endpoint, Key, Served},
    http::is_loopback,
    price,
    provider::{PROVIDERS, Provider, Variables, Wire, shown, versioned},
    responses::Responses,
    script::Script,
};

/// How many tokens Ollama is taken to have read at most, where nobody says it: it cuts what is longer without a word,
/// and begins with the instructions.
const OLLAMA: u64 = 32_768;

/// From what a model is chosen.
#[derive(Debug, Clone, Copy)]
pub struct Choices<'a> {
    /// Those that haft.toml names.
    pub models: &'a BTreeMap<String, ModelSection>,
    /// The environment: keys, and the addresses that the usual variables name.
    pub variables: &'a [(String, String)],
}

/// The model of this name: see the top of this file.
///
/// # Errors
/// When there is no such provider, or what it needs is missing; with what to do.
pub fn choose(name: &str, among: Choices<'_>) -> Result<Arc<dyn Model>, Fault> {
    let variables = Variables(among.variables);
    match among.models.get(name) {
        Some(section) => configured(name, section, variables)
            .map_err(|fault| Fault { what: format!("`[models.{name}]`: {}", fault.what), ..fault }),
        None if name.starts_with("script:") => Ok(Arc::new(script(name)?)),
        None => Plan::of(name, variables, among.models)?.model(name),
    }
}

/// A model to suggest to somebody who has named none: of a provider whose key is set.
pub fn example(variables: &[(String, String)]) -> Option<String> {
    let variables = Variables(variables);
    PROVIDERS.iter().find(|it| it.is_set_up(variables)).map(Provider::example)
}

fn script(name: &str) -> Result<Script, Fault> {
    Script::read(Path::new(name.strip_prefix("script:").unwrap_or(name)))
}

/// A model while it is chosen.
struct Plan {
    wire: Wire,
    model: String,
    endpoint: Endpoint,
    abilities: Abilities,
    effort: Option<String>,
}

impl Plan {
    fn new(wire: Wire, model: &str, endpoint: Endpoint) -> Self {
        let price::Known { window, longest, images, .. } = price::known(model);
        // What it costs is known of those whose model it is, not of whoever serves one of that name.
        let abilities =
            Abilities { calls: true, images, window, longest, own_tools: Vec::new(), price: None };
        Self { wire, model: model.to_owned(), endpoint, abilities, effort: None }
    }

    /// The model of a name that is none of haft.toml's.
    fn of(
        name: &str,
        variables: Variables<'_>,
        models: &BTreeMap<String, ModelSection>,
    ) -> Result<Self, Fault> {
        let url = name.strip_prefix("openai-compatible:").unwrap_or(name);
        if url.starts_with("http://") || url.starts_with("https://") {
            let Some((url, model)) = url.split_once('#').filter(|(_, model)| !model.is_empty()) else {
                return Err(Fault::bad_args(format!("`{name}` names no model"))
                    .next("Name it after a `#`: `http://127.0.0.1:8080/v1#MODEL`."));
            };
            return Ok(Self::new(Wire::Chat, model, Endpoint::new(url)));
        }
        match provided(name).map(|(provider, model)| (provider, told(model))) {
            Some((provider, (wire, model))) if !model.is_empty() => {
                Self::at(provider, model, wire, None, variables)
            }
            _ => Err(nobody(name, variables, models)),
        }
    }

    /// A provider's model, in this wire format or its own, with the key of this variable or the usual one.
    fn at(
        provider: &Provider,
        model: &str,
        wire: Option<Wire>,
        variable: Option<&str>,
        variables: Variables<'_>,
    ) -> Result<Self, Fault> {
        let (url, own) = provider.address(variables);
        let wire = wire.unwrap_or(provider.wire(model, own));
        let key = match variable {
            Some(variable) => Some(named_key(wire, variable, variables)?),
            None => provider.key(variables),
        };
        if key.is_none() && own && !provider.is_open() {
            let keys = provider.keys.join(" or ");
            return Err(Fault::new(
                Kind::Unavailable,
                format!("`{}` needs a key, and {keys} is not set", provider.name),
            )
            .next(format!("Set {keys}, or name a model that needs no key, such as `ollama:qwen3`.")));
        }
        let mut plan = Self::new(wire, model, Endpoint::new(&url).with(key));
        plan.abilities.own_tools = provider.own_tools(wire, own);
        if provider.is_open() {
            let told = variables.get("OLLAMA_CONTEXT_LENGTH").and_then(|it| it.parse().ok());
            plan.within(told.unwrap_or(OLLAMA));
        } else if own {
            plan.abilities.price = price::known(model).price;
        }
        Ok(plan)
    }

    /// It has this window; an answer has at most half of it.
    fn within(&mut self, window: u64) {
        self.abilities.window = window;
        self.abilities.longest = self.abilities.longest.min(window / 2);
    }

    fn model(self, name: &str) -> Result<Arc<dyn Model>, Fault> {
        check(&self.endpoint)?;
        let Self { wire, model, endpoint, abilities, effort } = self;
        let served = Served { name: name.to_owned(), model, endpoint, abilities, effort };
        Ok(match wire {
            Wire::Anthropic => Arc::new(Anthropic::new(served)),
            Wire::Chat => Arc::new(Chat::new(served)),
            Wire::Responses => Arc::new(Responses::new(served)),
        })
    }
}

/// The provider of a name, and the rest of it.
fn provided(name: &str) -> Option<(&'static Provider, &str)> {
    let (provider, model) = name.split_once(':')?;
    Some((Provider::named(provider)?, model))
}

/// The wire format that is said before a model's name.
fn told(model: &str) -> (Option<Wire>, &str) {
    match model.split_once(':') {
        Some(("chat", model)) => (Some(Wire::Chat), model),
        Some(("responses", model)) => (Some(Wire::Responses), model),
        _ => (None, model),
    }
}

fn nobody(name: &str, variables: Variables<'_>, models: &BTreeMap<String, ModelSection>) -> Fault {
    let example = example(variables.0).unwrap_or_else(|| "anthropic:claude-sonnet-5-5".to_owned());
    let providers: Vec<&str> = PROVIDERS.iter().map(|it| it.name).collect();
    let mut next = format!(
        "Name one such as `{example}`, of {}; or `URL#MODEL`, or `script:FILE`.",
        providers.join(", ")
    );
    if !models.is_empty() {
        let names: Vec<&str> = models.keys().map(String::as_str).collect();
        next.push_str(&format!(" haft.toml has {}.", names.join(", ")));
    }
    Fault::bad_args(format!("`{name}` is no model")).next(next)
}

/// The model of a section of haft.toml.
fn configured(name: &str, section: &ModelSection, variables: Variables<'_>) -> Result<Arc<dyn Model>, Fault> {
    let Some(model) = section.model.as_deref().filter(|it| !it.is_empty()) else {
        return Err(Fault::bad_args("it names no model").next("Say `model = \"…\"` there."));
    };
    let wire = section.api.as_deref().map(wire).transpose()?;
    if wire.is_none() && section.url.is_none() && model.starts_with("script:") {
        let script = script(model)?;
        let mut abilities = script.abilities().clone();
        dress(&mut abilities, section)?;
        return spoken(Arc::new(script.with(abilities)), section);
    }
    let key = section.key_env.as_deref();
    let mut plan = match (&section.url, wire) {
        (Some(url), wire) => {
            let wire = wire.unwrap_or(Wire::Chat);
            let key = key.map(|it| named_key(wire, it, variables)).transpose()?;
            Plan::new(wire, model, Endpoint::new(&versioned(wire, url)).with(key))
        }
        (None, Some(wire)) => {
            let provider = Provider::of(wire).ok_or_else(|| Fault::bug("a wire format has no provider"))?;
            Plan::at(provider, model, Some(wire), key, variables)?
        }
        (None, None) => match provided(model) {
            Some((provider, model)) => {
                let (wire, model) = told(model);
                Plan::at(provider, model, wire, key, variables)?
            }
            None => {
                return Err(Fault::bad_args(format!("it does not say who serves `{model}`"))
                    .next("Say `url = \"…\"` or `api = \"…\"` there, or name it as `PROVIDER:MODEL`."));
            }
        },
    };
    for (header, value) in &section.headers {
        let bad = || Fault::bad_args(format!("`{header}` of `headers` is no header that can be sent"));
        let value = HeaderValue::from_str(value).map_err(|_| bad())?;
        plan.endpoint.headers.insert(HeaderName::from_bytes(header.as_bytes()).map_err(|_| bad())?, value);
    }
    plan.effort.clone_from(&section.effort);
    // What is to be used of the provider's own tools, a section says itself.
    plan.abilities.own_tools.clear();
    dress(&mut plan.abilities, section)?;
    spoken(plan.model(name)?, section)
}

fn wire(api: &str) -> Result<Wire, Fault> {
    match api {
        "anthropic" => Ok(Wire::Anthropic),
        "chat" => Ok(Wire::Chat),
        "responses" => Ok(Wire::Responses),
        other => Err(Fault::bad_args(format!("there is no `api` that is `{other}`"))
            .next("Say `chat`, `responses` or `anthropic`; most servers speak `chat`.")),
    }
}

fn named_key(wire: Wire, variable: &str, variables: Variables<'_>) -> Result<Key, Fault> {
    let key = variables.get(variable).ok_or_else(|| {
        Fault::new(Kind::Unavailable, format!("the key is to be in {variable}, which is not set"))
            .next(format!("Set {variable}, or leave `key_env` out if no key is needed."))
    })?;
    Ok(shown(wire, variable, key))
}

/// What a section says of a model.
fn dress(abilities: &mut Abilities, section: &ModelSection) -> Result<(), Fault> {
    if let Some(window) = section.window {
        abilities.window = window;
        abilities.longest = abilities.longest.min(window / 2);
    }
    abilities.longest = section.longest.unwrap_or(abilities.longest);
    if abilities.longest == 0 || abilities.longest >= abilities.window {
        let what = format!(
            "an answer of {} tokens does not go into a window of {}",
            abilities.longest, abilities.window
        );
        return Err(
            Fault::bad_args(what).next("`window` has the request and the answer, `longest` the answer.")
        );
    }
    abilities.images = section.images.unwrap_or(abilities.images);
    for tool in &section.own_tools {
        let own = [OwnTool::ImageGen, OwnTool::WebSearch].into_iter().find(|it| it.name() == tool);
        let own = own.ok_or_else(|| {
            Fault::bad_args(format!("there is no tool `{tool}` for `own_tools`"))
                .next("Say `web_search` or `image_gen`.")
        })?;
        abilities.own_tools.push(own);
    }
    if let Some(price) = section.price {
        let (input, cached, kept, output) = (price.input, price.cached, price.kept, price.output);
        if [input, cached, kept, output].iter().any(|it| !it.is_finite() || *it < 0.0) {
            return Err(Fault::bad_args("a price is a number of dollars that is not negative"));
        }
        abilities.price = Some(Price { input, cached, kept, output });
    }
    Ok(())
}

/// The model as it is spoken to.
fn spoken(model: Arc<dyn Model>, section: &ModelSection) -> Result<Arc<dyn Model>, Fault> {
    let Some(dialect) = &section.dialect else { return Ok(model) };
    Ok(Arc::new(Spoken::new(model, dialect.parse::<Dialect>()?)))
}

/// A key does not go over a network where anybody can read it; there is no way to ask for that.
fn check(endpoint: &Endpoint) -> Result<(), Fault> {
    let url = Url::parse(&endpoint.url).ok().filter(Url::has_host);
    let Some(url) = url.filter(|it| matches!(it.scheme(), "http" | "https")) else {
        return Err(Fault::bad_args(format!("`{}` is no address of a model", without_secret(&endpoint.url)))
            .next("Give it up to and with the version: `http://127.0.0.1:8080/v1`."));
    };
    let secret = endpoint.key.is_some() || !endpoint.headers.is_empty() || url.password().is_some();
    if url.scheme() == "http" && secret && !is_loopback(&url) {
        let host = url.host_str().unwrap_or_default();
        return Err(Fault::new(Kind::Denied, format!("the key would go to `{host}` in the clear, for anybody to read")).next(format!(
            "Use `https`, or a tunnel: `ssh -N -L 8080:localhost:{port} {host}`, and `http://127.0.0.1:8080` as the address.",
            port = url.port_or_known_default().unwrap_or(80),
        )));
    }
    Ok(())
}

/// An address that is none may have a password in it for all that.
fn without_secret(url: &str) -> &str {
    url.rsplit('@').next().unwrap_or(url)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use futures_util::StreamExt;
    use runtime::config::PriceSection;

    use super::*;
    use crate::model::{
        Item, Request,
        loopback::{Loopback, Reply},
    };

    type Pairs<'a> = &'a [(&'a str, &'a str)];

    const KEYS: Pairs<'static> =
        &[("ANTHROPIC_API_KEY", "sk-ant-1"), ("OPENAI_API_KEY", "sk-oai-1"), ("GOOGLE_API_KEY", "goog-1")];

    fn owned(pairs: Pairs<'_>) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn plan(name: &str, variables: Pairs<'_>) -> Result<Plan, Fault> {
        Plan::of(name, Variables(&owned(variables)), &BTreeMap::new())
    }

    /// Where it is asked, in which wire format, as what, and whether with a key.
    fn place(name: &str, variables: Pairs<'_>) -> (String, Wire, String, bool) {
        let plan = plan(name, variables).unwrap();
        (plan.endpoint.url, plan.wire, plan.model, plan.endpoint.key.is_some())
    }

    fn at(url: &str, wire: Wire, model: &str, key: bool) -> (String, Wire, String, bool) {
        (url.to_owned(), wire, model.to_owned(), key)
    }

    fn section(model: &str) -> ModelSection {
        ModelSection { model: Some(model.to_owned()), ..ModelSection::default() }
    }

    fn chosen(section: ModelSection, variables: Pairs<'_>) -> Result<Arc<dyn Model>, Fault> {
        let models = BTreeMap::from([("mine".to_owned(), section)]);
        choose("mine", Choices { models: &models, variables: &owned(variables) })
    }

    fn fault(made: Result<Arc<dyn Model>, Fault>) -> (Kind, String) {
        let fault = made.map(|it| it.name().to_owned()).unwrap_err();
        (fault.kind, fault.as_text())
    }

    #[test]
    fn a_name_says_who_is_asked_where_and_how() {
        let (anthropic, openai) = ("https://api.anthropic.com/v1", "https://api.openai.com/v1");
        let google = "https://generativelanguage.googleapis.com/v1beta/openai";
        for (name, expected) in [
            ("anthropic:claude-opus-5-5", at(anthropic, Wire::Anthropic, "claude-opus-5-5", true)),
            ("openai:gpt-5.6-terra", at(openai, Wire::Responses, "gpt-5.6-terra", true)),
            ("openai:o3", at(openai, Wire::Responses, "o3", true)),
            ("openai:gpt-4o", at(openai, Wire::Chat, "gpt-4o", true)),
            ("openai:chat:gpt-5", at(openai, Wire::Chat, "gpt-5", true)),
            ("openai:responses:gpt-4o", at(openai, Wire::Responses, "gpt-4o", true)),
            ("gemini:gemini-3.8-flash", at(google, Wire::Chat, "gemini-3.8-flash", true)),
            ("ollama:qwen3:32b", at("http://127.0.0.1:11434/v1", Wire::Chat, "qwen3:32b", false)),
            ("http://127.0.0.1:8080/v1#a/b", at("http://127.0.0.1:8080/v1", Wire::Chat, "a/b", false)),
            ("openai-compatible:https://host/v1/#m", at("https://host/v1", Wire::Chat, "m", false)),
        ] {
            assert_eq!(place(name, KEYS), expected, "{name}");
        }
    }

    #[test]
    fn the_usual_variables_say_other_addresses() {
        for base in ["http://127.0.0.1:4000", "http://127.0.0.1:4000/", "http://127.0.0.1:4000/v1"] {
            let found =
                place("anthropic:claude-x", &[("ANTHROPIC_BASE_URL", base), ("ANTHROPIC_AUTH_TOKEN", "t-1")]);
            assert_eq!(found, at("http://127.0.0.1:4000/v1", Wire::Anthropic, "claude-x", true));
        }
        // A server of one's own speaks Chat Completions, and may want no key.
        let found = place("openai:gpt-5", &[("OPENAI_BASE_URL", "http://127.0.0.1:4000/api")]);
        assert_eq!(found, at("http://127.0.0.1:4000/api", Wire::Chat, "gpt-5", false));
        let found = place("ollama:qwen3", &[("OLLAMA_HOST", "box.lan:1234")]);
        assert_eq!(found, at("http://box.lan:1234/v1", Wire::Chat, "qwen3", false));
        let window = |variables| plan("ollama:qwen3", variables).unwrap().abilities.window;
        assert_eq!((window(&[]), window(&[("OLLAMA_CONTEXT_LENGTH", "64000")])), (OLLAMA, 64_000));
    }

    #[test]
    fn what_is_known_of_a_model_is_told() {
        let abilities = |name: &str| plan(name, KEYS).unwrap().abilities;
        let own = abilities("anthropic:claude-sonnet-4-5");
        assert_eq!((own.window, own.images, own.price.map(|it| it.input)), (200_000, true, Some(3.0)));
        assert_eq!(own.own_tools, [OwnTool::WebSearch]);
        assert_eq!(abilities("openai:gpt-5").own_tools, [OwnTool::ImageGen, OwnTool::WebSearch]);
        // Another server's price is another.
        let other = abilities("http://127.0.0.1:8080/v1#claude-sonnet-4-5");
        assert_eq!((other.window, other.price, other.own_tools.len()), (200_000, None, 0));
        assert_eq!(abilities("http://127.0.0.1:8080/v1#x").window, 128_000);
    }

    #[test]
    fn a_key_that_is_missing_is_named() {
        for (name, variable) in [
            ("anthropic:claude-x", "ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN"),
            ("openai:gpt-5", "OPENAI_API_KEY"),
            ("gemini:gemini-x", "GEMINI_API_KEY or GOOGLE_API_KEY"),
            ("groq:x", "GROQ_API_KEY"),
        ] {
            let made = choose(
                name,
                Choices { models: &BTreeMap::new(), variables: &owned(&[("OPENAI_API_KEY", " ")]) },
            );
            let (kind, text) = fault(made);
            assert!(kind == Kind::Unavailable && text.contains(&format!("Set {variable}")), "{text}");
        }
        let section = ModelSection { key_env: Some("MY_KEY".to_owned()), ..section("anthropic:claude-x") };
        assert!(fault(chosen(section, KEYS)).1.contains("MY_KEY"));
    }

    #[test]
    fn what_is_no_model_is_said_with_one_that_is() {
        let models = BTreeMap::from([("fast".to_owned(), section("anthropic:x"))]);
        for name in ["claude", "nobody:x", "openai:", "http://127.0.0.1:8080/v1", "https://host#", ""] {
            let made = choose(name, Choices { models: &models, variables: &owned(KEYS) });
            let (kind, text) = fault(made);
            assert!(kind == Kind::BadArgs && text.contains(&format!("`{name}`")), "{text}");
        }
        let made = choose("claude", Choices { models: &models, variables: &owned(KEYS) });
        let text = fault(made).1;
        assert!(text.contains("anthropic:claude-sonnet-5-5") && text.contains("fast"), "{text}");
    }

    #[test]
    fn a_key_goes_nowhere_in_the_clear() {
        let key = Some("MY_KEY".to_owned());
        let variables: Pairs<'_> = &[
            ("MY_KEY", "sk-mine-1"),
            ("OPENAI_API_KEY", "sk-oai-1"),
            ("OPENAI_BASE_URL", "http://gateway.corp/v1"),
        ];
        let with =
            |url: &str| ModelSection { url: Some(url.to_owned()), key_env: key.clone(), ..section("m") };
        for url in ["http://gateway.corp:4000/v1", "http://10.0.0.1/v1", "http://me:pass-word@gateway.corp"] {
            let (kind, text) = fault(chosen(with(url), variables));
            assert!(kind == Kind::Denied && text.contains("https"), "{text}");
            assert!(!text.contains("sk-mine") && !text.contains("pass-word"), "{text}");
        }
        let (kind, _) =
            fault(choose("openai:gpt-5", Choices { models: &BTreeMap::new(), variables: &owned(variables) }));
        assert_eq!(kind, Kind::Denied);
        let headers = BTreeMap::from([("x-key".to_owned(), "secret".to_owned())]);
        let secret = ModelSection { key_env: None, headers, ..with("http://gateway.corp/v1") };
        assert_eq!(fault(chosen(secret, &[])).0, Kind::Denied);
        for fine in [
            "https://gateway.corp/v1",
            "http://127.0.0.1:4000/v1",
            "http://[::1]:4000",
            "http://localhost:4000",
        ] {
            assert!(chosen(with(fine), variables).is_ok(), "{fine}");
        }
        let open = ModelSection { key_env: None, ..with("http://box.lan:11434/v1") };
        assert!(chosen(open, &[]).is_ok());
        for wrong in ["ftp://host/v1", "host", "", "me:pass-word@host"] {
            let (kind, text) = fault(chosen(with(wrong), variables));
            assert!(kind == Kind::BadArgs && !text.contains("pass-word"), "{text}");
        }
    }

    #[tokio::test]
    async fn every_key_of_a_section_has_its_effect() {
        let loopback = Loopback::serve([Reply::new(400, "text/plain", "no")]).await;
        let price = PriceSection { input: 1.0, cached: 0.5, kept: 2.0, output: 4.0 };
        let section = ModelSection {
            api: Some("anthropic".to_owned()),
            url: Some(loopback.url.trim_end_matches("/v1").to_owned()),
            model: Some("claude-haiku-4-5".to_owned()),
            key_env: Some("MY_KEY".to_owned()),
            headers: BTreeMap::from([("X-Team".to_owned(), "tools".to_owned())]),
            window: Some(50_000),
            longest: Some(9_000),
            format: None,
            dialect: None,
            images: Some(false),
            effort: Some("2000".to_owned()),
            own_tools: vec!["web_search".to_owned()],
            price: Some(price),
        };
        let model = chosen(section, &[("MY_KEY", "sk-mine-1")]).unwrap();
        assert_eq!(model.name(), "mine");
        let abilities = Abilities {
            calls: true,
            images: false,
            window: 50_000,
            longest: 9_000,
            own_tools: vec![OwnTool::WebSearch],
            price: Some(Price { input: 1.0, cached: 0.5, kept: 2.0, output: 4.0 }),
        };
        assert_eq!(model.abilities(), &abilities);
        ask(&model).await;
        let asked = loopback.asked().remove(0);
        assert_eq!(asked.line, "POST /v1/messages");
        assert_eq!((asked.header("x-api-key"), asked.header("x-team")), (Some("sk-mine-1"), Some("tools")));
        assert_eq!(
            (asked.body["model"].as_str(), asked.body["max_tokens"].as_u64()),
            (Some("claude-haiku-4-5"), Some(9_000))
        );
        assert_eq!(asked.body["thinking"]["budget_tokens"], 2000);
    }

    async fn ask(model: &Arc<dyn Model>) {
        let items = vec![Item::person("Go.")];
        let request = Request { system: "".into(), items, tools: Arc::default(), step: 0, longest: None, format: None };
        model.stream(request).collect::<Vec<_>>().await;
    }

    #[tokio::test]
    async fn each_wire_format_is_asked_at_its_own_path() {
        for (api, path) in [
            (None, "POST /v1/chat/completions"),
            (Some("chat"), "POST /v1/chat/completions"),
            (Some("responses"), "POST /v1/responses"),
            (Some("anthropic"), "POST /v1/messages"),
        ] {
            let loopback = Loopback::serve([Reply::new(400, "text/plain", "no")]).await;
            let section =
                ModelSection { api: api.map(str::to_owned), url: Some(loopback.url.clone()), ..section("m") };
            // No key was given for this address, so none goes there.
            ask(&chosen(section, KEYS).unwrap()).await;
            let asked = loopback.asked().remove(0);
            assert_eq!(asked.line, path);
            assert_eq!((asked.header("authorization"), asked.header("x-api-key")), (None, None));
        }
    }

    #[test]
    fn a_section_may_begin_with_a_model_that_is_known() {
        let model =
            chosen(ModelSection { window: Some(20_000), ..section("anthropic:claude-opus-5-5") }, KEYS)
                .unwrap();
        let abilities = model.abilities();
        assert_eq!((abilities.window, abilities.longest, abilities.own_tools.len()), (20_000, 10_000, 0));
        assert!(abilities.price.is_some() && abilities.images);
        let named = ModelSection { api: Some("chat".to_owned()), ..section("gpt-5") };
        assert!(chosen(named, KEYS).is_ok());
    }

    #[test]
    fn a_section_that_is_wrong_says_where() {
        let wrong = [
            (ModelSection::default(), "names no model"),
            (section("gpt-5"), "who serves"),
            (ModelSection { api: Some("grpc".to_owned()), ..section("m") }, "grpc"),
            (ModelSection { own_tools: vec!["bash".to_owned()], ..section("openai:gpt-5") }, "`bash`"),
            (
                ModelSection { longest: Some(500), window: Some(500), ..section("openai:gpt-5") },
                "window of 500",
            ),
            (ModelSection { dialect: Some("klingon".to_owned()), ..section("openai:gpt-5") }, "klingon"),
            (
                ModelSection {
                    headers: BTreeMap::from([("a b".to_owned(), String::new())]),
                    ..section("openai:gpt-5")
                },
                "`a b`",
            ),
            (
                ModelSection {
                    price: Some(PriceSection { input: f64::NAN, ..Default::default() }),
                    ..section("openai:gpt-5")
                },
                "price",
            ),
        ];
        for (section, expected) in wrong {
            let (_, text) = fault(chosen(section, KEYS));
            assert!(text.contains("[models.mine]") && text.contains(expected), "{text}");
        }
    }

    #[test]
    fn a_script_may_be_dressed_as_a_model_without_calls() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("s.jsonl");
        std::fs::write(&file, "{\"say\": \"<json>{}</json>\"}\n").unwrap();
        let script = section(&format!("script:{}", file.display()));
        let section = ModelSection {
            dialect: Some("json".to_owned()),
            window: Some(9_000),
            images: Some(false),
            ..script
        };
        let model = chosen(section, &[]).unwrap();
        assert_eq!(
            (model.abilities().calls, model.abilities().window, model.abilities().images),
            (true, 9_000, false)
        );
    }

    #[test]
    fn a_model_is_suggested_for_which_there_is_a_key() {
        let suggested = |variables| example(&owned(variables));
        assert_eq!(suggested(&[("PATH", "/bin")]), None);
        assert_eq!(suggested(&[("ANTHROPIC_API_KEY", "")]), None);
        assert_eq!(suggested(KEYS).as_deref(), Some("anthropic:claude-sonnet-5-5"));
        assert_eq!(suggested(&[("GEMINI_API_KEY", "x")]).as_deref(), Some("gemini:gemini-3.8-flash"));
        assert_eq!(suggested(&[("OLLAMA_HOST", "box")]).as_deref(), Some("ollama:qwen3"));
        for provider in PROVIDERS {
            let variables: Vec<_> =
                provider.keys.iter().map(|it| ((*it).to_owned(), "key-123".to_owned())).collect();
            let name = example(&variables).unwrap();
            assert!(
                choose(&name, Choices { models: &BTreeMap::new(), variables: &variables }).is_ok(),
                "{name}"
            );
        }
    }
}
