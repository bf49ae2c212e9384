//! Authentication: keys of model providers come from the environment or from `haft login`.

use agent::model::{Choices, Keys, sources, usual};
use kit::Fault;
use serve::acp::v1::{
    AuthMethod, AuthMethodAgent, AuthMethodTerminal, AuthenticateRequest, Error, ErrorCode,
};

use super::Backend;
use crate::agent_factory;

/// The method of keys that are there already.
const KEYS: &str = "api-key";

/// The id of a method of login at a terminal begins so; the provider follows.
const LOGIN: &str = "login-";

/// Returns the ways to give haft a key. Login at a terminal is offered only to a client that can run a program there.
pub(super) fn methods(terminal: bool) -> Vec<AuthMethod> {
    let providers = providers();
    let variables: Vec<&str> = providers.iter().map(|it| it.1).collect();
    let keys = AuthMethodAgent::new(KEYS, "API key from the environment or `haft login`").description(format!(
        "Set {} in the environment of haft, or run `haft login PROVIDER` at a terminal. `haft acp --model ollama:NAME` needs \
         no key.",
        variables.join(" or ")
    ));
    let mut methods = vec![AuthMethod::Agent(keys)];
    if terminal {
        methods.extend(providers.iter().map(|(name, _)| {
            let method = AuthMethodTerminal::new(format!("{LOGIN}{name}"), format!("haft login {name}"))
                .description(format!(
                    "Enter the API key of {name}; haft tests it and keeps it in a file of yours."
                ))
                .args(vec!["--login".to_owned(), (*name).to_owned()]);
            AuthMethod::Terminal(method)
        }));
    }
    methods
}

/// Returns the providers that want a key, each with the variable that usually holds it.
fn providers() -> Vec<(&'static str, &'static str)> {
    let none = Choices { models: &Default::default(), variables: &[], keys: Keys::NONE, max_calls: None };
    let all = sources(none);
    all.iter()
        .filter(|it| !it.is_open())
        .filter_map(|it| {
            let name = agent::model::models().find(|known| known.provider == it.name())?.provider;
            Some((name, it.variables().first().copied()?))
        })
        .collect()
}

impl Backend {
    /// Checks that there is a model that answers: one that was named, or a key.
    pub(super) fn authenticated(&self, request: &AuthenticateRequest) -> Result<(), Error> {
        let method = &*request.method_id.0;
        if method != KEYS && !method.starts_with(LOGIN) {
            let what = format!(
                "there is no authentication method `{method}`\nThe methods are in the answer to `initialize`."
            );
            return Err(Error::new(ErrorCode::InvalidParams.into(), what));
        }
        if self.agent.model.is_some() {
            return Ok(());
        }
        let (agents, _) = self.options.agents(&self.place).map_err(|fault| serve::acp::error_of(&fault))?;
        let is_named = agent_factory::configured(&agents, &self.place.variables).is_some();
        if is_named || usual(agents.choices(&self.place.variables)).is_some() {
            return Ok(());
        }
        Err(required("no provider has a key"))
    }
}

/// Returns the error of a model that can't be used because its key is missing.
pub(super) fn required(what: &str) -> Error {
    let providers = providers();
    let (name, variable) = providers.first().copied().unwrap_or(("PROVIDER", "its variable"));
    let what = format!(
        "{what}\nRun `haft login {name}` at a terminal, or set {variable} in the environment of haft; then try again. A local \
         model needs no key: `haft acp --model ollama:NAME`."
    );
    Error::new(ErrorCode::AuthRequired.into(), what)
}

/// Returns the error of an agent that could not be opened. If a key is missing, the client offers a way to give one.
pub(super) fn error(fault: &Fault) -> Error {
    let about_key = fault.what.contains("no provider has a key") || fault.what.contains("needs a key");
    if about_key { required(&fault.what) } else { serve::acp::error_of(fault) }
}
