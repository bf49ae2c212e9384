//! Plan mode: nothing is changed, by whatever tool.

use std::sync::Arc;

use serde_json::json;

use super::support::{Fixture, Players, Wish, calls, python_tool, says, until};

const READER: (&str, &str) =
    (".haft/agents/reader.md", "---\ndescription: reads\nsandbox: read-only\n---\nREADER\n");

fn silent() -> Arc<Players> {
    Arc::new(Players::new(&[("", &says("hello"))]))
}

#[tokio::test]
async fn read_only_profile_applies_to_every_tool() {
    kit::needs!(Python);
    let writer = python_tool("writer", "open('by_tool', 'w').write('x')\nreturn 'written'");
    let fixture = Fixture::new(&[READER, ("a.txt", "one\n"), (&writer.0, &writer.1)]).await;
    let home = fixture.agent(silent(), Wish::default());
    // Their processes are there before, and may write.
    home.call("bash", json!({"command": "echo before > by_bash"})).await.result.unwrap();
    assert_eq!(fixture.read("by_bash"), "before\n");
    assert!(home.says("writer", json!({})).await.contains("written"));
    home.call("edit", json!({"path": "a.txt", "edits": [{"old": "one", "new": "two"}]}))
        .await
        .result
        .unwrap();
    std::fs::remove_file(fixture.path("by_bash")).unwrap();
    std::fs::remove_file(fixture.path("by_tool")).unwrap();

    let crew = home.agent.crew().unwrap();
    assert!(crew.begin(Some("reader"), true).unwrap().contains("Nothing can be changed"));
    // The bash of before has ended; the first call may be the one that finds out.
    home.says("bash", json!({"command": "true"})).await;
    for (tool, arguments) in [
        ("edit", json!({"path": "a.txt", "edits": [{"old": "two", "new": "three"}]})),
        ("write", json!({"path": "by_write", "content": "x"})),
        ("undo", json!({})),
        ("bash", json!({"command": "echo x > by_bash"})),
        ("shell", json!({"command": "touch by_shell"})),
        ("python", json!({"code": "open('by_python', 'w').write('x')"})),
        ("writer", json!({})),
        ("write_tool", json!({"name": "more", "code": writer.1})),
    ] {
        let said = home.says(tool, arguments).await;
        let refused = ["read-only", "Read-only", "read_only"].iter().any(|it| said.contains(it));
        assert!(refused, "{tool}: {said}");
    }
    let mut names: Vec<String> = std::fs::read_dir(fixture.workspace())
        .unwrap()
        .map(|it| it.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!(names, [".haft", "a.txt"]);
    assert_eq!(fixture.read("a.txt"), "two\n");
    // A command that only reads is allowed.
    assert!(home.says("bash", json!({"command": "cat a.txt"})).await.contains("two"));

    crew.begin(None, true).unwrap();
    home.says("bash", json!({"command": "true"})).await;
    let said = home.says("bash", json!({"command": "echo after > by_bash"})).await;
    assert!(fixture.path("by_bash").exists(), "{said}");
    assert!(home.says("writer", json!({})).await.contains("written"));
    home.call("undo", json!({})).await.result.unwrap();
}

#[tokio::test]
async fn running_commands_lose_write_access_when_planning_begins() {
    let fixture = Fixture::new(&[READER]).await;
    let home = fixture.agent(silent(), Wish::default());
    let command = "echo $$ > begun; while :; do sleep 0.02; echo x >> grows; done";
    let said = home.says("shell", json!({"command": command, "run_in_background": true})).await;
    assert!(said.contains("job_1"), "{said}");
    until(|| fixture.path("grows").exists()).await;
    home.agent.crew().unwrap().begin(Some("reader"), true).unwrap();
    until(|| fixture.processes() == 0).await;
    let then = std::fs::read(fixture.path("grows")).unwrap();
    assert!(home.says("shell", json!({"command": "cat begun"})).await.contains(fixture.read("begun").trim()));
    assert_eq!(std::fs::read(fixture.path("grows")).unwrap(), then);
}

#[tokio::test]
async fn plan_profile_has_reading_tools_and_ask_user() {
    kit::needs!(Python);
    let writer = python_tool("writer", "return 'x'");
    let fixture = Fixture::new(&[("a.txt", "one\n"), (&writer.0, &writer.1)]).await;
    let script = calls(&[
        ("edit", json!({"path": "a.txt", "edits": [{"old": "one", "new": "two"}]})),
        ("writer", json!({})),
        ("bash", json!({"command": "echo x > a.txt"})),
        ("read", json!({"path": "a.txt"})),
    ]) + &says("That is the plan.");
    let model = Arc::new(Players::new(&[("", &script)]));
    let mut home = fixture.agent(model.clone(), Wish::default());
    home.agent.crew().unwrap().begin(Some("plan"), true).unwrap();
    assert_eq!(home.turn().await.text, "That is the plan.");
    let shown = &model.shown("You make a plan")[0];
    for tool in ["read", "grep", "bash", "ask_user", "subagent"] {
        assert!(shown.iter().any(|it| it == tool), "{tool}: {shown:?}");
    }
    for tool in ["edit", "write", "python", "writer", "write_tool", "switch_profile"] {
        assert!(shown.iter().all(|it| it != tool), "{tool}: {shown:?}");
    }
    assert!(
        home.answered("edit")[0].contains("`edit` is not among the tools"),
        "{:?}",
        home.answered("edit")
    );
    assert!(home.answered("writer")[0].contains("`writer` is not among the tools"));
    assert!(home.answered("read")[0].contains("|one"));
    assert_eq!(fixture.read("a.txt"), "one\n");
}

#[tokio::test]
async fn sub_agents_of_a_planner_change_nothing() {
    let fixture = Fixture::new(&[("a.txt", "one\n")]).await;
    let parent = calls(&[("subagent", json!({"prompt": "go", "profile": "general"}))]) + &says("done");
    let child = calls(&[("bash", json!({"command": "echo x > by_child"}))]) + &says("tried");
    let model =
        Arc::new(Players::new(&[("You make a plan", &parent), ("You do one task on your own", &child)]));
    let mut home = fixture.agent(model, Wish::default());
    home.agent.crew().unwrap().begin(Some("plan"), true).unwrap();
    home.turn().await;
    assert!(home.answered_below("bash")[0].contains("ead-only"), "{:?}", home.answered_below("bash"));
    assert!(!fixture.path("by_child").exists());
}
