//! Endpoint resolution: the address and the key for a provider or for a section `[models.NAME]`.
//!
//! A key goes only where it belongs: a provider's variable to that provider's address, a key of `haft login`
//! to the origin that it was entered for, and no key over plain http to another machine.

use std::{collections::BTreeMap, fmt};

use kit::{Fault, Kind};
use reqwest::{
    Url,
    header::{HeaderMap, HeaderName, HeaderValue},
};
use runtime::config::ModelSection;

use super::{
    endpoint::{Endpoint, Key},
    http::is_loopback,
    keys::{self, Keys},
    provider::{Provider, Variables, Wire, shown, versioned},
};

/// The inputs of model selection.
#[derive(Debug, Clone, Copy)]
pub struct Choices<'a> {
    /// The sections `[models.NAME]` of haft.toml.
    pub models: &'a BTreeMap<String, ModelSection>,
    /// The environment: keys, and the addresses that the usual variables name.
    pub variables: &'a [(String, String)],
    /// The keys that were entered with `haft login`.
    pub keys: &'a Keys,
    /// Maximum number of calls of one answer where the model writes them in a dialect; 0 means no limit, and
    /// `None` the default.
    pub max_calls: Option<usize>,
}

/// The source of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyFrom {
    /// An environment variable.
    Variable(String),
    /// `haft login` with this name.
    Login(String),
}

impl fmt::Display for KeyFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => f.write_str(name),
            Self::Login(name) => write!(f, "haft login {name}"),
        }
    }
}

/// An endpoint, and the source of its key.
#[derive(Debug)]
pub(super) struct Reached {
    pub(super) endpoint: Endpoint,
    /// Whether it is the provider's own address.
    pub(super) own: bool,
    /// The source of its key, if it has one.
    pub(super) key: Option<KeyFrom>,
}

/// Resolves a provider: its address, with the key of `variable` or else the usual one.
///
/// # Errors
/// When the key in `variable` is missing.
pub(super) fn provider(
    provider: &Provider,
    wire: Wire,
    variable: Option<&str>,
    among: Choices<'_>,
) -> Result<Reached, Fault> {
    let variables = Variables(among.variables);
    let (url, own) = provider.address(variables);
    let entered = || {
        let key = among.keys.get(provider.name, &url)?;
        Some((KeyFrom::Login(provider.name.to_owned()), provider.entered(key)))
    };
    let key = match variable {
        Some(variable) => Some(named_key(wire, variable, variables)?),
        None => provider
            .key(variables)
            .map(|(name, key)| (KeyFrom::Variable(name.to_owned()), key))
            .or_else(entered),
    };
    Ok(Reached::new(&url, own, key))
}

/// Resolves the `url` of a section: with the key of `variable`, else with the one of `haft login`, else
/// without any. The usual variables of providers are ignored: their keys are for the providers.
///
/// # Errors
/// When the section names an unset variable, and no key was entered.
pub(super) fn section(
    name: &str,
    url: &str,
    wire: Wire,
    variable: Option<&str>,
    among: Choices<'_>,
) -> Result<Reached, Fault> {
    let (url, variables) = (versioned(wire, url), Variables(among.variables));
    let name = keys::of_section(name);
    let entered = among.keys.get(&name, &url);
    let key = match variable {
        Some(variable) if variables.get(variable).is_some() || entered.is_none() => {
            Some(named_key(wire, variable, variables)?)
        }
        _ => entered.map(|key| (KeyFrom::Login(name), shown(wire, "", key.reveal()))),
    };
    Ok(Reached::new(&url, false, key))
}

impl Reached {
    fn new(url: &str, own: bool, key: Option<(KeyFrom, Key)>) -> Self {
        let (from, key) = key.unzip();
        Self { endpoint: Endpoint::new(url).with(key), own, key: from }
    }
}

/// Returns the headers that a section adds to each request.
///
/// # Errors
/// When a name or a value is invalid in a header.
pub(super) fn headers(section: &ModelSection) -> Result<HeaderMap, Fault> {
    let mut headers = HeaderMap::new();
    for (name, value) in &section.headers {
        let bad = || Fault::bad_args(format!("`{name}` of `headers` can't be sent as a header"));
        let value = HeaderValue::from_str(value).map_err(|_| bad())?;
        headers.insert(HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?, value);
    }
    Ok(headers)
}

/// Returns the fault of a provider without a key, with the ways to configure one.
pub(super) fn keyless(provider: &Provider) -> Fault {
    let (name, keys) = (provider.name, provider.keys);
    let variable = keys.first().copied().unwrap_or_default();
    Fault::new(Kind::Unavailable, format!("`{name}` needs a key, and {} is not set", keys.join(" or "))).next(format!(
        "Run `haft login {name}` or `export {variable}=…`. A local model such as `ollama:qwen3` needs no key."
    ))
}

fn named_key(wire: Wire, variable: &str, variables: Variables<'_>) -> Result<(KeyFrom, Key), Fault> {
    let key = variables.get(variable).ok_or_else(|| {
        Fault::new(Kind::Unavailable, format!("`key_env` names {variable}, which is not set"))
            .next(format!("`export {variable}=…`, or leave `key_env` out if no key is needed."))
    })?;
    Ok((KeyFrom::Variable(variable.to_owned()), shown(wire, variable, key)))
}

/// Refuses an address that is not a server's URL, and a key that would be sent unencrypted over the network.
/// No option overrides that.
///
/// # Errors
/// With what to do instead.
pub(super) fn check(endpoint: &Endpoint) -> Result<(), Fault> {
    let url = Url::parse(&endpoint.url).ok().filter(Url::has_host);
    let Some(url) = url.filter(|it| matches!(it.scheme(), "http" | "https")) else {
        let what = format!("`{}` is not an address of a model server", without_secret(&endpoint.url));
        return Err(
            Fault::bad_args(what).next("Give it up to and with the version: `http://127.0.0.1:8080/v1`.")
        );
    };
    let is_secret = endpoint.key.is_some() || !endpoint.headers.is_empty() || url.password().is_some();
    if is_secret && url.scheme() == "http" && !is_loopback(&url) {
        let (host, port) = (url.host_str().unwrap_or_default(), url.port_or_known_default().unwrap_or(80));
        let what =
            format!("the key would go to `{host}` over plain http, where anybody on the network can read it");
        return Err(Fault::new(Kind::Denied, what).next(format!(
            "Use `https`, or a tunnel: `ssh -N -L 8080:localhost:{port} {host}`, and `http://127.0.0.1:8080` as the address."
        )));
    }
    Ok(())
}

/// An invalid URL may still contain a password.
fn without_secret(url: &str) -> &str {
    url.rsplit('@').next().unwrap_or(url)
}
