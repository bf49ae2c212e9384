//! Requests to a client in the result of its request (multi-round requests).

use serde_json::{Value, json};

use super::{
    client::{Client, modern_offering},
    text,
};

fn everything() -> Value {
    json!({"elicitation": {}, "sampling": {}, "roots": {}})
}

fn ask(id: i64, arguments: &Value) -> Value {
    let params = json!({"name": "ask", "arguments": arguments});
    modern_offering(id, "tools/call", params, &everything())
}

/// Returns the same request again, with these answers.
fn again(id: i64, first: &Value, asked: &Value, responses: &Value) -> Value {
    let mut request = first.clone();
    request["id"] = json!(id);
    request["params"]["inputResponses"] = responses.clone();
    request["params"]["requestState"] = asked["result"]["requestState"].clone();
    request
}

fn accepted(name: &str) -> Value {
    json!({"action": "accept", "content": {"name": name}})
}

fn keys(asked: &Value) -> Vec<&str> {
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    asked["result"]["inputRequests"].as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn a_question_is_a_result_and_its_answer_comes_with_the_same_request() {
    let mut client = Client::start();
    let first = ask(1, &json!({"what": [["form", "name"], ["roots", "places"], ["model", "words"]]}));
    let asked = client.ask(&first);
    assert_eq!(keys(&asked), ["name", "places", "words"]);
    let requests = &asked["result"]["inputRequests"];
    assert_eq!(requests["name"]["method"], "elicitation/create");
    assert_eq!(requests["places"]["method"], "roots/list");
    assert_eq!(requests["words"]["params"]["maxTokens"], 10);
    assert_eq!(asked["result"]["requestState"].as_str().unwrap().len(), 32);
    let said = json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "It."}});
    let responses = json!({"name": accepted("Ann"), "places": {"roots": []}, "words": said, "other": 5});
    let done = client.ask(&again(2, &first, &asked, &responses));
    assert_eq!(done["result"]["resultType"], "complete");
    assert_eq!(text(&done), json!([accepted("Ann"), {"roots": []}, said]).to_string());
    client.end();
}

#[test]
fn the_call_goes_on_from_round_to_round_and_each_has_a_state_of_its_own() {
    let mut client = Client::start();
    let first = ask(1, &json!({"what": [["form", "a"]], "again": [["form", "b"]]}));
    let asked = client.ask(&first);
    let asked_again = client.ask(&again(2, &first, &asked, &json!({"a": accepted("Ann")})));
    assert_eq!(keys(&asked_again), ["b"]);
    assert_ne!(asked["result"]["requestState"], asked_again["result"]["requestState"]);
    let done = client.ask(&again(3, &first, &asked_again, &json!({"b": accepted("Bob")})));
    assert_eq!(text(&done), json!([accepted("Ann"), accepted("Bob")]).to_string());
    client.end();
}

#[test]
fn missing_and_invalid_answers_are_requested_again() {
    let mut client = Client::start();
    let first = ask(1, &json!({"what": [["form", "a"], ["form", "b"]]}));
    let asked = client.ask(&first);
    let asked = client.ask(&again(2, &first, &asked, &json!({"b": accepted("Bob"), "wrong": accepted("x")})));
    assert_eq!(keys(&asked), ["a"]);
    let asked = client.ask(&again(3, &first, &asked, &json!({"a": 12345})));
    assert_eq!(keys(&asked), ["a"]);
    let done = client.ask(&again(4, &first, &asked, &json!({"a": {"action": "cancel"}})));
    assert_eq!(text(&done), json!([{"action": "cancel"}, accepted("Bob")]).to_string());
    client.end();
}

#[test]
fn an_answer_may_come_with_the_request_where_its_key_is_known() {
    let mut client = Client::start();
    let mut first = ask(1, &json!({"what": [["form", "a"]]}));
    first["params"]["inputResponses"] = json!({"a": accepted("Ann"), "unknown": accepted("x")});
    assert_eq!(text(&client.ask(&first)), json!([accepted("Ann")]).to_string());
    for nonsense in [json!({"a": 12345}), json!({"wrong": accepted("x")}), Value::Null] {
        first["params"]["inputResponses"] = nonsense;
        assert_eq!(keys(&client.ask(&first)), ["a"]);
    }
    client.end();
}

#[test]
fn a_state_that_was_changed_used_or_belongs_elsewhere_is_refused() {
    let mut client = Client::start();
    let first = ask(1, &json!({"what": [["form", "a"]]}));
    let responses = json!({"a": accepted("Ann")});
    let asked = client.ask(&first);
    let good = again(2, &first, &asked, &responses);
    let mut tampered = good.clone();
    let state = asked["result"]["requestState"].as_str().unwrap();
    tampered["params"]["requestState"] = json!(format!("{state}-TAMPERED"));
    assert_eq!(client.code(&tampered), -32602);
    let mut other_arguments = good.clone();
    other_arguments["params"]["arguments"]["again"] = json!([]);
    assert_eq!(client.code(&other_arguments), -32602);
    let mut other_tool = good.clone();
    other_tool["params"]["name"] = json!("ask_together");
    assert_eq!(client.code(&other_tool), -32602);
    let mut elsewhere = Client::start();
    assert_eq!(elsewhere.code(&good), -32602);
    elsewhere.end();
    assert_eq!(text(&client.ask(&good)), json!([accepted("Ann")]).to_string());
    assert_eq!(client.code(&good), -32602, "it was used");
    client.end();
}

#[test]
fn simultaneous_requests_of_calls_are_kept_apart() {
    let mut client = Client::start();
    let firsts: Vec<Value> = (1..=20).map(|id| ask(id, &json!({"what": [["form", "a"]]}))).collect();
    let asked: Vec<Value> = firsts.iter().map(|first| client.ask(first)).collect();
    for (at, (first, asked)) in firsts.iter().zip(&asked).enumerate().rev() {
        let name = format!("number {at}");
        let id = 100 + i64::try_from(at).unwrap();
        let done = client.ask(&again(id, first, asked, &json!({"a": accepted(&name)})));
        assert_eq!(text(&done), json!([accepted(&name)]).to_string());
    }
    client.end();
}

#[test]
fn simultaneous_requests_of_one_call_share_a_round() {
    let mut client = Client::start();
    let params = json!({"name": "ask_together", "arguments": {"keys": ["a", "a", "b"]}});
    let first = modern_offering(1, "tools/call", params, &everything());
    let asked = client.ask(&first);
    assert_eq!(keys(&asked), ["a", "a_2", "b"]);
    let responses = json!({"a": accepted("1"), "a_2": accepted("2"), "b": accepted("3")});
    let done = client.ask(&again(2, &first, &asked, &responses));
    assert_eq!(text(&done), json!([accepted("1"), accepted("2"), accepted("3")]).to_string());
    client.end();
}

#[test]
fn a_missing_client_capability_is_an_error_that_names_it() {
    let mut client = Client::start();
    for (kind, required) in [
        ("form", json!({"elicitation": {"form": {}}})),
        ("address", json!({"elicitation": {"url": {}}})),
        ("model", json!({"sampling": {}})),
        ("roots", json!({"roots": {}})),
    ] {
        let params = json!({"name": "ask", "arguments": {"what": [[kind, "a"]]}});
        let refused = client.ask(&modern_offering(1, "tools/call", params, &json!({})));
        assert_eq!(refused["error"]["code"], -32021, "{refused}");
        assert_eq!(refused["error"]["data"]["requiredCapabilities"], required);
    }
    client.end();
}

#[test]
fn a_client_that_never_returns_does_not_keep_the_server_running() {
    let mut client = Client::start();
    keys(&client.ask(&ask(1, &json!({"what": [["form", "a"]]}))));
    client.end();
}

#[test]
fn a_retry_can_be_cancelled() {
    let mut client = Client::start();
    let first = ask(1, &json!({"what": [["form", "a"]], "again": [["form", "b"]]}));
    let asked = client.ask(&first);
    let asked = client.ask(&again(2, &first, &asked, &json!({"a": accepted("Ann")})));
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}));
    let done = client.ask(&again(3, &first, &asked, &json!({"b": accepted("Bob")})));
    assert_eq!(text(&done), json!([accepted("Ann"), accepted("Bob")]).to_string(), "2 was answered before");
    client.end();
}

#[test]
fn log_messages_are_sent_from_the_requested_level_on() {
    let mut client = Client::start();
    let mut request = modern_offering(1, "tools/call", json!({"name": "log"}), &json!({}));
    client.send(&request);
    assert_eq!(text(&client.next()), "logged");
    request["params"]["_meta"]["io.modelcontextprotocol/logLevel"] = json!("warning");
    client.send(&request);
    assert_eq!(client.next()["params"]["level"], "error");
    assert_eq!(text(&client.next()), "logged");
    client.end();
}
