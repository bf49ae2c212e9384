//! What every HTTP client of haft begins with.

use std::sync::Once;

use reqwest::{Client, ClientBuilder};

/// A client to be configured.
pub fn client() -> ClientBuilder {
    choose_tls();
    Client::builder()
}

/// Chooses `ring` for TLS in this process, unless the program that embeds haft chose another provider before. Libraries
/// that make a client of their own need it done before.
pub fn choose_tls() {
    static CHOSEN: Once = Once::new();
    // An error means that a provider was chosen.
    CHOSEN.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
}
