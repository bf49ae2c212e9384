//! A group whose process is killed, and that goes on: nothing is lost, nothing is done twice.

use serde_json::{Value, json};

use super::support::{Actor, Stage, calls, hears, says};

/// A root that gives a number to two workers, who each pass it on by an output wire to a collector.
fn stage() -> Stage {
    let send = |to: &str, text: &str| calls(&[("group_send", json!({"to": to, "message": text}))]);
    let wait = |mut answer: Value| {
        answer["after_ms"] = json!(150);
        answer
    };
    let root = vec![send("ann", "seven"), wait(send("bob", "eight")), wait(says("given out"))];
    let worker = |name, text: &str| Actor {
        name,
        script: vec![hears(&format!("[direct from root] {text}"), wait(says(&format!("{text} done"))))],
        more: "wires = [\"sum\"]",
    };
    let ann = worker("ann", "seven");
    let bob = worker("bob", "eight");
    let sum =
        Actor { name: "sum", script: vec![wait(says("one report")), wait(says("two reports"))], more: "" };
    Stage::new("", root, &[ann, bob, sum])
}

/// The messages that were shown to a member, as its conversation has them.
fn shown(stage: &Stage, name: &str, member: &str) -> Vec<String> {
    let status = stage.group_json(&["status", name]);
    let member = status["creatures"].as_array().unwrap().iter().find(|it| it["name"] == member).unwrap();
    let session = member["session"].as_str().unwrap();
    let exported = stage.test_ws.run(&["sessions", "export", session, "--format", "md"]);
    // A member that nothing reached has no conversation.
    assert!(exported.code == 0 || exported.err.contains("no conversation"), "{exported:?}");
    exported.out.lines().filter(|it| it.starts_with("> message from")).map(str::to_owned).collect()
}

#[test]
fn each_message_is_shown_once_whenever_the_process_is_killed() {
    killed_after(&[0, 2, 5, 9, 14], &stage);
}

#[test]
fn each_message_is_shown_once_also_where_each_agent_has_a_process() {
    killed_after(&[1, 4, 8, 13], &|| stage().with_processes());
}

fn killed_after(moments: &[usize], stage: &dyn Fn() -> Stage) {
    for &after in moments {
        let stage = stage();
        let mut playing = stage.starts(&[]);
        let name = playing.name();
        let mut rows = 0;
        // At a row of a log: the moment is another one each time, and the rows before it are on the disk.
        for _ in 0..after {
            playing.waits_for_more(&mut rows);
        }
        playing.kill();
        let played = stage.plays(&["--resume", &name]);
        assert_eq!(played.code, 0, "killed after {after} lines: {played:#?}");
        let sum = shown(&stage, &name, "sum");
        for (worker, text) in [("ann", "seven"), ("bob", "eight")] {
            // A call that the kill cut off has sent its message or not; the root is informed of that.
            let got = shown(&stage, &name, worker);
            assert!(got.len() <= 1, "killed after {after} lines: {got:?}");
            let passed = sum.iter().filter(|it| it.contains(&format!("{text} done"))).count();
            assert_eq!(passed, got.len(), "killed after {after} lines: {got:?} {sum:?}");
        }
        assert!(!sum.is_empty(), "killed after {after} lines");
    }
}

#[test]
fn graph_wires_and_flags_come_back_after_a_kill() {
    let stage = Stage::new(
        "channels = { talk = \"All of it\" }",
        vec![
            calls(&[("group_spawn_child", json!({"config_ref": "creatures/worker", "name": "late"}))]),
            calls(&[
                ("group_channel", json!({"action": "create", "channel": "new"})),
                ("group_wire", json!({"action": "add", "from": "late", "to": "ann"})),
                ("group_pause_node", json!({"creature_id": "ann"})),
            ]),
            calls(&[(
                "group_channel",
                json!({"action": "wire", "channel": "new", "creature_id": "late", "direction": "send"}),
            )]),
            says("built"),
        ],
        &[Actor { name: "ann", script: Vec::new(), more: "listen = [\"talk\"]" }],
    );
    stage.creature("worker", &[]);
    let mut playing = stage.starts(&["--stay"]);
    let name = playing.name();
    playing.waits_for_output("root", "built");
    let before = stage.group(&["graph", &name]).out;
    playing.kill();
    let mut playing = stage.starts(&["--resume", &name, "--stay"]);
    // All three run again.
    let mut started = 0;
    playing.waits_for(|it| {
        started += usize::from(it["group_event"] == "creature_started");
        started == 3
    });
    assert_eq!(stage.group(&["graph", &name]).out, before);
    for part in ["late, started by root", "late --[new]--> ", "late ==output==> ann"] {
        assert!(before.contains(part), "{part}\n{before}");
    }
    let status = stage.group_json(&["status", &name]);
    let ann = status["creatures"].as_array().unwrap().iter().find(|it| it["name"] == "ann").unwrap();
    assert_eq!(ann["paused"], true);
    stage.group_json(&["stop", &name]);
    playing.ends();
}
