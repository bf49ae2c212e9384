//! Wording of comments, names and pages: the forms that can be checked, from `wording.toml`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use regex::Regex;
use serde::Deserialize;

use super::page::REPOSITORY;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    rule: Vec<Rule>,
    #[serde(default)]
    allow: Vec<Allow>,
}

/// A form that is not used.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    of: Vec<Place>,
    #[serde(with = "as_regex")]
    pattern: Regex,
    /// The parts of a line that don't count.
    #[serde(default, with = "as_regex::optional")]
    except: Option<Regex>,
    instead: String,
    /// Examples that the rule has to find, and others that it has to pass.
    finds: Vec<String>,
    passes: Vec<String>,
}

/// A line that may stay, by a part of it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Allow {
    path: String,
    line: String,
    #[expect(dead_code, reason = "for readers of the file; it has to be given")]
    reason: String,
}

#[derive(Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Place {
    /// The first line of a file.
    Module,
    /// The first line of a doc comment.
    Doc,
    Comment,
    /// A line of Markdown outside code blocks.
    Page,
    /// The name of a file, a module or a type, as `snake_case`.
    Name,
    /// The name of a test, as words.
    Test,
}

mod as_regex {
    use regex::Regex;
    use serde::{Deserialize, Deserializer, de::Error};

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Regex, D::Error> {
        Regex::new(&String::deserialize(from)?).map_err(Error::custom)
    }

    pub(super) mod optional {
        use super::{Deserializer, Regex};

        pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
            from: D,
        ) -> Result<Option<Regex>, D::Error> {
            super::deserialize(from).map(Some)
        }
    }
}

/// A text to check.
struct Text {
    path: String,
    line: usize,
    places: &'static [Place],
    text: String,
}

impl Rule {
    fn finds(&self, text: &str) -> bool {
        let rest = self.except.as_ref().map_or(text.into(), |it| it.replace_all(text, ""));
        self.pattern.is_match(&rest)
    }
}

fn rules() -> Rules {
    toml::from_str(include_str!("wording.toml")).unwrap()
}

/// Returns the source files and pages of the repository.
fn files() -> Vec<PathBuf> {
    let repository = Path::new(REPOSITORY);
    let mut files: Vec<PathBuf> = fs::read_dir(repository).unwrap().map(|it| it.unwrap().path()).collect();
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
    files.retain(|it| it.extension().is_some_and(|it| it == "md" || it == "rs"));
    files.sort();
    files
}

/// Returns all texts of a file that rules apply to.
fn texts(path: &str, content: &str) -> Vec<Text> {
    let text =
        |line: usize, places, text: String| Text { path: path.to_owned(), line: line + 1, places, text };
    let file = Path::new(path);
    if file.extension().is_some_and(|it| it == "md") {
        let mut is_code = false;
        let lines = content.lines().enumerate().filter(|(_, line)| {
            let is_fence = line.trim_start().starts_with("```");
            is_code ^= is_fence;
            !is_code && !is_fence
        });
        return lines.map(|(at, line)| text(at, &[Place::Page], without_code(line))).collect();
    }
    let name = Regex::new(r"^\s*(?:pub(?:\([^)]*\))? )?(?:mod|struct|enum|trait|type|union) (\w+)").unwrap();
    let function = Regex::new(r"^\s*(?:async )?fn (\w+)\(").unwrap();
    let mut found = vec![text(0, &[Place::Name], file.file_stem().unwrap().to_string_lossy().into_owned())];
    let (mut was_doc, mut is_test) = (false, false);
    for (at, line) in content.lines().enumerate() {
        let start = line.trim_start();
        if start.starts_with("//") {
            let places: &[Place] = match (at, start.starts_with("///"), was_doc) {
                (0, ..) if start.starts_with("//!") => &[Place::Module, Place::Comment],
                (_, true, false) => &[Place::Doc, Place::Comment],
                _ => &[Place::Comment],
            };
            found.push(text(at, places, without_code(line)));
        } else if let Some(name) = name.captures(line) {
            found.push(text(at, &[Place::Name], snake_case(&name[1])));
        } else if let Some(name) = function.captures(line).filter(|_| is_test) {
            found.push(text(at, &[Place::Test], name[1].replace('_', " ")));
        }
        was_doc = start.starts_with("///");
        is_test = start.starts_with("#[") && (is_test || start.contains("test"));
    }
    found
}

fn without_code(line: &str) -> String {
    line.trim_end().split('`').step_by(2).collect::<Vec<_>>().join("``")
}

fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !snake.is_empty() && !snake.ends_with('_') {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}

#[test]
fn comments_names_and_pages_avoid_the_listed_forms() {
    let rules = rules();
    let texts: Vec<Text> = files()
        .iter()
        .flat_map(|it| {
            let path = it.strip_prefix(REPOSITORY).unwrap().display().to_string();
            texts(&path, &fs::read_to_string(it).unwrap())
        })
        .collect();
    assert!(texts.len() > 20_000, "{}", texts.len());
    let (mut wrong, mut used) = (Vec::new(), vec![false; rules.allow.len()]);
    for it in texts {
        let applies = |rule: &&Rule| rule.of.iter().any(|of| it.places.contains(of)) && rule.finds(&it.text);
        for rule in rules.rule.iter().filter(applies) {
            match rules.allow.iter().position(|allow| allow.path == it.path && it.text.contains(&allow.line))
            {
                Some(at) => used[at] = true,
                None => {
                    wrong.push(format!("{}:{}: {}\n    {}", it.path, it.line, it.text.trim(), rule.instead));
                }
            }
        }
    }
    let unused = rules.allow.iter().zip(&used).filter(|(_, used)| !**used);
    wrong.extend(
        unused.map(|(it, _)| format!("wording.toml allows `{}` in {} without need", it.line, it.path)),
    );
    assert!(wrong.is_empty(), "{} lines:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn each_rule_finds_its_examples_and_passes_the_others() {
    for rule in rules().rule {
        for (examples, wanted) in [(&rule.finds, true), (&rule.passes, false)] {
            assert!(!examples.is_empty(), "{}", rule.pattern);
            for example in examples {
                assert_eq!(rule.finds(example), wanted, "{} {example}", rule.pattern);
            }
        }
    }
}

#[test]
fn texts_of_a_file_have_the_places_that_rules_name() {
    let code = "//! A.\n\n/// B `c`.\n/// D.\nstruct OneGuest;\n\n#[test]\nfn e_f() {\n    // G\n}\n";
    let texts = texts("src/guest_list.rs", code);
    let found: Vec<_> = texts.iter().map(|it| (it.line, it.places, it.text.trim())).collect();
    assert_eq!(
        found,
        [
            (1, &[Place::Name][..], "guest_list"),
            (1, &[Place::Module, Place::Comment], "//! A."),
            (3, &[Place::Doc, Place::Comment], "/// B ``."),
            (4, &[Place::Comment], "/// D."),
            (5, &[Place::Name], "one_guest"),
            (8, &[Place::Test], "e f"),
            (9, &[Place::Comment], "// G"),
        ]
    );
    let page = self::texts("a.md", "A `b` c\n```sh\nd\n```\ne\n");
    assert_eq!(page.iter().map(|it| &*it.text).collect::<Vec<_>>(), ["A `` c", "e"]);
}
