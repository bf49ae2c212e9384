//! OAuth client: signs in to servers, stores and refreshes tokens.

mod credentials;
mod redirect;
mod sign_in;
#[cfg(test)]
mod tests;

use std::time::{SystemTime, UNIX_EPOCH};

use reqwest::Url;
use rmcp::transport::{
    AuthorizationManager,
    auth::{AuthError, CredentialStore, InMemoryCredentialStore, OAuthClientConfig},
};

use self::credentials::{CredentialFile, Page, Tokens};
pub use self::{credentials::Logins, redirect::Redirect, sign_in::Signing};
use super::Server;
use crate::config::OauthSection;

/// haft renews a token that expires within this many seconds before it uses it.
const SOON: u64 = 30;

/// The login at one server.
pub(super) struct Login {
    name: String,
    url: Url,
    section: OauthSection,
    secret: Option<String>,
    page: Page,
}

impl Login {
    pub(super) fn of(logins: &Logins, server: &Server, url: &Url, variables: &[(String, String)]) -> Self {
        let section = server.section.oauth.clone();
        let value =
            |wanted: &String| variables.iter().find(|(name, _)| name == wanted).map(|(_, it)| it.clone());
        let secret = section.client_secret_env.as_ref().and_then(value);
        Self {
            name: server.name.clone(),
            url: url.clone(),
            section,
            secret,
            page: logins.page(&server.name, url),
        }
    }

    /// Returns the stored token for the next request; none, where haft is not signed in.
    ///
    /// # Errors
    /// When the token has to be renewed and that fails for now.
    pub(super) async fn token(&self) -> Result<Option<String>, AuthError> {
        let Some(tokens) = self.page.read().map_err(|error| lost(&error))?.tokens else { return Ok(None) };
        let Some(access) = tokens.access() else { return Ok(None) };
        if tokens.ends().is_none_or(|end| end > now() + SOON) {
            return Ok(Some(access));
        }
        self.renewed(&access).await
    }

    /// Returns another token after the server refused `used`; none, where a person has to sign in again.
    ///
    /// # Errors
    /// When the renewal fails for now, such as when haft can't reach the authorization server.
    pub(super) async fn renewed(&self, used: &str) -> Result<Option<String>, AuthError> {
        // A renewal invalidates the old refresh token, so one process renews for all.
        let _alone = self.page.lock().await.map_err(|error| lost(&error))?;
        let mut kept = self.page.read().map_err(|error| lost(&error))?;
        let Some(tokens) = kept.tokens.take() else { return Ok(None) };
        let Some(access) = tokens.access() else { return Ok(None) };
        if access != used {
            return Ok(Some(access));
        }
        if !tokens.can_renew() {
            return Ok(None);
        }
        match self.renew(tokens).await {
            Ok(tokens) => {
                let access = tokens.access();
                self.page
                    .write(&CredentialFile { tokens: Some(tokens), ..kept })
                    .map_err(|error| lost(&error))?;
                Ok(access)
            }
            Err(AuthError::TokenRefreshRejected(_) | AuthError::AuthorizationRequired) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn renew(&self, tokens: Tokens) -> Result<Tokens, AuthError> {
        let mut manager = manager(&self.url).await?;
        let found = manager.resolve_metadata().await?.metadata;
        // haft never sends credentials of one authorization server to another.
        if found.issuer != tokens.issuer {
            tracing::warn!(
                server = self.name,
                issuer = found.issuer,
                "another authorization server than before"
            );
            return Err(AuthError::AuthorizationRequired);
        }
        let mut config = OAuthClientConfig::new(&tokens.client, &tokens.redirect);
        if let Some(secret) = tokens.secret.as_ref().or(self.secret.as_ref()) {
            config = config.with_client_secret(secret);
        }
        manager.set_metadata(found);
        manager.configure_client(config)?;
        let store = InMemoryCredentialStore::new();
        store.save(tokens.credentials.clone()).await?;
        manager.set_credential_store(store.clone());
        manager.refresh_token().await?;
        let credentials = store.load().await?.ok_or(AuthError::AuthorizationRequired)?;
        Ok(Tokens { credentials, ..tokens })
    }

    /// Stores the server's challenge for the next sign-in.
    pub(super) async fn challenged(&self, challenge: &str) {
        let noted = async {
            let _alone = self.page.lock().await?;
            let kept = self.page.read()?;
            if kept.challenge.as_deref() == Some(challenge) {
                return Ok(());
            }
            self.page.write(&CredentialFile { challenge: Some(challenge.to_owned()), ..kept })
        };
        if let Err(error) = noted.await {
            tracing::warn!(server = self.name, %error, "what the server wants could not be kept");
        }
    }
}

/// Returns the manager that discovers the authorization server of this address.
async fn manager(url: &Url) -> Result<AuthorizationManager, AuthError> {
    // The manager creates its own HTTP client.
    kit::net::choose_tls();
    // As for the server itself: a private network only if the person named the port.
    match url.port().is_some() {
        true => AuthorizationManager::new_allowing_private_addresses(url.as_str()).await,
        false => AuthorizationManager::new(url.as_str()).await,
    }
}

fn lost(error: &std::io::Error) -> AuthError {
    AuthError::CredentialStoreError(error.to_string())
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
