//! Every key is declared, merged, and widens nothing of an untrusted workspace.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::{collections::BTreeSet, ops::RangeInclusive, path::Path};

use serde_json::{Value, json};

use super::*;

fn parsed(text: &str) -> Config {
    Config::of_bytes(Path::new("/w/haft.toml"), text.as_bytes())
        .unwrap_or_else(|it| panic!("{text}: {}", it.what))
}

/// Returns a file with this key, and with the keys that its section needs.
fn file(section: &Section, key: &Key, value: &str) -> String {
    let needed: String = section
        .keys
        .iter()
        .filter(|it| it.name != key.name && matches!(it.default, Fallback::Required))
        .map(|it| format!("{}\n", it.setting()))
        .collect();
    // A table inside a section belongs to a section of that name.
    format!("{}\n{} = {value}\n{needed}", section.header, key.name)
}

/// Returns the keys that are merged one by one.
fn merged() -> impl Iterator<Item = (&'static Section, &'static Key)> {
    let by_key = sections().into_iter().filter(|it| it.by_key);
    by_key.flat_map(|section| section.keys.iter().map(move |key| (section, key)))
}

fn path(section: &Section, key: &Key) -> String {
    let names: Vec<&str> = section.path().into_iter().chain([key.name]).collect();
    names.join(".")
}

/// Returns the fields of a section's struct that a file can set, as serde knows them.
fn fields_of<T: serde::de::DeserializeOwned>() -> BTreeSet<String> {
    types::names::<T>().iter().map(|it| (*it).to_owned()).collect()
}

#[test]
fn every_name_that_serde_reads_is_declared_and_every_declared_key_is_read() {
    use crate::config::*;
    let checked: Vec<(&[&str], BTreeSet<String>)> = vec![
        (&[], fields_of::<Config>()),
        (&["commands"], fields_of::<CommandsSection>()),
        (&["command"], fields_of::<CommandRule>()),
        (&["hook"], fields_of::<HookSection>()),
        (&["net"], fields_of::<Net>()),
        (&["secret", "github"], fields_of::<SecretSection>()),
        (&["search"], fields_of::<SearchSection>()),
        (&["ssh"], fields_of::<SshSection>()),
        (&["programs"], fields_of::<ProgramsSection>()),
        (&["tool", "weather"], fields_of::<ToolSection>()),
        (&["mcp", "files"], fields_of::<ServerSection>()),
        (&["mcp", "tracker"], fields_of::<ServerSection>()),
        (&["mcp", "tracker", "oauth"], fields_of::<OauthSection>()),
        (&["agent"], fields_of::<AgentSection>()),
        (&["chat"], fields_of::<ChatSection>()),
        (&["limits"], fields_of::<LimitsSection>()),
        (&["undo"], fields_of::<UndoSection>()),
        (&["subagent"], fields_of::<SubagentSection>()),
        (&["trigger"], fields_of::<TriggerSection>()),
        (&["models", "local"], fields_of::<ModelSection>()),
        (&["models", "c", "dialect"], fields_of::<DialectSection>()),
        (&["workers"], fields_of::<WorkersSection>()),
    ];
    assert_eq!(
        sections().iter().map(|it| it.path()).collect::<Vec<_>>(),
        checked.iter().map(|(path, _)| path.to_vec()).collect::<Vec<_>>()
    );
    for (path, read) in checked {
        // Two sections may show different keys of one table.
        let same = |it: &&Section| {
            let it = it.path();
            it.len() == path.len()
                && it.first() == path.first()
                && (path.len() < 2 || it.get(2) == path.get(2))
        };
        let mut declared: BTreeSet<String> = sections()
            .iter()
            .copied()
            .filter(same)
            .flat_map(|it| it.keys)
            .map(|it| it.name.to_owned())
            .collect();
        let below = sections().into_iter().map(Section::path).filter(|it| it.len() > path.len());
        let is_below = |it: &Vec<&str>| it.first() == path.first() || path.is_empty();
        let depth = path.len();
        declared.extend(below.filter(is_below).filter_map(|it| Some((*it.get(depth)?).to_owned())));
        assert_eq!(declared, read, "{path:?}");
    }
}

#[test]
fn examples_and_defaults_are_of_the_declared_type() {
    for section in sections() {
        for key in section.keys {
            let example: toml::Table = toml::from_str(&key.setting()).unwrap();
            let example = serde_json::to_value(example.get(key.name).unwrap()).unwrap();
            let mut values = vec![example];
            if let Fallback::Value(value) = key.default {
                values.push(value());
            }
            for value in values {
                assert!(is_of(&value, &key.kind), "{}: {value} is not a {}", path(section, key), key.kind());
                let within = |range: &RangeInclusive<u64>| range.contains(&value.as_u64().unwrap());
                assert!(key.range.as_ref().is_none_or(within), "{}: {value}", path(section, key));
            }
            assert!(key.unit.is_none() || matches!(key.kind, Type::Whole), "{}", path(section, key));
        }
    }
}

fn is_of(value: &Value, kind: &Type) -> bool {
    match kind {
        Type::String | Type::Path => value.is_string(),
        Type::Character => value.as_str().is_some_and(|it| it.chars().count() == 1),
        Type::Boolean => value.is_boolean(),
        Type::Whole => value.is_u64(),
        Type::OneOf(names) => value.as_str().is_some_and(|it| names().contains(&it)),
        Type::List(of) => value.as_array().is_some_and(|it| it.iter().all(|it| is_of(it, of))),
        Type::Table(of) => value.as_object().is_some_and(|it| it.values().all(|it| is_of(it, of))),
        Type::Numbers(names) => value
            .as_object()
            .is_some_and(|it| it.iter().all(|(name, it)| names().contains(&name.as_str()) && it.is_number())),
        Type::Words(words) => {
            let kinds =
                [("string", value.is_string()), ("list", value.is_array()), ("table", value.is_object())];
            kinds.iter().any(|(word, is)| *is && words.contains(word))
        }
    }
}

#[test]
fn numbers_beyond_their_range_are_brought_into_it() {
    let mut tried = 0;
    for section in sections() {
        for key in section.keys {
            let Some(range) = &key.range else { continue };
            for (given, holds) in [(0, *range.start()), (i64::MAX as u64, *range.end())] {
                let config = parsed(&file(section, key, &given.to_string()));
                let path = path(section, key)
                    .replace("hook.", "hook.0.")
                    .replace("tool.", "tool.user.")
                    .replace("mcp.", "mcp.user.");
                assert_eq!(at(&config, &path), json!(holds), "{path}");
                tried += 1;
            }
        }
    }
    assert!(tried > 10, "{tried}");
}

#[test]
fn command_line_counts_as_the_persons_own_word() {
    for (section, key) in merged() {
        let path = path(section, key);
        let (low, high) = match (by_width(&path), key.workspace) {
            (Some(order), _) => (order.first().unwrap().to_string(), order.last().unwrap().to_string()),
            (_, Workspace::Lowers) => ("3".to_owned(), "40".to_owned()),
            _ => continue,
        };
        let [mine, typed] = [low, high].map(|it| parsed(&file(section, key, &it)));
        let both = mine.with_command_line(typed.clone());
        assert_eq!(at(&both, &path), at(&typed, &path), "{path}");
    }
    let mine = parsed(
        "roots = [\"/a\"]\naccept_weaker = [\"landlock\"]\ntoolset = \"nav\"\n[chat]\nnotify = \"none\"",
    );
    let typed = parsed("roots = [\"/b\"]\naccept_weaker = [\"seccomp\"]\n[chat]\nnotify = \"bell\"");
    let both = mine.with_command_line(typed);
    assert_eq!(
        (both.roots, both.accept_weaker),
        (vec!["/a".into(), "/b".into()], vec!["landlock".into(), "seccomp".into()])
    );
    assert_eq!((both.toolset.as_deref(), both.chat.notify), (Some("nav"), Some(crate::config::Notify::Bell)));
}

/// Returns the value of a key in a configuration.
fn at(config: &Config, path: &str) -> Value {
    let value = serde_json::to_value(config).unwrap();
    // A number is a place in a list of tables.
    let below = |value: &Value, name: &str| match name.parse::<usize>() {
        Ok(place) => value.get(place).cloned(),
        Err(_) => value.get(name).cloned(),
    };
    path.split('.').fold(value, |value, name| below(&value, name).unwrap_or_default())
}

/// Returns values of a key, from the narrowest to the widest.
fn by_width(path: &str) -> Option<&'static [&'static str]> {
    Some(match path {
        "sandbox" => &["\"read-only\"", "\"workspace\"", "\"full\""],
        "hard_links" => &["\"refuse\"", "\"allow\""],
        "net.web" => &["\"none\"", "\"ask\"", "\"known\"", "\"public\""],
        "subagent.nested" => &["false", "true"],
        _ => return None,
    })
}

/// Returns whether `theirs` allows more than `mine`; `approve` has its own test.
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
            (_, Workspace::Lowers) => ["0", "1", "7", "300", "1000000"].map(str::to_owned).to_vec(),
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
                    // 0 means that calls have no limit.
                    let limit = |it: u64| if it == 0 && path == "agent.max_calls" { u64::MAX } else { it };
                    let number = |it: &Value| limit(it.as_u64().unwrap_or(usual));
                    assert!(number(&now) <= number(&before), "{told}");
                }
                Workspace::Narrows if path == "approve" => {
                    let mode = |it: &Value| serde_json::from_value(it.clone()).unwrap_or_default();
                    assert!(merging::asks_no_less(mode(&now), mode(&before)), "{told}");
                }
                Workspace::Narrows => assert!(!widens(&path, key, &before, &now), "{told}"),
                // These grant nothing: shown and listed tools, manuals to read first, commands to ask about
                // or deny.
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
            // An ignored value is reported, unless the other file's value is as good.
            let counts = matches!(key.workspace, Workspace::Counts | Workspace::Lowers);
            let is_list = matches!(key.name, "tools" | "only");
            assert!(counts || is_list || !ignored.is_empty() || now == at(&one(theirs), &path), "{told}");
        }
    }
    assert!(tried > 100, "{tried}");
}

#[test]
fn no_section_of_an_untrusted_workspace_counts_that_is_merged_whole() {
    let outer = |it: &&Section| !it.by_key && !matches!(it.path().as_slice(), [_, "tracker", ..] | [_, _, _]);
    for section in sections().into_iter().filter(outer) {
        // A secret has one source; the rule's examples are for a rule that asks.
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
        let is_own = matches!(section.header, "[chat]" | "[workers]");
        assert_eq!(
            (both == Config::default(), ignored.len()),
            (is_own, usize::from(is_own)),
            "{}",
            section.header
        );
    }
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
