//! What is asked, and what comes back?

use std::time::{Duration, Instant};

use bytes::Bytes;
use reqwest::{
    Method, StatusCode, Url, Version,
    header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap},
};

use crate::{Fault, Kind};

/// One request, with its bounds.
#[derive(Debug, Clone)]
pub struct Request {
    /// What is to be done.
    pub method: Method,
    /// Where.
    pub url: Url,
    /// Its headers. One that is sensitive goes to no other origin.
    pub headers: HeaderMap,
    /// What is sent along.
    pub body: Option<Bytes>,
    /// How many redirects are followed; each is looked at as if it were asked for by itself.
    pub redirects: usize,
    /// How long all of it may take, up to the last byte of the body.
    pub within: Duration,
    /// How long the other side may be silent.
    pub silence: Duration,
}

impl Request {
    /// A request that follows ten redirects and takes half a minute at most.
    pub fn new(method: Method, url: Url) -> Self {
        Self {
            method,
            url,
            headers: HeaderMap::new(),
            body: None,
            redirects: 10,
            within: Duration::from_secs(30),
            silence: Duration::from_secs(15),
        }
    }

    /// What stands there.
    pub fn get(url: Url) -> Self {
        Self::new(Method::GET, url)
    }

    /// Does it only read?
    pub(super) fn looks(&self) -> bool {
        self.body.is_none() && matches!(self.method, Method::GET | Method::HEAD | Method::OPTIONS)
    }
}

/// A redirect that was followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hop {
    /// What was asked for.
    pub url: Url,
    /// What came back.
    pub status: StatusCode,
}

/// An answer whose body is still to be read.
pub struct Response {
    /// How it went.
    pub status: StatusCode,
    /// In which version of HTTP it came.
    pub version: Version,
    /// Where it came from in the end.
    pub url: Url,
    /// The redirects on the way.
    pub hops: Vec<Hop>,
    /// Its headers.
    pub headers: HeaderMap,
    /// From the start of the first request to the last answer's head.
    pub first_byte: Duration,
    pub(super) inner: reqwest::Response,
    pub(super) until: Instant,
    pub(super) silence: Duration,
}

impl Response {
    /// The media type, without its parameters and in small letters; empty, if none is said.
    pub fn media_type(&self) -> String {
        let said = self.headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok()).unwrap_or_default();
        said.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }

    /// How long the body says it is, as it is sent.
    pub fn length(&self) -> Option<u64> {
        self.headers.get(CONTENT_LENGTH)?.to_str().ok()?.trim().parse().ok()
    }

    /// The next piece of the body, unpacked; nothing at its end.
    ///
    /// # Errors
    /// [`Kind::Timeout`] when the other side is silent for too long, or all of it takes too long;
    /// [`Kind::Failed`] when it breaks off.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Fault> {
        let left = self.until.saturating_duration_since(Instant::now());
        match tokio::time::timeout(left.min(self.silence), self.inner.chunk()).await {
            Ok(Ok(chunk)) => Ok(chunk),
            Ok(Err(error)) => Err(super::send::broken(&self.url, &error)),
            Err(_) => Err(super::send::silent(&self.url, left.min(self.silence))),
        }
    }

    /// The body, up to this many bytes of it, and whether there is more.
    ///
    /// # Errors
    /// Those of [`chunk`](Self::chunk).
    pub async fn up_to(&mut self, most: usize) -> Result<(Vec<u8>, bool), Fault> {
        let mut body = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            let room = most - body.len();
            if chunk.len() > room {
                body.extend_from_slice(chunk.get(..room).unwrap_or_default());
                return Ok((body, true));
            }
            body.extend_from_slice(&chunk);
        }
        Ok((body, false))
    }

    /// The body, if it is no longer than this.
    ///
    /// # Errors
    /// Those of [`chunk`](Self::chunk), and [`Kind::TooBig`].
    pub async fn bytes(&mut self, most: usize) -> Result<Vec<u8>, Fault> {
        match self.up_to(most).await? {
            (body, false) => Ok(body),
            (_, true) => Err(Fault::new(
                Kind::TooBig,
                format!("what stands at {} has more than {most} bytes", self.url),
            )),
        }
    }
}
