//! Configuration as text for a person: a line for each value, with its source, in groups by section.

use std::path::Path;

use runtime::config::{Source, Why};
use serde_json::Value;

use super::super::hooks::listed;
use super::{
    reference::Entry,
    values::{File, From, Setting},
};
use crate::options::HooksFound;

/// Returns the files that haft reads, one line each.
pub(super) fn files(files: &[File]) -> String {
    let line = |it: &File| {
        let (name, state) = match (it.source, it.exists, it.trusted) {
            (Source::User, true, _) => ("yours", ""),
            (Source::User, false, _) => ("yours", "  (does not exist)"),
            (Source::Workspace, false, _) => ("workspace", "  (does not exist)"),
            (Source::Workspace, true, true) => ("workspace", "  (trusted)"),
            (Source::Workspace, true, false) => ("workspace", "  (not trusted)"),
        };
        format!("{name:<9}  {}{state}\n", it.path.display())
    };
    files.iter().map(line).collect()
}

/// Returns the whole configuration: its files and its settings.
pub(super) fn all(workspace: &Path, read: &[File], settings: &[Setting], hooks: &HooksFound) -> String {
    let mut text = format!("Configuration in effect in {}\n\nFiles\n", workspace.display());
    files(read).lines().for_each(|line| text.push_str(&format!("  {line}\n")));
    text.push_str(&groups(settings));
    if !hooks.hooks.is_empty() {
        text.push_str("\nHooks\n");
        listed(hooks.hooks.list()).lines().for_each(|line| text.push_str(&format!("  {line}\n")));
    }
    hooks.aside.iter().for_each(|line| text.push_str(&format!("\n{line}\n")));
    if settings.iter().flat_map(|it| &it.unused).any(|it| it.why == Why::NeedsTrust) {
        text.push_str("\nRead the workspace's haft.toml, then run `haft trust` to use all of it.\n");
    }
    text.push_str("\n`haft config KEY` explains a key; `haft config --example` lists every key.\n");
    text
}

/// Returns the values of a key or a section, and its explanation.
pub(super) fn some(settings: &[Setting], explained: Option<&Entry>) -> String {
    let mut text = groups(settings).trim_start().to_owned();
    if let Some(it) = explained {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&it.about);
        text.push('\n');
        if let Some(kind) = &it.kind {
            text.push_str(&format!("Type: {kind}\n"));
        }
        if let Some(default) = &it.default {
            text.push_str(&format!("Default: {default}\n"));
        }
        if let Some(example) = &it.example {
            text.push_str(&format!("Example: {example}\n"));
        }
    }
    text
}

/// Returns a key as a configuration file writes it.
pub(super) fn key(parts: &[String]) -> String {
    parts.iter().map(|it| name(it)).collect::<Vec<_>>().join(".")
}

fn name(part: &str) -> String {
    let is_bare =
        !part.is_empty() && part.bytes().all(|it| it.is_ascii_alphanumeric() || b"_-".contains(&it));
    if is_bare { part.to_owned() } else { format!("{part:?}") }
}

fn groups(settings: &[Setting]) -> String {
    let of = |it: &Setting| it.key.last().map_or(0, |it| name(it).len());
    let width = settings.iter().map(of).max().unwrap_or(0);
    let sources = settings.iter().flat_map(lines).map(|(from, _)| from.len()).max().unwrap_or(0);
    let (mut text, mut section) = (String::new(), None);
    for setting in settings {
        let Some((last, tables)) = setting.key.split_last() else { continue };
        let group = (tables, setting.of_workspace);
        if section != Some(group) {
            section = Some(group);
            let of_workspace = if setting.of_workspace { "  (of this workspace)" } else { "" };
            let head = if tables.is_empty() { "General".to_owned() } else { format!("[{}]", key(tables)) };
            // A single setting needs no heading.
            if !tables.is_empty() || settings.len() > 1 {
                text.push_str(&format!("\n{head}{of_workspace}\n"));
            }
        }
        let mut name = name(last);
        for (from, value) in lines(setting) {
            text.push_str(&format!("  {name:width$}  {from:sources$}  {value}\n"));
            name.clear();
        }
    }
    text
}

/// Returns the value in effect, then the unused values, each with its source.
fn lines(setting: &Setting) -> Vec<(String, String)> {
    let from = |it: &From| match it {
        From::Default => "default",
        From::File(Source::User) => "yours",
        From::File(Source::Workspace) => "workspace",
        From::Variable(name) | From::Option(name) => name,
    };
    let mut lines = Vec::new();
    if setting.value.is_some() || setting.words.is_some() {
        let value = setting.value.as_ref().map(value);
        let shown = value.unwrap_or_else(|| setting.words.unwrap_or_default().to_owned());
        lines.push((setting.from.iter().map(from).collect::<Vec<_>>().join(" + "), shown));
    }
    lines.extend(setting.unused.iter().map(|it| {
        let why = match it.why {
            Why::NeedsTrust => "ignored until you run `haft trust`",
            Why::Overridden => "overridden",
            Why::Limited if it.from == From::File(Source::Workspace) => "a workspace can only lower it",
            Why::Limited => "beyond the maximum",
            Why::UserOnly => "counts only in your own file",
        };
        (from(&it.from).to_owned(), format!("{}  ({why})", value(&it.value)))
    }));
    lines
}

/// Returns a value as a configuration file writes it.
fn value(value: &Value) -> String {
    toml::Value::try_from(value).map_or_else(|_| value.to_string(), |it| it.to_string())
}
