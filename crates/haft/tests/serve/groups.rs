//! Groups of agents over HTTP: each operation with each role, agents of other groups and workspaces, hostile ids, huge messages.

use std::process::{Child, Stdio};

use serde_json::{Value, json};

use super::support::{ROLES, Served, Stage, token, wait_for};

const RECIPE: &str = r#"[group]
name = "NAME"
[group.root]
model = "script:root.jsonl"
[[group.agent]]
name = "worker"
model = "script:worker.jsonl"
tools = []
"#;

/// `haft group run --stay` in a folder of a stage, with its name. The root says that it is ready, and then has more answers.
struct Group {
    child: Child,
    name: String,
}

impl Group {
    fn start(stage: &Stage, folder: &str, name: &str, served: &Served, more: &str) -> Self {
        let at = stage.path(folder);
        for (file, text) in [
            ("group.toml", RECIPE.replace("NAME", name)),
            ("root.jsonl", format!("{}\n{more}", json!({"say": "Ready."}))),
            ("worker.jsonl", format!("{}\n", json!({"say": "Read."}))),
        ] {
            std::fs::write(at.join(file), text).unwrap();
        }
        let mut haft = stage.haft_in(&at);
        haft.args(["--trust", "group", "run", "--json", "group.toml", "go", "--stay"]);
        let child = haft.current_dir(&at).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let group = wait_for("the group", || {
            let all = served.get("groups")["groups"].as_array().unwrap().clone();
            all.into_iter().find(|it| it["name"].as_str().unwrap().starts_with(name))
        });
        let it = Self { child, name: group["name"].as_str().unwrap().to_owned() };
        for member in ["root", "worker"] {
            wait_for("an agent that is idle", || {
                (it.member(served, member)["status"] == "idle").then_some(())
            });
        }
        it
    }

    fn whole(&self, served: &Served) -> Value {
        served.get(&format!("groups/{}", self.name))
    }

    fn member(&self, served: &Served, name: &str) -> Value {
        let whole = self.whole(served);
        whole["members"].as_array().unwrap().iter().find(|it| it["name"] == name).cloned().unwrap_or_default()
    }

    fn act(&self, action: &str) -> String {
        format!("POST /api/v1/groups/{}/{action}", self.name)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn only_who_may_approve_changes_the_life_of_a_group_that_runs() {
    let stage = Stage::new(&[]);
    let served = stage.serve();
    let mut group = Group::start(&stage, "ws", "play", &served, "");
    for role in ROLES {
        let may = ["approve", "own"].contains(&role);
        let status = |line: &str, body: &Value| served.ask(role, line, body).status;
        for path in ["groups".to_owned(), format!("groups/{}", group.name)] {
            assert_eq!(status(&format!("GET /api/v1/{path}"), &Value::Null), 200, "{path} as {role}");
        }
        for (action, paused) in [("pause", true), ("resume", false)] {
            let worker = json!({"member": "worker"});
            assert_eq!(
                status(&group.act(action), &worker),
                if may { 200 } else { 403 },
                "{action} as {role}"
            );
            assert_eq!(group.member(&served, "worker")["paused"], json!(may && paused), "{action} as {role}");
        }
    }
    for role in ["view", "say"] {
        for body in [json!({}), json!({"member": "worker"}), json!({"member": "worker", "kill": true})] {
            assert_eq!(served.ask(role, &group.act("stop"), &body).status, 403, "{body} as {role}");
        }
        assert_eq!(group.member(&served, "worker")["status"], "idle");
    }
    assert_eq!(
        served.raw(&group.act("stop"), "Content-Type: application/json\r\nX-Haft: 1\r\n", b"{}").status,
        401
    );
    // A cookie alone is not enough for a page of somebody else.
    let cookie = served.sign_in();
    for more in ["", "X-Haft: 1\r\nOrigin: http://evil.example\r\n"] {
        let headers = format!("{cookie}Content-Type: application/json\r\n{more}");
        let reply = served.raw(&group.act("stop"), &headers, b"{}");
        assert_eq!(reply.status, 403, "{reply:?}");
    }
    assert_eq!(group.whole(&served)["state"], "running");
    assert_eq!(served.ask("approve", &group.act("stop"), &json!({})).status, 200);
    group.child.wait().unwrap();
    let reply = served.ask("approve", &group.act("pause"), &json!({}));
    assert!(
        (400..600).contains(&reply.status) && reply.body.contains("no process runs the group"),
        "{reply:?}"
    );
}

#[test]
fn agents_of_other_groups_sessions_and_workspaces_are_out_of_reach() {
    let stage = Stage::new(&[json!({"say": "Hello."})]);
    std::fs::create_dir(stage.path("other")).unwrap();
    let served = stage.serve_with(&["--workspace", stage.path("other").to_str().unwrap()]);
    let alone = served.begin("hello");
    let (first, second) = (
        Group::start(&stage, "ws", "first", &served, ""),
        Group::start(&stage, "other", "second", &served, ""),
    );
    let of = |group: &Group, key: &str| group.member(&served, "worker")[key].as_str().unwrap().to_owned();
    let strange =
        [of(&second, "id"), of(&second, "session"), second.name.clone(), alone, of(&first, "session") + "x"];
    for member in &strange {
        for action in ["pause", "resume", "stop"] {
            let reply = served.ask("own", &first.act(action), &json!({"member": member}));
            assert!((400..500).contains(&reply.status), "{action} {member}: {reply:?}");
        }
    }
    let info = served.get("info");
    let workspaces: Vec<&str> =
        info["workspaces"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap()).collect();
    assert_eq!(first.whole(&served)["workspace"], workspaces[0]);
    served.does(404, &format!("GET /api/v1/groups/{}?workspace={}", first.name, workspaces[1]), &Value::Null);
    let stop = format!("{}?workspace={}", first.act("stop"), workspaces[1]);
    served.does(404, &stop, &json!({}));
    for group in [&first, &second] {
        for member in ["root", "worker"] {
            let it = group.member(&served, member);
            assert_eq!(
                (&it["status"], &it["paused"], &it["killed"]),
                (&json!("idle"), &json!(false), &json!(false))
            );
        }
    }
}

#[test]
fn hostile_ids_of_groups_and_agents_are_refused_in_few_words() {
    let stage = Stage::new(&[]);
    let served = stage.serve();
    let group = Group::start(&stage, "ws", "play", &served, "");
    let headers = format!("Authorization: Bearer {}\r\nContent-Type: application/json\r\n", token("own"));
    let long = "a".repeat(7000);
    let ids = [
        "..",
        "%2e%2e",
        "..%2f..%2ftokens",
        "%00",
        "'%20OR%201=1--",
        "%25",
        "latest",
        "*",
        "%e2%80%ae",
        "<script>",
        "play",
        &long,
    ];
    for id in ids {
        for line in [format!("GET /api/v1/groups/{id}"), format!("POST /api/v1/groups/{id}/stop")] {
            let reply = served.raw(&line, &headers, if line.starts_with("POST") { b"{}" } else { b"" });
            assert!((400..500).contains(&reply.status), "{line:.80}: {reply:?}");
            assert!(reply.header("content-type").is_none_or(|it| it.contains("json")), "{:?}", reply.head);
        }
    }
    let huge = "m".repeat(10 << 20);
    let members = [
        json!("../worker"),
        json!("worker' OR '1'='1"),
        json!("wor\u{0}ker"),
        json!("\u{202e}worker"),
        json!(""),
        json!("%"),
        json!("worker\n"),
        json!(7),
        json!(["worker"]),
        json!({"id": "worker"}),
        json!(huge),
    ];
    for member in members {
        let reply = served.ask("own", &group.act("stop"), &json!({"member": member}));
        let shown: String = member.to_string().chars().take(60).collect();
        assert!((400..500).contains(&reply.status), "{shown}: {}", &reply.head);
        assert!(reply.body.len() < 2000, "{shown}: the refusal has {} bytes", reply.body.len());
    }
    for body in [json!({"member": "worker", "role": "own"}), json!([]), json!({"kill": "yes"})] {
        assert_eq!(served.ask("own", &group.act("stop"), &body).status, 400, "{body}");
    }
    for action in ["kill", "Stop", "stop%2f", "run", ".."] {
        let status = served.ask("own", &group.act(action), &json!({})).status;
        assert!([400, 404].contains(&status), "{action}: {status}");
    }
    assert_eq!(
        served.ask("own", &format!("GET /api/v1/groups/{}?after=-1", group.name), &Value::Null).status,
        400
    );
    assert_eq!(group.member(&served, "worker")["status"], "idle");
    // The store is as small as before.
    let seen = group.whole(&served).to_string();
    assert!(seen.len() < 100_000, "the group has {} bytes", seen.len());
}

#[test]
fn message_beyond_1_mib_in_a_group_is_refused_and_a_long_one_is_shown_in_part() {
    let stage = Stage::new(&[]);
    let served = stage.serve();
    let send = |text: String| json!({"calls": [{"tool": "group_send", "arguments": {"to": "worker", "message": text}}]});
    let (huge, long) = (send("m".repeat(2 << 20)), send("l".repeat(20_000)));
    let more: String = [huge, long, json!({"say": "Sent."})].iter().map(|it| format!("{it}\n")).collect();
    let group = Group::start(&stage, "ws", "play", &served, &more);
    served.does(200, &group.act("pause"), &json!({"member": "worker"}));
    let session = group.member(&served, "root")["session"].as_str().unwrap().to_owned();
    let line = format!("POST /api/v1/sessions/{session}/prompt");
    // An agent is idle a moment before its session is kept.
    let look = format!("GET /api/v1/sessions/{session}");
    wait_for("the session", || (served.ask("view", &look, &Value::Null).status == 200).then_some(()));
    served.does(202, &line, &json!({"text": "Send them."}));
    let worker = wait_for("the message", || {
        Some(group.member(&served, "worker")).filter(|it| it["queued"] == json!(1))
    });
    let text = worker["inbox"][0]["text"].as_str().unwrap();
    assert!(text.len() == 2000 && text.starts_with('l'), "{text:.50}");
    let whole = group.whole(&served).to_string();
    assert!(whole.len() < 100_000, "the group has {} bytes", whole.len());
    let rows = served.get(&format!("sessions/{session}/rows")).to_string();
    assert!(rows.contains("at most 1048576 are delivered"), "nothing tells why the first was refused");
    // The words of a person are as long as a request may be.
    let line = line.replace(&session, group.member(&served, "worker")["session"].as_str().unwrap());
    served.does(202, &line, &json!({"text": "p".repeat(10 << 20)}));
    assert_eq!(served.ask("say", &line, &json!({"text": "p".repeat(17 << 20)})).status, 413);
    let whole = group.whole(&served).to_string();
    assert!(whole.len() < 100_000, "the group has {} bytes", whole.len());
    assert_eq!(group.whole(&served)["state"], "running");
}
