//! One budget for the whole group.

use serde_json::json;

use super::support::{Actor, Stage, calls, says};

fn stage() -> Stage {
    let send = |to: &str| calls(&[("group_send", json!({"to": to, "message": "more"}))]);
    let actor =
        |name| Actor { name, script: vec![send("root"), says("sent"), send("root"), says("sent")], more: "" };
    let root =
        vec![send("ann"), send("bob"), says("1"), send("ann"), says("2"), send("bob"), says("3"), says("4")];
    Stage::new("", root, &[actor("ann"), actor("bob")])
}

#[test]
fn steps_of_all_agents_count_together_and_no_request_is_sent_beyond_them() {
    for stage in [stage(), stage().with_processes()] {
        let played = stage.plays(&["--budget-steps", "5"]);
        assert_eq!((played.code, played.ended()["ended"].as_str()), (1, Some("paused")), "{played:#?}");
        assert_eq!(played.ended()["steps"], 5);
        assert_eq!(played.events("budget_exhausted")[0]["body"]["limit"], "5 steps");
        let answers = played.lines.iter().filter(|it| it["row"]["event"] == "used").count();
        assert!(answers <= 5, "{answers}");
    }
}

#[test]
fn group_goes_on_with_a_higher_budget_and_its_use_is_not_forgotten() {
    let stage = stage();
    let first = stage.plays(&["--budget-steps", "3"]);
    assert_eq!(first.ended()["steps"], 3, "{first:#?}");
    let name = first.lines[0]["group"].as_str().unwrap().to_owned();
    let second = stage.plays(&["--resume", &name, "--budget-steps", "6"]);
    assert_eq!((second.code, second.ended()["steps"].as_u64()), (1, Some(6)), "{second:#?}");
}

#[test]
fn time_limit_stops_a_group_whose_model_does_not_answer() {
    let root = vec![json!({"say": "late", "after_ms": 600_000})];
    let played = Stage::new("", root, &[]).plays(&["--budget-minutes", "0.01"]);
    assert_eq!(played.code, 1, "{played:#?}");
    assert!(played.events("budget_exhausted")[0]["body"]["limit"].as_str().unwrap().contains("minutes"));
}
