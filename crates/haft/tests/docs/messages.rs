//! Messages that docs/troubleshooting.md explains: each is one that the program still prints.

use std::{fs, path::Path};

use super::page::{Page, REPOSITORY};

/// Shorter fragments of a message occur by accident.
const SHORTEST: usize = 8;

#[test]
fn every_message_that_is_explained_is_one_of_the_programs() {
    let mut sources = String::new();
    for member in fs::read_dir(Path::new(REPOSITORY).join("crates")).unwrap() {
        add_sources(&member.unwrap().path().join("src"), &mut sources);
    }
    let page = Page::read("docs/troubleshooting.md");
    let mut count = 0;
    for row in page.text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| message")) {
        let first = row.split(" | ").next().unwrap_or_default();
        for quoted in quotes(first) {
            // A placeholder, in capitals or `…`, stands for a different value each time.
            let fixed = quoted.split(['…', '`', '"']).map(str::trim);
            let fixed = fixed.filter(|it| it.len() >= SHORTEST && *it != it.to_uppercase());
            for fragment in fixed {
                assert!(sources.contains(fragment), "no source says `{fragment}`: {row}");
                count += 1;
            }
        }
    }
    assert!(count > 10, "the page explains {count} messages");
}

/// Returns the spans of code in a text, with one or two backticks around them.
fn quotes(text: &str) -> Vec<&str> {
    let mut quotes = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find('`') {
        let marks = if rest[start..].starts_with("``") { "``" } else { "`" };
        let inside = &rest[start + marks.len()..];
        let Some(end) = inside.find(marks) else { break };
        quotes.push(inside[..end].trim());
        rest = &inside[end + marks.len()..];
    }
    quotes
}

fn add_sources(folder: &Path, sources: &mut String) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            add_sources(&path, sources);
        } else if path.extension().is_some_and(|it| it == "rs") {
            // A text that goes on in the next line of the source is one text.
            let text = fs::read_to_string(&path).unwrap();
            let lines: Vec<&str> = text.split("\\\n").collect();
            let joined: Vec<&str> = lines
                .iter()
                .enumerate()
                .map(|(at, it)| if at == 0 { *it } else { it.trim_start() })
                .collect();
            sources.push_str(&joined.concat());
            sources.push('\n');
        }
    }
}

#[test]
fn messages_are_found_between_their_marks() {
    assert_eq!(quotes("`a b` and `` c `d` e ``, `f"), ["a b", "c `d` e"]);
}
