//! Cancellation.

use super::*;
use crate::{Stop, tests::places::Place};

for_each_engine! {
    cancelling_work_of_nobody_ends_it,
    a_worker_learns_of_a_cancellation_within_200_ms,
    a_worker_that_comes_late_sees_the_cancellation,
    cancelled_work_of_a_lost_worker_is_not_run_again,
    a_lost_lease_is_notified_too,
}

async fn cancelling_work_of_nobody_ends_it<P: Place>(place: &P) {
    let engine = engine(place).await;
    engine.offer(work(1)).await.unwrap();
    let status = engine.cancel(&key(1)).await.unwrap();
    assert_eq!((status.state, status.cancel_requested), (State::Ended(Outcome::Cancelled), true));
    assert_eq!(outcome(&engine, &key(1)).await, Outcome::Cancelled);
    let nobody = tokio::time::timeout(Duration::from_millis(300), engine.claim(&worker("w1"))).await;
    assert!(nobody.is_err(), "{nobody:?}");
    assert!(engine.cancel(&key(2)).await.is_err(), "an unknown key");
}

async fn a_worker_learns_of_a_cancellation_within_200_ms<P: Place>(place: &P) {
    let (sender, runner) = (engine(place).await, engine(place).await);
    for step in 0..5 {
        sender.offer(work(step)).await.unwrap();
        let (claimed, mut lease) = claim(&runner, &worker("w1")).await;
        runner.begin(&mut lease).await.unwrap();
        let notified = tokio::spawn(runner.cancelled(&lease));
        // It waits as long as a worker does: the poll has become slow.
        tokio::time::sleep(Duration::from_millis(300)).await;
        runner.renew(&mut lease).await.unwrap();
        assert!(!notified.is_finished(), "a renewal is not a cancellation");
        let start = Instant::now();
        sender.cancel(&claimed.key).await.unwrap();
        assert_eq!(notified.await.unwrap().unwrap(), Stop::Cancelled);
        assert!(since(start) < Duration::from_millis(200), "notified after {:?}", since(start));
        // The lease still holds: the worker says how it ended.
        runner.finish(&mut lease, Outcome::Cancelled).await.unwrap();
        assert_eq!(outcome(&sender, &claimed.key).await, Outcome::Cancelled);
    }
}

async fn a_worker_that_comes_late_sees_the_cancellation<P: Place>(place: &P) {
    let (sender, runner) = (engine(place).await, engine(place).await);
    sender.offer(work(1)).await.unwrap();
    let (_, mut lease) = claim(&runner, &worker("w1")).await;
    let status = sender.cancel(&key(1)).await.unwrap();
    assert!(status.cancel_requested && matches!(status.state, State::Leased { .. }), "{status:?}");
    assert_eq!(runner.cancelled(&lease).await.unwrap(), Stop::Cancelled);
    runner.finish(&mut lease, done("it was done before")).await.unwrap();
    assert_eq!(outcome(&sender, &key(1)).await, done("it was done before"));
}

async fn cancelled_work_of_a_lost_worker_is_not_run_again<P: Place>(place: &P) {
    let (sender, lost) = (engine(place).await, engine(place).await);
    for (step, begin, ends) in [(1, false, Outcome::Cancelled), (2, true, Outcome::Interrupted)] {
        sender.offer(Work { idempotent: true, ..work(step) }).await.unwrap();
        let (_, mut lease) = claim(&lost, &worker("lost")).await;
        if begin {
            lost.begin(&mut lease).await.unwrap();
        }
        sender.cancel(&key(step)).await.unwrap();
        assert_eq!(outcome(&sender, &key(step)).await, ends);
    }
}

async fn a_lost_lease_is_notified_too<P: Place>(place: &P) {
    let (sender, lost) = (engine(place).await, engine(place).await);
    sender.offer(work(1)).await.unwrap();
    let (_, mut lease) = claim(&lost, &worker("lost")).await;
    lost.begin(&mut lease).await.unwrap();
    let notified = tokio::spawn(lost.cancelled(&lease));
    assert_eq!(outcome(&sender, &key(1)).await, Outcome::Interrupted);
    let stop = tokio::time::timeout(Duration::from_secs(5), notified).await.expect("notified");
    assert_eq!(stop.unwrap().unwrap(), Stop::Lost);
}
