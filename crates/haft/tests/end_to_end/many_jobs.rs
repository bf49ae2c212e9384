//! Thousands of background jobs: one open file each, quiet ones answer, and none outlives haft.

use std::{
    fs,
    process::Command,
    time::{Duration, Instant},
};

use serde_json::json;

use crate::support::{Server, TestWorkspace};

/// Starts a server that may have so many files open.
fn serve_with_files(test_ws: &TestWorkspace, files: u32) -> Server {
    let haft = test_ws.haft(&["mcp"]);
    let mut limited = Command::new("/bin/sh");
    let script = format!("ulimit -n {files} && exec \"$@\"");
    limited.args(["-c", &script, "sh"]).arg(haft.get_program()).args(haft.get_args());
    limited.env_clear().envs(haft.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Server::spawn(limited.current_dir(haft.get_current_dir().unwrap())).greeted()
}

fn open_files(server: &Server) -> usize {
    fs::read_dir(format!("/proc/{}/fd", server.process())).unwrap().count()
}

/// Returns the number of processes with this command line.
fn running(command: &str) -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let is_it = |line: Vec<u8>| String::from_utf8_lossy(&line).replace('\0', " ").trim() == command;
    processes.filter(|it| fs::read(it.path().join("cmdline")).is_ok_and(is_it)).count()
}

#[track_caller]
fn until(within: Duration, otherwise: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < within, "{otherwise}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A running command has four files open, and until its start is over twice as many: a burst of starts took the files of
/// jobs that were accepted before, and of the records of their changes.
#[test]
fn a_burst_of_jobs_needs_one_open_file_for_each_and_starts_every_job_that_was_accepted() {
    let test_ws = TestWorkspace::new();
    let server = serve_with_files(&test_ws, 4096);
    let sleep = json!({"command": "echo begun; exec sleep 1000", "run_in_background": true});
    let burst: Vec<_> = (0..2000).map(|_| server.start_call("shell", &sleep)).collect();
    let answers: Vec<_> = burst.into_iter().map(|it| it.result().unwrap()).collect();
    let refused: Vec<_> = answers.iter().filter(|it| it.is_error).collect();
    assert!(refused.is_empty(), "{} refused: {:?}", refused.len(), refused.first().map(|it| &it.text));
    let mut texts: Vec<_> = answers.into_iter().map(|it| it.text).collect();
    texts.push(server.does("wait", &json!({"job": "job_2000", "pattern": "begun"})));
    texts.push(server.does("jobs", &json!({})));
    let failed: Vec<_> = texts.iter().filter(|it| it.contains("open files")).collect();
    assert!(failed.is_empty(), "{failed:?}");
    let (status, errors) = server.finish();
    assert!(status.success() && !errors.contains("open files"), "{errors}");
}

#[test]
fn a_job_that_was_quiet_beside_many_gets_its_input_and_its_output_end_and_changes_arrive() {
    let test_ws = TestWorkspace::new();
    test_ws.put("file", "old\n");
    let server = serve_with_files(&test_ws, 1024);
    let before = open_files(&server);
    let command = "echo begun; read a; echo \"got $a\"; echo new > file; read b; echo \"and $b\"; exit 7";
    server.does("shell", &json!({"command": command, "input": true, "wait_ms": 0}));
    server.does("wait", &json!({"job": "job_1", "pattern": "begun"}));
    for _ in 0..200 {
        server.does("shell", &json!({"command": "sleep 1000", "run_in_background": true}));
    }
    // Of at most 42 commands haft has all four files, of the others one.
    let most = before + 201 + 42 * 3 + 40;
    until(Duration::from_secs(20), "files stay open", || open_files(&server) < most);
    let write = |text: &str| {
        server.does("shell_status", &json!({"action": "input", "job": "job_1", "text": text}));
    };
    write("hello\n");
    server.does("wait", &json!({"job": "job_1", "pattern": "got hello"}));
    for _ in 0..60 {
        server.does("shell", &json!({"command": "true"}));
    }
    write("goodbye\n");
    let ended = server.does("wait", &json!({"job": "job_1"}));
    assert!(ended.contains("and goodbye") && ended.contains('7'), "{ended}");
    assert_eq!(test_ws.text("file"), "new\n");
    assert!(server.finish().0.success());
    let undone = test_ws.run(&["undo"]);
    assert!(undone.code == 0 && test_ws.text("file") == "old\n", "{}", undone.out);
}

#[test]
fn a_thousand_jobs_end_with_a_server_that_is_killed() {
    let test_ws = TestWorkspace::new();
    let server = test_ws.serve();
    let burst: Vec<_> = (0..1000)
        .map(|_| server.start_call("shell", &json!({"command": "sleep 12345.5", "run_in_background": true})))
        .collect();
    for call in burst {
        assert!(!call.result().unwrap().is_error);
    }
    until(Duration::from_secs(60), "they did not start", || running("sleep 12345.5") == 1000);
    server.kill();
    until(Duration::from_secs(10), "they outlive haft", || running("sleep 12345.5") == 0);
}

/// Ending a command stopped all processes of the session for a moment.
#[test]
fn a_job_among_a_thousand_is_stopped_as_fast_as_one_alone() {
    let test_ws = TestWorkspace::new();
    let server = test_ws.serve();
    let burst: Vec<_> = (0..1000)
        .map(|_| server.start_call("shell", &json!({"command": "sleep 12346.5", "run_in_background": true})))
        .collect();
    for call in burst {
        assert!(!call.result().unwrap().is_error);
    }
    until(Duration::from_secs(60), "they did not start", || running("sleep 12346.5") == 1000);
    let began = Instant::now();
    for job in 1..=20 {
        server.does("stop_task", &json!({"job": format!("job_{job}")}));
    }
    let took = began.elapsed();
    assert!(took < Duration::from_secs(8), "20 jobs took {took:?} to stop");
    until(Duration::from_secs(10), "20 are not stopped", || running("sleep 12346.5") == 980);
    server.kill();
}
