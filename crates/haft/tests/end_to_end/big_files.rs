//! Big files: the head and the tail without counting, pages of at most 64 kB, and search results by the thousand.

use std::{fs::File, io::Write, os::unix::fs::FileExt};

use serde_json::{Value, json};

use crate::support::{Server, TestWorkspace};

/// More than the 256 MiB of a file that can be edited.
const BIG: u64 = 300 << 20;

/// The maximum of a page.
const PAGE: usize = 64_000;

/// Lines at the head of the big file. They fill the part that is searched for binary content.
const HEAD: usize = 1_000;

/// Creates `log`: lines, one long line that takes no space on the disk, and three lines.
fn put_log(test_ws: &TestWorkspace) {
    let head: String = (1..=HEAD).map(|number| format!("line {number}\n")).collect();
    test_ws.put("log", head);
    let file = File::options().write(true).open(test_ws.at("log")).unwrap();
    file.write_all_at("\nlast but two\nlast but one\nlast\n".as_bytes(), BIG).unwrap();
}

/// Returns the number of lines in a footer that no longer says "at least".
fn total(server: &Server) -> String {
    // A line past the end is looked for in the whole file.
    let past = server.call("read", &json!({"path": "log", "offset": 1_000_000}));
    past.text.split_once(" has ").unwrap().1.split_once(" lines").unwrap().0.to_owned()
}

#[test]
fn head_and_tail_of_a_big_file_are_shown_without_counting_its_lines() {
    let test_ws = TestWorkspace::new();
    put_log(&test_ws);
    let server = test_ws.serve();
    let tail = server.does("read", &json!({"path": "log", "offset": -3, "limit": 2}));
    let (lines, footer) = tail.rsplit_once('\n').unwrap();
    assert_eq!(lines, "-3|last but two\n-2|last but one");
    assert!(footer.starts_with("[lines -3 to -2 of at least "), "{footer}");
    assert!(footer.ends_with(", numbered from the end; next: offset -1]"), "{footer}");
    let rest = server.does("read", &json!({"path": "log", "offset": -1}));
    assert!(rest.starts_with("-1|last\n[lines -1 to -1 of ") && rest.ends_with(" from the end]"), "{rest}");

    // The head has numbers and anchors, as in every file.
    let head = server.does("read", &json!({"path": "log", "limit": 2}));
    let (lines, footer) = head.rsplit_once('\n').unwrap();
    assert!(lines.starts_with("1:") && lines.contains("|line 1\n2:") && lines.ends_with("|line 2"), "{head}");
    assert!(footer.starts_with("[lines 1-2 of ") && footer.ends_with("; next: offset 3]"), "{footer}");

    // A line past the end needs the whole count, and from then on it is known.
    assert_eq!(total(&server), "1004");
    let head = server.does("read", &json!({"path": "log", "limit": 1}));
    assert!(head.ends_with("[lines 1-1 of 1004; next: offset 2]"), "{head}");
    let end = server.does("read", &json!({"path": "log", "offset": 1_003}));
    assert!(end.ends_with("|last\n[lines 1003-1004 of 1004]"), "{end}");

    // It grows, and is not counted again; it is replaced, and is.
    File::options().append(true).open(test_ws.at("log")).unwrap().write_all(b"more\n").unwrap();
    assert_eq!(total(&server), "1005");
    let tail = server.does("read", &json!({"path": "log", "offset": -1}));
    assert!(tail.starts_with("-1|more\n[lines -1 to -1 of 1005, "), "{tail}");
    test_ws.put("log", "short\n");
    assert_eq!(server.does("read", &json!({"path": "log", "offset": -1})).split('|').nth(1), Some("short"));
}

#[test]
fn a_line_of_a_big_file_can_be_reached_from_its_end_by_column() {
    let test_ws = TestWorkspace::new();
    put_log(&test_ws);
    let long = "x".repeat(3_000);
    let file = File::options().append(true).open(test_ws.at("log")).unwrap();
    (&file).write_all(format!("{long}end\n").as_bytes()).unwrap();
    let server = test_ws.serve();
    let tail = server.does("read", &json!({"path": "log", "offset": -1}));
    assert!(tail.contains(" [1003 more bytes]\n[line -1 goes on: offset -1, column 2001]\n"), "{tail}");
    let rest = server.does("read", &json!({"path": "log", "offset": -1, "column": 3_000}));
    assert_eq!(rest, "xend\n[line -1, bytes 3000-3003 of 3003]");
}

/// Reads a file to its end as a footer says how, and returns its lines.
fn read_all(server: &Server, path: &str, limit: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut arguments = json!({"path": path, "limit": limit});
    loop {
        let page = server.does("read", &arguments);
        assert!(page.len() <= PAGE, "{} bytes", page.len());
        let (shown, footer) = page.rsplit_once('\n').unwrap();
        // A long line is followed by how to go on with it.
        let shown = shown.lines().filter(|line| !line.starts_with('['));
        lines.extend(shown.map(|line| line.split_once('|').unwrap().1.to_owned()));
        let Some((_, next)) = footer.split_once("next: offset ") else { return lines };
        arguments["offset"] = Value::from(next.trim_end_matches(']').parse::<i64>().unwrap());
    }
}

#[test]
fn a_page_has_at_most_64_kb_whatever_its_limit_and_says_how_to_go_on() {
    let test_ws = TestWorkspace::new();
    let line = |number: usize| format!("{number} {}", "é€".repeat(number % 60));
    let lines: Vec<String> = (0..4_000).map(line).collect();
    test_ws.put("utf8", lines.join("\n"));
    // Its text is longer than its bytes.
    let wide: String = format!("\u{feff}{}", lines.join("\n"));
    test_ws.put("utf16", wide.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>());
    // Too large to be loaded as a whole.
    test_ws.put("large", format!("{}\n{}", lines.join("\n"), "y".repeat(9 << 20)));
    let server = test_ws.serve();
    for path in ["utf8", "utf16"] {
        assert_eq!(read_all(&server, path, 100_000), lines, "{path}");
    }
    let mut large = read_all(&server, "large", 100_000);
    let last = large.pop().unwrap();
    assert!(last.starts_with("yyy") && last.ends_with(" more bytes]"), "{last}");
    assert_eq!(large, lines);
}

#[test]
fn results_of_glob_are_paged_past_ten_thousand() {
    let test_ws = TestWorkspace::new();
    for folder in 0..12 {
        let path = test_ws.at(&format!("d{folder:02}"));
        std::fs::create_dir_all(&path).unwrap();
        (0..1_000).for_each(|number| drop(File::create(path.join(format!("{number:03}.txt"))).unwrap()));
    }
    let server = test_ws.serve();
    let page = server.does("glob", &json!({"pattern": "*.txt", "offset": 11_498, "limit": 3}));
    assert_eq!(
        page,
        "d11/498.txt\nd11/499.txt\nd11/500.txt\n[showing 11499 to 11501 of 12,000 files; next: offset 11501]"
    );
    let end = server.does("glob", &json!({"pattern": "*.txt", "offset": 11_999}));
    assert!(end.starts_with("d11/999.txt\n[showing 12000 to 12000 of 12,000 files; that is all]"), "{end}");
}
