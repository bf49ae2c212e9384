//! Tests of resuming: another process continues the conversation.

use super::*;

#[tokio::test]
async fn session_is_open_in_one_agent_at_a_time() {
    let fixture = Fixture::new();
    let agent = fixture.agent();
    let Err(fault) = fixture.try_agent(|_| {}) else { panic!("both go on") };
    assert!(fault.what.contains("is open in another haft (process"), "{}", fault.what);
    drop(agent);
    fixture.agent();
}

#[tokio::test]
async fn end_of_a_job_that_the_model_did_not_see_is_told_once_in_a_later_process() {
    let fixture = Fixture::new();
    fixture.plays([calls(&[("1", "act", r#"{"act":"hang","run_in_background":true}"#)]), said("it runs")]);
    let mut agent = fixture.agent();
    fixture.turn(&mut agent, "go").await;
    agent.session().end().await;
    for (told, input) in [(true, "on"), (false, "on again")] {
        drop(agent);
        agent = fixture.agent();
        fixture.turn(&mut agent, input).await;
        let last = format!("{:?}", fixture.last_request().items.last());
        assert_eq!(last.contains("job_1 (act) was stopped after"), told, "{last}");
    }
}

#[tokio::test]
async fn cancelled_turn_is_reported_in_a_later_process() {
    let fixture = Fixture::new();
    fixture.plays([vec![Move::Say(Part::Text("I".to_owned())), Move::Cancel, Move::Hang]]);
    let mut agent = fixture.agent();
    fixture.turn(&mut agent, "go").await;
    drop(agent);
    let mut agent = fixture.agent();
    fixture.turn(&mut agent, "on").await;
    let last = format!("{:?}", fixture.last_request().items.last());
    assert!(last.contains("The person stopped you here"), "{last}");
}
