//! `http_request`: sends one HTTP request, as given.

mod compose;
mod secrets;
mod show;

use std::{collections::BTreeMap, time::Duration};

use kit::{
    net::{Method, Url, host_of, only_looks, says_private},
    prelude::*,
};
use serde::Deserializer;
use serde_json::Value;

use super::address;

/// Default time limit, and that of a request with files.
const USUAL: Duration = Duration::from_secs(30);
const WITH_FILES: Duration = Duration::from_secs(600);
const LONGEST: Duration = Duration::from_secs(3600);

/// Time limit for silence of the server during a transfer.
const SILENCE: Duration = Duration::from_secs(30);

/// Send one HTTP request and show the answer: status, headers that matter, body. `{{secret:NAME}}` stands for a secret in `url`, `query`, `headers` and the body. [?To read a web page use `tool:web_fetch`.?]
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HttpRequest {
    /// Address; `https://` if no scheme is named.
    url: String,
    /// Default: GET, or POST with a body.
    #[serde(default)]
    method: Option<String>,
    /// Headers by name.
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// Added to the address, by name; a list repeats the name.
    #[serde(default)]
    query: BTreeMap<String, Value>,
    /// Text to send.
    #[serde(default)]
    body: Option<String>,
    /// JSON to send.
    #[serde(default)]
    json: Option<Value>,
    /// Form to send, urlencoded.
    #[serde(default)]
    form: Option<BTreeMap<String, Value>>,
    /// Form of several parts to send.
    #[serde(default)]
    multipart: Option<Vec<FormPart>>,
    /// File to send as it is.
    #[serde(default)]
    upload: Option<String>,
    /// File that gets the body of the answer, of any size; replaced if it exists.
    #[serde(default)]
    save_to: Option<String>,
    /// Default 30000; 600000 with `upload`, `multipart` or `save_to`.
    #[serde(default)]
    timeout_ms: Option<u64>,
    /// How many redirects to follow, 0 for none. Default 10.
    #[serde(default, deserialize_with = "count_or_none")]
    redirects: Option<usize>,
    /// Bytes of the body to show, up to 1 MiB. Default 20000.
    #[serde(default)]
    max_bytes: Option<usize>,
    /// Show every header.
    #[serde(default)]
    all_headers: bool,
}

/// One part of a form: `value`, or the file at `path`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
struct FormPart {
    /// Name of the field.
    name: String,
    /// Its text.
    #[serde(default)]
    value: Option<String>,
    /// Its file.
    #[serde(default)]
    path: Option<String>,
    /// Default: that of `path`.
    #[serde(default)]
    filename: Option<String>,
    /// Media type.
    #[serde(default)]
    content_type: Option<String>,
}

impl Tool for HttpRequest {
    const NAME: &'static str = "http_request";
    const AT_MOST: Kinds = Kinds::WRITE.with(Kinds::NET).with(Kinds::WEB);

    fn touches(&self) -> Touches {
        let reads = self.multipart.iter().flatten().filter_map(|it| it.path.as_ref()).chain(&self.upload);
        let touches = reads.fold(Touches::none(), |it, path| it.and(Touch::Read(path.clone())));
        let touches = self.save_to.iter().fold(touches, |it, path| it.and(Touch::Write(path.clone())));
        // An invalid address is refused by the call; it touches nothing.
        match self.place() {
            Ok((_, place)) if self.only_looks() => touches.and(Touch::Web(place)),
            Ok((_, place)) => touches.and(Touch::Net(place)),
            Err(_) => touches,
        }
    }

    fn address(&self) -> Address {
        // The model also composes headers and a separate query.
        match self.place() {
            Ok((url, _)) if self.headers.is_empty() && self.query.is_empty() => Address::Plain(url),
            _ => Address::Composed,
        }
    }

    fn time_limit(&self) -> Option<Duration> {
        Some(self.within())
    }

    fn title(&self) -> String {
        format!("{} {}", self.method_name(), self.url)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let work = async {
            let request = compose::request(&self, cx).await?;
            show::answer(&self, cx, request).await
        };
        tokio::select! {
            biased;
            () = cx.cancelled() => Err(Fault::new(Kind::Cancelled, "the request was stopped")),
            done = work => done,
        }
    }
}

impl HttpRequest {
    /// Returns the address as the model wrote it, and its host as a touch names it.
    fn place(&self) -> Result<(Url, String), Fault> {
        let url = address::parse(&self.url)?;
        let (host, port) = host_of(&url)?;
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        // A private address needs a grant with its port.
        let named = url.port().is_some() || says_private(&host);
        Ok((url, if named { format!("{host}:{port}") } else { host }))
    }

    fn sends(&self) -> bool {
        self.body.is_some()
            || self.json.is_some()
            || self.form.is_some()
            || self.multipart.is_some()
            || self.upload.is_some()
    }

    fn method_name(&self) -> String {
        let usual = if self.sends() { "POST" } else { "GET" };
        self.method.as_deref().unwrap_or(usual).trim().to_uppercase()
    }

    fn only_looks(&self) -> bool {
        let method = Method::from_bytes(self.method_name().as_bytes());
        !self.sends() && method.is_ok_and(|it| only_looks(&it, self.headers.keys().map(|it| it.trim())))
    }

    fn within(&self) -> Duration {
        let moves_files = self.upload.is_some() || self.multipart.is_some() || self.save_to.is_some();
        let usual = if moves_files { WITH_FILES } else { USUAL };
        self.timeout_ms.map_or(usual, Duration::from_millis).min(LONGEST)
    }
}

/// Parses a number, or `false` for none.
fn count_or_none<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Null | Value::Bool(true) => Ok(None),
        Value::Bool(false) => Ok(Some(0)),
        Value::Number(number) if number.is_u64() => {
            Ok(number.as_u64().map(|it| usize::try_from(it).unwrap_or(usize::MAX).min(MOST_REDIRECTS)))
        }
        _ => Err(serde::de::Error::custom("how many redirects to follow is a number, 0 for none")),
    }
}

/// Maximum number of redirects; more are a loop.
const MOST_REDIRECTS: usize = 50;

#[cfg(test)]
mod tests;
