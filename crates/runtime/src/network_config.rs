//! Network configuration of tools that reach beyond the workspace.

use std::{collections::BTreeMap, sync::Arc};

use kit::{
    Fault, Preferences,
    net::{Connector, System, Url},
};

use crate::{config::SecretSection, vault::Vault};

/// The network services of tools that reach beyond the workspace.
pub struct NetworkConfig {
    /// The connector.
    pub connector: Arc<Connector>,
    /// The named secrets.
    pub vault: Vault,
    /// A person's configuration of such tools.
    pub preferences: Preferences,
    /// The password of the proxy.
    proxy_password: Option<String>,
}

impl Default for NetworkConfig {
    fn default() -> Self {
        Self {
            connector: Arc::new(Connector::new(Arc::new(System), None)),
            vault: Vault::default(),
            preferences: Preferences::default(),
            proxy_password: None,
        }
    }
}

impl NetworkConfig {
    /// Resolves these sections: a proxy, secrets, and preferences.
    ///
    /// # Errors
    /// When the proxy is not a valid address.
    pub fn open(
        proxy: Option<&str>,
        secrets: BTreeMap<String, SecretSection>,
        preferences: Preferences,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, Fault> {
        let proxy = proxy.map(|it| {
            Url::parse(it).map_err(|error| {
                Fault::bad_args(format!("`{it}`, the `proxy` of `[net]`, is not an address: {error}"))
            })
        });
        let proxy = proxy.transpose()?;
        if let Some(scheme) = proxy.as_ref().map(Url::scheme).filter(|it| !matches!(*it, "http" | "https")) {
            let what = format!("the `proxy` of `[net]` is one for `{scheme}`, and that is not spoken here");
            return Err(Fault::bad_args(what).next("Name one by `http://HOST:PORT`."));
        }
        let proxy_password = proxy.as_ref().and_then(|it| it.password().map(str::to_owned));
        Ok(Self {
            connector: Arc::new(Connector::new(Arc::new(System), proxy)),
            proxy_password,
            vault: Vault::open(secrets, variable),
            preferences,
        })
    }

    /// Returns the values to redact, with their names.
    pub fn hidden(&self) -> Vec<(String, String)> {
        let proxy = self.proxy_password.iter().map(|it| ("proxy".to_owned(), it.clone()));
        self.vault.values().chain(proxy).collect()
    }
}
