//! Shares: read by whoever has the address, until they expire or are revoked.

use serde_json::{Value, json};

use super::support::Stage;

#[test]
fn share_is_read_without_a_token_masked_and_until_it_expires_or_is_revoked() {
    let secret = "sk-ant-0123456789abcdef0123456789abcdef";
    let stage =
        Stage::new(&[json!({"say": format!("The key is {secret}, they say.")}), json!({"say": "Later."})]);
    let tokens = stage.path("tokens");
    let mut haft = stage.haft(&["--addr", "127.0.0.1:0", "--tokens", tokens.to_str().unwrap()]);
    let served = super::support::Served::start(haft.env("ANTHROPIC_API_KEY", secret));
    let session = served.begin("say it");
    served.watch(&session, 0).until(|row| row.kind() == "turn_ended");
    let share = served.does(201, "POST /api/v1/shares", &json!({"session": session, "hours": 1}));
    let id = share["id"].as_str().unwrap().to_owned();
    assert_eq!(share["address"], format!("http://{}/s/{id}", served.address));
    served.prompt(&session, "after the share");
    let read = |id: &str| served.raw(&format!("GET /api/v1/shared/{id}"), "", b"");
    let reply = read(&id);
    assert_eq!(reply.status, 200, "{reply:?}");
    // As one page of its own: the same rows with the secrets masked, for whoever may watch the session.
    let rows = |more: &str| {
        served.ask("view", &format!("GET /api/v1/sessions/{session}/rows{more}"), &Value::Null).body
    };
    assert!(rows("?masked=true").contains("The key is") && !rows("?masked=true").contains(secret));
    assert!(rows("?masked=true").contains("after the share"));
    assert!(reply.body.contains("The key is") && !reply.body.contains(secret), "{}", reply.body);
    assert!(!reply.body.contains("after the share") && !reply.body.contains("Later."), "{}", reply.body);
    // It gives nothing else.
    for path in ["sessions", "info", &format!("sessions/{session}/rows"), "files"] {
        assert_eq!(served.raw(&format!("GET /api/v1/{path}"), "", b"").status, 401, "{path}");
    }
    assert_eq!(served.raw(&format!("GET /api/v1/shared/{id}/outputs/out_1"), "", b"").status, 404);
    for guess in ["x", &"0".repeat(32), &id[1..]] {
        assert_eq!(read(guess).status, 404, "{guess}");
    }
    // Its time is over.
    let kept = stage.path("state/serve/access.json");
    let text = std::fs::read_to_string(&kept).unwrap();
    let mut value: Value = serde_json::from_str(&text).unwrap();
    value["shares"][0]["expires_ms"] = json!(1);
    std::fs::write(&kept, value.to_string()).unwrap();
    assert_eq!(read(&id).status, 410);
    assert_eq!(served.get("shares")["shares"], json!([]));
    let share = served.does(201, "POST /api/v1/shares", &json!({"session": session}));
    let id = share["id"].as_str().unwrap().to_owned();
    assert_eq!(read(&id).status, 200);
    served.does(204, &format!("DELETE /api/v1/shares/{id}"), &Value::Null);
    assert_eq!(read(&id).status, 404);
    for hours in [0, 100_000] {
        served.does(400, "POST /api/v1/shares", &json!({"session": session, "hours": hours}));
    }
}

#[test]
fn names_of_arguments_are_masked_as_their_values_are() {
    let secret = "sk-ant-0123456789abcdef0123456789abcdef";
    let arguments = json!({"path": "a.txt", secret: 1, "deep": [{"more": {secret: secret}}]});
    let stage =
        Stage::new(&[json!({"calls": [{"tool": "read", "arguments": arguments}]}), json!({"say": "Done."})]);
    let tokens = stage.path("tokens");
    let mut haft = stage.haft(&["--addr", "127.0.0.1:0", "--tokens", tokens.to_str().unwrap()]);
    let served = super::support::Served::start(haft.env("ANTHROPIC_API_KEY", secret));
    let session = served.begin("read it");
    served.watch(&session, 0).until(|row| row.kind() == "turn_ended");
    let rows = |more: &str| served.get(&format!("sessions/{session}/rows{more}"));
    let calls = |rows: &Value| -> Vec<Value> {
        let all = rows["rows"].as_array().unwrap().iter();
        all.filter(|it| it["event"]["event"] == "called").cloned().collect()
    };
    let plain = calls(&rows(""));
    assert!(plain.len() == 1 && plain[0].to_string().matches(secret).count() == 2, "{plain:?}");
    let masked = rows("?masked=true");
    let share = served.does(201, "POST /api/v1/shares", &json!({"session": session}));
    let shared = served.raw(&format!("GET /api/v1/shared/{}", share["id"].as_str().unwrap()), "", b"");
    let shared: Value = serde_json::from_str(&shared.body).unwrap();
    for all in [masked, shared] {
        assert!(!all.to_string().contains(secret), "{all}");
        let call = calls(&all);
        let text = call[0].to_string();
        assert!(text.contains("a.txt") && text.contains("deep") && text.contains("more"), "{text}");
    }
}
