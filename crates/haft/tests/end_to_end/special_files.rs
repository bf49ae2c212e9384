//! Pipes, devices, sockets and huge files: calls on them return.

use std::{
    fs::{self, File},
    io::Write as _,
    os::unix::{fs::symlink, net::UnixListener},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

use crate::support::{Server, TestWorkspace};

/// Returns the tools that open a file, with arguments for this path.
fn openings(path: &str) -> [(&'static str, Value); 8] {
    [
        ("read", json!({"path": path})),
        ("read", json!({"path": path, "offset": -1})),
        ("skim", json!({"path": path, "start": 1})),
        ("filegrep", json!({"path": path, "pattern": "needle"})),
        ("editor", json!({"command": "view", "path": path})),
        ("edit", json!({"path": path, "edits": [{"old": "needle", "new": "pin"}]})),
        ("json_read", json!({"path": path})),
        ("write", json!({"path": path, "content": "x", "overwrite": true})),
    ]
}

/// An answer within this is an answer at once, on a machine that is busy with other tests.
const SOON: Duration = Duration::from_secs(10);

fn soon(server: &Server, tool: &str, arguments: &Value) -> crate::support::CallResult {
    let began = Instant::now();
    let said = server.call(tool, arguments);
    assert!(began.elapsed() < SOON, "{tool} {arguments} took {:?}", began.elapsed());
    said
}

#[test]
fn pipes_sockets_devices_and_the_kernels_files_are_named_and_not_opened() {
    let test_ws = TestWorkspace::new();
    mknodat(CWD, test_ws.at("pipe"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let _listening = UnixListener::bind(test_ws.at("socket")).unwrap();
    symlink("/dev/zero", test_ws.at("zero")).unwrap();
    symlink("/proc/self/environ", test_ws.at("environ")).unwrap();
    test_ws.put("plain", "needle\n");
    let mut cases = vec![
        ("pipe", "a named pipe"),
        ("socket", "a socket"),
        ("zero", "outside the workspace"),
        ("environ", "outside the workspace"),
    ];
    // A device of its own takes root. Through a root (below) everybody can name one.
    let device =
        mknodat(CWD, test_ws.at("device"), FileType::CharacterDevice, Mode::from_raw_mode(0o600), 0x105);
    if device.is_ok() {
        cases.push(("device", "a device"));
    }
    let server = test_ws.serve();
    for (path, what) in cases {
        for (tool, arguments) in openings(path) {
            let said = soon(&server, tool, &arguments);
            assert!(said.is_error && said.text.contains(what), "{tool} {arguments}: {}", said.text);
        }
    }
    assert!(server.does("read", &json!({"path": "plain"})).contains("|needle"), "the positive control");

    let server = test_ws.serve_with(&["--root", "/dev:ro", "--root", "/proc:ro"]);
    for (path, what) in [
        ("/dev/zero", "a device"),
        ("/dev/null", "a device"),
        ("/proc/self/environ", "of the kernel's"),
        ("/proc/self/status", "of the kernel's"),
    ] {
        for (tool, arguments) in
            openings(path).into_iter().filter(|(tool, _)| !matches!(*tool, "edit" | "write"))
        {
            let said = soon(&server, tool, &arguments);
            assert!(said.is_error && said.text.contains(what), "{tool} {arguments}: {}", said.text);
        }
    }
}

#[test]
fn a_hard_link_to_a_file_outside_is_refused_and_one_inside_is_not() {
    let test_ws = TestWorkspace::new();
    fs::write(test_ws.outside().join("secret"), "needle outside\n").unwrap();
    fs::hard_link(test_ws.outside().join("secret"), test_ws.at("hard")).unwrap();
    test_ws.put("mine", "needle\n");
    fs::hard_link(test_ws.at("mine"), test_ws.at("also_mine")).unwrap();
    let before = test_ws.outside_now();
    let server = test_ws.serve();
    for (tool, arguments) in openings("hard") {
        let said = server.call(tool, &arguments);
        assert!(said.is_error && said.text.contains("rule `hard_links`"), "{tool}: {}", said.text);
        assert!(!said.text.contains("needle outside"), "{tool}: {}", said.text);
    }
    assert_eq!(test_ws.outside_now(), before);
    assert!(server.does("read", &json!({"path": "also_mine"})).contains("|needle"));
    // Replaced as a file, not through the link: the other name keeps what it had.
    server.does("edit", &json!({"path": "also_mine", "edits": [{"old": "needle", "new": "pin"}]}));
    assert_eq!((test_ws.text("also_mine").as_str(), test_ws.text("mine").as_str()), ("pin\n", "needle\n"));
    // With the folder of the other name among the roots, all its names are known.
    let outside = test_ws.outside();
    let server = test_ws.serve_with(&["--root", outside.to_str().unwrap()]);
    assert!(server.does("read", &json!({"path": "hard"})).contains("|needle outside"));
}

#[test]
fn a_sparse_file_of_eight_gibibytes_is_answered_at_once() {
    let test_ws = TestWorkspace::new();
    for (name, begin) in [("holes", ""), ("begun", "needle in the first line\n")] {
        let mut file = File::create(test_ws.at(name)).unwrap();
        file.write_all(begin.as_bytes()).unwrap();
        file.set_len(8 << 30).unwrap();
    }
    let server = test_ws.serve();
    for (tool, arguments) in openings("holes").into_iter().chain(openings("begun")) {
        let said = soon(&server, tool, &arguments);
        assert!(said.is_error && said.text.contains("8589934592 bytes"), "{tool}: {}", said.text);
    }
    assert!(server.peak_memory() < 256, "{} MiB", server.peak_memory());
}

#[test]
fn a_line_of_two_hundred_megabytes_is_shown_in_pieces() {
    const LONG: usize = 200 << 20;
    let test_ws = TestWorkspace::new();
    let mut file = File::create(test_ws.at("long")).unwrap();
    file.write_all(b"needle first\n").unwrap();
    for _ in 0..LONG / (1 << 20) {
        file.write_all(&[b'x'; 1 << 20]).unwrap();
    }
    file.write_all(b"\nlast line\n").unwrap();
    drop(file);
    let server = test_ws.serve();
    let said = soon(&server, "read", &json!({"path": "long"}));
    assert!(!said.is_error && said.text.len() < 8_000, "{} bytes", said.text.len());
    assert!(
        said.text.contains("|needle first") && said.text.contains("[line 2 goes on: offset 2, column "),
        "{}",
        said.text
    );
    let said = soon(&server, "read", &json!({"path": "long", "offset": -1}));
    assert!(said.text.contains("3:") && said.text.contains("|last line"), "{}", said.text);
    let said = soon(&server, "read", &json!({"path": "long", "offset": 2, "column": LONG - 9}));
    assert!(
        said.text.starts_with("xxxxxxxxxx\n") && said.text.contains(&format!("of {LONG}]")),
        "{}",
        said.text
    );
    assert!(server.peak_memory() < 256, "`read` never loads it: {} MiB", server.peak_memory());
}

#[test]
fn what_was_seen_of_a_large_file_is_no_burden_for_the_next_process() {
    const MOST: u64 = 1 << 20;
    let test_ws = TestWorkspace::new();
    for name in ["a", "b", "c", "d", "e", "f"] {
        test_ws.put(name, format!("{}\n", "x".repeat(99)).repeat(30_000));
        test_ws.call("skim", &json!({"path": name, "start": 7, "end": 9})).must("ok");
    }
    test_ws.put("small", "one\n");
    let kept =
        || -> u64 { below(&test_ws.state()).iter().map(|path| fs::metadata(path).unwrap().len()).sum() };
    let before = kept();
    test_ws.call("read", &json!({"path": "small"})).must("ok");
    let written = kept().saturating_sub(before);
    assert!(written < MOST, "a call on a small file wrote {written} bytes");
    // The earlier read is remembered all the same.
    test_ws.put("f", format!("new\n{}", test_ws.text("f")));
    let edit = json!({"path": "f", "edits": [{"anchor": "8:00", "new": "y"}]});
    let shown = test_ws.call("edit", &edit).must("stale").text();
    assert!(shown.contains("line 8 was shown as"), "{shown}");
}

fn below(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir)
        .unwrap()
        .flat_map(|entry| {
            let path = entry.unwrap().path();
            if path.is_dir() { below(&path) } else { vec![path] }
        })
        .collect()
}

#[test]
fn a_folder_of_fifty_thousand_entries_is_listed_in_part_and_counted() {
    let test_ws = TestWorkspace::new();
    for number in 0..50_000 {
        File::create(test_ws.at(&format!("entry_{number:05}"))).unwrap();
    }
    let server = test_ws.serve();
    let said = soon(&server, "read", &json!({"path": "."}));
    assert!(
        said.text.contains("a folder with 50000 entries") && said.text.contains("[49800 more;"),
        "{}",
        said.text
    );
    let said = soon(&server, "editor", &json!({"command": "view", "path": "."}));
    assert!(!said.is_error && said.text.contains("[49500 more]"), "{}", said.text);
    let said = soon(&server, "read", &json!({"path": "entry_50001"}));
    assert!(said.is_error && said.text.contains("Did you mean `entry_"), "{}", said.text);
    assert!(server.peak_memory() < 256, "{} MiB", server.peak_memory());
}

#[test]
fn seven_hundred_levels_are_no_deeper_than_one() {
    let test_ws = TestWorkspace::new();
    let deep = vec!["d"; 700].join("/");
    test_ws.put(&format!("{deep}/file"), "needle\n");
    let server = test_ws.serve();
    let path = format!("{deep}/file");
    assert!(soon(&server, "read", &json!({"path": path})).text.contains("|needle"));
    assert!(
        !soon(&server, "edit", &json!({"path": path, "edits": [{"old": "needle", "new": "pin"}]})).is_error
    );
    let new = format!("{deep}/{}/new", vec!["e"; 300].join("/"));
    assert!(!soon(&server, "write", &json!({"path": new, "content": "made\n"})).is_error);
    assert!(soon(&server, "read", &json!({"path": deep})).text.contains("file"));
    assert!(!soon(&server, "editor", &json!({"command": "view", "path": "."})).is_error);
    assert_eq!((test_ws.text(&path).as_str(), test_ws.text(&new).as_str()), ("pin\n", "made\n"));
    // A link to outside, all the way down.
    symlink(test_ws.outside(), test_ws.at(&format!("{deep}/out"))).unwrap();
    let said = soon(&server, "write", &json!({"path": format!("{deep}/out/new"), "content": "x"}));
    assert!(said.is_error && said.text.contains("outside the workspace"), "{}", said.text);
}
