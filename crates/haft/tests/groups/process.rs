//! Agents with a process of their own: what the others see of them, and what happens when such a process ends.

use serde_json::{Value, json};

use super::support::{Actor, Playing, Stage, calls, hears, says, until};

/// A root that starts a worker with a process of its own.
fn stage_of_worker(root: Vec<Value>, worker: &[Value]) -> Stage {
    let stage = Stage::new("", root, &[]);
    stage.creature_with("worker", worker, "process: true\n");
    stage
}

fn spawn() -> Value {
    calls(&[("group_spawn_child", json!({"config_ref": "creatures/worker", "task": "work"}))])
}

fn life(verb: &str) -> Value {
    calls(&[(verb, json!({"creature_id": "worker"}))])
}

/// A command that leaves a file behind if nobody ends it.
fn endless() -> Value {
    let command = "touch begun; sleep 1000; touch survived";
    calls(&[("shell", json!({"command": command, "wait_ms": 900_000}))])
}

/// The ids of the processes of agents that this group has started.
fn processes(playing: &Playing) -> Vec<u32> {
    let group = playing.pid();
    let children = std::fs::read_to_string(format!("/proc/{group}/task/{group}/children")).unwrap();
    let is_member = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains("--process-of=")
    };
    children.split_whitespace().map(|it| it.parse().unwrap()).filter(is_member).collect()
}

fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|it| !it.1.starts_with('Z'))
}

fn signal(name: &str, pid: u32) {
    let status = std::process::Command::new("kill").args([name, &pid.to_string()]).status().unwrap();
    assert!(status.success());
}

#[test]
fn agents_with_processes_have_the_tools_of_the_group_and_reach_each_other() {
    let root = vec![
        calls(&[("group_status", json!({"include_spawnable": false}))]),
        calls(&[("group_channel", json!({"action": "create", "channel": "news"}))]),
        calls(&[(
            "group_channel",
            json!({"action": "wire", "channel": "news", "creature_id": "ann", "direction": "listen"}),
        )]),
        calls(&[(
            "group_channel",
            json!({"action": "wire", "channel": "news", "creature_id": "root", "direction": "send"}),
        )]),
        calls(&[("send_channel", json!({"channel": "news", "message": "it rains"}))]),
        says("published"),
        hears("[output-wire from ann] I know", says("good")),
    ];
    let ann = Actor {
        name: "ann",
        script: vec![hears("[Channel 'news' from root]: it rains", says("I know"))],
        more: "wires = [\"root\"]",
    };
    let stage = Stage::new("", root, &[ann]).with_processes();
    let mut playing = stage.starts(&["--stay"]);
    let name = playing.name();
    playing.waits_for_output("root", "good");
    assert_eq!(processes(&playing).len(), 2);
    stage.group_json(&["stop", &name]);
    let played = playing.ends();
    assert_eq!(played.outputs("root"), ["published", "good"], "{played:#?}");
    let status: Value = serde_json::from_str(&played.results("root", "group_status")[0]).unwrap();
    assert_eq!(status["self"]["is_privileged"], true);
    assert_eq!(status["creatures"].as_array().unwrap().len(), 2);
}

#[test]
fn death_of_an_agent_s_process_reaches_who_started_it_and_it_goes_on_when_it_is_started_again() {
    let root = vec![
        spawn(),
        says("started"),
        hears("[failure of worker] its process ended (signal: 9 (SIGKILL))", life("group_start_node")),
        says("again"),
        hears("[report of worker] done after all", says("good")),
    ];
    let stage = stage_of_worker(root, &[endless(), says("done after all")]);
    let mut playing = stage.starts(&[]);
    playing.waits_for_output("root", "started");
    until("the command began", || stage.test_ws.at("begun").exists());
    let worker = processes(&playing);
    assert_eq!(worker.len(), 1);
    signal("-KILL", worker[0]);
    let played = playing.ends();
    assert_eq!(
        (played.code, played.outputs("root")),
        (0, vec!["started".into(), "again".into(), "good".into()]),
        "{played:#?}"
    );
    assert!(played.results("root", "group_start_node")[0].contains("started"), "{played:#?}");
    assert_eq!(played.events("creature_failed").len(), 1);
    assert!(!stage.test_ws.at("survived").exists());
}

#[test]
fn agent_whose_process_has_died_takes_no_messages_until_it_runs_again() {
    let root = vec![
        spawn(),
        says("started"),
        hears("[failure of worker]", calls(&[("group_send", json!({"to": "worker", "message": "hello?"}))])),
        says("gone"),
    ];
    let stage = stage_of_worker(root, &[endless(), says("never")]);
    let mut playing = stage.starts(&[]);
    playing.waits_for_output("root", "started");
    until("the command began", || stage.test_ws.at("begun").exists());
    signal("-KILL", processes(&playing)[0]);
    let played = playing.ends();
    assert!(played.results("root", "group_send")[0].contains("'worker' does not run"), "{played:#?}");
}

#[test]
fn agents_processes_end_with_the_process_of_the_group_and_their_commands_too() {
    let stage = stage_of_worker(vec![spawn(), says("started")], &[endless(), says("never")]);
    let mut playing = stage.starts(&[]);
    playing.waits_for_output("root", "started");
    until("the command began", || stage.test_ws.at("begun").exists());
    let worker = processes(&playing)[0];
    playing.kill();
    until("the agent's process ended", || !is_alive(worker));
    let sleeps = || {
        let of =
            std::process::Command::new("pgrep").args(["-f", "touch begun; sleep 1000"]).output().unwrap();
        let here = stage.test_ws.at("").display().to_string();
        String::from_utf8_lossy(&of.stdout).lines().any(|pid| {
            std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|it| it.display().to_string() == here)
        })
    };
    until("its command ended", || !sleeps());
}

#[test]
fn kill_ends_a_process_that_does_not_answer() {
    let root = vec![spawn(), says("started"), hears("kill it", life("group_kill_node")), says("killed")];
    let stage = stage_of_worker(root, &[endless(), says("never")]);
    let mut playing = stage.starts(&[]);
    let name = playing.name();
    playing.waits_for_output("root", "started");
    until("the command began", || stage.test_ws.at("begun").exists());
    let worker = processes(&playing)[0];
    signal("-STOP", worker);
    assert_eq!(stage.group(&["send", &name, "root", "kill it"]).code, 0);
    playing.waits_for_output("root", "killed");
    assert!(!is_alive(worker));
    let played = playing.ends();
    assert_eq!(played.code, 0, "{played:#?}");
    assert!(played.events("creature_failed").is_empty(), "{played:#?}");
}

#[test]
fn paused_agent_with_a_process_begins_no_turn_until_it_is_resumed() {
    let send = calls(&[("group_send", json!({"to": "worker", "message": "now"}))]);
    let root = vec![life("group_pause_node"), send, life("group_resume_node"), says("resumed")];
    let worker =
        Actor { name: "worker", script: vec![hears("[direct from root] now", says("here"))], more: "" };
    let played = Stage::new("", root, &[worker]).with_processes().plays(&[]);
    assert_eq!(played.outputs("worker"), ["here"], "{played:#?}");
    let resumed = played.lines.iter().position(|it| it["group_event"] == "creature_resumed").unwrap();
    let began = |it: &Value| it["agent"] == "worker" && it["row"]["event"] == "turn_began";
    assert!(played.lines.iter().position(began).unwrap() > resumed);
}

#[test]
fn agent_that_can_t_be_opened_in_its_process_is_a_failure_with_the_reason() {
    let root = vec![spawn(), says("no")];
    let stage = Stage::new("", root, &[]);
    stage.test_ws.put(
        "creatures/worker/config.yaml",
        "name: worker\ncontroller: {llm: 'script:missing.jsonl'}\nprocess: true\n",
    );
    let played = stage.plays(&[]);
    let result = &played.results("root", "group_spawn_child")[0];
    assert!(result.contains("did not start") && result.contains("missing.jsonl"), "{result}");
}

#[test]
fn process_of_an_agent_is_started_by_a_group_only() {
    let stage = Stage::new("", Vec::new(), &[]);
    let ran = stage.test_ws.run(&["group", "run", "--process-of=play-1/ann"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.contains("Only `haft group run` starts the process of an agent."), "{ran:?}");
}
