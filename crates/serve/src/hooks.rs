//! Webhooks: requests that a program signs, at `POST /hooks/SESSION/TRIGGER`.
//!
//! The function [`hook`] answers one request and knows no server: whoever has the head of a request and a way to read its body can
//! mount it. A body is read only for a webhook that exists and a request with the headers of a signature, and at most
//! [`LARGEST_HOOK`] bytes of it.

use bytes::Bytes;
use http::{Method, StatusCode, request::Parts};
use kit::{Fault, Kind, services::Soon};

/// The beginning of the path of a webhook.
pub const HOOKS: &str = "/hooks/";

/// Maximum size of a request, in bytes.
pub const LARGEST_HOOK: usize = 960 << 10;

/// A request to a webhook.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The session.
    pub session: String,
    /// The trigger.
    pub trigger: String,
    /// The headers of the request.
    pub headers: http::HeaderMap,
    /// The body; empty before it is read.
    pub body: Bytes,
}

impl Delivery {
    /// Returns a header that occurs one time.
    pub fn header(&self, name: &str) -> Option<String> {
        let mut values = self.headers.get_all(name).iter();
        let (Some(value), None) = (values.next(), values.next()) else { return None };
        value.to_str().ok().map(str::to_owned)
    }
}

/// The outcome of an accepted request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accepted {
    /// It fires.
    Fires,
    /// It was accepted before: the sender delivered it again.
    Before,
    /// It does not fire, and the trigger's history says why.
    HeldBack,
}

/// The webhooks of a server.
pub trait Hooks: Send + Sync {
    /// Checks the head of a request before its body is read.
    ///
    /// # Errors
    /// [`Kind::NotFound`] if there is no such webhook, [`Kind::Denied`] if the request is not signed.
    fn look(&self, delivery: Delivery) -> Soon<'_, Result<(), Fault>>;

    /// Takes a request with its body.
    ///
    /// # Errors
    /// Those of [`look`](Self::look), [`Kind::Denied`] for a wrong signature, and when it can't be stored.
    fn take(&self, delivery: Delivery) -> Soon<'_, Result<Accepted, Fault>>;
}

/// Answers one request whose path begins with [`HOOKS`]: status and one line of text. `read` reads its body, of at most
/// [`LARGEST_HOOK`] bytes; its error is an answer that is passed on.
///
/// # Errors
/// Those of `read`.
pub async fn hook<E>(
    hooks: &dyn Hooks,
    head: &Parts,
    read: impl AsyncFnOnce() -> Result<Bytes, E>,
) -> Result<(StatusCode, String), E> {
    if head.method != Method::POST {
        return Ok((StatusCode::METHOD_NOT_ALLOWED, "a webhook takes POST".to_owned()));
    }
    let path = head.uri.path().strip_prefix(HOOKS).unwrap_or_default();
    let Some((session, trigger)) = path.rsplit_once('/').filter(|(session, _)| !session.is_empty()) else {
        return Ok((StatusCode::NOT_FOUND, "there is no such webhook".to_owned()));
    };
    let delivery = Delivery {
        session: session.to_owned(),
        trigger: trigger.to_owned(),
        headers: head.headers.clone(),
        body: Bytes::new(),
    };
    if let Err(fault) = hooks.look(delivery.clone()).await {
        return Ok(refused(&fault));
    }
    let body = read().await?;
    Ok(match hooks.take(Delivery { body, ..delivery }).await {
        Ok(Accepted::Fires) => (StatusCode::ACCEPTED, "accepted".to_owned()),
        Ok(Accepted::Before) => (StatusCode::OK, "accepted before".to_owned()),
        Ok(Accepted::HeldBack) => (StatusCode::OK, "not fired: see the trigger's history".to_owned()),
        Err(fault) => refused(&fault),
    })
}

fn refused(fault: &Fault) -> (StatusCode, String) {
    let status = match fault.kind {
        Kind::NotFound => StatusCode::NOT_FOUND,
        Kind::Denied => StatusCode::UNAUTHORIZED,
        Kind::BadArgs => StatusCode::BAD_REQUEST,
        Kind::TooBig => StatusCode::PAYLOAD_TOO_LARGE,
        // The sender delivers it again later.
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, fault.what.clone())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::convert::Infallible;

    use http::Request;
    use parking_lot::Mutex;

    use super::*;

    #[derive(Default)]
    struct One(Mutex<Vec<Bytes>>);

    impl Hooks for One {
        fn look(&self, delivery: Delivery) -> Soon<'_, Result<(), Fault>> {
            let found = match (delivery.trigger.as_str(), delivery.header("x-signed")) {
                ("t", Some(_)) => Ok(()),
                ("t", None) => Err(Fault::denied("not signed")),
                _ => Err(Fault::not_found("there is no such webhook")),
            };
            Box::pin(std::future::ready(found))
        }

        fn take(&self, delivery: Delivery) -> Soon<'_, Result<Accepted, Fault>> {
            self.0.lock().push(delivery.body);
            Box::pin(std::future::ready(Ok(Accepted::Fires)))
        }
    }

    #[tokio::test]
    async fn a_body_is_read_only_for_a_signed_request_to_a_webhook_that_exists() {
        let hooks = One::default();
        for (method, path, is_signed, status) in [
            ("POST", "/hooks/s/t", true, 202),
            ("POST", "/hooks/s/t", false, 401),
            ("POST", "/hooks/s/other", true, 404),
            ("POST", "/hooks/t", true, 404),
            ("GET", "/hooks/s/t", true, 405),
        ] {
            let request = Request::builder().method(method).uri(path);
            let request = if is_signed { request.header("x-signed", "1") } else { request };
            let (head, ()) = request.body(()).unwrap().into_parts();
            let mut was_read = false;
            let answer = hook(&hooks, &head, async || {
                was_read = true;
                Ok::<_, Infallible>(Bytes::from_static(b"{}"))
            });
            let Ok((answered, _)) = answer.await;
            assert_eq!((answered.as_u16(), was_read), (status, status == 202), "{method} {path}");
        }
        assert_eq!(*hooks.0.lock(), [Bytes::from_static(b"{}")]);
    }

    #[test]
    fn a_header_that_occurs_twice_counts_as_none() {
        let mut headers = http::HeaderMap::new();
        headers.append("x-one", "1".parse().unwrap());
        headers.append("x-two", "1".parse().unwrap());
        headers.append("x-two", "2".parse().unwrap());
        let delivery =
            Delivery { session: String::new(), trigger: String::new(), headers, body: Bytes::new() };
        assert_eq!((delivery.header("x-one").as_deref(), delivery.header("x-two")), (Some("1"), None));
    }
}
