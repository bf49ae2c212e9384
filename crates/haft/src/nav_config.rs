//! `.nav/nav.config.json`: applies the settings of nav's configuration that narrow what tools may do.
//!
//! These are the list of tools, that of subagents, and that subagents start no others; so the file needs no trust. haft
//! names all other keys as not read, such as a model, an address, a key and hooks.

use std::{fmt::Write as _, path::Path};

use kit::{Fault, escape::visible};
use runtime::config::{Config, text_of_another};
use serde_json::{Map, Value};

use crate::Place;

/// The folder in a workspace.
const FOLDER: &str = ".nav";
const FILE: &str = "nav.config.json";

/// The path in a home folder.
const OWN: &str = ".config/nav/nav.config.json";

/// The maximum number of keys and names that are shown, and of the characters of each.
const SHOWN: usize = 20;
const LONGEST: usize = 40;

/// The content of the file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct NavConfig {
    tools: Option<Vec<String>>,
    of_subagents: Option<Vec<String>>,
    /// Whether subagents start no others.
    flat: bool,
    /// The keys that apply.
    counts: Vec<String>,
    /// The keys that don't apply.
    unread: Vec<String>,
    /// Errors in the keys that should apply, one line each.
    wrong: Vec<String>,
}

/// Notes for the person about the file.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// Ignored keys, one line each.
    pub(crate) aside: Vec<String>,
    /// All notes, one line each; empty without such a file.
    pub(crate) all: Vec<String>,
}

/// Applies the file of this workspace to the configuration, if the toolset is nav's.
pub(crate) fn apply(config: &mut Config, workspace: &Path, toolset: &str, place: &Place) -> Notes {
    let mut notes = Notes::default();
    let shown = format!("{FOLDER}/{FILE}");
    let text = match text_of_another(workspace, FOLDER, FILE) {
        Ok(text) => text,
        Err(error) => {
            notes.aside.push(format!("{shown} can't be read: {error}"));
            None
        }
    };
    if toolset != tools::NAV {
        if text.is_some() {
            notes.aside.push(format!("{shown} is not read: it counts with `--toolset nav`"));
        }
    } else {
        match text.as_deref().map(NavConfig::parse) {
            None => {}
            Some(Err(fault)) => notes.aside.push(format!("{shown} is ignored: {}", fault.what)),
            Some(Ok(said)) => {
                if !said.counts.is_empty() {
                    notes.all.push(format!("{shown}: {} count", said.counts.join(", ")));
                }
                notes.aside.extend(said.lines(&shown));
                said.narrow(config);
            }
        }
        let own = place.home().join(OWN);
        if own.is_file() {
            let file = visible(&own.display().to_string()).0.into_owned();
            notes.aside.push(format!("{file} is not read; haft's own settings are in haft.toml"));
        }
    }
    notes.all.extend(notes.aside.iter().cloned());
    notes
}

impl NavConfig {
    fn parse(text: &str) -> Result<Self, Fault> {
        let json: Value = serde_json::from_str(text.strip_prefix('\u{feff}').unwrap_or(text))
            .map_err(|error| Fault::bad_args(format!("it is not JSON: {error}")))?;
        let Value::Object(object) = json else { return Err(Fault::bad_args("it is not a JSON object")) };
        let mut said = Self::default();
        said.tools = said.names(&object, "tools", "tools");
        for key in object.keys().filter(|it| *it != "tools" && *it != "subagent" && is_setting(it)) {
            said.unread.push(named(key));
        }
        match object.get("subagent") {
            None | Some(Value::Null) => {}
            Some(Value::Object(inner)) => {
                said.of_subagents = said.names(inner, "tools", "subagent.tools");
                for key in inner.keys().filter(|it| *it != "tools" && is_setting(it)) {
                    // A list of tools for subagents narrows; permission to nest subagents needs the person.
                    if key == "allowNestedSubagents" && inner.get(key) == Some(&Value::Bool(false)) {
                        said.flat = true;
                        said.counts.push("`subagent.allowNestedSubagents`".to_owned());
                    } else {
                        said.unread.push(named(&format!("subagent.{key}")));
                    }
                }
            }
            Some(_) => said.wrong.push("`subagent` is not an object, so it is ignored".to_owned()),
        }
        Ok(said)
    }

    /// Reads a list of tools: those that nav has.
    fn names(&mut self, object: &Map<String, Value>, key: &str, shown: &str) -> Option<Vec<String>> {
        let list = match object.get(key) {
            None | Some(Value::Null) => return None,
            Some(Value::Array(list)) => list,
            Some(_) => {
                self.wrong.push(format!("`{shown}` is not a list of names, so it is ignored"));
                return None;
            }
        };
        let known: Vec<String> = tools::toolset(tools::NAV)
            .into_iter()
            .flatten()
            .chain(tools::of_agents(tools::NAV))
            .map(|it| it.spec().name.clone())
            .collect();
        let names = list.iter().filter_map(Value::as_str).map(str::trim).filter(|it| !it.is_empty());
        let (names, unknown): (Vec<_>, Vec<_>) = names.partition(|it| known.iter().any(|own| own == it));
        if !unknown.is_empty() {
            let unknown: Vec<String> = unknown.into_iter().map(named).collect();
            self.wrong.push(format!("`{shown}` names tools that nav does not have: {}", listed(&unknown)));
        }
        self.counts.push(format!("`{shown}`"));
        Some(names.into_iter().map(str::to_owned).collect())
    }

    /// Returns notes on ignored keys, one line each.
    fn lines(&self, shown: &str) -> Vec<String> {
        let mut lines: Vec<String> = self.wrong.iter().map(|it| format!("{shown}: {it}")).collect();
        if !self.unread.is_empty() {
            lines.push(format!(
                "{shown}: {} not read; haft's own settings are in haft.toml (`haft config --example`)",
                if self.unread.len() == 1 {
                    format!("{} is", listed(&self.unread))
                } else {
                    format!("{} are", listed(&self.unread))
                }
            ));
        }
        lines
    }

    /// Narrows the configuration to the file's settings.
    fn narrow(self, config: &mut Config) {
        let narrowed = |mine: Option<Vec<String>>, theirs: Option<Vec<String>>| match (mine, theirs) {
            (Some(mine), Some(theirs)) => Some(theirs.into_iter().filter(|it| mine.contains(it)).collect()),
            (mine, theirs) => theirs.or(mine),
        };
        config.tools = narrowed(config.tools.take(), self.tools);
        config.subagent.tools = narrowed(config.subagent.tools.take(), self.of_subagents);
        if self.flat {
            config.subagent.nested = Some(false);
        }
    }
}

/// Returns whether a key is a setting: nav treats keys with a leading `_` as comments.
fn is_setting(key: &str) -> bool {
    !key.starts_with('_')
}

/// Escapes and truncates a word of the file for a person.
fn named(word: &str) -> String {
    let shown: String = visible(word).0.chars().take(LONGEST).collect();
    format!("`{shown}`")
}

fn listed(words: &[String]) -> String {
    let mut text = words.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    if words.len() > SHOWN {
        let _ = write!(text, " and {} more", words.len() - SHOWN);
    }
    text
}

#[cfg(test)]
mod tests {
    #![expect(clippy::panic, clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn narrowed(text: &str, mine: &[&str]) -> (Config, Vec<String>) {
        let mut config = Config::default();
        let mine: Vec<String> = mine.iter().map(|&it| it.to_owned()).collect();
        config.tools = (!mine.is_empty()).then_some(mine);
        config.subagent.nested = Some(true);
        let said = NavConfig::parse(text).unwrap();
        let lines = said.lines("file");
        said.narrow(&mut config);
        (config, lines)
    }

    #[test]
    fn lists_of_tools_narrow_and_nothing_else_counts() {
        let text = r#"{"tools": ["read", "shell", "nope", 1], "_note": "x", "model": "m", "baseUrl": "http://x", "apiKey": "k",
            "sandbox": false, "hooks": {"stop": ["rm"]},
            "subagent": {"tools": ["read"], "model": "m", "allowNestedSubagents": true}}"#;
        let (config, lines) = narrowed(text, &[]);
        assert_eq!(config.tools.unwrap(), ["read", "shell"]);
        assert_eq!(config.subagent.tools.unwrap(), ["read"]);
        assert_eq!((config.subagent.nested, config.agent.model, config.sandbox), (Some(true), None, None));
        let [unknown, unread] = lines.as_slice() else { panic!("{lines:?}") };
        assert_eq!(unknown, "file: `tools` names tools that nav does not have: `nope`");
        for key in ["`model`", "`baseUrl`", "`apiKey`", "`sandbox`", "`hooks`", "`subagent.model`"] {
            assert!(unread.contains(key), "{unread}");
        }
        assert!(!unread.contains("_note") && unread.contains("are not read"), "{unread}");
        let (config, _) = narrowed(text, &["read", "edit"]);
        assert_eq!(config.tools.unwrap(), ["read"], "what the person left out stays out");
    }

    #[test]
    fn an_empty_list_leaves_no_tools_and_a_wrong_one_is_reported() {
        assert_eq!(narrowed(r#"{"tools": []}"#, &[]).0.tools.unwrap(), Vec::<String>::new());
        let (config, lines) = narrowed(r#"{"tools": "read", "subagent": 1}"#, &["edit"]);
        assert_eq!(config.tools.unwrap(), ["edit"]);
        assert_eq!(lines.len(), 2, "{lines:?}");
        let (config, lines) = narrowed(r#"{"subagent": {"allowNestedSubagents": false}}"#, &[]);
        assert_eq!((config.subagent.nested, lines.len()), (Some(false), 0));
        assert!(NavConfig::parse("[]").is_err() && NavConfig::parse("{").is_err());
    }

    #[test]
    fn words_of_the_file_are_escaped_and_bounded_where_they_are_shown() {
        let keys: Vec<String> =
            (0..100).map(|at| format!("\"\\u001b[2J{at}{}\": 1", "x".repeat(999))).collect();
        let (_, lines) = narrowed(&format!("{{{}}}", keys.join(",")), &[]);
        let [line] = lines.as_slice() else { panic!("{lines:?}") };
        assert!(line.len() < 1_500 && line.contains(" and 80 more are not read"), "{line}");
        assert!(!line.contains('\u{1b}'), "{line}");
    }
}
