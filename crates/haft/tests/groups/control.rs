//! A group that runs, steered from other processes.

use serde_json::json;

use super::support::{Actor, Stage, hears, says};

#[test]
fn message_of_another_process_is_delivered_once_for_each_key() {
    let root = vec![says("ready"), hears("more work", says("on it")), hears("stop now", says("bye"))];
    let stage = Stage::new("", root, &[]);
    let mut playing = stage.starts(&["--stay"]);
    let name = playing.name();
    playing.waits_for_output("root", "ready");
    let send = |key: &str, text: &str| stage.group_json(&["send", &name, "root", text, "--key", key]);
    let first = send("1", "more work");
    assert_eq!((first["delivered"].as_bool(), first["new"].as_bool()), (Some(true), Some(true)));
    playing.waits_for_output("root", "on it");
    assert_eq!(send("1", "more work")["message_id"], first["message_id"]);
    send("2", "stop now");
    playing.waits_for_output("root", "bye");
    let stopped = stage.group_json(&["stop", &name]);
    assert_eq!(stopped["stopped"], json!(name));
    let played = playing.ends();
    assert_eq!(played.code, 130);
    assert_eq!(played.outputs("root").len(), 3);
    let fault = stage.group(&["pause", &name]);
    assert!(fault.code == 1 && fault.err.contains("no process runs the group"), "{fault:?}");
}

#[test]
fn pause_and_resume_of_another_process_hold_the_turns_of_an_agent() {
    let worker = Actor { name: "worker", script: vec![hears("hello", says("hi"))], more: "" };
    let stage = Stage::new("", vec![says("ready")], &[worker]);
    let mut playing = stage.starts(&["--stay"]);
    let name = playing.name();
    playing.waits_for_output("root", "ready");
    let paused = stage.group_json(&["pause", &name, "worker", "--key", "p"]);
    assert!(paused["paused"].as_str().unwrap().starts_with("worker_"), "{paused}");
    assert_eq!(stage.group_json(&["pause", &name, "worker", "--key", "p"]), paused, "done once");
    assert_eq!(stage.group(&["send", &name, "worker", "hello"]).code, 0);
    let status = stage.group_json(&["status", &name]);
    let worker = status["creatures"].as_array().unwrap().iter().find(|it| it["name"] == "worker").unwrap();
    assert_eq!((worker["paused"].as_bool(), worker["queued"].as_u64()), (Some(true), Some(1)), "{status}");
    stage.group_json(&["resume", &name, "worker"]);
    playing.waits_for_output("worker", "hi");
    let graph = stage.group(&["graph", &name]);
    assert!(graph.out.contains("root (privileged)"), "{graph:?}");
    stage.group_json(&["stop", &name]);
    assert_eq!(playing.ends().code, 130);
}

#[test]
fn unknown_agents_and_stopped_ones_are_named_in_the_refusal() {
    let worker = Actor { name: "worker", script: Vec::new(), more: "" };
    let stage = Stage::new("", vec![says("ready")], &[worker]);
    let mut playing = stage.starts(&["--stay"]);
    let name = playing.name();
    playing.waits_for_output("root", "ready");
    let ran = stage.group(&["send", &name, "nobody", "hello"]);
    assert!(
        ran.err.contains("has no agent `nobody`") && ran.err.contains("There are: worker, root."),
        "{ran:?}"
    );
    stage.group_json(&["stop", &name, "worker"]);
    let ran = stage.group(&["send", &name, "worker", "hello"]);
    assert!(ran.code == 1 && ran.err.contains("`worker` is stopped"), "{ran:?}");
    stage.group_json(&["stop", &name]);
    playing.ends();
}
