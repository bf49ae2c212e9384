//! Operations whose owner is killed in their middle are done once, whatever the point at which it is killed.

use std::{
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use sessions::{Event, Handle, Operation, Row};

use crate::support::{TestWorkspace, process, prompt};

const FOLDER: &str = "HAFT_TEST_SESSIONS_FOLDER";
const OPERATION: &str = "HAFT_TEST_SESSIONS_OPERATION";

/// Has the model write these files, one call each, in a turn of its own.
fn writes(key: &str, files: &[&str]) -> (String, Operation) {
    let calls: Vec<Value> =
        files.iter().map(|it| json!({"tool": "put", "arguments": {"path": it, "text": "x"}})).collect();
    (key.to_owned(), prompt(&[json!({"calls": calls}), json!({"say": "written ".repeat(100)})]))
}

/// Attends, and allows all calls.
async fn act(handle: &Handle, key: &str, operation: Operation) -> Value {
    let mut watcher = handle.watch(0);
    let allowing = {
        let handle = handle.clone();
        tokio::spawn(async move {
            loop {
                if let Event::ApprovalOpened(it) = watcher.next().await.unwrap().event {
                    let decision = sessions::Decision::Once;
                    let (id, hash, words) = (it.id.clone(), it.hash, None);
                    // One of an earlier turn is settled.
                    let _ = handle
                        .act(&format!("allow-{id}"), Operation::Approve { id, hash, decision, words })
                        .await;
                }
            }
        })
    };
    let result = handle.act(key, operation).await.unwrap();
    allowing.abort();
    result
}

/// Does one operation, in whose middle it is killed.
#[tokio::test]
#[ignore = "a process that the other tests begin, and that is killed"]
async fn child() {
    let folder = PathBuf::from(std::env::var_os(FOLDER).unwrap());
    let operation = serde_json::from_str(&std::env::var(OPERATION).unwrap()).unwrap();
    let sessions = process(&folder).with_forks();
    let handle = sessions.open(Some("s"), "child").await.unwrap();
    handle.act("op", operation).await.unwrap();
}

/// Runs the child, which has to die at this point.
fn die(folder: &Path, operation: &Operation, point: &str) {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "resumed::child", "--ignored", "--nocapture"])
        .env(FOLDER, folder)
        .env(OPERATION, json!(operation).to_string())
        .env("HAFT_BREAK", point)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert_eq!(status.signal(), Some(9), "{operation:?} did not come to {point}");
}

/// Has an operation done whose owners are killed at each of these points, one after the other. Returns its result, and the log.
async fn after_kills(test_ws: &TestWorkspace, operation: &Operation, points: &[&str]) -> (Value, Vec<Row>) {
    let (result, rows) = result_after_kills(test_ws, operation, points).await;
    (result.unwrap(), rows)
}

async fn result_after_kills(
    test_ws: &TestWorkspace,
    operation: &Operation,
    points: &[&str],
) -> (Result<Value, String>, Vec<Row>) {
    {
        let sessions = test_ws.process().with_forks();
        let handle = sessions.open(Some("s"), "first").await.unwrap();
        for (key, operation) in [writes("k1", &["a"]), writes("k2", &["b"]), writes("k3", &["c"])] {
            assert_eq!(act(&handle, &key, operation).await["ended"], "done");
        }
        handle.act("close-1", Operation::Close).await.unwrap();
    }
    for point in points {
        die(test_ws.path(), operation, point);
    }
    let sessions = test_ws.process().with_forks();
    let handle = sessions.attach("s", "last").await.unwrap();
    let result = handle.act("op", operation.clone()).await.map_err(|it| it.what);
    let again = handle.act("op", operation.clone()).await.map_err(|it| it.what);
    assert_eq!(again, result, "its result stays");
    let rows = sessions.export("s").await.unwrap();
    handle.act("close-2", Operation::Close).await.unwrap();
    (result, rows)
}

fn count(rows: &[Row], is: impl Fn(&Event) -> bool) -> usize {
    rows.iter().filter(|it| is(&it.event)).count()
}

#[tokio::test]
async fn fork_is_made_once_under_the_name_that_was_chosen_before() {
    let operation = Operation::Fork { without: 0 };
    for points in [
        &["operation-begun"][..],
        &["fork-outputs-shared"],
        &["operation-done"],
        &["operation-logged"],
        &["operation-begun", "fork-outputs-shared", "operation-done", "operation-done"],
    ] {
        let test_ws = TestWorkspace::new();
        let (result, rows) = after_kills(&test_ws, &operation, points).await;
        let into = result["session"].as_str().unwrap();
        assert_eq!(
            count(&rows, |it| matches!(it, Event::Forked { into: row, .. } if row == into)),
            1,
            "{points:?}"
        );
        assert_eq!(count(&rows, |it| matches!(it, Event::Forked { .. })), 1, "{points:?}");
        let process = test_ws.process();
        let all = process.runtime().store().conversations().list(store::Archived::Shown, 10).unwrap();
        let forks: Vec<_> = all.iter().filter(|it| it.forked_from.is_some()).collect();
        assert!(matches!(forks.as_slice(), [only] if only.session == into && only.turns == 3), "{points:?}");
    }
}

#[tokio::test]
async fn rewind_takes_its_turns_back_once() {
    let operation = Operation::Rewind { turns: 1 };
    for points in [
        &["operation-begun"][..],
        &["operation-done"],
        &["operation-logged"],
        &["operation-begun", "operation-done", "operation-done"],
    ] {
        let test_ws = TestWorkspace::new();
        let (result, rows) = after_kills(&test_ws, &operation, points).await;
        assert_eq!(result["turns"], 1, "{points:?}");
        assert!(result["said"].as_str().unwrap().contains("\"c\""), "{points:?}: {result}");
        assert_eq!(count(&rows, |it| matches!(it, Event::Rewound { .. })), 1, "{points:?}");
        let process = test_ws.process();
        let said = agent::lines(process.runtime(), "s").unwrap();
        let turns = said.iter().filter(|it| matches!(it.message, agent::Message::Person { .. })).count();
        assert_eq!(turns, 2, "one of three turns is taken back: {points:?}");
    }
}

#[tokio::test]
async fn undo_puts_back_the_change_that_was_the_newest_when_it_began_and_no_other() {
    let operation = Operation::Undo { call: None, path: None };
    for points in [
        &["operation-begun"][..],
        &["undo-recorded"],
        &["undo-written"],
        &["undo-marked"],
        &["operation-done"],
        &["operation-logged"],
        &["operation-begun", "undo-recorded", "undo-written", "operation-done", "operation-logged"],
    ] {
        let test_ws = TestWorkspace::new();
        let (result, rows) = after_kills(&test_ws, &operation, points).await;
        let there = |name: &str| test_ws.path().join("ws").join(name).exists();
        assert!(there("a") && there("b") && !there("c"), "{points:?}: {result}");
        assert_eq!(count(&rows, |it| matches!(it, Event::Undone { .. })), 1, "{points:?}");
    }
}

#[tokio::test]
async fn compaction_is_done_once_and_the_next_owner_finds_out_whether_it_was_done() {
    let operation = Operation::Compact { keep: None };
    for points in [
        &["operation-begun"][..],
        &["operation-done"],
        &["operation-logged"],
        &["operation-begun", "operation-done", "operation-logged"],
    ] {
        let test_ws = TestWorkspace::new();
        let (result, rows) = after_kills(&test_ws, &operation, points).await;
        let tokens = |name: &str| result[name].as_u64().unwrap();
        assert!(tokens("before") > 0 && tokens("after") > 0, "{points:?}: {result}");
        assert_eq!(count(&rows, |it| matches!(it, Event::Compacted { key: Some(_), .. })), 1, "{points:?}");
        let process = test_ws.process();
        let stored = process.runtime().store().transcripts().rows("s", store::Buffer::Context).unwrap();
        let summaries = stored.iter().filter(|it| it.body.contains("The conversation was summed up to here"));
        assert_eq!(summaries.count(), 1, "one summary was written: {points:?}");
    }
}

#[tokio::test]
async fn command_of_a_person_runs_once_whatever_happens_to_its_process_before_and_after() {
    let operation = Operation::Command { command: "made".to_owned() };
    for points in [
        &["operation-begun"][..],
        &["command-logged"],
        &["operation-done"],
        &["operation-logged"],
        &["operation-begun", "command-logged", "operation-done"],
    ] {
        let test_ws = TestWorkspace::new();
        let (result, rows) = after_kills(&test_ws, &operation, points).await;
        // A second run would fail: the file is there.
        assert_eq!(result["ok"], true, "{points:?}: {result}");
        assert!(test_ws.path().join("ws/made").exists(), "{points:?}");
        assert_eq!(count(&rows, |it| matches!(it, Event::Command { .. })), 1, "{points:?}");
    }
}

#[tokio::test]
async fn command_that_was_cut_off_is_reported_as_that_and_not_run_again() {
    let operation = Operation::Command { command: "made".to_owned() };
    let test_ws = TestWorkspace::new();
    let (result, rows) = result_after_kills(&test_ws, &operation, &["command-running"]).await;
    let what = result.unwrap_err();
    assert!(what.contains("the command was cut off"), "{what}");
    assert_eq!(count(&rows, |it| matches!(it, Event::Command { .. })), 1);
}
