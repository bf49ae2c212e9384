//! The zombie: a worker that was stopped for longer than its lease and goes on as if nothing had happened.

use super::*;
use crate::tests::places::Place;

for_each_engine! {
    a_zombie_changes_nothing,
    without_the_fence_the_zombie_gets_through,
}

/// Returns what of a zombie was accepted after another worker took its work over, and how the work ended.
async fn accepted_of_a_zombie<S: crate::storage::Storage>(
    zombie: Leases<S>,
    next: &Leases<S>,
) -> (Vec<&'static str>, Outcome) {
    next.offer(Work { idempotent: true, ..work(1) }).await.unwrap();
    let (_, mut old) = claim(&zombie, &worker("zombie")).await;
    zombie.begin(&mut old).await.unwrap();
    // It sleeps; the lease passes to the next worker, which begins the work.
    let (_, mut lease) = claim(next, &worker("next")).await;
    next.begin(&mut lease).await.unwrap();
    let mut accepted = Vec::new();
    if zombie.append(&mut old, json!("zombie")).await.is_ok() {
        accepted.push("event");
    }
    if zombie.renew(&mut old).await.is_ok() {
        accepted.push("renewal");
    }
    if zombie.begin(&mut old).await.is_ok() {
        accepted.push("beginning");
    }
    if zombie.finish(&mut old, done("zombie")).await.is_ok() {
        accepted.push("result");
    }
    let _ = next.finish(&mut lease, done("next")).await;
    let (events, mut states) = rest(next.watch(&key(1), 0).await.unwrap()).await;
    if !events.is_empty() && !accepted.contains(&"event") {
        accepted.push("event without an answer");
    }
    match states.pop().unwrap().state {
        State::Ended(outcome) => (accepted, outcome),
        other => panic!("{other:?}"),
    }
}

async fn a_zombie_changes_nothing<P: Place>(place: &P) {
    let (zombie, next) = (engine(place).await, engine(place).await);
    let (accepted, outcome) = accepted_of_a_zombie(zombie, &next).await;
    assert_eq!((accepted, outcome), (Vec::new(), done("next")));
}

/// The same run without the fence shows that the test above would fail.
async fn without_the_fence_the_zombie_gets_through<P: Place>(place: &P) {
    let zombie = Leases::without_fence(place.storage(LEASE).await, LEASE);
    let next = engine(place).await;
    let (accepted, outcome) = accepted_of_a_zombie(zombie, &next).await;
    assert_eq!(accepted, ["event", "renewal", "beginning", "result"]);
    assert_eq!(outcome, done("zombie"));
}
