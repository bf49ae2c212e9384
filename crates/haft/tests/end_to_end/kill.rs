//! haft killed in the middle of a call: no half-written file, no open journal entry, no process left.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Command, Stdio},
    sync::mpsc::channel,
    thread,
    time::Duration,
};

use serde_json::{Value, json};

use crate::support::{Server, TestWorkspace};

/// Edits that have to be acknowledged before the test is over.
const EDITS: usize = 1_000;

/// Edits that are sent to one process at once.
const AT_ONCE: usize = 80;

/// Long enough that half of it would be seen.
const LINES: usize = 400;

fn version(number: usize) -> String {
    let body: String =
        (0..LINES).map(|line| format!("line {line} stays as it is, whatever happens\n")).collect();
    format!("head {number}\n{body}tail {number}\n")
}

fn edit(from: usize) -> Value {
    let to = from + 1;
    json!({"path": "file", "edits": [
        {"old": format!("head {from}\n"), "new": format!("head {to}\n")},
        {"old": format!("tail {from}\n"), "new": format!("tail {to}\n")},
    ]})
}

/// Returns the version of the file now. The test requires that it is one of them, whole.
fn now(test_ws: &TestWorkspace) -> usize {
    let text = test_ws.text("file");
    let number = text.lines().next().unwrap().strip_prefix("head ").unwrap().parse().unwrap();
    assert_eq!(text, version(number), "a version that nobody wrote");
    number
}

/// Random enough to hit every step of a call, and the same in every run.
struct Delays(u64);

impl Delays {
    fn next(&mut self) -> Duration {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Duration::from_micros((self.0 >> 33) % 400_000)
    }
}

#[test]
fn a_killed_process_leaves_a_whole_file_and_every_acknowledged_edit() {
    let test_ws = TestWorkspace::new();
    test_ws.put("file", version(0));
    let mut delays = Delays(1);
    let (mut acknowledged, mut lives, mut interrupted) = (0, 0, 0);
    while acknowledged < EDITS {
        lives += 1;
        let from = now(&test_ws);
        let one_life = if lives % 4 == 0 { kill_a_batch } else { kill_a_server };
        let done = one_life(&test_ws, from, delays.next());
        acknowledged += done;
        let at = now(&test_ws);
        assert!(at >= from + done, "version {at} is older than what was acknowledged, {}", from + done);
        assert!(at <= from + AT_ONCE);
        let log = test_ws.log();
        let open: Vec<&Value> = log.iter().filter(|call| call["outcome"].is_null()).collect();
        assert!(open.is_empty(), "calls without a result after reopening: {open:?}");
        interrupted = log.iter().filter(|call| call["outcome"] == "interrupted").count();
        assert_eq!(test_ws.leftovers(""), [""; 0], "after reopening");
    }
    let log = test_ws.log();
    let ok = log.iter().filter(|call| call["outcome"] == "ok").count();
    assert!(ok >= acknowledged, "{ok} of {acknowledged} acknowledged calls are in the log");
    assert!(interrupted >= 3, "only {interrupted} of {lives} kills hit a call");
}

/// Gives how many edits were acknowledged before it died.
fn kill_a_server(test_ws: &TestWorkspace, from: usize, delay: Duration) -> usize {
    let server: Server = test_ws.serve();
    let calls: Vec<_> =
        (from..from + AT_ONCE).map(|number| server.start_call("edit", &edit(number))).collect();
    thread::sleep(delay);
    server.kill();
    // One after the other, so the first without an answer is the end.
    let answers: Vec<_> = calls.into_iter().map_while(crate::support::Pending::result).collect();
    assert!(answers.iter().all(|said| !said.is_error), "{answers:?}");
    answers.len()
}

fn kill_a_batch(test_ws: &TestWorkspace, from: usize, delay: Duration) -> usize {
    let mut command: Command = test_ws.haft(&["call", "--json", "--batch", "-"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    for number in from..from + AT_ONCE {
        let line = json!({"tool": "edit", "arguments": edit(number)});
        input.write_all(format!("{line}\n").as_bytes()).unwrap();
    }
    let output = BufReader::new(child.stdout.take().unwrap());
    let (heard, answers) = channel();
    let reading = thread::spawn(move || {
        // A line that is cut short is not an acknowledgement.
        for answer in output.lines().map_while(|line| serde_json::from_str::<Value>(&line.ok()?).ok()) {
            heard.send(answer["ok"] == true).unwrap();
        }
    });
    let first = answers.recv().unwrap();
    thread::sleep(delay);
    child.kill().unwrap();
    child.wait().unwrap();
    reading.join().unwrap();
    let rest: Vec<bool> = answers.iter().collect();
    assert!(first && rest.iter().all(|ok| *ok));
    rest.len() + 1
}
