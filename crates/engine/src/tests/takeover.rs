//! Leases end by observation.

use super::*;
use crate::{Error, tests::places::Place};

for_each_engine! {
    work_that_had_not_begun_is_offered_again,
    begun_work_of_a_lost_worker_is_interrupted,
    begun_idempotent_work_of_a_lost_worker_is_offered_again,
    a_worker_observes_the_leases_of_others,
    a_renewed_lease_is_not_taken_over,
    events_of_two_holders_are_numbered_in_one_row,
}

/// A worker claims, begins if it should, and dies: nothing renews its lease.
async fn lose(engine: &impl Engine, begin: bool) {
    let (_, mut lease) = claim(engine, &worker("lost")).await;
    if begin {
        engine.begin(&mut lease).await.unwrap();
    }
}

async fn work_that_had_not_begun_is_offered_again<P: Place>(place: &P) {
    let (sender, lost) = (engine(place).await, engine(place).await);
    sender.offer(work(1)).await.unwrap();
    lose(&lost, false).await;
    drop(lost);
    let start = Instant::now();
    let mut watch = sender.watch(&key(1), 0).await.unwrap();
    let status = state_of(&mut watch, |it| *it == State::Offered).await;
    assert_eq!(status.retries, 1);
    assert!(since(start) >= LEASE, "taken over after {:?}", since(start));
    let (_, lease) = claim(&sender, &worker("next")).await;
    assert_eq!(lease.retries, 1);
}

async fn begun_work_of_a_lost_worker_is_interrupted<P: Place>(place: &P) {
    let (sender, lost) = (engine(place).await, engine(place).await);
    sender.offer(work(1)).await.unwrap();
    lose(&lost, true).await;
    drop(lost);
    assert_eq!(outcome(&sender, &key(1)).await, Outcome::Interrupted);
    let nobody = tokio::time::timeout(Duration::from_millis(500), sender.claim(&worker("next"))).await;
    assert!(nobody.is_err(), "it is not run again: {nobody:?}");
}

async fn begun_idempotent_work_of_a_lost_worker_is_offered_again<P: Place>(place: &P) {
    let (sender, lost) = (engine(place).await, engine(place).await);
    sender.offer(Work { idempotent: true, ..work(1) }).await.unwrap();
    lose(&lost, true).await;
    drop(lost);
    let watch = sender.watch(&key(1), 0).await.unwrap();
    let running = tokio::spawn(rest(watch));
    let next = engine(place).await;
    let (_, mut lease) = claim(&next, &worker("next")).await;
    next.finish(&mut lease, done("second")).await.unwrap();
    let (_, states) = running.await.unwrap();
    assert_eq!(states.last().unwrap().state, State::Ended(done("second")));
}

async fn a_worker_observes_the_leases_of_others<P: Place>(place: &P) {
    let (sender, lost, next) = (engine(place).await, engine(place).await, engine(place).await);
    sender.offer(work(1)).await.unwrap();
    lose(&lost, false).await;
    drop((lost, sender));
    // Nobody watches; the worker that waits for work takes it over.
    let (claimed, lease) = claim(&next, &worker("next")).await;
    assert_eq!((claimed.key, lease.retries), (key(1), 1));
}

async fn a_renewed_lease_is_not_taken_over<P: Place>(place: &P) {
    let (sender, holder, other) = (engine(place).await, engine(place).await, engine(place).await);
    sender.offer(work(1)).await.unwrap();
    let watching = tokio::spawn(rest(sender.watch(&key(1), 0).await.unwrap()));
    let (_, mut lease) = claim(&holder, &worker("holder")).await;
    holder.begin(&mut lease).await.unwrap();
    let other =
        tokio::spawn(
            async move { tokio::time::timeout(LEASE * 4, other.claim(&worker("other"))).await.is_err() },
        );
    let start = Instant::now();
    while since(start) < LEASE * 3 {
        tokio::time::sleep(LEASE / 4).await;
        holder.renew(&mut lease).await.unwrap();
    }
    holder.finish(&mut lease, done("mine")).await.unwrap();
    let (_, states) = watching.await.unwrap();
    assert_eq!(states.last().unwrap().state, State::Ended(done("mine")));
    assert!(other.await.unwrap(), "nobody else had it");
}

async fn events_of_two_holders_are_numbered_in_one_row<P: Place>(place: &P) {
    let (sender, lost, next) = (engine(place).await, engine(place).await, engine(place).await);
    sender.offer(Work { idempotent: true, ..work(1) }).await.unwrap();
    let (_, mut old) = claim(&lost, &worker("lost")).await;
    lost.append(&mut old, json!("old 1")).await.unwrap();
    lost.append(&mut old, json!("old 2")).await.unwrap();
    let (_, mut lease) = claim(&next, &worker("next")).await;
    assert_eq!(next.append(&mut lease, json!("new 3")).await.unwrap(), 3);
    let refused = lost.append(&mut old, json!("zombie")).await;
    assert!(matches!(refused, Err(Error::Lost { .. })), "{refused:?}");
    next.finish(&mut lease, done("ok")).await.unwrap();
    let (events, _) = rest(sender.watch(&key(1), 0).await.unwrap()).await;
    let texts: Vec<_> = events.iter().map(|it| (it.number, it.value.as_str().unwrap())).collect();
    assert_eq!(texts, [(1, "old 1"), (2, "old 2"), (3, "new 3")]);
}
