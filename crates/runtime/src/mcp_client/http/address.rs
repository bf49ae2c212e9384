//! Addresses of servers: which ones haft contacts, and DNS resolution.

use std::net::{IpAddr, SocketAddr};

use kit::{Fault, Kind, net::is_elsewhere};
use reqwest::{
    Url,
    dns::{Addrs, Name, Resolve, Resolving},
};

/// Parses the address of a server and checks that haft may contact it.
///
/// # Errors
/// When it is not an address, it contains credentials, or others could read the traffic.
pub(in crate::mcp_client) fn address(name: &str, url: &str) -> Result<Url, Fault> {
    let wrong =
        |why: &str| Fault::new(Kind::Unavailable, format!("the server `{name}` can't be reached: {why}"));
    let Ok(url) = Url::parse(url.trim()) else { return Err(wrong("its `url` is not an address")) };
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong("its `url` has a name or a password in it")
            .next("A token belongs into a variable, which `bearer_env` names."));
    }
    match url.scheme() {
        "https" if url.has_host() => Ok(url),
        "http" if is_loopback(&url) => Ok(url),
        "http" => Err(wrong(&format!("{url} is not encrypted"))
            .next("Write `https://`; `http://` is for this machine alone.")),
        other => Err(wrong(&format!("`{other}` is not `https`"))),
    }
}

/// Checks that haft may send a token to this address of a server: nobody can read the traffic.
///
/// # Errors
/// Those of an address that haft does not contact.
pub fn check_address(name: &str, url: &str) -> Result<(), Fault> {
    address(name, url).map(drop)
}

/// Returns whether this is an address of this machine.
pub(in crate::mcp_client) fn is_loopback(url: &Url) -> bool {
    match url.host_str() {
        Some(host) if host.eq_ignore_ascii_case("localhost") => true,
        Some(host) => host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .parse::<IpAddr>()
            .is_ok_and(|it| it.is_loopback()),
        None => false,
    }
}

/// DNS resolver. As in the sandbox, haft connects to a loopback or private address only if `url` names the
/// host with its port, or `net` names it.
pub(super) struct Resolver {
    private: bool,
}

impl Resolver {
    pub(super) fn new(url: &Url, net: &[String]) -> Self {
        let host = url.host_str().unwrap_or_default();
        let port = url.port_or_known_default().unwrap_or_default();
        let granted = || net.iter().any(|it| it.eq_ignore_ascii_case(&format!("{host}:{port}")));
        Self { private: url.port().is_some() || is_loopback(url) || granted() }
    }
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let private = self.private;
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let (allowed, held): (Vec<_>, Vec<_>) =
                found.into_iter().partition(|it| private || is_elsewhere(it.ip()));
            match held.first() {
                Some(held) if allowed.is_empty() => Err(format!(
                    "`{}` is at {}, of this machine or in a private network; a person can name it with its port, in `url` or `net`",
                    name.as_str(),
                    held.ip()
                )
                .into()),
                _ => Ok(Box::new(allowed.into_iter()) as Addrs),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn only_encrypted_or_loopback_addresses_are_allowed() {
        for good in [
            "https://mcp.example.com/mcp",
            "http://localhost:3000/mcp",
            "http://127.0.0.1/x",
            "http://[::1]:8/x",
        ] {
            assert!(address("s", good).is_ok(), "{good}");
        }
        for (bad, why) in [
            ("http://mcp.example.com/mcp", "not encrypted"),
            ("http://localhost.example.com/mcp", "not encrypted"),
            ("http://10.0.0.1/mcp", "not encrypted"),
            ("ftp://example.com", "`ftp` is not `https`"),
            ("mcp.example.com", "not an address"),
            ("https://me:secret@example.com/", "a name or a password"),
        ] {
            let fault = address("s", bad).unwrap_err();
            assert!(fault.what.contains(why) && !fault.what.contains("secret"), "{bad}: {}", fault.what);
        }
    }

    #[tokio::test]
    async fn public_name_with_a_private_address_is_refused() {
        let name = || "localhost".parse::<Name>().unwrap();
        let unnamed = Resolver::new(&Url::parse("https://mcp.example.com/").unwrap(), &[]);
        let error = unnamed.resolve(name()).await.map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("or in a private network"), "{error}");
        let granted = Resolver::new(
            &Url::parse("https://mcp.example.com/").unwrap(),
            &["mcp.example.com:443".to_owned()],
        );
        assert!(granted.resolve(name()).await.unwrap().next().is_some());
        let with_port = Resolver::new(&Url::parse("https://mcp.example.com:8443/").unwrap(), &[]);
        assert!(with_port.resolve(name()).await.unwrap().next().is_some());
    }
}
