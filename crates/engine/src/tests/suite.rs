//! Offers, claims, events, results, workers.

use super::*;
use crate::{Control, Need, tests::places::Place};

for_each_engine! {
    offering_a_key_again_returns_its_state_and_changes_nothing,
    work_goes_only_to_workers_that_fit,
    events_and_result_reach_the_watcher_in_order,
    a_watch_begins_after_an_event_and_also_after_the_end,
    a_large_task_result_and_event_travel_whole,
    each_piece_of_work_goes_to_one_of_many_workers,
    finishing_again_is_accepted_and_changes_nothing,
    a_drained_worker_claims_nothing,
    workers_are_listed_until_they_leave_or_fall_silent,
    work_that_has_not_ended_is_listed_oldest_first,
    ended_work_is_swept_and_open_work_stays,
}

async fn offering_a_key_again_returns_its_state_and_changes_nothing<P: Place>(place: &P) {
    let engine = engine(place).await;
    let first = engine.offer(work(1)).await.unwrap();
    assert_eq!((first.state.clone(), first.retries), (State::Offered, 0));
    let other = Work { task: json!("another"), idempotent: true, ..work(1) };
    assert_eq!(engine.offer(other.clone()).await.unwrap(), first);
    let (claimed, mut lease) = claim(&engine, &worker("w1")).await;
    assert_eq!(claimed, work(1));
    engine.finish(&mut lease, done("first")).await.unwrap();
    assert_eq!(engine.offer(other).await.unwrap().state, State::Ended(done("first")));
}

async fn work_goes_only_to_workers_that_fit<P: Place>(place: &P) {
    let engine = engine(place).await;
    let tool = |hash: &str| Need::Tool { name: "t".to_owned(), hash: hash.to_owned() };
    engine.offer(Work { labels: labels(&["gpu"]), ..work(1) }).await.unwrap();
    engine.offer(Work { needs: vec![tool("new")], ..work(2) }).await.unwrap();
    engine.offer(Work { protocol: crate::PROTOCOL + 1, ..work(3) }).await.unwrap();
    engine.offer(work(4)).await.unwrap();
    let old = Worker { labels: labels(&["linux"]), has: vec![tool("old")], ..worker("old") };
    assert_eq!(claim(&engine, &old).await.0.key, key(4), "only what needs nothing");
    let nothing = tokio::time::timeout(Duration::from_millis(500), engine.claim(&old)).await;
    assert!(nothing.is_err(), "{nothing:?}");
    let gpu = Worker { labels: labels(&["gpu", "linux"]), ..worker("gpu") };
    assert_eq!(claim(&engine, &gpu).await.0.key, key(1));
    let new = Worker { has: vec![tool("new"), tool("other")], ..worker("new") };
    assert_eq!(claim(&engine, &new).await.0.key, key(2));
    let later = Worker { protocol: crate::PROTOCOL + 1, ..worker("later") };
    assert_eq!(claim(&engine, &later).await.0.key, key(3));
}

async fn events_and_result_reach_the_watcher_in_order<P: Place>(place: &P) {
    let (sender, runner) = (engine(place).await, engine(place).await);
    sender.offer(work(1)).await.unwrap();
    let watch = sender.watch(&key(1), 0).await.unwrap();
    let running = tokio::spawn(async move {
        let (_, mut lease) = claim(&runner, &worker("w1")).await;
        runner.begin(&mut lease).await.unwrap();
        for number in 1..=20 {
            assert_eq!(runner.append(&mut lease, json!({"n": number})).await.unwrap(), number);
            if number % 7 == 0 {
                runner.renew(&mut lease).await.unwrap();
            }
        }
        runner.finish(&mut lease, done("all")).await.unwrap();
    });
    let (events, states) = rest(watch).await;
    running.await.unwrap();
    let wanted: Vec<_> = (1..=20).map(|number| Event { number, value: json!({"n": number}) }).collect();
    assert_eq!(events, wanted);
    assert_eq!(states.last().unwrap().state, State::Ended(done("all")));
    let begun = |it: &&Status| matches!(it.state, State::Leased { begun: true, .. });
    assert!(states.iter().filter(begun).count() <= 1, "renewals show nothing: {states:?}");
}

async fn a_watch_begins_after_an_event_and_also_after_the_end<P: Place>(place: &P) {
    let engine = engine(place).await;
    engine.offer(work(1)).await.unwrap();
    let (_, mut lease) = claim(&engine, &worker("w1")).await;
    for number in 1..=5 {
        engine.append(&mut lease, json!(number)).await.unwrap();
    }
    engine.finish(&mut lease, Outcome::Failed { error: "no".to_owned() }).await.unwrap();
    let (events, states) = rest(engine.watch(&key(1), 3).await.unwrap()).await;
    assert_eq!(events.iter().map(|it| it.number).collect::<Vec<_>>(), [4, 5]);
    assert_eq!(states.len(), 1);
    assert!(engine.watch(&key(2), 0).await.is_err(), "an unknown key");
}

async fn a_large_task_result_and_event_travel_whole<P: Place>(place: &P) {
    let engine = engine(place).await;
    let large = json!({"text": "x".repeat(1_500_000)});
    engine.offer(Work { task: large.clone(), ..work(1) }).await.unwrap();
    let (claimed, mut lease) = claim(&engine, &worker("w1")).await;
    assert!(claimed.task == large, "the task is whole");
    engine.append(&mut lease, large.clone()).await.unwrap();
    engine.finish(&mut lease, Outcome::Done { result: large.clone(), patch: None }).await.unwrap();
    let (events, states) = rest(engine.watch(&key(1), 0).await.unwrap()).await;
    assert!(events[0].value == large, "the event is whole");
    assert!(states.last().unwrap().state == State::Ended(Outcome::Done { result: large, patch: None }));
}

async fn each_piece_of_work_goes_to_one_of_many_workers<P: Place>(place: &P) {
    const WORKS: u64 = 40;
    let sender = engine(place).await;
    let mut running = Vec::new();
    for number in 0..4 {
        let engine = engine(place).await;
        running.push(tokio::spawn(async move {
            let this = worker(&format!("w{number}"));
            let mut steps = Vec::new();
            while let Some((work, mut lease)) = engine.claim(&this).await.unwrap() {
                engine.begin(&mut lease).await.unwrap();
                engine.finish(&mut lease, done("ok")).await.unwrap();
                steps.push(work.key.step);
            }
            steps
        }));
    }
    for step in 0..WORKS {
        sender.offer(work(step)).await.unwrap();
    }
    for step in 0..WORKS {
        assert_eq!(outcome(&sender, &key(step)).await, done("ok"));
    }
    let mut all = Vec::new();
    for number in 0..4 {
        sender.control(&format!("w{number}"), Control::Drain).await.unwrap();
    }
    for task in running {
        all.extend(task.await.unwrap());
    }
    all.sort_unstable();
    assert_eq!(all, (0..WORKS).collect::<Vec<_>>());
}

async fn finishing_again_is_accepted_and_changes_nothing<P: Place>(place: &P) {
    let engine = engine(place).await;
    engine.offer(work(1)).await.unwrap();
    let (_, mut lease) = claim(&engine, &worker("w1")).await;
    engine.finish(&mut lease, done("one")).await.unwrap();
    let revision = lease.revision;
    engine.finish(&mut lease, done("other")).await.unwrap();
    assert_eq!(lease.revision, revision);
    assert_eq!(outcome(&engine, &key(1)).await, done("one"));
    assert!(engine.append(&mut lease, json!("late")).await.is_err(), "nothing comes after the end");
}

async fn a_drained_worker_claims_nothing<P: Place>(place: &P) {
    let (one, other) = (engine(place).await, engine(place).await);
    let waiting = tokio::spawn(async move { one.claim(&worker("w1")).await.map(|it| it.is_none()) });
    // The claim waits before the request, most of the time; both orders must do.
    tokio::task::yield_now().await;
    other.control("w1", Control::Drain).await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(10), waiting).await.expect("the claim ends");
    assert!(ended.unwrap().unwrap());
    other.offer(work(1)).await.unwrap();
    assert!(other.claim(&worker("w1")).await.unwrap().is_none());
    assert_eq!(other.controlled("w1").await.unwrap(), Control::Drain);
    assert_eq!(claim(&other, &worker("w2")).await.0.key, key(1));
}

async fn workers_are_listed_until_they_leave_or_fall_silent<P: Place>(place: &P) {
    let engine = engine(place).await;
    let busy = Worker { busy: 1, labels: labels(&["gpu"]), ..worker("w1") };
    for it in [&worker("w1"), &worker("w2"), &busy] {
        engine.announce(it).await.unwrap();
    }
    assert_eq!(engine.workers().await.unwrap(), [busy.clone(), worker("w2")]);
    engine.leave("w2").await.unwrap();
    assert_eq!(engine.workers().await.unwrap(), [busy]);
    let start = Instant::now();
    while !engine.workers().await.unwrap().is_empty() {
        assert!(since(start) < LEASE * 6, "it is listed for ever");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn work_that_has_not_ended_is_listed_oldest_first<P: Place>(place: &P) {
    let (engine, other) = (engine(place).await, engine(place).await);
    for step in [3, 1, 2] {
        engine.offer(Work { labels: labels(&["gpu"]), ..work(step) }).await.unwrap();
    }
    let gpu = Worker { labels: labels(&["gpu"]), ..worker("w1") };
    let (_, mut lease) = claim(&engine, &gpu).await;
    engine.finish(&mut lease, done("ok")).await.unwrap();
    let listed = other.list().await.unwrap();
    assert_eq!(listed.iter().map(|it| it.key.step).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(listed[0].labels, labels(&["gpu"]));
    assert_eq!(listed[0].status.state, State::Offered);
}

async fn ended_work_is_swept_and_open_work_stays<P: Place>(place: &P) {
    let engine = engine(place).await;
    for step in [1, 2] {
        engine.offer(work(step)).await.unwrap();
    }
    let (claimed, mut lease) = claim(&engine, &worker("w1")).await;
    engine.append(&mut lease, json!("an event")).await.unwrap();
    engine.finish(&mut lease, done("ok")).await.unwrap();
    engine.sweep(Duration::from_secs(3600)).await.unwrap();
    assert!(engine.status(&claimed.key).await.unwrap().is_some(), "it is younger than an hour");
    tokio::time::sleep(Duration::from_millis(20)).await;
    engine.sweep(Duration::from_millis(1)).await.unwrap();
    assert_eq!(engine.status(&claimed.key).await.unwrap(), None);
    let open = if claimed.key == key(1) { key(2) } else { key(1) };
    assert_eq!(engine.status(&open).await.unwrap().unwrap().state, State::Offered);
}
