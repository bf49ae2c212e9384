//! Results that were promised: they are waited for, and each begins a turn.

use std::time::Duration;

use kit::services::State;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::stage::{House, calls, said};
use crate::{
    driver::{Driver, Driving},
    input::Input,
    turn::Ended,
};

const LONG: Duration = Duration::from_secs(600);

fn driver(wait: Duration, wakes: usize) -> Driver {
    Driver::new(Driving { wait, wakes })
}

fn in_background() -> Vec<super::stage::Move> {
    calls(&[("1", "act", r#"{"act":"hang","run_in_background":true}"#)])
}

fn waits(house: &House) -> Vec<Value> {
    house.heard().into_iter().filter(|it| it["event"] == "waits").collect()
}

#[tokio::test]
async fn a_promised_result_is_waited_for_and_answered_in_a_turn_of_its_own() {
    let house = House::new();
    house.plays([in_background(), said("I wait"), said("it is over")]);
    let mut agent = house.agent();
    let cancel = CancellationToken::new();
    let mut driver = driver(LONG, 20);
    let settling = driver.settle(&mut agent, Some(Input::new("go".to_owned())), &cancel);
    let letting = async {
        house.at_work(1).await;
        house.let_go(1);
    };
    let (settled, ()) = tokio::join!(settling, letting);
    let settled = settled.unwrap();
    assert_eq!((settled.outcome.ended, settled.outcome.text.as_str()), (Ended::Done, "it is over"));
    assert_eq!((settled.outcome.steps, settled.late.len()), (3, 0));
    let asked = format!("{:?}", house.last_request().items.last());
    assert!(asked.contains("job_1 (act) ended: done") && asked.contains("Its result:"), "{asked}");
}

#[tokio::test]
async fn what_does_not_come_in_time_is_named() {
    let house = House::new();
    house.plays([in_background(), said("I wait")]);
    let mut agent = house.agent();
    let input = Some(Input::new("go".to_owned()));
    let cancel = CancellationToken::new();
    let settled = driver(Duration::ZERO, 20).settle(&mut agent, input, &cancel).await.unwrap();
    assert_eq!(settled.outcome.text, "I wait");
    assert_eq!(settled.late.iter().map(|it| it.id.as_str()).collect::<Vec<_>>(), ["job_1"]);
    let told = waits(&house);
    assert_eq!((told.len(), &told[0]["jobs"][0]["id"]), (1, &"job_1".into()), "{told:?}");
}

#[tokio::test]
async fn waiting_is_stopped_like_a_turn() {
    let house = House::new();
    house.plays([in_background(), said("I wait")]);
    let mut agent = house.agent();
    let cancel = CancellationToken::new();
    let mut driver = driver(LONG, 20);
    let settling = driver.settle(&mut agent, Some(Input::new("go".to_owned())), &cancel);
    let stopping = async {
        while waits(&house).is_empty() {
            tokio::task::yield_now().await;
        }
        cancel.cancel();
    };
    let (settled, ()) = tokio::join!(settling, stopping);
    assert_eq!(settled.unwrap().outcome.ended, Ended::Cancelled);
}

#[tokio::test]
async fn the_ends_of_jobs_begin_so_many_turns_in_a_row_until_somebody_speaks() {
    let house = House::new();
    house.plays([in_background(), said("one"), in_background(), said("two"), said("three")]);
    let mut agent = house.agent();
    let cancel = CancellationToken::new();
    let mut driver = driver(LONG, 1);
    let mut events = agent.session().events();
    driver.say(&mut agent, Input::new("go".to_owned()), &cancel).await.unwrap();
    house.at_work(1).await;
    house.let_go(1);
    assert_eq!(events.recv().await.unwrap().state, State::Done.name());
    driver.woken(agent.session()).await;
    driver.wake(&mut agent, &cancel).await.unwrap();
    house.at_work(1).await;
    house.let_go(1);
    assert_eq!(events.recv().await.unwrap().state, State::Done.name());
    let again = tokio::time::timeout(Duration::ZERO, driver.woken(agent.session())).await;
    assert!(again.is_err() && agent.session().has_news(), "it waits for a word of the person");
    let outcome = driver.say(&mut agent, Input::new("and now?".to_owned()), &cancel).await.unwrap();
    assert_eq!(outcome.text, "three");
}
