//! Folders of workers below the state folder.

use rustix::process::Signal;

use super::{Running, Worker, becomes, says, script, shell, until, workspace, workspaces};

#[test]
fn folders_that_a_killed_worker_left_are_swept_by_the_next_one() {
    let test_ws = workspace();
    let model = script(&test_ws, "model.jsonl", &[shell("sleep 98764"), says("Done.")]);
    let worker = Worker::start(&test_ws, &[]);
    let running = Running::start(&test_ws, &["run", "--json", "--on", "any", "--model", &model, "go"]);
    until(&running.out, "\"event\":\"called\"");
    worker.signal(Signal::KILL);
    drop(worker);
    assert_eq!(running.ended().code, 1);
    let left = workspaces(&test_ws);
    assert_eq!(left.len(), 1, "{left:?}");
    let next = Worker::start(&test_ws, &[]);
    becomes("the old folder is gone", || !left[0].exists());
    drop(next);
}
