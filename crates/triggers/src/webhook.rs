//! Signatures of webhooks: GitHub's, and the timestamped one of Standard Webhooks.
//!
//! A signature is compared in constant time, and a signed time that is too old or too far ahead is refused, so a recorded request
//! can't be sent again.

use hmac::{Hmac, KeyInit as _, Mac as _};
use kit::{Fault, base64};
use sha2::{Digest as _, Sha256};

use crate::{Scheme, name::hex};

/// Maximum length of a delivery id, in bytes.
const LONGEST_ID: usize = 200;

/// A request that was signed.
#[derive(Clone, Copy)]
pub struct Signed<'a> {
    /// Returns a header, by its name in lower case.
    pub header: &'a dyn Fn(&str) -> Option<String>,
    /// The body, as it was sent.
    pub body: &'a [u8],
}

impl std::fmt::Debug for Signed<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signed").field("bytes", &self.body.len()).finish_non_exhaustive()
    }
}

/// Returns whether a request has the headers of this scheme: without them its body needs no look.
///
/// # Errors
/// [`Kind::Denied`](kit::Kind::Denied), with the header that is missing.
pub fn has_headers(scheme: Scheme, header: &dyn Fn(&str) -> Option<String>) -> Result<(), Fault> {
    let needed: &[&str] = match scheme {
        Scheme::Github => &["x-hub-signature-256"],
        Scheme::Standard => &["webhook-id", "webhook-timestamp", "webhook-signature"],
    };
    match needed.iter().find(|it| header(it).is_none()) {
        None => Ok(()),
        Some(missing) => Err(refused(format!("the request has no header `{missing}`"))),
    }
}

/// Checks a request, and returns its delivery id.
///
/// # Errors
/// [`Kind::Denied`](kit::Kind::Denied), when it is not signed with this secret, or its time is not within the window.
pub fn verified(
    scheme: Scheme,
    secret: &str,
    request: Signed<'_>,
    now_s: u64,
    window_s: u64,
) -> Result<String, Fault> {
    has_headers(scheme, request.header)?;
    let header = |name: &str| (request.header)(name).unwrap_or_default();
    let id = match scheme {
        Scheme::Github => {
            let signature = header("x-hub-signature-256");
            let given = signature.strip_prefix("sha256=").and_then(from_hex);
            check(secret.as_bytes(), &[request.body], given.into_iter())?;
            // GitHub repeats an id where it delivers again; without one, the same body counts once.
            let id = header("x-github-delivery");
            if id.is_empty() {
                format!("sha256:{}", hex(Sha256::digest(request.body).as_slice()))
            } else {
                id
            }
        }
        Scheme::Standard => {
            let (id, time) = (header("webhook-id"), header("webhook-timestamp"));
            let at: u64 = time
                .parse()
                .map_err(|_| refused("`webhook-timestamp` is not a number of seconds".to_owned()))?;
            if at.abs_diff(now_s) > window_s {
                let what =
                    format!("`webhook-timestamp` is {} s away from the clock here", at.abs_diff(now_s));
                return Err(refused(format!("{what}; at most {window_s} are accepted")));
            }
            let signatures = header("webhook-signature");
            let given = signatures.split(' ').filter_map(|it| base64::decoded(it.strip_prefix("v1,")?));
            let key = secret.strip_prefix("whsec_").and_then(base64::decoded);
            let key = key.unwrap_or_else(|| secret.as_bytes().to_vec());
            check(&key, &[id.as_bytes(), b".", time.as_bytes(), b".", request.body], given)?;
            id
        }
    };
    if id.len() > LONGEST_ID {
        return Err(refused("the delivery id is too long".to_owned()));
    }
    Ok(id)
}

/// Checks that one of the given signatures is that of the parts; in constant time.
fn check(key: &[u8], parts: &[&[u8]], given: impl Iterator<Item = Vec<u8>>) -> Result<(), Fault> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key)
        .map_err(|error| Fault::bug(format!("the secret is no key: {error}")))?;
    parts.iter().for_each(|it| mac.update(it));
    let mut is_signed = false;
    for signature in given.take(8) {
        is_signed |= mac.clone().verify_slice(&signature).is_ok();
    }
    if is_signed { Ok(()) } else { Err(refused("the signature is not that of this secret".to_owned())) }
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok()).collect()
}

fn refused(what: String) -> Fault {
    Fault::denied(what)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// The example of GitHub's documentation, "Validating webhook deliveries".
    const GITHUB: (&str, &str, &str) = (
        "It's a Secret to Everybody",
        "Hello, World!",
        "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
    );

    /// The example of Standard Webhooks' reference libraries.
    const STANDARD: (&str, &str, &str, &str, &str) = (
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "1614265330",
        "{\"test\": 2432232314}",
        "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    );

    fn github(secret: &str, body: &str, signature: &str, id: Option<&str>) -> Result<String, Fault> {
        let header = |name: &str| match name {
            "x-hub-signature-256" => Some(signature.to_owned()),
            "x-github-delivery" => id.map(str::to_owned),
            _ => None,
        };
        let request = Signed { header: &header, body: body.as_bytes() };
        verified(Scheme::Github, secret, request, 0, 300)
    }

    fn standard(time: &str, signature: &str, now: u64) -> Result<String, Fault> {
        let header = |name: &str| match name {
            "webhook-id" => Some(STANDARD.1.to_owned()),
            "webhook-timestamp" => Some(time.to_owned()),
            "webhook-signature" => Some(signature.to_owned()),
            _ => None,
        };
        let request = Signed { header: &header, body: STANDARD.3.as_bytes() };
        verified(Scheme::Standard, STANDARD.0, request, now, 300)
    }

    #[test]
    fn a_github_signature_is_that_of_the_secret_and_the_body() {
        let (secret, body, signature) = GITHUB;
        assert_eq!(github(secret, body, signature, Some("72d3162e")).unwrap(), "72d3162e");
        let id = github(secret, body, signature, None).unwrap();
        assert!(id.starts_with("sha256:dffd6021bb2bd5b0af676290809ec3a5"), "{id}");
        for (secret, body, signature) in [
            ("another secret", body, signature.to_owned()),
            (secret, "Hello, World?", signature.to_owned()),
            (secret, body, signature.replace("757", "758")),
            (secret, body, "sha256=".to_owned()),
            (secret, body, "sha256=7".to_owned()),
            (secret, body, "sha256=é".to_owned()),
            (secret, body, signature.replace("sha256=", "sha1=")),
        ] {
            let fault = github(secret, body, &signature, None).unwrap_err();
            assert_eq!(fault.what, "the signature is not that of this secret");
        }
    }

    #[test]
    fn a_timestamped_signature_counts_within_its_window_alone() {
        let (_, id, time, _, signature) = STANDARD;
        assert_eq!(standard(time, signature, 1_614_265_330).unwrap(), id);
        assert_eq!(standard(time, &format!("v1,AAAA {signature}"), 1_614_265_630).unwrap(), id);
        for (time, signature, now) in [
            (time, signature, 1_614_265_631),
            (time, signature, 1_614_265_029),
            ("1614265331", signature, 1_614_265_330),
            (time, "v1,AAAA", 1_614_265_330),
            (time, "v2,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", 1_614_265_330),
            ("now", signature, 1_614_265_330),
        ] {
            assert!(standard(time, signature, now).is_err(), "{time} {signature} {now}");
        }
    }

    #[test]
    fn a_request_without_the_headers_is_refused_before_its_body_is_read() {
        let none = |_: &str| None;
        let fault = has_headers(Scheme::Github, &none).unwrap_err();
        assert_eq!(fault.what, "the request has no header `x-hub-signature-256`");
        assert!(has_headers(Scheme::Standard, &none).is_err());
    }
}
