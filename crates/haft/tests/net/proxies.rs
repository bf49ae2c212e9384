//! Proxies: only the configured one is used.

use serde_json::json;

use super::{ask, configured, does, granting, hostile::Hostile};

#[test]
fn proxy_variables_of_the_environment_are_ignored() {
    let (server, proxy) = (Hostile::start(), Hostile::start());
    let test_ws = granting(&[&server]);
    let url = format!("http://{}", proxy.host());
    let arguments = json!({"url": server.url("/text")}).to_string();
    let mut haft = test_ws.haft(&["call", "http_request", &arguments]);
    for name in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"] {
        haft.env(name, &url);
    }
    let ran = crate::support::run(&mut haft, "");
    assert!(ran.code == 0 && ran.out.ends_with("hello\n"), "{ran:?}");
    assert_eq!((proxy.connections(), server.connections()), (0, 1));
}

#[test]
fn configured_proxy_is_used_for_public_addresses_only() {
    let (own, proxy) = (Hostile::start(), Hostile::start());
    let test_ws = configured(&format!(
        "[net]\nproxy = \"http://me:proxy-pass-9x@{}\"\nallow = [\"{}\", \"nobody.invalid\"]\n",
        proxy.host(),
        own.host()
    ));
    // The proxy answers in the place of a host that only it may know.
    let said = does(&test_ws, &json!({"url": "http://nobody.invalid/text"}));
    assert!(said.contains("nothing here") || said.contains("hello"), "{said}");
    let request = proxy.last();
    assert_eq!(request.target, "http://nobody.invalid/text");
    assert!(request.header("proxy-authorization").is_some_and(|it| it.starts_with("Basic ")), "{request:?}");
    let said = does(&test_ws, &json!({"url": "http://93.184.216.34/text"}));
    assert!(said.starts_with("HTTP "), "{said}");
    let asked = proxy.connections();
    assert!(asked >= 1);
    for url in ["http://10.0.0.1/", "http://127.0.0.1:1/", "http://localhost:1/", "http://169.254.169.254/"] {
        assert_eq!(ask(&test_ws, &json!({"url": url})).0, "denied", "{url}");
    }
    assert_eq!(proxy.connections(), asked, "a private address was asked for at the proxy");
    // A granted host on loopback is reached directly, not through the proxy.
    assert!(does(&test_ws, &json!({"url": own.url("/text")})).ends_with("hello\n"));
    assert_eq!((own.connections(), proxy.connections()), (1, asked));
}
