//! A sample of the session service under load, with a fixed seed: nothing is lost or repeated.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// A sample takes about half a minute; a machine that is busy needs more.
const MOST: Duration = Duration::from_secs(120);

#[test]
fn sample_of_the_load_loses_and_repeats_nothing() {
    let began = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_sessions_load"))
        .args(["--sample", "--seed", "20261124"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    let (ended, end) = std::sync::mpsc::channel::<()>();
    // Whatever goes on after two minutes is ended, and fails.
    let watches = std::thread::spawn(move || {
        let is_late = end.recv_timeout(MOST).is_err();
        if is_late {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        is_late
    });
    let (mut out, mut err) = (String::new(), String::new());
    let mut errors = child.stderr.take().unwrap();
    let reads = std::thread::spawn(move || std::io::Read::read_to_string(&mut errors, &mut err).map(|_| err));
    std::io::Read::read_to_string(&mut child.stdout.take().unwrap(), &mut out).unwrap();
    let status = child.wait().unwrap();
    let _ = ended.send(());
    let is_late = watches.join().unwrap();
    let err = reads.join().unwrap().unwrap();
    assert!(!is_late && status.success(), "after {:?}: {status}\n{out}\n{err}", began.elapsed());
    for row in [
        "memory of an idle session",
        "event to watcher, in process | p50",
        "event to watcher, another process | p50",
        "watchers, in process | p50",
        "events and read all, taking over",
        "events and read all, beside the owner",
        "cuts: 0 losses, 0 repeats",
        "20 kills: 0 losses, 0 repeats",
    ] {
        assert!(out.contains(row), "{row:?} in {out}");
    }
}
