//! Processes that run a session are killed: nothing that was seen is lost or doubled.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};
use sessions::{Event, Fold, Row, Watcher};
use store::Buffer;

use crate::support::{TIMEOUT, TestWorkspace, check_order, folded, process, prompt};

const PROMPTS: usize = 5;
const FOLDER: &str = "HAFT_TEST_SESSIONS_FOLDER";

fn answers(at: usize) -> Vec<Value> {
    let say = |text: &str| json!({"tool": "say", "arguments": {"text": text, "after_ms": 3}});
    vec![
        json!({"think": "hm, ".repeat(10), "say": format!("prompt {at} begins. ").repeat(6), "chunks": 8, "chunk_ms": 4,
            "calls": [say("one"), say("two")]}),
        json!({"say": "in the middle. ".repeat(6), "chunks": 8, "chunk_ms": 4, "calls": [say("three")]}),
        json!({"say": format!("prompt {at} is done.")}),
    ]
}

/// Runs the session until all prompts are done, each asked for under a key of its own.
#[tokio::test]
#[ignore = "a process that the other tests begin and kill"]
async fn child() {
    let folder = PathBuf::from(std::env::var_os(FOLDER).unwrap());
    let sessions = process(&folder).sessions();
    let handle = sessions.open(Some("s"), "child").await.unwrap();
    for at in 0..PROMPTS {
        handle.act(&format!("k{at}"), prompt(&answers(at))).await.unwrap();
    }
    handle.act("close", sessions::Operation::Close).await.unwrap();
}

fn begin(folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "killed::child", "--ignored", "--nocapture"])
        .env(FOLDER, folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Collects rows until the session is closed by itself, or so many came.
async fn collect(watcher: &mut Watcher, rows: &mut Vec<Row>, most: usize) -> bool {
    for _ in 0..most {
        let row = tokio::time::timeout(TIMEOUT, watcher.next()).await.unwrap().unwrap();
        let is_closed = matches!(row.event, Event::Closed { .. });
        rows.push(row);
        if is_closed {
            return true;
        }
    }
    false
}

fn fold(rows: &[Row]) -> Fold {
    let mut fold = Fold::new();
    rows.iter().for_each(|it| fold.add(it));
    fold
}

async fn kill_again_and_again(seed: u64) {
    let test_ws = TestWorkspace::new();
    let here = test_ws.process();
    let sessions = here.watching();
    let (mut watcher, mut rows) = (sessions.watch("s", 0), Vec::new());
    let mut random = seed;
    let mut kills = 0;
    loop {
        let mut child = begin(test_ws.path());
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let most = if kills < 8 { 2 + usize::try_from(random >> 59).unwrap() } else { usize::MAX };
        let is_over = collect(&mut watcher, &mut rows, most).await;
        if is_over {
            assert!(child.wait().unwrap().success());
            break;
        }
        tokio::time::sleep(Duration::from_millis(random >> 60)).await;
        child.kill().unwrap();
        child.wait().unwrap();
        kills += 1;
    }
    check_order(&rows, 0);
    // The watcher's rows fold to the same state as the log, and the log has each turn once.
    let reader = test_ws.process().sessions();
    let handle = reader.attach("s", "reader").await.unwrap();
    let log: Vec<Row> =
        reader.export("s").await.unwrap().into_iter().filter(|it| it.seq <= watcher.after()).collect();
    assert_eq!(fold(&rows), fold(&log), "after {kills} kills");
    let (mut began, mut ended) = (HashMap::<String, usize>::new(), HashMap::<String, String>::new());
    for row in &log {
        match &row.event {
            Event::TurnBegan { key: Some(key), .. } => *began.entry(key.clone()).or_default() += 1,
            Event::TurnEnded(end) => {
                let key = end.key.clone().unwrap();
                assert!(ended.insert(key.clone(), end.ended.clone()).is_none(), "{key} ended twice");
            }
            _ => {}
        }
    }
    let messages = here.runtime().store().transcripts().rows("s", Buffer::Messages).unwrap();
    for at in 0..PROMPTS {
        let key = format!("k{at}");
        assert_eq!(began.get(&key), Some(&1), "{key} began once");
        assert!(["done", "interrupted"].contains(&ended[&key].as_str()), "{ended:?}");
        let result = handle.act(&key, prompt(&answers(at))).await.unwrap();
        assert_eq!(result["ended"], ended[&key].as_str(), "its result is what the log says");
        let words = format!("prompt {at} begins");
        let said =
            messages.iter().filter(|it| it.body.contains("\"who\":\"person\"") && it.body.contains(&words));
        assert_eq!(said.count(), 1, "the words of {key} are in the transcript once");
    }
    assert!(folded(&handle).await.turn.is_none());
}

#[tokio::test]
async fn what_watchers_saw_is_a_part_of_the_log_and_each_prompt_is_done_once_however_often_its_process_is_killed()
 {
    kill_again_and_again(1).await;
    kill_again_and_again(20_261_124).await;
}

#[tokio::test]
async fn an_approval_of_a_process_that_died_expires_and_its_prompt_ends_as_interrupted() {
    let test_ws = TestWorkspace::new();
    let (here, there) = (test_ws.process(), test_ws.process());
    // A process that is gone leaves its lease, and rows that nobody closed.
    let (handle, key) = {
        let first = here.sessions();
        let handle = first.open(Some("s"), "one").await.unwrap();
        let put = json!({"tool": "put", "arguments": {"path": "a", "text": "x"}});
        let told = prompt(&[json!({"calls": [put]})]);
        let (asking, mut watcher) = (handle.clone(), handle.watch(0));
        let turning = tokio::spawn(async move { asking.act("k", told).await });
        crate::support::until(&mut watcher, |it| matches!(it, Event::ApprovalOpened(_))).await;
        turning.abort();
        (handle, "k")
    };
    // Its rows as they are, in a copy of the state: as if it had been killed there.
    let copy = TestWorkspace::new();
    here.runtime().store().flush().await.unwrap();
    let from = here.runtime().store().folder().to_owned();
    let other = copy.process();
    let to = other.runtime().store().folder().to_owned();
    // Its files are replaced: nothing of it may be written after that.
    assert!(other.runtime().store().close(crate::support::TIMEOUT));
    drop(other);
    std::fs::create_dir_all(&to).unwrap();
    for file in std::fs::read_dir(&from).unwrap().flatten() {
        if file.file_name().to_string_lossy().starts_with("haft.db") {
            std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
        }
    }
    drop(there);
    let next = copy.process().sessions();
    let taken = next.attach(handle.session(), "two").await.unwrap();
    let fold = folded(&taken).await;
    assert!(fold.approvals.is_empty() && fold.turn.is_none());
    let ended: Vec<(&str, &str)> = fold.ended().map(|(key, end)| (key, end.ended.as_str())).collect();
    assert_eq!(ended, [(key, "interrupted")]);
}

#[tokio::test]
async fn a_prompt_whose_words_were_not_said_is_said_once_however_many_owners_died_before() {
    use sessions::Opener as _;
    let test_ws = TestWorkspace::new();
    let process = test_ws.process();
    let store = process.runtime().store().clone();
    let body = json!(prompt(&[json!({"say": "at last"})]));
    store.operations().note("s", "k", "me", body.clone()).await.unwrap();
    // The first owner died when the beginning was in the log; the second one when it had opened the session.
    for life in 1..=2 {
        let prepared = process.sessions().prepare("s");
        let mut opened = process.open(&prepared).unwrap();
        let mut owner = prepared.own(&mut opened.agent).await.unwrap();
        let pending = owner.next().await;
        assert_eq!((pending.key(), pending.is_resumed()), ("k", life == 2));
        if life == 1 {
            assert!(pending.begin().await.unwrap());
            owner.log().add(Event::TurnBegan {
                key: Some("k".to_owned()),
                by: "me".to_owned(),
                text: "words".to_owned(),
                attached: Vec::new(),
                messages: 0,
            });
            owner.log().flush().await.unwrap();
        }
    }
    let handle = process.sessions().attach("s", "three").await.unwrap();
    let Value::Object(_) = &body else { panic!() };
    let end = handle.act("k", serde_json::from_value(body).unwrap()).await.unwrap();
    assert_eq!((&end["ended"], &end["text"]), (&json!("done"), &json!("at last")));
    let rows = process.sessions().export("s").await.unwrap();
    assert_eq!(rows.iter().filter(|it| matches!(it.event, Event::TurnBegan { .. })).count(), 1);
    let messages = store.transcripts().rows("s", Buffer::Messages).unwrap();
    assert_eq!(messages.iter().filter(|it| it.body.contains("\"who\":\"person\"")).count(), 1);
}
