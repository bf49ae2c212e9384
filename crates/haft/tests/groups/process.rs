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
fn messages_for_an_agent_whose_process_has_died_wait_until_it_is_started_again() {
    let send = |text: &str| calls(&[("group_send", json!({"to": "worker", "message": text}))]);
    let root = vec![
        spawn(),
        says("started"),
        hears("[failure of worker]", send("are you there?")),
        life("group_start_node"),
        says("again"),
        hears("[direct from worker] I am", says("good")),
    ];
    let answer = calls(&[("group_send", json!({"to": "root", "message": "I am"}))]);
    // The turn that was cut goes on first.
    let worker = [endless(), says("where was I"), hears("are you there?", answer), says("sent")];
    let stage = stage_of_worker(root, &worker);
    let mut playing = stage.starts(&[]);
    playing.waits_for_output("root", "started");
    until("the command began", || stage.test_ws.at("begun").exists());
    signal("-KILL", processes(&playing)[0]);
    let played = playing.ends();
    assert!(played.results("root", "group_send")[0].contains("delivered"), "{played:#?}");
    let shown = |it: &&Value| it["agent"] == "worker" && it["row"]["event"] == "message_shown";
    let texts: Vec<&str> =
        played.lines.iter().filter(shown).map(|it| it["row"]["text"].as_str().unwrap()).collect();
    assert_eq!(texts.iter().filter(|it| it.contains("are you there?")).count(), 1, "{played:#?}");
}

#[test]
fn group_whose_root_has_died_does_not_end_as_done_and_goes_on() {
    let stage = Stage::new("", vec![endless(), says("done after all")], &[]).with_processes();
    let mut playing = stage.starts(&[]);
    let name = playing.name();
    until("the command began", || stage.test_ws.at("begun").exists());
    signal("-KILL", processes(&playing)[0]);
    let played = playing.ends();
    assert_eq!((played.code, played.ended()["ended"].as_str()), (1, Some("paused")), "{played:#?}");
    let played = stage.plays(&["--resume", &name]);
    assert_eq!((played.code, played.outputs("root")), (0, vec!["done after all".into()]), "{played:#?}");
}

#[test]
fn output_wire_to_an_agent_whose_process_has_died_is_delivered_when_it_runs_again() {
    let mut late = says("the result");
    late["after_ms"] = json!(1500);
    let send = calls(&[("group_send", json!({"to": "ann", "message": "go"}))]);
    let root = vec![send, endless(), says("one"), says("two")];
    let ann = Actor { name: "ann", script: vec![late], more: "wires = [\"root\"]" };
    let stage = Stage::new("", root, &[ann]).with_processes();
    let mut playing = stage.starts(&["--stay"]);
    let name = playing.name();
    until("the command began", || stage.test_ws.at("begun").exists());
    let of_root = processes(&playing).into_iter().find(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap();
        String::from_utf8_lossy(&line).contains("/root_")
    });
    signal("-KILL", of_root.unwrap());
    playing.waits_for(|it| it["group_event"] == "creature_failed");
    playing.waits_for_output("ann", "the result");
    stage.group_json(&["resume", &name, "root"]);
    let is_shown = |it: &Value| {
        it["agent"] == "root"
            && it["row"]["event"] == "message_shown"
            && it["row"]["text"] == "[output-wire from ann] the result"
    };
    playing.waits_for(is_shown);
    stage.group_json(&["stop", &name]);
    assert_eq!(playing.ends().lines.iter().filter(|it| is_shown(it)).count(), 1);
}

#[test]
fn configuration_that_an_agent_has_created_does_not_count_in_a_process_that_is_started_later() {
    let outside = tempfile::tempdir().unwrap();
    let escaped = outside.path().join("escaped");
    let command = "printf 'sandbox = \"full\"\napprove = \"auto\"\n' > haft.toml";
    let root = vec![calls(&[("shell", json!({"command": command}))]), spawn(), says("started")];
    let touch = format!("touch {}", escaped.display());
    let stage = stage_of_worker(root, &[calls(&[("shell", json!({"command": touch}))]), says("tried")]);
    let played = stage.plays(&[]);
    assert_eq!(played.outputs("worker"), ["tried"], "{played:#?}");
    assert!(!escaped.exists(), "{played:#?}");
}

#[test]
fn agent_that_is_stopped_while_its_process_starts_does_not_run() {
    let stage = stage_of_worker(vec![spawn(), says("on")], &[endless(), says("never")]);
    let mut playing = stage.starts(&["--stay"]);
    let name = playing.name();
    playing.waits_for(|it| it["group_event"] == "creature_added" && it["agent"] == "worker");
    assert_eq!(stage.group(&["stop", &name, "worker", "--kill"]).code, 0);
    playing.waits_for_output("root", "on");
    until("its process ended", || processes(&playing).is_empty());
    let status = stage.group_json(&["status", &name]);
    // The start was taken back, or it is a member that was killed.
    let worker = &status["creatures"][1];
    assert!(worker.is_null() || worker["status"] == "stopped", "{status}");
    stage.group_json(&["stop", &name]);
    playing.ends();
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
