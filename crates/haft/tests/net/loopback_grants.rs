//! Ports of the machine's loopback that a person granted: programs in the sandbox reach them without asking the proxy.

use std::fs;

use serde_json::json;

use super::{configured, hostile::Hostile};
use crate::{
    end_to_end::person::both,
    support::{Server, TestWorkspace},
};

/// Returns the output of curl for this address, in a command of its own, and in the persistent bash.
fn curl(haft: &Server, url: &str) -> [String; 2] {
    let command = json!({"command": format!("curl -sS --max-time 20 '{url}'")});
    ["shell", "bash"].map(|tool| haft.call(tool, &command).text)
}

#[test]
fn granted_port_of_the_machine_is_reached_by_plain_curl_and_no_other_port_is() {
    kit::needs!(Curl);
    let (granted, other) = (Hostile::start(), Hostile::start());
    for host in ["127.0.0.1", "localhost"] {
        let test_ws = configured(&format!("[net]\nallow = [\"{host}:{}\"]\n", granted.port()));
        let haft = test_ws.serve();
        // The bash that goes on begins before there is anything to reach.
        haft.does("bash", &json!({"command": "true"}));
        for asked in ["127.0.0.1", "localhost", "[::1]"] {
            for said in curl(&haft, &format!("http://{asked}:{}/text", granted.port())) {
                assert!(said.contains("hello"), "{host} {asked}: {said}");
            }
        }
        for asked in ["127.0.0.1", "localhost", "[::1]"] {
            for said in curl(&haft, &format!("http://{asked}:{}/text", other.port())) {
                let why = format!(
                    "sandbox: rule `net`: no process of this session listens at {asked}:{}, and this machine's own loopback is \
                     closed to commands: `shell` takes `net`: [\"{asked}:{}\"]",
                    other.port(),
                    other.port()
                );
                assert!(said.contains(&why), "{said}");
            }
        }
    }
    assert_eq!(other.connections(), 0);
}

#[test]
fn command_that_listens_at_a_forwarded_port_is_told_why_it_is_taken() {
    kit::needs!(SystemPython);
    let server = Hostile::start();
    let test_ws = configured(&format!("[net]\nallow = [\"{}\"]\n", server.host()));
    let haft = test_ws.serve();
    let command = format!("/usr/bin/python3 -m http.server --bind 127.0.0.1 {}", server.port());
    let said = haft.call("shell", &json!({"command": command})).text;
    assert!(
        said.contains(&format!("no command can listen at them: {}; take another port", server.port())),
        "{said}"
    );
}

#[test]
fn granted_port_of_ipv6_loopback_is_reached() {
    kit::needs!(Curl);
    let server = Hostile::listen("[::1]:0");
    let test_ws = configured(&format!("[net]\nallow = [\"[::1]:{}\"]\n", server.port()));
    let haft = test_ws.serve();
    for said in curl(&haft, &format!("http://[::1]:{}/text", server.port())) {
        assert!(said.contains("hello"), "{said}");
    }
}

#[test]
fn grant_that_comes_and_goes_opens_and_closes_the_port() {
    kit::needs!(Curl);
    let server = Hostile::start();
    let test_ws = TestWorkspace::new();
    let haft = test_ws.serve();
    let url = server.url("/text");
    let closed = "this machine's own loopback is closed to commands";
    for said in curl(&haft, &url) {
        assert!(said.contains(closed), "{said}");
    }
    let added = test_ws.run(&["grants", "add", &format!("net {}", server.host())]);
    assert_eq!(added.code, 0, "{added:?}");
    for said in curl(&haft, &url) {
        assert!(said.contains("hello"), "{said}");
    }
    let reached = server.connections();
    let revoked = test_ws.run(&["grants", "revoke", "1"]);
    assert_eq!(revoked.code, 0, "{revoked:?}");
    for said in curl(&haft, &url) {
        assert!(said.contains(closed), "{said}");
    }
    assert_eq!(server.connections(), reached);
}

#[test]
fn granted_port_where_nobody_listens_on_the_machine_is_free_for_the_session() {
    kit::needs!(SystemPython, Curl);
    let port = Hostile::start().port();
    let test_ws = configured(&format!("[net]\nallow = [\"127.0.0.1:{port}\"]\n"));
    let haft = test_ws.serve();
    let url = format!("http://127.0.0.1:{port}/");
    let [said, _] = curl(&haft, &url);
    assert!(said.contains(&format!("127.0.0.1:{port} is granted, but nothing listens there")), "{said}");
    fs::write(test_ws.at("page.txt"), "of the session").unwrap();
    let server = format!("/usr/bin/python3 -m http.server --bind 127.0.0.1 {port}");
    haft.does("shell", &json!({"command": server, "run_in_background": true}));
    let wait = format!("until curl -sS {url}page.txt; do sleep 0.05; done 2>/dev/null");
    assert!(haft.does("shell", &json!({"command": wait})).contains("of the session"));
    let said = haft.does("http_request", &json!({"url": format!("{url}page.txt")}));
    assert!(said.contains("of the session"), "{said}");
}

#[test]
fn grant_of_one_command_forwards_nothing_for_another_command() {
    kit::needs!(Curl);
    let server = Hostile::start();
    let url = server.url("/text");
    let test_ws = TestWorkspace::new();
    let [_, mut client, _] = both(&test_ws, &json!({"elicitation": {}}));
    let other = format!(
        "while [ ! -e go ]; do sleep 0.05; done; curl -sS --max-time 20 '{url}?stolen' >stolen 2>&1; mv stolen done"
    );
    let background = json!({"command": other, "run_in_background": true});
    let (said, is_error) = client.call("shell", &background, |method, _| panic!("{method}"));
    assert!(!is_error, "{said}");
    let command = format!(
        "curl -sS '{url}?before'; touch go; while [ ! -e done ]; do sleep 0.05; done; curl -sS '{url}?after'"
    );
    let mut asked = 0;
    let granted = json!({"command": command, "net": [server.host()]});
    let (said, is_error) = client.call("shell", &granted, |_, _| {
        asked += 1;
        json!({"action": "accept", "content": {"decision": "once"}})
    });
    assert_eq!((asked, is_error), (1, false), "{said}");
    assert_eq!(said.matches("hello").count(), 2, "{said}");
    let targets: Vec<String> = server.requests().iter().map(|it| it.target.clone()).collect();
    assert_eq!(targets, ["/text?before", "/text?after"]);
    assert!(!test_ws.text("done").contains("hello"), "{}", test_ws.text("done"));
    // With the call its grant has ended.
    let (said, _) =
        client.call("shell", &json!({"command": format!("curl -sS '{url}?later'")}), |method, _| {
            panic!("{method}")
        });
    assert!(said.contains("own loopback is closed to commands"), "{said}");
    assert_eq!(server.requests().len(), 2);
}
