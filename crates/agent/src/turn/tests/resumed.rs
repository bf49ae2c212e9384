//! Tests: a conversation goes on in another process.

use super::*;

#[tokio::test]
async fn two_at_once_are_told_so_and_one_after_the_other_go_on() {
    let house = House::new();
    let agent = house.agent();
    let Err(fault) = house.try_agent(|_| {}) else { panic!("both go on") };
    assert!(fault.what.contains("is open in another haft (process"), "{}", fault.what);
    drop(agent);
    house.agent();
}

#[tokio::test]
async fn jobs_of_another_life_are_known_to_be_gone_once() {
    let house = House::new();
    house.plays([calls(&[("1", "act", r#"{"act":"hang","run_in_background":true}"#)]), said("it runs")]);
    let mut agent = house.agent();
    house.turn(&mut agent, "go").await;
    agent.session().end().await;
    for (told, input) in [(true, "on"), (false, "on again")] {
        drop(agent);
        agent = house.agent();
        house.turn(&mut agent, input).await;
        let last = format!("{:?}", house.last_request().items.last());
        assert_eq!(last.contains("jobs that were begun before are gone"), told, "{last}");
    }
}

#[tokio::test]
async fn that_a_turn_was_stopped_is_known_in_another_life() {
    let house = House::new();
    house.plays([vec![Move::Say(Part::Text("I".to_owned())), Move::Cancel, Move::Hang]]);
    let mut agent = house.agent();
    house.turn(&mut agent, "go").await;
    drop(agent);
    let mut agent = house.agent();
    house.turn(&mut agent, "on").await;
    let last = format!("{:?}", house.last_request().items.last());
    assert!(last.contains("The person stopped you here"), "{last}");
}
