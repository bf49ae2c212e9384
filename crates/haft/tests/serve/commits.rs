//! The diff against the newest commit, and commits.

use std::{fs, io::Write as _, os::unix::fs::PermissionsExt as _, process::Command};

use serde_json::{Value, json};

use super::support::{Served, Stage, token, wait_for};

/// The model reads `a.txt`, makes these calls, and stops.
fn calling(calls: &[Value]) -> Vec<Value> {
    vec![
        json!({"calls": [{"tool": "read", "arguments": {"path": "a.txt"}}]}),
        json!({"calls": calls}),
        json!({"say": "Done."}),
    ]
}

fn edits() -> Value {
    json!({"tool": "edit", "arguments": {"path": "a.txt", "edits": [{"old": "one", "new": "1"}]}})
}

fn writes(path: &str, content: &str) -> Value {
    json!({"tool": "write", "arguments": {"path": path, "content": content}})
}

impl Stage {
    /// Runs git in the workspace, and gives its output.
    #[track_caller]
    fn git(&self, arguments: &[&str]) -> String {
        let mut git = Command::new("git");
        git.env("HOME", self.path("home")).env("GIT_CONFIG_NOSYSTEM", "1");
        let done = git.arg("-C").arg(self.path("ws")).args(arguments).output().unwrap();
        assert!(done.status.success(), "{arguments:?}: {done:?}");
        String::from_utf8(done.stdout).unwrap()
    }

    /// Makes the workspace a repository with `a.txt` and `other.txt`.
    fn repository(&self) {
        self.put("a.txt", "one\n");
        self.put("other.txt", "other\n");
        self.git(&["init", "--quiet", "--initial-branch=main"]);
        self.git(&["config", "user.name", "Ada"]);
        self.git(&["config", "user.email", "ada@example.com"]);
        self.git(&["add", "."]);
        self.git(&["commit", "--quiet", "--message=first"]);
    }
}

/// Begins a session whose model writes. Gives its id.
fn written(served: &Served) -> String {
    let session = served.does(201, "POST /api/v1/sessions", &json!({}))["id"].as_str().unwrap().to_owned();
    served.prompt(&session, "write");
    session
}

fn paths(files: &Value) -> Vec<&str> {
    files.as_array().unwrap().iter().map(|it| it["path"].as_str().unwrap()).collect()
}

#[test]
fn files_of_the_session_are_shown_against_head_and_committed_without_the_others() {
    let stage = Stage::new(&calling(&[edits(), writes("it's new.txt", "new\n")]));
    stage.repository();
    let served = stage.serve();
    let session = written(&served);
    stage.put("other.txt", "changed by somebody else\n");
    stage.git(&["add", "other.txt"]);
    let diff = format!("sessions/{session}/diff?against=head");
    let shown = served.get(&diff);
    assert_eq!(shown["commit"], stage.git(&["rev-parse", "HEAD"]).trim());
    assert_eq!(shown["branch"], "main");
    assert_eq!(paths(&shown["files"]), ["a.txt", "it's new.txt"], "{shown}");
    assert_eq!(shown["files"][0]["hunks"][0]["lines"], json!([["-", "one"], ["+", "1"]]), "{shown}");
    assert_eq!((&shown["files"][1]["kind"], paths(&shown["others"])), (&json!("created"), vec!["other.txt"]));
    // Whoever only watches gets nothing of files that the session has not changed.
    let watched = served.ask("view", &format!("GET /api/v1/{diff}"), &Value::Null);
    assert!(watched.status == 200 && !watched.body.contains("other.txt"), "{watched:?}");
    assert_eq!(paths(&served.get(&format!("sessions/{session}/diff?against=start"))["files"]).len(), 2);
    served.does(400, &format!("GET /api/v1/sessions/{session}/diff?against=other"), &Value::Null);

    let line = format!("POST /api/v1/sessions/{session}/commit");
    let body = json!({"message": "Write 'one'\n\n# as a number", "paths": ["a.txt", "it's new.txt"]});
    assert_eq!(served.ask("say", &line, &body).status, 403);
    let headers = format!(
        "Authorization: Bearer {}\r\nContent-Type: application/json\r\nIdempotency-Key: commit-1\r\n",
        token("approve")
    );
    let done = served.raw(&line, &headers, body.to_string().as_bytes());
    assert_eq!(done.status, 200, "{done:?}");
    let again = served.raw(&line, &headers, body.to_string().as_bytes());
    assert_eq!((again.status, &again.body), (200, &done.body), "a key commits once");
    let done: Value = serde_json::from_str(&done.body).unwrap();
    assert_eq!(
        (&done["commit"], &done["branch"]),
        (&json!(stage.git(&["rev-parse", "HEAD"]).trim()), &json!("main"))
    );
    assert_eq!(stage.git(&["rev-list", "--count", "HEAD"]).trim(), "2");
    assert_eq!(stage.git(&["log", "-1", "--format=%an|%B"]).trim(), "Ada|Write 'one'\n\n# as a number");
    assert_eq!(stage.git(&["show", "--name-only", "--format=", "HEAD"]), "a.txt\nit's new.txt\n");
    assert_eq!(
        stage.git(&["diff", "--cached", "--name-only"]).trim(),
        "other.txt",
        "the index of others stays"
    );
    let shown = served.get(&diff);
    assert_eq!((paths(&shown["files"]).len(), paths(&shown["others"])), (0, vec!["other.txt"]), "{shown}");
    let rows = served.get(&format!("sessions/{session}/rows"));
    let is_command = |it: &&Value| it["event"]["event"] == "command" && it["event"]["by"] == "approveer";
    assert_eq!(rows["rows"].as_array().unwrap().iter().filter(is_command).count(), 1, "{rows}");
}

#[test]
fn programs_that_a_repository_names_run_in_the_sandbox_only() {
    let stage = Stage::new(&calling(&[edits()]));
    stage.repository();
    let escaped = stage.path("escaped");
    let program = |name: &str| format!("#!/bin/sh\ntouch {}\ntouch {name}-ran\n", escaped.display());
    let put = |path: &str, text: &str| {
        stage.put(path, text);
        fs::set_permissions(stage.path("ws").join(path), fs::Permissions::from_mode(0o755)).unwrap();
    };
    put(".git/hooks/pre-commit", &program("hook"));
    put("evil.sh", &format!("{}cat\n", program("filter")));
    stage.put(".gitattributes", "*.txt filter=evil diff=evil\n");
    let evil = format!("sh {}", stage.path("ws").join("evil.sh").display());
    for name in ["filter.evil.clean", "diff.evil.textconv", "diff.external", "core.fsmonitor", "core.pager"] {
        stage.git(&["config", name, &evil]);
    }
    let served = stage.serve();
    let session = written(&served);
    let shown = served.get(&format!("sessions/{session}/diff?against=head"));
    assert_eq!(paths(&shown["files"]), ["a.txt"], "{shown}");
    assert!(!stage.path("ws").join("filter-ran").exists(), "what reads can change nothing");
    let line = format!("POST /api/v1/sessions/{session}/commit");
    served.does(200, &line, &json!({"message": "m", "paths": ["a.txt"]}));
    assert!(stage.path("ws").join("hook-ran").exists(), "the hook ran");
    assert!(!escaped.exists(), "and reached nothing outside the workspace");
    // A hook may refuse.
    put(".git/hooks/pre-commit", "#!/bin/sh\necho not on a Friday\nexit 1\n");
    stage.put("a.txt", "2\n");
    let refused = served.ask("own", &line, &json!({"message": "m", "paths": ["a.txt"]}));
    assert!(refused.status == 409 && refused.body.contains("not on a Friday"), "{refused:?}");
    assert_eq!(stage.git(&["rev-list", "--count", "HEAD"]).trim(), "2");
}

#[test]
fn commits_without_repository_sandbox_message_or_changed_file_are_refused() {
    let stage = Stage::new(&calling(&[writes("a.txt", "1\n")]));
    let served = stage.serve();
    let session = written(&served);
    let line = format!("POST /api/v1/sessions/{session}/commit");
    let body = json!({"message": "m", "paths": ["a.txt"]});
    for refused in [
        served.ask("own", &line, &body),
        served.ask("own", &format!("GET /api/v1/sessions/{session}/diff?against=head"), &Value::Null),
    ] {
        assert!(refused.status == 404 && refused.body.contains("git repository"), "{refused:?}");
    }
    stage.repository();
    for (body, status) in [
        (json!({"message": " ", "paths": ["a.txt"]}), 400),
        (json!({"message": "m", "paths": []}), 400),
        (json!({"message": "m", "paths": ["a.txt"]}), 404),
        (json!({"message": "m", "paths": ["../tokens"]}), 403),
        (json!({"message": "m", "paths": [":/"]}), 404),
        (json!({"message": "m", "paths": ["*"]}), 404),
        (json!({"message": "m"}), 400),
    ] {
        let refused = served.ask("own", &line, &body);
        assert_eq!(refused.status, status, "{body}: {refused:?}");
    }
    served.kill();
    stage.put("a.txt", "2\n");
    let served = stage.serve_with(&["--sandbox", "full"]);
    let refused = served.ask("own", &line, &body);
    assert!(refused.status == 403 && refused.body.contains("outside the sandbox"), "{refused:?}");
    assert_eq!(stage.git(&["rev-list", "--count", "HEAD"]).trim(), "1");
}

/// A hook that refuses.
const REFUSES: &str = "#!/bin/sh\necho not on a Friday\nexit 1\n";

/// A hook that goes on only once there is a file `go`.
const WAITS: &str = "#!/bin/sh\ntouch in-hook\nwhile [ ! -e go ]; do sleep 0.05; done\n";

impl Stage {
    fn hook(&self, text: &str) {
        fs::create_dir_all(self.path("ws/.git/hooks")).unwrap();
        self.put(".git/hooks/pre-commit", text);
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(self.path("ws/.git/hooks/pre-commit"), mode).unwrap();
    }

    /// The index and the branch: what is staged, and how many commits there are.
    fn staged(&self) -> (String, String) {
        (self.git(&["diff", "--cached", "--name-status"]), self.git(&["rev-list", "--count", "HEAD"]))
    }
}

#[test]
fn refused_commit_leaves_the_index_as_it_was() {
    let stage = Stage::new(&calling(&[edits(), writes("new.txt", "new\n")]));
    stage.repository();
    let served = stage.serve();
    let session = written(&served);
    stage.put("other.txt", "changed by somebody else\n");
    stage.git(&["add", "other.txt"]);
    let before = (stage.staged(), stage.git(&["status", "--porcelain"]));
    assert_eq!(before.0.0, "M\tother.txt\n");
    stage.hook(REFUSES);
    let line = format!("POST /api/v1/sessions/{session}/commit");
    for paths in [json!(["a.txt", "new.txt"]), json!(["new.txt"]), json!(["a.txt"])] {
        let refused = served.ask("own", &line, &json!({"message": "m", "paths": paths}));
        assert!(refused.status == 409 && refused.body.contains("not on a Friday"), "{refused:?}");
        assert_eq!((stage.staged(), stage.git(&["status", "--porcelain"])), before, "{paths}");
    }
    fs::remove_file(stage.path("ws/.git/hooks/pre-commit")).unwrap();
    served.does(200, &line, &json!({"message": "m", "paths": ["a.txt", "new.txt"]}));
    assert_eq!(stage.staged(), ("M\tother.txt\n".to_owned(), "2\n".to_owned()));
    assert_eq!(stage.git(&["status", "--porcelain"]), "M  other.txt\n");
    // A file that is deleted.
    fs::remove_file(stage.path("ws/a.txt")).unwrap();
    served.does(200, &line, &json!({"message": "m", "paths": ["a.txt"]}));
    assert_eq!(stage.git(&["show", "--name-status", "--format=", "HEAD"]), "D\ta.txt\n");
}

#[test]
fn server_that_is_killed_in_the_middle_of_a_commit_leaves_no_half_commit() {
    let stage = Stage::new(&calling(&[edits(), writes("new.txt", "new\n")]));
    stage.repository();
    let served = stage.serve();
    let session = written(&served);
    stage.hook(WAITS);
    let before = stage.staged();
    let line = format!("POST /api/v1/sessions/{session}/commit");
    let body = json!({"message": "m", "paths": ["a.txt", "new.txt"]}).to_string();
    let headers = format!(
        "Authorization: Bearer {}\r\nContent-Type: application/json\r\nIdempotency-Key: commit-1\r\n",
        token("own")
    );
    let mut socket = served.connect();
    let head = format!(
        "{line} HTTP/1.1\r\nHost: {}\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        served.address,
        body.len()
    );
    socket.write_all(head.as_bytes()).unwrap();
    wait_for("the hook", || stage.text("in-hook"));
    served.kill();
    let served = stage.serve();
    // The request has its answer: the command was cut off. Nothing is committed or staged.
    let done = served.raw(&line, &headers, body.as_bytes());
    assert!(done.status == 409 && done.body.contains("cut off"), "{done:?}");
    let rows = served.get(&format!("sessions/{session}/rows?limit=20000"));
    let rows = rows["rows"].as_array().unwrap();
    let at = rows.iter().position(|it| it["event"]["event"] == "command").unwrap();
    assert!(rows[at..].iter().all(|it| it["event"]["event"] != "answered"), "{rows:#?}");
    assert!(rows[at..].iter().any(|it| it["event"]["event"] == "opened"), "{rows:#?}");
    assert_eq!(stage.staged(), before);
    let shown = served.get(&format!("sessions/{session}/diff?against=head"));
    assert_eq!(paths(&shown["files"]), ["a.txt", "in-hook", "new.txt"], "{shown}");
    // The hook may go on now: another request commits, once.
    stage.put("go", "");
    served.does(200, &line, &serde_json::from_str(&body).unwrap());
    assert_eq!(stage.staged(), (String::new(), "2\n".to_owned()));
    assert_eq!(stage.git(&["show", "--name-only", "--format=", "HEAD"]), "a.txt\nnew.txt\n");
}

#[test]
fn hostile_names_of_files_are_committed_as_names() {
    let names =
        ["--amend", "$(touch pwned)", "a\nb", ":!x", "*", "`touch pwned`", "'; touch pwned; '", "\\", "-m"];
    let stage = Stage::new(&calling(&[edits()]));
    stage.repository();
    let served = stage.serve();
    let session = written(&served);
    for name in names {
        stage.put(name, "1\n");
    }
    stage.put("x", "not this one\n");
    let line = format!("POST /api/v1/sessions/{session}/commit");
    served.does(200, &line, &json!({"message": "--no-verify\n$(touch pwned)", "paths": names}));
    let committed = stage.git(&["show", "--name-only", "--format=", "-z", "HEAD"]);
    let mut committed: Vec<&str> = committed.split('\0').filter(|it| !it.is_empty()).collect();
    let mut expected = names;
    committed.sort_unstable();
    expected.sort_unstable();
    assert_eq!(committed, expected);
    assert_eq!(stage.git(&["log", "-1", "--format=%B"]).trim(), "--no-verify\n$(touch pwned)");
    assert_eq!(stage.text("pwned"), None);
}

#[test]
fn commit_writes_through_no_symlink_that_leaves_the_workspace() {
    let stage = Stage::new(&calling(&[edits()]));
    stage.repository();
    let served = stage.serve();
    let session = written(&served);
    let (outside, index) = (stage.path("outside"), stage.path("ws/.git/index"));
    fs::rename(&index, &outside).unwrap();
    std::os::unix::fs::symlink(&outside, &index).unwrap();
    let before = fs::read(&outside).unwrap();
    let line = format!("POST /api/v1/sessions/{session}/commit");
    let reply = served.ask("own", &line, &json!({"message": "m", "paths": ["a.txt"]}));
    assert!([200, 404, 409].contains(&reply.status), "{reply:?}");
    assert_eq!(fs::read(&outside).unwrap(), before, "{reply:?}");
    // A path through a symlink is not in the workspace.
    std::os::unix::fs::symlink(stage.path("home"), stage.path("ws/link")).unwrap();
    fs::write(stage.path("home/secret"), "1\n").unwrap();
    let reply = served.ask("own", &line, &json!({"message": "m", "paths": ["link/secret"]}));
    assert!([403, 404].contains(&reply.status), "{reply:?}");
}

#[test]
fn read_only_session_commits_nothing() {
    let stage = Stage::new(&calling(&[edits()]));
    stage.repository();
    let served = stage.serve();
    let session = written(&served);
    served.does(200, &format!("PATCH /api/v1/sessions/{session}"), &json!({"sandbox": "read-only"}));
    let line = format!("POST /api/v1/sessions/{session}/commit");
    let refused = served.ask("own", &line, &json!({"message": "m", "paths": ["a.txt"]}));
    assert!(refused.status == 403 && refused.body.contains("read-only"), "{refused:?}");
    let undo = served.ask("own", &format!("POST /api/v1/sessions/{session}/undo"), &json!({}));
    assert!(undo.status == 403, "{undo:?}");
    assert_eq!(stage.text("a.txt").as_deref(), Some("1\n"));
}
