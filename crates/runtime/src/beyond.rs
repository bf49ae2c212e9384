//! What do tools have that reach beyond the workspace?

use std::{collections::BTreeMap, sync::Arc};

use kit::{
    Fault, Preferences,
    net::{Line, System, Url},
};

use crate::vault::{SecretSection, Vault};

/// What tools have that reach beyond the workspace.
pub struct Beyond {
    /// How the network is reached.
    pub line: Arc<Line>,
    /// The secrets that have names.
    pub vault: Vault,
    /// What a person decided about such tools.
    pub preferences: Preferences,
}

impl Default for Beyond {
    fn default() -> Self {
        Self {
            line: Arc::new(Line::new(Arc::new(System), None)),
            vault: Vault::default(),
            preferences: Preferences::default(),
        }
    }
}

impl Beyond {
    /// What these sections say: a proxy, secrets, and the rest.
    ///
    /// # Errors
    /// When the proxy is no address.
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
        Ok(Self {
            line: Arc::new(Line::new(Arc::new(System), proxy.transpose()?)),
            vault: Vault::open(secrets, variable),
            preferences,
        })
    }
}
