//! Model listing: requests the models that a provider or the server of a section `[models.NAME]` serves, and
//! tests keys.

use std::time::Duration;

use kit::{Fault, Kind, nearest::nearest};
use runtime::config::ModelSection;
use serde::Serialize;
use serde_json::Value;

use super::{
    Breach, ModelError, Price,
    choose::{provided, wire},
    endpoint::{Endpoint, Secret},
    http::{get, is_loopback},
    keys::{of_section, origin},
    known,
    provider::{PROVIDERS, Provider, Variables, Wire, shown},
    resolve::{self, Choices, KeyFrom, Reached, check, headers, keyless},
};

/// The version header for Anthropic's list.
const ANTHROPIC: (&str, &str) = ("anthropic-version", "2023-06-01");

/// A server of models: a provider, or the server of a section of haft.toml.
#[derive(Debug, Clone)]
pub struct Source {
    name: String,
    provider: Option<&'static Provider>,
    /// The name of its key, for a section with its own address.
    section: Option<String>,
    wire: Wire,
    endpoint: Endpoint,
    own: bool,
    key: Option<KeyFrom>,
}

/// A model that a source serves.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Offered {
    /// The value for `--model`; for a section, the value for its `model`.
    pub name: String,
    /// Context window in tokens: as the source reports it, else as in haft's list.
    pub window: Option<u64>,
    /// Maximum number of tokens of an answer.
    pub longest: Option<u64>,
    /// Whether it accepts pictures.
    pub images: Option<bool>,
    /// Prices in dollars for a million tokens.
    pub price: Option<Price>,
}

/// Returns every provider, in the order in which haft suggests them, and every section with its own address.
pub fn sources(among: Choices<'_>) -> Vec<Source> {
    let providers =
        PROVIDERS.iter().filter_map(|it| Source::of_provider(it.name, it, None, None, among).ok());
    let sections = among.models.iter().filter(|(_, section)| section.url.is_some());
    let sections = sections.filter_map(|(name, section)| Source::of_section(name, section, among).ok());
    providers.chain(sections).collect()
}

/// Returns the provider, or the section of haft.toml, of this name. `models.NAME` means the section where
/// both have it.
///
/// # Errors
/// When there is none, or the section is invalid.
pub fn source(name: &str, among: Choices<'_>) -> Result<Source, Fault> {
    if let Some(provider) = Provider::named(name) {
        return Source::of_provider(name, provider, None, None, among);
    }
    let short = name.strip_prefix("models.").unwrap_or(name);
    if let Some(section) = among.models.get(short) {
        return Source::of_section(short, section, among)
            .map_err(|fault| Fault { what: format!("`[models.{short}]`: {}", fault.what), ..fault });
    }
    let names = PROVIDERS.iter().map(|it| it.name).chain(among.models.keys().map(String::as_str));
    let near = nearest(name, names.clone()).map_or(String::new(), |it| format!("; did you mean `{it}`?"));
    Err(Fault::bad_args(format!("unknown provider `{name}`{near}"))
        .next(format!("The providers are {}.", names.collect::<Vec<_>>().join(", "))))
}

/// Like [`source`], before its key is entered: the variable that `key_env` names may be unset.
///
/// # Errors
/// As [`source`].
pub fn source_to_log_in(name: &str, among: Choices<'_>) -> Result<Source, Fault> {
    let short = name.strip_prefix("models.").unwrap_or(name);
    let unset = |section: &&ModelSection| {
        section.key_env.as_deref().is_some_and(|it| Variables(among.variables).get(it).is_none())
    };
    match among.models.get(short).filter(unset) {
        Some(section) if Provider::named(name).is_none() => {
            Source::of_section(short, &ModelSection { key_env: None, ..section.clone() }, among)
        }
        _ => source(name, among),
    }
}

impl Source {
    fn of_provider(
        name: &str,
        provider: &'static Provider,
        wire: Option<Wire>,
        variable: Option<&str>,
        among: Choices<'_>,
    ) -> Result<Self, Fault> {
        let own = provider.address(Variables(among.variables)).1;
        let wire = wire.unwrap_or(provider.wire("", own));
        let Reached { endpoint, own, key } = resolve::provider(provider, wire, variable, among)?;
        Ok(Self { name: name.to_owned(), provider: Some(provider), section: None, wire, endpoint, own, key })
    }

    fn of_section(name: &str, section: &ModelSection, among: Choices<'_>) -> Result<Self, Fault> {
        let api = section.api.as_deref().map(wire).transpose()?;
        let (model, variable) = (section.model.as_deref().unwrap_or_default(), section.key_env.as_deref());
        let mut source = match (&section.url, provided(model), api.and_then(Provider::of)) {
            (Some(url), ..) => {
                let wire = api.unwrap_or(Wire::Chat);
                let Reached { endpoint, own, key } = resolve::section(name, url, wire, variable, among)?;
                let section = Some(of_section(name));
                Self { name: name.to_owned(), provider: None, section, wire, endpoint, own, key }
            }
            (None, Some((provider, _)), None) | (None, _, Some(provider)) => {
                Self::of_provider(name, provider, api, variable, among)?
            }
            (None, None, None) => {
                return Err(Fault::bad_args("it does not name a server").next("Add `url = \"…\"` there."));
            }
        };
        source.endpoint.headers = headers(section)?;
        Ok(source)
    }

    /// Returns the name of the provider or the section.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the variables that usually hold its key.
    pub fn variables(&self) -> &'static [&'static str] {
        self.provider.map_or(&[], |it| it.keys)
    }

    /// Returns the page on which a person creates a key, where haft knows it.
    pub fn key_page(&self) -> Option<&'static str> {
        self.provider.map(|it| it.key_page).filter(|it| !it.is_empty())
    }

    /// Returns the source of its key, if there is one.
    pub fn key(&self) -> Option<&KeyFrom> {
        self.key.as_ref()
    }

    /// Returns whether it works without a key: a local server, or one at an address that a person chose.
    pub fn is_open(&self) -> bool {
        !self.own || self.provider.is_none_or(Provider::is_open)
    }

    /// Returns whether it is on this machine.
    pub fn is_local(&self) -> bool {
        reqwest::Url::parse(&self.endpoint.url).is_ok_and(|it| is_loopback(&it))
    }

    /// Returns its scheme, host and port.
    pub fn origin(&self) -> Option<String> {
        origin(&self.endpoint.url)
    }

    /// Returns the name under which `haft login` stores its key.
    pub fn login(&self) -> &str {
        match (&self.section, self.provider) {
            (Some(section), _) => section,
            (None, Some(provider)) => provider.name,
            (None, None) => &self.name,
        }
    }

    /// Sets the key that was entered with `haft login`.
    #[must_use]
    pub fn with_key(mut self, key: &str) -> Self {
        self.key = Some(KeyFrom::Login(self.login().to_owned()));
        self.endpoint.key = Some(shown(self.wire, "", Secret::new(key).reveal()));
        self
    }

    /// Checks that a key may be sent to the address.
    ///
    /// # Errors
    /// When it is not a URL, or plain http to another machine.
    pub fn check(&self) -> Result<(), Fault> {
        check(&self.endpoint)
    }

    /// Requests the list of models.
    ///
    /// # Errors
    /// When it needs a key and has none, does not answer in time, or rejects the key.
    pub async fn models(&self, within: Duration) -> Result<Vec<Offered>, Fault> {
        if let (None, Some(provider), false) = (&self.key, self.provider, self.is_open()) {
            return Err(keyless(provider));
        }
        check(&self.endpoint)?;
        if let (Some(path), Some(_)) = (self.provider.and_then(Provider::key_test), &self.key) {
            self.get(path, within).await?;
        }
        let path = if self.wire == Wire::Anthropic { "models?limit=1000" } else { "models" };
        let list = self.get(path, within).await?;
        // Ollama sends `null` where it has no model yet.
        let data = list.get("data").ok_or_else(|| self.fault_of(&no_list()))?;
        let mut offered: Vec<Offered> =
            data.as_array().into_iter().flatten().filter_map(|it| self.offered(it)).collect();
        offered.sort_by(|one, other| one.name.cmp(&other.name));
        offered.dedup_by(|one, other| one.name == other.name);
        Ok(offered)
    }

    async fn get(&self, path: &str, within: Duration) -> Result<Value, Fault> {
        let got = async {
            let mut headers = self.endpoint.authorized()?;
            if self.wire == Wire::Anthropic {
                headers.entry(ANTHROPIC.0).or_insert(reqwest::header::HeaderValue::from_static(ANTHROPIC.1));
            }
            get(&self.endpoint.at(path), headers, &self.endpoint.secrets(), within).await
        };
        got.await.map_err(|error: ModelError| self.fault_of(&error))
    }

    /// Returns the fault for an error, with the next step for this source.
    fn fault_of(&self, error: &ModelError) -> Fault {
        let kind = if error.breach == Breach::Auth { Kind::Denied } else { Kind::Unavailable };
        let fault = Fault::new(kind, error.what.clone());
        let next = match (error.breach, &self.key) {
            (Breach::Auth, Some(KeyFrom::Variable(name))) => Some(format!("Check the key in {name}.")),
            (Breach::Auth, Some(KeyFrom::Login(name))) => {
                let page = self.key_page().map_or(String::new(), |it| format!(" Keys are made at {it}."));
                Some(format!("Run `haft login {name}` with a valid key.{page}"))
            }
            (Breach::Auth, None) => Some(format!("It needs a key: run `haft login {}`.", self.login())),
            _ => error.next.clone(),
        };
        match next {
            Some(next) => fault.next(next),
            None => fault,
        }
    }

    fn offered(&self, entry: &Value) -> Option<Offered> {
        let id = entry.get("id")?.as_str()?;
        // Gemini writes `models/gemini-…`.
        let id = id.strip_prefix("models/").unwrap_or(id);
        let number =
            |keys: &[&str]| keys.iter().find_map(|key| entry.get(*key)?.as_u64()).filter(|it| *it > 0);
        let known = known::listed(id);
        let name = match self.provider {
            Some(provider) => format!("{}:{id}", provider.name),
            None => id.to_owned(),
        };
        let window = number(&[
            "context_length",
            "context_window",
            "max_context_length",
            "max_model_len",
            "max_input_tokens",
        ]);
        Some(Offered {
            name,
            window: window.or(known.map(|it| it.window)),
            longest: number(&["max_completion_tokens", "max_output_tokens"]).or(known.map(|it| it.longest)),
            images: known.map(|it| it.images),
            price: known.and_then(|it| it.price).filter(|_| self.own && !self.is_open()),
        })
    }
}

fn no_list() -> ModelError {
    ModelError::new(Breach::Malformed, "the server answered something other than a list of models")
        .next("Check that the address is that of a provider, up to and with its version, such as `/v1`.")
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::model::{
        Keys,
        loopback::{Loopback, Reply},
    };

    const WITHIN: Duration = Duration::from_secs(20);

    type Sections = BTreeMap<String, ModelSection>;

    fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn found(name: &str, variables: &[(&str, &str)], models: &Sections, keys: &Keys) -> Source {
        source(name, Choices { models, variables: &owned(variables), keys, max_calls: None }).unwrap()
    }

    fn names(offered: &[Offered]) -> Vec<&str> {
        offered.iter().map(|it| it.name.as_str()).collect()
    }

    #[tokio::test]
    async fn models_are_listed_with_the_providers_key_and_known_limits() {
        let list = json!({ "data": [
            { "id": "claude-sonnet-5-5", "type": "model" },
            { "id": "claude-new-9", "max_input_tokens": 300_000 },
        ], "has_more": false });
        let loopback = Loopback::serve([Reply::json(200, &list)]).await;
        let variables = [("ANTHROPIC_BASE_URL", loopback.url.as_str()), ("ANTHROPIC_API_KEY", "sk-ant-1")];
        let source = found("anthropic", &variables, &Sections::new(), Keys::NONE);
        assert_eq!(source.key(), Some(&KeyFrom::Variable("ANTHROPIC_API_KEY".to_owned())));
        let offered = source.models(WITHIN).await.unwrap();
        assert_eq!(names(&offered), ["anthropic:claude-new-9", "anthropic:claude-sonnet-5-5"]);
        assert_eq!((offered[0].window, offered[1].window), (Some(300_000), Some(1_000_000)));
        let asked = loopback.asked().remove(0);
        assert_eq!(asked.line, "GET /v1/models?limit=1000");
        assert_eq!(asked.header("x-api-key"), Some("sk-ant-1"));
        assert_eq!(asked.header("anthropic-version"), Some("2023-06-01"));
    }

    #[tokio::test]
    async fn login_key_is_sent_only_to_its_own_origin() {
        let list = json!({ "object": "list", "data": [{ "id": "models/gemini-3.8-flash" }] });
        let loopback = Loopback::serve([Reply::json(200, &list), Reply::json(200, &list)]).await;
        let section = ModelSection { url: Some(loopback.url.clone()), ..ModelSection::default() };
        let models = Sections::from([("mine".to_owned(), section)]);
        let mut keys = Keys::default();
        keys.insert("models.mine", origin(&loopback.url).unwrap(), "sk-mine-1");
        let mine = found("mine", &[], &models, &keys);
        assert_eq!(mine.key(), Some(&KeyFrom::Login("models.mine".to_owned())));
        assert_eq!(names(&mine.models(WITHIN).await.unwrap()), ["gemini-3.8-flash"]);
        keys.insert("models.mine", "https://elsewhere.example", "sk-mine-1");
        let other = found("models.mine", &[], &models, &keys);
        assert_eq!(other.key(), None);
        other.models(WITHIN).await.unwrap();
        let asked = loopback.asked();
        assert_eq!(asked[0].header("authorization"), Some("Bearer sk-mine-1"));
        assert_eq!(asked[1].header("authorization"), None);
    }

    #[tokio::test]
    async fn a_rejected_key_is_reported_with_where_it_came_from_and_never_shown() {
        let no = json!({ "error": { "message": "bad key sk-oai-wrong" } });
        let replies = [Reply::json(401, &no), Reply::json(401, &no), Reply::json(401, &no)];
        let loopback = Loopback::serve(replies).await;
        let at = ("OPENAI_BASE_URL", loopback.url.as_str());
        let with = |variables: &[(&str, &str)]| found("openai", variables, &Sections::new(), Keys::NONE);
        for (source, next) in [
            (with(&[at, ("OPENAI_API_KEY", "sk-oai-wrong")]), "Check the key in OPENAI_API_KEY."),
            (with(&[at]).with_key("sk-oai-wrong"), "Run `haft login openai` with a valid key."),
            (with(&[at]), "It needs a key: run `haft login openai`."),
        ] {
            let fault = source.models(WITHIN).await.unwrap_err();
            assert!(fault.next.as_deref().unwrap().contains(next), "{fault:?}");
            assert!(fault.what.contains("401"), "{fault:?}");
            assert!(source.key().is_none() || !format!("{fault:?}").contains("sk-oai"), "{fault:?}");
        }
    }

    #[tokio::test]
    async fn unreachable_server_and_other_server_are_one_line_errors() {
        let local = |url: &str| found("ollama", &[("OLLAMA_HOST", url)], &Sections::new(), Keys::NONE);
        let fault = local(&Loopback::nobody().await).models(WITHIN).await.unwrap_err();
        assert!(fault.what.starts_with("nothing listens at http://127.0.0.1:"), "{fault:?}");
        let loopback = Loopback::serve([
            Reply::new(200, "text/html", "<html>"),
            Reply::json(200, &json!({})),
            Reply::json(200, &json!({ "data": null })),
        ])
        .await;
        for _ in 0..2 {
            let fault = local(&loopback.url).models(WITHIN).await.unwrap_err();
            assert!(fault.what.contains("something other than"), "{fault:?}");
        }
        assert_eq!(local(&loopback.url).models(WITHIN).await.unwrap(), []);
        let silent = Loopback::serve([Reply::json(200, &json!({})).never_ending()]).await;
        let fault = local(&silent.url).models(Duration::from_millis(200)).await.unwrap_err();
        assert!(fault.what.starts_with("no answer from"), "{fault:?}");
    }

    #[test]
    fn missing_keys_and_unknown_providers_are_reported() {
        let choices = Choices { models: &Sections::new(), variables: &[], keys: Keys::NONE, max_calls: None };
        let all = sources(choices);
        assert_eq!(all.len(), PROVIDERS.len());
        assert!(all.iter().all(|it| it.key().is_none()));
        let open: Vec<&str> = all.iter().filter(|it| it.is_open()).map(Source::name).collect();
        assert_eq!(open, ["ollama"]);
        let fault = source("antropic", choices).unwrap_err();
        assert!(fault.what.contains("did you mean `anthropic`?"), "{fault:?}");
    }
}
