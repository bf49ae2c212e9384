//! Wording of comments and pages: the forms that can be checked, from `wording.toml`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use regex::Regex;
use serde::Deserialize;

use super::page::REPOSITORY;

#[derive(Deserialize)]
struct Rules {
    rule: Vec<Rule>,
}

/// A form that is not used.
#[derive(Deserialize)]
struct Rule {
    /// Where it is looked for: the first line of a module, comments in code, pages.
    of: Vec<Place>,
    pattern: String,
    instead: String,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Place {
    Module,
    Comment,
    Page,
}

/// Every line that is checked: where it is, what it is, and its text.
fn lines() -> Vec<(String, Place, String)> {
    let repository = Path::new(REPOSITORY);
    let mut files: Vec<PathBuf> = fs::read_dir(repository).unwrap().map(|it| it.unwrap().path()).collect();
    files.retain(|it| it.extension().is_some_and(|it| it == "md"));
    let mut folders = ["crates", "docs", "fuzz", "examples"].map(|it| repository.join(it)).to_vec();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true if !path.ends_with("target") => folders.push(path),
                true => {}
                false => files.push(path),
            }
        }
    }
    let mut found = Vec::new();
    for file in files {
        let is_code = file.extension().is_some_and(|it| it == "rs");
        if !is_code && file.extension().is_none_or(|it| it != "md") {
            continue;
        }
        let shown = file.strip_prefix(repository).unwrap().display().to_string();
        for (at, line) in fs::read_to_string(&file).unwrap().lines().enumerate() {
            let place = match (is_code, line.trim_start().starts_with("//")) {
                (true, true) if at == 0 && line.starts_with("//!") => Place::Module,
                (true, true) => Place::Comment,
                (true, false) => continue,
                (false, _) => Place::Page,
            };
            found.push((format!("{shown}:{}", at + 1), place, line.trim_end().to_owned()));
        }
    }
    assert!(found.len() > 20_000, "{}", found.len());
    found
}

#[test]
fn comments_and_pages_avoid_the_listed_forms() {
    let rules: Rules = toml::from_str(include_str!("wording.toml")).unwrap();
    let rules: Vec<(Regex, Rule)> =
        rules.rule.into_iter().map(|it| (Regex::new(&it.pattern).unwrap(), it)).collect();
    let mut wrong = Vec::new();
    for (at, place, line) in lines() {
        for (pattern, rule) in &rules {
            if rule.of.contains(&place) && pattern.is_match(&line) {
                wrong.push(format!("{at}: {}\n    {}", line.trim(), rule.instead));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn listed_forms_are_found() {
    let rules: Rules = toml::from_str(include_str!("wording.toml")).unwrap();
    let finds = |line: &str| rules.rule.iter().any(|it| Regex::new(&it.pattern).unwrap().is_match(line));
    for line in ["//! What becomes of one request?", "/// A command of the person's, and its output."] {
        assert!(finds(line), "{line}");
    }
    for line in ["//! HTTP requests: routes each to a session.", "/// The end of the person's command."] {
        assert!(!finds(line), "{line}");
    }
}
