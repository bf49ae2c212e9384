//! Notes across processes, and what the system prompt contains.

use serde_json::{Value, json};

use crate::support::{TestWorkspace, run};

#[test]
fn tasks_and_sections_are_there_in_the_next_process_and_in_no_other_session() {
    let test_ws = TestWorkspace::new();
    let call = |session: &str, tool: &str, arguments: Value| {
        test_ws.call_with(&["--session", session], tool, &arguments).must("ok").text()
    };
    call("s", "todo", json!({"action": "set", "tasks": ["look", "mend"]}));
    let list = call("s", "todo", json!({"action": "update", "task": 2, "status": "in_progress"}));
    assert_eq!(list, "1. [pending] look\n2. [in_progress] mend\n0 of 2 done");
    assert_eq!(call("s", "todo", json!({})), list);
    assert_eq!(call("other", "todo", json!({})), "no tasks");
    call("s", "scratchpad", json!({"action": "append", "section": "findings", "content": "one"}));
    call("s", "scratchpad", json!({"action": "append", "section": "findings", "content": "two"}));
    assert_eq!(call("s", "scratchpad", json!({"action": "read", "section": "findings"})), "one\ntwo");
    assert_eq!(call("other", "scratchpad", json!({"action": "list"})), "no sections");
}

#[test]
fn appends_of_two_processes_lose_nothing() {
    let test_ws = TestWorkspace::new();
    std::thread::scope(|scope| {
        for who in ["a", "b"] {
            let test_ws = &test_ws;
            scope.spawn(move || {
                let line = |at| ("scratchpad", json!({"action": "append", "content": format!("{who}{at}")}));
                let calls: Vec<(&str, Value)> = (0..20).map(line).collect();
                test_ws.batch(&["--session", "s"], &calls).into_iter().for_each(|it| drop(it.must("ok")));
            });
        }
    });
    let text =
        test_ws.call_with(&["--session", "s"], "scratchpad", &json!({"action": "read"})).must("ok").text();
    assert_eq!(text.lines().count(), 40, "{text}");
}

#[test]
fn a_fact_is_known_to_every_later_session_whatever_is_asked() {
    let test_ws = TestWorkspace::new();
    let call =
        |session: &str, arguments: Value| test_ws.call_with(&["--session", session], "memory", &arguments);
    let fact = "The tests need `docker compose up`.";
    let saved = call("a", json!({"action": "save", "content": fact, "tags": ["tests"]})).must("ok").text();
    assert_eq!(saved, "remembered as fact 1");
    let found = call("b", json!({"action": "search", "query": "testing docker"})).must("ok").text();
    assert!(found.starts_with("1 (20") && found.ends_with(&format!(", tests): {fact}")), "{found}");
    for query in ["\"", "a OR", "NEAR(", "tests AND \"", "*", "(docker", "-docker", "text:docker", "'; --"] {
        call("b", json!({"action": "search", "query": query})).must("ok");
        test_ws.call("search_memory", &json!({"query": query})).must("ok");
    }
    call("b", json!({"action": "forget", "id": 1})).must("ok");
    call("b", json!({"action": "forget", "id": 1})).must("not_found");
    let found = call("a", json!({"action": "search", "query": "docker"})).must("ok").text();
    assert_eq!(found, "no fact answers to `docker`");
}

#[test]
fn a_secret_is_masked_before_it_is_kept() {
    let test_ws = TestWorkspace::new();
    let mut save =
        test_ws.haft(&["call", "memory", r#"{"action":"save","content":"key s3cret-Value-91c4"}"#]);
    assert_eq!(run(save.env("SOME_TOKEN", "s3cret-Value-91c4"), "").code, 0);
    // A process without that variable reads the redacted text.
    let kept = test_ws.call("memory", &json!({"action": "search"})).must("ok").text();
    assert!(kept.ends_with("key [masked:SOME_TOKEN]"), "{kept}");
}

#[test]
fn an_agent_finds_what_was_said() {
    let test_ws = TestWorkspace::new();
    test_ws.put(
        "script.jsonl",
        "{\"say\": \"I found a zebra.\", \"calls\": [{\"tool\": \"todo\", \"arguments\": {}}]}\n\
         {\"calls\": [{\"tool\": \"search_memory\", \"arguments\": {\"query\": \"zebras\"}}]}\n\
         {\"expect\": [\"model, 20\", \"I found a zebra.\"], \"say\": \"So it was.\"}\n",
    );
    let script = format!("script:{}", test_ws.at("script.jsonl").display());
    let ran = test_ws.run(&["--session", "s", "run", "--model", &script, "Look around."]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let found = test_ws
        .call_with(&["--session", "s"], "search_memory", &json!({"query": "around"}))
        .must("ok")
        .text();
    assert!(found.contains(" person, ") && found.ends_with("Look around."), "{found}");
}

#[test]
fn a_prompt_is_shown_with_its_bill_and_has_no_tool_that_is_not_allowed() {
    let test_ws = TestWorkspace::new();
    test_ws.put("AGENTS.md", "Run the tests with `just test`.\n");
    let ran = test_ws.run(&["prompt"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(
        ran.out.contains("\n- shell: ") && ran.out.contains("Run the tests with `just test`."),
        "{}",
        ran.out
    );
    assert!(ran.out.trim_end().ends_with("total"), "{}", ran.out);
    assert_eq!(test_ws.run(&["prompt"]).out, ran.out);

    std::fs::create_dir_all(test_ws.config()).unwrap();
    std::fs::write(test_ws.config().join("haft.toml"), "tools = [\"read\", \"todo\"]\n").unwrap();
    let ran = test_ws.run(&["prompt", "--json"]);
    let whole: Value = serde_json::from_str(&ran.out).unwrap();
    let names: Vec<&str> =
        whole["tools"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["read", "todo"]);
    for absent in ["`edit`", "- edit:", "`shell`", "- bash:", "`bash`", "scratchpad", "`memory`", "sandbox"] {
        assert!(!ran.out.contains(absent), "{absent} in {}", ran.out);
    }
    let sections: Vec<&str> =
        whole["sections"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(sections, ["base", "tools", "hints", "project", "environment"]);
    assert!(whole["total"]["tokens"].as_u64().unwrap() > 100, "{whole}");
}

#[test]
fn a_tool_whose_manual_comes_first_says_which_call_to_make_and_runs_after_it() {
    let test_ws = TestWorkspace::new();
    std::fs::create_dir_all(test_ws.config()).unwrap();
    std::fs::write(test_ws.config().join("haft.toml"), "manual_first = [\"glob\"]\n").unwrap();
    let glob = |session: &str| test_ws.call_with(&["--session", session], "glob", &json!({"pattern": "*"}));
    let refused = glob("s").must("stale").text();
    assert!(
        refused.contains("Call `info` with {\"name\": \"glob\"}, then make this call again."),
        "{refused}"
    );
    test_ws.run(&["--session", "s", "manual", "glob"]);
    glob("s").must("stale");
    test_ws.call_with(&["--session", "s"], "info", &json!({"name": "glob"})).must("ok");
    glob("s").must("ok");
    glob("other").must("stale");
    // Without a tool that shows manuals, none is required.
    std::fs::write(test_ws.config().join("haft.toml"), "manual_first = [\"glob\"]\ntools = [\"glob\"]\n")
        .unwrap();
    glob("third").must("ok");
}
