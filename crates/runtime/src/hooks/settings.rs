//! Hooks in Claude Code's settings.json: each event has matchers, each matcher has hooks.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Found, Hook};
use crate::config::{HookEvent, HookSection, OnFailure};

/// The hooks of a settings file, and the reasons why others don't run.
#[derive(Debug, Default)]
pub struct InSettings {
    /// The hooks.
    pub hooks: Vec<Hook>,
    /// One line for each that does not run.
    pub aside: Vec<String>,
    /// One line for each event that haft does not have.
    pub unknown: Vec<String>,
}

#[derive(Deserialize)]
struct Settings {
    #[serde(default)]
    hooks: Map<String, Value>,
    #[serde(default, rename = "disableAllHooks")]
    disabled: bool,
}

#[derive(Deserialize)]
struct Group {
    #[serde(default)]
    matcher: Option<String>,
    #[serde(default)]
    hooks: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    r#type: String,
    #[serde(default)]
    command: Option<String>,
    #[serde(default)]
    timeout: Option<f64>,
    #[serde(default)]
    r#if: Option<String>,
    #[serde(default)]
    r#async: bool,
    #[serde(default)]
    args: Option<Value>,
}

/// Reads the hooks in the text of a settings file. `write` says whether they may change the workspace.
pub fn in_settings(text: &str, found: Found<'_>, write: bool) -> InSettings {
    let mut all = InSettings::default();
    let settings: Settings = match serde_json::from_str(text) {
        Ok(settings) => settings,
        Err(error) => {
            all.aside.push(format!("the hooks in {} can't be read: {error}", found.file));
            return all;
        }
    };
    if settings.disabled {
        return all;
    }
    for (name, groups) in settings.hooks {
        let Some(event) = HookEvent::parse(&name).filter(|it| it.claude_name() == name) else {
            all.unknown.push(format!("{}: haft has no event `{name}`, so its hooks don't run", found.file));
            continue;
        };
        match serde_json::from_value::<Vec<Group>>(groups) {
            Ok(groups) => {
                for group in groups {
                    for entry in group.hooks {
                        match hook(event, group.matcher.clone(), entry, found, write) {
                            Ok(hook) => all.hooks.push(hook),
                            Err(why) => {
                                all.aside
                                    .push(format!("{}: a hook of {name} does not run: {why}", found.file));
                            }
                        }
                    }
                }
            }
            Err(error) => {
                all.aside.push(format!("{}: the hooks of {name} can't be read: {error}", found.file));
            }
        }
    }
    all
}

fn hook(
    event: HookEvent,
    matcher: Option<String>,
    entry: Entry,
    found: Found<'_>,
    write: bool,
) -> Result<Hook, String> {
    if entry.r#type != "command" {
        return Err(format!("haft runs hooks of the type `command`, not `{}`", entry.r#type));
    }
    if entry.r#if.is_some() || entry.args.is_some() {
        return Err("haft does not know `if` and `args`; write the condition into the command".to_owned());
    }
    if entry.r#async {
        return Err("haft does not run hooks with `async`".to_owned());
    }
    let section = HookSection {
        event,
        r#match: matcher,
        command: Some(entry.command.ok_or("it has no command")?),
        tool: None,
        seconds: entry.timeout.map(|it| (it.ceil() as u64).clamp(1, 3600)),
        write,
        on_failure: OnFailure::Continue,
    };
    Hook::new(section, found).map_err(|fault| fault.what)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::hooks::{Does, Whose};

    #[test]
    fn settings_give_hooks_and_name_what_does_not_run() {
        let text = r#"{"permissions": {}, "hooks": {
            "PreToolUse": [{"matcher": "Edit|Write", "hooks": [
                {"type": "command", "command": "check.sh", "timeout": 5},
                {"type": "prompt", "prompt": "is it good?"}]}],
            "Stop": [{"hooks": [{"type": "command", "command": "done.sh"}]}],
            "PreCompact": [{"matcher": "auto", "hooks": [{"type": "command", "command": "keep.sh"}]}],
            "WorktreeCreate": [{"hooks": []}]}}"#;
        let (workspace, home) = (Path::new("/nowhere/w"), Path::new("/nowhere/h"));
        let found =
            Found { whose: Whose::Workspace, file: "settings.json", workspace, home, claude_names: true };
        let it = in_settings(text, found, false);
        let names: Vec<_> = it.hooks.iter().map(|it| (it.event, it.name(), it.within.as_secs())).collect();
        assert!(names.contains(&(HookEvent::BeforeTool, "check.sh".to_owned(), 5)), "{names:?}");
        assert!(names.contains(&(HookEvent::Stop, "done.sh".to_owned(), 60)), "{names:?}");
        assert!(names.contains(&(HookEvent::PreCompact, "keep.sh".to_owned(), 60)), "{names:?}");
        assert_eq!((it.aside.len(), it.unknown.len()), (1, 1), "{:?}", it.aside);
        assert!(it.aside.iter().all(|it| it.contains("not `prompt`")), "{:?}", it.aside);
        let hooks = crate::hooks::Hooks::new(it.hooks);
        assert_eq!(hooks.of(HookEvent::BeforeTool, &["write", "Write"]).len(), 1);
        assert!(hooks.of(HookEvent::BeforeTool, &["WriteAll"]).is_empty(), "the whole name has to match");
        assert!(hooks.list().iter().all(|it| matches!(&it.does, Does::Command(_))));
    }

    #[test]
    fn disabled_hooks_don_t_run() {
        let text = r#"{"disableAllHooks": true, "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "x"}]}]}}"#;
        let (workspace, home) = (Path::new("/nowhere/w"), Path::new("/nowhere/h"));
        let found = Found { whose: Whose::Person, file: "x", workspace, home, claude_names: true };
        assert!(in_settings(text, found, false).hooks.is_empty());
    }
}
