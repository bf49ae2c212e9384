//! Members that are started, paused, killed and removed; reports, failures, loops.

use serde_json::{Value, json};

use super::support::{Actor, Stage, calls, hears, says, until};

fn spawn(config: &str, task: &str) -> Value {
    calls(&[("group_spawn_child", json!({"config_ref": config, "task": task}))])
}

#[test]
fn last_text_of_a_worker_that_sent_nothing_is_its_report() {
    let root = vec![
        spawn("creatures/worker", "count"),
        says("started"),
        hears("[report of worker] it is three", says("three, then")),
    ];
    let stage = Stage::new("", root, &[]);
    stage.creature("worker", &[hears("[direct from root] count", says("it is three"))]);
    let played = stage.plays(&[]);
    assert_eq!(played.code, 0, "{played:#?}");
    assert_eq!(played.outputs("root"), ["started", "three, then"]);
}

#[test]
fn worker_that_reported_itself_is_not_reported_twice() {
    let root = vec![
        spawn("creatures/worker", "count"),
        says("started"),
        hears("[direct from worker] three", says("thanks")),
    ];
    let stage = Stage::new("", root, &[]);
    let report = calls(&[("group_send", json!({"to": "root", "message": "three"}))]);
    stage.creature("worker", &[report, says("I reported.")]);
    let played = stage.plays(&[]);
    assert_eq!((played.code, played.outputs("root").len()), (0, 2), "{played:#?}");
}

#[test]
fn failure_of_a_worker_reaches_who_started_it() {
    let root = vec![
        spawn("creatures/worker", "count"),
        says("started"),
        hears("[failure of worker]", says("a pity")),
    ];
    let stage = Stage::new("", root, &[]);
    stage.creature("worker", &[json!({"fault": "auth"}), says("never")]);
    let played = stage.plays(&[]);
    assert_eq!(played.outputs("root"), ["started", "a pity"], "{played:#?}");
    assert_eq!(played.events("creature_failed").len(), 1);
}

#[test]
fn population_cap_holds_for_both_ways_to_start_an_agent() {
    let add = calls(&[("group_add_node", json!({"config_path": "creatures/worker", "name": "second"}))]);
    let root = vec![
        spawn("creatures/worker", "wait"),
        add,
        spawn("creatures/worker", "x"),
        says("full"),
        says("ok"),
    ];
    let stage = Stage::new("max_agents = 2", root, &[]);
    stage.creature("worker", &[says("waiting")]);
    let played = stage.plays(&[]);
    let refused = "population cap reached (2/2). Remove a member with group_remove_node";
    assert!(played.results("root", "group_add_node")[0].contains(refused), "{played:#?}");
    assert!(played.results("root", "group_spawn_child")[1].contains(refused), "{played:#?}");
}

#[test]
fn depth_of_agents_that_start_agents_is_limited() {
    let root = vec![spawn("creatures/worker", "wait"), says("no")];
    let stage = Stage::new("limits = { depth = 0 }", root, &[]);
    stage.creature("worker", &[]);
    let played = stage.plays(&[]);
    let result = &played.results("root", "group_spawn_child")[0];
    assert!(result.contains("agents may start agents 0 deep"), "{result}");
}

#[test]
fn paused_worker_begins_no_turn_until_it_is_resumed() {
    let life = |verb: &str| calls(&[(verb, json!({"creature_id": "worker"}))]);
    let send = calls(&[("group_send", json!({"to": "worker", "message": "now"}))]);
    let root = vec![
        life("group_pause_node"),
        life("group_pause_node"),
        send,
        calls(&[("group_status", json!({"include_spawnable": false}))]),
        life("group_resume_node"),
        says("resumed"),
    ];
    let worker =
        Actor { name: "worker", script: vec![hears("[direct from root] now", says("here"))], more: "" };
    let stage = Stage::new("", root, &[worker]);
    let played = stage.plays(&[]);
    assert_eq!(played.outputs("worker"), ["here"], "{played:#?}");
    assert!(
        played.results("root", "group_pause_node")[1].contains("nothing to pause: 'worker' is paused"),
        "{played:#?}"
    );
    let status: Value = serde_json::from_str(&played.results("root", "group_status")[0]).unwrap();
    let worker = status["creatures"].as_array().unwrap().iter().find(|it| it["name"] == "worker").unwrap();
    assert_eq!((worker["paused"].as_bool(), worker["status"].as_str()), (Some(true), Some("idle")));
    let resumed = played.lines.iter().position(|it| it["group_event"] == "creature_resumed").unwrap();
    let began = |it: &Value| it["agent"] == "worker" && it["row"]["event"] == "turn_began";
    assert!(played.lines.iter().position(began).unwrap() > resumed);
}

#[test]
fn kill_ends_a_worker_with_the_commands_that_it_started() {
    let wait = json!({"command": "touch begun; sleep 1000; touch survived", "wait_ms": 900_000});
    let stage = Stage::new("", vec![says("x")], &[]);
    let kill = calls(&[("group_kill_node", json!({"creature_id": "worker"}))]);
    let again = calls(&[("group_send", json!({"to": "worker", "message": "hello?"}))]);
    stage.test_ws.put(
        "root.jsonl",
        [spawn("creatures/worker", "work"), says("started"), hears("kill it", kill), again, says("killed")]
            .iter()
            .map(|it| format!("{it}\n"))
            .collect::<String>(),
    );
    stage.creature("worker", &[calls(&[("shell", wait)]), says("never")]);
    let mut playing = stage.starts(&[]);
    let name = playing.name();
    playing.waits_for_output("root", "started");
    until("the command began", || stage.test_ws.at("begun").exists());
    assert_eq!(stage.group(&["send", &name, "root", "kill it"]).code, 0);
    playing.waits_for_output("root", "killed");
    let played = playing.ends();
    let killed: Value = serde_json::from_str(&played.results("root", "group_kill_node")[0]).unwrap();
    assert_eq!(killed["hard_kill_supported"], true);
    let refused = &played.results("root", "group_send")[0];
    assert!(refused.contains("'worker' does not run"), "{refused}");
    assert!(!stage.test_ws.at("survived").exists());
    let status = stage.group_json(&["status", &name]);
    let worker = &status["creatures"][1];
    assert_eq!((worker["status"].as_str(), worker["killed"].as_bool()), (Some("stopped"), Some(true)));
}

#[test]
fn privileged_agents_and_unknown_ones_are_refused_as_targets() {
    let root = vec![
        calls(&[("group_stop_node", json!({"creature_id": "root"}))]),
        calls(&[("group_kill_node", json!({"creature_id": "root"}))]),
        calls(&[("group_remove_node", json!({"creature_id": "nobody"}))]),
        says("ok"),
    ];
    let played = Stage::new("", root, &[]).plays(&[]);
    for (tool, verb) in [("group_stop_node", "stop"), ("group_kill_node", "kill")] {
        let refused = format!("'root' is privileged: no agent may {verb} it");
        assert!(played.results("root", tool)[0].contains(&refused), "{played:#?}");
    }
    assert!(played.results("root", "group_remove_node")[0].contains("target 'nobody' is not an agent"));
}

#[test]
fn group_tools_are_not_there_for_agents_that_are_not_privileged() {
    let worker = Actor {
        name: "worker",
        script: vec![calls(&[("group_status", json!({}))]), says("no such tool")],
        more: "",
    };
    let send = calls(&[("group_send", json!({"to": "worker", "message": "try"}))]);
    let played = Stage::new("", vec![send, says("sent")], &[worker]).plays(&[]);
    let result = &played.results("worker", "group_status")[0];
    assert!(
        result.contains("is only available to agents of a group") || result.contains("does not have"),
        "{result}"
    );
}

#[test]
fn two_agents_that_only_answer_each_other_are_both_paused() {
    // By output wires: each turn that a message begins ends with another one.
    let turns = || vec![says("you first"); 30];
    let actors = [
        Actor { name: "ann", script: turns(), more: "wires = [\"bob\"]" },
        Actor { name: "bob", script: turns(), more: "wires = [\"ann\"]" },
    ];
    let kick = calls(&[("group_send", json!({"to": "ann", "message": "begin"}))]);
    let stage = Stage::new(
        "limits = { exchanges = 3, steps = 200 }",
        vec![kick, says("begun"), says("I see")],
        &actors,
    );
    let played = stage.plays(&[]);
    let paused = played.events("loop_paused");
    assert_eq!(paused.len(), 1, "{played:#?}");
    assert_eq!(paused[0]["body"]["members"], json!(["ann", "bob"]));
    assert!(played.outputs("ann").len() <= 5, "{:?}", played.outputs("ann"));
    assert_eq!((played.code, played.ended()["ended"].as_str()), (1, Some("paused")));
}

#[test]
fn unwiring_the_only_channel_splits_the_graph_and_wiring_merges_it_again() {
    let edge = |action: &str, who: &str| {
        calls(&[(
            "group_channel",
            json!({"action": action, "channel": "talk", "creature_id": who, "direction": "listen"}),
        )])
    };
    let delete = calls(&[("group_channel", json!({"action": "delete", "channel": "report_to_root"}))]);
    let root = vec![
        delete,
        edge("unwire", "ann"),
        calls(&[("group_status", json!({"include_spawnable": false}))]),
        says("split"),
    ];
    let ann = Actor { name: "ann", script: Vec::new(), more: "listen = [\"talk\"]" };
    let played = Stage::new("channels = { talk = \"\" }", root, &[ann]).plays(&[]);
    let results = played.results("root", "group_channel");
    assert!(results[1].contains("\"delta_kind\":\"split\""), "{results:?}");
    let status: Value = serde_json::from_str(&played.results("root", "group_status")[0]).unwrap();
    assert_eq!(status["creatures"].as_array().unwrap().len(), 1, "{status}");
    assert_eq!(played.events("topology_changed").last().unwrap()["body"]["kind"], "split");
}

#[test]
fn tools_of_a_member_work_in_its_folder() {
    let script = [
        calls(&[
            ("read", json!({"path": "a.txt"})),
            ("read", json!({"path": "top.txt"})),
            ("read", json!({"path": "sub/a.txt"})),
            ("shell", json!({"command": "cat a.txt; pwd"})),
            ("write", json!({"path": "new.txt", "content": "made here\n"})),
        ]),
        says("done"),
    ];
    let stage = Stage::new("", vec![says("go")], &[]);
    stage.test_ws.put("sub/a.txt", "in the folder\n");
    stage.test_ws.put("top.txt", "at the top\n");
    stage.test_ws.put("worker.jsonl", script.iter().map(|it| format!("{it}\n")).collect::<String>());
    stage.test_ws.put(
        "group.toml",
        "[group]\nname = \"play\"\n[[group.agent]]\nname = \"worker\"\nmodel = \"script:worker.jsonl\"\n\
         tools = [\"read\", \"shell\", \"write\"]\npwd = \"sub\"\n",
    );
    let played = stage.plays(&["--approve", "auto"]);
    let read = played.results("worker", "read").join("\n");
    assert!(read.contains("at the top") && read.matches("in the folder").count() == 2, "{played:#?}");
    let shell = played.results("worker", "shell").join("\n");
    assert!(shell.contains("in the folder") && shell.contains("/sub"), "{shell}");
    assert_eq!(
        std::fs::read_to_string(stage.test_ws.at("sub/new.txt")).unwrap(),
        "made here\n",
        "{played:#?}"
    );
    // A folder that is not there is named, and nobody works elsewhere in its place.
    stage.test_ws.put(
        "group.toml",
        "[group]\nname = \"play\"\n[[group.agent]]\nname = \"worker\"\nmodel = \"script:worker.jsonl\"\npwd = \"none\"\n",
    );
    let played = stage.plays(&[]);
    assert_ne!(played.code, 0, "{played:#?}");
}

#[test]
fn name_of_a_group_is_known_before_its_members_run() {
    let stage = Stage::new("", vec![says("ready")], &[]);
    let played = stage.plays(&[]);
    assert!(played.lines[0]["group"].is_string(), "{played:#?}");
}
