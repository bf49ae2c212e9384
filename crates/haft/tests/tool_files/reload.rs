//! Hot reload of tool files.

use std::{
    collections::{HashMap, HashSet},
    fs,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::json;

use super::{
    folders::{file_tools, put, put_file},
    support::{Fixture, after, navi, until_now},
};
use crate::support::{Server, TIMEOUT, TestWorkspace};

/// Returns a module that leaves a mark at each import.
fn marking(mark: &std::path::Path, body: &str) -> String {
    format!("open({:?}, 'a').write('x')\n{}", mark.display().to_string(), navi("marks", body).1)
}

#[test]
fn what_is_known_of_a_file_is_not_asked_again_until_it_changes() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    let (tools, mark) = (test_ws.at(".haft/tools"), test_ws.at("imported"));
    put_file(&tools, "marks.py", &marking(&mark, "return 1"));
    for _ in 0..3 {
        assert_eq!(file_tools(&test_ws, &["--trust"]).0, ["marks"]);
    }
    let imports = || fs::read_to_string(&mark).unwrap().len();
    assert_eq!(imports(), 1, "it was imported once, to be asked");
    put_file(&tools, "marks.py", &marking(&mark, "return 2"));
    file_tools(&test_ws, &["--trust"]);
    assert_eq!(imports(), 2);
    let ran = test_ws.run(&["--trust", "reload-tools"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "loaded: marks\n"));
    assert_eq!(imports(), 3, "reload-tools asks all of them");
    fs::write(cache_of(&test_ws), "{ broken").unwrap();
    assert_eq!(file_tools(&test_ws, &["--trust"]).0, ["marks"], "a broken cache is as none");
    assert_eq!(imports(), 4);
}

#[test]
fn a_start_lists_known_files_as_before_and_notices_each_change() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    let tools = test_ws.config().join("tools");
    for name in ["one", "two", "three"] {
        put(&tools, name, "return 1");
    }
    let listed = || {
        let ran = test_ws.run(&["tools", "--json"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.out
    };
    let first = listed();
    assert_eq!(listed(), first, "the list from the cache differs from the first one");
    let mut server = test_ws.serve();
    let of_server = |server: &Server| server.ask("tools/list", &json!({})).wait().unwrap()["result"].clone();
    let cached = of_server(&server);
    server.kill();
    fs::remove_file(cache_of(&test_ws)).unwrap();
    server = test_ws.serve();
    assert_eq!(of_server(&server).to_string(), cached.to_string(), "described now, and from the cache");
    server.kill();
    // The same size and modification time: its other times and its inode give it away.
    let one = tools.join("one.py");
    let (text, time) = (fs::read_to_string(&one).unwrap(), one.metadata().unwrap().modified().unwrap());
    fs::write(&one, text.replace("return 1", "return 2")).unwrap();
    fs::File::open(&one).unwrap().set_modified(time).unwrap();
    fs::remove_file(tools.join("two.py")).unwrap();
    put(&tools, "four", "return 4");
    let ran = test_ws.run(&["call", "one", "{}"]);
    assert!(ran.out.contains('2'), "{ran:?}");
    let names = file_tools(&test_ws, &[]).0;
    assert_eq!(names, ["four", "one", "three"]);
}

#[test]
fn a_damaged_declaration_in_the_cache_is_described_again() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    let (tools, mark) = (test_ws.config().join("tools"), test_ws.at("imported"));
    put_file(&tools, "marks.py", &marking(&mark, "return 1"));
    let listed = || test_ws.run(&["tools", "--json"]).out;
    let first = listed();
    assert_eq!(listed(), first);
    let imports = || fs::read_to_string(&mark).unwrap().len();
    assert_eq!(imports(), 1);
    let cache = cache_of(&test_ws);
    let whole = fs::read(&cache).unwrap();
    let in_texts = whole.len() - 20;
    for damaged in [whole[..in_texts].to_vec(), [&whole[..in_texts], b"#", &whole[in_texts + 1..]].concat()] {
        fs::write(&cache, damaged).unwrap();
        assert_eq!(listed(), first, "a damaged cache counts as none");
    }
    assert_eq!(imports(), 3);
}

fn cache_of(test_ws: &TestWorkspace) -> std::path::PathBuf {
    let mut folders = fs::read_dir(test_ws.state().join("tools")).unwrap().map(|it| it.unwrap().path());
    folders.find_map(|it| Some(it.join("about.json")).filter(|it| it.exists())).unwrap()
}

#[test]
fn a_broken_file_keeps_its_last_good_version_and_the_report_says_why() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    let tools = test_ws.config().join("tools");
    put(&tools, "tool", "return 'good'");
    put(&tools, "other", "return 'other'");
    assert_eq!(test_ws.call("tool", &json!({})).must("ok").text(), "good");
    put_file(&tools, "tool.py", "import json\n\nraise ValueError('not today')\n");
    let ran = test_ws.run(&["reload-tools"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let file = tools.join("tool.py").display().to_string();
    assert!(
        ran.out.contains(&format!("failed: {file}; its last good version stays in use\nTraceback")),
        "{}",
        ran.out
    );
    assert!(ran.out.contains(&format!("File \"{file}\", line 3, in <module>\n")), "{}", ran.out);
    assert!(ran.out.contains("ValueError: not today\n"), "{}", ran.out);
    assert_eq!(test_ws.run(&["reload-tools", "--strict"]).code, 1, "one that fails is fatal to who says so");
    assert_eq!(test_ws.run(&["tools", "--strict"]).code, 1);
    assert_eq!(
        test_ws.call("tool", &json!({})).must("ok").text(),
        "good",
        "in a process that never saw the good one"
    );
    let ran = test_ws.run(&["call", "tool"]);
    assert!(ran.out.contains("good") && ran.err.contains("its last good version stays in use"), "{ran:?}");
    let ran = test_ws.run(&["call", "other"]);
    assert!(!ran.err.contains("last good version"), "only who calls it is told: {ran:?}");
    assert_eq!(test_ws.call("other", &json!({})).must("ok").text(), "other");
    put(&tools, "tool", "return 'better'");
    assert_eq!(test_ws.call("tool", &json!({})).must("ok").text(), "better");
    assert_eq!(test_ws.run(&["reload-tools", "--strict"]).code, 0);
}

#[test]
fn a_file_that_lacked_something_is_asked_again_once_that_is_there() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    let tools = test_ws.config().join("tools");
    put_file(&tools, "needs.py", &format!("import _part\n{}", navi("needs", "return _part.VALUE").1));
    assert_eq!(file_tools(&test_ws, &[]).0, Vec::<String>::new());
    put_file(&tools, "_part.py", "VALUE = 'part'");
    assert_eq!(file_tools(&test_ws, &[]).0, ["needs"]);
    assert_eq!(test_ws.call("needs", &json!({})).must("ok").text(), "part");
}

#[test]
fn the_next_call_uses_the_file_as_it_was_saved() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    let tools = test_ws.config().join("tools");
    put(&tools, "tool", "return 0");
    let server = test_ws.serve();
    for number in 1..20 {
        put(&tools, "tool", &format!("return {number}"));
        assert_eq!(server.does("tool", &json!({})).lines().next().unwrap(), number.to_string());
    }
    put(&tools, "late", "return 'was not there'");
    assert!(server.does("late", &json!({})).starts_with("was not there"));
    fs::remove_file(tools.join("late.py")).unwrap();
    let gone = server.start_call("late", &json!({})).wait().unwrap().to_string();
    assert!(gone.contains("there is no tool `late`"), "{gone}");
    server.kill();
}

/// Waits until the server has sent a change notification since the last wait.
pub(crate) fn wait_for_change(server: &Server) {
    let until = Instant::now() + TIMEOUT;
    while !server.take_other().iter().any(|it| it.contains("notifications/tools/list_changed")) {
        assert!(Instant::now() < until, "nobody told of the change");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn listed(server: &Server) -> Vec<String> {
    let answer = server.ask("tools/list", &json!({})).wait().unwrap();
    let tools = answer["result"]["tools"].as_array().unwrap();
    let of_files = tools.iter().filter(|it| it["description"] == "For a test.");
    of_files.map(|it| it["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_client_hears_of_tools_that_come_change_and_go() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    let server = test_ws.serve();
    assert_eq!(listed(&server), Vec::<String>::new());
    server.does("glob", &json!({"pattern": "*"}));
    // This folder and its parent do not exist yet.
    let tools = test_ws.config().join("tools");
    put(&tools, "one", "return 1");
    wait_for_change(&server);
    assert_eq!(listed(&server), ["one"]);
    put(&tools, "two", "return 2");
    wait_for_change(&server);
    assert_eq!(listed(&server), ["one", "two"]);
    fs::remove_file(tools.join("one.py")).unwrap();
    wait_for_change(&server);
    assert_eq!(listed(&server), ["two"]);
    let said = server.does("glob", &json!({"pattern": "*"}));
    assert!(said.ends_with("note: tools changed: +two"), "{said}");
    let said = server.does("glob", &json!({"pattern": "*"}));
    assert!(!said.contains("tools changed"), "once: {said}");
    server.kill();
}

#[test]
fn who_runs_the_server_reads_once_what_could_not_be_loaded() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    let own = test_ws.config().join("tools");
    put_file(&own, "first.py", "import nothing_of_this_name\n");
    put(&own, "good", "return '1'");
    let server = test_ws.serve();
    assert_eq!(server.does("good", &json!({})), "1");
    // haft reports one change before it checks the next.
    for file in ["second.py", "third.py"] {
        put_file(&own, file, "name =\n");
        until_now(|| server.does("list_tools", &json!({})).contains(file));
    }
    server.take_other();
    let (_, said) = server.finish();
    for (file, why) in [("first.py", "No module named 'nothing_of_this_name'"), ("second.py", "SyntaxError")]
    {
        let lines: Vec<&str> = said.lines().filter(|it| it.contains(file)).collect();
        assert_eq!(lines.len(), 1, "{said}");
        assert!(
            lines[0].contains(why) && lines[0].ends_with("`haft reload-tools` shows the whole error"),
            "{said}"
        );
    }
}

#[test]
fn a_model_that_asks_is_told_what_is_new_to_it_whoever_loaded_it() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    let tools = test_ws.config().join("tools");
    put(&tools, "old", "return 1");
    let server = test_ws.serve();
    server.does("reload_tools", &json!({}));
    put(&tools, "new", "return 2");
    fs::remove_file(tools.join("old.py")).unwrap();
    // The watcher was quicker.
    while listed(&server) != ["new"] {
        wait_for_change(&server);
    }
    let said = server.does("reload_tools", &json!({}));
    assert_eq!(said, "Loaded (1): new\nNew or changed (1): new\nGone (1): old");
    assert_eq!(server.does("reload_tools", &json!({})), "Loaded (1): new", "it was told");
    server.kill();
}

#[test]
fn a_client_of_the_newest_revision_hears_what_it_listens_to() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    let server = Server::start(&test_ws, &[]);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let about = server.ask("server/discover", &json!({"_meta": meta})).wait().unwrap();
    assert_eq!(about["result"]["capabilities"]["tools"]["listChanged"], true, "{about}");
    let listening = server
        .ask("subscriptions/listen", &json!({"_meta": meta, "notifications": {"toolsListChanged": true}}));
    let until = Instant::now() + TIMEOUT;
    while !server.take_other().iter().any(|it| it.contains("subscriptions/acknowledged")) {
        assert!(Instant::now() < until, "nobody listens");
        std::thread::sleep(Duration::from_millis(5));
    }
    put(&test_ws.config().join("tools"), "one", "return 1");
    wait_for_change(&server);
    drop(listening);
    server.kill();
}

#[test]
fn an_import_that_hangs_keeps_nobody_waiting() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    let tools = test_ws.config().join("tools");
    put_file(&tools, "hangs.py", "import time\ntime.sleep(3600)\n");
    put(&tools, "good", "return 'good'");
    let server = test_ws.serve();
    test_ws.put("a.txt", "text\n");
    let began = Instant::now();
    assert!(server.does("read", &json!({"path": "a.txt"})).contains("text"));
    assert!(began.elapsed() < Duration::from_secs(5), "a call of another tool waited");
    let at_first = listed(&server);
    assert!(at_first.is_empty() || at_first == ["good"], "{at_first:?}");
    assert!(server.does("good", &json!({})).starts_with("good"), "what is being loaded is waited for");
    assert_eq!(listed(&server), ["good"]);
    server.kill();
}

#[test]
fn an_edited_helper_is_imported_by_the_next_call() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    let tools = test_ws.config().join("tools");
    let helper =
        |file: &str, says: &str| put_file(&tools, file, &format!("def tell():\n    return {says:?}\n"));
    helper("_helper.py", "first");
    helper("lib/inner.py", "inner");
    put_file(&tools, "lib/__init__.py", "");
    let (file, code) = navi("asks", "return _helper.tell() + ' ' + inner.tell()");
    put_file(&tools, &format!("{file}.py"), &format!("import _helper\nfrom lib import inner\n{code}"));
    let server = test_ws.serve();
    let says = || server.does("asks", &json!({})).lines().next().unwrap_or_default().to_owned();
    assert_eq!(says(), "first inner");
    helper("_helper.py", "the second");
    assert_eq!(says(), "the second inner");
    helper("lib/inner.py", "outer one");
    assert_eq!(says(), "the second outer one");
}

/// The number of changes of a file while calls run.
const CHANGES: usize = 100;

/// The number of calls that begin before each change.
const CALLS: usize = 10;

/// 1,000 calls while the files change 100 times: each is answered, by one version as a whole, which is none that had been
/// replaced before the call began.
#[tokio::test]
async fn reload_under_load_loses_no_call_and_mixes_no_versions() {
    kit::needs!(Python);
    // Both halves of the answer come from the file, with time in between for it to change.
    let version = |name: &str, number: usize| {
        let (name, code) = navi(
            name,
            "import asyncio\nfirst = VERSION\nawait asyncio.sleep(0.1)\nreturn f'{first} {helper()}'",
        );
        (name, format!("VERSION = {number}\ndef helper():\n    return {number}\n{code}"))
    };
    let names = ["one", "two", "three", "four"];
    let fixture = Arc::new(Fixture::new(&names.map(|name| version(name, 0))).await);
    let mut loaded: HashMap<&str, usize> = names.map(|name| (name, 0)).into();
    let mut calls = Vec::new();
    // Two change at once, as when a branch is checked out.
    for number in (1..=CHANGES).step_by(2) {
        for call in 0..2 * CALLS {
            let (fixture, name) = (fixture.clone(), names[call % names.len()]);
            calls.push((loaded[name], tokio::spawn(async move { fixture.says(name).await })));
        }
        let changing = [number, number + 1].map(|number| (names[number % names.len()], number));
        changing.iter().for_each(|(name, number)| fixture.write(&version(name, *number)));
        fixture.load().await;
        loaded.extend(changing);
    }
    assert_eq!(calls.len(), 1000);
    let mut versions = HashSet::new();
    let mut lost = Vec::new();
    for (oldest, call) in calls {
        let said = call.await.unwrap();
        let whole = said.lines().next().unwrap_or_default().split_once(' ');
        let one = whole.filter(|(one, other)| one == other).and_then(|(one, _)| one.parse::<usize>().ok());
        match one.filter(|it| *it >= oldest) {
            Some(one) => drop(versions.insert(one)),
            None => lost.push((oldest, said)),
        }
    }
    assert!(lost.is_empty(), "{} of 1000: {:?}", lost.len(), lost.first());
    assert!(versions.len() > CHANGES / 4, "the files changed meanwhile: {versions:?}");
    for (name, number) in loaded {
        let said = fixture.says(name).await;
        assert_eq!(said.lines().next().unwrap(), format!("{number} {number}"), "the newest of {name} serves");
    }
}

#[tokio::test]
async fn a_tool_is_called_while_other_files_are_still_described() {
    kit::needs!(Python);
    let fixture = Fixture::new(&[]).await;
    let go = fixture.workspace().join("go");
    let waits = format!("import os, time\nwhile not os.path.exists({go:?}): time.sleep(0.01)");
    for name in ["a1", "a2"] {
        fixture.write(&after(&waits, name, "return 'slow'"));
    }
    for at in 0..20 {
        fixture.write(&navi(&format!("z{at}"), &format!("return 'quick {at}'")));
    }
    assert_eq!(fixture.says("z19").await, "quick 19");
    assert!(fixture.runtime.plugins().is_pending(), "the slow files are not described yet");
    fixture.write(&navi("late", "return 'written meanwhile'"));
    assert_eq!(fixture.says("late").await, "written meanwhile");
    assert!(fixture.runtime.plugins().is_pending());
    fs::write(go, "").unwrap();
    fixture.load().await;
    assert!(!fixture.runtime.plugins().is_pending());
    let said = fixture.says("a1").await;
    assert!(
        said.starts_with("slow\nnote: tools changed: +a1, +a2, +late, +z0"),
        "told once, when all are loaded: {said}"
    );
    assert_eq!(fixture.says("z0").await, "quick 0");
}

#[test]
fn a_known_file_is_found_by_its_stamp_and_read_when_it_is_called() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    let (tools, mark) = (test_ws.at(".haft/tools"), test_ws.at("imported"));
    put_file(&tools, "marks.py", &marking(&mark, "return 'as it was'"));
    // The first run may see a file that has just been written, and may change again with the same stamp.
    (0..3).for_each(|_| drop(file_tools(&test_ws, &["--trust"])));
    let copy = cache_of(&test_ws).parent().unwrap().read_dir().unwrap().find_map(|it| {
        let path = it.unwrap().path();
        (path.file_name().unwrap().len() == 64).then_some(path)
    });
    let called = |ws: &TestWorkspace| {
        let ran = ws.run(&["--trust", "call", "marks", "{}"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.out
    };
    assert!(called(&test_ws).contains("as it was"));
    // Neither copy is taken for the file without its hash.
    fs::write(copy.unwrap(), "raise Exception('not the text that was described')").unwrap();
    assert!(called(&test_ws).contains("as it was"));
    put_file(&tools, "marks.py", &marking(&mark, "return 'as it is'"));
    assert!(called(&test_ws).contains("as it is"));
}
