//! A session on a worker: its events are shown, and its changes land in the workspace of the sender.

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Running, Worker, becomes, calls, says, script, shell, until, workspace, workspaces};

#[test]
fn changes_of_a_session_on_a_worker_land_and_can_be_undone() {
    let test_ws = workspace();
    test_ws.put("a.txt", "one\ntwo\n");
    test_ws.put("gone.txt", "x\n");
    let model = script(
        &test_ws,
        "model.jsonl",
        &[
            shell("sed -i s/two/TWO/ a.txt && rm gone.txt && mkdir sub && echo new > sub/b.txt && pwd"),
            says("All is changed."),
        ],
    );
    let worker = Worker::start(&test_ws, &["--labels", "gpu"]);
    let ran = test_ws.run(&["run", "--on", "gpu", "--model", &model, "change it"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "All is changed.\n"), "{ran:?}");
    for part in [format!("haft: runs on {}", worker.id), format!("haft: done on {}: ", worker.id)] {
        assert!(ran.err.contains(&part), "{part}: {ran:?}");
    }
    worker.until("begins: change it");
    assert_eq!((test_ws.text("a.txt"), test_ws.text("sub/b.txt")), ("one\nTWO\n".into(), "new\n".into()));
    assert!(!test_ws.at("gone.txt").exists());
    for part in ["< shell sed -i", "changed 3 files: a.txt, gone.txt, sub/b.txt", "haft: done on "] {
        assert!(ran.err.contains(part), "{part}: {ran:?}");
    }
    becomes("the folder of the work is removed", || workspaces(&test_ws).is_empty());

    assert_eq!(test_ws.run(&["undo"]).code, 0);
    assert_eq!((test_ws.text("a.txt"), test_ws.text("gone.txt")), ("one\ntwo\n".into(), "x\n".into()));
    assert!(!test_ws.at("sub/b.txt").exists());
}

#[test]
fn a_long_diff_of_a_worker_is_cut_and_the_named_command_shows_all_of_it_here() {
    let test_ws = workspace();
    let model = script(&test_ws, "model.jsonl", &[shell("seq 300 > long.txt"), says("Done.")]);
    let _worker = Worker::start(&test_ws, &[]);
    let ran = test_ws.run(&["run", "--on", "any", "--model", &model, "count"]);
    assert!(ran.err.contains("; haft log --diff shows all once it has landed"), "{ran:?}");
    assert!(!ran.err.contains("+300\n"), "{ran:?}");
    let all = test_ws.run(&["log", "--diff"]).out;
    assert!(all.contains("+300\n"), "{all}");
}

#[test]
fn file_that_changed_here_meanwhile_is_refused_and_named() {
    let test_ws = workspace();
    test_ws.put("a.txt", "one\ntwo\n");
    let wait = "until [ -e go ]; do sleep 0.02; done; rm go; echo mine > a.txt; echo b > b.txt";
    let model = script(&test_ws, "model.jsonl", &[shell(wait), says("Done.")]);
    let _worker = Worker::start(&test_ws, &[]);
    let running = Running::start(&test_ws, &["run", "--json", "--on", "any", "--model", &model, "change it"]);
    until(&running.out, "\"event\":\"called\"");
    test_ws.put("a.txt", "one\nYOURS\n");
    std::fs::write(workspaces(&test_ws)[0].join("go"), "").unwrap();
    let ran = running.ended();
    assert_eq!(ran.code, 1, "{ran:?}");
    assert_eq!((test_ws.text("a.txt"), test_ws.text("b.txt")), ("one\nYOURS\n".into(), "b\n".into()));
    let ended: Value = serde_json::from_str(ran.out.lines().last().unwrap()).unwrap();
    assert_eq!((&ended["event"], &ended["ended"]), (&json!("ended"), &json!("done")), "{ran:?}");
    assert_eq!(ended["landed"].as_array().unwrap().len(), 2, "{ran:?}");
    let refused = ended["landed"][0]["refused"].as_str().unwrap();
    assert!(refused.contains("YOURS"), "the present lines are shown: {refused}");
    assert!(ran.err.contains("not changed: a.txt: "), "{ran:?}");
    for word in ["Nothing was written", "hunk", "anchor"] {
        assert!(!refused.contains(word) && !ran.err.contains(word), "{word}: {refused}");
    }
    let log = test_ws.run(&["log", "-n", "1"]).out;
    assert!(log.contains("refused a.txt") && log.contains("write b.txt"), "{log}");
    assert!(!log.contains("write a.txt"), "{log}");
}

#[test]
fn events_are_those_of_a_run_here() {
    let test_ws = workspace();
    test_ws.put("a.txt", "hello\n");
    let model = script(&test_ws, "model.jsonl", &[calls("read", &json!({"path": "a.txt"})), says("Done.")]);
    let here = test_ws.run(&[
        "run",
        "--json",
        "--model",
        &format!("script:{}", test_ws.at("model.jsonl").display()),
        "x",
    ]);
    let _worker = Worker::start(&test_ws, &[]);
    let there = test_ws.run(&["run", "--json", "--on", "any", "--model", &model, "x"]);
    let names = |out: &str| -> Vec<String> {
        let events = out.lines().map(|it| serde_json::from_str::<Value>(it).unwrap());
        let mut names: Vec<String> = events.map(|it| it["event"].as_str().unwrap().to_owned()).collect();
        names.dedup();
        names
    };
    assert_eq!((here.code, there.code), (0, 0), "{there:?}");
    assert_eq!(names(&here.out), names(&there.out));
}

#[test]
fn exit_codes_and_answers_are_those_of_a_run_here() {
    let test_ws = workspace();
    let _worker = Worker::start(&test_ws, &[]);
    let run = |more: &[&str], model: &str| {
        test_ws.run(&[&["run", "--on", "any", "--model", model], more, &["go"]].concat())
    };
    let loops = script(&test_ws, "loops.jsonl", &[shell("true"), shell("true"), says("x")]);
    let ran = run(&["--max-steps", "1"], &loops);
    assert_eq!(ran.code, 1, "a limit: {ran:?}");
    let empty = script(&test_ws, "empty.jsonl", &[]);
    let ran = run(&[], &empty);
    assert!(ran.code == 1 && ran.err.contains("haft: on "), "a model that does not answer: {ran:?}");
    test_ws.put("schema.json", json!({"type": "object", "required": ["n"]}).to_string());
    let answers = script(&test_ws, "answers.jsonl", &[says("{\"n\": 1}")]);
    let schema = test_ws.at("schema.json").display().to_string();
    let ran = run(&["--output-schema", &schema], &answers);
    assert_eq!((ran.code, ran.out.as_str()), (0, "{\"n\":1}\n"), "{ran:?}");
    let ran = run(&[], "script:/etc/passwd");
    assert!(ran.code == 2 && ran.err.contains("is not a file of the workspace"), "{ran:?}");
}

#[test]
fn work_waits_with_its_reason_until_a_worker_comes() {
    let test_ws = workspace();
    let model = script(&test_ws, "model.jsonl", &[says("Here.")]);
    let running = Running::start(&test_ws, &["run", "--on", "gpu", "--model", &model, "go"]);
    until(
        &running.err,
        "waiting: no worker is there; start one: `haft worker --labels gpu` (Ctrl-C stops the wait)",
    );
    let _other = Worker::start(&test_ws, &["--labels", "cpu"]);
    until(&running.err, "no worker has the labels gpu (");
    let _worker = Worker::start(&test_ws, &["--labels", "gpu"]);
    let ran = running.ended();
    assert_eq!((ran.code, ran.out.as_str()), (0, "Here.\n"), "{ran:?}");
}

#[test]
fn wait_for_a_worker_is_stopped_by_ctrl_c() {
    let test_ws = workspace();
    let model = script(&test_ws, "model.jsonl", &[says("Here.")]);
    let running = Running::start(&test_ws, &["run", "--on", "gpu", "--model", &model, "go"]);
    until(&running.err, "waiting: ");
    running.signal(Signal::INT);
    let ran = running.ended();
    assert!(ran.code == 130 && ran.err.contains("nothing was changed here"), "{ran:?}");
    let ran = test_ws.run(&["workers"]);
    assert!(ran.out.contains("0 tasks waiting, 0 running"), "{ran:?}");
}
