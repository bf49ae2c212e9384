//! Switching the profile of a running agent.

use std::{collections::BTreeMap, sync::Arc};

use haft::agent::model::Model;
use serde_json::json;

use super::support::{Fixture, Players, Wish, calls, says};

const JUDGE: (&str, &str) =
    (".haft/agents/judge.md", "---\ndescription: judges\nmodel: other\ntools: [read]\n---\nJUDGE\n");

#[tokio::test]
async fn model_prompt_and_tools_are_others_from_the_next_answer_on() {
    let fixture = Fixture::new(&[JUDGE, ("a.txt", "one\n")]).await;
    let first = calls(&[("switch_profile", json!({"profile": "judge"}))]);
    // The other one goes on with the same conversation: this is its second answer.
    let other = says("not asked for this") + &says("judged");
    let model = Arc::new(Players::new(&[("THE FIRST", &first)]));
    let judge = Arc::new(Players::named("other", &[("JUDGE", &other)]));
    let models = BTreeMap::from([("other".to_owned(), judge.clone() as Arc<dyn Model>)]);
    let mut home = fixture.agent(model.clone(), Wish { models, ..Wish::default() });
    assert_eq!(home.turn().await.text, "judged");
    assert_eq!(judge.shown("JUDGE"), [["read", "list_profiles", "switch_profile"]]);
    let said = &home.answered("switch_profile")[0];
    assert!(said.contains("judge") && said.contains("model: other"), "{said}");
    assert_eq!(home.agent.crew().unwrap().profile().as_deref(), Some("judge"));
    home.agent.crew().unwrap().begin(None, true).unwrap();
    assert!(home.session().catalog().has("edit"));
    assert_eq!(home.agent.model().name(), "players");
}

#[tokio::test]
async fn a_model_does_not_leave_what_its_person_chose_to_be_read_only() {
    let files = [
        (".haft/agents/reader.md", "---\ndescription: reads\nsandbox: read-only\n---\nREADER\n"),
        ("a.txt", "one\n"),
    ];
    let fixture = Fixture::new(&files).await;
    let script = calls(&[("switch_profile", json!({"profile": "general"}))])
        + &calls(&[("write", json!({"path": "b", "content": "x"}))])
        + &says("tried");
    let mut home = fixture.agent(Arc::new(Players::new(&[("", &script)])), Wish::default());
    home.agent.crew().unwrap().begin(Some("reader"), true).unwrap();
    home.turn().await;
    assert!(home.answered("switch_profile")[0].contains("Nothing can be changed"));
    assert!(!fixture.path("b").exists(), "{:?}", home.answered("write"));
}
