#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use expect_test::expect;
use kit::{
    Touch,
    prelude::*,
    services::{MadeTrigger, NewTrigger, Soon, Triggers},
    testing::TestWorkspace,
};
use parking_lot::Mutex;
use serde_json::json;

use super::{
    add_schedule::AddSchedule, add_timer::AddTimer, delete_trigger::DeleteTrigger,
    list_triggers::ListTriggers, webhook::Webhook,
};

/// Triggers in memory.
#[derive(Default)]
struct InMemory(Mutex<Vec<NewTrigger>>);

impl Triggers for InMemory {
    fn add(&self, new: NewTrigger) -> Soon<'_, Result<MadeTrigger, Fault>> {
        let (id, arguments) = (new.name.clone().unwrap_or("trigger_1".to_owned()), new.arguments.to_string());
        self.0.lock().push(new);
        Box::pin(async { Ok(MadeTrigger { id, arguments, notes: Vec::new() }) })
    }

    fn remove<'a>(&'a self, id: &'a str) -> Soon<'a, Result<bool, Fault>> {
        let mut all = self.0.lock();
        let before = all.len();
        all.retain(|it| it.name.as_deref() != Some(id));
        let removed = all.len() < before;
        Box::pin(async move { Ok(removed) })
    }

    fn list(&self) -> Soon<'_, Result<Vec<String>, Fault>> {
        let all = self.0.lock().iter().map(|it| it.name.clone().unwrap_or_default()).collect();
        Box::pin(async { Ok(all) })
    }
}

fn test_ws() -> TestWorkspace {
    let mut test_ws = TestWorkspace::empty();
    test_ws.triggers = Arc::new(InMemory::default());
    test_ws
}

#[test]
fn a_trigger_is_declared_with_all_that_a_person_decides_about() {
    let call: AddTimer = serde_json::from_value(
        json!({"interval": 5, "prompt": "look", "name": "t", "grants": ["net a.org"]}),
    )
    .unwrap();
    let touches: Vec<Touch> = call.touches().iter().cloned().collect();
    let [Touch::Trigger(new)] = touches.as_slice() else { unreachable!() };
    expect![[r#"{"tool":"add_timer","name":"t","arguments":{"interval":5.0,"prompt":"look","grants":["net a.org"]}}"#]]
        .assert_eq(new);
}

#[test]
fn answers_are_those_of_upstream() {
    let test_ws = test_ws();
    expect![[r#"Trigger `add_timer` correctly set up and running in the background with {"interval":5.0,"prompt":"look"}. trigger_id=beat"#]]
        .assert_eq(&test_ws.says::<AddTimer>(&json!({"interval": 5, "prompt": "look", "name": "beat"})));
    expect![[r#"Trigger `add_schedule` correctly set up and running in the background with {"prompt":"x","daily_at":"07:30","missed":"ask"}. trigger_id=day"#]]
        .assert_eq(&test_ws.says::<AddSchedule>(&json!({"prompt": "x", "daily_at": "07:30", "missed": "ask", "name": "day"})));
    expect![[r#"Trigger `webhook` correctly set up and running in the background with {"prompt":"x","scheme":"standard"}. trigger_id=hook"#]]
        .assert_eq(&test_ws.says::<Webhook>(&json!({"prompt": "x", "scheme": "standard", "name": "hook"})));
    expect!["beat\nday\nhook"].assert_eq(&test_ws.says::<ListTriggers>(&json!({})));
    expect!["Removed trigger: day"].assert_eq(&test_ws.says::<DeleteTrigger>(&json!({"trigger_id": "day"})));
    expect!["not_found: Trigger not found: day\nbeat\nhook"]
        .assert_eq(&test_ws.says::<DeleteTrigger>(&json!({"trigger_id": "day"})));
}
