//! Tests of `grep`: what the model reads.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{
    fs,
    time::{Duration, Instant},
};

use expect_test::{Expect, expect};
use kit::testing::TestWorkspace;
use serde_json::{Value, json};

use super::{super::page::MOST_BYTES, *};

const TREE: &str = "//- .gitignore\n/out\n//- a.rs\nfn main() {\n    go();\n}\n//- b.py\ndef go():\n    pass\n\
    //- src/c.rs\nfn go() {}\n// 1\n// 2\n// 3\n// 4\nfn stop() {}\n//- out/d.rs\nfn go() {}\n//- .git/go\nfn go\n";

fn check(arguments: &Value, says: &Expect) {
    says.assert_eq(&TestWorkspace::new(TREE).says::<Grep>(arguments));
}

#[test]
fn shows_lines_below_the_path_of_their_file() {
    check(
        &json!({"pattern": r"\bgo\("}),
        &expect![[r#"
            a.rs
            2:    go();

            b.py
            1:def go():

            src/c.rs
            1:fn go() {}
            [3 matches in 3 files]"#]],
    );
}

#[test]
fn shows_context_and_where_lines_are_left_out() {
    check(
        &json!({"pattern": "^fn", "path": "src", "context": 1}),
        &expect![[r#"
            src/c.rs
            1:fn go() {}
            2-// 1
            --
            5-// 4
            6:fn stop() {}
            [2 matches]"#]],
    );
    check(
        &json!({"pattern": "go|stop", "path": "src/c.rs", "before": 1, "after": 4}),
        &expect![[r#"
            src/c.rs
            1:fn go() {}
            2-// 1
            3-// 2
            4-// 3
            5-// 4
            6:fn stop() {}
            [2 matches]"#]],
    );
}

#[test]
fn counts_and_paths_alone_when_asked_for() {
    check(
        &json!({"pattern": "fn", "mode": "count"}),
        &expect![[r#"
            a.rs:1
            src/c.rs:2
            [2 files with 3 matches]"#]],
    );
    check(
        &json!({"pattern": "go", "mode": "files", "limit": 2}),
        &expect![[r#"
            a.rs
            b.py
            [showing 2 of 3 files; next: offset 2]"#]],
    );
    check(
        &json!({"pattern": "go", "mode": "files", "limit": 2, "offset": 2}),
        &expect![[r#"
            src/c.rs
            [showing 3 to 3 of 3 files; that is all]"#]],
    );
}

#[test]
fn filters_by_glob_and_type() {
    check(
        &json!({"pattern": "go", "mode": "files", "glob": "*.{py,js}"}),
        &expect![[r#"
            b.py
            [1 file]"#]],
    );
    check(
        &json!({"pattern": "go", "mode": "files", "glob": "!src/**"}),
        &expect![[r#"
            a.rs
            b.py
            [2 files]"#]],
    );
    // By a glob from the workspace as well as from the searched folder.
    check(
        &json!({"pattern": "go", "mode": "files", "path": "src", "glob": "src/*.rs", "type": "rust"}),
        &expect![[r#"
            src/c.rs
            [1 file]"#]],
    );
    check(
        &json!({"pattern": "go", "type": "js", "glob": "*.js"}),
        &expect!["no file to search: none of the 4 files in `.` fits `glob: *.js` and `type: js`"],
    );
    check(
        &json!({"pattern": "go", "type": "typescrpt"}),
        &expect![[r#"
            bad_args: `typescrpt` is not a file type that is known
            There is `typescript`, `typoscript`, `typst`; or use `glob`, such as `*.ext`."#]],
    );
}

#[test]
fn a_page_names_the_next_and_pages_join_without_a_gap() {
    check(
        &json!({"pattern": "go|fn", "limit": 2}),
        &expect![[r#"
            a.rs
            1:fn main() {
            2:    go();
            [showing 2 of 5 matches in 3 files; next: offset 2]"#]],
    );
    check(
        &json!({"pattern": "go|fn", "limit": 2, "offset": 2}),
        &expect![[r#"
            b.py
            1:def go():

            src/c.rs
            1:fn go() {}
            [showing 3 to 4 of 5 matches in 3 files; next: offset 4]"#]],
    );
    check(
        &json!({"pattern": "go|fn", "limit": 2, "offset": 4}),
        &expect![[r#"
            src/c.rs
            6:fn stop() {}
            [showing 5 to 5 of 5 matches in 3 files; that is all]"#]],
    );
    check(
        &json!({"pattern": "go|fn", "offset": 7}),
        &expect!["[offset 7 is past the last of 5 matches in 3 files]"],
    );
}

#[test]
fn a_page_ends_before_it_has_too_many_bytes() {
    let test_ws = TestWorkspace::empty();
    fs::write(test_ws.path().join("f"), format!("{}\n", "x".repeat(400)).repeat(1_000)).unwrap();
    let says = test_ws.says::<Grep>(&json!({"pattern": "x", "limit": 1_000}));
    assert!(says.len() <= MOST_BYTES + 100, "{}", says.len());
    let footer = says.lines().last().unwrap();
    assert_eq!(footer, "[showing 121 of 1,000 matches; next: offset 121]");
    let next = test_ws.says::<Grep>(&json!({"pattern": "x", "offset": 121, "limit": 1}));
    assert!(next.starts_with("f\n122:xxx"), "{next}");
}

#[test]
fn no_match_says_how_much_was_searched_and_what_may_be_wrong() {
    check(&json!({"pattern": "nowhere"}), &expect!["no match for `nowhere` in 4 files in `.`"]);
    check(
        &json!({"pattern": "stop(x)", "path": "src/c.rs"}),
        &expect![[r#"
            no match for `stop(x)` in `src/c.rs`
            It was read as a regex; `literal`: true takes it as plain text."#]],
    );
    check(
        &json!({"pattern": r"halt\|stay"}),
        &expect![[r#"
            no match for `halt\|stay` in 4 files in `.`
            A regex here is as in Rust: `a|b`, `(a)`, `a+`; with a `\` before it, such a character is itself."#]],
    );
}

#[test]
fn an_invalid_pattern_gets_the_engine_s_error() {
    check(
        &json!({"pattern": "go("}),
        &expect![[r#"
            bad_args: `pattern` is not a regex that can be searched for: regex parse error:
                (?:go()
                ^
            error: unclosed group
            If you mean this very text, set `literal`: true."#]],
    );
    check(
        &json!({"pattern": "(?=go)"}),
        &expect![[r#"
            bad_args: `pattern` is not a regex that can be searched for: regex parse error:
                (?:(?=go))
                   ^^^
            error: look-around, including look-ahead and look-behind, is not supported
            Search for a simpler regex and pick among its matches."#]],
    );
    check(
        &json!({"pattern": "a\\nb"}),
        &expect![[r#"
            bad_args: `pattern` is not a regex that can be searched for: the literal "\n" is not allowed in a regex
            To match over several lines, set `multiline: true`."#]],
    );
    check(
        &json!({"pattern": r"\w{1000}{1000}"}),
        &expect![[r#"
            bad_args: `pattern` is not a regex that can be searched for: compiled regex exceeds size limit of 10485760
            Use smaller repetitions."#]],
    );
    check(
        &json!({"pattern": ""}),
        &expect![[r#"
            bad_args: `pattern` is empty
            `^` matches every line."#]],
    );
}

#[test]
fn plain_text_case_and_several_lines_can_be_asked_for() {
    check(
        &json!({"pattern": "MAIN() {", "literal": true, "ignore_case": true}),
        &expect![[r#"
            a.rs
            1:fn main() {
            [1 match]"#]],
    );
    check(
        &json!({"pattern": r"\(\):?\s+(\w+|\{)\n\s+\w", "multiline": true, "path": "a.rs"}),
        &expect![[r#"
            a.rs
            1:fn main() {
            2:    go();
            [1 match]"#]],
    );
}

#[test]
fn ignored_files_are_searched_when_asked_for_but_never_those_in_git() {
    check(
        &json!({"pattern": "fn go", "mode": "files", "ignored": true}),
        &expect![[r#"
            out/d.rs
            src/c.rs
            [2 files]"#]],
    );
}

#[test]
fn crlf_utf_16_and_long_lines_are_shown_as_text() {
    let test_ws = TestWorkspace::empty();
    fs::write(test_ws.path().join("crlf"), "one\r\ntwo one\r\n").unwrap();
    let utf_16: Vec<u8> = "\u{feff}ein one\n".encode_utf16().flat_map(u16::to_be_bytes).collect();
    fs::write(test_ws.path().join("utf16"), utf_16).unwrap();
    fs::write(test_ws.path().join("long"), format!("{}one\n", "ä".repeat(10_000))).unwrap();
    let says = test_ws.says::<Grep>(&json!({"pattern": "one$"}));
    let (short, rest) = says.split_once("\n\nlong\n").unwrap();
    expect![[r#"
        crlf
        1:one
        2:two one"#]]
    .assert_eq(short);
    let (long, last) = rest.split_once("\n\n").unwrap();
    assert!(long.starts_with("1:…ää") && long.ends_with("äone [line of 20,003 bytes]"), "{long}");
    expect![[r#"
        utf16
        1:ein one
        [4 matches in 3 files]"#]]
    .assert_eq(last);
}

#[test]
fn a_binary_file_is_skipped_and_named_when_it_matters() {
    let test_ws = TestWorkspace::new("//- text\nother\n");
    fs::write(test_ws.path().join("bin"), b"needle\n\0").unwrap();
    expect![[r#"
        no match for `needle` in 1 file in `.`
        [not searched: 1 binary file]"#]]
    .assert_eq(&test_ws.says::<Grep>(&json!({"pattern": "needle"})));
    expect!["`bin` is binary (it has a NUL), so it has no lines to search"]
        .assert_eq(&test_ws.says::<Grep>(&json!({"pattern": "needle", "path": "bin"})));
    expect![[r#"
        text
        1:other
        [1 match]"#]]
    .assert_eq(&test_ws.says::<Grep>(&json!({"pattern": "other"})));
}

#[test]
fn links_are_not_followed_and_what_lies_outside_is_denied() {
    let test_ws = TestWorkspace::new("//- real/a\nneedle\n");
    std::os::unix::fs::symlink("real", test_ws.path().join("link")).unwrap();
    std::os::unix::fs::symlink("/etc", test_ws.path().join("out")).unwrap();
    expect![[r#"
        real/a
        1:needle
        [1 match]"#]]
    .assert_eq(&test_ws.says::<Grep>(&json!({"pattern": "needle"})));
    for path in ["out", "out/passwd", "/etc", "..", "out/new/file"] {
        let fault = test_ws.call::<Grep>(&json!({"pattern": "root", "path": path})).unwrap_err();
        assert_eq!(fault.kind, Kind::Denied, "{path}");
    }
}

#[test]
fn a_path_to_a_special_file_is_named_by_kind() {
    let test_ws = TestWorkspace::new(TREE);
    let _socket = std::os::unix::net::UnixListener::bind(test_ws.path().join("socket")).unwrap();
    expect!["bad_args: `socket` is a socket, not a regular file; it is not read"]
        .assert_eq(&test_ws.says::<Grep>(&json!({"pattern": "x", "path": "socket"})));
    expect![[r#"
        not_found: `scr` does not exist
        Did you mean `src`?"#]]
    .assert_eq(&test_ws.says::<Grep>(&json!({"pattern": "x", "path": "scr"})));
}

#[test]
fn out_of_time_gives_what_was_found_and_says_so() {
    let test_ws = TestWorkspace::new(TREE);
    let args = serde_json::from_value(json!({"pattern": "go"})).unwrap();
    let search = Search::new(args, Deadline::of(Duration::ZERO)).unwrap();
    expect![[r#"
        no match for `go` in 0 files in `.`
        [stopped after 20 s and 0 files: there may be more; search a smaller part]"#]]
    .assert_eq(&search.run(&test_ws.cx()).unwrap().as_text());
}

#[test]
fn a_cancelled_call_stops_in_the_middle_of_a_large_file() {
    let test_ws = TestWorkspace::empty();
    let file = fs::File::create(test_ws.path().join("large")).unwrap();
    for _ in 0..64 {
        std::io::Write::write_all(&mut &file, "some line of text\n".repeat(1 << 16).as_bytes()).unwrap();
    }
    for path in ["", "large"] {
        let args = serde_json::from_value(json!({"pattern": "[q-z]+ly$", "path": path})).unwrap();
        let search = Search::new(args, Deadline::new()).unwrap();
        let cx = test_ws.cx();
        let (begun, ended) = std::sync::mpsc::channel();
        let took = std::thread::scope(|scope| {
            scope.spawn(move || begun.send((search.run(&cx).unwrap_err().kind, Instant::now())));
            test_ws.cancel.cancel();
            let now = Instant::now();
            let (kind, at) = ended.recv().unwrap();
            assert_eq!(kind, Kind::Cancelled);
            at.saturating_duration_since(now)
        });
        assert!(took < Duration::from_millis(200), "{took:?}");
    }
}
