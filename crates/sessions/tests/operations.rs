//! Operations are done once, whoever asks for them how often and from where.

use kit::Kind;
use serde_json::json;
use sessions::{Began, Event, Opener as _, Operation, Prompt};

use crate::support::{TestWorkspace, folded, is_end, prompt, until};

#[tokio::test]
async fn the_same_key_twice_is_one_turn_with_one_result_also_for_another_process() {
    let test_ws = TestWorkspace::new();
    let (here, there) = (test_ws.process(), test_ws.process());
    let (here, there) = (here.sessions(), there.sessions());
    let one = here.open(None, "one").await.unwrap();
    let other = there.attach(one.session(), "other").await.unwrap();
    assert_eq!(other.state().await.unwrap().by, "test");
    let words = prompt(&[json!({"say": "hello", "chunks": 3, "chunk_ms": 5})]);
    let (first, second, third) =
        tokio::join!(one.act("k", words.clone()), other.act("k", words.clone()), one.act("k", words.clone()));
    let first = first.unwrap();
    assert_eq!(
        (&first["ended"], &first["text"], &first["key"]),
        (&json!("done"), &json!("hello"), &json!("k"))
    );
    assert_eq!((second.unwrap(), third.unwrap()), (first.clone(), first.clone()));
    assert_eq!(other.act("k", words).await.unwrap(), first, "later, too");
    let fold = folded(&one).await;
    assert_eq!(fold.ended().count(), 1);
    let fault = one.act("k", Operation::Prompt(Prompt::new("other"))).await.unwrap_err();
    assert_eq!(fault.kind, Kind::BadArgs, "{}", fault.what);
    let fault = one.act("", Operation::Close).await.unwrap_err();
    assert_eq!(fault.kind, Kind::BadArgs);
}

#[tokio::test]
async fn a_turn_is_stopped_from_another_process_and_so_is_one_that_waits() {
    let test_ws = TestWorkspace::new();
    let (here, there) = (test_ws.process().sessions(), test_ws.process().watching());
    let one = here.open(None, "one").await.unwrap();
    let other = there.attach(one.session(), "other").await.unwrap();
    let long = prompt(&[json!({"say": "never said", "after_ms": 60_000})]);
    let mut watcher = other.watch(0);
    let running = tokio::spawn({
        let (one, long) = (one.clone(), long.clone());
        async move { one.act("first", long).await }
    });
    until(&mut watcher, |it| matches!(it, Event::TurnBegan { .. })).await;
    let waiting = tokio::spawn({
        let one = one.clone();
        async move { one.act("second", long).await }
    });
    while one.state().await.unwrap().waiting == 0 {
        tokio::task::yield_now().await;
    }
    let cancel = |prompt: &str| Operation::Cancel { prompt: Some(prompt.to_owned()) };
    assert_eq!(other.act("c2", cancel("second")).await.unwrap(), json!({"cancelled": true}));
    assert_eq!(other.act("c3", cancel("third")).await.unwrap(), json!({"cancelled": false}));
    let any = Operation::Cancel { prompt: None };
    assert_eq!(other.act("c1", any.clone()).await.unwrap(), json!({"cancelled": true}));
    assert_eq!(running.await.unwrap().unwrap()["ended"], "cancelled");
    assert_eq!(waiting.await.unwrap().unwrap()["ended"], "cancelled");
    assert_eq!(other.act("c4", any).await.unwrap(), json!({"cancelled": false}));
    let rows = until(&mut watcher, is_end).await;
    assert!(!rows.iter().any(|it| matches!(&it.event, Event::TurnBegan { .. })), "the second began never");
}

#[tokio::test]
async fn prompt_that_is_cancelled_between_its_taking_up_and_its_turn_is_cancelled() {
    let test_ws = TestWorkspace::new();
    let process = test_ws.process();
    let sessions = process.sessions();
    let body = json!(prompt(&[json!({"say": "never said", "after_ms": 60_000})]));
    process.runtime().store().operations().note("s", "k", "me", body).await.unwrap();
    let prepared = sessions.prepare("s");
    let mut opened = process.open(&prepared).unwrap();
    let mut owner = prepared.own(&mut opened.agent).await.unwrap();
    let pending = owner.next().await;
    assert!(pending.begin().await.unwrap() && !pending.is_cancelled());
    let handle = sessions.open(Some("s"), "one").await.unwrap();
    let cancel = Operation::Cancel { prompt: Some("k".to_owned()) };
    assert_eq!(handle.act("c", cancel).await.unwrap(), json!({"cancelled": true}));
    let began = Began { key: Some("k".to_owned()), ..Began::default() };
    assert!(owner.begin_turn(&opened.agent, began).cancel().is_cancelled());
}

#[tokio::test]
async fn turns_are_taken_back_models_change_and_what_is_not_kept_says_so() {
    let test_ws = TestWorkspace::new();
    let process = test_ws.process();
    let sessions = process.sessions();
    let handle = sessions.open(None, "one").await.unwrap();
    handle.act("1", Operation::Prompt(Prompt::new("remember me"))).await.unwrap();
    let back = handle.act("2", Operation::Rewind { turns: 1 }).await.unwrap();
    assert_eq!(back["said"], "remember me");
    let fault = handle.act("3", Operation::Rewind { turns: 1 }).await.unwrap_err();
    assert_eq!(fault.kind, Kind::NotFound, "{}", fault.what);
    handle.act("4", Operation::Model { name: "script".to_owned() }).await.unwrap();
    assert_eq!(
        handle.act("5", Operation::Model { name: "x".to_owned() }).await.unwrap_err().kind,
        Kind::NotFound
    );
    handle.act("6", Operation::Profile { name: Some("plan".to_owned()) }).await.unwrap();
    assert_eq!(handle.state().await.unwrap().profile.as_deref(), Some("plan"));
    let fault = handle.act("7", Operation::Rename { title: "t".to_owned() }).await.unwrap_err();
    assert_eq!(fault.kind, Kind::Unavailable, "{}", fault.what);
    let fold = folded(&handle).await;
    assert_eq!(fold.configured, (Some("script".to_owned()), Some("plan".to_owned())));
}

#[tokio::test]
async fn a_session_that_is_closed_is_run_by_whoever_attaches_next() {
    let test_ws = TestWorkspace::new();
    let (here, there) = (test_ws.process().sessions(), test_ws.process().sessions());
    let one = here.open(None, "one").await.unwrap();
    one.act("1", Operation::Prompt(Prompt::new("hi"))).await.unwrap();
    let mut watcher = one.watch(0);
    one.act("2", Operation::Close).await.unwrap();
    until(&mut watcher, |it| matches!(it, Event::Closed { by } if by == "one")).await;
    let other = there.attach(one.session(), "other").await.unwrap();
    other.act("3", Operation::Prompt(Prompt::new("again"))).await.unwrap();
    let rows = until(&mut watcher, is_end).await;
    assert!(matches!(rows[0].event, Event::Opened { epoch: 2, .. }), "{:?}", rows[0]);
    let state = one.state().await.unwrap();
    assert_eq!(
        (state.epoch, one.act("4", Operation::Cancel { prompt: None }).await.unwrap()),
        (2, json!({"cancelled": false}))
    );
    let fault = there.attach("nobody", "x").await.map(|_| ()).unwrap_err();
    assert_eq!(fault.kind, Kind::NotFound);
}

#[tokio::test]
async fn words_are_kept_in_rows_without_their_secrets() {
    let test_ws = TestWorkspace::new();
    let process = test_ws.process();
    let handle = process.sessions().open(None, "one").await.unwrap();
    let say = "the token is hunter2hunter2, keep it";
    // Cut into pieces of a few letters, none of which has the whole of it.
    let told = prompt(&[json!({"say": say, "think": say, "chunks": 12, "chunk_ms": 35})]);
    handle.act("1", told).await.unwrap();
    let mut watcher = handle.watch(0);
    let mut said = String::new();
    while let Some(row) = watcher.try_next().await.unwrap() {
        let json = serde_json::to_string(&row.event).unwrap();
        assert!(!json.contains("hunter2"), "{json}");
        if let Event::Agent(agent::Event::Text { text }) = &row.event {
            said.push_str(text);
        }
    }
    assert_eq!(said, "the token is [masked:A_TOKEN], keep it");
    let bytes = std::fs::read_dir(process.runtime().store().folder()).unwrap().flatten();
    for file in bytes.filter(|it| it.file_name().to_string_lossy().starts_with("haft.db")) {
        let bytes = std::fs::read(file.path()).unwrap();
        assert!(!bytes.windows(14).any(|it| it == b"hunter2hunter2"), "{:?}", file.path());
    }
}
