//! A single GET request to a provider, without retries: for listing models and testing keys.

use std::time::Duration;

use reqwest::header::HeaderMap;
use serde_json::Value;
use tokio::time::timeout;

use super::{
    address, client,
    failure::{causes, refused, unsent},
    is_loopback, shown, silent,
};
use crate::model::{Breach, ModelError, endpoint::Secrets};

/// Maximum size of a response, in bytes. OpenRouter's list of models has about one million.
const LARGEST: usize = 32 << 20;

/// Returns the JSON at this URL, within this time.
///
/// # Errors
/// When there is no response, its status is bad, or it is not JSON. No error contains a secret.
pub(in crate::model) async fn get(
    url: &str,
    headers: HeaderMap,
    secrets: &Secrets,
    within: Duration,
) -> Result<Value, ModelError> {
    let got = async {
        let url = address(url)?;
        let request = client(is_loopback(&url))?.get(url.clone()).headers(headers);
        let answer = async {
            let mut response = request.send().await.map_err(|error| unsent(error, &url).error)?;
            if !response.status().is_success() {
                return Err(refused(response, secrets).await);
            }
            let mut body = Vec::new();
            while let Some(more) =
                response.chunk().await.map_err(|error| cut_short(&url, &causes(error).1))?
            {
                body.extend_from_slice(&more);
                if body.len() > LARGEST {
                    return Err(cut_short(&url, &format!("the answer has more than {LARGEST} bytes")));
                }
            }
            serde_json::from_slice(&body).map_err(|_| no_list(&url))
        };
        timeout(within, answer).await.unwrap_or_else(|_| Err(silent(&url, within)))
    };
    got.await.map_err(|error: ModelError| secrets.covered(error))
}

fn cut_short(url: &reqwest::Url, why: &str) -> ModelError {
    ModelError::new(Breach::Broken, format!("the answer from {} broke off: {why}", shown(url)))
}

fn no_list(url: &reqwest::Url) -> ModelError {
    ModelError::new(
        Breach::Malformed,
        format!("the server at {} answered something other than JSON", shown(url)),
    )
    .next("Check that the address is that of a provider, up to and with its version, such as `/v1`.")
}
