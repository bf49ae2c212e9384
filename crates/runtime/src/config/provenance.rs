//! Provenance of the configuration: the file that set each value in effect, and the written values that don't
//! count.
//!
//! It does not repeat the rules of the merge. A file is a source of a value if the value changes when its key
//! is removed from that file; a workspace's key needs trust if trusting the workspace changes the value.

use std::path::{Path, PathBuf};

use kit::Fault;
use rustix::fs::OFlags;
use serde_json::Value;
use toml::Table;

use super::{
    Config, FILE,
    files::{bounded, text, wrong},
    tool_list::ALL,
};

/// A configuration file: its keys as written, and the parsed configuration.
#[derive(Debug, Clone)]
pub struct Layer {
    path: PathBuf,
    table: Table,
    config: Config,
}

/// A file that sets a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The user's own file.
    User,
    /// The workspace's file.
    Workspace,
}

/// A written value that has no effect, or not all of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Unused {
    /// The file that has it.
    pub source: Source,
    /// The value as it is written there.
    pub value: Value,
    /// The reason why it doesn't count.
    pub why: Why,
}

/// The reason why a written value has no effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The workspace is not trusted.
    NeedsTrust,
    /// The other file decides.
    Overridden,
    /// The number is out of range, so another one is in effect.
    Limited,
    /// The key counts only in the user's own file.
    UserOnly,
}

/// A key that at least one of the files sets.
#[derive(Debug, Clone, PartialEq)]
pub struct Origin {
    /// The names of its tables, then its own: `["models", "local", "url"]`.
    pub key: Vec<String>,
    /// Whether the key is about the workspace's own tools and servers, which have sections beside the user's.
    pub of_workspace: bool,
    /// The value in effect; none if no written value counts.
    pub value: Option<Value>,
    /// The files that the value comes from; both, if their lists are joined.
    pub sources: Vec<Source>,
    /// The written values that don't count.
    pub unused: Vec<Unused>,
}

/// The configuration in effect, with the origin of each key that is written in a file.
#[derive(Debug, Clone)]
pub struct Origins {
    /// The configuration in effect.
    pub config: Config,
    /// The written keys, those of the user's file first.
    pub keys: Vec<Origin>,
}

impl Layer {
    /// Reads the user's own file; returns an empty layer, if there is none.
    ///
    /// # Errors
    /// Those of [`Config::read`].
    pub fn user(path: &Path) -> Result<Self, Fault> {
        Self::read(path, OFlags::empty())
    }

    /// Reads the workspace's file; returns an empty layer, if there is none.
    ///
    /// # Errors
    /// Those of [`Config::read_workspace`].
    pub fn workspace(workspace: &Path) -> Result<Self, Fault> {
        Self::read(&workspace.join(FILE), OFlags::NOFOLLOW)
    }

    fn read(path: &Path, how: OFlags) -> Result<Self, Fault> {
        let bytes = text(path, bounded(path, how))?.unwrap_or_default();
        let config = Config::of_bytes(path, &bytes)?;
        let table = toml::from_slice(&bytes).map_err(|error| wrong(path, error))?;
        Ok(Self { path: path.to_owned(), table, config })
    }

    /// Returns the value of a key as it is written.
    fn written(&self, key: &[String]) -> Option<Value> {
        let (first, rest) = key.split_first()?;
        let value = rest.iter().try_fold(self.table.get(first)?, |value, name| value.get(name.as_str()))?;
        serde_json::to_value(value).ok()
    }

    /// Returns the configuration of this file without one key; without the whole table, if the rest of it is
    /// invalid.
    fn without(&self, key: &[String]) -> Config {
        let shorter = |end| {
            let mut table = self.table.clone();
            remove(&mut table, key.get(..end)?);
            table.try_into::<Config>().ok()?.settled(&self.path).ok()
        };
        (1..=key.len()).rev().find_map(shorter).unwrap_or_default()
    }
}

/// Merges the two files as haft does, and finds the origin of each written key.
///
/// `trusted` says whether the person trusts the workspace's file.
pub fn origins(user: &Layer, workspace: &Layer, trusted: bool) -> Origins {
    let config = merged(&user.config, &workspace.config, trusted);
    let files = Files { user, workspace, trusted, now: values(&config) };
    let mut keys: Vec<(Vec<String>, bool)> = Vec::new();
    for (table, of_workspace) in [(&user.table, false), (&workspace.table, true)] {
        for key in leaves(table) {
            let found = (key.clone(), of_workspace && stands_apart(&key));
            if !keys.contains(&found) {
                keys.push(found);
            }
        }
    }
    Origins { keys: keys.into_iter().map(|(key, apart)| files.origin(key, apart)).collect(), config }
}

/// The two files, and the values in effect.
struct Files<'a> {
    user: &'a Layer,
    workspace: &'a Layer,
    trusted: bool,
    now: Value,
}

impl Files<'_> {
    fn origin(&self, key: Vec<String>, apart: bool) -> Origin {
        let now = at(&self.now, &key, apart);
        let is_about = |source: Source| !stands_apart(&key) || apart == (source == Source::Workspace);
        let written: Vec<(Source, &Layer, Value)> =
            [(Source::User, self.user), (Source::Workspace, self.workspace)]
                .into_iter()
                .filter(|(source, _)| is_about(*source))
                .filter_map(|(source, layer)| Some((source, layer, layer.written(&key)?)))
                .collect();
        let matters = |source: Source| at(&self.without(source, &key), &key, apart) != now;
        let mut sources: Vec<Source> =
            written.iter().map(|(source, ..)| *source).filter(|source| matters(*source)).collect();
        if sources.is_empty() {
            // A value that is the default anyway, or the same in both files.
            let same = |layer: &Layer| now.is_some() && at(&values(&layer.config), &key, false) == now;
            sources.extend(written.iter().find(|(_, layer, _)| same(layer)).map(|(source, ..)| *source));
        }
        // The word for all tools means the same as no list.
        let is_all = |value: &Value| key.last().is_some_and(|it| it == "tools") && value == ALL;
        let all = written.iter().find(|(_, _, value)| now.is_none() && is_all(value));
        if let (Some((source, _, value)), true) = (all, sources.is_empty()) {
            return Origin {
                value: Some(value.clone()),
                sources: vec![*source],
                unused: Vec::new(),
                key: key.clone(),
                of_workspace: apart,
            };
        }
        let waits = !self.trusted && {
            let trusted = merged(&self.user.config, &self.workspace.config, true);
            at(&values(&trusted), &key, apart) != now
        };
        let number = now.as_ref().and_then(Value::as_f64);
        // `3` is the same price as `3.0`.
        let is_other_number = |value: &Value| value.is_number() && value.as_f64() != number;
        let unused = written.iter().filter_map(|(source, _, value)| {
            let why = match source {
                Source::Workspace if waits => Why::NeedsTrust,
                Source::Workspace if !self.counts_in_a_workspace(&key, apart) => Why::UserOnly,
                _ if !sources.contains(source) => Why::Overridden,
                _ if is_other_number(value) => Why::Limited,
                _ => return None,
            };
            Some(Unused { source: *source, value: value.clone(), why })
        });
        let unused = unused.collect();
        let value = now.filter(|_| !sources.is_empty());
        Origin { key, of_workspace: apart, value, sources, unused }
    }

    /// Returns whether the workspace's value would have an effect if it was trusted and the user's file did
    /// not have the key.
    fn counts_in_a_workspace(&self, key: &[String], apart: bool) -> bool {
        let user = self.user.without(key);
        let with = values(&merged(&user, &self.workspace.config, true));
        let without = values(&merged(&user, &self.workspace.without(key), true));
        at(&with, key, apart) != at(&without, key, apart)
    }

    /// Returns the values in effect if one of the files did not have this key.
    fn without(&self, source: Source, key: &[String]) -> Value {
        let (user, workspace) = (&self.user.config, &self.workspace.config);
        values(&match source {
            Source::User => merged(&self.user.without(key), workspace, self.trusted),
            Source::Workspace => merged(user, &self.workspace.without(key), self.trusted),
        })
    }
}

fn merged(user: &Config, workspace: &Config, trusted: bool) -> Config {
    user.clone().with_workspace(workspace.clone(), trusted).0
}

/// Returns a configuration as values, under the keys of a file.
fn values(config: &Config) -> Value {
    serde_json::to_value(config).unwrap_or_default()
}

/// Returns the value of a key, if it has one.
fn at(values: &Value, key: &[String], apart: bool) -> Option<Value> {
    let (first, rest) = key.split_first()?;
    let mut first = values.get(first)?;
    if stands_apart(key) {
        first = first.get(if apart { "workspace" } else { "user" })?;
    }
    let found = rest.iter().try_fold(first, |value, name| value.get(name.as_str()))?;
    Some(found.clone()).filter(|it| !it.is_null())
}

/// Returns whether a workspace's section of this name exists beside the user's, without replacing it.
fn stands_apart(key: &[String]) -> bool {
    key.first().is_some_and(|it| it == "tool" || it == "mcp")
}

/// Returns the keys in a file, each with the names of its tables.
fn leaves(table: &Table) -> Vec<Vec<String>> {
    let mut keys = Vec::new();
    for (name, value) in table {
        match value {
            toml::Value::Table(below) => keys.extend(leaves(below).into_iter().map(|mut key| {
                key.insert(0, name.clone());
                key
            })),
            _ => keys.push(vec![name.clone()]),
        }
    }
    keys
}

/// Removes a key or a table.
fn remove(table: &mut Table, key: &[String]) {
    match key {
        [] => {}
        [name] => drop(table.remove(name)),
        [name, rest @ ..] => {
            if let Some(toml::Value::Table(below)) = table.get_mut(name) {
                remove(below, rest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use super::*;

    fn layers(mine: &str, workspace: &str) -> (tempfile::TempDir, Layer, Layer) {
        let dir = tempfile::tempdir().unwrap();
        let ws = dir.path().join("ws");
        std::fs::create_dir(&ws).unwrap();
        std::fs::write(dir.path().join(FILE), mine).unwrap();
        std::fs::write(ws.join(FILE), workspace).unwrap();
        let (user, workspace) = (Layer::user(&dir.path().join(FILE)), Layer::workspace(&ws));
        (dir, user.unwrap(), workspace.unwrap())
    }

    /// Renders one line per key: its value, its sources, and what doesn't count.
    fn told(mine: &str, workspace: &str, trusted: bool) -> Vec<String> {
        let (_dir, user, workspace) = layers(mine, workspace);
        let line = |it: Origin| {
            let unused: Vec<String> =
                it.unused.iter().map(|it| format!(" {:?}:{:?}:{}", it.source, it.why, it.value)).collect();
            let value = it.value.map_or("unset".to_owned(), |it| it.to_string());
            let beside = if it.of_workspace { "workspace:" } else { "" };
            format!("{beside}{} = {value} {:?}{}", it.key.join("."), it.sources, unused.concat())
        };
        origins(&user, &workspace, trusted).keys.into_iter().map(line).collect()
    }

    #[test]
    fn the_file_that_decides_is_the_source() {
        for (mine, theirs, trusted, expected) in [
            ("approve = \"never\"", "", false, vec!["approve = \"never\" [User]"]),
            ("", "sandbox = \"read-only\"", false, vec!["sandbox = \"read-only\" [Workspace]"]),
            ("tools = \"all\"", "", false, vec!["tools = \"all\" [User]"]),
            (
                "tools = \"all\"",
                "tools = [\"read\"]",
                false,
                vec!["tools = [\"read\"] [Workspace] User:Overridden:\"all\""],
            ),
            // The value is the default anyway.
            ("env = []", "", false, vec!["env = [] [User]"]),
            (
                "approve = \"never\"",
                "approve = \"never\"",
                false,
                vec!["approve = \"never\" [User] Workspace:Overridden:\"never\""],
            ),
            (
                "sandbox = \"read-only\"",
                "sandbox = \"full\"",
                true,
                vec!["sandbox = \"full\" [Workspace] User:Overridden:\"read-only\""],
            ),
            (
                "[agent]\nprofile = \"a\"",
                "[agent]\nprofile = \"b\"",
                false,
                vec!["agent.profile = \"b\" [Workspace] User:Overridden:\"a\""],
            ),
        ] {
            assert_eq!(told(mine, theirs, trusted), expected);
        }
    }

    #[test]
    fn a_workspace_value_that_needs_trust_is_named_and_not_in_effect() {
        assert_eq!(
            told("", "approve = \"auto\"\nenv = [\"A\"]", false),
            [
                "approve = unset [] Workspace:NeedsTrust:\"auto\"",
                "env = unset [] Workspace:NeedsTrust:[\"A\"]",
            ]
        );
        assert_eq!(told("", "approve = \"auto\"", true), ["approve = \"auto\" [Workspace]"]);
        // Rules that narrow count at once.
        let rules =
            "[[command]]\nprefix = [\"a\"]\nthen = \"deny\"\n[[command]]\nprefix = [\"b\"]\nthen = \"allow\"";
        let told = told("", rules, false).concat();
        assert!(told.contains("[Workspace] Workspace:NeedsTrust:") && told.contains("\"deny\""), "{told}");
    }

    #[test]
    fn key_for_the_users_own_file_is_reported_in_a_workspaces_file() {
        for trusted in [false, true] {
            assert_eq!(
                told("", "[chat]\nnotify = \"none\"", trusted),
                ["chat.notify = unset [] Workspace:UserOnly:\"none\""]
            );
        }
        assert_eq!(told("[chat]\nnotify = \"none\"", "", false), ["chat.notify = \"none\" [User]"]);
    }

    #[test]
    fn joined_lists_have_both_files_as_their_source() {
        assert_eq!(
            told("roots = [\"a\"]", "roots = [\"b\"]", true),
            ["roots = [\"a\",\"b\"] [User, Workspace]"]
        );
        assert_eq!(
            told("tools = [\"read\", \"grep\"]", "tools = [\"read\", \"edit\"]", false),
            ["tools = [\"read\"] [User, Workspace]"]
        );
    }

    #[test]
    fn a_number_beyond_its_limit_is_named() {
        assert_eq!(
            told("deadline_seconds = 60", "deadline_seconds = 300", false),
            ["deadline_seconds = 60 [User] Workspace:Overridden:300"]
        );
        assert_eq!(
            told("deadline_seconds = 99999", "", false),
            ["deadline_seconds = 3600 [User] User:Limited:99999"]
        );
        assert_eq!(
            told("", "[agent]\nmax_steps = 1000", false),
            ["agent.max_steps = 50 [Workspace] Workspace:Limited:1000"]
        );
    }

    #[test]
    fn a_number_that_counts_as_it_is_written_is_not_limited() {
        assert_eq!(
            told("[models.m.price]\ninput = 3\noutput = 15.5", "", false),
            ["models.m.price.input = 3.0 [User]", "models.m.price.output = 15.5 [User]"]
        );
        assert_eq!(told("[agent]\nmax_calls = 0", "", false), ["agent.max_calls = 0 [User]"]);
    }

    #[test]
    fn keys_of_a_dialect_are_those_of_the_file_that_has_the_table() {
        let mine = "[models.c]\nmodel = \"a\"\ndialect = { start_char = \"{\", slash_means_open = false }";
        let own = [
            "models.c.dialect.slash_means_open = false [User]",
            "models.c.dialect.start_char = \"{\" [User]",
            "models.c.model = \"a\" [User]",
        ];
        assert_eq!(told(mine, "", false), own);
        assert_eq!(
            told(mine, "[models.c.dialect]\nstart_char = \"<\"", false)[1],
            "models.c.dialect.start_char = \"{\" [User] Workspace:NeedsTrust:\"<\""
        );
        assert_eq!(
            told("", "[models.c]\nmodel = \"a\"\n[models.c.dialect]\narg_style = \"inline\"", true),
            ["models.c.dialect.arg_style = \"inline\" [Workspace]", "models.c.model = \"a\" [Workspace]",]
        );
    }

    #[test]
    fn sections_of_tools_and_servers_stand_beside_each_other() {
        let section = |host: &str| format!("[tool.x]\nnet = [\"{host}\"]");
        assert_eq!(
            told(&section("a.org"), &section("b.org"), true),
            ["tool.x.net = [\"a.org\"] [User]", "workspace:tool.x.net = [\"b.org\"] [Workspace]",]
        );
        assert_eq!(
            told("", &section("b.org"), false),
            ["workspace:tool.x.net = unset [] Workspace:NeedsTrust:[\"b.org\"]"]
        );
    }

    #[test]
    fn a_section_that_takes_the_place_of_another_hides_its_keys() {
        let mine = "[models.m]\nmodel = \"a\"\nurl = \"http://127.0.0.1/v1\"";
        assert_eq!(
            told(mine, "[models.m]\nmodel = \"b\"", true),
            [
                "models.m.model = \"b\" [Workspace] User:Overridden:\"a\"",
                "models.m.url = unset [] User:Overridden:\"http://127.0.0.1/v1\"",
            ]
        );
    }

    #[test]
    fn a_key_that_its_section_needs_has_an_origin_too() {
        let secret = "[secret.x]\nenv = \"X\"\nhosts = [\"a.org\"]";
        assert_eq!(
            told(secret, "", false),
            ["secret.x.env = \"X\" [User]", "secret.x.hosts = [\"a.org\"] [User]",]
        );
    }
}
