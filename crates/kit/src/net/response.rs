//! Responses, read up to a limit.

use std::time::{Duration, Instant};

use bytes::Bytes;
use reqwest::{
    StatusCode, Url, Version,
    header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap},
};

use super::{Request, send};
use crate::{Fault, Kind};

/// A redirect that was followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hop {
    /// The requested address.
    pub url: Url,
    /// The status of the redirect.
    pub status: StatusCode,
}

/// A response whose body is still to be read.
pub struct Response {
    /// Its status.
    pub status: StatusCode,
    /// Its HTTP version.
    pub version: Version,
    /// The address after all redirects.
    pub url: Url,
    /// The name of that address in messages.
    pub named: String,
    /// The redirects on the way.
    pub hops: Vec<Hop>,
    /// Its headers.
    pub headers: HeaderMap,
    /// Time from the start of the first request to the head of the last response.
    pub first_byte: Duration,
    inner: reqwest::Response,
    began: Instant,
    within: Duration,
    silence: Duration,
}

impl Response {
    pub(super) fn new(inner: reqwest::Response, request: Request, hops: Vec<Hop>, began: Instant) -> Self {
        Self {
            status: inner.status(),
            version: inner.version(),
            named: request.name().to_owned(),
            url: request.url,
            hops,
            headers: inner.headers().clone(),
            first_byte: began.elapsed(),
            inner,
            began,
            within: request.within,
            silence: request.silence,
        }
    }

    /// Returns the media type, without its parameters and in lower case; empty if the response has none.
    pub fn media_type(&self) -> String {
        self.content_type().split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }

    /// Returns the declared character set, if any.
    pub fn charset(&self) -> Option<String> {
        self.content_type().split(';').skip(1).find_map(|it| {
            let (name, value) = it.split_once('=')?;
            name.trim()
                .eq_ignore_ascii_case("charset")
                .then(|| value.trim().trim_matches('"').to_ascii_lowercase())
        })
    }

    fn content_type(&self) -> &str {
        self.headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok()).unwrap_or_default()
    }

    /// Returns the declared length of the body, in bytes as it is sent.
    pub fn length(&self) -> Option<u64> {
        self.headers.get(CONTENT_LENGTH)?.to_str().ok()?.trim().parse().ok()
    }

    /// Returns the time since the start of the first request.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Returns the next piece of the body, unpacked; `None` at its end.
    ///
    /// # Errors
    /// [`Kind::Timeout`] when the other side is silent for too long, or the whole takes too long;
    /// [`Kind::Failed`] when the connection breaks.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Fault> {
        let left = self.within.saturating_sub(self.began.elapsed());
        match tokio::time::timeout(left.min(self.silence), self.inner.chunk()).await {
            Ok(Ok(chunk)) => Ok(chunk),
            Ok(Err(error)) => Err(send::broken(&self.named, error)),
            Err(_) if left <= self.silence => Err(send::too_slow(&self.named, self.within)),
            Err(_) => Err(send::silent(&self.named, self.silence)),
        }
    }

    /// Reads up to this many bytes of the body; returns them, and whether there is more.
    ///
    /// # Errors
    /// Those of [`chunk`](Self::chunk).
    pub async fn up_to(&mut self, most: usize) -> Result<(Vec<u8>, bool), Fault> {
        let mut body = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            let room = most.saturating_sub(body.len());
            if chunk.len() > room {
                body.extend_from_slice(chunk.get(..room).unwrap_or_default());
                return Ok((body, true));
            }
            body.extend_from_slice(&chunk);
        }
        Ok((body, false))
    }

    /// Reads the body if it is no longer than this.
    ///
    /// # Errors
    /// Those of [`chunk`](Self::chunk), and [`Kind::TooBig`].
    pub async fn bytes(&mut self, most: usize) -> Result<Vec<u8>, Fault> {
        match self.up_to(most).await? {
            (body, false) => Ok(body),
            (_, true) => Err(Fault::new(
                Kind::TooBig,
                format!("what stands at {} has more than {most} bytes", self.named),
            )),
        }
    }
}
