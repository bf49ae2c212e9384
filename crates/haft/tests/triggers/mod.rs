//! Triggers on the built program: made by a model and by configuration, fired unattended, by a daemon, after kills, and over HTTP.

mod daemon;
mod webhooks;

use std::{
    process::Stdio,
    time::{Duration, Instant},
};

use crate::support::{Ran, TIMEOUT, TestWorkspace};
use serde_json::{Value, json};

/// Writes a script in this workspace; returns its name for `--model`.
fn script(test_ws: &TestWorkspace, answers: &[Value]) -> String {
    let path = test_ws.base().join("script.jsonl");
    let lines: String = answers.iter().map(|it| format!("{it}\n")).collect();
    std::fs::write(&path, lines).unwrap();
    format!("script:{}", path.display())
}

fn call(tool: &str, arguments: Value) -> Value {
    json!({"calls": [{"tool": tool, "arguments": arguments}]})
}

fn good(ran: Ran) -> Ran {
    assert_eq!(ran.code, 0, "{ran:?}");
    ran
}

/// Waits until this command prints a text.
fn until(test_ws: &TestWorkspace, arguments: &[&str], text: &str) -> Ran {
    let began = Instant::now();
    loop {
        let ran = test_ws.run(arguments);
        if ran.out.contains(text) {
            return ran;
        }
        assert!(began.elapsed() < TIMEOUT, "no {text:?} in {ran:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn an_agent_makes_its_own_timer_works_when_it_fires_and_removes_it() {
    let test_ws = TestWorkspace::new();
    let model = script(
        &test_ws,
        &[
            call("add_timer", json!({"interval": 3, "prompt": "look around", "name": "beat"})),
            json!({"expect": ["Trigger `add_timer` correctly set up and running in the background with interval=3, prompt='look around'. trigger_id=beat"], "say": "armed"}),
            json!({"expect": ["look around", "source=\"trigger\"", "from=\"beat\"", "not the person's words"],
                   "calls": [{"tool": "list_triggers", "arguments": {}}]}),
            json!({"expect": ["beat: armed add_timer, every 3 s"],
                   "calls": [{"tool": "delete_trigger", "arguments": {"trigger_id": "beat"}}]}),
            json!({"expect": ["Removed trigger: beat"], "say": "over"}),
        ],
    );
    let ran = good(test_ws.run(&["--approve", "auto", "run", "--wait", "--model", &model, "watch"]));
    assert!(ran.out.contains("armed\n") && ran.out.ends_with("over\n"), "{}", ran.out);
    assert!(good(test_ws.run(&["triggers"])).out.contains("no triggers"));
}

#[test]
fn a_trigger_is_made_only_after_approval_and_wrong_ones_are_refused_before() {
    let test_ws = TestWorkspace::new();
    let schedule = json!({"prompt": "x", "daily_at": "25:00"});
    let model = script(
        &test_ws,
        &[
            call("add_schedule", schedule),
            json!({"expect": ["`25:00` is not a time of day"],
                   "calls": [{"tool": "add_schedule", "arguments": {"prompt": "x", "daily_at": "07:00", "hourly_at": 5}}]}),
            json!({"expect": ["`daily_at` and `hourly_at` are given, and a schedule has one time"],
                   "calls": [{"tool": "watch_channel", "arguments": {"channel_name": "news"}}]}),
            json!({"expect": ["Channel 'news' does not exist"],
                   "calls": [{"tool": "add_schedule", "arguments": {"prompt": "x", "daily_at": "07:00", "grants": ["fly me"]}}]}),
            json!({"expect": ["unknown kind of grant `fly`"],
                   "calls": [{"tool": "add_schedule", "arguments": {"prompt": "x", "daily_at": "07:00", "grants": ["net a.org"]}}]}),
            json!({"expect": ["rule `trigger`", "there was nobody to ask"], "say": "done"}),
        ],
    );
    good(test_ws.run(&["run", "--model", &model, "go"]));
    assert!(good(test_ws.run(&["triggers"])).out.contains("no triggers"));
}

#[test]
fn an_unattended_turn_has_its_grants_alone_and_what_it_was_refused_is_reported_once() {
    let test_ws = TestWorkspace::new();
    test_ws.put("haft.toml", "[commands]\nask = [\"touch\"]\n");
    let model = script(
        &test_ws,
        &[
            call(
                "add_timer",
                json!({"interval": 3, "prompt": "work", "name": "night", "grants": ["run touch yes"]}),
            ),
            json!({"say": "armed"}),
            call("shell", json!({"command": "touch yes"})),
            call("shell", json!({"command": "touch no"})),
            json!({"expect": ["a trigger began this turn, so nobody is asked"],
                   "calls": [{"tool": "ask_user", "arguments": {"question": "may I?"}}]}),
            json!({"expect": ["nobody is there to answer"],
                   "calls": [{"tool": "delete_trigger", "arguments": {"trigger_id": "nothing"}}]}),
            json!({"expect": ["Trigger not found: nothing"], "say": "some of it"}),
        ],
    );
    let mut run =
        test_ws.haft(&["--approve", "auto", "--session", "s", "run", "--wait", "--model", &model, "go"]);
    let mut child = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until(&test_ws, &["triggers", "history", "night"], "some of it");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(test_ws.at("yes").exists() && !test_ws.at("no").exists());
    let history = good(test_ws.run(&["triggers", "history", "night"])).out;
    let denied: Vec<&str> = history.lines().filter(|it| it.contains("  denied  fire 1  ")).collect();
    assert_eq!(denied.len(), 1, "{history}");
    assert!(denied[0].contains("shell: `touch no`"), "{history}");
    let listed = good(test_ws.run(&["triggers"])).out;
    assert!(
        listed.contains("trigger `night`, fire 1") && listed.contains("was not granted: shell: `touch no`"),
        "{listed}"
    );
    assert!(!good(test_ws.run(&["triggers"])).out.contains("was not granted"), "it is reported once");
    let shown = good(test_ws.run(&["triggers", "show", "night"])).out;
    assert!(shown.contains("grants: run touch yes") && shown.contains("prompt: work"), "{shown}");
}

#[test]
fn a_fire_whose_process_is_killed_before_its_turn_is_shown_once_by_the_next_one() {
    let test_ws = TestWorkspace::new();
    let model = script(
        &test_ws,
        &[
            call("add_timer", json!({"interval": 5000, "prompt": "once only", "name": "t"})),
            json!({"say": "armed"}),
            json!({"expect": ["once only"], "calls": [{"tool": "delete_trigger", "arguments": {"trigger_id": "t"}}]}),
            json!({"say": "seen"}),
        ],
    );
    good(test_ws.run(&["--approve", "auto", "--session", "s", "run", "--model", &model, "go"]));
    // The claim is made, and no process runs the session: as after a kill between the two.
    let fired = good(test_ws.run(&["triggers", "fire", "t"])).out;
    assert!(fired.contains("fired t, fire 1, in the session s"), "{fired}");
    let status = good(test_ws.run(&["agents", "status"])).out;
    assert!(
        status.contains("s  not running  1 trigger armed") && status.contains("1 message queued"),
        "{status}"
    );
    let ran = good(test_ws.run(&["--session", "s", "run", "--wait"]));
    assert_eq!(ran.out.matches("seen").count(), 1, "{ran:?}");
    let ran = good(test_ws.run(&["--session", "s", "run", "--wait"]));
    assert!(!ran.out.contains("seen"), "{ran:?}");
}

#[test]
fn triggers_are_paused_resumed_shown_as_json_and_removed() {
    let test_ws = TestWorkspace::new();
    let model = script(
        &test_ws,
        &[
            call(
                "add_schedule",
                json!({"prompt": "x", "cron": "0 9 * * mon-fri", "zone": "UTC", "name": "work"}),
            ),
            json!({"say": "armed"}),
        ],
    );
    good(test_ws.run(&["--approve", "auto", "--session", "s", "run", "--model", &model, "go"]));
    let line = good(test_ws.run(&["triggers", "list"])).out;
    assert!(
        line.starts_with("work  armed  cron 0 9 * * mon-fri  next ")
            && line.contains("  not fired yet  session s"),
        "{line}"
    );
    assert_eq!(good(test_ws.run(&["triggers", "pause", "work"])).out.trim(), "paused work");
    assert!(test_ws.run(&["triggers", "pause", "work"]).err.contains("is paused"));
    let json: Value = serde_json::from_str(&good(test_ws.run(&["triggers", "--json"])).out).unwrap();
    assert_eq!(
        (&json["id"], &json["state"], &json["body"]["cron"]),
        (&json!("work"), &json!("paused"), &json!("0 9 * * mon-fri"))
    );
    assert_eq!(good(test_ws.run(&["triggers", "resume", "work"])).out.trim(), "resumed work");
    let shown: Value =
        serde_json::from_str(&good(test_ws.run(&["triggers", "show", "work", "--json"])).out).unwrap();
    let events: Vec<&str> =
        shown["history"].as_array().unwrap().iter().map(|it| it["event"].as_str().unwrap()).collect();
    assert_eq!(events, ["paused", "resumed"]);
    assert_eq!(good(test_ws.run(&["triggers", "remove", "work"])).out.trim(), "removed work");
    let gone = test_ws.run(&["triggers", "show", "work"]);
    assert!(gone.code == 1 && gone.err.contains("Trigger not found: work"), "{gone:?}");
}

#[test]
fn tools_of_triggers_are_found_by_search_and_listed_where_they_are_named() {
    let test_ws = TestWorkspace::new();
    let model = script(
        &test_ws,
        &[
            call("search_tools", json!({"query": "timer every seconds"})),
            json!({"expect": ["add_timer"], "say": "found"}),
        ],
    );
    good(test_ws.run(&["run", "--model", &model, "go"]));
    let listed = |test_ws: &TestWorkspace| good(test_ws.run(&["tools", "--cost"])).out;
    let before = listed(&test_ws);
    std::fs::create_dir_all(test_ws.config()).unwrap();
    std::fs::write(test_ws.config().join("haft.toml"), "listed = [\"add_timer\"]\n").unwrap();
    assert_ne!(before, listed(&test_ws));
}
