//! Private and loopback addresses: refused in every notation, at every redirect.

use serde_json::{Value, json};

use super::{ask, configured, does, granting, hostile::Hostile};
use crate::support::TestWorkspace;

/// Ways to write an address that is not public; `PORT` is that of a server which listens there.
const SPELLINGS: &[&str] = &[
    "http://127.0.0.1:PORT/text",
    "//127.0.0.1:PORT/text",
    "127.0.0.1:PORT/text",
    "http://127.1:PORT/text",
    "http://127.0.1:PORT/text",
    "http://2130706433:PORT/text",
    "http://0x7f000001:PORT/text",
    "http://0x7f.0.0.1:PORT/text",
    "http://0x7F.1:PORT/text",
    "http://0177.0.0.1:PORT/text",
    "http://017700000001:PORT/text",
    "http://127.0.0.1.:PORT/text",
    "http://127.0.0.2:PORT/text",
    "http://0.0.0.0:PORT/text",
    "http://0:PORT/text",
    "http://localhost:PORT/text",
    "http://LOCALHOST.:PORT/text",
    "http://a.localhost:PORT/text",
    "http://%31%32%37.0.0.1:PORT/text",
    "http://loc%61lhost:PORT/text",
    "http://１２７.０.０.１:PORT/text",
    "http://127。0。0。1:PORT/text",
    "http://①②⑦.0.0.1:PORT/text",
    "http://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ:PORT/text",
    "http:127.0.0.1:PORT/text",
    "http:/\\127.0.0.1:PORT/text",
    "http:\\\\127.0.0.1:PORT\\text",
    "http://127.0.0.1:PORT\\@example.org/text",
    "http://127.0.0.1:PORT#@example.org/",
    "http://127.0.0.1:PORT?@example.org/",
    " \thttp://127.0.0.1:PORT/text\n",
    "ht\ntp://127.0.\t0.1:PORT/text",
    "HTTP://127.0.0.1:PORT/text",
    "https://127.0.0.1:PORT/text",
    "http://[::1]:PORT/text",
    "http://[0:0:0:0:0:0:0:1]:PORT/text",
    "http://[::]:PORT/text",
    "http://[::ffff:127.0.0.1]:PORT/text",
    "http://[::ffff:7f00:1]:PORT/text",
    "http://[::127.0.0.1]:PORT/text",
    "http://[::ffff:0:127.0.0.1]:PORT/text",
    "http://[64:ff9b::127.0.0.1]:PORT/text",
    "http://[64:ff9b:1::7f00:1]:PORT/text",
    "http://[2002:7f00:1::]:PORT/text",
    "http://[2001:0:4136:e378:8000:63bf:80ff:fffe]:PORT/text",
    "http://[fe80::1]:PORT/text",
    "http://[fec0::1]:PORT/text",
    "http://[fd00:ec2::254]/latest/meta-data/",
    "http://169.254.169.254/latest/meta-data/",
    "http://0xa9fea9fe/latest/meta-data/",
    "http://[::ffff:a9fe:a9fe]/latest/meta-data/",
    "http://metadata.google.internal/computeMetadata/v1/",
    "http://100.100.100.200/latest/meta-data/",
    "http://100.64.0.1/",
    "http://168.63.129.16/",
    "http://192.0.0.192/",
    "http://10.0.0.1/",
    "http://172.16.0.1/",
    "http://192.168.0.1/",
    "http://198.18.0.1/",
    "http://224.0.0.1/",
    "http://255.255.255.255/",
];

/// These are not addresses at all that haft asks at.
const REFUSED: &[&str] = &[
    "file:///etc/passwd",
    "ftp://127.0.0.1:PORT/text",
    "gopher://127.0.0.1:PORT/_GET",
    "data:text/plain,hello",
    "unix:///var/run/docker.sock",
    "http://",
    "http://user@127.0.0.1:PORT/text",
    "http://user:pass@127.0.0.1:PORT/text",
    "http://example.org@127.0.0.1:PORT/text",
    "http://127.0.0.1:PORT:80/text",
    "http://127.0.0.1:PORT%2f@example.org/",
    "http://[::1%25lo]:PORT/text",
    "http://999.0.0.1/",
    "",
];

fn calls(tool: &'static str, server: &Hostile, urls: &[&str], with: &Value) -> Vec<(&'static str, Value)> {
    let call = |url: &&str| {
        let mut arguments = json!({"url": url.replace("PORT", &server.port().to_string())});
        arguments.as_object_mut().unwrap().extend(with.as_object().unwrap().clone());
        (tool, arguments)
    };
    urls.iter().map(call).collect()
}

#[test]
fn private_address_is_refused_in_every_notation() {
    let server = Hostile::start();
    let test_ws = TestWorkspace::new();
    // Neither an approver that allows everything nor a grant of every host or of another port is enough.
    let open = configured("[net]\nallow = [\"*\", \"127.0.0.1:1\", \"localhost\", \"127.0.0.1\"]\n");
    for (test_ws, options) in
        [(&test_ws, &[][..]), (&test_ws, &["--approve", "auto"][..]), (&open, &["--approve", "auto"][..])]
    {
        for with in [json!({}), json!({"method": "POST", "body": "x"})] {
            let answers = test_ws.batch(options, &calls("http_request", &server, SPELLINGS, &with));
            for (url, answer) in SPELLINGS.iter().zip(answers) {
                let said = answer.text();
                assert_eq!(answer.kind(), "denied", "{url} {options:?}: {said}");
                assert!(said.contains("person"), "it names no next step: {url}: {said}");
            }
        }
    }
    for (url, answer) in
        REFUSED.iter().zip(test_ws.batch(&[], &calls("http_request", &server, REFUSED, &json!({}))))
    {
        assert_eq!(answer.kind(), "bad_args", "{url}: {}", answer.text());
    }
    assert_eq!(server.connections(), 0, "something was connected to");
    // The positive control: where it is granted with its port, the same server is reached.
    let granted = granting(&[&server]);
    assert!(does(&granted, &json!({"url": server.url("/text")})).contains("hello"));
    assert_eq!(server.connections(), 1);
}

#[test]
fn private_address_is_refused_by_web_fetch_too() {
    let server = Hostile::start();
    let test_ws = TestWorkspace::new();
    let all = [SPELLINGS, REFUSED].concat();
    let answers = test_ws.batch(&["--approve", "auto"], &calls("web_fetch", &server, &all, &json!({})));
    for (url, answer) in all.iter().zip(answers) {
        assert!(["denied", "bad_args"].contains(&answer.kind()), "{url}: {}", answer.text());
    }
    assert_eq!(server.connections(), 0, "something was connected to");
    // The positive control.
    let granted = granting(&[&server]);
    assert!(
        granted
            .call("web_fetch", &json!({"url": server.url("/html")}))
            .must("ok")
            .text()
            .contains("A paragraph.")
    );
}

#[test]
fn redirect_target_is_checked_like_a_request() {
    let (open, closed) = (Hostile::start(), Hostile::start());
    let test_ws = granting(&[&open]);
    let to = |target: &str, how: &str| json!({"url": open.url(&format!("/{how}?{target}"))});
    for how in ["301", "302", "303", "307", "308", "302-with-body"] {
        for target in [
            closed.url("/text"),
            format!("//{}/text", closed.host()),
            format!("http://localhost:{}/text", closed.port()),
            format!("http://2130706433:{}/text", closed.port()),
            format!("http:\\\\{}\\text", closed.host()),
            format!("http://user@{}/", closed.host()),
            "http://169.254.169.254/latest/meta-data/".to_owned(),
            "file:///etc/passwd".to_owned(),
        ] {
            let (kind, said) = ask(&test_ws, &to(&target, how));
            assert_eq!(kind, "denied", "{how} {target}: {said}");
            assert!(said.contains("redirects to"), "{said}");
        }
    }
    assert_eq!(closed.connections(), 0);
    // The positive control: a redirect to what is granted is followed.
    assert!(does(&test_ws, &to(&open.url("/text"), "302")).contains("hello"));
    assert!(does(&test_ws, &to("/text", "307")).contains("hello"));
}

#[test]
fn web_grant_does_not_allow_sending() {
    let server = Hostile::start();
    let test_ws = TestWorkspace::new();
    let url = "http://93.184.216.34:1/";
    for arguments in [
        json!({"url": url, "method": "POST"}),
        json!({"url": url, "method": "DELETE"}),
        json!({"url": url, "body": "x"}),
        json!({"url": url, "method": "GET", "json": {}}),
        json!({"url": url, "headers": {"X-HTTP-Method-Override": "DELETE"}}),
    ] {
        let (kind, said) = ask(&test_ws, &arguments);
        assert_eq!(kind, "denied", "{arguments}: {said}");
        assert!(said.contains("contacted only after approval") && said.contains("grants add"), "{said}");
    }
    let none = configured("[net]\nweb = \"none\"\n");
    let (kind, said) = ask(&none, &json!({"url": url}));
    assert!(kind == "denied" && said.contains("`web`"), "{said}");
    let asked = configured("[net]\nweb = \"ask\"\n");
    assert_eq!(ask(&asked, &json!({"url": url})).0, "denied");
    // A request that only reads is allowed where nothing may be changed, too.
    let reader = granting(&[&server]);
    let get =
        reader.call_with(&["--sandbox", "read-only"], "http_request", &json!({"url": server.url("/text")}));
    assert!(get.must("ok").text().contains("hello"));
}

#[test]
fn untrusted_workspace_grants_no_hosts() {
    let server = Hostile::start();
    let test_ws = TestWorkspace::new();
    test_ws.put(
        "haft.toml",
        format!(
            "[net]\nallow = [\"{0}\"]\nproxy = \"http://{0}\"\n[secret.x]\nenv = \"PATH\"\nhosts = [\"*\"]\n",
            server.host()
        ),
    );
    assert_eq!(ask(&test_ws, &json!({"url": server.url("/text")})).0, "denied");
    let (kind, said) = ask(&test_ws, &json!({"url": "https://example.invalid/{{secret:x}}"}));
    assert!(kind == "not_found" && said.contains("there is no secret `x`"), "{kind} {said}");
    assert_eq!(server.connections(), 0);
}
