//! Jobs of a process that is killed: the next process notifies the model of each, once.

use serde_json::{Value, json};

use super::support::{Life, SESSION, TestWorkspace};

#[test]
fn model_is_told_once_that_a_job_was_interrupted_by_the_death_of_its_process() {
    let test_ws = TestWorkspace::new();
    let command = "echo it has begun; sleep 3600";
    let job =
        json!({"calls": [{"tool": "bash", "arguments": {"command": command, "run_in_background": true}}]});
    test_ws.script(&[job.clone(), json!({"say": "I wait."})]);
    let mut life = Life::begin(&mut test_ws.run(&["go"]));
    while life.event().expect("it waits")["event"] != "waits" {}
    drop(life);
    let expect = [
        "source=\"job\" from=\"job_1\">",
        "job_1 (echo it has begun; sleep 3600) was interrupted: haft was killed",
    ];
    test_ws.script(&[
        job,
        json!({"say": "I wait."}),
        json!({"say": "Again.", "expect": expect}),
        json!({"say": "On."}),
    ]);
    for input in ["what now?", "and now?"] {
        let ran = test_ws.run(&["--resume", input]).output().unwrap();
        assert!(ran.status.success(), "{ran:?}");
    }
    let items = serde_json::to_string(&test_ws.items()).unwrap();
    assert_eq!(items.matches("was interrupted: haft was killed").count(), 1, "{items}");
    assert!(!items.contains("haft was started again"), "{items}");
    let json: Value = serde_json::from_str(&test_ws.sessions(&["show", SESSION, "--json"])).unwrap();
    let states: Vec<_> =
        json["inbox"].as_array().unwrap().iter().map(|it| (&it["source"], &it["state"])).collect();
    assert_eq!(states, [(&json!("job"), &json!("acted"))], "{json}");
}
