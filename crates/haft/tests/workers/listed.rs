//! `haft workers`: who is there, and orders to them.

use serde_json::Value;

use super::{Running, Worker, says, script, shell, until, workspace, workspaces};

#[test]
fn workers_are_listed_with_labels_load_and_state() {
    let test_ws = workspace();
    let ran = test_ws.run(&["workers"]);
    assert!(ran.code == 0 && ran.out.contains("no worker is there; `haft worker` starts one"), "{ran:?}");
    let worker = Worker::start(&test_ws, &["--labels", "gpu,repo:shop", "--slots", "3"]);
    let ran = test_ws.run(&["workers"]);
    let row = ran.out.lines().find(|it| it.starts_with(&worker.id)).unwrap_or_else(|| panic!("{ran:?}"));
    for part in ["idle", "0/3", env!("CARGO_PKG_VERSION"), "gpu", "repo:shop", std::env::consts::ARCH] {
        assert!(row.contains(part), "{part}: {row}");
    }
    let ran = test_ws.run(&["workers", "list", "--json"]);
    let lines: Vec<Value> = ran.out.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    assert_eq!((lines[0]["id"].as_str(), &lines[1]["workers"]), (Some(&*worker.id), &1.into()), "{ran:?}");
}

#[test]
fn drained_worker_finishes_its_session_and_ends() {
    let test_ws = workspace();
    let mut worker = Worker::start(&test_ws, &["--slots", "2"]);
    let model = script(
        &test_ws,
        "model.jsonl",
        &[shell("until [ -e go ]; do sleep 0.02; done; rm go; echo b > b.txt"), says("Done.")],
    );
    let running = Running::start(&test_ws, &["run", "--json", "--on", "any", "--model", &model, "go"]);
    until(&running.out, "\"event\":\"called\"");
    let ran = test_ws.run(&["workers", "drain", &worker.id]);
    assert_eq!(ran.code, 0, "{ran:?}");
    worker.until("draining: 1 running");
    assert!(test_ws.run(&["workers"]).out.contains("draining"));
    std::fs::write(workspaces(&test_ws)[0].join("go"), "").unwrap();
    assert_eq!((running.ended().code, test_ws.text("b.txt")), (0, "b\n".into()));
    assert_eq!(worker.ended(), Some(0));
    assert!(test_ws.run(&["workers"]).out.contains("no worker is there"));
}

#[test]
fn stopped_worker_ends_and_an_unknown_one_is_named() {
    let test_ws = workspace();
    let mut worker = Worker::start(&test_ws, &[]);
    let ran = test_ws.run(&["workers", "stop", "nobody-1"]);
    assert!(ran.code == 1 && ran.err.contains("there is no worker `nobody-1`"), "{ran:?}");
    assert_eq!(test_ws.run(&["workers", "stop", "all"]).code, 0);
    assert_eq!(worker.ended(), Some(0));
}

#[test]
fn worker_of_another_protocol_takes_nothing_and_both_sides_say_what_to_do() {
    let test_ws = workspace();
    let other = Worker::start_broken(&test_ws, &test_ws.config(), &["--labels", "gpu"], "protocol");
    let ran = test_ws.run(&["workers"]);
    let row = ran.out.lines().find(|it| it.starts_with(&other.id)).unwrap_or_else(|| panic!("{ran:?}"));
    let version = env!("CARGO_PKG_VERSION");
    assert!(
        row.contains("other version") && row.contains(&format!("{version} (protocol 2, here 1)")),
        "{row}"
    );
    let model = script(&test_ws, "model.jsonl", &[shell("echo a > a.txt"), says("Done.")]);
    let running = Running::start(&test_ws, &["run", "--on", "gpu", "--model", &model, "go"]);
    let line = until(&running.err, "waiting: ");
    let says = format!(
        "the workers with the labels gpu are of haft {version} (protocol 2), and this is haft {version} (protocol 1); install the \
         same version on both sides"
    );
    assert!(line.contains(&says), "{line}");
    let _same = Worker::start(&test_ws, &["--labels", "gpu"]);
    let ran = running.ended();
    assert_eq!((ran.code, test_ws.text("a.txt")), (0, "a\n".into()), "{ran:?}");
    assert!(test_ws.run(&["workers"]).out.contains("other version"), "it is there and took nothing");
}
