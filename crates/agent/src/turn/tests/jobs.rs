//! Tests of the ends of jobs: messages in the inbox of the agent that began them, shown once.

use kit::services::State;
use store::{Arrival, ArrivalState, Source};
use tokio_util::sync::CancellationToken;

use super::test_model::{Fixture, calls, said};
use crate::{
    model::{Item, Piece},
    turn::Agent,
};

fn in_background(id: &str) -> Vec<super::test_model::Move> {
    calls(&[(id, "act", r#"{"act":"hang","run_in_background":true}"#)])
}

fn inbox(agent: &Agent) -> Vec<Arrival> {
    agent.session().runtime().store().inbox().list(agent.session().name(), 10).unwrap()
}

fn last(items: &[Item]) -> String {
    match items.last() {
        Some(Item::Person { pieces }) => Piece::lines(pieces),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn end_of_a_job_is_shown_between_two_steps_as_data_and_once() {
    let fixture = Fixture::new();
    fixture.plays([
        in_background("1"),
        calls(&[("2", "act", r#"{"act":"hang"}"#)]),
        calls(&[("3", "act", r#"{"act":"ok"}"#)]),
        said("done"),
    ]);
    let mut agent = fixture.agent();
    let mut events = agent.session().events();
    let letting = async {
        fixture.at_work(2).await;
        fixture.let_go(1);
        assert_eq!(events.recv().await.unwrap().state, State::Done.name());
        fixture.let_go(1);
    };
    tokio::join!(fixture.turn(&mut agent, "go"), letting);
    let shown = last(&fixture.requests()[2].items);
    assert!(
        shown.contains("not the person's words") && shown.contains("source=\"job\" from=\"job_1\">\n"),
        "{shown}"
    );
    assert!(
        shown.contains("job_1 (act) ended: done") && shown.contains(". Its result:\nlet go\n</message>"),
        "{shown}"
    );
    let all = format!("{:?}", fixture.last_request().items);
    assert_eq!(all.matches("job_1 (act) ended").count(), 1, "{all}");
    let kept = inbox(&agent);
    assert_eq!(
        kept.iter().map(|it| (it.source, it.state, it.calls.len())).collect::<Vec<_>>(),
        [(Source::Job, ArrivalState::Acted, 1)]
    );
    assert!(!agent.session().has_notifications());
    let told = fixture.heard().into_iter().filter(|it| it["event"] == "message_shown").collect::<Vec<_>>();
    assert_eq!((told.len(), &told[0]["source"], &told[0]["from"]), (1, &"job".into(), &"job_1".into()));
}

#[tokio::test]
async fn job_that_the_model_has_read_is_not_told_again() {
    let fixture = Fixture::new();
    fixture.plays([in_background("1"), said("it runs"), said("on")]);
    let mut agent = fixture.agent();
    fixture.turn_with_ended_job(&mut agent).await;
    assert_eq!(inbox(&agent).len(), 1);
    agent.session().job_table().get("job_1").unwrap();
    assert!(!agent.session().has_notifications());
    fixture.turn(&mut agent, "and?").await;
    assert_eq!(last(&fixture.last_request().items), "and?");
    assert_eq!(inbox(&agent), []);
}

#[tokio::test]
async fn end_of_a_job_that_nobody_saw_waits_for_the_next_message_after_a_restart() {
    let fixture = Fixture::new();
    fixture.plays([in_background("1"), said("it runs"), said("I see"), said("on")]);
    let mut agent = fixture.agent();
    fixture.turn_with_ended_job(&mut agent).await;
    drop(agent);
    let mut agent = fixture.agent();
    let inbox = agent.session().runtime().store().inbox();
    assert!(!inbox.has_queued(agent.session().name()).unwrap(), "it begins no turn by itself");
    assert_eq!(agent.turn(None, &CancellationToken::new()).await.unwrap().text, "I see");
    assert!(last(&fixture.last_request().items).contains("job_1 (act) ended: done"));
    fixture.turn(&mut agent, "on").await;
    let all = format!("{:?}", fixture.last_request().items);
    assert_eq!(all.matches("job_1 (act) ended").count(), 1, "{all}");
    assert!(!all.contains("haft was started again"), "{all}");
}
