//! Tests of requests to a client (elicitation, sampling, roots) before revision 2026-07-28.

use serde_json::{Value, json};

use super::{
    LEGACY,
    client::{Client, call},
    text,
};

fn ask(id: i64, what: &[(&str, &str)]) -> Value {
    call(id, "ask", &json!({"what": what}))
}

fn everything() -> Value {
    json!({"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}})
}

/// Returns the server's next request.
fn question(client: &mut Client, method: &str) -> Value {
    let question = client.next();
    assert_eq!(question["method"], method, "{question}");
    question
}

fn answer(client: &mut Client, question: &Value, result: &Value) {
    client.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": result}));
}

fn accepted(name: &str) -> Value {
    json!({"action": "accept", "content": {"name": name}})
}

#[test]
fn each_kind_of_question_reaches_the_client_and_its_answer_the_call() {
    for version in LEGACY {
        let mut client = Client::offering(version, &everything());
        let asked =
            [("form", "a"), ("roots", "b"), ("model", "c"), ("address", "d"), ("model with tools", "e")];
        client.send(&ask(7, &asked));
        let form = question(&mut client, "elicitation/create");
        assert_eq!((&form["params"]["mode"], &form["params"]["message"]), (&json!("form"), &json!("a?")));
        assert_eq!(form["params"]["requestedSchema"]["required"], json!(["name"]));
        let roots = question(&mut client, "roots/list");
        let model = question(&mut client, "sampling/createMessage");
        assert_eq!(model["params"]["messages"][0]["content"]["text"], "Say it.");
        let address = question(&mut client, "elicitation/create");
        assert_eq!(address["params"]["url"], "https://example.org/");
        let with_tools = question(&mut client, "sampling/createMessage");
        assert_eq!(with_tools["params"]["tools"][0]["name"], "x");
        let said = json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "It."}});
        let places = json!({"roots": [{"uri": "file:///x"}]});
        // In any order.
        answer(&mut client, &model, &said);
        answer(&mut client, &roots, &places);
        answer(&mut client, &with_tools, &said);
        answer(&mut client, &form, &accepted("Ann"));
        answer(&mut client, &address, &json!({"action": "decline"}));
        let done = client.next();
        let answers: Value = serde_json::from_str(text(&done)).unwrap();
        assert_eq!(answers[0], accepted("Ann"));
        assert_eq!(answers[1], places);
        assert_eq!(answers[2]["content"], said["content"]);
        assert_eq!(answers[3]["action"], "decline");
        assert_eq!(answers[4]["model"], "m");
        client.end();
    }
}

#[test]
fn clients_get_no_requests_that_they_do_not_offer() {
    let mut client = Client::offering("2025-11-25", &json!({"sampling": {}}));
    for (kind, capability) in [
        ("form", "elicitation"),
        ("address", "elicitation"),
        ("model with tools", "sampling"),
        ("roots", "roots"),
    ] {
        let refused = client.ask(&ask(2, &[(kind, "a")]));
        assert_eq!(refused["result"]["isError"], true, "{refused}");
        assert!(text(&refused).contains(&format!("`{capability}`")), "{refused}");
    }
    client.send(&ask(3, &[("model", "a")]));
    question(&mut client, "sampling/createMessage");
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 3}}));
    assert_eq!(client.next()["method"], "notifications/cancelled");
    client.end();
}

#[test]
fn a_cancelled_call_cancels_its_request_to_the_client() {
    let mut client = Client::offering("2025-11-25", &everything());
    client.send(&ask(7, &[("form", "a"), ("roots", "b")]));
    let form = question(&mut client, "elicitation/create");
    let roots = question(&mut client, "roots/list");
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}));
    let taken_back = [client.next(), client.next()].map(|it| {
        assert_eq!(it["method"], "notifications/cancelled", "{it}");
        it["params"]["requestId"].clone()
    });
    assert!([&form, &roots].iter().all(|it| taken_back.contains(&it["id"])), "{taken_back:?}");
    // A late answer is ignored.
    answer(&mut client, &form, &accepted("Ann"));
    assert_eq!(text(&client.ask(&call(8, "echo", &json!({"text": "x"})))), "x");
    client.end();
}

#[test]
fn refusals_and_invalid_answers_of_a_client_are_in_the_result() {
    let mut client = Client::offering("2025-11-25", &everything());
    client.send(&ask(7, &[("form", "a")]));
    let form = question(&mut client, "elicitation/create");
    client.send(
        &json!({"jsonrpc": "2.0", "id": form["id"], "error": {"code": -32601, "message": "not today"}}),
    );
    assert_eq!(text(&client.next()), "the client refused: not today");
    client.send(&ask(8, &[("form", "a")]));
    let form = question(&mut client, "elicitation/create");
    answer(&mut client, &form, &json!({"roots": []}));
    assert_eq!(text(&client.next()), "what the client answered is not an answer to what it was asked");
    client.end();
}

#[test]
fn a_client_that_goes_away_while_it_is_asked_ends_the_call() {
    let mut client = Client::offering("2025-11-25", &everything());
    client.send(&ask(7, &[("form", "a")]));
    question(&mut client, "elicitation/create");
    client.close_input();
    client.has_ended();
}

#[test]
fn other_calls_go_on_while_one_asks() {
    let mut client = Client::offering("2025-11-25", &everything());
    client.send(&ask(7, &[("form", "a")]));
    let form = question(&mut client, "elicitation/create");
    assert_eq!(text(&client.ask(&call(8, "echo", &json!({"text": "x"})))), "x");
    answer(&mut client, &form, &accepted("Ann"));
    assert_eq!(client.next()["id"], 7);
    client.end();
}

#[test]
fn log_messages_of_a_call_precede_its_answer() {
    let mut client = Client::offering("2025-11-25", &json!({}));
    let level = json!({"jsonrpc": "2.0", "id": 6, "method": "logging/setLevel", "params": {"level": "info"}});
    assert_eq!(client.ask(&level)["result"], json!({}));
    client.send(&call(7, "log", &json!({})));
    let logged = [client.next(), client.next()];
    assert_eq!(logged[0]["params"], json!({"level": "info", "logger": "fake", "data": "a little"}));
    assert_eq!(logged[1]["params"], json!({"level": "error", "logger": "fake", "data": {"much": true}}));
    assert!(logged.iter().all(|it| it["method"] == "notifications/message"), "{logged:?}");
    assert_eq!(text(&client.next()), "logged");
    client.end();
}
