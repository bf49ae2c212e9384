//! The base of every HTTP client of haft: one TLS provider, no proxies from the environment.

use std::sync::Once;

use reqwest::{Client, ClientBuilder};

/// Returns a client to be configured.
pub fn client() -> ClientBuilder {
    choose_tls();
    Client::builder()
}

/// Chooses `ring` for TLS in this process, unless the embedding program chose another provider. Libraries
/// that make their own client need this called first.
pub fn choose_tls() {
    static CHOSEN: Once = Once::new();
    // An error means that a provider was chosen before.
    CHOSEN.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
}
