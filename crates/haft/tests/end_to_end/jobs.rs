//! Background jobs: they finish, and their end is reported.

use serde_json::json;

use crate::support::TestWorkspace;

#[test]
fn a_call_in_the_background_is_waited_for_and_read_in_one_session() {
    let test_ws = TestWorkspace::new();
    test_ws.put("file", "one\n");
    let calls = test_ws.batch(
        &[],
        &[
            ("read", json!({"path": "file", "run_in_background": true})),
            ("wait", json!({"job": "job_1"})),
            ("read_job", json!({"job": "1"})),
            ("jobs", json!({})),
            ("stop_task", json!({"job": "job_1"})),
            ("continue_job", json!({"job": "job_1", "input": "more"})),
        ],
    );
    let said: Vec<String> = calls.iter().map(crate::support::Called::text).collect();
    assert!(said[0].starts_with("job_1 runs in the background: read\n"), "{}", said[0]);
    assert!(
        said[0].ends_with("read_job shows its output, wait waits for it, stop_task ends it."),
        "{}",
        said[0]
    );
    for read in &said[1..3] {
        assert!(read.starts_with("job_1 done, 0.") && read.contains("|one"), "{read}");
    }
    assert!(said[3].starts_with("job_1  done 0.") && said[3].ends_with("s  read"), "{}", said[3]);
    assert!(said[4].contains("it was over already"), "{}", said[4]);
    assert_eq!(calls[5].kind(), "stale");
    let notes: Vec<String> =
        calls.iter().map(crate::support::Called::notes).filter(|it| it != "null").collect();
    assert!(notes.is_empty(), "nobody has to be told what was seen: {notes:?}");
    let log = test_ws.log();
    assert_eq!(log[0]["outcome"], "ok");
    assert!(log[0]["notes"].as_array().unwrap().contains(&json!("ran as job_1")), "{}", log[0]["notes"]);
    assert!(log[0]["arguments"].as_str().unwrap().contains("run_in_background"));
}

#[test]
fn the_next_answer_through_a_server_tells_of_an_end_that_nobody_saw() {
    let test_ws = TestWorkspace::new();
    test_ws.put("file", "one\n");
    let server = test_ws.serve();
    server.does("read", &json!({"path": "file", "run_in_background": true}));
    // A wait reports the first job's end; any later answer reports the end of the next job.
    server.does("wait", &json!({"job": "1"}));
    server.does("read", &json!({"path": "file", "run_in_background": true}));
    let mut told = String::new();
    for _ in 0..1000 {
        let said = server.does("jobs", &json!({}));
        if said.contains("note: ") {
            told = said;
            break;
        }
    }
    assert!(told.contains("note: job_2 (read) ended: done, 0."), "{told}");
    assert!(!server.does("jobs", &json!({})).contains("note: "));
    assert!(server.finish().0.success());
}

#[test]
fn a_job_above_the_limit_is_refused_and_one_starts_once_another_has_ended() {
    let test_ws = TestWorkspace::new();
    std::fs::create_dir_all(test_ws.config()).unwrap();
    std::fs::write(test_ws.config().join("haft.toml"), "[limits]\njobs = 2\n").unwrap();
    let server = test_ws.serve();
    let sleep = json!({"command": "echo begun; exec sleep 1000", "run_in_background": true});
    for _ in 0..2 {
        server.does("shell", &sleep);
    }
    let refused = server.call("shell", &sleep);
    assert!(refused.is_error, "{}", refused.text);
    assert!(
        refused.text.contains("2 jobs run in this session, and `limits.jobs` allows 2; nothing was started"),
        "{}",
        refused.text
    );
    assert!(refused.text.contains("stop_task"), "{}", refused.text);
    server.does("shell", &json!({"command": "echo a call needs no room"}));
    server.does("stop_task", &json!({"job": "job_1"}));
    server.does("shell", &sleep);
    for job in ["job_2", "job_3"] {
        server.does("wait", &json!({"job": job, "pattern": "begun"}));
    }
    let listed = server.does("jobs", &json!({}));
    assert_eq!(listed.lines().filter(|it| it.contains("  running ")).count(), 2, "{listed}");
}
