//! Agents of a group whose turns run on workers.

use serde_json::{Value, json};

use super::{
    Running, SHORT, Worker, becomes, calls, configure, says, script, shell, until, workspace, workspaces,
};
use crate::support::TestWorkspace;

/// A group of a root that works with an agent on a worker.
fn group(test_ws: &TestWorkspace, root: &[Value], theirs: &[Value], more: &str) {
    script(test_ws, "root.jsonl", root);
    script(test_ws, "theirs.jsonl", theirs);
    let text = format!(
        "[group]\nname = \"play\"\n[group.root]\nmodel = \"script:root.jsonl\"\n\
         [[group.agent]]\nname = \"far\"\nprompt = \"You train models.\"\nmodel = \"script:theirs.jsonl\"\n{more}\n"
    );
    test_ws.put("group.toml", text);
}

fn recipe(test_ws: &TestWorkspace) -> String {
    test_ws.at("group.toml").display().to_string()
}

fn command(more: &[&str]) -> Vec<String> {
    [&["--trust", "group", "run", "--json"], more].concat().into_iter().map(str::to_owned).collect()
}

fn starts(test_ws: &TestWorkspace, more: &[&str]) -> Running {
    let arguments = command(more);
    Running::start(test_ws, &arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

fn hears(expected: &[&str], answer: &Value) -> Value {
    let mut answer = answer.clone();
    answer["expect"] = json!(expected);
    answer
}

fn send(text: &str) -> Value {
    calls("group_send", &json!({"to": "far", "message": text}))
}

#[test]
fn turns_of_an_agent_run_on_a_worker_and_its_answers_and_changes_return() {
    let test_ws = workspace();
    let root = [
        send("train it"),
        says("I wait."),
        hears(&["[output-wire from far] trained"], &send("once more")),
        says("I wait."),
        hears(&["[output-wire from far] trained"], &says("good")),
    ];
    let theirs = [
        hears(
            &["Your name is far.", "You train models.", "train it"],
            &shell("pwd > where.txt; echo x >> count.txt"),
        ),
        says("trained"),
    ];
    group(&test_ws, &root, &theirs, "on = [\"gpu\"]\ntools = [\"shell\"]\nwires = [\"root\"]");
    let ran = test_ws.run(&["--trust", "group", "check", &recipe(&test_ws)]);
    assert!(ran.code == 0 && ran.out.contains("on workers: gpu"), "{ran:?}");
    let running = starts(&test_ws, &[&recipe(&test_ws), "go"]);
    // It waits, and says for whom.
    until(&running.out, "no worker is there");
    let _worker = Worker::start(&test_ws, &["--labels", "gpu", "--approve", "auto"]);
    let ran = running.ended();
    assert!(ran.code == 0 && ran.out.contains("\"good\""), "{ran:?}");
    assert!(test_ws.text("where.txt").contains("/workers/"), "{:?}", test_ws.text("where.txt"));
    assert_eq!(test_ws.text("count.txt"), "x\nx\n");
}

#[test]
fn group_that_was_killed_reads_the_result_of_its_turn_on_a_worker() {
    let test_ws = workspace();
    let root = [send("work"), says("I wait."), hears(&["[output-wire from far] worked"], &says("good"))];
    let log = test_ws.base().join("home/effects");
    let command =
        format!("echo e >> {}; until [ -e go ]; do sleep 0.02; done; rm go; echo n > new.txt", log.display());
    let theirs = [shell(&command), says("worked")];
    group(&test_ws, &root, &theirs, "on = \"any\"\nwires = [\"root\"]");
    let worker = Worker::start(&test_ws, &["--approve", "auto", "--sandbox", "full"]);
    let mut running = starts(&test_ws, &[&recipe(&test_ws), "go"]);
    becomes("the effect", || log.exists());
    running.child.kill().unwrap();
    running.ended();
    std::fs::write(workspaces(&test_ws)[0].join("go"), "").unwrap();
    worker.until("done");
    assert!(!test_ws.at("new.txt").exists(), "nobody has landed it yet");
    let ran = starts(&test_ws, &["--resume", "play"]).ended();
    assert!(ran.code == 0 && ran.out.contains("\"good\""), "{ran:?}");
    assert_eq!(test_ws.text("new.txt"), "n\n");
    assert_eq!(std::fs::read_to_string(log).unwrap(), "e\n", "it ran once");
}

#[test]
fn lost_turn_on_a_worker_is_a_failure_that_reaches_the_root() {
    let test_ws = workspace();
    let root = [
        send("work"),
        says("I wait."),
        hears(&["[failure of far]", "it may have happened"], &says("a pity")),
    ];
    let theirs = [shell("touch began; sleep 600"), says("never")];
    group(&test_ws, &root, &theirs, "on = \"any\"");
    let worker = Worker::start(&test_ws, &["--approve", "auto"]);
    let running = starts(&test_ws, &[&recipe(&test_ws), "go"]);
    becomes("the turn runs", || workspaces(&test_ws).iter().any(|it| it.join("began").exists()));
    drop(worker);
    let ran = running.ended();
    assert!(ran.out.contains("a pity"), "{ran:?}");
}

#[test]
fn an_agent_on_a_worker_cannot_become_a_sender_of_a_channel_and_can_listen() {
    let test_ws = workspace();
    let wire = |direction: &str| {
        let edge = json!({"action": "wire", "channel": "news", "creature_id": "far", "direction": direction});
        calls("group_channel", &edge)
    };
    let refused = [
        "'far' runs on workers (`on`), where it has no tool `send_channel`",
        "`group_wire` passes on its answers.",
    ];
    let root = [
        calls("group_channel", &json!({"action": "create", "channel": "news"})),
        wire("send"),
        hears(&refused, &wire("listen")),
        hears(&["\"wired\":\"news\"", "\"direction\":\"listen\""], &says("good")),
    ];
    group(&test_ws, &root, &[says("never")], "on = \"gpu\"");
    let ran = starts(&test_ws, &[&recipe(&test_ws), "go"]).ended();
    assert!(ran.code == 0 && ran.out.contains("\"good\""), "{ran:?}");
}

#[test]
fn agent_on_a_worker_with_something_that_works_only_here_is_refused_by_name() {
    let test_ws = workspace();
    configure(&test_ws.config(), SHORT);
    for (more, says) in [
        (
            "tools = [\"read\", \"group_send\"]",
            "`far` has `on`, and its tool `group_send` works only beside the group",
        ),
        ("tools = [\"ask_user\"]", "its tool `ask_user`"),
        ("send = [\"news\"]", "has no tool `send_channel`, and can't send on `news`"),
        ("process = true", "`process` does not go with it"),
        ("pwd = \"sub\"", "`pwd` does not go with it"),
    ] {
        group(&test_ws, &[says_one()], &[says_one()], "");
        let text = test_ws.text("group.toml").replace("model = \"script:theirs.jsonl\"\n", "");
        test_ws.put("group.toml", format!("{text}on = \"gpu\"\n{more}\n"));
        let ran = test_ws.run(&["--trust", "group", "run", &recipe(&test_ws), "go"]);
        assert!(ran.code != 0 && ran.err.contains(says), "{more}: {ran:?}");
    }
    group(&test_ws, &[says_one()], &[says_one()], "on = \"gpu\"");
    let text = test_ws.text("group.toml").replace("script:theirs.jsonl", "http://10.0.0.1/v1#m");
    test_ws.put("group.toml", text);
    let ran = test_ws.run(&["--trust", "group", "run", &recipe(&test_ws), "--to", "far", "go"]);
    assert!(
        ran.err.contains("a worker uses no address that a sender names: `http://10.0.0.1/v1#m`"),
        "{ran:?}"
    );
    group(&test_ws, &[says_one()], &[says_one()], "on = \"a b\"");
    let ran = test_ws.run(&["--trust", "group", "check", &recipe(&test_ws)]);
    assert!(ran.err.contains("`a b` is not a label"), "{ran:?}");
    let text = "[group]\nname = \"play\"\n[group.root]\non = \"gpu\"\n";
    test_ws.put("group.toml", text);
    let ran = test_ws.run(&["--trust", "group", "check", &recipe(&test_ws)]);
    assert!(ran.err.contains("`root` is privileged and has `on`"), "{ran:?}");
    test_ws.put("c/config.yaml", "name: c\non: gpu\n");
    let ran = test_ws.run(&["--trust", "group", "check", &test_ws.at("c").display().to_string()]);
    assert!(ran.err.contains("`on` is not a key of a creature's config"), "{ran:?}");
}

fn says_one() -> Value {
    says("one")
}
