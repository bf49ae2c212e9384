//! Streamable HTTP transport to servers.

mod address;
mod authorized;
mod legacy;
#[cfg(test)]
mod tests;

use std::{collections::HashMap, error::Error, sync::Arc, time::Duration};

use http::{HeaderName, HeaderValue};
use kit::{Fault, Kind, escape::visible};
use reqwest::{Client, Url, redirect::Policy};
use rmcp::{
    RoleClient,
    model::ProtocolVersion,
    service::{ClientInitializeError, ClientLifecycleMode, ClientServiceExt, RunningService},
    transport::{
        StreamableHttpClientTransport,
        auth::AuthError,
        common::client_side_sse::ExponentialBackoff,
        streamable_http_client::{
            AuthRequiredError, InsufficientScopeError, StreamableHttpClientTransportConfig,
            StreamableHttpError,
        },
    },
};
use tokio::time::timeout;

pub use self::address::check_address;
pub(super) use self::address::{address, is_loopback};
use self::{address::Resolver, authorized::Signed};
use super::{
    connect::{Lifecycle, Wanted},
    handler::Handler,
    oauth::Login,
};

/// Time limit of the TCP and TLS connection.
const CONNECT: Duration = Duration::from_secs(15);
/// Limit of one event of a stream, in bytes; rmcp limits an answer that is not a stream to 16 MiB.
const EVENT: usize = 16 << 20;
/// How often haft reopens a broken stream, with the first and the longest pause between two tries.
const TRIES: usize = 8;
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Limit of redirects; all stay within the server's origin.
const REDIRECTS: usize = 3;

/// Connects to the server at this address.
///
/// # Errors
/// When haft can't reach it, it requires a sign-in, or it does not speak MCP.
pub(super) async fn connect(
    wanted: &Wanted<'_>,
    url: &str,
) -> Result<RunningService<RoleClient, Handler>, Fault> {
    let name = &wanted.server.name;
    let url = address(name, url)?;
    let client = client(name, &url, &wanted.server.section.net)?;
    let headers = headers(wanted)?;
    let bearer = bearer(wanted)?;
    let login = match bearer.is_some() || headers.contains_key(&http::header::AUTHORIZATION) {
        true => None,
        false => {
            wanted.logins.map(|logins| Arc::new(Login::of(logins, wanted.server, &url, wanted.variables)))
        }
    };
    let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
        .custom_headers(headers)
        .max_sse_event_size(EVENT)
        .reinit_on_expired_session(true);
    let mut again = ExponentialBackoff::default();
    (again.max_times, again.base_duration, again.max_delay) = (Some(TRIES), PAUSE, Some(LONGEST_PAUSE));
    config.retry_config = Arc::new(again);
    config.auth_header = bearer;
    let greet = async |lifecycle| {
        let transport = StreamableHttpClientTransport::with_client(
            Signed::new(client.clone(), login.clone()),
            config.clone(),
        );
        wanted.handler.clone().serve_with_lifecycle(transport, lifecycle).await
    };
    // The server may have been replaced by one with the other lifecycle, and a server that does not know
    // `server/discover` may answer it with anything.
    let (first, second) = match wanted.lifecycle {
        Some(Lifecycle::Legacy) => (ClientLifecycleMode::Initialize, auto()),
        Some(Lifecycle::Modern) | None => (auto(), ClientLifecycleMode::Initialize),
    };
    let greeted = timeout(wanted.start_timeout(), async {
        let error = match greet(first).await {
            Err(error) if refused(name, &error).is_none() => error,
            other => return other,
        };
        match greet(second).await {
            // The first error is the one that a person can act on, unless the second asks for a sign-in.
            Err(again) if refused(name, &again).is_none() => Err(error),
            other => other,
        }
    });
    match greeted.await {
        Ok(Ok(service)) => Ok(service),
        Ok(Err(error)) => match refused(name, &error) {
            Some(fault) => Err(fault),
            None if legacy::speaks(&client, &url, &config).await => Err(legacy::fault(name)),
            None => Err(unreachable(name, &url, &error)),
        },
        Err(_) => {
            let what = format!(
                "the server `{name}` at {url} did not answer within {} s",
                wanted.start_timeout().as_secs()
            );
            Err(Fault::new(Kind::Timeout, what))
        }
    }
}

fn auto() -> ClientLifecycleMode {
    ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
    }
}

/// Builds the HTTP client for this server. It sends nothing to another origin.
fn client(name: &str, url: &Url, net: &[String]) -> Result<Client, Fault> {
    let mut client = kit::net::client()
        .connect_timeout(CONNECT)
        .tcp_keepalive(Duration::from_secs(30))
        .referer(false)
        .redirect(own_origin())
        .dns_resolver(Arc::new(Resolver::new(url, net)));
    if is_loopback(url) {
        client = client.no_proxy();
    }
    client.build().map_err(|error| {
        Fault::new(Kind::Unavailable, format!("the server `{name}` can't be reached: {}", causes(&error)))
    })
}

/// Returns the redirect policy: haft follows only redirects that keep the method and the origin.
fn own_origin() -> Policy {
    Policy::custom(|attempt| {
        let keeps_method = matches!(attempt.status().as_u16(), 307 | 308);
        let stays = attempt.previous().first().is_some_and(|first| first.origin() == attempt.url().origin());
        if !stays {
            let to =
                format!("it redirects to another host, {}", attempt.url().origin().ascii_serialization());
            attempt.error(to)
        } else if !keeps_method || attempt.previous().len() > REDIRECTS {
            attempt.stop()
        } else {
            attempt.follow()
        }
    })
}

/// Returns the configured headers of each request.
fn headers(wanted: &Wanted<'_>) -> Result<HashMap<HeaderName, HeaderValue>, Fault> {
    /// The headers that the transport sets.
    const OURS: [&str; 7] = [
        "accept",
        "content-type",
        "host",
        "last-event-id",
        "mcp-method",
        "mcp-protocol-version",
        "mcp-session-id",
    ];
    let mut headers = HashMap::new();
    for (name, value) in &wanted.server.section.headers {
        let wrong = |why: &str| {
            let what = format!("`{name}` in `headers` of the server `{}` {why}", wanted.server.name);
            Fault::new(Kind::Unavailable, what).next(format!("It is in {}.", wanted.server.file))
        };
        let header: HeaderName = name.parse().map_err(|_| wrong("is not the name of a header"))?;
        if OURS.contains(&header.as_str()) {
            return Err(wrong("is a header that the protocol sets"));
        }
        let value = wanted.expanded(value)?;
        // The value may be a secret, so the fault does not contain it.
        let mut value =
            HeaderValue::from_str(&value).map_err(|_| wrong("has a value that no header can have"))?;
        value.set_sensitive(true);
        headers.insert(header, value);
    }
    Ok(headers)
}

/// Returns the token in the configured variable.
fn bearer(wanted: &Wanted<'_>) -> Result<Option<String>, Fault> {
    let Some(variable) = &wanted.server.section.bearer_env else { return Ok(None) };
    let found = wanted.variables.iter().find(|(name, value)| name == variable && !value.trim().is_empty());
    let Some((_, token)) = found else {
        let what =
            format!("the server `{}` needs the token in `{variable}`, which is not set", wanted.server.name);
        return Err(Fault::new(Kind::Unavailable, what).next("A person can set it where haft is started."));
    };
    Ok(Some(token.trim().to_owned()))
}

/// Returns the fault for a server that refused haft's credentials, if the error means that.
pub(super) fn refused(name: &str, error: &(dyn Error + 'static)) -> Option<Fault> {
    let login = format!("A person can sign in: `haft mcp login {name}`.");
    for cause in chain(error) {
        if let Some(it) = cause.downcast_ref::<InsufficientScopeError>() {
            let scope = it.required_scope.as_deref().map(|it| visible(it).0.into_owned());
            let what = match scope {
                Some(scope) => {
                    format!("the server `{name}` wants more than haft was allowed there: the scope `{scope}`")
                }
                None => format!("the server `{name}` wants more than haft was allowed there"),
            };
            return Some(Fault::denied(what).next(login));
        }
        let signed_out = matches!(cause.downcast_ref(), Some(AuthError::AuthorizationRequired));
        if signed_out || cause.is::<AuthRequiredError>() {
            return Some(Fault::denied(format!("the server `{name}` wants haft to sign in")).next(login));
        }
        if let Some(it) = cause.downcast_ref::<ClientInitializeError>() {
            let inner = match it {
                ClientInitializeError::TransportError { error, .. } => {
                    Some(error.error.as_ref() as &(dyn Error + 'static))
                }
                ClientInitializeError::LegacyFallbackFailed { fallback, .. } => Some(fallback.as_ref() as _),
                _ => None,
            };
            if let Some(fault) = inner.and_then(|inner| refused(name, inner)) {
                return Some(fault);
            }
        }
        if let Some(rmcp::ServiceError::TransportSend(inner)) = cause.downcast_ref()
            && let Some(fault) = refused(name, inner.error.as_ref())
        {
            return Some(fault);
        }
    }
    None
}

fn unreachable(name: &str, url: &Url, error: &ClientInitializeError) -> Fault {
    Fault::new(
        Kind::Unavailable,
        format!("the server `{name}` at {url} does not answer as MCP has it: {}", causes(error)),
    )
}

/// Joins an error and its causes in one line, without the request's address, which may contain secrets.
pub(super) fn causes(error: &(dyn Error + 'static)) -> String {
    let error = match error.downcast_ref() {
        Some(ClientInitializeError::LegacyFallbackFailed { fallback, .. }) => fallback.as_ref(),
        _ => error,
    };
    let error = match error.downcast_ref() {
        Some(ClientInitializeError::TransportError { error, .. }) => error.error.as_ref(),
        _ => error,
    };
    let mut words: Vec<String> = Vec::new();
    for cause in chain(error) {
        let word = cause.to_string();
        if !words.iter().any(|it| it.contains(&word)) {
            words.push(word);
        }
    }
    let words = words.join(": ");
    visible(without_page(&words)).0.chars().take(500).collect()
}

/// Returns the text before an HTML page.
fn without_page(words: &str) -> &str {
    let lower = words.to_ascii_lowercase();
    let page = ["<!doctype", "<html", "<head", "<body"].iter().filter_map(|it| lower.find(it)).min();
    let before = page.and_then(|at| words.get(..at)).unwrap_or(words);
    before.trim_end_matches([':', ' ', '"', '\n'])
}

fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    let mut next = Some(error);
    std::iter::from_fn(move || {
        let cause = next?;
        // This error shows its cause, but `source` does not return it.
        next = match cause.downcast_ref() {
            Some(StreamableHttpError::<reqwest::Error>::Client(error)) => Some(error),
            _ => cause.source(),
        };
        Some(cause)
    })
}
