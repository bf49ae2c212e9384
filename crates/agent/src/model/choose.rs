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
    let url = Url::parse(&endpoint.url).ok().filter(|it| it.has_host());
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
