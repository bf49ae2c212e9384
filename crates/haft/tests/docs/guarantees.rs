//! The table of guarantees in docs/security.md: every guarantee has a row, and every test it names exists.

use std::{fs, path::Path};

use super::page::REPOSITORY;

/// The folders with tests.
const SOURCES: [&str; 2] = ["src", "tests"];

#[test]
fn table_of_guarantees_names_tests_that_exist() {
    let page = fs::read_to_string(Path::new(REPOSITORY).join("docs/security.md")).unwrap();
    let (_, section) = page.split_once("### How each promise is kept").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows: Vec<Vec<&str>> = section
        .lines()
        .filter(|line| line.starts_with("| G"))
        .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
        .collect();
    let source = all_source();
    for row in &rows {
        let (name, tests) = (row[0], row[2]);
        let named: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        assert!(!named.is_empty(), "the row of {name} names no test: {tests}");
        for test in named {
            let is_there = source.contains(&format!("fn {test}("));
            assert!(is_there, "the row of {name} names `{test}`, which is not a test");
        }
    }
    for number in 1..=14 {
        let name = format!("G{number}");
        assert!(rows.iter().any(|row| row[0] == name), "{name} has no row");
        let policy = fs::read_to_string(Path::new(REPOSITORY).join("SECURITY.md")).unwrap();
        assert!(policy.contains(&format!("| {name} |")), "SECURITY.md does not promise {name}");
    }
}

/// Returns all Rust source of the crates, in one text.
fn all_source() -> String {
    let crates = fs::read_dir(Path::new(REPOSITORY).join("crates")).unwrap();
    let mut folders: Vec<_> =
        crates.flat_map(|it| SOURCES.map(|name| it.as_ref().unwrap().path().join(name))).collect();
    let mut text = String::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") {
                text.push_str(&fs::read_to_string(path).unwrap());
            }
        }
    }
    text
}
