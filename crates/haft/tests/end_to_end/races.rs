//! TOCTOU: symlinks swapped in during a call never lead outside.

use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::json;

use crate::support::{Server, TestWorkspace};

const SECRET: &str = "what-is-outside-stays-outside";

/// Swaps two names, of which `other` is a link at first, as fast as the system can. Who loses a
/// race may replace the link by a file: then there is a new one.
fn swapping<T>(test_ws: &TestWorkspace, one: &str, other: &str, meanwhile: impl FnOnce() -> T) -> T {
    let (over, swaps) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (one, other, spare) = (test_ws.at(one), test_ws.at(other), test_ws.base().join("spare"));
    let target = fs::read_link(&other).unwrap();
    let is_link = |path: &Path| fs::symlink_metadata(path).unwrap().is_symlink();
    thread::scope(|threads| {
        threads.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
                swaps.fetch_add(1, Ordering::Relaxed);
                // Nothing else swaps, so this does not race.
                if !is_link(&one) && !is_link(&other) {
                    symlink(&target, &spare).unwrap();
                    fs::rename(&spare, &other).unwrap();
                }
            }
        });
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(meanwhile));
        over.store(true, Ordering::Relaxed);
        assert!(swaps.load(Ordering::Relaxed) > 1_000, "there was no race");
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Makes calls by the dozen until both ways through the race were seen, and a while longer.
/// Gives how many were done and how many were refused.
fn many(server: &Server, mut call: impl FnMut(usize) -> (&'static str, serde_json::Value)) -> (usize, usize) {
    const A_WHILE: Duration = Duration::from_millis(1500);
    const AT_ONCE: usize = 12;
    let began = Instant::now();
    let (mut done, mut refused, mut number) = (0, 0, 0);
    while began.elapsed() < A_WHILE || (done == 0 || refused == 0) && began.elapsed() < 10 * A_WHILE {
        let calls: Vec<_> = (0..AT_ONCE)
            .map(|_| {
                number += 1;
                let (tool, arguments) = call(number);
                server.start_call(tool, &arguments)
            })
            .collect();
        for call in calls {
            let said = call.result().unwrap();
            assert!(!said.text.contains(SECRET), "it came from outside: {}", said.text);
            *(if said.is_error { &mut refused } else { &mut done }) += 1;
        }
    }
    (done, refused)
}

fn test_ws() -> TestWorkspace {
    let test_ws = TestWorkspace::new();
    fs::write(test_ws.outside().join("data"), format!("{SECRET}\nsecond line\n")).unwrap();
    fs::write(test_ws.outside().join(SECRET), SECRET).unwrap();
    test_ws.put("folder/data", "inside\nsecond line\n");
    test_ws.put("data", "inside\nsecond line\n");
    symlink(test_ws.outside(), test_ws.at("other")).unwrap();
    symlink(test_ws.outside().join("data"), test_ws.at("other_data")).unwrap();
    test_ws
}

/// Runs a race until each side has won it: who is first once, on a busy machine, may be so many times.
fn until_both(mut race: impl FnMut() -> (usize, usize)) -> (usize, usize) {
    let mut seen = (0, 0);
    for _ in 0..50 {
        let (went, refused) = race();
        seen = (seen.0 + went, seen.1 + refused);
        if seen.0 > 0 && seen.1 > 0 {
            break;
        }
    }
    seen
}

#[test]
fn a_folder_that_turns_into_a_link_is_never_read_through() {
    let test_ws = test_ws();
    let before = test_ws.outside_now();
    let server = test_ws.serve();
    let seen = until_both(|| {
        swapping(&test_ws, "folder", "other", || {
            many(&server, |number| match number % 6 {
                0 => ("read", json!({"path": "folder"})),
                1 => ("editor", json!({"command": "view", "path": "folder"})),
                2 => ("editor", json!({"command": "view", "path": "."})),
                3 => ("filegrep", json!({"path": "folder/data", "pattern": "stays"})),
                4 => ("skim", json!({"path": "folder/data", "start": 1})),
                _ => ("read", json!({"path": "folder/data"})),
            })
        })
    });
    assert!(seen.0 > 0 && seen.1 > 0, "both sides of the race: {seen:?}");
    assert_eq!(test_ws.outside_now(), before);
}

#[test]
fn a_folder_that_turns_into_a_link_is_never_written_through() {
    let test_ws = test_ws();
    let before = test_ws.outside_now();
    let server = test_ws.serve();
    let seen = until_both(|| {
        swapping(&test_ws, "folder", "other", || {
            many(&server, |number| match number % 5 {
                0 => ("write", json!({"path": format!("folder/new_{number}"), "content": "x"})),
                1 => ("write", json!({"path": format!("folder/sub_{number}/new"), "content": "x"})),
                2 => (
                    "editor",
                    json!({"command": "create", "path": format!("folder/made_{number}"), "file_text": "x"}),
                ),
                3 => (
                    "json_write",
                    json!({"path": format!("folder/{number}.json"), "pointer": "", "value": 1}),
                ),
                _ => (
                    "edit",
                    json!({"path": "folder/data", "edits": [{"old": "second", "new": "second second"}], "all": false}),
                ),
            })
        })
    });
    assert!(seen.0 > 0 && seen.1 > 0, "both sides of the race: {seen:?}");
    assert_eq!(test_ws.outside_now(), before);
}

#[test]
fn a_file_that_turns_into_a_link_is_neither_read_nor_written_through() {
    let test_ws = test_ws();
    let before = test_ws.outside_now();
    let server = test_ws.serve();
    let seen = until_both(|| {
        swapping(&test_ws, "data", "other_data", || {
            many(&server, |number| match number % 5 {
                0 => ("read", json!({"path": "data"})),
                1 => ("filegrep", json!({"path": "data", "pattern": "stays"})),
                2 => (
                    "editor",
                    json!({"command": "insert", "path": "data", "insert_line": 0, "new_str": "more"}),
                ),
                3 => ("write", json!({"path": "data", "content": "replaced\n", "overwrite": true})),
                _ => (
                    "edit",
                    json!({"path": "data", "edits": [{"insert": "end", "new": format!("line {number}")}]}),
                ),
            })
        })
    });
    assert!(seen.0 > 0 && seen.1 > 0, "both sides of the race: {seen:?}");
    assert_eq!(test_ws.outside_now(), before);
}
