//! Tasks: calls that take too long to wait for.

use serde_json::{Value, json};

use super::{
    client::{Client, modern_offering},
    text,
};

fn everything() -> Value {
    json!({"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}})
}

fn request(id: i64, method: &str, params: Value) -> Value {
    modern_offering(id, method, params, &everything())
}

fn begin(client: &mut Client, tool: &str, arguments: &Value) -> String {
    let begun = client.ask(&request(1, "tools/call", json!({"name": tool, "arguments": arguments})));
    let task = &begun["result"];
    assert_eq!((&task["resultType"], &task["status"]), (&json!("task"), &json!("working")), "{begun}");
    assert!(task["ttlMs"].as_u64() >= Some(3_600_000) && task["pollIntervalMs"].is_u64(), "{begun}");
    assert!(task.get("content").is_none() && task.get("inputRequests").is_none(), "{begun}");
    task["taskId"].as_str().unwrap().to_owned()
}

/// Polls until the task's status changes; returns the task.
fn until_not(client: &mut Client, task: &str, status: &str) -> Value {
    loop {
        let now = client.ask(&request(2, "tasks/get", json!({"taskId": task})));
        assert_eq!(now["result"]["resultType"], "complete", "{now}");
        if now["result"]["status"] != status {
            return now["result"].clone();
        }
    }
}

#[test]
fn a_task_has_the_same_result_as_its_call() {
    let mut client = Client::start();
    let task = begin(&mut client, "late", &json!({"what": []}));
    let done = until_not(&mut client, &task, "working");
    assert_eq!(done["status"], "completed");
    assert_eq!(done["result"]["content"], json!([{"type": "text", "text": "[]"}]));
    let again = client.ask(&request(3, "tasks/get", json!({"taskId": task})));
    assert_eq!(again["result"], done);
    client.end();
}

#[test]
fn quick_calls_and_clients_without_tasks_get_plain_results() {
    let mut client = Client::start();
    let quick = client.ask(&request(1, "tools/call", json!({"name": "echo", "arguments": {"text": "hi"}})));
    assert_eq!((text(&quick), &quick["result"]["resultType"]), ("hi", &json!("complete")));
    let params = json!({"name": "order", "arguments": {"number": 7}});
    let waited_for = client.ask(&modern_offering(2, "tools/call", params, &json!({})));
    assert_eq!(text(&waited_for), "[7]");
    for method in ["tasks/get", "tasks/cancel"] {
        let refused = client.ask(&modern_offering(3, method, json!({"taskId": "x"}), &json!({})));
        assert_eq!(refused["error"]["code"], -32021, "{refused}");
        assert_eq!(client.code(&request(4, method, json!({"taskId": "x"}))), -32602);
    }
    client.end();
}

#[test]
fn a_task_that_is_cancelled_says_so_and_stays_so() {
    let mut client = Client::start();
    let task = begin(&mut client, "wait", &json!({}));
    let cancel = request(5, "tasks/cancel", json!({"taskId": task}));
    assert_eq!(client.ask(&cancel)["result"], json!({"resultType": "complete"}));
    assert_eq!(until_not(&mut client, &task, "working")["status"], "cancelled");
    assert_eq!(client.ask(&cancel)["result"], json!({"resultType": "complete"}));
    assert_eq!(until_not(&mut client, &task, "working")["status"], "cancelled");
    client.end();
}

#[test]
fn a_panic_is_a_failed_task_and_a_fault_a_completed_one() {
    let mut client = Client::start();
    let task = begin(&mut client, "fault", &json!({}));
    let fault = until_not(&mut client, &task, "working");
    assert_eq!((&fault["status"], &fault["result"]["isError"]), (&json!("completed"), &json!(true)));
    let task = begin(&mut client, "panic", &json!({}));
    let failed = until_not(&mut client, &task, "working");
    assert_eq!((&failed["status"], &failed["error"]["code"]), (&json!("failed"), &json!(-32603)));
    assert!(failed.get("result").is_none(), "{failed}");
    client.end();
}

#[test]
fn a_task_asks_by_its_state_and_is_brought_its_answers() {
    let mut client = Client::start();
    let task = begin(&mut client, "late", &json!({"what": [["form", "a"], ["form", "b"]]}));
    let asks = until_not(&mut client, &task, "working");
    assert_eq!(asks["status"], "input_required", "{asks}");
    let keys: Vec<&String> = asks["inputRequests"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["a", "b"]);
    let yes = json!({"action": "accept", "content": {"name": "Ann"}});
    let part = request(6, "tasks/update", json!({"taskId": task, "inputResponses": {"a": yes, "x": 5}}));
    assert_eq!(client.ask(&part)["result"], json!({"resultType": "complete"}));
    let asks = client.ask(&request(7, "tasks/get", json!({"taskId": task})));
    assert_eq!(asks["result"]["inputRequests"].as_object().unwrap().keys().collect::<Vec<_>>(), ["b"]);
    let rest = request(8, "tasks/update", json!({"taskId": task, "inputResponses": {"b": yes}}));
    client.ask(&rest);
    let done = until_not(&mut client, &task, "working");
    assert_eq!(done["result"]["content"][0]["text"], json!([yes, yes]).to_string());
    client.end();
}
