//! Misbehaving tool files: each gives one clear error and harms nothing else.

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::support::{Called, TestWorkspace};

const HOSTILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tool_files/hostile");

const GOOD: &str = "name = 'good'\ndescription = 'Works.'\nparameters = {'type': 'object', 'properties': {}}\n\
    async def execute(params):\n    return 'good'\n";

/// Returns a workspace with these files of the hostile ones, and one that works.
fn test_ws(names: &[&str]) -> TestWorkspace {
    let test_ws = TestWorkspace::new();
    for name in names {
        let file = format!("{name}.py");
        test_ws.put(&format!(".haft/tools/{file}"), fs::read(Path::new(HOSTILE).join(&file)).unwrap());
    }
    test_ws.put(".haft/tools/good.py", GOOD);
    test_ws
}

/// Returns the result of a call with each of these arguments, with a call of another tool after each.
fn calls(options: &[&str], name: &str, arguments: &[Value]) -> Vec<Called> {
    let test_ws = test_ws(&[name]);
    let both = arguments.iter().flat_map(|it| [(name, it.clone()), ("good", json!({}))]);
    let options = [&["--trust"], options].concat();
    let mut said = test_ws.batch(&options, &both.collect::<Vec<_>>()).into_iter();
    let mut kept = Vec::new();
    while let (Some(called), Some(good)) = (said.next(), said.next()) {
        assert_eq!(good.text(), "good", "after call {} of {name}", kept.len());
        kept.push(called);
    }
    kept
}

#[track_caller]
fn works(name: &str, says: &str) {
    for called in calls(&[], name, &[json!({"how": "a"}), json!({"how": "a"})]) {
        assert_eq!(called.must("ok").text(), says, "{name}");
    }
}

#[track_caller]
fn fails(name: &str, how: &str, words: &[&str]) {
    for called in calls(&[], name, &[json!({"how": how}), json!({"how": how})]) {
        let text = called.must("failed").text();
        for word in words {
            assert!(text.contains(word), "`{word}` of {name}: {text}");
        }
        assert!(text.len() < 24 << 10, "{name} says {} bytes", text.len());
    }
}

#[test]
fn what_is_printed_reaches_no_answer() {
    kit::needs!(Python);
    works("prints", "fine");
    works("writes_to_descriptors", "fine");
}

#[test]
fn what_is_left_running_harms_no_answer() {
    kit::needs!(Python);
    works("forks", "fine");
    works("leaves_threads", "fine");
    works("raises_later", "fine");
    let seconds = json!({"how": "a", "seconds": 600});
    for called in calls(&[], "leaves_daemon", &[seconds.clone(), seconds]) {
        assert_eq!(called.must("ok").text(), "fine");
    }
}

#[test]
fn what_changes_its_own_process_answers_all_the_same() {
    kit::needs!(Python);
    works("replaces_execute", "fine");
    for called in calls(&[], "changes_process", &[json!({}), json!({})]) {
        called.must("ok");
    }
    let patched = calls(&[], "patches", &[json!({"how": "a"}), json!({"how": "a"})]);
    let kinds: Vec<&str> = patched.iter().map(Called::kind).collect();
    // The second time there is nothing left that it could take away.
    assert_eq!(kinds, ["ok", "failed"], "{patched:?}");
    let failed = calls(&[], "patches", &[json!({"how": "fail"})]).pop().unwrap().must("failed").text();
    assert!(failed.contains("with all of that gone"), "{failed}");
}

#[test]
fn what_ends_its_process_says_how_and_the_next_call_has_a_new_one() {
    kit::needs!(Python);
    fails("exits_hard", "a", &["exits_hard", "code 7"]);
    fails("crashes", "a", &["SIGSEGV"]);
    fails("closes_everything", "a", &["closes_everything"]);
}

#[test]
fn what_asks_to_exit_only_fails() {
    kit::needs!(Python);
    fails("exits", "exit", &["SystemExit", "3"]);
    fails("interrupts", "interrupt", &["KeyboardInterrupt"]);
}

#[test]
fn an_endless_loop_ends_at_the_deadline() {
    kit::needs!(Python);
    let test_ws = test_ws(&["loops"]);
    test_ws.put("haft.toml", "deadline_seconds = 2\n");
    let said =
        test_ws.batch(&["--trust"], &[("loops", json!({})), ("good", json!({})), ("loops", json!({}))]);
    let kinds: Vec<&str> = said.iter().map(Called::kind).collect();
    assert_eq!(kinds, ["timeout", "ok", "timeout"]);
}

#[test]
fn long_tracebacks_are_cut_in_their_middle() {
    kit::needs!(Python);
    fails("recurses", "a", &["RecursionError", "return deeper(depth + 1) + 1"]);
    fails("long_traceback", "a", &["ValueError: deep down", "raise ValueError(\"deep down\")"]);
}

#[test]
fn what_is_no_text_is_made_one_or_refused() {
    kit::needs!(Python);
    let result = |how: &str| calls(&[], "bad_results", &[json!({"how": how})]).pop().unwrap();
    let dict = result("dict").must("ok").text();
    assert!(dict.starts_with(r#"{"a":[1,null]}"#) && dict.contains("returned a dict"), "{dict}");
    result("number").must("ok");
    for (how, word) in [
        ("none", "None"),
        ("bytes", "bytes"),
        ("object", "object"),
        ("cycle", "JSON"),
        ("huge", "64 million"),
    ] {
        let text = result(how).must("failed").text();
        assert!(text.contains(word), "{how}: {text}");
    }
    for how in ["deep", "not a number", "surrogate", "lines"] {
        // Whichever it is, it is one answer.
        assert!(matches!(result(how).kind(), "ok" | "failed"), "{how}");
    }
}

#[test]
fn a_file_that_deletes_itself_can_not() {
    kit::needs!(Python);
    let test_ws = test_ws(&["deletes_itself"]);
    let said = test_ws.batch(&["--trust"], &[("deletes_itself", json!({})), ("good", json!({}))]);
    assert_eq!((said[0].kind(), said[1].kind()), ("failed", "ok"), "{said:?}");
    assert!(test_ws.at(".haft/tools/deletes_itself.py").exists());
}

#[test]
fn a_file_that_is_gone_while_it_runs_ends_its_call_and_is_no_tool_after() {
    kit::needs!(Python);
    let test_ws = test_ws(&[]);
    test_ws.put(
        ".haft/tools/slow.py",
        "name = 'slow'\ndescription = 'Waits.'\nparameters = {'type': 'object', 'properties': {}}\n\
         async def execute(params):\n    open('begun', 'w').close()\n    return open('go').read()\n",
    );
    for fifo in ["begun", "go"] {
        rustix::fs::mknodat(
            rustix::fs::CWD,
            test_ws.at(fifo),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RWXU,
            0,
        )
        .unwrap();
    }
    let server = test_ws.serve_with(&["--trust"]);
    let slow = server.start_call("slow", &json!({}));
    // Opening it waits until the tool opens it too.
    fs::read(test_ws.at("begun")).unwrap();
    fs::remove_file(test_ws.at(".haft/tools/slow.py")).unwrap();
    fs::write(test_ws.at("go"), "to the end").unwrap();
    assert_eq!(slow.result().unwrap().text, "to the end");
    assert!(server.start_call("slow", &json!({})).wait().is_some_and(|it| it.to_string().contains("slow")));
    assert_eq!(server.does("good", &json!({})), "good");
}

#[test]
fn what_can_not_be_loaded_is_reported_each_by_itself() {
    kit::needs!(Python);
    let test_ws = test_ws(&[
        "bad_name",
        "bad_schema",
        "crashes_at_import",
        "exits_at_import",
        "exits_hard_at_import",
        "hangs_at_import",
        "missing_module",
        "no_tool",
        "syntax_error",
    ]);
    test_ws.run(&["trust"]);
    let ran = test_ws.run(&["reload-tools"]);
    let told = format!("{}{}", ran.out, ran.err);
    for (file, words) in [
        ("bad_name.py", &["../bad name"][..]),
        ("bad_schema.py", &["parameters"]),
        ("crashes_at_import.py", &["SIGSEGV"]),
        ("exits_at_import.py", &["SystemExit"]),
        ("exits_hard_at_import.py", &["7"]),
        ("hangs_at_import.py", &["wait_for_something"]),
        ("missing_module.py", &["No module named 'no_such_module_anywhere'"]),
        ("no_tool.py", &["no_tool.py"]),
        ("syntax_error.py", &["SyntaxError"]),
    ] {
        assert!(told.contains(file), "{file}: {told}");
        for word in words {
            assert!(told.contains(word), "`{word}` of {file}: {told}");
        }
    }
    assert_eq!(ran.code, 0, "{told}");
    assert_eq!(test_ws.run(&["reload-tools", "--strict"]).code, 1);
    assert_eq!(test_ws.call("good", &json!({})).must("ok").text(), "good");
    let none = test_ws.call("hangs_at_import", &json!({})).must("not_found").text();
    assert!(none.contains("hangs_at_import"), "{none}");
}
