//! Sub-agents: they do a task with no more rights than they were given.

use std::{collections::BTreeMap, sync::Arc};

use haft::{
    agent::{Event, model::Model},
    runtime::config::SubagentSection,
};
use serde_json::json;

use super::support::{Fixture, HANG, Players, Wish, calls, python_tool, says, until};

fn scout(more: &str) -> (&'static str, String) {
    (".haft/agents/scout.md", format!("---\ndescription: looks\n{more}\n---\nSCOUT\n"))
}

#[tokio::test]
async fn its_last_answer_is_the_result_and_its_work_is_heard_and_counted() {
    let (name, text) = scout("");
    let fixture = Fixture::new(&[(name, &text), ("a.txt", "one\n")]).await;
    let parent = calls(&[("subagent", json!({"prompt": "what is in a.txt?", "profile": "scout"}))])
        + "{\"expect\": [\"scout_\", \"done\", \"it says one\"], \"say\": \"It says one.\", \"usage\": {\"input\": 10, \"cached\": 0, \"kept\": 0, \"output\": 1, \"reasoning\": 0}}\n";
    let child = calls(&[("read", json!({"path": "a.txt"}))])
        + "{\"expect\": [\"|one\"], \"say\": \"it says one\", \"usage\": {\"input\": 100, \"cached\": 0, \"kept\": 0, \"output\": 5, \"reasoning\": 0}}\n";
    let model = Arc::new(Players::new(&[("THE FIRST", &parent), ("SCOUT", &child)]));
    let mut home = fixture.agent(model.clone(), Wish::default());
    let outcome = home.turn().await;
    assert_eq!(outcome.text, "It says one.");
    assert!(outcome.usage.input >= 110, "{:?}", outcome.usage);
    assert!(home.answered_below("read")[0].contains("|one"));
    let events = home.events.0.lock().unwrap();
    let under =
        events.iter().any(|it| matches!(it, Event::Under { agent, .. } if agent.starts_with("scout_")));
    assert!(under, "{events:?}");
    // The sub-agent sees nothing of the conversation, and its prompt says that it is alone.
    let asked = model.asked.lock().unwrap();
    assert!(
        asked.iter().any(|it| it.0.starts_with("BASE SCOUT") && it.0.contains("Your last answer is all"))
    );
}

#[tokio::test]
async fn an_allowlist_binds_tools_that_are_files_too_and_unknown_names_are_told() {
    kit::needs!(Python);
    let (one, two) = (python_tool("one_file", "return 'first'"), python_tool("two_file", "return 'second'"));
    let (name, text) = scout("tools: [read, one_file, raed, subagent]");
    let fixture =
        Fixture::new(&[(name, &text), (&one.0, &one.1), (&two.0, &two.1), ("a.txt", "one\n")]).await;
    let parent = calls(&[("subagent", json!({"prompt": "go", "profile": "scout"}))]) + &says("ok");
    let child = calls(&[
        ("one_file", json!({})),
        ("two_file", json!({})),
        ("write", json!({"path": "x", "content": "x"})),
        ("list_tools", json!({})),
        ("call_tool", json!({"name": "two_file", "arguments": {}})),
    ]) + &says("tried");
    let model = Arc::new(Players::new(&[("THE FIRST", &parent), ("SCOUT", &child)]));
    let mut home = fixture.agent(model.clone(), Wish::default());
    home.turn().await;
    assert_eq!(model.shown("SCOUT"), vec![vec!["read".to_owned(), "one_file".to_owned()]; 2]);
    assert!(home.answered_below("one_file")[0].contains("first"));
    for tool in ["two_file", "write", "list_tools", "call_tool"] {
        let refused = &home.answered_below(tool)[0];
        assert!(refused.contains("no tool") || refused.contains("not among the tools"), "{tool}: {refused}");
    }
    assert!(!fixture.path("x").exists());
    let said = &home.answered("subagent")[0];
    assert!(said.contains("note: ") && said.contains("`raed`"), "{said}");
}

#[tokio::test]
async fn where_a_profile_is_silent_the_section_says_which_tools_there_are() {
    let (name, text) = scout("");
    let fixture = Fixture::new(&[(name, &text)]).await;
    let parent = calls(&[("subagent", json!({"prompt": "go", "profile": "scout"}))]) + &says("ok");
    let model = Arc::new(Players::new(&[("THE FIRST", &parent), ("SCOUT", &says("done"))]));
    let section =
        SubagentSection { tools: Some(vec!["grep".to_owned(), "ask_user".to_owned()]), ..Default::default() };
    let mut home = fixture.agent(model.clone(), Wish { section, ..Wish::default() });
    home.turn().await;
    assert_eq!(model.shown("SCOUT"), [["grep"]]);
}

#[tokio::test]
async fn the_section_is_a_default_and_binds_no_profile_of_the_person_and_each_of_the_workspace() {
    let named = "---\ndescription: edits\ntools: [read, edit]\n---\nSCOUT\n";
    let section = |nested| SubagentSection {
        tools: Some(["read", "grep", "switch_profile"].map(str::to_owned).to_vec()),
        nested: Some(nested),
        ..Default::default()
    };
    for (of_person, expected) in [(true, vec!["read", "edit"]), (false, vec!["read"])] {
        let file = if of_person { "../config/agents/scout.md" } else { ".haft/agents/scout.md" };
        let fixture = Fixture::new(&[(file, named)]).await;
        let parent = calls(&[("subagent", json!({"prompt": "go", "profile": "scout"}))]) + &says("ok");
        let model = Arc::new(Players::new(&[("THE FIRST", &parent), ("SCOUT", &says("done"))]));
        let mut home = fixture.agent(model.clone(), Wish { section: section(false), ..Wish::default() });
        home.turn().await;
        assert_eq!(model.shown("SCOUT"), std::slice::from_ref(&expected), "started with it");
        // One that began without a profile has the default, and goes on under the profile with what that names.
        let parent = calls(&[("subagent", json!({"prompt": "go"}))]) + &says("ok");
        let child = calls(&[("switch_profile", json!({"profile": "scout"}))]);
        let other = says("not asked for this") + &says("done");
        let model = Arc::new(Players::new(&[("THE FIRST", &parent), ("SCOUT", &other), ("BASE", &child)]));
        let mut home = fixture.agent(model.clone(), Wish { section: section(true), ..Wish::default() });
        home.turn().await;
        // And with what leads back.
        let expected = [&expected[..], &["list_profiles", "switch_profile"]].concat();
        assert_eq!(model.shown("SCOUT").last(), Some(&expected.iter().map(|it| (*it).to_owned()).collect()));
    }
}

#[tokio::test]
async fn agents_start_agents_only_where_a_person_said_so_and_never_deep() {
    let (name, text) = scout("");
    let fixture = Fixture::new(&[(name, &text)]).await;
    let again = calls(&[("subagent", json!({"prompt": "go on", "profile": "scout"}))]) + &says("back");
    let model = || Arc::new(Players::new(&[("THE FIRST", &again), ("SCOUT", &again)]));
    let flat = model();
    let mut home = fixture.agent(flat.clone(), Wish::default());
    home.turn().await;
    assert_eq!(flat.shown("SCOUT").len(), 2, "one agent with two answers");
    for tool in ["subagent", "switch_profile", "list_profiles", "ask_user"] {
        assert!(flat.shown("SCOUT")[0].iter().all(|it| it != tool), "{tool}");
    }
    assert!(home.answered_below("subagent")[0].contains("`subagent` is not among the tools"));

    let deep = model();
    let section = SubagentSection { nested: Some(true), ..Default::default() };
    let mut home = fixture.agent(deep.clone(), Wish { section, ..Wish::default() });
    home.turn().await;
    let with = deep.shown("SCOUT").iter().filter(|it| it.iter().any(|it| it == "subagent")).count();
    assert_eq!((deep.shown("SCOUT").len(), with), (6, 4), "three agents, and the third starts none");
}

#[tokio::test]
async fn two_sub_agents_run_concurrently() {
    let (name, text) = scout("");
    let fixture = Fixture::new(&[(name, &text)]).await;
    let call = || ("subagent", json!({"prompt": "go", "profile": "scout"}));
    let parent = calls(&[call(), call()]) + &says("both");
    // Each model waits for the other before its first answer.
    let model = Players::new(&[("THE FIRST", &parent), ("SCOUT", &says("met"))]).meeting("SCOUT", 2);
    let mut home = fixture.agent(Arc::new(model), Wish::default());
    assert_eq!(home.turn().await.text, "both");
    assert_eq!(home.answered("subagent").len(), 2);
    assert!(home.answered("subagent").iter().all(|it| it.contains("met")));
}

#[tokio::test]
async fn background_sub_agent_returns_its_result_as_a_job() {
    let (name, text) = scout("");
    let fixture = Fixture::new(&[(name, &text)]).await;
    let model = Arc::new(Players::new(&[("SCOUT", &says("found it"))]));
    let home = fixture.agent(model, Wish::default());
    let mut events = home.session().events();
    let call = json!({"prompt": "look around\nwell", "profile": "scout", "run_in_background": true});
    let said = home.says("subagent", call).await;
    assert!(said.contains("job_1 runs in the background: look around"), "{said}");
    tokio::time::timeout(HANG, events.recv()).await.unwrap().unwrap();
    let inbox = home.session().runtime().store().inbox();
    let told = inbox.queued(home.session().name()).unwrap();
    assert!(
        told.len() == 1 && told.iter().all(|it| it.text.starts_with("job_1 (look around) ended: ")),
        "{told:?}"
    );
    assert!(home.says("read_job", json!({"job": "job_1"})).await.contains("found it"));
    until(|| home.session().running_jobs().is_empty()).await;
}

#[tokio::test]
async fn a_profile_has_a_model_of_its_own_where_the_workspace_is_trusted() {
    let (name, text) = scout("model: other");
    let fixture = Fixture::new(&[(name, &text)]).await;
    let parent = calls(&[("subagent", json!({"prompt": "go", "profile": "scout"}))]) + &says("ok");
    let first =
        || Arc::new(Players::new(&[("THE FIRST", &parent), ("SCOUT", &says("from the first model"))]));
    let other: Arc<dyn Model> = Arc::new(Players::named("other", &[("", &says("from the other model"))]));
    for (trusted, expected) in [(true, "from the other model"), (false, "from the first model")] {
        let models = BTreeMap::from([("other".to_owned(), other.clone())]);
        let mut home = fixture.agent(first(), Wish { models, trusted, ..Wish::default() });
        home.turn().await;
        let said = &home.answered("subagent")[0];
        assert!(said.contains(expected), "{said}");
        assert_eq!(said.contains("does not count until"), !trusted, "{said}");
    }
}

#[tokio::test]
async fn an_unknown_profile_is_told_with_those_there_are_and_broken_files_are_listed() {
    let fixture = Fixture::new(&[(".haft/agents/bad.md", "---\nsandbox: full\n---\n")]).await;
    let home = fixture.agent(Arc::new(Players::new(&[("", &says("x"))])), Wish::default());
    let said = home.says("subagent", json!({"prompt": "go", "profile": "bad"})).await;
    assert!(said.contains("no profile `bad`") && said.contains("explore, critic, plan, general"), "{said}");
    let said = home.says("list_profiles", json!({})).await;
    assert!(
        said.contains("explore: Finds things out") && said.contains("bad.md is not a profile: line 2"),
        "{said}"
    );
}

#[tokio::test]
async fn notes_and_calls_stay_in_the_sub_agents_session() {
    let (name, text) = scout("");
    let fixture = Fixture::new(&[(name, &text)]).await;
    let parent = calls(&[("bash", json!({"command": "export HERS=1; cd /tmp"}))])
        + &calls(&[("subagent", json!({"prompt": "go", "profile": "scout"}))])
        + &says("ok");
    let child = calls(&[("bash", json!({"command": "echo \"[$HERS] $PWD\""}))]) + &says("done");
    let model = Arc::new(Players::new(&[("THE FIRST", &parent), ("SCOUT", &child)]));
    let mut home = fixture.agent(model, Wish::default());
    home.turn().await;
    let said = &home.answered_below("bash")[0];
    assert!(said.contains(&format!("[] {}", fixture.workspace().display())), "{said}");
}
