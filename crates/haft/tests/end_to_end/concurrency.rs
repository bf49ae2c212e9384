//! Concurrent edits of one file: none is lost.

use std::{thread, time::Instant};

use serde_json::json;

use crate::support::{Server, TIMEOUT, TestWorkspace, anchor};

/// Enough for two processes to meet in the moment between a look and a rename.
const ROUNDS: usize = 40;

/// Returns a file in which each writer has a line of its own, far from the others'.
fn shared(writers: usize) -> String {
    (0..writers).map(|it| format!("writer {it} at 0\nbetween {it}\n}}\n\n")).collect()
}

fn expected(writers: usize) -> String {
    shared(writers).replace(" at 0", &format!(" at {ROUNDS}"))
}

/// Changes its own line again and again by its text.
fn write_by_text(server: &Server, writer: usize) {
    for round in 0..ROUNDS {
        let (old, new) =
            (format!("writer {writer} at {round}\n"), format!("writer {writer} at {}\n", round + 1));
        server.does("edit", &json!({"path": "file", "edits": [{"old": old, "new": new}]}));
    }
}

/// Changes its own line again and again by the anchor that the last answer gave.
fn write_by_anchor(server: &Server, writer: usize) {
    let mut shown = server.does("read", &json!({"path": "file"}));
    for round in 0..ROUNDS {
        let old = anchor(&shown, &format!("writer {writer} at {round}"));
        let new = format!("writer {writer} at {}", round + 1);
        let mut said = server.call("edit", &json!({"path": "file", "edits": [{"anchor": old, "new": new}]}));
        // When too much happened since the line was shown, the refusal shows it again.
        while said.is_error {
            let old = anchor(&said.text, &format!("writer {writer} at {round}"));
            said = server.call("edit", &json!({"path": "file", "edits": [{"anchor": old, "new": new}]}));
        }
        shown = said.text;
    }
}

/// Puts lines before all others, so that everybody's line numbers change all the time.
fn write_at_the_start(server: &Server) {
    for round in 0..ROUNDS {
        let new = format!("start {round}");
        server.does("edit", &json!({"path": "file", "edits": [{"insert": "start", "new": new}]}));
    }
}

fn check(test_ws: &TestWorkspace, writers: usize) {
    let text = test_ws.text("file");
    let (starts, rest): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with("start "));
    assert_eq!(rest.join("\n") + "\n", expected(writers).trim_end_matches('\n').to_owned() + "\n\n");
    assert!(text.ends_with("}\n\n"));
    let mut starts = starts;
    starts.sort_unstable();
    starts.dedup();
    assert_eq!(starts.len(), ROUNDS, "every line put at the start is there");
    let open: Vec<_> = test_ws
        .log()
        .into_iter()
        .filter(|call| call["outcome"] != "ok" && call["outcome"] != "stale")
        .collect();
    assert!(open.is_empty(), "{open:?}");
    assert_eq!(test_ws.leftovers(""), [""; 0]);
}

#[test]
fn sixteen_writers_of_one_file_lose_nothing() {
    const WRITERS: usize = 16;
    let test_ws = TestWorkspace::new();
    test_ws.put("file", shared(WRITERS));
    let server = test_ws.serve();
    thread::scope(|threads| {
        threads.spawn(|| write_at_the_start(&server));
        // A reader without any lock sees a whole file, too.
        threads.spawn(|| {
            let done = |text: &str| text.matches(&format!(" at {ROUNDS}\n")).count() == WRITERS;
            let began = Instant::now();
            loop {
                let text = test_ws.text("file");
                assert_eq!(text.matches("writer ").count(), WRITERS, "half a file:\n{text}");
                if done(&text) || began.elapsed() > TIMEOUT {
                    break;
                }
            }
        });
        for writer in 0..WRITERS {
            let server = &server;
            threads.spawn(move || {
                if writer % 2 == 0 { write_by_text(server, writer) } else { write_by_anchor(server, writer) }
            });
        }
    });
    assert!(server.finish().0.success());
    check(&test_ws, WRITERS);
}

#[test]
fn two_servers_on_one_workspace_lose_nothing() {
    const WRITERS: usize = 8;
    let test_ws = TestWorkspace::new();
    test_ws.put("file", shared(WRITERS));
    let servers = [test_ws.serve(), test_ws.serve()];
    thread::scope(|threads| {
        threads.spawn(|| write_at_the_start(&servers[0]));
        for writer in 0..WRITERS {
            let server = &servers[writer % 2];
            threads.spawn(move || {
                if writer / 2 % 2 == 0 {
                    write_by_text(server, writer);
                } else {
                    write_by_anchor(server, writer);
                }
            });
        }
    });
    for server in servers {
        assert!(server.finish().0.success());
    }
    check(&test_ws, WRITERS);
}

#[test]
fn edits_of_one_file_in_one_message_land_in_order() {
    let test_ws = TestWorkspace::new();
    test_ws.put("file", "count 0\n");
    test_ws.put("other", "count 0\n");
    let server = test_ws.serve();
    let calls: Vec<_> = (0..100)
        .flat_map(|number| {
            let edit =
                json!([{"old": format!("count {number}\n"), "new": format!("count {}\n", number + 1)}]);
            ["file", "other"].map(|path| server.start_call("edit", &json!({"path": path, "edits": edit})))
        })
        .collect();
    let read = server.start_call("read", &json!({"path": "file"}));
    for call in calls {
        let said = call.result().unwrap();
        assert!(!said.is_error, "{}", said.text);
    }
    assert!(read.result().unwrap().text.contains("|count 100"), "a read after them sees them all");
    assert_eq!(
        (test_ws.text("file"), test_ws.text("other")),
        ("count 100\n".to_owned(), "count 100\n".to_owned())
    );
}
