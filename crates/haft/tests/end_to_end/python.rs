//! The `python` tool: a fresh interpreter for each call, which leaves nothing behind.

use std::{fs, thread, time::Instant};

use serde_json::json;

use crate::support::{CallResult, Server, TIMEOUT, TestWorkspace};

fn serve(test_ws: &TestWorkspace) -> Server {
    test_ws.serve_with(&["--approve", "auto"])
}

fn python(server: &Server, code: &str) -> CallResult {
    server.call("python", &json!({"code": code}))
}

/// Returns the text that the model reads after this code ended, successfully or not.
#[track_caller]
fn says(code: &str) -> String {
    let test_ws = TestWorkspace::new();
    let server = serve(&test_ws);
    let said = python(&server, code);
    assert!(!said.is_error, "{}", said.text);
    said.text
}

/// Returns the processes that have `mark` in their environment, their name or their command line.
fn marked(mark: &str) -> Vec<String> {
    let all = fs::read_dir("/proc").unwrap().filter_map(|it| it.unwrap().file_name().into_string().ok());
    all.filter(|it| it.parse::<u32>().is_ok())
        .filter(|pid| {
            ["environ", "comm", "cmdline"].iter().any(|file| {
                let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
                bytes.windows(mark.len()).any(|it| it == mark.as_bytes())
            })
        })
        .map(|pid| format!("{pid} {}", fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default()))
        .collect()
}

/// Waits until no process has the mark.
#[track_caller]
fn none_left(mark: &str) {
    let began = Instant::now();
    loop {
        let left = marked(mark);
        if left.is_empty() {
            return;
        }
        assert!(began.elapsed() < TIMEOUT, "{left:#?}");
        thread::yield_now();
    }
}

/// Returns the id and the start time of every descendant of this process.
fn below(top: u32) -> Vec<(u32, String)> {
    let mut found = vec![(top, started(top).unwrap())];
    let mut at = 0;
    while let Some(&(pid, _)) = found.get(at) {
        at += 1;
        for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten() {
            let children = fs::read_to_string(task.unwrap().path().join("children")).unwrap_or_default();
            for child in children.split_whitespace().map(|it| it.parse().unwrap()) {
                found.extend(started(child).map(|it| (child, it)));
            }
        }
    }
    found
}

/// When a process was started; none if it is no more, or is only waited for.
fn started(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    (fields[0] != "Z").then(|| fields[19].to_owned())
}

#[track_caller]
fn all_end(processes: &[(u32, String)]) {
    let began = Instant::now();
    while let Some(alive) = processes.iter().find(|(pid, when)| started(*pid).as_ref() == Some(when)) {
        let command = fs::read_to_string(format!("/proc/{}/cmdline", alive.0));
        assert!(began.elapsed() < TIMEOUT, "{alive:?} {command:?}");
        thread::yield_now();
    }
}

/// Code that leaves a child, a `setsid` daemon and a double fork behind, all marked.
fn leaves_behind(mark: &str) -> String {
    format!(
        "\
import ctypes, os, subprocess, time
ctypes.CDLL(None).prctl(15, b'{mark}')
subprocess.Popen(['sleep', '300'], env={{'MARK': '{mark}'}})
subprocess.Popen(['setsid', 'nohup', 'sleep', '300'], env={{'MARK': '{mark}', 'PATH': '/usr/bin:/bin'}})
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(300)
    os._exit(0)
os.wait()
time.sleep(0.2)
print('all there')
"
    )
}

#[test]
fn the_value_of_the_last_expression_is_shown() {
    kit::needs!(Python);
    assert_eq!(says("1+1"), "2");
    assert_eq!(says("x = 'a'\nx"), "'a'");
    assert_eq!(says("print('a')\nNone"), "a");
    assert_eq!(says("x = 1"), "(no output)");
    assert_eq!(says(""), "(no output)");
    assert_eq!(
        says("from __future__ import annotations\ndef f(x: nope): pass\nf.__annotations__"),
        "{'x': 'nope'}"
    );
}

#[test]
fn output_and_errors_come_in_the_order_in_which_they_were_written() {
    kit::needs!(Python);
    let code = "\
import os, subprocess, sys
print('1', end='')
sys.stderr.write('2')
os.write(1, b'3')
subprocess.run(['sh', '-c', 'printf 4; printf 5 >&2'])
print('6')";
    assert_eq!(says(code), "123456");
}

#[test]
fn nothing_is_left_of_the_call_before() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    let server = serve(&test_ws);
    python(
        &server,
        "x = 1; import json, os; os.environ['A'] = '1'; json.x = 1; __builtins__.y = 1; os.chdir('/')",
    );
    let code = "import sys, os; print('x' in globals(), 'json' in sys.modules, 'A' in os.environ, hasattr(__builtins__, 'y'), os.getcwd())";
    let here = test_ws.at("").display().to_string();
    assert_eq!(python(&server, code).text, format!("False False False False {}", here.trim_end_matches('/')));
}

#[test]
fn code_finds_the_names_and_paths_of_a_fresh_interpreter() {
    kit::needs!(Python);
    // The interpreter has done the work of a call once before the call came, and that leaves no trace.
    let code = "\
import builtins, sys
names = sorted(it for it in globals() if it not in ('builtins', 'sys', '__annotations__'))
print(sys.argv, sys.orig_argv[1:], sys.path.index(''), sys.path.count(''), hasattr(builtins, '_'), sys.stdin.name)
print(names, sys.modules['__main__'].__dict__ is globals(), sys.exc_info()[0])";
    assert_eq!(
        says(code),
        "['-c'] ['-c'] 0 1 False <stdin>\n\
         ['__builtins__', '__doc__', '__loader__', '__name__', '__package__', '__spec__'] True None"
    );
}

#[test]
fn code_reaches_neither_its_keeper_nor_the_next_call() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    let server = serve(&test_ws);
    python(&server, "1");
    // Limits of the processes around it, by which they would lose sight of what it leaves behind.
    let code = "\
import os, resource, signal, subprocess
def tried(what):
    try: what(); return 'done'
    except OSError as error: return type(error).__name__
keeper = os.getppid()
print(tried(lambda: resource.prlimit(keeper, resource.RLIMIT_NOFILE, (3, 3))))
print(tried(lambda: os.kill(keeper, signal.SIGSTOP)), tried(lambda: os.open(f'/proc/{keeper}/fd/1', os.O_RDONLY)))
child = subprocess.Popen(['sleep', '100'])
print(tried(child.kill), child.wait())";
    let said = python(&server, code).text;
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!((lines[0], lines[2]), ("PermissionError", "done -9"), "{said}");
    // The kernel keeps signals within a domain from 6.12 on.
    if kernel_is_at_least(6, 12) {
        assert_eq!(lines[1], "PermissionError PermissionError", "{said}");
    }
    assert_eq!(python(&server, "2").text, "2");
}

fn kernel_is_at_least(major: u32, minor: u32) -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map(|it| it.parse().unwrap_or(0));
    (numbers.next().unwrap(), numbers.next().unwrap()) >= (major, minor)
}

#[test]
fn an_exception_shows_its_lines_and_none_of_ours() {
    kit::needs!(Python);
    assert_eq!(
        says("def f():\n    raise ValueError('no')\n\nf()"),
        "Traceback (most recent call last):\n  File \"<code>\", line 4, in <module>\n    f()\n  File \"<code>\", line 2, in f\n    raise ValueError('no')\nValueError: no\n[exit 1]"
    );
    let said = says("x = (\n");
    assert!(said.contains("File \"<code>\", line 1") && said.contains("SyntaxError"), "{said}");
    let said = says("def f(): f()\nf()");
    assert!(said.contains("RecursionError") && said.ends_with("[exit 1]"), "{said}");
}

#[test]
fn it_exits_as_it_says() {
    kit::needs!(Python);
    assert_eq!(says("import sys; sys.exit(3)"), "(no output)\n[exit 3]");
    assert_eq!(says("raise SystemExit"), "(no output)");
    assert_eq!(says("raise SystemExit('bye')"), "bye\n[exit 1]");
    assert_eq!(says("import os; print('a', end=''); os._exit(7)"), "a\n[exit 7]");
    assert_eq!(says("import ctypes; ctypes.string_at(0)"), "(no output)\n[exit 139: ended by SIGSEGV]");
    let said = says("raise KeyboardInterrupt");
    assert!(said.ends_with("KeyboardInterrupt\n[exit 130: ended by SIGINT]"), "{said}");
}

#[test]
fn an_end_is_orderly() {
    kit::needs!(Python);
    let code = "\
import atexit, threading, time
class Last:
    def __del__(self): print('gone')
last = Last()
atexit.register(print, 'at exit')
ended = threading.Event()
def work():
    ended.wait()
    time.sleep(0.05)
    print('thread')
threading.Thread(target=work).start()
open('left_open', 'w').write('whole')
file = open('kept_open', 'w')
file.write('whole')
print('end')
ended.set()";
    let test_ws = TestWorkspace::new();
    let server = serve(&test_ws);
    assert_eq!(python(&server, code).text, "end\nthread\nat exit\ngone");
    assert_eq!(
        (test_ws.text("left_open"), test_ws.text("kept_open")),
        ("whole".to_owned(), "whole".to_owned())
    );
}

#[test]
fn an_endless_loop_is_ended_and_says_where_it_was() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    let server = serve(&test_ws);
    let said = server
        .call("python", &json!({"code": "print('begun', end='')\nwhile True:\n    pass", "timeout_s": 1}));
    assert!(said.is_error, "{}", said.text);
    assert!(said.text.contains("ended after 1 s"), "{}", said.text);
    assert!(said.text.contains("begunTraceback") && said.text.contains("KeyboardInterrupt"), "{}", said.text);
    let stubborn = "import signal, time\nsignal.signal(signal.SIGINT, lambda *_: print('no', flush=True))\nwhile True: time.sleep(1)";
    let said = server.call("python", &json!({"code": stubborn, "timeout_s": 1}));
    assert!(said.is_error && said.text.ends_with("no"), "{}", said.text);
    assert_eq!(python(&server, "1+1").text, "2");
}

#[test]
fn what_code_leaves_behind_ends_with_it() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    let server = serve(&test_ws);
    let said = python(&server, &leaves_behind("hfpyleft"));
    assert_eq!(said.text, "all there\n[3 processes that it left running were ended]");
    assert_eq!(marked("hfpyleft"), [""; 0]);
}

#[test]
fn what_code_started_ends_when_its_time_is_up() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    let server = serve(&test_ws);
    let code = leaves_behind("hfpytime") + "time.sleep(300)";
    let said = server.call("python", &json!({"code": code, "timeout_s": 2}));
    assert!(said.is_error && said.text.contains("all there"), "{}", said.text);
    assert_eq!(marked("hfpytime"), [""; 0]);
}

#[test]
fn a_call_that_is_cancelled_ends_with_all_it_started() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    let server = serve(&test_ws);
    let code = leaves_behind("hfpystop") + "open('ready', 'w').close()\ntime.sleep(300)";
    let call = server.start_call("python", &json!({"code": code}));
    let began = Instant::now();
    while !test_ws.at("ready").exists() {
        assert!(began.elapsed() < TIMEOUT);
        thread::yield_now();
    }
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": call.id()}});
    server.send(&cancel.to_string());
    none_left("hfpystop");
    assert_eq!(python(&server, "1+1").text, "2");
}

#[test]
fn threads_processes_and_loops_of_the_library_work() {
    kit::needs!(Python);
    let pool = "\
import multiprocessing as m
def f(x): return x * x
if __name__ == '__main__':
    with m.get_context('fork').Pool(2) as pool: print(pool.map(f, range(4)))";
    assert_eq!(says(pool), "[0, 1, 4, 9]");
    let spawn = "import multiprocessing as m, math\nwith m.get_context('spawn').Pool(2) as pool: print(pool.map(math.sqrt, [4, 9]))";
    assert_eq!(says(spawn), "[2.0, 3.0]");
    assert_eq!(
        says("import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    return 5\nasyncio.run(f())"),
        "5"
    );
    assert_eq!(
        says(
            "from concurrent.futures import ThreadPoolExecutor as T\nwith T() as t: print(sum(t.map(abs, [-1, -2])))"
        ),
        "3"
    );
}

#[test]
fn input_is_what_was_given_or_nothing() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    let server = serve(&test_ws);
    let said = python(&server, "input()");
    assert!(said.text.ends_with("EOFError: EOF when reading a line\n[exit 1]"), "{}", said.text);
    let text = "é\n".repeat(100_000);
    let call =
        |code: &str| server.does("python", &json!({"code": code, "stdin": text, "args": ["-v", "a b"]}));
    assert_eq!(call("import sys; print(len(sys.stdin.read()), sys.argv)"), "200000 ['-c', '-v', 'a b']");
    // A program that does not read its input does not block.
    assert_eq!(call("input()"), "'é'");
}

#[test]
fn a_long_output_is_kept_whole_and_costs_no_memory() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    let server = serve(&test_ws);
    let code = "import sys\nline = b'x' * 99 + b'\\n'\nfor _ in range(1000): sys.stdout.buffer.write(line * 1000)\nprint('the end')";
    let said = server.does("python", &json!({"code": code, "timeout_s": 120}));
    assert!(
        said.contains("the end") && said.len() < 100_000,
        "{} bytes: {}",
        said.len(),
        &said[said.len() - 300..]
    );
    let handle = said.split_whitespace().find(|it| it.starts_with("out_")).unwrap();
    let handle: String = handle.chars().take_while(|it| it.is_alphanumeric() || *it == '_').collect();
    let end = server.does("read", &json!({"path": handle, "offset": 1_000_001}));
    assert!(end.contains("the end"), "{end}");
    assert!(server.peak_memory() < 100, "{} MiB", server.peak_memory());
}

#[test]
fn bytes_that_are_no_text_are_shown_as_such() {
    kit::needs!(Python);
    let said = says("import sys\nsys.stdout.buffer.write(b'a\\xff\\xfeb\\n')\nprint('é€')");
    assert_eq!(said, "a\u{fffd}\u{fffd}b\né€");
}

#[test]
fn long_code_is_taken() {
    kit::needs!(Python);
    assert_eq!(says(&format!("x = '{}'\nlen(x)", "y".repeat(300_000))), "300000");
}

#[test]
fn a_killed_keeper_is_reported_and_the_next_call_works() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    let server = serve(&test_ws);
    let code =
        |name: &str| format!("import ctypes, time\nctypes.CDLL(None).prctl(15, b'{name}')\ntime.sleep(300)");
    let said = thread::scope(|scope| {
        scope.spawn(|| kill_above("hfpyorph", 1));
        python(&server, &code("hfpyorph"))
    });
    assert!(
        said.text.contains("[exit unknown: the process that watches the code was killed"),
        "{}",
        said.text
    );
    assert_eq!(python(&server, "1+1").text, "2");
    none_left("hfpyorph");
    // Its grandparent is what is kept warm.
    thread::scope(|scope| {
        scope.spawn(|| kill_above("hfpyorp2", 2));
        python(&server, &code("hfpyorp2"));
    });
    assert_eq!(python(&server, "1+1").text, "2");
    none_left("hfpyorp2");
}

/// Waits for a process of this name, and kills the one so many steps above it.
fn kill_above(name: &str, steps: usize) {
    let named = || {
        let all = fs::read_dir("/proc").unwrap().flatten();
        let mut all = all.filter_map(|it| it.file_name().into_string().ok());
        all.find(|it| fs::read_to_string(format!("/proc/{it}/comm")).is_ok_and(|comm| comm.trim() == name))
    };
    let mut pid = loop {
        if let Some(pid) = named() {
            break pid;
        }
        thread::yield_now();
    };
    for _ in 0..steps {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let parent = status.lines().find_map(|it| it.strip_prefix("PPid:")).unwrap();
        pid = parent.trim().to_owned();
    }
    let pid = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn code_finds_only_its_own_descriptors_and_may_close_them() {
    kit::needs!(Python);
    assert_eq!(
        says("import os\nsorted(os.listdir('/proc/self/fd'))"),
        "['0', '1', '2', '3']",
        "3 is that of the list"
    );
    assert_eq!(says("import os\nprint('a')\nos.closerange(0, 1000)\nos._exit(0)"), "a");
}

#[test]
fn chance_differs_from_call_to_call() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    let server = serve(&test_ws);
    let code = "import random, uuid, os; print(random.random(), uuid.uuid4(), os.urandom(8))";
    let said: Vec<String> = (0..3).map(|_| python(&server, code).text).collect();
    assert!(said[0] != said[1] && said[1] != said[2] && said[0] != said[2], "{said:?}");
}

#[test]
fn files_of_the_folder_are_found_first() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    test_ws.put("sub/token.py", "NAME = 'ours'\n");
    test_ws.put("sub/helper.py", "class A:\n    def __del__(self): print('helper gone')\nA.one = A()\n");
    let server = serve(&test_ws);
    let code = "import token, helper; token.NAME";
    assert_eq!(server.does("python", &json!({"code": code, "dir": "sub"})), "'ours'\nhelper gone");
    let said = server.call("python", &json!({"code": "1", "dir": "nope"}));
    assert!(said.is_error && said.text.contains("there is no folder"), "{}", said.text);
    let said = server.call("python", &json!({"code": "1", "dir": "../outside"}));
    assert!(said.is_error && said.text.contains("rule `roots`"), "{}", said.text);
}

#[test]
fn the_interpreter_of_the_workspace_is_used_as_soon_as_it_is_there() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    let server = serve(&test_ws);
    let prefix = "import sys; print(sys.prefix)";
    let before = python(&server, prefix).text;
    server.does("python", &json!({"code": "import venv; venv.create('.venv')", "timeout_s": 60}));
    let venv = test_ws.at(".venv").display().to_string();
    assert_ne!(before, venv);
    assert_eq!(python(&server, prefix).text, venv);
    // A package that is installed later is found, also by the files that only an interpreter's start reads.
    let code = "import sysconfig; print(sysconfig.get_path('purelib'))";
    let packages = python(&server, code).text;
    let elsewhere = test_ws.at("elsewhere");
    test_ws.put("elsewhere/newcomer.py", "NAME = 'here'\n");
    fs::write(format!("{packages}/new.pth"), elsewhere.display().to_string()).unwrap();
    assert_eq!(python(&server, "import newcomer; newcomer.NAME").text, "'here'");
}

#[test]
fn many_calls_one_after_the_other_leave_nothing() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    let server = serve(&test_ws);
    python(&server, "1");
    let before = below(server.process()).len();
    for number in 0..50 {
        assert_eq!(python(&server, &number.to_string()).text, number.to_string());
    }
    let began = Instant::now();
    // A keeper may be on its way out, and the next pair of processes may stand ready now and not before.
    while below(server.process()).len() > before + 5 {
        assert!(began.elapsed() < TIMEOUT, "{:?}", below(server.process()));
        thread::yield_now();
    }
}

#[test]
fn no_process_outlives_the_server() {
    kit::needs!(Python);
    for killed in [false, true] {
        let test_ws = TestWorkspace::new();
        let server = serve(&test_ws);
        let code = leaves_behind("hfpyserv") + "open('ready', 'w').close()\ntime.sleep(300)";
        let call = server.start_call("python", &json!({"code": code, "timeout_s": 200}));
        let began = Instant::now();
        while !test_ws.at("ready").exists() {
            assert!(began.elapsed() < TIMEOUT);
            thread::yield_now();
        }
        let all = below(server.process());
        assert!(all.len() > 5, "the server, the keepers and what was started: {all:?}");
        if killed {
            server.kill();
            assert!(call.result().is_none());
        } else {
            assert!(server.finish().0.success());
        }
        none_left("hfpyserv");
        all_end(&all);
    }
}

#[test]
fn code_with_hosts_of_its_own_has_an_interpreter_started_for_it() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    let server = serve(&test_ws);
    let call = |arguments: serde_json::Value| {
        let mut arguments = arguments;
        arguments["net"] = json!(["example.org"]);
        server.call("python", &arguments)
    };
    let said =
        call(json!({"code": "import sys; print(sys.argv)\nsys.stdin.read()", "stdin": "é", "args": ["a b"]}));
    assert_eq!(said.text, "['-c', 'a b']\n'é'");
    assert_eq!(call(json!({"code": "1/0"})).text.lines().last(), Some("[exit 1]"));
    assert_eq!(
        call(json!({"code": "import os\nsorted(os.listdir('/proc/self/fd'))"})).text,
        "['0', '1', '2', '3']"
    );
    let said = call(json!({"code": leaves_behind("hfpyown")}));
    assert_eq!(said.text, "all there\n[3 processes that it left running were ended]");
    let said = call(json!({"code": leaves_behind("hfpyown") + "while True: pass", "timeout_s": 2}));
    assert!(said.is_error && said.text.contains("all there\nTraceback"), "{}", said.text);
    assert_eq!(marked("hfpyown"), [""; 0]);
}

#[test]
fn eight_calls_that_may_run_beside_each_other_do() {
    kit::needs!(Python);
    const CALLS: usize = 8;
    let test_ws = TestWorkspace::new();
    let server = serve(&test_ws);
    // Each waits for all others: one after the other they would never end.
    let code = |number: usize| {
        format!(
            "\
import os, time
os.mkdir('there_{number}')
while len([it for it in os.listdir() if it.startswith('there_')]) < {CALLS}: time.sleep(0.01)
{number}"
        )
    };
    let calls: Vec<_> = (0..CALLS)
        .map(|it| server.start_call("python", &json!({"code": code(it), "allow_concurrent": true})))
        .collect();
    for (number, call) in calls.into_iter().enumerate() {
        assert_eq!(call.result().unwrap().text, number.to_string());
    }
}
