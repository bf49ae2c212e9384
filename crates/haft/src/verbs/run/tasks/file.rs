//! The file of `haft run --tasks`: one task per line.

use std::{collections::BTreeSet, fs, path::Path};

use kit::{Fault, Kind};
use serde::Deserialize;

use crate::remote::labels;

/// Maximum number of tasks in one file.
const TASKS: usize = 100_000;

/// One line of the file: a task, with options of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::verbs::run) struct Line {
    /// The words of the task.
    pub(in crate::verbs::run) task: String,
    /// Its name in the table; its number, where it has none.
    #[serde(default)]
    pub(in crate::verbs::run) id: Option<String>,
    #[serde(default)]
    pub(in crate::verbs::run) model: Option<String>,
    #[serde(default)]
    pub(in crate::verbs::run) profile: Option<String>,
    #[serde(default)]
    pub(in crate::verbs::run) max_steps: Option<usize>,
    /// More labels that its worker must have.
    #[serde(default)]
    pub(in crate::verbs::run) labels: BTreeSet<String>,
    /// Whether it may run again by itself after its worker was lost.
    #[serde(default)]
    pub(in crate::verbs::run) idempotent: bool,
}

/// Reads the tasks of a file; `-` is standard input.
///
/// # Errors
/// When it can't be read, a line is not a task, or two have one id.
pub(in crate::verbs::run) fn read(file: &Path) -> Result<Vec<Line>, Fault> {
    let unreadable = |error: std::io::Error| {
        Fault::new(Kind::NotFound, format!("the tasks `{}` can't be read: {error}", file.display()))
            .next("Name a file with lines of {\"task\": \"…\"}.")
    };
    let text = if file == Path::new("-") {
        std::io::read_to_string(std::io::stdin()).map_err(unreadable)?
    } else {
        fs::read_to_string(file).map_err(unreadable)?
    };
    parse(&text)
}

fn parse(text: &str) -> Result<Vec<Line>, Fault> {
    let (mut lines, mut ids) = (Vec::new(), BTreeSet::new());
    for (at, text) in text.lines().enumerate().filter(|(_, it)| !it.trim().is_empty()) {
        let wrong = |why: String| {
            Fault::bad_args(format!("line {} is not a task: {why}; nothing was sent", at + 1)).next(
                "A line is {\"task\": \"…\"}; `id`, `model`, `profile`, `max_steps`, `labels` and `idempotent` may be given.",
            )
        };
        let line: Line = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        if line.task.trim().is_empty() {
            return Err(wrong("the task is empty".to_owned()));
        }
        for label in &line.labels {
            labels(label).map_err(wrong)?;
        }
        if let Some(id) = &line.id
            && !ids.insert(id.clone())
        {
            return Err(wrong(format!("the id `{id}` is that of an earlier line")));
        }
        lines.push(line);
        if lines.len() > TASKS {
            return Err(wrong(format!("more than {TASKS} tasks")));
        }
    }
    if lines.is_empty() {
        return Err(Fault::bad_args("the file has no tasks").next("Write one per line: {\"task\": \"…\"}."));
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use super::*;

    #[test]
    fn a_line_is_a_task_with_options_of_its_own() {
        let lines =
            parse("{\"task\": \"a\"}\n\n{\"task\": \"b\", \"id\": \"x\", \"labels\": [\"gpu\"]}\n").unwrap();
        assert_eq!(lines.len(), 2);
        assert_eq!((lines[1].id.as_deref(), lines[1].labels.len()), (Some("x"), 1));
    }

    #[test]
    fn a_wrong_line_is_named_and_nothing_is_sent() {
        for (text, says) in [
            ("{\"task\": \"a\"}\nx\n", "line 2"),
            ("{\"task\": \" \"}", "is empty"),
            ("{\"task\": \"a\", \"modle\": \"x\"}", "modle"),
            ("{\"task\": \"a\", \"id\": \"x\"}\n{\"task\": \"b\", \"id\": \"x\"}", "earlier line"),
            ("{\"task\": \"a\", \"labels\": [\"a b\"]}", "not a label"),
            ("\n", "has no tasks"),
        ] {
            let fault = parse(text).unwrap_err();
            assert!(fault.what.contains(says), "{}", fault.what);
        }
    }
}
