//! Tests: a turn keeps its promises, whatever the model, the tools and the person do.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod any_order;
mod between_turns;
mod driver;
mod inbox;
mod jobs;
mod longer;
mod resumed;
mod test_model;

use std::time::{Duration, Instant};

use kit::services::State;
use runtime::config::ToolVisibility;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::model::{Breach, Event as Part, Item, ResultOf, Usage};
use test_model::{Fixture, Move, call, calls, end, results, said, text};

#[tokio::test]
async fn forty_calls_of_one_answer_have_their_results_in_the_models_order() {
    let fixture = Fixture::new();
    let many: Vec<Move> =
        (0..40).flat_map(|at| call(at, "", "act", &format!(r#"{{"act":"ok {at}"}}"#))).collect();
    fixture.plays([[many, end()].concat(), said("done")]);
    let mut agent = fixture.agent();
    let outcome = fixture.turn(&mut agent, "go").await;
    assert_eq!((outcome.ended, outcome.steps, outcome.text.as_str()), (Ended::Done, 2, "done"));
    let got: Vec<String> = results(&agent).iter().map(text).collect();
    assert_eq!(got, (0..40).map(|at| format!("ok {at}")).collect::<Vec<_>>());
}

#[tokio::test]
async fn endless_answer_is_cut_off() {
    let fixture = Fixture::new();
    let thought = Move::Say(Part::Reasoning("x".repeat(3 << 20)));
    let begun = Move::Say(Part::Text("so far".to_owned()));
    fixture.plays([vec![begun, thought.clone(), thought.clone(), thought, Move::Hang], said("done")]);
    let mut agent = fixture.agent();
    let outcome = fixture.turn(&mut agent, "go").await;
    assert_eq!((outcome.ended, outcome.steps, outcome.text.as_str()), (Ended::Done, 2, "done"));
    assert!(fixture.heard().iter().any(|it| it.to_string().contains("was cut off there")));
}

#[tokio::test]
async fn empty_or_used_call_ids_are_replaced() {
    let fixture = Fixture::new();
    fixture.plays([
        calls(&[
            ("same", "act", r#"{"act":"ok 1"}"#),
            ("same", "act", r#"{"act":"ok 2"}"#),
            (" ", "act", "{}"),
        ]),
        calls(&[("same", "act", r#"{"act":"ok 3"}"#)]),
        said("done"),
    ]);
    let mut agent = fixture.agent();
    fixture.turn(&mut agent, "go").await;
    let ids: Vec<String> = results(&agent).into_iter().map(|it| it.id).collect();
    assert_eq!(ids[0], "same");
    assert!(ids[1..].iter().all(|it| it.starts_with("c_")), "{ids:?}");
}

#[tokio::test]
async fn unknown_tools_invalid_json_and_panics_are_error_results() {
    let fixture = Fixture::new();
    fixture.plays([
        calls(&[
            ("1", "no such tool!", "{}"),
            ("2", "", "{}"),
            ("3", "act", "{\"act\": "),
            ("4", "act", r#"{"act":"panic"}"#),
            ("5", "act", r#"{"act":"early"}"#),
            ("6", "act", r#"{"act":"fail"}"#),
            ("7", "act", r#"{"act":"ok"}"#),
            ("8", "act", r#"{"act":"nothing"}"#),
        ]),
        said("done"),
    ]);
    let mut agent = fixture.agent();
    fixture.turn(&mut agent, "go").await;
    let got = results(&agent);
    assert_eq!(
        got.iter().map(|it| it.ok).collect::<Vec<_>>(),
        [false, false, false, false, false, false, true, true]
    );
    assert_eq!((got[0].tool.as_str(), got[1].tool.as_str()), ("no_such_tool_", "unnamed"));
    assert!(
        text(&got[3]).contains("panicked: of run") && text(&got[4]).contains("panicked: of touches"),
        "{got:?}"
    );
    assert!(got.iter().all(|it| !it.pieces.is_empty()), "{got:?}");
}

#[tokio::test]
async fn model_that_has_retried_is_not_retried() {
    for breach in [Breach::Busy, Breach::Unreachable, Breach::Malformed] {
        let fixture = Fixture::new();
        fixture.plays([vec![Move::GiveUp(breach)], said("never asked for")]);
        let error = fixture.try_turn(&mut fixture.agent(), Some("go")).await.unwrap_err();
        assert!(matches!(error, AgentError::Model(it) if it.breach == breach));
        assert_eq!(fixture.requests().len(), 1, "{breach}");
    }
}

#[tokio::test]
async fn turn_ends_whatever_tokens_a_provider_counts() {
    let fixture = Fixture::new();
    let most = Usage { input: u64::MAX, output: u64::MAX, ..Usage::default() };
    let mut moves = call(0, "1", "act", r#"{"act":"ok"}"#);
    moves.push(Move::Say(Part::Used(most)));
    moves.extend(end());
    let mut agent = fixture.agent();
    agent.set_bounds(Bounds { tokens: Some(1_000), ..Bounds::default() });
    fixture.plays([moves]);
    let outcome = fixture.turn(&mut agent, "go").await;
    assert_eq!((outcome.ended, outcome.usage.all()), (Ended::Limit, u64::MAX));
}

#[tokio::test]
async fn broken_stream_is_retried_only_before_any_call() {
    let fixture = Fixture::new();
    let broken = |mut moves: Vec<Move>| {
        moves.push(Move::Fail(Breach::Broken));
        moves
    };
    fixture.plays([
        broken(call(0, "1", "act", r#"{"act":"ok"}"#)),
        broken(vec![Move::Say(Part::Text("half".to_owned()))]),
        said("done"),
    ]);
    tokio::time::pause();
    let mut agent = fixture.agent();
    let outcome = fixture.turn(&mut agent, "go").await;
    assert_eq!((outcome.steps, outcome.text.as_str(), results(&agent).len()), (2, "done", 1));
    assert_eq!(fixture.count("act"), 1, "what was called once is done once");
}

#[tokio::test]
async fn conversation_continues_after_a_permanent_failure() {
    let fixture = Fixture::new();
    fixture.plays([calls(&[("1", "act", "{}")]), vec![Move::Fail(Breach::Auth)], said("done")]);
    let mut agent = fixture.agent();
    let error = agent.turn(Some("go".to_owned()), &CancellationToken::new()).await.unwrap_err();
    assert!(matches!(error, AgentError::Model(it) if it.breach == Breach::Auth));
    let outcome = agent.turn(None, &CancellationToken::new()).await.unwrap();
    assert_eq!((outcome.text.as_str(), agent.transcript().items().len()), ("done", 4));
    let again = agent.turn(None, &CancellationToken::new()).await.unwrap();
    assert_eq!((again.steps, again.text.as_str()), (0, "done"), "nothing is left to answer");
}

#[tokio::test]
async fn cancel_keeps_the_conversation_answers_every_call_and_notifies_the_model() {
    let fixture = Fixture::new();
    let mut moves = vec![Move::Say(Part::Text("I begin.".to_owned()))];
    moves.extend(call(0, "1", "act", r#"{"act":"ok"}"#));
    moves.extend(call(1, "2", "act", r#"{"act":"hang"}"#));
    moves.extend(call(2, "3", "act", r#"{"act":"stubborn"}"#));
    moves.extend([
        Move::Say(Part::CallBegan { index: 3, tool: "act".to_owned() }),
        Move::AtWork(2),
        Move::Cancel,
        Move::Hang,
    ]);
    fixture.plays([moves, said("done")]);
    let mut agent = fixture.agent();
    let began = Instant::now();
    let outcome = fixture.turn(&mut agent, "go").await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!((outcome.ended, outcome.text.as_str()), (Ended::Cancelled, "I begin."));
    let got = results(&agent);
    assert_eq!(got.iter().map(|it| it.ok).collect::<Vec<_>>(), [true, false, false]);
    assert!(text(&got[1]).contains("was stopped"), "{got:?}");
    let outcome = fixture.turn(&mut agent, "go on").await;
    assert_eq!(outcome.ended, Ended::Done);
    let Some(Item::Person { pieces }) = fixture.last_request().items.pop() else { panic!() };
    assert_eq!(
        pieces.iter().map(crate::model::Piece::line).collect::<Vec<_>>(),
        ["The person stopped you here, before you were done.", "go on"]
    );
}

#[tokio::test]
async fn cancel_before_an_answer_keeps_the_persons_message() {
    let fixture = Fixture::new();
    fixture.plays([vec![Move::Cancel, Move::Hang], said("done")]);
    let mut agent = fixture.agent();
    assert_eq!(fixture.turn(&mut agent, "first").await.ended, Ended::Cancelled);
    assert_eq!(agent.transcript().items(), [Item::person("first")]);
    fixture.turn(&mut agent, "second").await;
    assert_eq!(fixture.last_request().items.len(), 2);
}

#[tokio::test]
async fn dropped_turn_leaves_a_valid_conversation() {
    let fixture = Fixture::new();
    fixture.plays([
        [call(0, "1", "act", r#"{"act":"ok"}"#), call(1, "2", "act", r#"{"act":"hang"}"#), vec![Move::Hang]]
            .concat(),
        said("done"),
    ]);
    let mut agent = fixture.agent();
    let cancel = CancellationToken::new();
    tokio::select! {
        _ = agent.turn(Some("go".to_owned()), &cancel) => panic!("it hangs"),
        () = fixture.at_work(1) => {}
    }
    let outcome = fixture.turn(&mut agent, "go on").await;
    assert_eq!((outcome.text.as_str(), results(&agent).len()), ("done", 2));
}

#[tokio::test]
async fn limits_end_a_turn_and_no_request_exceeds_them() {
    let fixture = Fixture::new();
    let one = |used: u64| {
        let mut moves = call(0, "", "act", "{}");
        moves.push(Move::Say(Part::Used(Usage { input: used, output: 1, ..Usage::default() })));
        [moves, end()].concat()
    };
    fixture.plays([one(600), one(600), one(1), one(1), one(1)]);
    let mut agent = fixture.agent();
    agent.set_bounds(Bounds { tokens: Some(1000), ..Bounds::default() });
    let outcome = fixture.turn(&mut agent, "go").await;
    assert_eq!((outcome.ended, outcome.steps, outcome.usage.request()), (Ended::Limit, 2, 1200));
    agent.set_bounds(Bounds { steps: 1, ..Bounds::default() });
    assert_eq!(fixture.turn(&mut agent, "on").await.ended, Ended::Limit);
    let Some(Item::Person { pieces }) = fixture.last_request().items.pop() else { panic!() };
    assert!(pieces[0].line().starts_with("You were stopped here"), "{pieces:?}");
    fixture.forget_plays();
    fixture.plays([vec![Move::Hang]]);
    agent.set_bounds(Bounds { time: Some(Duration::from_millis(30)), ..Bounds::default() });
    assert_eq!(fixture.turn(&mut agent, "on").await.ended, Ended::Limit);
}

#[tokio::test]
async fn answer_that_is_cut_off_is_continued_a_limited_number_of_times() {
    let fixture = Fixture::new();
    let cut = |mut moves: Vec<Move>| {
        moves.push(Move::Say(Part::End(Why::Length)));
        moves
    };
    let half = || vec![Move::Say(Part::CallBegan { index: 0, tool: "act".to_owned() })];
    fixture.plays([cut(half()), said("done")]);
    let mut agent = fixture.agent();
    fixture.turn(&mut agent, "go").await;
    let asked = format!("{:?}", fixture.last_request().items);
    assert!(asked.contains("call of act that you were writing was not complete"), "{asked}");
    fixture.plays((0..9).map(|_| cut(half())));
    assert_eq!(fixture.turn(&mut agent, "go").await.ended, Ended::Limit);
    assert_eq!(fixture.requests().len(), 2 + 3);
}

#[tokio::test]
async fn trailing_reasoning_and_blank_texts_are_not_sent_back() {
    let fixture = Fixture::new();
    let thought = || {
        Move::Say(Part::Opaque(MessagePart::Opaque { wire: "w".to_owned(), value: json!({"thought": 1}) }))
    };
    let blank = || Move::Say(Part::Text(" \n".to_owned()));
    fixture.plays([
        [vec![thought(), blank()], end()].concat(),
        [vec![thought()], call(0, "1", "act", "{}"), vec![thought(), Move::Fail(Breach::Broken)]].concat(),
        said("done"),
    ]);
    let mut agent = fixture.agent();
    fixture.turn(&mut agent, "one").await;
    assert_eq!(agent.transcript().items(), [Item::person("one")]);
    fixture.turn(&mut agent, "two").await;
    let Some(Item::Model { said }) = agent.transcript().items().get(2) else { panic!() };
    assert_eq!(said.len(), 2, "{said:?}");
}

#[tokio::test]
async fn a_call_that_becomes_a_job_is_answered_at_once_and_its_end_begins_the_next_turn() {
    let fixture = Fixture::new();
    fixture.plays([
        calls(&[("1", "act", r#"{"act":"hang","run_in_background":true}"#)]),
        said("it runs"),
        said("it is over"),
    ]);
    let mut agent = fixture.agent();
    assert_eq!(fixture.turn(&mut agent, "go").await.ended, Ended::Done);
    let owed = agent.session().owed_jobs().await;
    assert_eq!(
        owed.iter().map(|it| (it.id.as_str(), it.name.as_str())).collect::<Vec<_>>(),
        [("job_1", "act")]
    );
    let mut events = agent.session().events();
    fixture.at_work(1).await;
    fixture.let_go(1);
    assert_eq!(events.recv().await.unwrap().state, State::Done.name());
    assert!(agent.session().owed_jobs().await.is_empty() && agent.session().owes_notifications());
    let outcome = agent.turn(None, &CancellationToken::new()).await.unwrap();
    assert_eq!(outcome.text, "it is over");
    let asked = format!("{:?}", fixture.last_request().items.last());
    assert!(asked.contains("job_1 (act) ended: done"), "{asked}");
}

#[tokio::test]
async fn a_new_tool_is_shown_with_the_next_message_or_with_the_next_request() {
    for (visible, then) in
        [(ToolVisibility::NextMessage, [1, 1, 2]), (ToolVisibility::NextRequest, [1, 2, 2])]
    {
        let fixture = Fixture::new();
        fixture.plays([calls(&[("1", "act", r#"{"act":"new tool"}"#)]), said("one"), said("two")]);
        let mut agent = fixture.agent_with(|settings| settings.visible = visible);
        fixture.turn(&mut agent, "go").await;
        fixture.turn(&mut agent, "again").await;
        let shown: Vec<usize> = fixture.requests().iter().map(|it| it.tools.len()).collect();
        assert_eq!(shown, then, "{visible:?}");
    }
}

#[tokio::test]
async fn the_model_and_its_prompt_can_be_changed_in_the_middle_of_a_turn() {
    let fixture = Fixture::new();
    fixture.plays([[call(0, "1", "act", r#"{"act":"hang"}"#), end()].concat(), said("one")]);
    let mut agent = fixture.agent();
    let steering = agent.steering();
    let (outcome, ()) = tokio::join!(fixture.turn(&mut agent, "go"), async {
        fixture.at_work(1).await;
        steering.set_system("you are another".into());
        fixture.let_go(1);
    });
    assert_eq!((outcome.text.as_str(), &*fixture.last_request().system), ("one", "you are another"));
}

#[tokio::test]
async fn command_reports_its_exit_code_and_the_turn_its_cost() {
    let fixture = Fixture::new();
    let mut moves = call(0, "1", "act", r#"{"act":"exit 3"}"#);
    moves.push(Move::Say(Part::Used(Usage { input: 1_000_000, output: 1_000_000, ..Usage::default() })));
    fixture.plays([[moves, end()].concat(), said("done")]);
    let mut agent = fixture.agent();
    let outcome = fixture.turn(&mut agent, "go").await;
    assert_eq!(outcome.cost, Some(3.0));
    let heard = fixture.heard().into_iter().find(|it| it["event"] == "answered").unwrap();
    assert_eq!((heard["exit"].as_i64(), heard["ok"].as_bool()), (Some(3), Some(true)));
    let told = serde_json::to_value(agent.transcript().messages().unwrap()).unwrap();
    assert_eq!((&told[1]["who"], &told[1]["exit"]), (&json!("tool"), &json!(3)));
}

/// One of the results.
fn first(agent: &Agent) -> ResultOf {
    results(agent).remove(0)
}
