//! Every key is declared, merged, and widens nothing of an untrusted workspace.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::{collections::BTreeSet, path::Path};

use serde_json::{Value, json};

use super::*;

fn parsed(text: &str) -> Config {
    Config::of_bytes(Path::new("/w/haft.toml"), text.as_bytes())
        .unwrap_or_else(|it| panic!("{text}: {}", it.what))
}

/// A file with this one key; with those that its section needs too.
fn file(section: &Section, key: &Key, value: &str) -> String {
    let needed: String = section
        .keys
        .iter()
        .filter(|it| it.name != key.name && matches!(it.default, Fallback::Required))
        .map(|it| format!("{}\n", it.setting()))
        .collect();
    // A table inside of a section is one of a section with that name.
    format!("{}\n{} = {value}\n{needed}", section.header, key.name)
}

/// The keys that are merged one by one.
fn merged() -> impl Iterator<Item = (&'static Section, &'static Key)> {
    SECTIONS
        .iter()
        .flat_map(|section| section.keys.iter().map(move |key| (*section, key)))
        .filter(|(_, key)| key.merge.is_some())
}

fn path(section: &Section, key: &Key) -> String {
    let names: Vec<&str> = section.path().into_iter().chain([key.name]).collect();
    names.join(".")
}

#[test]
fn every_key_is_merged_by_itself_or_with_its_section() {
    for section in SECTIONS {
        for key in section.keys {
            // `[mcp.tracker]` is another example of `[mcp.files]`.
            let first = section.path().first().copied();
            let whole = SECTIONS.iter().any(|it| it.merge.is_some() && it.path().first().copied() == first);
            assert!(key.merge.is_some() != whole, "{}: one merge", path(section, key));
        }
    }
}

/// The fields of the configuration that a file can set, as paths; of sections that are merged whole, the section.
fn fields() -> BTreeSet<String> {
    let Value::Object(mut all) = serde_json::to_value(Config::default()).unwrap() else { panic!("a table") };
    // Not of a file: the workspace's sections after the merge, and where rules go that were read.
    for name in ["workspace_sections", "workspace_servers"] {
        all.remove(name).unwrap();
    }
    let whole: BTreeSet<&str> =
        SECTIONS.iter().filter(|it| it.merge.is_some()).filter_map(|it| it.path().first().copied()).collect();
    let mut paths = BTreeSet::new();
    for (name, value) in all {
        match value {
            Value::Object(below) if !whole.contains(name.as_str()) && !below.is_empty() => {
                paths.extend(below.keys().filter(|it| *it != "rules").map(|it| format!("{name}.{it}")));
            }
            _ => drop(paths.insert(name)),
        }
    }
    paths
}

#[test]
fn every_field_of_the_configuration_is_a_declared_key() {
    let mut declared: BTreeSet<String> = merged().map(|(section, key)| path(section, key)).collect();
    let whole = SECTIONS.iter().filter(|it| it.merge.is_some()).filter_map(|it| it.path().first().copied());
    declared.extend(whole.filter(|it| *it != "command").map(str::to_owned));
    assert_eq!(declared, fields());
}

/// The value of a key in a configuration.
fn at(config: &Config, path: &str) -> Value {
    let value = serde_json::to_value(config).unwrap();
    path.split('.').fold(value, |value, name| value.get(name).cloned().unwrap_or_default())
}

/// Values of a key, from the one that allows least to the one that allows most.
fn by_width(path: &str) -> Option<&'static [&'static str]> {
    Some(match path {
        "sandbox" => &["\"read-only\"", "\"workspace\"", "\"full\""],
        "hard_links" => &["\"refuse\"", "\"allow\""],
        "net.web" => &["\"none\"", "\"ask\"", "\"known\"", "\"public\""],
        "subagent.nested" => &["false", "true"],
        _ => return None,
    })
}

/// Whether `theirs` allows more than `mine`; `approve` has a test of its own.
fn widens(path: &str, key: &Key, mine: &Value, theirs: &Value) -> bool {
    if let Some(order) = by_width(path) {
        let usual = || Config::default_of(key);
        let place = |value: &Value| {
            let value = if value.is_null() { usual() } else { value.clone() };
            let text = value.to_string();
            order.iter().position(|it| *it == text)
        };
        return place(theirs) > place(mine);
    }
    let names = |value: &Value| -> Option<BTreeSet<String>> {
        Some(value.as_array()?.iter().map(Value::to_string).collect())
    };
    match (names(mine), names(theirs)) {
        // An allowlist: a missing one allows all.
        (None, _) => false,
        (Some(_), None) => true,
        (Some(mine), Some(theirs)) => !theirs.is_subset(&mine),
    }
}

impl Config {
    fn default_of(key: &Key) -> Value {
        match key.default {
            Fallback::Value(value) => value(),
            Fallback::Words(_) => json!("known"),
            Fallback::Required => Value::Null,
        }
    }
}

#[test]
fn no_key_of_an_untrusted_workspace_widens_what_the_user_allows() {
    let mut tried = 0;
    for (section, key) in merged() {
        let path = path(section, key);
        let one = |value: &str| parsed(&file(section, key, value));
        let values: Vec<String> = match (by_width(&path), key.workspace) {
            (Some(order), _) => order.iter().map(|it| (*it).to_owned()).collect(),
            (_, Workspace::Lowers) => ["1", "7", "300", "1000000"].map(str::to_owned).to_vec(),
            _ if key.name == "approve" => {
                ["\"never\"", "\"ask\"", "\"ask-edits\"", "\"auto\""].map(str::to_owned).to_vec()
            }
            _ if key.example.starts_with('[') && key.name != "only" => {
                vec![key.example.to_owned(), "[\"b\", \"c\"]".to_owned()]
            }
            _ => vec![key.example.to_owned()],
        };
        let values = if path == "net.allow" {
            vec!["[\"a.org\"]".to_owned(), "[\"b.org\"]".to_owned()]
        } else {
            values
        };
        let values = if path == "accept_weaker" { vec![key.example.to_owned()] } else { values };
        let mut own: Vec<Config> = values.iter().map(|it| one(it)).collect();
        own.push(Config::default());
        for (mine, theirs) in own.iter().flat_map(|mine| values.iter().map(move |it| (mine, it))) {
            let (both, ignored) = mine.clone().with_workspace(one(theirs), false);
            let (before, now) = (at(mine, &path), at(&both, &path));
            let told = format!("{path}: {before} and {theirs} of the workspace make {now}; {ignored:?}");
            tried += 1;
            match key.workspace {
                Workspace::NeedsTrust | Workspace::OwnFile => assert_eq!(now, before, "{told}"),
                Workspace::Lowers => {
                    let usual = Config::default_of(key).as_u64().unwrap_or(u64::MAX);
                    let number = |it: &Value| it.as_u64().unwrap_or(usual);
                    assert!(number(&now) <= number(&before), "{told}");
                }
                Workspace::Narrows if path == "approve" => {
                    let mode = |it: &Value| serde_json::from_value(it.clone()).unwrap_or_default();
                    assert!(merging::asks_no_less(mode(&now), mode(&before)), "{told}");
                }
                Workspace::Narrows => assert!(!widens(&path, key, &before, &now), "{told}"),
                // These allow nothing: what is shown and listed, what is read first, what is asked and denied.
                Workspace::Counts => assert!(
                    [
                        "list_tokens",
                        "listed",
                        "toolset",
                        "manual_first",
                        "commands.ask",
                        "commands.deny",
                        "agent.profile",
                        "agent.visible",
                    ]
                    .contains(&path.as_str()),
                    "{path} counts in a workspace's file: does it allow anything?"
                ),
            }
            // What did not count is told, unless the other file's value is as good.
            let counts = matches!(key.workspace, Workspace::Counts | Workspace::Lowers);
            let is_list = matches!(key.name, "tools" | "only");
            assert!(counts || is_list || !ignored.is_empty() || now == at(&one(theirs), &path), "{told}");
        }
    }
    assert!(tried > 100, "{tried}");
}

#[test]
fn no_section_of_an_untrusted_workspace_counts_that_is_merged_whole() {
    for section in SECTIONS.iter().filter(|it| it.merge.is_some()) {
        // A secret has one source; the examples of the rule are for a rule that asks.
        let left_out = |name: &str| match section.header {
            "[secret.github]" => name == "file",
            "[[command]]" => name.ends_with("match"),
            _ => false,
        };
        let keys = section.keys.iter().filter(|it| !left_out(it.name));
        let lines: String = keys.map(|it| format!("{}\n", it.setting())).collect();
        let theirs =
            parsed(&format!("{}\n{lines}", section.header).replace("then = \"ask\"", "then = \"allow\""));
        assert_ne!(theirs, Config::default(), "{}", section.header);
        let (both, ignored) = Config::default().with_workspace(theirs.clone(), false);
        assert_eq!((both, ignored.len()), (Config::default(), 1), "{}: {ignored:?}", section.header);
        let (both, ignored) = Config::default().with_workspace(theirs, true);
        let is_own = section.header == "[chat]";
        assert_eq!(
            (both == Config::default(), ignored.len()),
            (is_own, usize::from(is_own)),
            "{}",
            section.header
        );
    }
}

#[test]
fn key_that_is_left_behind_is_noticed() {
    let left = std::panic::catch_unwind(|| {
        // Nothing merges what only a merge makes.
        let theirs =
            Config { workspace_sections: [("x".to_owned(), Default::default())].into(), ..Config::default() };
        Config::default().with_workspace(theirs, true)
    });
    assert!(left.is_err());
}

#[test]
fn reference_is_the_example_in_the_repository() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../haft.example.toml");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&file, reference()).unwrap();
    }
    let there = std::fs::read_to_string(&file).unwrap();
    assert!(there == reference(), "haft.example.toml is not the reference; UPDATE_EXPECT=1 writes it");
}
