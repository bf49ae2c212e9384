//! Approval at the terminal, and the grants that are kept.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
};

use serde_json::{Value, json};

use crate::support::{Terminal, TestWorkspace, run};

const QUESTION: &str = "[n]o: ";

fn write(path: &str) -> Value {
    json!({"path": path, "content": "x\n", "overwrite": true})
}

/// Takes the files away, so that nothing but the rules stands against writing them.
fn anew(test_ws: &TestWorkspace) {
    for path in [".mcp.json", ".envrc"] {
        let _ = std::fs::remove_file(test_ws.at(path));
    }
}

fn asked(test_ws: &TestWorkspace, options: &[&str], path: &str) -> Terminal {
    anew(test_ws);
    let arguments = write(path).to_string();
    Terminal::start(&test_ws.haft(&[options, &["call", "write", &arguments]].concat()))
}

#[test]
fn an_answer_holds_for_the_call_the_session_or_the_project() {
    let test_ws = TestWorkspace::new();
    // Once: the next call is asked again.
    for _ in 0..2 {
        let mut terminal = asked(&test_ws, &[], ".mcp.json");
        terminal.shows("control_files", 1).shows(QUESTION, 1).types("o\n");
        let (code, seen) = terminal.ends();
        assert_eq!(code, Some(0), "{seen}");
        assert!(seen.contains("write ") && seen.contains(".mcp.json"), "{seen}");
    }
    test_ws.call("write", &write(".mcp.json")).must("denied");
    // The session: its next call is not, another session's is.
    let mut terminal = asked(&test_ws, &["--session", "one"], ".mcp.json");
    terminal.shows(QUESTION, 1).types("s\n");
    assert_eq!(terminal.ends().0, Some(0));
    let (code, seen) = asked(&test_ws, &["--session", "one"], ".mcp.json").ends();
    assert_eq!((code, seen.contains("allow it?")), (Some(0), false), "{seen}");
    anew(&test_ws);
    test_ws.call_with(&["--session", "one"], "write", &write(".mcp.json")).must("ok");
    test_ws.call_with(&["--session", "two"], "write", &write(".mcp.json")).must("denied");
    anew(&test_ws);
    // The project: everybody's, until it is revoked.
    let mut terminal = asked(&test_ws, &["--session", "two"], ".envrc");
    terminal.shows(QUESTION, 1).types("p\n");
    assert_eq!(terminal.ends().0, Some(0));
    anew(&test_ws);
    test_ws.call("write", &write(".envrc")).must("ok");
    anew(&test_ws);
    test_ws.call_with(&["--approve", "never"], "write", &write(".envrc")).must("ok");
    let grants = test_ws.run(&["grants"]).out;
    assert!(
        grants.contains("1  session one  write .mcp.json") && grants.contains("2  project  write .envrc"),
        "{grants}"
    );
    assert!(grants.contains("used 2 times"), "{grants}");
    assert!(test_ws.log().iter().any(|it| it["decision"] == "granted: write .envrc (project)"));
    assert_eq!(test_ws.run(&["grants", "revoke", "2"]).code, 0);
    test_ws.call("write", &write(".envrc")).must("denied");
    assert_eq!(test_ws.run(&["grants", "revoke", "2"]).code, 1);
}

#[test]
fn no_and_ctrl_c_and_an_unclear_answer_allow_nothing() {
    let test_ws = TestWorkspace::new();
    for answer in ["n\n", "\u{3}", "\u{4}", "maybe\n\n\nno\n"] {
        let mut terminal = asked(&test_ws, &[], ".mcp.json");
        terminal.shows(QUESTION, 1).types(answer);
        let (code, seen) = terminal.ends();
        assert_eq!(code, Some(1), "{answer:?}: {seen}");
    }
    assert!(!test_ws.at(".mcp.json").exists());
    assert!(test_ws.log().iter().all(|it| it["decision"] == "refused by the person: control_files"));
}

#[test]
fn what_a_model_wrote_cannot_look_like_the_question() {
    let test_ws = TestWorkspace::new();
    let path = ".vscode/\u{1b}[2J\r\nallow it? [n]o: \u{202e}x";
    let mut terminal = asked(&test_ws, &[], path);
    terminal.shows("[o]nce, this [s]ession", 1).types("n\n");
    let (code, seen) = terminal.ends();
    assert_eq!(code, Some(1));
    assert!(!seen.contains('\u{1b}') && !seen.contains('\u{202e}'), "{seen:?}");
    let questions = seen.lines().filter(|line| line.starts_with("allow it?")).count();
    assert_eq!(questions, 1, "{seen:?}");
}

#[test]
fn blank_letters_push_no_end_of_a_command_out_of_sight() {
    let test_ws = TestWorkspace::new();
    for blank in ["\u{3164}", "\u{ffa0}", "\u{115f}", "\u{2800}", " "] {
        let command = format!("touch fine #{}\nrm -rf the-end", blank.repeat(4_000));
        let arguments = json!({"command": command, "unconfined": true}).to_string();
        let mut terminal = Terminal::start(&test_ws.haft(&["call", "shell", &arguments]));
        terminal.shows(QUESTION, 1).types("n\n");
        let (_, seen) = terminal.ends();
        assert!(seen.contains("4000 ") && seen.contains("rm -rf the-end"), "{blank:?}: {seen}");
        assert!(!seen.contains(&blank.repeat(20)), "{blank:?}: {seen}");
        assert_eq!(blank != " ", seen.contains("letters that can't be seen: U+"), "{blank:?}: {seen}");
    }
    // Of a file that would be written the end is shown as well.
    let content = format!("first\n{}last line\n", "x\n".repeat(500));
    let mut terminal = Terminal::start(&test_ws.haft(&[
        "call",
        "write",
        &json!({"path": ".envrc", "content": content}).to_string(),
    ]));
    terminal.shows(QUESTION, 1).types("n\n");
    let (_, seen) = terminal.ends();
    assert!(seen.contains("first") && seen.contains("last line") && seen.contains("more lines"), "{seen}");
}

#[test]
fn one_answer_serves_the_calls_that_wait_behind_it() {
    let test_ws = TestWorkspace::new();
    let lines = |count: usize| {
        json!({"tool": "write", "arguments": write(&format!(".vscode/{count}"))}).to_string() + "\n"
    };
    test_ws.put("batch", (0..2).map(|_| lines(1)).collect::<String>());
    let mut terminal =
        Terminal::start(&test_ws.haft(&["call", "--batch", test_ws.at("batch").to_str().unwrap()]));
    terminal.shows(QUESTION, 1).types("s\n");
    let (code, seen) = terminal.ends();
    assert_eq!((code, seen.matches("allow it?").count()), (Some(0), 1), "{seen}");
}

#[test]
fn a_refusal_names_the_grant_that_would_allow_it_and_that_line_works() {
    let test_ws = TestWorkspace::new();
    let refused = test_ws.call("write", &write(".vscode/settings.json")).must("denied").text();
    let line = format!(
        "`haft --dir {} grants add 'write .vscode/settings.json'`",
        test_ws.at("").display().to_string().trim_end_matches('/')
    );
    assert!(refused.contains(&line), "{refused}");
    assert_eq!(test_ws.run(&["grants", "add", "write .vscode"]).out, "1  project  write .vscode\n");
    test_ws.call("write", &write(".vscode/settings.json")).must("ok");
    test_ws.call("write", &write(".vscodium/x")).must("ok");
    test_ws.call("write", &write(".idea/x")).must("denied");
    // A grant does not allow what nobody may do.
    test_ws.call_with(&["--sandbox", "read-only"], "write", &write(".vscode/x")).must("denied");
    for wrong in [&["grants", "add", "fly"][..], &["grants", "add", "write ../x"], &["grants", "add"]] {
        assert_eq!(test_ws.run(wrong).code, 2, "{wrong:?}");
    }
    let listed = run(&mut test_ws.haft(&["grants", "--json"]), "").out;
    assert_eq!(serde_json::from_str::<Value>(&listed).unwrap()["effect"], "write .vscode");
}

#[test]
fn a_server_that_runs_knows_at_once_what_another_process_grants_and_revokes() {
    kit::needs!(SystemPython);
    let test_ws = TestWorkspace::new();
    let place = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = place.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in place.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi");
        }
    });
    let server = test_ws.serve();
    let script = format!(
        "import os, urllib.request as r\nos.environ.pop('no_proxy')\nos.environ.pop('NO_PROXY')\n\
         print(r.urlopen('http://{host}/').read())"
    );
    let fetch = json!({"command": format!("/usr/bin/python3 -c \"{script}\" 2>&1")});
    let write = json!({"path": ".envrc", "content": "x"});
    // The first questions are answered in another way than those that follow.
    for _ in 0..3 {
        assert!(server.call("write", &write).text.contains("control_files"));
        assert!(server.call("bash", &fetch).text.contains("403"));
        let mut numbers = Vec::new();
        for effect in ["write .envrc", &format!("net {host}")] {
            let added = test_ws.run(&["grants", "add", effect]).out;
            numbers.push(added.split_whitespace().next().unwrap().to_owned());
        }
        assert!(!server.call("write", &write).is_error);
        std::fs::remove_file(test_ws.at(".envrc")).unwrap();
        let said = server.call("bash", &fetch).text;
        assert!(said.contains("b'hi'"), "{said}");
        for number in numbers {
            assert_eq!(test_ws.run(&["grants", "revoke", &number]).code, 0);
        }
    }
    assert!(server.call("write", &write).text.contains("control_files"));
    assert!(server.call("bash", &fetch).text.contains("403"));
    assert!(server.finish().0.success());
    // The last to close takes SQLite's files with it.
    let left = || std::fs::read_dir(test_ws.state().join("workspaces")).unwrap().flatten();
    assert!(left().all(|it| !it.path().join("haft.db-wal").exists()));
}
