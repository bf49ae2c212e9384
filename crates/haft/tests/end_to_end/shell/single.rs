//! `shell`: answers in time, and moves long commands to the background.

use serde_json::json;

use super::{Shells, alive, job_in, mark, until};
use crate::support::TestWorkspace;

/// A server that says on which port it listens.
const LISTEN: &str = "python3 -c 'import socket,time; s=socket.socket(); s.bind((\"127.0.0.1\",0)); s.listen(); print(s.getsockname()[1],flush=True); time.sleep(1234)'";

#[test]
fn says_what_a_command_said_and_how_it_ended() {
    let shells = Shells::new();
    shells.test_ws.put("sub/file", "");
    assert_eq!(shells.shell("echo out; echo err >&2; exit 3", 30_000), "out\nerr\n[exit 3]");
    assert_eq!(shells.shell("true", 30_000), "(no output)");
    assert_eq!(shells.shell("read x; echo \"[$x]\"", 30_000), "[]");
    assert_eq!(shells.shell("kill -9 $$", 30_000), "(no output)\n[exit 137: ended by SIGKILL]");
    assert_eq!(shells.does("shell", &json!({"command": "ls", "dir": "sub"})), "file");
    let said = shells.shell("printf 'Password: '; read -r x", 30_000);
    assert!(said.contains("it asked `Password:`"), "{said}");
    let said = shells.call("shell", &json!({"command": "ls", "dir": "/etc"}));
    assert!(said.is_error && said.text.contains("roots"), "{}", said.text);
    let said = shells.call("shell", &json!({"command": "ls", "dir": "nowhere"}));
    assert!(said.is_error, "{}", said.text);
    shells.finish();
}

#[test]
fn what_is_left_running_is_named_and_lives_until_it_is_stopped() {
    let shells = Shells::new();
    let command = format!("export {}; sleep 1234 & echo done", mark(&shells.test_ws));
    let said = shells.shell(&command, 1_000);
    assert!(said.starts_with("done\n[still running as job_1: "), "{said}");
    assert!(said.contains(": sleep 1234 (pid "), "{said}");
    assert!(alive(&shells.test_ws).iter().any(|it| it.contains("sleep 1234")));
    let job = job_in(&said);
    shells.does("stop_task", &json!({"job": job}));
    until("it lives on", || !alive(&shells.test_ws).iter().any(|it| it.contains("sleep 1234")));
    shells.finish();
}

#[test]
fn a_server_is_shown_with_its_port_and_goes_on() {
    kit::needs!(Python);
    let shells = Shells::new();
    let said = shells.shell(&format!("export {}; {LISTEN}", mark(&shells.test_ws)), 3_000);
    let port = said.lines().next().unwrap().to_owned();
    assert!(said.contains("[still running after 3"), "{said}");
    assert!(said.contains(&format!("listening on :{port}")), "{said}");
    let job = job_in(&said);
    let list = shells.does("shell_status", &json!({"action": "list"}));
    assert!(list.starts_with(&format!("{job} running, ")), "{list}");
    let said = shells.does("shell_status", &json!({"action": "kill", "job": job}));
    assert!(said.contains("ended"), "{said}");
    until("it lives on", || !alive(&shells.test_ws).iter().any(|it| it.contains("sleep(1234)")));
    let said = shells.does("shell_status", &json!({"action": "status", "job": job}));
    assert!(said.starts_with(&format!("{job} cancelled")) && said.contains(&port), "{said}");
    shells.finish();
}

#[test]
fn a_server_that_dies_early_is_no_success() {
    let shells = Shells::new();
    let job = job_in(&shells.shell("echo starting; sleep 0.2; exit 9", 0));
    let said = shells.does("wait", &json!({"job": job}));
    assert!(said.contains("starting") && said.contains('9'), "{said}");
    let said = shells.does("shell_status", &json!({"action": "list"}));
    assert!(said.contains(", exit 9, "), "{said}");
    shells.finish();
}

#[test]
fn the_tail_is_the_newest() {
    let shells = Shells::new();
    let job = job_in(&shells.shell("seq 200000; echo all; sleep 1234", 0));
    shells.does("wait", &json!({"job": job, "pattern": "^all$"}));
    let tail = shells.does("shell_status", &json!({"action": "tail", "job": job}));
    assert!(tail.ends_with("\n199999\n200000\nall"), "{tail}");
    assert!(tail.len() < 20_000);
    let output = shells.does("shell_status", &json!({"action": "output", "job": job}));
    assert!(output.starts_with("1\n2\n") && output.contains("out_"), "{}", output.len());
    shells.kill();
}

#[test]
fn a_command_is_written_to() {
    let shells = Shells::new();
    let start = json!({"command": "read a; echo \"got $a\"; cat; echo over", "input": true, "wait_ms": 0});
    let job = job_in(&shells.does("shell", &start));
    shells.does("shell_status", &json!({"action": "input", "job": job, "text": "hello\n"}));
    shells.does("wait", &json!({"job": job, "pattern": "got hello"}));
    shells.does("shell_status", &json!({"action": "input", "job": job, "text": "the rest\n\u{4}"}));
    shells.does("wait", &json!({"job": job}));
    let said = shells.does("shell_status", &json!({"action": "output", "job": job}));
    assert!(said.starts_with("got hello\nthe rest\nover"), "{said}");
    let job = job_in(&shells.shell("sleep 1234", 0));
    let said = shells.call("shell_status", &json!({"action": "input", "job": job, "text": "x\n"}));
    assert!(said.is_error && said.text.contains("`input`: true"), "{}", said.text);
    shells.finish();
}

#[test]
fn nothing_outlives_a_server_that_is_killed() {
    for ended in [Shells::finish, Shells::kill] {
        let shells = Shells::new();
        let mark = mark(&shells.test_ws);
        let tree = format!(
            "export {mark}; (setsid sleep 1234 >/dev/null 2>&1 &); nohup sleep 1234 >/dev/null 2>&1 & \
             (sh -c 'sleep 1234 & sleep 1234' &); sleep 1234 & touch begun; sleep 1234"
        );
        shells.shell(&tree, 0);
        shells.bash(&format!("export {mark}; (setsid sleep 1234 &); sleep 1234 & :"));
        shells.await_file("begun");
        let sleeping = || alive(&shells.test_ws).iter().filter(|it| it.contains("sleep 1234")).count();
        until("they did not start", || sleeping() >= 7);
        ended(shells);
    }
}

#[test]
fn sixteen_commands_at_once_do_not_mix() {
    let shells = Shells::new();
    let calls: Vec<_> = (0..16)
        .map(|it| {
            shells
                .server
                .start_call("shell", &json!({"command": format!("echo {it}; sleep 0.01; echo {it}")}))
        })
        .collect();
    for (number, call) in calls.into_iter().enumerate() {
        let said = call.result().unwrap();
        assert_eq!(said.text, format!("{number}\n{number}"));
    }
    shells.finish();
}

#[test]
fn a_flood_takes_no_memory_and_is_kept_whole() {
    const BYTES: u64 = 120_000_000;
    let shells = Shells::new();
    let said = shells.shell(&format!("yes 123456789 | head -c {BYTES}; echo the end"), 600_000);
    assert!(said.starts_with("123456789\n") && said.ends_with("the end"), "{}", said.len());
    assert!(shells.server.peak_memory() < 100, "{} MiB", shells.server.peak_memory());
    let handle = said.split("all of it: ").nth(1).unwrap();
    let handle: String = handle.chars().take_while(|it| it.is_alphanumeric() || *it == '_').collect();
    let last = shells.does("grep", &json!({"path": handle, "pattern": "the end", "mode": "count"}));
    assert!(last.contains('1'), "{last}");
    shells.finish();
}

#[test]
fn what_a_command_has_written_is_read_from_its_job_while_it_runs() {
    for toolset in ["haft", "terrarium"] {
        let test_ws = TestWorkspace::new();
        let server = test_ws.serve_with(&["--approve", "auto", "--toolset", toolset]);
        let command = "echo ONE; sleep 1234";
        let said = server.does("bash", &json!({"command": command, "run_in_background": true}));
        assert!(said.contains("job_1"), "{said}");
        let read = |argument: &str| server.does("read_job", &json!({argument: "job_1"}));
        let argument = if toolset == "haft" { "job" } else { "job_id" };
        until("no output is shown", || read(argument).contains("ONE"));
        server.does("stop_task", &json!({argument: "job_1"}));
    }
}
