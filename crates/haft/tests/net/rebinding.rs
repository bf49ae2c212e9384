//! DNS rebinding: a name that resolves to another address later is not followed.

use std::net::Ipv4Addr;

use serde_json::json;

use super::{
    ask, configured, does,
    hostile::Hostile,
    namespace::{Names, PUBLIC, far_away, inside},
};
use crate::support::TestWorkspace;

#[test]
fn name_that_resolves_elsewhere_later_is_not_followed() {
    kit::needs!(Ip);
    inside("net::rebinding::name_that_resolves_elsewhere_later_is_not_followed", || {
        let names = Names::answer(|name, asked| match (name, asked) {
            ("rebind.test", 0) | ("public.test", _) => vec![PUBLIC],
            ("both.test", _) => vec![Ipv4Addr::LOCALHOST, PUBLIC],
            ("rebind.test" | "inner.test", _) => vec![Ipv4Addr::LOCALHOST],
            _ => Vec::new(),
        });
        let (near, far) = (Hostile::listen("0.0.0.0:8080"), Hostile::on(far_away(8080)));
        let test_ws = TestWorkspace::new();
        let url = |host: &str, path: &str| json!({"url": format!("http://{host}:8080{path}")});
        // The positive control: what is public is reached without a word from anybody.
        assert!(does(&test_ws, &url("public.test", "/text")).ends_with("hello\n"));
        assert_eq!(far.last().at.ip(), PUBLIC);
        // The second connection looks again, and is not made.
        let (kind, said) = ask(&test_ws, &url("rebind.test", "/302?/text"));
        assert_eq!(kind, "denied", "{said}");
        assert!(said.contains("rebind.test is at 127.0.0.1, which is not a public address"), "{said}");
        assert_eq!((far.connections(), far.last().at.ip()), (2, PUBLIC.into()));
        assert_eq!(names.asked("rebind.test"), 2);
        // Of several addresses those that are public are tried, and no others.
        assert!(does(&test_ws, &url("both.test", "/text")).ends_with("hello\n"));
        assert_eq!((far.connections(), far.last().at.ip()), (3, PUBLIC.into()));
        for path in ["/text", "/302?http://inner.test:8080/text"] {
            let host = if path == "/text" { "inner.test" } else { "public.test" };
            let (kind, said) = ask(&test_ws, &url(host, path));
            assert!(kind == "denied" && said.contains("inner.test is at 127.0.0.1"), "{said}");
        }
        assert_eq!(near.connections(), 0);
        let (kind, said) = ask(&test_ws, &url("nobody.test", "/text"));
        assert!(kind == "unavailable" && said.contains("unknown host name: nobody.test"), "{said}");
        // The positive control: a person who names it is obeyed.
        let granted = configured("[net]\nallow = [\"inner.test:8080\"]\n");
        assert!(does(&granted, &url("inner.test", "/text")).ends_with("hello\n"));
        assert!(near.last().at.ip().is_loopback());
    });
}

#[test]
fn name_is_checked_before_a_proxy_is_used() {
    kit::needs!(Ip);
    inside("net::rebinding::name_is_checked_before_a_proxy_is_used", || {
        let _names = Names::answer(|name, _| match name {
            "public.test" => vec![PUBLIC],
            "inner.test" | "proxy.test" => vec![Ipv4Addr::LOCALHOST],
            _ => Vec::new(),
        });
        let proxy = Hostile::listen("127.0.0.1:3128");
        let test_ws = configured("[net]\nproxy = \"http://proxy.test:3128\"\n");
        assert!(does(&test_ws, &json!({"url": "http://public.test/text"})).starts_with("HTTP "));
        assert_eq!(proxy.last().target, "http://public.test/text");
        let (kind, said) = ask(&test_ws, &json!({"url": "http://inner.test/text"}));
        assert!(kind == "denied" && said.contains("inner.test is at 127.0.0.1"), "{said}");
        assert_eq!(proxy.connections(), 1);
    });
}
