//! Framing: no line that a client sends stops the server or breaks its output.

use std::collections::BTreeMap;

use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};

use super::client::{Client, call, initialize, modern};

const METHODS: &[&str] = &[
    "initialize",
    "ping",
    "server/discover",
    "tools/list",
    "tools/call",
    "completion/complete",
    "logging/setLevel",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/subscribe",
    "subscriptions/listen",
    "tasks/get",
    "tasks/cancel",
    "skills/list",
    "no/such/method",
];

/// Some JSON, not deep and not large.
fn some_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        Just(json!("echo")),
        Just(json!("2025-06-18")),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let key = prop_oneof![
            ".{0,6}",
            Just("_meta".to_owned()),
            Just("name".to_owned()),
            Just("arguments".to_owned()),
            Just("progressToken".to_owned()),
            Just("protocolVersion".to_owned()),
            Just("capabilities".to_owned()),
            Just("clientInfo".to_owned()),
            Just("uri".to_owned()),
            Just("requestId".to_owned()),
        ];
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::hash_map(key, inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// A request with this id, whose params may be anything.
fn some_request(id: usize) -> impl Strategy<Value = Value> {
    (proptest::sample::select(METHODS), proptest::option::of(some_json())).prop_map(
        move |(method, params)| {
            let mut request = json!({"jsonrpc": "2.0", "id": id, "method": method});
            if let Some(params) = params {
                request["params"] = params;
            }
            request
        },
    )
}

#[derive(Debug, Clone)]
enum Piece {
    Noise(Vec<u8>),
    Json(Value),
    Request,
    Broken(usize),
}

fn piece() -> impl Strategy<Value = Piece> {
    prop_oneof![
        vec(any::<u8>(), 0..60).prop_map(Piece::Noise),
        some_json().prop_map(Piece::Json),
        Just(Piece::Request),
        (1usize..60).prop_map(Piece::Broken),
    ]
}

/// Sends the text in writes of these lengths, repeated.
fn send_split(client: &mut Client, text: &[u8], lengths: &[usize]) {
    let mut rest = text;
    for &length in lengths.iter().cycle() {
        let (head, tail) = rest.split_at(length.min(rest.len()));
        client.send_bytes(head);
        rest = tail;
        if rest.is_empty() {
            return;
        }
    }
}

/// Reads until a request that was sent last is answered; returns the number of answers per id.
fn answers(client: &mut Client, last: &Value) -> BTreeMap<String, usize> {
    client.send(last);
    let mut counts = BTreeMap::new();
    loop {
        let message = client.next();
        let is_answer = message.get("result").is_some() != message.get("error").is_some();
        assert!(is_answer && message.get("id").is_some(), "{message}");
        if message["id"] == last["id"] {
            return counts;
        }
        *counts.entry(message["id"].to_string()).or_default() += 1;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn valid_requests_are_answered_whatever_lies_between_them(
        pieces in vec(piece(), 1..30),
        lengths in vec(1usize..80, 1..20),
    ) {
        let mut client = Client::ready();
        let mut text = Vec::new();
        let mut good = 0;
        for piece in &pieces {
            match piece {
                Piece::Noise(bytes) => text.extend_from_slice(bytes),
                Piece::Json(value) => text.extend_from_slice(value.to_string().as_bytes()),
                Piece::Request => {
                    text.extend_from_slice(call(1000 + good, "echo", &json!({"text": "x"})).to_string().as_bytes());
                    good += 1;
                }
                Piece::Broken(length) => {
                    let request = call("broken", "echo", &json!({"text": "x"})).to_string();
                    text.extend_from_slice(&request.as_bytes()[..*length]);
                }
            }
            text.push(b'\n');
        }
        send_split(&mut client, &text, &lengths);
        // Answers may overtake each other, so the last request is sent when the others are answered.
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for _ in 0..good {
            let message = loop {
                let message = client.next();
                if message["result"].is_object() {
                    break message;
                }
                prop_assert!(message["error"]["code"].is_i64(), "{}", message);
            };
            *counts.entry(message["id"].to_string()).or_default() += 1;
        }
        let expected: BTreeMap<String, usize> =
            (1000..1000 + good).map(|id: usize| (id.to_string(), 1)).collect();
        prop_assert_eq!(counts, expected);
        let rest = answers(&mut client, &call("last", "echo", &json!({"text": "x"})));
        prop_assert!(!rest.keys().any(|id| id.starts_with("10")), "answered twice: {:?}", rest);
        client.end();
    }

    #[test]
    fn any_request_is_answered_once_before_and_after_initialize(
        before in vec(some_request(0), 0..12),
        after in vec(some_request(0), 0..24),
    ) {
        let mut client = Client::start();
        for (id, request) in before.into_iter().enumerate() {
            let mut request = request;
            request["id"] = json!(id);
            let answer = client.ask(&request);
            prop_assert!(answer["result"].is_object() != answer["error"].is_object(), "{}", answer);
        }
        prop_assert!(client.ask(&initialize(500, "2025-11-25"))["result"].is_object());
        for (id, request) in (1000..).zip(after) {
            let mut request = request;
            request["id"] = json!(id);
            let answer = client.ask(&request);
            prop_assert!(answer["result"].is_object() != answer["error"].is_object(), "{}", answer);
        }
        let listed = client.ask(&modern(2000, "tools/list", json!({})));
        prop_assert!(listed["result"].is_object(), "{}", listed);
        client.end();
    }
}
