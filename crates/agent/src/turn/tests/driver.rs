//! Tests of the driver: it waits for promised results, and each begins a turn.

use std::time::Duration;

use kit::services::State;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::test_model::{Fixture, calls, results, said, text};
use crate::{
    driver::{Driver, Driving, Settled},
    input::Input,
    turn::{Agent, Ended},
};

const LONG: Duration = Duration::from_secs(600);

fn driver(wait: Duration, wakes: usize) -> Driver {
    Driver::new(Driving { wait, wakes })
}

fn in_background() -> Vec<super::test_model::Move> {
    calls(&[("1", "act", r#"{"act":"hang","run_in_background":true}"#)])
}

fn waits(fixture: &Fixture) -> Vec<Value> {
    fixture.heard().into_iter().filter(|it| it["event"] == "waits").collect()
}

/// Returns the outcome of a conversation whose one job is released once it works.
async fn settled_once_let_go(fixture: &Fixture, agent: &mut Agent) -> Settled {
    let cancel = CancellationToken::new();
    let mut driver = driver(LONG, 20);
    let settling = driver.settle(agent, Some(Input::new("go".to_owned())), &cancel);
    let letting = async {
        fixture.at_work(1).await;
        fixture.let_go(1);
    };
    let (settled, ()) = tokio::join!(settling, letting);
    settled.unwrap()
}

#[tokio::test]
async fn promised_result_is_awaited_and_begins_its_own_turn() {
    let fixture = Fixture::new();
    fixture.plays([in_background(), said("I wait"), said("it is over")]);
    let mut agent = fixture.agent();
    let settled = settled_once_let_go(&fixture, &mut agent).await;
    assert_eq!((settled.outcome.ended, settled.outcome.text.as_str()), (Ended::Done, "it is over"));
    assert_eq!((settled.outcome.steps, settled.late.len()), (3, 0));
    let asked = format!("{:?}", fixture.last_request().items.last());
    assert!(asked.contains("job_1 (act) ended: done") && asked.contains("Its result:"), "{asked}");
}

#[tokio::test]
async fn a_tool_of_mode_background_answers_with_a_job_whose_result_begins_a_turn() {
    let fixture = Fixture::with_modes();
    fixture.plays([calls(&[("1", "late", "{}")]), said("I wait"), said("it is over")]);
    let mut agent = fixture.agent();
    let settled = settled_once_let_go(&fixture, &mut agent).await;
    assert_eq!((settled.outcome.ended, settled.outcome.text.as_str()), (Ended::Done, "it is over"));
    let answers = results(&agent);
    assert!(text(&answers[0]).starts_with("job_1 runs in the background: late"), "{answers:?}");
    let asked = format!("{:?}", fixture.last_request().items.last());
    assert!(asked.contains("job_1 (late) ended: done") && asked.contains("it came late"), "{asked}");
    // The schema does not mention an option without effect.
    let tools = fixture.last_request().tools;
    let late = tools.iter().find(|it| it.name == "late").unwrap();
    assert!(!late.schema.to_string().contains("run_in_background"), "{}", late.schema);
}

#[tokio::test]
async fn a_tool_of_mode_stateful_yields_and_is_continued_to_its_end() {
    let fixture = Fixture::with_modes();
    let next =
        |id, word: &str| calls(&[(id, "continue_job", &format!(r#"{{"job":"job_1","input":"{word}"}}"#))]);
    fixture.plays([calls(&[("1", "talk", "{}")]), next("2", "salt"), next("3", "bread"), said("done")]);
    let mut agent = fixture.agent();
    let cancel = CancellationToken::new();
    let input = Some(Input::new("go".to_owned()));
    let settled = driver(LONG, 20).settle(&mut agent, input, &cancel).await.unwrap();
    assert_eq!((settled.outcome.text.as_str(), settled.outcome.steps, settled.late.len()), ("done", 4, 0));
    let said: Vec<String> = results(&agent).iter().map(text).collect();
    assert_eq!(said.len(), 3, "{said:?}");
    assert!(said[0].starts_with("the first word?\njob_1 waits for input: continue_job"), "{said:?}");
    assert!(said[1].starts_with("the second word?"), "{said:?}");
    assert!(said[2].contains("\"salt\" and \"bread\""), "{said:?}");
    assert!(waits(&fixture).is_empty(), "what waits for input is not waited for");
}

#[tokio::test]
async fn output_yielded_in_the_background_begins_a_turn() {
    let fixture = Fixture::with_modes();
    let begins = calls(&[("1", "talk", r#"{"run_in_background":true,"later":true}"#)]);
    let next = calls(&[("2", "continue_job", r#"{"job":"job_1","input":"salt"}"#)]);
    fixture.plays([begins, said("I wait"), next, said("one is said")]);
    let mut agent = fixture.agent();
    let cancel = CancellationToken::new();
    let input = Some(Input::new("go".to_owned()));
    let mut driver = driver(LONG, 20);
    let settling = driver.settle(&mut agent, input, &cancel);
    let yielding = async {
        // Output that comes before the turn's next step is shown in it.
        while waits(&fixture).is_empty() {
            tokio::task::yield_now().await;
        }
        fixture.let_go(1);
    };
    let (settled, ()) = tokio::join!(settling, yielding);
    assert_eq!(settled.unwrap().outcome.text, "one is said");
    let told = fixture.requests().iter().map(|it| format!("{:?}", it.items.last())).collect::<Vec<_>>();
    assert!(told.iter().any(|it| it.contains("job_1 (talk) is waiting for input")), "{told:?}");
    assert!(told.iter().any(|it| it.contains("the first word?")), "{told:?}");
}

#[tokio::test]
async fn late_results_are_named() {
    let fixture = Fixture::new();
    fixture.plays([in_background(), said("I wait")]);
    let mut agent = fixture.agent();
    let input = Some(Input::new("go".to_owned()));
    let cancel = CancellationToken::new();
    let settled = driver(Duration::ZERO, 20).settle(&mut agent, input, &cancel).await.unwrap();
    assert_eq!(settled.outcome.text, "I wait");
    assert_eq!(settled.late.iter().map(|it| it.id.as_str()).collect::<Vec<_>>(), ["job_1"]);
    let told = waits(&fixture);
    assert_eq!((told.len(), &told[0]["jobs"][0]["id"]), (1, &"job_1".into()), "{told:?}");
}

#[tokio::test]
async fn waiting_can_be_cancelled_like_a_turn() {
    let fixture = Fixture::new();
    fixture.plays([in_background(), said("I wait")]);
    let mut agent = fixture.agent();
    let cancel = CancellationToken::new();
    let mut driver = driver(LONG, 20);
    let settling = driver.settle(&mut agent, Some(Input::new("go".to_owned())), &cancel);
    let stopping = async {
        while waits(&fixture).is_empty() {
            tokio::task::yield_now().await;
        }
        cancel.cancel();
    };
    let (settled, ()) = tokio::join!(settling, stopping);
    assert_eq!(settled.unwrap().outcome.ended, Ended::Cancelled);
}

#[tokio::test]
async fn turns_begun_by_jobs_are_limited_until_the_next_message() {
    let fixture = Fixture::new();
    fixture.plays([in_background(), said("one"), in_background(), said("two"), said("three")]);
    let mut agent = fixture.agent();
    let cancel = CancellationToken::new();
    let mut driver = driver(LONG, 1);
    let mut events = agent.session().events();
    driver.say(&mut agent, Input::new("go".to_owned()), &cancel).await.unwrap();
    fixture.at_work(1).await;
    fixture.let_go(1);
    assert_eq!(events.recv().await.unwrap().state, State::Done.name());
    driver.woken(agent.session()).await;
    driver.wake(&mut agent, &cancel).await.unwrap();
    fixture.at_work(1).await;
    fixture.let_go(1);
    assert_eq!(events.recv().await.unwrap().state, State::Done.name());
    let again = tokio::time::timeout(Duration::ZERO, driver.woken(agent.session())).await;
    assert!(again.is_err() && agent.session().has_notifications(), "it waits for a word of the person");
    let outcome = driver.say(&mut agent, Input::new("and now?".to_owned()), &cancel).await.unwrap();
    assert_eq!(outcome.text, "three");
}
