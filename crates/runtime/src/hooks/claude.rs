//! Claude Code's names of tools and arguments, for hooks that were written for it.

use std::path::Path;

use kit::Origin;
use serde_json::{Map, Value, json};

/// A tool's names: haft's, Claude Code's, and those of the arguments that differ.
struct Pair {
    ours: &'static str,
    theirs: &'static str,
    arguments: &'static [(&'static str, &'static str)],
}

const PAIRS: &[Pair] = &[
    Pair { ours: "shell", theirs: "Bash", arguments: &[] },
    Pair { ours: "read", theirs: "Read", arguments: &[("path", "file_path")] },
    Pair { ours: "write", theirs: "Write", arguments: &[("path", "file_path")] },
    Pair {
        ours: "edit",
        theirs: "Edit",
        arguments: &[
            ("path", "file_path"),
            ("old", "old_string"),
            ("new", "new_string"),
            ("all", "replace_all"),
        ],
    },
    Pair { ours: "notebook_edit", theirs: "NotebookEdit", arguments: &[("path", "notebook_path")] },
    Pair { ours: "grep", theirs: "Grep", arguments: &[] },
    Pair { ours: "glob", theirs: "Glob", arguments: &[] },
    Pair { ours: "web_fetch", theirs: "WebFetch", arguments: &[] },
    Pair { ours: "web_search", theirs: "WebSearch", arguments: &[] },
    Pair { ours: "subagent", theirs: "Task", arguments: &[("task", "prompt")] },
    Pair { ours: "todo", theirs: "TodoWrite", arguments: &[] },
];

/// The arguments whose values are paths: Claude Code's are absolute.
const PATHS: [&str; 2] = ["file_path", "notebook_path"];

/// The names of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) ours: String,
    pub(crate) theirs: String,
}

impl Names {
    pub(crate) fn of(tool: &str, origin: Option<&Origin>) -> Self {
        let theirs = match (pair(tool), origin) {
            (_, Some(Origin::Server(_))) => format!("mcp__{tool}"),
            (Some(pair), Some(Origin::Program)) => pair.theirs.to_owned(),
            _ => tool.to_owned(),
        };
        Self { ours: tool.to_owned(), theirs }
    }

    pub(crate) fn both(&self) -> [&str; 2] {
        [&self.ours, &self.theirs]
    }

    fn pair(&self) -> Option<&'static Pair> {
        pair(&self.ours).filter(|it| it.theirs == self.theirs)
    }
}

fn pair(tool: &str) -> Option<&'static Pair> {
    PAIRS.iter().find(|it| it.ours == tool)
}

/// Returns a call's arguments by Claude Code's names.
pub(crate) fn arguments_of(names: &Names, arguments: &Value, workspace: &Path) -> Value {
    let (Some(pair), Value::Object(fields)) = (names.pair(), arguments) else { return arguments.clone() };
    let renamed = fields.iter().map(|(name, value)| {
        let theirs = pair.arguments.iter().find(|it| it.0 == name).map_or(name.as_str(), |it| it.1);
        let value = match value {
            Value::String(path) if PATHS.contains(&theirs) => json!(workspace.join(path)),
            value => value.clone(),
        };
        (theirs.to_owned(), value)
    });
    Value::Object(renamed.collect::<Map<_, _>>())
}

/// Returns arguments that a hook gave by Claude Code's names, by haft's names.
pub(crate) fn restored(names: &Names, arguments: Value) -> Value {
    let Some(pair) = names.pair() else { return arguments };
    let Value::Object(fields) = arguments else { return arguments };
    let renamed = fields.into_iter().map(|(name, value)| {
        let ours = pair.arguments.iter().find(|it| it.1 == name).map_or(name.as_str(), |it| it.0);
        (ours.to_owned(), value)
    });
    Value::Object(renamed.collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_have_claude_codes_names_and_get_haft_s_back() {
        let names = Names::of("edit", Some(&Origin::Program));
        assert_eq!(names.both(), ["edit", "Edit"]);
        let ours = json!({"path": "a.rs", "old": "x", "new": "y", "anchor": "3:ab"});
        let theirs = arguments_of(&names, &ours, Path::new("/w"));
        assert_eq!(
            theirs,
            json!({"file_path": "/w/a.rs", "old_string": "x", "new_string": "y", "anchor": "3:ab"})
        );
        assert_eq!(
            restored(&names, theirs),
            json!({"path": "/w/a.rs", "old": "x", "new": "y", "anchor": "3:ab"})
        );
    }

    #[test]
    fn tool_files_keep_their_names_and_servers_get_a_prefix() {
        let file = Origin::File("/t/edit.py".into());
        assert_eq!(Names::of("edit", Some(&file)).theirs, "edit");
        let server = Origin::Server("files".to_owned());
        assert_eq!(Names::of("files__read", Some(&server)).theirs, "mcp__files__read");
        assert_eq!(Names::of("weather", None).theirs, "weather");
    }
}
