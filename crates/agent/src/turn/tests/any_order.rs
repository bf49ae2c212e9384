//! Tests of random moves: the conversation stays valid, whatever happens in whatever order.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::model::OwnTool;

fn arguments() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => Just(r#"{"act":"ok"}"#.to_owned()),
        2 => Just(r#"{"act":"change"}"#.to_owned()),
        1 => Just(r#"{"act":"panic"}"#.to_owned()),
        1 => Just(r#"{"act":"early"}"#.to_owned()),
        1 => Just(r#"{"act":"fail"}"#.to_owned()),
        1 => Just(r#"{"act":"nothing"}"#.to_owned()),
        1 => Just(r#"{"act":"picture"}"#.to_owned()),
        1 => Just(r#"{"act":"big 3000"}"#.to_owned()),
        1 => Just(r#"{"act":"hang","run_in_background":true}"#.to_owned()),
        1 => Just("{\"act\": ".to_owned()),
        1 => Just(String::new()),
        1 => Just("[1]".to_owned()),
    ]
}

fn tool() -> impl Strategy<Value = String> {
    prop_oneof![6 => Just("act"), 1 => Just("unknown"), 1 => Just(""), 1 => Just("a b\u{0}c")]
        .prop_map(str::to_owned)
}

fn id() -> impl Strategy<Value = String> {
    prop_oneof![2 => Just(""), 2 => Just("same"), 1 => Just("other"), 1 => Just("call_1")]
        .prop_map(str::to_owned)
}

fn why() -> impl Strategy<Value = Why> {
    prop_oneof![4 => Just(Why::Done), 4 => Just(Why::Calls), 1 => Just(Why::Length), 1 => Just(Why::Refused), 1 => Just(Why::Paused)]
}

fn breach() -> impl Strategy<Value = Breach> {
    prop_oneof![
        Just(Breach::Auth),
        Just(Breach::TooLong),
        Just(Breach::Refused),
        Just(Breach::Busy),
        Just(Breach::Broken),
        Just(Breach::Malformed)
    ]
}

/// One random move, which may be nonsense: calls that are closed but never began, twice, or interleaved.
fn one() -> impl Strategy<Value = Vec<Move>> {
    let part = |it: Part| vec![Move::Say(it)];
    prop_oneof![
        3 => prop_oneof![Just("text"), Just(" "), Just("")].prop_map(move |it| part(Part::Text(it.to_owned()))),
        1 => Just(part(Part::Reasoning("hm".to_owned()))),
        1 => Just(part(Part::Opaque(MessagePart::Opaque { wire: "w".to_owned(), value: json!({"kept": true}) }))),
        1 => Just(part(Part::Picture { tool: OwnTool::ImageGen, mime: "image/png".to_owned(), data: [1, 2].as_slice().into() })),
        1 => Just(part(Part::Used(Usage { input: 9, output: 1, ..Usage::default() }))),
        2 => (0..4usize, tool()).prop_map(move |(index, tool)| part(Part::CallBegan { index, tool })),
        1 => (0..4usize).prop_map(move |index| part(Part::CallGrew { index, bytes: 3 })),
        3 => (0..4usize, id(), tool(), arguments()).prop_map(move |(index, id, tool, arguments)| part(Part::CallClosed { index, id, tool, arguments })),
        3 => (0..4usize, id(), tool(), arguments()).prop_map(|(index, id, tool, arguments)| call(index, &id, &tool, &arguments)),
        1 => Just(vec![Move::AtWork(1), Move::Cancel]).prop_map(|it| [call(9, "", "act", r#"{"act":"hang"}"#), it].concat()),
        2 => Just(vec![Move::Yield; 5]),
        1 => Just(vec![Move::Cancel]),
        1 => Just(vec![Move::Panic]),
        2 => breach().prop_map(|it| vec![Move::Fail(it)]),
    ]
}

fn answer() -> impl Strategy<Value = Vec<Move>> {
    (prop::collection::vec(one(), 0..7), prop::option::weighted(0.8, why())).prop_map(|(moves, why)| {
        let mut moves = moves.concat();
        moves.extend(why.map(|it| Move::Say(Part::End(it))));
        moves
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn requests_are_valid_and_on_the_disk(
        answers in prop::collection::vec(answer(), 1..9),
        turns in prop::collection::vec((prop::bool::ANY, prop::bool::ANY), 1..4),
        window in prop_oneof![Just(200_000u64), Just(9_000)],
    ) {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        tokio.block_on(async {
            let mut fixture = Fixture::new();
            fixture.abilities.window = window;
            fixture.abilities.longest = 1000;
            fixture.plays(answers);
            let mut agent = fixture.agent();
            agent.set_bounds(Bounds { steps: 6, ..Bounds::default() });
            for (speaks, reopens) in turns {
                tokio::time::pause();
                // The turn may fail: only the conversation matters.
                let _ = fixture.try_turn(&mut agent, speaks.then_some("go")).await;
                tokio::time::resume();
                // A cancelled turn waits for the disk for a limited time, and a paused clock skips that at
                // once.
                agent.transcript.written().await.unwrap();
                if reopens {
                    let before = agent.transcript().items().to_vec();
                    drop(agent);
                    agent = fixture.agent();
                    fixture.check(&agent);
                    assert_eq!(agent.transcript().items(), before, "resumed with what there was");
                }
            }
            fixture.forget_plays();
            assert_eq!(fixture.turn(&mut agent, "once more").await.text, "nothing more");
            assert_answered(&fixture);
        });
    }
}

/// Asserts that observers get exactly one end of each call.
#[track_caller]
fn assert_answered(fixture: &Fixture) {
    let of = |event: &str| {
        let heard = fixture.heard().into_iter().filter(|it| it["event"] == event);
        let mut calls: Vec<String> = heard.map(|it| it["call"].as_str().unwrap().to_owned()).collect();
        calls.sort();
        calls
    };
    assert_eq!(of("called"), of("answered"));
}
