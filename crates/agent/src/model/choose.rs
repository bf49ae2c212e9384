//! Model selection: turns the name that a person gives into a model with its endpoint, key, limits and price.
//!
//! A name is one of:
//! - the NAME of a section `[models.NAME]` of haft.toml;
//! - `PROVIDER:MODEL`, with the key in the provider's usual variable or from `haft login`; `openai:chat:MODEL` and
//!   `openai:responses:MODEL` choose the wire format, too;
//! - `URL#MODEL` for a server that speaks Chat Completions and needs no key (a server with a key gets a section, since a
//!   key is bound to its address);
//! - `script:FILE`.

#[cfg(test)]
mod tests;

use std::{path::Path, sync::Arc};

use kit::{Fault, nearest::nearest};
use runtime::config::ModelSection;

use crate::dialect::{Dialect, Spoken};

use super::{
    Abilities, Model, OwnTool, Price,
    anthropic::Anthropic,
    chat::Chat,
    endpoint::{Endpoint, Served},
    known,
    provider::{PROVIDERS, Provider, Variables, Wire},
    resolve::{self, Choices, KeyFrom, Reached, check, headers, keyless},
    responses::Responses,
    script::Script,
};

/// The context window assumed of Ollama, in tokens, where nothing else is configured. Ollama silently truncates longer
/// requests, and cuts the system prompt first.
const OLLAMA: u64 = 32_768;

/// Returns the model of this name; the top of this file lists the forms.
///
/// # Errors
/// When there is no such provider, or its key is missing; with what to do.
pub fn choose(name: &str, among: Choices<'_>) -> Result<Arc<dyn Model>, Fault> {
    match among.models.get(name) {
        Some(section) => configured(name, section, among)
            .map_err(|fault| Fault { what: format!("`[models.{name}]`: {}", fault.what), ..fault }),
        None if name.starts_with("script:") => Ok(Arc::new(script(name)?)),
        None => Plan::of(name, among)?.model(name),
    }
}

/// The model to use where a person names none: the suggested one of the first provider that has a key, and where that
/// key comes from. A provider that needs no key is not a reason to use it.
pub fn usual(among: Choices<'_>) -> Option<(String, KeyFrom)> {
    PROVIDERS.iter().filter(|it| !it.is_open()).find_map(|provider| {
        let wire = provider.wire("", true);
        let key = resolve::provider(provider, wire, None, among).ok()?.key?;
        Some((provider.example(), key))
    })
}

/// A model to name as an example: the usual one, or that of a local provider whose address is set, or the first of the
/// list.
pub fn example(among: Choices<'_>) -> String {
    let variables = Variables(among.variables);
    let local = || PROVIDERS.iter().find(|it| it.is_set_up(variables)).map(Provider::example);
    let first = || PROVIDERS.first().map_or_else(String::new, Provider::example);
    usual(among).map(|it| it.0).or_else(local).unwrap_or_else(first)
}

/// Returns a warning for a name that looks misspelt, although its provider is known. haft tries the model all
/// the same: new models come out more often than new versions of haft.
pub fn doubt(name: &str, among: Choices<'_>) -> Option<String> {
    if among.models.contains_key(name) {
        return None;
    }
    let (provider, model) = provided(name)?;
    // Servers at another address have their own names of models.
    if !provider.address(Variables(among.variables)).1 {
        return None;
    }
    let near = known::near(provider.name, split_wire(model).1)?;
    Some(format!(
        "`{model}` is not in haft's list of models ({}); did you mean `{}:{near}`? Trying `{name}` as it is.",
        known::AS_OF,
        provider.name,
    ))
}

fn script(name: &str) -> Result<Script, Fault> {
    Script::read(Path::new(name.strip_prefix("script:").unwrap_or(name)))
}

/// A model whose settings are being resolved.
struct Plan {
    wire: Wire,
    model: String,
    endpoint: Endpoint,
    abilities: Abilities,
    effort: Option<String>,
}

impl Plan {
    fn new(wire: Wire, model: &str, endpoint: Endpoint) -> Self {
        let known::Known { window, longest, images, .. } = known::known(model);
        // The price in the list is the maker's, not that of other providers of the model.
        let abilities =
            Abilities { calls: true, images, window, longest, own_tools: Vec::new(), price: None };
        Self { wire, model: model.to_owned(), endpoint, abilities, effort: None }
    }

    /// Resolves a name that is not a section of haft.toml.
    fn of(name: &str, among: Choices<'_>) -> Result<Self, Fault> {
        let url = name.strip_prefix("openai-compatible:").unwrap_or(name);
        if url.starts_with("http://") || url.starts_with("https://") {
            let Some((url, model)) = url.split_once('#').filter(|(_, model)| !model.is_empty()) else {
                return Err(Fault::bad_args(format!("`{name}` names no model"))
                    .next("Add it after a `#`: `http://127.0.0.1:8080/v1#MODEL`."));
            };
            return Ok(Self::new(Wire::Chat, model, Endpoint::new(url)));
        }
        match provided(name).map(|(provider, model)| (provider, split_wire(model))) {
            Some((provider, (wire, model))) if !model.is_empty() => {
                Self::at(provider, model, wire, None, among)
            }
            _ => Err(unknown(name, among)),
        }
    }

    /// Resolves a provider's model, with this wire format or its usual one, and with the key of this variable
    /// or the usual one.
    fn at(
        provider: &Provider,
        model: &str,
        wire: Option<Wire>,
        variable: Option<&str>,
        among: Choices<'_>,
    ) -> Result<Self, Fault> {
        let variables = Variables(among.variables);
        let wire = wire.unwrap_or(provider.wire(model, provider.address(variables).1));
        let Reached { endpoint, own, key } = resolve::provider(provider, wire, variable, among)?;
        if key.is_none() && own && !provider.is_open() {
            return Err(keyless(provider));
        }
        let mut plan = Self::new(wire, model, endpoint);
        plan.abilities.own_tools = provider.own_tools(wire, own);
        if provider.is_open() {
            let told = variables.get("OLLAMA_CONTEXT_LENGTH").and_then(|it| it.parse().ok());
            plan.within(told.unwrap_or(OLLAMA));
        } else if own {
            plan.abilities.price = known::known(model).price;
        }
        Ok(plan)
    }

    /// Sets the window; an answer gets at most half of it.
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

/// Splits a name into its provider and the rest.
pub(super) fn provided(name: &str) -> Option<(&'static Provider, &str)> {
    let (provider, model) = name.split_once(':')?;
    Some((Provider::named(provider)?, model))
}

/// Splits a model's name into the wire format, if it has one, and the rest.
fn split_wire(model: &str) -> (Option<Wire>, &str) {
    match model.split_once(':') {
        Some(("chat", model)) => (Some(Wire::Chat), model),
        Some(("responses", model)) => (Some(Wire::Responses), model),
        _ => (None, model),
    }
}

/// Returns the fault of an unknown name, with the most likely correction.
fn unknown(name: &str, among: Choices<'_>) -> Fault {
    let names = || among.models.keys().map(String::as_str);
    let is_path = name.starts_with(['.', '/', '~']) || name.ends_with(".jsonl");
    let meant = match name.split_once(':') {
        Some((provider, "")) => Provider::named(provider).map(Provider::example),
        Some((provider, model)) => {
            let near = nearest(provider, PROVIDERS.iter().map(|it| it.name));
            near.map(|near| format!("{near}:{model}")).or_else(|| known::meant(model))
        }
        None if is_path => Some(format!("script:{name}")),
        None => match Provider::named(name) {
            Some(provider) => Some(provider.example()),
            None => nearest(name, names()).or_else(|| known::meant(name)),
        },
    };
    let what = match name {
        "" => "the name of the model is empty".to_owned(),
        _ => format!("unknown model `{name}`"),
    };
    let what = meant.map_or(what.clone(), |meant| format!("{what}; did you mean `{meant}`?"));
    let providers: Vec<&str> = PROVIDERS.iter().map(|it| it.name).collect();
    let mut next = format!(
        "A model is `PROVIDER:MODEL` such as `{}` ({}), `URL#MODEL` or `script:FILE`; `haft models` lists them.",
        example(among),
        providers.join(", ")
    );
    if !among.models.is_empty() {
        next.push_str(&format!(" haft.toml has {}.", names().collect::<Vec<_>>().join(", ")));
    }
    Fault::bad_args(what).next(next)
}

/// Returns the model of a section of haft.toml.
fn configured(name: &str, section: &ModelSection, among: Choices<'_>) -> Result<Arc<dyn Model>, Fault> {
    let Some(model) = section.model.as_deref().filter(|it| !it.is_empty()) else {
        return Err(Fault::bad_args("it names no model").next("Add `model = \"…\"` there."));
    };
    let wire = section.api.as_deref().map(wire).transpose()?;
    if wire.is_none() && section.url.is_none() && model.starts_with("script:") {
        let script = script(model)?;
        let mut abilities = script.abilities().clone();
        dress(&mut abilities, section)?;
        return spoken(Arc::new(script.with(abilities)), section, among);
    }
    let key = section.key_env.as_deref();
    let mut plan = match (&section.url, wire) {
        (Some(url), wire) => {
            let wire = wire.unwrap_or(Wire::Chat);
            Plan::new(wire, model, resolve::section(name, url, wire, key, among)?.endpoint)
        }
        (None, Some(wire)) => {
            let provider = Provider::of(wire).ok_or_else(|| Fault::bug("a wire format has no provider"))?;
            Plan::at(provider, model, Some(wire), key, among)?
        }
        (None, None) => match provided(model) {
            Some((provider, model)) => {
                let (wire, model) = split_wire(model);
                Plan::at(provider, model, wire, key, among)?
            }
            None => {
                return Err(Fault::bad_args(format!("it does not say who serves `{model}`"))
                    .next("Add `url = \"…\"` or `api = \"…\"` there, or name it as `PROVIDER:MODEL`."));
            }
        },
    };
    plan.endpoint.headers = headers(section)?;
    plan.effort.clone_from(&section.effort);
    // The section decides which of the provider's own tools are used.
    plan.abilities.own_tools.clear();
    dress(&mut plan.abilities, section)?;
    spoken(plan.model(name)?, section, among)
}

pub(super) fn wire(api: &str) -> Result<Wire, Fault> {
    match api {
        "anthropic" => Ok(Wire::Anthropic),
        "chat" => Ok(Wire::Chat),
        "responses" => Ok(Wire::Responses),
        other => Err(Fault::bad_args(format!("unknown `api` `{other}`"))
            .next("Write `chat`, `responses` or `anthropic`; most servers speak `chat`.")),
    }
}

/// Applies what a section says about a model.
fn dress(abilities: &mut Abilities, section: &ModelSection) -> Result<(), Fault> {
    if let Some(window) = section.window {
        abilities.window = window;
        abilities.longest = abilities.longest.min(window / 2);
    }
    abilities.longest = section.longest.unwrap_or(abilities.longest);
    if abilities.longest == 0 || abilities.longest >= abilities.window {
        let what = format!(
            "an answer of {} tokens does not fit into a window of {}",
            abilities.longest, abilities.window
        );
        return Err(
            Fault::bad_args(what).next("`window` holds request and answer, `longest` limits the answer.")
        );
    }
    abilities.images = section.images.unwrap_or(abilities.images);
    for tool in &section.own_tools {
        let own = [OwnTool::ImageGen, OwnTool::WebSearch].into_iter().find(|it| it.name() == tool);
        let own = own.ok_or_else(|| {
            Fault::bad_args(format!("there is no tool `{tool}` for `own_tools`"))
                .next("Write `web_search` or `image_gen`.")
        })?;
        abilities.own_tools.push(own);
    }
    if let Some(price) = section.price {
        let (input, cached, kept, output) = (price.input, price.cached, price.kept, price.output);
        if [input, cached, kept, output].iter().any(|it| !it.is_finite() || *it < 0.0) {
            return Err(Fault::bad_args("a price must be a number of dollars, at least 0"));
        }
        abilities.price = Some(Price { input, cached, kept, output });
    }
    Ok(())
}

/// Returns the model, in the dialect of its section.
fn spoken(
    model: Arc<dyn Model>,
    section: &ModelSection,
    among: Choices<'_>,
) -> Result<Arc<dyn Model>, Fault> {
    let Some(dialect) = &section.dialect else { return Ok(model) };
    Ok(Arc::new(Spoken::new(model, dialect.parse::<Dialect>()?).max_calls(among.max_calls)))
}
