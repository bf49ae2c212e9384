//! Folders that the owner has opened while the server runs.

use std::fs;

use serde_json::{Value, json};

use super::{
    mcp::Client,
    support::{Served, Stage, token},
};

const OPEN: &str = "POST /api/v1/workspaces";

#[test]
fn the_owner_has_a_folder_opened_in_which_haft_was_used_and_no_other() {
    let stage = Stage::new(&[json!({"say": "Here."})]);
    let other = stage.path("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("a.txt"), "of the other folder\n").unwrap();
    let served = stage.serve();
    let folder = json!({"path": other});
    assert_eq!(served.get("folders"), json!({"folders": []}));
    let refused = served.does(403, OPEN, &folder);
    assert!(
        refused.to_string().contains("haft call info") && refused.to_string().contains("--workspace"),
        "{refused}"
    );
    for (path, status) in [("relative", 400), ("/nothing/there", 404), ("/", 403)] {
        served.does(status, OPEN, &json!({"path": path}));
    }

    // The person uses haft there.
    let used = stage.haft_at(&other).args(["call", "read", r#"{"path": "a.txt"}"#]).output().unwrap();
    assert!(used.status.success(), "{used:?}");
    assert_eq!(served.get("folders"), json!({"folders": [other]}));
    assert_eq!(served.ask("approve", OPEN, &folder).status, 403);
    let opened = served.does(201, OPEN, &folder);
    assert_eq!((&opened["name"], &opened["path"]), (&json!("other"), &json!(other)));
    assert_eq!(served.does(200, OPEN, &folder)["id"], opened["id"]);
    assert_eq!(served.get("folders"), json!({"folders": []}));
    assert_eq!(served.get("info")["workspaces"].as_array().unwrap().len(), 2);

    // Everybody has it now: a session, its place in the list, and MCP.
    let body = json!({"workspace": opened["id"], "prompt": {"text": "Where are you?"}});
    let begun = served.ask("say", "POST /api/v1/sessions", &body);
    assert_eq!(begun.status, 201, "{begun:?}");
    let begun: Value = serde_json::from_str(&begun.body).unwrap();
    let session = begun["id"].as_str().unwrap();
    let rows = served.watch(session, 0).until(|row| row.kind() == "turn_ended");
    assert!(rows.iter().any(|it| it.whole.to_string().contains("Here.")), "{rows:?}");
    let listed = served.get("sessions");
    let listed = listed["sessions"].as_array().unwrap().iter().find(|it| it["id"] == begun["id"]).unwrap();
    assert_eq!(listed["workspace"], opened["id"]);
    let client = Client::of_workspace(&served, &token("approve"), "other").begin();
    assert!(client.reads("a.txt").contains("of the other folder"));
}

#[test]
fn opened_folders_get_no_trust_and_disturb_no_client() {
    let stage = Stage::new(&[]);
    stage.put("where", "in ws\n");
    let other = stage.path("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("haft.toml"), "sandbox = \"full\"\napprove = \"auto\"\n").unwrap();
    let tokens = stage.path("tokens");
    let mut haft = stage.haft_in(&stage.path("ws"));
    haft.args(["--trust", "serve", "--addr", "127.0.0.1:0", "--tokens", tokens.to_str().unwrap()]);
    let served = Served::start(haft.arg("--model").arg(format!("script:{}", stage.path("script").display())));
    let client = Client::new(&served, &token("approve")).begin();
    let used = stage.haft_at(&other).args(["call", "glob", r#"{"pattern": "*"}"#]).output().unwrap();
    assert!(used.status.success(), "{used:?}");
    let opened = served.does(201, OPEN, &json!({"path": other}));
    assert_eq!((&opened["sandbox"], &opened["approve"]), (&json!("workspace"), &json!("ask")), "{opened}");
    assert!(client.reads("where").contains("in ws"));
    assert!(Client::new(&served, &token("approve")).begin().reads("where").contains("in ws"));
    // haft's own state is opened for nobody.
    let used =
        stage.haft_at(&stage.path("state")).args(["call", "glob", r#"{"pattern": "*"}"#]).output().unwrap();
    assert!(used.status.success(), "{used:?}");
    served.does(403, OPEN, &json!({"path": stage.path("state")}));
}

#[test]
fn a_folder_with_the_file_of_tokens_is_not_opened() {
    let stage = Stage::new(&[]);
    let other = stage.path("other");
    fs::create_dir(&other).unwrap();
    stage.private("other/tokens", &fs::read_to_string(stage.path("tokens")).unwrap());
    let tokens = other.join("tokens");
    let arguments = ["--addr", "127.0.0.1:0", "--tokens", tokens.to_str().unwrap()];
    let served = Served::start(&mut stage.haft(&arguments));
    let used = stage.haft_at(&other).args(["call", "glob", r#"{"pattern": "*"}"#]).output().unwrap();
    assert!(used.status.success(), "{used:?}");
    let refused = served.does(400, OPEN, &json!({"path": other}));
    assert!(refused.to_string().contains("--tokens"), "{refused}");
}
