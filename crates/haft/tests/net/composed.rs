//! Addresses that a model composed: a way out for what it read, so they are asked about once per host.

use serde_json::{Value, json};

use super::{
    configured,
    hostile::Hostile,
    namespace::{PUBLIC, far_away, inside},
};
use crate::{
    end_to_end::person::{Client, both},
    support::TestWorkspace,
};

fn url(path: &str) -> String {
    format!("http://{PUBLIC}:8080{path}")
}

fn targets(far: &Hostile) -> Vec<String> {
    far.requests().iter().map(|it| it.target.clone()).collect()
}

/// Runs a scripted model with this task; returns the outcomes of its calls, in order.
fn run(test_ws: &TestWorkspace, task: &str, calls: &[(&str, Value)]) -> Vec<(String, String)> {
    let mut lines: Vec<String> = calls
        .iter()
        .map(|(tool, arguments)| json!({"calls": [{"tool": tool, "arguments": arguments}]}).to_string())
        .collect();
    lines.push(json!({"say": "Done."}).to_string());
    let script = test_ws.base().join("script.jsonl");
    std::fs::write(&script, lines.join("\n")).unwrap();
    let ran = test_ws.run(&["run", "--json", "--model", &format!("script:{}", script.display()), task]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let events = ran.out.lines().map(|it| serde_json::from_str::<Value>(it).unwrap());
    let ends: Vec<Value> = events.filter(|it| it["event"] == "answered").collect();
    assert_eq!(ends.len(), calls.len(), "{}", ran.out);
    let end = |it: &Value| (it["fault"].as_str().unwrap_or("ok").to_owned(), it.to_string());
    ends.iter().map(end).collect()
}

#[test]
fn only_addresses_that_a_person_or_a_page_named_are_requested_where_nobody_can_be_asked() {
    kit::needs!(Ip);
    inside(
        "net::composed::only_addresses_that_a_person_or_a_page_named_are_requested_where_nobody_can_be_asked",
        || {
            let far = Hostile::on(far_away(8080));
            let test_ws = configured("[net]\nweb = \"known\"\n");
            test_ws.put("notes.md", format!("see {}\n", url("/text?of-a-file")));
            let get = |path: &str| ("http_request", json!({"url": url(path)}));
            let query = json!({"url": url("/page"), "query": {"secret": "1"}});
            let header = json!({"url": url("/page"), "headers": {"X-Data": "secret"}});
            let ends = run(
                &test_ws,
                &format!("Read {} and what it links to.", url("/page")),
                &[
                    // Denied: composed.
                    get("/text?secret"),
                    get("/text?of-a-page"),
                    // Named by the person; its links are named by it, and redirects count with the first address.
                    ("web_fetch", json!({"url": url("/page#part")})),
                    get("/text?of-a-page"),
                    get("/302?/text?behind"),
                    // Denied: longer, shorter, with something beside, from a file, from a command.
                    get("/text?of-a-page&secret"),
                    get("/text"),
                    ("http_request", query),
                    ("http_request", header),
                    ("read", json!({"path": "notes.md"})),
                    get("/text?of-a-file"),
                    ("shell", json!({"command": format!("echo {}", url("/text?of-a-command"))})),
                    get("/text?of-a-command"),
                    ("image_view", json!({"url": url("/binary?secret")})),
                ],
            );
            let kinds: Vec<&str> = ends.iter().map(|it| it.0.as_str()).collect();
            let (ok, no) = ("ok", "denied");
            let expected = [no, no, ok, ok, ok, no, no, no, no, ok, no, ok, no, no];
            assert_eq!(kinds, expected, "{ends:#?}");
            assert_eq!(targets(&far), ["/page", "/text?of-a-page", "/302?/text?behind", "/text?behind"]);
            let said = &ends[0].1;
            assert!(said.contains("rule `composed`") && said.contains("grants add"), "{said}");
            // A host that the person allowed is asked about nowhere, and what it echoes names nothing.
            let other = configured(&format!("[net]\nweb = \"known\"\nallow = [\"{PUBLIC}\"]\n"));
            let hidden = "/echo?http://93.184.216.99:8080/?secret";
            let ends = run(
                &other,
                "Go.",
                &[
                    get(hidden),
                    get("/text?x"),
                    ("http_request", json!({"url": "http://93.184.216.99:8080/?secret"})),
                ],
            );
            let kinds: Vec<&str> = ends.iter().map(|it| it.0.as_str()).collect();
            assert_eq!(kinds, [ok, ok, no], "{ends:#?}");
        },
    );
}

#[test]
fn composed_address_is_asked_about_once_per_host_through_a_client() {
    kit::needs!(Ip);
    inside("net::composed::composed_address_is_asked_about_once_per_host_through_a_client", || {
        let far = Hostile::on(far_away(8080));
        for client in 0..3 {
            // A grant for one session does not apply to the next.
            let test_ws = TestWorkspace::new();
            let mut client: Client =
                both(&test_ws, &json!({"elicitation": {}})).into_iter().nth(client).unwrap();
            let before = far.connections();
            let mut asked = Vec::new();
            for (path, decision, is_error) in
                [("/text?a", "no", true), ("/text?b", "session", false), ("/text?c", "no", false)]
            {
                let (said, failed) = client.call("http_request", &json!({"url": url(path)}), |_, params| {
                    asked.push(params["message"].as_str().unwrap().to_owned());
                    json!({"action": "accept", "content": {"decision": decision}})
                });
                assert_eq!(failed, is_error, "{said}");
            }
            assert_eq!(asked.len(), 2, "{asked:?}");
            assert!(asked[0].contains("/text?a") && asked[0].contains("the model made up"), "{}", asked[0]);
            assert_eq!(far.connections() - before, 2);
            client.end();
        }
    });
}

#[test]
fn open_web_is_the_default_where_nobody_can_be_asked_and_is_said_once() {
    kit::needs!(Ip);
    inside("net::composed::open_web_is_the_default_where_nobody_can_be_asked_and_is_said_once", || {
        let far = Hostile::on(far_away(8080));
        let test_ws = TestWorkspace::new();
        let server = test_ws.serve();
        let get = |path: &str| server.does("http_request", &json!({"url": url(path)}));
        let note = "addresses that the model composes are requested unasked";
        assert!(get("/text?a").contains(note) && !get("/text?b").contains(note));
        assert_eq!(far.connections(), 2);
        drop(server);
        // A person who configured this gets no note.
        let server = configured("[net]\nweb = \"public\"\n").serve();
        assert!(!server.does("http_request", &json!({"url": url("/text?c")})).contains(note));
        drop(server);
        let server = configured("[net]\nweb = \"known\"\n").serve();
        let said = server.call("http_request", &json!({"url": url("/text?d")}));
        assert!(said.is_error && said.text.contains("rule `composed`"), "{}", said.text);
        assert_eq!(far.connections(), 3);
    });
}
