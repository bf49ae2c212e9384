//! Sign-in to a server with OAuth: a person authorizes haft.

use std::time::Duration;

use kit::{Fault, Kind, escape::visible};
use reqwest::{StatusCode, Url, redirect::Policy};
use rmcp::transport::{
    AuthorizationManager,
    auth::{
        AuthError, AuthorizationCallback, AuthorizationMetadata, CredentialStore, InMemoryCredentialStore,
        OAuthClientConfig, WWWAuthenticateParams,
    },
};
use serde_json::{Value, json};

use super::{
    Login, Logins, Server,
    credentials::{CredentialFile, Tokens},
    manager,
};
use crate::mcp_client::{
    http::{address, causes, is_loopback},
    variables::expanded,
};

/// haft's client name.
const NAME: &str = "haft";
/// Time limit for the server's challenge.
const PROBE: Duration = Duration::from_secs(15);

/// A sign-in that waits for the person: they open the address, and the authorization server redirects them.
pub struct Signing {
    login: Login,
    manager: AuthorizationManager,
    store: InMemoryCredentialStore,
    issuer: Option<String>,
    client: OAuthClientConfig,
    scopes: Vec<String>,
    address: Url,
    state: String,
}

impl Logins {
    /// Asks the server for its authorization server, and prepares the address that a person opens. `redirect`
    /// is the redirect address.
    ///
    /// # Errors
    /// When the server declares no authorization server, or haft can't trust what it declares.
    pub async fn begin(
        &self,
        server: &Server,
        variables: &[(String, String)],
        redirect: &str,
    ) -> Result<Signing, Fault> {
        let login = self.login(server, variables)?;
        let kept = login.page.read().map_err(|error| not_saved(&error))?;
        let (challenge, status) = match &kept.challenge {
            Some(challenge) => (Some(challenge.clone()), None),
            None => challenge(&login.url).await,
        };
        let failed = |error: AuthError| login.failed(&error);
        let mut manager = manager(&login.url).await.map_err(failed)?;
        let found = manager.resolve_metadata_from_challenge(challenge.as_deref()).await.map_err(failed)?;
        if !found.source.is_discovered() && challenge.is_none() {
            return Err(no_login(&login.name, status));
        }
        login.check(&found.metadata, kept.tokens.as_ref())?;
        let metadata = found.metadata;
        manager.set_metadata(metadata.clone());
        let scopes = login.scopes(&manager, &metadata, challenge.as_deref(), kept.tokens.as_ref()).await;
        let client = login.introduced(&mut manager, &metadata, &scopes, redirect).await?;
        let store = InMemoryCredentialStore::new();
        manager.set_credential_store(store.clone());
        let wanted: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let address = manager.get_authorization_url(&wanted).await.map_err(failed)?;
        let address = Url::parse(&address).map_err(|error| login.failed(&error.into()))?;
        let state = address.query_pairs().find(|(name, _)| name == "state").map(|(_, it)| it.into_owned());
        let Some(state) = state else { return Err(Fault::bug("an address without a state")) };
        Ok(Signing { login, manager, store, issuer: metadata.issuer, client, scopes, address, state })
    }

    /// Removes the credentials for a server; returns false if there were none.
    ///
    /// # Errors
    /// When they can't be removed.
    pub fn forget(&self, server: &Server, variables: &[(String, String)]) -> Result<bool, Fault> {
        self.login(server, variables)?.page.forget().map_err(|error| not_saved(&error))
    }

    /// Returns whether there is a token for a server.
    pub fn holds(&self, server: &Server, variables: &[(String, String)]) -> bool {
        let kept = self.login(server, variables).ok().and_then(|login| login.page.read().ok());
        kept.is_some_and(|kept| kept.tokens.is_some())
    }

    fn login(&self, server: &Server, variables: &[(String, String)]) -> Result<Login, Fault> {
        let Some(url) = &server.section.url else {
            let what = format!(
                "the server `{}` is a program on this machine, to which nobody signs in",
                server.name
            );
            return Err(Fault::bad_args(what));
        };
        let url = expanded(url, variables).map_err(|why| Fault::new(Kind::Unavailable, why))?;
        let url = address(&server.name, &url)?;
        Ok(Login::of(self, server, &url, variables))
    }
}

impl Signing {
    /// Returns the address that the person has to open; always `http` or `https`.
    pub fn address(&self) -> &str {
        self.address.as_str()
    }

    /// Returns the origin of the authorization server.
    pub fn asks(&self) -> String {
        self.address.origin().ascii_serialization()
    }

    /// Returns the requested scopes.
    pub fn scopes(&self) -> &[String] {
        &self.scopes
    }

    /// Returns the `state` that the answer to this sign-in carries.
    pub(super) fn state(&self) -> &str {
        &self.state
    }

    /// Takes the whole redirect address, exchanges its code for tokens and stores them.
    ///
    /// # Errors
    /// When the address belongs to another sign-in, reports a refusal, names another issuer, or the exchange
    /// fails.
    pub async fn finish(self, redirected: &str) -> Result<(), Fault> {
        let wrong = |why: String| Fault::denied(format!("not signed in to `{}`: {why}", self.login.name));
        let url = Url::parse(redirected).map_err(|_| wrong("the answer is not an address".to_owned()))?;
        let field =
            |wanted: &str| url.query_pairs().find(|(name, _)| name == wanted).map(|(_, it)| it.into_owned());
        if field("state").as_deref() != Some(&self.state) {
            return Err(wrong(
                "the answer belongs to another login (its `state` is not the one haft gave)".to_owned(),
            ));
        }
        if let Some(error) = field("error") {
            let more = field("error_description").map(|it| format!(", {it}")).unwrap_or_default();
            let said: String = format!("{error}{more}").chars().take(300).collect();
            return Err(wrong(format!("{} says {}", self.asks(), visible(&said).0)));
        }
        let failed = |error: AuthError| wrong(causes(&error));
        let callback = AuthorizationCallback::from_redirect_url(redirected).map_err(failed)?;
        let AuthorizationCallback { code, csrf_token, issuer, .. } = callback;
        let exchanged =
            self.manager.exchange_code_for_token_with_issuer(&code, &csrf_token, issuer.as_deref());
        exchanged.await.map_err(failed)?;
        let Some(credentials) = self.store.load().await.map_err(failed)? else {
            return Err(Fault::bug("a token that is nowhere"));
        };
        let tokens = Tokens {
            issuer: self.issuer.clone(),
            client: self.client.client_id.clone(),
            // A secret that the person configured stays in their configuration.
            secret: self.client.client_secret.clone().filter(|_| self.login.section.client_id.is_none()),
            redirect: self.client.redirect_uri.clone(),
            credentials,
        };
        let kept = CredentialFile { url: self.login.url.to_string(), tokens: Some(tokens), challenge: None };
        let _alone = self.login.page.lock().await.map_err(|error| not_saved(&error))?;
        self.login.page.write(&kept).map_err(|error| not_saved(&error))
    }
}

impl Login {
    /// Checks that haft may send a person and a secret to these endpoints.
    fn check(&self, metadata: &AuthorizationMetadata, before: Option<&Tokens>) -> Result<(), Fault> {
        let places = [Some(&metadata.authorization_endpoint), Some(&metadata.token_endpoint)];
        for place in places.into_iter().chain([metadata.registration_endpoint.as_ref()]).flatten() {
            let good = Url::parse(place)
                .is_ok_and(|it| it.scheme() == "https" || (it.scheme() == "http" && is_loopback(&it)));
            if !good {
                let what =
                    format!("the server `{}` names {}, which is not encrypted", self.name, visible(place).0);
                return Err(Fault::denied(what));
            }
        }
        // haft does not show a configured secret to an authorization server other than the one it is for.
        let moved = before.filter(|it| it.issuer.is_some() && it.issuer != metadata.issuer);
        if let (Some(before), Some(_)) = (moved, &self.section.client_id) {
            let issuer =
                |it: &Option<String>| visible(it.as_deref().unwrap_or("nobody known")).0.into_owned();
            let what = format!(
                "`{}` now has {} decide about it; until now that was {}, for which `client_id` is",
                self.name,
                issuer(&metadata.issuer),
                issuer(&before.issuer)
            );
            return Err(Fault::denied(what)
                .next(format!("If that is right: `haft mcp logout {}`, and again.", self.name)));
        }
        Ok(())
    }

    /// Returns the scopes to request: the configured ones, the granted ones and those of the challenge;
    /// without configured or granted ones, those that the server declares.
    async fn scopes(
        &self,
        manager: &AuthorizationManager,
        metadata: &AuthorizationMetadata,
        challenge: Option<&str>,
        before: Option<&Tokens>,
    ) -> Vec<String> {
        let before = before.filter(|it| it.issuer == metadata.issuer);
        let wanted =
            challenge.and_then(|it| WWWAuthenticateParams::parse(it, &self.url).scope).unwrap_or_default();
        let granted = before.map(|it| it.credentials.granted_scopes.clone()).unwrap_or_default();
        let own = &self.section.scopes;
        if own.is_empty() && granted.is_empty() {
            return manager.select_initial_scopes(&[]).await;
        }
        let mut scopes: Vec<String> = Vec::new();
        for scope in own.iter().chain(&granted).map(String::as_str).chain(wanted.split_whitespace()) {
            if !scopes.iter().any(|it| it == scope) {
                scopes.push(scope.to_owned());
            }
        }
        // With this scope the server gives a refresh token.
        let offline = "offline_access".to_owned();
        let offered = metadata.scopes_supported.as_ref().is_some_and(|it| it.contains(&offline));
        if offered && !scopes.contains(&offline) {
            scopes.push(offline);
        }
        scopes
    }

    /// Determines haft's client id: the configured one, a client metadata document, or a new registration.
    async fn introduced(
        &self,
        manager: &mut AuthorizationManager,
        metadata: &AuthorizationMetadata,
        scopes: &[String],
        redirect: &str,
    ) -> Result<OAuthClientConfig, Fault> {
        let more = |name: &str| metadata.additional_fields.get(name);
        let takes_documents =
            more("client_id_metadata_document_supported").and_then(Value::as_bool) == Some(true);
        let document = self.section.client_metadata_url.as_ref().filter(|_| takes_documents);
        let config = if let Some(id) = self.section.client_id.as_ref().or(document) {
            let config = OAuthClientConfig::new(id, redirect);
            match self.section.client_id.as_ref().and(self.secret.as_ref()) {
                Some(secret) => config.with_client_secret(secret),
                None => config,
            }
        } else if metadata.registration_endpoint.is_some() {
            let wanted: Vec<&str> = scopes.iter().map(String::as_str).collect();
            let mut config =
                manager.register_client(NAME, redirect, &wanted).await.map_err(|it| self.failed(&it))?;
            // Some servers give a secret to clients that must not use one.
            let methods = more("token_endpoint_auth_methods_supported").and_then(Value::as_array);
            let wants_none = methods.is_some_and(|it| !it.is_empty() && it.iter().all(|it| it == "none"));
            config.client_secret = config.client_secret.filter(|_| !wants_none);
            config
        } else {
            let what = format!("whoever decides about `{}` wants to know haft beforehand", self.name);
            let next = format!("Register it there, and write `client_id` into `[mcp.{}.oauth]`.", self.name);
            return Err(Fault::new(Kind::Unavailable, what).next(next));
        };
        manager.configure_client(config.clone()).map_err(|it| self.failed(&it))?;
        Ok(config)
    }

    fn failed(&self, error: &AuthError) -> Fault {
        Fault::new(Kind::Unavailable, format!("can't sign in to `{}`: {}", self.name, causes(error)))
    }
}

/// Returns the server's challenge to a request without a token.
async fn challenge(url: &Url) -> (Option<String>, Option<StatusCode>) {
    let Some(response) = probe(url).await else { return (None, None) };
    let status = response.status();
    let challenge = response.headers().get(http::header::WWW_AUTHENTICATE);
    let challenge = challenge.filter(|_| status == StatusCode::UNAUTHORIZED);
    (challenge.and_then(|it| it.to_str().ok()).map(str::to_owned), Some(status))
}

/// Returns the fault for a server without sign-in: it needs none, or declares no way.
fn no_login(name: &str, status: Option<StatusCode>) -> Fault {
    let says_nothing = "and says nothing of how to sign in";
    let what = match status {
        Some(status) if status.is_success() => {
            let what = format!("the server `{name}` answers without a login: there is nothing to do");
            return Fault::new(Kind::Unavailable, what);
        }
        Some(status) => format!("the server `{name}` answered {status}, {says_nothing}"),
        None => format!("the server `{name}` did not answer, {says_nothing}"),
    };
    Fault::new(Kind::Unavailable, what).next("Check its `url`; if it takes a token, `bearer_env` names it.")
}

async fn probe(url: &Url) -> Option<reqwest::Response> {
    let version = rmcp::model::ProtocolVersion::V_2026_07_28;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": version.as_str(),
        "io.modelcontextprotocol/clientInfo": { "name": NAME, "version": env!("CARGO_PKG_VERSION") },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let asked =
        json!({ "jsonrpc": "2.0", "id": 0, "method": "server/discover", "params": { "_meta": meta } });
    let client = kit::net::client().redirect(Policy::none()).timeout(PROBE).build().ok()?;
    let request = client.post(url.clone()).header("accept", "application/json, text/event-stream");
    let request =
        request.header("mcp-protocol-version", version.as_str()).header("mcp-method", "server/discover");
    request.json(&asked).send().await.ok()
}

fn not_saved(error: &std::io::Error) -> Fault {
    Fault::new(Kind::Unavailable, format!("what haft signs in with can't be kept: {error}"))
}
