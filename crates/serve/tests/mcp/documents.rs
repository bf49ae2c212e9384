//! Resources, prompts, completion, logging and change notifications in each revision.

use serde_json::{Value, json};

use super::client::{Client, call, modern};

const LEGACY: [&str; 2] = ["2024-11-05", "2025-11-25"];

/// Starts a client of a revision: the newest needs no handshake.
fn client(revision: &str) -> Client {
    let mut client = Client::start();
    if revision != "2026-07-28" {
        client.initialize(revision);
    }
    client
}

fn request(revision: &str, id: i64, method: &str, params: &Value) -> Value {
    match revision {
        "2026-07-28" => modern(id, method, params.clone()),
        _ => json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}),
    }
}

/// Returns the next message of this method; others before it are skipped.
fn heard(client: &mut Client, method: &str) -> Value {
    loop {
        let message = client.next();
        if message["method"] == method {
            return message["params"].clone();
        }
    }
}

fn all_of(client: &mut Client, revision: &str, method: &str, list: &str) -> Vec<Vec<Value>> {
    let (mut pages, mut params) = (Vec::new(), json!({}));
    loop {
        let id = 100 + i64::try_from(pages.len()).unwrap();
        let result = client.ask(&request(revision, id, method, &params))["result"].clone();
        pages.push(result[list].as_array().unwrap_or_else(|| panic!("{result}")).clone());
        match &result["nextCursor"] {
            Value::Null => return pages,
            cursor => params = json!({"cursor": cursor}),
        }
    }
}

#[test]
fn lists_come_in_pages_and_a_wrong_cursor_is_refused() {
    for revision in ["2024-11-05", "2025-11-25", "2026-07-28"] {
        let mut client = client(revision);
        let pages = all_of(&mut client, revision, "resources/list", "resources");
        assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [100, 100, 53]);
        let all: Vec<Value> = pages.concat();
        assert_eq!(
            all[2],
            json!({"uri": "test://text", "name": "text", "description": "A document.",
                "mimeType": "text/plain", "size": 5})
        );
        assert_eq!(all[252]["uri"], "test://many/249");
        let templates = all_of(&mut client, revision, "resources/templates/list", "resourceTemplates");
        assert_eq!(templates[0][0]["uriTemplate"], "test://many/{number}");
        for (id, method) in
            (1..).zip(["tools/list", "resources/list", "resources/templates/list", "prompts/list"])
        {
            let listed = client.ask(&request(revision, id, method, &json!({})));
            let has_hints = listed["result"].get("ttlMs").is_some();
            assert_eq!(has_hints, revision == "2026-07-28", "{listed}");
            let wrong = request(revision, id, method, &json!({"cursor": "x"}));
            assert_eq!(client.code(&wrong), -32602, "{method}");
        }
        // The cursor of one list is not valid for another.
        let first = client.ask(&request(revision, 9, "resources/list", &json!({})));
        let other = json!({"cursor": first["result"]["nextCursor"]});
        assert_eq!(client.code(&request(revision, 10, "tools/list", &other)), -32602);
        client.end();
    }
}

#[test]
fn documents_are_read_as_text_or_bytes_and_missing_ones_are_named() {
    for revision in ["2024-11-05", "2025-11-25", "2026-07-28"] {
        let mut client = client(revision);
        let mut read = |uri: &str| client.ask(&request(revision, 1, "resources/read", &json!({"uri": uri})));
        assert_eq!(read("test://text")["result"]["contents"][0]["text"], "hello");
        let blob = read("test://blob")["result"]["contents"].clone();
        assert_eq!((&blob[0]["uri"], &blob[0]["blob"]), (&json!("test://blob"), &json!("/wA=")));
        assert_eq!(blob[0].get("text"), None);
        let missing = if revision == "2026-07-28" { -32602 } else { -32002 };
        for (uri, code) in [
            ("test://nothing", missing),
            ("", missing),
            ("test://denied", -32600),
            ("test://panic", -32603),
            ("test://huge", -32603),
        ] {
            let error = read(uri)["error"].clone();
            assert_eq!((&error["code"], &error["data"]["uri"]), (&json!(code), &json!(uri)), "{error}");
        }
        assert_eq!(read(&format!("test://{}", "x".repeat(9000)))["error"]["code"], -32602);
        assert_eq!(read("test://text")["result"]["contents"][0]["text"], "hello");
        client.end();
    }
}

#[test]
fn a_cancelled_read_is_not_answered() {
    let mut client = Client::ready();
    client.send(&request("", 7, "resources/read", &json!({"uri": "test://wait"})));
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}));
    let again = loop {
        let answer = client.ask(&request("", 7, "resources/read", &json!({"uri": "test://text"})));
        if answer["error"]["code"] != -32600 {
            break answer;
        }
    };
    assert_eq!(again["result"]["contents"][0]["text"], "hello");
    client.end();
}

#[test]
fn prompts_are_filled_in() {
    for revision in ["2024-11-05", "2025-11-25", "2026-07-28"] {
        let mut client = client(revision);
        let listed = client.ask(&request(revision, 1, "prompts/list", &json!({})));
        assert_eq!(
            listed["result"]["prompts"],
            json!([{"name": "greet", "description": "Greet somebody.",
                "arguments": [{"name": "who", "description": "Whom.", "required": true}]}])
        );
        let mut get = |params: Value| client.ask(&request(revision, 2, "prompts/get", &params));
        let messages =
            get(json!({"name": "greet", "arguments": {"who": "Ada"}}))["result"]["messages"].clone();
        assert_eq!(messages[0], json!({"role": "user", "content": {"type": "text", "text": "Greet Ada."}}));
        assert_eq!(messages[1]["role"], "assistant");
        let link = if revision == "2024-11-05" { "text" } else { "resource_link" };
        assert_eq!(messages[2]["content"]["type"], link, "{messages}");
        for wrong in [
            json!({"name": "nothing"}),
            json!({"name": "greet"}),
            json!({"name": "greet", "arguments": {"who": 5}}),
            json!({"name": "greet", "arguments": {"who": "x".repeat(2 << 20)}}),
        ] {
            assert_eq!(get(wrong)["error"]["code"], -32602);
        }
        client.end();
    }
}

#[test]
fn arguments_are_completed_a_hundred_at_a_time() {
    for revision in ["2024-11-05", "2025-11-25", "2026-07-28"] {
        let mut client = client(revision);
        let mut complete = |of: Value, value: &str| {
            let name = if of["name"].is_null() { "number" } else { "who" };
            let params = json!({"ref": of, "argument": {"name": name, "value": value}});
            client.ask(&request(revision, 1, "completion/complete", &params))
        };
        let prompt = json!({"type": "ref/prompt", "name": "greet"});
        assert_eq!(
            complete(prompt.clone(), "x")["result"]["completion"],
            json!({"values": ["xanna", "xberta"], "total": 2, "hasMore": false})
        );
        let of = json!({"type": "ref/resource", "uri": "test://many/{number}"});
        let many = complete(of, "")["result"]["completion"].clone();
        assert_eq!(many["values"].as_array().unwrap().len(), 100);
        assert_eq!((&many["total"], &many["hasMore"]), (&json!(250), &json!(true)));
        for unknown in
            [json!({"type": "ref/prompt", "name": "nothing"}), json!({"type": "ref/resource", "uri": "x"})]
        {
            assert_eq!(complete(unknown, "")["error"]["code"], -32602);
        }
        assert_eq!(complete(prompt, &"x".repeat(5000))["error"]["code"], -32602);
        client.end();
    }
}

#[test]
fn until_2025_a_client_gets_all_change_notifications() {
    for revision in LEGACY {
        let mut client = client(revision);
        for (what, list) in [("tools", "tools"), ("documents", "resources"), ("prompts", "prompts")] {
            client.send(&call(1, "touch", &json!({"what": what})));
            heard(&mut client, &format!("notifications/{list}/list_changed"));
        }
        let nothing = request(revision, 2, "subscriptions/listen", &json!({"notifications": {}}));
        assert_eq!(client.code(&nothing), -32601);
        // Answers that were sent before the notification have arrived already.
        client.ask(&call(3, "echo", &json!({"text": "x"})));
        client.end();
    }
}

#[test]
fn until_2025_a_client_subscribes_to_documents() {
    for revision in LEGACY {
        let mut client = client(revision);
        let counter = json!({"uri": "test://counter"});
        for _ in 0..2 {
            let answer = client.ask(&request(revision, 1, "resources/subscribe", &counter));
            assert_eq!(answer["result"], json!({}), "{answer}");
        }
        client.send(&call(2, "touch", &json!({"what": "counter"})));
        assert_eq!(heard(&mut client, "notifications/resources/updated"), counter);
        let answer = client.ask(&request(revision, 3, "resources/unsubscribe", &counter));
        assert_eq!(answer["result"], json!({}));
        client.ask(&call(4, "touch", &json!({"what": "counter"})));
        let read = client.ask(&request(revision, 5, "resources/read", &counter));
        assert_eq!(read["result"]["contents"][0]["text"], "2");
        // A document that never changes can be subscribed to, and a missing one can't.
        let text = request(revision, 6, "resources/subscribe", &json!({"uri": "test://text"}));
        assert!(client.ask(&text)["result"].is_object());
        let nothing = request(revision, 7, "resources/subscribe", &json!({"uri": "test://nothing"}));
        assert_eq!(client.code(&nothing), -32002);
        client.end();
    }
}

#[test]
fn from_2026_on_a_client_gets_the_notifications_it_subscribes_to() {
    let mut client = Client::start();
    let listen = json!({"notifications": {"toolsListChanged": true, "resourcesListChanged": true,
        "resourceSubscriptions": ["test://counter", "test://text"]}});
    client.send(&modern(1, "subscriptions/listen", listen));
    let accepted = heard(&mut client, "notifications/subscriptions/acknowledged");
    assert_eq!(
        accepted["notifications"],
        json!({"toolsListChanged": true, "resourcesListChanged": true,
            "resourceSubscriptions": ["test://counter"]})
    );
    let touch =
        |id: i64, what: &str| modern(id, "tools/call", json!({"name": "touch", "arguments": {"what": what}}));
    client.send(&touch(2, "prompts"));
    for (id, what, method) in [
        (3, "tools", "notifications/tools/list_changed"),
        (4, "documents", "notifications/resources/list_changed"),
        (5, "counter", "notifications/resources/updated"),
    ] {
        client.send(&touch(id, what));
        let told = loop {
            let message = client.next();
            assert_ne!(message["method"], "notifications/prompts/list_changed", "nobody listens for that");
            if message["method"] == method {
                break message;
            }
        };
        assert_eq!(told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 1, "{told}");
    }
    for (id, method) in (6..).zip(["resources/subscribe", "resources/unsubscribe"]) {
        assert_eq!(client.code(&modern(id, method, json!({"uri": "test://counter"}))), -32601);
    }
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}));
    client.ask(&touch(8, "tools"));
    client.close_input();
    client.has_ended();
}

#[test]
fn until_2025_a_client_sets_its_log_level_once() {
    for revision in LEGACY {
        let mut client = client(revision);
        let level = |level: &str| request(revision, 1, "logging/setLevel", &json!({"level": level}));
        client.send(&call(2, "touch", &json!({"what": "notices"})));
        let said = heard(&mut client, "notifications/message");
        assert_eq!(said, json!({"level": "warning", "logger": "fake", "data": {"notice": 1}}));
        assert_eq!(heard(&mut client, "notifications/message")["level"], "critical");
        assert_eq!(client.ask(&level("emergency"))["result"], json!({}));
        assert_eq!(client.code(&level("loud")), -32602);
        client.ask(&call(3, "touch", &json!({"what": "notices"})));
        assert_eq!(client.ask(&level("info"))["result"], json!({}));
        client.send(&call(4, "touch", &json!({"what": "notices"})));
        let heard_levels: Vec<Value> =
            (0..3).map(|_| heard(&mut client, "notifications/message")["level"].clone()).collect();
        assert_eq!(json!(heard_levels), json!(["info", "warning", "critical"]));
        client.ask(&request(revision, 6, "ping", &json!({})));
        // Log records of a request come before its answer.
        client.send(&request(revision, 5, "resources/read", &json!({"uri": "test://told"})));
        let told: Vec<Value> = (0..2).map(|_| client.next()["params"]["data"].clone()).collect();
        assert_eq!(json!(told), json!(["info", "error"]));
        assert_eq!(client.next()["id"], 5);
        client.end();
    }
}

#[test]
fn from_2026_on_each_request_sets_its_log_level() {
    let mut client = Client::start();
    let read = |id: i64| modern(id, "resources/read", json!({"uri": "test://told"}));
    client.send(&read(1));
    assert_eq!(client.next()["id"], 1, "without a level nothing is told");
    let mut with_level = read(2);
    with_level["params"]["_meta"]["io.modelcontextprotocol/logLevel"] = json!("error");
    client.send(&with_level);
    assert_eq!(client.next()["params"]["data"], "error");
    assert_eq!(client.next()["id"], 2);
    client.ask(&modern(3, "tools/call", json!({"name": "touch", "arguments": {"what": "notices"}})));
    client.send(&read(4));
    assert_eq!(client.next()["id"], 4, "a notice belongs to no request");
    assert_eq!(client.code(&modern(5, "logging/setLevel", json!({"level": "info"}))), -32601);
    client.end();
}

#[test]
fn structured_content_is_sent_if_it_equals_the_text() {
    for (revision, is_known) in [("2024-11-05", false), ("2025-11-25", true), ("2026-07-28", true)] {
        let mut client = client(revision);
        let mut said = |text: &str| {
            let params = json!({"name": "json", "arguments": {"text": text}});
            client.ask(&request(revision, 1, "tools/call", &params))["result"].clone()
        };
        let same = said("{\"n\": 1}");
        assert_eq!(same.get("structuredContent"), is_known.then_some(&json!({"n": 1})));
        assert_eq!(same["content"][0]["text"], "{\"n\": 1}");
        assert_eq!(said("n is 1").get("structuredContent"), None);
        let link = client.ask(&request(revision, 2, "tools/call", &json!({"name": "link"})));
        let kind = if is_known { "resource_link" } else { "text" };
        assert_eq!(link["result"]["content"][0]["type"], kind, "{link}");
        client.end();
    }
}
