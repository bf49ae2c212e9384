//! Encodings and line endings: bytes outside an edit stay as they were.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
};

use serde_json::{Value, json};

use crate::support::TestWorkspace;

fn utf16(text: &str, to_bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
    text.encode_utf16().flat_map(to_bytes).collect()
}

/// Files with `middle` in the middle, and the same with `MIDDLE` there.
fn files() -> Vec<(&'static str, Vec<u8>, Vec<u8>)> {
    let both = |name, make: &dyn Fn(&str) -> Vec<u8>| (name, make("middle"), make("MIDDLE"));
    vec![
        both("utf8", &|it| format!("grün\n{it}\nüber\n").into_bytes()),
        both("bom", &|it| format!("\u{feff}grün\n{it}\nüber\n").into_bytes()),
        both("utf16le", &|it| utf16(&format!("\u{feff}grün 𝄞\r\n{it}\r\nüber\r\n"), u16::to_le_bytes)),
        both("utf16be", &|it| utf16(&format!("\u{feff}grün 𝄞\n{it}\nüber"), u16::to_be_bytes)),
        both("latin1", &|it| [b"gr\xfcn\n", it.as_bytes(), b"\n\xfcber \x80 \xa4\n"].concat()),
        both("crlf", &|it| format!("one\r\n{it}\r\nthree\r\n").into_bytes()),
        both("mixed", &|it| format!("one\r\n{it}\nthree\rfour\r\n\n").into_bytes()),
        both("no_end", &|it| format!("one\n{it}\nthree").into_bytes()),
        both("no_end_at_all", &|it| it.as_bytes().to_vec()),
        both("tabs", &|it| format!("\tone \n\t\t{it}\t\n  three  \n").into_bytes()),
        both("controls", &|it| format!("\u{1b}[31m\u{200b}\u{2028}\n{it}\n\u{feff}\u{85}\n").into_bytes()),
    ]
}

/// Ways to turn `middle` into `MIDDLE`.
fn ways(path: &str) -> [(&'static str, Value); 3] {
    [
        ("edit", json!({"path": path, "edits": [{"old": "middle", "new": "MIDDLE"}]})),
        ("editor", json!({"command": "str_replace", "path": path, "old_str": "middle", "new_str": "MIDDLE"})),
        (
            "edit",
            json!({"path": path, "edits": [{"old": "mid", "new": "MID"}, {"old": "dle", "new": "DLE"}]}),
        ),
    ]
}

#[test]
fn an_edit_changes_its_own_bytes_only_and_undo_gives_back_all() {
    let test_ws = TestWorkspace::new();
    for (name, before, after) in files() {
        test_ws.put(name, &before);
        fs::set_permissions(test_ws.at(name), fs::Permissions::from_mode(0o751)).unwrap();
        for (tool, arguments) in ways(name) {
            test_ws.call(tool, &arguments).must("ok");
            assert_eq!(test_ws.bytes(name), after, "{tool} on {name}");
            assert_eq!(fs::metadata(test_ws.at(name)).unwrap().mode() & 0o7777, 0o751, "{tool} on {name}");
            test_ws.call("undo", &json!({"path": name})).must("ok");
            assert_eq!(test_ws.bytes(name), before, "undo of {tool} on {name}");
            assert_eq!(
                fs::metadata(test_ws.at(name)).unwrap().mode() & 0o7777,
                0o751,
                "undo of {tool} on {name}"
            );
        }
    }
}

#[test]
fn an_edit_by_anchor_takes_over_the_ending_of_its_line() {
    let test_ws = TestWorkspace::new();
    for (name, before, after) in files() {
        test_ws.put(name, &before);
        let shown = test_ws.call("read", &json!({"path": name})).must("ok").text();
        let line = shown.lines().find(|line| line.contains("middle")).unwrap();
        let (anchor, text) = line.split_once('|').unwrap();
        let edit = json!({"anchor": anchor, "new": text.replace("middle", "MIDDLE")});
        test_ws.call("edit", &json!({"path": name, "edits": [edit]})).must("ok");
        assert_eq!(test_ws.bytes(name), after, "{name}");
    }
}

#[test]
fn new_lines_end_as_the_lines_beside_them() {
    let test_ws = TestWorkspace::new();
    for (name, before, after) in [
        ("crlf", &b"one\r\ntwo\r\n"[..], &b"one\r\nnew\r\ntwo\r\nlast\r\n"[..]),
        ("no_end", b"one\ntwo", b"one\nnew\ntwo\nlast"),
        ("bom", b"\xef\xbb\xbfone\r\ntwo\r\n", b"\xef\xbb\xbfone\r\nnew\r\ntwo\r\nlast\r\n"),
    ] {
        for tool in ["edit", "editor"] {
            test_ws.put(name, before);
            if tool == "edit" {
                let edits = json!([{"old": "one\n", "new": "one\nnew\n"}, {"insert": "end", "new": "last"}]);
                test_ws.call("edit", &json!({"path": name, "edits": edits})).must("ok");
            } else {
                for (line, new) in [(1, "new"), (3, "last")] {
                    let insert =
                        json!({"command": "insert", "path": name, "insert_line": line, "new_str": new});
                    test_ws.call("editor", &insert).must("ok");
                }
            }
            assert_eq!(
                test_ws.bytes(name).escape_ascii().to_string(),
                after.escape_ascii().to_string(),
                "{tool} on {name}"
            );
        }
    }
}

#[test]
fn a_file_that_is_replaced_keeps_encoding_mark_endings_and_mode() {
    let test_ws = TestWorkspace::new();
    let new = "nür\nneü\n";
    for (name, before, after) in [
        ("bom", "\u{feff}ä\n".as_bytes().to_vec(), format!("\u{feff}{new}").into_bytes()),
        ("crlf", b"a\r\nb\r\n".to_vec(), new.replace('\n', "\r\n").into_bytes()),
        ("latin1", b"gr\xfcn\n".to_vec(), b"n\xfcr\nne\xfc\n".to_vec()),
        (
            "utf16",
            utf16("\u{feff}ä\r\n", u16::to_le_bytes),
            utf16(&format!("\u{feff}{}", new.replace('\n', "\r\n")), u16::to_le_bytes),
        ),
    ] {
        test_ws.put(name, &before);
        fs::set_permissions(test_ws.at(name), fs::Permissions::from_mode(0o751)).unwrap();
        test_ws.call("read", &json!({"path": name})).must("ok");
        test_ws.call("write", &json!({"path": name, "content": new, "overwrite": true})).must("ok");
        assert_eq!(
            test_ws.bytes(name).escape_ascii().to_string(),
            after.escape_ascii().to_string(),
            "{name}"
        );
        assert_eq!(fs::metadata(test_ws.at(name)).unwrap().mode() & 0o7777, 0o751, "{name}");
        test_ws.call("undo", &json!({})).must("ok");
        assert_eq!(test_ws.bytes(name), before, "{name}");
    }
}

#[test]
fn what_an_encoding_does_not_have_is_refused_and_the_file_stays() {
    let test_ws = TestWorkspace::new();
    test_ws.put("latin1", b"gr\xfcn\n");
    let fault = test_ws
        .call("edit", &json!({"path": "latin1", "edits": [{"old": "gr", "new": "漢"}]}))
        .must("bad_args");
    assert!(fault.text().contains('漢'), "{}", fault.text());
    assert_eq!(test_ws.bytes("latin1"), b"gr\xfcn\n");
}

#[test]
fn what_is_written_is_what_is_in_the_file() {
    let test_ws = TestWorkspace::new();
    for (name, content) in [
        ("plain", "one\ntwo\n"),
        ("empty", ""),
        ("no_end", "one\ntwo"),
        ("crlf", "one\r\ntwo\r\n"),
        ("mixed", "one\r\ntwo\nthree\r"),
        ("bom", "\u{feff}one\n"),
        ("tabs", "\tone\t\n \ttwo"),
        ("controls", "\u{1b}[0m\u{200b}\u{feff}x\u{2028}"),
    ] {
        for (tool, arguments) in [
            ("write", json!({"path": name, "content": content})),
            ("editor", json!({"command": "create", "path": name, "file_text": content})),
        ] {
            test_ws.call(tool, &arguments).must("ok");
            assert_eq!(test_ws.text(name), content, "{tool} {name}");
            test_ws.call("editor", &json!({"command": "undo_edit", "path": name})).must("ok");
            assert!(!test_ws.at(name).exists(), "undo of {tool} {name} removes the file");
        }
    }
}

#[test]
fn an_empty_file_can_be_read_and_filled() {
    let test_ws = TestWorkspace::new();
    test_ws.put("empty", "");
    assert!(test_ws.call("read", &json!({"path": "empty"})).must("ok").text().contains("is empty"));
    test_ws.call("edit", &json!({"path": "empty", "edits": [{"insert": "end", "new": "first"}]})).must("ok");
    assert!(test_ws.text("empty").trim_end() == "first", "{:?}", test_ws.text("empty"));
    test_ws.call("undo", &json!({})).must("ok");
    assert_eq!(test_ws.text("empty"), "");
}

#[test]
fn an_edit_takes_its_text_as_it_stands() {
    let test_ws = TestWorkspace::new();
    for (old, new) in
        [("a.c", "$&"), ("a.c", "\\1$1${0}"), ("[x]*", "(.*)"), ("%s\\n", "\\u0041"), ("a\"b'", "`$(x)`")]
    {
        test_ws.put("file", format!("abc\n{old}\n"));
        test_ws.call("edit", &json!({"path": "file", "edits": [{"old": old, "new": new}]})).must("ok");
        assert_eq!(test_ws.text("file"), format!("abc\n{new}\n"));
    }
}
