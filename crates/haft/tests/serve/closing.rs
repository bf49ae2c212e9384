//! Folders that the owner opened and closes again, and the race of opening one.

use std::{
    fs,
    os::unix::fs::symlink,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::{Value, json};

use super::{
    mcp::Client,
    support::{Sent, Served, Stage, token, wait_for},
};

const OPEN: &str = "POST /api/v1/workspaces";

/// A second folder in which haft was used.
fn used(stage: &Stage, name: &str) -> std::path::PathBuf {
    let folder = stage.path(name);
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("a.txt"), "of the other folder\n").unwrap();
    let used = stage.haft_at(&folder).args(["call", "read", r#"{"path": "a.txt"}"#]).output().unwrap();
    assert!(used.status.success(), "{used:?}");
    folder
}

fn close(served: &Served, id: &str) -> (u16, String) {
    let reply = served.ask("own", &format!("DELETE /api/v1/workspaces/{id}"), &Value::Null);
    (reply.status, reply.body)
}

/// The status and the parts of an error that says what to do next.
#[track_caller]
fn refused(reply: (u16, String), status: u16) -> String {
    let error: Value = serde_json::from_str(&reply.1).unwrap();
    assert_eq!(reply.0, status, "{error}");
    assert!(!error["error"]["next"].as_str().unwrap_or_default().is_empty(), "{error}");
    error["error"]["what"].as_str().unwrap().to_owned()
}

#[test]
fn opened_folder_is_closed_once_nothing_runs_in_it_and_can_be_opened_again() {
    let stage = Stage::new(&[
        json!({"calls": [{"tool": "shell", "arguments": {"command": "echo begun; exec sleep 1000", "wait_ms": 100}}]}),
        json!({"say": "It runs."}),
        json!({"say": "Noted."}),
        json!({"say": "More."}),
    ]);
    let other = used(&stage, "größer 日本");
    let served = stage.serve_with(&["--approve", "auto"]);
    assert_eq!(served.get("folders"), json!({"folders": [other]}));
    let id = served.does(201, OPEN, &json!({"path": other}))["id"].as_str().unwrap().to_owned();
    let listed = || served.get("workspaces")["workspaces"].as_array().unwrap().clone();
    let first = listed()[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(
        listed()[1],
        json!({"id": id, "name": "größer 日本", "path": other, "opened": true, "running": []})
    );
    assert!(refused(close(&served, &first), 409).contains("since the server began"));
    assert!(refused(close(&served, "nothing"), 404).contains("`nothing`"));

    let body = json!({"workspace": id, "prompt": {"text": "Begin a job."}});
    let session = served.does(201, "POST /api/v1/sessions", &body)["id"].as_str().unwrap().to_owned();
    served.watch(&session, 0).until(|row| row.kind() == "turn_ended");
    assert_eq!(listed()[1]["running"], json!([session]), "a job runs");
    assert_eq!(listed()[0]["running"], json!([]));
    let what = refused(close(&served, &id), 409);
    assert!(what.contains(&session) && what.contains("job"), "{what}");
    let jobs = served.get(&format!("sessions/{session}/jobs"));
    let job = jobs["jobs"][0]["id"].as_str().unwrap_or_else(|| panic!("{jobs}")).to_owned();
    let mut watcher = served.watch(&session, 0);
    served.does(200, &format!("POST /api/v1/sessions/{session}/jobs/{job}/stop"), &json!({}));
    wait_for("the folder closed", || (close(&served, &id).0 == 204).then_some(()));

    loop {
        match watcher.next() {
            Some(Sent::Named(name, _)) if name == "gone" => break,
            Some(_) => {}
            None => panic!("the watcher was not notified"),
        }
    }
    assert_eq!(listed().len(), 1);
    assert_eq!(served.get("info")["workspaces"].as_array().unwrap().len(), 1);
    assert_eq!(served.get("sessions"), json!({"sessions": []}));
    served.does(404, &format!("GET /api/v1/sessions/{session}"), &Value::Null);
    assert!(refused(close(&served, &id), 404).contains(&id));
    served.does(404, "POST /api/v1/sessions", &json!({"workspace": id}));

    assert_eq!(served.get("folders"), json!({"folders": [other]}));
    assert_eq!(served.does(201, OPEN, &json!({"path": other}))["id"], json!(id));
    assert_eq!(served.get(&format!("sessions/{session}"))["state"], "asleep");
    let rows = served.prompt(&session, "And now?");
    assert_eq!(rows.last().unwrap().event["event"], "turn_ended", "{rows:?}");
    assert_eq!(close(&served, &id).0, 204);
}

#[test]
fn folder_is_not_closed_while_a_turn_waits_or_an_mcp_client_calls() {
    let write = json!({"path": ".git/hooks/pre-commit", "content": "#!/bin/sh\n"});
    let stage =
        Stage::new(&[json!({"calls": [{"tool": "write", "arguments": write}]}), json!({"say": "Done."})]);
    let other = used(&stage, "other");
    fs::create_dir_all(other.join(".git/hooks")).unwrap();
    let served = stage.serve();
    let id = served.does(201, OPEN, &json!({"path": other}))["id"].as_str().unwrap().to_owned();
    let body = json!({"workspace": id, "prompt": {"text": "Make a hook."}});
    let session = served.does(201, "POST /api/v1/sessions", &body)["id"].as_str().unwrap().to_owned();
    served.approval(&session);
    assert!(refused(close(&served, &id), 409).contains(&session));
    served.does(200, &format!("POST /api/v1/sessions/{session}/cancel"), &json!({}));
    served.watch(&session, 0).until(|row| row.kind() == "turn_ended");

    let client = Client::of_workspace(&served, &token("approve"), "other").begin();
    assert!(client.reads("a.txt").contains("of the other folder"));
    thread::scope(|scope| {
        let command =
            json!({"command": "touch begun; while [ ! -e end ]; do sleep 0.05; done", "wait_ms": 100_000});
        let call = json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "shell", "arguments": command}});
        let call = scope.spawn(move || client.post(&call));
        wait_for("the command", || other.join("begun").exists().then_some(()));
        let what = refused(close(&served, &id), 409);
        assert!(what.contains("MCP clients work"), "{what}");
        fs::write(other.join("end"), "").unwrap();
        let reply = call.join().unwrap();
        assert!(reply.status == 200 && !reply.body.contains("\"isError\":true"), "{reply:?}");
    });
    // The idle session of the client ends with the folder.
    wait_for("the folder closed", || (close(&served, &id).0 == 204).then_some(()));
    let late = Client::of_workspace(&served, &token("approve"), "other");
    assert_eq!(late.post(&crate::http::support::initialize()).status, 404);
}

#[test]
fn folder_that_becomes_a_link_while_it_is_opened_gives_nothing_of_where_the_link_leads() {
    let stage = Stage::new(&[]);
    let other = used(&stage, "other");
    let (secret, link) = (stage.path("secret"), stage.path("link"));
    fs::create_dir(&secret).unwrap();
    fs::write(secret.join("a.txt"), "of nobody\n").unwrap();
    symlink(&secret, &link).unwrap();
    let served = stage.serve();
    let ends = AtomicBool::new(false);
    let (mut opened, mut refused) = (0, 0);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                renameat_with(CWD, &other, CWD, &link, RenameFlags::EXCHANGE).unwrap();
                thread::yield_now();
            }
        });
        let _ends = EndsWhenDropped(&ends);
        // Both happen, whichever comes first; without the check after opening, the other folder would be served in some rounds.
        while opened < 5 || refused < 5 {
            let reply = served.ask("own", OPEN, &json!({"path": other}));
            if reply.status != 201 {
                assert!([403, 404, 409].contains(&reply.status), "{reply:?}");
                refused += 1;
                continue;
            }
            opened += 1;
            let about: Value = serde_json::from_str(&reply.body).unwrap();
            assert_eq!(about["path"], json!(other));
            let id = about["id"].as_str().unwrap();
            for _ in 0..20 {
                let line = format!("GET /api/v1/files/raw?workspace={id}&path=a.txt");
                let read = served.ask("own", &line, &Value::Null);
                assert!(!read.body.contains("of nobody"), "{read:?}");
            }
            let all = served.get("workspaces");
            assert!(!all.to_string().contains("secret"), "{all}");
            wait_for("the folder closed", || (close(&served, id).0 == 204).then_some(()));
        }
    });
}

/// Ends the other thread of a test, also when the test fails.
struct EndsWhenDropped<'a>(&'a AtomicBool);

impl Drop for EndsWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
