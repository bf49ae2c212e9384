//! Tests: conversations longer than the context window, and with pictures.

use super::*;
use crate::model::Piece;

fn big(count: usize) -> Vec<Vec<Move>> {
    (0..count).map(|at| calls(&[("", "act", &format!(r#"{{"act":"big {}"}}"#, 600 + at))])).collect()
}

fn notes(fixture: &Fixture) -> Vec<String> {
    let heard = fixture.heard().into_iter().filter(|it| it["event"] == "note");
    heard.map(|it| it["text"].as_str().unwrap().to_owned()).collect()
}

fn bytes(request: &crate::model::Request) -> usize {
    serde_json::to_string(&request.items).unwrap().len()
}

/// Returns a model whose window is full after a few results of 10 kB.
fn small() -> Fixture {
    let mut fixture = Fixture::new();
    fixture.abilities.window = 30_000;
    fixture.abilities.longest = 5_000;
    fixture
}

#[tokio::test]
async fn old_results_become_a_line_with_a_handle() {
    let fixture = small();
    fixture.plays(big(9));
    let mut agent = fixture.agent();
    fixture.turn(&mut agent, "go").await;
    let got = results(&agent);
    let line = text(&got[0]);
    assert!(line.starts_with("[result of act, 10 kB: out_") && text(&got[8]).len() > 9000, "{line}");
    let handle = line.trim_end_matches(']').rsplit(' ').next().unwrap();
    let whole = agent.session().runtime().spills().read(agent.session().name(), handle).unwrap();
    assert_eq!(whole.len(), 9600);
    let heard = notes(&fixture);
    assert!(
        heard[0].contains("came near the model's window") && heard[0].contains("older results are a line"),
        "{heard:?}"
    );
    assert!(fixture.requests().iter().all(|it| bytes(it) < 100_000));
}

#[tokio::test]
async fn model_summarizes_a_long_conversation_that_stays_readable_whole() {
    let fixture = small();
    let long = "a word and another, ".repeat(600);
    fixture.plays((0..8).map(|_| said(&long)));
    let mut agent = fixture.agent();
    fixture.turn(&mut agent, "the task is X").await;
    for turn in 0..6 {
        fixture.turn(&mut agent, &format!("go on {turn}")).await;
    }
    fixture.forget_plays();
    fixture.plays([said("We did a lot."), said("answer")]);
    assert_eq!(fixture.turn(&mut agent, "and now").await.text, "answer");
    let request = fixture.last_request();
    let first = match &request.items[0] {
        Item::Person { pieces } => Piece::lines(pieces),
        other => panic!("{other:?}"),
    };
    assert!(first.contains("the task is X") && first.contains("We did a lot."), "{first}");
    assert_eq!(request.items.last(), Some(&Item::person("and now")));
    let handle = first.split("kept as ").nth(1).unwrap().split(':').next().unwrap();
    let whole = agent.session().runtime().spills().read(agent.session().name(), handle).unwrap();
    assert!(String::from_utf8(whole).unwrap().contains("a word and another, a word"));
    let asked = fixture.requests().iter().find(|it| it.longest.is_some()).unwrap().clone();
    assert!(asked.tools.is_empty() && bytes(&asked) < 80_000);
    let before = agent.transcript().items().to_vec();
    drop(agent);
    assert_eq!(fixture.agent().transcript().items(), before, "it is the same for who resumes it");
}

#[tokio::test]
async fn digest_replaces_a_failed_summary() {
    let fixture = small();
    let mut moves = vec![Move::Say(Part::Text("I look around. ".repeat(900)))];
    moves.extend(calls(&[("", "act", r#"{"act":"ok"}"#)]));
    fixture.plays((0..6).map(|_| moves.clone()));
    let mut agent = fixture.agent();
    agent.set_bounds(Bounds { steps: 6, ..Bounds::default() });
    fixture.turn(&mut agent, "go").await;
    fixture.plays([vec![Move::Fail(Breach::Busy)], said("answer")]);
    assert_eq!(fixture.turn(&mut agent, "on").await.text, "answer");
    let first = format!("{:?}", fixture.last_request().items[0]);
    assert!(first.contains("called act") && first.contains("act came to: ok"), "{first}");
    assert!(notes(&fixture).iter().any(|it| it.contains("by rule")), "{:?}", notes(&fixture));
}

#[tokio::test]
async fn too_long_request_is_shortened_twice_before_the_error() {
    let fixture = Fixture::new();
    let too_long = || vec![Move::Fail(Breach::TooLong)];
    fixture.plays(big(6));
    let mut agent = fixture.agent();
    agent.set_bounds(Bounds { steps: 6, ..Bounds::default() });
    fixture.turn(&mut agent, "go").await;
    fixture.plays([too_long(), said("summary"), said("answer")]);
    fixture.turn(&mut agent, "on").await;
    let asked: Vec<usize> = fixture.requests().iter().filter(|it| it.longest.is_none()).map(bytes).collect();
    assert!(asked[7] < asked[6] / 2, "{asked:?}");
    fixture.forget_plays();
    fixture.plays([too_long(), too_long(), too_long(), too_long(), too_long()]);
    let before = fixture.requests().len();
    let error = fixture.try_turn(&mut agent, Some("again")).await.unwrap_err();
    assert!(matches!(error, AgentError::Model(it) if it.breach == Breach::TooLong));
    assert!(fixture.requests().len() - before <= 5);
}

#[tokio::test]
async fn newest_message_is_cut_as_a_last_resort() {
    let mut fixture = Fixture::new();
    fixture.abilities.window = 10_000;
    fixture.abilities.longest = 2000;
    fixture.plays([said("answer")]);
    let mut agent = fixture.agent();
    fixture.turn(&mut agent, &"a very long paste; ".repeat(5000)).await;
    let request = fixture.last_request();
    assert!(bytes(&request) < 30_000, "{}", bytes(&request));
    assert!(format!("{:?}", request.items).contains("kB in all: out_"), "{:?}", request.items);
}

#[tokio::test]
async fn repeated_call_gets_a_notice_and_the_whole_result_after_compaction() {
    let fixture = Fixture::new();
    fixture.plays((0..5).map(|_| calls(&[("", "act", r#"{"act":"big 50"}"#)])));
    let mut agent = fixture.agent();
    fixture.turn(&mut agent, "go").await;
    // The tool may change something, so only its own results show that nothing changed.
    let got: Vec<String> = results(&agent).iter().map(text).collect();
    assert_eq!(got[1].len(), 800);
    assert!(got[2].starts_with("unchanged since call 1") && got[4].contains("do something else"), "{got:?}");
    let heard = fixture.heard().into_iter().filter(|it| it["event"] == "answered");
    assert!(
        heard.map(|it| it["text"].as_str().unwrap().len()).all(|it| it == 800),
        "the person sees what is"
    );
}

#[tokio::test]
async fn only_the_newest_pictures_are_sent_and_only_to_models_that_accept_them() {
    for (images, expected) in [(true, vec![false, false, true, true, true, true]), (false, vec![false; 6])] {
        let mut fixture = Fixture::new();
        fixture.abilities.images = images;
        fixture.plays((0..6).map(|_| calls(&[("", "act", r#"{"act":"picture"}"#)])));
        let mut agent = fixture.agent();
        fixture.turn(&mut agent, "go").await;
        let request = fixture.last_request();
        let sent: Vec<bool> = request
            .items
            .iter()
            .filter_map(
                |it| if let Item::Results { results } = it { Some(&results[0].pieces[0]) } else { None },
            )
            .map(|it| matches!(it, Piece::Image { data: Some(_), .. }))
            .collect();
        assert_eq!(sent, expected);
        assert!(text(&first(&agent)).starts_with("[picture out_"));
    }
}

#[tokio::test]
async fn a_text_that_looks_like_a_picture_is_a_text() {
    let fixture = Fixture::new();
    let data = "data:image/png;base64,iVBORw0KGgo=";
    fixture.plays([calls(&[("", "act", &format!(r#"{{"act":"{data}"}}"#))]), said("done")]);
    let mut agent = fixture.agent();
    fixture.turn(&mut agent, "go").await;
    assert_eq!(first(&agent).pieces, [Piece::text(data)]);
}
