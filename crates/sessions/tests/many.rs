//! Many watchers of one session, and slow ones.

use serde_json::json;
use sessions::Fold;

use crate::support::{TestWorkspace, folded, prompt};

#[tokio::test]
async fn a_hundred_watchers_know_the_same_and_those_who_do_not_read_slow_nobody() {
    let test_ws = TestWorkspace::new();
    let (process, there) = (test_ws.process(), test_ws.process());
    let (here, there) = (process.sessions(), there.watching());
    let handle = here.open(Some("s"), "one").await.unwrap();
    let reading = (0..100).map(|at| {
        let mut watcher = if at % 2 == 0 { handle.watch(0) } else { there.watch("s", 0) };
        tokio::spawn(async move {
            let mut fold = Fold::new();
            loop {
                let row = watcher.next().await.unwrap();
                fold.add(&row);
                if fold.ended().any(|it| it.0 == "last") {
                    return fold;
                }
            }
        })
    });
    let reading: Vec<_> = reading.collect();
    // These have all of it before them, and read nothing.
    let mut asleep: Vec<_> = (0..20).map(|_| (handle.watch(0), there.watch("s", 0))).collect();
    let long = json!({"say": "a word and another ".repeat(200), "chunks": 400, "chunk_ms": 1});
    for key in ["first", "last"] {
        let end = handle.act(key, prompt(std::slice::from_ref(&long))).await.unwrap();
        assert_eq!(end["ended"], "done");
    }
    let log = folded(&handle).await;
    for task in reading {
        assert_eq!(task.await.unwrap(), log);
    }
    for (here, there) in &mut asleep {
        for watcher in [here, there] {
            let mut fold = Fold::new();
            while let Some(row) = watcher.try_next().await.unwrap() {
                fold.add(&row);
            }
            assert_eq!(fold, log);
        }
    }
}

#[tokio::test]
async fn a_watcher_of_another_process_wakes_by_the_socket() {
    let test_ws = TestWorkspace::new();
    let (here, there) = (test_ws.process().sessions(), test_ws.process().watching());
    let mut early = there.watch("s", 0);
    let handle = here.open(Some("s"), "one").await.unwrap();
    let row = tokio::time::timeout(crate::support::TIMEOUT, early.next()).await.unwrap().unwrap();
    assert!(matches!(row.event, sessions::Event::Opened { epoch: 1, .. }));
    handle.act("k", prompt(&[json!({"say": "hi"})])).await.unwrap();
    crate::support::until(&mut early, crate::support::is_end).await;
}

#[tokio::test]
async fn a_long_session_is_read_to_its_end_at_once_by_another_process() {
    let test_ws = TestWorkspace::new();
    let process = test_ws.process();
    {
        use sessions::Opener as _;
        let prepared = process.sessions().prepare("s");
        let mut opened = process.open(&prepared).unwrap();
        let owner = prepared.own(&mut opened.agent).await.unwrap();
        for at in 0..1500 {
            owner.log().add(agent::Event::Note { text: format!("event {at}") });
        }
        owner.close("me").await.unwrap();
    }
    // Nobody told it how long the session is.
    let mut watcher = test_ws.process().watching().watch("s", 0);
    let mut rows = 0;
    while watcher.try_next().await.unwrap().is_some() {
        rows += 1;
    }
    assert_eq!(rows, 1502);
}
