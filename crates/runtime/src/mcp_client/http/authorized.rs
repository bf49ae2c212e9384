//! Authorized requests: adds a token to each, and a fresh one after a refusal.

use std::{collections::HashMap, sync::Arc};

use futures_util::stream::BoxStream;
use http::{HeaderName, HeaderValue};
use reqwest::Client;
use rmcp::{
    model::ClientJsonRpcMessage,
    transport::streamable_http_client::{
        SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
    },
};
use sse_stream::Sse;

use crate::mcp_client::oauth::Login;

type Failed = StreamableHttpError<reqwest::Error>;
type Events = BoxStream<'static, Result<Sse, SseError>>;
type Headers = HashMap<HeaderName, HeaderValue>;

/// The requests to one server. Cheap to clone.
#[derive(Clone)]
pub(super) struct Signed {
    client: Client,
    /// The login whose token requests carry; none, where the person configured a token or haft stores none.
    login: Option<Arc<Login>>,
}

impl Signed {
    pub(super) fn new(client: Client, login: Option<Arc<Login>>) -> Self {
        Self { client, login }
    }

    /// Sends a request with the current token; if the server refuses it, once more with a fresh one.
    async fn with_token<T, F>(
        &self,
        given: Option<String>,
        ask: impl Fn(Option<String>) -> F,
    ) -> Result<T, Failed>
    where
        F: Future<Output = Result<T, Failed>>,
    {
        let Some(login) = self.login.as_ref().filter(|_| given.is_none()) else { return ask(given).await };
        let token = login.token().await?;
        let first = ask(token.clone()).await;
        let Err(error) = &first else { return first };
        let Some(challenge) = error.auth_challenge() else { return first };
        let expired = matches!(error, StreamableHttpError::AuthRequired(_));
        if let (true, Some(token)) = (expired, &token)
            && let Some(fresh) = login.renewed(token).await?
        {
            return ask(Some(fresh)).await;
        }
        login.challenged(challenge).await;
        first
    }
}

impl StreamableHttpClient for Signed {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        self.post_message_with_max_sse_event_size(uri, message, session, token, headers, super::EVENT).await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
        most: usize,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        self.with_token(token, |token| {
            let (uri, message, session, headers) =
                (uri.clone(), message.clone(), session.clone(), headers.clone());
            self.client.post_message_with_max_sse_event_size(uri, message, session, token, headers, most)
        })
        .await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<(), Failed> {
        self.with_token(token, |token| {
            self.client.delete_session(uri.clone(), session.clone(), token, headers.clone())
        })
        .await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last: Option<String>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<Events, Failed> {
        self.get_stream_with_max_sse_event_size(uri, session, last, token, headers, super::EVENT).await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last: Option<String>,
        token: Option<String>,
        headers: Headers,
        most: usize,
    ) -> Result<Events, Failed> {
        self.with_token(token, |token| {
            let (uri, session, last, headers) = (uri.clone(), session.clone(), last.clone(), headers.clone());
            self.client.get_stream_with_max_sse_event_size(uri, session, last, token, headers, most)
        })
        .await
    }
}
