//! Single calls on a worker, and subagents on one.

use serde_json::json;

use super::{Running, Worker, becomes, calls, configure, says, script, shell, until, workspace, workspaces};

#[test]
fn call_on_a_worker_prints_its_result_and_its_changes_land() {
    let test_ws = workspace();
    test_ws.put("a.txt", "one\n");
    let worker = Worker::start(&test_ws, &["--labels", "gpu"]);
    let command = json!({"command": "cat a.txt; echo two >> a.txt"}).to_string();
    let ran = test_ws.run(&["call", "--on", "gpu", "shell", &command]);
    assert!(ran.code == 0 && ran.out.contains("one"), "{ran:?}");
    assert!(ran.err.contains("changed 1 file: a.txt"), "{ran:?}");
    assert_eq!(test_ws.text("a.txt"), "one\ntwo\n");
    becomes("the folder of the work is removed", || workspaces(&test_ws).is_empty());
    assert_eq!((test_ws.run(&["undo"]).code, test_ws.text("a.txt")), (0, "one\n".into()));

    let ran = test_ws.run(&["call", "--json", "--on", "gpu", "python", r#"{"code": "print(6 * 7)"}"#]);
    let answer: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, &answer["ok"], &answer["landed"]), (0, &json!(true), &json!([])), "{ran:?}");
    assert!(
        answer["worker"].is_string() && answer["content"][0]["text"].as_str().unwrap().contains("42"),
        "{ran:?}"
    );
    assert_eq!(answer["worker"], worker.id, "{ran:?}");
    worker.until("begins: a call of python");
    let ran = test_ws.run(&["call", "--on", "gpu", "shell", "{}"]);
    assert!(ran.code == 1 && !ran.out.is_empty(), "{ran:?}");
}

#[test]
fn calls_of_tools_that_are_not_movable_are_refused() {
    let test_ws = workspace();
    let ran = test_ws.run(&["call", "--on", "any", "read", r#"{"path": "a.txt"}"#]);
    assert!(ran.code == 1 && ran.err.contains("calls of `read` run on this machine only"), "{ran:?}");
}

#[test]
fn movable_tool_file_runs_on_a_worker_that_has_the_same_one() {
    kit::needs!(Python);
    let test_ws = workspace();
    let tool = "name = 'measure'\ndescription = 'Measures a file.'\n\
        parameters = {'type': 'object', 'properties': {'path': {'type': 'string'}}, 'required': ['path']}\n\
        touches = ['read {path}']\nasync def execute(args):\n    return str(len(open(args['path']).read()))\n";
    std::fs::create_dir_all(test_ws.config().join("tools")).unwrap();
    std::fs::write(test_ws.config().join("tools/measure.py"), tool).unwrap();
    test_ws.put("a.txt", "12345");
    let call = ["call", "--on", "any", "measure", r#"{"path": "a.txt"}"#];
    let ran = test_ws.run(&call);
    assert!(ran.code == 1 && ran.err.contains("movable = [\"measure\"]"), "{ran:?}");
    configure(&test_ws.config(), "[workers]\nlease_seconds = 1\nmovable = [\"measure\"]\n");
    let _worker = Worker::start(&test_ws, &[]);
    let ran = test_ws.run(&call);
    assert!(ran.code == 0 && ran.out.contains('5'), "{ran:?}");
}

#[test]
fn call_of_a_killed_worker_is_interrupted_and_an_idempotent_one_runs_again() {
    let test_ws = workspace();
    let command =
        json!({"command": "touch began; until [ -e go ]; do sleep 0.02; done; echo ended"}).to_string();
    for (more, code) in [(None, 1), (Some("--idempotent"), 0)] {
        let worker = Worker::start(&test_ws, &[]);
        let mut arguments = vec!["call", "--on", "any", "shell", &command];
        arguments.splice(1..1, more);
        let running = Running::start(&test_ws, &arguments);
        let runs = || workspaces(&test_ws).iter().any(|it| it.join("began").exists());
        becomes("the call runs", runs);
        drop(worker);
        let _other = Worker::start(&test_ws, &[]);
        if more.is_some() {
            becomes("the call runs again", runs);
            std::fs::write(workspaces(&test_ws)[0].join("go"), "").unwrap();
        }
        let ran = running.ended();
        assert_eq!(ran.code, code, "{ran:?}");
        assert_eq!(ran.err.contains("it may have happened"), more.is_none(), "{ran:?}");
    }
}

#[test]
fn subagent_runs_on_a_worker_and_its_changes_land() {
    let test_ws = workspace();
    script(&test_ws, "theirs.jsonl", &[shell("echo theirs > b.txt"), says("I wrote b.txt.")]);
    let task = json!({"prompt": "write b.txt", "on": "gpu"});
    let model = script(&test_ws, "model.jsonl", &[calls("subagent", &task), says("Done.")]);
    let model = model.replace("script:", &format!("script:{}/", test_ws.at("").display()));
    let ran = test_ws.run(&["run", "--json", "--model", &model, "go"]);
    assert!(ran.out.contains("nobody takes it: no worker is there"), "{ran:?}");
    let _worker = Worker::start(&test_ws, &["--labels", "gpu", "--model", "script:theirs.jsonl"]);
    let ran = test_ws.run(&["run", "--json", "--model", &model, "go"]);
    assert!(
        ran.code == 0 && ran.out.contains("I wrote b.txt.") && ran.out.contains("changed 1 file here"),
        "{ran:?}"
    );
    assert_eq!(test_ws.text("b.txt"), "theirs\n");
}

#[test]
fn task_of_a_sender_that_is_gone_is_cancelled_by_its_id() {
    let test_ws = workspace();
    let worker = Worker::start(&test_ws, &[]);
    let model = script(&test_ws, "model.jsonl", &[shell("sleep 600"), says("Done.")]);
    let mut running = Running::start(&test_ws, &["run", "--json", "--on", "any", "--model", &model, "go"]);
    until(&running.out, "\"event\":\"called\"");
    running.child.kill().unwrap();
    let listed = test_ws.run(&["workers"]);
    let row = listed.out.lines().find(|it| it.contains("running  ")).unwrap_or_else(|| panic!("{listed:?}"));
    let id = row.split(' ').next().unwrap();
    let ran = test_ws.run(&["workers", "cancel", id]);
    assert_eq!(ran.code, 0, "{ran:?}");
    worker.until("cancelled");
    assert!(test_ws.run(&["workers", "cancel", id]).err.contains("no task"), "it has ended");
}

#[test]
fn command_of_a_call_that_has_not_ended_in_its_time_is_a_fault_and_its_rest_is_named() {
    let test_ws = workspace();
    let _worker = Worker::start(&test_ws, &[]);
    let call = |arguments: serde_json::Value| {
        test_ws.run(&["call", "--json", "--on", "any", "shell", &arguments.to_string()])
    };
    let ran = call(json!({"command": "echo begun; sleep 600", "wait_ms": 300}));
    assert_eq!(ran.code, 1, "{ran:?}");
    let answer: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let fault = &answer["fault"];
    assert!(
        fault["kind"] == "timeout" && fault["what"].as_str().unwrap().contains("was stopped on the worker"),
        "{ran:?}"
    );
    assert!(fault["next"].as_str().unwrap().contains("haft run --on"), "{ran:?}");
    assert!(fault["seen"].to_string().contains("begun"), "{ran:?}");
    assert!(!ran.out.contains("job_1") && !ran.out.contains("still running"), "the job is over: {ran:?}");
    // A command that takes longer than `shell` waits by itself: here half a second, so that the test is short.
    let slow = ["--labels", "slow"];
    let _slow = Worker::start_broken(&test_ws, &test_ws.config(), &slow, "short-wait");
    let long = json!({"command": "sleep 1.5; echo ended"}).to_string();
    let ran = test_ws.run(&["call", "--on", "slow", "shell", &long]);
    assert!(ran.code == 0 && ran.out.contains("ended"), "{ran:?}");
    let ran = call(json!({"command": "sleep 600 & echo done"}));
    assert!(ran.code == 0 && ran.out.contains("nothing runs on after a call there"), "{ran:?}");
}
