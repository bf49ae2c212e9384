//! `haft agents up`: runs sessions with triggers and messages, also after a kill.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::{call, good, script, until};
use crate::support::TestWorkspace;

/// A daemon, killed when it is dropped.
struct Daemon(Child);

impl Daemon {
    /// Starts it, and waits until it runs this session.
    fn start(test_ws: &TestWorkspace, model: &str, session: &str) -> Self {
        let mut command = test_ws.haft(&["agents", "up", "--model", model]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let wanted = format!("haft: session {session}");
        let found = lines.find(|it| it.as_ref().is_ok_and(|it| *it == wanted));
        assert!(found.is_some(), "it ended before it ran {session}");
        // The rest is read, so that it can write it.
        std::thread::spawn(move || lines.for_each(drop));
        Self(child)
    }

    fn stop(mut self) {
        kill_process(Pid::from_child(&self.0), Signal::TERM).unwrap();
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn configured_triggers_fire_in_their_session_and_come_back_after_a_kill() {
    let test_ws = TestWorkspace::new();
    std::fs::create_dir_all(test_ws.config()).unwrap();
    std::fs::write(
        test_ws.config().join("haft.toml"),
        "[[trigger]]\nname = \"sources\"\nglob = [\"src/*.txt\"]\ndebounce_ms = 50\nprompt = \"look\"\n",
    )
    .unwrap();
    test_ws.put("src/a.txt", "");
    let model = script(
        &test_ws,
        &[
            json!({"expect": ["look", "- src/b.txt"], "say": "first"}),
            json!({"expect": ["look", "- src/c.txt"], "say": "second"}),
        ],
    );
    let daemon = Daemon::start(&test_ws, &model, "triggers");
    until(&test_ws, &["triggers"], "sources  armed  changes of src/*.txt");
    // Its files are watched a moment after it is armed.
    let history = ["triggers", "history", "sources"];
    let began = std::time::Instant::now();
    while !test_ws.run(&history).out.contains("  ended  fire 1  first") {
        assert!(began.elapsed() < crate::support::TIMEOUT, "{:?}", test_ws.run(&history));
        test_ws.put("src/b.txt", format!("{:?}", began.elapsed()));
        std::thread::sleep(std::time::Duration::from_millis(300));
        if test_ws.run(&history).out.contains("fired") {
            until(&test_ws, &history, "  ended  fire 1  first");
        }
    }
    let status = good(test_ws.run(&["agents", "status"])).out;
    assert!(status.contains("triggers  process ") && status.contains("1 trigger armed"), "{status}");
    // `kill -9`, as its drop does.
    drop(daemon);
    until(&test_ws, &["agents", "status"], "triggers  not running");
    let daemon = Daemon::start(&test_ws, &model, "triggers");
    daemon.stop();
}

#[test]
fn a_fire_of_another_process_wakes_the_daemon() {
    let test_ws = TestWorkspace::new();
    let model = script(
        &test_ws,
        &[
            call("add_timer", json!({"interval": 5000, "prompt": "now", "name": "t"})),
            json!({"say": "armed"}),
            json!({"expect": ["now"], "say": "done by the daemon"}),
        ],
    );
    good(test_ws.run(&["--approve", "auto", "--session", "s", "run", "--model", &model, "go"]));
    let daemon = Daemon::start(&test_ws, &model, "s");
    good(test_ws.run(&["triggers", "fire", "t"]));
    until(&test_ws, &["triggers", "history", "t"], "  ended  fire 1  done by the daemon");
    daemon.stop();
}
