//! Web addresses in arguments, and the touches of a call to one.

use kit::{
    Fault, Touch,
    net::{Url, host_of, says_private},
};

/// Parses the address that a model wrote; without a scheme it is https.
///
/// # Errors
/// When it is invalid.
pub(crate) fn parse(text: &str) -> Result<Url, Fault> {
    let text = text.trim();
    let has_scheme = text.split_once(':').is_some_and(|(scheme, rest)| {
        rest.starts_with("//")
            || ["http", "https"].iter().any(|it| scheme.eq_ignore_ascii_case(it))
            || (scheme.bytes().all(|it| it.is_ascii_alphabetic())
                && !rest.starts_with(|it: char| it.is_ascii_digit()))
    });
    let whole = if has_scheme { text.to_owned() } else { format!("https://{text}") };
    let url = Url::parse(&whole).map_err(|error| {
        let begun: String = text.chars().take(200).collect();
        Fault::bad_args(format!("`{begun}` is not an address: {error}"))
            .next("An address is like `https://example.org/page`.")
    })?;
    host_of(&url)?;
    Ok(url)
}

/// Returns the touch of reading this address.
pub(crate) fn looks_at(url: &Url) -> Touch {
    Touch::Web(host(url))
}

/// Returns `host`, with its port if that is unusual, or if a grant has to name it.
fn host(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None if says_private(host) => format!("{host}:{}", url.port_or_known_default().unwrap_or(443)),
        None => host.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn an_address_may_lack_its_scheme_and_the_port_is_named_where_it_counts() {
        for (text, url, touched) in [
            ("example.org/a", "https://example.org/a", "example.org"),
            (" http://example.org:80/ ", "http://example.org/", "example.org"),
            ("example.org:8443", "https://example.org:8443/", "example.org:8443"),
            ("http:127.0.0.1:8080/x", "http://127.0.0.1:8080/x", "127.0.0.1:8080"),
            ("localhost:3000/x", "https://localhost:3000/x", "localhost:3000"),
            ("http://localhost/", "http://localhost/", "localhost:80"),
            ("http://0x7f.1/", "http://127.0.0.1/", "127.0.0.1:80"),
            ("http://[::1]:8080/", "http://[::1]:8080/", "[::1]:8080"),
        ] {
            let parsed = parse(text).unwrap();
            assert_eq!((parsed.as_str(), looks_at(&parsed)), (url, Touch::Web(touched.to_owned())), "{text}");
        }
        for text in [
            "",
            "file:///etc/passwd",
            "ftp://example.org/",
            "javascript:alert(1)",
            "http://u:p@example.org/",
            "https://",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
