//! The end of a session before its time: cancelled by its sender, or lost with its worker.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::{Running, Worker, becomes, processes, says, script, shell, until, workspace, workspaces};

/// Starts a session with a command that does not end; returns once it runs.
fn begun(test_ws: &crate::support::TestWorkspace, seconds: &str) -> Running {
    let model = script(
        test_ws,
        "model.jsonl",
        &[shell(&format!("echo x > made.txt; sleep {seconds}")), says("Done.")],
    );
    let running = Running::start(test_ws, &["run", "--json", "--on", "any", "--model", &model, "wait"]);
    until(&running.out, "\"event\":\"called\"");
    becomes("the command runs", || !processes(&format!("sleep {seconds}")).is_empty());
    running
}

#[test]
fn cancelled_session_ends_with_all_its_processes_and_changes_nothing() {
    let test_ws = workspace();
    let worker = Worker::start(&test_ws, &[]);
    let running = begun(&test_ws, "98765.25");
    let began = Instant::now();
    running.signal(Signal::INT);
    becomes("its processes are gone", || processes("sleep 98765.25").is_empty());
    // 200 ms where the machine is quiet.
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    let ran = running.ended();
    assert_eq!(ran.code, 130, "{ran:?}");
    assert!(ran.out.lines().last().unwrap().contains("\"ended\":\"cancelled\""), "{ran:?}");
    assert!(!test_ws.at("made.txt").exists());
    worker.until("cancelled");
    becomes("the folder of the work is removed", || workspaces(&test_ws).is_empty());
}

#[test]
fn session_of_a_killed_worker_dies_with_it_and_is_reported_as_interrupted() {
    let test_ws = workspace();
    let worker = Worker::start(&test_ws, &[]);
    let running = begun(&test_ws, "98765.5");
    worker.signal(Signal::KILL);
    becomes("its processes are gone", || processes("sleep 98765.5").is_empty());
    becomes("its agent is gone", || processes("--of-worker=").iter().all(|it| !is_of(&test_ws, *it)));
    let ran = running.ended();
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("it may have happened, wholly or in part"), "{ran:?}");
    assert!(!test_ws.at("made.txt").exists());
}

/// Returns whether this process is one of this workspace's worker.
fn is_of(test_ws: &crate::support::TestWorkspace, process: i32) -> bool {
    let line = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).contains(&*test_ws.state().to_string_lossy())
}

#[test]
fn worker_that_is_stopped_interrupts_its_sessions() {
    let test_ws = workspace();
    let mut worker = Worker::start(&test_ws, &[]);
    let running = begun(&test_ws, "98765.75");
    worker.signal(Signal::TERM);
    worker.until("draining: 1 running");
    worker.signal(Signal::TERM);
    assert_eq!(worker.ended(), Some(0));
    assert!(processes("sleep 98765.75").is_empty());
    let ran = running.ended();
    assert!(ran.code == 1 && ran.err.contains("it may have happened"), "{ran:?}");
    assert!(workspaces(&test_ws).is_empty());
}
