//! Streams of events: each row once, through reconnections and the death of the server.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::support::{AT_MOST, Row, Sent, Served, Stage, token, wait_for};

/// The texts of a session as a page has them, by the number of their first piece.
#[derive(Default)]
struct Page {
    last: u64,
    texts: BTreeMap<u64, String>,
    blocks: BTreeMap<u64, Vec<Value>>,
    kinds: Vec<String>,
}

impl Page {
    #[track_caller]
    fn add(&mut self, row: &Row) {
        assert!(row.seq > self.last, "row {} came after {}", row.seq, self.last);
        self.last = row.seq;
        if row.kind() != "text" {
            self.kinds.push(row.kind().to_owned());
            return;
        }
        let item = row.whole["item"].as_u64().unwrap();
        let text = row.event["text"].as_str().unwrap();
        let known = self.texts.entry(item).or_default();
        if row.whole["whole"] == true {
            text.clone_into(known);
        } else {
            known.push_str(text);
        }
        let blocks = self.blocks.entry(item).or_default();
        blocks.truncate(usize::try_from(row.whole["md"]["keep"].as_u64().unwrap()).unwrap());
        blocks.extend(row.whole["md"]["blocks"].as_array().unwrap().iter().cloned());
    }

    fn says(&self) -> Vec<&str> {
        self.texts.values().map(String::as_str).collect()
    }
}

const TEXT: &str = "# Plan\n\nFirst *this*, then\n\n- one\n- two\n\n```sh\nmake\n```\n\nDone: äöü 漢字 🙂.";

fn long() -> Value {
    json!({"say": TEXT, "chunks": 40, "chunk_ms": 15})
}

#[test]
fn rows_come_once_through_a_cut_after_every_row() {
    let stage = Stage::new(&[long()]);
    let served = stage.serve();
    let session = served.begin("go");
    let mut page = Page::default();
    let mut cuts = 0;
    while !page.kinds.iter().any(|it| it == "turn_ended") {
        let row = served.watch(&session, page.last).row().unwrap();
        page.add(&row);
        cuts += 1;
    }
    assert!(cuts > 10, "{cuts}");
    assert_eq!(page.says(), [TEXT]);
    assert_eq!(page.kinds.iter().filter(|it| *it == "turn_began").count(), 1);
    // Who comes later gets the same, in fewer rows; and the rows as one answer are those of the stream.
    let mut late = Page::default();
    let mut rows = Vec::new();
    let mut stream = served.watch(&session, 0);
    loop {
        match stream.next().unwrap() {
            Sent::Row(row) => {
                late.add(&row);
                rows.push(row.whole);
            }
            Sent::Named(name, data) => {
                assert_eq!((name.as_str(), data["head"].as_u64()), ("ready", Some(late.last)));
                break;
            }
        }
    }
    assert_eq!((late.says(), &late.blocks), (page.says(), &page.blocks));
    assert_eq!(served.get(&format!("sessions/{session}/rows"))["rows"], Value::Array(rows));
    let blocks = late.blocks.values().next().unwrap();
    assert_eq!(blocks[0], json!({"t": "h", "n": 1, "c": ["Plan"]}));
    assert_eq!(blocks[3], json!({"t": "code", "lang": "sh", "s": "make"}));
}

#[test]
fn rows_come_once_through_the_death_of_the_server_and_what_was_asked_for_is_done() {
    let stage = Stage::new(&[json!({"say": TEXT, "chunks": 40, "chunk_ms": 50}), json!({"say": "Second."})]);
    let served = stage.serve();
    let session = served.begin("go");
    // It waits for the end of the first.
    let key = "Idempotency-Key: the-second\r\n";
    let headers =
        format!("Authorization: Bearer {}\r\nContent-Type: application/json\r\n{key}", token("say"));
    let line = format!("POST /api/v1/sessions/{session}/prompt");
    let reply = served.raw(&line, &headers, br#"{"text":"more"}"#);
    assert_eq!(reply.status, 202, "{reply:?}");
    let mut page = Page::default();
    let mut stream = served.watch(&session, 0);
    while page.texts.values().map(String::len).sum::<usize>() < 30 {
        page.add(&stream.row().unwrap());
    }
    served.kill();
    while let Some(row) = stream.row() {
        page.add(&row);
    }
    let served = stage.serve();
    // Asked again under the same key it is the same prompt.
    assert_eq!(served.raw(&line, &headers, br#"{"text":"more"}"#).status, 202);
    let mut stream = served.watch(&session, page.last);
    let mut ends = Vec::new();
    while ends.len() < 2 {
        let row = stream.row().unwrap();
        page.add(&row);
        if row.kind() == "turn_ended" {
            ends.push(row.event["ended"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(ends, ["interrupted", "done"]);
    let began = page.kinds.iter().filter(|it| *it == "turn_began").count();
    assert_eq!(began, 2, "{:?}", page.kinds);
    let says = page.says();
    assert!(TEXT.starts_with(says[0]) && says[0].len() >= 30, "{says:?}");
}

#[test]
fn streams_that_were_left_are_gone_and_a_slow_reader_slows_nobody() {
    let stage = Stage::new(&[long()]);
    let served = stage.serve();
    let session = served.begin("go");
    // These read nothing at all.
    let slow: Vec<_> = (0..20).map(|_| served.watch(&session, 0)).collect();
    let all = served.stream("/api/v1/events", &format!("Authorization: Bearer {}\r\n", token("view")));
    let mut stream = served.watch(&session, 0);
    stream.until(|row| row.kind() == "turn_ended");
    let open = |served: &Served| {
        let metrics = served.raw("GET /metrics", "", b"");
        let line = metrics.body.lines().find(|it| it.starts_with("haft_event_streams ")).map(str::to_owned);
        line.unwrap().split(' ').nth(1).unwrap().parse::<usize>().unwrap()
    };
    assert_eq!(open(&served), 22);
    drop((slow, all, stream));
    wait_for("the end of all streams", || (open(&served) == 0).then_some(()));
}

#[test]
fn list_of_all_sessions_is_told_as_it_changes() {
    let stage =
        Stage::new(&[json!({"calls": [{"tool": "write", "arguments": {"path": ".envrc", "content": "a"}}]})]);
    let served = stage.serve();
    let mut all = served.stream("/api/v1/events", &format!("Authorization: Bearer {}\r\n", token("view")));
    let session = served.begin("look at the parser");
    let began = std::time::Instant::now();
    loop {
        let Some(Sent::Named(name, data)) = all.next() else { panic!("it ended") };
        if name == "approvals" && !data["approvals"].as_array().unwrap().is_empty() {
            assert_eq!(data["approvals"][0]["session"], session.as_str());
            assert_eq!(data["approvals"][0]["approval"]["tool"], "write");
            break;
        }
        assert!(began.elapsed() < AT_MOST);
    }
    let one = served.get(&format!("sessions/{session}"));
    assert_eq!(
        (&one["state"], &one["approvals"], &one["title"]),
        (&json!("waiting"), &json!(1), &json!("look at the parser"))
    );
    assert_eq!(one["approvals_open"].as_array().unwrap().len(), 1);
    let found = served.get("sessions?q=parser");
    assert_eq!(found["sessions"][0]["id"], session.as_str());
    assert_eq!(served.get("sessions?q=nothing-like-it")["sessions"], json!([]));
}

#[test]
fn session_is_renamed_archived_forked_rewound_and_deleted() {
    let stage = Stage::new(&[json!({"say": "First."}), json!({"say": "Second."})]);
    let served = stage.serve();
    let empty = served.does(201, "POST /api/v1/sessions", &json!({}));
    let session = empty["id"].as_str().unwrap();
    assert!(served.get("sessions")["sessions"].to_string().contains(session), "one without words is listed");
    served.prompt(session, "one");
    served.prompt(session, "two");
    let at = |what: &str| format!("/api/v1/sessions/{session}{what}");
    let titled = served.does(200, &format!("PATCH {}", at("")), &json!({"title": "Numbers"}));
    assert_eq!(titled["title"], "Numbers");
    let fork = served.does(201, &format!("POST {}", at("/fork")), &json!({"without": 1}));
    assert_eq!((&fork["forked_from"], &fork["turns"]), (&json!(session), &json!(1)));
    let rewound = served.does(200, &format!("POST {}", at("/rewind")), &json!({"turns": 1}));
    assert_eq!((&rewound["turns"], &rewound["said"]), (&json!(1), &json!("two")));
    served.does(200, &format!("PATCH {}", at("")), &json!({"archived": true}));
    assert!(!served.get("sessions")["sessions"].to_string().contains("Numbers"));
    assert!(served.get("sessions?archived=true")["sessions"].to_string().contains("Numbers"));
    served.does(204, &format!("DELETE {}", at("")), &Value::Null);
    served.does(404, &format!("GET {}", at("")), &Value::Null);
    served.does(404, &format!("POST {}", at("/prompt")), &json!({"text": "x"}));
    // A field that is unknown was misspelt.
    served.does(400, "POST /api/v1/sessions", &json!({"promt": 1}));
}

#[test]
fn conversation_is_compacted_and_goes_on() {
    let stage = Stage::new(&[
        json!({"say": "First. ".repeat(400)}),
        json!({"say": "A summary."}),
        json!({"say": "Next."}),
    ]);
    let served = stage.serve();
    let session = served.begin("one");
    served.watch(&session, 0).until(|row| row.kind() == "turn_ended");
    let line = format!("POST /api/v1/sessions/{session}/compact");
    assert_eq!(served.ask("view", &line, &json!({})).status, 403);
    let reply = served.ask("say", &line, &json!({"keep": "the first word"}));
    assert_eq!(reply.status, 200, "{reply:?}");
    assert!(reply.body.contains("\"before\"") && reply.body.contains("\"after\""), "{reply:?}");
    let rows = served.prompt(&session, "two");
    assert!(rows.last().unwrap().event["text"].as_str().is_some_and(|it| !it.is_empty()), "{rows:?}");
}

#[test]
fn silent_stream_has_a_heartbeat() {
    let stage = Stage::new(&[json!({"say": "Hello."})]);
    let served = stage.serve();
    let session = served.begin("one");
    let mut stream = served.watch(&session, 0);
    stream.until(|row| row.kind() == "turn_ended");
    let beat =
        std::iter::from_fn(|| stream.next()).find(|it| matches!(it, Sent::Named(name, _) if name == "beat"));
    assert!(beat.is_some(), "the stream ended");
}

#[test]
fn session_is_named_and_archived_while_its_turn_goes_on() {
    let stage = Stage::new(&[json!({"say": "Slow", "end_ms": 600_000})]);
    let served = stage.serve();
    let session = served.begin("go");
    let mut stream = served.watch(&session, 0);
    stream.until(|row| row.kind() == "text");
    let change = format!("PATCH /api/v1/sessions/{session}");
    let changed = served.does(200, &change, &json!({"title": "Named", "archived": true}));
    assert_eq!(changed["title"], "Named", "{changed}");
    let rows = stream.until(|row| row.kind() == "archived");
    assert!(rows.iter().any(|row| row.kind() == "renamed"), "{rows:?}");
    served.does(200, &format!("POST /api/v1/sessions/{session}/cancel"), &json!({}));
    let end = stream.until(|row| row.kind() == "turn_ended");
    assert_eq!(end.last().unwrap().event["ended"], "cancelled");
}
