//! Messages of an inbox: each is shown once, whenever the process that shows it is killed, and an arrival begins a turn.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::json;
use sessions::{Event, TurnEnd};
use store::{ArrivalState, Buffer, NewMessage, Source, Store};

use crate::support::{TIMEOUT, TestWorkspace, is_end, process, prompt, until};

const FOLDER: &str = "HAFT_TEST_INBOX_FOLDER";

/// Runs the session until it is killed. A turn with several steps goes on while messages arrive.
#[tokio::test]
#[ignore = "a process that the other tests begin and kill"]
async fn child() {
    let folder = PathBuf::from(std::env::var_os(FOLDER).unwrap());
    let sessions = process(&folder).sessions();
    let handle = sessions.open(Some("s"), "child").await.unwrap();
    let say = |text: &str| json!({"calls": [{"tool": "say", "arguments": {"text": text, "after_ms": 2}}]});
    for turn in 0.. {
        let key = format!("{}-{turn}", std::process::id());
        let _ = handle.act(&key, prompt(&[say("one"), say("two"), json!({"say": "done"})])).await;
    }
}

fn begin(folder: &Path, breaks: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "inbox::child", "--ignored", "--nocapture"])
        .env(FOLDER, folder)
        .env("HAFT_BREAK", breaks)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Returns how often the model's conversation shows each message.
fn shown(store: &Store) -> BTreeMap<String, usize> {
    let mut shown = BTreeMap::new();
    for row in store.transcripts().rows("s", Buffer::Context).unwrap() {
        for (at, _) in row.body.match_indices("<message id=") {
            let id: String = row.body[at..].chars().skip_while(|it| *it != 'm').skip(7).take(40).collect();
            let id = id.split("msg_").nth(1).unwrap().chars().take(12).collect();
            *shown.entry(id).or_default() += 1;
        }
    }
    shown
}

fn next(random: &mut u64) -> u64 {
    *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *random >> 33
}

/// Posts messages while the process that shows them is killed again and again. Returns the accepted ones, and how often each was
/// shown.
async fn posts_and_kills(kills: usize, breaks: &str, seed: u64) -> (Vec<String>, BTreeMap<String, usize>) {
    let test_ws = TestWorkspace::new();
    let here = test_ws.process();
    let store = here.runtime().store().clone();
    let (mut accepted, mut random) = (Vec::new(), seed);
    for _ in 0..kills {
        let mut child = begin(test_ws.path(), breaks);
        // The session is taken over after some time; from then on a message is shown at any step.
        let head = store.events().head("s").unwrap();
        let until = Instant::now() + TIMEOUT;
        while store.events().head("s").unwrap() < head + 4 {
            assert!(Instant::now() < until, "the session does not run");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        for _ in 0..=next(&mut random) % 4 {
            let message = NewMessage::new("s", Source::Direct, "bob", format!("message {}", accepted.len()));
            accepted.push(store.inbox().post(message).await.unwrap().message);
            tokio::time::sleep(Duration::from_micros(next(&mut random) % 6_000)).await;
        }
        tokio::time::sleep(Duration::from_micros(next(&mut random) % 20_000)).await;
        child.kill().unwrap();
        child.wait().unwrap();
    }
    // What is left is shown by a process that lives.
    let mut child = begin(test_ws.path(), "");
    let until = Instant::now() + TIMEOUT;
    while store.inbox().has_queued("s").unwrap() {
        assert!(Instant::now() < until, "messages are left");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let shown = shown(&store);
    (accepted.iter().map(|it| it.trim_start_matches("msg_").to_owned()).collect(), shown)
}

#[tokio::test]
async fn each_accepted_message_is_shown_exactly_once_however_often_its_process_is_killed() {
    let kills = std::env::var("HAFT_INBOX_KILLS").ok().and_then(|it| it.parse().ok()).unwrap_or(12);
    let (accepted, shown) = posts_and_kills(kills, "", 20_261_124).await;
    for id in &accepted {
        assert_eq!(shown.get(id), Some(&1), "{id} of {} messages", accepted.len());
    }
    assert_eq!(shown.len(), accepted.len());
}

#[tokio::test]
async fn a_claim_outside_of_the_transaction_of_its_row_is_noticed_by_that_test() {
    for seed in 1..=10 {
        let (_, shown) = posts_and_kills(6, "inbox-claim", seed).await;
        if shown.values().any(|it| *it > 1) {
            return;
        }
    }
    panic!("no message was shown twice: the test above would not notice a claim that is not atomic");
}

#[tokio::test]
async fn an_arrival_begins_a_turn_and_is_acted_on_in_its_state() {
    let test_ws = TestWorkspace::new();
    let here = test_ws.process();
    let handle = here.sessions().open(Some("s"), "test").await.unwrap();
    let inbox = here.runtime().store().inbox();
    let mut watcher = handle.watch(0);
    // Also from another process, which can only leave a row.
    let elsewhere = test_ws.process();
    let message = NewMessage::new("s", Source::Webhook, "ci", "the build is red\nsee the log");
    elsewhere.runtime().store().inbox().post(message).await.unwrap();
    let rows = until(&mut watcher, is_end).await;
    let began = rows.iter().find_map(|it| match &it.event {
        Event::TurnBegan { by, .. } => Some(by.clone()),
        _ => None,
    });
    assert_eq!(began.as_deref(), Some("message"));
    let told = rows.iter().find_map(|it| match &it.event {
        Event::Agent(agent::Event::MessageShown { from, source, text, .. }) => {
            Some((from.clone(), source.clone(), text.clone()))
        }
        _ => None,
    });
    assert_eq!(told, Some(("ci".to_owned(), "webhook".to_owned(), "the build is red …".to_owned())));
    let end = rows.iter().find_map(|it| match &it.event {
        Event::TurnEnded(TurnEnd { ended, .. }) => Some(ended.clone()),
        _ => None,
    });
    assert_eq!(end.as_deref(), Some("done"));
    let kept = inbox.list("s", 10).unwrap();
    assert_eq!(kept.iter().map(|it| it.state).collect::<Vec<_>>(), [ArrivalState::Acted]);
}

#[tokio::test]
async fn message_to_a_session_of_another_process_is_told_over_its_socket() {
    let test_ws = TestWorkspace::new();
    let here = test_ws.process();
    let _handle = here.sessions().open(Some("s"), "test").await.unwrap();
    let mut told = here.runtime().store().inbox().arrivals("s");
    test_ws.process().watching().tell_of_message("s", "s").await;
    tokio::time::timeout(TIMEOUT, told.changed()).await.unwrap().unwrap();
}

#[tokio::test]
async fn message_has_an_event_when_it_arrives_also_while_the_agent_works() {
    let test_ws = TestWorkspace::new();
    let here = test_ws.process();
    let inbox = here.runtime().store().inbox();
    // One that waits before anybody runs the session.
    inbox.post(NewMessage::new("s", Source::Direct, "ann", "early")).await.unwrap();
    let handle = here.sessions().open(Some("s"), "test").await.unwrap();
    let mut watcher = handle.watch(0);
    let arrived = |event: &Event| matches!(event, Event::MessageArrived { .. });
    let text_of = |rows: &[sessions::Row]| match &rows.last().unwrap().event {
        Event::MessageArrived { text, from, source, .. } => format!("{source} {from}: {text}"),
        other => panic!("{other:?}"),
    };
    assert_eq!(text_of(&until(&mut watcher, arrived).await), "direct ann: early");
    let long = json!({"calls": [{"tool": "say", "arguments": {"text": "x", "after_ms": 60_000}}]});
    let turn = tokio::spawn({
        let handle = handle.clone();
        async move { handle.act("k", prompt(&[long])).await }
    });
    until(&mut watcher, |it| matches!(it, Event::TurnBegan { key: Some(key), .. } if key == "k")).await;
    inbox.post(NewMessage::new("s", Source::Channel, "bob", "first line\nsecond")).await.unwrap();
    let rows = until(&mut watcher, arrived).await;
    assert_eq!(text_of(&rows), "channel bob: first line …");
    assert!(!rows.iter().any(|it| is_end(&it.event)), "the turn goes on");
    turn.abort();
}
