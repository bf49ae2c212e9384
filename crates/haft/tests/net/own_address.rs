//! Public addresses of this machine: they lead to local services, so they count as loopback.

use std::net::{IpAddr, Ipv4Addr};

use serde_json::json;

use super::{
    ask, configured, does,
    hostile::Hostile,
    namespace::{Names, PUBLIC, far_away, inside, own},
};
use crate::support::TestWorkspace;

/// A public address that becomes this machine's.
const OWN: Ipv4Addr = Ipv4Addr::new(93, 184, 216, 77);
const OWN_V6: &str = "2606:2800:220:1::77";

fn two_addresses() {
    own(OWN.into());
    own(OWN_V6.parse::<IpAddr>().unwrap());
}

#[test]
fn own_public_address_is_refused_like_loopback_at_every_redirect() {
    kit::needs!(Ip);
    inside("net::own_address::own_public_address_is_refused_like_loopback_at_every_redirect", || {
        let _names = Names::answer(|name, _| match name {
            "me.test" => vec![OWN],
            "both.test" => vec![OWN, PUBLIC],
            _ => Vec::new(),
        });
        let (near, far) = (Hostile::listen("[::]:8080"), Hostile::on(far_away(8080)));
        two_addresses();
        let test_ws = TestWorkspace::new();
        // The positive control: a public address of another machine is reached unasked.
        assert!(does(&test_ws, &json!({"url": format!("http://{PUBLIC}:8080/text")})).ends_with("hello\n"));
        for url in [
            format!("http://{OWN}:8080/text"),
            format!("http://[{OWN_V6}]:8080/text"),
            // 93.184.216.77 as one number.
            format!("http://{}:8080/text", OWN.to_bits()),
            "http://me.test:8080/text".to_owned(),
            format!("http://{PUBLIC}:8080/302?http://{OWN}:8080/text"),
            format!("http://{PUBLIC}:8080/302?http://me.test:8080/text"),
        ] {
            for (tool, more) in [("http_request", false), ("web_fetch", false), ("http_request", true)] {
                let options: &[&str] = if more { &["--approve", "auto"] } else { &[] };
                let called = test_ws.call_with(options, tool, &json!({"url": url}));
                assert_eq!(called.kind(), "denied", "{tool} {url}: {}", called.text());
            }
        }
        assert_eq!(near.connections(), 0);
        let (_, said) = ask(&test_ws, &json!({"url": "http://me.test:8080/text"}));
        assert!(said.contains("me.test is at 93.184.216.77, which is an address of this machine"), "{said}");
        // Of several addresses the one of another machine is taken.
        assert!(does(&test_ws, &json!({"url": "http://both.test:8080/text"})).ends_with("hello\n"));
        assert_eq!((near.connections(), far.last().at.ip()), (0, IpAddr::from(PUBLIC)));
        // The positive control: something listens there, and a person who names it is obeyed.
        let granted = configured(&format!("[net]\nallow = [\"{OWN}:8080\", \"[{OWN_V6}]:8080\"]\n"));
        for host in [OWN.to_string(), format!("[{OWN_V6}]")] {
            let said = does(&granted, &json!({"url": format!("http://{host}:8080/text")}));
            assert!(said.ends_with("hello\n"), "{said}");
        }
    });
}

#[test]
fn address_counts_as_own_from_the_moment_it_is_added() {
    kit::needs!(Ip);
    inside("net::own_address::address_counts_as_own_from_the_moment_it_is_added", || {
        let (near, far) = (Hostile::listen("0.0.0.0:8080"), Hostile::on(far_away(8080)));
        let test_ws = configured("[net]\nweb = \"public\"\n");
        let server = test_ws.serve();
        let url = json!({"url": format!("http://{PUBLIC}:8080/text")});
        assert!(!server.call("http_request", &url).is_error);
        own(PUBLIC.into());
        let said = server.call("http_request", &url);
        assert!(said.is_error, "{}", said.text);
        assert_eq!((near.connections(), far.connections()), (0, 1));
        server.finish();
    });
}

#[test]
fn proxy_of_the_sandbox_refuses_the_own_public_address() {
    kit::needs!(Ip, Curl);
    inside("net::own_address::proxy_of_the_sandbox_refuses_the_own_public_address", || {
        let (near, far) = (Hostile::listen("0.0.0.0:8080"), Hostile::on(far_away(8080)));
        two_addresses();
        let test_ws = TestWorkspace::new();
        let fetch = |host: IpAddr, grant: &str| {
            let command = format!("curl -sS --max-time 20 http://{host}:8080/text");
            test_ws.call_with(&["--approve", "auto"], "shell", &json!({"command": command, "net": [grant]}))
        };
        // The positive control.
        assert!(fetch(PUBLIC.into(), "*").text().contains("hello"));
        let refused = fetch(OWN.into(), "*").text();
        assert!(refused.contains("which is an address of this machine"), "{refused}");
        assert_eq!((near.connections(), far.connections()), (0, 1));
    });
}
